"""Each correction of a defect that was found once is taken out: a test must fail then."""

from __future__ import annotations

import os
import re
import sys

import pytest

from tests.conftest import Rerun
from tests.subject import NAME

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(NAME != "rawcuda", reason="the corrections are those of the original"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests run in forked processes"),
]
PARTS = 10  # so that the tenth of the heavy tests that a change runs takes a part of them, not all or none


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_no_correction_can_be_taken_out_unnoticed(rerun: Rerun, part: int) -> None:
    """A row also fails if its text is no longer in its module, or if its test fails on the unchanged package."""
    said = rerun([sys.executable, "-m", "tests.mutants.corrections", f"{part}/{PARTS}"])
    assert re.search(r"^[1-9]\d* corrections, 0 wrong", said, re.MULTILINE), said
