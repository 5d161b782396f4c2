"""The products of the tensor cores: mma and wmma for one warp, and the moves of small matrices between its lanes.

What it is   `multiply`, D = A B + C; `load`, `store`, which map the elements of a wmma fragment to memory; `transpose`
             for movmatrix; `rows_to_lanes` and back for ldmatrix and stmatrix.
How          A plan has the place of each element of A, B, C and D in the registers of the lanes. For mma, the ISA
             specifies the places. For wmma, it does not: results have the places of a GPU of sm_80, and other fragments
             are stored row by row. Sums of float64 are chains of fused multiplications and additions. Products of other
             floats are summed in double precision and rounded once; sums of integers are exact.
Source       PTX ISA, "Matrix Fragments for mma", "wmma.load", "ldmatrix", "movmatrix"
Read next    late_units.py
"""

from __future__ import annotations

import struct
from functools import lru_cache, partial
from operator import mul

from ..half import to_half
from ..rounding import directed_fma, fma_64
from .small_units import numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Place = tuple[int, int]  # row and column

__all__ = ["BITS_OF", "Plan", "element_of", "fragment", "multiply", "place_in", "plan_of", "shape_of", "transpose"]

BITS_OF = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32,
    "e4m3": 8, "e5m2": 8, "e2m3": 8, "e3m2": 8, "e2m1": 8,
}  # fmt: skip


def shape_of(text: str) -> tuple[int, int, int]:
    """Return m, n and k of a word such as m16n8k16."""
    m, _, rest = text[1:].partition("n")
    n, _, k = rest.partition("k")
    return int(m), int(n), int(k)


def element_of(matrix: str, m: int, n: int, k: int, bits: int, lane: int, at: int) -> Place:
    """Return the row and the column of an element of an mma fragment.

    shape   matrix: a, b or c; bits: of an element; at: its number in the registers of the lane
    """
    group, inner = lane >> 2, lane & 3
    if matrix == "c":
        return group + 8 * (at >> 1), inner * 2 + (at & 1)
    each = max(32 // bits, 1)
    register, part = divmod(at, each)
    if matrix == "b":
        return inner * each + register * 4 * each + part, group
    tall = m == 16
    row = group + (8 * (register & 1) if tall else 0)
    return row, inner * each + (register >> 1 if tall else register) * 4 * each + part


def _of_volta(matrix: str, by_rows: bool, single: bool, lane: int, at: int) -> Place:
    """Return the same for m8n8k4 with halves, where each of four groups of eight lanes multiplies its own matrices."""
    if lane >= 16:
        upper = 4
    else:
        upper = 0
    if matrix == "c" and single:
        return (lane & 1) + upper + (at & 2), (at & 4) + (lane & 2) + (at & 1)
    line, other = lane % 4 + upper, at
    if matrix == "a":
        if by_rows:
            return (line, other)
        return (at % 4 + upper, lane % 4)
    if matrix == "b":
        if by_rows:
            return (lane % 4, at + upper)
        return (other, line)
    return line, other


class Plan:
    """The places of the elements of one kind of product.

    shape   rows, columns: for each group of lanes, the places of each row of A and each column of B among the numbers
            of all lanes; results: for each element of C and D, lane by lane, its group and its place in the product
    """

    __slots__ = ("types", "rows", "columns", "results", "saturates", "combine", "mode")

    def __init__(self, text: str) -> None:
        words = text.split(".")
        self.types = types = tuple(words[-4:])  # of D, A, B, C
        shape = next(word for word in words if word[0] == "m" and word[1:2].isdecimal())
        m, n, k = shape_of(shape)
        self.saturates = "satfinite" in words
        if "xor" in words:
            self.combine = "xor"
        else:
            self.combine = "and"
        self.mode = next((word for word in words if word in ("rz", "rm", "rp")), "rn")
        layouts = [word for word in words if word in ("row", "col")]
        volta = words[0] == "mma" and shape == "m8n8k4" and types[1] == "f16"
        counts = [m * k, k * n, m * n]
        lanes: list[list[dict[Place, int]]] = []
        if volta:
            groups = 4
        else:
            groups = 1
        for matrix, type, count in zip("abc", (types[1], types[2], types[3]), counts):
            bits = BITS_OF[type]
            found: list[dict[Place, int]] = [{} for _ in range(groups)]
            if words[0] == "wmma":
                each = fragment(shape, matrix, type) * max(32 // bits, 1)
                for lane in range(32):
                    for at in range(each):
                        found[0].setdefault(place_in(shape, matrix, type, lane, at), lane * each + at)
            else:
                each = count * (4 if volta else 1) // 32
                if bits == 1:
                    each //= 32
                for lane in range(32):
                    for at in range(each):
                        if volta:
                            by_rows = matrix != "c" and layouts["ab".index(matrix)] == "row"
                            place = _of_volta(matrix, by_rows, type == "f32", lane, at)
                            found[lane % 16 // 4][place] = lane * each + at
                        else:
                            if bits == 1:
                                wide = 32
                            else:
                                wide = bits
                            row, column = element_of(matrix, m, n, k, wide, lane, at)
                            found[0][row, column] = lane * each + at
            lanes.append(found)
        if types[1] == "b1":
            depth = k // 32
        else:
            depth = k
        self.rows = [[[a[i, p] for p in range(depth)] for i in range(m)] for a in lanes[0]]
        self.columns = [[[b[p, j] for p in range(depth)] for j in range(n)] for b in lanes[1]]
        size = 32 * (counts[2] * groups // 32)
        self.results = [(-1, -1)] * size
        for number, found_in in enumerate(lanes[2]):
            for (i, j), at in found_in.items():
                self.results[at] = (number, i * n + j)


def fragment(shape: str, matrix: str, type: str) -> int:
    """Return how many registers of a lane hold a matrix of wmma."""
    m, n, k = shape_of(shape)
    if matrix == "c" or matrix == "d":
        return {"f16": m * n // 64}.get(type, m * n // 32)
    if type == "f16":
        return 8
    if matrix == "a":
        rows = m
    else:
        rows = n
    return max(rows * k * BITS_OF[type] // (1024 if type != "f64" else 2048), 1)


def place_in(shape: str, matrix: str, type: str, lane: int, at: int) -> Place:
    """Return the row and the column of an element of a wmma fragment; 32 single bits are one element."""
    m, n, k = shape_of(shape)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))
    if matrix in "cd":
        if m == n:
            tall = m == 16
            return (lane >> 2) + 8 * (at >> 1 & 1) * tall, (lane & 3) * 2 + (at & 1) + 8 * (at >> 2)
        each = m * n // 32
    else:
        if type == "b1":
            if matrix == "a":
                rows, columns = (rows, columns // 32)
            else:
                rows, columns = (rows // 32, columns)
        each = fragment(shape, matrix, type) * (max(32 // BITS_OF[type], 1) if type != "b1" else 1)
    number = (lane * each + at) % (rows * columns)
    if matrix == "b":  # column by column, so that the parts of a register follow each other in k
        return number % rows, number // rows
    return number // columns, number % columns


@lru_cache(maxsize=256)
def plan_of(text: str) -> Plan:
    """Return the plan of an instruction."""
    return Plan(text)


def multiply(text: str, operands: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the registers of D for each lane.

    shape   operands: for each lane, the registers of A, of B and of C
    """
    plan = plan_of(text)
    d_type, a_type, b_type, c_type = plan.types
    a, b = (
        numbers(type, [each for lane in operands for each in lane[at]])
        for at, type in ((0, a_type), (1, b_type))
    )  # fmt: skip
    c = numbers(c_type, [each for lane in operands for each in lane[2]])
    made = []
    for rows, columns in zip(plan.rows, plan.columns):
        left = [[a[at] for at in row] for row in rows]
        right = [[b[at] for at in column] for column in columns]
        if a_type == "f64":
            product = []  # each product is rounded with what was added up before
        elif a_type == "b1":
            product = _of_bits(left, right, plan.combine)
        else:
            product = [sum(map(mul, row, column)) for row in left for column in right]
        made.append(product)
    if a_type == "f64":
        sums = _of_doubles(plan, a, b, c)
    else:
        sums = [made[number][at] + c[place] for place, (number, at) in enumerate(plan.results)]
    each = len(sums) // 32
    if d_type == "s32":
        if plan.saturates:
            sums = [min(max(value, -0x80000000), 0x7FFFFFFF) for value in sums]
        sums = [value & 0xFFFFFFFF for value in sums]
    elif d_type == "f16":
        halves = [to_half("f16", "f32", value, "rn", "") for value in sums]
        sums = [low | high << 16 for low, high in zip(halves[::2], halves[1::2])]
        each //= 2
    elif d_type == "f32":
        sums = _singles(sums)
    return [tuple(sums[lane * each : lane * each + each]) for lane in range(32)]


def _of_doubles(plan: Plan, a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> list[Any]:
    """Return the sums of float64, each of which is a chain of fused multiplications and additions."""
    sums: list[Any] = []
    if plan.mode == "rn":
        fma: Callable[[float, float, float], float] = fma_64
    else:
        fma = partial(directed_fma, 64, plan.mode)
    for place, (number, at) in enumerate(plan.results):
        columns = plan.columns[number]
        total = c[place]
        for left, right in zip(plan.rows[number][at // len(columns)], columns[at % len(columns)]):
            total = fma(a[left], b[right], total)
        sums.append(total)
    return sums


def _singles(values: list[float]) -> list[float]:
    try:
        return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))
    except OverflowError:
        room = memoryview(bytearray(4)).cast("f")
        made = []
        for value in values:
            room[0] = value
            made.append(room[0])
        return made


def _of_bits(left: list[list[int]], right: list[list[int]], combine: str) -> list[int]:
    way: Callable[[int, int], int] = int.__xor__ if combine == "xor" else int.__and__
    return [sum(bin(way(x, y)).count("1") for x, y in zip(row, column)) for row in left for column in right]


def transpose(values: Sequence[int]) -> list[int]:
    """Return the registers of a transposed matrix of 8 by 8 halves (movmatrix)."""
    halves = struct.unpack("<64H", struct.pack("<32I", *values))
    turned = [halves[8 * column + row] for row in range(8) for column in range(8)]
    return list(struct.unpack("<32I", struct.pack("<64H", *turned)))


def rows_to_lanes(rows: Sequence[bytes], count: int, turned: bool) -> list[tuple[int, ...]]:
    """Return the registers of ldmatrix: of `count` matrices of 8 by 8 halves, whose rows the lanes have read."""
    made: list[list[int]] = [[] for _ in range(32)]
    for number in range(count):
        values = struct.unpack("<32I", b"".join(rows[8 * number : 8 * number + 8]))
        for lane, value in enumerate(transpose(values) if turned else values):
            made[lane].append(value)
    return [tuple(each) for each in made]


def lanes_to_rows(lanes: Sequence[Sequence[int]], count: int, turned: bool) -> list[bytes]:
    """Return the row that each lane writes for stmatrix."""
    made: list[bytes] = []
    for number in range(count):
        values = [lane[number] for lane in lanes]
        raw = struct.pack("<32I", *(transpose(values) if turned else values))
        made += [raw[16 * row : 16 * row + 16] for row in range(8)]
    return made + [b""] * (32 - len(made))


def together(kind: str, verb: str, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Answer an operation of a whole warp, for the scheduler."""
    values = [request[4] for request in requests]
    if kind == "mma":
        return multiply(verb, values)
    if kind == "movmatrix":
        return transpose(values)
    count, _, way = verb.partition(".")
    if kind == "ldmatrix":
        return rows_to_lanes(values, int(count), way == "trans")
    return lanes_to_rows(values, int(count), way == "trans")
