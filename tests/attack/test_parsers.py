"""Readers of foreign bytes: mutants of real files, and inputs that grow. Each has its own part of the time."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest

from tests.attack.conftest import Campaign
from tests.attack.parsers import READERS, growth, mutated, quietly


@pytest.mark.parametrize("name", READERS)
def test_mutants(campaign: Campaign, name: str) -> None:
    """A mutant is read or refused, and takes neither much time nor much memory."""
    reader = READERS[name]
    seeds = reader.seeds()
    seconds, megabytes = reader.most
    assert any(quietly(reader, seed) for seed in seeds)

    def attack(chance: random.Random) -> None:
        data = mutated(chance, seeds)
        tracemalloc.reset_peak()
        before, begun = tracemalloc.get_traced_memory()[0], time.thread_time()
        taken = quietly(reader, data)
        took, peak = time.thread_time() - begun, tracemalloc.get_traced_memory()[1] - before
        campaign.done["taken" if taken else "refused"] += 1
        assert took < seconds, f"{took:.1f} s for {len(data)} bytes: {data[:2000]!r}"
        assert peak < megabytes * 1e6, f"{peak} bytes for {len(data)} bytes: {data[:2000]!r}"

    tracemalloc.start()  # once: CPython 3.11 leaks 1.5 kB in each start and stop
    try:
        campaign.each(attack)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", READERS)
def test_growth(name: str, request: pytest.FixtureRequest) -> None:
    """Time and memory over sizes of 1 to 32."""
    for line in growth(name):
        request.node.user_properties.append(("told", line))
