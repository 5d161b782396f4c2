"""The launch: a configuration that was checked once, and a function that packs the arguments and calls the driver.

What it is   `Launch`, the callable that Kernel.configure returns. Its function is written for the parameters of its
             kernel (`text_for`), and refers to a `Prepared`: what the launches of a kernel on one stream have in
             common. `Packing` is what all launches of a kernel have in common.
How          A call takes a buffer from the pool of its Prepared, packs the arguments into it, and asks the driver which
             context is current. If it is the kernel's, the call makes one more foreign call, the launch; otherwise it
             makes the context current around that. Our own memory is not retained: its release waits for the work.
             Stream-ordered memory is freed in the order of the stream on which it was allocated, and a launch on
             another stream does not delay that: the program keeps the memory, or orders the two streams.
             Each call in progress has a buffer of its own, so several threads may use one Launch: deque.pop and
             deque.append are atomic. The foreign functions have no argument types, because their conversions would take
             most of the time.
             Each argument has a cell of 8 bytes or more, of which the kernel reads as many as its parameter has. So one
             format of struct is right for integers of any size and sign. A number that it refuses is packed again by
             the tables of packing.py, which raise the error.
The text     It tests inline whether an argument has the usual type of its parameter; any other type goes through the
             table of packing.py, which has a function for each. A loop over the arguments would take 1,000 ns more for
             four of them. The text contains numbers and names that match [A-Za-z_]\\w*, and nothing else of the input.
             It is in linecache, so that tracebacks and debuggers show it. Outside the emulator this is the only
             generated code.
Arguments    Every parameter takes every kind of argument by one rule: the type of the argument chooses how it is
             packed, and the value is checked at each call. What is in brackets is refused, with an error.

             | argument                            | pointer, 8 bytes     | integer  | float    | other bytes      |
             |-------------------------------------|----------------------|----------|----------|------------------|
             | a view of our memory, Memory        | inline or table      | (type)   | (type)   | 8 bytes only     |
             |   of another device, or its pools   | access is asked      |          |          |                  |
             |   read-only, in host memory         | (value), see In      |          |          |                  |
             |   closed                            | (Closed)             |          |          |                  |
             | In(array)                           | as the array, to read| (type)   | (type)   | 8 bytes only     |
             | an array of another library         | viewed, retained     | (type)   | (type)   | 8 bytes only     |
             | a view of one                       | the caller keeps it  | (type)   | (type)   | 8 bytes only     |
             | a texture, surface or tensor map    | retained             | (type)   | (type)   | retained         |
             | None                                | 0                    | (type)   | (type)   | 8 bytes only     |
             | int, bool, numpy and other integers | range                | range    | range    | if declared      |
             | float, numpy floats                 | (type)               | (type)   | range    | if declared      |
             | a ctypes number                     | size, kind           | size,kind| size,kind| size             |
             | bytes, a structure, a numpy record  | 8 bytes (bytes only) | size     | size     | size             |

             stream  None, a Stream, a handle, 1, 2, or an object with __cuda_stream__: see `stream_handle`
             grid    a number or up to three: see configuration.py
Interrupts   A call that raises an exception loses its buffer, and the next call makes another. The arrays that the
             kernel may use are retained before the interrupt is passed on.
Source       CUDA Driver API, "Execution Control": cuLaunchKernelEx, cuLaunchKernel, cuLaunchCooperativeKernel
Read next    packing.py
"""

from __future__ import annotations

import ctypes
import struct
import time
from _weakref import ref
from collections import deque
from functools import partial
from itertools import accumulate

from ... import tracing
from ...arguments import as_list
from ...arrays.strided import _MemoryView, _StreamedView
from ...driver import as_argument
from ...errors import Closed, CudaError, worded
from ...headers import cuda_h
from ...headers.status import INVALID_CLUSTER_SIZE, INVALID_VALUE
from ...hints import hinted
from ...ownership import drain, dropped
from ...ownership import token as valid_token
from ...protocols.cuda_stream import handle_from
from ...protocols.description import Description, place
from ...remembered import Remembered
from ...tracing import careful
from ..core.points import capturing, keep_in_graph
from ..core.stream_arguments import release_of
from ..memory.memory import ManagedMemory, Memory
from ..memory.ordering import hold_back
from ..streams.stream import Stream, retain, work_handle
from .configuration import config_of, grant_shared, why_refused
from .declared_parameters import In, Passed
from .packing import RAN, Kept, table_for
from .parameters import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from inspect import Signature
    from typing import Any, Callable, NoReturn

    from ...ownership import Owned
    from ..core.context import PrimaryContext
    from .configuration import LaunchAttributes, Shape
    from .kernel import Kernel
    from .module import Module

    Buffer = tuple[Any, ...]
    Maker = Callable[["Prepared"], Callable[..., None]]

    class _Callable:
        def __call__(self, *arguments: object) -> None: ...
else:
    _Callable = partial

__all__ = ["Launch", "Packed", "Packing", "Prepared", "function_of", "safe_names", "stream_handle", "text_for"]

UNPACKABLE = struct.error, OverflowError  # what struct raises for a number that does not fit


# -- what all launches of a kernel have in common


class Packing:
    """The packing of a kernel's arguments, for all of its launches; the Kernel refers to this object, not the reverse.

    slots    a Slot for each parameter
    names    the names of the parameters in a signature
    here     the Place of our own device memory, which most arrays have
    limits   those of the kernel
    launch   the function cuLaunchKernelEx; None before CUDA 11.8
    ask      the function that tells which context is current
    make     the function that makes the function of a launch, for this signature
    """

    __slots__ = (
        "name",
        "device",
        "driver",
        "slots",
        "names",
        "here",
        "pack_into",
        "offsets",
        "pointers_at",
        "pack_pointers",
        "frame_type",
        "function",
        "limits",
        "launch",
        "ask",
        "make",
    )

    def __init__(self, kernel: Kernel) -> None:
        self.name, self.device, self.driver = kernel.name, kernel.device, kernel.device._primary.driver
        parameters = kernel.parameters
        self.slots = tuple(
            [
                Slot(kernel.name, parameter, kernel._declared_at(number), self.device)
                for number, parameter in enumerate(parameters)
            ]
        )
        for slot in self.slots:
            slot.table = table_for(slot)
        self.names = safe_names([parameter.name for parameter in parameters])
        home = self.device.ordinal
        self.here = place(("cuda", home), False, "memory", home=home)
        packing = struct.Struct("".join([slot.format for slot in self.slots]))
        self.pack_into = packing.pack_into
        # A buffer: the packed arguments, a cell for the current context, and a pointer to each argument.
        sizes = [struct.calcsize(slot.format) for slot in self.slots]
        self.offsets = [0, *accumulate(sizes)][:-1]
        self.pointers_at = packing.size + 8
        self.pack_pointers = struct.Struct(f"{len(self.offsets)}P").pack_into
        self.frame_type = ctypes.c_char * (self.pointers_at + 8 * max(len(self.offsets), 1))
        self.function, self.limits = as_argument(kernel.handle), kernel._limits()
        self.launch = self.driver.raw("cuLaunchKernelEx") if self.driver.has("cuLaunchKernelEx") else None
        self.ask = self.driver.ask_current
        self.make = maker_for(self.name, self.names, self.slots)

    def words(self) -> str:
        """Return the number of parameters, with their names and types, as text for an error."""
        shown = [f"{slot.parameter.name or '?'} {slot.words}" for slot in self.slots]
        return f"{len(shown)} arguments" + (f" ({', '.join(shown)})" if shown else "")

    def __repr__(self) -> str:  # traces and driver errors show this as the function
        return f"<Kernel {self.name}>"


# -- the text of a launch's function


class _Missing:
    """The default of every argument. No packer takes it, so a call with too few arguments comes to check_count()."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(missing)"


MISSING = _Missing()

_TEXT = """\
def make(prepared):
    packing, pool, primary = prepared.packing, prepared.pool, prepared.primary
    ask, here, pack_into = packing.ask, packing.here, packing.pack_into
{slots}\
    def {name}({parameters}*surplus):
        if dropped:  # an address of memory that is gone is an error, so let the driver know that it is gone
            drain()
        call = prepared.call if prepared.token else prepared.check()
        if surplus:
            raise prepared.wrong_count({count} + len(surplus))
        try:
            buffer = pool.pop()
        except IndexError:  # none is free: the first call, calls of other threads, or an error in an earlier one
            buffer = prepared.new_buffer()
        storage, given, kept, ask_into, current = buffer
{packing}\
        try:
            if ask(*ask_into) or current[0] != prepared.context:
                code = prepared.in_context(call, given)
            else:
                code = call(*given)
            if code:
                prepared.refuse(code)
            if kept:
                prepared.retain(kept)
        except CudaError:  # the driver has refused the launch, or retain() has waited for its end
            raise
        except BaseException:
            if kept:  # the driver may have accepted the launch before the interrupt
                prepared.retain(kept)
            raise
        pool.append(buffer)
    {name}.__qualname__ = "{name}"  # errors of Python name the kernel alone
    return {name}
"""
_PACKING = """\
        try:
{values}\
        except Exception:  # of the argument that was refused, but a wrong number of them explains it better
            prepared.check_count({listed})
            raise
        if kept:  # code of an argument ran, which may have closed another one
            prepared.check_open(kept{arguments})
"""
_BY_TABLES = "            prepared.pack_by_tables(storage, kept{arguments})\n"
_BY_VALUES = f"""\
            pack_into(
                storage,
                0,
{{values}}            )
        except Unpackable:  # a number that does not fit, or a closed Memory
{_BY_TABLES}"""
_MOST_VALUES = 200  # Python needs 1 ms to compile one, and a kernel may have more than 30,000 parameters
# The usual arguments of each form of slot are packed inline. This saves 70 ns each against the table: 220 of 840 for
# three Memory objects, 240 of 1,330 for four NumPy numbers, 190 of 800 for an array in In().
_INLINE = {
    "address": """{x}._ptr if type({x}) is MemoryView and ({x}._place is here or {x}._place in slot_{n}.places)
                and {x}._owner._handle is not None
                else {x}._handle if type({x}) is Memory and {x}._primary is primary and {x}._keeps is None
                else {x} if type({x}) is int or type({x}) in plain_{n}
                else 0 if {x} is None
                else {x}._handle if type({x}) is ManagedMemory and {x}._primary is primary and {x}._keeps is None
                else {x}._ptr if type({x}) is In and ({x}._place is here or {x}._place in slot_{n}.places)
                and {x}._owner._handle is not None
                else {table}""",
    "typed": """{x}._ptr if type({x}) is MemoryView and {x}._dtype is slot_{n}.element
                and {x}._strides == slot_{n}.dense
                and ({x}._place is here or {x}._place in slot_{n}.places)
                and {x}._owner._handle is not None
                else {x}._handle if type({x}) is Memory and {x}._primary is primary and {x}._keeps is None
                else {x} if type({x}) is int or type({x}) in plain_{n}
                else 0 if {x} is None
                else {x}._handle if type({x}) is ManagedMemory and {x}._primary is primary and {x}._keeps is None
                else {table}""",
    "integer": """{x} if type({x}) is int and {x} <= {high} and {x} >= {low} or type({x}) in plain_{n}
                else {table}""",
    "real": """{x} if type({x}) is float{bound} or type({x}) in plain_{n}
                else {table}""",
    "bytes": "{table}",
}
_TABLE = "(table_{n}(type({x})) or choose_{n}(type({x})))(slot_{n}, {x}, kept)"
_NEAR = (1 << 30) - 1  # CPython compares integers of up to 30 bits fastest; the table checks the others
_PREFIXES = "__", "argument_", "plain_", "table_", "choose_", "slot_"  # of the function's own names
# The function's other names. None of them is allowed as the name of a parameter.
_OWN = frozenset(
    "make prepared packing pool primary ask here pack_into surplus dropped drain call buffer storage given kept "
    "ask_into current code type int float len In ManagedMemory Memory MemoryView Missing Unpackable IndexError "
    "Exception BaseException CudaError".split()
)


def safe_names(names: Sequence[str]) -> list[str]:
    """Return a name for each parameter that can be used in the text: its own if that is safe, else argument_0, ..."""
    made: dict[str, None] = {}
    for number, name in enumerate(names):
        made[name if _is_safe(name) and name not in made else f"argument_{number}"] = None
    return [*made]


def _is_safe(name: str) -> bool:
    from keyword import iskeyword

    plain = name.isascii() and name.isidentifier() and not iskeyword(name) and len(name) < 80
    return plain and name not in _OWN and not name.startswith(_PREFIXES)


def _function_name(kernel: str) -> str:
    if _is_safe(kernel):
        return kernel
    return "kernel"


def text_for(kernel: str, names: Sequence[str], slots: Sequence[Slot]) -> str:
    """Return the text of the function for a signature: a kernel's name, safe names of its parameters, their slots."""
    values = []
    inline = slots if len(slots) <= _MOST_VALUES else ()
    for number, (name, slot) in enumerate(zip(names, inline)):
        low, high = max(slot.low, -_NEAR), min(slot.high, _NEAR)
        bound = ""
        if slot.format[0] == "f":  # struct writes a number that is too large as infinity
            bound = f" and {name} < {slot.limit!r} and {name} > {-slot.limit!r}"
        table = _TABLE.format(n=number, x=name)
        # A parameter that is declared as an integer usually gets a number, also one of 8 bytes.
        form = slot.form if slot.signed is None else "integer"
        value = _INLINE[form].format(n=number, x=name, low=low, high=high, bound=bound, table=table)
        values.append(f"                {value},\n")
    unpacked = "".join([f"slot_{number}, " for number in range(len(names))])
    parameters = "".join([f"{name}=Missing, " for name in names])
    arguments = "".join([f", {name}" for name in names])
    packing = (_BY_VALUES if inline else _BY_TABLES).format(values="".join(values), arguments=arguments)
    return _TEXT.format(
        name=_function_name(kernel),
        parameters=f"{parameters}/, " if names else "",
        count=len(names),
        slots=f"    {unpacked}= packing.slots\n" if inline else "",
        packing=_PACKING.format(values=packing, arguments=arguments, listed=arguments[2:]) if names else "",
    )


_written: Remembered[tuple[object, ...], Maker] = Remembered(500)


def maker_for(kernel: str, names: Sequence[str], slots: Sequence[Slot]) -> Maker:
    """Return the function `make` of the text for a signature. The text depends only on these, so it is written once."""
    kinds = [(slot.form, slot.type, slot.size, slot.converts, slot.signed) for slot in slots]
    key = kernel, tuple(names), tuple(kinds)
    found = _written.answers.get(key)
    if found is None:
        found = _written.keep(key, _write(kernel, names, slots))
    return found


def _write(kernel: str, names: Sequence[str], slots: Sequence[Slot]) -> Maker:
    import linecache
    import weakref

    text = text_for(kernel, names, slots)
    scope: dict[str, Any] = {
        "CudaError": CudaError,
        "In": In,
        "ManagedMemory": ManagedMemory,
        "Memory": Memory,
        "MemoryView": _MemoryView,
        "Missing": MISSING,
        "Unpackable": UNPACKABLE,
        "drain": drain,
        "dropped": dropped,
    }
    scope["__name__"] = __name__
    for number, slot in enumerate(slots if len(slots) <= _MOST_VALUES else ()):
        table = table_for(slot)
        scope[f"table_{number}"], scope[f"choose_{number}"] = table.packers.answers.get, table.packer
        scope[f"plain_{number}"] = table.plain
    file = f"<launch {len(linecache.cache)}>"
    while file in linecache.cache:
        file = file[:-1] + "+>"
    exec(compile(text, file, "exec"), scope)  # only the text from above
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    made: Maker = scope["make"]
    going: Any = weakref.finalize(made, linecache.cache.pop, file, None)
    going.atexit = False  # the text goes with the function
    return made


# -- a launch


class Prepared:
    """A kernel with its grid, block and stream, checked and ready: what the function of a launch refers to.

    token       true as long as the last check() holds
    context     the handle of the kernel's context, which must be current
    call        f(config, function, pointers, None) -> CUresult
    words       the memory that grid, block and shared memory are written to; see Limits.write
    shape       grid, block and shared_bytes
    attributes  those of the launch, or None
    handle      that of the stream
    pool        the buffers that no call uses now
    """

    __slots__ = (
        "token",
        "context",
        "call",
        "pool",
        "packing",
        "primary",
        "module",
        "symbol",
        "handle",
        "stream",
        "shape",
        "attributes",
        "words",
        "config",
        "__weakref__",
    )

    def __init__(
        self, packing: Packing, module: Module, handle: int, stream: object, attributes: LaunchAttributes | None
    ) -> None:
        self.packing, self.primary, self.module = packing, packing.device._primary, ref(module)
        self.handle, self.stream, self.attributes = handle, stream, attributes
        self.token: list[bool] = []
        self.context: int | None = None
        self.shape: Shape = (0, 0, 0, 0, 0, 0, 0)  # set when it is written to `words`
        call = packing.launch
        cooperative = attributes is not None and attributes.given == _ONLY_COOPERATIVE
        self.words: Any
        self.config: Any
        self.call: Callable[..., int]
        if call is not None or attributes is not None and not cooperative:
            self.symbol = "cuLaunchKernelEx"
            self.call = call or packing.driver.raw("cuLaunchKernelEx")
            self.words = config_of(handle, attributes)
            self.config = ctypes.byref(self.words)
        else:
            self.symbol = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
            self.words = (ctypes.c_uint * 7)()
            self.config = [ctypes.c_uint.from_buffer(self.words, 4 * number) for number in range(7)]
            self.call = _like_launch_ex(packing.driver.raw(self.symbol), as_argument(handle), not cooperative)
        self.pool: deque[Buffer] = deque()  # (a list that becomes empty gives up its memory in every call: 25 ns)

    def new_buffer(self) -> Buffer:
        """Make the buffer of one launch in progress; one block of memory holds all that the driver reads and writes.

        returns  the memory to pack into; the arguments of the launch; a Kept; the arguments that ask for the current
                 context, and the cell for the answer
        """
        packing = self.packing
        frame = packing.frame_type()
        start, at = ctypes.addressof(frame), packing.pointers_at
        packing.pack_pointers(frame, at, *[start + offset for offset in packing.offsets])
        memory, cell = memoryview(frame).cast("B"), at - 8
        kept = Kept()
        kept.launch = ref(self)
        given = self.config, packing.function, ctypes.byref(frame, at), None
        return memory, given, kept, (ctypes.byref(frame, cell),), memory[cell:at].cast("Q")

    def check(self) -> Callable[..., int]:
        """Check everything that a launch depends on except its arguments, and return the function that launches.

        While the token is valid, these checks need not be repeated. It becomes invalid when one of the objects is
        closed, the process forks, tracing begins, or a host function is called.
        """
        token = valid_token()
        packing, module = self.packing, self.module()
        if module is None or module._handle is None:
            raise Closed(f"the module of kernel {packing.name} is closed: load it again")
        if packing.device._handle is None:
            raise Closed(f"the device of kernel {packing.name} is closed: load it on another Device object")
        if isinstance(self.stream, Stream) and self.stream._handle is None:
            raise Closed(f"the stream of this launch of {packing.name} is closed: configure another launch")
        if tracing.careful:
            packing.driver.check_thread(self.symbol)
        self.context = self.primary.handle
        self.request_shared(module)
        uses = self.used()
        if uses:  # closing these does not invalidate the token
            token = []
        if capturing:  # (a capture that begins makes every token false)
            keep_in_graph(self.primary, self.handle, (module, *uses))
            token = []
        if tracing.listeners:
            return self._call_traced
        if not tracing.careful:  # while a host function runs, each launch asks whether it is in that function
            self.token = token
        return self.call

    def request_shared(self, module: Module) -> None:
        """Request the shared memory of the launch if the limit of the kernel was lowered since that was done."""
        if self.shape[6] > self.packing.limits.granted:
            grant_shared(module, self.packing.limits, self.shape[6])

    def used(self) -> tuple[Owned, ...]:
        """Return the events and the memory that the driver uses at each launch; raises Closed."""
        if self.attributes is None:
            return ()
        for used in self.attributes.uses:
            used.handle
        return self.attributes.uses

    def pack_by_tables(self, storage: memoryview, kept: Kept, *arguments: object) -> None:
        """Pack arguments by the tables alone; the packers raise the error for what cannot be packed."""
        kept.clear()
        packing = self.packing
        try:
            values = [
                slot.table.packer(type(value))(slot, value, kept) for slot, value in zip(packing.slots, arguments)
            ]
        except Exception as error:
            if isinstance(error.__context__, UNPACKABLE):
                error.__suppress_context__ = True  # the error of struct is less helpful
            raise
        packing.pack_into(storage, 0, *values)

    def check_open(self, kept: Kept, *arguments: object) -> None:
        """Raise Closed if what the launch uses was closed after it was checked or packed; remove the marks RAN."""
        if not self.token:
            self.check()
        for number, argument in enumerate(arguments):
            while isinstance(argument, In):
                argument = argument.exporter
            slot = self.packing.slots[number]
            if isinstance(argument, (Memory, Description, Passed)):
                try:
                    argument._pass(slot) if isinstance(argument, Passed) else argument.ptr
                except Closed as error:
                    error.args = (f"{slot.place}: {error}",)
                    raise
        kept[:] = [thing for thing in kept if thing is not RAN]

    def _call_traced(self, *arguments: object) -> int:
        """Launch, and report it to the listeners."""
        start = time.perf_counter_ns()
        code = self.call(*arguments)
        elapsed = time.perf_counter_ns() - start
        self.packing.driver.tell(self.symbol, *self._shown(), code, start, elapsed)
        return code

    def in_context(self, call: Callable[..., int], given: Buffer) -> int:
        """Make the kernel's context, which is not current in this thread, current around the launch."""
        if careful:  # a trace shows the push and the pop
            with self.primary.current():
                return call(*given)
        return self.primary.call_pushed(call, given)

    def refuse(self, code: int) -> NoReturn:
        """Raise the driver's error, with the reason if the kernel's attributes tell it."""
        reason = ""
        if code in (INVALID_VALUE, INVALID_CLUSTER_SIZE):
            reason = why_refused(self.primary, self.packing.function, self.shape, self.attributes)
        raise self.packing.driver.error(code, self.symbol, *self._shown(), reason)

    def check_count(self, *arguments: object) -> None:
        """Raise the error for a wrong number of arguments if one has only its default."""
        given = [argument for argument in arguments if argument is not MISSING]
        if len(given) < len(arguments):
            raise self.wrong_count(len(given), *given) from None

    def wrong_count(self, given: int, *first: object) -> TypeError:
        """Return the error for a wrong number of arguments; a tuple in their place is called one."""
        packing, were = self.packing, "was" if given == 1 else "were"
        text = f"{packing.name}() takes {packing.words()} but {given} {were} given"
        if given == 1 and first and isinstance(first[0], (tuple, list)):
            text += ": give the arguments one by one, not as a tuple or list"
        return TypeError(text)

    def retain(self, kept: Kept) -> None:
        """Keep views of other libraries' arrays alive until the stream has completed this launch.

        The streams that their exporters named wait for it, too. This may be called twice for one launch.
        """
        retain(self.primary, self.handle, tuple(kept), release_of(self.stream))
        for made in kept:
            if type(made) is _StreamedView:  # (only these know a stream of the exporter)
                hold_back((made,), self.handle, self.primary)
        kept.clear()

    def options(self) -> dict[str, Any]:
        """Return the options of this launch besides grid, block, shared memory and stream."""
        if self.attributes is None:
            return {}
        return dict(self.attributes.given)

    def _shown(self) -> tuple[list[str], tuple[object, ...]]:
        shape = self.shape
        facts = {
            "f": self.packing,
            "gridDim": shape[:3],
            "blockDim": shape[3:6],
            "sharedMemBytes": shape[6],
            "hStream": cuda_h.CUstream(self.handle),
        }
        facts.update(self.options())
        return list(facts), tuple(facts.values())


_ONLY_COOPERATIVE = {"cooperative": True}  # drivers before 11.8 have a function for this


def _like_launch_ex(function: Callable[..., int], stream: object, takes_extra: bool) -> Callable[..., int]:
    """Return a function for drivers before 11.8 with the parameters of cuLaunchKernelEx; config is seven numbers."""

    def call(config: list[object], kernel: object, pointers: object, extra: None) -> int:
        tail = (extra,) if takes_extra else ()
        return function(kernel, *config, stream, pointers, *tail)

    return call


def function_of(prepared: Prepared) -> Callable[..., None]:
    """Return the function that launches; it refers to the Prepared, and not the reverse, which would be a cycle."""
    return prepared.packing.make(prepared)


class _Signature:
    """The attribute that inspect.signature() reads from a Launch; the class itself has none."""

    def __get__(self, launch: Launch | None, kind: object = None) -> Signature:
        if launch is None:
            raise AttributeError("__signature__")
        from inspect import Parameter, Signature

        packing = launch._prepared.packing
        return Signature(
            [
                Parameter(name, Parameter.POSITIONAL_ONLY, annotation=slot.parameter.words().lstrip("."))
                for name, slot in zip(packing.names, packing.slots)
            ],
            return_annotation=None,
        )


@hinted
class Launch(_Callable):
    """A kernel with its grid, block and stream; call it with the arguments, in any number of threads.

    A call returns immediately. `func` is the function itself, without this object around it: calling that takes a fifth
    less, but it does not keep the module loaded. functools.partial(launch, ...) calls `func`, too, and keeps only that:
    keep the launch or the module as long as you call it. (A partial is the thinnest object that can be called: its C
    code passes the arguments on.)

    The memory of an argument must stay allocated until the kernel has run. close() of our memory waits for that, and
    arrays of other libraries are kept. Memory in stream order is freed in the order of its own stream: if the launch is
    on another one, keep the memory, or order the two streams.

    Kernel.configure() makes a launch.

    >>> device = Device(0)
    >>> module = device.load(".version 6.3 .target sm_50 .address_size 64 .visible .entry nothing() { ret; }")
    >>> launch = module["nothing"].configure(grid=1, block=32)
    >>> launch()

    kernel, grid, block, shared_bytes, stream  as they were configured
    raises  TypeError   a wrong number or kind of arguments
            ValueError  a value that does not fit its parameter, memory that the device cannot access
            Closed      the module or the stream was closed
            CudaError   the driver refuses the launch; an error in the kernel is raised by the next call that waits
    """

    __slots__ = ("_kernel", "_prepared")

    __signature__ = _Signature()

    _kernel: Kernel
    _prepared: Prepared
    if TYPE_CHECKING:
        func: Callable[..., None]

    def __new__(cls, *_: object, **__: object) -> Launch:
        """Refuse to make one in this way."""
        raise TypeError("a Launch is made by Kernel.configure(grid=..., block=...)")

    @classmethod
    def _of(cls, kernel: Kernel, prepared: Prepared) -> Launch:
        new: Any = partial.__new__
        made = new(cls, function_of(prepared))
        made._kernel, made._prepared = kernel, prepared
        return made  # type: ignore[no-any-return]

    def __get__(self, instance: object, kind: object = None) -> Launch:
        """Return the launch itself, so that a launch which is an attribute of a class does not become a method."""
        return self

    @property
    def kernel(self) -> Kernel:
        """Return the kernel."""
        return self._kernel

    @property
    def stream(self) -> Any:
        """Return the stream as it was given, or None; another one needs another configure()."""
        return self._prepared.stream

    @property
    def grid(self) -> tuple[int, int, int]:
        """Return the number of blocks, x, y, z."""
        return self._prepared.shape[:3]

    @property
    def block(self) -> tuple[int, int, int]:
        """Return the number of threads in a block, x, y, z."""
        return self._prepared.shape[3:6]

    @property
    def shared_bytes(self) -> int:
        """Return the size of the dynamic shared memory in bytes."""
        return self._prepared.shape[6]

    @property
    def cluster(self) -> tuple[int, int, int] | None:
        """Return the number of blocks in a cluster, x, y, z, or None."""
        attributes = self._prepared.attributes
        if attributes is None:
            return None
        return attributes.cluster

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the options of this launch besides grid, block, shared memory and stream: {"priority": -1}."""
        return self._prepared.options()

    def _configuration_with(self, changes: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments of configure() that made this launch, except the stream; `changes` replace some."""
        from .options import ALIASES

        made: dict[str, object] = {"grid": self.grid, "block": self.block, "shared_bytes": self.shared_bytes}
        made.update(self.attributes)
        for name in changes:
            made.pop(ALIASES.get(name, name), None)
        return {**made, **changes}

    def pack_for_graph(self, arguments: Sequence[object]) -> Packed:
        """Check and pack arguments for a node of a graph, which the driver reads when the node is added.

        raises  TypeError, ValueError, Closed  as a launch does
        """
        self.kernel.handle
        self._prepared.request_shared(self.kernel.module)
        prepared, arguments = self._prepared, as_list("arguments", arguments, "arguments")
        packing = prepared.packing
        if len(arguments) != len(packing.slots):
            raise prepared.wrong_count(len(arguments))
        storage, given, kept, *_ = prepared.new_buffer()
        kept.launch = None
        prepared.pack_by_tables(storage, kept, *arguments)
        frame = given[2]._obj
        pointers = ctypes.addressof(frame) + packing.pointers_at
        return Packed(frame, pointers, list(kept), _attributes(prepared), prepared.used())

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Launch belongs to a driver's handle of this process, and cannot be copied or pickled")

    def __repr__(self) -> str:
        packing = self._prepared.packing
        words = f"{packing.name}({', '.join(packing.names)})"
        more = "".join([f" {name} {worded(value)}" for name, value in self.attributes.items()])
        return f"<Launch {words} grid {self.grid} block {self.block}{more}>"


class Packed:
    """The packed arguments of a node: their memory, the address of the pointers to them, and the objects that they use.

    views       views of other libraries' arrays
    attributes  the launch's CUlaunchAttributes
    uses        the events and the memory that these name
    """

    __slots__ = ("frame", "pointers", "views", "attributes", "uses")

    def __init__(
        self, frame: object, pointers: int, views: list[object], attributes: list[Any], uses: tuple[Owned, ...]
    ) -> None:
        self.frame, self.pointers, self.views, self.attributes, self.uses = frame, pointers, views, attributes, uses


def _attributes(prepared: Prepared) -> list[Any]:
    """Return the attributes of a launch, as CUlaunchAttributes."""
    words = prepared.words
    if isinstance(words, cuda_h.CUlaunchConfig):
        return [words.attrs[index] for index in range(words.numAttrs)]
    if prepared.symbol != "cuLaunchCooperativeKernel":
        return []
    made = cuda_h.CUlaunchAttribute()
    made.id, made.value.cooperative = cuda_h.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1
    return [made]


def stream_handle(stream: Any, primary: PrimaryContext) -> int:
    """Return the handle of the stream on which a kernel in this context will be launched.

    raises  ValueError  NO_SYNC, another device's stream
            TypeError   not a stream
    """
    kind = type(stream)
    if kind is int and 0 < stream < 1 << 64:
        return stream  # type: ignore[no-any-return]
    if isinstance(stream, Stream):
        theirs, handle = stream._primary, stream._handle
        if theirs is not None and theirs is not primary:
            raise ValueError(
                f"{stream!r} is on device {theirs.ordinal}, the kernel on device {primary.ordinal}: launch it on a "
                "stream of its own device"
            )
        if handle is None:
            return stream.handle
        return handle
    if hasattr(kind, "__cuda_stream__") and not hasattr(kind, "__index__"):  # work_handle() takes 250 ns more
        return handle_from(stream)
    return work_handle(stream)
