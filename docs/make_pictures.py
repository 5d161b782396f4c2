"""Draw the pictures of the pages: PYTHONPATH=. python3 docs/make_pictures.py [FOLDER]

The pictures of layouts come from live views, the pictures of calls from real traces, and the picture of the house from
the table FLOORS in tests/null/test_layers.py. A trace contains different addresses and times in each run, so a test
compares only the other words of a picture with the committed file.
"""

import array
import ast
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import rawcuda
from rawcuda.emulator import Emulator
from rawcuda.tools.pictures import trace_picture, view_picture
from rawcuda.tools.pictures.svg import INK, QUIET, Sheet, shade
from rawcuda.tracing import Call

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "rawcuda"
RED = "#a3341f"
LEFT, MIDDLE, RIGHT, GAP = 150, 560, 164, 14  # widths of the three columns of the house, in pixels


def layouts():
    """Return the pictures of chapter 4."""
    a = rawcuda.view(array.array("h", [0, 1, 2, 3, 4, 5])).reshape(2, 3)
    return {"transposed": view_picture(a.T), "gaps": view_picture(a[:, ::2])}


def traces():
    """Return the pictures of chapters 2 and 8."""
    device = rawcuda.Device(0)
    source, back = (device.allocate(4, kind="pinned") for _ in range(2))
    target = device.allocate(4)
    stream, other = device.stream(), device.stream()
    lanes = []
    with device.current(), rawcuda.trace(lanes):
        rawcuda.copy(target.view(), source.view(), stream=stream)
        copied = stream.record()
        other.wait(copied)
        rawcuda.copy(back.view(), target.view(), stream=other)  # new views, which do not remember a stream
        other.synchronize()
    v = rawcuda.view(array.array("f", [1, 2, 3]))
    life = []
    with rawcuda.trace(life):
        capsule = v.__dlpack__(max_version=(1, 3))
        taken = rawcuda.view(capsule)
        del capsule
        del taken
    return {
        "lanes": trace_picture([event for event in lanes if isinstance(event, Call)]),
        "capsule": trace_picture(life),
    }


def floors():
    """Return the table of floors from the test that enforces it: (folder, names of its rooms), from the ground up."""
    tree = ast.parse((CHECKOUT / "tests" / "null" / "test_layers.py").read_text("utf-8"))
    tables = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FLOORS"
    ]
    return ast.literal_eval(tables[0])


def contents(folder):
    """Return the names of the files and folders in a side building."""
    paths = sorted(PACKAGE.joinpath(folder).iterdir(), key=lambda path: (path.is_file(), path.name))
    return [f"{path.name}/" for path in paths if path.is_dir() and path.name != "__pycache__"] + [
        path.name for path in paths if path.suffix == ".py" and path.name != "__init__.py"
    ]


def house():
    """Return the picture of the architecture page: the floors of the package, and what stands beside them."""
    sheet = Sheet("The house: a room imports only rooms below it")
    sheet.text(0, 14, "The house: a room imports only rooms below it", size=15, bold=True)
    middle, right = LEFT + GAP, LEFT + GAP + MIDDLE + GAP
    top = y = 34

    def box(x, y, width, height, title, lines, fill):
        sheet.rect(x, y, width, height, fill)
        sheet.text(x + 10, y + 18, title, size=12, bold=True, mono=True)
        for number, line in enumerate(lines):
            sheet.text(x + 10, y + 35 + 15 * number, line, size=11)

    box(middle, y, MIDDLE, 44, "__init__.py", ["the façade: the public names, each imported on first use"], "#ffffff")
    y += 44 + 10
    table = floors()
    for place, (folder, rooms) in reversed(list(enumerate(table))):
        lines = textwrap.wrap(", ".join(rooms.split()), 88)
        title = folder.replace(".", "/") + "/" if folder else "rawcuda/"
        height = 28 + 15 * len(lines)
        box(middle, y, MIDDLE, height, f"{place + 1}  {title}", lines, shade(1 - place / max(1, len(table) - 1)))
        y += height + 6
    bottom = y - 6
    notes = ["uses every floor.", "No floor uses it; only", "the façade may.", ""]
    box(0, top, LEFT, bottom - top, "tools/", [*notes, *contents("tools")], "#ffffff")
    notes = [
        "imports only",
        "headers/cuda_h.py and",
        "errors.py. driver.py gets",
        "it as a library object,",
        "in place of libcuda.",
        "",
    ]
    box(right, top, RIGHT, bottom - top, "emulator/", [*notes, *contents("emulator")], "#ffffff")
    sheet.rect(middle, bottom + 10, MIDDLE, 28, "gap", line=QUIET)
    sheet.plate(middle + MIDDLE / 2, bottom + 28, "the ground: CPython and its C API, ctypes, libcuda")
    return {"house": sheet.render()}


SAXPY = """\
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""
RUN = "run saxpy.cu saxpy {} 2.5 arange:1000:float32 ones:1000:float32 --grid 4 --block 256 --driver emulator"


def session():
    """Return the picture of the README: a terminal in which a kernel runs, and a wrong launch is reported."""
    lines = [("$ cat saxpy.cu", QUIET), *((line, INK) for line in SAXPY.splitlines())]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "saxpy.cu").write_text(SAXPY)
        for count in (1000, 1024):
            words = RUN.format(count)
            lines += [("", INK), *((line, QUIET) for line in textwrap.wrap(f"$ rawcuda {words}", 92))]
            done = subprocess.run(
                [sys.executable, "-m", "rawcuda", *words.split()],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "92", "RAWCUDA_EMULATOR": "executor=scalar"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            said = re.sub(r"at /\S*/rawcuda/\S+", "by rawcuda", done.stdout).replace(os.path.join(folder, ""), "")
            lines += [(line, INK if not done.returncode else RED) for old in said.splitlines() for line in folded(old)]
    sheet = Sheet("A terminal: a kernel in CUDA C runs on the emulator, then a launch with a wrong count is reported")
    for number, colour in enumerate(("#e06c5f", "#e5b84b", "#6fb56a")):
        sheet.rect(4 + 18 * number, 0, 10, 10, colour, line=colour)
    for number, (line, colour) in enumerate(lines):
        sheet.text(0, 34 + 17 * number, line.replace(" ", "\N{NO-BREAK SPACE}"), size=12, mono=True, colour=colour)
    return {"session": sheet.render()}


def folded(line):
    """Return the lines that a terminal of 92 columns shows for a long one."""
    return textwrap.wrap(line, 92) or [""]


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("pictures")
    rawcuda.use(Emulator("lazy"))
    for name, picture in {**layouts(), **traces(), **house(), **session()}.items():
        (folder / f"{name}.svg").write_text(picture, "utf-8")
        print(folder / f"{name}.svg")
