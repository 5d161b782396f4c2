"""Dask, Ray, MPI and a pool of processes distribute kernels, and lose a worker: each example by the command on its page.

The engines listen on the loopback only. Ray also listens elsewhere, whatever address it is given, so it runs in a
network namespace that has only the loopback.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import environment
from tests.subject import CHECKOUT

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        sys.version_info < (3, 11) or not sys.platform.startswith("linux"),
        reason="the engines have wheels for Linux and Python 3.11 and later",
    ),
]
PACKAGES = {
    "process": ["numpy"],
    "mpi": ["numpy", "mpi4py == 4.1.*", "mpich"],
    "dask": ["numpy", "distributed == 2026.*"],
    "ray": ["numpy", "ray == 2.*"],
}
ONLY_LOOPBACK = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"']


@pytest.mark.parametrize("engine", PACKAGES)
def test_an_example_is_right_although_it_loses_a_worker(engine: str, tmp_path: Path) -> None:
    command = ["examples/engines/" + engine + "_blocks.py"]
    said = (CHECKOUT / "docs" / "processes.md").read_text("utf-8")
    assert f"PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 {command[0]}" in said
    around: list[str] = []
    if engine == "ray":
        around = ONLY_LOOPBACK
        if shutil.which("unshare") is None or subprocess.run([*around, "true"], capture_output=True).returncode:
            pytest.skip("Ray listens on all addresses, and no network namespace can be made here")
    try:
        python = environment(PACKAGES[engine])
    except SystemExit as error:
        pytest.skip(f"{engine} cannot be installed for this Python: {error}")
    result = subprocess.run(
        [*around, python, *command],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": ".", "RAWCUDA_DRIVER": "emulator", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    expected = r"a product of 192 x 192 and a sum of 786432 numbers are right, and a worker was lost\n"
    assert re.search(expected, result.stdout), result.stdout + result.stderr
