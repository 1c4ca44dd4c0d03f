// Times kernels of cubins and cuBLAS's product without Python, for small_shapes.py: the L2 flushed before each turn,
// the queue held until the turn is queued, medians of CUDA events. Build: nvcc -O2 -x cu harness.cpp -lcuda -lcublas. Reads a plan on stdin:
//     size M N K TYPE         TYPE of A, B and C: float32, bfloat16
//     kernel LABEL            a participant; its buffers and steps follow
//     buffer NAME BYTES FILL  FILL: float32 or bfloat16 (random, in 0.5 .. 1), zeros, poison
//     step CUBIN ENTRY grid block shared arguments
//     argument NAME | argument =HEX
//     map NAME TYPE RANK SWIZZLE sizes strides box    a tensor map: numbers of cuTensorMapEncodeTiled
// and prints "LABEL MEDIAN_US Q1_US Q3_US" a line.
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#define CHECK(call)                                                                     \
    do {                                                                                \
        const int code = static_cast<int>(call);                                        \
        if (code != 0) {                                                                \
            std::fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, code);        \
            std::exit(1);                                                               \
        }                                                                               \
    } while (0)

constexpr int TURNS = 25;
constexpr int PLACES = 8; // copies of the code, whose places decide up to 0.9 us: a time is the mean of a launch of each
constexpr size_t FLUSH = size_t{128} << 20;

// Waits until the host has queued a turn, as devices/gpu/hold.py does.
__global__ void hold_queue(volatile unsigned *released, unsigned turn)
{
    while ((int)(*released - turn) < 0) {
    }
}

struct Step {
    CUfunction functions[PLACES];
    unsigned grid[3], block[3], shared;
    std::vector<std::vector<char>> values;
    std::vector<void *> pointers;
};

struct Participant {
    std::string label;
    std::function<void(int)> start;
    std::vector<Step> steps;
    std::vector<float> times;
};

static std::map<std::string, std::pair<CUdeviceptr, size_t>> buffers;
static std::vector<std::string> poisoned;

static std::vector<char> contents(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

static void add_buffer(std::istream &line)
{
    std::string name, fill;
    size_t bytes;
    line >> name >> bytes >> fill;
    if (buffers.count(name))
        return;
    CUdeviceptr pointer;
    CHECK(cuMemAlloc(&pointer, bytes));
    if (fill == "float32" || fill == "bfloat16") {
        const size_t width = fill == "float32" ? 4 : 2;
        std::mt19937 draw(1);
        std::uniform_real_distribution<float> half(0.5f, 1.0f);
        std::vector<char> values(bytes);
        for (size_t at = 0; at + width <= bytes; at += width) {
            const float value = half(draw);
            std::memcpy(&values[at], reinterpret_cast<const char *>(&value) + 4 - width, width); // the upper bytes
        }
        CHECK(cuMemcpyHtoD(pointer, values.data(), bytes));
    } else if (fill == "zeros") {
        CHECK(cuMemsetD8(pointer, 0, bytes));
    } else {
        poisoned.push_back(name);
    }
    buffers[name] = {pointer, bytes};
}

static Step step_of(std::istream &line)
{
    std::string cubin, entry;
    Step step{};
    line >> cubin >> entry;
    for (unsigned &size : step.grid)
        line >> size;
    for (unsigned &size : step.block)
        line >> size;
    line >> step.shared;
    for (CUfunction &function : step.functions) {
        CUmodule module;
        CHECK(cuModuleLoadData(&module, contents(cubin).data()));
        CHECK(cuModuleGetFunction(&function, module, entry.c_str()));
        if (step.shared > 48 * 1024)
            CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, step.shared));
    }
    return step;
}

static std::vector<char> argument(const std::string &text)
{
    std::vector<char> value;
    if (text[0] != '=') {
        const CUdeviceptr pointer = buffers.at(text).first;
        const char *bytes = reinterpret_cast<const char *>(&pointer);
        return {bytes, bytes + sizeof pointer};
    }
    for (size_t i = 1; i + 1 < text.size(); i += 2)
        value.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
    return value;
}

static std::vector<char> tensor_map(std::istream &line)
{
    std::string name;
    int type, swizzle;
    unsigned rank;
    line >> name >> type >> rank >> swizzle;
    std::vector<cuuint64_t> sizes(rank), strides(rank - 1);
    std::vector<cuuint32_t> box(rank), ones(rank, 1);
    for (auto &it : sizes)
        line >> it;
    for (auto &it : strides)
        line >> it;
    for (auto &it : box)
        line >> it;
    alignas(64) CUtensorMap map;
    CHECK(cuTensorMapEncodeTiled(&map, static_cast<CUtensorMapDataType>(type), rank,
                                 reinterpret_cast<void *>(buffers.at(name).first), sizes.data(), strides.data(),
                                 box.data(), ones.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 static_cast<CUtensorMapSwizzle>(swizzle), CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    const char *bytes = reinterpret_cast<const char *>(&map);
    return {bytes, bytes + sizeof map};
}

int main()
{
    CHECK(cudaFree(nullptr));
    std::deque<Participant> all; // its elements stay where they are
    int m = 0, n = 0, k = 0;
    std::string text, type;
    while (std::getline(std::cin, text)) {
        std::istringstream line(text);
        std::string word;
        line >> word;
        if (word == "size") {
            line >> m >> n >> k >> type;
        } else if (word == "kernel") {
            all.emplace_back();
            line >> all.back().label;
        } else if (word == "buffer") {
            add_buffer(line);
        } else if (word == "step") {
            all.back().steps.push_back(step_of(line));
        } else if (word == "argument") {
            line >> word;
            all.back().steps.back().values.push_back(argument(word));
        } else if (word == "map") {
            all.back().steps.back().values.push_back(tensor_map(line));
        }
    }
    for (Participant &it : all) {
        for (Step &step : it.steps)
            for (std::vector<char> &value : step.values)
                step.pointers.push_back(value.data());
        it.start = [&it](int place) {
            for (Step &step : it.steps)
                CHECK(cuLaunchKernel(step.functions[place], step.grid[0], step.grid[1], step.grid[2], step.block[0],
                                     step.block[1], step.block[2], step.shared, nullptr, step.pointers.data(), nullptr));
        };
    }
    cublasHandle_t handle;
    CHECK(cublasCreate(&handle));
    const float one = 1.0f, zero = 0.0f;
    all.emplace_back();
    all.back().label = "cuBLAS";
    all.back().start = [&](int) {
        const auto at = [](const char *name) { return reinterpret_cast<float *>(buffers.at(name).first); };
        const cudaDataType_t kind = type == "float32" ? CUDA_R_32F : CUDA_R_16BF;
        CHECK(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, at("B"), kind, n, at("A"), kind, k, &zero,
                           at("C"), kind, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    };
    char *flush;
    CHECK(cudaMalloc(&flush, FLUSH));
    unsigned *released, *seen_by_gpu, number = 0;
    CHECK(cudaHostAlloc(&released, sizeof *released, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&seen_by_gpu, released, 0));
    *released = 0;
    cudaEvent_t first, second;
    CHECK(cudaEventCreate(&first));
    CHECK(cudaEventCreate(&second));
    for (int warm = 0; warm < 300; ++warm)
        for (Participant &it : all)
            it.start(warm % PLACES);
    for (int turn = 0; turn < TURNS * PLACES; ++turn)
        for (Participant &it : all) {
            for (const std::string &name : poisoned)
                CHECK(cudaMemsetAsync(reinterpret_cast<void *>(buffers[name].first), 0xff, buffers[name].second));
            CHECK(cudaMemsetAsync(flush, 0, FLUSH));
            hold_queue<<<1, 1>>>(seen_by_gpu, ++number);
            CHECK(cudaEventRecord(first));
            it.start(turn % PLACES);
            CHECK(cudaEventRecord(second));
            *static_cast<volatile unsigned *>(released) = number;
            CHECK(cudaEventSynchronize(second));
            float elapsed;
            CHECK(cudaEventElapsedTime(&elapsed, first, second));
            if (turn % PLACES == 0)
                it.times.push_back(0);
            it.times.back() += 1e3f * elapsed / PLACES;
        }
    for (Participant &it : all) {
        std::sort(it.times.begin(), it.times.end());
        std::printf("%s %.3f %.3f %.3f\n", it.label.c_str(), it.times[TURNS / 2], it.times[TURNS / 4],
                    it.times[3 * TURNS / 4]);
    }
}
