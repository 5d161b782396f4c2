"""Each example runs on the emulator in eager and in lazy mode, and from any folder."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.conftest import Python
from tests.subject import CHECKOUT, NAME

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the examples are the original's")

EXAMPLES = {path.stem: path for path in sorted((CHECKOUT / "examples").glob("*.py"))}
NEEDS = {"saxpy_numpy": "numpy"}


def run(python: Python, path: Path, *arguments: str, **env: str) -> str:
    result = python([str(path), *arguments], env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": None, **env})
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("mode", ["eager", "lazy", "random=3"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs(python: Python, name: str, mode: str) -> None:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    assert run(python, EXAMPLES[name], RAWCUDA_EMULATOR=mode)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_says_how_to_run_it_and_is_listed(name: str) -> None:
    text = EXAMPLES[name].read_text("utf-8")
    assert f"PYTHONPATH=. python3 examples/{name}.py" in text.split('"""')[1]
    assert f"`{name}.py`" in (CHECKOUT / "docs" / "index.md").read_text("utf-8")


def test_five_libraries_says_which_and_which_not(python: Python) -> None:
    said = run(python, EXAMPLES["five_libraries"])
    names = said.rpartition("the arrays of ")[2].strip().split(", ")
    assert len(set(names)) == 5 and "array.array" in names
    for absent in ("torch", "jax", "numpy", "pyarrow"):
        assert (absent in names) or f"without {absent}: " in said
    assert importlib.util.find_spec("numpy") is None or "numpy" in names


@pytest.mark.parametrize("left_out", ["computing.wait(self.copied)", "outgoing.wait(self.computed)"])
def test_the_pipeline_streams_need_to_wait(python: Python, tmp_path: Path, left_out: str) -> None:
    """In lazy mode, the emulator runs no work before a call waits for it."""
    text = EXAMPLES["pipeline"].read_text("utf-8")
    assert text.count(left_out) == 1
    (tmp_path / "broken.py").write_text(text.replace(left_out, "pass"), "utf-8")
    result = python([str(tmp_path / "broken.py")], env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy"})
    assert result.returncode == 1 and "AssertionError" in result.stderr


def test_the_pipeline_draws_itself(python: Python, tmp_path: Path) -> None:
    from xml.etree import ElementTree

    run(python, EXAMPLES["pipeline"], str(tmp_path / "trace.svg"))
    root = ElementTree.parse(tmp_path / "trace.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_without_a_gpu_the_optional_one_is_not_used(python: Python) -> None:
    assert "went through rawcuda emulator" in run(python, EXAMPLES["optional_gpu"])
    nowhere = str(CHECKOUT / "nowhere" / "libcuda.so.1")
    assert "went through Python" in run(python, EXAMPLES["optional_gpu"], RAWCUDA_DRIVER=nowhere)


def test_compiled_ptx_is_what_its_source_says() -> None:
    source, ptx = ((CHECKOUT / "examples" / f"saxpy.{suffix}").read_text("utf-8") for suffix in ("cu", "ptx"))
    assert re.search(r"__global__ void (\w+)", source)[1] in re.findall(r"\.entry (\w+)", ptx)  # type: ignore[index]


# -- the exporter


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="numpy is not installed")
def test_the_exporter_with_a_real_consumer(python: Python) -> None:
    """Exceptions are passed on, all exports are released, and an export may outlive the interpreter."""
    result = python(f"""
        import sys, gc, builtins
        sys.path.insert(0, {str(CHECKOUT / "examples")!r})
        import exporter, numpy
        grid = exporter.Grid(2, 3)
        array = numpy.from_dlpack(grid)
        exporter.ctypes.memset(grid.memory, 0, 24)         # older NumPys make it read-only
        assert array.shape == (2, 3) and array.ctypes.data == exporter.ctypes.addressof(grid.memory)
        assert len(exporter.exported) == 1
        for _ in range(20):
            try:
                numpy.from_dlpack(grid)[10**9]
            except IndexError:
                pass
        capsule = grid.__dlpack__(max_version=(1, 0))
        assert len(exporter.exported) == 2
        del array, capsule
        gc.collect()
        assert not exporter.exported
        for asked in ({{}}, dict(max_version=(0, 8)), dict(max_version=(1, 9))):
            assert grid.__dlpack__(**asked)                # dropped at once, by whichever name
        assert not exporter.exported
        new = dict(max_version=(1, 0))
        for refused in (dict(stream=3), dict(new, copy=True), dict(new, dl_device=(2, 0))):
            try:
                grid.__dlpack__(**refused)
            except BufferError:
                continue
            raise AssertionError(refused)
        builtins.kept_until_the_end = numpy.from_dlpack(grid)
    """)
    assert result.returncode == 0 and not result.stderr, result.stderr
