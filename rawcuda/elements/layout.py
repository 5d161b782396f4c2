"""Shape and stride arithmetic: pure functions over tuples of ints.

What it is   contiguity, transposing, broadcasting, reshaping, indexing, bounds and overlap of strided layouts, and the
             merging of dimensions with which every copy begins.
What not     it accesses no memory, and knows only the size of a dtype.
Units        strides and offsets are in bytes, extents in elements. Python's ints are unbounded, so nothing overflows;
             `checked_size` refuses a layout that is too large for any memory.
Source       NumPy, "Internal organization of NumPy arrays"; in DLPack and in NumPy, the strides of dimensions of
             extent 0 and 1 have no meaning
Read next    ../protocols/description.py
"""

from __future__ import annotations

import sys
from _operator import index as _index

from ..arguments import as_int, as_sequence
from ..errors import refusal, worded
from ..remembered import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Ints = tuple[int, ...]

__all__ = [
    "LIMIT",
    "MAX_NDIM",
    "as_extents",
    "as_shape",
    "bounds",
    "broadcast",
    "c_layout",
    "c_strides",
    "check_ndim",
    "checked_bounds",
    "checked_size",
    "coalesce",
    "extent",
    "f_strides",
    "is_c_contiguous",
    "is_f_contiguous",
    "misplaced",
    "move_axes",
    "normal_axes",
    "normal_axis",
    "overlaps",
    "pick",
    "repeats",
    "reshape",
    "select",
    "size",
    "squeeze",
]

MAX_NDIM = 64  # NumPy's own limit since 2.0, and the buffer protocol's
LIMIT = 2**63 - 1  # sizes and offsets are signed 64-bit in every protocol
_REACH = sys.maxsize  # the largest distance of two addresses, which is smaller in a browser


def size(shape: Iterable[int]) -> int:
    """Return the number of elements."""
    count = 1
    for n in shape:
        count *= n
    return count


def as_extents(shape: object) -> Ints:
    """Return a shape as a tuple of plain ints, given an int or a sequence of integers; raises TypeError, ValueError."""
    if type(shape) is int:
        return (shape,)
    if type(shape) is tuple and len(shape) <= MAX_NDIM:
        for n in shape:
            if type(n) is not int:
                break
        else:
            return shape
    try:
        # before Python 3.10, the index of True is True itself
        out: Ints = tuple([int(_index(n)) for n in as_sequence("a shape", shape)])
    except TypeError:
        raise TypeError(f"a shape is an int or a tuple of ints, not {worded(shape)}") from None
    if len(out) > MAX_NDIM:
        raise ValueError(f"{len(out)} dimensions are too many: at most {MAX_NDIM}")
    return out


def as_shape(shape: object) -> Ints:
    """Return a shape as as_extents does, and check that no extent is negative; raises ValueError, TypeError."""
    out = as_extents(shape)
    for n in out:
        if n < 0:
            raise ValueError(f"negative dimensions are not allowed: {out}")
    return out


def checked_size(shape: Sequence[int], itemsize: int) -> int:
    """Return the number of elements, and check that their bytes can be counted in 64 bits; raises ValueError.

    Other extents are limited even if one is 0, because consumers in C multiply all of them.
    """
    total, count = itemsize or 1, 1
    for n in shape:
        count *= n
        total *= n or 1
        if total > LIMIT:
            shown = f"{len(shape)} dimensions"
            if max(shape) < 2**64 and len(shape) < 9:
                shown = str(tuple(shape))
            raise ValueError(f"a shape of {shown} with {itemsize} bytes per element is larger than 2**63 - 1 bytes")
    return count


def c_layout(shape: object, itemsize: int) -> tuple[Ints, Ints, int]:
    """Return the shape, the strides and the number of bytes of a new row-major array; raises ValueError, TypeError."""
    extents = as_extents(shape)
    try:
        return _c_layouts.answers[extents, itemsize]
    except KeyError:
        pass
    return _new_c_layout(extents, itemsize)


def _new_c_layout(shape: Ints, itemsize: int) -> tuple[Ints, Ints, int]:
    extents = as_shape(shape)
    strides, count = c_strides(extents, itemsize), checked_size(extents, itemsize)
    return _c_layouts.keep((extents, itemsize), (extents, strides, count * itemsize))


# Working one out takes 500 ns more than the look-up.
_c_layouts: Remembered[tuple[Ints, int], tuple[Ints, Ints, int]] = Remembered(1000)


def c_strides(shape: Sequence[int], itemsize: int) -> Ints:
    """Return the strides of a row-major layout without gaps."""
    out, step = [], itemsize
    for n in shape[::-1]:
        out.append(step)
        step *= n or 1
    out.reverse()
    return tuple(out)


def f_strides(shape: Sequence[int], itemsize: int) -> Ints:
    """Return the strides of a column-major layout without gaps."""
    return c_strides(shape[::-1], itemsize)[::-1]


def is_c_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Tell whether elements lie in row-major order without gaps.

    The strides of dimensions of extent 1 are ignored, and an empty array is always contiguous.
    """
    step, axis = itemsize, len(shape)
    while axis:  # (a zip of two reversed tuples takes 200 ns more)
        axis -= 1
        n = shape[axis]
        if n != 1:
            if n == 0:
                return True
            if strides[axis] != step:
                return 0 in shape
            step *= n
    return True


def is_f_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Tell whether elements lie in column-major order without gaps."""
    return is_c_contiguous(shape[::-1], strides[::-1], itemsize)


def extent(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Return the offsets of the first byte used and of the byte after the last, relative to the first element."""
    low = high = 0
    for n, stride in zip(shape, strides):
        if n == 0:
            return 0, 0
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high + itemsize


def bounds(shape: Ints, strides: Ints, itemsize: int) -> tuple[int, int]:
    """Return the lowest and the highest address of the first element with which all are in the address space.

    Nothing is at address 0 but an array without elements. If the first is larger, there is no such address.
    """
    low, high = extent(shape, strides, itemsize)
    if low == high:
        return 0, 2**64 - 1
    if max(-low, high) > LIMIT:
        return 1, 0
    return 1 - low, 2**64 - high


def misplaced(protocol: str, address: int, shape: Ints, strides: Ints) -> Exception:
    """Return the error for elements whose first one is at an address that is not within bounds()."""
    if address == 0:
        why = f"is a null pointer, but shape {shape} has elements; the exporter is at fault"
        return refusal(protocol, "data", 0, why)
    why = f"lead out of the address space from {address:#x}; the exporter is at fault"
    return refusal(protocol, "strides", strides, why)


def checked_bounds(protocol: str, shape: Ints, strides: Ints, itemsize: int) -> tuple[int, int]:
    """Check a layout from outside, and return its bounds().

    raises  ProtocolError   a negative extent, more bytes than can be counted, or strides beyond the address space
    """
    total, low, high = itemsize or 1, 0, itemsize
    for n, stride in zip(shape, strides):
        if n < 0:
            raise refusal(protocol, "shape", shape, "has a negative extent; the exporter is at fault")
        total *= n or 1
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    if total > LIMIT:
        try:
            checked_size(shape, itemsize)
        except ValueError as error:
            raise refusal(protocol, "shape", shape, str(error)) from None
    if 0 in shape or low == high:
        return 0, 2**64 - 1
    if low < -_REACH or high > _REACH:
        raise refusal(protocol, "strides", strides, "bytes exceed the address space; the exporter is at fault")
    return 1 - low, 2**64 - high


def overlaps(first: int, first_extent: tuple[int, int], second: int, second_extent: tuple[int, int]) -> bool:
    """Tell whether the byte ranges of two layouts overlap.

    Layouts that interleave without sharing a byte count as overlapping.
    """
    return (
        first_extent[0] != first_extent[1]
        and second_extent[0] != second_extent[1]
        and first + first_extent[0] < second + second_extent[1]
        and second + second_extent[0] < first + first_extent[1]
    )


def repeats(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Tell whether two elements may share a byte; False is always right.

    True may be wrong for large layouts whose dimensions interleave.
    """
    dimensions = sorted((abs(stride), n) for n, stride in zip(shape, strides) if n > 1)
    reach = itemsize
    if 0 in shape:
        return False
    for stride, n in dimensions:
        if stride < reach:
            return size(shape) > 10_000 or _really_repeats(dimensions, itemsize)
        reach += (n - 1) * stride
    return False


def _really_repeats(dimensions: list[tuple[int, int]], itemsize: int) -> bool:
    """Tell whether two elements share a byte, by comparing the offsets of all of them."""
    offsets = [0]
    for stride, n in dimensions:
        offsets = [offset + k * stride for offset in offsets for k in range(n)]
    offsets.sort()
    return any(later - earlier < itemsize for earlier, later in zip(offsets, offsets[1:]))


def move_axes(ndim: int, axes: object) -> Ints:
    """Return a permutation of the dimensions: reversed for None, or as given.

    raises  TypeError, IndexError, ValueError  see normal_axes; ValueError also for another number of axes
    """
    if axes is None:
        return tuple(range(ndim - 1, -1, -1))
    out = normal_axes(axes, ndim)
    if len(out) != ndim:
        raise ValueError(f"axes don't match array: {len(out)} axes for {ndim} dimensions")
    return out


def normal_axes(axes: object, ndim: int) -> Ints:
    """Return one axis or several, in their order, as numbers from 0 to ndim - 1.

    axes    an int or a sequence of ints; negative ones are counted from the end
    raises  TypeError   another object, including a set
            IndexError  a dimension that does not exist
            ValueError  a dimension that is given twice
    """
    out: Ints = ()
    for axis in as_sequence("axes", axes):
        if type(axis) is int and 0 <= axis < ndim:
            number = axis
        else:
            number = normal_axis(axis, ndim)
        if number in out:
            raise ValueError(f"axes={worded(axes)}: give each axis once")
        out += (number,)
    return out


def normal_axis(axis: int, ndim: int) -> int:
    """Return an axis counted from the front; raises IndexError if the dimension does not exist."""
    if type(axis) is int:
        number = axis
    else:
        number = as_int("axis", axis)
    if not -ndim <= number < ndim:
        raise IndexError(f"axis {worded(number)} is out of bounds for array of dimension {ndim}")
    if number >= 0:
        return number
    return number + ndim


def pick(order: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the shape and the strides of some dimensions, in an order that normal_axes checked."""
    new_shape, new_strides = [], []
    for i in order:
        new_shape.append(shape[i])
        new_strides.append(strides[i])
    return tuple(new_shape), tuple(new_strides)


def squeeze(
    shape: Sequence[int], strides: Sequence[int], axes: int | tuple[int, ...] | None = None
) -> tuple[Ints, Ints]:
    """Drop the dimensions of extent 1, all or only the given ones; raises ValueError if a given one is larger."""
    if axes is None:
        gone = None
    else:
        gone = normal_axes(axes, len(shape))
    kept, axis = [], 0
    for n in shape:
        if n != 1 if gone is None else axis not in gone:
            kept.append(axis)
        elif n != 1:
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
        axis += 1
    return pick(kept, shape, strides)


def broadcast(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> Ints:
    """Return the strides that broadcast a layout to a larger shape, 0 for repeated dimensions; raises ValueError."""
    extra = len(wanted) - len(shape)
    out, axis = [0] * extra, 0
    for n in shape if extra >= 0 else ():
        if n == wanted[extra + axis]:
            out.append(strides[axis])
        elif n == 1:
            out.append(0)
        else:
            break
        axis += 1
    if extra < 0 or axis < len(shape):
        raise ValueError(f"cannot broadcast a view of shape {tuple(shape)} to shape {tuple(wanted)}")
    return tuple(out)


def reshape(shape: Sequence[int], strides: Sequence[int], wanted: Ints, itemsize: int) -> tuple[Ints, Ints | None]:
    """Compute the strides of a new shape over the same elements in row-major order.

    wanted   the new shape; one extent may be -1 and is computed from the others
    returns  (shape, strides); strides is None if a copy is needed
    raises   ValueError   another number of elements, or more than one -1
    """
    count = 1
    for n in shape:
        count *= n
    target, known, unknown = wanted, 1, None
    for n in target:
        if n >= 0:
            known *= n
        elif n != -1:
            raise ValueError(f"cannot reshape a view of size {count} into shape {target}")
        elif unknown is not None:
            raise ValueError("can only specify one unknown dimension")
        else:
            unknown = target.index(-1)
    if unknown is not None and known and count % known == 0:
        target = target[:unknown] + (count // known,) + target[unknown + 1 :]
    elif known != count or unknown is not None:
        raise ValueError(f"cannot reshape a view of size {count} into shape {worded(target)}")
    if count == 0:
        checked_size(target, itemsize)
    if count == 0 or is_c_contiguous(shape, strides, itemsize):
        return target, c_strides(target, itemsize)
    return target, _split_runs(shape, strides, target)


def _split_runs(shape: Sequence[int], strides: Sequence[int], target: Ints) -> Ints | None:
    """Compute the strides of `target`, each dimension of which must lie within dimensions that merge into one."""
    merged: list[tuple[int, int]] = []  # (extent, stride), from the last dimension to the first
    axis = len(shape)
    while axis:
        axis -= 1
        n, stride = shape[axis], strides[axis]
        if n == 1:
            continue
        if merged and stride == merged[-1][1] * merged[-1][0]:
            merged[-1] = merged[-1][0] * n, merged[-1][1]
        else:
            merged.append((n, stride))
    out: list[int] = []
    runs = iter(merged)
    left, step = next(runs, (1, 0))
    for n in reversed(target):
        if left == 1 and n != 1:
            left, step = next(runs, (1, 0))
        if left % n:
            return None
        out.append(step)
        left //= n
        step *= n
    return tuple(out[::-1])


def select(shape: Ints, strides: Ints, key: object) -> tuple[int, Ints, Ints]:
    """Compute the layout of view[key].

    key      an int, a slice, `...`, None, or a tuple of them
    returns  (offset of the first element, shape, strides)
    raises   IndexError   too many indices, one out of bounds, or one that needs a copy (a list, a mask)
    """
    if isinstance(key, tuple):
        keys = key
    else:
        keys = (key,)
    offset, axis, ndim = 0, 0, len(shape)
    new_shape: Ints = ()
    new_strides: Ints = ()
    if len(keys) > ndim:
        _after_ellipsis(keys, ndim, axis)  # raises IndexError, as NumPy does, before it looks at any key
    for k in keys:
        if k is None:
            new_shape += (1,)
            new_strides += (0,)
            check_ndim(len(new_shape))  # here: they may be any number
            continue
        if k is Ellipsis:
            through = _after_ellipsis(keys, ndim, axis)
            new_shape += shape[axis:through]
            new_strides += strides[axis:through]
            axis = through
            continue
        n, stride = shape[axis], strides[axis]
        axis += 1
        if type(k) is slice:
            start, stop, step = k.indices(n)
            count = -((start - stop) // step)  # (stop - start) / step, rounded up: as many as range() has
            if count < 2:
                if count < 0:
                    count = 0
                if abs(stride * step) > LIMIT:
                    step = 1  # no second element uses the stride, which must fit into 64 bits
            if count:
                offset += start * stride
            new_shape += (count,)
            new_strides += (stride * step,)
        elif type(k) is int and -n <= k < n:
            offset += (k if k >= 0 else k + n) * stride
        else:
            offset += _position(k, n, axis - 1) * stride
    if axis < ndim:
        new_shape += shape[axis:]
        new_strides += strides[axis:]
    check_ndim(len(new_shape))
    return (0 if 0 in new_shape else offset), new_shape, new_strides


def check_ndim(ndim: int) -> None:
    """Check the number of dimensions that an index gives; raises IndexError if there are too many."""
    if ndim > MAX_NDIM:
        raise IndexError(f"{ndim} dimensions are too many: at most {MAX_NDIM}")


def _after_ellipsis(keys: tuple[object, ...], ndim: int, axis: int) -> int:
    """Return the dimension after those for which an ellipsis stands; raises IndexError if there are too many keys."""
    taken = ellipses = 0
    for k in keys:
        if k is Ellipsis:
            ellipses += 1
        elif k is not None:
            taken += 1
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if taken > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed")
    return ndim - taken + axis


def _position(key: object, n: int, axis: int) -> int:
    if isinstance(key, bool):
        raise IndexError("a bool is a mask, which needs a copy: use an int or a slice")
    try:
        number = int.__index__(_index(key))  # type: ignore[arg-type]  # before Python 3.10, _index() keeps a subclass
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`) and None are valid indices of a view, "
            f"which never copies; not {type(key).__name__}"
        ) from None
    if not -n <= number < n:
        raise IndexError(f"index {worded(number)} is out of bounds for axis {axis} with size {n}")
    return number % n


def coalesce(shape: Sequence[int], *operands: Sequence[int]) -> tuple[Ints, tuple[Ints, ...], Ints]:
    """Merge dimensions where possible: those that continue each other without a gap in every operand.

    Elements stay paired with the same elements of the other operands; the order of the pairs may change.
    returns  (shape, a tuple of strides per operand, an offset per operand). The first operand's strides descend and are
             never negative; its offset is that of the element where the walk now begins
    """
    if 0 in shape:
        return (0,), tuple([(0,)] * len(operands)), (0,) * len(operands)
    offsets = [0] * len(operands)
    dimensions: list[tuple[int, list[int]]] = []
    for i, n in enumerate(shape):
        if n == 1:
            continue
        steps = [strides[i] for strides in operands]
        if steps[0] < 0 or (steps[0] == 0 and any(step < 0 for step in steps)):
            for k, step in enumerate(steps):  # walk this dimension from its other end
                offsets[k] += (n - 1) * step
            steps = [-step for step in steps]
        dimensions.append((n, steps))
    dimensions.sort(key=lambda dimension: [abs(step) for step in dimension[1]], reverse=True)
    merged: list[tuple[int, list[int]]] = []
    for n, steps in dimensions:
        if merged and all(outer == step * n for outer, step in zip(merged[-1][1], steps)):
            merged[-1] = merged[-1][0] * n, steps
        else:
            merged.append((n, steps))
    return (
        tuple([n for n, _ in merged]),
        tuple([tuple([steps[k] for _, steps in merged]) for k in range(len(operands))]),
        tuple(offsets),
    )
