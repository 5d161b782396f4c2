"""Conversions of elements: to bytes, to another dtype and to text, and from nested lists.

What it is   `to_bytes`, `as_type`, `assign`, which implements `view[key] = value`, and `shown`, the values in a repr.
What not     copies, which convert nothing: copying.py. These functions work in host memory, value by value if NumPy is
             not loaded. The elements of a device are copied to the host, converted and copied back.
Source       NumPy: `ndarray.astype` with casting="unsafe", `ndarray.tobytes`, "Assigning values to indexed arrays"
Read next    copying.py
"""

from __future__ import annotations

import ctypes
import sys
from itertools import islice
from math import isfinite

from ..elements import layout
from ..elements.dtypes import of
from ..elements.scalars import converted, decode, encode, refuse_masked
from ..errors import worded
from ..interpreter.cpython import bytes_at
from ..interpreter.peeking import peek
from ..protocols.choosing import OFFERS
from ..protocols.description import Bytes, Description
from .copying import copy, download, duplicate, fill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..elements.dtypes import DType

    Ints = tuple[int, ...]

__all__ = ["as_type", "assign", "shown", "to_bytes"]


def to_bytes(view: Any, order: str = "C") -> bytes:
    """Return a copy of the elements as bytes; see StridedView.tobytes."""
    if not isinstance(order, str) or order not in ("C", "F"):
        raise ValueError(f"order {worded(order)}: give 'C' (row-major) or 'F' (column-major)")
    plain = download(view.T if order == "F" else view)
    return bytes_at(plain.ptr, plain.nbytes)


# -- another dtype


def as_type(view: Any, dtype: Any, always: bool) -> Any:
    """Return the elements converted to a dtype; see StridedView.astype."""
    new = of(dtype)
    if new is view.dtype:
        if always:
            return duplicate(view)
        return view
    for one in (view.dtype, new):
        if one.kind == "opaque" or one.lanes > 1 or one.packed or one.name in ("float128", "complex256"):
            raise TypeError(
                f"astype() converts numbers, and {one} is not a number: reinterpret() changes the dtype of the bytes"
            )
    data = _converted(view.dtype, to_bytes(view), new)
    target = view._like(view.shape, new)
    if data:
        copy(target, _host(view, view.shape, new, data))
    return target


def _host(view: Any, shape: Ints, dtype: DType, data: bytes) -> Any:
    """Return an array in host memory with these bytes."""
    made = view._plain_kind._empty_host(shape, dtype)
    if len(data) != made.nbytes:
        raise ValueError(f"{len(data)} bytes are not those of {layout.size(shape)} elements of {dtype}")
    ctypes.memmove(made.ptr, data, len(data))
    return made


def _converted(old: DType, data: bytes, new: DType) -> bytes:
    numpy = _numpy()
    if numpy is not None:
        try:
            kinds = [numpy.dtype(one.name) for one in (old, new)]
            if all(kind.isbuiltin == 1 for kind in kinds):  # ml_dtypes may add others, some of which it rounds twice
                return _by_numpy(numpy, numpy.frombuffer(data, kinds[0]), kinds[1], new)
        except (TypeError, AttributeError):  # a small float, for example, or two small integers of ml_dtypes
            pass
    if new.kind == "float":
        numbers = [value.real if isinstance(value, complex) else value for value in decode(old, data)]
        return b"".join([converted(new, number) for number in numbers])
    if new.kind == "complex":
        part = of(f"float{new.bits // 2}")
        return b"".join([converted(part, value.real) + converted(part, value.imag) for value in decode(old, data)])
    return b"".join([encode(new, _cast(new, value)) for value in decode(old, data)])


def _by_numpy(numpy: Any, array: Any, kind: Any, new: DType) -> bytes:
    """Return what NumPy converts, with what it leaves to the CPU as without NumPy: floats that no integer can hold."""
    with numpy.errstate(all="ignore"):
        if array.dtype.kind == "c" and kind.kind not in "cb":
            array = array.real  # as below; NumPy would warn
        made = array.astype(kind)
        if array.dtype.kind == "f" and kind.kind in "iu":
            low, high = (0.0, 2.0**new.bits) if kind.kind == "u" else (-(2.0 ** (new.bits - 1)), 2.0 ** (new.bits - 1))
            for at in numpy.flatnonzero(~((low <= array) & (array < high))):
                made[at] = _cast(new, array[at].item())
    return made.tobytes()  # type: ignore[no-any-return]


def _numpy() -> Any:
    return sys.modules.get("numpy")


def _cast(new: DType, value: Any) -> Any:
    """Return an integer that a type can hold, truncated or wrapped around, as in C."""
    if new.kind == "bool":
        return value
    if isinstance(value, complex):
        value = value.real
    low = 0
    if new.kind == "int":
        low = -(1 << new.bits - 1)
    if isfinite(value):
        number = int(value)
    else:
        number = low
    return (number - low) % (1 << new.bits) + low


# -- assignments


def assign(part: Any, value: Any) -> None:
    """Store a value in a view: a number in every element, a nested list, or the elements of an exporter."""
    kind = type(value)
    if kind in (bool, int, float, complex):
        fill(part, value)
    elif isinstance(value, (list, tuple, range)):
        copy(part, _array_of(part, value))
    elif _is_number(value) and part.dtype.kind != "opaque":
        fill(part, value)
    else:
        copy(part, value)


def _is_number(value: Any) -> bool:
    """Tell whether an object is a single number: Python's, NumPy's, Decimal, Fraction; a Series is none."""
    kind = type(value)
    generic = getattr(sys.modules.get("numpy"), "generic", None)
    if isinstance(generic, type) and issubclass(kind, generic):
        return True  # it exports its memory, so it is an array, maybe of another dtype
    if issubclass(kind, (Description, Bytes)) or any([hasattr(kind, name) for name in OFFERS]):
        return False
    if hasattr(kind, "__array__") and getattr(value, "shape", None) != ():
        return False
    return any([hasattr(kind, name) for name in ("__index__", "__float__", "__complex__")])


def _array_of(part: Any, values: Any) -> Any:
    """Return an array in host memory, of a view's dtype, with the values of a nested list.

    Each list is read once, since another thread, or the list itself, may change it in between.
    """
    shape: list[int] = []
    level, nested = [values], True
    most = layout.size([n or 1 for n in part.shape])  # of lists without values, too
    while nested and len(shape) <= layout.MAX_NDIM:
        lists, left = [], most + 1
        for each in level:
            lists.append([*islice(each, left)])
            left -= len(lists[-1])
        if left <= 0:
            raise ValueError(f"could not broadcast a list of more than {most} values into shape {part.shape}")
        lengths = sorted({len(each) for each in lists})
        if len(lengths) > 1:
            found = " and of ".join(map(str, lengths))
            raise ValueError(f"the nested list is ragged: dimension {len(shape)} has lists of {found} values")
        shape += lengths
        level = [value for each in lists for value in each]
        kinds = {isinstance(value, (list, tuple, range)) for value in level}
        if len(kinds) > 1:
            raise ValueError(f"the nested list is ragged: dimension {len(shape) - 1} contains both lists and numbers")
        nested = True in kinds
    if nested:
        raise ValueError(f"the list is nested more than {layout.MAX_NDIM} times")
    dtype = part.dtype
    return _host(part, tuple(shape), dtype, b"".join([encode(dtype, _leaf(leaf)) for leaf in level]))


def _leaf(value: Any) -> Any:
    """Return the value of an element of a list; a view or an array without dimensions gives its item()."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        refuse_masked(value)
        return item()
    return value


# -- text

_MOST_SHOWN = (2, 6, 6)  # values in each of the last dimensions, and one in each before


def shown(view: Any) -> str:
    """Return a few values of a view of host memory as text, such as "[1.0, 2.0, ...]"; "" if they cannot be read."""
    dtype, shape = view.dtype, view.shape
    if not view._place.is_host or dtype.kind == "opaque" or not 0 < dtype.itemsize <= 64 or view.ndim > 8:
        return ""
    if view.ndim < 3:
        most = _MOST_SHOWN[-view.ndim :]
    else:
        most = (1,) * (view.ndim - 3) + _MOST_SHOWN
    few = tuple([min(extent, n) for extent, n in zip(shape, most)])
    places = [view.ptr]
    for extent, stride in zip(few, view.strides):
        places = [place + i * stride for place in places for i in range(extent)]
    data = [peek(place, dtype.itemsize) for place in places]
    if None in data:
        return ""
    return _listed(iter(decode(dtype, b"".join(filter(None, data)))), few, shape)


def _listed(values: Any, few: Ints, shape: Ints) -> str:
    if not few:
        return repr(next(values))
    parts = [_listed(values, few[1:], shape[1:]) for _ in range(few[0])]
    return f"[{', '.join(parts + ['...'] * (few[0] < shape[0]))}]"
