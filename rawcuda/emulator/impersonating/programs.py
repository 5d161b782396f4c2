"""Replacements of ptxas and nvcc that make PTX instead of machine code, for programs that start compilers.

What it is   `main`, which both programs run; `write_programs`, which writes them into a folder; `options_for_ptx`,
             which changes the options of nvcc.
How          ptxas checks the PTX as the emulator does when it loads a module, and writes it to the output. nvcc starts
             the real nvcc, and replaces options that request a cubin by options that request PTX. All other options
             stay unchanged.
Source       CUDA Binary Utilities and "NVIDIA CUDA Compiler Driver NVCC", for the options
Read next    loading.py, which puts the folder at the front of PATH
"""

from __future__ import annotations

import os
import re
import shlex
import sys

from ...errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PROGRAMS", "main", "options_for_ptx", "write_programs"]

PROGRAMS = ("ptxas", "nvcc")
_VERSION = """{name}: passes PTX on to the emulator, in the place of machine code
Cuda compilation tools, release 13.0, V13.0.0
"""
_WITH_VALUE = frozenset(  # the options of ptxas whose value may be a word of its own
    "-Ofast-compile Ofc -allow-expensive-optimizations allow-expensive-optimizations -def-load-cache dlcm "
    "-def-store-cache dscm -device-function-maxrregcount func-maxrregcount -device-stack-protector "
    "device-stack-protector -entry e -fmad fmad -force-load-cache flcm -force-store-cache fscm -gpu-name arch "
    "-input-as-string ias -machine m -maxntid maxntid -maxrregcount maxrregcount -minnctapersm minnctapersm "
    "-opt-level O -options-file optf -output-file o -position-independent-code pic -register-usage-level "
    "regUsageLevel -sanitize sanitize -split-compile split-compile".split()
)
# -c puts "", the current folder, into the path of imports: it is taken out before anything is imported from a file.
_SCRIPT = """#!/bin/sh
unset PYTHONPATH
exec {python} -c 'import sys; sys.path[:] = [sys.argv.pop(1), *filter(None, sys.path)]
from importlib import import_module
sys.exit(import_module(sys.argv.pop(1)).main(sys.argv[1:]))' {root} {module} {name} "$@"
"""


def write_programs(folder: str) -> str:
    """Write the programs into a new folder inside this one, and return it."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for _ in __name__.rpartition(".emulator.")[0].split("."):
        package = os.path.dirname(package)
    inside = os.path.join(folder, "bin")
    os.mkdir(inside)
    for name in PROGRAMS:
        python = shlex.quote(sys.executable or "python3")  # a program that contains Python may not know of one
        text = _SCRIPT.format(python=python, root=shlex.quote(package), module=__name__, name=name)
        path = os.path.join(inside, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "wb") as file:
            file.write(os.fsencode(text))
    return inside


def main(arguments: Sequence[str]) -> int:
    """Run one of the programs, and return its exit status; the first argument is its name."""
    name, *given = arguments
    if name == "ptxas":
        return _ptxas(given)
    return _nvcc(given)


def _ptxas(given: list[str]) -> int:
    from ..ptx import Rejected
    from ..ptx.ptx_program import text_of
    from ..ptx.reading.parser import parse
    from ..ptx.translating.unit import Unit

    if any(each in ("-V", "--version") for each in given):
        sys.stdout.write(_VERSION.format(name="ptxas"))
        return 0
    inputs, output, target, words = [], "elf.o", "sm_999", list(given)
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if word[:1] != "-":
            inputs.append(word)
        elif option[1:] in _WITH_VALUE:
            if not (equals or not words):
                value = words.pop(0)
            if option in ("-o", "--output-file"):
                output = value
            if option in ("-arch", "--gpu-name"):
                target = value
    if len(inputs) != 1:
        _say(f"ptxas fatal   : {len(inputs)} input files: this replacement takes one")
        return 255
    try:
        with open(inputs[0], "rb") as file:
            content = file.read()
        number = re.search(r"\d+", target)
        Unit(parse(text_of(content), divmod(int(number.group()), 10) if number else (99, 9)), {})
        with open(output, "wb") as made:
            made.write(content)
    except Rejected as rejected:
        _say(rejected.log)
        return 255
    except OSError as error:
        _say(f"ptxas fatal   : {error.filename}: {error.strerror}")
        return 255
    return 0


def _say(text: str) -> None:
    sys.stderr.write(shown(text) + "\n")


def _nvcc(given: list[str]) -> int:
    from ... import locate

    places = [path for path, _ in locate.nvcc() if not _is_replacement(path) and not _is_planted(path)]
    if not places:
        _say("nvcc: there is no real nvcc, which the emulator needs to compile CUDA C: install a toolkit")
        return 1
    # nvcc starts ptxas by its name, and searches its own folder first
    os.execve(places[0], [places[0], *options_for_ptx(given)], locate.environment())


def options_for_ptx(given: list[str]) -> list[str]:
    """Return options of nvcc that make PTX, under the same name, where the given ones make a cubin."""
    if not any(word in ("-cubin", "--cubin") for word in given):
        return given
    words = ["--ptx" if word in ("-cubin", "--cubin") else word for word in given]
    words = [re.sub(r"(code=\[?)sm_", r"\1compute_", word) for word in words]
    if any(re.match(r"-o\Z|--output-file", word) for word in words):
        return words
    source = next((word for word in words if word.endswith((".cu", ".c", ".cpp", ".cc", ".cxx", ".gpu"))), "a.cu")
    folder = ""
    for word, following in zip(words, [*words[1:], ""]):
        option, equals, value = word.partition("=")
        if option in ("-odir", "--output-directory"):
            folder = value if equals else following
    return [*words, "-o", os.path.join(folder, os.path.splitext(os.path.basename(source))[0] + ".cubin")]


def _is_planted(path: str) -> bool:
    from ... import locate

    try:
        locate.refuse_toolkit(path)
    except PermissionError as error:
        _say(f"nvcc: {error}")
        return True
    return False


def _is_replacement(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return __name__.encode() in file.read(4096)
    except OSError:
        return True
