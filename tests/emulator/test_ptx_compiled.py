"""Compiled CUDA C gives right results: independent threads. test_ptx_together.py has threads that synchronize."""

from __future__ import annotations

import ctypes
import math
import random
import struct
from fractions import Fraction
from typing import Any, Callable

import pytest

from tests.emulator.ptx_client import DATA, Fault, Machine
from tests.shared import quotient, rest, wrap

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

MACHINES: dict[str, Machine] = {}


def machine(build: str) -> Machine:
    """Load one committed build, once; its memory is freed when the process ends."""
    if build not in MACHINES:
        MACHINES[build] = Machine((DATA / f"{build}.ptx").read_text(), architecture=(12, 0))
    return MACHINES[build]


def builds(source: str) -> Any:
    """Return every committed build of one source as a parameter."""
    return pytest.mark.parametrize("build", sorted(path.stem for path in DATA.glob(f"{source}.*.ptx")))


def single(value: float) -> float:
    """Round to float32."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


# name -> (bits, signed, f(x, y, z))
INTEGERS: dict[str, tuple[int, bool, Callable[[int, int, int], int]]] = {
    "i32_mix": (32, True, lambda x, y, z: (x + y) * z - (x ^ y) + (x & z) - (~y | z)),
    "i32_divide": (32, True, lambda x, y, z: quotient(x, y | 1) + rest(x, z | 1)),
    "u32_divide": (32, False, lambda x, y, z: x // (y | 1) ^ x % (z | 1)),
    "i32_shift": (32, True, lambda x, y, z: (x << (y & 31)) ^ (x >> (z & 31))),
    "u32_high": (
        32,
        False,
        lambda x, y, z: (
            (x * y >> 32)
            + bin(z).count("1")
            + 32
            - x.bit_length()
            + ((y & -y).bit_length())
            + int(f"{z:032b}"[::-1], 2)
        ),
    ),
    "i32_extremes": (32, True, lambda x, y, z: max(min(x, y), z) + abs(z) + abs(x - y) + 5),
    "i64_mix": (64, True, lambda x, y, z: (x + y) * z - quotient(x ^ y, z | 1) + rest(x, y | 3)),
    "u64_mix": (64, False, lambda x, y, z: (x * y) ^ (x * z >> 64) ^ (x // (y | 1)) ^ (x % (z | 1))),
    "i64_high": (
        64,
        True,
        lambda x, y, z: (
            (x * y >> 64)
            + bin(z & (1 << 64) - 1).count("1")
            + 64
            - (x & (1 << 64) - 1).bit_length()
            + (x >> (y & 63))
            + (x << (z & 63))
        ),
    ),
    "u32_funnel": (
        32,
        False,
        lambda x, y, z: (
            (((y << 32 | x) << (z & 31)) >> 32)
            ^ ((x << 32 | y) >> (z & 31))
            ^ (((y << 32 | x) << min(z & 63, 32)) >> 32)
        ),
    ),
    "i16_mix": (16, True, lambda x, y, z: x * y + (z >> 3) - quotient(x, y | 1)),
    "u8_mix": (8, False, lambda x, y, z: x * y + (z >> 1) - x % (y | 1)),
}
CODES = {(8, False): "B", (16, True): "h", (32, True): "i", (32, False): "I", (64, True): "q", (64, False): "Q"}


def triples(make: Callable[[], Any], count: int, *corners: Any) -> list[list[Any]]:
    """Return three operand arrays: every combination of the corner cases, then random numbers."""
    rows = [(x, y, z) for x in corners for y in corners for z in corners]
    rows += [(make(), make(), make()) for _ in range(count - len(rows))]
    return [list(column) for column in zip(*rows)]


@builds("arithmetic")
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(build: str, name: str) -> None:
    bits, signed, expected = INTEGERS[name]
    rng = random.Random(name)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    columns = triples(lambda: rng.randint(low, high) >> rng.randrange(bits), 160, low, high, 0, 1, high // 3)
    if name == "i32_divide" or name == "i64_mix":  # INT_MIN / -1 is undefined in C
        columns[0] = [x if x != low else low + 1 for x in columns[0]]
    here = machine(build)
    code = CODES[bits, signed]
    out, *operands = (here.buffer(code, values) for values in ([0] * 160, *columns))
    here.run(name, out, *operands, 160, grid=5, block=32)
    assert out.values() == [wrap(expected(*row), bits, signed) for row in zip(*columns)]


def exact(value: Fraction, bits: int, mode: str) -> float:
    """Round a fraction by comparing it with the neighbours of Python's quotient."""
    nearest = float(value) if bits == 64 else single(value.numerator / value.denominator)
    step = 2.0**-149 if bits == 32 else 5e-324
    candidates = {nearest}
    size = struct.Struct("<f" if bits == 32 else "<d"), struct.Struct("<I" if bits == 32 else "<Q")
    if math.isfinite(nearest):
        pattern = size[1].unpack(size[0].pack(abs(nearest)))[0]
        for other in (pattern - 1, pattern + 1):
            if other >= 0:
                candidates.add(math.copysign(size[0].unpack(size[1].pack(other))[0], nearest or 1.0))
        if not nearest:
            candidates.update((step, -step))
    below = max((c for c in candidates if math.isfinite(c) and Fraction(c) <= value), default=-math.inf)
    above = min((c for c in candidates if math.isfinite(c) and Fraction(c) >= value), default=math.inf)
    if mode == "rm" or mode == "rz" and value > 0:
        return below
    if mode == "rp" or mode == "rz":
        return above
    if below == above:
        return below
    if value - Fraction(below) != Fraction(above) - value:
        return below if value - Fraction(below) < Fraction(above) - value else above
    return below if size[1].unpack(size[0].pack(abs(below)))[0] % 2 == 0 else above


def root(value: Fraction, mode: str) -> Fraction:
    """Return a square root with 200 bits, of which the last is sticky."""
    scale = 1 << 400
    top = value.numerator * value.denominator * scale
    found = math.isqrt(top)
    return Fraction(2 * found + (found * found != top), 2 * value.denominator * math.isqrt(scale))


# name -> (bits, mode, f over fractions)
ROUNDED: dict[str, tuple[int, str, Callable[..., Fraction]]] = {
    "f32_fma": (32, "rn", lambda x, y, z: x * y + z),
    "f32_add_up": (32, "rp", lambda x, y, z: x + y),
    "f32_add_down": (32, "rm", lambda x, y, z: x + y),
    "f32_mul_zero": (32, "rz", lambda x, y, z: x * y),
    "f32_div_up": (32, "rp", lambda x, y, z: x / y),
    "f32_fma_down": (32, "rm", lambda x, y, z: x * y + z),
    "f32_sqrt": (32, "rn", lambda x, y, z: root(abs(x), "rn")),
    "f32_sqrt_up": (32, "rp", lambda x, y, z: root(abs(x), "rp")),
    "f32_rcp_down": (32, "rm", lambda x, y, z: 1 / x),
    "f64_fma": (64, "rn", lambda x, y, z: x * y + z),
    "f64_add_up": (64, "rp", lambda x, y, z: x + y),
    "f64_mul_down": (64, "rm", lambda x, y, z: x * y),
    "f64_div_zero": (64, "rz", lambda x, y, z: x / y),
    "f64_sqrt": (64, "rn", lambda x, y, z: root(abs(x), "rn")),
}


@builds("arithmetic")
@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_is_exact(build: str, name: str) -> None:
    bits, mode, expected = ROUNDED[name]
    rng = random.Random(name)
    narrow = single if bits == 32 else float
    spread = 20 if bits == 32 else 200

    def make() -> float:
        value = rng.choice((rng.uniform(-2, 2), rng.randrange(1, 1 << 12) * 1.0))
        return narrow(value * 2.0 ** rng.randint(-spread, spread)) or 1.0

    columns = triples(make, 256, 1.0, -1.0, 1.5, narrow(1 / 3), narrow(2.0**-30))
    for at in range(128, 256):  # sums that nearly cancel, and products next to midpoints
        x, y = columns[0][at], columns[1][at]
        columns[2][at] = narrow(-x * y) if at % 2 else narrow(x * y * 2.0 ** -rng.randint(22, 26)) or 1.0
    here = machine(build)
    code = "f" if bits == 32 else "d"
    out, *operands = (here.buffer(code, values) for values in ([0.0] * 256, *columns))
    here.run(name, out, *operands, 256, grid=8, block=32)
    for got, row in zip(out.values(), zip(*columns)):
        value = expected(*map(Fraction, row))
        if value:
            assert got == exact(value, bits, mode), row
        else:
            assert got == 0.0


# name -> (code from, code to, f(x, y, z), operands)
ODD = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 0.5, -0.5, 1.5, 2.5, -3.5, 255.5, 1e10, -1e10, 3e38]
WIDE = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    5e-324,
    0.5,
    2.5,
    1e10,
    -1e19,
    1e300,
    -1e300,
    1 / 3,
    16777217.0,
    3.4e38,
]
WHOLE = [0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31), 123456789, -16777219]
LONG = [
    0,
    1,
    -1,
    2**24 + 1,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    0x7FFFFF8000000001,
    -0x7FFFFFBFFFFFFFFF,
    0x8000004000000001 - 2**64,
]


def clamped(value: float, low: int, high: int, rounding: Callable[[float], int]) -> int:
    """Convert as the hardware does."""
    if value != value:
        return 0 if high - low < 2**63 else low or 2**63
    return high if value == math.inf else low if value == -math.inf else max(low, min(high, rounding(value)))


CONVERSIONS: dict[str, tuple[str, str, Callable[..., Any], list]] = {
    "f32_to_i32": ("f", "i", lambda x: clamped(x, -(2**31), 2**31 - 1, int), ODD),
    "f32_to_u32": ("f", "I", lambda x: clamped(x, 0, 2**32 - 1, int), ODD),
    "f32_to_i64": ("f", "q", lambda x: clamped(x, -(2**63), 2**63 - 1, int), ODD),
    "i32_to_f32": ("i", "f", lambda x: single(x), WHOLE),
    "u64_to_f32": ("Q", "f", lambda x: exact(Fraction(x), 32, "rn"), [x % 2**64 for x in LONG]),
    "i64_to_f32_up": ("q", "f", lambda x: exact(Fraction(x), 32, "rp"), LONG),
    "i64_to_f64": ("q", "d", lambda x: float(x), LONG),
    "f64_to_f32": ("d", "f", lambda x: x if not math.isfinite(x) else single(x), WIDE),
    "f64_to_f32_zero": (
        "d",
        "f",
        lambda x: (
            x
            if not x or not math.isfinite(x)
            else exact(Fraction(x), 32, "rz")
            if abs(x) < 3.5e38
            else math.copysign(single(3.4028234663852886e38), x)
        ),
        WIDE,
    ),
    "f32_to_f64": ("f", "d", lambda x: x, [single(x) for x in ODD]),
    "f64_to_i64": ("d", "q", lambda x: clamped(x, -(2**63), 2**63 - 1, int), WIDE),
}


@builds("arithmetic")
@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(build: str, name: str) -> None:
    source, target, expected, values = CONVERSIONS[name]
    if source == "f":
        values = [single(value) for value in values]
    here = machine(build)
    count = len(values)
    out, given = here.buffer(target, [0] * count), here.buffer(source, values)
    here.run(name, out, given, given, given, count, grid=1, block=32)
    want = here.buffer(target, [expected(value) for value in values])
    for got, wanted, value in zip(out.values(), want.values(), values):
        assert got == wanted or (got != got and wanted != wanted), value
        assert not isinstance(got, float) or math.copysign(1, got) == math.copysign(1, wanted) or got != got, value


@builds("arithmetic")
def test_bits_of_floats(build: str) -> None:
    values = [0.0, -0.0, 1.5, -2.25, math.inf, 1e-300]
    here = machine(build)
    out, x = here.buffer("q", [0] * 6), here.buffer("d", values)
    here.run("f64_bits", out, x, x, x, 6, grid=1, block=32)
    want = [struct.unpack("<q", struct.pack("<d", v))[0] ^ struct.unpack("<i", struct.pack("<f", v))[0] for v in values]
    assert out.values() == want


@builds("arithmetic")
def test_float_classes(build: str) -> None:
    here = machine(build)
    x = here.buffer("f", ODD)
    out = here.buffer("i", [0] * len(ODD))
    here.run("f32_classes", out, x, x, x, len(ODD), grid=1, block=32)
    want = [
        (v != v) + 2 * math.isinf(v) + 4 * math.isfinite(v) + 8 * (math.copysign(1, v) < 0) for v in map(single, ODD)
    ]
    assert out.values() == want


def test_machine_is_shared_by_tests_that_leave_it_alone() -> None:
    """The launches above share only the variables of the module, and these kernels have none."""
    assert not machine("arithmetic.sm75").code.variables


def away_from_zero(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


# name -> (f, largest operand, ulps); the bounds of the CUDA programming guide, plus a half for the reference
FUNCTIONS: dict[str, tuple[Callable[..., float], float, float]] = {
    "f32_sin": (lambda x, y: math.sin(x), 1e6, 2.5),
    "f32_cos": (lambda x, y: math.cos(x), 1e6, 2.5),
    "f32_exp": (lambda x, y: math.exp(x), 80, 2.5),
    "f32_exp2": (lambda x, y: 2.0**x, 100, 2.5),
    "f32_expm1": (lambda x, y: math.expm1(x), 80, 1.5),
    "f32_log": (lambda x, y: math.log(abs(x)), 1e6, 1.5),
    "f32_log2": (lambda x, y: math.log2(abs(x)), 1e6, 1.5),
    "f32_log10": (lambda x, y: math.log10(abs(x)), 1e6, 2.5),
    "f32_log1p": (lambda x, y: math.log1p(abs(x)), 1e6, 1.5),
    "f32_pow": (lambda x, y: abs(x) ** y, 8, 4.5),
    "f32_tanh": (lambda x, y: math.tanh(x), 8, 2.5),
    "f32_sinh": (lambda x, y: math.sinh(x), 8, 3.5),
    "f32_cosh": (lambda x, y: math.cosh(x), 8, 2.5),
    "f32_asin": (lambda x, y: math.asin(x), 1, 2.5),
    "f32_acos": (lambda x, y: math.acos(x), 1, 2.5),
    "f32_atan": (lambda x, y: math.atan(x), 1e3, 2.5),
    "f32_atan2": (lambda x, y: math.atan2(x, y), 1e3, 3.5),
    "f32_hypot": (lambda x, y: math.hypot(x, y), 1e6, 3.5),
    "f32_cbrt": (lambda x, y: math.copysign(abs(x) ** (1 / 3), x), 1e6, 1.5),
    "f32_rsqrt": (lambda x, y: 1 / math.sqrt(abs(x)), 1e6, 2.5),
    "f32_erf": (lambda x, y: math.erf(x), 3, 2.5),
    "f32_erfc": (lambda x, y: math.erfc(x), 3, 4.5),
    "f32_fmod": (lambda x, y: math.fmod(x, y), 1e3, 0.5),
    "f64_sin": (lambda x, y: math.sin(x), 1e6, 2.5),
    "f64_cos": (lambda x, y: math.cos(x), 1e6, 2.5),
    "f64_exp": (lambda x, y: math.exp(x), 600, 1.5),
    "f64_log": (lambda x, y: math.log(abs(x)), 1e9, 1.5),
    "f64_pow": (lambda x, y: abs(x) ** y, 20, 2.5),
    "f64_tanh": (lambda x, y: math.tanh(x), 8, 1.5),
    "f64_atan2": (lambda x, y: math.atan2(x, y), 1e3, 2.5),
    "f64_erf": (lambda x, y: math.erf(x), 3, 2.5),
    "f64_cbrt": (lambda x, y: math.copysign(abs(x) ** (1 / 3), x), 1e6, 2.5),
}


def ulps(got: float, want: float, bits: int) -> float:
    """Return the distance of two floats in units of the last place."""
    if got == want or (got != got and want != want):
        return 0.0
    if not math.isfinite(got) or not math.isfinite(want):
        return math.inf
    precision, least = (24, -149) if bits == 32 else (53, -1074)
    return abs(got - want) / math.ldexp(1.0, max(math.frexp(max(abs(got), abs(want)))[1] - precision, least))


FAST = ("f32_sin", "f32_cos", "f32_exp", "f32_exp2", "f32_rsqrt", "f32_hypot", "f32_tanh", "f32_erf")


@pytest.mark.parametrize(
    "build,name",
    [("math.sm75", name) for name in FUNCTIONS]
    + [("math.sm90_fast", name) for name in FUNCTIONS if name[1] == "6" or name in FAST],
)
def test_library_functions(build: str, name: str) -> None:
    function, largest, bound = FUNCTIONS[name]
    bits = int(name[1:3])
    if "fast" in build and bits == 32:
        bound, largest = 1e3, min(largest, 3.0)
    rng = random.Random(name)
    narrow = single if bits == 32 else float
    x = [narrow(rng.uniform(-largest, largest) * 10.0 ** -rng.randint(0, 4)) for _ in range(96)]
    y = [narrow(rng.uniform(-4, 4)) for _ in range(96)]
    here = machine(build)
    code = "f" if bits == 32 else "d"
    out, a, b = here.buffer(code, [0.0] * 96), here.buffer(code, x), here.buffer(code, y)
    here.run(name, out, a, b, b, 96, grid=3, block=32)
    for got, p, q in zip(out.values(), x, y):
        assert ulps(got, narrow(function(p, q)), bits) <= bound, (p, q, got)


# -- half precision


def half(value: float) -> float:
    """Round to float16."""
    try:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


HALVES: dict[str, Callable[[float, float, float], float]] = {
    "f16_add": lambda x, y, z: x + y,
    "f16_sub": lambda x, y, z: x - y,
    "f16_mul": lambda x, y, z: x * y,
    "f16_fma": lambda x, y, z: float(Fraction(x) * Fraction(y) + Fraction(z)),
    "f16_saturate": lambda x, y, z: max(0.0, min(1.0, x + y)),
    "f16_extremes": lambda x, y, z: max(min(x, y), z),
    "f16_compare": lambda x, y, z: -z if x < y else abs(x),
    "f16_through_f32": lambda x, y, z: x * 1.5,
    "f16_whole": lambda x, y, z: float(int(x)),
    "f16_div": lambda x, y, z: x / y,
    "f16_sqrt": lambda x, y, z: math.sqrt(abs(x)),
}


@builds("half")
@pytest.mark.parametrize("name", HALVES)
def test_half_precision(build: str, name: str) -> None:
    rng = random.Random(name)
    columns = triples(
        lambda: half(rng.uniform(-8, 8) * 2.0 ** rng.randint(-10, 6)) or 1.0,
        160,
        1.0,
        -0.5,
        60000.0,
        6e-8,
        1.0009765625,
    )
    here = machine(build)
    out, *operands = (here.buffer("e", [half(v) for v in values]) for values in ([0.0] * 160, *columns))
    here.run(name, out, *operands, 160, grid=5, block=32)
    for got, row in zip(out.values(), zip(*columns)):
        want = half(HALVES[name](*map(half, row)))
        close = name in ("f16_div", "f16_sqrt") and abs(got - want) <= abs(want) * 2.0**-10
        assert got == want or close, row


def brain(value: Fraction) -> int:
    """Round a fraction to bfloat16, as bits, from a float32, whose 16 additional bits decide the direction."""
    nearest = exact(value, 32, "rz")
    bits = struct.unpack("<I", struct.pack("<f", nearest))[0]
    sticky = bits & 0xFFFF or Fraction(nearest) != value
    low = (bits & 0xFFFF) * 2 + (Fraction(nearest) != value)
    up = low > 0x10000 or low == 0x10000 and bits >> 16 & 1
    return (bits >> 16) + bool(up and sticky)


@pytest.mark.parametrize("name", ["bf16_add", "bf16_mul", "bf16_fma"])
def test_bfloat16(name: str) -> None:
    rng = random.Random(name)
    columns = triples(lambda: rng.randrange(1 << 16) & 0xBFFF | 0x2000, 128, 0x3F80, 0xBF81, 0x4049)
    numbers = [
        [Fraction(struct.unpack("<f", struct.pack("<I", bits << 16))[0]) for bits in column] for column in columns
    ]
    here = machine("half.sm90")
    out, *operands = (here.buffer("H", values) for values in ([0] * 128, *columns))
    here.run(name, out, *operands, 128, grid=4, block=32)
    for got, (x, y, z) in zip(out.values(), zip(*numbers)):
        value = {"bf16_add": x + y, "bf16_mul": x * y, "bf16_fma": x * y + z}[name]
        assert got == (brain(value) if value else 0), (x, y, z)


# -- memory


class Point(ctypes.Structure):
    _fields_ = [
        ("tag", ctypes.c_byte),
        ("small", ctypes.c_short),
        ("whole", ctypes.c_int),
        ("pair", ctypes.c_double * 2),
    ]


@builds("memory")
class TestMemory:
    def test_vector_add(self, build: str) -> None:
        here = Machine((DATA / f"{build}.ptx").read_text(), architecture=(12, 0))
        a, b = [i * 0.5 for i in range(300)], [i * 0.25 for i in range(300)]
        c = here.buffer("f", 300)
        here.run("vector_add", here.buffer("f", a), here.buffer("f", b), c, 300, grid=3, block=128)
        assert c.values() == [x + y for x, y in zip(a, b)]

    def test_strided_loop(self, build: str) -> None:
        here = machine(build)
        x, y = [float(i) for i in range(100)], [1.0] * 100
        out = here.buffer("f", y)
        here.run("saxpy_strided", out, here.buffer("f", x), 2.0, 100, grid=2, block=16)
        assert out.values() == [2 * v + 1 for v in x]

    def test_vectors(self, build: str) -> None:
        here = machine(build)
        to, given = here.buffer("f", 32), here.buffer("f", [float(i) for i in range(32)])
        small = here.buffer("B", list(range(32)))
        here.run("copy_vectors", to, given, small, 8, grid=1, block=32)
        assert to.values() == [float(i // 4 * 4 + 3 - i % 4) for i in range(32)]
        assert small.values() == [i ^ 1 for i in range(32)]

    def test_shared_tile(self, build: str) -> None:
        here = machine(build)
        width, height = 20, 13
        to = here.buffer("f", width * height)
        given = here.buffer("f", [float(i) for i in range(width * height)])
        here.run("transpose", to, given, width, height, grid=(3, 2), block=(8, 8))
        assert to.values() == [float(y * width + x) for x in range(width) for y in range(height)]

    def test_tiled_product(self, build: str) -> None:
        here = machine(build)
        rng = random.Random(1)
        a, b = ([float(rng.randint(-9, 9)) for _ in range(32 * 32)] for _ in range(2))
        c = here.buffer("f", 32 * 32)
        here.run("matmul_tiled", here.buffer("f", a), here.buffer("f", b), c, 32, grid=(2, 2), block=(16, 16))
        assert c.values() == [
            sum(a[i * 32 + k] * b[k * 32 + j] for k in range(32)) for i in range(32) for j in range(32)
        ]

    def test_dynamic_shared(self, build: str) -> None:
        here = machine(build)
        data = here.buffer("i", list(range(40)))
        here.run("reverse_dynamic", data, 40, block=40, shared=160)
        assert data.values() == list(range(39, -1, -1))

    def test_local_array(self, build: str) -> None:
        here = machine(build)
        given = [(i * 37 + 11) % 50 for i in range(20)]
        out = here.buffer("i", 20)
        here.run("local_array", out, here.buffer("i", given), 20, block=20)
        want = []
        for i in range(20):
            kept = [given[(i + k) % 20] * k for k in range(16)]
            total = sum(kept[(k * 7 + given[i]) & 15] for k in range(16))
            p = given[i] & 15
            kept[p], kept[3] = kept[3], kept[p]
            want.append(total * 31 + kept[3])
        assert out.values() == want

    def test_variables_and_function_pointers(self, build: str) -> None:
        here = Machine((DATA / f"{build}.ptx").read_text(), architecture=(12, 0))
        out, constants = here.buffer("f", 8), here.buffer("d", 8)
        here.run("globals", out, constants, block=8)
        table = [1.5, -2.25, 3.0, single(1e-3)]
        want = [
            single(single(t * 2) + (single(t * t) if i & 1 else t + t))
            for i, t in ((i, table[i & 3]) for i in range(8))
        ]
        assert out.values()[1:] == want[1:] and out.values()[0] == ord("e")
        assert constants.values() == [[0.25, 0.5, 0.25][i % 3] for i in range(8)]
        variables = here.code.variables
        assert bytes(variables["counter"].data) == (12).to_bytes(4, "little")
        assert (
            bytes(variables["managed"].data)[:4] == (42).to_bytes(4, "little")
            and variables["managed"].kind == "managed"
        )

    def test_structures_by_value(self, build: str) -> None:
        here = machine(build)
        given = Point(5, -300, 70000, (ctypes.c_double * 2)(1.25, -8.0))
        out = here.buffer("B", bytes(ctypes.sizeof(Point) * 4))
        here.run("structures", out, bytes(given), 4, block=4)
        for i in range(4):
            point = Point.from_buffer_copy(out.raw(), i * ctypes.sizeof(Point))
            assert (point.tag, point.small, point.whole) == (5 + i, -300, 69999)
            assert list(point.pair) == [1.25 + i * 0.5, [1.25, -8.0][i & 1]]

    def test_recursion(self, build: str) -> None:
        here = machine(build)
        out = here.buffer("i", 12)
        here.run("recursion", out, block=12)
        assert out.values() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]

    def test_printf(self, build: str, capsys: pytest.CaptureFixture) -> None:
        here = machine(build)
        here.run("printing", 3, 1.5, here.buffer("B", b"word\0"), block=3)
        assert capsys.readouterr().out.splitlines() == [
            f"thread {t} of 3: word {1.5 * t:5.2f} {t + 250:x} {chr(97 + t)}%" for t in range(3)
        ]

    def test_assert(self, build: str, capsys: pytest.CaptureFixture) -> None:
        here = machine(build)
        here.run("asserting", 2, block=2)
        with pytest.raises(
            Fault, match=r"memory.cu:\d+.*thread: \[2,0,0\] Assertion `threadIdx.x < n` failed"
        ) as caught:
            here.run("asserting", 2, block=3)
        assert caught.value.code == 710 and "Assertion" in capsys.readouterr().out

    def test_device_heap(self, build: str) -> None:
        here = machine(build)
        out = here.buffer("Q", 4)
        here.run("heap", out, block=4)
        addresses = out.values()
        assert addresses[1] == addresses[3] == 0
        for t in (0, 2):
            assert bytes(here.space.window(addresses[t] + 4, 4)) == t.to_bytes(4, "little")
            here.space.free(addresses[t])

    def test_narrow_types(self, build: str) -> None:
        here = machine(build)
        a, b = [-128, -1, 0, 127], [0, 65535, 300, 7]
        first, second, out = here.buffer("b", a), here.buffer("H", b), here.buffer("q", 4)
        here.run("bytes_and_shorts", first, second, out, block=4)
        assert out.values() == [x * y for x, y in zip(a, b)]
        assert first.values() == [wrap(x - 100, 8, True) for x in a]
        assert second.values() == [y * 3 & 0xFFFF for y in b]
