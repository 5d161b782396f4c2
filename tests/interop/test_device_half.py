"""The device half without a GPU.

Its tests run on the emulator, with this package in place of the other libraries, and it writes a report.
"""

from __future__ import annotations

import json
import sys

import pytest

from tests.conftest import Rerun
from tests.interop import device_report
from tests.interop.conftest import EMULATED

pytest.importorskip("numpy")
SAID = {
    "gpu": "A GPU",
    "compute_capability": [9, 0],
    "driver": 13000,
    "python": "3.11.7",
    "date": "2026-01-31",
    "versions": {"numpy": "2.4.6"},
    "outcomes": {
        "test_theirs_comes_here": {
            "torch-None-strided": "passed",
            "torch-dlpack-strided": "failed: AssertionError: no",
            "jax-None-strided": "skipped: jax has no such array",
        },
        "test_of_one": {"-": "passed"},
        "test_what_is_not_installed_is_told": {"pycuda": "skipped: pycuda is not installed here"},
    },
}


@pytest.mark.skipif(sys.platform == "win32", reason="one platform is enough")
def test_its_tests_work_on_the_emulator(rerun: Rerun, pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("driver") == "nvidia":
        pytest.skip("it runs directly here")
    output = rerun(
        [sys.executable, "-m", "pytest", "tests/interop/test_device_systems.py", "-k", "itself or round", "-rN"],
        env={EMULATED: "1", "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=300,
    )
    passed = int(output.rpartition(" passed")[0].split()[-1])
    assert passed >= 55, output


def test_its_report_tells_who_passed_what() -> None:
    page = device_report.table(json.loads(json.dumps(SAID)))
    assert "A GPU, compute capability 9.0, CUDA driver 13000" in page and "numpy 2.4.6" in page
    assert "| theirs comes here | – | – | 1/2 |" in page
    assert "- `test_theirs_comes_here[torch-dlpack-strided]` failed: AssertionError: no" in page
    assert "- of one: passed" in page and "- skipped: pycuda is not installed here" in page
