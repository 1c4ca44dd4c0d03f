"""What one lane of every instruction must compute: Python integers and fractions, no NumPy, one value at a time.

Independent of the table's code on purpose: numbers are decoded from their bits into exact rationals, computed, and
rounded bit by bit. ``expected(name, sources)`` returns the raw bits of the results, or an ``Approximately``.
Where the PTX manual leaves a result open, what an H200 answers is demanded (said at each place).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
MODES = ("rn", "rz", "rm", "rp")
INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


@dataclass(frozen=True)
class Approximately:
    """A float result of format ``code`` within ``ulps`` units in the last place, or ``absolute``, of ``value``."""

    value: float
    code: str
    ulps: int = 1
    absolute: float = 0.0


@dataclass(frozen=True)
class Halves:
    """Results of the two halves of a packed register, at least one of them approximate."""

    low: list[int] | Approximately
    high: list[int] | Approximately


# ---- formats ----


@dataclass(frozen=True)
class Number:
    kind: str  # "nan", "infinite" or "finite"
    negative: bool = False
    value: Fraction = Fraction(0)
    bits: int = 0


def width(code: str) -> int:
    return 32 if code.endswith("x2") or code == "tf32" else int(code.lstrip("busf"))


@lru_cache(maxsize=1 << 16)
def decode(bits: int, code: str) -> Number:
    exponent_bits, fraction_bits = FORMATS[code]
    fraction = bits & ((1 << fraction_bits) - 1)
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    negative = bool(bits >> (exponent_bits + fraction_bits))
    if exponent == (1 << exponent_bits) - 1:
        return Number("nan" if fraction else "infinite", negative, bits=bits)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent:
        fraction |= 1 << fraction_bits
    scale = max(exponent, 1) - bias - fraction_bits
    magnitude = Fraction(fraction << scale) if scale >= 0 else Fraction(fraction, 1 << -scale)
    return Number("finite", negative, -magnitude if negative else magnitude, bits)


def infinity(code: str, negative: bool) -> int:
    exponent_bits, fraction_bits = FORMATS[code]
    return (((1 << exponent_bits) - 1) | negative << exponent_bits) << fraction_bits


def zero(code: str, negative: bool) -> int:
    return int(negative) << sum(FORMATS[code])


def round_quotient(numerator: int, denominator: int, mode: str, negative: bool) -> int:
    """Magnitude of the fraction, rounded to an integer."""
    whole, rest = divmod(numerator, denominator)
    if not rest or mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative):
        return whole
    if mode in ("rm", "rp"):
        return whole + 1
    twice = 2 * rest
    return whole + (twice > denominator or (twice == denominator and (mode == "rna" or whole % 2)))


@lru_cache(maxsize=1 << 16)
def encode(value: Fraction, code: str, mode: str = "rn", zero_negative: bool = False) -> int:
    """Round an exact number to a format; exact zeros get the given sign."""
    exponent_bits, fraction_bits = FORMATS[code]
    if value == 0:
        return zero(code, zero_negative)
    negative = value < 0
    over, under = abs(value.numerator), value.denominator
    exponent = over.bit_length() - under.bit_length()
    if under << max(exponent, 0) > over << max(-exponent, 0):
        exponent -= 1
    bias = (1 << (exponent_bits - 1)) - 1
    unit = max(exponent, 1 - bias) - fraction_bits
    units = round_quotient(over << max(-unit, 0), under << max(unit, 0), mode, negative)
    if units >> (fraction_bits + 1):
        units >>= 1
        unit += 1
    if unit + fraction_bits > bias:
        largest = infinity(code, False) - 1
        away = mode in ("rn", "rna") or (mode == "rm" and negative) or (mode == "rp" and not negative)
        return zero(code, negative) | (infinity(code, False) if away else largest)
    biased = unit + fraction_bits + bias - (not units >> fraction_bits)
    return zero(code, negative) | (biased << fraction_bits) + (units & ((1 << fraction_bits) - 1))


@cache
def smallest_normal(code: str) -> Fraction:
    return Fraction(1, 1 << ((1 << (FORMATS[code][0] - 1)) - 2))


def flushed(number: Number, code: str) -> Number:
    if number.kind == "finite" and abs(number.value) < smallest_normal(code):
        return Number("finite", number.negative, Fraction(0), zero(code, number.negative))
    return number


def invalid(code: str) -> int:
    return CANONICAL[code]


def propagated(code: str, *numbers: Number) -> int:
    """The NaN that comes out when NaNs go in: the GPU's own, but in f64 the first of these that is one, made quiet."""
    if code != "f64":
        return CANONICAL[code]
    return next(number.bits for number in numbers if number.kind == "nan") | 1 << 51


# ---- integers ----


def signed(bits: int, code: str) -> int:
    n = width(code)
    bits &= (1 << n) - 1
    return bits - (1 << n) if code[0] == "s" and bits >> (n - 1) else bits


def wrap(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def limits(code: str) -> tuple[int, int]:
    n = width(code)
    return (-(1 << (n - 1)), (1 << (n - 1)) - 1) if code[0] == "s" else (0, (1 << n) - 1)


def clamp(value: int, code: str) -> int:
    low, high = limits(code)
    return min(max(value, low), high)


def divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def integer(opcode: str, modifiers: list[str], sources: list[int]) -> int:
    code = modifiers[-1]
    n = width(code)
    v = [signed(x, code) for x in sources]
    half = modifiers[0] if modifiers[0] in ("lo", "hi", "wide") else "lo"
    if opcode in ("add", "sub"):
        exact = v[0] + v[1] if opcode == "add" else v[0] - v[1]
        return wrap(clamp(exact, code) if "sat" in modifiers else exact, n)
    if opcode in ("mul", "mad"):
        product = v[0] * v[1]
        if half == "wide":
            added = signed(sources[2], code[0] + str(2 * n)) if opcode == "mad" else 0
            return wrap(product + added, 2 * n)
        part = product >> n if half == "hi" else wrap(product, n)
        total = part + (v[2] if opcode == "mad" else 0)
        return wrap(clamp(total, code) if "sat" in modifiers else total, n)
    if opcode in ("mul24", "mad24"):
        low24 = [signed24(x) if code == "s32" else x & 0xFFFFFF for x in sources[:2]]
        product = low24[0] * low24[1]
        part = wrap(product >> 16 if half == "hi" else product, 32)
        total = signed(part, code) + (v[2] if opcode == "mad24" else 0)
        return wrap(clamp(total, code) if "sat" in modifiers else total, n)
    if opcode in ("div", "rem"):
        if v[1] == 0:
            return wrap(-1, n)  # open in PTX; an H200 answers all ones to both
        quotient = divide(v[0], v[1])
        return wrap(quotient if opcode == "div" else v[0] - quotient * v[1], n)
    simple: dict[str, Callable[[], int]] = {
        "min": lambda: min(v),
        "max": lambda: max(v),
        "abs": lambda: abs(v[0]),
        "neg": lambda: -v[0],
        "sad": lambda: v[2] + abs(v[0] - v[1]),
    }
    result = simple[opcode]()
    return wrap(max(result, 0) if "relu" in modifiers else result, n)


def signed24(x: int) -> int:
    x &= 0xFFFFFF
    return x - (1 << 24) if x >> 23 else x


def carried(opcode: str, modifiers: list[str], sources: list[int]) -> list[int]:
    code = modifiers[-1]
    n = width(code)
    carry = sources[-1] if opcode in ("addc", "subc", "madc") else (1 if opcode == "sub" else 0)
    if opcode.startswith("mad"):
        product = signed(sources[0], code) * signed(sources[1], code)
        a, b = wrap(product >> n if "hi" in modifiers else product, n), sources[2]
    else:
        a, b = sources[0], sources[1]
        b = wrap(~b, n) if opcode.startswith("sub") else b  # the flag after subtraction: nothing borrowed
    total = a + b + carry
    return [wrap(total, n), *([total >> n] if "cc" in modifiers else [])]


def dot(opcode: str, modifiers: list[str], sources: list[int]) -> int:
    *half, a_code, b_code = modifiers
    a, b, c = sources
    if opcode == "dp4a":
        pairs = [(a >> 8 * i, 8, b >> 8 * i) for i in range(4)]
    else:
        shift = 16 if half == ["hi"] else 0
        pairs = [(a >> 16 * i, 16, b >> (8 * i + shift)) for i in range(2)]
    return wrap(c + sum(signed(x, f"{a_code[0]}{n}") * signed(y, f"{b_code[0]}8") for x, n, y in pairs), 32)


def pack(code: str, a: int, b: int, c: int = 0) -> int:
    bits = int(code[1:])
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if code[0] == "s" else (0, 2**bits - 1)
    x, y = (wrap(min(max(signed(it, "s32"), low), high), bits) for it in (a, b))
    return wrap((c << 2 * bits) + (x << bits) + y, 32)


# ---- bits ----


def bitwise(opcode: str, modifiers: list[str], s: list[int]) -> int:
    code = modifiers[-1]
    n = 1 if code == "pred" else width(code if code[0] in "busf" and code[1:].isdigit() else "b32")
    if opcode == "cnot":
        return int(s[0] == 0)
    if opcode == "popc":
        return bin(s[0]).count("1")
    if opcode == "clz":
        return n - s[0].bit_length()
    if opcode == "brev":
        return int(f"{s[0]:0{n}b}"[::-1], 2)
    if opcode == "bfind":
        value = signed(s[0], code)
        top = (~value if value < 0 else value).bit_length() - 1
        return wrap(-1 if top < 0 else n - 1 - top if "shiftamt" in modifiers else top, 32)
    if opcode == "fns":
        return nth_set_bit(*s)
    if opcode == "shl":
        return wrap(s[0] << min(s[1], n), n)
    if opcode == "shr":
        return wrap(signed(s[0], code) >> min(s[1], n), n)
    if opcode == "shf":
        left, mode = modifiers[0] == "l", modifiers[1]
        count = s[2] % 32 if mode == "wrap" else min(s[2], 32)
        pair = s[1] << 32 | s[0]
        return wrap(pair << count >> 32 if left else pair >> count, 32)
    if opcode == "lop3":
        return sum((s[3] >> (4 * (s[0] >> i & 1) + 2 * (s[1] >> i & 1) + (s[2] >> i & 1)) & 1) << i for i in range(32))
    if opcode == "prmt":
        return permute(code, s)
    return {"and": lambda: s[0] & s[1], "or": lambda: s[0] | s[1], "xor": lambda: s[0] ^ s[1],
            "not": lambda: wrap(~s[0], n)}[opcode]()  # fmt: skip


def nth_set_bit(mask: int, base: int, offset: int) -> int:
    """``fns``, bit by bit."""
    distance = signed(offset, "s32")
    if distance == -(1 << 31):
        return 0
    position, left = base, max(abs(distance), 1)
    while 0 <= position < 32:
        left -= mask >> position & 1
        if left == 0:
            return position
        if distance == 0:
            break
        position += 1 if distance > 0 else -1
    return 0xFFFFFFFF


def fields(opcode: str, modifiers: list[str], s: list[int]) -> int:
    code = modifiers[-1]
    n = width(code)
    if opcode in ("bfe", "bfi"):
        position, length = s[-2:]
        if n == 32:
            position, length = position & 0xFF, length & 0xFF
        # PTX allows 0 to 255; beyond, an H200 takes the low byte at 32 bits and the whole number at 64.
        if opcode == "bfe":
            sign = 0
            if code[0] == "s" and length:
                sign = s[0] >> min(position + length - 1, n - 1) & 1
            bits = [s[0] >> position + i & 1 if i < length and position + i < n else sign for i in range(n)]
        else:
            inside = [position <= i < position + length for i in range(n)]
            bits = [s[0] >> (i - position) & 1 if inside[i] else s[1] >> i & 1 for i in range(n)]
        return sum(bit << i for i, bit in enumerate(bits))
    wrapping = "wrap" in modifiers
    if opcode == "bmsk":
        start, size = (x % 32 if wrapping else min(x, 32) for x in s)
        return wrap(((1 << size) - 1) << start, 32)
    size = s[1] % 32 if wrapping else min(s[1], 32)
    if size == 0:
        return 0
    low = s[0] & ((1 << size) - 1)
    return wrap(low - (1 << size), 32) if code == "s32" and low >> (size - 1) else low


def permute(mode: str, s: list[int]) -> int:
    data = [(s[1] << 32 | s[0]) >> 8 * i & 0xFF for i in range(8)]
    if mode == "b32":
        result = 0
        for i in range(4):
            nibble = s[2] >> 4 * i & 15
            byte = data[nibble & 7]
            if nibble & 8:
                byte = 0xFF if byte & 0x80 else 0
            result |= byte << 8 * i
        return result
    k = s[2] & 3
    order = {
        "f4e": [k + i for i in range(4)],
        "b4e": [(k - i) % 8 for i in range(4)],
        "rc8": [k] * 4,
        "ecl": [max(k, i) for i in range(4)],
        "ecr": [min(k, i) for i in range(4)],
        "rc16": [2 * (k & 1) + (i & 1) for i in range(4)],
    }[mode]
    return sum(data[which] << 8 * i for i, which in enumerate(order))


# ---- floating point ----


def sum_of(code: str, mode: str, *terms: Number) -> tuple[str, Fraction, bool] | int:
    """Exact sum: ("finite", value, sign of zero) or the bits of a special result."""
    infinite = [term for term in terms if term.kind == "infinite"]
    if infinite:
        if len({term.negative for term in infinite}) > 1:
            return invalid(code)
        return infinity(code, infinite[0].negative)
    total = sum((term.value for term in terms), Fraction(0))
    signs = {term.negative for term in terms}
    return "finite", total, signs.pop() if len(signs) == 1 else mode == "rm"


def product_of(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if "infinite" in (a.kind, b.kind):
        if 0 in [x.value for x in (a, b) if x.kind == "finite"]:
            return Number("nan")
        return Number("infinite", negative)
    return Number("finite", negative, a.value * b.value)


def arithmetic(opcode: str, code: str, mode: str, ftz: bool, sources: list[int]) -> int:
    numbers = [decode(x, code) for x in sources]
    if ftz:
        numbers = [flushed(x, code) for x in numbers]
    if any(x.kind == "nan" for x in numbers):
        return propagated(code, *numbers[1:], numbers[0])  # second, third, first: an H200's order
    if opcode == "mul" or opcode in ("fma", "mad"):
        product = product_of(numbers[0], numbers[1])
        if product.kind == "nan":
            return invalid(code)
        terms = [product, *numbers[2:]]
    else:
        b = numbers[1]
        negated = Number(b.kind, not b.negative, -b.value)
        terms = [numbers[0], negated if opcode == "sub" else b]
    exact = sum_of(code, mode, *terms)
    if isinstance(exact, int):
        return exact
    _, value, zero_negative = exact
    return finish(value, code, mode, ftz, zero_negative)


def finish(value: Fraction, code: str, mode: str, ftz: bool, zero_negative: bool) -> int:
    if ftz and 0 < abs(value) < smallest_normal(code):
        # An H200 flushes what would be subnormal if it were rounded to full precision with exponents without end.
        magnified = decode(encode(value * 4096, code, mode), code).value
        return zero(code, value < 0) if abs(magnified) < smallest_normal(code) * 4096 else encode(value, code, mode)
    return encode(value, code, mode, zero_negative)


def saturated(bits: int, code: str) -> int:
    number = decode(bits, code)
    if number.kind == "nan" or number.negative or (number.kind == "finite" and number.value == 0):
        return 0
    one = encode(Fraction(1), code)
    return one if number.kind == "infinite" or number.value > 1 else bits


def rectified(bits: int, code: str) -> int:
    number = decode(bits, code)
    return CANONICAL[code] if number.kind == "nan" else 0 if number.negative else bits


def divided(code: str, mode: str, ftz: bool, sources: list[int]) -> int:
    a, b = (decode(x, code) for x in sources)
    if ftz:
        a, b = flushed(a, code), flushed(b, code)
    if "nan" in (a.kind, b.kind):
        return propagated(code, a, b)
    negative = a.negative != b.negative
    if a.kind == "infinite":
        return invalid(code) if b.kind == "infinite" else infinity(code, negative)
    if b.kind == "infinite":
        return zero(code, negative)
    if b.value == 0:
        return invalid(code) if a.value == 0 else infinity(code, negative)
    return finish(a.value / b.value, code, mode, ftz, negative)


def rooted(code: str, mode: str, ftz: bool, bits: int) -> int:
    a = decode(bits, code)
    a = flushed(a, code) if ftz else a
    if a.kind == "nan":
        return propagated(code, a)
    if a.kind == "finite" and a.value == 0:
        return a.bits
    if a.negative:
        return invalid(code)
    if a.kind == "infinite":
        return bits
    # 2 * 120 more bits than any format has, plus one that says whether something is left.
    shift = 480 + 2 * 1200
    scaled = a.value * Fraction(2) ** shift
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = scaled.denominator == 1 and root * root == scaled.numerator
    return finish(Fraction(2 * root + (not exact), 1 << (shift // 2 + 1)), code, mode, ftz, False)


APPROXIMATE: dict[str, Callable[[float], float]] = {
    "rcp": lambda x: 1 / x if x else math.copysign(math.inf, x),
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "rsqrt": lambda x: (1 / math.sqrt(x) if x > 0 else math.nan) if x else math.copysign(math.inf, x),
    "lg2": lambda x: (math.log2(x) if x > 0 else math.nan) if x else -math.inf,
    "ex2": lambda x: math.exp2(x) if x < 1024 else math.inf,
    "tanh": math.tanh,
    "sin": math.sin,
    "cos": math.cos,
}


# How far an H200 is from the value at most: units in the last place of the result, and where the
# result passes through zero an absolute bound. Which result it is, the readings say.
ERRORS: dict[str, tuple[int, float]] = {
    "rcp": (1, 0.0), "sqrt": (1, 0.0), "rsqrt": (2, 0.0), "ex2": (2, 0.0), "lg2": (1, 1e-6), "tanh": (2, 1e-5),
    "sin": (1, 5e-7), "cos": (1, 5e-7),
}  # fmt: skip
TURN = decode(0x3E22F983, "f32")  # 1 / (2 pi)


def as_float(number: Number) -> float:
    if number.kind == "nan":
        return math.nan
    if number.kind == "infinite":
        return -math.inf if number.negative else math.inf
    return math.copysign(float(abs(number.value)), -1.0 if number.negative else 1.0)


def approximated(opcode: str, code: str, ftz: bool, bits: int) -> int | Approximately:
    number = decode(bits, code)
    number = flushed(number, code) if ftz else number
    x = as_float(number)
    if x != x:
        return propagated(code, number)
    if opcode in ("sin", "cos") and abs(x) == math.inf:
        return invalid(code)
    if opcode in ("sin", "cos"):
        # The hardware's argument: float32 turns, cut off. Beyond pi PTX promises nothing, and this is what happens.
        turns = decode(encode(number.value * TURN.value, "f32", "rz", number.negative), "f32").value
        part = math.copysign(float(abs(turns) - abs(turns) // 1), x)
        return Approximately(APPROXIMATE[opcode](part * 2 * math.pi), code, *ERRORS[opcode])
    y = APPROXIMATE[opcode](x)
    if y != y:
        return invalid(code)
    ulps, absolute = ERRORS[opcode]
    if ftz and 0 < abs(y) < smallest_normal(code):
        absolute = float(smallest_normal(code))
    return Approximately(y, code, 2 if code == "f64" else ulps, absolute)


def extreme(opcode: str, code: str, modifiers: list[str], sources: list[int]) -> int:
    a, b = (decode(x, code) for x in sources)
    if "ftz" in modifiers:
        a, b = flushed(a, code), flushed(b, code)
    sign = a.negative != b.negative
    if "abs" in modifiers:
        mask = zero(code, True) - 1
        a, b = decode(a.bits & mask, code), decode(b.bits & mask, code)
    nans = [x for x in (a, b) if x.kind == "nan"]
    if len(nans) == 2 or (nans and "NaN" in modifiers):
        return propagated(code, b, a)

    def order(x: Number) -> tuple[int, Fraction, int]:
        far = {"finite": 0, "infinite": -1 if x.negative else 1}[x.kind]
        return far, x.value, -x.negative

    kept = [x for x in (a, b) if x.kind != "nan"]
    bits = (min if opcode == "min" else max)(kept, key=order).bits
    return bits | zero(code, True) if "abs" in modifiers and sign else bits


def one_source(opcode: str, code: str, ftz: bool, bits: int) -> int:
    number = decode(bits, code)
    if number.kind == "nan":
        return propagated(code, number)
    bits = flushed(number, code).bits if ftz else bits
    return bits & ~zero(code, True) if opcode == "abs" else bits ^ zero(code, True)


# ---- comparison ----


@lru_cache(maxsize=1 << 17)
def compare(operator: str, code: str, ftz: bool, first: int, second: int) -> bool:
    if code not in FORMATS:
        name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(operator, operator)
        return ORDERED[name](signed(first, code), signed(second, code))
    x, y = decode(first, code), decode(second, code)
    if ftz:
        x, y = flushed(x, code), flushed(y, code)
    unordered = "nan" in (x.kind, y.kind)
    if operator in ("num", "nan"):
        return unordered == (operator == "nan")
    if unordered:
        return len(operator) == 3
    a, b = (n.value if n.kind == "finite" else -FAR if n.negative else FAR for n in (x, y))
    return ORDERED[operator[:2]](a, b)


FAR = Fraction(1 << 2000)
ORDERED: dict[str, Callable[[Fraction | int, Fraction | int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def combined(value: bool, modifiers: list[str], c: int) -> bool:
    for name in modifiers:
        if name in ("and", "or", "xor"):
            return {"and": value and bool(c), "or": value or bool(c), "xor": value != bool(c)}[name]
    return value


def comparison(opcode: str, modifiers: list[str], sources: list[int], results: int) -> list[int]:
    operator, code, ftz = modifiers[0], modifiers[-1], "ftz" in modifiers
    c = sources[2] if len(sources) > 2 else 0
    if code.endswith("x2"):
        half = code[:-2]
        met = [compare(operator, half, ftz, sources[0] >> n & 0xFFFF, sources[1] >> n & 0xFFFF) for n in (0, 16)]
        met = [combined(value, modifiers, c) for value in met]
        if opcode == "setp":
            return [int(value) for value in met]
        true = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(modifiers[-2], 0xFFFF)
        return [met[0] * true | met[1] * true << 16]
    value = compare(operator, code, ftz, sources[0], sources[1])
    if opcode == "setp":
        both = [value, not value][:results]
        return [int(combined(one, modifiers, c)) for one in both]
    result = modifiers[-2]
    true = encode(Fraction(1), result) if result in FORMATS else (1 << width(result)) - 1
    return [true * combined(value, modifiers, c)]


def tested(test: str, code: str, bits: int) -> bool:
    number = decode(bits, code)
    small = 0 < abs(number.value) < smallest_normal(code)
    return {
        "finite": number.kind == "finite",
        "infinite": number.kind == "infinite",
        "number": number.kind != "nan",
        "notanumber": number.kind == "nan",
        "normal": number.kind == "finite" and not small,
        "subnormal": small,
    }[test]


# ---- conversion ----


def convert(modifiers: list[str], sources: list[int]) -> int:
    *options, target, source = modifiers
    ftz, sat, relu = ("ftz" in options, "sat" in options, "relu" in options)
    mode = next((m for m in options if m in MODES or m in INTEGRAL or m == "rna"), "rn")
    if target.endswith("x2"):
        halves = [convert([*options, target[:-2], source], [s]) for s in sources]
        return halves[0] << 16 | halves[1]
    if target == "tf32":
        return to_tf32(sources[0], mode, relu)
    register = max(width(target), 32) if width(target) == 8 else width(target)
    if source not in FORMATS:
        value = signed(sources[0], source)
        if target not in FORMATS:
            value = clamp(value, target) if sat else signed(value, target)
            return wrap(value, register)
        bits = encode(Fraction(value), target, mode)
        return saturated(bits, target) if sat else bits
    number = decode(sources[0], source)
    if ftz and source == "f32" and target != "f16":  # an H200 does not flush on the way to half precision
        number = flushed(number, source)
    if target not in FORMATS:
        return wrap(signed(to_integer(number, source, target, INTEGRAL[mode]), target), register)
    if number.kind == "nan":
        bits = converted_nan(number, source, target, ftz, mode in INTEGRAL)
    elif number.kind == "infinite":
        bits = infinity(target, number.negative)
    elif mode in INTEGRAL:
        magnitude = abs(number.value)
        units = round_quotient(magnitude.numerator, magnitude.denominator, INTEGRAL[mode], number.negative)
        bits = encode(Fraction(-units if number.negative else units), target, "rn", number.negative)
    else:
        bits = finish(number.value, target, mode, ftz and target == "f32", number.negative)
    return saturated(bits, target) if sat else rectified(bits, target) if relu else bits


def to_integer(number: Number, source: str, target: str, mode: str) -> int:
    low, high = limits(target)
    if number.kind == "nan":
        return 0 if source != "f64" and width(target) < 64 else 1 << (width(target) - 1)
    if number.kind == "infinite":
        return low if number.negative else high
    magnitude = abs(number.value)
    units = round_quotient(magnitude.numerator, magnitude.denominator, mode, number.negative)
    return min(max(-units if number.negative else units, low), high)


def converted_nan(number: Number, source: str, target: str, ftz: bool, integral: bool) -> int:
    """As seen on an H200: f64 keeps sign and payload, bf16 to f32 and moves keep every bit, the rest is canonical."""
    if (source, target) in (("f64", "f64"), ("f32", "f32")):
        if source == "f64":
            return number.bits | (1 << 51 if integral else 0)
        return CANONICAL["f32"] if ftz or integral else number.bits
    if (source, target) == ("bf16", "f32"):
        return number.bits << 16
    if "f64" not in (source, target):
        return CANONICAL[target]
    bits = CANONICAL["f32"] if ftz and target == "f64" else number.bits
    sign = bits >> sum(FORMATS[source])
    payload = bits & ((1 << FORMATS[source][1]) - 1)
    shift = FORMATS[target][1] - FORMATS[source][1]
    payload = payload << shift if shift >= 0 else payload >> -shift
    return infinity(target, bool(sign)) | 1 << (FORMATS[target][1] - 1) | payload


def to_tf32(bits: int, mode: str, relu: bool) -> int:
    number = decode(bits, "f32")
    if number.kind == "nan":
        if mode == "rna":
            return bits & ~0x1FFF
        return 0x7FFFE000
    if relu and number.negative:
        return 0
    magnitude = bits & 0x7FFFFFFF
    if number.kind == "finite":
        magnitude = round_quotient(magnitude, 1 << 13, mode, False) << 13
    return (bits & 0x80000000) | magnitude


# ---- everything ----

Expected = list[int] | Approximately | Halves


def floating(opcode: str, modifiers: list[str], sources: list[int]) -> int | Approximately:
    code = modifiers[-1]
    ftz = "ftz" in modifiers
    mode = next((m for m in modifiers if m in MODES), "rn")
    result: int | Approximately
    if opcode in ("add", "sub", "mul", "fma", "mad"):
        result = arithmetic(opcode, code, mode, ftz, sources)
    elif opcode in ("min", "max"):
        result = extreme(opcode, code, modifiers, sources)
    elif opcode in ("abs", "neg"):
        result = one_source(opcode, code, ftz, sources[0])
    elif opcode == "copysign":
        result = sources[1] & ~zero(code, True) | sources[0] & zero(code, True)
    elif opcode == "div":
        if "approx" in modifiers or "full" in modifiers:
            return divided_approximately(code, modifiers, ftz, sources)
        result = divided(code, mode, ftz, sources)
    elif opcode == "rcp" and "approx" not in modifiers:
        result = divided(code, mode, ftz, [encode(Fraction(1), code), sources[0]])
    elif opcode == "sqrt" and "approx" not in modifiers:
        result = rooted(code, mode, ftz, sources[0])
    else:
        if code == "f64" and ftz:
            return gross(opcode, sources[0])
        return approximated(opcode, code, ftz, sources[0])
    if "sat" in modifiers:
        return saturated(result, code)
    return rectified(result, code) if "relu" in modifiers else result


def divided_approximately(code: str, modifiers: list[str], ftz: bool, sources: list[int]) -> int | Approximately:
    exact = divided(code, "rn", ftz, sources)
    a, b = (decode(x, code) for x in sources)
    if "approx" in modifiers and b.kind == "finite" and abs(b.value) > 1 << 126 and a.kind != "nan":
        return invalid(code) if a.kind == "infinite" else zero(code, a.negative != b.negative)
    number = decode(exact, code)
    return exact if number.kind != "finite" else Approximately(as_float(number), code, 2)


def gross(opcode: str, bits: int) -> int | Approximately:
    """``.approx.ftz.f64``: the upper halves of source and result only."""
    result = approximated(opcode, "f64", True, bits & ~0xFFFFFFFF)
    if isinstance(result, int):
        return 0x7FFFFFFF00000000  # this instruction alone makes float32's NaN in the upper half
    return Approximately(result.value, "f64", 1 << 32, result.absolute)


def expected(name: str, sources: list[int], results: int = 1) -> Expected:
    """Raw results of one lane. ``sources`` are raw bits, a carry last; 8-bit results are those of a 32-bit register."""
    opcode, *modifiers = name.split(".")
    code = modifiers[-1]
    if opcode in ("mov", "cvta"):
        return sources
    if opcode in ("setp", "set"):
        return comparison(opcode, modifiers, sources, results)
    if opcode == "selp":
        return [sources[0] if sources[2] else sources[1]]
    if opcode == "slct":
        chosen = signed(sources[2], code) >= 0 if code == "s32" else selects(sources[2], "ftz" in modifiers)
        return [sources[0] if chosen else sources[1]]
    if opcode == "testp":
        return [int(tested(modifiers[0], code, sources[0]))]
    if opcode == "cvt" and BYTES.keys() & set(modifiers):
        return [of_bytes(modifiers, sources)]
    if opcode == "cvt" and modifiers[0] == "pack":
        return [pack(modifiers[2], *sources)]
    if opcode == "cvt":
        return [convert(modifiers, sources)]
    if "cc" in modifiers or opcode in ("addc", "subc", "madc"):
        return carried(opcode, modifiers, sources)
    if opcode in ("dp4a", "dp2a"):
        return [dot(opcode, modifiers, sources)]
    if opcode in ("vabsdiff2", "vabsdiff4"):
        return [distances(8 * 4 // int(opcode[-1]), "add" in modifiers, *sources)]
    if opcode in ("bfe", "bfi", "bmsk", "szext"):
        return [fields(opcode, modifiers, sources)]
    if opcode in BITWISE:
        return [bitwise(opcode, modifiers, sources)]
    packed = next((m for m in modifiers if m.endswith("x2")), None)
    if packed:
        part = ".".join([opcode, *(m for m in modifiers if m != packed), packed[:-2]])
        low, high = (expected(part, [s >> shift & 0xFFFF for s in sources]) for shift in (0, 16))
        if isinstance(low, list) and isinstance(high, list):
            return [low[0] | high[0] << 16]
        assert not isinstance(low, Halves)
        assert not isinstance(high, Halves)
        return Halves(low, high)
    if code in FORMATS:
        result = floating(opcode, modifiers, sources)
        return result if isinstance(result, Approximately) else [result]
    return [integer(opcode, [m for m in modifiers if m != "relu"][:-1] + ["relu"] * ("relu" in modifiers) + [
        next(m for m in modifiers if m[1:].isdigit())], sources)]  # fmt: skip


# format -> bits of fraction, bias, code of the largest number, bits from one number of a pair to the next
BYTES = {"e4m3x2": (3, 7, 0x7E, 8), "e5m2x2": (2, 15, 0x7B, 8), "e2m3x2": (3, 1, 0x1F, 8), "e3m2x2": (2, 3, 0x1F, 8),
         "e2m1x2": (1, 1, 7, 4)}  # fmt: skip


def byte_values(kind: str) -> list[Fraction]:
    """The numbers of a format in the order of their codes from 0; no infinity."""
    fraction_bits, bias, last, _ = BYTES[kind]
    found = []
    for code in range(last + 1):
        exponent, fraction = divmod(code, 1 << fraction_bits)
        whole = fraction + (1 << fraction_bits if exponent else 0)
        found.append(Fraction(whole, 1 << fraction_bits) * Fraction(2) ** (max(exponent, 1) - bias))
    return found


def of_bytes(modifiers: list[str], sources: list[int]) -> int:
    """Pairs of small floats: every number of the format is tried for the nearest. NaN of 8 bits is 0x7F, or f16's
    canonical one; formats without NaN have the largest number for it."""
    target, source = modifiers[-2:]
    relu = "relu" in modifiers
    shift = BYTES[source if source in BYTES else target][3]
    if source in BYTES:
        lower, upper = (byte_half(sources[0] >> at & (1 << shift) - 1, source, target[:-2], relu) for at in (0, shift))
        return lower | upper << 16
    if source in ("f16x2", "bf16x2"):
        low, high = (decode(sources[0] >> at & 0xFFFF, source[:-2]) for at in (0, 16))
    else:
        high, low = (decode(bits, "f32") for bits in sources)
    return byte(low, target, relu) | byte(high, target, relu) << shift


def byte(number: Number, kind: str, relu: bool) -> int:
    values = byte_values(kind)
    sign = len(values) if kind not in ("e4m3x2", "e5m2x2") else 0x80
    if number.kind == "nan":
        return 0x7F if sign == 0x80 else len(values) - 1
    if relu and number.negative:
        return 0
    size = values[-1] if number.kind == "infinite" else min(abs(number.value), values[-1])
    nearest = min(range(len(values)), key=lambda code: (abs(values[code] - size), code % 2))
    return nearest | sign * number.negative


def byte_half(code: int, kind: str, half: str, relu: bool) -> int:
    values = byte_values(kind)
    sign = len(values) if kind not in ("e4m3x2", "e5m2x2") else 0x80
    negative, code = bool(code & sign), code & sign - 1
    if code >= len(values) + (kind == "e5m2x2"):
        return CANONICAL["f16"]
    if relu and negative:
        return 0
    if code == len(values):
        return infinity(half, negative)
    return encode(-values[code] if negative else values[code], half, zero_negative=negative)


def distances(bits: int, add: bool, a: int, b: int, c: int) -> int:
    """The distances of unsigned fields, in place or summed up."""
    mask = (1 << bits) - 1
    found = [abs((a >> at & mask) - (b >> at & mask)) for at in range(0, 32, bits)]
    return (sum(found) + c) & 0xFFFFFFFF if add else sum(x << bits * i for i, x in enumerate(found))


def selects(bits: int, ftz: bool) -> bool:
    """slct on a float: zero or more, also minus zero; not NaN."""
    number = decode(bits, "f32")
    number = flushed(number, "f32") if ftz else number
    return number.kind != "nan" and (not number.negative or (number.kind == "finite" and number.value == 0))


BITWISE = frozenset("and or xor not cnot popc clz brev bfind fns shl shr shf lop3 prmt".split())
