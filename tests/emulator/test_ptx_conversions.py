"""Every conversion of `cvt`, compared with the rules of the PTX ISA, in both executors.

The reference below follows the text of "cvt" with exact fractions: it shares no code with the emulator. A case is an
instruction; all cases of a source type are in one kernel, whose threads are the values. NaN results are compared as NaN
where the text leaves their bits open.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, Union

import pytest

from tests.emulator.ptx_client import Machine, Rejected
from tests.subject import module

syntax = module("emulator.ptx.reading.syntax")
HEAD = ".version 8.7\n.target sm_100a\n.address_size 64\n"
ALL_TYPES = "u8 u16 u32 u64 s8 s16 s32 s64 f16 f32 f64 bf16".split()
INTEGER_ROUNDINGS, ROUNDINGS = ("rni", "rzi", "rmi", "rpi"), ("rn", "rz", "rm", "rp")
INF, NAN, MINUS_ZERO = "inf", "nan", "-0"
Number = Union[Fraction, str]  # or INF, "-inf", NAN, MINUS_ZERO


# -- formats


class Format(NamedTuple):
    """A floating-point format: its width, the bits of its fraction, its bias, and what its highest codes mean."""

    bits: int
    fraction: int
    bias: int
    largest: int  # the bits of MAX_NORM
    infinity: int | None
    nan: int | None  # the canonical one


FORMATS = {
    "f16": Format(16, 10, 15, 0x7BFF, 0x7C00, 0x7FFF),
    "bf16": Format(16, 7, 127, 0x7F7F, 0x7F80, 0x7FFF),
    "f32": Format(32, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF),
    "f64": Format(64, 52, 1023, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000),
    "tf32": Format(19, 10, 127, 0x3FBFF, 0x3FC00, 0x3FFFF),  # the upper bits of 32
    "e4m3": Format(8, 3, 7, 0x7E, None, 0x7F),
    "e5m2": Format(8, 2, 15, 0x7B, 0x7C, 0x7F),
    "e2m3": Format(6, 3, 1, 0x1F, None, None),
    "e3m2": Format(6, 2, 3, 0x1F, None, None),
    "e2m1": Format(4, 1, 1, 0x7, None, None),
}


@functools.lru_cache(1 << 17)
def value_of(format: Format, bits: int) -> Number:
    """Return the number with these bits."""
    sign, size = bits >> format.bits - 1 & 1, bits & (1 << format.bits - 1) - 1
    if size > format.largest:
        return NAN if size != format.infinity else "-inf" if sign else INF
    exponent, rest = size >> format.fraction, size & (1 << format.fraction) - 1
    if not size:
        return MINUS_ZERO if sign else Fraction(0)
    whole = rest + (1 << format.fraction) if exponent else rest
    made = whole * power_of_two(max(exponent, 1) - format.bias - format.fraction)
    return -made if sign else made


@functools.lru_cache(None)
def power_of_two(exponent: int) -> Fraction:
    """Return 2 to the power of a number."""
    return Fraction(2) ** exponent


def power_below(value: Fraction) -> int:
    """Return the exponent of the largest power of two that is not above a positive number."""
    power = value.numerator.bit_length() - value.denominator.bit_length()
    return power if power_of_two(power) <= value else power - 1


def rounded_units(units: Fraction, mode: str, negative: bool, random_bits: Fraction) -> int:
    """Round a positive number of units to an integer."""
    below = math.floor(units)
    rest = units - below
    if mode == "rn":
        return below + (rest > Fraction(1, 2) or rest == Fraction(1, 2) and below % 2 == 1)
    if mode == "rna":
        return below + (rest >= Fraction(1, 2))
    if mode == "rs":
        return below + (rest + random_bits >= 1)
    return below + (rest > 0 and mode == ("rm" if negative else "rp"))


def bits_of(format: Format, number: Number, mode: str, finite: bool = False, extra: tuple[int, int] = (0, 1)) -> int:
    """Round a number to a format; `extra`: random bits, and how many there are."""
    if number == NAN:
        return format.largest if format.nan is None else format.nan
    negative = number in ("-inf", MINUS_ZERO) or isinstance(number, Fraction) and number < 0
    sign = negative << format.bits - 1
    if number in (INF, "-inf"):
        return sign | (format.largest if finite or format.infinity is None else format.infinity)
    if number == MINUS_ZERO or not number:
        return sign
    assert isinstance(number, Fraction)
    size = abs(number)
    largest = value_of(format, format.largest)
    assert isinstance(largest, Fraction)
    exponent = max(power_below(size), 1 - format.bias)
    unit = power_of_two(exponent - format.fraction)
    if mode == "rs":  # the discarded bits of the source, cut to as many as there are random bits
        units = size / unit
        size = (math.floor(units) + Fraction(math.floor((units % 1) * (1 << extra[1])), 1 << extra[1])) * unit
    count = rounded_units(size / unit, mode, negative, Fraction(extra[0], 1 << extra[1]))
    made = count * unit
    if made > largest:
        towards = mode in ("rn", "rna", "rs") or mode == ("rm" if negative else "rp")
        to_infinity = towards and not finite and format.infinity is not None
        return sign | (format.infinity if to_infinity and format.infinity is not None else format.largest)
    if count >> format.fraction + 1:
        count, exponent = count >> 1, exponent + 1
    if not count >> format.fraction:
        return sign | count  # subnormal
    return sign | (exponent + format.bias << format.fraction) + count - (1 << format.fraction)


# -- the rules of cvt


def rounded_to_integer(number: Fraction, mode: str) -> int:
    """Round a number to an integer."""
    if mode == "rzi":
        return math.trunc(number)
    if mode == "rni":
        return round(number)
    return math.floor(number) if mode == "rmi" else math.ceil(number)


def integer_range(type: str) -> tuple[int, int]:
    """Return the smallest and the largest integer of a type."""
    bits = int(type[1:])
    return (0, (1 << bits) - 1) if type[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def flushed(number: Number) -> Number:
    """Flush a subnormal float32 to a zero of the same sign."""
    if isinstance(number, Fraction) and 0 < abs(number) < power_of_two(-126):
        return MINUS_ZERO if number < 0 else Fraction(0)
    return number


def convert(words: set[str], to: str, type: str, bits: int, extra: tuple[int, int] = (0, 1)) -> set[int]:
    """Return the results that the PTX ISA permits, as bits of the width of the type."""
    mode = next((w for w in words if w in (*INTEGER_ROUNDINGS, *ROUNDINGS, "rna", "rs")), "")
    if type[0] in "us":
        low, high = integer_range(type)
        whole = bits & high - low
        number: Number = Fraction(whole - (high - low + 1) if whole > high else whole)
    else:
        number = value_of(FORMATS[type], bits)
    if "ftz" in words and type == "f32":
        number = flushed(number)
    if to[0] in "us":
        return {to_integer(words, to, type, number, mode)}
    format = FORMATS[to]
    if mode in INTEGER_ROUNDINGS and isinstance(number, Fraction):
        whole = rounded_to_integer(number, mode)
        number = Fraction(whole) if whole else MINUS_ZERO if number < 0 else Fraction(0)
    if "sat" in words:
        if number == NAN:
            return {0}
        if number == MINUS_ZERO:
            return {0, 1 << format.bits - 1}
        number = Fraction(1) if number == INF else Fraction(0) if number == "-inf" else number
        assert isinstance(number, Fraction)
        number = min(max(number, Fraction(0)), Fraction(1))
    if "relu" in words:
        if number == "-inf" or isinstance(number, Fraction) and number < 0:
            return {0}
        if number == MINUS_ZERO:
            return {0, 1 << format.bits - 1}
    made = bits_of(format, number, mode if mode in (*ROUNDINGS, "rna", "rs") else "rn", "satfinite" in words, extra)
    if "ftz" in words and to == "f32":
        small = value_of(format, made)
        made = made if flushed(small) == small else made & 1 << 31
    return {made}


def to_integer(words: set[str], to: str, type: str, number: Number, mode: str) -> int:
    """Return the bits of a conversion to an integer."""
    bits = int(to[1:])
    low, high = integer_range(to)
    if number == NAN:
        return 0 if type != "f64" and to not in ("s64", "u64") else 1 << bits - 1
    if number in (INF, "-inf"):
        return (high if number == INF else low) & (1 << bits) - 1
    exact = Fraction(0) if number == MINUS_ZERO else number
    assert isinstance(exact, Fraction)
    whole = rounded_to_integer(exact, mode) if type[0] not in "us" else int(exact)
    if type[0] not in "us" or "sat" in words:
        whole = min(max(whole, low), high)
    return whole & (1 << bits) - 1


def legal(words: list[str], to: str, type: str) -> bool:
    """Tell whether the PTX ISA, and ptxas where the text says less, accept modifiers for a pair of types."""
    whole_to, whole_from = to[0] in "us", type[0] in "us"
    mode = next((w for w in words if w in (*INTEGER_ROUNDINGS, *ROUNDINGS)), "")
    rank = {"bf16": 1, "f16": 1, "f32": 2, "f64": 3}
    if whole_to and whole_from:
        fits = not mode
    elif whole_to:
        fits = mode in INTEGER_ROUNDINGS
    elif whole_from or rank[to] < rank[type]:
        fits = mode in ROUNDINGS
    elif to == type:
        fits = not mode or mode in INTEGER_ROUNDINGS
    elif "bf16" in (to, type):
        fits = mode not in INTEGER_ROUNDINGS
    else:
        fits = not mode
    if "ftz" in words and "f32" not in (to, type):
        fits = False
    if "sat" in words and "bf16" in (to, type):
        fits = False
    if "sat" in words and whole_to and whole_from:
        (low, high), (least, most) = integer_range(to), integer_range(type)
        fits = fits and not (low <= least and most <= high)
    return fits


# -- values


def interesting(type: str) -> list[int]:
    """Return bits of a type: zeros, limits of each other type and their neighbours, subnormals, NaN, random ones."""
    rng = random.Random(type)
    width = int(type[1:]) if type[0] in "us" else FORMATS[type].bits
    found = {0, 1, 1 << width - 1, (1 << width) - 1, (1 << width - 1) - 1}
    if type[0] not in "us":
        format = FORMATS[type]
        if format.infinity is not None:
            found |= {format.infinity, format.infinity + 1, format.infinity | 1 << format.fraction - 1}
        limits = [
            Fraction(limit + d, 2)
            for n in (7, 8, 15, 16, 31, 32, 63, 64)
            for limit in (2 << n,)
            for d in (-3, -2, -1, 0, 1, 2)
        ]
        limits += [Fraction(half, 2) for half in range(9)] + [
            Fraction(1, 3),
            Fraction(65519),
            Fraction(65520),
            Fraction(65536),
        ]
        for other in FORMATS.values():
            largest, least = value_of(other, other.largest), value_of(other, 1)
            assert isinstance(largest, Fraction) and isinstance(least, Fraction)
            half = power_of_two(power_below(largest) - other.fraction) / 2
            limits += [largest, largest + half, largest + 2 * half, least, least / 2, least * Fraction(3, 2), least / 4]
            limits += [power_of_two(1 - other.bias), power_of_two(1 - other.bias) - least / 2]
        for limit in limits:
            middle = bits_of(format, limit, "rn", True)
            found |= {max(middle - 1, 0), middle, min(middle + 1, format.largest)}
        found |= {bits | 1 << width - 1 for bits in found}
    for _ in range(40):
        found.add(rng.getrandbits(width))
        found.add(rng.getrandbits(width) >> rng.randrange(width))
    return sorted(found)


# -- running many conversions of one type


class Case(NamedTuple):
    """A conversion: its opcode, its words, and the types of its result and source."""

    text: str
    words: frozenset[str]
    to: str
    type: str


STEMS = {"f32": "f", "f64": "g"}


def stem(type: str, bf16: bool) -> str:
    """Return the class of a register for a type: one of 8 bits is needed beside bf16."""
    if type in STEMS:
        return STEMS[type]
    bits = int(type[1:]) if type[0] in "us" else FORMATS[type].bits if type != "tf32" else 32
    return {8: "b" if bf16 else "h", 16: "h", 32: "r", 64: "d"}[bits]


def results(cases: list[Case], type: str, values: list[int], executor: str) -> list[list[int]]:
    """Return the results of each case for each value, widened to 64 bits."""
    count = len(values)
    lines = [
        ".visible .entry k(.param .u64 out, .param .u64 in) {",
        ".reg .b8 %b<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .f64 %g<9>;",
        "ld.param.u64 %d1, [out]; ld.param.u64 %d2, [in]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 8;",
        "add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3; ld.global.u64 %d4, [%d2]; mov.b64 %g4, %d4;",
        "cvt.u32.u64 %r4, %d4; mov.b32 %f4, %r4; cvt.u16.u32 %h4, %r4; ld.global.u8 %b4, [%d2];",
    ]
    for number, case in enumerate(cases):
        bf16 = "bf16" in (case.to, case.type)
        result = stem(case.to, bf16)
        at = f"[%d1+{8 * count * number}]"
        lines.append(f"{case.text} %{result}5, %{stem(case.type, bf16)}4;")
        if result == "b":
            lines.append(f"st.global.u8 {at}, %b5;")
            continue
        lines.append(
            {"h": "cvt.u64.u16 %d5, %h5;", "r": "cvt.u64.u32 %d5, %r5;", "d": "", "g": "mov.b64 %d5, %g5;",
             "f": "mov.b32 %r5, %f5; cvt.u64.u32 %d5, %r5;"}[result]
        )  # fmt: skip
        lines.append(f"st.global.u64 {at}, %d5;")
    here = Machine(HEAD + "\n".join([*lines, "ret; }"]), executor=executor, architecture=(10, 0))
    out = here.buffer("Q", [0] * (count * len(cases)))
    here.run("k", out, here.buffer("Q", values), block=count)
    if executor == "numpy":
        assert here.code.entries["k"]._arrays.reason == here.code.entries["k"]._arrays.last == ""
    flat = out.values()
    return [flat[start : start + count] for start in range(0, len(flat), count)]


def compare(cases: list[Case], type: str, executors: Sequence[str]) -> None:
    """Compare conversions of a type with the reference, which takes longer than the conversions of each executor."""
    values = interesting(type)[:1024]
    wrong = []
    references = [[convert(set(case.words), case.to, type, bits) for bits in values] for case in cases]
    found = [(executor, results(cases, type, values, executor)) for executor in executors]
    for executor, case, reference, got in (
        (executor, *row) for executor, rows in found for row in zip(cases, references, rows)
    ):
        for bits, made, wanted in zip(values, got, reference):
            width = int(case.to[1:]) if case.to[0] in "us" else FORMATS[case.to].bits
            if case.to == "tf32":
                assert made & 0x1FFF == (0x1FFF if value_of(FORMATS["f32"], made) == NAN else 0), case.text
                made >>= 13
            elif width == 8:  # in a register of 16 bits, extended by its sign
                made &= 0xFFFF if case.to[0] == "s" and "bf16" not in case.type else 0xFF
                wanted = {
                    w | (0xFF00 if w >> 7 and case.to[0] == "s" and "bf16" not in case.type else 0) for w in wanted
                }
            elif case.to in FORMATS and not case.words & {"relu", "satfinite"}:
                some = next(iter(wanted))
                if value_of(FORMATS[case.to], some) == NAN and value_of(FORMATS[case.to], made) == NAN:
                    continue  # the text leaves its bits open
            if made not in wanted:
                wrong.append(f"{executor}: {case.text} of {bits:#x} is {made:#x}, not {' or '.join(map(hex, wanted))}")
    assert not wrong, f"{len(wrong)} wrong: " + "; ".join(wrong[:: max(1, len(wrong) // 10)])


def cases_of(type: str) -> list[Case]:
    """Return every legal conversion from a type."""
    found = []
    for to, mode, ftz, sat in itertools.product(
        ALL_TYPES, ("", *INTEGER_ROUNDINGS, *ROUNDINGS), ("", "ftz"), ("", "sat")
    ):
        words = [word for word in (mode, ftz, sat) if word]
        if legal(words, to, type):
            found.append(Case(".".join(["cvt", *words, to, type]), frozenset(words), to, type))
    if type == "f32":
        for to, mode, relu, finite in itertools.product(("f16", "bf16"), ("rn", "rz"), ("", "relu"), ("", "satfinite")):
            words = [word for word in (mode, relu, finite) if word]
            if relu or finite:
                found.append(Case(".".join(["cvt", *words, to, type]), frozenset(words), to, type))
        for mode, relu, finite in itertools.product(("rn", "rz"), ("", "relu"), ("", "satfinite")):
            words = [word for word in (mode, relu, finite) if word]
            found.append(Case(".".join(["cvt", *words, "tf32", type]), frozenset(words), "tf32", type))
        found += [
            Case(f"cvt.rna{f}.tf32.f32", frozenset(("rna", *f.split(".")[1:])), "tf32", type)
            for f in ("", ".satfinite")
        ]
    return found


EXECUTORS = ("scalar", "numpy")


def has_numpy() -> bool:
    """Tell whether there is a NumPy that the executor can use."""
    try:
        import numpy
    except ImportError:
        return False
    return int(numpy.__version__.split(".")[0]) >= 2


@pytest.mark.parametrize("type", ALL_TYPES)
def test_every_conversion_from_a_type(type: str) -> None:
    compare(cases_of(type), type, EXECUTORS if has_numpy() else EXECUTORS[:1])


@pytest.mark.parametrize("type", ALL_TYPES)
def test_what_is_no_conversion_is_rejected(type: str) -> None:
    for to, mode, ftz, sat in itertools.product(
        ALL_TYPES, ("", *INTEGER_ROUNDINGS, *ROUNDINGS), ("", "ftz"), ("", "sat")
    ):
        words = [word for word in (mode, ftz, sat) if word]
        if not legal(words, to, type):
            bf16 = "bf16" in (to, type)
            text = f"{'.'.join(['cvt', *words, to, type])} %{stem(to, bf16)}1, %{stem(type, bf16)}2;"
            with pytest.raises(Rejected, match="for instruction 'cvt'|type of convert operation"):
                Machine(HEAD + _declared(text), architecture=(10, 0))


def _declared(body: str) -> str:
    registers = ".reg .b8 %b<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .f64 %g<9>;"
    return f".visible .entry k() {{ {registers}\n{body}\nret; }}"


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
def test_ptxas_accepts_the_same_conversions(tmp_path: Path) -> None:
    combinations = list(
        itertools.product(ALL_TYPES, ALL_TYPES, ("", *INTEGER_ROUNDINGS, *ROUNDINGS), ("", "ftz"), ("", "sat"))
    )
    lines, wanted = [], []
    for to, type, mode, ftz, sat in combinations:
        words = [word for word in (mode, ftz, sat) if word]
        bf16 = "bf16" in (to, type)
        lines.append(f"{'.'.join(['cvt', *words, to, type])} %{stem(to, bf16)}1, %{stem(type, bf16)}2;")
        wanted.append(legal(words, to, type))
    path = tmp_path / "all.ptx"
    path.write_text(HEAD + _declared("\n".join(lines)))
    ran = subprocess.run(
        ["ptxas", "-arch=sm_100a", path.name, "-o", "out"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    refused = {int(number) for number in re.findall(r"line (\d+); error", ran.stdout + ran.stderr)}
    assert refused, ran.stderr[:1000]
    got = [number + 5 not in refused for number in range(len(lines))]
    assert got == wanted, [line for line, a, b in zip(lines, got, wanted) if a != b]


# -- packed formats

SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")


def pack(values: list[int], step: int) -> int:
    """Pack elements, the first one uppermost."""
    return functools.reduce(lambda made, value: made << step | value, values, 0)


def packed_rows() -> Iterator[tuple[int, int, int, int]]:
    """Yield rows of four float32."""
    values = interesting("f32")
    rng = random.Random(5)
    for value in values:
        yield (value, rng.choice(values), rng.choice(values), rng.choice(values))


PACKED: list[tuple[str, int]] = [
    *((f"cvt.{mode}{relu}{finite}.{to}x2.f32", 2)
      for to in ("f16", "bf16") for mode in ("rn", "rz") for relu in ("", ".relu") for finite in ("", ".satfinite")),
    *((f"cvt.rs{relu}{finite}.{to}x2.f32", 2)
      for to in ("f16", "bf16") for relu in ("", ".relu") for finite in ("", ".satfinite")),
    *((f"cvt.rn{relu}.satfinite.{to}x2.f32", 2) for to in SMALL for relu in ("", ".relu")),
    *((f"cvt.rs{relu}.satfinite.{to}x4.f32", 4) for to in SMALL for relu in ("", ".relu")),
]  # fmt: skip


def packed_result(text: str, row: tuple[int, ...], bits: int) -> list[set[int]]:
    """Return what each element of a packed conversion may be."""
    words = text.split(".")
    to, count = words[-2][:-2], int(words[-2][-1])
    if "rs" not in words:
        extras = [(0, 1)] * count
    elif count == 2:
        width = 13 if to == "f16" else 16
        extras = [(bits >> 16 & (1 << width) - 1, width), (bits & (1 << width) - 1, width)]
    elif to == "e2m1":  # the upper bytes of both halves, then the lower ones
        upper, lower = bits >> 16 & 0xFF00 | bits >> 8 & 0xFF, bits >> 8 & 0xFF00 | bits & 0xFF
        extras = [(upper, 16), (upper, 16), (lower, 16), (lower, 16)]
    else:
        extras = [(bits >> 16, 16), (bits >> 16, 16), (bits & 0xFFFF, 16), (bits & 0xFFFF, 16)]
    return [convert(set(words), to, "f32", value, extra) for value, extra in zip(row[:count], extras)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_packed_conversions(executor: str) -> None:
    if executor == "numpy":
        pytest.importorskip("numpy", minversion="2.0")
    rows = list(packed_rows())[:1024]
    rng = random.Random(6)
    randoms = [rng.getrandbits(32) for _ in rows]
    lines = [
        ".visible .entry k(.param .u64 out, .param .u64 in) {",
        ".reg .b8 %b<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>;",
        "ld.param.u64 %d1, [out]; ld.param.u64 %d2, [in]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 8;",
        "add.u64 %d1, %d1, %d3; mul.wide.u32 %d3, %r1, 32; add.u64 %d2, %d2, %d3;",
        "ld.global.f32 %f1, [%d2]; ld.global.f32 %f2, [%d2+4]; ld.global.f32 %f3, [%d2+8];",
        "ld.global.f32 %f4, [%d2+12]; ld.global.u32 %r4, [%d2+16];",
    ]
    for number, (text, count) in enumerate(PACKED):
        words = text.split(".")
        narrow = {"e2m1x2": "b", "e2m1x4": "h"}.get(words[-2], "h" if words[-2][0] == "e" and count == 2 else "r")
        given = "%f1, %f2" if count == 2 else "{%f1, %f2, %f3, %f4}"
        lines.append(f"{text} %{narrow}5, {given}{', %r4' if 'rs' in words else ''};")
        width = {"b": 8, "h": 16, "r": 32}[narrow]
        lines.append(f"st.global.u{width} [%d1+{8 * len(rows) * number}], %{narrow}5;")
    here = Machine(HEAD + "\n".join([*lines, "ret; }"]), executor=executor, architecture=(10, 0))
    out = here.buffer("Q", [0] * (len(rows) * len(PACKED)))
    flat = [number | (high << 32) for row, extra in zip(rows, randoms)
            for number, high in ((row[0], row[1]), (row[2], row[3]), (extra, 0), (0, 0))]  # fmt: skip
    here.run("k", out, here.buffer("Q", flat), block=len(rows))
    got = iter(out.values())
    wrong = []
    for text, count in PACKED:
        to = text.split(".")[-2]
        width = FORMATS[to[:-2]].bits
        step = 8 if width == 6 else width
        for row, extra in zip(rows, randoms):
            made = next(got)
            wanted = packed_result(text, row, extra)
            parts = [made >> step * (count - 1 - at) & (1 << step) - 1 for at in range(count)]
            if not all(part in allowed for part, allowed in zip(parts, wanted)):
                wrong.append(f"{text} of {[hex(each) for each in row[:count]]}, {extra:#x} is {made:#x}, not {wanted}")
    assert not wrong, f"{len(wrong)} wrong: " + "; ".join(wrong[:: max(1, len(wrong) // 10)])


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("type", SMALL)
def test_small_floats_to_halves_and_back(type: str, relu: str, executor: str) -> None:
    """Each code of a small format becomes a float16 exactly; each float16 is rounded to formats of 8 bits."""
    if executor == "numpy":
        pytest.importorskip("numpy", minversion="2.0")
    format = FORMATS[type]
    step = 8 if format.bits == 6 else format.bits
    rows = [(high * 7 % (1 << format.bits)) << step | high for high in range(1 << format.bits)]
    narrow = "b" if type == "e2m1" else "h"
    body = f"ld.global.u{8 if narrow == 'b' else 16} %{narrow}1, [%d2]; cvt.rn{relu}.f16x2.{type}x2 %r2, %{narrow}1;"
    for bits, made in zip(rows, _through(body, rows, executor)):
        for shift in (1, 0):
            number = value_of(format, bits >> step * shift & (1 << format.bits) - 1)
            wanted = _clamped(number, relu, FORMATS["f16"], "rn")
            assert made >> 16 * shift & 0xFFFF in wanted, (hex(bits), hex(made), wanted)
    if step != 8 or format.bits != 8:
        return
    rows = [bits << 16 | rest for bits, rest in zip(interesting("f16"), reversed(interesting("f16")))]
    body = f"ld.global.u32 %r1, [%d2]; cvt.rn.satfinite{relu}.{type}x2.f16x2 %h1, %r1; cvt.u32.u16 %r2, %h1;"
    for bits, made in zip(rows, _through(body, rows, executor)):
        for shift in (1, 0):
            wanted = _clamped(value_of(FORMATS["f16"], bits >> 16 * shift & 0xFFFF), relu, format, "rn")
            assert made >> 8 * shift & 0xFF in wanted, (hex(bits), hex(made), wanted)


def _clamped(number: Number, relu: str, format: Format, mode: str) -> set[int]:
    if relu and (number == "-inf" or isinstance(number, Fraction) and number < 0):
        return {0}
    if relu and number == MINUS_ZERO:
        return {0, 1 << format.bits - 1}
    return {bits_of(format, number, mode, format.bits == 8)}


def _through(body: str, rows: list[int], executor: str) -> list[int]:
    """Run a body that makes %r2 of what is at [%d2], for each row."""
    rows = rows[:1024]
    text = (
        ".visible .entry k(.param .u64 out, .param .u64 in) { .reg .b8 %b<9>; .reg .b16 %h<9>; .reg .b32 %r<9>;"
        ".reg .b64 %d<9>; ld.param.u64 %d1, [out]; ld.param.u64 %d2, [in]; mov.u32 %r3, %tid.x;"
        "mul.wide.u32 %d3, %r3, 8; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;\n"
        f"{body}\ncvt.u64.u32 %d4, %r2; st.global.u64 [%d1], %d4; ret; }}"
    )
    here = Machine(HEAD + text, executor=executor, architecture=(10, 0))
    out = here.buffer("Q", [0] * len(rows))
    here.run("k", out, here.buffer("Q", rows), block=len(rows))
    made: list[Any] = out.values()
    return made


@pytest.mark.parametrize("executor", EXECUTORS)
def test_scales(executor: str) -> None:
    """.ue8m0x2: powers of two, rounded towards zero or up, without a sign."""
    if executor == "numpy":
        pytest.importorskip("numpy", minversion="2.0")
    values = interesting("f32")[:1024]
    for mode, finite in itertools.product(("rz", "rp"), ("", ".satfinite")):
        body = f"ld.global.f32 F, [%d2]; cvt.{mode}{finite}.ue8m0x2.f32 %h1, F, F; cvt.u32.u16 %r2, %h1;"
        for bits, made in zip(values, _through("{ .reg .f32 F;" + body + "}", values, executor)):
            number = value_of(FORMATS["f32"], bits)
            assert made >> 8 == made & 0xFF
            if number == NAN:
                assert made & 0xFF == 0xFF
            elif number in (INF, "-inf"):
                assert made & 0xFF == (0xFE if finite else 0xFF)
            elif isinstance(number, Fraction) and number:
                power = power_below(abs(number))
                power += mode == "rp" and abs(number) != power_of_two(power)
                wanted = min(max(power + 127, 0), 0xFE if finite else 0xFF)
                assert made & 0xFF == wanted, (hex(bits), mode, finite)
    rows = [bits << 8 | (bits * 5 & 0xFF) for bits in range(256)]
    body = "ld.global.u16 %h1, [%d2]; cvt.rn.bf16x2.ue8m0x2 %r2, %h1;"
    for bits, made in zip(rows, _through(body, rows, executor)):
        for shift in (1, 0):
            code, half = bits >> 8 * shift & 0xFF, made >> 16 * shift & 0xFFFF
            wanted = NAN if code == 0xFF else power_of_two(code - 127)
            assert value_of(FORMATS["bf16"], half) == wanted, (hex(bits), hex(made))
