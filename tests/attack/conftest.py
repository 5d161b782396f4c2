"""The time of each campaign, its seed, and the driver, which is the emulator."""

from __future__ import annotations

import gc
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.subject import rawcuda


@pytest.fixture(scope="session")
def attack_seed(pytestconfig: pytest.Config) -> int:
    """Return the seed of this run: that of the command line, or a new one."""
    given = pytestconfig.getoption("attack_seed")
    return given if given is not None else int(time.time())


class Campaign:
    """Rounds until the time is up; a round has a number, from which alone its random choices follow."""

    def __init__(self, node: pytest.Item, seed: int, seconds: float) -> None:
        self.name, self.seed, self.seconds = node.name, seed, seconds
        self.number = seed
        self.node = node
        self.done: Counter[str] = Counter()

    def rounds(self) -> Iterator[random.Random]:
        """Yield a source of random choices for each round; at least one."""
        end, number = time.monotonic() + self.seconds, self.seed
        while number == self.seed or time.monotonic() < end:
            self.number = number
            yield random.Random(f"{self.name} {number}")
            self.done["rounds"] += 1
            number += 1

    def each(self, attack: Callable[[random.Random], object]) -> None:
        """Run the attack in each round; a failure names the seed that repeats it. Say at the end what was done."""
        try:
            for chance in self.rounds():
                attack(chance)
        except Exception as error:
            raise AssertionError(f"{self.name}: repeat it with --attack-seed {self.number}") from error
        finally:
            figures = ", ".join(f"{count:,} {what}" for what, count in self.done.most_common())
            self.node.user_properties.append(("told", f"{self.name}: seed {self.seed}: {figures}"))


@pytest.fixture
def campaign(request: pytest.FixtureRequest, pytestconfig: pytest.Config, attack_seed: int) -> Campaign:
    """Return the campaign of the test, with its part of the time."""
    sharing = sum("campaign" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return Campaign(request.node, attack_seed, pytestconfig.getoption("minutes") * 60 / sharing)


@pytest.fixture(autouse=True)
def collected(library: Any) -> Iterator[None]:
    """Start from nothing that waits to be collected."""
    gc.collect()
    for each in rawcuda.devices():
        each.synchronize()
    yield
