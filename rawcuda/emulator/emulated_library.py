"""The emulator as a library object: what use() and other clients are given.

What it is   Emulator, whose settings are the arguments of its constructor or the words of RAWCUDA_EMULATOR, and
             `shared`, the one emulator of this process.
Read next    machine/machine.py, interface/thunks.py
"""

from __future__ import annotations

import _thread
import os
import re
import sys
from contextlib import contextmanager

from .ending import watch_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .ptx.running.recorder import Recorder

__all__ = ["CHECKS", "Emulator", "PEERS", "shared"]

_EXECUTORS = ("auto", "scalar", "numpy")
CHECKS = ("memcheck", "initcheck", "racecheck", "synccheck", "leakcheck")
PEERS = ("on", "off", "pairs")
_LONGEST = 10**9  # seconds, 31 years
_NEWEST = 13000  # the CUDA version that the emulator stands for by default
_VARIABLE = "RAWCUDA_EMULATOR"  # a vendored copy under another name uses the same variable


_SHARED: list[Emulator] = []
_making = _thread.RLock()  # reentrant: a finalizer of a client may call shared() while it is held
_watched: list[bool] = []  # whether children of fork() get it free: another thread may hold it then


def shared(**settings: Any) -> Emulator:
    """Return the one emulator that use("emulator") and impersonate() share in this process.

    settings  the arguments of Emulator, and `checkers`, which is another name of `checks`. They win over the words of
              RAWCUDA_EMULATOR; what they do not set, the words set
    raises    TypeError     there is no such setting
              ValueError    a value that a setting cannot have
              RuntimeError  the emulator has been made already, with other settings
    """
    if not _watched and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_making._at_fork_reinit)  # type: ignore[attr-defined]
        _watched.append(True)
    with _making:
        if not _SHARED:
            made = Emulator.from_environment(**_known(settings))
            made._given = settings
            _SHARED.append(made)
            made.watch_end()
        elif settings and settings != _SHARED[0]._given:
            raise RuntimeError(
                "the emulator is in use already, with other settings: give them in the first call of use(), or in "
                f"{_VARIABLE}, before the first import that uses the emulator"
            )
        return _SHARED[0]


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings by the names that the constructor has for them."""
    if not settings:
        return {}
    from inspect import signature

    there = [*signature(Emulator).parameters, "checkers"]
    for name in settings:
        if name not in there:
            text = f"the emulator has no setting {name!r}"
            if name in ("eager", "lazy", "random"):
                raise TypeError(f'{text}: it is a mode, mode="{name}"')
            raise TypeError(
                f"{text}: its settings are {', '.join(sorted(there))}; checkers are chosen by name, as in "
                'checkers=["racecheck"]'
            )
    known = dict(settings)
    if "checkers" in known:
        if "checks" in known:
            raise TypeError("checks and checkers are two names of one setting: give one of them")
        given = known.pop("checkers")
        if isinstance(given, str):
            known["checks"] = given.replace(",", " ").split()
        else:
            known["checks"] = given
    return known


_EXAMPLES = {"sm": ": 90 is .target sm_90", "cuda": ", as cuDriverGetVersion writes it: 12040 is CUDA 12.4"}


def _check_ints(**settings: object) -> None:
    for name, given in settings.items():
        if isinstance(given, bool) or not isinstance(given, int):
            raise TypeError(f"{name}={given!r}: must be an int{_EXAMPLES.get(name, '')}")


def _check_bools(**settings: object) -> None:
    for name, given in settings.items():
        if not isinstance(given, int) or given not in (0, 1):
            raise TypeError(f"{name}={given!r}: give True or False")


class Emulator:
    """An emulated driver with its devices. Pass it to use(), or bind its addresses with ctypes.

    mode      "eager": work runs in the call that submits it; "lazy": as late as possible; "random": in random order
    seed      the seed of the random mode
    devices   the number of devices
    sm        their architecture: 120 accepts PTX for sm_120 and older; some of their limits are those of sm_90; None:
              90, or that of the report
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
    timeout   seconds after which a kernel, or a loop of a graph, ends with CUDA_ERROR_LAUNCH_TIMEOUT (702); 0: never
    peers     which devices can access the memory of each other: "on", all; "off", none; "pairs", 0 and 1, 2 and 3, ...
    cuda      the CUDA version of the driver that it stands for, as cuDriverGetVersion writes it: 12040 is CUDA 12.4.
              Newer functions do not exist, and newer PTX is refused. 0: that of the report, or else CUDA 13.0, and PTX
              up to that of CUDA 13.5
    mig       whether the devices are MIG instances, whose UUIDs are not those of their GPUs
    cma       the attribute CONCURRENT_MANAGED_ACCESS. If it is False, as on Windows, WSL2 and Tegra, an access of the
              host to managed memory while work is pending is a segmentation fault, there and here
    deferred  whether a library is compiled when it is first used, and not when it is loaded
    report    the path of a report that `check` wrote: the devices have the attributes, limits and sizes of the first
              device in it, and the driver its version, names and texts
    keep_status  whether a program keeps its exit status if it ends without noticing that a kernel failed; the status
              is 1 otherwise. The report is written to stderr in both cases. This concerns the emulator of use() and of
              the command emulate, not one whose addresses you bind yourself
    Why long  each setting, and each question that tests and tools ask, has a description here
    """

    room = 100  # calls of Python that must be free on the stack: more than any function of the driver needs
    runs_machine_code = False  # for the choice of a compiler, and between PTX and a cubin
    reads_every_ptx = True
    names_lines = True  # in its reports, if the code has line information

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
        sm: int | None = None,
        peers: str = "on",
        executor: str = "auto",
        checks: Iterable[str] = (),
        timeout: float = 0,
        mig: bool = False,
        cuda: int = 0,
        cma: bool = True,
        deferred: bool = False,
        report: str = "",
        keep_status: bool = False,
    ) -> None:
        """Check the settings, and make the machine.

        raises    TypeError   a setting of another type
                  ValueError  a value that a setting cannot have
        Why long  each setting is checked where it is taken, with the words that its error names
        """
        _check_ints(seed=seed, devices=devices, sm=90 if sm is None else sm, cuda=cuda)
        _check_bools(dump=dump, checked=checked, strict=strict, leaks=leaks, mig=mig, cma=cma)
        _check_bools(deferred=deferred, keep_status=keep_status)
        if progress is not None and not callable(progress):
            raise TypeError(f"progress={progress!r}: must be a function of (blocks done, total blocks)")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise TypeError(f"timeout={timeout!r}: must be a number of seconds, or 0 for none")
        if not isinstance(report, (str, os.PathLike)):
            raise TypeError(f"report={report!r}: must be the path of a report that `check` wrote")
        if mode not in ("eager", "lazy", "random"):
            raise ValueError(f"mode {mode!r}: must be 'eager', 'lazy' or 'random'")
        if not 1 <= devices <= 64:
            raise ValueError(f"devices={devices}: must be 1 to 64")
        if sm is not None and not 50 <= sm <= 999:
            raise ValueError(f"sm={sm}: must be 50 to 999, as in .target sm_90")
        if executor not in _EXECUTORS:
            raise ValueError(f"executor {executor!r}: must be 'auto', 'scalar' or 'numpy'")
        if not hasattr(checks, "__iter__"):
            raise TypeError(f"checks={checks!r}: must be the names of checkers, as in [{CHECKS[2]!r}]")
        chosen = [checks] if isinstance(checks, str) else list(checks)
        unknown = [name for name in chosen if name not in CHECKS]
        if unknown:
            raise ValueError(f"checks {unknown}: must be among {', '.join(CHECKS)}")
        if not 0 <= timeout <= _LONGEST:
            raise ValueError(f"timeout={timeout}: must be a number of seconds up to {_LONGEST}, or 0 for none")
        given = " and ".join([name for name in ("initcheck", "racecheck") if name in chosen])
        if given and not checked:
            raise ValueError(f"{given} needs checked kernels: leave out {given}, or checked=False (the word unchecked)")
        if cuda and not 11000 <= cuda <= _NEWEST:
            raise ValueError(f"cuda={cuda}: must be 11000 (CUDA 11.0) to {_NEWEST}, or 0")
        if sm and report:
            raise ValueError(f"sm={sm} and report={report}: the report says which architecture it is, so leave out sm")
        if peers not in PEERS:
            raise ValueError(f"peers {peers!r}: must be {', '.join(map(repr, PEERS[:-1]))} or {PEERS[-1]!r}")
        # each of these modules adds its entry points to the table
        from .entries.code import code_libraries, linking_entries, modules  # noqa: F401
        from .entries.graphs import (  # noqa: F401
            capture,
            condition_entries,
            definitions,
            dot,
            executables,
            objects,
            parameter_entries,
            reservations,
        )
        from .entries.hardware import contexts, green_entries  # noqa: F401
        from .entries.memories import (  # noqa: F401
            batches,
            copy_entries,
            ipc,
            managed_entries,
            memory_entries,
            pools,
            virtual_entries,
        )
        from .entries.older import launching, older_names  # noqa: F401
        from .entries.tasks import launch_entries, stream_entries, value_entries  # noqa: F401
        from .entries.texturing import array_entries, tensor_maps, texture_entries  # noqa: F401
        from .interface.thunks import ENTRIES, serve
        from .machine.answers import Answers
        from .machine.machine import Machine

        if report:
            answers = Answers.from_report(report)
        else:
            answers = Answers(sm or 90)
        cuda = cuda or (answers.cuda if answers.cuda <= _NEWEST else 0)
        self.mode, self.seed = mode, seed
        self._entries, self._serve = ENTRIES, serve
        self._addresses: dict[str, int] = {}
        self._machine = Machine(mode, seed, devices, progress, dump, checked, strict, peers)
        self._given: dict[str, Any] = {}  # by use()
        self._machine.mig, self._machine.answers = mig or answers.mig, answers
        self._machine.concurrent, self._machine.deferred = cma and answers.attributes[89] != 0, deferred
        self._machine.keep_status, self._is_watched = keep_status, False
        if cuda:
            from .ptx.reading.header import version_of

            self._machine.cuda, self._machine.ptx_version = cuda, version_of(cuda)
        self._machine.print_leaks, self._machine.architecture = leaks or "leakcheck" in chosen, answers.architecture
        space = self._machine.space
        space.races, space.meetings = "racecheck" in chosen, "synccheck" in chosen
        space.copies, space.delays = "initcheck" in chosen, mode == "random"
        space.choose.seed(seed)
        space.timeout = timeout
        self._machine.address = self.address
        self._machine.space.executor = "scalar" if dump and executor == "auto" else executor  # for breakpoints

    @classmethod
    def from_environment(cls, **settings: Any) -> Emulator:
        """Create an emulator from the words in RAWCUDA_EMULATOR, which are separated by commas.

        shape   settings: arguments of the constructor, which win over the words
                the words: eager, lazy, random=7, devices=4, peers=off, sm=120, cuda=12.4, report=FILE, mig, cma=0,
                deferred, dump, unchecked, strict, leaks, executor=scalar, executor=numpy, timeout=30,
                fail=cuMemAlloc_v2:3:2 (the third call returns the code 2), keep_status; and the checkers: memcheck,
                initcheck, racecheck, synccheck, leakcheck
        raises  ValueError  there is any other word
        Why long  it is a list of the words that it understands, one branch for each
        """
        text = ""
        if not sys.flags.ignore_environment:
            text = os.environ.get(_VARIABLE, "")
        mode, seed, devices, peers, executor, report = "eager", 0, 1, "on", "auto", ""
        sm: int | None = None
        failures: list[str] = []
        checks: list[str] = []
        timeout, cuda = 0.0, 0
        words = dict.fromkeys(
            ("dump", "unchecked", "strict", "leaks", "mig", "cma=0", "deferred", "keep_status"), False
        )
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
            elif key == "cuda" and re.fullmatch(r"\d\d\.\d", value, re.ASCII):
                cuda = 1000 * int(value[:2]) + 10 * int(value[3])
            elif key == "executor" and value in _EXECUTORS:
                executor = value
            elif key == "report" and value:
                report = value
            elif key == "fail" and equals:
                failures.append(value)
            elif word in CHECKS:
                checks.append(word)
            elif word in words:
                words[word] = True
            else:
                raise ValueError(
                    f"{_VARIABLE}={text!r}: {word!r} is not one of eager, lazy, random=SEED, devices=COUNT, "
                    f"peers={'/'.join(PEERS)}, sm=NUMBER, cuda=MAJOR.MINOR, report=FILE, executor=scalar, "
                    "executor=numpy, timeout=SECONDS, fail=NAME:WHICH:CODE, "
                    f"dump, unchecked, strict, leaks, mig, cma=0, deferred, keep_status, {', '.join(CHECKS)}"
                )
        words["checked"], words["cma"] = not words.pop("unchecked"), not words.pop("cma=0")
        told = {"mode": mode, "seed": seed, "devices": devices, "sm": sm, "executor": executor, "peers": peers}
        told.update({"checks": checks, "timeout": timeout, "cuda": cuda, "report": report})
        made = cls(**{**words, **told, **settings})
        for failure in failures:
            made._machine.failures.read(failure)
        return made

    def is_calling(self) -> bool:
        """Tell whether this thread is inside a call of the emulator or runs its work, as a __del__ may be."""
        return bool(self._machine.lock._is_owned()) or self._machine.queues.inside_work()  # type: ignore[attr-defined]

    def watch_end(self) -> None:
        """Report kernels that failed unnoticed when the program ends; called for the emulator that is in use."""
        if not self._is_watched:
            self._is_watched = True
            watch_end(self._machine)

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
            from .interface.abis import form_of

            served = form_of(symbol, self._entries)
            if served is None or served.since > self._machine.cuda:
                return None
            address = self._addresses.setdefault(symbol, self._serve(self._machine, served))
        return address

    @property
    def symbols(self) -> list[str]:
        """Return the names of all entry points."""
        return sorted(self._entries)

    @property
    def kept_exceptions(self) -> list[BaseException]:
        """Return the newest unexpected exceptions in entry points, which then returned 999; callers may clear it."""
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

    @contextmanager
    def record(self, block: tuple[int, int, int], warp: int, limit: int) -> Iterator[Recorder]:
        """Context manager in which the next launch of the calling thread records the steps of one warp.

        block   the index of the warp's block; warp: its number in the block; limit: the number of steps that are kept
        """
        from .ptx.running.recorder import Recorder

        made, ident = Recorder(block, warp, limit), _thread.get_ident()
        self._machine.recorders[ident] = made
        try:
            yield made
        finally:
            self._machine.recorders.pop(ident, None)

    def live_handles(self) -> dict[str, int]:
        """Count the objects that were created and not yet released, by kind: memory, stream, event, module, ...

        Objects of a context that an error has made unusable are not counted. Each retain of a primary context counts.
        """
        if self._machine.pid not in (0, os.getpid()):  # a fork may have copied the lock while it was held
            return self._machine.live()
        with self._machine.lock:
            return self._machine.live()

    def __repr__(self) -> str:
        seed = ""
        if self.mode == "random":
            seed = f" seed {self.seed}"
        return f"<emulator, {self.mode}{seed}, {len(self._machine.devices)} devices>"
