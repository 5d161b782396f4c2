"""The launch once more, written out for a signature: what Kernel.configure and Kernel.launch call.

What it is   `compiled`, which writes a function for a Plan: its tests, its pack and its foreign call stand one after the other,
             without a loop, a star or a conversion. It is a function, not a method of an object, since Python calls those faster.
How          the source is made of the kinds of the parameters alone: "m" (an array of ours that Memory.trust was told of), "o"
             (another array of ours), "v" (another view), "i" (an int), "f" (a float), "x" (anything else). An argument that is just
             that goes in as it is; struct checks ranges. With any other argument, any doubt or any error, the whole call is left
             to Plan.run, which converts and refuses. What was given then decides the kinds from then on: the function gets
             another code.
Closing      when something goes that a launch may rest on (a module, device, stream, the process), and when somebody begins to listen,
             `sound` becomes false, and Plan.run is asked, which looks at each. Arrays lose their `_ready` when their memory is closed.
Safety       the source holds numbers and names of ours, nothing of the input. `enabled = False` leaves all to Plan.run.
Read next    launch.py
"""

from __future__ import annotations

import struct
import sys
from _weakref import ref

from ... import tracing
from ...owned import generation
from ...protocols.description import Description, Place
from ..context import count
from .launch import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = ["compiled", "enabled"]

enabled = True

_MOST_CHANGES = 4  # a launch given other kinds of arguments each time stays as it is
_MOST_STRANGERS = 8  # so many launches with new arrays, and new ones are expected
_SIGNED = {"B": "b", "H": "h", "I": "i", "Q": "q"}
_TESTS = {
    "m": "a{0}._place is plan._ours",
    "o": "a{0}._place is plan._ours and a{0}.owner._handle is not None",
    "v": "a{0}._place is plan._theirs",
    "i": "type(a{0}) is int",
    "f": "type(a{0}) is float",
}
_VALUES = {"m": "a{0}._ready", "o": "a{0}.start", "v": "a{0}.ptr", "i": "a{0}", "f": "a{0}"}
_makers: dict[tuple[str, bool, bool], Any] = {}
_MISSING = object()


def _source(kinds: str, in_context: bool, alone: bool) -> str:
    """Write what makes the function of a launch whose arguments are of these kinds; alone: on the only device."""
    names = [f"a{i}" for i in range(len(kinds))]
    tests = "".join(f" and {_TESTS[kind].format(i)}" for i, kind in enumerate(kinds) if not (kind == "m" and alone))
    values = "".join(", " + _VALUES[kind].format(i) for i, kind in enumerate(kinds))
    return f"""
def make(plan, pool, pack, call):
    sound = ()
    def launch({"".join(f"{name}=MISSING, " for name in names)}{"/" if names else ""}):
        nonlocal sound
        try:
            if sound{tests}:
                entry = pool.pop()
                storage, arguments = entry
                pack(storage, 0{values})
                code = {"plan._run(arguments)" if in_context else "call(*arguments)"}
                if code:
                    return failed(plan, entry, code)
                pool.append(entry)
                return
        except UNFIT:
            pass
        sound = long_way(plan, ({"".join(name + ", " for name in names)}), sound)
    return launch
"""


# What tells that an argument is not what the source expects. None of these can come out of the foreign call.
_UNFIT = (AttributeError, IndexError, OverflowError, struct.error)


def _failed(plan: Plan, entry: tuple[Any, Any], code: int) -> None:
    code = plan._again(entry[1], code)
    plan._pool.append(entry)
    if code:
        raise plan._error(code)


def _long_way(plan: Plan, arguments: tuple[Any, ...], sound: list[bool]) -> list[bool]:
    """Launch with every check, and return what is true as long as those hold that were not about the arguments."""
    given, now = tuple([argument for argument in arguments if argument is not _MISSING]), generation()
    plan.run(*given)
    if tracing.listeners:
        return sound
    if plan._changes < _MOST_CHANGES:
        _take_kinds(plan, given)
    return now


def _maker(*key: Any) -> Any:
    made = _makers.get(key)
    if made is None:
        scope: dict[str, Any] = {"MISSING": _MISSING, "UNFIT": _UNFIT, "failed": _failed, "long_way": _long_way}
        exec(_source(*key), scope)  # nothing but what _source wrote
        if len(_makers) > 500:
            _makers.clear()
        made = _makers[key] = scope["make"]
    return made


def _function(plan: Plan, kinds: str) -> Any:
    formats, position = [], 0
    for code, kind, offset in zip(plan._codes, kinds, plan._offsets):
        code = _SIGNED[code] if kind == "i" else code
        formats.append(f"{offset - position}x{code}")
        position = offset + struct.calcsize(code)
    plan._kinds, packing = kinds, "".join(formats)
    if (
        "f" in kinds or struct.calcsize(packing) != position
    ):  # (native packing is the cheapest, but makes 1e300 infinite, and aligns)
        packing = "<" + packing
    made = _maker(kinds, plan._needs_context, plan._alone)(
        plan, plan._pool, struct.Struct(packing).pack_into, plan._function
    )
    # what Python says who takes so many arguments
    made.__qualname__ = f"kernel {plan.kernel.name} has {plan.kernel._signature()}: launch"
    if sys.version_info < (3, 10):
        made.__code__ = made.__code__.replace(co_name=made.__qualname__)
    return made


def compiled(plan: Plan) -> Callable[..., None]:
    """Return the function that launches, written for the plan if all of its parameters can be had so."""
    kinds = "".join(
        ["m" if code == "Q" else "i" if code in _SIGNED else "f" if code in "efd" else "x" for code in plan._codes]
    )
    if not enabled or "x" in kinds:
        return lambda *arguments: plan.run(*arguments)
    plan._alone = count() == 1
    made = _function(plan, kinds)
    plan._written = ref(made)
    return made  # type: ignore[no-any-return]


def _take_kinds(plan: Plan, given: tuple[Any, ...]) -> None:
    """Note what arguments of a launch that succeeded were, and expect the like from now on."""
    kinds, before, strange = "", (plan._ours, plan._theirs), False
    for code, argument, kind in zip(plan._codes, given, plan._kinds):
        if isinstance(argument, Description) and code == "Q" and _suits(plan, argument._place):
            ours: Any = argument
            if not hasattr(ours, "start"):  # (only views of Memory have one)
                kind, plan._theirs = "v", argument._place
            else:
                new = not hasattr(ours, "_ready")
                strange = strange or new
                kind = (
                    "o"
                    if kind == "o" or plan._strangers >= _MOST_STRANGERS or new and not ours.owner.trust(ours)
                    else "m"
                )
                if kind == "o" or not plan._alone:
                    plan._ours = argument._place
        else:
            kind = "i" if code == "Q" and type(argument) is int else kind
        kinds += kind
    plan._strangers += strange
    if kinds != plan._kinds or before != (plan._ours, plan._theirs):
        plan._changes += 1
        written: Any = plan._written()
        if written is not None:  # (somebody is calling it: it is)
            made = _function(plan, kinds)
            for old, new in zip(written.__closure__, made.__closure__):
                if old.cell_contents is not new.cell_contents:
                    old.cell_contents = new.cell_contents
            written.__code__ = made.__code__


def _suits(plan: Plan, place: Place) -> bool:
    """Tell whether memory at this place may always be used by the launch, without asking anything of it again."""
    where = place.device
    return (
        where is not None
        and not place.readonly
        and (where[0] in ("cuda_host", "cuda_managed") or where == ("cuda", plan._device.ordinal))
    )
