"""Draw the pictures of the pages: PYTHONPATH=. python3 docs/make_pictures.py [FOLDER]

The pictures of layouts come from live views, the pictures of calls from real traces, and the picture of the layers from
the orders that tests/null/test_layers.py enforces. A trace contains different addresses and times in each run, so a
test compares only the other words of a picture with the committed file.
"""

import array
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
from tests.null.test_layers import PATHS, order_of

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "rawcuda"
RED = "#a3341f"
WIDTH = 500  # of the picture of layers, in pixels: a page that is 500 pixels wide shows 90 % of it


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


def rows():
    """Return the layers from the bottom up, in the order that a test enforces: (title, names in it)."""
    found, single = [], []
    for name in order_of(""):
        if name in ("emulator", "emulate", "tools", "__main__"):
            continue
        if PATHS[name].name != "__init__.py":
            single.append(name)
            continue
        if single:
            found.append(("rawcuda/", single))
            single = []
        inside = order_of(name)
        folders = [inner for inner in inside if PATHS[f"{name}.{inner}"].name == "__init__.py"]
        found += [(f"{name}/{inner}/", order_of(f"{name}.{inner}")) for inner in folders]
        found.append((f"{name}/", [inner for inner in inside if inner not in folders]))
    return found


def contents(folder):
    """Return the names of the files and folders in a folder beside the layers."""
    paths = sorted(PACKAGE.joinpath(folder).iterdir(), key=lambda path: (path.is_file(), path.name))
    return [f"{path.name}/" for path in paths if path.is_dir() and path.name != "__pycache__"] + [
        path.name for path in paths if path.suffix == ".py" and path.name != "__init__.py"
    ]


def layers():
    """Return the picture of the architecture page: the layers of the package, and what stands beside them."""
    sheet = Sheet("The layers: a module imports only modules below it")
    sheet.text(0, 14, "The layers: a module imports only modules below it", size=15, bold=True)
    y = 34

    def box(title, text, fill="#ffffff"):
        nonlocal y
        lines = textwrap.wrap(text, 68)
        sheet.rect(0, y, WIDTH, 30 + 16 * len(lines), fill)
        sheet.text(10, y + 19, title, size=12, bold=True, mono=True)
        for number, line in enumerate(lines):
            sheet.text(10, y + 37 + 16 * number, line, size=12)
        y += 36 + 16 * len(lines)

    box("tools/", "uses every layer. No layer uses it; only the public names may. " + ", ".join(contents("tools")))
    box("__init__.py", "the public names, each imported on first use")
    table = rows()
    for place, (title, names) in reversed(list(enumerate(table))):
        box(f"{place + 1}  {title}", ", ".join(names), shade(1 - place / max(1, len(table) - 1)))
    sheet.rect(0, y, WIDTH, 28, "gap", line=QUIET)
    sheet.plate(WIDTH / 2, y + 18, "below: CPython and its C API, ctypes, libcuda")
    y += 40
    alone = "imports only headers/cuda_h.py and errors.py. driver.py gets it as a library object, in place of libcuda. "
    box("emulator/", alone + ", ".join(contents("emulator")))
    return {"layers": sheet.render()}


SAXPY = """\
extern "C" __global__
void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""
COLUMNS = 64  # of the terminal
RUN = "run saxpy.cu saxpy {} 2.5 arange:1000:float32 ones:1000:float32 --grid 4 --block 256 --driver emulator"


def session():
    """Return the picture of the README: a terminal in which a kernel runs, and a wrong launch is reported."""
    settings = {**os.environ, "COLUMNS": str(COLUMNS)}
    lines = [("$ cat saxpy.cu", QUIET), *((line, INK) for line in SAXPY.splitlines())]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "saxpy.cu").write_text(SAXPY)
        for count in (1000, 1024):
            words = RUN.format(count)
            lines += [("", INK), *((line, QUIET) for line in textwrap.wrap(f"$ rawcuda {words}", COLUMNS))]
            done = subprocess.run(
                [sys.executable, "-m", "rawcuda", *words.split()],
                cwd=folder,
                env={**settings, "PYTHONPATH": str(CHECKOUT), "RAWCUDA_EMULATOR": "executor=scalar"},
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
    """Return the lines that a narrow terminal shows for a long one."""
    return textwrap.wrap(line, COLUMNS, subsequent_indent=" " * (len(line) - len(line.lstrip()))) or [""]


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("pictures")
    rawcuda.use(Emulator("lazy"))
    for name, picture in {**layouts(), **traces(), **layers(), **session()}.items():
        (folder / f"{name}.svg").write_text(picture, "utf-8")
        print(folder / f"{name}.svg")
