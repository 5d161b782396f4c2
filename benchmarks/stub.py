"""Build the stub driver: stub.c, and one weak symbol for every other function of the driver API.

The names are those of the package's own table and, if a cuda.h is found, of that header: some libraries link to
functions that the table leaves out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def names() -> list[str]:
    """Return every symbol that another library may look up."""
    sys.path.insert(0, str(HERE.parent))
    from rawcuda.headers import cuda_h

    found = set(cuda_h.prototypes())
    for header in [
        *Path("/usr/local").glob("cuda*/include/cuda.h"),
        *Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/include/cuda.h"),
    ]:
        text = header.read_text(errors="replace")
        found |= set(re.findall(r"\bCUresult\s+CUDAAPI\s+(cu[A-Z]\w+)\s*\(", text))
        found |= set(re.findall(r"^#define\s+cu[A-Z]\w+\s+(cu[A-Z]\w+)\s*$", text, re.M))
    return sorted(
        found
        | {
            "cuProfilerStart",
            "cuProfilerStop",
            "cuProfilerInitialize",
            "cuGLInit",
            "cuGraphicsGLRegisterBuffer",
            "cuGraphicsGLRegisterImage",
            "cuGLGetDevices_v2",
        }
    )


def build(folder: Path) -> Path | None:
    """Return the path of a new libcuda.so.1 in a folder, or None if there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    generic = folder / "generic.c"
    generic.write_text(
        "/* written by stub.py */\n"
        + "".join(f"__attribute__((weak)) int {name}(void) {{ return 0; }}\n" for name in names())
    )
    made = folder / "libcuda.so.1"
    objects = []
    for source in (HERE / "stub.c", generic):
        target = folder / (source.stem + ".o")
        subprocess.run(
            [compiler, "-O2", "-fPIC", "-Wall", "-Wno-unused-parameter", "-c", str(source), "-o", str(target)],
            check=True,
        )
        objects.append(str(target))
    subprocess.run([compiler, "-shared", "-Wl,-soname,libcuda.so.1", "-o", str(made), *objects, "-ldl"], check=True)
    return made


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
