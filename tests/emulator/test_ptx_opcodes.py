"""Each opcode, compared with its definition in the PTX ISA, written here a second time, as literally as possible.

A case is an instruction with D for its result and A, B, C, E for its operands, the class of each (h 16 bits, r 32, d
64, f float32, g float64, p predicate), and a function of the operands' bits that gives the result's bits.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import shutil
import struct
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.emulator.ptx_client import EXECUTOR, Machine, kernel
from tests.subject import module

BITS = {"h": 16, "r": 32, "d": 64, "f": 32, "g": 64, "p": 1}
HEAD = ".version 8.1\n.target sm_90\n.address_size 64\n"
M32, M64 = 2**32 - 1, 2**64 - 1


def s(bits: int, value: int) -> int:
    """Return bits as a signed number."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def f(bits: int) -> float:
    """Return the float32 with these bits."""
    return struct.unpack("<f", struct.pack("<I", bits & M32))[0]


def g(bits: int) -> float:
    """Return the float64 with these bits."""
    return struct.unpack("<d", struct.pack("<Q", bits & M64))[0]


def of_f(value: float) -> int:
    """Return the bits of a float32; arithmetic gives only one NaN."""
    if value != value:
        return 0x7FFFFFFF
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def of_g(value: float) -> int:
    """Return the bits of a float64."""
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def build(text: str, classes: str) -> str:
    """Return a kernel that loads operands from 32-byte rows, runs one instruction and stores 8 bytes."""
    result, operands = classes[0], classes[1:]
    lines = [
        "mov.u32 %r60, %tid.x;",
        "ld.param.u64 %d60, [in];",
        "mul.wide.u32 %d61, %r60, 32;",
        "add.u64 %d60, %d60, %d61;",
        "mul.wide.u32 %d61, %r60, 8;",
        "add.u64 %d62, %out, %d61;",
        "mov.b64 %d9, 0;",
    ]
    for at, kind in enumerate(operands):
        name = f"%{kind}{at + 1}"
        lines.append(f"ld.global.b64 %d{at + 20}, [%d60+{8 * at}];")
        lines.append(
            {
                "h": f"cvt.u16.u64 {name}, %d{at + 20};",
                "r": f"cvt.u32.u64 {name}, %d{at + 20};",
                "d": f"mov.b64 {name}, %d{at + 20};",
                "g": f"mov.b64 {name}, %d{at + 20};",
                "f": f"cvt.u32.u64 %r{at + 20}, %d{at + 20}; mov.b32 {name}, %r{at + 20};",
                "p": f"cvt.u32.u64 %r{at + 20}, %d{at + 20}; setp.ne.u32 {name}, %r{at + 20}, 0;",
            }[kind]
        )
    names = dict(zip("ABCE", (f"%{kind}{at + 1}" for at, kind in enumerate(operands))), D=f"%{result}9")
    lines.append(re.sub(r"(?<![\w%.])[ABCDE](?!\w)", lambda found: names[found.group()], text) + ";")
    lines.append(
        {
            "h": "cvt.u64.u16 %d9, %h9;",
            "r": "cvt.u64.u32 %d9, %r9;",
            "d": "",
            "g": "mov.b64 %d9, %g9;",
            "f": "mov.b32 %r9, %f9; cvt.u64.u32 %d9, %r9;",
            "p": "selp.u64 %d9, 1, 0, %p9;",
        }[result]
    )
    lines.append("st.global.u64 [%d62], %d9;")
    return kernel("\n".join(lines), ".param .u64 out, .param .u64 in", head=HEAD)


def rows_for(text: str, classes: str) -> list[tuple[int, ...]]:
    """Return operands: pairs of corner cases, then random numbers of every size."""
    rng = random.Random(text)
    corners = {
        "h": [0, 1, 0x7FFF, 0x8000, 0xFFFF, 5],
        "r": [0, 1, 31, 32, 0x7FFFFFFF, 0x80000000, M32, 0x01020384],
        "d": [0, 1, 2**63 - 1, 2**63, M64, 2**32, 77],
        "p": [0, 1],
        "f": [
            0,
            0x80000000,
            0x3F800000,
            0xBF800000,
            0x7F800000,
            0xFF800000,
            0x7FC00000,
            1,
            0x807FFFFF,
            0x7F7FFFFF,
            0x40490FDB,
            0x3EAAAAAB,
            0xC2C80000,
        ],
        "g": [of_g(v) for v in (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, 1e308, 1 / 3, -123.456)],
    }
    operands = classes[1:]
    rows = list(itertools.islice(itertools.product(*(corners[kind] for kind in operands)), 0, None))
    rng.shuffle(rows)
    rows = rows[:160]
    while len(rows) < 250:
        rows.append(
            tuple(
                rng.getrandbits(BITS[kind]) >> (rng.randrange(BITS[kind]) if kind in "hrd" else 0) for kind in operands
            )
        )
    return rows


def run(text: str, classes: str, rows: list[tuple[int, ...]], executor: str = EXECUTOR) -> list[int]:
    """Run one instruction over rows of operands."""
    here = Machine(build(text, classes), executor=executor)
    flat = [number for row in rows for number in (*row, 0, 0, 0, 0)[:4]]
    out = here.buffer("Q", len(rows))
    here.run("k", out, here.buffer("Q", flat), block=len(rows))
    return out.values()


Case = "tuple[str, str, Callable[..., int]]"


def whole(name: str, unsigned: Callable[..., int], arity: int, signed_too: bool = True) -> list[Any]:
    """Return cases for every integer type of an opcode whose result is truncated to its width."""
    made = []
    for kind, bits in (("h", 16), ("r", 32), ("d", 64)):
        for sign in ("u", "s") if signed_too else ("u",):
            read = lambda v, bits=bits, sign=sign: s(bits, v) if sign == "s" else v
            text = f"{name}.{sign}{bits} " + ", ".join("DABCE"[: arity + 1])
            made.append(
                (text, kind * (arity + 1), lambda *v, read=read, bits=bits: unsigned(*map(read, v)) & (1 << bits) - 1)
            )
    return made


def high(bits: int, value: int) -> int:
    return value >> bits


def cut_quotient(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGERS: list[Any] = [
    *whole("add", lambda a, b: a + b, 2),
    *whole("sub", lambda a, b: a - b, 2),
    *whole("mul.lo", lambda a, b: a * b, 2),
    *whole("mad.lo", lambda a, b, c: a * b + c, 3),
    *whole("sad", lambda a, b, c: c + abs(a - b), 3),
    *whole("min", min, 2),
    *whole("max", max, 2),
    *[
        (
            f"mul.hi.{t}{n} D, A, B",
            k * 3,
            lambda a, b, n=n, t=t: high(n, (s(n, a) * s(n, b)) if t == "s" else a * b) & (1 << n) - 1,
        )
        for k, n in (("h", 16), ("r", 32), ("d", 64))
        for t in "us"
    ],
    *[
        (
            f"mad.hi.{t}{n} D, A, B, C",
            k * 4,
            lambda a, b, c, n=n, t=t: (high(n, (s(n, a) * s(n, b)) if t == "s" else a * b) + c) & (1 << n) - 1,
        )
        for k, n in (("h", 16), ("r", 32), ("d", 64))
        for t in "us"
    ],
    ("mul.wide.u16 D, A, B", "rhh", lambda a, b: a * b),
    ("mul.wide.s16 D, A, B", "rhh", lambda a, b: s(16, a) * s(16, b) & M32),
    ("mul.wide.u32 D, A, B", "drr", lambda a, b: a * b),
    ("mul.wide.s32 D, A, B", "drr", lambda a, b: s(32, a) * s(32, b) & M64),
    ("mul.wide.s32 D, A, -3", "dr", lambda a: s(32, a) * -3 & M64),
    ("mad.wide.u32 D, A, B, C", "drrd", lambda a, b, c: a * b + c & M64),
    ("mad.wide.s32 D, A, B, C", "drrd", lambda a, b, c: s(32, a) * s(32, b) + c & M64),
    ("add.sat.s32 D, A, B", "rrr", lambda a, b: max(-(2**31), min(2**31 - 1, s(32, a) + s(32, b))) & M32),
    ("sub.sat.s32 D, A, B", "rrr", lambda a, b: max(-(2**31), min(2**31 - 1, s(32, a) - s(32, b))) & M32),
    (
        "mad.hi.sat.s32 D, A, B, C",
        "rrrr",
        lambda a, b, c: max(-(2**31), min(2**31 - 1, (s(32, a) * s(32, b) >> 32) + s(32, c))) & M32,
    ),
    ("add.u16x2 D, A, B", "rrr", lambda a, b: (a + b & 0xFFFF) | ((a >> 16) + (b >> 16) & 0xFFFF) << 16),
    (
        "min.s16x2 D, A, B",
        "rrr",
        lambda a, b: (min(s(16, a), s(16, b)) & 0xFFFF) | (min(s(16, a >> 16), s(16, b >> 16)) & 0xFFFF) << 16,
    ),
    ("max.u16x2 D, A, B", "rrr", lambda a, b: max(a & 0xFFFF, b & 0xFFFF) | max(a >> 16, b >> 16) << 16),
    ("max.relu.s32 D, A, B", "rrr", lambda a, b: max(s(32, a), s(32, b), 0)),
    ("mul24.lo.u32 D, A, B", "rrr", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) & M32),
    ("mul24.hi.s32 D, A, B", "rrr", lambda a, b: s(24, a) * s(24, b) >> 16 & M32),
    ("mad24.lo.s32 D, A, B, C", "rrrr", lambda a, b, c: s(24, a) * s(24, b) + c & M32),
    ("mad24.hi.u32 D, A, B, C", "rrrr", lambda a, b, c: ((a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16) + c & M32),
    *[
        (f"{op}.{t}{n} D, A, B", k * 3, None)
        for op in ("div", "rem")
        for k, n in (("h", 16), ("r", 32), ("d", 64))
        for t in "us"
    ],
    *[
        (f"abs.s{n} D, A", k * 2, lambda a, n=n: abs(s(n, a)) & (1 << n) - 1)
        for k, n in (("h", 16), ("r", 32), ("d", 64))
    ],
    *[(f"neg.s{n} D, A", k * 2, lambda a, n=n: -a & (1 << n) - 1) for k, n in (("h", 16), ("r", 32), ("d", 64))],
    *[(f"popc.b{n} D, A", "r" + k, lambda a: bin(a).count("1")) for k, n in (("r", 32), ("d", 64))],
    *[(f"clz.b{n} D, A", "r" + k, lambda a, n=n: n - a.bit_length()) for k, n in (("r", 32), ("d", 64))],
    *[
        (f"brev.b{n} D, A", k + k, lambda a, n=n: sum((a >> i & 1) << n - 1 - i for i in range(n)))
        for k, n in (("r", 32), ("d", 64))
    ],
]


def bfind(a: int, bits: int, signed: bool, shiftamt: bool) -> int:
    if signed and a >> bits - 1:
        a ^= (1 << bits) - 1
    for i in range(bits - 1, -1, -1):
        if a >> i & 1:
            return bits - 1 - i if shiftamt else i
    return M32


def bfe(a: int, b: int, c: int, bits: int, signed: bool) -> int:
    pos, length, msb = b & 255, c & 255, bits - 1
    sbit = 0 if not signed or length == 0 else a >> min(pos + length - 1, msb) & 1
    return sum((a >> pos + i & 1 if i < length and pos + i <= msb else sbit) << i for i in range(bits))


def bfi(a: int, b: int, c: int, d: int, bits: int) -> int:
    pos, length = c & 255, d & 255
    made = b
    for i in range(length):
        if pos + i <= bits - 1:
            made = made & ~(1 << pos + i) | (a >> i & 1) << pos + i
    return made


def fns(mask: int, base: int, offset: int) -> int:
    offset = s(32, offset)
    if base > 31:
        return M32
    if offset == 0:
        return base if mask >> base & 1 else M32
    pos, count, step = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= pos < 32:
        if mask >> pos & 1:
            if count == 0:
                return pos
            count -= 1
        pos += step
    return M32


def bmsk(a: int, b: int, mode: str) -> int:
    a1, b1 = a & 31, b & 31
    mask0, mask1 = M32 << a1 & M32, M32 << a1 + b1 & M32
    if mode == "clamp" and a >= 32:
        mask0 = 0
    if a1 + b1 >= 32 or mode == "clamp" and (a >= 32 or b >= 32):
        mask1 = 0
    return mask0 & ~mask1


def szext(a: int, b: int, mode: str, signed: bool) -> int:
    b1, too_large = b & 31, b >= 32 and mode == "clamp"
    mask = 0 if too_large else M32 << b1 & M32
    sign = signed and b1 and not too_large and a >> (b1 - 1 & 31) & 1
    return a & ~mask | (mask if sign else 0)


def shf(a: int, b: int, c: int, way: str, mode: str) -> int:
    n = min(c, 32) if mode == "clamp" else c & 31
    return ((b << n) | (a >> 32 - n) if way == "l" else (b << 32 - n) | (a >> n)) & M32


def prmt(a: int, b: int, c: int, mode: str) -> int:
    x = [a >> 8 * i & 255 for i in range(4)] + [b >> 8 * i & 255 for i in range(4)]
    k = c & 3
    if mode == "":
        picked = []
        for i in range(4):
            nibble = c >> 4 * i & 15
            byte = x[nibble & 7]
            picked.append((255 if byte >> 7 else 0) if nibble & 8 else byte)
    else:
        picked = [
            x[j]
            for j in {
                "f4e": [(k + i) % 8 for i in range(4)],
                "b4e": [(k - i) % 8 for i in range(4)],
                "rc8": [k] * 4,
                "ecl": [max(i, k) for i in range(4)],
                "ecr": [min(i, k) for i in range(4)],
                "rc16": [(k & 1) * 2, (k & 1) * 2 + 1] * 2,
            }[mode]
        ]
    return sum(byte << 8 * i for i, byte in enumerate(picked))


def dot(a: int, b: int, wide: int, ta: str, tb: str, start: int = 0) -> int:
    total = 0
    for i in range(32 // wide):
        x, y = a >> wide * i & (1 << wide) - 1, b >> 8 * (i + start) & 255
        total += (s(wide, x) if ta == "s" else x) * (s(8, y) if tb == "s" else y)
    return total


LOGIC: list[Any] = [
    *[
        (f"bfind{m}.{t}{n} D, A", "r" + k, lambda a, n=n, t=t, m=m: bfind(a, n, t == "s", m != ""))
        for k, n in (("r", 32), ("d", 64))
        for t in "us"
        for m in ("", ".shiftamt")
    ],
    *[
        (f"bfe.{t}{n} D, A, B, C", k + k + "rr", lambda a, b, c, n=n, t=t: bfe(a, b, c, n, t == "s"))
        for k, n in (("r", 32), ("d", 64))
        for t in "us"
    ],
    *[
        (f"bfi.b{n} D, A, B, C, E", k * 3 + "rr", lambda a, b, c, d, n=n: bfi(a, b, c, d, n))
        for k, n in (("r", 32), ("d", 64))
    ],
    ("fns.b32 D, A, B, C", "rrrr", fns),
    *[(f"bmsk.{m}.b32 D, A, B", "rrr", lambda a, b, m=m: bmsk(a, b, m)) for m in ("clamp", "wrap")],
    *[
        (f"szext.{m}.{t}32 D, A, B", "rrr", lambda a, b, m=m, t=t: szext(a, b, m, t == "s"))
        for m in ("clamp", "wrap")
        for t in "us"
    ],
    *[
        (f"shf.{w}.{m}.b32 D, A, B, C", "rrrr", lambda a, b, c, w=w, m=m: shf(a, b, c, w, m))
        for w in "lr"
        for m in ("clamp", "wrap")
    ],
    *[
        (f"prmt.b32{m and '.' + m} D, A, B, C", "rrrr", lambda a, b, c, m=m: prmt(a, b, c, m))
        for m in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    ],
    *[
        (f"dp4a.{x}32.{y}32 D, A, B, C", "rrrr", lambda a, b, c, x=x, y=y: dot(a, b, 8, x, y) + c & M32)
        for x in "us"
        for y in "us"
    ],
    *[
        (
            f"dp2a.{h}.{x}32.{y}32 D, A, B, C",
            "rrrr",
            lambda a, b, c, x=x, y=y, h=h: dot(a, b, 16, x, y, 2 * (h == "hi")) + c & M32,
        )
        for x in "us"
        for y in "us"
        for h in ("lo", "hi")
    ],
    *[
        (f"{op}.b{n} D, A, B", k * 3, call)
        for op, call in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b))
        for k, n in (("h", 16), ("r", 32), ("d", 64))
    ],
    *[(f"not.b{n} D, A", k * 2, lambda a, n=n: a ^ (1 << n) - 1) for k, n in (("h", 16), ("r", 32), ("d", 64))],
    *[(f"cnot.b{n} D, A", k * 2, lambda a: int(a == 0)) for k, n in (("h", 16), ("r", 32), ("d", 64))],
    *[
        (
            f"lop3.b32 D, A, B, C, {t:#x}",
            "rrrr",
            lambda a, b, c, t=t: sum(
                (t >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32)
            ),
        )
        for t in (0, 1, 0x80, 0x96, 0xFE, 0x6A, 0xE8, 0xFF, 0x1B)
    ],
    *[
        (f"shl.b{n} D, A, B", k * 2 + "r", lambda a, b, n=n: a << b & (1 << n) - 1 if b < n else 0)
        for k, n in (("h", 16), ("r", 32), ("d", 64))
    ],
    *[
        (
            f"shr.{t}{n} D, A, B",
            k * 2 + "r",
            lambda a, b, n=n, t=t: (s(n, a) if t == "s" else a) >> min(b, n) & (1 << n) - 1,
        )
        for k, n in (("h", 16), ("r", 32), ("d", 64))
        for t in "ubs"
    ],
    *[
        (f"{op} D, A, {c}", "rr", call)
        for c in (0, 1, 31, 32, 40)
        for op, call in (
            ("shl.b32", lambda a, c=c: a << c & M32 if c < 32 else 0),
            ("shr.u32", lambda a, c=c: a >> min(c, 32)),
            ("shr.s32", lambda a, c=c: s(32, a) >> min(c, 32) & M32),
        )
    ],
    ("and.pred D, A, B", "ppp", lambda a, b: a & b),
    ("or.pred D, A, B", "ppp", lambda a, b: a | b),
    ("xor.pred D, A, B", "ppp", lambda a, b: a ^ b),
    ("not.pred D, A", "pp", lambda a: 1 - a),
    ("xor.pred D, !A, B", "ppp", lambda a, b: 1 - a ^ b),
    ("mov.pred D, A", "pp", lambda a: a),
    ("mov.pred D, 1", "pp", lambda a: 1),
    ("selp.b64 D, A, B, C", "dddp", lambda a, b, c: a if c else b),
    ("selp.f32 D, A, B, C", "fffp", lambda a, b, c: a if c else b),
    ("selp.s32 D, A, -7, C", "rrrp", lambda a, b, c: a if c else -7 & M32),
    ("slct.u32.s32 D, A, B, C", "rrrr", lambda a, b, c: a if s(32, c) >= 0 else b),
    ("slct.f64.f32 D, A, B, C", "gggf", lambda a, b, c: a if f(c) >= 0 else b),
    ("mov.b64 D, {A, B}", "drr", lambda a, b: b << 32 | a),
    ("mov.b32 D, {A, B}", "rhh", lambda a, b: b << 16 | a),
    ("mov.b64 D, {A, B, C, E}", "dhhhh", lambda a, b, c, e: e << 48 | c << 32 | b << 16 | a),
    ("mov.b64 {_, D}, A", "rd", lambda a: a >> 32),
    ("mov.b64 {D, _}, A", "rd", lambda a: a & M32),
    ("mov.b64 {D, %f8}, A", "fd", lambda a: a & M32),
    ("mov.b32 D, A", "fr", lambda a: a),
    ("mov.b64 D, A", "gd", lambda a: a),
    ("mov.b32 D, 0f40490FDB", "rr", lambda a: 0x40490FDB),
    ("mov.b64 D, 0d400921FB54442D18", "dd", lambda a: 0x400921FB54442D18),
]

UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b,
    "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}


def compare(cmp: str, a: float, b: float) -> bool:
    """Compare floats as in the table of the ISA."""
    unordered = a != a or b != b
    if cmp in ("num", "nan"):
        return unordered == (cmp == "nan")
    return cmp in UNORDERED if unordered else ORDER[UNORDERED.get(cmp, cmp)](a, b)


FLOAT_ORDER = ["eq", "ne", "lt", "le", "gt", "ge", *UNORDERED, "num", "nan"]
COMPARISONS: list[Any] = [
    *[
        (f"setp.{c}.s{n} D, A, B", "p" + k * 2, lambda a, b, n=n, c=c: int(ORDER[c](s(n, a), s(n, b))))
        for c in ("eq", "ne", "lt", "le", "gt", "ge")
        for k, n in (("h", 16), ("r", 32), ("d", 64))
    ],
    *[
        (f"setp.{c}.u{n} D, A, B", "p" + k * 2, lambda a, b, c=c: int(ORDER[c](a, b)))
        for c in ("eq", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
        for k, n in (("h", 16), ("r", 32), ("d", 64))
    ],
    ("setp.eq.b32 D, A, B", "prr", lambda a, b: int(a == b)),
    ("setp.ge.s32 D, A, -5", "pr", lambda a: int(s(32, a) >= -5)),
    *[(f"setp.{c}.f32 D, A, B", "pff", lambda a, b, c=c: int(compare(c, f(a), f(b)))) for c in FLOAT_ORDER],
    *[(f"setp.{c}.f64 D, A, B", "pgg", lambda a, b, c=c: int(compare(c, g(a), g(b)))) for c in FLOAT_ORDER],
    ("setp.lt.and.s32 D, A, B, C", "prrp", lambda a, b, c: int(s(32, a) < s(32, b)) & c),
    ("setp.lt.or.f32 D, A, B, !C", "pffp", lambda a, b, c: int(f(a) < f(b)) | 1 - c),
    ("setp.ltu.xor.f32 D, A, B, C", "pffp", lambda a, b, c: int(compare("ltu", f(a), f(b))) ^ c),
    ("setp.gt.s32 %p8|D, A, B", "prr", lambda a, b: int(not s(32, a) > s(32, b))),
    ("setp.gt.and.s32 %p8|D, A, B, C", "prrp", lambda a, b, c: int(not s(32, a) > s(32, b)) & c),
    ("setp.lt.ftz.f32 D, A, B", "pff", lambda a, b: int(flush(f(a)) < flush(f(b)))),
    ("set.lt.u32.s32 D, A, B", "rrr", lambda a, b: M32 * (s(32, a) < s(32, b))),
    ("set.gtu.s32.f32 D, A, B", "rff", lambda a, b: M32 * compare("gtu", f(a), f(b))),
    ("set.eq.f32.u64 D, A, B", "fdd", lambda a, b: 0x3F800000 * (a == b)),
    ("set.ge.and.u32.f64 D, A, B, C", "rggp", lambda a, b, c: M32 * (g(a) >= g(b) and c)),
]


def flush(value: float) -> float:
    """Return a subnormal float32 as a zero with its sign."""
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


def smaller(a: float, b: float) -> float:
    if a != a or b != b:
        return b if a != a else a
    return min((a, b), key=lambda v: (v, math.copysign(1, v)))


def larger(a: float, b: float) -> float:
    return -smaller(-a, -b)


def saturate(value: float) -> float:
    return min(value, 1.0) if value > 0.0 else 0.0


def exactly(
    operation: Callable[..., Fraction], usual: Callable[..., float], mode: str, wide: bool
) -> Callable[..., int]:
    """Round the exact result by trying neighbours; if an operand is not finite, use Python's IEEE arithmetic."""
    read, write = (g, of_g) if wide else (f, of_f)

    def result(*bits: int) -> int:
        values = [read(each) for each in bits]
        if not all(map(math.isfinite, values)):
            return write(usual(*values))
        value = operation(*map(Fraction, values))
        if not value:
            second = -values[1] if operation is subtract else values[1]
            cancels = operation in (add, subtract) and math.copysign(1, values[0]) != math.copysign(1, second)
            return write(-0.0 if cancels and mode == "rm" else usual(*values))
        return _nearest(value, mode, read, 64 if wide else 32)

    return result


def _nearest(value: Fraction, mode: str, read: Callable[[int], float], bits: int) -> int:
    """Round by a binary search over the bits of the magnitude, whose order is that of the numbers."""
    low, high, size = 0, read_infinity(bits), abs(value)
    while high - low > 1:
        middle = (low + high) // 2
        if Fraction(read(middle)) <= size:
            low = middle
        else:
            high = middle
    sign = (value < 0) << bits - 1
    step = (
        Fraction(read(low)) - Fraction(read(low - 1))
        if high == read_infinity(bits)
        else Fraction(read(high)) - Fraction(read(low))
    )
    above, below = Fraction(read(low)) + step - size, size - Fraction(read(low))
    away = {
        "rn": above < below or above == below and low & 1 == 1,
        "rz": False,
        "rp": below > 0 and value > 0,
        "rm": below > 0 and value < 0,
    }
    return sign | (high if away[mode] else low)


def read_infinity(bits: int) -> int:
    return 0x7F800000 if bits == 32 else 0x7FF0000000000000


def add(a: Fraction, b: Fraction) -> Fraction:
    return a + b


def subtract(a: Fraction, b: Fraction) -> Fraction:
    return a - b


def multiply(a: Fraction, b: Fraction) -> Fraction:
    return a * b


def fused(a: Fraction, b: Fraction, c: Fraction) -> Fraction:
    return a * b + c


def fused_plainly(a: float, b: float, c: float) -> float:
    return c if math.isinf(c) and math.isfinite(a) and math.isfinite(b) else a * b + c


MODES = ("rn", "rz", "rm", "rp")
FLOATS: list[Any] = [
    *[
        (f"{op}.{m}.f{n} D, A, B", k * 3, exactly(exact, usual, m, n == 64))
        for m in MODES
        for k, n in (("f", 32), ("g", 64))
        for op, exact, usual in (
            ("add", add, lambda a, b: a + b),
            ("sub", subtract, lambda a, b: a - b),
            ("mul", multiply, lambda a, b: a * b),
        )
    ],
    ("add.f32 D, A, 1.5", "ff", lambda a: of_f(f(a) + 1.5)),
    ("mul.f64 D, A, 0f40000000", "gg", lambda a: of_g(g(a) * 2.0)),
    ("add.ftz.f32 D, A, B", "fff", lambda a, b: of_f(flush(f(of_f(flush(f(a)) + flush(f(b))))))),
    ("mul.sat.f32 D, A, B", "fff", lambda a, b: of_f(saturate(f(of_f(f(a) * f(b)))))),
    ("min.f32 D, A, B", "fff", lambda a, b: of_f(smaller(f(a), f(b)))),
    ("max.f32 D, A, B", "fff", lambda a, b: of_f(larger(f(a), f(b)))),
    ("min.f64 D, A, B", "ggg", lambda a, b: of_g(smaller(g(a), g(b)))),
    ("max.f64 D, A, B", "ggg", lambda a, b: of_g(larger(g(a), g(b)))),
    (
        "min.NaN.f32 D, A, B",
        "fff",
        lambda a, b: of_f(math.nan if f(a) != f(a) or f(b) != f(b) else smaller(f(a), f(b))),
    ),
    (
        "max.xorsign.abs.f32 D, A, B",
        "fff",
        lambda a, b: (
            of_f(larger(abs(f(a)), abs(f(b)))) & 0x7FFFFFFF | (a ^ b) & 0x80000000
            if not (f(a) != f(a) and f(b) != f(b))
            else 0x7FFFFFFF
        ),
    ),
    ("abs.f32 D, A", "ff", lambda a: of_f(abs(f(a)))),
    ("neg.f32 D, A", "ff", lambda a: of_f(-f(a))),
    ("neg.f64 D, A", "gg", lambda a: a ^ 1 << 63),
    ("copysign.f32 D, A, B", "fff", lambda a, b: of_f(math.copysign(f(b), f(a)))),
    *[
        (f"testp.{kind}.f32 D, A", "pf", call)
        for kind, call in (
            ("finite", lambda a: int(math.isfinite(f(a)))),
            ("infinite", lambda a: int(math.isinf(f(a)))),
            ("number", lambda a: int(f(a) == f(a))),
            ("notanumber", lambda a: int(f(a) != f(a))),
            ("normal", lambda a: int(math.isfinite(f(a)) and (abs(f(a)) >= 2.0**-126 or f(a) == 0))),
            ("subnormal", lambda a: int(0 < abs(f(a)) < 2.0**-126)),
        )
    ],
]


def converted(value: float, low: int, high: int, mode: str, width: int) -> int:
    """Round a float of a width to an integer, and clamp it to a range."""
    if value != value:
        return 0 if width != 64 and high - low != M64 else low or high // 2 + 1
    if math.isinf(value):
        return high if value > 0 else low
    return max(low, min(high, {"rzi": int, "rni": round, "rmi": math.floor, "rpi": math.ceil}[mode](value)))


CONVERSIONS: list[Any] = [
    *[
        (
            f"cvt.{a}{m}.{b}{n} D, A",
            "hrd"[{16: 0, 32: 1, 64: 2}[max(m, 16)]] + "hrd"[{16: 0, 32: 1, 64: 2}[max(n, 16)]],
            lambda v, a=a, b=b, m=m, n=n: (
                (s(n, v) if b == "s" else v & (1 << n) - 1) & (1 << m) - 1
                if m >= 16
                else (
                    (s(n, v) if b == "s" else v & (1 << n) - 1) & 255
                    if a == "u"
                    else s(8, s(n, v) if b == "s" else v) & 0xFFFF
                )
            ),
        )
        for a in "us"
        for b in "us"
        for m in (8, 16, 32, 64)
        for n in (8, 16, 32, 64)
    ],
    ("cvt.sat.u8.s32 D, A", "hr", lambda a: max(0, min(255, s(32, a)))),
    ("cvt.sat.s16.s64 D, A", "hd", lambda a: max(-(2**15), min(2**15 - 1, s(64, a))) & 0xFFFF),
    ("cvt.sat.u32.s32 D, A", "rr", lambda a: max(0, s(32, a))),
    ("cvt.sat.s32.u32 D, A", "rr", lambda a: min(2**31 - 1, a)),
    ("cvt.s8.s32 D, A", "rr", lambda a: s(8, a) & M32),
    ("cvt.u8.u32 D, A", "rr", lambda a: a & 255),
    *[
        (
            f"cvt.{m}.{t}{n}.f{w} D, A",
            kd + ks,
            lambda a, m=m, t=t, n=n, w=w: (
                converted(
                    f(a) if w == 32 else g(a),
                    0 if t == "u" else -(1 << n - 1),
                    (1 << n) - 1 if t == "u" else (1 << n - 1) - 1,
                    m,
                    w,
                )
                & (1 << n) - 1
            ),
        )
        for m in ("rni", "rzi", "rmi", "rpi")
        for t in "us"
        for kd, n in (("h", 16), ("r", 32), ("d", 64))
        for ks, w in (("f", 32), ("g", 64))
    ],
    *[
        (
            f"cvt.{m}.f{w}.{t}{n} D, A",
            kd + ks,
            lambda a, m=m, t=t, n=n, w=w: _of_whole(s(n, a) if t == "s" else a, m, w),
        )
        for m in MODES
        for t in "us"
        for ks, n in (("h", 16), ("r", 32), ("d", 64))
        for kd, w in (("f", 32), ("g", 64))
    ],
    *[
        (
            f"cvt.{m}.f32.f64 D, A",
            "fg",
            lambda a, m=m: of_f(g(a)) if not math.isfinite(g(a)) or not g(a) else _nearest(Fraction(g(a)), m, f, 32),
        )
        for m in MODES
    ],
    ("cvt.f64.f32 D, A", "gf", lambda a: of_g(f(a)) if f(a) == f(a) else None),
    *[(f"cvt.{m}.f32.f32 D, A", "ff", lambda a, m=m: _whole_float(f(a), m)) for m in ("rni", "rzi", "rmi", "rpi")],
    ("cvt.sat.f32.f32 D, A", "ff", lambda a: of_f(saturate(f(a)))),
    ("cvt.ftz.f32.f32 D, A", "ff", lambda a: of_f(flush(f(a)))),
    (
        "cvt.pack.sat.u16.s32 D, A, B",
        "rrr",
        lambda a, b: max(0, min(65535, s(32, a))) << 16 | max(0, min(65535, s(32, b))),
    ),
    (
        "cvt.pack.sat.s8.s32.b32 D, A, B, C",
        "rrrr",
        lambda a, b, c: (
            (c << 16 | (max(-128, min(127, s(32, a))) & 255) << 8 | max(-128, min(127, s(32, b))) & 255) & M32
        ),
    ),
    ("cvt.rna.tf32.f32 D, A", "rf", lambda a: _tf32(a)),
]


def _of_whole(value: int, mode: str, bits: int) -> int:
    return _nearest(Fraction(value), mode, f if bits == 32 else g, bits) if value else 0


def _whole_float(value: float, mode: str) -> int:
    if not math.isfinite(value):
        return of_f(value)
    return of_f(math.copysign(float(converted(value, -(2**200), 2**200, mode, 32)), value))


def _tf32(bits: int) -> int:
    if bits & 0x7F800000 == 0x7F800000:
        return bits if f(bits) == f(bits) else 0x7FFFFFFF
    size = bits & 0x7FFFFFFF
    low = size & 0x1FFF
    return bits & 0x80000000 | (size - low + (0x2000 if low >= 0x1000 else 0))


def divided(text: str, a: int, b: int) -> int | None:
    """Return the quotient or remainder; None if the ISA does not define the result."""
    _, sign, bits = text[:3], text.split(".")[1][0], int(text.split(" ")[0].split(".")[1][1:])
    if b == 0:
        return None
    x, y = (s(bits, a), s(bits, b)) if sign == "s" else (a, b)
    value = cut_quotient(x, y) if text[:3] == "div" else x - cut_quotient(x, y) * y
    return value & (1 << bits) - 1


ALL = [*INTEGERS, *LOGIC, *COMPARISONS, *FLOATS, *CONVERSIONS]


@pytest.mark.parametrize(
    "text,classes,expected", ALL, ids=[text.partition(" ")[0] + f"-{at}" for at, (text, _, _) in enumerate(ALL)]
)
def test_instruction(text: str, classes: str, expected: Callable[..., Any] | None) -> None:
    rows = rows_for(text, classes)
    got = run(text, classes, rows)
    for row, bits in zip(rows, got):
        row = tuple(value & (1 << BITS[kind]) - 1 for value, kind in zip(row, classes[1:]))
        want = expected(*row) if expected is not None else divided(text, *row)
        if want is not None and not (classes[0] == "g" and g(want) != g(want)):
            assert bits == want, f"{text} of {[hex(value) for value in row]}: {bits:#x}, not {want:#x}"
        elif classes[0] == "g":
            assert want is None or g(bits) != g(bits)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind,bits", [("f", 32), ("g", 64)])
def test_fused_multiply_add(kind: str, bits: int, mode: str) -> None:
    """The products are next to midpoints, and the addends far below them, so that two roundings would be wrong."""
    text, classes = f"fma.{mode}.f{bits} D, A, B, C", kind * 4
    rng = random.Random(mode + kind)
    rows = rows_for(text, classes)[:120]
    precision, write = (24, of_f) if bits == 32 else (53, of_g)
    for _ in range(400):
        x = math.ldexp(rng.getrandbits(precision - 1) | 1 << precision - 1, -precision)
        y = math.ldexp(
            (rng.getrandbits(precision // 2) << precision // 2) | 1 << precision - 1 | rng.choice((0, 1)), -precision
        )
        tiny = rng.choice((1, -1)) * math.ldexp(1.0, -rng.randint(precision + 1, 3 * precision))
        rows.append(
            (
                write(x),
                write(y),
                write(rng.choice((tiny, -x * y if bits == 64 else -f(of_f(x * y)), x * 2.0**-precision))),
            )
        )
    check = exactly(fused, fused_plainly, mode, bits == 64)
    for start in range(0, len(rows), 250):
        part = rows[start : start + 250]
        for row, got in zip(part, run(text, classes, part)):
            want = check(*row)
            if not got & (1 << bits - 1) - 1 and not want & (1 << bits - 1) - 1:
                continue  # the sign of an exact zero has its own test
            assert got == want or (bits == 64 and g(got) != g(got) and g(want) != g(want)), [hex(v) for v in row]


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_a_coarse_quotient_by_a_large_number_is_zero(ftz: str, executor: str) -> None:
    """The reciprocal of such a number is subnormal. source: PTX ISA, "div"."""
    inf, nan, most = math.inf, math.nan, f(0x7F7FFFFF)
    rows = [
        (3.0, 2.0**127, 0.0), (-3.0, 2.0**127, -0.0), (3.0, -most, -0.0), (most, most, 0.0), (inf, 2.0**127, nan),
        (2.0**126, 2.0**126, 1.0), (inf, 2.0**126, inf), (1.0, inf, 0.0), (inf, inf, nan), (1.0, nan, nan),
        (nan, most, nan), (1.0, -0.0, -inf), (0.0, 0.0, nan),
    ]  # fmt: skip
    text = f"div.approx{ftz}.f32 D, A, B"
    made = [f(got) for got in run(text, "fff", [(of_f(a), of_f(b)) for a, b, _ in rows], executor)]
    assert [*map(str, made)] == [str(want) for *_, want in rows]


@pytest.mark.parametrize("mode,sign", [("rn", 0), ("rz", 0), ("rm", 1), ("rp", 0)])
def test_the_sign_of_an_exact_zero(mode: str, sign: int) -> None:
    one, minus = of_f(1.0), of_f(-1.0)
    assert run(f"fma.{mode}.f32 D, A, B, C", "ffff", [(one, one, minus)]) == [sign << 31]
    assert run(f"add.{mode}.f32 D, A, B", "fff", [(one, minus)]) == [sign << 31]
    assert run(f"fma.{mode}.f32 D, A, B, C", "ffff", [(0, minus, 1 << 31)]) == [1 << 31]


@pytest.mark.parametrize(
    "text,classes,function,bound",
    [
        ("div.rn.f32 D, A, B", "fff", lambda a, b: a / b, 0),
        ("div.approx.f32 D, A, B", "fff", lambda a, b: a / b, 2),
        ("div.full.f32 D, A, B", "fff", lambda a, b: a / b, 2),
        ("div.rn.f64 D, A, B", "ggg", lambda a, b: a / b, 0),
        ("rcp.rn.f32 D, A", "ff", lambda a: 1 / a, 0),
        ("rcp.approx.f32 D, A", "ff", lambda a: 1 / a, 1),
        ("rcp.rn.f64 D, A", "gg", lambda a: 1 / a, 0),
        ("sqrt.rn.f32 D, A", "ff", math.sqrt, 0),
        ("sqrt.rn.f64 D, A", "gg", math.sqrt, 0),
        ("sqrt.approx.f32 D, A", "ff", math.sqrt, 1),
        ("rsqrt.approx.f32 D, A", "ff", lambda a: 1 / math.sqrt(a), 2),
        ("ex2.approx.f32 D, A", "ff", lambda a: 2.0**a, 2),
        ("lg2.approx.f32 D, A", "ff", math.log2, 4),
        ("sin.approx.f32 D, A", "ff", math.sin, 8),
        ("cos.approx.f32 D, A", "ff", math.cos, 8),
        ("tanh.approx.f32 D, A", "ff", math.tanh, 1e4),
    ],
)
def test_division_roots_and_approximations(
    text: str, classes: str, function: Callable[..., float], bound: float
) -> None:
    """The results are correctly rounded if the ISA requires it, and otherwise within its error bound."""
    rng = random.Random(text)
    wide = "g" in classes
    write, read = (of_g, g) if wide else (of_f, f)
    rows = [tuple(write(rng.uniform(0.01, 90.0)) for _ in classes[1:]) for _ in range(200)]
    for row, got in zip(rows, run(text, classes, rows)):
        want = write(function(*map(read, row)))
        assert abs(got - want) <= bound, [read(v) for v in row]


@pytest.mark.parametrize(
    "text,kind,pairs",
    [
        ("rcp.rn.f32 D, A", "f", [(0.0, math.inf), (-0.0, -math.inf), (math.inf, 0.0), (math.nan, math.nan)]),
        ("sqrt.rn.f32 D, A", "f", [(-0.0, -0.0), (-1.0, math.nan), (math.inf, math.inf), (math.nan, math.nan)]),
        ("rsqrt.approx.f32 D, A", "f", [(0.0, math.inf), (-0.0, -math.inf), (-1.0, math.nan), (math.inf, 0.0)]),
        ("lg2.approx.f32 D, A", "f", [(0.0, -math.inf), (-1.0, math.nan), (math.inf, math.inf), (1.0, 0.0)]),
        (
            "ex2.approx.f32 D, A",
            "f",
            [(math.inf, math.inf), (-math.inf, 0.0), (2000.0, math.inf), (-2000.0, 0.0), (math.nan, math.nan)],
        ),
        ("sin.approx.f32 D, A", "f", [(math.inf, math.nan), (0.0, 0.0), (-0.0, -0.0)]),
        ("cos.approx.f32 D, A", "f", [(math.inf, math.nan), (0.0, 1.0)]),
        ("tanh.approx.f32 D, A", "f", [(math.inf, 1.0), (-math.inf, -1.0), (0.0, 0.0)]),
        ("rcp.approx.ftz.f64 D, A", "g", [(2.0, 0.5), (0.0, math.inf), (1e-310, math.inf), (math.inf, 0.0)]),
        ("rsqrt.approx.ftz.f64 D, A", "g", [(4.0, 0.5), (0.0, math.inf), (-4.0, math.nan)]),
        ("rcp.approx.ftz.f32 D, A", "f", [(1e-40, math.inf), (2.0**127, 0.0)]),
    ],
)
def test_special_values(text: str, kind: str, pairs: list[tuple[float, float]]) -> None:
    write, read = (of_f, f) if kind == "f" else (of_g, g)
    for (given, want), got in zip(pairs, run(text, kind * 2, [(write(given),) for given, _ in pairs])):
        assert (
            read(got) == want
            and math.copysign(1, read(got)) == math.copysign(1, want)
            or want != want != read(got) != read(got)
        ), given


def test_coarse_reciprocal_keeps_the_upper_word() -> None:
    rng = random.Random(3)
    rows = [(of_g(rng.uniform(1e-5, 1e5)),) for _ in range(100)]
    for (bits,), got in zip(rows, run("rcp.approx.ftz.f64 D, A", "gg", rows)):
        assert got & M32 == 0 and abs(g(got) * g(bits) - 1) < 2.0**-19


CARRIED = {
    "mov": "mov.f64 %f1, 0dFFF8000000000123; st.global.f64 [%out], %f1;",
    "st": "st.global.f64 [%out], 0dFFF8000000000123;",
    "st, two": "st.global.v2.f64 [%out], {0dFFF8000000000123, 0dFFF8000000000123};",
    "selp": "selp.f64 %f1, 0dFFF8000000000123, %f2, %p; st.global.f64 [%out], %f1;",
    "bits": "fma.rn.f64 %d1, %d2, %d2, %d2; selp.b64 %d1, 0xFFF8000000000123, %d1, %p; st.global.b64 [%out], %d1;",
    "call": "{ .param .f64 a; .param .f64 q; st.param.f64 [a], 0dFFF8000000000123; call.uni (q), same, (a);"
    "ld.param.f64 %f1, [q]; st.global.f64 [%out], %f1; }",
    "part": "{ .param .align 8 .b8 a[8]; .param .f64 q; st.param.f64 [a], 0dFFF8000000000123; call.uni (q), part, (a);"
    "ld.param.f64 %f1, [q]; st.global.f64 [%out], %f1; }",
}


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize("how", CARRIED)
def test_a_constant_nan_keeps_its_bits(how: str, executor: str) -> None:
    """From sm_100 on, compilers keep integers such as -1 and doubles in the same registers."""
    head = """.version 8.7\n.target sm_100\n.address_size 64
    .func (.param .f64 r) same(.param .f64 a) { .reg .f64 %f; ld.param.f64 %f, [a]; st.param.f64 [r], %f; ret; }
    .func (.param .f64 r) part(.param .align 8 .b8 a[8]) { .reg .f64 %f; ld.param.f64 %f, [a]; st.param.f64 [r], %f;
    ret; }
    """
    text = (
        head
        + f""".entry k(.param .u64 o) {{ .reg .b64 %out, %d<3>; .reg .f64 %f<3>; .reg .pred %p;
    ld.param.u64 %out, [o]; mov.f64 %f2, 0d0000000000000000; mov.b64 %d2, 0; setp.eq.u64 %p, %d2, 0; {CARRIED[how]}
    ret; }}"""
    )
    here = Machine(text, executor=executor, architecture=(10, 0))
    out = here.buffer("Q", [0, 0])
    here.run("k", out)
    assert out.values()[0] == 0xFFF8000000000123


def test_a_constant_single_nan_that_is_stored_keeps_its_bits() -> None:
    here = Machine(kernel("st.global.f32 [%out], 0fFFC00123; st.global.v2.f32 [%out+8], {0fFFC00123, 0f7F800001};"))
    out = here.buffer("I", [0] * 4)
    here.run("k", out)
    assert out.values() == [0xFFC00123, 0, 0xFFC00123, 0x7F800001]


def test_a_nan_of_arithmetic_is_the_hardware_one() -> None:
    assert run("sub.f32 D, A, B", "fff", [(of_f(math.inf), of_f(math.inf))]) == [0x7FFFFFFF]


def test_floats_that_are_only_copied_keep_every_bit() -> None:
    """The payload of a signalling NaN is unchanged by ld, mov, selp and st, as in a register."""
    body = """
    ld.param.u64 %d1, [in];
    ld.global.f32 %f1, [%d1];
    mov.f32 %f2, %f1;
    setp.eq.u32 %p1, 1, 1;
    selp.f32 %f3, %f2, %f2, %p1;
    st.global.f32 [%out], %f3;
"""
    here = Machine(kernel(body, ".param .u64 out, .param .u64 in"))
    out = here.buffer("I", 1)
    here.run("k", out, here.buffer("I", [0x7F812345]))
    assert out.values() == [0x7F812345]


# Ways from %r1, which was loaded, to %r2; both are used as floats, too.
COPIES = {
    "stored": "mov.b32 %r2, %r1;",
    "selected": "setp.eq.u32 %p1, 1, 1; selp.b32 %r2, %r1, 0, %p1;",
    "shuffled": "shfl.sync.idx.b32 %r2, %r1, 0, 31, 1;",
    "shuffled with p": "shfl.sync.up.b32 %r2|%p1, %r1, 0, 0, 1;",
    "added": "add.u32 %r3, %r1, 1; mov.b32 %r2, %r1;",
    "added, and written": "add.u32 %r3, %r1, 1; setp.ne.u32 %p1, 1, 1; @%p1 add.f32 %r1, %r1, %r1; mov.b32 %r2, %r1;",
    "as half of a pair": "mov.b64 %d2, {%r1, %r1}; mov.b64 {%r3, %r2}, %d2;",
    "through shared memory": ".shared .b32 s; st.shared.b32 [s], %r1; ld.shared.b32 %r2, [s];",
    "in a vector": "st.global.v2.b32 [%out+8], {%r1, %r1}; ld.global.v2.b32 {%r3, %r2}, [%out+8];",
    "exchanged": "atom.global.exch.b32 %r3, [%out+8], %r1; atom.global.exch.b32 %r2, [%out+8], 0;",
    "in parameters": "call (%r2), unchanged, (%r1);",
    "through a call": "{ .param .b32 a, b; st.param.b32 [a], %r1; call (b), same, (a); ld.param.b32 %r2, [b]; }",
}
SAME = """.func (.param .b32 b) same(.param .b32 a) { .reg .b32 r; ld.param.b32 r, [a]; st.param.b32 [b], r; ret; }
.func (.reg .b32 b) unchanged(.reg .b32 a) { mov.b32 b, a; ret; }
"""


@pytest.mark.parametrize("bits", [0xFFFFFFFF, 0xFFB3B4C0, 0x7F8CE300, 0xFF800001, 0x7FC01234])
@pytest.mark.parametrize("way", COPIES)
def test_integers_among_floats_keep_their_bits(way: str, bits: int) -> None:
    """Compilers for sm_100 do not separate them: -1 that was shuffled became 0x7fffffff, and -5,000,000 changed."""
    body = (
        f"ld.param.u64 %d1, [in]; ld.global.b32 %r1, [%d1]; {COPIES[way]}\nst.global.b32 [%out], %r2;\n"
        "add.f32 %f1, %r1, 0f3F800000; add.f32 %f2, %r2, 0f3F800000; add.f32 %f1, %f1, %f2;\n"
        "st.global.f32 [%out+4], %f1;"
    )
    here = Machine(kernel(body, ".param .u64 out, .param .u64 in", before=SAME))
    out = here.buffer("I", [0] * 4)
    here.run("k", out, here.buffer("I", [bits]))
    assert out.values()[0] == bits


@pytest.mark.parametrize("target", ["%r2", "%r2|%p2"])
def test_shuffled_floats_keep_every_bit(target: str) -> None:
    """A register that a branch may write as a float is one; -1 in it became 0x7fffffff."""
    body = (
        "ld.param.u64 %d1, [in]; ld.global.b32 %r1, [%d1]; setp.ne.u32 %p1, 1, 1; @%p1 add.f32 %r1, %r1, %r1;\n"
        f"shfl.sync.idx.b32 {target}, %r1, 0, 31, 1; st.global.b32 [%out], %r2;"
    )
    here = Machine(kernel(body, ".param .u64 out, .param .u64 in"))
    out = here.buffer("I", [0])
    here.run("k", out, here.buffer("I", [0xFFFFFFFF]))
    assert out.values() == [0xFFFFFFFF]


@pytest.mark.parametrize("vector", [False, True])
def test_an_atomic_addition_returns_every_bit(vector: bool) -> None:
    """The bits of -1 are those of a NaN, which became 0x7fffffff in a register that holds no floats."""
    operation = "atom.global.add.v2.f32 {%r1, %r2}" if vector else "atom.global.add.f32 %r1"
    added = "{%f1, %f1}" if vector else "%f1"
    body = f"mov.f32 %f1, 0f3F800000;\n{operation}, [%out+8], {added};\nst.global.b32 [%out], %r1;"
    here = Machine(kernel(body, head=HEAD))
    out = here.buffer("I", [0, 0, 0xFFFFFFFF, 0xFFFFFFFF])
    here.run("k", out)
    assert out.values()[0] == 0xFFFFFFFF


def test_a_moved_float_keeps_every_bit() -> None:
    """A signalling NaN that is loaded as a float keeps its bits, too, if a register of another type takes them."""
    body = "ld.global.f32 %f1, [%out+4];\nadd.f32 %f2, %f1, %f1;\nmov.b32 %r1, %f1;\nst.global.b32 [%out], %r1;"
    here = Machine(kernel(body))
    out = here.buffer("I", [0, 0x7F812345])
    here.run("k", out)
    assert out.values()[0] == 0x7F812345


PASSED = {  # ways from %f1 to %f2, through a function of floats
    "a float through it": "call (%f2), passed, (%f1);",
    "an integer through it": "mov.b32 %r1, %f1; call (%r2), passed, (%r1); mov.b32 %f2, %r2;",
}
PASSED_BY = ".func (.reg .f32 b) passed(.reg .f32 a) { mov.f32 b, a; ret; }\n"


@pytest.mark.parametrize("way", PASSED)
def test_floats_that_are_passed_keep_their_bits(way: str) -> None:
    """The NaN became 0x7fffffff, though no arithmetic had made it."""
    body = (
        "ld.global.f32 %f1, [%out+4]; mov.f32 %f2, 0f3F800000; add.f32 %f2, %f2, %f2; st.global.f32 [%out+8], %f2;\n"
        f"{PASSED[way]}\nst.global.f32 [%out], %f2; add.f32 %f4, %f1, %f2; st.global.f32 [%out+12], %f4;"
    )
    here = Machine(kernel(body, before=PASSED_BY))
    out = here.buffer("I", [0, 0xFFC12345, 0, 0])
    here.run("k", out)
    assert out.values() == [0xFFC12345, 0xFFC12345, 0x40000000, 0x7FFFFFFF]


def test_a_result_that_is_read_as_a_float_keeps_its_bits() -> None:
    """A signalling NaN became a quiet one in the register of a result or of a parameter."""
    called = (
        ".func (.reg .b32 b, .reg .b32 c) called(.reg .b32 a) { .reg .f32 x; .reg .b32 y; .reg .b64 z;\n"
        "add.f32 x, a, a; mov.b64 z, {a, a}; mov.b64 {c, y}, z; mov.b32 b, a; add.f32 x, b, c; ret; }\n"
    )
    body = "ld.global.b32 %r1, [%out]; call (%r2, %r3), called, (%r1); st.global.v2.b32 [%out+8], {%r2, %r3};"
    here = Machine(kernel(body, before=called))
    out = here.buffer("I", [0xFF812345, 0, 0, 0])
    here.run("k", out)
    assert out.values() == [0xFF812345, 0, 0xFF812345, 0xFF812345]


NEWEST = ".version 8.8\n.target sm_100\n.address_size 64\n"


def test_the_extremes_of_three() -> None:
    """This tests max and min of three float32, from sm_100 on."""
    body = """
    ld.param.u64 %d1, [in]; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1];
    max.f32 %f5, %f1, %f2, %f3; min.abs.f32 %f6, %f1, %f2, %f3;
    max.NaN.f32 %f7, %f1, %f4, %f2; min.f32 %f8, %f4, %f4, %f2;
    st.global.v4.f32 [%out], {%f5, %f6, %f7, %f8};
"""
    here = Machine(kernel(body, ".param .u64 out, .param .u64 in", head=NEWEST), architecture=(10, 0))
    out = here.buffer("f", [0.0] * 4)
    here.run("k", out, here.buffer("f", [-5.0, 2.0, 3.5, math.nan]))
    got = out.values()
    assert got[:2] == [3.5, 2.0] and got[2] != got[2] and got[3] == 2.0


def test_wide_vectors() -> None:
    body = """
    ld.param.u64 %d1, [in]; ld.global.L2::evict_last.v8.b32 {%r1, %r2, %r3, %r4, %r5, _, %r7, %r8}, [%d1];
    ld.global.nc.v4.b64 {%d2, %d3, %d4, %d5}, [%d1]; mov.b32 %r6, 77;
    st.global.v8.b32 [%out], {%r8, %r7, %r6, %r5, %r4, %r3, %r2, %r1};
    st.global.v4.b64 [%out+32], {%d5, %d4, %d3, %d2};
"""
    here = Machine(kernel(body, ".param .u64 out, .param .u64 in", head=NEWEST), architecture=(10, 0))
    out = here.buffer("I", [0] * 16)
    here.run("k", out, here.buffer("I", list(range(8))))
    assert out.values() == [7, 6, 77, 4, 3, 2, 1, 0, 6, 7, 4, 5, 2, 3, 0, 1]


def test_constants_where_registers_stand() -> None:
    cases = [
        ("clz.b32 D, 1", 31),
        ("clz.b64 D, 0x100000000", 31),
        ("popc.b32 D, 255", 8),
        ("brev.b32 D, 1", 2**31),
        ("bfind.u32 D, 64", 6),
        ("not.b32 D, 0", M32),
        ("add.s32 D, 5, 6", 11),
        ("sub.s32 D, 5, 6", M32),
        ("mul.hi.u32 D, 0xffffffff, 2", 1),
        ("shl.b32 D, 3, 4", 48),
        ("shr.s32 D, -16, 2", M32 - 3),
        ("shf.l.wrap.b32 D, 0x80000000, 1, 1", 3),
        ("prmt.b32 D, 0x03020100, 0x07060504, 0x7531", 0x07050301),
        ("sad.s32 D, 3, -4, 1", 8),
        ("neg.s32 D, 1", M32),
        ("abs.s32 D, -7", 7),
        ("bfe.u32 D, 0xf0, 4, 2", 3),
        ("bfi.b32 D, 3, 0, 4, 2", 48),
        ("lop3.b32 D, 12, 10, 0, 0x3c", 6),
        ("min.s32 D, -1, 1", M32),
        ("selp.b32 D, 4, 5, 1", 4),
        ("div.s32 D, -7, 2", M32 - 2),
        ("rem.s32 D, -7, 2", M32),
        ("mad.lo.s32 D, 3, 4, 5", 17),
        ("dp4a.u32.u32 D, 0x01010101, 0x04030201, 0", 10),
    ]
    text = (
        "; ".join(
            f"{case.replace('D', f'%r{at + 1}')}; st.global.u32 [%out+{4 * at}], %r{at + 1}"
            for at, (case, _) in enumerate(cases)
        )
        + ";"
    )
    here = Machine(kernel(text, head=HEAD))
    out = here.buffer("I", [0] * len(cases))
    here.run("k", out)
    assert list(zip(cases, out.values())) == [(case, case[1]) for case in cases]


@pytest.mark.parametrize("subtract", [False, True])
def test_carries_make_wide_arithmetic(subtract: bool) -> None:
    op = "sub" if subtract else "add"
    text = (
        f"mov.b64 {{%r1, %r2}}, %d20; mov.b64 {{%r3, %r4}}, %d21; {op}.cc.u32 %r5, %r1, %r3; {op}c.u32 %r6, %r2, %r4; "
        "mov.b64 D, {%r5, %r6}"
    )
    rows = rows_for(text, "ddd")
    assert run(text, "ddd", rows) == [(a - b if subtract else a + b) & M64 for a, b in rows]


def test_the_carry_after_sub_is_not_borrow() -> None:
    assert run("sub.cc.u32 %r5, A, B; addc.u32 D, 0, 0", "rrr", [(5, 3), (3, 5), (4, 4)]) == [1, 0, 1]


def test_a_128_bit_product_by_carries() -> None:
    """The compiler writes it with mul, mad.lo.cc and madc.hi."""
    text = (
        "mov.b64 {%r1, %r2}, %d20; mov.b64 {%r3, %r4}, %d21; mul.lo.u32 %r5, %r1, %r3; mul.hi.u32 %r6, %r1, %r3; "
        "mad.lo.cc.u32 %r6, %r1, %r4, %r6; madc.hi.u32 %r7, %r1, %r4, 0; mad.lo.cc.u32 %r6, %r2, %r3, %r6; "
        "madc.hi.cc.u32 %r7, %r2, %r3, %r7; addc.u32 %r8, 0, 0; mad.lo.cc.u32 %r7, %r2, %r4, %r7; "
        "madc.hi.u32 %r8, %r2, %r4, %r8; mov.b64 D, {%r7, %r8}"
    )
    rows = rows_for(text, "ddd")
    assert run(text, "ddd", rows) == [a * b >> 64 for a, b in rows]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
def test_ptxas_takes_every_instruction_above(tmp_path: Path) -> None:
    """All instructions above are valid PTX: ptxas accepts them in one module."""
    parts = [HEAD]
    for at, (text, classes, _) in enumerate(ALL):
        parts.append(build(text, classes).replace(HEAD, "").replace(".entry k(", f".entry k{at}("))
    path = tmp_path / "all.ptx"
    path.write_text("\n".join(parts))
    done = subprocess.run(
        ["ptxas", "-arch=sm_90", "-O0", str(path), "-o", str(tmp_path / "out")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("bits", [32, 64])
def test_zeros_are_normal_numbers_for_arrays(bits: int) -> None:
    numpy = pytest.importorskip("numpy")
    floats = module("emulator.ptx.vectors.floats")
    values = numpy.array([0.0, -0.0, 1.0, math.inf, math.nan, numpy.finfo(f"f{bits // 8}").tiny / 2], f"f{bits // 8}")
    assert floats.test_property("normal", values, bits).tolist() == [True, True, True, False, False, False]
    assert floats.test_property("subnormal", values, bits).tolist() == [False] * 5 + [True]
