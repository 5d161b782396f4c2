"""Run each row of `check` on drivers with one function that is wrong: python3 -m tests.driver.check_mutants

For each row, the functions of the driver that the row calls are broken in turn, until the row has failed in two ways:
because a function returned an error, and because a function returned success and did nothing. It prints JSON:
row -> [state on a driver that is right, function that returned an error, function that did nothing]. Rows that call no
function of the driver are left to the test.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pkgutil
import signal
import sys
from typing import Any

from tests.subject import module, rawcuda

Emulator = module("emulator").Emulator
ENTRIES = module("emulator.thunks").ENTRIES
ERROR = 999
COMMON = ("cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain")  # in each row
HARMLESS = ("Destroy", "Free", "Unload", "Release", "Synchronize")  # silence there is only a leak or a race


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


def in_child(row: Any, broken: str, code: int, rows: Any) -> tuple[str, list[str]]:
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
    found = {}
    for row in rows.every():
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
        found[f"{row.group}: {row.name}"] = [state, *failures]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
