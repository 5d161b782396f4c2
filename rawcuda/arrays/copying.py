"""Copies and fills of any layout, between host and device and within each.

What it is   the decisions: which copies and fills are a single call of the driver, which are one memmove, and which
             walk over their elements; which memory may be written to; that a copy converts nothing.
How          The facts about a view or a Memory that a copy needs are determined once, and the object keeps them as its
             `Side`. Views of the same shape and strides share a `Form`, which exists once. If both sides have the same
             form, each is one run of bytes, and gpu/copies/contiguous.py copies it in any kind of
             memory. Other copies are walks.
What not     it calls no cu* function: gpu/copies/contiguous.py and gpu/copies/ do, through protocols/device_memory.py.
Order        If pageable memory takes part, the copy is complete on return; otherwise it is in stream order.
Read next    host_copy.py, gpu/copies/contiguous.py, gpu/copies/device_copy.py
"""

from __future__ import annotations

import struct
import sys
from ctypes import memmove

from ..elements import layout
from ..elements.dtypes import of as dtype_of
from ..elements.scalars import decode, encode, refuse_masked
from ..errors import ProtocolError, protecting, refusal
from ..interpreter.cpython import as_argument, bytes_at
from ..protocols.choosing import OFFERS, reader_of
from ..protocols.description import Bytes, Description, Examined, Unaddressed
from ..protocols.device_memory import gpu
from ..protocols.refusals import InChunks, add_note, means_another
from ..remembered import HEAP, Remembered
from ..tracing import in_use
from . import host_copy
from .host_copy import Walk, empty_host, walk_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..elements.dtypes import DType
    from .strided import StridedView

    Ints = tuple[int, ...]

__all__ = [
    "Form",
    "CheckedCopy",
    "Side",
    "copy",
    "download",
    "duplicate",
    "examine",
    "fill",
    "pattern_of",
    "plan_fill",
    "readable",
    "widest",
    "tolist",
]

# -- the facts about each side


class Form:
    """The common part of the views of one shape, strides and dtype.

    dtype       the DType; None: the bytes of a Memory
    pack        packs a number into the bytes of an element, see _PACK; None if there is no such function
    itemsize    1 for a Memory
    nbytes      of the elements, without gaps
    size        nbytes as a prepared argument if the elements are one run of bytes, whose first element comes first;
                else None, as where there are no elements
    in_c_order  whether they are one run in C order
    shape, strides, offset  the same elements with merged dimensions, as layout.coalesce returns them
    rows        (bytes of a row, pitch, number of rows) if the elements are rows of bytes, which begin at offset
    fills       for a value that filled it, an int or the bytes of an element: the calls of the driver that do it
    is_safe     whether no two elements share bytes
    """

    __slots__ = (
        "dtype", "pack", "itemsize", "nbytes", "size", "in_c_order", "shape", "strides", "offset", "rows",
        "fills", "is_safe",
    )  # fmt: skip

    def __init__(self, shape: Ints, strides: Ints, dtype: DType | None) -> None:
        self.dtype, self.itemsize = dtype, 1
        if dtype is not None:
            self.itemsize = dtype.itemsize
        itemsize = self.itemsize
        self.nbytes = layout.size(shape) * itemsize
        self.pack: Any = _PACK.get((dtype or _BYTE).name)
        self.shape, (self.strides,), (self.offset,) = layout.coalesce(shape, strides)
        dense = self.nbytes > 0 and (not self.shape or self.strides == (itemsize,)) and not self.offset
        self.size = as_argument(self.nbytes) if dense else None
        self.is_safe = dense or not self.nbytes or not layout.repeats(shape, strides, itemsize)
        self.in_c_order = dense and layout.is_c_contiguous(shape, strides, itemsize)
        self.rows = _rows(self.shape, self.strides, itemsize)
        self.fills: Remembered[Any, Any] = Remembered(32)


def _rows(shape: Ints, strides: Ints, itemsize: int) -> tuple[int, int, int] | None:
    if len(shape) == 2 and strides[1] == itemsize:
        return shape[1] * itemsize, strides[0], shape[0]
    if len(shape) == 1:
        return (itemsize, strides[0], shape[0])
    return None


# (shape, strides, id of the dtype, which the Form keeps alive) -> Form. Making one takes several microseconds, the
# look-up 70 ns.
_forms: Remembered[tuple[Ints, Ints, int], Form] = Remembered(1000)


def _make_form(shape: Ints, strides: Ints, dtype: DType | None) -> Form:
    return _forms.keep((shape, strides, id(dtype)), Form(shape, strides, dtype))


class Side:
    """The facts about a view or a Memory that a copy or a fill needs; they are determined once.

    form      the Form
    run       the Form, if the elements are one run of bytes, else None; `target` is the same if it may be written
    address   of the first element; `end` is address + form.nbytes
    argument  the address as a prepared argument
    ours      whether it is a Memory or of one; the label of other memory is checked each time
    waits     whether it is our own memory, whose close() waits for pending work; other memory, also what a Memory
              borrows from another library, must be retained until work that uses it is done
    memory    for a view of our own memory, the Memory; else None
    primary   the context of the device that the memory belongs to; None for host memory that is not ours
    kind      "host" (pageable), "pinned", "device" or "managed"
    readonly  whether it must not be written
    """

    __slots__ = (
        "form", "run", "target", "address", "argument", "end", "ours", "waits", "memory", "primary", "kind", "readonly",
    )  # fmt: skip

    form: Form
    run: Form | None
    target: Form | None
    address: int
    argument: Any
    end: int
    ours: bool
    waits: bool
    memory: Any
    primary: Any
    kind: str
    readonly: bool


def examine(thing: Any) -> Side:
    """Make the Side of a view or a Memory, which keeps it if it cannot change.

    It can change if another owner may free the bytes of a borrowed Memory, or if no driver is in use that could find
    the context of foreign memory.
    raises  Closed  the memory is closed
    """
    made, is_final, memory, primary = Side(), True, None, None
    if isinstance(thing, Description):
        where, owner, dtype = thing._place, thing._owner, thing._dtype
        shape, strides = thing._shape, thing._strides
        made.kind, made.readonly, made.ours = where.kind, where.readonly, isinstance(owner, Bytes)
        made.waits = made.ours and (owner._keeps is None or owner._close_waits())  # (a call takes 2 % of a copy)
        if made.ours:
            memory, primary, address = owner, owner._primary, thing._ptr
            if owner._keeps is not None or owner._handle is None:
                is_final = False
                owner.ptr  # raises Closed
        else:
            address = thing.ptr
            if made.kind != "host":
                is_final = bool(in_use)
                if made.kind != "pinned":
                    primary = gpu.device_of(thing)
    else:
        # A Side with a reference to its own Memory would be a cycle, which only the garbage collector frees.
        shape, strides, dtype = (thing.nbytes,), (1,), None
        made.kind, made.readonly, made.ours, is_final = thing.kind, thing.readonly, True, thing._keeps is None
        primary, address, made.waits = thing._primary, thing.ptr, is_final or thing._close_waits()  # raises Closed
    try:
        form = _forms.answers[shape, strides, id(dtype)]
    except KeyError:
        form = _make_form(shape, strides, dtype)
    made.form, made.memory, made.primary = form, memory, primary
    made.address, made.argument, made.end = address, as_argument(address), address + form.nbytes
    made.run = made.target = None
    if form.size is not None:
        made.run = made.target = form
        if made.readonly:
            made.target = None
    if is_final:
        thing._side = made
        if dtype is None and thing.nbytes != form.nbytes:  # another thread has changed virtual memory meanwhile
            thing._side = None
    return made


# -- what a copy reads


def readable(exporter: Any, stream: Any = None) -> Any:
    """Return what a copy reads: the exporter itself if it is ours, else a view of it, or of what it can be turned into.

    Several chunks of an Arrow stream are put together. The last resort is `__array__`, the array that an object (a
    pandas Series, an h5py Dataset) makes anew each time: it can be copied from, but neither viewed nor copied to.
    """
    if isinstance(exporter, Examined):
        return exporter
    try:
        return reader_of(exporter, None)(exporter, Description._viewed, stream)
    except InChunks as apart:
        return _joined(apart.chunks)
    except Exception as refused:
        # As Arrow arrays, pandas turns NaN and NaT into nulls; its `__array__` keeps them, if the dtype is NumPy's.
        as_nulls = isinstance(refused, ProtocolError) and refused.protocol == "arrow" and _is_numpys(exporter)
        if not hasattr(type(exporter), "__array__") or not (means_another(refused) or as_nulls):
            raise
        return _by_array(exporter, refused)


def _by_array(exporter: Any, first: Exception) -> Any:
    """Return a view of the array that `__array__` makes, after all protocols refused.

    raises  ProtocolError  elements are missing, which the array cannot express
            first          `__array__` refuses, too
    """
    is_missing = getattr(exporter, "isna", None)  # pandas; its `__array__` replaces what is missing by NaN
    if callable(is_missing) and not _is_numpys(exporter) and _any(is_missing()):
        raise protecting(
            "__array__",
            "isna()",
            True,
            f"elements of the {type(exporter).__name__} are missing, which an array cannot express: fill or drop them",
        )
    try:
        array = exporter.__array__()
        return reader_of(array, None)(array, Description._viewed, None)
    except Exception as refused:
        if not means_another(refused) or not any([hasattr(exporter, name) for name in OFFERS]):
            raise
        if str(refused) != str(first):  # (NumPy's own arrays return themselves)
            add_note(first, f"__array__: {type(refused).__name__}: {refused}")
    raise first


def _any(flags: Any) -> bool:
    """Tell whether any element of pandas' answer is true; a table's answer has columns."""
    found = flags.any()
    return bool(found.any() if hasattr(found, "any") else found)


def _is_numpys(exporter: Any) -> bool:
    """Tell whether the dtype of an object, or that of each column, is NumPy's."""
    numpys: Any = getattr(sys.modules.get("numpy"), "dtype", ())
    said: Any = getattr(exporter, "dtypes", getattr(exporter, "dtype", None))
    if isinstance(said, numpys):
        return True
    return hasattr(said, "__iter__") and all([isinstance(each, numpys) for each in said])


def _joined(chunks: list[Any]) -> Any:
    """Return the elements of several views in new host memory."""
    first = chunks[0]
    count = sum([each.shape[0] for each in chunks])
    made = empty_host(first._plain_kind, (count, *first.shape[1:]), first.dtype)
    start = 0
    for each in chunks:
        copy(made[start : start + each.shape[0]], each)
        start += each.shape[0]
    return made


def _side_of(thing: Any, stream: Any) -> tuple[Any, Side]:
    """Return a view of an exporter, or the Memory itself, and its Side."""
    if isinstance(thing, Examined):
        return thing, examine(thing) if thing._side is None else thing._side
    made: Any = reader_of(thing, None)(thing, Description._viewed, stream)
    return made, examine(made)


# -- copies


def copy(dst: Any, src: Any, *, stream: Any = None) -> None:
    """Copy elements between any two exporters, of any layout, in host or device memory.

    A Memory itself has no dtype: if one takes part, bytes are copied, and the sizes must be equal; see Memory.view().
    A CUDA array, or a part of one, may be either side; see gpu/textures/opaque_arrays.py.

    shape   src is broadcast to dst's shape, as in an assignment of NumPy
    stream  the stream on which device memory is copied; None is the legacy default stream
    order   if pageable host memory takes part, the copy is complete on return; otherwise when the stream reaches it.
            If dst and src overlap, the result is as if src had been copied to a temporary buffer first
    raises  TypeError       different dtypes: nothing is converted
            ValueError      shapes that do not broadcast, or different sizes in bytes
            ProtocolError   dst is read-only
            InvalidUse      the stream is being captured, and a graph cannot contain this copy
    """
    to: Any = None
    of: Any = None
    if isinstance(dst, Examined) and isinstance(src, Examined):
        to, of = dst._side, src._side
    if to is None or of is None:
        try:
            (dst, to), (src, of) = _side_of(dst, stream), _side_of(readable(src, stream), stream)
        except TypeError:  # not an exporter; a test before this would take 80 ns
            if isinstance(dst, Unaddressed):
                dst.copy_from(src, stream=stream)
            elif isinstance(src, Unaddressed):
                src.copy_to(dst, stream=stream)
            else:
                raise
            return
    run = to.target
    if (run is None or run is not of.run) and not _are_bytes(to, of):
        walk = _checked_walk(dst, src, to, of)
        if stream is not None:
            gpu.handle_of(stream)  # an invalid stream is refused even if there is nothing to copy
        _follow(walk, dst, src, to, of, stream)
        return
    memory, other = to.memory, of.memory
    if memory is None or other is None or memory._handle is None or other._handle is None:
        _check_usable(to, dst)
        _check_usable(of, src)
    if to.kind == of.kind == "host":
        if stream is not None:
            gpu.check_host_work(stream, to.form.nbytes)
        memmove(to.address, of.address, to.form.nbytes)
    elif to.primary is of.primary is None or not gpu.copy_run(dst, src, to, of, stream):
        _follow(_walk(dst, src, to, of), dst, src, to, of, stream)


def plan_fill(target: Any, value: Any) -> tuple[Any, Side, bytes, bytes]:
    """Check a fill that will be done later, and return the target, its Side, and the bytes of an element.

    returns  also the widest word that the driver can repeat to get the same bytes, or no bytes
    """
    target, to = _side_of(target, None)
    pattern = encode(to.form.dtype or _BYTE, value)
    _check_target(to, target)
    return target, to, pattern, widest(pattern)


def _are_bytes(to: Side, of: Side) -> bool:
    """Tell whether a Memory takes part, and the bytes of both sides are one run of the same order and size."""
    some, other = to.form, of.form
    if some.dtype is not None and other.dtype is not None or to.readonly:
        return False
    return some.in_c_order and other.in_c_order and some.nbytes == other.nbytes


def _check_usable(side: Side, thing: Any) -> None:
    """Check that our memory is open, and that other memory is where its exporter says.

    raises  Closed         the memory is closed
            ProtocolError  the driver in use says that the memory is on another device
    """
    if side.ours:
        if side.memory is not None:
            thing = side.memory
        if thing._handle is None:
            thing.handle  # raises Closed
    elif in_use and not in_use[0].forked:  # (in a child of fork() no driver can be asked)
        gpu.check_label(thing)


def _check_target(to: Side, dst: Any) -> None:
    """Check that memory is open, may be written, and that no two of its elements share bytes.

    raises  Closed         the memory is closed
            ProtocolError  the memory is read-only
            ValueError     two elements share bytes
    """
    _check_usable(to, dst)
    if to.readonly:
        raise refusal(
            getattr(dst, "protocol", "memory"),
            "readonly",
            True,
            "the memory must not be written to; copy into another array, or "
            "use view(obj, writable=True) if only the protocol cannot express that it is writable",
        )
    if not to.form.is_safe:
        raise ValueError(
            f"with strides {dst.strides}, elements of shape {dst.shape} share bytes, so the result of a copy "
            "is undefined: copy into an array without overlapping elements"
        )


def _checked_walk(dst: Any, src: Any, to: Side, of: Side) -> Walk:
    """Return the walk of a copy, after all checks that its sides need."""
    _check_target(to, dst)
    _check_usable(of, src)
    return _walk(dst, src, to, of)


def _walk(dst: Any, src: Any, to: Side, of: Side) -> Walk:
    if to.form.dtype is None or of.form.dtype is None:
        return _walk_of_bytes(dst, src, to, of)
    return _walk_of_elements(dst, src)


def _follow(walk: Walk, dst: Any, src: Any, to: Side, of: Side, stream: Any) -> None:
    """Copy between any two sides that are not both one run of bytes, element by element where needed."""
    if walk.is_empty():
        return
    if to.kind == of.kind == "host":
        if stream is not None:
            gpu.check_host_work(stream, to.form.nbytes)
        host_copy.copy(walk)
    else:
        gpu.copies.copy_on_device(dst, src, to, of, walk, stream)


class CheckedCopy:
    """A copy that was checked, and is made later: in a batch, or by a graph.

    dst, src  views, or Memories; to, of: the Side of each
    walk      the Walk
    stream    arrays of other libraries are viewed in its order
    """

    __slots__ = ("dst", "src", "to", "of", "walk")

    def __init__(self, dst: Any, src: Any, stream: Any = None) -> None:
        self.dst, self.to = _side_of(dst, stream)
        self.src, self.of = _side_of(readable(src, stream), stream)
        self.walk = _checked_walk(self.dst, self.src, self.to, self.of)

    def make(self, stream: Any) -> None:
        """Make the copy alone; see copy()."""
        copy(self.dst, self.src, stream=stream)


def _walk_of_elements(dst: Any, src: Any) -> Walk:
    if dst.dtype is not src.dtype and dst.dtype != src.dtype:
        raise TypeError(
            f"a copy converts nothing: the target has dtype {dst.dtype}, the source {src.dtype}; convert the source "
            f'first, with NumPy\'s astype("{dst.dtype}"), or reinterpret() its bytes'
        )
    shape, strides = dst.shape, src.strides
    if src.shape != shape:
        extra = max(len(src.shape) - len(shape), 0)  # leading extents of 1 are left out, as in NumPy
        try:
            strides = layout.broadcast(src.shape, strides, (1,) * extra + shape)[extra:]
        except ValueError:
            raise ValueError(f"could not broadcast source of shape {src.shape} into shape {shape}") from None
    return walk_of(shape, dst.dtype.itemsize, dst.ptr, dst.strides, src.ptr, strides)


def _walk_of_bytes(dst: Any, src: Any, to: Side, of: Side) -> Walk:
    """Return the copy of all bytes where a Memory takes part, whose bytes are in the C order of the other side."""
    if to.form.nbytes != of.form.nbytes:
        raise ValueError(
            f"{to.form.nbytes} bytes cannot hold {of.form.nbytes}: with a Memory all bytes are copied; use a part of "
            "memory.view()"
        )
    if to.form.dtype is None and of.form.dtype is None:
        return walk_of((to.form.nbytes,), 1, to.address, (1,), of.address, (1,))
    if of.form.dtype is None:
        shaped = dst
    else:
        shaped = src
    itemsize = shaped.dtype.itemsize
    dense = layout.c_strides(shaped.shape, itemsize)
    if shaped is dst:
        strides = (dst.strides, dense)
    else:
        strides = (dense, src.strides)
    return walk_of(shaped.shape, itemsize, to.address, strides[0], of.address, strides[1])


# -- fills

# By a dtype's name, the function that packs a number into an element's bytes; it refuses what encode() refuses, which
# explains it. encode() takes 500 ns more.
_PACK: dict[str, Any] = {
    name: struct.Struct("=" + letter).pack
    for name, letter in (
        ("int8", "b"),
        ("int16", "h"),
        ("int32", "i"),
        ("int64", "q"),
        ("uint8", "B"),
        ("uint16", "H"),
        ("uint32", "I"),
        ("uint64", "Q"),
        ("float16", "e"),
        ("float32", "f"),
        ("float64", "d"),
    )
}
_pack_floats, _pack_doubles = struct.Struct("=ff").pack, struct.Struct("=dd").pack
_PACK["complex64"] = lambda value: _pack_floats(value, 0.0)
_PACK["complex128"] = lambda value: _pack_doubles(value, 0.0)
_BYTE = dtype_of("uint8")


def fill(target: Any, value: Any, stream: Any = None) -> None:
    """Set every element of a view to a value, or every byte of a Memory; see StridedView.fill."""
    to: Any = target._side
    if to is None:
        to = examine(target)
    form = to.form
    if type(value) is not int:  # (an int tells as much as its bytes)
        value = pattern_of(form, value)  # before the check: code of the value may close the memory
    memory = to.memory
    if memory is None or memory._handle is None or to.readonly or not form.is_safe:
        _check_target(to, target)
    if to.kind == "host" or not form.nbytes:
        pattern = pattern_of(form, value)
        if stream is not None:
            gpu.check_host_work(stream, form.nbytes)
        if form.nbytes:
            host_copy.fill(to.address + form.offset, form.shape, form.strides, pattern)
    elif to.kind == "pinned" and gpu.wait_for(target, to, stream):
        host_copy.fill(to.address + form.offset, form.shape, form.strides, pattern_of(form, value))
    elif not gpu.fill_run(target, to, value, stream):
        gpu.copies.fill_on_device(target, to, pattern_of(form, value), stream)


_NUMPYS: dict[str, Any] = {"b": bool, "c": complex}  # for struct, by the kind of a dtype of NumPy


def pattern_of(form: Form, value: Any) -> bytes:
    """Return the bytes of an element of this value."""
    kind, dtype = type(value), form.dtype or _BYTE
    if kind is bytes and len(value) == form.itemsize:
        return value  # type: ignore[no-any-return]
    # Whether struct converts the value itself, and refuses what is too large. It rounds a larger int twice.
    exact = kind is float or kind is int and -(2**53) <= value <= 2**53
    if not exact and (numpys := getattr(getattr(value, "dtype", None), "kind", "")):
        if kind.__flags__ & HEAP:  # (without this test, a call would take 6 % of a fill)
            refuse_masked(value)
        whole = ("b",) if dtype.kind == "float" else ("b", "i", "u")
        exact = dtype.kind != "complex" and (numpys in whole or numpys == "f" and value.dtype.itemsize <= 8)
        if numpys in _NUMPYS:
            value = _NUMPYS[numpys](value)
    try:
        if exact or kind is bool and dtype.kind != "complex":
            return form.pack(value)  # type: ignore[no-any-return]
    except (struct.error, OverflowError, TypeError):  # also if there is no such function
        pass
    return encode(dtype, value)


def widest(pattern: bytes) -> bytes:
    """Return the widest word whose repetition is the pattern, of 4, 2 or 1 bytes; no bytes if there is none."""
    for width in (4, 2, 1):
        if pattern == pattern[:width] * (len(pattern) // width):
            return pattern[:width]
    return b""


# -- arrays in host memory


def download(source: Any, stream: Any = None) -> StridedView:
    """Copy a view into new host memory; see StridedView.download."""
    target = empty_host(source._plain_kind, source.shape, source.dtype)
    copy(target, source, stream=stream)
    return target


def duplicate(source: Any, stream: Any = None) -> StridedView:
    """Copy a view of device-accessible memory into new memory of the same kind, in C order, on a stream."""
    target = gpu.empty_like(source)
    if target is None:  # pinned memory that is not ours
        return download(source, stream)
    copy(target, source, stream=stream)
    return target  # type: ignore[no-any-return]


def tolist(source: StridedView) -> Any:
    """Return nested lists of Python values; see StridedView.tolist."""
    _check_usable(examine(source), source)
    shape, dtype, count = source.shape, source.dtype, layout.size(source.shape)
    if source._place.is_host and source.is_c_contiguous:
        plain = source
    else:
        plain = download(source)
    if dtype.itemsize:
        values = decode(dtype, bytes_at(plain.ptr, count * dtype.itemsize))
    else:
        values = [b""] * count
    if not shape:
        return values[0]
    for n in shape[:0:-1]:
        if n == 0:
            return _nested_empty(shape)
        values = [values[i : i + n] for i in range(0, len(values), n)]
    return values


def _nested_empty(shape: Ints) -> list[Any]:
    if len(shape) > 1:
        return [_nested_empty(shape[1:]) for _ in range(shape[0])]
    return []
