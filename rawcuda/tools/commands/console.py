"""The common part of the commands: parsing arguments, choosing the driver, showing progress.

What it is   `Parser`, argparse with short errors; `choose` and `connect`; `Progress`, one line on a terminal.
What not     it prints no results.
Read next    demo.py
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import contextmanager

from ... import driver, use
from ...errors import CudaError, DriverNotFound, RawCudaError, shown
from ...headers.status import NO_DEVICE
from ...hints import of
from .. import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

__all__ = [
    "PACKAGE",
    "PROGRAM",
    "VARIABLE",
    "EMULATOR",
    "VARIABLES",
    "Refusal",
    "NoGpu",
    "Parser",
    "add_driver",
    "check_folder",
    "choose",
    "chosen_by",
    "connect",
    "reason",
    "speaking_of",
    "first_line",
    "is_emulator",
    "Progress",
    "show_progress",
]

PACKAGE = __name__.partition(".tools.")[0]  # a copy of this package may have another name
PROGRAM = f"python3 -m {PACKAGE}"
VARIABLE, EMULATOR = "RAWCUDA_DRIVER", "RAWCUDA_EMULATOR"  # a copy under another name uses the same variables
# The environment variables that `doctor` and reports show: those that change what CUDA does. No other one is shown,
# whatever its name begins with: NVIDIA_API_KEY is a secret.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_DISABLE_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_CACHE_PATH",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
    "CUDA_INJECTION64_PATH",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    VARIABLE,
    EMULATOR,
)


class Refusal(Exception):
    """The command line is wrong: exit status 2."""


class NoGpu(RawCudaError):
    """No driver could be used; the message says why in one line."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal: descriptions and epilogs are folded, except lines that begin with a space."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24, width=terminal.width() - 1)

    def _format_usage(self, *given: Any) -> str:
        text: str = super()._format_usage(*given)
        if self._width < 71:  # argparse would indent it by the length of the program's name
            text = terminal.folded(" ".join(text.split()), "    ", "", self._width + 1) + "\n\n"
        return text

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (
            line if len(line) <= width and line[:1] == " " else _hanging(line, width) for line in text.splitlines()
        )
        return "\n".join(lines)


def _hanging(line: str, width: int) -> str:
    """Fold a line; its other lines begin below its first word, or below the second column of a list."""
    stripped = line.lstrip()
    indent = " " * (len(line) - len(stripped) + (4 if line[:1] == " " else 0))
    return terminal.folded(stripped, indent, line[: len(line) - len(stripped)], width + 1)


class Parser(argparse.ArgumentParser):
    """An argparse parser with one-line errors, which accepts negative numbers of every form as arguments.

    command  the name of the command, which the usage line shows
    """

    def __init__(self, command: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=f"{PROGRAM} {command}".strip(),
            description=description,
            epilog=epilog,
            formatter_class=_Help,
            allow_abbrev=False,
        )
        self.add_argument("--debug", action="store_true", help="show the traceback of an error")

    def error(self, message: str) -> NoReturn:
        """Raise a Refusal; argparse would print the usage and exit."""
        words = [word.partition("=")[0] for word in message.split() if word[:2] == "--"]
        hints = [(word, of("the command line", word[2:])) for word in words]
        said = "".join([f": {word} is called {hint} here" for word, hint in hints if hint])
        raise Refusal(f"{message}{said}; see {self.prog} --help")

    def print_help(self, file: Any = None) -> None:
        """Print the help; argparse would ignore that it cannot be written."""
        terminal.say(self.format_help(), end="", stream=file)

    def read(self, arguments: list[str]) -> argparse.Namespace:
        """Parse options and arguments in any order."""
        # argparse treats "-1e-3" and "-inf" as options. A word that begins with a space is not one, and a number may.
        return self.parse_intermixed_args([" " + word if _is_negative(word) else word for word in arguments])


def _is_negative(word: str) -> bool:
    return word[:1] == "-" and (word[1:2].isdigit() or word[1:2] == "." or word[1:4].lower() in ("inf", "nan"))


def add_driver(parser: Parser, otherwise: str) -> None:
    """Add --driver; `otherwise` is the text about its default."""
    parser.add_argument(
        "--driver",
        metavar="nvidia|emulator|PATH",
        help=f"the GPU's driver, the emulator, or the path of a libcuda; {otherwise}",
    )


# -- files


def check_folder(path: str) -> None:
    """Check before the work begins that the folder of a result file exists.

    raises  FileNotFoundError  it does not exist
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(2, "there is no such folder to write to; create it first", folder)


@contextmanager
def speaking_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Context manager that makes an OSError name this path, and not a temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


# -- the driver


def choose(option: str | None) -> None:
    """Choose the driver that --driver names, if it is given.

    raises  Refusal  it does not name a driver
    """
    if option is None:
        return
    if option not in ("nvidia", "emulator"):
        if os.path.basename(option) == option:  # the loader would search for a bare name in unknown places
            raise Refusal(f"--driver {option!r}: give nvidia, emulator, or a path such as ./libcuda.so.1")
        option = os.path.abspath(option)
    use(option)


def chosen_by(option: str | None) -> str:
    """Return the source of the driver's name: "--driver", the environment variable, or "" if there is none."""
    if option is not None:
        return f"--driver {option}"
    if sys.flags.ignore_environment:
        value = ""
    else:
        value = os.environ.get(VARIABLE, "")
    if value:
        return f"{VARIABLE}={value}"
    return ""


def connect(option: str | None) -> driver.Driver:
    """Choose the driver and return it, loaded.

    raises  NoGpu    it cannot be used; the message gives the reason in one line
            Refusal  --driver does not name a driver
    """
    choose(option)
    try:
        return driver.current()
    except RawCudaError as error:
        raise NoGpu(reason(error)) from error


def advised(missing: NoGpu) -> NoGpu:
    """Return the exception for a driver that was asked for and cannot be used, with what to do about it."""
    return NoGpu(f"{missing}; {PROGRAM} doctor shows more, and --driver emulator needs no GPU")


def reason(error: RawCudaError) -> str:
    """Return the reason why a driver could not be used, in one line."""
    if isinstance(error, DriverNotFound) and error.tried:
        path, _, said = error.tried[0]
        if path in said:
            return said
        return f"{path}: {said}"
    lines = str(error).splitlines()
    if (
        isinstance(error, CudaError) and error.code == NO_DEVICE and len(lines) > 1
    ):  # a driver was loaded, but sees no GPU
        return lines[1][0].lower() + lines[1][1:].rstrip(".")
    return " ".join(lines[:1])


def is_emulator(loaded: driver.Driver) -> bool:
    """Tell whether a driver is the emulator, also where it is the libcuda.so.1 of `emulate`."""
    return driver.is_emulator(loaded) or loaded.libcuda.address(_STAND_IN) is not None


_STAND_IN = "emulated_library_table"  # what that library exports; see emulator/impersonating/elf.py


def first_line(loaded: driver.Driver, why: str = "") -> str:
    """Return a line that says where kernels will run, and why not on a GPU."""
    if is_emulator(loaded):
        return f"On the emulator{f' ({why})' if why else ''}."
    from ...gpu.devices.device import Device

    device = Device(0)
    major, minor = device.compute_capability
    return (
        f"On {device.name}, compute capability {major}.{minor}, "
        f"driver for CUDA {driver.dotted(loaded.version)}{f' ({why})' if why else ''}."
    )


# -- progress


class Progress:
    """The progress of long work, shown on one line of a terminal after the first second; call it with (done, total).

    Nothing is written if the stream is not a terminal.
    """

    def __init__(self, what: str, stream: Any = None) -> None:
        if stream is None:
            self._stream = sys.stderr
        else:
            self._stream = stream
        self._what, self._start, self._width = what, time.monotonic(), 0
        self._on = bool(self._stream) and self._stream.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Show how many blocks are done, of how many."""
        elapsed = time.monotonic() - self._start
        if not self._on or elapsed < 1:
            return
        left = ""
        if done:
            left = f", {elapsed * (total - done) / done:.0f} s left"
        self._put(f"{self._what}: {100 * done // max(total, 1)} % of {total} blocks{left}")

    def _put(self, text: str) -> None:
        before, self._width = self._width, max(self._width, len(text))  # set before writing, which Ctrl-C may interrupt
        self._stream.write("\r" + shown(text).ljust(before) + ("\r" if not text else ""))
        self._stream.flush()
        self._width = len(text)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            self._put("")


def show_progress(loaded: driver.Driver, progress: Progress | None) -> None:
    """Let the emulator report its progress; a real driver does not report any."""
    if is_emulator(loaded):
        loaded.libcuda.progress = progress  # type: ignore[attr-defined]
