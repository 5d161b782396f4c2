"""Arithmetic that is rounded once, in all four rounding modes, with the hardest operands.

Results are at, just below and just above the midpoint of two neighbours, at a neighbour, next to overflow and among
subnormals. Fraction gives the expected values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Callable

import pytest

from tests.emulator.test_ptx_opcodes import f, g, of_f, of_g, run

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

MODES = ("rn", "rz", "rm", "rp")
FORMATS = {32: (24, -126, 127, "f", f, of_f), 64: (53, -1022, 1023, "g", g, of_g)}


def rounded(top: Fraction, bits: int, mode: str) -> float:
    """Round a number that is not 0 to a format."""
    precision, least, most = FORMATS[bits][:3]
    size = abs(top)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    count, rest = divmod(size, unit)
    away = {
        "rn": 2 * rest > unit or 2 * rest == unit and count % 2 == 1,
        "rz": False,
        "rm": rest > 0 and top < 0,
        "rp": rest > 0 and top > 0,
    }[mode]
    size = (count + away) * unit
    if size >= Fraction(2) ** (most + 1):
        to_infinity = mode == "rn" or mode == ("rp" if top > 0 else "rm")
        value = math.inf if to_infinity else float((2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** most)
    else:
        value = float(size)
    return value if top > 0 else -value


def compared_root(value: Fraction) -> Callable[[int, str], float]:
    """Round the square root of a number: find the neighbours by integer roots, and compare squares."""

    def compute(bits: int, mode: str) -> float:
        scale = 1 << 2 * (FORMATS[bits][0] + 1200)
        root = math.isqrt(value.numerator * value.denominator * scale)
        below = Fraction(root, value.denominator * math.isqrt(scale))
        if below * below != value:  # not rational: all numbers strictly between two neighbours round in the same way
            below += Fraction(1, 2 * value.denominator * math.isqrt(scale))
        return rounded(below, bits, mode)

    return compute


def significand(pick: random.Random, precision: int, extra: int = 0) -> int:
    """Return an integer of this number of bits, often with long runs of equal bits, whose last `extra` are 1000..."""
    made = 1 << precision - 1 | pick.choice(
        (pick.getrandbits(precision - 1), 0, (1 << precision - 1) - 1, pick.getrandbits(4))
    )
    return made << extra | (1 << extra - 1 if extra else 0)


def neighbours(
    value: Fraction, bits: int, read: Callable[[int], float], write: Callable[[float], int]
) -> Iterator[float]:
    """Return the numbers of a format just below, at and above a value."""
    try:
        middle = write(float(value))
    except OverflowError:
        return
    for step in (-1, 0, 1):
        near = read(max(0, middle + step))
        if math.isfinite(near):
            yield near


def hard(operation: str, bits: int, pick: random.Random) -> Iterator[tuple[float, ...]]:
    """Yield operands whose result is next to a midpoint or to a number of the format."""
    precision, least, most, _, read, write = FORMATS[bits]
    span = most if operation in ("add", "sub") else most // 2
    while True:
        extra = pick.choice((0, 1, 1))
        sign = pick.choice((1, -1))
        exponent = pick.choice((0, 0, pick.randint(-span, span - 2), least, least - precision + 3, most - 1))
        aim = sign * significand(pick, precision, extra) * Fraction(2) ** (exponent - precision - extra + 1)
        other = significand(pick, precision) * Fraction(2) ** (
            pick.choice((0, 1, -1, 5, pick.randint(-span // 2, span // 2))) - precision + 1
        )
        if operation in ("add", "sub"):
            small = (
                abs(aim)
                * Fraction(2) ** -precision
                * pick.choice((1, 1 + Fraction(2) ** (1 - precision), 1 - Fraction(2) ** -precision, Fraction(1, 3)))
            )
            pairs = [(aim - aim * Fraction(2) ** -precision, small), (aim, small), (aim - other, other)]
            for a, b in pairs:
                for x in neighbours(a, bits, read, write):
                    for y in neighbours(b, bits, read, write):
                        yield (x, y if operation == "add" else -y)
        elif operation == "mul":
            for x in neighbours(aim / other, bits, read, write):
                yield (x, *list(neighbours(other, bits, read, write))[1:2])
        elif operation == "div":
            for x in neighbours(aim * other, bits, read, write):
                yield (x, *list(neighbours(other, bits, read, write))[1:2])
        elif operation == "rcp":
            yield from ((x,) for x in neighbours(1 / aim, bits, read, write))
        elif operation == "sqrt":
            yield from ((abs(x),) for x in neighbours(aim * aim, bits, read, write))
        else:
            first = next(neighbours(other, bits, read, write), 1.0)
            for x in neighbours(aim / other, bits, read, write):
                product = Fraction(x) * Fraction(first)
                for c in (
                    aim - product,
                    aim * Fraction(2) ** -precision,
                    -product,
                    abs(aim) * Fraction(2) ** (-2 * precision) * pick.choice((1, -1)),
                ):
                    yield from ((x, first, z) for z in neighbours(c, bits, read, write))


EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
    "fma": lambda a, b, c: a * b + c,
    "sqrt": lambda a: a,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("operation", EXACT)
def test_hard_cases(operation: str, bits: int, mode: str) -> None:
    kind, read, write = FORMATS[bits][3:]
    compute = EXACT[operation]
    count = compute.__code__.co_argcount
    rows: list[tuple[float, ...]] = []
    for row in hard(operation, bits, random.Random(f"{operation} {bits}")):
        if (
            len(row) == count
            and all(math.isfinite(x) and read(write(x)) == x for x in row)
            and (operation not in ("div", "rcp", "sqrt") or row[-1])
        ):
            rows.append(row)
        if len(rows) == 1000:
            break
    halfway = 0
    for start in range(0, len(rows), 250):
        part = rows[start : start + 250]
        text = f"{operation}.{mode}.f{bits} D, " + ", ".join("ABC"[:count])
        for row, got in zip(part, run(text, kind * (count + 1), [tuple(map(write, row)) for row in part])):
            exact = compute(*map(Fraction, row))
            if not exact:
                assert not read(got)
                continue
            want = compared_root(exact)(bits, mode) if operation == "sqrt" else rounded(exact, bits, mode)
            assert read(got) == want and math.copysign(1, read(got)) == math.copysign(1, want), (row, read(got), want)
            if mode == "rn" and operation in ("add", "sub", "fma") and math.isfinite(want):
                error = abs(exact - Fraction(want))
                halfway += bool(want) and error == abs(Fraction(read(write(want) ^ 1)) - Fraction(want)) / 2
    if mode == "rn" and operation in ("add", "sub", "fma"):
        assert halfway > 15  # the hard cases occur


def test_the_judge_of_this_file() -> None:
    """The reference functions of this file agree with Python's own rounding."""
    pick = random.Random(1)
    for _ in range(2000):
        a, b = (math.ldexp(pick.random(), pick.randint(-30, 30)) for _ in range(2))
        assert (
            rounded(Fraction(a) + Fraction(b), 64, "rn") == a + b
            and rounded(Fraction(a) / Fraction(b), 64, "rn") == a / b
        )
        assert compared_root(Fraction(a))(64, "rn") == math.sqrt(a)
    assert rounded(Fraction(1, 3), 32, "rm") < Fraction(1, 3) < rounded(Fraction(1, 3), 32, "rp") == f(of_f(1 / 3))
