"""The processor instructions of hot calls: none may grow unless benchmarks/instructions.txt changes with it."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import Rerun
from tests.subject import NAME

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.every_change,
    pytest.mark.skipif(NAME != "rawcuda", reason="the benchmarks measure only the package of the checkout"),
]


def test_no_hot_call_has_more_instructions_than_its_row_says(rerun: Rerun) -> None:
    output = rerun([sys.executable, "-m", "benchmarks", "--instructions"], timeout=1200)
    if "not counted: " in output:
        pytest.skip(output.partition("not counted: ")[2].strip())
