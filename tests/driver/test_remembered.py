"""What is remembered answers only for what it identified: random sequences, with and without memory.

tests/mutants/remembered.py weakens the guard of each table in turn, and these sequences notice it.
"""

from __future__ import annotations

import os
from typing import Any

from tests.conftest import frees_classes
from tests.driver import sequences


@frees_classes
def test_what_is_remembered_is_what_would_be_worked_out_anew(device: Any, library: Any) -> None:
    with sequences.Tables() as tables, device.load(sequences.PTX) as loaded:
        for seed in range(int(os.environ.get("SEQUENCES", "8"))):
            sequences.compare(device, loaded, tables, library, seed, 60)
