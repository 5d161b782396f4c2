"""Run each row of `check` on drivers with one function that is wrong: python3 -m tests.driver.check_mutants

For each row, the functions of the driver that the row calls are broken in turn, until the row has failed in two ways:
because a function returned an error, and because a function returned success and did nothing. It prints JSON:
row -> [state on a driver that is right, function that returned an error, function that did nothing, state with the
fault of FAULTS or ""]. Rows that call no function of the driver are left to the test.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import os
import pkgutil
import signal
import sys
from typing import Any

from tests.subject import module, rawcuda

Emulator = module("emulator").Emulator
ENTRIES = module("emulator.interface.thunks").ENTRIES
ERROR = 999
COMMON = ("cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain")  # in each row
HARMLESS = ("Destroy", "Free", "Unload", "Release", "Synchronize")  # silence there is only a leak or a race


submit, numbers = module("emulator.machine.queues").Queues.submit, itertools.count(1)


def lose_the_thousandth(queues: Any, stream: Any, run: Any, name: str, *more: Any, **named: Any) -> Any:
    """Do what Queues.submit does, but not in the thousandth call for a kernel."""
    if name == "count" and next(numbers) == 1000:
        run = int
    return submit(queues, stream, run, name, *more, **named)


# Faults of the library, of the row's own kernel, or of one function of the driver, each in what its row is for: a
# function that returns success and does nothing, or a module, what is replaced in it, and by what.
FAULTS: dict[str, str | tuple[str, str, Any]] = {
    "memory: memory that another process uses": ("tools.checking.groups.check_memory", "python", lambda _: ["true"]),
    "copies: several in one call, from host memory": "cuMemcpyBatchAsync_v2",
    "copies: pitches of every size": "cuMemcpy2DAsync_v2",
    "launches: clusters of blocks": ("gpu.kernels.kernel", "attributes_of", lambda kernel, cooperative, cluster: None),
    "launches: clusters of 16 blocks": (
        "gpu.kernels.kernel",
        "attributes_of",
        lambda kernel, cooperative, cluster: None,
    ),
    "launches: a barrier of the whole grid": (
        "tools.checking.check_kernels",
        "SOURCE",
        module("tools.checking.check_kernels").SOURCE.replace("@%p bra WAIT;", ""),
    ),
    "launches: a tensor map": "cuTensorMapEncodeTiled",
    "launches: in a thread without a context": "cuCtxPushCurrent_v2",
    "launches: while another context is current": "cuCtxPushCurrent_v2",
    "launches: 5,000 in a queue": ("emulator.machine.queues", "Queues.submit", lose_the_thousandth),
    "graphs: code that is loaded in a capture": ("gpu.core.calls", "Calls._prepare_relaxed", lambda _, call: call),
    "graphs: an event that is asked in a capture": ("gpu.core.calls", "Calls._prepare_relaxed", lambda _, call: call),
    "graphs: memory that is closed in a capture": (
        "gpu.core.handles",
        "Lifetime._free_in_order",
        lambda self, late: self._call() or True,  # on the legacy default stream
    ),
    "order: exports that are dropped while in use": ("gpu.core.handles", "finish_context", lambda _: True),
    "failures: a library of wrong PTX is refused": (
        "tools.checking.groups.check_failures",
        "check_kernels.SOURCE",
        module("tools.checking.check_kernels").SOURCE.replace("bar.sync 0;", ""),
    ),
}


class Broken(Emulator):
    """An emulator in which one function can be broken."""

    __module__ = Emulator.__module__

    def __init__(self) -> None:
        super().__init__("lazy", devices=2)
        self.called: dict[str, None] = {}
        self.broken, self.code = "", 0
        self._kept: list[Any] = []
        self._own: dict[str, int] = {}

    def address(self, symbol: str) -> int | None:
        if symbol in self._own:
            return self._own[symbol]
        real = super().address(symbol)
        entry = ENTRIES.get(symbol)
        if real is None or entry is None:
            return real
        kind = entry.prototype()
        function = kind(real)

        def call(*arguments: Any) -> int:
            self.called[symbol] = None
            return self.code if symbol == self.broken else int(function(*arguments))

        made = kind(call)
        self._kept += [made, function]
        self._own[symbol] = ctypes.cast(made, ctypes.c_void_p).value or 0
        return self._own[symbol]


def replace(path: str, name: str, value: Any) -> None:
    """Replace something in a module of the package."""
    *owners, last = name.split(".")
    owner: Any = module(path)
    for part in owners:
        owner = getattr(owner, part)
    getattr(owner, last)  # it must exist
    setattr(owner, last, value)


def in_child(row: Any, broken: str, code: int, rows: Any, change: Any = ()) -> tuple[str, list[str]]:
    """Run a row in a new process; return its state and the functions that it called. A crash or a hang is a failure."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(30)
            os.close(ours)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # reports of the emulator
            library = Broken()
            library.broken, library.code = broken, code
            rawcuda.use(library)
            if change:
                replace(*change)
            outcome = rows.outcome(row, rows.Given(rawcuda.Device(0)))
            os.write(theirs, json.dumps([outcome.state, list(library.called)]).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    state, called = json.loads(told) if told else (rows.FAILED, [])
    return state, called


def main() -> None:
    """Break everything."""
    for info in pkgutil.walk_packages(rawcuda.__path__, f"{rawcuda.__name__}."):  # here once, and not in each child
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
    rows = module("tools.checking.rows")
    found, table = {}, module("tools.checking.every_row").every()
    unknown = FAULTS.keys() - {f"{row.group}: {row.name}" for row in table}
    if unknown:
        raise KeyError(f"no row has these names: {', '.join(unknown)}")
    for row in table:
        if len(sys.argv) > 1 and not any(word in row.name for word in sys.argv[1:]):
            continue
        if row.group == "exchange" and row.name in ("torch", "cupy", "jax", "warp", "numba"):
            continue
        state, called = in_child(row, "", 0, rows)
        failures = ["", ""]
        called = [symbol for symbol in called if row.group == "device" or symbol not in COMMON]
        for place, code in ((0, ERROR), (1, 0)):
            harmless = [symbol for symbol in called if any(word in symbol for word in HARMLESS)]
            for symbol in [*(symbol for symbol in reversed(called) if symbol not in harmless), *harmless]:
                if in_child(row, symbol, code, rows)[0] == rows.FAILED:
                    failures[place] = symbol
                    break
        name = f"{row.group}: {row.name}"
        fault = FAULTS.get(name)
        if fault is not None:
            symbol, change = (fault, ()) if isinstance(fault, str) else ("", fault)
            failures.append(in_child(row, symbol, 0, rows, change)[0])
        found[name] = [state, *failures]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
