"""`emulate`: run another program that uses CUDA, on the emulator.

What it is   it starts the program with an environment in which libcuda.so.1 is the emulator, and waits for its end.
Read next    ../../emulator/impersonating/loading.py
"""

from __future__ import annotations

import os
import subprocess
import sys

from .console import Parser, Refusal

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run the program and return its exit status."""
    from shutil import rmtree

    from ...emulator.impersonating.loading import prepare, unusable

    parser = Parser("emulate", "Run a program that uses CUDA on the emulator, without a GPU.")
    parser.usage = f"{parser.prog} [options] [--] program [arguments ...]"
    cut = _first_word(arguments)
    parser.read(arguments[:cut])
    command = arguments[cut:]
    if command[:1] == ["--"]:
        del command[0]
    if not command:
        raise Refusal(f"no program is given; see {parser.prog} --help")
    if command[0] in ("-m", "-c") or command[0].endswith(".py"):
        command.insert(0, sys.executable)
    why = unusable()
    if why:
        raise Refusal(why)
    folder, variables = prepare()
    try:
        status = subprocess.run(command, env={**os.environ, **variables}).returncode
    finally:
        rmtree(folder, ignore_errors=True)
    return status if status >= 0 else 128 - status


def _first_word(arguments: list[str]) -> int:
    """Return where the program begins: at "--", or at the first word that is no option."""
    for place, word in enumerate(arguments):
        if word == "--" or not word.startswith("-") or word in ("-m", "-c"):
            return place
    return len(arguments)
