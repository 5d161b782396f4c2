"""A libcuda written in Python: the cu* entry points as C function pointers, and an executor of PTX behind them.

What it is   Emulator, a library object that behaves like a loaded libcuda: `address(symbol)` returns the address of a C
             function. A client binds and calls these functions as it would NVIDIA's, so everything above the interface
             of the driver can be tested without a GPU.
What not     a model of speed, of real asynchrony or of weak memory ordering; GAPS lists what it lacks, and why. The
             emulator imports no client, and a client uses it only through addresses.
How          thunks.py turns Python functions into C functions. machine.py holds devices, contexts and handles.
             queues.py decides when work runs. space.py is the memory. entries/ has one module for each family of cu*
             functions. ptx/ compiles kernels to Python and runs them. recovery.py handles interrupts.
Source       CUDA Driver API; PTX ISA
Read next    thunks.py, machine.py, queues.py, then entries/tasks/streams.py as the simplest family, or ptx/ for kernels
"""

from __future__ import annotations

import _thread
import os
import sys

from .gaps import GAPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Emulator", "GAPS", "impersonate", "shared"]


_EXECUTORS = ("auto", "scalar", "numpy")
CHECKS = ("memcheck", "initcheck", "racecheck", "synccheck", "leakcheck")
PEERS = ("on", "off", "pairs")
_VARIABLE = "RAWCUDA_EMULATOR"  # a vendored copy under another name uses the same variable


def impersonate() -> Emulator:
    """Make the emulator the libcuda.so.1 of this process and of its children, and return it.

    From now on, other libraries in this process run on the emulator. Its settings are those of RAWCUDA_EMULATOR.
    raises  RuntimeError         a real libcuda is loaded already, or another copy of this package has taken its place
            NotImplementedError  the emulator cannot do this on this system, processor or interpreter
    """
    from .impersonating.loading import take

    take()
    return shared()


_SHARED: list[Emulator] = []
_making = _thread.RLock()  # reentrant: a finalizer of a client may call shared() while it is held


def shared() -> Emulator:
    """Return the one emulator that use("emulator") and impersonate() share in this process.

    Its settings are those of RAWCUDA_EMULATOR.
    """
    with _making:
        if not _SHARED:
            _SHARED.append(Emulator.from_environment())
        return _SHARED[0]


class Emulator:
    """An emulated driver with its devices. Pass it to use(), or bind its addresses with ctypes.

    mode      "eager": work runs in the call that submits it; "lazy": as late as possible; "random": in random order
    seed      the seed of the random mode
    devices   the number of devices
    sm        their architecture: 120 accepts PTX for sm_120 and older; some of their limits are those of sm_90
    progress  called with (blocks done, total blocks) several times a second while a kernel runs
    dump      write the Python source generated from each module to a file, and print the name of the file
    checked   whether kernels are checked for reads of uninitialized memory and for races in shared memory
    strict    whether a read of uninitialized memory stops the kernel; otherwise it is reported, also on stderr
    leaks     print what is left in a context when it is destroyed; `reports` always contains it
    executor  "scalar": each thread is a Python function; "numpy": whole blocks run as arrays, where that is possible;
              "auto": as arrays if the launch is large enough to profit and NumPy is installed
    checks    checkers, with the names that compute-sanitizer uses. "memcheck" is always on. "initcheck" is always on
              for kernels; if it is given, copies to the host of memory that was never written are reported, too.
              "racecheck" searches all memory for races; otherwise only shared memory is searched. With "synccheck", a
              doubtful barrier stops the kernel, which is otherwise only reported, and shuffles of absent lanes are
              reported. "leakcheck" is the same as leaks
    timeout   seconds after which a kernel ends with CUDA_ERROR_LAUNCH_TIMEOUT (702); 0: never
    peers     which devices can access the memory of each other: "on", all; "off", none; "pairs", 0 and 1, 2 and 3, ...
    """

    runs_machine_code = False  # for the choice of a compiler, and between PTX and a cubin
    reads_every_ptx = True

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
        peers: str = "on",
        executor: str = "auto",
        checks: Iterable[str] = (),
        timeout: float = 0,
    ) -> None:
        if mode not in ("eager", "lazy", "random"):
            raise ValueError(f"mode {mode!r}: must be 'eager', 'lazy' or 'random'")
        if not 1 <= devices <= 64:
            raise ValueError(f"devices={devices}: must be 1 to 64")
        if not 50 <= sm <= 999:
            raise ValueError(f"sm={sm}: must be 50 to 999, as in .target sm_90")
        if executor not in _EXECUTORS:
            raise ValueError(f"executor {executor!r}: must be 'auto', 'scalar' or 'numpy'")
        chosen = frozenset((checks,) if isinstance(checks, str) else checks)
        if chosen - set(CHECKS):
            raise ValueError(f"checks {sorted(chosen - set(CHECKS))}: must be among {', '.join(CHECKS)}")
        if not 0 <= timeout < float("inf"):
            raise ValueError(f"timeout={timeout}: must be a number of seconds, or 0 for none")
        if not checked and chosen & {"racecheck", "initcheck"}:
            given = " and ".join(sorted(chosen & {"racecheck", "initcheck"}))
            raise ValueError(f"{given} needs checked kernels: leave out {given}, or checked=False (the word unchecked)")
        if peers not in PEERS:
            raise ValueError(f"peers {peers!r}: must be {', '.join(map(repr, PEERS[:-1]))} or {PEERS[-1]!r}")
        # each of these modules adds its entry points to the table
        from .entries.code import libraries, linking, modules  # noqa: F401
        from .entries.graphs import (  # noqa: F401
            capture,
            conditions,
            definitions,
            dot,
            executables,
            objects,
            parameters,
            reservations,
        )
        from .entries.hardware import contexts, green  # noqa: F401
        from .entries.memories import batches, copies, ipc, managed, memory, pools, virtual  # noqa: F401
        from .entries.older import launching, names  # noqa: F401
        from .entries.tasks import launches, streams, values  # noqa: F401
        from .entries.texturing import arrays, tensor_maps, textures  # noqa: F401
        from .machine import Machine
        from .thunks import ENTRIES, serve

        self.mode, self.seed = mode, seed
        self._entries, self._serve = ENTRIES, serve
        self._addresses: dict[str, int] = {}
        self._machine = Machine(mode, seed, devices, progress, dump, checked, strict, peers)
        self._machine.print_leaks, self._machine.architecture = leaks or "leakcheck" in chosen, sm
        space = self._machine.space
        space.races, space.meetings = "racecheck" in chosen, "synccheck" in chosen
        space.copies, space.delays = "initcheck" in chosen, mode == "random"
        space.choose.seed(seed)
        space.timeout = timeout
        self._machine.address = self.address
        self._machine.space.executor = "scalar" if dump and executor == "auto" else executor  # for breakpoints

    @classmethod
    def from_environment(cls) -> Emulator:
        """Create an emulator from the words in RAWCUDA_EMULATOR, which are separated by commas.

        shape   the words: eager, lazy, random=7, devices=4, peers=off, sm=120, dump, unchecked, strict, leaks,
                executor=scalar, executor=numpy, timeout=30, fail=cuMemAlloc_v2:3:2 (the third call returns the code 2);
                and the checkers: memcheck, initcheck, racecheck, synccheck, leakcheck
        raises  ValueError  there is any other word
        """
        text = "" if sys.flags.ignore_environment else os.environ.get(_VARIABLE, "")
        mode, seed, devices, sm, peers, executor = "eager", 0, 1, 90, "on", "auto"
        failures: list[str] = []
        checks: list[str] = []
        timeout = 0.0
        words = {"dump": False, "unchecked": False, "strict": False, "leaks": False}
        for word in filter(None, (piece.strip() for piece in text.split(","))):
            key, equals, value = word.partition("=")
            if key in ("eager", "lazy") and not equals:
                mode = key
            elif key == "random" and (not equals or value.isdecimal()):
                mode, seed = key, int(value or 0)
            elif key == "devices" and value.isdecimal():
                devices = int(value)
            elif key == "peers" and value in PEERS:
                peers = value
            elif key == "sm" and value.isdecimal():
                sm = int(value)
            elif key == "timeout" and value.replace(".", "", 1).isdecimal():
                timeout = float(value)
            elif key == "executor" and value in _EXECUTORS:
                executor = value
            elif key == "fail" and equals:
                failures.append(value)
            elif word in CHECKS:
                checks.append(word)
            elif word in words:
                words[word] = True
            else:
                raise ValueError(
                    f"{_VARIABLE}={text!r}: {word!r} is not one of eager, lazy, random=SEED, devices=COUNT, "
                    f"peers={'/'.join(PEERS)}, sm=NUMBER, executor=scalar, executor=numpy, timeout=SECONDS, "
                    "fail=NAME:WHICH:CODE, "
                    f"dump, unchecked, strict, leaks, {', '.join(CHECKS)}"
                )
        made = cls(
            mode,
            seed,
            devices,
            dump=words["dump"],
            checked=not words["unchecked"],
            strict=words["strict"],
            leaks=words["leaks"],
            sm=sm,
            executor=executor,
            peers=peers,
            checks=checks,
            timeout=timeout,
        )
        for failure in failures:
            made._machine.failures.read(failure)
        return made

    def fail(self, name: str, which: int = 1, code: int = 2) -> None:
        """Make a driver call fail although nothing is wrong, to test how a program handles the error.

        name    the symbol, such as "cuMemAlloc_v2", or "*" for every call
        which   which call of this function fails: 1 is the next one
        code    the CUresult that it returns; 2 is CUDA_ERROR_OUT_OF_MEMORY
        raises  ValueError  which is below 1, or code is 0 or not a CUresult
        """
        self._machine.failures.add(name, which, code)

    def fail_no_more(self) -> int:
        """Cancel what fail() planned, and return the number of calls that were counted for "*"."""
        counted = self._machine.failures.calls.get("*", 0)
        self._machine.failures.clear()
        return counted

    def address(self, symbol: str) -> int | None:
        """Return the address of an entry point, or None if the emulator does not have it; it never changes."""
        address = self._addresses.get(symbol)
        if address is None:
            from .abis import of_thread

            served = self._entries.get(symbol) or of_thread(symbol, self._entries)
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
        """Return the list of unexpected exceptions in entry points, which then returned 999; callers may clear it."""
        return self._machine.kept_exceptions

    @property
    def reports(self) -> list[str]:
        """Return the newest thousand reports of errors and findings, oldest first."""
        return self._machine.reports

    @property
    def progress(self) -> Callable[[int, int], None] | None:
        """Return the function that is called with the progress of a kernel. The property can be set."""
        return self._machine.progress

    @progress.setter
    def progress(self, told: Callable[[int, int], None] | None) -> None:
        self._machine.progress = told

    def explain(self, code: int) -> str | None:
        """Return the newest unread report for a result code, or None.

        raises  KeyboardInterrupt, or another exception of a signal handler, if it ended the call with this code
        """
        self._machine.interrupts.claim()
        return self._machine.explain(code)

    def live_handles(self) -> dict[str, int]:
        """Count the objects that were created and not yet released, by kind: memory, stream, event, module, ...

        Objects of a context that an error has made unusable are not counted. Each retain of a primary context counts.
        """
        with self._machine.lock:
            return self._machine.live()

    def __repr__(self) -> str:
        seed = f" seed {self.seed}" if self.mode == "random" else ""
        return f"<emulator, {self.mode}{seed}, {len(self._machine.devices)} devices>"
