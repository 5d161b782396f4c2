"""Planned failures: driver calls that fail although nothing is wrong, to test how a program handles errors.

What it is   `Failures`, the plan of one emulator, by the word `fail=NAME:WHICH:CODE` or by Emulator.fail().
What not     the call does nothing: it returns its code before it looks at its arguments. A code after which a context
             cannot be used (700, 719...) makes the current context unusable, as on a GPU;
             if none is current, those of all devices.
Read next    thunks.py
"""

from __future__ import annotations

from .codes import NAMES, STICKY, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["ANY", "Failures"]

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
    """The calls that are to fail, each with the number of calls until then."""

    __slots__ = ("plan", "calls")

    def __init__(self) -> None:
        # name -> {which call: code}; only names in the plan are counted
        self.plan: dict[str, dict[int, int]] = {}
        self.calls: dict[str, int] = {}

    def read(self, text: str) -> None:
        """Add "NAME:WHICH:CODE", "NAME:WHICH" or "NAME"; raises ValueError."""
        name, _, rest = text.partition(":")
        which, _, code = rest.partition(":")
        if not name or not (which or "1").isdecimal() or not (code or "2").isdecimal():
            raise ValueError(f"fail={text}: write fail=NAME:WHICH:CODE, such as fail=cuMemAlloc_v2:3:2")
        self.add(name, int(which or 1), int(code or 2))

    def add(self, name: str, which: int, code: int) -> None:
        """Let the call of a function with this number, counted from now on and from 1, fail with a code."""
        if which < 1 or code not in NAMES or not code:
            raise ValueError(
                f"fail={name}:{which}:{code}: calls are counted from 1, and the code must be one of CUresult, not 0"
            )
        planned = dict(self.plan.get(name, {}))
        planned[self.calls.get(name, 0) + which] = code
        self.plan = {**self.plan, name: planned}

    def clear(self) -> None:
        """Forget the plan and the counts."""
        self.plan, self.calls = {}, {}

    def check(self, machine: Machine, name: str) -> None:
        """Count a call; raises Refused if it is one that is to fail."""
        for counted in (name, ANY) if name not in _UNCOUNTED else (name,):
            planned = self.plan.get(counted)
            if planned is None:
                continue
            number = self.calls[counted] = self.calls.get(counted, 0) + 1
            code = planned.get(number)
            if code is not None:
                report = f"a planned failure: call {number} of {name}, as RAWCUDA_EMULATOR=fail=... or fail() asked for"
                if code in STICKY:
                    for context in machine.thread().stack[-1:] or [device.primary for device in machine.devices]:
                        context.lose(code, report)
                raise Refused(code, report)
