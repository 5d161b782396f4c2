"""What is remembered answers only for what it identified: random sequences, with and without memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.driver import sequences


@pytest.fixture(scope="module")
def tables() -> Iterator[sequences.Tables]:
    with sequences.Tables() as tables:
        yield tables


@pytest.mark.parametrize("seed", range(20))
def test_what_is_remembered_is_what_would_be_worked_out_anew(device: Any, tables: sequences.Tables, seed: int) -> None:
    with device.load(sequences.PTX) as loaded:
        sequences.compare(device, loaded, tables, seed, 150)
