"""Dask, Ray, MPI and a pool of processes distribute kernels, and lose a worker, by the commands on their page.

The engines listen on the loopback only. Ray also listens elsewhere, whatever address it is given, so it runs in a
network namespace that has only the loopback.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import environment
from tests.conftest import Rerun
from tests.subject import CHECKOUT
from tests.systems_table import TOOLS

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
    "dask": ["numpy", "distributed == 2026.8.*"],
    "ray": ["numpy", "ray == 2.60.*"],
}
COPIED = [
    "pandas == 3.1.*",
    "polars == 2.1.*",
    "xarray",
    "awkward",
    "h5py == 3.16.*",
    "zarr == 3.1.*",
    "pyarrow == 26.*",
]
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


def test_libraries_whose_arrays_are_copied(rerun: Rerun) -> None:
    try:
        python = environment([*TOOLS, *COPIED])
    except SystemExit as error:
        pytest.skip(f"the libraries cannot be installed for this Python: {error}")
    output = rerun([python, "-m", "pytest", "tests/interop/test_copied.py", "-rs"], timeout=600)
    assert re.search(r"^\d+ passed in", output.splitlines()[-1].strip("= ")), output  # none was skipped


def test_dask_imports_the_serialisers_by_itself_where_the_package_is_installed(tmp_path: Path) -> None:
    """The metadata of an installed package names the entry point; here a folder on the path has the same metadata."""
    try:
        python = environment(PACKAGES["dask"])
    except SystemExit as error:
        pytest.skip(f"Dask cannot be installed for this Python: {error}")
    metadata = tmp_path / "rawcuda-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rawcuda\nVersion: 1\n", "utf-8")
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    (line,) = setup["options.entry_points"]["dask.sizeof"].split("\n")[1:]
    (metadata / "entry_points.txt").write_text(f"[dask.sizeof]\n{line}\n", "utf-8")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    env = {**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{tmp_path}", "RAWCUDA_DRIVER": "emulator"}
    result = subprocess.run([python, str(program)], env=env, capture_output=True, text=True, timeout=300)
    assert (result.stdout, result.returncode) == ("dask dask [0, 1, 2]\n", 0), result.stderr


PROGRAM = """
from dask.distributed import Client, LocalCluster


def make():
    import array
    import rawcuda
    return rawcuda.Device(0).upload(array.array("i", range(3)))


def family(view):
    from distributed.protocol import serialize
    return serialize(view)[0]["serializer"]


if __name__ == "__main__":
    with LocalCluster(n_workers=1, host="127.0.0.1", dashboard_address=None) as cluster, Client(cluster) as client:
        made = client.submit(make)
        there = client.submit(family, made).result()
        got = made.result()
        print(there, family(got), got.tolist())
"""
