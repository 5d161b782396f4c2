"""Write rawcuda/headers/calls.pyi, the types of rawcuda.cu, from the table of the driver's functions.

python3 -m tests.make_calls
"""

from __future__ import annotations

import ctypes
import keyword
import subprocess
import sys
from typing import Any

from tests.subject import FOLDER, module

PATH = FOLDER / "headers" / "calls.pyi"
HEAD = """# The functions of the driver for type checkers, as methods of `cu`. `python3 -m tests.make_calls` writes this
# file from the table of functions. Pointers, handles and structures accept many types: they are Any.

from ctypes import _SimpleCData
from typing import Any

__all__ = ["Calls"]

I = int | _SimpleCData[int]  # noqa: E741
F = float | _SimpleCData[float]


class Calls:
"""
QUERIES = ("cuStreamQuery", "cuEventQuery")


def kind_of(kind: Any) -> str:
    """Return the annotation of a parameter."""
    if isinstance(kind, type) and issubclass(kind, ctypes._SimpleCData):
        code = getattr(kind, "_type_", "P")
        handle = module("headers.c_types").Handle
        if issubclass(kind, handle) or code in "PzZO":
            return "Any"
        return "F" if code in "fdg" else "I"
    return "Any"


def text() -> str:
    """Return the module."""
    lines = []
    for name, each in module("headers.cuda_h").prototypes().items():
        if each.old:
            continue
        given = [f"{p + '_' * keyword.iskeyword(p)}: {kind_of(kind)}" for p, kind in each.parameters]
        returns = "bool" if name.startswith(QUERIES) else "None"
        lines.append(f"    def {name}({', '.join(['self', *given])}) -> {returns}: ...\n")
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--isolated",
        "--line-length=120",
        "--target-version=py39",
        "--stdin-filename=calls.pyi",
        "-",
    ]
    return subprocess.run(ruff, input=HEAD + "".join(lines), capture_output=True, check=True, text=True).stdout


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
