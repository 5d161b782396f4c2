"""driver/ again: in every mode of the emulator (late and reordered work reveals mistakes), and without fast paths."""

from __future__ import annotations

import os
import sys

import pytest

from tests.conftest import Python, Rerun, third_of
from tests.reruns.test_pythons import NEWEST, PYTHONS, THIS
from tests.subject import CHECKOUT

pytestmark = pytest.mark.heavy


@pytest.mark.every_change
@pytest.mark.parametrize("mode, seed", [("lazy", 0), ("random", 1)])
def test_driver_tests_pass(rerun: Rerun, mode: str, seed: int, pytestconfig: pytest.Config) -> None:
    command = [sys.executable, "-m", "pytest", "tests/driver", "--mode", mode, "--seed", str(seed), "--again"]
    output = rerun([*command, *third_of(pytestconfig, mode)])
    assert f"{mode} mode, seed {seed}" in output


def test_all_driver_tests_pass_in_random_mode(rerun: Rerun, pytestconfig: pytest.Config) -> None:
    """With those that are marked once, which depend little on the mode."""
    command = [sys.executable, "-m", "pytest", "tests/driver", "--mode", "random", "--seed", "2"]
    output = rerun([*command, *third_of(pytestconfig, "random")])
    assert "random mode, seed 2" in output


GIVEN_AGAIN = """
from tests.subject import module, rawcuda
rawcuda.use(module("emulator").Emulator())
device = rawcuda.Device(0)
memory, stream = device.allocate(64), device.stream()
before = memory.ptr, stream.handle
memory.close(), stream.close()
memory, stream = device.allocate(32), device.stream()
assert (memory.ptr, stream.handle) == before
"""


def test_driver_tests_pass_where_handles_and_addresses_are_given_again(
    rerun: Rerun, python: Python, pytestconfig: pytest.Config
) -> None:
    """As drivers do: what goes by an old one meets another object."""
    again = os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "tests" / "reuse")])
    python(GIVEN_AGAIN, env={"PYTHONPATH": again}, check=True)
    command = [sys.executable, "-m", "pytest", "tests/driver", "--reuse", "--mode", "random", "--seed", "4", "--again"]
    output = rerun([*command, *third_of(pytestconfig, "reuse")])
    assert "handles and addresses are given again" in output


@pytest.mark.skipif(NEWEST == THIS, reason="the tests above are of this Python")
@pytest.mark.parametrize("mode", ["lazy", "random"])
def test_driver_tests_pass_in_every_mode_on_the_newest(rerun: Rerun, mode: str, pytestconfig: pytest.Config) -> None:
    command = [str(PYTHONS[NEWEST]), "-m", "tests", "driver", "--", "--numprocesses=0", "--mode", mode, "--seed", "3"]
    output = rerun([*command, "--again", *third_of(pytestconfig, mode)], timeout=1800)
    assert f"-- Python {NEWEST}." in output and f"{mode} mode" in output


def test_interop_passes_with_the_fast_paths_off(rerun: Rerun, pytestconfig: pytest.Config) -> None:
    """null/, emulator/ and driver/ run without them on a renamed copy: vendored/test_renamed.py."""
    rerun([sys.executable, "-m", "pytest", "tests/interop", "--plain", "--again", *third_of(pytestconfig, "plain")])
