// The moduli of lesson 27, and weights that recover a whole number from its residues.
//
//   MODULUS[i]               pairwise coprime, at most 256, so that a residue fits in a byte
//   PRODUCT                  of all of them: more than 2^LOG_PRODUCT
//   WEIGHT[i]                leaves 1 by MODULUS[i] and 0 by all others
//   sum_residue(sum, m)      the residue of a sum of 32-bit integers from -2^29 to 2^29, from 0 to m - 1
//
// PRODUCT and WEIGHT[i] have 118 bits. They are stored as three parts of 39 or 40 bits, the highest first:
// part[0] * 2^78 + part[1] * 2^39 + part[2]. This prints them:
//
//   from math import prod
//   m = [256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197]
//   for x in [prod(m)] + [prod(m) // p * pow(prod(m) // p, -1, p) for p in m]:
//       print(x >> 78, x >> 39 & (1 << 39) - 1, x & (1 << 39) - 1)
#pragma once

constexpr int LOG_PRODUCT = 117;
__constant__ const int MODULUS[15] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197};
__constant__ const double PRODUCT[3] = {946085178282.0, 25872603542.0, 537241723136.0};
__constant__ const double WEIGHT[15][3] = {
    {831520176224.0, 250372859645.0, 381990795009.0},
    {508288899704.0, 259673370465.0, 96760190720.0},
    {714238217596.0, 180330424918.0, 362126691072.0},
    {682236722187.0, 248634668125.0, 315134701312.0},
    {459636523861.0, 397621328857.0, 227622144000.0},
    {3925664640.0, 95915422352.0, 15916085504.0},
    {554192154642.0, 111765308281.0, 353806234624.0},
    {324836112714.0, 476057765807.0, 545459130368.0},
    {268539461084.0, 233007710636.0, 291731655936.0},
    {262569895294.0, 74991792123.0, 364645356800.0},
    {403040771017.0, 8556688442.0, 317619609856.0},
    {348787162500.0, 161544502842.0, 10587131904.0},
    {215223168519.0, 76233611113.0, 510432317440.0},
    {608537200101.0, 8353898551.0, 519605813248.0},
    {437024117886.0, 346827942075.0, 546765831936.0},
};

__device__ inline unsigned sum_residue(int sum, unsigned m)
{
    const unsigned positive = sum + (1u << 29) / m * m + m;
    const unsigned inverse = (1ull << 39) / m + 1; // positive * inverse / 2^39 rounds down to positive / m
    return positive - (__umulhi(positive, inverse) >> 7) * m;
}
