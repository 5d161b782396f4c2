"""Half precision, exact to the bit: conversions in every rounding mode, arithmetic, both halves of a pair."""

from __future__ import annotations

import bisect
import functools
import math
import random
import struct
from fractions import Fraction
from typing import Callable

import pytest

from tests.emulator.ptx_client import Machine, kernel
from tests.emulator.test_ptx_opcodes import f, of_f, run

# bits of fraction, smallest normal exponent
SHAPES = {"f16": (10, -14), "bf16": (7, -126)}
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80}
NAN = 0x7FFF


def number(kind: str, bits: int) -> float:
    """Return the number with these bits."""
    if kind == "bf16":
        return f(bits << 16)
    return struct.unpack("<e", struct.pack("<H", bits))[0]


@functools.lru_cache(None)
def numbers(kind: str) -> list[Fraction]:
    """Return the positive numbers of a format, in the order of their bits."""
    return [Fraction(number(kind, bits)) for bits in range(INFINITY[kind])]


def rounded(kind: str, value: Fraction, mode: str, zero_sign: int = 0) -> int:
    """Round by a binary search over the bits, whose order is that of the numbers."""
    there, size = numbers(kind), abs(value)
    low = bisect.bisect_right(there, size) - 1
    high = low + 1
    step = there[low] - there[low - 1] if high == INFINITY[kind] else there[high] - there[low]
    below = size - there[low]
    above = step - below
    away = {
        "rn": above < below or above == below and low & 1 == 1,
        "rz": False,
        "rp": below > 0 and value > 0,
        "rm": below > 0 and value < 0,
    }[mode]
    return (0x8000 if value < 0 or value == 0 and zero_sign else 0) | (high if away else low)


def of_float(kind: str, value: float, mode: str = "rn") -> int:
    if value != value:
        return NAN
    sign = 0x8000 if math.copysign(1, value) < 0 else 0
    return sign | INFINITY[kind] if math.isinf(value) else rounded(kind, Fraction(value), mode, sign)


def samples(kind: str, count: int = 240) -> list[int]:
    rng = random.Random(kind)
    corners = [
        0,
        0x8000,
        1,
        0x8001,
        INFINITY[kind],
        INFINITY[kind] | 0x8000,
        INFINITY[kind] - 1,
        0x7FFF,
        1 << SHAPES[kind][0],
        (1 << SHAPES[kind][0]) - 1,
        0x3C00,
        0x3F80,
    ]
    return corners + [rng.getrandbits(16) for _ in range(count - len(corners))]


def floats() -> list[int]:
    """Return float32 numbers at, next to and between the numbers of both formats."""
    rng = random.Random(8)
    made = [
        of_f(v)
        for v in (
            0.0,
            -0.0,
            math.inf,
            -math.inf,
            math.nan,
            65504.0,
            65519.99,
            65520.0,
            -65536.0,
            6e-8,
            2.9e-8,
            2.98023224e-8,
            1e-45,
            3.4e38,
        )
    ]
    for kind in SHAPES:
        for _ in range(60):
            bits = rng.getrandbits(15) % (INFINITY[kind] - 1)
            low, high = number(kind, bits), number(kind, bits + 1)
            made += [of_f(rng.choice((1, -1)) * v) for v in (low, (low + high) / 2, low + (high - low) * rng.random())]
        middle = of_f((low + high) / 2)
        made += [middle + 1, middle - 1]
    return made[:500]


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("kind", SHAPES)
def test_from_float32(kind: str, mode: str) -> None:
    rows = [(bits,) for bits in floats()]
    assert run(f"cvt.{mode}.{kind}.f32 D, A", "hf", rows) == [of_float(kind, f(bits), mode) for (bits,) in rows]


@pytest.mark.parametrize("mode", ["rm", "rp"])
def test_from_float32_directed(mode: str) -> None:
    rows = [(bits,) for bits in floats()]
    assert run(f"cvt.{mode}.f16.f32 D, A", "hf", rows) == [of_float("f16", f(bits), mode) for (bits,) in rows]


def test_from_float64_rounds_once() -> None:
    values = [
        1 + 2**-11 + 2**-30,
        1 + 2**-11 - 2**-40,
        1 + 2**-11,
        65519.99999999,
        -(2.0**-25) * (1 + 2**-40),
        2.0**-25,
    ]
    rows = [(struct.unpack("<Q", struct.pack("<d", v))[0],) for v in values]
    assert run("cvt.rn.f16.f64 D, A", "hg", rows) == [of_float("f16", v) for v in values]


@pytest.mark.parametrize("kind", SHAPES)
def test_to_float32_and_integers(kind: str) -> None:
    rows = [(bits,) for bits in samples(kind)]
    for (bits,), got in zip(rows, run(f"cvt.f32.{kind} D, A", "fh", rows)):
        assert got == of_f(number(kind, bits))
    for (bits,), got in zip(rows, run(f"cvt.rni.s32.{kind} D, A", "rh", rows)):
        value = number(kind, bits)
        want = (
            0
            if value != value
            else max(
                -(2**31), min(2**31 - 1, round(value) if math.isfinite(value) else (2**31 if value > 0 else -(2**31)))
            )
        )
        assert got == want & 0xFFFFFFFF
    numbers = [(n,) for n in (0, 1, 2049, 2051, 65519, 65520, 2**31, 2**32 - 1, 77777)]
    assert run(f"cvt.rn.{kind}.s32 D, A", "hr", numbers) == [of_float(kind, n - (n >> 31 << 32)) for (n,) in numbers]


def test_flags_of_conversions() -> None:
    rows = [(of_f(v),) for v in (-1.5, 0.5, 7.0, math.nan, 1e9, -1e9, -0.0)]
    one, half = 0x3C00, 0x3800
    assert run("cvt.rn.sat.f16.f32 D, A", "hf", rows) == [0, half, one, 0, one, 0, 0]
    assert run("cvt.rn.relu.f16.f32 D, A", "hf", rows)[:5] == [0, half, 0x4700, NAN, 0x7C00]
    assert run("cvt.rn.relu.f16.f32 D, A", "rf", rows)[:2] == [0, half]  # ptxas takes a wider register for f16
    assert run("cvt.rn.satfinite.f16.f32 D, A", "rf", rows[3:5]) == [NAN, 0x7BFF]
    assert run("cvt.rn.relu.bf16x2.f32 D, A, B", "rff", [(of_f(1.0), of_f(-2.0))]) == [0x3F800000]
    assert run("cvt.rz.f16x2.f32 D, A, B", "rff", [(of_f(1.0), of_f(65535.0))]) == [0x3C007BFF]


OPERATIONS: dict[str, tuple[int, Callable[..., Fraction]]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "fma.rn": (3, lambda a, b, c: a * b + c),
}


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", SHAPES)
def test_arithmetic_rounds_once(kind: str, name: str, pair: bool) -> None:
    count, operation = OPERATIONS[name]
    rng = random.Random(name + kind)
    pool = [bits for bits in samples(kind) if bits & 0x7FFF < INFINITY[kind]]
    near = [
        0x3C00 + rng.randrange(-300, 300) if kind == "f16" else 0x3F80 + rng.randrange(-200, 200) for _ in range(300)
    ]
    rows = [tuple(rng.choice(rng.choice((pool, near))) for _ in range(count * (1 + pair))) for _ in range(250)]
    letters = "ABC"[:count]
    text = f"{name}.{kind}{'x2' if pair else ''} D, " + ", ".join(letters)
    packed = [tuple(row[at] | row[at + count] << 16 for at in range(count)) if pair else row for row in rows]
    for row, got in zip(rows, run(text, ("r" if pair else "h") * (count + 1), packed)):
        for part in range(1 + pair):
            value = operation(*(Fraction(number(kind, bits)) for bits in row[part * count : (part + 1) * count]))
            bits = got >> 16 * part & 0xFFFF
            assert bits == rounded(kind, value, "rn") if value else bits & 0x7FFF == 0, [hex(v) for v in row]


@pytest.mark.parametrize("kind", SHAPES)
def test_order_and_signs(kind: str) -> None:
    rng = random.Random(3)
    pool = samples(kind)
    rows = [(rng.choice(pool), rng.choice(pool)) for _ in range(250)] + [
        (0, 0x8000),
        (0x8000, 0),
        (NAN, 0x3C00),
        (0x3C00, NAN),
        (NAN, NAN),
    ]
    low, high, strict = (run(f"{op}.{kind} D, A, B", "hhh", rows) for op in ("min", "max", "max.NaN"))
    less = run(f"setp.ltu.{kind} D, A, B", "phh", rows)
    for (a, b), smaller, larger, one, answer in zip(rows, low, high, strict, less):
        x, y = number(kind, a), number(kind, b)
        unordered = x != x or y != y
        key = sorted(
            (bits for bits in (a, b) if number(kind, bits) == number(kind, bits)),
            key=lambda bits: (number(kind, bits), not bits >> 15),
        ) or [NAN]
        assert (smaller, larger) == (key[0], key[-1])
        assert one == (NAN if unordered else key[-1])
        assert answer == int(unordered or x < y)
    values = [(bits,) for bits in pool]
    assert run(f"neg.{kind} D, A", "hh", values) == [bits ^ 0x8000 for bits in pool]
    assert run(f"abs.{kind} D, A", "hh", values) == [bits & 0x7FFF for bits in pool]


def test_pairs_compare_into_two_predicates() -> None:
    text = "setp.lt.f16x2 %p1|%p2, A, B; selp.u32 %r8, 1, 0, %p1; selp.u32 D, 2, 0, %p2; or.b32 D, D, %r8"
    assert run(text, "rrr", [(0x3C003C00, 0x40003800), (0x3C003C00, 0x38004000)]) == [2, 1]
    assert run("set.lt.f16x2.f16x2 D, A, B", "rrr", [(0x3C003C00, 0x40003800)]) == [0x3C000000]
    assert run("set.lt.u32.f16 D, A, B", "rhh", [(0x3C00, 0x4000), (0x4000, 0x3C00)]) == [0xFFFFFFFF, 0]


def test_comparisons_flush_what_is_subnormal() -> None:
    assert run("setp.eq.f16 D, A, B", "phh", [(1, 0), (0x3FF, 0x8001)]) == [0, 0]
    assert run("setp.eq.ftz.f16 D, A, B", "phh", [(1, 0), (0x3FF, 0x8001), (0x400, 0)]) == [1, 1, 0]
    assert run("set.lt.ftz.f16x2.f16x2 D, A, B", "rrr", [(0x00000001, 0x3C000002)]) == [0x3C000000]
    assert run("set.ne.ftz.u32.f16 D, A, B", "rhh", [(1, 2), (0x400, 2)]) == [0, 0xFFFFFFFF]


def test_signs_flush_what_is_subnormal() -> None:
    halves = [(0x0001,), (0x83FF,), (0x0400,), (0x8000,), (0xFC00,)]
    assert run("abs.ftz.f16 D, A", "hh", halves) == [0, 0, 0x0400, 0, 0x7C00]
    assert run("neg.ftz.f16 D, A", "hh", halves) == [0x8000, 0, 0x8400, 0, 0x7C00]
    pairs = [(0x0001BC00,), (0x83FF0001,), (0x04008000,)]
    assert run("abs.ftz.f16x2 D, A", "rr", pairs) == [0x3C00, 0, 0x04000000]
    assert run("neg.ftz.f16x2 D, A", "rr", pairs) == [0x80003C00, 0x8000, 0x84000000]


def test_modifiers() -> None:
    assert run("add.sat.f16 D, A, B", "hhh", [(0x3C00, 0x3C00), (0xBC00, 0), (NAN, 0)]) == [0x3C00, 0, 0]
    assert run("mul.ftz.f16 D, A, B", "hhh", [(0x0001, 0x7000), (0x0400, 0x3800)]) == [0, 0]
    assert run("fma.rn.relu.f16 D, A, B, C", "hhhh", [(0xBC00, 0x3C00, 0), (0x3C00, 0x3C00, 0x3C00)]) == [0, 0x4000]
    assert run("min.xorsign.abs.f16 D, A, B", "hhh", [(0xBC00, 0x4000), (0xBC00, 0xC000)]) == [0xBC00, 0x3C00]


def test_approximations() -> None:
    rows = [(of_float("f16", v),) for v in (0.0, 1.0, -3.5, 0.25)]
    for (bits,), power, curve in zip(
        rows, run("ex2.approx.f16 D, A", "hh", rows), run("tanh.approx.f16 D, A", "hh", rows)
    ):
        assert abs(power - of_float("f16", 2.0 ** number("f16", bits))) <= 2
        assert abs(curve - of_float("f16", math.tanh(number("f16", bits)))) <= 2


def test_atomics_on_halves() -> None:
    body = """
    mov.b16 %h1, 0x3c00; mov.b32 %r1, 0x40003800;
    atom.global.add.noftz.f16 %h2, [%out], %h1;
    red.global.add.noftz.f16x2 [%out+4], %r1;
    st.global.b16 [%out+8], %h2;
"""
    here = Machine(kernel(body))
    out = here.buffer("H", [0x3800, 0, 0x3C00, 0x3C00, 0])
    here.run("k", out, block=2)
    assert out.values() == [0x4100, 0, 0x4000, 0x4500, 0x3E00]
