"""view() and StridedView: memory, layout and dtype together; exports every protocol that it imports.

What it is   The arrays of this package, its own and everybody else's alike. A StridedView is the Description that a
             protocol gave, with methods: it copies nothing by itself, and holds what keeps the memory alive.
What not     It computes nothing, and converts no dtype. What touches device memory is imported when it is first
             needed, so views of host memory work without a driver, and without the files that know one.
Read next    exporting.py, copying.py
"""

from __future__ import annotations

from ..doors import facade, gpu, in_use
from ..elements import layout
from ..elements.dtypes import DType, of
from ..errors import refusal
from ..protocols.choosing import lasting, reader_of, readers
from ..protocols.description import Description, describe_as, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..gpu.memory import Memory
    from ..protocols.description import Ints, Where
else:  # names for typing.get_type_hints(); importing typing takes milliseconds
    Any = Memory = Where = object
    Ints = tuple

__all__ = ["StridedView", "view"]

_exporting: Any = None  # exporting.py, once something was exported
_copying: Any = None  # copying.py, once something was copied
_cuda: Any = None  # gpu/cuda_side.py, once it was needed


def _begin_exporting() -> Any:
    global _exporting
    from . import exporting as _exporting

    return _exporting


def _begin_copying() -> Any:
    global _copying
    from . import copying as _copying

    return _copying


_stream_kind: Any = object()  # the class Stream, once gpu/ was needed


def _cuda_side() -> Any:
    global _cuda, _stream_kind
    _cuda = gpu()
    _stream_kind = _cuda.Stream
    return _cuda


class _Table:
    """A property of the type and of its instances: the C exchange table, made when it is first asked for."""

    def __get__(self, view: object, kind: object = None) -> Any:
        from .exchange_table import offer

        return offer(StridedView)


class _OwnedCapsule:
    """What keeps the tensor in a capsule alive, where a view shows its owner.

    The capsule itself is not shown: whoever got it could consume it, and free the memory under the view.
    """

    __slots__ = ("_capsule",)

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OwnedCapsule) and other._capsule is self._capsule

    def __hash__(self) -> int:
        return hash(self._capsule)

    def __repr__(self) -> str:
        return "<the capsule of a view's tensor>"


class StridedView(Description):
    """A view of strided memory: `ptr shape strides dtype`, and where it lies; made by view(), indexing, or a Device.

    ptr      address of the first element
    strides  bytes, a tuple as long as shape; element_strides counts elements, as DLPack does
    stream   the stream it was viewed for, as it was given: its memory is ready in that stream's order
    """

    __slots__ = ("__weakref__",)

    __dlpack_c_exchange_api__ = _Table()
    _plain_kind: type[StridedView]  # the class of plain views: what copies in new host memory are

    @classmethod
    def _over(
        cls,
        owner: object,
        address: int,
        shape: Ints,
        strides: Ints,
        dtype: DType,
        device: Where,
        readonly: bool = False,
        *,
        protocol: str = "memory",
        stream: Any = None,
    ) -> StridedView:
        """Make a view of memory that an owner has; nothing is checked."""
        where = place(device, readonly, protocol)
        return describe_as(cls, address, shape, strides, dtype, where, owner, stream)  # type: ignore[no-any-return]

    def _derived(
        self, ptr: int, shape: Ints, strides: Ints, dtype: DType | None = None, readonly: bool = False
    ) -> StridedView:
        """Make another view of the same memory."""
        where = self._place
        if readonly and (not where.readonly or where.unsaid):
            where = place(where.device, True, where.protocol)
        made = type(self)()
        made.ptr, made.shape, made.strides, made.dtype = ptr, shape, strides, dtype or self.dtype
        made._place, made._owner, made.stream = where, self._owner, self.stream
        return made

    def _viewed_again(self, kind: object, stream: Any) -> StridedView:
        """Serve view(self): the same memory, in another stream's order if one is given."""
        made = self._derived(self.ptr, self.shape, self.strides)
        if stream is not None and self.is_device_accessible:
            cuda = _cuda or _cuda_side()
            cuda.make_wait(cuda.handle_of(stream), self)
            made.stream = stream
        return made

    def _kept(self) -> object:
        """Return what keeps the memory alive while a tensor of it is out; see _MemoryView."""
        return self

    def _held(self) -> StridedView:
        """Return a view that keeps the memory alive while its buffer is exported; see _MemoryView."""
        return self

    def _hold(self) -> None:
        """Keep the memory alive as long as this view lives; see _MemoryView."""

    def _check_label(self) -> None:
        """Ask the driver, if one is in use, whether foreign memory is where its exporter says."""
        if in_use and self._place.protocol != "memory":
            (_cuda or _cuda_side()).check_label(self)

    @classmethod
    def _empty_host(cls, shape: Ints, dtype: DType) -> StridedView:
        """Make an array in new host memory."""
        from .copying import empty_host

        return empty_host(cls, shape, dtype)

    def _duplicate(self, stream: Any) -> StridedView:
        """Return a copy in new memory of the same kind, made on a stream."""
        from .copying import duplicate

        return duplicate(self, stream)

    # -- what it is

    @property
    def owner(self) -> Any:
        """Return what keeps the memory alive: a capsule's tensor, a buffer, a Memory, the exporter itself."""
        return _OwnedCapsule(self._owner) if type(self._owner).__name__ == "PyCapsule" else self._owner

    @property
    def device(self) -> tuple[str, int | None]:
        """Return (kind, ordinal), kind one of "cpu" "cuda" "cuda_host" "cuda_managed"."""
        return self._place.device or ("cuda", None)

    @property
    def readonly(self) -> bool:
        """Tell whether the memory must not be written through this view."""
        return self._place.readonly

    @property
    def protocol(self) -> str:
        """Return the protocol that it was viewed by, "memory" for our own."""
        return self._place.protocol

    @property
    def itemsize(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return layout.size(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes that the elements take together, gaps not counted."""
        return layout.size(self.shape) * self.dtype.itemsize

    @property
    def element_strides(self) -> Ints:
        """Return the strides in elements; raises ValueError where they are no whole ones."""
        itemsize = self.dtype.itemsize or 1
        if any(stride % itemsize for stride in self.strides):
            raise ValueError(f"strides {self.strides} are no whole elements of {itemsize} bytes")
        return tuple([stride // itemsize for stride in self.strides])

    @property
    def is_c_contiguous(self) -> bool:
        """Tell whether elements lie in row-major order without gaps."""
        return layout.is_c_contiguous(self.shape, self.strides, self.dtype.itemsize)

    @property
    def is_f_contiguous(self) -> bool:
        """Tell whether elements lie in column-major order without gaps."""
        return layout.is_f_contiguous(self.shape, self.strides, self.dtype.itemsize)

    @property
    def is_host_accessible(self) -> bool:
        """Tell whether the CPU can read the memory."""
        return self.device[0] != "cuda"

    @property
    def is_device_accessible(self) -> bool:
        """Tell whether a device can read the memory, as far as its label says."""
        return self.device[0] != "cpu"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self.item())  # as NumPy's: a length is no truth

    __contains__ = None  # `3 in view` would compare views with 3, and find none

    def __repr__(self) -> str:
        kind, ordinal = self.device
        where = kind if kind in ("cpu", "cuda_host") else f"{kind}:{ordinal}"
        return (
            f"<StridedView {self.dtype} {self.shape} strides {self.strides} on {where}"
            f"{', read-only' if self.readonly else ''}, by {self.protocol}>"
        )

    def _repr_svg_(self) -> str | None:
        picture: str | None = facade()._picture(self)
        return picture

    def _repr_html_(self) -> str | None:
        from html import escape

        return (picture := self._repr_svg_()) and f"<pre>{escape(repr(self))}</pre>{picture}"

    # -- other views of the same memory

    def __getitem__(self, key: object) -> StridedView:
        offset, shape, strides = layout.select(self.shape, self.strides, key)
        return self._derived(self.ptr + offset, shape, strides)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    @property
    def T(self) -> StridedView:
        """Return the view with its dimensions reversed."""
        return self._derived(self.ptr, self.shape[::-1], self.strides[::-1])

    def transpose(self, *axes: int | tuple[int, ...] | None) -> StridedView:
        """Return the view with its dimensions in another order, reversed if none is given; raises ValueError."""
        given: Any = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        order = layout.move_axes(len(self.shape), given)
        return self._derived(self.ptr, tuple([self.shape[i] for i in order]), tuple([self.strides[i] for i in order]))

    def reshape(self, *shape: int | tuple[int, ...]) -> StridedView:
        """Return the same elements, counted in C order, in another shape; one extent may be -1.

        raises  ValueError   another number of elements, or a layout that only a copy could give this shape
        """
        given: Any = shape[0] if len(shape) == 1 else shape
        wanted = given if isinstance(given, (tuple, list)) else (given,)
        new, strides = layout.reshape(self.shape, self.strides, layout.as_extents(wanted), self.dtype.itemsize)
        if strides is None:
            raise ValueError(
                f"shape {self.shape} with strides {self.strides} cannot become {new} without a copy, and a view never "
                "copies: copy() it into an empty() array first"
            )
        return self._derived(self.ptr, new, strides)

    def broadcast_to(self, shape: int | tuple[int, ...]) -> StridedView:
        """Return a read-only view in which extents of 1 are repeated; raises ValueError."""
        wanted = layout.as_shape(shape)
        layout.checked_size(wanted, self.dtype.itemsize)
        return self._derived(self.ptr, wanted, layout.broadcast(self.shape, self.strides, wanted), readonly=True)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> StridedView:
        """Return the view without its dimensions of extent 1, or without those that are named; raises ValueError."""
        return self._derived(self.ptr, *layout.squeeze(self.shape, self.strides, axis))

    def reinterpret(self, dtype: Any) -> StridedView:
        """Return the same bytes as elements of another type; the last dimension grows or shrinks with the element.

        raises  ValueError   elements of another size where the last dimension has gaps, or does not come out even
        """
        new, old = of(dtype), self.dtype
        if new.packed:
            raise ValueError(f"{new} elements share bytes, so that no view can have them")
        if new.itemsize == old.itemsize:
            return self._derived(self.ptr, self.shape, self.strides, new)
        if not self.shape:
            raise ValueError(f"a view without dimensions holds one {old}, which is no {new}: reshape(1) it first")
        n, stride = self.shape[-1], self.strides[-1]
        if n > 1 and stride != old.itemsize:
            raise ValueError(
                f"the last dimension has gaps (stride {stride}), so elements of another size do not lie in it"
            )
        if not new.itemsize or n * old.itemsize % new.itemsize:
            raise ValueError(
                f"{n} elements of {old.itemsize} bytes in the last dimension are no whole number of {new}, "
                f"which has {new.itemsize}"
            )
        return self._derived(
            self.ptr, (*self.shape[:-1], n * old.itemsize // new.itemsize), (*self.strides[:-1], new.itemsize), new
        )

    # -- copies

    def copy_from(self, source: Any, *, stream: Any = None) -> StridedView:
        """Copy any exporter's elements into this view, repeated where its shape is smaller, and return self.

        See copy().
        """
        (_copying or _begin_copying()).copy(self, source, stream, view)
        return self

    def copy_to(self, target: Any, *, stream: Any = None) -> Any:
        """Copy the elements into any writable exporter, and return it; see copy()."""
        (_copying or _begin_copying()).copy(target, self, stream, view)
        return target

    def fill(self, value: Any, *, stream: Any = None) -> StridedView:
        """Set every element to a value, and return self.

        value   a number that the dtype holds, or the bytes of one element
        order   done on return in host memory, else when the stream reaches it
        raises  ProtocolError   the view is read-only
                ValueError      the number does not fit
        """
        (_copying or _begin_copying()).fill(self, value, stream)
        return self

    def download(self, *, stream: Any = None) -> StridedView:
        """Return a copy in new host memory, in C order, when it is done."""
        return (_copying or _begin_copying()).download(self, stream)  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers, bytes where the dtype is opaque.

        Without dimensions, one.
        """
        return (_copying or _begin_copying()).tolist(self)

    def item(self) -> Any:
        """Return the one element as a Python number, bytes where the dtype is opaque.

        Raises ValueError for more or none.
        """
        if self.size != 1:
            raise ValueError(f"can only convert a view of size 1 to a Python number, not one of shape {self.shape}")
        return (_copying or _begin_copying()).tolist(self.reshape(()) if self.shape else self)

    def __setitem__(self, key: object, value: Any) -> None:
        self[key].fill(value) if isinstance(value, (bool, int, float, complex)) else self[key].copy_from(value)

    # -- what a pointer cannot go through

    def __reduce__(self) -> Any:
        raise TypeError(
            "a view holds an address, which means nothing elsewhere: pickle download().memoryview().tobytes(), "
            "or tolist()"
        )

    def __copy__(self) -> StridedView:
        return self._derived(self.ptr, self.shape, self.strides)

    # -- what others see; exporting.py does the work

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """Export by DLPack.

        stream       the consumer's, which then waits for what is pending: None or 1 legacy, 2 per-thread, -1 no
                     ordering, or a handle; None or -1 for host memory
        max_version  None or (0, x) gives a legacy capsule, which read-only memory refuses
        dl_device    (1, 0) asks for host memory, by copy if need be
        copy         True: always, False: never
        raises       ProtocolError   (a BufferError) whatever cannot be exported
        """
        return (_exporting or _begin_exporting()).dlpack_capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (device type, id)."""
        return (_exporting or _begin_exporting()).dlpack_device(self)  # type: ignore[no-any-return]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return the CUDA Array Interface, version 3; AttributeError where the device cannot reach the memory."""
        return (_exporting or _begin_exporting()).cuda_array_interface(self)  # type: ignore[no-any-return]

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Return the array interface, version 3; AttributeError where the CPU cannot reach the memory."""
        return (_exporting or _begin_exporting()).array_interface(self)  # type: ignore[no-any-return]

    def __buffer__(self, flags: int) -> memoryview:
        """Export by the buffer protocol, on Python 3.12 and later; see memoryview()."""
        return (_exporting or _begin_exporting()).memory_view(self, bool(flags & 1))  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return a NumPy array.

        TypeError where the CPU cannot reach the memory, which NumPy would else walk through by items.
        """
        return (_exporting or _begin_exporting()).numpy_array(self, dtype, copy)

    def memoryview(self) -> memoryview:
        """Return a memoryview that keeps this view alive; raises BufferError where the CPU cannot reach the memory."""
        return (_exporting or _begin_exporting()).memory_view(self)  # type: ignore[no-any-return]


class _MemoryView(StridedView):
    """A view of memory that can be closed: then its address is not given away any more.

    start   the same as ptr, for callers that have checked that the owner is open
    _lease  while it is held, close() does not free the bytes: it is taken when the view is exported
    """

    __slots__ = ("start", "_lease")
    __dlpack_c_exchange_api__ = _Table()
    owner: Any = Description.__dict__["_owner"]  # the Memory, without the call of a property: launches read it

    @property
    def ptr(self) -> int:
        """Return the address of the first element; raises Closed after the memory's close()."""
        self._owner.handle
        return self.start

    @ptr.setter
    def ptr(self, address: int) -> None:
        self.start = address

    def _kept(self) -> object:
        return self._owner.lease()

    def _held(self) -> StridedView:
        held = self._derived(self.ptr, self.shape, self.strides)
        held._hold()
        return held

    def _hold(self) -> None:
        self._lease = self._owner.lease()


class _StreamedView(StridedView):
    """A view of memory whose exporter named the stream that it works on: that stream must not run ahead of our use."""

    __slots__ = ("exporting_stream",)
    __dlpack_c_exchange_api__ = _Table()

    exporting_stream: int | None

    def _derived(
        self, ptr: int, shape: Ints, strides: Ints, dtype: DType | None = None, readonly: bool = False
    ) -> StridedView:
        made = super()._derived(ptr, shape, strides, dtype, readonly)
        made.exporting_stream = getattr(self, "exporting_stream", None)  # type: ignore[attr-defined]
        return made


StridedView._plain_kind = StridedView
for _kind in (_MemoryView, _StreamedView):  # what an error message says of them
    _kind.__name__ = _kind.__qualname__ = StridedView.__name__
StridedView._streamed = _StreamedView


# -- view()

_lasting_reader, _reader = lasting.get, readers[None].get


def view(obj: Any, stream: Any = None, protocol: str | None = None, writable: bool | None = None) -> StridedView:
    """View any exporter's memory without a copy.

    obj       anything with __dlpack__, __dlpack_c_exchange_api__, __cuda_array_interface__, __array_interface__ or the
              buffer protocol; or a DLPack capsule, which is consumed
    stream    the stream that will use CUDA memory: None or 1 legacy, 2 per-thread, a Stream, a __cuda_stream__ object,
              a handle, or NO_SYNC for no ordering. Host memory takes any of them and needs none
    protocol  only this one: "dlpack" "dlpack_c_exchange" "cuda_array_interface" "array_interface" "buffer"
    writable  True: count as writable what its protocol cannot call read-only; False: make the view read-only
    order     a BufferError falls to the next protocol; any other exception is the exporter's own
    raises    ProtocolError   the memory cannot be viewed: names protocol, field, value and remedy
              TypeError       no exporter, or no stream
    """
    if stream is not None and not (
        type(stream) is _stream_kind
        and stream._handle is not None
        or type(stream) is int
        and (0 < stream < 0x7FFFFFFFFFFFFFFF or stream == -1)
    ):
        (_cuda or _cuda_side()).handle_of(stream)  # what is no stream is refused, also where none is needed
    read: Any = None if protocol is not None else _lasting_reader(type(obj)) or _reader(id(type(obj)))
    if read is None:
        read = reader_of(obj, protocol)
    made = read(obj, StridedView, stream)
    if writable is not None:
        _set_writable(made, writable)
    return made  # type: ignore[no-any-return]


def _set_writable(made: Description, writable: bool) -> None:
    """Serve view(writable=...): this is the only place where a view may become writable after it was described."""
    where = made._place
    if not writable:
        made._place = place(where.device, True, where.protocol)
    elif where.unsaid:  # read-only only because the protocol could not say
        made._place = place(where.device, False, where.protocol)
    elif where.readonly:
        raise refusal(
            where.protocol,
            "readonly",
            True,
            "the exporter says so itself, and writable=True cannot change it; copy the array",
        )
