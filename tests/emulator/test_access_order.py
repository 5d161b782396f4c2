"""What racecheck knows of the order of accesses is what plain dictionaries for threads and places would say."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.subject import module

access_order = module("emulator.ptx.checking.access_order")
THREADS, GPU, SYSTEM = 40, access_order.SCOPES["gpu"], access_order.SCOPES["sys"]


def join(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in {*one, *other}}


@pytest.mark.parametrize("seed", range(10))
def test_threads_know_what_reached_them(seed: int) -> None:
    """The threads of two blocks release and acquire at three places; those of the third meet, and acquire."""
    chosen, launch = random.Random(seed), SimpleNamespace(threads=THREADS)
    order, blocks = access_order.Order(launch), [SimpleNamespace(number=number, running=0) for number in (0, 1, 32)]
    everyone = [block.number * 1024 + t for block in blocks for t in range(THREADS)]
    known: dict[int, dict[int, int]] = {who: {} for who in everyone}
    nothing: dict[int, dict[int, int]] = {GPU: {}, SYSTEM: {}}
    fences: dict[int, dict[int, dict[int, int]]] = {}
    places = [nothing] * 3
    released: list[Any] = [None, None, None]
    for _ in range(300):
        launch.block = block = chosen.choice(blocks)
        block.running, place = chosen.randrange(THREADS), chosen.randrange(3)
        who, now, what = order.running(), order.time, chosen.choice(("gpu", "sys", "atomic", "store", "read"))
        if block.number == 32 and what != "read":
            order.meet([block], None)
            members = everyone[2 * THREADS :]
            made = {-2 - 2 * block.number: now}
            for each in members:
                made = join(made, known[each])
            known.update(dict.fromkeys(members, made))
        elif what in access_order.SCOPES:
            order.fence(what)
            fences[who] = {**fences.get(who, nothing), access_order.SCOPES[what]: {**known[who], who: now}}
            if what == "sys":
                fences[who][GPU] = {}
        else:
            if what != "store" and released[place]:
                order.acquire(released[place], who)
                known[who] = join(known[who], join(places[place][GPU], places[place][SYSTEM]))
            if what == "atomic":
                released[place] = order.published(released[place], who)
                places[place] = {s: join(places[place][s], fences.get(who, nothing)[s]) for s in nothing}
            elif what == "store":
                released[place] = order.published(None, who)
                places[place] = fences.get(who, nothing)
        keys = [*everyone, *(-2 - 2 * block.number for block in blocks)]
        compared = [(order.knows(who), known[who])]
        for at in range(3):
            if released[at]:
                compared += [(released[at].known.get(scope, {}), places[at][scope]) for scope in nothing]
        for have, want in compared:
            assert [access_order.known_time(have, key) for key in keys] == [want.get(key, 0) for key in keys]


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_the_numbers_of_threads_that_meet_do_not_decide_what_they_publish(first: int, second: int) -> None:
    """The fence of the second thread covers what the first one did before they met."""
    launch = SimpleNamespace(threads=THREADS, block=SimpleNamespace(number=0, running=first))
    order = access_order.Order(launch)
    order.fence("gpu")
    order.meet([launch.block], [0, 1])
    met = order.time - 1
    order.fence("cta")
    launch.block.running = second
    order.fence("gpu")
    order.meet([launch.block], [0, 1, 2])
    assert access_order.known_time(order.published(None, 2).known[GPU], first) == met
