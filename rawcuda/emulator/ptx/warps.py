"""What the threads of a warp tell each other: shuffles, votes, matches, reductions.

A request is (kind, verb, member mask or None, line, operands...); a group of requests is answered at once, lane by lane.

source       PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync"
Read next    scheduler.py, which decides when a group is complete
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_, xor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Request = tuple[Any, ...]

__all__ = ["exchange"]


def exchange(requests: dict[int, Request]) -> dict[int, Any]:
    """Answer a group: lane -> what its thread gets."""
    first = next(iter(requests.values()))
    kind, verb = first[0], first[1]
    if kind == "shfl":
        return _shuffle(requests, verb)
    lanes = sum(1 << lane for lane in requests)
    if kind == "vote":
        return dict.fromkeys(requests, _vote(requests, verb))
    if kind == "match":
        return _match(requests, verb)
    if kind == "redux":
        return dict.fromkeys(requests, _REDUCTIONS[verb]([request[4] for request in requests.values()]))
    if kind == "elect":
        leader = min(requests)
        return {lane: (leader, lane == leader) for lane in requests}
    return dict.fromkeys(requests, lanes)


def _shuffle(requests: dict[int, Request], mode: str) -> dict[int, tuple[Any, bool]]:
    """Give each lane the value of another, as the ISA's pseudocode has it.

    A lane that reads one outside the group gets its own value back; the ISA leaves that value open.
    """
    answers = {}
    for lane, request in requests.items():
        own, b, c = request[4], request[5] & 31, request[6]
        clamp, segment = c & 31, c >> 8 & 31
        most = lane & segment | clamp & ~segment & 31
        least = lane & segment
        if mode == "up":
            source = lane - b
            inside = source >= most
        elif mode == "down":
            source = lane + b
            inside = source <= most
        elif mode == "bfly":
            source = lane ^ b
            inside = source <= most
        else:
            source = least | b & ~segment & 31
            inside = source <= most
        if not inside:
            source = lane
        given = requests.get(source)
        answers[lane] = (given[4] if given is not None else own, inside)
    return answers


def _vote(requests: dict[int, Request], verb: str) -> Any:
    votes = [bool(request[4]) for request in requests.values()]
    if verb == "all":
        return all(votes)
    if verb == "any":
        return any(votes)
    if verb == "uni":
        return all(votes) or not any(votes)
    return sum(1 << lane for lane, request in requests.items() if request[4])


def _match(requests: dict[int, Request], verb: str) -> dict[int, tuple[int, bool]]:
    lanes: dict[Any, int] = {}
    for lane, request in requests.items():
        lanes[request[4]] = lanes.get(request[4], 0) | 1 << lane
    if verb == "all":
        same = len(lanes) == 1
        every = sum(1 << lane for lane in requests)
        return {lane: (every if same else 0, same) for lane in requests}
    return {lane: (lanes[request[4]], True) for lane, request in requests.items()}


_REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add": sum,
    "min": min,
    "max": max,
    "and": lambda values: reduce(and_, values),
    "or": lambda values: reduce(or_, values),
    "xor": lambda values: reduce(xor, values),
}
