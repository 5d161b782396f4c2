"""A libcuda made of Python: the cu* entry points as C function pointers, and an executor of PTX behind them.

What it is   Emulator, a library object like a loaded libcuda: `address(symbol)` gives the address of a C function. A client
             binds and calls it as it would NVIDIA's, so everything up to the driver's own door is tested without a GPU.
What not     a model of speed, of real asynchrony or of weak memory ordering; GAPS lists what it lacks, and why. It knows no
             client, and a client knows it by nothing but addresses.
How          thunks.py makes C functions of Python's; machine.py has devices, contexts and handles; queues.py decides when
             work runs; each family of entry points has a room; space.py is the memory; ptx/ compiles kernels to Python.
Source       CUDA Driver API; PTX ISA
Read next    thunks.py, machine.py, queues.py, then streams.py as the plainest family, or ptx/ for how a kernel runs
"""

from __future__ import annotations

import os
import sys

from .gaps import GAPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Emulator", "GAPS"]


_VARIABLE = "RAWCUDA_EMULATOR"  # the same for a copy under another name, as that of the driver


class Emulator:
    """An emulated driver with its devices: give it to use(), or bind its addresses with ctypes.

    mode      "eager": work runs at the call that submits it; "lazy": as late as is allowed; "random": in any allowed order
    seed      of the random mode
    devices   how many devices there are
    sm        their architecture: 120 takes PTX for sm_120 and older ones; their limits stay those of sm_90
    progress  called with (blocks done, blocks in all) while a kernel runs, some times a second
    dump      write the source that is made of each module to a file, and say where
    checked   whether kernels are checked for reads of never-written memory and races in shared memory
    strict    whether a kernel that reads device or local memory which nobody wrote fails; else that is in `reports`, and on stderr
    leaks     print what is left in a context when it ends; it is in `reports` anyway
    """

    def __init__(
        self,
        mode: str = "eager",
        seed: int = 0,
        devices: int = 1,
        progress: Callable[[int, int], None] | None = None,
        *,
        dump: bool = False,
        checked: bool = True,
        strict: bool = False,
        leaks: bool = False,
        sm: int = 90,
    ) -> None:
        if mode not in ("eager", "lazy", "random"):
            raise ValueError(f"mode {mode!r}: it is 'eager', 'lazy' or 'random'")
        if not 1 <= devices <= 64:
            raise ValueError(f"devices={devices}: 1 to 64")
        if not 50 <= sm <= 999:
            raise ValueError(f"sm={sm}: 50 to 999, as in .target sm_90")
        from .entries import contexts, copies, graphs, launches, memory, modules, pools, streams  # noqa: F401  each adds its entries
        from .machine import Machine
        from .thunks import ENTRIES, serve

        self.mode, self.seed = mode, seed
        self._entries, self._serve = ENTRIES, serve
        self._addresses: dict[str, int] = {}
        self._machine = Machine(mode, seed, devices, progress, dump, checked, strict)
        self._machine.print_leaks, self._machine.architecture = leaks, sm
        self._machine.address = self.address

    @classmethod
    def from_environment(cls) -> Emulator:
        """Make an emulator as RAWCUDA_EMULATOR says, with commas between: lazy, random=7, devices=2, sm=120, dump, unchecked, strict, leaks.

        raises  ValueError  something else
        """
        text = "" if sys.flags.ignore_environment else os.environ.get(_VARIABLE, "")
        mode, seed, devices, sm = "eager", 0, 1, 90
        words = {"dump": False, "unchecked": False, "strict": False, "leaks": False}
        for word in filter(None, (piece.strip() for piece in text.split(","))):
            key, equals, value = word.partition("=")
            if key in ("eager", "lazy") and not equals:
                mode = key
            elif key == "random" and (not equals or value.isdecimal()):
                mode, seed = key, int(value or 0)
            elif key == "devices" and value.isdecimal():
                devices = int(value)
            elif key == "sm" and value.isdecimal():
                sm = int(value)
            elif word in words:
                words[word] = True
            else:
                raise ValueError(
                    f"{_VARIABLE}={text!r}: {word!r} is none of eager, lazy, random=SEED, devices=COUNT, sm=NUMBER, dump, "
                    "unchecked, strict, leaks"
                )
        return cls(
            mode,
            seed,
            devices,
            dump=words["dump"],
            checked=not words["unchecked"],
            strict=words["strict"],
            leaks=words["leaks"],
            sm=sm,
        )

    def address(self, symbol: str) -> int | None:
        """Return the address of an entry point, or None if the emulator lacks it; it is the same for ever."""
        address = self._addresses.get(symbol)
        if address is None:
            served = self._entries.get(symbol)
            if served is None:
                return None
            address = self._addresses.setdefault(symbol, self._serve(self._machine, served))
        return address

    @property
    def symbols(self) -> list[str]:
        """Return the names of all entry points."""
        return sorted(self._entries)

    @property
    def kept_exceptions(self) -> list[BaseException]:
        """Return what was raised inside entry points, which answered 999; clear the list after reading it."""
        return self._machine.kept_exceptions

    @property
    def reports(self) -> list[str]:
        """Return the reports of what went wrong, oldest first, the last thousand of them."""
        return self._machine.reports

    @property
    def progress(self) -> Callable[[int, int], None] | None:
        """Return what is told how far a kernel is; it can be set."""
        return self._machine.progress

    @progress.setter
    def progress(self, told: Callable[[int, int], None] | None) -> None:
        self._machine.progress = told

    def explain(self, code: int) -> str | None:
        """Return the newest unread report for a result code, or None.

        raises  KeyboardInterrupt  the call was ended by Ctrl-C, which could not leave it
        """
        self._machine.interrupts.claim()
        return self._machine.explain(code)

    def live_handles(self) -> dict[str, int]:
        """Count what was made and not given back yet, by kind: memory, stream, event, module, context, ...

        What belongs to a context that an error has lost is not counted; of primary contexts, each retain is.
        """
        with self._machine.lock:
            return self._machine.live()

    def __repr__(self) -> str:
        seed = f" seed {self.seed}" if self.mode == "random" else ""
        return f"<emulator, {self.mode}{seed}, {len(self._machine.devices)} devices>"
