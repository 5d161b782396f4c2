"""Compiled kernels compute correctly: atomics, integers, halves, conversions, floating point."""

from __future__ import annotations

import math
import random
import re
import statistics
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Callable

import pytest

np = pytest.importorskip("numpy")

from tests.driver.corpus import (  # noqa: E402
    FORMATS,
    Build,
    builds,
    built,
    number,
    rng,
    root,
    rounded,
    same,
    under_its_own_name,
    within,
)
from tests.shared import quotient, rest, wrap  # noqa: E402

pytestmark = under_its_own_name

# -- atomics

UPDATES: dict[str, tuple[str, Any, Callable[[int, int], int]]] = {
    "add_i32": ("i4", 7, lambda c, v: wrap(c + v, 32, True)),
    "sub_u32": ("u4", 7, lambda c, v: wrap(c - v, 32, False)),
    "min_i32": ("i4", 3, min),
    "max_u32": ("u4", 3, max),
    "and_b32": ("u4", 0xFFFFFFFF, lambda c, v: c & v),
    "or_b32": ("u4", 0, lambda c, v: c | v),
    "xor_b32": ("u4", 5, lambda c, v: c ^ v),
    "exch_b32": ("i4", 5, lambda c, v: v),
    "cas_b32": ("u4", 40, lambda c, v: v + 1 if c == v else c),
    "inc_u32": ("u4", 1, lambda c, v: 0 if c >= v else c + 1),
    "dec_u32": ("u4", 3, lambda c, v: v if c == 0 or c > v else c - 1),
    "add_u64": ("u8", 7, lambda c, v: wrap(c + v, 64, False)),
    "min_i64": ("i8", 3, min),
    "max_u64": ("u8", 3, max),
    "and_b64": ("u8", 2**64 - 1, lambda c, v: c & v),
    "or_b64": ("u8", 0, lambda c, v: c | v),
    "xor_b64": ("u8", 5, lambda c, v: c ^ v),
    "exch_b64": ("u8", 5, lambda c, v: v),
    "cas_b64": ("u8", 40, lambda c, v: wrap(v * 2, 64, False) if c == v else c),
    "cas_b16": ("u2", 40, lambda c, v: wrap(v + 1, 16, False) if c == v else c),
    "add_f32": ("f4", 0.5, lambda c, v: c + v),
    "exch_f32": ("f4", 0.5, lambda c, v: v),
    "add_f64": ("f8", 0.25, lambda c, v: c + v),
    "add_f16": ("f2", 0.5, lambda c, v: c + v),
    "block_add": ("i4", 7, lambda c, v: wrap(c + v, 32, True)),
    "system_max": ("i4", 7, max),
}


@builds("atomics")
@pytest.mark.parametrize("form", ["", "_shared", "_unread"])
def test_atomics(built: Build, form: str) -> None:
    """Replay the operations: in some order, the state that a thread leaves is the state that another thread reads."""
    for name, (code, start, update) in UPDATES.items():
        random_ = rng(name)
        if "f" in code:
            values = [float(random_.randrange(-40, 40)) for _ in range(40)]
        elif "cas" in name or "inc" in name or "dec" in name:
            values = [random_.randrange(38, 44) if "cas" in name else random_.randrange(1, 6) for _ in range(40)]
        else:
            bits = 8 * int(code[1])
            values = [
                random_.randrange(-(1 << bits - 1), 1 << bits - 1) if code[0] == "i" else random_.randrange(1 << bits)
                for _ in range(40)
            ]
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
        ended, seen, _ = built.run(
            name + form, cell, np.zeros(40, code), given, 40, grid=1 if form else 2, block=64 if form else 32
        )
        replay(
            name, np.array([start], code)[0].item(), list(zip(seen.tolist(), given.tolist())), update, ended[0].item()
        )


def replay(name: str, state: Any, steps: list[tuple[Any, Any]], update: Callable[[Any, Any], Any], ended: Any) -> None:
    """Find an order in which each step reads the state that the previous one left."""
    arcs: dict[Any, list[Any]] = {}
    for seen, value in steps:
        arcs.setdefault(seen, []).append(update(seen, value))
    path, stack = [], [state]  # an Eulerian path through the states
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
    assert built.run("add_f16x2_unread", cell.view("u4"), given.view("u4"), 32, block=32)[0].view("f2").tolist() == want
    brain = (np.array(values, "f4").view("u4") >> 16).astype("u2")
    start = (np.array([1.0, 2.0], "f4").view("u4") >> 16).astype("u2")
    for form in ("", "_shared"):
        ended = built.run("add_bf16x2" + form, start.view("u4"), np.zeros(32, "u4"), brain.view("u4"), 32, block=32)[
            0
        ].view("u2")
        assert [number("bf16", b) for b in ended.tolist()] == want
        assert (
            built.run("add_bf16x2_unread", start.view("u4"), brain.view("u4"), 32, block=32)[0].tolist()
            == ended.view("u4").tolist()
        )
        ended = built.run("add_bf16" + form, start, np.zeros(32, "u2"), brain[::2].copy(), 32, block=32)[0]
        assert number("bf16", int(ended[0])) == want[0]


@builds("atomics", only="sm90|sm1")
def test_atomics_of_vectors(built: Build) -> None:
    for name, width in (("add_float4", 4), ("add_float2", 2)):
        values = np.arange(20 * width, dtype="f4").reshape(20, width)
        cell, seen, _ = built.run(name, np.ones(width, "f4"), np.zeros((20, width), "f4"), values, 20, block=32)
        assert (cell == 1 + values.sum(0)).all() and (seen.min(0) == 1).all()


@builds("atomics")
def test_loops_of_compare_and_swap(built: Build) -> None:
    values = np.array([rng(i).uniform(0, 100) for i in range(100)], "f4")
    assert built.run("max_float", np.zeros(1, "f4"), values, 100, grid=2, block=64)[0][0] == values.max()
    assert [int(x[0]) for x in built.run("lock_step", np.zeros(1, "i4"), np.zeros(1, "i4"), grid=3, block=20)] == [
        0,
        60,
    ]


# -- half precision

SPECIAL_HALVES = {
    "f16": [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3555, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00],
    "bf16": [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF80, 0x3EAB, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0],
}


def half_triples(format: str, seed: object, count: int = 160) -> list[list[int]]:
    """Return three columns of bits: corner cases, then numbers of similar size."""
    random_ = rng(seed)
    corners = SPECIAL_HALVES[format]
    rows = [[random_.choice(corners) for _ in range(3)] for _ in range(count // 2)]
    middle, spread = (15, 6) if format == "f16" else (127, 9)
    digits = 10 if format == "f16" else 7
    rows += [
        [
            random_.getrandbits(1) << 15
            | random_.randint(middle - spread, middle + spread) << digits
            | random_.getrandbits(digits)
            for _ in range(3)
        ]
        for _ in range(count - len(rows))
    ]
    return [list(column) for column in zip(*rows)]


def ieee(
    operation: Callable[..., Fraction], plain: Callable[..., float], format: str, mode: str = "rn"
) -> Callable[..., float]:
    """Return an operation that is exact and rounded once for finite numbers; other numbers are left to Python."""

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
            return (
                -0.0
                if mode == "rd" and not rough and cancels(values, operation)
                else rough
                if not rough
                else math.copysign(0.0, rough)
            )
        return rounded(exact, format, mode)

    def cancels(values: tuple[float, ...], operation: object) -> bool:
        if operation is ADD:
            x, y = values
        elif operation is FMA:
            x, y = (
                math.copysign(1, values[0]) * values[1]
                if values[0]
                else math.copysign(0.0, values[0]) * math.copysign(1, values[1]),
                values[2],
            )
        else:
            return False
        return not (not x and not y and math.copysign(1, x) == math.copysign(1, y) == 1)

    return compute


ADD: Callable[..., Fraction] = lambda x, y: x + y
FMA: Callable[..., Fraction] = lambda x, y, z: x * y + z


def clean(x: float) -> float:
    """Return +0 for a negative number, as relu does, and keep a NaN."""
    return x if x != x else max(x, 0.0) + 0.0


def halves(format: str) -> dict[str, tuple[float, Callable[..., float]]]:
    """Return the kernels of halves: name -> (ulps, f(x, y, z))."""
    add = ieee(ADD, lambda x, y: x + y, format)
    mul = ieee(lambda x, y: x * y, lambda x, y: x * y, format)
    fma = ieee(FMA, lambda x, y, z: x * y + z, format)
    return {
        "add": (0, lambda x, y, z: add(x, y)),
        "sub": (0, lambda x, y, z: add(x, -y)),
        "mul": (0, lambda x, y, z: mul(x, y)),
        "fma": (0, fma),
        "div": (1, lambda x, y, z: ieee(lambda a, b: a / b, lambda a, b: a / b, format)(x, y)),
        "min": (
            0,
            lambda x, y, z: (
                x if y != y else y if x != x else min(x, y) if x != y else x if math.copysign(1, x) < 0 else y
            ),
        ),
        "max_nan": (
            0,
            lambda x, y, z: (
                math.nan if x != x or y != y else max(x, y) if x != y else x if math.copysign(1, x) > 0 else y
            ),
        ),
        "neg": (0, lambda x, y, z: -x),
        "abs": (0, lambda x, y, z: abs(x)),
        "fma_relu": (0, lambda x, y, z: clean(fma(x, y, z))),
        "add_sat": (0, lambda x, y, z: min(max(add(x, y), 0.0), 1.0) + 0.0 if add(x, y) == add(x, y) else 0.0),
        "sqrt": (
            1,
            lambda x, y, z: (
                x if x != x or not x or x == math.inf else math.nan if x < 0 else rounded(root(Fraction(x)), format)
            ),
        ),
        "rcp": (
            1,
            lambda x, y, z: (
                ieee(lambda a: 1 / a, lambda a: 1 / a if a else math.copysign(math.inf, a), format)(x)
                if x
                else math.copysign(math.inf, x)
            ),
        ),
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
                assert (
                    h == w
                    and (h or name in ("min", "max_nan", "relu") or math.copysign(1, h) == math.copysign(1, w))
                    or h != h
                    and w != w
                ), (kernel, row, h, w)


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
        assert value == (x < y) + 2 * (x >= y) + 4 * (x != y and not odd) + 8 * (x == y or odd) + 16 * (x != x) + 32 * (
            x > y or odd
        ), (x, y)


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
        every = (
            all(y[k] == z[k] for k in range(2))
            if format == "f16"
            else all(y[k] != z[k] and y[k] == y[k] and z[k] == z[k] for k in range(2))
        )
        assert value == mask ^ (0xFF00FF if every else 0), (x, y, z)
    if format == "f16":
        got = built.map("f16_pair_swap", "u4", *words).view("u2").reshape(-1, 2)[:, ::-1].ravel()
        for bits, x, y in zip(got.tolist(), *columns[:2]):
            a, b = number("f16", x), number("f16", y)
            want = b if a != a else a if b != b else max(a, b)
            assert number("f16", bits) == want or want != want


def corners(code: str, seed: object) -> Any:
    """Return corner cases of one type for conversions."""
    random_ = rng(seed)
    if code[0] in "iu":
        bits = 8 * int(code[1])
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if code[0] == "i" else (0, (1 << bits) - 1)
        values = [0, 1, low, high, low + 1, high - 1, high // 2, high // 3] + [
            random_.randint(low, high) >> random_.randrange(bits) for _ in range(40)
        ]
        values += [
            v
            for e in (11, 24, 53)
            for v in ((1 << e) + 1, (1 << e) + 3, (1 << e + 1) + 2, (1 << e + 5) - 1)
            if v <= high
        ]
        return np.array(values, code)
    values = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.49999997,
        1e-8,
        -1e-8,
        127.5,
        128.0,
        255.5,
        -128.5,
        -129.0,
        32767.5,
        65535.5,
        65520.0,
        65519.9,
        -32769.0,
        2147483647.0,
        2147483648.0,
        -2147483648.0,
        -2147483904.0,
        4294967295.0,
        4294967296.0,
        9.2e18,
        9.3e18,
        1.8e19,
        1.9e19,
        1e30,
        -1e30,
        3.4e38,
        1e-40,
        -1e-45,
        5.96e-8,
        2.9e-8,
        6.1e-5,
        1 / 3,
        math.inf,
        -math.inf,
        math.nan,
    ]
    values += [random_.uniform(-2, 2) * 2.0 ** random_.randint(-30, 66) for _ in range(60)]
    if code == "f8":
        values += [
            1e300,
            -1e300,
            5e-324,
            3.4028235677973366e38,
            3.402823567797337e38,
            1 + 2.0**-24,
            1 + 2.0**-24 + 2.0**-50,
            1e-46,
            1e308,
        ]
    with np.errstate(over="ignore"):
        return np.array(values, code)


HALF_CONVERSIONS = {
    # kernel -> from, to, mode
    "f32_to_f16": ("f4", "f16", "rn"),
    "f32_to_f16_up": ("f4", "f16", "ru"),
    "f32_to_f16_down": ("f4", "f16", "rd"),
    "f32_to_f16_zero": ("f4", "f16", "rz"),
    "f64_to_f16": ("f8", "f16", "rn"),
    "i32_to_f16": ("i4", "f16", "rn"),
    "u64_to_f16": ("u8", "f16", "ru"),
    "f32_to_bf16": ("f4", "bf16", "rn"),
    "f32_to_bf16_zero": ("f4", "bf16", "rz"),
    "f32_to_bf16_up": ("f4", "bf16", "ru"),
    "f64_to_bf16": ("f8", "bf16", "rn"),
    "i32_to_bf16": ("i4", "bf16", "rn"),
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
            want = (
                value
                if isinstance(value, float) and math.isinf(value)
                else math.copysign(rounded(Fraction(value), format, mode), value)
            )
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
    integer = {"i4": (-(2**31), 2**31 - 1), "u2": (0, 2**16 - 1), "i8": (-(2**63), 2**63 - 1)}
    for kernel, format, to, turn in (
        ("f16_to_i32", "f16", "i4", math.floor),
        ("f16_to_u16", "f16", "u2", math.trunc),
        ("f16_to_i64", "f16", "i8", round),
        ("bf16_to_i32", "bf16", "i4", math.trunc),
    ):
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


# -- integers

I8, U8, I16, U16, I32, U32, I64, U64 = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
TYPES = {"i8": I8, "u8": U8, "i16": I16, "u16": U16, "i32": I32, "u32": U32, "i64": I64, "u64": U64}


def parts(x: int, bits: int, signed: bool) -> list[int]:
    """Split 32 bits into parts."""
    return [wrap(x >> at, bits, signed) for at in range(0, 32, bits)]


def joined(values: Sequence[int], bits: int) -> int:
    """Join parts to 32 bits."""
    return sum((v & (1 << bits) - 1) << bits * at for at, v in enumerate(values))


def find_nth(mask: int, start: int, offset: int) -> int:
    """Find the n-th set bit from a position on (__fns)."""
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
    """Select bytes (__byte_perm)."""
    raw = struct.pack("<II", x, y)
    return sum(raw[s >> 4 * k & 7] << 8 * k for k in range(4))


def bits(x: int, width: int) -> int:
    """Return the low bits."""
    return x & (1 << width) - 1


def s32(x: int) -> int:
    """Return 32 bits as a signed integer."""
    return wrap(x, 32, True)


INTEGERS: dict[str, tuple[str, str, Callable[[int, int, int], int]]] = {
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
    "ffs": (
        I32,
        I32,
        lambda x, y, z: (x & -x).bit_length() * 100 + (bits(y << 20, 64) & -bits(y << 20, 64)).bit_length(),
    ),
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
    "vsubss2": (
        U32,
        U32,
        lambda x, y, z: joined(
            [max(-32768, min(32767, a - b)) for a, b in zip(parts(x, 16, True), parts(y, 16, True))], 16
        ),
    ),
    "vabsdiffu4": (
        U32,
        U32,
        lambda x, y, z: joined([abs(a - b) for a, b in zip(parts(x, 8, False), parts(y, 8, False))], 8),
    ),
    "vmaxs2": (
        U32,
        U32,
        lambda x, y, z: joined([max(a, b) for a, b in zip(parts(x, 16, True), parts(y, 16, True))], 16),
    ),
    "vminu4": (
        U32,
        U32,
        lambda x, y, z: joined([min(a, b) for a, b in zip(parts(x, 8, False), parts(y, 8, False))], 8),
    ),
    "vcmpgts4": (
        U32,
        U32,
        lambda x, y, z: joined([255 * (a > b) for a, b in zip(parts(x, 8, True), parts(y, 8, True))], 8),
    ),
    "wide_product": (U64, U64, lambda x, y, z: (x * y >> 70) ^ bits(x * z, 64)),
    "wide_quotient": (U64, U64, lambda x, y, z: (x << 64 | y) // (z | 1)),
    "wide_sum": (I64, I64, lambda x, y, z: x + y - z >> 3),
    "rotate": (U32, U32, lambda x, y, z: x << 7 | x >> 25),
    "fields": (I32, I32, lambda x, y, z: (s32(x << 5) >> 20) + (bits(y << 3, 32) >> 25) + (z >> 8 & 0xFF)),
    "divergent": (U32, U32, lambda x, y, z: y // (z | 1) if x & 1 else z * x if y & 2 else x ^ y),
    "modular_power": (U64, U64, lambda x, y, z: pow(x, y & 0xFFFF, z | 2)),
}
for _name, _code in TYPES.items():
    INTEGERS.update(
        {
            f"{_name}_mul": (_code, _code, lambda x, y, z: x * y + z),
            f"{_name}_div": (_code, _code, lambda x, y, z: quotient(x, y)),
            f"{_name}_mod": (_code, _code, lambda x, y, z: rest(x, y)),
            f"{_name}_bits": (_code, _code, lambda x, y, z: (x & ~y) ^ (x | z)),
            f"{_name}_min": (_code, _code, lambda x, y, z: min(x, y)),
        }
    )


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
        if name.endswith(("_div", "_mod")):  # undefined in C
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
    outs = built.run(
        f"from_{source}", *(np.zeros(n, code) for code in codes.values()), values, n, grid=(n + 63) // 64, block=64
    )
    for (name, code), got in zip(codes.items(), outs):
        for have, value in zip(got.tolist(), values.tolist()):
            value = built.flushed(value) if source == "f32" and name != "f32" else value  # a copied number is unchanged
            if name in ("f32", "f64"):
                if isinstance(value, float) and not math.isfinite(value):
                    assert have == value or have != have and value != value
                else:
                    want = (
                        math.copysign(rounded(Fraction(value), name), value)
                        if isinstance(value, float)
                        else rounded(value, name)
                    )
                    want = built.flushed(want) if (source, name) == ("f64", "f32") else want
                    assert have == want and math.copysign(1, have) == math.copysign(1, want), (source, name, value)
                continue
            width, signed = 8 * int(code[1]), code[0] == "i"
            low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
            if isinstance(value, int):
                assert have == wrap(value, width, signed), (source, name, value)
            elif low - 1 < value < high + 1:  # undefined in C otherwise
                assert have == math.trunc(value), (source, name, value, have)


ROUNDINGS = {
    "float2int": ("f4", I32),
    "float2uint": ("f4", U32),
    "float2ll": ("f4", I64),
    "float2ull": ("f4", U64),
    "double2int": ("f8", I32),
    "double2uint": ("f8", U32),
    "double2ll": ("f8", I64),
    "double2ull": ("f8", U64),
    "int2float": (I32, "f4"),
    "uint2float": (U32, "f4"),
    "ll2float": (I64, "f4"),
    "ull2float": (U64, "f4"),
    "ll2double": (I64, "f8"),
    "ull2double": (U64, "f8"),
    "double2float": ("f8", "f4"),
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
            value = built.flushed(value) if source == "f4" else value
            if to[0] == "f":
                if isinstance(value, float) and not math.isfinite(value):
                    assert have == value or have != have
                else:
                    want = rounded(Fraction(value), "f32" if to == "f4" else "f64", mode)
                    want = built.flushed(want) if to == "f4" else want
                    assert have == want, (kernel, mode, value, have, want)
                continue
            width = 8 * int(to[1])
            low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "i" else (0, (1 << width) - 1)
            if value != value:
                continue  # the guide does not specify it
            want_int = high if value == math.inf else low if value == -math.inf else max(low, min(high, turn(value)))
            assert have == want_int, (kernel, mode, value, have, want_int)


@builds("integers")
def test_bits_of_floats(built: Build) -> None:
    x, y = corners("f8", "x"), corners("f8", "y")[::-1].copy()
    got = built.map("k_hiloint", "f8", x, y, x)
    assert ((got.view("u8") >> 32) == (x.view("u8") & 0xFFFFFFFF)).all() and (
        (got.view("u8") & 0xFFFFFFFF) == (y.view("u8") >> 32)
    ).all()
    a, b = corners("f4", "a")[:40], corners("f4", "b")[:40][::-1].copy()
    assert (built.map("k_bits_of_float", "u4", a, b, a) == a.view("u4") ^ b.view("u4") << 1).all()


# -- floating point


def spread(low: float, high: float, *more: float) -> Callable[[random.Random], list[float]]:
    """Return numbers between two bounds, and some special ones."""
    return lambda r: [*more, *(r.uniform(low, high) for _ in range(60))]


def powers(least: int, most: int, *more: float, signs: bool = True) -> Callable[[random.Random], list[float]]:
    """Return numbers of every size between two powers of two, and some special ones."""
    return lambda r: [
        *more,
        *(math.ldexp(r.uniform(1, 2), r.randint(least, most)) * (r.choice((1, -1)) if signs else 1) for _ in range(60)),
    ]


def limited(function: Callable[..., float]) -> Callable[..., float]:
    """Return a function that gives IEEE results where Python raises."""

    def compute(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return compute


def sine_of_pi(x: float) -> float:
    """Return sin(pi x)."""
    x = math.fmod(x, 2)
    x = x - 2 if x > 1 else x + 2 if x < -1 else x
    x = 1 - x if x > 0.5 else -1 - x if x < -0.5 else x
    return math.sin(math.pi * x) if x % 0.5 else float(round(2 * x)) if x else 0.0


TINY = (0.0, 1e-40, -1e-42)
ANGLES = powers(-20, 20, 0.0, -0.0, 1e5, 1e10, 3e38, -2e30, 105615.0, 1.5707964, 3.1415927, 6.2831855, 1e-40)
# kernel -> ulps (CUDA Programming Guide, "Mathematical functions"), f, arguments
SINGLE: dict[str, tuple[float, Callable[..., float], Callable[[random.Random], list[float]]]] = {
    "sinf": (2, math.sin, ANGLES),
    "cosf": (2, math.cos, ANGLES),
    "tanf": (4, math.tan, ANGLES),
    "asinf": (2, math.asin, spread(-1, 1, 1.0, -1.0, *TINY)),
    "acosf": (2, math.acos, spread(-1, 1, 1.0, -1.0, 0.0)),
    "atanf": (2, math.atan, powers(-20, 20, *TINY)),
    "sinhf": (3, math.sinh, powers(-20, 6, *TINY)),
    "coshf": (2, math.cosh, powers(-20, 6)),
    "tanhf": (2, math.tanh, powers(-20, 6, *TINY, 100.0)),
    "asinhf": (3, math.asinh, powers(-20, 100, *TINY)),
    "acoshf": (4, math.acosh, powers(0, 100, 1.0, signs=False)),
    "atanhf": (3, math.atanh, spread(-1, 1, *TINY)),
    "expf": (2, math.exp, spread(-105, 89, 0.0, -87.5, -103.9, 1e-10)),
    "exp2f": (2, lambda x: 2.0**x, spread(-150, 128, 0.0, -126.0, -149.0, 10.0)),
    "exp10f": (2, lambda x: 10.0**x, spread(-46, 39, 0.0, 2.0)),
    "expm1f": (1, math.expm1, powers(-30, 6, *TINY)),
    "logf": (1, math.log, powers(-148, 127, 1.0, 0.99999994, 1.0000001, 1e-45, signs=False)),
    "log2f": (1, math.log2, powers(-148, 127, 1.0, 8.0, 1e-45, signs=False)),
    "log10f": (2, math.log10, powers(-148, 127, 1.0, 1000.0, signs=False)),
    "log1pf": (1, math.log1p, powers(-30, 100, *TINY, -0.5, -0.999, signs=False)),
    "sqrtf": (0.5, math.sqrt, powers(-148, 127, 0.0, 2.0, signs=False)),
    "rsqrtf": (2, lambda x: 1 / math.sqrt(x), powers(-126, 127, 4.0, signs=False)),
    "cbrtf": (1, lambda x: math.copysign(abs(x) ** (1 / 3), x), powers(-148, 127, 0.0, 27.0)),
    "erff": (2, math.erf, powers(-20, 3, *TINY)),
    "erfcf": (4, math.erfc, spread(-5, 10, 0.0, 9.9)),
    "lgammaf": (6, math.lgamma, spread(0.05, 60, 1.0, 2.0, 3.0)),
    "tgammaf": (5, math.gamma, spread(-8, 34, 1.0, 5.0, 0.5)),
    "sinpif": (1, sine_of_pi, powers(-20, 20, 0.5, 1.0, -2.5, 0.0)),
    "cospif": (1, lambda x: sine_of_pi(math.fmod(x, 2) + 0.5), powers(-5, 10, 1.0, -2.0)),
    "normcdff": (5, lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), spread(-12, 6, 0.0)),
    "erfinvf": (
        2,
        lambda x: math.copysign(statistics.NormalDist().inv_cdf((abs(x) + 1) / 2) / math.sqrt(2), x),
        spread(-0.99, -0.05, 0.5, 0.9, 0.25),
    ),
    "floorf": (0, math.floor, powers(-3, 40, 2.5, -2.5)),
    "ceilf": (0, math.ceil, powers(-3, 40, 2.5, -2.5)),
    "truncf": (0, math.trunc, powers(-3, 40, 2.5, -2.5)),
    "roundf": (0, lambda x: math.floor(abs(x) + 0.5) * math.copysign(1, x), powers(-3, 20, 2.5, -2.5, 0.5)),
    "rintf": (0, round, powers(-3, 40, 2.5, -2.5, 3.5)),
    "fabsf": (0, abs, powers(-148, 127, -0.0)),
    "logbf": (0, lambda x: math.frexp(x)[1] - 1, powers(-126, 127)),
    "reciprocal": (0.5, lambda x: 1 / x, powers(-126, 126)),
    "saturated": (0, lambda x: min(max(x, 0.0), 1.0), powers(-5, 5, 0.0)),
    "both": (7, lambda x: 0.0, ANGLES),
}
ANY = powers(-20, 20, 0.0, 1.0, -1.0)
PAIRS: dict[str, tuple[float, Callable[..., float], Callable[[random.Random], list[float]]]] = {
    "powf": (4, math.pow, spread(0, 20)),
    "atan2f": (3, math.atan2, ANY),
    "hypotf": (3, math.hypot, ANY),
    "fmodf": (0, math.fmod, powers(-5, 30, 3.0)),
    "remainderf": (0, math.remainder, powers(-5, 30, 3.0)),
    "fdimf": (0.5, lambda x, y: max(x - y, 0.0), ANY),
    "fmaxf": (0, max, ANY),
    "fminf": (0, min, ANY),
    "copysignf": (0, math.copysign, ANY),
    "nextafterf": (0, lambda x, y: float(np.nextafter(np.float32(x), np.float32(y))), powers(-148, 100, 1.0, 2.0)),
    "divide": (0.5, lambda x, y: x / y, powers(-70, 70, 1.0)),
}


def singles(values: Sequence[float]) -> Any:
    """Return an array of float32."""
    return np.array(values, "f4")


def moderate(values: list[float]) -> list[float]:
    """Return the arguments for which the accuracy of fast arithmetic is specified."""
    return [v for v in values if 2.0**-10 < abs(v) < 32]


def nearly(got: Any, want: Sequence[float], note: object) -> None:
    """Compare with an absolute or a relative bound, as for fast arithmetic."""
    for at, (g, w) in enumerate(zip(got.tolist(), want)):
        assert g != g and w != w or abs(g - w) <= 2e-5 * max(1.0, abs(w)), (note, at, g, w)


@builds("math")
def test_single_precision(built: Build) -> None:
    for kernel, (ulps, function, arguments) in SINGLE.items():
        compute = limited(function if kernel != "both" else lambda v: math.sin(v) * 2 + math.cos(v))
        given = arguments(rng(kernel))
        x = singles(moderate(given) if built.fast else given)
        got = built.map("k_" + kernel, "f4", x)
        want = [float(compute(v)) for v in x.tolist()]
        if built.fast:
            nearly(got, want, kernel)
            continue
        within(
            max(ulps, 0.5) if ulps else 0,
            got,
            want,
            "f32",
            (kernel, x.tolist()),
            absolute=1e-6 if kernel == "both" else 0,
        )
        if kernel not in ("fabsf", "logbf", "saturated", "both"):
            assert np.isnan(built.map("k_" + kernel, "f4", singles([math.nan])))[0], kernel


@builds("math")
def test_single_precision_of_pairs(built: Build) -> None:
    for kernel, (ulps, function, arguments) in PAIRS.items():
        r = rng(kernel)
        x, y = arguments(r), arguments(r)
        r.shuffle(y)
        if kernel in ("fmodf", "remainderf", "divide"):
            y = [v or 1.0 for v in y]
        if built.fast:
            x, y = zip(*zip(moderate(x), moderate(y)))
        x, y = singles(x), singles(y)
        got = built.map("k_" + kernel, "f4", x, y, x)
        want = [float(limited(function)(a, b)) for a, b in zip(x.tolist(), y.tolist())]
        if built.fast:
            nearly(got, want, kernel)
            continue
        within(ulps, got, want, "f32", (kernel, list(zip(x.tolist(), y.tolist()))))


@builds("math")
def test_the_rest_of_single_precision(built: Build) -> None:
    r = rng("rest")
    x, y, z = (singles(powers(-10, 10)(r)) for _ in range(3))
    columns = [list(row) for row in zip(x.tolist(), y.tolist(), z.tolist())]
    once = [rounded(Fraction(a) * Fraction(b) + Fraction(c), "f32") for a, b, c in columns]
    twice = [rounded(Fraction(rounded(Fraction(a) * Fraction(b), "f32")) + Fraction(c), "f32") for a, b, c in columns]
    within(
        0,
        built.map("k_contracted", "f4", x, y, z),
        twice if re.search("debug|O0", built.name) else once,
        "f32",
        "contracted",
    )
    within(
        3,
        built.map("k_norm3d", "f4", x, y, z),
        [math.sqrt(a * a + b * b + c * c) for a, b, c in columns],
        "f32",
        "norm3d",
    )
    within(
        1.5,
        built.map("k_scaled", "f4", x, y, z),
        [a * 32 + b / 8 + (math.frexp(c)[1] - 1) for a, b, c in columns],
        "f32",
        "scaled",
        1e-3,
    )
    want = []
    for a, b, _ in columns:
        m, e = math.frexp(a)
        f, w = math.modf(b)
        want.append(m * 4 + e + f + w)
    within(2, built.map("k_parts", "f4", x, y, z), want, "f32", "parts", 1e-4)
    if not built.fast:
        odd = singles([1.0, -1.0, math.inf, -math.inf, math.nan, -0.0])
        got = built.map("k_classes", "f4", odd, np.roll(odd, 1), np.roll(odd, 2))
        assert got.tolist() == [
            (a != a) + 2 * math.isinf(a) + 4 * math.isfinite(b) + 8 * bool(np.signbit(np.float32(c)))
            for a, b, c in zip(odd.tolist(), np.roll(odd, 1).tolist(), np.roll(odd, 2).tolist())
        ]


EXACT: dict[str, tuple[str, Callable[..., Fraction], Callable[..., float]]] = {
    "fadd": ("f32", ADD, lambda x, y: x + y),
    "fmul": ("f32", lambda x, y: x * y, lambda x, y: x * y),
    "fmaf": ("f32", FMA, lambda x, y, z: x * y + z),
    "fdiv": ("f32", lambda x, y: x / y, lambda x, y: x / y),
    "fsqrt": ("f32", lambda x: root(x), math.sqrt),
    "frcp": ("f32", lambda x: 1 / x, lambda x: 1 / x if x else math.copysign(math.inf, x)),
    "dadd": ("f64", ADD, lambda x, y: x + y),
    "dmul": ("f64", lambda x, y: x * y, lambda x, y: x * y),
    "fma": ("f64", FMA, lambda x, y, z: x * y + z),
    "ddiv": ("f64", lambda x, y: x / y, lambda x, y: x / y),
    "dsqrt": ("f64", lambda x: root(x), math.sqrt),
    "drcp": ("f64", lambda x: 1 / x, lambda x: 1 / x if x else math.copysign(math.inf, x)),
}


@builds("math", only="sm75")
@pytest.mark.parametrize("kernel", EXACT)
def test_every_rounding(built: Build, kernel: str) -> None:
    format, operation, plain = EXACT[kernel]
    r = rng(kernel)
    precision, least, most = FORMATS[format]
    code = "f4" if format == "f32" else "f8"
    edge = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        math.inf,
        -math.inf,
        math.nan,
        math.ldexp(1, least),
        -math.ldexp(1, least - precision + 1),
        (2 - 2.0 ** (1 - precision)) * 2.0**most,
    ]

    def one() -> float:
        return math.ldexp(
            r.getrandbits(precision) | 1 << precision - 1,
            r.choice((0, r.randint(-6, 6), r.randint(-60, 60))) - precision,
        ) * r.choice((1, -1))

    rows = [[r.choice(edge) for _ in range(3)] for _ in range(40)]
    for _ in range(60):
        x, y = one(), one()
        rows.append([x, y, -x * y * r.choice((1, 1 + 2.0**-20))] if r.random() < 0.3 else [x, y, one()])
    columns = [np.array(column, code) for column in zip(*rows)]
    n = len(rows)
    outs = built.run(
        f"each_{kernel}", *(np.zeros(n, code) for _ in range(4)), *columns, n, grid=(n + 63) // 64, block=64
    )
    count = operation.__code__.co_argcount
    for mode, got in zip(("rn", "rz", "ru", "rd"), outs):
        compute = ieee(operation, plain, format, mode)
        want = [compute(*row[:count]) for row in zip(*(column.tolist() for column in columns))]
        for have, w, *row in zip(got.tolist(), want, *(column.tolist() for column in columns)):
            assert have == w and math.copysign(1, have) == math.copysign(1, w) or have != have and w != w, (
                kernel,
                mode,
                row,
                have,
                w,
            )


@builds("math")
def test_intrinsics(built: Build) -> None:
    """Their errors have absolute bounds, or bounds for a part of the arguments: the guide's second table."""
    r = rng("intrinsics")
    angles = singles([r.uniform(-math.pi, math.pi) for _ in range(60)])
    assert abs(built.map("k_fast_sin", "f4", angles) - np.sin(angles.astype("f8"))).max() < 2.0**-20.5
    assert abs(built.map("k_fast_cos", "f4", angles) - np.cos(angles.astype("f8"))).max() < 2.0**-20.5
    small = singles([r.uniform(-10, 10) for _ in range(60)])
    within(2 + 12, built.map("k_fast_exp", "f4", small), np.exp(small.astype("f8")).tolist(), "f32", "exp")
    within(2 + 32, built.map("k_fast_exp10", "f4", small), (10 ** small.astype("f8")).tolist(), "f32", "exp10")
    size = singles(powers(-20, 20, signs=False)(r))
    within(3, built.map("k_fast_log", "f4", size), np.log(size.astype("f8")).tolist(), "f32", "log", 2.0**-21.4)
    within(2, built.map("k_fast_log2", "f4", size), np.log2(size.astype("f8")).tolist(), "f32", "log2", 2.0**-22)
    other = singles(powers(-20, 20)(r))
    within(
        2, built.map("k_fast_divide", "f4", size, other, other), (size.astype("f8") / other).tolist(), "f32", "divide"
    )
    size = singles([r.uniform(0.1, 50) for _ in range(60)])
    got = built.map("k_fast_pow", "f4", size, small, small)
    assert np.allclose(got, np.exp2(small.astype("f8") * np.log2(size.astype("f8"))), rtol=1e-4)
    within(0.5, built.map("k_fast_rsqrt", "f4", size), (1 / np.sqrt(size.astype("f8"))).tolist(), "f32", "rsqrt")


@builds("math", only="fast")
def test_fast_math_flushes(built: Build) -> None:
    assert built.map("k_contracted", "f4", singles([1e-40]), singles([1.0]), singles([0.0]))[0] == 0
    assert built.map("k_saturated", "f4", singles([1e-40]))[0] == 0


LONG = np.longdouble
DOUBLE: dict[str, tuple[float, Callable[..., Any], Callable[[random.Random], list[float]]]] = {
    "sin": (2, np.sin, powers(-20, 20, 1e5, 1e15, 1e300)),
    "cos": (2, np.cos, powers(-20, 20, 1e5, 1e15, 1e300)),
    "exp": (1, np.exp, spread(-700, 700, 0.0)),
    "log": (1, np.log, powers(-1000, 1000, 1.0, 1.0000001, 5e-324, signs=False)),
    "tanh": (2, np.tanh, powers(-20, 6)),
    "cbrt": (1, np.cbrt, powers(-1000, 1000, 27.0)),
    "erf": (3, math.erf, powers(-20, 2)),
    "asin": (2, np.arcsin, spread(-1, 1, 1.0)),
    "atan": (2, np.arctan, powers(-50, 50)),
    "sqrt": (0.5, np.sqrt, powers(-1000, 1000, signs=False)),
    "rsqrt": (1, lambda v: 1 / np.sqrt(LONG(v)), powers(-1000, 1000, signs=False)),
    "log2": (1, np.log2, powers(-1000, 1000, 8.0, signs=False)),
    "expm1": (1, np.expm1, powers(-40, 8)),
    "sinh": (2, np.sinh, powers(-30, 9)),
    "rint": (0, np.rint, powers(-3, 60, 2.5)),
    "floor": (0, np.floor, powers(-3, 60, -2.5)),
}
DOUBLE_PAIRS: dict[str, tuple[float, Callable[..., Any], Callable[[random.Random], list[float]]]] = {
    "pow": (2, np.power, spread(0, 50)),
    "atan2": (2, np.arctan2, powers(-50, 50)),
    "hypot": (2, np.hypot, powers(-50, 500)),
    "fmod": (0, np.fmod, powers(-5, 60)),
}


@builds("math", only="sm75")
def test_double_precision(built: Build) -> None:
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
    assert built.map("k_dscaled", "f8", x, y, z).tolist() == [
        a * 2.0**40 + math.frexp(c)[1] - 1 for a, c in zip(x.tolist(), z.tolist())
    ]
    assert np.allclose(built.map("k_horner", "f8", x, y, z), ((x * y + z) * y - x) * y + z * x, rtol=1e-10, atol=1e-8)
