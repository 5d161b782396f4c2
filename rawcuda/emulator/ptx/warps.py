"""What the threads of a warp tell each other: shuffles, votes, matches, reductions.

A request is (kind, verb, member mask or None, line, operands...); a group of requests is answered at once, lane by lane.

source       PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync"
Read next    scheduler.py, which decides when a group is complete
"""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import and_, or_, xor

from .rounding import maximum, maximum_nan, minimum, minimum_nan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Request = tuple[Any, ...]

__all__ = ["exchange"]


def exchange(lanes: list[int], requests: list[Request]) -> list[Any]:
    """Answer a group: what each of its threads gets, in their order."""
    kind, verb = requests[0][:2]
    if kind == "shfl":
        return _shuffle(lanes, requests, verb)
    count = len(lanes)
    if kind == "vote":
        return [_vote(lanes, requests, verb)] * count
    if kind == "match":
        return _match(lanes, requests, verb)
    if kind == "redux":
        return [_REDUCTIONS[verb]([request[4] for request in requests])] * count
    if kind == "elect":
        leader = min(lanes)
        return [(leader, lane == leader) for lane in lanes]
    return [sum(1 << lane for lane in lanes)] * count


def _shuffle(lanes: list[int], requests: list[Request], mode: str) -> list[tuple[Any, bool]]:
    """Give each lane the value of another.

    A lane that reads one outside the group gets its own value back; the ISA leaves that value open.
    """
    values = [request[4] for request in requests]
    b, c = requests[0][5:7]
    if len(lanes) == 32 and all(request[5] == b and request[6] == c for request in requests):
        return [(values[source], inside) for source, inside in _pattern(mode, b & 31, c & 0x1F1F)]
    held = dict(zip(lanes, values))
    answers = []
    for lane, own, request in zip(lanes, values, requests):
        source, inside = _source(mode, lane, request[5] & 31, request[6])
        answers.append((held.get(source, own), inside))
    return answers


@lru_cache(maxsize=256)
def _pattern(mode: str, b: int, c: int) -> list[tuple[int, bool]]:
    """Name the source of each lane of a whole warp that agrees on everything."""
    return [_source(mode, lane, b, c) for lane in range(32)]


def _source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Name the lane that one lane reads from, and whether it lies inside its segment, as the ISA's pseudocode has it."""
    clamp, segment = c & 31, c >> 8 & 31
    most = lane & segment | clamp & ~segment & 31
    least = lane & segment
    if mode == "up":
        source = lane - b
        return (source, True) if source >= most else (lane, False)
    if mode == "down":
        source = lane + b
    elif mode == "bfly":
        source = lane ^ b
    else:
        source = least | b & ~segment & 31
    return (source, True) if source <= most else (lane, False)


def _vote(lanes: list[int], requests: list[Request], verb: str) -> Any:
    votes = [bool(request[4]) for request in requests]
    if verb == "all":
        return all(votes)
    if verb == "any":
        return any(votes)
    if verb == "uni":
        return all(votes) or not any(votes)
    return sum(1 << lane for lane, vote in zip(lanes, votes) if vote)


def _match(lanes: list[int], requests: list[Request], verb: str) -> list[tuple[int, bool]]:
    groups: dict[Any, int] = {}
    for lane, request in zip(lanes, requests):
        groups[request[4]] = groups.get(request[4], 0) | 1 << lane
    if verb == "all":
        same = len(groups) == 1
        every = sum(1 << lane for lane in lanes)
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
