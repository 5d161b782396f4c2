"""Opcodes on several numbers of a register: both executors compute what exact arithmetic says, to the bit.

Each instruction runs for many registers of corner cases and random numbers, thread by thread and as arrays, also with
operands that are the same for all threads. The expected results are computed here with fractions and Python integers.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import random
import struct
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Callable

import pytest

pytest.importorskip("numpy", minversion="2.0")

from tests.emulator.ptx_client import Machine, kernel  # noqa: E402
from tests.emulator.test_ptx_half import INFINITY, NAN, SHAPES, number, of_float, rounded  # noqa: E402
from tests.emulator.test_ptx_opcodes import f, of_f  # noqa: E402

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

COUNT = 256  # threads
ALL = 9  # operands
TYPE = {"h": "b16", "r": "b32", "d": "b64", "f": "f32"}
WIDTH = {"h": 2, "r": 4, "d": 8, "f": 4}


def results(text: str, classes: str, rows: list[tuple[int, ...]], executor: str, same: int = -1) -> list[int]:
    """Run an instruction `D, A, B, C` for rows; all threads get operand `same` (or ALL) of the first row."""
    names = dict(zip("DABCE", (f"%{kind}{at + 1}" for at, kind in enumerate(classes))))
    lines = ["mov.u32 %r60, %tid.x; mov.u32 %r61, %ctaid.x; mad.lo.u32 %r60, %r61, 128, %r60; ld.param.u64 %d40, [in];",
             f"mul.wide.u32 %d41, %r60, {8 * (len(classes) - 1)}; add.u64 %d41, %d40, %d41;"]  # fmt: skip
    for at, kind in enumerate(classes[1:]):
        base = "%d40" if same in (at, ALL) else "%d41"
        lines.append(f"ld.global.{TYPE[kind]} %{kind}{at + 2}, [{base}+{8 * at}];")
    words = text.split(" ", 1)
    lines.append(f"{words[0]} " + "".join(names.get(letter, letter) for letter in words[1]) + ";")
    lines.append(f"mul.wide.u32 %d42, %r60, 8; add.u64 %d42, %out, %d42; st.global.{TYPE[classes[0]]} [%d42], "
                 f"{names['D']};")  # fmt: skip
    head = ".version 8.7\n.target sm_100a\n.address_size 64\n"
    code = kernel("\n".join(lines), ".param .u64 out, .param .u64 in", head=head)
    here = Machine(code, executor=executor, architecture=(10, 0))
    flat = b"".join(operand.to_bytes(8, "little") for row in rows for operand in row)
    out = here.buffer("Q", [0] * len(rows))
    here.run("k", out, here.buffer("B", flat), grid=-(-len(rows) // 128), block=128)
    if executor == "numpy":
        arrays = here.code.entries["k"]._arrays
        assert not arrays.reason and not arrays.last
        assert "each(" not in arrays.compiled().source  # which would be thread by thread
    return [value & (1 << 8 * WIDTH[classes[0]]) - 1 for value in out.values()]


def agree(text: str, classes: str, rows: list[tuple[int, ...]], expected: Callable[..., int]) -> None:
    """Compare both executors with the expected results, also with one operand that is the same for all threads."""
    rows = [rows[at % len(rows)] for at in range(COUNT)]
    for same in (*range(-1, len(classes) - 1), ALL):
        few = rows if same < 0 else rows[:40]
        used = [tuple(rows[0][at] if same in (at, ALL) else operand for at, operand in enumerate(row)) for row in few]
        wanted = [expected(*row) for row in used]
        for executor in ("numpy", "scalar") if same < 0 else ("numpy",):
            found = results(text, classes, rows, executor, same)
            for row, one, other in zip(used, found, wanted):
                assert one == other, (text, executor, [hex(each) for each in row], hex(one), hex(other))


# -- halves


def corner(kind: str, pick: random.Random) -> int:
    """Return the bits of a half: a special value, a subnormal, a number near 1, or any."""
    infinity, fraction = INFINITY[kind], SHAPES[kind][0]
    one = 0x3C00 if kind == "f16" else 0x3F80
    size = pick.choice([
        pick.choice([0, 1, (1 << fraction) - 1, 1 << fraction, one, one + 1, infinity - 1, infinity]),
        pick.choice([NAN, infinity + 1]),
        pick.getrandbits(fraction), one + pick.randrange(-200, 200), one + pick.randrange(-3, 3) * (1 << fraction),
        pick.getrandbits(15),
    ])  # fmt: skip
    return size | pick.getrandbits(1) << 15


def half_rows(kind: str, count: int, operands: int, seed: str) -> list[tuple[int, ...]]:
    """Return registers of two halves; in half of the rows, the last operand nearly cancels a product or a sum."""
    pick = random.Random(seed)
    return [tuple(corner(kind, pick) << 16 | corner(kind, pick) for _ in range(operands)) for _ in range(count)]


def is_nan(kind: str, bits: int) -> bool:
    return bits & 0x7FFF > INFINITY[kind]


def flushed(kind: str, bits: int) -> int:
    return bits if bits & INFINITY[kind] else bits & 0x8000


def arithmetic(kind: str, name: str, words: list[str], *bits: int) -> int:
    """Return the result for one half of each operand, by fractions."""
    if "ftz" in words:
        bits = tuple(flushed(kind, each) for each in bits)
    if "oob" in words and NAN in bits[:2]:
        return 0
    made = finite(kind, name, words, bits)
    if is_nan(kind, made):
        return 0 if "sat" in words else NAN
    if "ftz" in words:
        made = flushed(kind, made)
    if "sat" in words:
        made = 0 if made >> 15 else min(made, 0x3C00 if kind == "f16" else 0x3F80)
    return 0 if "relu" in words and made >> 15 else made


def finite(kind: str, name: str, words: list[str], bits: tuple[int, ...]) -> int:
    values = [number(kind, each) for each in bits]
    if name in ("min", "max"):
        return extreme(kind, name == "min", words, *bits)
    if any(value - value != 0 for value in values):  # IEEE's rules for infinities and NaN are those of Python
        value = values[0] * values[1] + values[2] if name == "fma" else operation(name, *values)
        return NAN if value != value else INFINITY[kind] | (0x8000 if value < 0 else 0)
    exact = [Fraction(value) for value in values]
    total = exact[0] * exact[1] + exact[2] if name == "fma" else operation(name, *exact)
    if total:
        return rounded(kind, total, "rn")
    signs = [each >> 15 for each in bits]
    if name == "mul":
        return (signs[0] ^ signs[1]) << 15
    first = signs[0] ^ signs[1] if name == "fma" else signs[0]
    second = signs[2] if name == "fma" else signs[1] ^ (name == "sub")
    is_zero = not (exact[0] * exact[1] if name == "fma" else exact[0])
    return 0x8000 if is_zero and first and second else 0


def operation(name: str, a: Any, b: Any) -> Any:
    return a + b if name == "add" else a - b if name == "sub" else a * b


def extreme(kind: str, smaller: bool, words: list[str], a: int, b: int) -> int:
    sign = (a ^ b) & 0x8000
    if "xorsign" in words:
        a, b = a & 0x7FFF, b & 0x7FFF
    numbers = [each for each in (a, b) if not is_nan(kind, each)]
    if not numbers or "NaN" in words and len(numbers) < 2:
        return NAN
    ordered = sorted(numbers, key=lambda each: (number(kind, each), not each >> 15))
    made = ordered[0 if smaller else -1]
    return made | sign if "xorsign" in words else made


HALF_FORMS = {
    "add": ("", ".ftz", ".sat", ".ftz.sat"), "sub": ("", ".ftz.sat"), "mul": ("", ".ftz", ".sat"),
    "fma": (".rn", ".rn.ftz", ".rn.sat", ".rn.relu", ".rn.ftz.relu", ".rn.oob", ".rn.oob.relu"),
    "min": ("", ".ftz", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"),
    "max": ("", ".ftz.NaN", ".xorsign.abs", ".ftz.NaN.xorsign.abs"),
}  # fmt: skip


def half_forms() -> Iterator[tuple[str, str, str]]:
    for name, variants in HALF_FORMS.items():
        for more in variants:
            for kind in SHAPES:
                if kind == "bf16" and ("ftz" in more or "sat" in more):
                    continue
                yield name, more, kind


@pytest.mark.parametrize("name,more,kind", list(half_forms()))
def test_pairs_of_halves(name: str, more: str, kind: str) -> None:
    words = more.split(".")
    operands = 3 if name == "fma" else 2

    def expected(*registers: int) -> int:
        low, high = (
            arithmetic(kind, name, words, *(register >> shift & 0xFFFF for register in registers)) for shift in (0, 16)
        )
        return high << 16 | low

    rows = half_rows(kind, COUNT, operands, f"{name}{more}{kind}")
    agree(f"{name}{more}.{kind}x2 D, {'A, B, C'[: 3 * operands - 2]}", "r" * (operands + 1), rows, expected)
    single = [tuple(register & 0xFFFF for register in row) for row in rows]
    agree(f"{name}{more}.{kind} D, {'A, B, C'[: 3 * operands - 2]}", "h" * (operands + 1), single,
          lambda *bits: arithmetic(kind, name, words, *bits))  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
def test_results_next_to_midpoints(kind: str) -> None:
    """The result of FMA is next to a midpoint of two halves: with a rounding to float32 first, some would be wrong."""
    pick = random.Random(kind)
    precision = SHAPES[kind][0] + 1
    rows = []
    while len(rows) < COUNT:
        a = pick.getrandbits(precision // 2) | 1
        b = pick.getrandbits(precision + 1 - precision // 2) | 1
        if (a * b).bit_length() != precision + 1:  # the product is a midpoint
            continue
        c = pick.choice((1, -1)) * 2.0 ** pick.randrange(-24, -20)
        signs = pick.choice((1, -1)), pick.choice((1, -1))
        rows.append(tuple(of_float(kind, value) for value in (a * signs[0], b * signs[1], c)))
    values = [[Fraction(number(kind, bits)) for bits in row] for row in rows]
    exact = [a * b + c for a, b, c in values]
    twice = [Fraction(f(of_f(float(total)))) for total in exact]
    assert sum(rounded(kind, one, "rn") != rounded(kind, other, "rn") for one, other in zip(exact, twice)) > 20
    agree(f"fma.rn.{kind} D, A, B, C", "hhhh", rows, lambda *bits: arithmetic(kind, "fma", [], *bits))


COMPARED: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x < y or x > y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y, "equ": lambda x, y: not (x < y or x > y),
    "neu": lambda x, y: x != y, "ltu": lambda x, y: not x >= y, "leu": lambda x, y: not x > y,
    "gtu": lambda x, y: not x <= y, "geu": lambda x, y: not x < y, "num": lambda x, y: x == x and y == y,
    "nan": lambda x, y: x != x or y != y,
}  # fmt: skip


@pytest.mark.parametrize("ftz", ["", ".ftz"])
@pytest.mark.parametrize("kind", SHAPES)
def test_comparisons_of_pairs(kind: str, ftz: str) -> None:
    if kind == "bf16" and ftz:
        return
    rows = half_rows(kind, COUNT - 40, 2, f"compare{kind}")
    rows += [(a, a ^ pair) for a, pair in itertools.product([0, 0x80008000, 0x00018001, 0x3C003C00], range(0, 2))] * 5
    one = 0x3C00 if kind == "f16" else 0x3F80
    for name, compare in COMPARED.items():

        def expected(a: int, b: int, compare: Callable[[float, float], bool] = compare) -> int:
            made = 0
            for shift in (0, 16):
                pair = [each >> shift & 0xFFFF for each in (a, b)]
                x, y = (number(kind, flushed(kind, each) if ftz else each) for each in pair)
                made |= one * compare(x, y) << shift
            return made

        agree(f"set.{name}{ftz}.{kind}x2.{kind}x2 D, A, B", "rrr", rows, expected)


# -- bytes and half words


def words(count: int, operands: int, seed: str) -> list[tuple[int, ...]]:
    pick = random.Random(seed)
    edges = (0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0x80008000, 0x7FFF8000, 0x00FF00FF, 0x01020304)
    return [
        tuple(pick.choice(edges) if pick.random() < 0.25 else pick.getrandbits(32) for _ in range(operands))
        for _ in range(count)
    ]


def signed(value: int, bits: int, type: str = "s") -> int:
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits) if type[0] == "s" else value


@pytest.mark.parametrize("b", ["u32", "s32"])
@pytest.mark.parametrize("a", ["u32", "s32"])
def test_products_of_bytes(a: str, b: str) -> None:
    def dot4(x: int, y: int, z: int) -> int:
        return z + sum(signed(x >> at, 8, a) * signed(y >> at, 8, b) for at in (0, 8, 16, 24)) & 0xFFFFFFFF

    agree(f"dp4a.{a}.{b} D, A, B, C", "rrrr", words(COUNT, 3, a + b), dot4)
    for half, start in (("lo", 0), ("hi", 16)):

        def dot2(x: int, y: int, z: int, start: int = start) -> int:
            pairs = ((0, start), (16, start + 8))
            return z + sum(signed(x >> p, 16, a) * signed(y >> q, 8, b) for p, q in pairs) & 0xFFFFFFFF

        agree(f"dp2a.{half}.{a}.{b} D, A, B, C", "rrrr", words(COUNT, 3, half), dot2)


@pytest.mark.parametrize("type", ["u16x2", "s16x2"])
def test_pairs_of_half_words(type: str) -> None:
    for name, compute in (("add", lambda x, y: x + y), ("min", min), ("max", max)):
        for relu in ("", ".relu") if type[0] == "s" and name != "add" else ("",):

            def expected(a: int, b: int, compute: Callable[[int, int], int] = compute, relu: str = relu) -> int:
                made = 0
                for shift in (0, 16):
                    value = compute(signed(a >> shift, 16, type), signed(b >> shift, 16, type))
                    made |= (max(value, 0) if relu else value) % 65536 << shift
                return made

            agree(f"{name}{relu}.{type} D, A, B", "rrr", words(COUNT, 2, name + type), expected)


VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vabsdiff": lambda x, y: abs(x - y), "vmin": min,
    "vmax": max, "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1,
}  # fmt: skip


@pytest.mark.parametrize("types", ["u32.u32.u32", "s32.s32.s32", "s32.u32.s32", "u32.s32.u32"])
@pytest.mark.parametrize("count", [2, 4])
def test_video_instructions_on_all_lanes(count: int, types: str) -> None:
    bits = 32 // count
    d, a, b = types.split(".")
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if d == "s32" else (0, (1 << bits) - 1)
    for name, compute in VIDEO.items():
        for more in ("", ".sat", ".add"):

            def expected(x: int, y: int, z: int, more: str = more, compute: Callable[[int, int], int] = compute) -> int:
                lanes = [
                    compute(signed(x >> at * bits, bits, a), signed(y >> at * bits, bits, b)) for at in range(count)
                ]
                if more == ".add":
                    return z + sum(lanes) & 0xFFFFFFFF
                lanes = [min(max(lane, low), high) for lane in lanes] if more else lanes
                return sum((lane & (1 << bits) - 1) << at * bits for at, lane in enumerate(lanes))

            agree(f"{name}{count}.{types}{more} D, A, B, C", "rrrr", words(COUNT, 3, name + more), expected)


def test_sums_of_products_of_parts() -> None:
    """`vmad` adds numbers of 65 bits before it shifts and saturates; the result's sign is that of the operands."""
    kinds = ("u32.u32.u32", "s32.s32.s32", "s32.u32.s32", "s32.u32.u32", "u32.s32.s32")
    for types, negative in itertools.product(kinds, ("", "a", "c")):
        for more, shift in (("", 0), (".sat", 0), (".shr7", 7), (".sat.shr15", 15), (".po.sat.shr7", 7)):
            d, a, b = types.split(".")
            if negative and ".po" in more or negative == "c" and "s32" not in (a, b):
                continue

            def expected(
                x: int, y: int, z: int, more: str = more, shift: int = shift, types: tuple[str, str, str] = (d, a, b),
                negative: str = negative,
            ) -> int:  # fmt: skip
                d, a, b = types
                is_signed = "s32" in (a, b) or negative == "a"
                third = signed(z, 32, "s" if is_signed else "u")
                value = signed(x, 32, a) * signed(y, 32, b) * (-1 if negative == "a" else 1)
                value = value + third * (-1 if negative == "c" else 1) + (".po" in more) >> shift
                if ".sat" in more:
                    low, high = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, (1 << 32) - 1)
                    value = min(max(value, low), high)
                return value & 0xFFFFFFFF

            operands = f"D, {'-' * (negative == 'a')}A, B, {'-' * (negative == 'c')}C"
            agree(f"vmad.{types}{more} {operands}", "rrrr", words(COUNT, 3, types + more), expected)


def test_bytes_that_are_chosen() -> None:
    modes = {
        "": None, ".f4e": lambda at, low: low + at, ".b4e": lambda at, low: (low - at) % 8, ".rc8": lambda at, low: low,
        ".ecl": lambda at, low: max(at, low), ".ecr": lambda at, low: min(at, low),
        ".rc16": lambda at, low: (low & 1) * 2 + at % 2,
    }  # fmt: skip
    for more, place in modes.items():

        def expected(a: int, b: int, c: int, place: Any = place) -> int:
            source = (a | b << 32).to_bytes(8, "little")
            made = []
            for at in range(4):
                nibble = place(at, c & 3) if place else c >> 4 * at & 15
                byte = source[nibble & 7]
                made.append(0xFF * (byte >> 7) if nibble & 8 else byte)
            return int.from_bytes(bytes(made), "little")

        agree(f"prmt.b32{more} D, A, B, C", "rrrr", words(COUNT, 3, f"prmt{more}"), expected)


# -- pairs of float32, and halves with a float32


def singles(seed: str) -> Iterator[int]:
    """Yield the bits of float32: special values, subnormals, short and random numbers."""
    pick = random.Random(seed)
    special = [0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800001, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
               0x7FC00000]  # fmt: skip
    while True:
        yield pick.choice([
            pick.choice(special), pick.getrandbits(32), pick.getrandbits(24), of_f(pick.gauss(0, 1)),
            of_f(pick.choice((1, -1)) * (1 + pick.getrandbits(4) / 16) * 2.0 ** pick.randrange(-30, 30)),
        ])  # fmt: skip


def single(name: str, mode: str, *values: float) -> int:
    """Return the bits of a float32 result, rounded once."""
    from tests.emulator.test_ptx_exact import rounded as rounded_32

    if any(value - value != 0 for value in values):
        return of_f(values[0] * values[1] + values[2] if name == "fma" else operation(name, *values))
    exact = [Fraction(value) for value in values]
    total = exact[0] * exact[1] + exact[2] if name == "fma" else operation(name, *exact)
    if total:
        return of_f(rounded_32(total, 32, mode))
    signs = [of_f(value) >> 31 for value in values]
    if name == "mul":
        return (signs[0] ^ signs[1]) << 31
    first = signs[0] ^ signs[1] if name == "fma" else signs[0]
    second = signs[2] if name == "fma" else signs[1] ^ (name == "sub")
    is_zero = not (exact[0] * exact[1] if name == "fma" else exact[0])
    negative = first if is_zero and first == second else mode == "rm"
    return 0x80000000 if negative else 0


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_pairs_of_float32(name: str, mode: str) -> None:
    operands = 3 if name == "fma" else 2
    numbers = singles(f"{name}{mode}")
    rows = [tuple(next(numbers) << 32 | next(numbers) for _ in range(operands)) for _ in range(COUNT)]
    for ftz in ("", ".ftz"):

        def expected(*registers: int, ftz: str = ftz) -> int:
            made = 0
            for shift in (0, 32):
                values = [f(register >> shift) for register in registers]
                if ftz:
                    values = [value * 0.0 if 0 < abs(value) < 2.0**-126 else value for value in values]
                bits = single(name, mode, *values)
                bits = bits & 0x80000000 if ftz and not bits & 0x7F800000 else bits
                made |= bits << shift
            return made

        agree(f"{name}.{mode}{ftz}.f32x2 D, {'A, B, C'[: 3 * operands - 2]}", "d" * (operands + 1), rows, expected)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", SHAPES)
def test_halves_with_a_float32(kind: str, mode: str) -> None:
    pick, numbers = random.Random(kind), singles(kind)
    for name, classes in (("add", "fhf"), ("sub", "fhf"), ("fma", "fhhf")):
        rows = [(*(corner(kind, pick) for _ in classes[2:]), next(numbers)) for _ in range(COUNT)]

        def expected(*given: int, name: str = name) -> int:
            return single(name, mode, *(number(kind, bits) for bits in given[:-1]), f(given[-1]))

        agree(f"{name}.{mode}.f32.{kind} D, {'A, B, C'[: 3 * len(classes) - 5]}", classes, rows, expected)


# -- small floats

FORMATS = {"e4m3": (4, 3, 7, 0x7E), "e5m2": (5, 2, 15, 0x7B), "e2m3": (2, 3, 1, 0x1F), "e3m2": (3, 2, 3, 0x1F)}


@functools.cache
def small_numbers(format: str) -> list[Fraction]:
    """Return the magnitudes of a format, and the one that would follow the largest."""
    return [small_number(format, bits) for bits in range(FORMATS[format][3] + 2)]


def small_number(format: str, bits: int) -> Fraction:
    exponent_bits, fraction, bias, _ = FORMATS[format]
    exponent, rest = bits >> fraction & (1 << exponent_bits) - 1, bits & (1 << fraction) - 1
    return (rest + (bool(exponent) << fraction)) * Fraction(2) ** (max(exponent, 1) - bias - fraction)


def to_small(format: str, value: float) -> int:
    """Round to the nearest small float, by a search among all of them; too large ones become the largest one."""
    exponent_bits, fraction, _, most = FORMATS[format]
    sign = (of_f(value) >> 31) << exponent_bits + fraction
    if value != value:
        return most if format[:2] in ("e2", "e3") else 0x7F
    size = Fraction(2) ** 200 if value - value != 0 else abs(Fraction(value))
    numbers = small_numbers(format)
    below = bisect.bisect_right(numbers, size) - 1
    if below >= most:
        return sign | most
    low, high = numbers[below], numbers[below + 1]
    up = size - low > high - size or size - low == high - size and below & 1
    return sign | below + up


@pytest.mark.parametrize("format", FORMATS)
def test_small_floats(format: str) -> None:
    pick, numbers = random.Random(format), singles(format)
    step = 8
    rows = []
    for at in range(COUNT):
        middle = float(
            small_number(format, at % FORMATS[format][3]) + small_number(format, at % FORMATS[format][3] + 1)
        )
        near = of_f(middle / 2) + pick.choice((-1, 0, 1)) if at % 2 else next(numbers)
        rows.append((max(near, 0), next(numbers)))
    name = f"cvt.rn.satfinite.{format}x2.f32"
    agree(f"{name} D, A, B", "hff", rows, lambda a, b: to_small(format, f(a)) << step | to_small(format, f(b)))
    if format in ("e4m3", "e5m2"):
        halves = [row for row in half_rows("f16", COUNT, 1, format)]

        def of_pair(pair: int) -> int:
            return to_small(format, number("f16", pair >> 16)) << 8 | to_small(format, number("f16", pair & 0xFFFF))

        agree(f"cvt.rn.satfinite.{format}x2.f16x2 D, A", "hr", halves, of_pair)
    every = [(at * 128 + at % 256 & 0xFFFF,) for at in range(COUNT)]

    def decoded(pair: int) -> int:
        made = 0
        for bits in (pair >> 8, pair & 0xFF):
            exponent_bits, fraction, _, most = FORMATS[format]
            sign = bits >> exponent_bits + fraction & 1
            size = bits & (1 << exponent_bits + fraction) - 1
            if size > most:
                half = 0x7C00 | sign << 15 if format == "e5m2" and size == 0x7C else NAN
            else:
                half = struct.unpack("<H", struct.pack("<e", float(small_number(format, size))))[0] | sign << 15
            made = made << 16 | half
        return made

    agree(f"cvt.rn.f16x2.{format}x2 D, A", "rh", every, decoded)


# -- parts of registers, atomics, and reductions


def test_parts_of_registers_are_those_registers() -> None:
    """`%r2.b3`, read before any other use of %r2 in its block, names the same register."""

    def expected(a: int, b: int, c: int) -> int:
        value = signed(a >> 16, 16) + signed(b >> 24, 8)
        return c & 0xFFFF00FF | min(max(value, -128), 127) % 256 << 8

    agree("vadd.s32.s32.s32.sat D.b1, A.h1, B.b3, C", "rrrr", words(COUNT, 3, "parts"), expected)

    def lanes(a: int, b: int, c: int) -> int:
        both = a | b << 32
        made = [(both >> 8 * at & 0xFF) + (both >> 8 * (7 - at) & 0xFF) & 0xFF for at in (0, 5, 2, 7)]
        return c & 0x00FF00FF | made[1] << 8 | made[3] << 24

    agree("vadd4.u32.u32.u32 D.b31, A.b7250, B.b0527, C", "rrrr", words(COUNT, 3, "lanes"), lanes)


def pair_of_launches(
    body: str, buffers: list[bytes], before: str = "", block: int = 256, grid: int = 2
) -> tuple[list[bytes], list[bytes]]:
    """Run a kernel with both executors; return its buffers after each."""
    parameters = ", ".join(f".param .u64 {name}" for name in ("out", "in", "more")[: len(buffers)])
    head = ".version 8.7\n.target sm_100a\n.address_size 64\n"
    found = []
    for executor in ("numpy", "scalar"):
        here = Machine(kernel(body, parameters, head=head, before=before), executor=executor, architecture=(10, 0))
        held = [here.buffer("B", content) for content in buffers]
        here.run("k", *held, grid=grid, block=block)
        if executor == "numpy":
            arrays = here.code.entries["k"]._arrays
            assert not arrays.reason and not arrays.last
        found.append([each.raw() for each in held])
    return found[0], found[1]


INDEX = "mov.u32 %r50, %tid.x; mov.u32 %r51, %ctaid.x; mad.lo.u32 %r50, %r51, 256, %r50; setp.ne.u32 %p1, %r51, 1;"


@pytest.mark.parametrize("guard", ["", "@%p1 "], ids=["all", "some"])
@pytest.mark.parametrize("places", [1, 8, 256])
@pytest.mark.parametrize("type", ["f16", "f16x2", "bf16", "bf16x2"])
def test_atomics_of_halves_are_applied_in_the_order_of_threads(type: str, places: int, guard: str) -> None:
    kind = type.partition("x")[0]
    width, letter = (4, "r") if "x2" in type else (2, "h")
    pick = random.Random(f"{type}{places}")
    numbers = [corner(kind, pick) if pick.random() < 0.05 else of_float(kind, pick.gauss(0, 1)) for _ in range(1024)]
    given = struct.pack("<1024H", *numbers)
    for text in (
        f"atom.global.add.noftz.{type} %{letter}2, [%d5], %{letter}1",
        f"red.global.add.noftz.{type} [%d5], %{letter}1",
    ):
        body = f"""{INDEX} ld.param.u64 %d6, [in]; ld.param.u64 %d7, [more];
            and.b32 %r52, %r50, {places - 1}; mad.wide.u32 %d5, %r52, {width}, %d6;
            mad.wide.u32 %d8, %r50, {width}, %d7; ld.global.b{8 * width} %{letter}1, [%d8];
            mov.b{8 * width} %{letter}2, 7;
            {guard}{text};
            mad.wide.u32 %d9, %r50, {width}, %out; st.global.b{8 * width} [%d9], %{letter}2;"""
        got, want = pair_of_launches(body, [bytes(512 * width), given[: 256 * width], given[: 512 * width]])
        assert got == want
        if places == 1 and not guard and type == "f16":  # by hand
            total = numbers[0]
            for number_ in numbers[:512]:
                total = arithmetic(kind, "add", [], total, number_)
            assert struct.unpack_from("<H", want[1])[0] == total


@pytest.mark.parametrize("verb", ["add", "min", "max"])
@pytest.mark.parametrize("type,count", [("f16", 2), ("f16", 8), ("bf16", 4), ("f16x2", 4), ("bf16x2", 2), ("f32", 4)])
def test_vectors_of_atomics(type: str, count: int, verb: str) -> None:
    if type == "f32" and verb != "add":
        return
    width = 2 if type in ("f16", "bf16") else 4
    letter, held = {2: "h", 4: "f" if type == "f32" else "r"}[width], "f32" if type == "f32" else f"b{8 * width}"
    source, target = (
        [f"%{letter}{first + at}" for at in range(count)] for first in (1, 20 if letter == "r" else count + 1)
    )
    target = target if letter != "h" or count < 8 else target[:7] + ["%h0"]
    loads = "".join(f"ld.global.{held} {name}, [%d8+{width * at}];" for at, name in enumerate(source))
    starts = "".join(f"mov.{held} {name}, {'0f3F800000' if type == 'f32' else 7};" for name in target)
    stores = "".join(f"st.global.{held} [%d9+{width * at}], {name};" for at, name in enumerate(target))
    more = "" if type == "f32" else ".noftz"
    pick = random.Random(type)
    made = [pick.gauss(0, 1) for _ in range(512 * count * 2)]
    if type == "f32":
        given = struct.pack(f"<{len(made)}f", *made)
    else:
        given = struct.pack(f"<{len(made)}H", *(of_float(type.partition("x")[0], value) for value in made))
    size = width * count
    for text in (
        f"atom.global.{verb}{more}.v{count}.{type} {{{', '.join(target)}}}, [%d5]",
        f"red.global.{verb}{more}.v{count}.{type} [%d5]",
    ):
        body = f"""{INDEX} ld.param.u64 %d6, [in]; ld.param.u64 %d7, [more];
            and.b32 %r52, %r50, 15; mad.wide.u32 %d5, %r52, {size}, %d6; mad.wide.u32 %d8, %r50, {size}, %d7;
            {loads} {starts} @%p1 {text}, {{{", ".join(source)}}};
            mad.wide.u32 %d9, %r50, {size}, %out; {stores}"""
        got, want = pair_of_launches(body, [bytes(512 * size), given[: 16 * size], given[: 512 * size]])
        assert got == want
        assert want[1] != given[: 16 * size]


@pytest.mark.parametrize("some", [False, True], ids=["all lanes", "some lanes"])
@pytest.mark.parametrize("more", ["", ".abs", ".NaN", ".abs.NaN"])
@pytest.mark.parametrize("verb", ["min", "max"])
def test_reductions_of_float32(verb: str, more: str, some: bool) -> None:
    numbers = singles(verb + more)
    bits = [next(numbers) for _ in range(512)]
    bits = [0x3F800000 if bit & 0x7FFFFFFF > 0x7F800000 and at // 32 % 2 else bit for at, bit in enumerate(bits)]
    mask, guard = ("0x55555555", "@%p2 ") if some else ("-1", "")
    body = f"""{INDEX} ld.param.u64 %d6, [in]; mad.wide.u32 %d8, %r50, 4, %d6; ld.global.f32 %f1, [%d8];
        and.b32 %r52, %r50, 1; setp.eq.u32 %p2, %r52, 0; mov.f32 %f2, 0f40E00000;
        {guard}redux.sync.{verb}{more}.f32 %f2, %f1, {mask};
        mad.wide.u32 %d9, %r50, 4, %out; st.global.f32 [%d9], %f2;"""
    got, want = pair_of_launches(body, [bytes(2048), struct.pack("<512I", *bits)])
    assert got == want
    for at, found in enumerate(struct.unpack("<512I", want[0])):
        warp = [bits[at // 32 * 32 + lane] for lane in range(0, 32, 2 if some else 1)]
        values = [bit & 0x7FFFFFFF if "abs" in more else bit for bit in warp]
        usual = [bit for bit in values if bit & 0x7FFFFFFF <= 0x7F800000]
        ordered = sorted(usual, key=lambda bit: (f(bit), not bit >> 31))
        wanted = ordered[0 if verb == "min" else -1] if ordered else 0x7FFFFFFF
        wanted = 0x7FFFFFFF if "NaN" in more and len(usual) < len(values) else wanted
        assert found == (0x40E00000 if some and at % 2 else wanted)


def test_moves_of_vectors_read_all_before_they_write() -> None:
    body = f"""{INDEX} cvt.rn.f32.u32 %f1, %r50; add.f32 %f2, %f1, %f1; mov.v2.f32 {{%f1, %f2}}, {{%f2, %f1}};
        mul.wide.u32 %d9, %r50, 8; add.u64 %d9, %out, %d9; st.global.v2.f32 [%d9], {{%f1, %f2}};"""
    got, want = pair_of_launches(body, [bytes(4096)])
    assert got == want == [struct.pack("<1024f", *(value for at in range(512) for value in (2 * at, at)))]
