"""`emulate`: run another program that uses CUDA on the emulator.

What it is   the command starts the program with an environment in which libcuda.so.1 is the emulator, and waits for its
             end. If the program fails, the command lists the functions that the program called and the emulator lacks.
             If the program crashed, it also lists the last calls.
Read next    ../../emulator/impersonating/loading.py
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from ..terminal import say
from .console import PROGRAM, Parser, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main", "make_parser"]

_SETTINGS = "RAWCUDA_EMULATOR"


def main(arguments: list[str]) -> int:
    """Run the program and return its exit status."""
    from ...emulator import Emulator
    from ...emulator.impersonating.journal import read, told
    from ...emulator.impersonating.loading import unusable

    cut = _first_word(arguments)
    options, command = make_parser().read(arguments[:cut]), arguments[cut:]
    if command[:1] == ["--"]:
        del command[0]
    if options.crashed is not None and not command:
        if not os.path.isdir(options.crashed):
            raise Refusal(f"--crashed {options.crashed}: there is no such folder")
        lines = told(read(options.crashed), crashed=True)
        say("\n".join(lines) or "there are no journals of calls in this folder")
        return 0
    if not command:
        raise Refusal(f"no program is given; see {PROGRAM} emulate --help")
    if _is_for_python(command[0]) or command[0].endswith(".py"):
        command.insert(0, sys.executable)
    why = unusable()
    if why:
        raise Refusal(why)
    words = [os.environ.get(_SETTINGS, ""), *options.words]
    os.environ[_SETTINGS] = ",".join(word for word in words if word)
    Emulator.from_environment()  # refuses a wrong word before the program is started
    program = _Program()
    on_term = signal.signal(signal.SIGTERM, program.pass_on)
    on_hangup = signal.signal(signal.SIGHUP, program.pass_on)
    try:
        return _emulate(program, command, options)
    finally:
        signal.signal(signal.SIGTERM, on_term)
        signal.signal(signal.SIGHUP, on_hangup)


def _emulate(program: _Program, command: list[str], options: Any) -> int:
    from ...emulator.impersonating.journal import read, told
    from ...emulator.impersonating.loading import prepare, remove

    folder, variables = prepare()
    try:
        status = program.run(command, {**os.environ, **variables})
        crashed = status < 0 or status > 128
        lines = []
        if status or options.doctor:
            lines = told(read(folder), everything=options.doctor, crashed=crashed)
        if status < 0:
            lines.insert(0, f"{command[0]} was ended by {_signal(-status)}")
        if options.doctor:
            lines.insert(0, f"impersonated in {folder}: {', '.join(sorted(os.listdir(folder)))}")
        _tell(lines)
    finally:
        remove(folder)
    if status >= 0:
        return status
    return 128 - status


def _tell(lines: list[str]) -> None:
    for line in lines:
        say(f"emulate: {line}", stream=sys.stderr)


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "emulate",
        "Run a program that uses CUDA on the emulator, without a GPU. In it and in its children, libcuda.so.1 is the "
        "emulator.",
        f"examples:\n  {PROGRAM} emulate saxpy.py\n  {PROGRAM} emulate --set devices=2,strict -- ./program --steps 5",
    )
    parser.usage = f"{PROGRAM} emulate [options] [--] (program | -m module | -c code | -) [arguments ...]"
    parser.add_argument(
        "--set", dest="words", action="append", default=[], metavar="WORDS", help=f"words for {_SETTINGS}"
    )
    parser.add_argument(
        "--doctor", action="store_true", help="at the end, show what was replaced, what was called, and what is missing"
    )
    parser.add_argument(
        "--crashed",
        metavar="FOLDER",
        help="run nothing: show the last calls of a process that crashed after impersonate(), whose folder, "
        "in emulated-UID in the folder for temporary files, is still there",
    )
    return parser


def _first_word(arguments: list[str]) -> int:
    """Return where the program begins: at "--", or at the first word that is neither an option nor its value."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if word == "--" or not word.startswith("-") or _is_for_python(word):
            return place
        place += 2 if word in ("--set", "--crashed") else 1
    return place


def _is_for_python(word: str) -> bool:
    """Tell whether a word tells Python where its program is: -m, -c, or - for the standard input."""
    return word == "-" or word[:2] in ("-m", "-c")


class _Program:
    """A program to run; SIGTERM and SIGHUP are passed on to it, also those that come before it is started."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.early: list[int] = []

    def pass_on(self, number: int, frame: Any) -> None:
        """Handle a signal."""
        if self.process is None:
            self.early.append(number)
        else:
            self.process.send_signal(number)

    def run(self, command: list[str], environment: dict[str, str]) -> int:
        """Run the program to its end, and return its status; it is not started if a signal has come.

        A terminal sends SIGINT to the program as well, so here it does nothing: `kill -INT` must be sent to the
        program.
        """
        if self.early:
            return -self.early[0]
        try:
            started = self.process = subprocess.Popen(command, env=environment)
        except OSError as error:
            raise Refusal(f"{command[0]}: {error.strerror}") from None
        for number in self.early:  # while it was started
            started.send_signal(number)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return started.wait()
        finally:
            signal.signal(signal.SIGINT, before)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
