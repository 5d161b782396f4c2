"""driver/ again, in every mode of the emulator (late and reordered work reveals mistakes), and without fast paths."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import Rerun
from tests.reruns.test_pythons import NEWEST, THIS

pytestmark = pytest.mark.heavy


MODES = [("random", 1)] + [("lazy", 0), ("random", 3)] * (NEWEST == THIS)  # else test_pythons.py runs these two


@pytest.mark.parametrize("mode, seed", MODES)
def test_driver_tests_pass(rerun: Rerun, mode: str, seed: int) -> None:
    output = rerun(
        [sys.executable, "-m", "pytest", "tests/driver", "--mode", mode, "--seed", str(seed)] + ["--again"] * (seed > 1)
    )
    assert f"{mode} mode, seed {seed}" in output


def test_interop_passes_with_the_fast_paths_off(rerun: Rerun) -> None:
    """null/ and driver/ run without them on a renamed copy: vendored/test_renamed.py."""
    rerun([sys.executable, "-m", "pytest", "tests/interop", "--plain", "--again"])
