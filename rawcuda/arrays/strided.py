"""view() and StridedView: memory with a layout and a dtype, which exports every protocol that it imports.

What it is   The arrays of this package, both over its own memory and over that of other libraries. A StridedView is the
             Description that a protocol gave, with methods. It copies nothing by itself, and keeps the memory alive.
What not     It computes nothing, and converts no dtype. What uses a device is imported on first use, so views of
             host memory work without a driver, and without the files that need one.
Read next    exporting.py, copying.py
"""

from __future__ import annotations

from ..arguments import as_bool, as_int
from ..elements import layout
from ..errors import refusal
from ..hints import hinted
from ..late import Late
from ..protocols.choosing import reader_of, readers
from ..protocols.description import Description, OwnedCapsule, Place, describe_as, place
from ..protocols.device_memory import gpu
from ..tracing import in_use
from .number import Numeric
from .reshaping import Reshaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from ..elements.dtypes import DType
    from ..protocols.description import Ints, Where

__all__ = ["StridedView", "view"]


@Late
def conversion() -> ModuleType:
    """Return conversion.py: assignments and conversions."""
    from . import conversion

    return conversion


@Late
def exporting() -> ModuleType:
    """Return exporting.py."""
    from . import exporting

    return exporting


@Late
def copying() -> ModuleType:
    """Return copying.py."""
    from . import copying

    return copying


class _Table:
    """A property of the class and of its instances: the C exchange table, which is made on first access."""

    def __get__(self, view: object, kind: object = None) -> Any:
        try:
            from .exchange_table import offer
        except NotImplementedError as error:  # it was left out of a vendored part: consumers use __dlpack__
            raise AttributeError(str(error)) from None
        return offer(_PlainView)


@hinted
class StridedView(Reshaped, Numeric):
    """A view of strided memory: `ptr shape strides dtype` and the device; made by view(), by indexing or by a Device.

    view() makes one of any array, and Device.empty() and Device.upload() of memory on the GPU.

    >>> view = view(bytearray(6)).reshape(2, 3)
    >>> view.shape, view.strides, view[:, ::2].tolist()
    ((2, 3), (3, 1), [[0, 0], [0, 0]])

    ptr      address of the first element
    strides  in bytes, one per dimension; element_strides are in elements, as in DLPack
    stream   the stream in whose order the memory is ready, as the caller gave it, or 1 for the default stream; None:
             nothing is pending
    Why long  every attribute, protocol and method of an array is one of its own; each only says what a lower module
              does
    """

    __slots__ = ("__weakref__",)

    __dlpack_c_exchange_api__ = _Table()
    _plain_kind: type[StridedView]  # the class of plain views, and of copies in new host memory

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(
            "a StridedView is made by view(exporter), by Device.empty() and upload(), by Memory.view(), or by indexing"
        )

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
        """Make a view of an owner's memory, without any checks."""
        where = place(device, readonly, protocol)
        return describe_as(cls, address, shape, strides, dtype, where, owner, stream)  # type: ignore[no-any-return]

    def _derived(
        self, ptr: int, shape: Ints, strides: Ints, dtype: DType | None = None, readonly: bool = False
    ) -> StridedView:
        """Make another view of the same memory."""
        made = type(self)()
        made._ptr, made._shape, made._strides = ptr, shape, strides  # (four at once build a tuple, which takes 30 ns)
        made._owner, made.stream, made._side = self._owner, self.stream, None
        made._dtype = self._dtype if dtype is None else dtype
        made._place = self._place.frozen if readonly else self._place
        return made

    def _viewed_again(self, kind: object, stream: Any) -> StridedView:
        """Serve view(self): the same memory, in another stream's order if one is given."""
        made = self._derived(self.ptr, self.shape, self.strides)
        if stream is not None and self.is_device_accessible:
            gpu.make_wait(gpu.handle_of(stream), self)
            made.stream = gpu.noted_form(stream)
        return made

    def _kept(self) -> object:
        """Return the object that keeps the memory alive while an exported tensor exists; see _MemoryView."""
        return self

    def _held(self) -> StridedView:
        """Return a view that keeps the memory alive while its buffer is exported; see _MemoryView."""
        return self

    def _hold(self) -> None:
        """Keep the memory alive as long as this view exists; see _MemoryView."""

    def _check_label(self) -> None:
        """If a driver is in use, check with it that foreign memory is on the device that its exporter named."""
        if in_use and not in_use[0].forked and self._place.protocol != "memory":
            gpu.check_label(self)

    @classmethod
    def _empty_host(cls, shape: Ints, dtype: DType) -> StridedView:
        """Make an array in new host memory."""
        from .host_copy import empty_host

        return empty_host(cls, shape, dtype)

    def _like(self, shape: Ints, dtype: DType) -> StridedView:
        """Make an array in new memory of the same kind; instead of pinned memory that is not ours, pageable memory."""
        made: StridedView | None = None
        if not self._place.is_host:
            made = gpu.empty_like(self, shape, dtype)
        if made is None:
            made = self._plain_kind._empty_host(shape, dtype)
        return made

    def _duplicate(self, stream: Any) -> StridedView:
        """Copy into new memory of the same kind, on a stream, and return the copy."""
        from .copying import duplicate

        return duplicate(self, stream)

    # -- properties

    @property
    def owner(self) -> Any:
        """Return the object that keeps the memory alive: a capsule's tensor, a buffer, a Memory, the exporter."""
        if type(self._owner).__name__ == "PyCapsule":
            return OwnedCapsule(self._owner)
        return self._owner

    @property
    def device(self) -> tuple[str, int | None]:
        """Return (kind, ordinal), where kind is "cpu", "cuda", "cuda_host" or "cuda_managed"."""
        return self._place.device or ("cuda", None)

    @property
    def readonly(self) -> bool:
        """Tell whether the memory must not be written through this view."""
        return self._place.readonly

    @property
    def protocol(self) -> str:
        """Return the protocol by which the memory was viewed; "memory" for our own."""
        return self._place.protocol

    @property
    def itemsize(self) -> int:
        """Return the size of an element in bytes."""
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
        """Return the total size of the elements in bytes, without gaps."""
        return layout.size(self.shape) * self.dtype.itemsize

    @property
    def element_strides(self) -> Ints:
        """Return the strides in elements; raises ValueError if a stride is not a whole number of elements."""
        itemsize = self.dtype.itemsize or 1
        if any(stride % itemsize for stride in self.strides):
            raise ValueError(
                f"strides {self.strides} are not whole numbers of elements of {itemsize} bytes: use strides instead"
            )
        return tuple([stride // itemsize for stride in self.strides])

    @property
    def is_c_contiguous(self) -> bool:
        """Tell whether the elements lie in row-major order without gaps."""
        return layout.is_c_contiguous(self.shape, self.strides, self.dtype.itemsize)

    @property
    def is_f_contiguous(self) -> bool:
        """Tell whether the elements lie in column-major order without gaps."""
        return layout.is_f_contiguous(self.shape, self.strides, self.dtype.itemsize)

    @property
    def is_host_accessible(self) -> bool:
        """Tell whether the CPU can read the memory."""
        return self.device[0] != "cuda"

    @property
    def is_device_accessible(self) -> bool:
        """Tell whether a device can read the memory, according to its label."""
        return self.device[0] != "cpu"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    @property
    def flags(self) -> Any:
        """Return the flags of NumPy's arrays: flags.c_contiguous, flags.writeable, flags["F_CONTIGUOUS"]..."""
        from .flags import Flags

        return Flags(self)

    def __sizeof__(self) -> int:
        # Schedulers such as Dask's ask for this size. Elements may share bytes, as those of a broadcast view do.
        low, high = layout.extent(self.shape, self.strides, self.itemsize)
        return object.__sizeof__(self) + min(self.nbytes, high - low)

    def __repr__(self) -> str:
        kind, ordinal = self.device
        if kind in ("cpu", "cuda_host"):
            where = kind
        else:
            where = f"{kind}:{ordinal}"
        values = ""
        if self._place.is_host:
            from .conversion import shown

            values = shown(self)
        return (
            f"<StridedView {self.dtype} {self.shape} strides {self.strides} on {where}"
            f"{', read-only' if self.readonly else ''}, by {self.protocol}{values and f': {values}'}>"
        )

    def _repr_svg_(self) -> str | None:
        from .. import _picture

        return _picture(self)

    def _repr_html_(self) -> str | None:
        from .. import _html

        picture = self._repr_svg_()
        if picture:
            return _html(repr(self), picture)
        return None

    # -- copies

    def copy_from(self, source: Any, *, stream: Any = None) -> StridedView:
        """Copy the elements of an exporter into this view, broadcast to its shape, and return self.

        See copy().
        """
        copying.copy(self, source, stream=stream)
        return self

    def copy_to(self, target: Any, *, stream: Any = None) -> Any:
        """Copy the elements into a writable exporter, and return that; see copy()."""
        copying.copy(target, self, stream=stream)
        return target

    def fill(self, value: Any, *, stream: Any = None) -> StridedView:
        """Set every element to a value, and return self.

        value   a number that the dtype can represent, or the bytes of one element
        order   host memory is filled on return, device memory when the stream reaches the fill
        raises  ProtocolError   the view is read-only
                ValueError      the number does not fit
                InvalidUse      the stream is being captured, and the fill would be too many calls of the driver
        """
        copying.fill(self, value, stream)
        return self

    def download(self, *, stream: Any = None) -> StridedView:
        """Return a copy in new host memory, in C order, after the copy is complete."""
        return copying.download(self, stream)  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers, or of bytes if the dtype is opaque.

        A view without dimensions gives one number.
        """
        return copying.tolist(self)

    def item(self, *index: int | tuple[int, ...]) -> Any:
        """Return one element as a Python number, or as bytes if the dtype is opaque.

        index   the element: an int for each dimension, or one int, its position in C order; without it, the only one
        raises  ValueError  no index, and not exactly one element
                IndexError  there is no such element
        """
        if index:
            given: Any
            if len(index) == 1 and isinstance(index[0], tuple):
                given = index[0]
            else:
                given = index
            if len(given) == 1 != len(self.shape):
                return self.flat[given[0]]
            part = self[tuple([as_int("an index of item()", number) for number in given])]
            if part.shape:
                raise IndexError(f"item() takes one index for each dimension, {len(self.shape)}, or none, not {index}")
            return part.item()
        if self.size != 1:
            raise ValueError(f"can only convert a view of size 1 to a Python number, not one of shape {self.shape}")
        return copying.tolist(self.reshape(()) if self.shape else self)

    def copy(self, *, stream: Any = None) -> StridedView:
        """Return a copy in new memory of the same kind, in C order, made in the order of a stream."""
        return copying.duplicate(self, stream)  # type: ignore[no-any-return]

    def astype(self, dtype: Any, *, copy: bool = True) -> StridedView:
        """Return the elements converted to another dtype, in new memory of the same kind, in C order.

        Numbers that do not fit are truncated or wrap around, as in C. They are converted on the CPU: those of a device
        are fetched and sent back, so a kernel is the better way for large arrays.
        copy    False: return this view itself if it has the dtype already
        raises  TypeError  a dtype that is not of numbers
        """
        from .conversion import as_type

        return as_type(self, dtype, as_bool("copy", copy))  # type: ignore[no-any-return]

    def tobytes(self, order: str = "C") -> bytes:
        """Return a copy of the elements as bytes, in row-major order "C" or in column-major order "F"."""
        from .conversion import to_bytes

        return to_bytes(self, order)

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __setitem__(self, key: object, value: Any) -> None:
        part = self[key]
        try:
            conversion.assign(part, value)
        finally:  # an interrupt may end the call after the work was queued
            self.stream = part.stream  # which has waited for the old one, so all elements are ready in its order

    # -- pickling and copying

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Describe the view for pickle: the receiver gets a copy of the elements.

        What was device memory arrives on the receiver's current device; receive_on() changes that. With protocol 5,
        host memory in C or Fortran order travels out of band, without a copy.
        """
        from .pickling import reduce_view

        return reduce_view(self, protocol)

    def __copy__(self) -> StridedView:
        return self._derived(self.ptr, self.shape, self.strides)

    def __deepcopy__(self, memo: object) -> StridedView:
        turned = self.is_f_contiguous and not self.is_c_contiguous
        if turned:
            return self.T.copy().T
        return self.copy()

    # -- exports; exporting.py implements them

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """Export the view by DLPack.

        stream       the consumer's stream, which will wait for pending work: None or 1 legacy, 2 per-thread, -1 no
                     ordering, or a handle; None or -1 for host memory
        max_version  None or (0, x) gives a legacy capsule, which is refused for read-only memory
        dl_device    (1, 0) requests host memory, copied if necessary
        copy         True: always copy; False: never copy
        raises       ProtocolError   (a BufferError) the view cannot be exported
        """
        return exporting.dlpack_capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the (device type, id) of DLPack."""
        return exporting.dlpack_device(self)  # type: ignore[no-any-return]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return the CUDA Array Interface, version 3; raises AttributeError if the device cannot access the memory."""
        return exporting.cuda_array_interface(self)  # type: ignore[no-any-return]

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Return the array interface, version 3; raises AttributeError if the CPU cannot access the memory."""
        return exporting.array_interface(self)  # type: ignore[no-any-return]

    @property
    def __arrow_c_array__(self) -> Any:
        """Return the export through the Arrow C data interface; AttributeError unless it is one run of host memory."""
        try:
            from .arrow_export import arrow_exporter
        except NotImplementedError as error:  # it was left out of a vendored part
            raise AttributeError(str(error)) from None
        return arrow_exporter(self)

    def __buffer__(self, flags: int) -> memoryview:
        """Export the view by the buffer protocol, on Python 3.12 and later; BufferError if NumPy would misread it."""
        return exporting.buffer(self, flags)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return a NumPy array.

        Raises TypeError if the CPU cannot access the memory: otherwise NumPy would read it item by item.
        """
        return exporting.numpy_array(self, dtype, copy)

    @property
    def __numpy_dtype__(self) -> Any:
        """Return the numpy.dtype of the elements: NumPy asks an array for it in result_type() and dtype()."""
        return self.dtype.dtype

    def memoryview(self) -> memoryview:
        """Return a memoryview that keeps this view alive; raises BufferError if the CPU cannot access the memory."""
        return exporting.memory_view(self)  # type: ignore[no-any-return]


class _PlainView(StridedView):
    """A view that can be made: all views are of this class or of a subclass. `object.__init__` costs nothing."""

    __slots__ = ()
    __dlpack_c_exchange_api__ = _Table()
    __init__ = object.__init__


class _MemoryView(_PlainView):
    """A view of memory that can be closed, after which it no longer gives its address.

    _lease  set when an array interface of the view is read; while it exists, close() does not free the bytes
    """

    __slots__ = ("_lease",)
    __dlpack_c_exchange_api__ = _Table()

    @property
    def ptr(self) -> int:  # type: ignore[override]
        """Return the address of the first element; raises Closed after the memory's close()."""
        if self._owner._handle is None:
            self._owner.handle  # raises Closed
        return self._ptr

    def _kept(self) -> object:
        return self._owner.lease()

    def _held(self) -> StridedView:
        held = self._derived(self.ptr, self.shape, self.strides)
        held._hold()
        return held

    def _hold(self) -> None:
        self._lease = self._owner.lease()


class _StreamedView(_PlainView):
    """A view of memory whose exporter named its stream, which must wait for our use of the memory."""

    __slots__ = ("exporting_stream",)
    __dlpack_c_exchange_api__ = _Table()

    exporting_stream: int | None

    def _derived(
        self, ptr: int, shape: Ints, strides: Ints, dtype: DType | None = None, readonly: bool = False
    ) -> StridedView:
        made = super()._derived(ptr, shape, strides, dtype, readonly)
        made.exporting_stream = getattr(self, "exporting_stream", None)  # type: ignore[attr-defined]
        return made


StridedView._plain_kind = Description._viewed = _PlainView
for _kind in (_PlainView, _MemoryView, _StreamedView):  # so that error messages show the public name
    _kind.__name__ = StridedView.__name__  # (by __qualname__, pickle finds the class itself)
StridedView._streamed = _StreamedView


# -- view()

_readers = readers[None].answers


def view(obj: Any, stream: Any = None, protocol: str | None = None, writable: bool | None = None) -> StridedView:
    """Return a view of an exporter's memory, without a copy.

    After a BufferError, TypeError, ValueError, NotImplementedError, RuntimeError or ImportError of the exporter the
    next protocol is tried; if none gives the memory, the first exception is raised.

    obj       an object with __dlpack__, __dlpack_c_exchange_api__, __cuda_array_interface__, __array_interface__, the
              buffer protocol, or the Arrow C interfaces; or a DLPack capsule, which is consumed
    stream    the stream that will use CUDA memory: None or 1 legacy, 2 per-thread, a Stream, a __cuda_stream__ object,
              a handle, or NO_SYNC for no ordering. For host memory any of them is accepted and ignored
    protocol  try only this one: "dlpack" "dlpack_c_exchange" "cuda_array_interface" "array_interface" "buffer" "arrow"
    writable  True: allow writing if the protocol cannot express read-only memory; False: make the view read-only
    raises    ProtocolError   the memory cannot be viewed; the message names protocol, field, value and remedy
              TypeError       obj does not export its memory, or stream is not a stream
    """
    if stream is not None:
        kind = type(stream)
        if kind is int:
            known = 0 < stream < 0x7FFFFFFFFFFFFFFF or stream == -1
        else:
            known = kind is gpu.Stream and stream._handle is not None
        if not known:
            stream = gpu.settled(stream)  # it is refused if it is invalid
    try:
        if protocol is None:
            read: Any = _readers[id(type(obj))]
        else:
            read = reader_of(obj, protocol)
    except KeyError:
        read = reader_of(obj, protocol)
    made = read(obj, _PlainView, stream)
    if writable is not None:
        if as_bool("writable", writable):
            made._place = _writable(made._place)
        else:
            made._place = made._place.frozen
    return made  # type: ignore[no-any-return]


def _writable(where: Place) -> Place:
    """Apply view(writable=True); only this function may make a view writable after it was described."""
    if where.unsaid:  # read-only because the protocol cannot express writability
        return place(where.device, False, where.protocol)
    if where.readonly:
        raise refusal(
            where.protocol,
            "readonly",
            True,
            "the exporter declares it read-only, and writable=True cannot change that; copy the array",
        )
    return where
