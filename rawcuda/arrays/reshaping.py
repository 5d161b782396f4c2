"""Other views of the same memory: indexing, fields, and other shapes, orders and dtypes.

What it is   `Reshaped`, a base class of StridedView, whose methods return views with another layout. No method copies,
             except ravel() if it is necessary. elements/layout.py calculates each new layout.
What not     It does not access memory or call the driver.
Source       NumPy, "Array manipulation routines": the names, and what they refuse
Read next    strided.py
"""

from __future__ import annotations

from ..elements import layout
from ..elements.dtypes import DType, field_of, of
from ..errors import worded
from ..protocols.description import Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..arrays.strided import StridedView

__all__ = ["Flat", "Reshaped"]


class Reshaped(Description):
    """The methods that return other views of the same memory."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _derived(
            self,
            ptr: int,
            shape: tuple[int, ...],
            strides: tuple[int, ...],
            dtype: DType | None = None,
            readonly: bool = False,
        ) -> StridedView: ...

    def __getitem__(self, key: object) -> StridedView:
        try:
            offset, shape, strides = layout.select(self.shape, self.strides, key)
        except IndexError:
            if not isinstance(key, str):
                raise
        else:
            return self._derived(self.ptr + offset, shape, strides)
        return self._field(key)

    def _field(self, name: str) -> StridedView:
        field = field_of(self.dtype, name)
        inner = layout.c_strides(field.shape, field.dtype.itemsize)
        layout.check_ndim(len(self.shape) + len(field.shape))
        return self._derived(
            self.ptr + (field.offset if layout.size(self.shape) else 0),
            self.shape + field.shape,
            self.strides + inner,
            field.dtype,
        )

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("a view without dimensions cannot be iterated over: item() gives its value")
        return (self[i] for i in range(self.shape[0]))

    @property
    def T(self) -> StridedView:
        """Return the view with its dimensions reversed."""
        return self._derived(self.ptr, self.shape[::-1], self.strides[::-1])

    def transpose(self, *axes: int | tuple[int, ...] | None) -> StridedView:
        """Return the view with its dimensions in another order, reversed if no axes are given.

        axes    ints, or one sequence of them: the old dimension for each new one; negative ones count from the end
        raises  TypeError   an axis that is not an int, or a set
                IndexError  a dimension that does not exist
                ValueError  another number of axes, or a dimension that is given twice
        """
        given: Any = axes or None
        if len(axes) == 1:
            given = axes[0]
        return self._ordered(layout.move_axes(len(self.shape), given))

    def _ordered(self, order: tuple[int, ...]) -> StridedView:
        return self._derived(self.ptr, *layout.pick(order, self.shape, self.strides))

    def swapaxes(self, first: int, second: int) -> StridedView:
        """Return the view with two dimensions exchanged; raises IndexError for one that does not exist."""
        order = list(range(len(self.shape)))
        one, other = layout.normal_axis(first, len(order)), layout.normal_axis(second, len(order))
        order[one], order[other] = other, one
        return self._ordered(tuple(order))

    def moveaxis(self, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> StridedView:
        """Return the view with some dimensions at other positions; the others keep their order.

        raises  TypeError   an axis that is not an int, or a set
                IndexError  a dimension that does not exist
                ValueError  different numbers of dimensions, or one that is given twice
        """
        ndim = len(self.shape)
        taken, placed = layout.normal_axes(source, ndim), layout.normal_axes(destination, ndim)
        if len(taken) != len(placed):
            raise ValueError(f"moveaxis({source!r}, {destination!r}): give as many destinations as sources")
        order = [axis for axis in range(ndim) if axis not in taken]
        for position, axis in sorted(zip(placed, taken)):
            order.insert(position, axis)
        return self._ordered(tuple(order))

    def reshape(self, *shape: int | tuple[int, ...]) -> StridedView:
        """Return a view of the same elements, in C order, in another shape; one extent may be -1.

        raises  TypeError    an extent that is not an int, or a set
                ValueError   another number of elements, or a layout that needs a copy for this shape
        """
        given = layout.as_extents(shape[0] if len(shape) == 1 else shape)
        new, strides = layout.reshape(self.shape, self.strides, given, self.dtype.itemsize)
        if strides is None:
            raise ValueError(
                f"shape {self.shape} with strides {self.strides} cannot become {new} without a copy, and a view never "
                "copies: call copy() before reshape()"
            )
        return self._derived(self.ptr, new, strides)

    def ravel(self) -> StridedView:
        """Return the elements in C order as one dimension: a view if that is possible, as in NumPy, else a copy."""
        new, strides = layout.reshape(self.shape, self.strides, (-1,) if self.size else (0,), self.dtype.itemsize)
        if strides is None:
            return self.copy().reshape(-1)
        return self._derived(self.ptr, new, strides)

    if TYPE_CHECKING:

        @property
        def size(self) -> int: ...

        def copy(self) -> StridedView: ...

    @property
    def flat(self) -> Flat:
        """Return the elements in C order, as a sequence of Python values; items can be assigned."""
        return Flat(self)

    def broadcast_to(self, shape: int | tuple[int, ...]) -> StridedView:
        """Return a read-only view in which extents of 1 are repeated; raises ValueError."""
        wanted = layout.as_shape(shape)
        layout.checked_size(wanted, self.dtype.itemsize)
        return self._derived(self.ptr, wanted, layout.broadcast(self.shape, self.strides, wanted), readonly=True)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> StridedView:
        """Return the view without all dimensions of extent 1, or without the given ones; raises ValueError."""
        return self._derived(self.ptr, *layout.squeeze(self.shape, self.strides, axis))

    def reinterpret(self, dtype: Any) -> StridedView:
        """Return a view of the same bytes as elements of another type; the last extent changes with the element size.

        raises  ValueError   elements of another size, if the last dimension has gaps or is not a whole number of them
        """
        new, old = of(dtype), self.dtype
        if new.packed:
            raise ValueError(f"{new} elements share bytes, so a view cannot have this dtype")
        if new.itemsize == old.itemsize:
            return self._derived(self.ptr, self.shape, self.strides, new)
        if not self.shape:
            raise ValueError(f"a view without dimensions holds one {old}, not of {new}'s size: reshape(1) it first")
        n, stride = self.shape[-1], self.strides[-1]
        if n > 1 and stride != old.itemsize:
            raise ValueError(
                f"the last dimension has gaps (stride {stride}), so it cannot hold elements of another size"
            )
        if not new.itemsize or n * old.itemsize % new.itemsize:
            raise ValueError(
                f"{n} elements of {old.itemsize} bytes in the last dimension are not a whole number of {new}, "
                f"which has {new.itemsize}"
            )
        return self._derived(
            self.ptr, (*self.shape[:-1], n * old.itemsize // new.itemsize), (*self.strides[:-1], new.itemsize), new
        )


class Flat:
    """The elements of a view in C order, one after the other: `len()`, iteration, `flat[i]` and `flat[i] = value`."""

    __slots__ = ("_view",)

    def __init__(self, view: Reshaped) -> None:
        self._view: Any = view

    def __len__(self) -> int:
        return self._view.size  # type: ignore[no-any-return]

    def __iter__(self) -> Any:
        values = self._view.tolist()
        for _ in self._view.shape[1:]:
            values = [value for part in values for value in part]
        return iter(values if self._view.shape else [values])

    def _key(self, position: Any) -> tuple[int, ...]:
        if isinstance(position, bool) or not hasattr(type(position), "__index__"):
            raise TypeError(f"an index of flat must be an int, the position of an element, not {worded(position)}")
        left, size = int.__index__(position.__index__()), len(self)
        if not -size <= left < size:
            raise IndexError(f"index {worded(left)} is out of bounds for size {size}")
        left, key = left % size, []
        for extent in self._view.shape[::-1]:
            left, place = divmod(left, extent)
            key.append(place)
        return tuple(key[::-1])

    def __getitem__(self, position: int) -> Any:
        return self._view[self._key(position)].item()

    def __setitem__(self, position: int, value: Any) -> None:
        self._view[self._key(position)] = value

    def __repr__(self) -> str:
        return f"<the {len(self)} elements of {self._view!r}>"
