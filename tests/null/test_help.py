"""help() is short, and type checkers know the package's names and the driver's functions."""

from __future__ import annotations

import importlib.util
import json
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

from tests.subject import CHECKOUT, NAME, ROOT, rawcuda

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

SCREENS = 100  # two screens of 50 lines
USER_CODE = '''\
"""What users write: a type checker finds nothing wrong here, and each wrong line below."""

import array
import ctypes

import rawcuda

rawcuda.use("emulator")
device: rawcuda.Device = rawcuda.Device(0)
stream = device.stream(priority=-1)
module = device.load("text")
kernel: rawcuda.Kernel = module["scale"]
x = device.upload(array.array("f", [1, 2, 3]))
kernel.launch(x, 2.0, grid=1, block=(3, 1), stream=stream)
launch: rawcuda.Launch = kernel.configure(grid=1, block=3)
launch(x, 2.0)
memory = device.allocate(100, kind="pinned")
with memory, device.event(timing=True) as event:
    event.record(stream)
view: rawcuda.StridedView = rawcuda.view(memoryview(b"abc"), writable=False)
shape: tuple[int, ...] = view.T.shape
rawcuda.copy(x, view)
count = ctypes.c_int()
rawcuda.cu.cuDeviceGetCount(ctypes.byref(count))
rawcuda.cu.cuMemFree_v2(dptr=0x100)
try:
    device.synchronize()
except rawcuda.OutOfMemory as error:
    print(error.code + 1, error.name.lower())
total: int = sum(each.total_memory for each in rawcuda.devices())
'''
WRONG = {
    "rawcuda.Devise": "rawcuda.Devise(0)",
    "an argument": 'rawcuda.Device("0")',
    "a method": "rawcuda.Device(0).alocate(3)",
    "a call of the driver": "rawcuda.cu.cuMemFree_v2()",
    "its parameter": "rawcuda.cu.cuMemFree_v2(pointer=3)",
    "its number": 'rawcuda.cu.cuMemFree_v2("3")',
}


def shown(thing: object) -> str:
    """Return what help() prints."""
    return pydoc.plain(pydoc.render_doc(thing))


@pytest.mark.skipif(NAME != "rawcuda", reason="a part has fewer names")
def test_help_of_the_package_fits_two_screens_functions_first() -> None:
    text = shown(rawcuda)
    assert len(text.splitlines()) <= SCREENS
    assert [name for name in {*rawcuda.__all__, "range"} if name not in text] == []
    assert text.index("view(x)") < text.index("Device(0)") < text.index("RawCudaError")
    assert {*rawcuda.__all__} <= {*dir(rawcuda)}  # only help() gets the short list


def test_help_of_a_function_fits_two_screens() -> None:
    for function in (rawcuda.view, rawcuda.copy, rawcuda.compile, rawcuda.use):
        assert len(shown(function).splitlines()) <= SCREENS


@pytest.mark.skipif(NAME != "rawcuda", reason="the file is about the original")
def test_the_types_of_the_driver_are_those_of_the_table() -> None:
    pytest.importorskip("ruff", reason="ruff formats the file") if importlib.util.find_spec("ruff") is None else None
    from tests import make_calls

    assert make_calls.PATH.read_text("utf-8") == make_calls.text(), "write it again: python3 -m tests.make_calls"


def checked(tool: list[str], path: Path) -> subprocess.CompletedProcess[str]:
    """Run a type checker over a file."""
    return subprocess.run(
        [sys.executable, "-m", *tool, str(path)],
        cwd=path.parent,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT), "HOME": str(path.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.skipif(NAME != "rawcuda", reason="the code is about the original")
@pytest.mark.skipif(sys.version_info < (3, 10), reason="mypy checks for 3.10 or newer")
def test_mypy_understands_code_of_users(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    tool = ["mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "--python-version", "3.10"]
    (tmp_path / "user.py").write_text(USER_CODE, "utf-8")
    done = checked(tool, tmp_path / "user.py")
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import rawcuda\n\n" + "".join(f"{line}\n" for line in WRONG.values()), "utf-8")
    done = checked(tool, wrong)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert lines == set(range(3, 3 + len(WRONG))), done.stdout


@pytest.mark.heavy
@pytest.mark.skipif(NAME != "rawcuda", reason="the code is about the original")
def test_pyright_understands_code_of_users(tmp_path: Path) -> None:
    """basedpyright brings its own Node.js, so that nothing is downloaded."""
    from tests.__main__ import environment

    (tmp_path / "user.py").write_text(USER_CODE, "utf-8")
    python = environment(["basedpyright"])
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(CHECKOUT)]}), "utf-8"
    )
    done = subprocess.run(
        [python, "-m", "basedpyright", "user.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
