"""A sample of the test suites of other projects, on the emulator."""

from __future__ import annotations

import sys

import pytest

from tests.clients.suites import SUITES
from tests.conftest import Rerun
from tests.subject import module

loading = module("emulator.impersonating.loading")
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(loading.unusable()), reason=loading.unusable()),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="the newest of these packages need Python 3.11"),
]


@pytest.mark.parametrize("name", SUITES)
def test_a_sample_of_a_suite_is_as_good_as_the_stored_table(rerun: Rerun, name: str) -> None:
    said = rerun([sys.executable, "-m", "tests", "--clients", name, "--sample"], timeout=1800)
    assert "no row is worse than the stored one" in said
