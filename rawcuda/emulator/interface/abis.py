"""The choice of the exported symbol for a name, a version and flags, as cuGetProcAddress makes it.

What it is   `symbol_of`, which makes this choice; and `form_of`, which returns an entry point in the form in which
             stream NULL is the legacy default stream, or in that in which it is the per-thread one.
How          the table of cuda.h lists the ABIs of each name with their versions. The newest ABI that is not newer than
             the requested version is chosen. With the flag for per-thread default streams, only the forms that end in
             _ptsz or _ptds are considered, if the name has any; these exist since CUDA 7.0.
What not     a table of what the emulator supports: if it lacks the chosen ABI, it does not replace it by another one.
Source       CUDA Driver API, "Driver Entry Point Access"; the drivers of CUDA 12.2 to 12.5, with which tests compare it
Read next    entries/hardware/device_entries.py
"""

from __future__ import annotations

from ...headers import cuda_h
from .thunks import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..machine.machine import Machine

__all__ = ["VERSION", "NOT_FOUND", "TOO_OLD", "symbol_of", "form_of"]

VERSION = 13000  # of CUDA: what cuDriverGetVersion reports
NOT_FOUND, TOO_OLD = 1, 2  # CUdriverProcAddressQueryResult
_PER_THREAD = 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
_abis: dict[str, list[tuple[int, str, str]]] = {}  # name -> (version, symbol, form or ""), oldest first


def _number(version: tuple[int, int]) -> int:
    return version[0] * 1000 + version[1] * 10


def _read() -> None:
    """Sort the ABIs of every name by their versions."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    for symbol, prototype in cuda_h.prototypes().items():
        if _number(prototype.since) <= VERSION and not symbol.endswith(("_ptsz", "_ptds")):
            plain, _, number = symbol.rpartition("_v")
            if number.isdecimal():
                name = plain
            else:
                name = symbol
            form = next((mark for mark in prototype.marks if mark in ("ptsz", "ptds")), "")
            found.setdefault(name, []).append((_number(prototype.abi), symbol, form))
    for each in found.values():
        each.sort()
    _abis.update(found)


def symbol_of(name: str, version: int, flags: int, newest: int = VERSION) -> tuple[str, int]:
    """Return the exported symbol and 0, or "" and the reason why there is none.

    version  as in CUDA_VERSION; it is read as unsigned, so -1 asks for the newest
    newest   the version of the driver
    """
    if not _abis:
        _read()
    known = _abis.get(name)
    if known is None:
        return "", NOT_FOUND
    if flags & _PER_THREAD and any(form for _, _, form in known):
        known = [(max(since, 7000), f"{symbol}_{form}", form) for since, symbol, form in known if form]
    chosen = ""
    for since, symbol, _ in known:
        if since <= min(version % 2**32, newest):
            chosen = symbol
    return chosen, 0 if chosen else TOO_OLD


def form_of(symbol: str, entries: dict[str, Entry]) -> Entry | None:
    """Return the entry for a symbol, which sets what stream NULL means in the call, or None.

    The call may come from a __del__ or a signal handler inside another call, in which it means something else.
    """
    plain, null = entries.get(symbol), 0
    if plain is None and symbol.endswith(("_ptsz", "_ptds")) and symbol in cuda_h.prototypes():
        plain, null = entries.get(symbol[:-5]), 2
    if plain is None or plain.free:
        return plain
    function, saved, since = plain.function, plain.save, plain.since

    def call(machine: Machine, *arguments: Any) -> int | None:
        thread = machine.thread()
        before = thread.null
        try:
            thread.null = null
            return function(machine, *arguments)
        finally:
            thread.null = before

    def save(machine: Machine, *arguments: Any) -> Any:
        thread = machine.thread()
        before = thread.null
        try:
            thread.null = null
            return saved and saved(machine, *arguments)
        finally:
            thread.null = before

    line = plain.line.replace(f"{plain.name}(", f"{symbol}(", 1)
    return Entry(line, call, plain.free, max(since, 7000) if null else since, saved and save)
