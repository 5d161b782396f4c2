"""The launch once more, written out for a signature: what Kernel.configure and Kernel.launch give.

What it is   `compiled`, which turns a Launch into one whose __call__ was generated: its tests, its pack and its foreign call stand
             one after the other, without a loop, a star or a conversion.
How          the source is made of the kinds of the parameters alone: "m" (an array over memory of ours), "v" (another view), "i"
             (an int), "f" (a float), "x" (anything else). An argument that is just that goes in as it is; struct checks ranges.
             With any other argument, any doubt or any error, the whole call is left to Launch.__call__, which converts and
             refuses. That one also notes what was given, and where it lay, and the launch takes the kinds of that from then on.
Safety       the source holds numbers and names of ours, nothing of the input. `enabled = False` leaves all to the plain way.
Read next    launch.py
"""
from __future__ import annotations

import struct

from . import tracing
from .description import Description, Place
from .launch import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["compiled", "enabled"]

enabled = True

_MOST_CHANGES = 4                                        # a launch given other kinds of arguments each time stays plain
_SIGNED = {"B": "b", "H": "h", "I": "i", "Q": "q"}
_TESTS = {"m": "a{0}.place is self._ours and a{0}.owner._handle is not None", "v": "a{0}.place is self._theirs",
          "i": "type(a{0}) is int", "f": "type(a{0}) is float"}
_VALUES = {"m": "a{0}.address", "v": "a{0}.ptr", "i": "a{0}", "f": "a{0}"}
_classes: "dict[tuple[str, bool], Any]" = {}
_MISSING = object()


def _source(kinds: str, in_context: bool) -> str:
    """Write the __call__ of a launch whose arguments are of these kinds."""
    numbers = range(len(kinds))
    tests = "".join(f"\n                and {_TESTS[kind].format(i)}" for i, kind in enumerate(kinds))
    values = "".join(", " + _VALUES[kind].format(i) for i, kind in enumerate(kinds))
    call = "self._run(entry[1])" if in_context else "entry[1]()"
    return f"""
def __call__(self, {''.join(f'a{i}=MISSING, ' for i in numbers)}/, *more):
    entry = None
    try:
        if (not more and not listeners and not self._forks and self._module._handle is not None
                and self._device._handle is not None and self._queue._handle is not None{tests}):
            pool, pack = self._pool, self._short_pack    # (a call of what a slot has is dearer than one of a local name)
            entry = pool.pop()
            pack(entry[0], 0{values})
    except UNFIT:
        entry = None
    if entry is None:
        return self._long_way(({''.join(f'a{i}, ' for i in numbers)}*more, ))
    code = {call}
    if code:
        code = self._again(entry[1], code)
    pool.append(entry)
    if code:
        raise self._error(code)
"""


# What tells that an argument is not what the source expects. None of these can come out of the foreign call.
_UNFIT = (AttributeError, IndexError, OverflowError, struct.error)


class _CompiledLaunch(Launch):
    """What all generated launches have in common."""

    __slots__ = ()

    def _long_way(self, arguments: "tuple[Any, ...]") -> None:
        given = tuple([argument for argument in arguments if argument is not _MISSING])
        Launch.__call__(self, *given)
        if self._changes < _MOST_CHANGES and not tracing.listeners:
            _take_kinds(self, given)


def _class_for(kinds: str, in_context: bool) -> Any:
    made = _classes.get((kinds, in_context))
    if made is None:
        scope: "dict[str, Any]" = {"MISSING": _MISSING, "UNFIT": _UNFIT, "listeners": tracing.listeners}
        exec(_source(kinds, in_context), scope)          # nothing but what _source wrote
        call = scope["__call__"]
        call.__doc__ = Launch.__call__.__doc__
        made = type(Launch.__name__, (_CompiledLaunch,), {"__slots__": (), "__call__": call, "__module__": Launch.__module__})
        if len(_classes) > 500:
            _classes.clear()
        _classes[kinds, in_context] = made
    return made


def _first_kinds(launch: Launch) -> str:
    return "".join(["m" if code == "Q" else "i" if code in _SIGNED else "f" if code in "efd" else "x" for code in launch._codes])


def _use(launch: Launch, kinds: str) -> None:
    """Make a launch one for these kinds; with an "x" among them it stays plain."""
    if "x" in kinds:
        launch._changes = _MOST_CHANGES
        return
    formats, position = ["<"], 0
    for code, kind, offset in zip(launch._codes, kinds, launch._offsets):
        code = _SIGNED[code] if kind == "i" else code
        formats.append(f"{offset - position}x{code}")
        position = offset + struct.calcsize(code)
    launch._short_pack = struct.Struct("".join(formats)).pack_into
    launch.__class__ = _class_for(kinds, launch._needs_context)


def compiled(launch: Launch) -> Launch:
    """Make a launch one with generated code, if all of its parameters can be had so, and return it."""
    if enabled:
        _use(launch, _first_kinds(launch))
    return launch


def _take_kinds(launch: Launch, given: "tuple[Any, ...]") -> None:
    """Note what arguments of a launch that succeeded were, and expect the like from now on."""
    kinds, before = [], (launch._ours, launch._theirs)
    for code, argument in zip(launch._codes, given):
        if isinstance(argument, Description) and code == "Q" and _suits(launch, argument.place):
            ours = hasattr(argument, "address")         # (only views of Memory have one)
            kinds.append("m" if ours else "v")
            if ours:
                launch._ours = argument.place
            else:
                launch._theirs = argument.place
        else:
            kinds.append("f" if code in "efd" else "i" if code in _SIGNED and (code != "Q" or type(argument) is int) else "m")
    wanted = "".join(kinds)
    if launch.__class__ is not _class_for(wanted, launch._needs_context) or before != (launch._ours, launch._theirs):
        launch._changes += 1
        _use(launch, wanted)


def _suits(launch: Launch, place: Place) -> bool:
    """Tell whether memory at this place may always be used by the launch, without asking anything of it again."""
    where = place.device
    return where is not None and not place.readonly and (where[0] in ("cuda_host", "cuda_managed")
                                                         or where == ("cuda", launch._device.ordinal))
