"""Planned failures: driver calls that fail although nothing is wrong, to test how a program handles errors.

What it is   `Failures`, the planned failures of one emulator. The word `fail=NAME:WHICH:CODE` and Emulator.fail() add
             failures.
What not     a partial effect: a call that is to fail returns its code before it reads its arguments. A sticky code,
             after which a context cannot be used (700, 719, ...), makes the current context unusable, as on a GPU. If
             no context is current, it makes the primary contexts of all devices unusable.
Read next    interface/thunks.py
"""

from __future__ import annotations

from .codes import NAMES, STICKY, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["ANY", "PLANNED", "Failures"]

PLANNED = "a planned failure"  # the report of each of them begins so

ANY = (
    "*"  # instead of a name: every call except those that explain a code, look up a symbol, or restore a thread's state
)
_UNCOUNTED = (
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuDriverGetVersion",
    "cuCtxPopCurrent_v2",
    "cuThreadExchangeStreamCaptureMode",
)


class Failures:
    """The planned failures by function, and how often each of these functions was called."""

    __slots__ = ("plan", "calls")

    def __init__(self) -> None:
        # name -> {which call: code}; only names in the plan are counted
        self.plan: dict[str, dict[int, int]] = {}
        self.calls: dict[str, int] = {}

    def read(self, text: str) -> None:
        """Add a failure from "NAME:WHICH:CODE", "NAME:WHICH" or "NAME"; raises ValueError."""
        name, _, rest = text.partition(":")
        which, _, code = rest.partition(":")
        if not name or not (which or "1").isdecimal() or not (code or "2").isdecimal():
            raise ValueError(f"fail={text}: write fail=NAME:WHICH:CODE, such as fail=cuMemAlloc_v2:3:2")
        self.add(name, int(which or 1), int(code or 2))

    def add(self, name: str, which: int, code: int) -> None:
        """Make a later call of a function fail with a code; `which` is 1 for the next call."""
        if which < 1 or code not in NAMES or not code:
            raise ValueError(
                f"fail={name}:{which}:{code}: calls are counted from 1, and the code must be a CUresult other than 0"
            )
        planned = dict(self.plan.get(name, {}))
        planned[self.calls.get(name, 0) + which] = code
        self.plan = {**self.plan, name: planned}

    def clear(self) -> None:
        """Remove all planned failures and counts."""
        self.plan, self.calls = {}, {}

    def check(self, machine: Machine, name: str) -> None:
        """Count a call; raises Refused if this call is to fail."""
        for counted in (name, ANY) if name not in _UNCOUNTED else (name,):
            planned = self.plan.get(counted)
            if planned is None:
                continue
            number = self.calls[counted] = self.calls.get(counted, 0) + 1
            code = planned.get(number)
            if code is not None:
                report = f"{PLANNED}: call {number} of {name}, from RAWCUDA_EMULATOR=fail=... or fail()"
                if code in STICKY:
                    for context in machine.thread().stack[-1:] or [device.primary for device in machine.devices]:
                        context.lose(code, report)
                        context.failure = None  # the call that fails returns the code
                raise Refused(code, report)
