"""The corpus: what nvcc makes of CUDA C for many architectures, each kernel checked against NumPy or exact arithmetic.

tests/data/corpus/ has the CUDA C, the PTX and the script that makes one of the other. Builds for a newer architecture or
PTX version than the device's are skipped by name.
"""
from __future__ import annotations

import ctypes
import math
import random
import re
import statistics
import struct
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence, Union

import pytest

np = pytest.importorskip("numpy")

from tests.subject import module, rawcuda

CORPUS = Path(__file__).resolve().parent.parent / "data" / "corpus"
_HEADER = re.compile(r"\.version\s+(\d+)\.(\d+)\s+\.target\s+sm_(\d+)(\d)")
# .version that each driver takes, newest first
VERSIONS = ((13000, (9, 0)), (12090, (8, 8)), (12080, (8, 7)), (12070, (8, 6)), (12050, (8, 5)), (12040, (8, 4)), (12030, (8, 3)), (12020, (8, 2)),
            (12010, (8, 1)), (12000, (8, 0)), (11080, (7, 8)), (11070, (7, 7)), (11060, (7, 6)), (11050, (7, 5)), (11040, (7, 4)))
NEWEST = (12, 0)


class Build:
    """One file of PTX, loaded."""

    def __init__(self, device: Any, path: Path) -> None:
        self.device, self.source = device, path.stem.partition(".")[0]
        self.name = path.stem.partition(".")[2]
        self.fast = "fast" in self.name
        self.loaded = device.load(path)
        self.kernels = set(self.loaded.names)

    def run(self, kernel: str, *arguments: Any, grid: Any = 1, block: Any = 1, shared: int = 0, cooperative: bool = False) -> Any:
        """Launch; arrays go to the device and come back: one as it is, more in a list."""
        given = [self.device.upload(np.ascontiguousarray(a)) if isinstance(a, np.ndarray) else a for a in arguments]
        self.loaded[kernel].launch(*given, grid=grid, block=block, shared_bytes=shared, cooperative=cooperative)
        back = [np.asarray(g.download()) for a, g in zip(arguments, given) if isinstance(a, np.ndarray)]
        self.device.synchronize()
        return back[0] if len(back) == 1 else back

    def map(self, kernel: str, out: Any, *columns: Any) -> Any:
        """Run out[i] = f(a[i], b[i], c[i]); a missing column is the first again."""
        n = len(columns[0])
        made = np.zeros(n, out) if not isinstance(out, np.ndarray) else out
        return self.run(kernel, made, *(columns + columns[:1] * 2)[:3], n, grid=(n + 63) // 64, block=64)[0]


@pytest.fixture(scope="module")
def newest(library: Any) -> Iterator[None]:
    """Let the emulator be a device that takes every build."""
    if library is None:
        yield
        return
    attributes = module("emulator.attributes").ATTRIBUTES
    kept = attributes[75], attributes[76]
    attributes[75], attributes[76] = NEWEST
    yield
    attributes[75], attributes[76] = kept


@pytest.fixture(scope="module")
def built(request: Any, newest: None) -> Iterator[Build]:
    """Load one build, or skip it where the device does not take it."""
    path = request.param
    device = rawcuda.Device(0)
    found = _HEADER.search(path.read_text(errors="replace"))
    assert found, path
    version, target = (int(found[1]), int(found[2])), (int(found[3]), int(found[4]))
    if target > tuple(device.compute_capability):
        pytest.skip(f"{path.name} is for sm_{found[3]}{found[4]}")
    if version > next((v for least, v in VERSIONS if rawcuda.cu.version >= least), (7, 3)):
        pytest.skip(f"{path.name} is PTX {found[1]}.{found[2]}, newer than the driver")
    build = Build(device, path)
    yield build
    build.loaded.close()


def builds(source: str) -> Any:
    """Give each committed build of one source."""
    paths = sorted(CORPUS.glob(f"{source}.*.ptx"))
    assert paths, source
    return pytest.mark.parametrize("built", [pytest.param(path, id=path.stem) for path in paths], indirect=True)


def rng(seed: object) -> random.Random:
    """Make numbers that depend on a name only."""
    return random.Random(str(seed))


# -- exact arithmetic

FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}


def rounded(value: Union[Fraction, int], format: str, mode: str = "rn") -> float:
    """Round a rational number to a format; the result fits a Python float."""
    precision, least, most = FORMATS[format]
    value = Fraction(value)
    size = abs(value)
    if not size:
        return 0.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    count, rest = divmod(size, unit)
    up = {"rn": 2 * rest > unit or (2 * rest == unit and count % 2 == 1), "rz": False,
          "ru": rest > 0 and value > 0, "rd": rest > 0 and value < 0}[mode]
    size = (count + up) * unit
    if size >= Fraction(2) ** (most + 1):
        away = mode == "rn" or mode == ("ru" if value > 0 else "rd")
        size_out = math.inf if away else float((2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** most)
        return size_out if value > 0 else -size_out
    return float(size) if value > 0 else -float(size)


def root(value: Fraction) -> Fraction:
    """Give a square root to 300 bits, with a sticky last one."""
    scale = 1 << 600
    top = value.numerator * value.denominator * scale
    found = math.isqrt(top)
    return Fraction(2 * found + (found * found != top), 2 * value.denominator * math.isqrt(scale))


def same(got: Any, want: Any, note: object = "") -> None:
    """Compare numbers one by one; NaN equals NaN, and zeros have signs."""
    got, want = np.asarray(got).ravel().tolist(), list(want)
    assert len(got) == len(want)
    for at, (g, w) in enumerate(zip(got, want)):
        if w != w:
            assert g != g, (note, at, g, w)
        else:
            assert g == w and (not isinstance(w, float) or math.copysign(1, g) == math.copysign(1, w)), (note, at, g, w)


def within(ulps: float, got: Any, want: Sequence[float], format: str, note: object, absolute: float = 0.0) -> None:
    """Compare with a bound in units of the last place."""
    precision, least, most = FORMATS[format]
    largest = (2 - 2.0 ** (1 - precision)) * 2.0 ** most
    for at, (g, w) in enumerate(zip(np.asarray(got).ravel().tolist(), want)):
        if w != w or g != g:
            assert w != w and g != g, (note, at, g, w)
            continue
        if math.isinf(g) or abs(w) > largest:
            assert abs(w) >= largest * (1 - ulps * 2.0 ** -precision) and math.copysign(1, g) == math.copysign(1, w), (note, at, g, w)
            continue
        exponent = max(math.frexp(float(w))[1] - 1, least) if w else least
        unit = 2.0 ** (exponent - precision + 1)
        error = abs(Fraction(g) - Fraction(*w.as_integer_ratio()))
        assert error <= Fraction(ulps + 1e-6) * Fraction(unit) + Fraction(absolute), (note, at, g, w, float(error / Fraction(unit)))


def wrap(value: int, bits: int, signed: bool) -> int:
    """Cut an integer to a C type."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits) if signed else value


def quotient(a: int, b: int) -> int:
    """Divide as C does."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def rest(a: int, b: int) -> int:
    """Give the remainder as C does."""
    return a - quotient(a, b) * b


# -- copies

@builds("copies")
@pytest.mark.parametrize("kernel,width", [("copy_1", 1), ("copy_2", 2), ("copy_4", 4), ("copy_8", 8), ("copy_16", 16), ("copy_long2", 16),
                                          ("copy_char4", 4), ("copy_short4", 8)])
def test_copies(built: Build, kernel: str, width: int) -> None:
    for stride in (1, 3):
        source = np.frombuffer(rng(kernel).getrandbits(8 * 300 * width).to_bytes(300 * width, "little"), "u1").reshape(300, width)
        target = np.zeros((100, width), "u1")
        assert (built.run(kernel, target, source, 100, stride, grid=2, block=32)[0] == source[:100 * stride:stride]).all()


@builds("copies")
def test_qualifiers(built: Build) -> None:
    source = np.arange(64, dtype="f4")
    got, _, flag = built.run("qualifiers", np.zeros(64, "f4"), source, np.zeros(1, "i4"), 64, grid=2, block=32)
    assert flag[0] == 7 and (got == source * 21 + (np.arange(64) // 4 * 4 + 3) + 7).all()


@builds("copies")
def test_packed_records(built: Build) -> None:
    kind = np.dtype([("tag", "u1"), ("number", "<i4"), ("small", "<u2"), ("wide", "<f8")])
    source = np.zeros(40, kind)
    source["tag"], source["number"], source["small"], source["wide"] = np.arange(40), np.arange(40) * -9999, np.arange(40) * 17, np.arange(40) / 3
    raw = built.run("packed_records", np.zeros(40 * kind.itemsize, "u1"), source.view("u1"), 40, grid=2, block=32)[0]
    want = source.copy()
    want["number"] += want["tag"]
    want["small"] ^= 0x0F0F
    want["wide"] *= 2
    assert raw.tobytes() == want[::-1].tobytes()


@builds("copies")
def test_structures_by_value(built: Build) -> None:
    class Inner(ctypes.Structure):
        _fields_ = [("c", ctypes.c_byte), ("s", ctypes.c_short * 3)]

    class Outer(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("inner", Inner * 2), ("d", ctypes.c_double), ("tail", ctypes.c_ubyte * 5)]

    inner = Inner(-5, (ctypes.c_short * 3)(3, -2, 500))
    outer = Outer(-77, (Inner * 2)(inner, Inner(9, (ctypes.c_short * 3)(7, 8, -9))), 1234.75, (ctypes.c_ubyte * 5)(250, 1, 2, 3, 99))
    odd = bytes([1, 2, 250, 4, 5, 6, 7])
    got = built.run("by_value", np.zeros(32, "i4"), bytes(outer), odd, -3, -300, 1, struct.pack("<3f", 1.5, 2.5, 3.5), bytes(inner), -8.9, block=32)
    for i, value in enumerate(got.tolist()):
        mine = outer.a + outer.inner[i % 2].c + outer.inner[i % 2].s[i % 3] + 1234 + outer.tail[i % 5]
        letter = odd[i % 7] - 256 * (odd[i % 7] > 127)
        assert value == mine * 3 + letter - 3 - 300 + 1 + 20 + inner.c * inner.s[i % 3] - 8


@builds("copies")
def test_big_parameters(built: Build) -> None:
    values = np.arange(300, dtype="i4") ** 2
    got = built.run("big_parameter", np.zeros(100, "i4"), values.tobytes(), 100, block=32)
    assert got.tolist() == [int(values[i * 7 % 300]) for i in range(100)]
    got = built.run("changed_parameter", np.zeros(8, "i4"), values.tobytes(), block=8)
    assert got.tolist() == [i * i + 5 + 9 for i in range(8)]


@builds("copies")
def test_local_arrays(built: Build) -> None:
    source = np.array([rng(i).randrange(-1000, 1000) for i in range(8 * 16)], "i4")
    assert (built.run("local_sort", np.zeros(128, "i4"), source, grid=2, block=4)[0].reshape(8, 16) == np.sort(source.reshape(8, 16))).all()
    words = np.array([rng(i).getrandbits(64) for i in range(8)], "u8")
    for turn in (0, 3, 9):
        halves = np.roll(words.view("u1").reshape(8, 8), -(turn & 7), 1).copy().view("u2")
        halves[:, turn & 3] += 0x101
        assert built.run("local_bytes", np.zeros(8, "u8"), words, turn, grid=2, block=4)[0].tolist() == halves.view("u8").ravel().tolist()


@builds("copies")
def test_templates(built: Build) -> None:
    got = built.run("matrix_power", np.zeros((4, 3, 3), "i8"), 50, block=4)
    for k in range(4):
        matrix = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], object)
        want = np.eye(3, dtype=object)
        for _ in range(50 + k):
            want = want @ matrix
        assert [wrap(int(x), 64, True) for x in want.ravel()] == got[k].ravel().tolist()


@builds("copies")
def test_bounds_strides_and_clocks(built: Build) -> None:
    assert built.loaded["bounded"].attributes["max_threads_per_block"] == 64
    assert built.run("bounded", np.zeros(96, "i4"), grid=2, block=48).tolist() == list(range(96))
    got = built.run("strides_3d", np.zeros(4 * 6 * 4, "i4"), 24, 4, 1, grid=(2, 3, 2), block=(2, 2, 2)).reshape(4, 6, 4)
    x, y, z = np.indices((4, 6, 4))
    assert (got == x + 100 * y + 10000 * z).all()
    after, _, now = built.run("clocks", np.zeros(3, "i8"))
    assert after == 1 and now == 1


# -- half precision

SPECIAL_HALVES = {"f16": [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3555, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00],
                  "bf16": [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF80, 0x3EAB, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0]}


def number(format: str, bits: int) -> float:
    """Give what 16 bits stand for."""
    if format == "f16":
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])


def half_bits(format: str, value: float) -> int:
    """Give the 16 bits of a number that fits."""
    if value != value:
        return 0x7FFF
    if format == "f16":
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16


def half_triples(format: str, seed: object, count: int = 160) -> "list[list[int]]":
    """Make three columns of bits: corners, then numbers of like size."""
    random_ = rng(seed)
    corners = SPECIAL_HALVES[format]
    rows = [[random_.choice(corners) for _ in range(3)] for _ in range(count // 2)]
    middle, spread = (15, 6) if format == "f16" else (127, 9)
    digits = 10 if format == "f16" else 7
    rows += [[random_.getrandbits(1) << 15 | random_.randint(middle - spread, middle + spread) << digits | random_.getrandbits(digits)
              for _ in range(3)] for _ in range(count - len(rows))]
    return [list(column) for column in zip(*rows)]


def ieee(operation: "Callable[..., Fraction]", plain: "Callable[..., float]", format: str, mode: str = "rn") -> "Callable[..., float]":
    """Make an operation on finite numbers exact and round it once; leave the others to Python."""
    def compute(*values: float) -> float:
        try:
            rough = plain(*values)
        except ZeroDivisionError:
            x, y = values[:2]
            return math.nan if not x or x != x else math.copysign(math.inf, x) * math.copysign(1, y)
        except ValueError:
            return math.nan
        if not all(map(math.isfinite, values)):
            return rough
        try:
            exact = operation(*map(Fraction, values))
        except (ZeroDivisionError, ValueError):
            return rough
        if not exact:
            return -0.0 if mode == "rd" and not rough and cancels(values, operation) else rough if not rough else math.copysign(0.0, rough)
        return rounded(exact, format, mode)

    def cancels(values: "tuple[float, ...]", operation: object) -> bool:
        if operation is ADD:
            x, y = values
        elif operation is FMA:
            x, y = math.copysign(1, values[0]) * values[1] if values[0] else math.copysign(0.0, values[0]) * math.copysign(1, values[1]), values[2]
        else:
            return False
        return not (not x and not y and math.copysign(1, x) == math.copysign(1, y) == 1)
    return compute


ADD: "Callable[..., Fraction]" = lambda x, y: x + y
FMA: "Callable[..., Fraction]" = lambda x, y, z: x * y + z


def clean(x: float) -> float:
    """Make a NaN and what is below zero +0, as relu does, but keep the NaN."""
    return x if x != x else max(x, 0.0) + 0.0


def halves(format: str) -> "dict[str, tuple[float, Callable[..., float]]]":
    """List kernel -> (ulps, f(x, y, z))."""
    add = ieee(ADD, lambda x, y: x + y, format)
    mul = ieee(lambda x, y: x * y, lambda x, y: x * y, format)
    fma = ieee(FMA, lambda x, y, z: x * y + z, format)
    return {
        "add": (0, lambda x, y, z: add(x, y)),
        "sub": (0, lambda x, y, z: add(x, -y)),
        "mul": (0, lambda x, y, z: mul(x, y)),
        "fma": (0, fma),
        "div": (1, lambda x, y, z: ieee(lambda a, b: a / b, lambda a, b: a / b, format)(x, y)),
        "min": (0, lambda x, y, z: x if y != y else y if x != x else min(x, y) if x != y else x if math.copysign(1, x) < 0 else y),
        "max_nan": (0, lambda x, y, z: math.nan if x != x or y != y else max(x, y) if x != y else x if math.copysign(1, x) > 0 else y),
        "neg": (0, lambda x, y, z: -x),
        "abs": (0, lambda x, y, z: abs(x)),
        "fma_relu": (0, lambda x, y, z: clean(fma(x, y, z))),
        "add_sat": (0, lambda x, y, z: min(max(add(x, y), 0.0), 1.0) + 0.0 if add(x, y) == add(x, y) else 0.0),
        "sqrt": (1, lambda x, y, z: x if x != x or not x or x == math.inf else math.nan if x < 0 else rounded(root(Fraction(x)), format)),
        "rcp": (1, lambda x, y, z: ieee(lambda a: 1 / a, lambda a: 1 / a if a else math.copysign(math.inf, a), format)(x) if x else math.copysign(math.inf, x)),
        "floor": (0, lambda x, y, z: x if not math.isfinite(x) else math.copysign(float(math.floor(x)), x)),
        "rint": (0, lambda x, y, z: x if not math.isfinite(x) else math.copysign(float(round(x)), x)),
        "trunc": (0, lambda x, y, z: x if not math.isfinite(x) else math.copysign(float(math.trunc(x)), x)),
        "exp": (2, lambda x, y, z: math.inf if x > 200 else math.exp(x)),
        "log2": (2, lambda x, y, z: math.nan if x < 0 or x != x else -math.inf if not x else math.log2(x)),
        "sin": (2, lambda x, y, z: math.sin(x) if math.isfinite(x) else math.nan),
        "cos": (2, lambda x, y, z: math.cos(x) if math.isfinite(x) else math.nan),
    }


@builds("halves")
@pytest.mark.parametrize("format", ["f16", "bf16"])
def test_halves(built: Build, format: str) -> None:
    for name, (ulps, expected) in halves(format).items():
        kernel = f"{format}_{name}"
        if kernel not in built.kernels:
            continue
        columns = half_triples(format, kernel)
        got = built.map(kernel, "u2", *(np.array(column, "u2") for column in columns))
        numbers = [[number(format, bits) for bits in column] for column in columns]
        want = [expected(*row) for row in zip(*numbers)]
        have = [number(format, bits) for bits in got.tolist()]
        if ulps:
            within(ulps, have, want, format, (kernel, built.name))
        else:
            for h, w, row in zip(have, want, zip(*numbers)):
                assert h == w and (h or name in ("min", "max_nan", "relu") or math.copysign(1, h) == math.copysign(1, w)) or h != h and w != w, (kernel, row, h, w)


@builds("halves")
@pytest.mark.parametrize("format", ["f16", "bf16"])
def test_comparisons_of_halves(built: Build, format: str) -> None:
    if f"{format}_compare" not in built.kernels:
        pytest.skip(f"no {format} arithmetic below sm_80")
    columns = half_triples(format, "compare")
    got = built.map(f"{format}_compare", "i4", *(np.array(column, "u2") for column in columns))
    for value, xb, yb in zip(got.tolist(), *columns[:2]):
        x, y = number(format, xb), number(format, yb)
        odd = x != x or y != y
        assert value == (x < y) + 2 * (x >= y) + 4 * (x != y and not odd) + 8 * (x == y or odd) + 16 * (x != x) + 32 * (x > y or odd), (x, y)


@builds("halves")
@pytest.mark.parametrize("format", ["f16", "bf16"])
def test_pairs_of_halves(built: Build, format: str) -> None:
    if f"{format}_pairs" not in built.kernels:
        pytest.skip(f"no {format} arithmetic below sm_80")
    columns = half_triples(format, "pairs", 200)
    words = [np.array(column, "u2").view("u4") for column in columns]
    got = built.map(f"{format}_pairs", "u4", *words).view("u2")
    table = halves(format)
    fma, mul, sub = table["fma"][1], table["mul"][1], table["sub"][1]
    for bits, row in zip(got.tolist(), zip(*columns)):
        x, y, z = (number(format, b) for b in row)
        want = fma(x, y, sub(z, mul(x, x, 0), 0))
        have = number(format, bits)
        # nvcc may fuse z - x * x
        fused = fma(x, y, fma(-x, x, z))
        assert have == want or have == fused or (have != have and want != want), (x, y, z, have, want)
    got = built.map(f"{format}_pair_masks", "u4", *words)
    less = (lambda x, y: x < y) if format == "f16" else (lambda x, y: x >= y)
    for value, *row in zip(got.tolist(), *([list(zip(c[::2], c[1::2])) for c in columns])):
        x, y, z = ([number(format, b) for b in pair] for pair in row)
        mask = sum(0xFFFF << 16 * k for k in range(2) if less(x[k], y[k]))
        every = all(y[k] == z[k] for k in range(2)) if format == "f16" else all(y[k] != z[k] and y[k] == y[k] and z[k] == z[k] for k in range(2))
        assert value == mask ^ (0xFF00FF if every else 0), (x, y, z)
    if format == "f16":
        got = built.map("f16_pair_swap", "u4", *words).view("u2").reshape(-1, 2)[:, ::-1].ravel()
        for bits, x, y in zip(got.tolist(), *columns[:2]):
            a, b = number("f16", x), number("f16", y)
            want = b if a != a else a if b != b else max(a, b)
            assert number("f16", bits) == want or want != want


def corners(code: str, seed: object) -> Any:
    """Make numbers of one type that conversions trip over."""
    random_ = rng(seed)
    if code[0] in "iu":
        bits = 8 * int(code[1])
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if code[0] == "i" else (0, (1 << bits) - 1)
        values = [0, 1, low, high, low + 1, high - 1, high // 2, high // 3] + [random_.randint(low, high) >> random_.randrange(bits) for _ in range(40)]
        values += [v for e in (11, 24, 53) for v in ((1 << e) + 1, (1 << e) + 3, (1 << e + 1) + 2, (1 << e + 5) - 1) if v <= high]
        return np.array(values, code)
    values = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 1e-8, -1e-8, 127.5, 128.0, 255.5, -128.5, -129.0, 32767.5, 65535.5, 65520.0, 65519.9, -32769.0,
              2147483647.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967295.0, 4294967296.0, 9.2e18, 9.3e18, 1.8e19, 1.9e19, 1e30, -1e30, 3.4e38, 1e-40, -1e-45,
              5.96e-8, 2.9e-8, 6.1e-5, 1 / 3, math.inf, -math.inf, math.nan]
    values += [random_.uniform(-2, 2) * 2.0 ** random_.randint(-30, 66) for _ in range(60)]
    if code == "f8":
        values += [1e300, -1e300, 5e-324, 3.4028235677973366e38, 3.402823567797337e38, 1 + 2.0 ** -24, 1 + 2.0 ** -24 + 2.0 ** -50, 1e-46, 1e308]
    with np.errstate(over="ignore"):
        return np.array(values, code)


HALF_CONVERSIONS = {
    # kernel -> from, to, mode
    "f32_to_f16": ("f4", "f16", "rn"), "f32_to_f16_up": ("f4", "f16", "ru"), "f32_to_f16_down": ("f4", "f16", "rd"),
    "f32_to_f16_zero": ("f4", "f16", "rz"), "f64_to_f16": ("f8", "f16", "rn"), "i32_to_f16": ("i4", "f16", "rn"), "u64_to_f16": ("u8", "f16", "ru"),
    "f32_to_bf16": ("f4", "bf16", "rn"), "f32_to_bf16_zero": ("f4", "bf16", "rz"), "f32_to_bf16_up": ("f4", "bf16", "ru"),
    "f64_to_bf16": ("f8", "bf16", "rn"), "i32_to_bf16": ("i4", "bf16", "rn"),
}


@builds("halves")
def test_conversions_to_halves(built: Build) -> None:
    for kernel, (source, format, mode) in HALF_CONVERSIONS.items():
        values = corners(source, kernel)
        got = built.map(kernel, "u2", values)
        for bits, value in zip(got.tolist(), values.tolist()):
            have = number(format, bits)
            if value != value:
                assert have != have
                continue
            want = value if isinstance(value, float) and math.isinf(value) else math.copysign(rounded(Fraction(value), format, mode), value)
            assert have == want and math.copysign(1, have) == math.copysign(1, want), (kernel, value, have, want)
    for kernel, format in (("f32s_to_pair", "f16"), ("f32s_to_bf16_pair", "bf16")):
        values = corners("f4", kernel)[:80]
        n = len(values) // 2
        got = built.map(kernel, np.zeros(n, "u4"), *(values.reshape(-1, 2),) * 3)
        for bits, value in zip(got.view("u2").tolist(), values.tolist()):
            have, want = number(format, bits), value if not math.isfinite(value) else rounded(Fraction(value), format)
            assert have == want or have != have and want != want


@builds("halves")
def test_conversions_from_halves(built: Build) -> None:
    integer = {"i4": (-2**31, 2**31 - 1), "u2": (0, 2**16 - 1), "i8": (-2**63, 2**63 - 1)}
    for kernel, format, to, turn in (("f16_to_i32", "f16", "i4", math.floor), ("f16_to_u16", "f16", "u2", math.trunc), ("f16_to_i64", "f16", "i8", round),
                                     ("bf16_to_i32", "bf16", "i4", math.trunc)):
        bits = np.array(half_triples(format, kernel)[0], "u2")
        low, high = integer[to]
        for have, b in zip(built.map(kernel, to, bits).tolist(), bits.tolist()):
            x = number(format, b)
            want = 0 if x != x else high if x == math.inf else low if x == -math.inf else max(low, min(high, turn(x)))
            assert have == want or x != x, (kernel, x, have, want)
    for kernel, format in (("f16_to_f32", "f16"), ("bf16_to_f32", "bf16")):
        bits = np.array(half_triples(format, kernel)[0], "u2")
        same(built.map(kernel, "f4", bits), [number(format, b) for b in bits.tolist()], kernel)
    bits = np.array(half_triples("f16", "pairs")[0], "u2")
    got = built.map("pair_to_f32s", np.zeros((len(bits) // 2, 2), "f4"), *(bits.view("u4"),) * 3)
    same(got, [number("f16", b) for b in bits.tolist()])


# -- threads together

@builds("threads")
def test_transposes(built: Build) -> None:
    for kernel, code, parts in (("transpose_float", "f4", 1), ("transpose_byte", "u1", 1), ("transpose_double2", "f8", 2)):
        source = np.arange(37 * 21 * parts).astype(code).reshape(21, 37, parts)
        got = built.run(kernel, np.zeros((37, 21, parts), code), source, 37, 21, grid=(3, 2), block=(16, 16))[0]
        assert (got == source.transpose(1, 0, 2)).all()


@builds("threads")
def test_reductions(built: Build) -> None:
    for kernel, code in (("reduce_int", "i4"), ("reduce_float", "f4"), ("reduce_double", "f8"), ("reduce_long", "i8")):
        source = np.arange(1000).astype(code) * 3 - 700
        got = built.run(kernel, np.zeros(4, code), source, 1000, grid=4, block=64)[0]
        assert got.tolist() == [sum(source[(np.arange(1000) // 64 % 4) == b].tolist()) for b in range(4)]
    source = np.array([rng(i).randrange(-10**6, 10**6) for i in range(256)], "i4")
    assert built.run("tree_reduce", np.array([-2**31], "i4"), source, grid=4, block=64, shared=256)[0][0] == source.max()


@builds("threads")
def test_scan(built: Build) -> None:
    source = np.array([rng(i).randrange(-50, 50) for i in range(192)], "i4")
    got = built.run("scan_block", np.zeros(192, "i4"), source, grid=2, block=96, shared=96 * 8 + 2)[0]
    sums = source.reshape(2, 96).cumsum(1)
    assert (got.reshape(2, 96) == sums * 2 - sums[:, -1:]).all()


@builds("threads")
def test_matrix_product(built: Build) -> None:
    a, b = (np.array([rng(k + i).randrange(-8, 8) for i in range(256)], "f4").reshape(16, 16) for k in (0, 1000))
    assert (built.run("matrix_product", np.zeros((16, 16), "f4"), a, b, 16, grid=(2, 2), block=(8, 8))[0] == a @ b).all()


@builds("threads")
def test_histogram(built: Build) -> None:
    source = np.frombuffer(rng("h").getrandbits(8 * 2000).to_bytes(2000, "little"), "u1")
    got = built.run("histogram_shared", np.zeros(64, "u4"), source, 2000, grid=3, block=64)[0]
    assert (got == np.bincount(source >> 2, minlength=64)).all()


@builds("threads")
def test_shuffles(built: Build) -> None:
    v = [rng(i).randrange(-1000, 1000) for i in range(32)]
    got = built.run("shuffles", np.zeros((32, 10), "i4"), np.array(v, "i4"), block=32)[0].tolist()
    for t in range(32):
        up = t - 2 if t % 16 >= 2 else t
        down = t + 3 if t % 4 + 3 < 4 else t
        assert got[t] == [v[5], v[t // 8 * 8 + (t + 3) % 8], v[up], v[down], v[t ^ 7], v[t ^ 20] if (t ^ 20) // 16 <= t // 16 else v[t], v[31 - t],
                          v[max(t - 1, 0)], v[31], v[3] if t % 2 else 0], t


@builds("threads")
def test_votes(built: Build) -> None:
    v = [rng(i).randrange(95) for i in range(32)]
    got = built.run("votes", np.zeros((32, 12), "u4"), np.array(v, "i4"), block=32)[0].tolist()
    ballot = sum((x & 1) << i for i, x in enumerate(v))
    for t in range(32):
        match = lambda f: sum(1 << i for i, x in enumerate(v) if f(x) == f(v[t]))
        want = [ballot, any(x > 90 for x in v), 1, match(lambda x: x & 3), 0xFFFFFFFF, 1, match(lambda x: x & 1),
                sum(1 << i for i in range(10) if v[i] & 2) if t < 10 else 0, got[t][8], bin(ballot).count("1"), 2, 0]
        assert got[t] == want and got[t][8] <= 32, t


@builds("threads")
def test_reductions_of_warps(built: Build) -> None:
    v = [rng(i).randrange(-2**31, 2**31) for i in range(64)]
    got = built.run("warp_reduce", np.zeros((64, 7), "i4"), np.array(v, "i4"), block=64)[0]
    if "sm75" in built.name:
        assert not got.any()                       # compiled away below sm_80
        return
    for t in range(64):
        warp = v[t // 32 * 32:][:32]
        unsigned = [x & 0xFFFFFFFF for x in warp]
        every, some, odd = -1, 0, 0
        for x in unsigned:
            every, some, odd = every & x, some | x, odd ^ x
        best = max(unsigned[:7]) if t % 32 < 7 else 0
        assert got[t].tolist() == [wrap(x, 32, True) for x in (sum(warp), min(warp), max(warp), every, some, odd, best)]


@builds("threads")
def test_cooperative_groups(built: Build) -> None:
    v = [rng(i).randrange(1000) for i in range(64)]
    got = built.run("groups", np.zeros((64, 6), "i4"), np.array(v, "i4"), block=64)[0].tolist()
    for t in range(64):
        tile = v[t // 8 * 8:][:8]
        assert got[t][:5] == [sum(tile), min(tile), sum(tile[:t % 8 + 1]), v[t ^ 3], t // 8 * 100 + t % 8]
        assert (got[t][5] > 0) == v[t] % 2


@builds("threads")
def test_grid_sync(built: Build) -> None:
    want = list(range(48))
    for _ in range(3):
        want = [want[i] + want[(i + 1) % 48] for i in range(48)]
    assert built.run("grid_sync", np.arange(48, dtype="i4"), 3, grid=3, block=16, cooperative=True).tolist() == want


@builds("threads")
def test_asynchronous_copies(built: Build) -> None:
    v = [rng(i).randrange(1000) for i in range(5 * 128)]
    got = built.run("pipeline", np.zeros(32, "i4"), np.array(v, "i4"), 5, block=32)[0]
    assert got.tolist() == [sum(v[k * 128 + (t * 4 + j * 33) % 128] * (k + 1) for k in range(5) for j in range(4)) for t in range(32)]


@builds("threads")
def test_last_block_named_barriers_aggregation(built: Build) -> None:
    v = [rng(i).randrange(1000) for i in range(256)]
    assert built.run("last_block", np.zeros(1, "i4"), np.array(v, "i4"), np.zeros(1, "i4"), np.zeros(4, "i4"), grid=4, block=64)[0][0] == sum(v)
    got = built.run("named_barriers", np.zeros(128, "i4"), block=128).tolist()
    assert got == [(t // 64 * 64 + 63 - t % 64) ** 2 for t in range(128)]
    counter, out, _ = built.run("aggregate", np.zeros(1, "i4"), np.zeros(256, "i4"), np.array(v, "i4"), block=256)
    chosen = [x for x in v if x % 3 == 0]
    assert counter[0] == len(chosen) and sorted(out[:len(chosen)].tolist()) == sorted(chosen)


# -- atomics

def floats_of(dtype: str) -> "Callable[[Any], Any]":
    return lambda values: np.array(values, dtype)


UPDATES: "dict[str, tuple[str, Any, Callable[[int, int], int]]]" = {
    "add_i32": ("i4", 7, lambda c, v: wrap(c + v, 32, True)), "sub_u32": ("u4", 7, lambda c, v: wrap(c - v, 32, False)), "min_i32": ("i4", 3, min),
    "max_u32": ("u4", 3, max), "and_b32": ("u4", 0xFFFFFFFF, lambda c, v: c & v), "or_b32": ("u4", 0, lambda c, v: c | v),
    "xor_b32": ("u4", 5, lambda c, v: c ^ v), "exch_b32": ("i4", 5, lambda c, v: v), "cas_b32": ("u4", 40, lambda c, v: v + 1 if c == v else c),
    "inc_u32": ("u4", 1, lambda c, v: 0 if c >= v else c + 1), "dec_u32": ("u4", 3, lambda c, v: v if c == 0 or c > v else c - 1),
    "add_u64": ("u8", 7, lambda c, v: wrap(c + v, 64, False)), "min_i64": ("i8", 3, min), "max_u64": ("u8", 3, max),
    "and_b64": ("u8", 2**64 - 1, lambda c, v: c & v), "or_b64": ("u8", 0, lambda c, v: c | v), "xor_b64": ("u8", 5, lambda c, v: c ^ v),
    "exch_b64": ("u8", 5, lambda c, v: v), "cas_b64": ("u8", 40, lambda c, v: wrap(v * 2, 64, False) if c == v else c),
    "cas_b16": ("u2", 40, lambda c, v: wrap(v + 1, 16, False) if c == v else c), "add_f32": ("f4", 0.5, lambda c, v: c + v),
    "exch_f32": ("f4", 0.5, lambda c, v: v), "add_f64": ("f8", 0.25, lambda c, v: c + v), "add_f16": ("f2", 0.5, lambda c, v: c + v),
    "block_add": ("i4", 7, lambda c, v: wrap(c + v, 32, True)), "system_max": ("i4", 7, max),
}


@builds("atomics")
@pytest.mark.parametrize("form", ["", "_shared", "_unread"])
def test_atomics(built: Build, form: str) -> None:
    """Replay: whatever the order was, each thread saw a state, and what it made of it is what another one saw."""
    for name, (code, start, update) in UPDATES.items():
        random_ = rng(name)
        if "f" in code:
            values = [float(random_.randrange(-40, 40)) for _ in range(40)]
        elif "cas" in name or "inc" in name or "dec" in name:
            values = [random_.randrange(38, 44) if "cas" in name else random_.randrange(1, 6) for _ in range(40)]
        else:
            bits = 8 * int(code[1])
            values = [random_.randrange(-(1 << bits - 1), 1 << bits - 1) if code[0] == "i" else random_.randrange(1 << bits) for _ in range(40)]
        given = np.array(values, code)
        cell = np.array([start, 0], code)
        if form == "_unread":
            ended = built.run(name + form, cell, given, 40, grid=2, block=32)[0][0].item()
            if name.startswith(("add", "sub", "min", "max", "and", "or", "xor", "block", "system")):
                want = np.array([start], code)[0].item()
                for v in given.tolist():
                    want = update(want, v)
                assert ended == want, (name, ended, want)
            continue
        ended, seen, _ = built.run(name + form, cell, np.zeros(40, code), given, 40, grid=1 if form else 2, block=64 if form else 32)
        replay(name, np.array([start], code)[0].item(), list(zip(seen.tolist(), given.tolist())), update, ended[0].item())


def replay(name: str, state: Any, steps: "list[tuple[Any, Any]]", update: "Callable[[Any, Any], Any]", ended: Any) -> None:
    """Find an order in which each step saw the state before it."""
    arcs: "dict[Any, list[Any]]" = {}
    for seen, value in steps:
        arcs.setdefault(seen, []).append(update(seen, value))
    path, stack = [], [state]                        # an Eulerian path through the states
    while stack:
        if arcs.get(stack[-1]):
            stack.append(arcs[stack[-1]].pop())
        else:
            path.append(stack.pop())
    assert len(path) == len(steps) + 1 and path[0] == ended, (name, path[0], ended, steps)


@builds("atomics")
def test_atomics_of_pairs(built: Build) -> None:
    values = [float(rng(i).randrange(-8, 8)) for i in range(64)]
    given, cell = np.array(values, "f2"), np.array([1.0, 2.0], "f2")
    want = [1.0 + sum(values[::2]), 2.0 + sum(values[1::2])]
    for form in ("", "_shared"):
        ended = built.run("add_f16x2" + form, cell.view("u4"), np.zeros(32, "u4"), given.view("u4"), 32, block=32)[0]
        assert ended.view("f2").tolist() == want
    brain = (np.array(values, "f4").view("u4") >> 16).astype("u2")
    start = (np.array([1.0, 2.0], "f4").view("u4") >> 16).astype("u2")
    for form in ("", "_shared"):
        ended = built.run("add_bf16x2" + form, start.view("u4"), np.zeros(32, "u4"), brain.view("u4"), 32, block=32)[0].view("u2")
        assert [number("bf16", b) for b in ended.tolist()] == want
        ended = built.run("add_bf16" + form, start, np.zeros(32, "u2"), brain[::2].copy(), 32, block=32)[0]
        assert number("bf16", int(ended[0])) == want[0]


@builds("atomics")
def test_atomics_of_vectors(built: Build) -> None:
    if "add_float4" not in built.kernels:
        pytest.skip("came with sm_90")
    for name, width in (("add_float4", 4), ("add_float2", 2)):
        values = np.arange(20 * width, dtype="f4").reshape(20, width)
        cell, seen, _ = built.run(name, np.ones(width, "f4"), np.zeros((20, width), "f4"), values, 20, block=32)
        assert (cell == 1 + values.sum(0)).all() and (seen.min(0) == 1).all()


@builds("atomics")
def test_loops_of_compare_and_swap(built: Build) -> None:
    values = np.array([rng(i).uniform(0, 100) for i in range(100)], "f4")
    assert built.run("max_float", np.zeros(1, "f4"), values, 100, grid=2, block=64)[0][0] == values.max()
    assert [int(x[0]) for x in built.run("lock_step", np.zeros(1, "i4"), np.zeros(1, "i4"), grid=3, block=20)] == [0, 60]


# -- control

@builds("flow")
def test_loops(built: Build) -> None:
    def collatz(x: int) -> int:
        steps = 0
        while x != 1:
            x = 3 * x + 1 if x & 1 else x >> 1
            steps += 1
        return steps

    given = [rng(i).randrange(1, 5000) for i in range(70)]
    assert built.run("collatz", np.zeros(70, "i4"), np.array(given, "u4"), 70, grid=2, block=64)[0].tolist() == [collatz(x) for x in given]

    def nested(i: int, n: int) -> int:
        total = 0
        for a in range(n):
            if a == i:
                continue
            for b in range(a, n):
                if b % 5 == i % 5:
                    continue
                if b > a + 6:
                    break
                c = 0
                while True:
                    total += c
                    if total > 500:
                        return total
                    c += 1
                    if not c < b:
                        break
        return total

    assert built.run("nested_loops", np.zeros(40, "i4"), 14, block=40).tolist() == [nested(i, 14) for i in range(40)]


@builds("flow")
def test_mandelbrot(built: Build) -> None:
    got = built.run("mandelbrot", np.zeros((8, 12), "i4"), 12, 8, 30, grid=(2, 1), block=(8, 8))
    y, x = np.mgrid[0:8, 0:12]
    c = (x * 3.0 / 12 - 2) + 1j * (y * 2.0 / 8 - 1)
    z, count = np.zeros_like(c), np.zeros((8, 12), int)
    for _ in range(30):
        inside = abs(z) < 2
        count += inside
        z = np.where(inside, z * z + c, z)
    assert (got != count).sum() <= 2                 # a point on the edge may go either way


@builds("flow")
def test_switches(built: Build) -> None:
    given = [(k * 7) % 12 for k in range(60)]
    got = built.run("dense_switch", np.full(60, -99, "i4"), np.array(given, "i4"), 60, block=64)[0].tolist()
    for i, (v, have) in enumerate(zip(given, got)):
        r = i
        if v == 0:
            r = r * 3 + 1
        elif v in (1, 2):
            r = (r ^ 0x5A5A if v == 1 else r) - v
        elif v == 3:
            k = 0
            while k < r and k % 7 != 5:
                r += k
                k += 1
        elif v == 4:
            r = bin(r).count("1")
        elif v == 5:
            r = -99
        elif v == 6:
            r = r << 5 | r >> 3
        elif v == 7:
            r = -r
        elif v == 8:
            r %= 10
        elif v == 9:
            r = 77 if r & 1 else 78
        else:
            r = -1
        assert have == r, (i, v)
    given = [-5, 1000000, 1 << 40, 120, 0, -(1 << 40)]
    assert built.run("sparse_switch", np.zeros(6, "i4"), np.array(given, "i8"), 6, block=32)[0].tolist() == [1, 2, 3, 4, 5, 5]


@builds("flow")
def test_recursion(built: Build) -> None:
    def ackermann(m: int, n: int) -> int:
        return n + 1 if m == 0 else n + 2 if m == 1 else 2 * n + 3
    assert built.run("recursion", np.zeros(24, "i4"), block=24).tolist() == [ackermann(t % 3, t // 3) for t in range(24)]
    assert built.run("mutual", np.zeros(24, "i4"), block=24).tolist() == [2 if t % 2 == 0 else 1 for t in range(24)]
    data = np.array([rng(i).randrange(1000) for i in range(8 * 25)], "i4")
    assert (built.run("quicksort", data, 25, grid=2, block=4).reshape(8, 25) == np.sort(data.reshape(8, 25))).all()


@builds("flow")
def test_pointers_to_functions(built: Build) -> None:
    functions = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - (b & 1)]
    which = [t % 3 for t in range(30)]
    assert built.run("pointers", np.zeros(30, "i4"), np.array(which, "i4"), block=30)[0].tolist() == [functions[t % 3](t, t + 3) for t in range(30)]
    for k in range(3):
        assert built.run("chosen", np.zeros(8, "i4"), k, block=8).tolist() == [functions[k](t, functions[k](2, 3)) for t in range(8)]
    assert built.run("virtuals", np.zeros(12, "i4"), block=12).tolist() == [(i * i + i, i * 5 - i, i)[i % 3] for i in range(12)]


@builds("flow")
def test_lambdas_and_early_ends(built: Build) -> None:
    got = built.run("lambdas", np.zeros(4, "f8"), 1.5, block=4)
    want = [sum(((k + 0.5) * (1 + i) / 16) ** 2 * 1.5 + i for k in range(16)) * (1 + i) / 16 for i in range(4)]
    assert np.allclose(got, want, rtol=1e-12)
    assert built.run("early", np.full(64, -1, "i4"), 20, block=64)[:20].tolist() == [t ^ 1 for t in range(20)]
    assert built.run("heap", np.zeros(5, "i4"), block=5).tolist() == [54 * t for t in range(5)]


@builds("flow")
def test_printf(built: Build, capfd: Any) -> None:
    word = np.frombuffer(b"word\0", "u1").copy()
    built.run("printing", 1234, math.pi, word, block=2)
    counts = built.run("count_printed", np.zeros(2, "i4"), 5)
    ctypes.CDLL(None).fflush(None) if sys.platform != "win32" else None
    text = capfd.readouterr().out
    wide = f"{math.pi:f}|{math.pi:.3f}|{math.pi:10.2e}|{math.pi:g}|{1234 << 33}|deadbeefcafe|word|%|{wrap(1234 + 200, 8, True)}|   ab|\n"
    for thread in range(2):
        assert f"{thread}| 1234|1234 |01234|+1234|1234|4d2|4D2|2322|{'ab'[thread]}\n" in text
    assert text.count(wide) == 2 and text.count("plain\n") == 2 and "5 5 1.500000\n" in text
    assert counts.tolist() == [3, 0]


@pytest.mark.parametrize("kernel,code", [("asserting", 710), ("trapping", None)])
def test_what_ends_a_context(python: Any, kernel: str, code: Any) -> None:
    """An assertion and a trap are sticky, so each has a process of its own."""
    result = python("""
        import sys
        from pathlib import Path
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        loaded = device.load(Path(sys.argv[1]))
        try:
            loaded[sys.argv[2]].launch(5, grid=1, block=32)
            device.synchronize()
        except rawcuda.ContextLost as error:
            print("code", error.code)
    """, str(CORPUS / "flow.sm75.ptx"), kernel, check=True)
    assert "code" in result.stdout and (code is None or f"code {code}" in result.stdout), result.stdout


# -- integers

I8, U8, I16, U16, I32, U32, I64, U64 = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
TYPES = {"i8": I8, "u8": U8, "i16": I16, "u16": U16, "i32": I32, "u32": U32, "i64": I64, "u64": U64}


def parts(x: int, bits: int, signed: bool) -> "list[int]":
    """Cut 32 bits into parts."""
    return [wrap(x >> at, bits, signed) for at in range(0, 32, bits)]


def joined(values: "Sequence[int]", bits: int) -> int:
    """Put parts together."""
    return sum((v & (1 << bits) - 1) << bits * at for at, v in enumerate(values))


def find_nth(mask: int, start: int, offset: int) -> int:
    """Find the n-th set bit from a place on (__fns)."""
    if offset == 0:
        return start if mask >> start & 1 else 0xFFFFFFFF
    step, at, count = (1, start, offset) if offset > 0 else (-1, start, -offset)
    while 0 <= at < 32:
        if mask >> at & 1:
            count -= 1
            if not count:
                return at
        at += step
    return 0xFFFFFFFF


def permuted(x: int, y: int, s: int) -> int:
    """Pick bytes (__byte_perm)."""
    raw = struct.pack("<II", x, y)
    return sum(raw[s >> 4 * k & 7] << 8 * k for k in range(4))


def bits(x: int, width: int) -> int:
    """Take the low bits."""
    return x & (1 << width) - 1


def s32(x: int) -> int:
    """See 32 bits as signed."""
    return wrap(x, 32, True)


INTEGERS: "dict[str, tuple[str, str, Callable[[int, int, int], int]]]" = {
    "i32_shifts": (I32, I32, lambda x, y, z: (x >> (y & 31)) + s32(x << (z & 31))),
    "u64_shifts": (U64, U64, lambda x, y, z: (x >> (y & 63)) + (x << (z & 63))),
    "i64_shifts": (I64, I64, lambda x, y, z: x >> (y & 63)),
    "u32_by_3": (U32, U32, lambda x, y, z: x // 3 + x % 10 + x // 1000003),
    "i64_by_7": (I64, I64, lambda x, y, z: quotient(x, 7) + rest(x, 1000)),
    "umulhi": (U32, U32, lambda x, y, z: x * y >> 32),
    "mulhi": (I32, I32, lambda x, y, z: x * y >> 32),
    "umul64hi": (U64, U64, lambda x, y, z: x * y >> 64),
    "mul64hi": (I64, I64, lambda x, y, z: x * y >> 64),
    "mul24": (I32, I32, lambda x, y, z: wrap(x, 24, True) * wrap(y, 24, True)),
    "umul24": (U32, U32, lambda x, y, z: bits(x, 24) * bits(y, 24)),
    "sad": (U32, I32, lambda x, y, z: abs(x - y) + z),
    "usad": (U32, U32, lambda x, y, z: abs(x - y) + z),
    "hadd": (I32, I32, lambda x, y, z: x + y >> 1),
    "urhadd": (U32, U32, lambda x, y, z: x + y + 1 >> 1),
    "popc": (I32, U32, lambda x, y, z: bin(x).count("1") * 100 + 32 - y.bit_length()),
    "popcll": (I32, U64, lambda x, y, z: bin(x).count("1") * 100 + 64 - y.bit_length()),
    "ffs": (I32, I32, lambda x, y, z: (x & -x).bit_length() * 100 + (bits(y << 20, 64) & -bits(y << 20, 64)).bit_length()),
    "brev": (U32, U32, lambda x, y, z: int(f"{x:032b}"[::-1], 2)),
    "brevll": (U64, U64, lambda x, y, z: int(f"{x:064b}"[::-1], 2)),
    "byte_perm": (U32, U32, permuted),
    "funnel_l": (U32, U32, lambda x, y, z: ((y << 32 | x) << (z & 31)) >> 32),
    "funnel_r": (U32, U32, lambda x, y, z: (y << 32 | x) >> (z & 31)),
    "funnel_lc": (U32, U32, lambda x, y, z: ((y << 32 | x) << min(z, 32)) >> 32),
    "funnel_rc": (U32, U32, lambda x, y, z: (y << 32 | x) >> min(z, 32)),
    "fns": (U32, U32, lambda x, y, z: find_nth(x, y & 31, z % 5 - 2)),
    "dp4a": (I32, I32, lambda x, y, z: z + sum(a * b for a, b in zip(parts(x, 8, True), parts(y, 8, True)))),
    "dp4a_u": (U32, U32, lambda x, y, z: z + sum(a * b for a, b in zip(parts(x, 8, False), parts(y, 8, False)))),
    "dp2a_lo": (I32, I32, lambda x, y, z: z + sum(a * b for a, b in zip(parts(x, 16, True), parts(y, 8, True)[:2]))),
    "dp2a_hi": (U32, U32, lambda x, y, z: z + sum(a * b for a, b in zip(parts(x, 16, False), parts(y, 8, False)[2:]))),
    "vadd4": (U32, U32, lambda x, y, z: joined([a + b for a, b in zip(parts(x, 8, False), parts(y, 8, False))], 8)),
    "vsubss2": (U32, U32, lambda x, y, z: joined([max(-32768, min(32767, a - b)) for a, b in zip(parts(x, 16, True), parts(y, 16, True))], 16)),
    "vabsdiffu4": (U32, U32, lambda x, y, z: joined([abs(a - b) for a, b in zip(parts(x, 8, False), parts(y, 8, False))], 8)),
    "vmaxs2": (U32, U32, lambda x, y, z: joined([max(a, b) for a, b in zip(parts(x, 16, True), parts(y, 16, True))], 16)),
    "vminu4": (U32, U32, lambda x, y, z: joined([min(a, b) for a, b in zip(parts(x, 8, False), parts(y, 8, False))], 8)),
    "vcmpgts4": (U32, U32, lambda x, y, z: joined([255 * (a > b) for a, b in zip(parts(x, 8, True), parts(y, 8, True))], 8)),
    "wide_product": (U64, U64, lambda x, y, z: (x * y >> 70) ^ bits(x * z, 64)),
    "wide_quotient": (U64, U64, lambda x, y, z: (x << 64 | y) // (z | 1)),
    "wide_sum": (I64, I64, lambda x, y, z: x + y - z >> 3),
    "rotate": (U32, U32, lambda x, y, z: x << 7 | x >> 25),
    "fields": (I32, I32, lambda x, y, z: (s32(x << 5) >> 20) + (bits(y << 3, 32) >> 25) + (z >> 8 & 0xFF)),
    "divergent": (U32, U32, lambda x, y, z: y // (z | 1) if x & 1 else z * x if y & 2 else x ^ y),
    "modular_power": (U64, U64, lambda x, y, z: pow(x, y & 0xFFFF, z | 2)),
}
for _name, _code in TYPES.items():
    INTEGERS.update({
        f"{_name}_mul": (_code, _code, lambda x, y, z: x * y + z), f"{_name}_div": (_code, _code, lambda x, y, z: quotient(x, y)),
        f"{_name}_mod": (_code, _code, lambda x, y, z: rest(x, y)), f"{_name}_bits": (_code, _code, lambda x, y, z: (x & ~y) ^ (x | z)),
        f"{_name}_min": (_code, _code, lambda x, y, z: min(x, y))})


@builds("integers")
@pytest.mark.parametrize("first", sorted({name[0] for name in INTEGERS}))
def test_integers(built: Build, first: str) -> None:
    for name, (to, source, expected) in INTEGERS.items():
        if name[0] != first:
            continue
        width, signed = 8 * int(source[1]), source[0] == "i"
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
        random_ = rng(name)
        edge = [low, high, 0, 1, low + 1, high // 3]
        rows = [[random_.choice(edge) for _ in range(3)] for _ in range(40)]
        rows += [[random_.randint(low, high) >> random_.randrange(width) for _ in range(3)] for _ in range(88)]
        if name.endswith(("_div", "_mod")):         # what C leaves undefined
            rows = [[x, y or 3, z] if not (x == low and y == -1) else [x, 2, z] for x, y, z in rows]
        got = built.map("k_" + name, to, *(np.array(column, source) for column in zip(*rows)))
        want = [wrap(expected(*row), 8 * int(to[1]), to[0] == "i") for row in rows]
        assert got.tolist() == want, next((name, row, g, w) for row, g, w in zip(rows, got.tolist(), want) if g != w)


@builds("integers")
@pytest.mark.parametrize("source", [*TYPES, "f32", "f64"])
def test_conversions_of_every_pair(built: Build, source: str) -> None:
    codes = {**TYPES, "f32": "f4", "f64": "f8"}
    values = corners(codes[source], source)
    n = len(values)
    outs = built.run(f"from_{source}", *(np.zeros(n, code) for code in codes.values()), values, n, grid=(n + 63) // 64, block=64)
    for (name, code), got in zip(codes.items(), outs):
        for have, value in zip(got.tolist(), values.tolist()):
            if name in ("f32", "f64"):
                if isinstance(value, float) and not math.isfinite(value):
                    assert have == value or have != have and value != value
                else:
                    want = math.copysign(rounded(Fraction(value), name), value) if isinstance(value, float) else rounded(value, name)
                    assert have == want and math.copysign(1, have) == math.copysign(1, want), (source, name, value)
                continue
            width, signed = 8 * int(code[1]), code[0] == "i"
            low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
            if isinstance(value, int):
                assert have == wrap(value, width, signed), (source, name, value)
            elif low - 1 < value < high + 1:        # else undefined in C
                assert have == math.trunc(value), (source, name, value, have)


ROUNDINGS = {
    "float2int": ("f4", I32), "float2uint": ("f4", U32), "float2ll": ("f4", I64), "float2ull": ("f4", U64), "double2int": ("f8", I32),
    "double2uint": ("f8", U32), "double2ll": ("f8", I64), "double2ull": ("f8", U64), "int2float": (I32, "f4"), "uint2float": (U32, "f4"),
    "ll2float": (I64, "f4"), "ull2float": (U64, "f4"), "ll2double": (I64, "f8"), "ull2double": (U64, "f8"), "double2float": ("f8", "f4"),
}


@builds("integers")
@pytest.mark.parametrize("kernel", ROUNDINGS)
def test_conversions_in_every_rounding(built: Build, kernel: str) -> None:
    source, to = ROUNDINGS[kernel]
    values = corners(source, kernel)
    n = len(values)
    outs = built.run(kernel, *(np.zeros(n, to) for _ in range(4)), values, n, grid=(n + 63) // 64, block=64)
    for mode, turn, got in zip(("rn", "rz", "ru", "rd"), (round, math.trunc, math.ceil, math.floor), outs):
        for have, value in zip(got.tolist(), values.tolist()):
            if to[0] == "f":
                if isinstance(value, float) and not math.isfinite(value):
                    assert have == value or have != have
                else:
                    want = rounded(Fraction(value), "f32" if to == "f4" else "f64", mode)
                    assert have == want, (kernel, mode, value, have, want)
                continue
            width = 8 * int(to[1])
            low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "i" else (0, (1 << width) - 1)
            if value != value:
                continue                             # the guide leaves it open
            want_int = high if value == math.inf else low if value == -math.inf else max(low, min(high, turn(value)))
            assert have == want_int, (kernel, mode, value, have, want_int)


@builds("integers")
def test_bits_of_floats(built: Build) -> None:
    x, y = corners("f8", "x"), corners("f8", "y")[::-1].copy()
    got = built.map("k_hiloint", "f8", x, y, x)
    assert ((got.view("u8") >> 32) == (x.view("u8") & 0xFFFFFFFF)).all() and ((got.view("u8") & 0xFFFFFFFF) == (y.view("u8") >> 32)).all()
    a, b = corners("f4", "a")[:40], corners("f4", "b")[:40][::-1].copy()
    assert (built.map("k_bits_of_float", "u4", a, b, a) == a.view("u4") ^ b.view("u4") << 1).all()


# -- floating point

def spread(low: float, high: float, *more: float) -> "Callable[[random.Random], list[float]]":
    """Make numbers between two bounds, and some more."""
    return lambda r: [*more, *(r.uniform(low, high) for _ in range(60))]


def powers(least: int, most: int, *more: float, signs: bool = True) -> "Callable[[random.Random], list[float]]":
    """Make numbers of every size between two powers of two, and some more."""
    return lambda r: [*more, *(math.ldexp(r.uniform(1, 2), r.randint(least, most)) * (r.choice((1, -1)) if signs else 1) for _ in range(60))]


def limited(function: "Callable[..., float]") -> "Callable[..., float]":
    """Turn Python's exceptions into what IEEE arithmetic has."""
    def compute(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan
    return compute


def sine_of_pi(x: float) -> float:
    """Give sin(pi x)."""
    x = math.fmod(x, 2)
    x = x - 2 if x > 1 else x + 2 if x < -1 else x
    x = 1 - x if x > 0.5 else -1 - x if x < -0.5 else x
    return math.sin(math.pi * x) if x % 0.5 else float(round(2 * x)) if x else 0.0


TINY = (0.0, 1e-40, -1e-42)
ANGLES = powers(-20, 20, 0.0, -0.0, 1e5, 1e10, 3e38, -2e30, 105615.0, 1.5707964, 3.1415927, 6.2831855, 1e-40)
# kernel -> ulps (CUDA Programming Guide, "Mathematical functions"), f, arguments
SINGLE: "dict[str, tuple[float, Callable[..., float], Callable[[random.Random], list[float]]]]" = {
    "sinf": (2, math.sin, ANGLES), "cosf": (2, math.cos, ANGLES), "tanf": (4, math.tan, ANGLES),
    "asinf": (2, math.asin, spread(-1, 1, 1.0, -1.0, *TINY)), "acosf": (2, math.acos, spread(-1, 1, 1.0, -1.0, 0.0)), "atanf": (2, math.atan, powers(-20, 20, *TINY)),
    "sinhf": (3, math.sinh, powers(-20, 6, *TINY)), "coshf": (2, math.cosh, powers(-20, 6)), "tanhf": (2, math.tanh, powers(-20, 6, *TINY, 100.0)),
    "asinhf": (3, math.asinh, powers(-20, 100, *TINY)), "acoshf": (4, math.acosh, powers(0, 100, 1.0, signs=False)), "atanhf": (3, math.atanh, spread(-1, 1, *TINY)),
    "expf": (2, math.exp, spread(-105, 89, 0.0, -87.5, -103.9, 1e-10)), "exp2f": (2, lambda x: 2.0 ** x, spread(-150, 128, 0.0, -126.0, -149.0, 10.0)),
    "exp10f": (2, lambda x: 10.0 ** x, spread(-46, 39, 0.0, 2.0)), "expm1f": (1, math.expm1, powers(-30, 6, *TINY)),
    "logf": (1, math.log, powers(-148, 127, 1.0, 0.99999994, 1.0000001, 1e-45, signs=False)), "log2f": (1, math.log2, powers(-148, 127, 1.0, 8.0, 1e-45, signs=False)),
    "log10f": (2, math.log10, powers(-148, 127, 1.0, 1000.0, signs=False)), "log1pf": (1, math.log1p, powers(-30, 100, *TINY, -0.5, -0.999, signs=False)),
    "sqrtf": (0.5, math.sqrt, powers(-148, 127, 0.0, 2.0, signs=False)), "rsqrtf": (2, lambda x: 1 / math.sqrt(x), powers(-126, 127, 4.0, signs=False)),
    "cbrtf": (1, lambda x: math.copysign(abs(x) ** (1 / 3), x), powers(-148, 127, 0.0, 27.0)),
    "erff": (2, math.erf, powers(-20, 3, *TINY)), "erfcf": (4, math.erfc, spread(-5, 10, 0.0, 9.9)),
    "lgammaf": (6, math.lgamma, spread(0.05, 60, 1.0, 2.0, 3.0)), "tgammaf": (5, math.gamma, spread(-8, 34, 1.0, 5.0, 0.5)),
    "sinpif": (1, sine_of_pi, powers(-20, 20, 0.5, 1.0, -2.5, 0.0)), "cospif": (1, lambda x: sine_of_pi(math.fmod(x, 2) + 0.5), powers(-5, 10, 1.0, -2.0)),
    "normcdff": (5, lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), spread(-12, 6, 0.0)),
    "erfinvf": (2, lambda x: math.copysign(statistics.NormalDist().inv_cdf((abs(x) + 1) / 2) / math.sqrt(2), x), spread(-0.99, -0.05, 0.5, 0.9, 0.25)),
    "floorf": (0, math.floor, powers(-3, 40, 2.5, -2.5)), "ceilf": (0, math.ceil, powers(-3, 40, 2.5, -2.5)), "truncf": (0, math.trunc, powers(-3, 40, 2.5, -2.5)),
    "roundf": (0, lambda x: math.floor(abs(x) + 0.5) * math.copysign(1, x), powers(-3, 20, 2.5, -2.5, 0.5)),
    "rintf": (0, round, powers(-3, 40, 2.5, -2.5, 3.5)), "fabsf": (0, abs, powers(-148, 127, -0.0)), "logbf": (0, lambda x: math.frexp(x)[1] - 1, powers(-126, 127)),
    "reciprocal": (0.5, lambda x: 1 / x, powers(-126, 126)), "saturated": (0, lambda x: min(max(x, 0.0), 1.0), powers(-5, 5, 0.0)),
    "both": (7, lambda x: 0.0, ANGLES),
}
ANY = powers(-20, 20, 0.0, 1.0, -1.0)
PAIRS: "dict[str, tuple[float, Callable[..., float], Callable[[random.Random], list[float]]]]" = {
    "powf": (4, math.pow, spread(0, 20)), "atan2f": (3, math.atan2, ANY), "hypotf": (3, math.hypot, ANY), "fmodf": (0, math.fmod, powers(-5, 30, 3.0)),
    "remainderf": (0, math.remainder, powers(-5, 30, 3.0)), "fdimf": (0.5, lambda x, y: max(x - y, 0.0), ANY), "fmaxf": (0, max, ANY), "fminf": (0, min, ANY),
    "copysignf": (0, math.copysign, ANY), "nextafterf": (0, lambda x, y: float(np.nextafter(np.float32(x), np.float32(y))), powers(-148, 100, 1.0, 2.0)),
    "divide": (0.5, lambda x, y: x / y, powers(-70, 70, 1.0)),
}


def singles(values: "Sequence[float]") -> Any:
    """Make an array of float32."""
    return np.array(values, "f4")


@builds("math")
def test_single_precision(built: Build) -> None:
    for kernel, (ulps, function, arguments) in SINGLE.items():
        if built.fast and kernel not in ("floorf", "ceilf", "truncf", "roundf", "rintf", "asinf", "atanf", "cbrtf"):
            continue
        x = singles(arguments(rng(kernel)))
        got = built.map("k_" + kernel, "f4", x)
        compute = limited(function if kernel != "both" else lambda v: math.sin(v) * 2 + math.cos(v))
        want = [float(compute(v)) for v in x.tolist()]
        if built.fast:
            got, want = zip(*[(g, w) for g, w, v in zip(got.tolist(), want, x.tolist()) if abs(v) > 1e-37 or not v])
        within(max(ulps, 0.5) if ulps else 0, got, want, "f32", (kernel, x.tolist()), absolute=1e-6 if kernel == "both" else 0)
        if not built.fast and kernel not in ("fabsf", "logbf", "saturated", "both"):
            assert np.isnan(built.map("k_" + kernel, "f4", singles([math.nan])))[0], kernel


@builds("math")
def test_single_precision_of_pairs(built: Build) -> None:
    for kernel, (ulps, function, arguments) in PAIRS.items():
        if built.fast and kernel not in ("hypotf", "fmaxf", "fminf", "copysignf"):
            continue
        r = rng(kernel)
        x, y = arguments(r), arguments(r)
        r.shuffle(y)
        if kernel in ("fmodf", "remainderf", "divide"):
            y = [v or 1.0 for v in y]
        x, y = singles(x), singles(y)
        got = built.map("k_" + kernel, "f4", x, y, x)
        want = [float(limited(function)(a, b)) for a, b in zip(x.tolist(), y.tolist())]
        within(ulps, got, want, "f32", (kernel, list(zip(x.tolist(), y.tolist()))))


@builds("math")
def test_the_rest_of_single_precision(built: Build) -> None:
    r = rng("rest")
    x, y, z = (singles(powers(-10, 10)(r)) for _ in range(3))
    columns = [list(row) for row in zip(x.tolist(), y.tolist(), z.tolist())]
    want = [rounded(Fraction(a) * Fraction(b) + Fraction(c), "f32") for a, b, c in columns]
    within(0, built.map("k_contracted", "f4", x, y, z), want, "f32", "contracted")
    within(3, built.map("k_norm3d", "f4", x, y, z), [math.sqrt(a * a + b * b + c * c) for a, b, c in columns], "f32", "norm3d")
    within(1.5, built.map("k_scaled", "f4", x, y, z), [a * 32 + b / 8 + (math.frexp(c)[1] - 1) for a, b, c in columns], "f32", "scaled", 1e-3)
    want = []
    for a, b, _ in columns:
        m, e = math.frexp(a)
        f, w = math.modf(b)
        want.append(m * 4 + e + f + w)
    within(2, built.map("k_parts", "f4", x, y, z), want, "f32", "parts", 1e-4)
    if not built.fast:
        odd = singles([1.0, -1.0, math.inf, -math.inf, math.nan, -0.0])
        got = built.map("k_classes", "f4", odd, np.roll(odd, 1), np.roll(odd, 2))
        assert got.tolist() == [(a != a) + 2 * math.isinf(a) + 4 * math.isfinite(b) + 8 * bool(np.signbit(np.float32(c))) for a, b, c in
                                zip(odd.tolist(), np.roll(odd, 1).tolist(), np.roll(odd, 2).tolist())]


EXACT: "dict[str, tuple[str, Callable[..., Fraction], Callable[..., float]]]" = {
    "fadd": ("f32", ADD, lambda x, y: x + y), "fmul": ("f32", lambda x, y: x * y, lambda x, y: x * y),
    "fmaf": ("f32", FMA, lambda x, y, z: x * y + z), "fdiv": ("f32", lambda x, y: x / y, lambda x, y: x / y),
    "fsqrt": ("f32", lambda x: root(x), math.sqrt), "frcp": ("f32", lambda x: 1 / x, lambda x: 1 / x if x else math.copysign(math.inf, x)),
    "dadd": ("f64", ADD, lambda x, y: x + y), "dmul": ("f64", lambda x, y: x * y, lambda x, y: x * y),
    "fma": ("f64", FMA, lambda x, y, z: x * y + z), "ddiv": ("f64", lambda x, y: x / y, lambda x, y: x / y),
    "dsqrt": ("f64", lambda x: root(x), math.sqrt), "drcp": ("f64", lambda x: 1 / x, lambda x: 1 / x if x else math.copysign(math.inf, x)),
}


@builds("math")
@pytest.mark.parametrize("kernel", EXACT)
def test_every_rounding(built: Build, kernel: str) -> None:
    if built.fast:
        pytest.skip("-use_fast_math does not touch these")
    format, operation, plain = EXACT[kernel]
    r = rng(kernel)
    precision, least, most = FORMATS[format]
    code = "f4" if format == "f32" else "f8"
    edge = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, math.ldexp(1, least), -math.ldexp(1, least - precision + 1), (2 - 2.0 ** (1 - precision)) * 2.0 ** most]

    def one() -> float:
        return math.ldexp(r.getrandbits(precision) | 1 << precision - 1, r.choice((0, r.randint(-6, 6), r.randint(-60, 60))) - precision) * r.choice((1, -1))

    rows = [[r.choice(edge) for _ in range(3)] for _ in range(40)]
    for _ in range(60):
        x, y = one(), one()
        rows.append([x, y, -x * y * r.choice((1, 1 + 2.0 ** -20))] if r.random() < 0.3 else [x, y, one()])
    columns = [np.array(column, code) for column in zip(*rows)]
    n = len(rows)
    outs = built.run(f"each_{kernel}", *(np.zeros(n, code) for _ in range(4)), *columns, n, grid=(n + 63) // 64, block=64)
    count = operation.__code__.co_argcount
    for mode, got in zip(("rn", "rz", "ru", "rd"), outs):
        compute = ieee(operation, plain, format, mode)
        want = [compute(*row[:count]) for row in zip(*(column.tolist() for column in columns))]
        for have, w, *row in zip(got.tolist(), want, *(column.tolist() for column in columns)):
            assert have == w and math.copysign(1, have) == math.copysign(1, w) or have != have and w != w, (kernel, mode, row, have, w)


@builds("math")
def test_intrinsics(built: Build) -> None:
    """Their errors are bounded absolutely, or in part by the argument: the programming guide's second table."""
    r = rng("intrinsics")
    angles = singles([r.uniform(-math.pi, math.pi) for _ in range(60)])
    assert abs(built.map("k_fast_sin", "f4", angles) - np.sin(angles.astype("f8"))).max() < 2.0 ** -20.5
    assert abs(built.map("k_fast_cos", "f4", angles) - np.cos(angles.astype("f8"))).max() < 2.0 ** -20.5
    small = singles([r.uniform(-10, 10) for _ in range(60)])
    within(2 + 12, built.map("k_fast_exp", "f4", small), np.exp(small.astype("f8")).tolist(), "f32", "exp")
    within(2 + 32, built.map("k_fast_exp10", "f4", small), (10 ** small.astype("f8")).tolist(), "f32", "exp10")
    size = singles(powers(-20, 20, signs=False)(r))
    within(3, built.map("k_fast_log", "f4", size), np.log(size.astype("f8")).tolist(), "f32", "log", 2.0 ** -21.4)
    within(2, built.map("k_fast_log2", "f4", size), np.log2(size.astype("f8")).tolist(), "f32", "log2", 2.0 ** -22)
    other = singles(powers(-20, 20)(r))
    within(2, built.map("k_fast_divide", "f4", size, other, other), (size.astype("f8") / other).tolist(), "f32", "divide")
    size = singles([r.uniform(0.1, 50) for _ in range(60)])
    got = built.map("k_fast_pow", "f4", size, small, small)
    assert np.allclose(got, np.exp2(small.astype("f8") * np.log2(size.astype("f8"))), rtol=1e-4)
    within(0.5, built.map("k_fast_rsqrt", "f4", size), (1 / np.sqrt(size.astype("f8"))).tolist(), "f32", "rsqrt")


@builds("math")
def test_fast_math(built: Build) -> None:
    if not built.fast:
        pytest.skip("for -use_fast_math only")
    r = rng("fast")
    x = singles([r.uniform(0.1, 3) for _ in range(60)])
    wide = x.astype("f8")
    for name in ("sin", "cos", "tan", "exp", "log", "log2", "log10", "sqrt", "exp2", "tanh"):
        assert np.allclose(built.map(f"k_{name}f", "f4", x), getattr(np, name)(wide), rtol=5e-4 if name in ("tanh", "tan") else 1e-5, atol=1e-6), name
    assert np.allclose(built.map("k_powf", "f4", x, x[::-1].copy(), x), wide ** wide[::-1], rtol=1e-5)
    assert np.allclose(built.map("k_divide", "f4", x, x[::-1].copy(), x), wide / wide[::-1], rtol=1e-6)
    assert built.map("k_contracted", "f4", singles([1e-40]), singles([1.0]), singles([0.0]))[0] == 0       # subnormals are flushed


LONG = np.longdouble
DOUBLE: "dict[str, tuple[float, Callable[..., Any], Callable[[random.Random], list[float]]]]" = {
    "sin": (2, np.sin, powers(-20, 20, 1e5, 1e15, 1e300)), "cos": (2, np.cos, powers(-20, 20, 1e5, 1e15, 1e300)), "exp": (1, np.exp, spread(-700, 700, 0.0)),
    "log": (1, np.log, powers(-1000, 1000, 1.0, 1.0000001, 5e-324, signs=False)), "tanh": (2, np.tanh, powers(-20, 6)), "cbrt": (1, np.cbrt, powers(-1000, 1000, 27.0)),
    "erf": (3, math.erf, powers(-20, 2)), "asin": (2, np.arcsin, spread(-1, 1, 1.0)), "atan": (2, np.arctan, powers(-50, 50)), "sqrt": (0.5, np.sqrt, powers(-1000, 1000, signs=False)),
    "rsqrt": (1, lambda v: 1 / np.sqrt(LONG(v)), powers(-1000, 1000, signs=False)), "log2": (1, np.log2, powers(-1000, 1000, 8.0, signs=False)),
    "expm1": (1, np.expm1, powers(-40, 8)), "sinh": (2, np.sinh, powers(-30, 9)), "rint": (0, np.rint, powers(-3, 60, 2.5)), "floor": (0, np.floor, powers(-3, 60, -2.5)),
}
DOUBLE_PAIRS: "dict[str, tuple[float, Callable[..., Any], Callable[[random.Random], list[float]]]]" = {
    "pow": (2, np.power, spread(0, 50)), "atan2": (2, np.arctan2, powers(-50, 50)), "hypot": (2, np.hypot, powers(-50, 500)), "fmod": (0, np.fmod, powers(-5, 60)),
}


@builds("math")
def test_double_precision(built: Build) -> None:
    if built.fast:
        pytest.skip("-use_fast_math does not touch these")
    for kernel, (ulps, function, arguments) in DOUBLE.items():
        x = np.array(arguments(rng(kernel)), "f8")
        want = [function(v if kernel == "erf" else LONG(v)) for v in x.tolist()]
        within(ulps, built.map("k_" + kernel, "f8", x), want, "f64", (kernel, x.tolist()))
    for kernel, (ulps, function, arguments) in DOUBLE_PAIRS.items():
        r = rng(kernel)
        x, y = np.array(arguments(r), "f8"), np.array(arguments(r), "f8")
        want = [function(LONG(a), LONG(b)) for a, b in zip(x.tolist(), y.tolist())]
        within(ulps, built.map("k_" + kernel, "f8", x, y, x), want, "f64", (kernel, list(zip(x.tolist(), y.tolist()))))
    r = rng("d")
    x, y, z = (np.array(powers(-5, 5)(r), "f8") for _ in range(3))
    assert built.map("k_dscaled", "f8", x, y, z).tolist() == [a * 2.0 ** 40 + math.frexp(c)[1] - 1 for a, c in zip(x.tolist(), z.tolist())]
    assert np.allclose(built.map("k_horner", "f8", x, y, z), ((x * y + z) * y - x) * y + z * x, rtol=1e-10, atol=1e-8)


# -- variables

WANT = [42, 1.5, 1e-40 * 1e40, 0, 0.1, -1e300, 5e-324, ord("q"), 17, 10, -2, 5, 0, 0xFEDCBA98, 254, 1, 2, 1, 3, 42, ord("m"), 7, ord("a"), 2.5, 0.75, 2.0 ** 40, -1,
        -2.25, 11, 0, 0, 0, 5, 6]


@builds("variables")
def test_initialisers(built: Build) -> None:
    got = built.run("read_all", np.zeros(len(WANT), "f8"))
    assert np.allclose(got, WANT, rtol=1e-4, atol=0), [(at, g, w) for at, (g, w) in enumerate(zip(got, WANT)) if g != w]


def variable(built: Build, name: str, code: str) -> Any:
    """Read a variable of a module."""
    memory = built.loaded.global_(name)
    made = np.zeros(memory.nbytes // np.dtype(code).itemsize, code)
    memory.copy_to(made)
    return made


@builds("variables")
def test_variables_change(built: Build) -> None:
    before = variable(built, "plain", "i4")[0], variable(built, "managed_value", "i4")[0]
    built.run("change", 3, block=1)
    assert variable(built, "plain", "i4")[0] == before[0] + 4 and variable(built, "managed_value", "i4")[0] == before[1] * 3
    restored = np.array([before[0]], "i4")
    built.loaded.global_("plain").copy_from(restored)
    built.loaded.global_("managed_value").copy_from(np.array([before[1]], "i4"))
    built.loaded.global_("numbers").copy_from(np.array([1.5, -2.25, 3.0, 1e-40, 1e30, 0, 0, 0], "f4"))
    assert variable(built, "plain", "i4")[0] == before[0]


@builds("variables")
def test_addresses(built: Build) -> None:
    got = built.run("addresses", np.zeros(4, "u8")).tolist()
    at = [built.loaded.global_(name).ptr for name in ("plain", "numbers", "text", "head")]
    assert got == [at[0], at[1] + 12, at[2], at[3]]
    assert built.run("follow", np.zeros(1, "i4"), at[3])[0] == 12
    assert bytes(variable(built, "text", "u1")) == b'corpus "quoted"\n\0'
    index = np.array([3, 1, 0, 2], "i4")
    assert built.run("lookup", np.zeros(4, "f4"), index, block=4)[0].tolist() == [1.0, -1.75, 1.75, 3.75]


@builds("variables")
def test_address_spaces(built: Build) -> None:
    got = built.run("spaces", np.zeros(7, "i4")).tolist()
    assert got == [1, 1, 1, 1, 1, 0, 9]
    got = built.run("module_shared", np.zeros(20, "i4"), block=20, shared=80)
    assert got.tolist() == [(19 - t) * 7 + 80 for t in range(20)]
