"""Shapes and strides, compared with NumPy for random layouts of every kind."""

from __future__ import annotations

import ctypes
import random
import re
import sys
import types
from array import array

import pytest

from tests.subject import module, rawcuda

layout = module("elements.layout")


def random_array(numpy, seed):
    """Return an array of a random layout: 0 to 5 dimensions, gaps, reversed, broadcast, transposed, empty or single."""
    choose = random.Random(seed)
    shape = [
        choose.choice((0, 1, 1, 2, 3, 4, 5) if choose.random() < 0.3 else (1, 2, 3, 4))
        for _ in range(choose.randrange(6))
    ]
    array = numpy.arange(int(numpy.prod(shape)), dtype=choose.choice(("u1", "i2", "f4", "f8", "c16"))).reshape(shape)
    for _ in range(choose.randrange(4)):
        step = choose.randrange(5)
        if step == 0 and array.ndim:
            array = array.transpose(choose.sample(range(array.ndim), array.ndim))
        elif step == 1 and array.ndim:
            array = array[tuple(slice(None, None, choose.choice((1, -1, 2, -2))) for _ in range(array.ndim))]
        elif step == 2 and array.ndim < 5:
            array = numpy.broadcast_to(array, (choose.choice((0, 1, 3)), *array.shape))
        elif step == 3 and array.ndim:
            array = array[..., choose.randrange(3) :]
        else:
            array = numpy.expand_dims(array, choose.randrange(array.ndim + 1))
    return array, choose


ROUNDS = 400


@pytest.mark.parametrize("seed", range(5))
def test_contiguity_extent_and_size_as_numpy_has_them(seed):
    numpy = pytest.importorskip("numpy")
    for n in range(ROUNDS):
        a, _ = random_array(numpy, (seed, n).__hash__())
        assert layout.is_c_contiguous(a.shape, a.strides, a.itemsize) == a.flags.c_contiguous, (a.shape, a.strides)
        assert layout.is_f_contiguous(a.shape, a.strides, a.itemsize) == a.flags.f_contiguous, (a.shape, a.strides)
        assert layout.size(a.shape) == a.size
        low, high = numpy.lib.array_utils.byte_bounds(a) if hasattr(numpy.lib, "array_utils") else numpy.byte_bounds(a)
        if a.size:
            at = a.__array_interface__["data"][0]
            assert layout.extent(a.shape, a.strides, a.itemsize) == (low - at, high - at)
        else:
            assert layout.extent(a.shape, a.strides, a.itemsize) == (0, 0)
        if a.flags.c_contiguous and a.size and 1 not in a.shape:
            assert layout.c_strides(a.shape, a.itemsize) == a.strides
            assert layout.f_strides(a.shape[::-1], a.itemsize) == a.T.strides


@pytest.mark.parametrize("seed", range(5))
def test_reshape_agrees_with_numpy_on_what_needs_a_copy(seed):
    numpy = pytest.importorskip("numpy")
    for n in range(ROUNDS):
        a, choose = random_array(numpy, (seed, n, 1).__hash__())
        wanted = factors(choose, a.size)
        shape, strides = layout.reshape(a.shape, a.strides, wanted, a.itemsize)
        theirs = a.reshape(wanted)
        assert shape == theirs.shape
        if a.size:
            assert (strides is None) == (not numpy.shares_memory(theirs, a)), (a.shape, a.strides, wanted)
        if strides is not None and a.size:
            assert numpy.array_equal(numpy.lib.stride_tricks.as_strided(a, shape, strides), theirs)


def factors(choose, count):
    """Return a random shape with this number of elements, sometimes with a -1."""
    shape = []
    while count > 1:
        n = choose.choice([k for k in range(1, count + 1) if count % k == 0])
        shape.append(n)
        count //= n
    shape = shape + [count] * (count == 0) + [1] * choose.randrange(2)
    choose.shuffle(shape)
    if shape and choose.random() < 0.3 and 0 not in shape:
        shape[choose.randrange(len(shape))] = -1
    return tuple(shape)


@pytest.mark.parametrize("seed", range(5))
def test_indexing_as_numpy_does_it(seed):
    numpy = pytest.importorskip("numpy")
    for n in range(ROUNDS):
        a, choose = random_array(numpy, (seed, n, 2).__hash__())
        key = random_key(choose, a.ndim)
        try:
            theirs = a[key]
        except IndexError as error:
            with pytest.raises(IndexError) as mine:
                layout.select(a.shape, a.strides, key)
            assert (
                "too many" in str(error) and "too many" in str(mine.value) or str(error).rstrip(")") in str(mine.value)
            ), (error, mine.value)
            continue
        offset, shape, strides = layout.select(a.shape, a.strides, key)
        assert shape == numpy.shape(theirs), (a.shape, key)
        if numpy.size(theirs):
            low, high = layout.extent(a.shape, a.strides, a.itemsize)
            memory = (ctypes.c_char * (high - low)).from_address(a.__array_interface__["data"][0] + low)
            assert numpy.array_equal(numpy.ndarray(shape, a.dtype, memory, offset - low, strides), theirs), (
                a.shape,
                a.strides,
                key,
            )


def random_key(choose, ndim):
    parts = []
    for _ in range(choose.randrange(ndim + 2)):
        kind = choose.randrange(6)
        if kind == 0:
            parts.append(None)
        elif kind == 1 and ... not in parts:
            parts.append(...)
        elif kind <= 3:
            parts.append(choose.randrange(-5, 5))
        else:
            parts.append(
                slice(
                    *(choose.choice((None, -7, -2, -1, 0, 1, 2, 7)) for _ in range(2)),
                    choose.choice((None, -2, -1, 1, 2, 3)),
                )
            )
    return parts[0] if len(parts) == 1 and choose.random() < 0.5 else tuple(parts)


@pytest.mark.parametrize(
    "key, words",
    [
        (1.0, "only integers"),
        ("a", "only integers"),
        ([0, 1], "only integers"),
        (True, "mask"),
        ((..., ...), "single ellipsis"),
        ((0, 0, 0), "too many indices"),
        (3, "index 3 is out of bounds for axis 0 with size 3"),
        ((0, -5), "out of bounds for axis 1"),
    ],
)
def test_indices_that_a_view_has_not(key, words):
    with pytest.raises(IndexError, match=words):
        layout.select((3, 4), (16, 4), key)


def test_an_int_with_operators_of_its_own_is_a_number():
    """Python 3.9's operator.index() returns it as it is, and its operators answered whether it is in bounds."""

    class Odd(int):
        def __ge__(self, other):
            return True

        __le__ = __lt__ = __ge__

        def __mod__(self, other):
            return 1000

    assert layout.select((16,), (1,), Odd(3)) == layout.select((16,), (1,), 3)
    with pytest.raises(IndexError, match="index 99 is out of bounds"):
        layout.select((16,), (1,), Odd(99))


def test_too_many_new_dimensions():
    assert len(layout.select((2,), (4,), (None,) * 63)[1]) == 64
    with pytest.raises(IndexError, match="64"):
        layout.select((2,), (4,), (None,) * 64)


@pytest.mark.parametrize("seed", range(3))
def test_broadcast_as_numpy_does_it(seed):
    numpy = pytest.importorskip("numpy")
    for n in range(ROUNDS):
        a, choose = random_array(numpy, (seed, n, 3).__hash__())
        wanted = tuple(
            choose.choice((k, k, 2, 3, 0) if k != 1 else (1, 2, 0)) for k in (1,) * choose.randrange(3) + a.shape
        )
        try:
            theirs = numpy.broadcast_to(a, wanted)
        except ValueError:
            with pytest.raises(ValueError, match="cannot broadcast"):
                layout.broadcast(a.shape, a.strides, wanted)
            continue
        strides = layout.broadcast(a.shape, a.strides, wanted)
        if theirs.size:
            assert [s for s, k in zip(strides, wanted) if k > 1] == [s for s, k in zip(theirs.strides, wanted) if k > 1]


@pytest.mark.parametrize("seed", range(5))
def test_coalescing_pairs_the_same_elements(seed):
    numpy = pytest.importorskip("numpy")
    for n in range(ROUNDS):
        a, choose = random_array(numpy, (seed, n, 5).__hash__())
        b = numpy.empty(a.shape, "f8")
        if b.ndim:
            b = (
                b.transpose(choose.sample(range(b.ndim), b.ndim))
                .copy()
                .transpose(numpy.argsort(choose.sample(range(b.ndim), b.ndim)))
            )
            if b.shape != a.shape:
                b = numpy.empty(a.shape, "f8", order=choose.choice("CF"))
        shape, (to, of), (to_offset, of_offset) = layout.coalesce(b.shape, b.strides, a.strides)
        assert pairs(shape, to, of, to_offset, of_offset) == pairs(a.shape, b.strides, a.strides, 0, 0)
        assert all(s >= 0 for s in to) and list(to) == sorted(to, reverse=True) and (1 not in shape)


def pairs(shape, first, second, first_at, second_at):
    """Return the set of (offset, offset) that a walk over two operands visits."""
    if 0 in shape:
        return set()
    found = [(first_at, second_at)]
    for n, one, two in zip(shape, first, second):
        found = [(x + k * one, y + k * two) for x, y in found for k in range(n)]
    return set(found)


def test_coalescing_leaves_no_dimension_where_none_is_needed():
    assert layout.coalesce((2, 3, 4), (48, 16, 4), (48, 16, 4)) == ((24,), ((4,), (4,)), (0, 0))
    assert layout.coalesce((2, 3, 4), (48, 16, 4), (4, 8, 24)) == ((2, 3, 4), ((48, 16, 4), (4, 8, 24)), (0, 0))
    assert layout.coalesce((4, 3), (4, 16), (4, 16)) == ((12,), ((4,), (4,)), (0, 0))
    assert layout.coalesce((5,), (-4,), (-4,)) == ((5,), ((4,), (4,)), (-16, -16))
    assert layout.coalesce((1, 1), (7, 9), (1, 2)) == ((), ((), ()), (0, 0))
    assert layout.coalesce((3, 0), (0, 4), (4, 4))[0] == (0,)


@pytest.mark.parametrize("seed", range(3))
def test_repeats_never_misses_a_shared_byte(seed):
    numpy = pytest.importorskip("numpy")
    for n in range(ROUNDS):
        a, choose = random_array(numpy, (seed, n, 6).__hash__())
        strides = tuple(choose.choice((s, s, 0, 1, 3, a.itemsize)) for s in a.strides)
        seen = sorted(at for at, _ in [(x, 0) for x in offsets(a.shape, strides)])
        shared = any(later - earlier < a.itemsize for earlier, later in zip(seen, seen[1:]))
        assert not shared or layout.repeats(a.shape, strides, a.itemsize), (a.shape, strides, a.itemsize)
    assert (
        not layout.repeats((3, 4), (16, 4), 4)
        and not layout.repeats((3, 4), (-16, 4), 4)
        and not layout.repeats((0, 3), (0, 0), 4)
    )
    assert not layout.repeats((3, 2), (4, 6), 2) and layout.repeats(
        (3, 2), (4, 8), 2
    )  # interleaved, without and with a shared byte
    assert layout.repeats((3,), (0,), 4) and layout.repeats((3, 4), (4, 4), 4) and layout.repeats((2,), (2,), 4)


def offsets(shape, strides):
    found = [0]
    for n, stride in zip(shape, strides):
        found = [x + k * stride for x in found for k in range(n)]
    return found


def test_overlaps():
    assert layout.overlaps(100, (0, 10), 109, (0, 4)) and not layout.overlaps(100, (0, 10), 110, (0, 4))
    assert layout.overlaps(100, (-8, 4), 93, (0, 1)) and not layout.overlaps(100, (0, 0), 100, (0, 4))


# -- sizes are 64-bit


def test_nothing_wraps_past_32_bits():
    assert layout.size((2**20, 2**20)) == 2**40
    assert layout.c_strides((2**20, 2**20, 3), 8) == (24 * 2**20, 24, 8)
    assert layout.extent((2**33, 2), (16, 8), 8) == (0, (2**33 - 1) * 16 + 16)
    assert layout.select((2**40,), (8,), -1) == ((2**40 - 1) * 8, (), ())
    assert layout.select((2**40,), (8,), slice(2**35, None, 2**20)) == (2**38, (2**20 - 2**15,), (2**23,))


def test_1_26_what_no_memory_could_hold():
    assert layout.checked_size((2**60,), 4) == 2**60
    for shape in ((2**61,), (2**32, 2**32), (0, 2**63), (2**31, 2**31, 2**31, 0)):
        with pytest.raises(ValueError, match="2\\*\\*63"):
            layout.checked_size(shape, 4)


@pytest.mark.parametrize(
    "shape, result",
    [(3, (3,)), ((), ()), ([2, 3], (2, 3)), (range(3), (0, 1, 2)), ((True,), (1,)), (array("i", [2, 3]), (2, 3))],
)
def test_as_shape(shape, result):
    assert layout.as_shape(shape) == result and all(type(n) is int for n in layout.as_shape(shape))


@pytest.mark.parametrize(
    "shape, error",
    [
        ("33", TypeError),
        (None, TypeError),
        (2.0, TypeError),
        ((2.0,), TypeError),
        ((-1,), ValueError),
        (-1, ValueError),
        ((1,) * 65, ValueError),
        (("a",), TypeError),
    ],
)
def test_as_shape_refuses(shape, error):
    with pytest.raises(error):
        layout.as_shape(shape)


@pytest.mark.parametrize("shape", [(2.0,), [None], ("4",), ((1, 2),), {"a": 1}, 2.5, {2, 3}, {2: 3}.keys()])
def test_a_refused_shape_is_shown(shape):
    with pytest.raises(TypeError, match="a shape is an int or a tuple of ints, not " + re.escape(repr(shape))):
        layout.as_shape(shape)


# -- axes


def test_axes_as_numpy_names_them():
    assert (
        layout.move_axes(3, None) == (2, 1, 0)
        and layout.move_axes(3, (0, -1, 1)) == (0, 2, 1)
        and layout.move_axes(0, ()) == ()
    )
    assert layout.move_axes(1, 0) == (0,) and layout.move_axes(2, array("i", [1, 0])) == (1, 0)
    for axes, error in (
        ((0, 0), ValueError),
        ((0,), ValueError),
        (0, ValueError),
        ((0, 2), IndexError),
        ((0, -3), IndexError),
        ({0, 1}, TypeError),
        ("01", TypeError),
        (1.0, TypeError),
    ):
        with pytest.raises(error):
            layout.move_axes(2, axes)
    assert layout.squeeze((1, 3, 1), (7, 4, 9)) == ((3,), (4,)) and layout.squeeze((1, 3, 1), (7, 4, 9), -1) == (
        (1, 3),
        (7, 4),
    )
    assert layout.squeeze((1, 3, 1), (7, 4, 9), (0, 2)) == ((3,), (4,)) and layout.squeeze((), ()) == ((), ())
    for axis, error in (
        (1, ValueError),
        (3, IndexError),
        ((0, 0), ValueError),
        ((0, -3), ValueError),
        ({0}, TypeError),
    ):
        with pytest.raises(error):
            layout.squeeze((1, 3, 1), (7, 4, 9), axis)


@pytest.mark.parametrize(
    "shape, wanted", [((4,), (-1, -1)), ((4,), (3,)), ((4,), (-1, 3)), ((0,), (-1, 0)), ((4,), (-2, 2)), ((0, 3), (1,))]
)
def test_reshape_refuses(shape, wanted):
    with pytest.raises(ValueError):
        layout.reshape(shape, layout.c_strides(shape, 4), wanted, 4)


def test_a_slice_has_as_many_elements_as_a_range():
    numbers = (None, -9, -4, -3, -1, 0, 1, 2, 3, 5, 9, 2**70, -(2**70))
    for start in numbers:
        for stop in numbers:
            for step in (None, -(2**70), -3, -1, 1, 2, 9, 2**70):
                key, n = slice(start, stop, step), 4
                walked = range(n)[key]
                offset, shape, strides = layout.select((n,), (8,), key)
                assert shape == (len(walked),) and offset == (walked.start * 8 if walked else 0), key
                assert len(walked) < 2 or strides == (walked.step * 8,), key
                assert abs(strides[0]) < 2**63, key


def test_a_subclass_of_tuple_is_several_keys_and_a_list_is_none():
    class Pair(tuple):
        __slots__ = ()

    assert layout.select((3, 4), (16, 4), Pair((1, 2))) == (24, (), ())
    assert layout.select((3, 4), (16, 4), (..., slice(0, 0))) == (0, (3, 0), (16, 4))
    assert layout.select((3, 4), (16, 4), (0, ..., 1)) == (4, (), ())
    assert layout.select((3, 4), (16, 4), (0, 1, ...)) == (4, (), ())
    for key in ((..., 0, 0, 0), (0, 0, ..., 0), (0, 0, 0, ...), (None, 0, 0, None, 0)):
        with pytest.raises(IndexError, match="too many indices for array: array is 2-dimensional, but 3 were indexed"):
            layout.select((3, 4), (16, 4), key)
    with pytest.raises(IndexError, match="single ellipsis"):
        layout.select((3, 4), (16, 4), (..., 0, ...))


def test_extents_and_axes_are_plain_ints():
    class Two(int):
        pass

    for shape in (Two(2), (Two(2),), [Two(2)]):
        assert layout.as_extents(shape) == (2,) and type(layout.as_extents(shape)[0]) is int
    (extent,) = layout.as_extents((True,))
    assert type(extent) is int and extent == 1
    for shape in (True, (1.0,), (2, "3"), {1, 2}, None):
        if shape is not True:
            with pytest.raises(TypeError):
                layout.as_extents(shape)
    assert layout.normal_axes((Two(1), Two(-2)), 2) == (1, 0)
    assert all(type(axis) is int for axis in layout.normal_axes((Two(1), Two(-2)), 2))
    for axes, error in (((0, -2), ValueError), ((True, 0), TypeError), ((0, 2), IndexError), ((0, -3), IndexError)):
        with pytest.raises(error):
            layout.normal_axes(axes, 2)
    assert layout.squeeze((1, 3, 1), (7, 4, 9), (Two(0), Two(-1))) == ((3,), (4,))


@pytest.mark.parametrize("wanted", [(0, 2**70), (2**80, 0), (0, 2**62, 2**62)])
def test_reshape_of_nothing_has_limits_too(wanted):
    """Consumers in C multiply all extents."""
    with pytest.raises(ValueError, match="larger than 2"):
        layout.reshape((0, 4), (16, 4), wanted, 4)


def test_broadcast_and_reshape_refuse_what_does_not_fit():
    for shape, wanted in (((3,), ()), ((3,), (4,)), ((3, 1), (1,)), ((2, 3), (3, 2)), ((1, 3), (2, 1))):
        with pytest.raises(ValueError, match="cannot broadcast"):
            layout.broadcast(shape, (4,) * len(shape), wanted)
    for wanted in ((-1, -1), (-2, -3), (-1, 4), (-1, 0), (7,), ()):
        with pytest.raises(ValueError, match="reshape|unknown"):
            layout.reshape((2, 3), (12, 4), wanted, 4)


@pytest.mark.skipif(sys.maxsize < 1 << 32, reason="no address of 4 bytes reaches so far")
def test_an_array_that_needs_too_much_host_memory_says_how_much(capfd):
    """A view of few bytes, each of which stands for many elements."""
    described = {"shape": (1 << 28, 1 << 28), "typestr": "|u1", "data": bytes(1), "strides": (0, 0), "version": 3}
    view = rawcuda.view(types.SimpleNamespace(__array_interface__=described))
    for size in (2**63 - 1, 2**63 - 64, 2**63 - 65):
        with pytest.raises(MemoryError, match=f"uint8 needs {size} bytes"):
            rawcuda.view(bytearray(1)).broadcast_to((size,)).copy()
    with pytest.raises(MemoryError, match=r"an array of shape .* and uint8 needs 72057594037927936 bytes"):
        view.copy()
    capfd.readouterr()  # CPython 3.11 may print a SystemError of its own


def test_an_index_with_any_number_of_new_dimensions_is_refused_at_the_65th():
    """It took time with the square of their number."""
    looked_at = []

    def keys():
        for number in range(10_000):
            looked_at.append(number)
            yield None

    class Keys(tuple):
        __slots__ = ()

        def __iter__(self):
            return keys()

    with pytest.raises(IndexError, match="65 dimensions are too many"):
        layout.select((), (), Keys((None,) * 10_000))
    assert len(looked_at) < 11_000  # all of them once, to count the dimensions that exist
