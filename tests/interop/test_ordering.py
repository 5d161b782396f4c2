"""Ordering in both directions, on a driver that runs work in any permitted order: no consumer misses a late write."""

from __future__ import annotations

import json

import pytest


def run(python, rounds, **env):
    result = python(["-m", "tests.interop.late_writes", str(rounds)], env=env, timeout=300, check=True)
    wrong = json.loads(result.stdout.splitlines()[-1])
    ordered = {way: count for way, count in wrong.items() if not way.startswith("unordered")}
    assert len(ordered) >= 11 and not any(ordered.values()), f"wrong of {rounds} rounds: {wrong}"
    return wrong


@pytest.mark.parametrize("seed", [1, 2])
def test_a_late_write_is_never_missed(python, pytestconfig, seed):
    env = {} if pytestconfig.getoption("driver") == "nvidia" else {"RAWCUDA_EMULATOR": f"random={seed},devices=2"}
    wrong = run(python, 12, **env)
    assert all(count for way, count in wrong.items() if way.startswith("unordered")), (
        f"this test could not notice an error: {wrong}"
    )


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["lazy", *(f"random={seed}" for seed in range(3, 11))])
def test_a_late_write_is_never_missed_in_any_order(python, pytestconfig, mode):
    if pytestconfig.getoption("driver") == "nvidia":
        pytest.skip("only the emulator has this mode")
    run(python, 20, RAWCUDA_EMULATOR=f"{mode},devices=2")
