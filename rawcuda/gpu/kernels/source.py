"""The function of a launch, generated for one signature: Launch.__call__ without its loop over the arguments.

What it is   `call_for`, which writes, compiles and keeps a function for each signature. Its text is that of
             Launch.__call__ in launch.py, except for the lines that pack: they test inline whether an argument has the
             usual type of its parameter, and any other type goes through packing.py's table, as in the loop.
Why so       The loop takes 1,630 ns for four arguments and the generated function 620, of which 170 are the foreign
             call (CPython 3.11, a driver that does nothing; 1,750 and 780 on 3.13); for twelve it is 2,800 and 990.
             Outside the emulator this is the only generated code.
Safety       The text contains numbers and names that match [A-Za-z_]\\w*, and nothing else of the input. A function is
             never changed. The text is in linecache, so that tracebacks and debuggers show it.
Read next    launch.py
"""

from __future__ import annotations

import struct

from ...arrays.strided import _MemoryView
from ...remembered import Remembered
from ..memory import Memory
from .arguments import In
from .packing import table_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Callable

    from .arguments import Slot

__all__ = ["UNPACKABLE", "call_for", "enabled", "packing_format", "safe_names"]

UNPACKABLE = struct.error, OverflowError  # what struct raises for a number that does not fit
enabled = True  # False: launches use the loop of Launch.__call__ (for tests)

_TEXT = """\
def {name}(self{parameters}, /, *surplus):
    call = self._call if self._token else self._check()
    if surplus:
        self._refuse_count({count} + len(surplus))
    try:
        buffer = self._pool.pop()
    except IndexError:  # other threads use them all
        buffer = self._new_buffer()
    {unpacked} = buffer
    here = self._here
    try:
        pack_into(
            storage,
            0,
{values}        )
    except Unpackable:  # a number that does not fit, or a closed Memory
        self._pack_by_tables(storage, kept{parameters})
    try:
{calling}\
        if code:
            self._answer(code, call, given)
        if kept:
            self._retain(kept)
    except BaseException:
        if kept:  # the driver may have accepted the launch before the interrupt
            self._retain(kept)
        raise
    self._pool.append(buffer)
"""
_CALL = """\
        code = call(*given)
"""
_CALL_ON_DEFAULT_STREAM = """\
        if not self._ask(*ask) and current[0] == self._context:
            code = call(*given)
        else:
            code = self._in_context(call, given)
"""
# Without parameters nothing is packed, so all threads share the arguments for the driver: this saves 80 ns of 350,
# without which such a launch would take 1.4 times that of cuda.core.
_TEXT_WITHOUT_PARAMETERS = """\
def {name}(self, /, *surplus):
    call = self._call if self._token else self._check()
    if surplus:
        self._refuse_count(len(surplus))
    code = call(*self._given)
    if code:
        self._answer(code, call, self._given)
"""
# The usual arguments of each form of slot are packed inline. This saves 70 ns each against the table: 220 of 840 for
# three Memory objects, 240 of 1,330 for four NumPy numbers, 190 of 800 for an array in In().
_HOME = {
    "address": """{name}.start if ((kind := type({name})) is MemoryView or kind is In)
            and ({name}._place is here or {name}._place in self._slots[{number}].places)
            and {name}.owner._handle is not None
            else {name}._handle if kind is Memory and {name}._primary is self._primary and {name}._keeps is None
            else {name} if kind is int{bound} or kind in plain_{number}
            else 0 if {name} is None
            else {table}""",
    "typed": """{name}.start if (kind := type({name})) is MemoryView
            and {name}._dtype is self._slots[{number}].element
            and ({name}._place is here or {name}._place in self._slots[{number}].places)
            and {name}.owner._handle is not None
            else {name} if kind is int{bound} or kind in plain_{number}
            else 0 if {name} is None
            else {table}""",
    "integer": """{name} if (kind := type({name})) is int and {low} <= {name} <= {high} or kind in plain_{number}
            else {table}""",
    "real": """{name} if (kind := type({name})) is float or kind in plain_{number}
            else {table}""",
    "bytes": "{table}",
}
_TABLE = "(table_{number}({kind}) or choose_{number}({kind}))(self._slots[{number}], {name}, kept)"
# The function's own names, which are not allowed as names of parameters.
_OWN = frozenset(
    "self surplus call buffer storage given kept ask current code here kind pack_into type int float len "
    "In Memory MemoryView Unpackable IndexError BaseException".split()
)


def safe_names(names: Sequence[str]) -> list[str]:
    """Return a name for each parameter that can be used in the text: its own if that is safe, else argument_0, ..."""
    made: list[str] = []
    for number, name in enumerate(names):
        made.append(name if _is_safe(name) and name not in made else f"argument_{number}")
    return made


def _is_safe(name: str) -> bool:
    from keyword import iskeyword

    plain = name.isascii() and name.isidentifier() and not iskeyword(name) and len(name) < 80
    return plain and name not in _OWN and not name.startswith(("__", "argument_", "plain_", "table_", "choose_"))


def packing_format(slots: Sequence[Slot]) -> str:
    """Return the struct format of all slots: native, whose "P" takes any integer of 8 bytes, signed or not.

    A kernel with a float parameter has the standard format, because the native one does not check that a number fits.
    """
    packing = "".join([slot.format for slot in slots])
    return "<" + packing.replace("P", "q") if "f" in packing else packing


_written: Remembered[tuple[Any, ...], Callable[..., None]] = Remembered(500)


def call_for(kernel: str, names: Sequence[str], slots: Sequence[Slot], on_default: bool) -> Callable[..., None]:
    """Return the `__call__` for a signature: a kernel's name, the safe names of its parameters, and their slots.

    on_default  whether the stream is a default stream, which belongs to the current context

    The text depends only on these, so each function is generated once.
    """
    packing = packing_format(slots)
    forms = tuple([(slot.form, slot.type, slot.size, slot.converts) for slot in slots])
    key = kernel, tuple(names), packing, forms, on_default
    found = _written.answers.get(key)
    if found is None:
        found = _written.keep(key, _write(kernel, names, slots, packing, on_default))
    return found


def _function_name(kernel: str) -> str:
    return kernel if _is_safe(kernel) else "kernel"


def text_for(kernel: str, names: Sequence[str], slots: Sequence[Slot], on_default: bool) -> str:
    """Return the text of the function for a signature."""
    values = []
    bound = f" and {{name}} < {1 << 63}" if packing_format(slots)[:1] == "<" else ""  # "q" takes no larger number
    for number, (name, slot) in enumerate(zip(names, slots)):
        kind = f"type({name})" if slot.form == "bytes" else "kind"
        table = _TABLE.format(number=number, name=name, kind=kind)
        value = _HOME[slot.form].format(
            name=name, number=number, low=slot.low, high=slot.high, bound=bound.format(name=name), table=table
        )
        values.append(f"            {value},\n")
    return (_TEXT if names or on_default else _TEXT_WITHOUT_PARAMETERS).format(
        name=_function_name(kernel),
        parameters="".join(", " + name for name in names),
        count=len(names),
        values="".join(values),
        unpacked="storage, given, kept, ask, current" if on_default else "storage, given, kept",
        calling=_CALL_ON_DEFAULT_STREAM if on_default else _CALL,
    )


def _write(
    kernel: str, names: Sequence[str], slots: Sequence[Slot], packing: str, on_default: bool
) -> Callable[..., None]:
    import linecache
    import weakref

    text = text_for(kernel, names, slots, on_default)
    scope: dict[str, Any] = {}
    for number, table in enumerate(map(table_for, slots)):
        scope[f"table_{number}"], scope[f"choose_{number}"] = table.packers.answers.get, table.packer
        scope[f"plain_{number}"] = table.plain
    scope.update(pack_into=struct.Struct(packing).pack_into, Unpackable=UNPACKABLE)
    scope.update(In=In, Memory=Memory, MemoryView=_MemoryView, __name__=__name__)
    file = f"<launch {len(linecache.cache)}>"
    while file in linecache.cache:
        file = file[:-1] + "+>"
    exec(compile(text, file, "exec"), scope)  # only the text from above
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    made: Callable[..., None] = scope[_function_name(kernel)]
    going: Any = weakref.finalize(made, linecache.cache.pop, file, None)
    going.atexit = False  # the text goes with the function
    return made
