"""CUDA arrays: memory without addresses, whose layout suits textures and surfaces.

What it is   `OpaqueArray`, an array of 1 to 3 dimensions, of layers or of the faces of a cube; `ArrayRegion`, a part of
             one, selected by an index.
What not     It exports no protocol, since its memory has no address: data goes in and out by copies.
Source       CUDA Driver API, "Memory Management": cuArray3DCreate
Read next    mipmapped.py
"""

from __future__ import annotations

import ctypes

from ...arguments import SetOnce, as_int
from ...arrays.copying import readable
from ...arrays.strided import StridedView, view
from ...elements import layout
from ...elements.dtypes import of
from ...errors import Closed, a_kind, worded
from ...headers import cuda_h
from ...protocols.description import Unaddressed
from ..core.context import PrimaryContext, is_device, primary_of
from ..core.handles import ARRAY, shown_handle
from ..core.stream_arguments import InContext
from ..kernels.declared_parameters import Passed
from .formats import DTYPES, Form, Formed, vector_of
from .transfers import Box, load, move, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from typing_extensions import Self

    from ...elements.dtypes import DType
    from ...gpu.devices.device import Device
    from ..kernels.parameters import Slot

__all__ = ["ArrayRegion", "OpaqueArray", "descriptor_of", "refuse_passing", "shape_or_view"]


class _Copies(Unaddressed):
    """Copies from and to an array or a part of it."""

    __slots__ = ()

    def _box(self) -> Box:
        raise NotImplementedError

    def copy_from(self, source: object, *, stream: object = None) -> Self:
        """Copy from an exporter, or from an array or a part of one, and return self.

        shape   that of this array; several channels are an additional last dimension. The elements of an exporter are
                broadcast to the shape
        order   if pageable host memory takes part, the copy is complete on return; otherwise when the stream reaches
                it. A copy through a temporary array makes the CPU wait, too
        raises  TypeError   another dtype: nothing is converted
                ValueError  another shape
        """
        if isinstance(source, _Copies):
            move(self._box(), source._box(), stream)
        else:
            store(self._box(), source, stream)
        return self

    def copy_to(self, target: object, *, stream: object = None) -> Any:
        """Copy to a writable exporter, or to an array or a part of one, and return that.

        shape   as for copy_from(), without broadcasting
        order   as for copy_from()
        raises  TypeError      another dtype
                ValueError     another shape
                ProtocolError  the target is read-only
        """
        if isinstance(target, _Copies):
            move(target._box(), self._box(), stream)
        else:
            load(self._box(), target, stream)
        return target

    def download(self, *, stream: object = None) -> StridedView:
        """Copy into new host memory, and return a view of it when the copy is complete."""
        box = self._box()
        form = box.array.form
        if form.channels > 1:
            shape = (*box.shape, form.channels)
        else:
            shape = box.shape
        target = StridedView._plain_kind._empty_host(shape, form.dtype)
        load(box, target, stream)
        return target

    def tolist(self) -> Any:
        """Return nested lists of Python values."""
        return self.download().tolist()

    def __getitem__(self, key: object) -> ArrayRegion:
        """Return a part of the array; the index consists of ints and slices without a step."""
        box = self._box()
        start, counts, kept = _part(box.shape, key)
        parts = iter(zip(start, counts, kept))
        whole = [
            (first + begin, count, remains)
            for first, (begin, count, remains) in zip(
                box.start, [next(parts) if remained else (0, 1, False) for remained in box.kept]
            )
        ]
        return ArrayRegion(box.array, *[tuple(column) for column in zip(*whole)])

    def __setitem__(self, key: object, value: object) -> None:
        self[key].copy_from(value)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Raise TypeError, so that NumPy makes no implicit copy to the host."""
        raise TypeError("a copy from an array on the device to the host is never made implicitly: call download()")

    def __len__(self) -> int:
        shape = self._box().shape
        if not shape:
            raise TypeError("a single element has no len()")
        return shape[0]

    def __bool__(self) -> bool:
        return True

    __iter__ = None  # a loop over an array would copy row by row
    __contains__ = None


class OpaqueArray(SetOnce, _Copies, Formed, InContext, Passed):
    """A CUDA array: `shape`, `dtype`, `channels`, `device`; made by Device.array(), or a level of a MipmappedArray.

    >>> device = Device(0)
    >>> with device.array((4, 8), "float32") as image:
    ...     image.shape
    (4, 8)

    shape   (width,), (height, width) or (depth, height, width); the first of (layers, width), (layers, height, width)
            or (faces, n, n) counts layers or faces
    """

    __slots__ = ("form", "parent", "level", "_stream")
    _instead = "make another array"

    form: Form
    parent: object  # the MipmappedArray of a level, the owner of a borrowed array, or None
    level: int

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(
            "an OpaqueArray is made by Device.array(), or by OpaqueArray.borrow() for another owner's array"
        )

    @classmethod
    def create(cls, device: Device, form: Form) -> OpaqueArray:
        """Create an uninitialized array.

        calls   cuArray3DCreate_v2
        raises  OutOfMemory  not enough memory is free
                ValueError   the device's limits are exceeded
        """
        made = cls.__new__(cls)
        made.form, made.parent, made.level, made._stream = form, None, 0, None
        _check_device(device)
        form.check_limits(device)
        made._create(device, ARRAY, (ctypes.byref(descriptor_of(form)),))
        return made

    @classmethod
    def borrow(cls, device: Device, handle: int, *, owner: object = None) -> OpaqueArray:
        """Return another owner's array, by its CUarray handle; close() does not destroy it.

        device  that of the array: the driver has no call that tells it, so another one is not noticed here
        owner   kept alive as long as this object
        calls   cuArray3DGetDescriptor_v2
        raises  InvalidUse  the driver does not know the handle
        """
        _check_device(device)
        number = as_int("handle", handle)
        if not 0 < number < 2**64:
            raise ValueError(f"handle={worded(number)} is not a CUarray handle")
        found = cuda_h.CUDA_ARRAY3D_DESCRIPTOR()
        with device.current():
            device._primary.driver.cuArray3DGetDescriptor_v2(ctypes.byref(found), cuda_h.CUarray(number))
        if found.Format not in DTYPES:
            raise ValueError(f"arrays of CUarray_format {int(found.Format):#x} are not supported")
        flags = found.Flags
        shape = tuple([extent for extent in (found.Depth, found.Height, found.Width) if extent])
        form = Form(shape, DTYPES[found.Format], found.NumChannels, *[bool(flags & bit) for bit in (1, 4, 2, 8)])
        return cls._over(device, number, form, owner, 0)

    @classmethod
    def _over(cls, device: object, handle: int, form: Form, parent: Any, level: int) -> OpaqueArray:
        """Make an array for a handle that another object releases."""
        made = cls.__new__(cls)
        primary = primary_of(device)
        assert primary is not None
        made._device, made._primary, made._calls, made._argument = device, primary, primary.calls, None
        made.form, made.parent, made.level, made._stream = form, parent, level, None
        made._own(handle, None)
        return made

    def _open(self) -> PrimaryContext:
        """Return the context; raises Closed if this array, or the array that it is a level of, is closed."""
        self.handle
        parent = self.parent
        if isinstance(parent, OpaqueArray):
            parent._open()  # it was borrowed
        elif isinstance(parent, InContext) and parent._handle is None:
            raise Closed(f"the {type(parent).__name__} of this array is closed: make a new one, or close it later")
        primary = self._primary
        assert primary is not None
        return primary

    def _origin(self) -> Formed:
        if isinstance(self.parent, Formed):
            return self.parent._origin()
        return self

    def _pass(self, slot: Slot) -> NoReturn:
        refuse_passing(self, slot)

    # -- facts

    @property
    def ndim(self) -> int:
        """Return the number of dimensions, including that of the layers."""
        return len(self.form.shape)

    @property
    def nbytes(self) -> int:
        """Return the size of the content in bytes; the driver may use more."""
        return layout.size(self.form.shape) * self.form.itemsize

    @property
    def layered(self) -> bool:
        """Tell whether the first dimension counts layers (or, of a cubemap, faces of several cubes)."""
        return bool(self.form.layered)

    @property
    def cubemap(self) -> bool:
        """Tell whether the layers are the faces of cubes."""
        return bool(self.form.cubemap)

    @property
    def surface(self) -> bool:
        """Tell whether the array was made for surfaces, so that kernels can write to it."""
        return bool(self.form.surface)

    @property
    def gather(self) -> bool:
        """Tell whether the array was made for tex2Dgather()."""
        return bool(self.form.gather)

    # -- parts

    def _box(self) -> Box:
        shape = self.form.shape
        return Box(self, (0,) * len(shape), shape, (True,) * len(shape))

    def __repr__(self) -> str:
        where = shown_handle(self)
        level = ""
        if isinstance(self.parent, Formed) and not isinstance(self.parent, OpaqueArray):
            level = f", level {self.level}"
        return f"<OpaqueArray {where} {self.form.describe()}, {self.form.kind}{level}, device {self.device.ordinal}>"


class ArrayRegion(_Copies, Passed):
    """A part of an OpaqueArray, which copies read and write: `array`, `shape`."""

    __slots__ = ("array", "_start", "_counts", "_kept")

    def __init__(
        self, array: OpaqueArray, start: tuple[int, ...], counts: tuple[int, ...], kept: tuple[bool, ...]
    ) -> None:
        self.array, self._start, self._counts, self._kept = array, start, counts, kept

    def _box(self) -> Box:
        return Box(self.array, self._start, self._counts, self._kept)

    def _pass(self, slot: Slot) -> NoReturn:
        refuse_passing(self, slot)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents in elements."""
        return self._box().shape

    def __repr__(self) -> str:
        parts = []
        for start, count, kept in zip(self._start, self._counts, self._kept):
            parts.append(f"{start}:{start + count}" if kept else str(start))
        return f"<ArrayRegion [{', '.join(parts)}] of {self.array!r}>"


def refuse_passing(array: object, slot: Slot) -> NoReturn:
    """Refuse an array as an argument of a kernel."""
    slot.refuse(
        TypeError,
        array,
        "has no address: give a texture, device.texture(it), or a surface, device.surface(it); device.upload(x) makes "
        "an array that has one",
    )


def _part(shape: tuple[int, ...], key: object) -> tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...]]:
    """Return where a part begins, how many elements it has, and which dimensions remain."""
    keys = list(key) if isinstance(key, tuple) else [key]
    places = [number for number, item in enumerate(keys) if item is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can have one ellipsis (...)")
    if places:
        at = places[0]
        keys[at : at + 1] = [slice(None)] * (len(shape) - len(keys) + 1)
    if len(keys) > len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} dimensions, and {len(keys)} were given")
    keys += [slice(None)] * (len(shape) - len(keys))
    start, counts, kept = [], [], []
    for axis, (item, extent) in enumerate(zip(keys, shape)):
        if isinstance(item, slice):
            begin, end, step = item.indices(extent)
            if step != 1:
                raise IndexError(f"a part of an array has no gaps: the step of dimension {axis} must be 1, not {step}")
            start.append(begin)
            counts.append(max(end - begin, 0))
        elif isinstance(item, bool) or not hasattr(type(item), "__index__"):
            raise IndexError(f"an index of an array is an int, a slice or an ellipsis, not {a_kind(item)}")
        else:
            number = as_int("an index of an array", item)
            if not -extent <= number < extent:
                raise IndexError(f"index {worded(number)} is out of bounds for dimension {axis} with {extent} elements")
            start.append(number % extent)
            counts.append(1)
        kept.append(isinstance(item, slice))
    return tuple(start), tuple(counts), tuple(kept)


def descriptor_of(form: Form) -> Any:
    """Return the CUDA_ARRAY3D_DESCRIPTOR of a form."""
    from .formats import FORMATS

    made = cuda_h.CUDA_ARRAY3D_DESCRIPTOR()
    made.Width, made.Height, made.Depth = form.extents
    made.Format, made.NumChannels, made.Flags = FORMATS[form.dtype.name], form.channels, form.flags
    return made


def _check_device(device: object) -> None:
    if not is_device(device):
        raise TypeError(f"an array needs a Device, not {a_kind(device)}")


def shape_or_view(
    given: object, dtype: object, channels: int | None, stream: object
) -> tuple[object, DType, int, StridedView | None]:
    """Return shape, dtype and channels, and the view if an exporter was given instead of a shape.

    channels  None: 1 for a shape, and for an exporter 1, or as many as its dtype has (float32x4, complex64)
    raises    TypeError   no dtype for a shape, or another one than that of the exporter
              ValueError  an exporter whose last dimension is not the channels
    """
    # The arrays of some libraries also have __index__, for those without dimensions.
    if isinstance(given, (tuple, list)) or hasattr(type(given), "__index__") and not getattr(given, "ndim", 0):
        wrong = []
        if isinstance(given, (tuple, list)):
            wrong = [each for each in given if isinstance(each, (tuple, list, float))]
        if wrong:
            raise TypeError(
                f"a {type(given).__name__} is read as a shape, which has ints only, not {a_kind(wrong[0])}: to copy "
                "its elements, make an array of it with numpy.asarray or array.array"
            )
        if dtype is None:
            raise TypeError('an array with a shape also needs a dtype: give one, such as "float32"')
        component, lanes = vector_of(of(dtype))
        return given, component, lanes if channels is None else channels, None
    data = readable(given, stream)
    if not isinstance(data, StridedView):  # it is a Memory
        data = view(data, stream=stream)
    component, lanes = vector_of(data.dtype)
    if dtype is not None and vector_of(of(dtype))[0] is not component:
        raise TypeError(f"the data has dtype {data.dtype}, but dtype={of(dtype)} was given: leave dtype out")
    if channels is None or lanes > 1:
        return data.shape, component, lanes if channels is None else channels, data
    if channels != 1:
        if not data.shape or data.shape[-1] != channels:
            raise ValueError(f"shape {data.shape}: with channels={channels}, the last dimension must have {channels}")
        return data.shape[:-1], component, channels, data
    return data.shape, component, 1, data
