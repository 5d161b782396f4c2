"""Kernels of Triton that use tensor cores, compiled with the newest Triton, run on the emulator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import environment
from tests.emulator.test_ptx_libraries import check
from tests.subject import CHECKOUT

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Triton has wheels for Linux only"),
]


def test_products_of_triton(tmp_path: Path) -> None:
    python = environment(["triton"])
    subprocess.run([python, str(CHECKOUT / "tests" / "data" / "triton" / "dot.py"), str(tmp_path)], check=True)
    made = sorted(tmp_path.glob("dot.*.ptx"))
    assert len(made) == 6
    for path in made:
        check(path)
