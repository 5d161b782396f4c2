"""Each correction of a defect that was found once is taken out: a test must fail then."""

from __future__ import annotations

import os
import sys

import pytest

from tests.conftest import Rerun
from tests.subject import NAME

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(NAME != "rawcuda", reason="the corrections are those of the original"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests run in forked processes"),
]


def test_no_correction_can_be_taken_out_unnoticed(rerun: Rerun) -> None:
    """A row also fails if its text is no longer in its room, or if its test fails on the unchanged package."""
    assert " corrections, 0 wrong" in rerun([sys.executable, "-m", "tests.mutants.corrections"])
