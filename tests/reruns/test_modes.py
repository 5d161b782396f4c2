"""driver/ again, in every mode of the emulator (late and reordered work reveals mistakes), and without fast paths."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import Rerun, third_of
from tests.reruns.test_pythons import NEWEST, PYTHONS, THIS

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


@pytest.mark.skipif(NEWEST == THIS, reason="the tests above are of this Python")
@pytest.mark.parametrize("mode", ["lazy", "random"])
def test_driver_tests_pass_in_every_mode_on_the_newest(rerun: Rerun, mode: str, pytestconfig: pytest.Config) -> None:
    command = [str(PYTHONS[NEWEST]), "-m", "tests", "driver", "--", "--numprocesses=0", "--mode", mode, "--seed", "3"]
    output = rerun([*command, "--again", *third_of(pytestconfig, mode)], timeout=1800)
    assert f"-- Python {NEWEST}." in output and f"{mode} mode" in output


def test_interop_passes_with_the_fast_paths_off(rerun: Rerun, pytestconfig: pytest.Config) -> None:
    """null/, emulator/ and driver/ run without them on a renamed copy: vendored/test_renamed.py."""
    rerun([sys.executable, "-m", "pytest", "tests/interop", "--plain", "--again", *third_of(pytestconfig, "plain")])
