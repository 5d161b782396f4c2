"""The command line: `python3 -m` followed by the package's name.

What it is   it finds the command, runs it, and turns an exception into an exit status: 0 success, 1 failure, 2 a wrong
             command line, 130 interrupted by Ctrl-C, 141 the reader of the output closed the pipe.
What not     the commands themselves: each is a module in tools/commands/, in tools/checking/, or tools/manual.py.
Read next    tools/commands/console.py
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from .tools.commands.command_table import COMMANDS, module_of, parser_of

__all__ = ["COMMANDS", "main", "parser_of"]


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    if arguments is None:
        words = sys.argv[1:]
    else:
        words = list(arguments)
    for stream in (sys.stdout, sys.stderr):  # a device's name or a path may hold any character
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:  # closed before the start, as by >&-; the exit status still shows the result
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    status = 1
    try:
        status = _run(words)
    finally:
        status = _flushed(status)
    return status


def _run(words: list[str]) -> int:
    """Run a command, and return the exit status, also for an exception."""
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except SystemExit as leaving:  # argparse, after --help
        if isinstance(leaving.code, int):
            return leaving.code
        return 1
    except Exception as error:
        if "--debug" not in words:
            return _tell(error)
        import traceback

        _complain(traceback.format_exc())
        return 1


def _flushed(status: int) -> int:
    """Write what the streams still hold, and return the exit status, which is another one if this fails.

    The interpreter flushes both streams once more at exit, and ends with status 120 if this fails. So a stream that
    cannot be written is led to os.devnull first.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except KeyboardInterrupt:
            return 130
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if isinstance(error, BrokenPipeError):
                status = 141
            elif status == 0:  # else a failure is told already
                status = _tell(error)
    return status


def _dispatch(words: list[str]) -> int:
    from .tools.commands.console import PACKAGE, PROGRAM, Refusal

    if words:
        first = words[0]
    else:
        first = "--help"
    if first in COMMANDS:
        status: int = module_of(first).main(words[1:])
        return status
    if first in ("-h", "--help", "help"):
        from .tools.terminal import folded, say

        lines = [f"usage: {PROGRAM} COMMAND ...", "", "The CUDA driver from plain Python.", ""]
        lines += [folded(text, " " * 12, f"  {name:10}") for name, text in COMMANDS.items()]
        lines += ["", folded("COMMAND --help tells more; --version prints the version", "  ")]
        say("\n".join(lines))
        return 0
    if first in ("-V", "--version"):
        from . import __version__
        from .tools.terminal import say

        say(f"{PACKAGE} {__version__}")
        return 0
    raise Refusal(f"{first!r} is not a command: the commands are {', '.join(COMMANDS)}; see {PROGRAM} --help")


def _tell(error: Exception) -> int:
    """Print the error without a traceback, and return the exit status."""
    from .errors import RawCudaError
    from .tools.commands.console import Refusal

    expected = isinstance(error, (Refusal, RawCudaError, OSError, ValueError, TypeError, MemoryError))
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    if not expected:
        text = f"{type(error).__name__}: {text} (unexpected: --debug shows where)"
    _complain(f"error: {text}\n")
    if isinstance(error, Refusal):
        return 2
    return 1


def _complain(text: str) -> None:
    from .tools.terminal import say

    if sys.stderr is not None:
        with suppress(OSError):  # if it cannot be written either, the exit status still tells
            say(text, end="", stream=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
