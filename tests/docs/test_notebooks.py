"""The notebooks are those of the pages, and print what the pages show; %%cuda compiles, launches and reports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.__main__ import environment
from tests.subject import CHECKOUT, NAME

from . import pages

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the notebooks are about the original")

FOLDER = CHECKOUT / "docs" / "notebooks"
NEEDED = ["nbclient", "nbconvert", "ipykernel", "numpy", 'nvidia-cuda-nvrtc >= 13; sys_platform != "darwin"']
COURSES = {"course": 10, "kernels": 5}  # folders in docs/, and how many chapters each has


def execute(*notebooks: Path, html: Path | None = None) -> dict[str, list[str]]:
    """Execute notebooks in an environment of their own, on the emulator; return the text of each code cell."""
    done = subprocess.run(
        [environment(NEEDED), str(CHECKOUT / "tests" / "docs" / "run_notebook.py"), *map(str, notebooks)]
        + (["--html", str(html)] if html else []),
        env={**os.environ, "RAWCUDA_DRIVER": "emulator", "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_the_notebooks_are_those_of_the_pages(tmp_path: Path) -> None:
    program = [sys.executable, str(CHECKOUT / "docs" / "make_notebooks.py"), str(tmp_path)]
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
    made, kept = (
        {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("[!.]*.ipynb")}
        for folder in (tmp_path, FOLDER)
    )
    assert len(made) == sum(COURSES.values()) and kept == made, "make them again: python3 docs/make_notebooks.py"
    assert all(not cell.get("outputs") for text in made.values() for cell in json.loads(text)["cells"])


def test_links_of_notebooks_lead_somewhere() -> None:
    links = [
        (path, link.partition("#")[0])
        for path in FOLDER.rglob("[!.]*.ipynb")
        for cell in json.loads(path.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "markdown"
        for link in re.findall(r"\]\(([^)\s]+)\)", "".join(cell["source"]))
        if not link.startswith(("https://", "#"))
    ]
    assert len(links) > 15 and not [(path.name, link) for path, link in links if not (path.parent / link).exists()]


@pytest.mark.heavy
@pytest.mark.parametrize("course", COURSES)
def test_the_notebooks_print_what_the_pages_show(course: str) -> None:
    found = execute(*sorted((FOLDER if course == "course" else FOLDER / course).glob("*.ipynb")))
    assert len(found) == COURSES[course]
    wrong = []
    for name, outputs in found.items():
        page = CHECKOUT / "docs" / course / name.replace(".ipynb", ".md")
        blocks = [block for block in pages.blocks(page.read_text("utf-8")) if block.language == "python"]
        blocks = [block for block in blocks if block.role != "solution"]  # which is text
        assert len(outputs) == len(blocks) + 1  # the first cell finds the checkout
        for block, printed in zip(blocks, outputs[1:]):
            said = pages.SAID.findall(block.code)
            shown = block.shown if block.shown is not None else "\n".join(said) if said else ""
            if shown and not pages.agrees(shown, printed):
                wrong.append(f"{name}, line {block.line}: {shown!r}, and it printed {printed!r}")
    assert not wrong, "\n".join(wrong)


def cells(*sources: str) -> dict[str, Any]:
    """Return a notebook with these code cells; one that begins with # fails, and the run goes on."""
    made = [
        {
            "cell_type": "code",
            "id": f"cell{number}",
            "metadata": {"tags": ["raises-exception"] if "# fails" in source else []},
            "source": source,
            "execution_count": None,
            "outputs": [],
        }
        for number, source in enumerate(sources)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


SCALE = 'extern "C" __global__ void scale(float *x, float by)\n{ x[threadIdx.x] *= by; }'


@pytest.mark.heavy
@pytest.mark.skipif(sys.version_info < (3, 10), reason="a notebook's packages need Python 3.10")
def test_the_cell_magic_and_pictures(tmp_path: Path) -> None:
    made = cells(
        f"%load_ext {NAME}\nimport array, rawcuda\ndevice = rawcuda.Device(0)\n"
        "x = device.upload(array.array('f', [1, 2, 3, 4]))",
        f"%%cuda scale(x, 10.0, grid=1, block=4)\n{SCALE}",
        "print(x.tolist(), scale)",
        f"%%cuda\n{SCALE}",
        f"%%cuda scale(x, 2.0, grid=1, block=5)\n{SCALE} // # fails",
        "device.reset()\nx = device.empty(4, 'float32')\nreports = device._primary.driver.libcuda.reports\n"
        "for n in range(1000):\n    reports.append(f'older {n}')",
        f"%%cuda scale(x, 2.0, grid=1, block=4)\n{SCALE}",
        f"%%cuda scale + 1\n{SCALE} // # fails",
        "%%cuda\nnonsense // # fails",
        f"%%cuda scale(nothing, grid=1, block=1)\n{SCALE} // # fails",
        "rawcuda.view(array.array('h', range(6))).reshape(2, 3).T",
        "rawcuda.explain(b'abc')",
    )
    (tmp_path / "magic.ipynb").write_text(json.dumps(made), "utf-8")
    out = execute(tmp_path / "magic.ipynb", html=tmp_path)["magic.ipynb"]
    assert out[1] == "" and out[2].startswith("[10.0, 20.0, 30.0, 40.0] <Kernel") and out[3] == "compiled: scale\n"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in out[4] and "0 bytes past the end of a 16-byte" in out[4]
    assert re.search(r":2(:\d+)? \| \{ x\[threadIdx\.x\] \*= by; \}", re.sub(r"<[^>]*>", "", out[4]))  # the source line
    assert "thread (4, 0, 0)" in out[4] and "<pre style=" in out[4] and "pre-wrap" in out[4]  # it has long lines
    assert "never written" in out[6] and "<pre style=" in out[6]  # only reported: the launch succeeds
    assert "write a launch as a call" in out[7] and "error" in out[8] and "NameError" in out[9]
    html = (tmp_path / "magic.html").read_text("utf-8")
    assert len(re.findall(r'<img[^>]*src="data:image/svg\+xml;base64,', html)) == 2 and "memory layout" in html
    assert "font-family:ui-monospace" in html and "<svg" not in html.partition("<body")[2].replace("data:image/svg", "")
