"""driver/ again, in every mode of the emulator: late work and shuffled work show what eager work hides."""
from __future__ import annotations

import sys

import pytest

from tests.conftest import Rerun

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("mode, seed", [("lazy", 0), ("random", 1), ("random", 2), ("random", 3)])
def test_driver_tests_pass(rerun: Rerun, mode: str, seed: int) -> None:
    output = rerun([sys.executable, "-m", "pytest", "tests/driver", "--mode", mode, "--seed", str(seed)])
    assert f"{mode} mode, seed {seed}" in output
