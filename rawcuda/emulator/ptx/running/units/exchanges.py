"""Exchanges within a warp: shuffles, votes, matches, reductions, elections.

Source       PTX ISA, "Parallel Synchronization and Communication Instructions"
Read next    matrix_units.py
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import compress
from operator import and_, or_, xor

from ....machine.codes import LAUNCH_FAILED
from ....machine.space import Fault
from ..rounding import maximum, maximum_nan, minimum, minimum_nan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Request = tuple[Any, ...]  # see ../scheduler.py

__all__ = ["WHOLE", "exchange", "source_of"]

WHOLE = frozenset(("mma", "ldmatrix", "stmatrix", "movmatrix"))  # which need all 32 lanes


def exchange(lanes: list[int], requests: list[Request]) -> list[Any]:
    """Return the answers for the threads of a group, in their order."""
    kind, verb = requests[0][:2]
    if kind == "shfl":
        return _shuffle(lanes, requests, verb)
    count = len(lanes)
    if kind in WHOLE:
        if count != 32:
            raise Fault(LAUNCH_FAILED, f"{kind} by {count} lanes of a warp, ptx line {requests[0][3]}: it needs all 32")
        from .matrix_units import together

        return together(kind, verb, requests)
    if kind == "vote":
        return [_vote(lanes, requests, verb)] * count
    if kind == "match":
        return _match(lanes, requests, verb)
    if kind == "redux":
        return [_REDUCTIONS[verb]([request[4] for request in requests])] * count
    if kind == "elect":
        leader = min(lanes)
        return [(leader, lane == leader) for lane in lanes]
    return [sum(map(_BITS.__getitem__, lanes))] * count


_BITS = [1 << lane for lane in range(32)]


def _shuffle(lanes: list[int], requests: list[Request], mode: str) -> list[tuple[Any, bool]]:
    """Return the value that each lane reads; its own if the source is not in the group (undefined in PTX)."""
    values = [request[4] for request in requests]
    b, c = requests[0][5:7]
    if all(request[5] == b and request[6] == c for request in requests):
        sources = _pattern(mode, b & 31, c & 0x1F1F)
        if len(lanes) == 32:
            return [(values[source], inside) for source, inside in sources]
        sources = [sources[lane] for lane in lanes]
    else:
        sources = [source_of(mode, lane, each[5] & 31, each[6]) for lane, each in zip(lanes, requests)]
    held = dict(zip(lanes, values))
    return [(held.get(source, own), inside) for own, (source, inside) in zip(values, sources)]


@lru_cache(maxsize=256)
def _pattern(mode: str, b: int, c: int) -> list[tuple[int, bool]]:
    """Return the source of each lane of a warp whose lanes pass the same operands."""
    return [source_of(mode, lane, b, c) for lane in range(32)]


def source_of(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Return the source of a lane, and whether it is inside the segment, as in the pseudocode of the ISA."""
    clamp, segment = c & 31, c >> 8 & 31
    most = lane & segment | clamp & ~segment & 31
    least = lane & segment
    if mode == "up":
        source = lane - b
        if source >= most:
            return (source, True)
        return (lane, False)
    if mode == "down":
        source = lane + b
    elif mode == "bfly":
        source = lane ^ b
    else:
        source = least | b & ~segment & 31
    if source <= most:
        return (source, True)
    return (lane, False)


def _vote(lanes: list[int], requests: list[Request], verb: str) -> Any:
    votes = [request[4] for request in requests]
    if verb == "all":
        return all(votes)
    if verb == "any":
        return any(votes)
    if verb == "uni":
        return all(votes) or not any(votes)
    return sum(map(_BITS.__getitem__, compress(lanes, votes)))


def _match(lanes: list[int], requests: list[Request], verb: str) -> list[tuple[int, bool]]:
    groups: dict[Any, int] = {}
    for lane, request in zip(lanes, requests):
        groups[request[4]] = groups.get(request[4], 0) | 1 << lane
    if verb == "all":
        same = len(groups) == 1
        every = sum(map(_BITS.__getitem__, lanes))
        return [(every if same else 0, same)] * len(lanes)
    return [(groups[request[4]], True) for request in requests]


_REDUCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "add": sum,
    "min": min,
    "max": max,
    "and": lambda values: reduce(and_, values),
    "or": lambda values: reduce(or_, values),
    "xor": lambda values: reduce(xor, values),
    "min.f32": lambda values: reduce(minimum, values),
    "max.f32": lambda values: reduce(maximum, values),
    "min.NaN": lambda values: reduce(minimum_nan, values),
    "max.NaN": lambda values: reduce(maximum_nan, values),
}
