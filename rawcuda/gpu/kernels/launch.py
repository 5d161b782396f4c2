"""The launch: a configuration that was checked once, and arguments that are packed at each call.

What it is   `Launch`, the callable that Kernel.configure returns and that Kernel.launch keeps; `Packing`, the part that
             all launches of a kernel share: how its arguments are packed.
How          A call takes a buffer from the pool of its Launch, packs the arguments into it, and makes one foreign call.
             Each call in progress has a buffer of its own, so several threads may use one Launch: list.pop and
             list.append are atomic. The foreign function has no argument types, because their conversions would take
             most of the time.
             Each argument has a cell of 8 bytes or more, of which the kernel reads as many as its parameter has. So one
             format of struct is right for integers of any size and sign. A number that it refuses is packed again by
             the tables of packing.py, which raise the error.
Interrupts   A call that is interrupted loses its buffer, and the next call makes another. The arrays that the kernel
             may use are retained before the interrupt is passed on.
Source       CUDA Driver API, "Execution Control": cuLaunchKernelEx, cuLaunchKernel, cuLaunchCooperativeKernel
Read next    source.py, packing.py
"""

from __future__ import annotations

import ctypes
import struct
import time
from _weakref import ref

from ... import names, tracing
from ...arrays.strided import _StreamedView
from ...driver import WRONG_CONTEXT, as_argument
from ...errors import Closed, worded
from ...given import several
from ...headers import cuda_h
from ...owned import token as valid_token
from ...protocols.cuda_stream import handle_from
from ...protocols.description import place
from ...remembered import Remembered
from ...tracing import careful
from ..ordering import hold_back
from ..stream import Stream, retain, work_handle
from . import source
from .arguments import Slot
from .configuration import config_of, why_refused
from .packing import Kept, table_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

    from ...protocols.description import Place
    from ..context import PrimaryContext
    from .configuration import Asked, Shape
    from .kernel import Kernel
    from .module import Module

    Buffer = tuple[Any, ...]

__all__ = ["Launch", "Packed", "Packing", "prepare", "stream_handle"]

_PER_THREAD = 2
_INVALID_VALUE, _INVALID_CLUSTER_SIZE = 1, 912  # CUDA_ERROR_INVALID_VALUE, _INVALID_CLUSTER_SIZE


class Packing:
    """The packing of a kernel's arguments, for all of its launches; the Kernel refers to this object, not the reverse.

    slots    a Slot for each parameter
    names    the names of the parameters in a signature
    here     the Place of our own device memory, which most arrays have
    entry    the driver's function that launches, and its name
    """

    __slots__ = (
        "name",
        "device",
        "driver",
        "slots",
        "names",
        "here",
        "token",
        "types",
        "pack_into",
        "offsets",
        "pointers_at",
        "pack_pointers",
        "frame_type",
        "function",
        "entry",
        "ask",
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
        self.names = source.safe_names([parameter.name for parameter in parameters])
        self.here = place(("cuda", self.device.ordinal), False, "memory")
        packing = struct.Struct(source.packing_format(self.slots))
        self.pack_into = packing.pack_into
        self.token: Any = ()  # the token of the Launch that was last checked
        self.types: list[type[Launch] | None] = [None, None]
        # A buffer: the packed arguments, a cell for the current context, and a pointer to each argument.
        sizes = [struct.calcsize(slot.format) for slot in self.slots]
        self.offsets = [sum(sizes[:number]) for number in range(len(sizes))]
        self.pointers_at = packing.size + 8
        self.pack_pointers = struct.Struct(f"{len(self.offsets)}P").pack_into
        self.frame_type: Any = ctypes.c_char * (self.pointers_at + 8 * max(len(self.offsets), 1))
        self.function = as_argument(kernel.handle)
        self.entry = ("", None)
        if self.driver.has("cuLaunchKernelEx"):
            self.entry = "cuLaunchKernelEx", self.driver.raw("cuLaunchKernelEx")
        # This call never waits, so it keeps the interpreter's lock, which saves 25 ns of 130.
        self.ask = ctypes.PYFUNCTYPE(ctypes.c_int)(self.driver.address("cuCtxGetCurrent"))

    def type_for(self, on_default: bool) -> type[Launch]:
        """Return the class of launches on a default stream, or on any other."""
        found = self.types[on_default]
        if found is None:
            found = Launch
            if source.enabled:
                found = _type_with(source.call_for(self.name, self.names, self.slots, on_default))
            self.types[on_default] = found
        return found

    def new_buffer(self, config: Any, handle: int, stream: Any) -> Buffer:
        """Make the buffer of one launch in progress; one block of memory holds all that the driver reads and writes.

        returns  the memory to pack into; the arguments of the foreign call; a Kept; and for a default stream the
                 arguments that query the current context, and the cell for the answer
        """
        frame = self.frame_type()
        start, at = ctypes.addressof(frame), self.pointers_at
        self.pack_pointers(frame, at, *[start + offset for offset in self.offsets])
        memory, kept, cell = memoryview(frame).cast("B"), Kept(), at - 8
        kept.stream = stream
        given = config, self.function, ctypes.byref(frame, at), None
        if handle > _PER_THREAD:
            return memory, given, kept
        return memory, given, kept, (ctypes.byref(frame, cell),), memory[cell:at].cast("Q")

    def words(self) -> str:
        """Return the number of parameters, with their names and types, as text for an error."""
        shown = [f"{slot.parameter.name or '?'} " + _type_of(slot) for slot in self.slots]
        return f"{len(shown)} arguments" + (f" ({', '.join(shown)})" if shown else "")

    def __repr__(self) -> str:  # traces and driver errors show this as the function
        return f"<Kernel {self.name}>"


_types: Remembered[Any, type[Launch]] = Remembered(500)


def _type_with(call: Callable[..., None]) -> type[Launch]:
    """Return the class of launches with this `__call__`."""
    found = _types.answers.get(call)
    if found is None:
        namespace = {"__slots__": (), "__module__": __name__, "__doc__": Launch.__doc__, "__call__": call}
        found = _types.keep(call, type(Launch.__name__, (Launch,), namespace))
    return found


def _type_of(slot: Slot) -> str:
    kind = slot.parameter.type
    return f".{kind}" if kind else f".b8[{slot.size}]"


class _Signature:
    """The attribute that inspect.signature() reads from a Launch; the class itself has none."""

    def __get__(self, launch: Launch | None, kind: object = None) -> Any:
        if launch is None:
            raise AttributeError("__signature__")
        from inspect import Parameter, Signature

        packing = launch._packing
        return Signature(
            [
                Parameter(name, Parameter.POSITIONAL_ONLY, annotation=_type_of(slot).lstrip("."))
                for name, slot in zip(packing.names, packing.slots)
            ],
            return_annotation=None,
        )


class Launch:
    """A kernel with its grid, block and stream; call it with the arguments, in any number of threads.

    kernel, grid, block, shared_bytes, stream  as they were configured
    raises  TypeError   a wrong number or kind of arguments
            ValueError  a value that does not fit its parameter, memory that the device cannot access
            Closed      the module or the stream was closed
            CudaError   the driver refuses the launch; an error in the kernel is raised by the next call that waits
    """

    __slots__ = (
        "kernel",
        "_stream",
        "_token",  # true as long as the last _check() holds
        "_call",  # f(config, function, pointers, None) -> CUresult
        "_config",
        "_shape",  # grid, block and shared_bytes
        "_words",  # the memory that these are written to; see Limits.write
        "_asked",  # the attributes, or None
        "_given",  # the driver's arguments if there are no parameters, so that nothing is packed
        "_handle",  # of the stream
        "_context",  # for a default stream, the context that must be current
        "_ask",
        "_slots",
        "_here",
        "_primary",
        "_pool",
        "_packing",
        "_module",
        "_symbol",
        "__weakref__",
    )

    __signature__ = _Signature()

    kernel: names.Kernel
    if TYPE_CHECKING:
        _stream: Any
        _token: Any
        _call: Callable[..., int]
        _config: Any
        _shape: Shape
        _words: Any
        _asked: Asked | None
        _given: tuple[Any, ...]
        _handle: int
        _context: int | None
        _ask: Callable[..., int]
        _slots: tuple[Slot, ...]
        _here: Place
        _primary: PrimaryContext
        _pool: list[Buffer]
        _packing: Packing
        _module: ref[Module]
        _symbol: str

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("a Launch is made by Kernel.configure(grid=..., block=...)")

    def __call__(self, *arguments: names.Any) -> None:
        """Launch with these arguments, and return immediately; source.py generates this for a kernel's parameters."""
        call = self._call if self._token else self._check()
        if len(arguments) != len(self._slots):
            self._refuse_count(len(arguments))
        try:
            buffer = self._pool.pop()
        except IndexError:  # other threads use all buffers
            buffer = self._new_buffer()
        storage, given, kept, *ask = buffer
        self._pack_by_tables(storage, kept, *arguments)
        try:
            if self._context is None or not self._ask(*ask[0]) and ask[1][0] == self._context:
                code = call(*given)
            else:
                code = self._in_context(call, given)
            if code:
                self._answer(code, call, given)
            if kept:
                self._retain(kept)
        except BaseException:
            if kept:  # the driver may have accepted the launch before the interrupt
                self._retain(kept)
            raise
        self._pool.append(buffer)

    @property
    def stream(self) -> names.Any:
        """Return the stream as it was given, or None; another one needs another configure()."""
        return self._stream

    @property
    def grid(self) -> tuple[int, int, int]:
        """Return the number of blocks, x, y, z."""
        return self._shape[0]

    @property
    def block(self) -> tuple[int, int, int]:
        """Return the number of threads in a block, x, y, z."""
        return self._shape[1]

    @property
    def shared_bytes(self) -> int:
        """Return the size of the dynamic shared memory in bytes."""
        return self._shape[2]

    @property
    def cluster(self) -> tuple[int, int, int] | None:
        """Return the number of blocks in a cluster, x, y, z, or None."""
        return None if self._asked is None else self._asked.cluster

    @property
    def attributes(self) -> dict[str, names.Any]:
        """Return the options of this launch besides grid, block, shared memory and stream: {"priority": -1}."""
        return {} if self._asked is None else dict(self._asked.given)

    # -- the parts that most calls do not need

    def _check(self) -> Callable[..., int]:
        """Check everything that a launch depends on except its arguments, and return the function that launches.

        While the token is valid, these checks need not be repeated. It becomes invalid when one of the objects is
        closed, the process forks, or tracing begins.
        """
        token = valid_token()
        packing = self._packing
        module = self._module()
        if module is None or module._handle is None:
            raise Closed(f"the module of kernel {packing.name} is closed: load it again")
        if packing.device._handle is None:
            raise Closed(f"the device of kernel {packing.name} is closed: load it on another Device object")
        if isinstance(self._stream, Stream) and self._stream._handle is None:
            raise Closed(f"the stream of this launch of {packing.name} is closed: configure another launch")
        if packing.driver.forked:
            packing.driver.refuse_forked(self._symbol)
        if self._handle <= _PER_THREAD:
            self._context = packing.device._primary.handle
        if self._asked is not None and self._asked.uses:  # closing these does not invalidate the token
            for used in self._asked.uses:
                used.handle  # raises Closed
            token = []
        if tracing.listeners:
            return self._call_traced
        self._token = token
        if self._stream is None and token:  # also valid for the next Launch that Kernel.launch prepares
            packing.token = token
        return self._call

    def _pack_by_tables(self, storage: Any, kept: Kept, *arguments: Any) -> None:
        """Pack arguments by the tables alone; the packers raise the error for what cannot be packed."""
        kept.clear()
        try:
            values = [slot.table.packer(type(value))(slot, value, kept) for slot, value in zip(self._slots, arguments)]
        except Exception as error:
            if isinstance(error.__context__, source.UNPACKABLE):
                error.__suppress_context__ = True  # the error of struct is less helpful
            raise
        self._packing.pack_into(storage, 0, *values)

    def _new_buffer(self) -> Buffer:
        stream = self._stream if isinstance(self._stream, Stream) else self._handle
        return self._packing.new_buffer(self._config, self._handle, stream)

    def _call_traced(self, *arguments: Any) -> int:
        """Launch, and report it to the listeners."""
        start = time.perf_counter_ns()
        code = self._call(*arguments)
        elapsed = time.perf_counter_ns() - start
        self._packing.driver.tell(self._symbol, *self._shown(), code, start, elapsed)
        return code

    def _in_context(self, call: Callable[..., int], given: Any) -> int:
        """Push the kernel's context, which was not current, and launch.

        A with block would take 1,500 ns more than these calls, which take 450.
        """
        primary = self._packing.device._primary
        if careful:
            with primary.current():
                return call(*given)
        (push, context), (pop, popped) = primary.pushing
        try:
            code: int = push(context)
            if not code:
                code = call(*given)
                pop(popped)
            return code
        except BaseException:  # an interrupt: the context may be pushed
            if primary.driver.current_context() == primary.handle:
                pop(popped)
            raise

    def _answer(self, code: int, call: Callable[..., int], given: Any) -> None:
        """Repeat the launch in our context if the driver reports that the wrong one is current; raise any other error.

        A stream of our own implies its context, so none was pushed for it. The driver does not queue a launch that it
        refuses, so none runs twice.
        """
        if code in WRONG_CONTEXT and self._context is None:
            primary = self._packing.device._primary
            if primary.driver.current_context() != primary.handle:
                code = self._in_context(call, given)
        if code:
            raise self._packing.driver.error(code, self._symbol, *self._shown(), self._reason(code))

    def _reason(self, code: int) -> str:
        """Return an explanation of an error that the driver's code does not explain, or an empty text."""
        if code not in (_INVALID_VALUE, _INVALID_CLUSTER_SIZE):
            return ""
        return why_refused(self._primary, self._packing.function, self._shape, self._asked)

    def _retain(self, kept: Kept) -> None:
        """Keep views of other libraries' arrays alive until the stream has completed this launch.

        The streams that their exporters named wait for it, too. This may be called twice for one launch.
        """
        retain(self._primary, self._handle, tuple(kept))
        for made in kept:
            if type(made) is _StreamedView:  # (only these know a stream of the exporter)
                hold_back((made,), self._handle, self._primary)
        kept.clear()

    def pack_for_graph(self, arguments: names.Sequence[names.Any]) -> Packed:
        """Check and pack arguments for a node of a graph, which the driver reads when the node is added.

        raises  TypeError, ValueError, Closed  as a launch does
        """
        self.kernel.handle
        packing, arguments = self._packing, several("arguments", arguments, "arguments")
        if len(arguments) != len(self._slots):
            self._refuse_count(len(arguments))
        storage, given, kept, *_ = self._new_buffer()
        kept.stream = None
        self._pack_by_tables(storage, kept, *arguments)
        frame = given[2]._obj
        return Packed(frame, ctypes.addressof(frame) + packing.pointers_at, list(kept), self._attributes())

    def _attributes(self) -> list[Any]:
        """Return the attributes of this launch, as CUlaunchAttributes."""
        words = self._words
        if isinstance(words, cuda_h.CUlaunchConfig):
            return [words.attrs[index] for index in range(words.numAttrs)]
        if self._symbol != "cuLaunchCooperativeKernel":
            return []
        made = cuda_h.CUlaunchAttribute()
        made.id, made.value.cooperative = cuda_h.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1
        return [made]

    def _refuse_count(self, given: int) -> NoReturn:
        packing = self._packing
        raise TypeError(f"{packing.name}() takes {packing.words()} but {given} {'was' if given == 1 else 'were'} given")

    def _shown(self) -> tuple[list[str], tuple[Any, ...]]:
        facts = {
            "f": self._packing,
            "gridDim": self.grid,
            "blockDim": self.block,
            "sharedMemBytes": self.shared_bytes,
            "hStream": cuda_h.CUstream(self._handle),
        }
        facts.update(self.attributes)
        return list(facts), tuple(facts.values())

    def __reduce_ex__(self, protocol: object) -> names.NoReturn:
        raise TypeError("a Launch belongs to a driver's handle of this process, and cannot be copied or pickled")

    def __repr__(self) -> str:
        words = f"{self._packing.name}({', '.join(self._packing.names)})"
        more = "".join([f" {name} {worded(value)}" for name, value in self.attributes.items()])
        return f"<Launch {words} grid {self.grid} block {self.block}{more}>"


class Packed:
    """The packed arguments of a node: their memory, the address of the pointers to them, and the objects that they use.

    views       views of other libraries' arrays
    attributes  the launch's CUlaunchAttributes
    """

    __slots__ = ("frame", "pointers", "views", "attributes")

    def __init__(self, frame: Any, pointers: int, views: list[Any], attributes: list[Any]) -> None:
        self.frame, self.pointers, self.views, self.attributes = frame, pointers, views, attributes


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
        return stream.handle if handle is None else handle
    if hasattr(kind, "__cuda_stream__") and not hasattr(kind, "__index__"):  # as work_handle(), 250 ns earlier
        return handle_from(stream)
    return work_handle(stream)


def prepare(packing: Packing, module: Module, handle: int, stream: Any, asked: Asked | None) -> Launch:
    """Return a Launch without grid and block; it keeps neither its kernel nor its module alive.

    stream  as it was given, or None if this launch is not the user's
    asked   its attributes, if it has any
    calls   cuLaunchKernelEx (since 11.8), cuLaunchKernel, cuLaunchCooperativeKernel
    """
    launch: Launch = object.__new__(packing.type_for(handle <= _PER_THREAD))
    launch._stream = stream
    launch._packing, launch._module, launch._pool = packing, ref(module), []
    launch._slots, launch._here, launch._handle, launch._ask = packing.slots, packing.here, handle, packing.ask
    launch._primary = packing.device._primary
    launch._token, launch._context, launch._asked = packing.token, None, asked
    if handle <= _PER_THREAD or asked is not None:
        launch._token = ()
    symbol, call = packing.entry
    cooperative = asked is not None and asked.given == _ONLY_COOPERATIVE
    if call is not None or asked is not None and not cooperative:
        launch._symbol = "cuLaunchKernelEx"
        launch._call = call or packing.driver.raw("cuLaunchKernelEx")
        launch._words = config_of(handle, asked)
        launch._config = ctypes.byref(launch._words)
    else:
        launch._symbol = symbol = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
        launch._words = (ctypes.c_uint * 7)()
        launch._config = [ctypes.c_uint.from_buffer(launch._words, 4 * number) for number in range(7)]
        launch._call = _call_of_old(packing.driver.raw(symbol), as_argument(handle), not cooperative)
    buffer = launch._new_buffer()
    launch._given = buffer[1]
    launch._pool.append(buffer)
    return launch


_ONLY_COOPERATIVE = {"cooperative": True}  # drivers before 11.8 have functions for these


def _call_of_old(function: Any, stream: Any, takes_extra: bool) -> Callable[..., int]:
    """Return a function for drivers before 11.8 with the parameters of cuLaunchKernelEx; config is seven numbers."""

    def call(config: list[Any], kernel: Any, pointers: Any, extra: None) -> int:
        tail = (extra,) if takes_extra else ()
        return function(kernel, *config, stream, pointers, *tail)  # type: ignore[no-any-return]

    return call
