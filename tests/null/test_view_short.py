"""The reader for types with __dlpack__ in C accepts and refuses the same as the general reader, with the same words."""

from __future__ import annotations

import ctypes
import gc
import itertools
import re
import sys
import threading
import types
from pathlib import Path

import pytest

from tests.null.producers import Exporter, Tensor
from tests.subject import FOLDER, module, rawcuda

choosing, protocol, tensors, errors = (
    module(name) for name in ("protocols.choosing", "protocols.dlpack_capsule", "protocols.tensor", "errors")
)
view = rawcuda.view


@pytest.fixture
def way(monkeypatch):
    """Treat Python functions as C functions, and clear the caches."""
    tensors.BY_CAPSULE.clear()
    choosing.forget()
    monkeypatch.setattr(protocol, "_METHOD", types.FunctionType)
    yield
    choosing.forget()


def side_by_side(extents, steps, **fields):
    """Make a tensor whose strides are directly after its extents, as in NumPy."""
    numbers = (ctypes.c_int64 * max(1, 2 * len(extents)))(*extents, *steps)
    where = ctypes.addressof(numbers)
    made = Tensor(**{"shape": where, "strides": where + 8 * len(extents), "ndim": len(extents), **fields})
    made.numbers = numbers
    return made


class Array:
    """An exporter of a new tensor for each call; some Arrays use the reader for C functions."""

    def __init__(self, make):
        self.make, self.device, self.made, self.asked = make, Exporter(make()).__dlpack_device__(), [], {}

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.made.append(self.make())
        self.asked = keywords
        return self.made[-1].capsule()


def outcome(array):
    """Return the result of a view, or its error; check that every exported tensor is freed."""
    try:
        v = view(array)
        said = (
            v.ptr - ctypes.addressof(array.made[-1].values),
            v.shape,
            v.strides,
            v.dtype,
            v.device,
            v.readonly,
            v.protocol,
            v.stream,
            array.asked,  # with a stream, if it is CUDA memory
        )
        del v
    except errors.RawCudaError as error:
        said = type(error), re.sub(r"0x\w{9,}|data \d{12,}", "somewhere", str(error))
        del error
    gc.collect()
    assert [tensor.freed for tensor in array.made] == [1] * len(array.made) and array.made
    return said


CASES = [
    {},
    {"flags": 1},
    {"flags": 2},
    {"flags": 4, "dtype": (1, 4, 1)},
    {"flags": 1 << 40},
    {"version": (1, 0)},
    {"version": (2, 0)},
    {"version": (0, 8)},
    {"data": 0},
    {"byte_offset": 4},
    {"byte_offset": 2**64 - 1},
    {"dtype": (99, 8, 1)},
    {"dtype": (2, 33, 1)},
    {"dtype": (1, 4, 1)},
    {"dtype": (2, 32, 4)},
    {"dtype": (2, 32, 0)},
    {"ndim": 65},
    {"ndim": -1},
    {"ndim": 2**31 - 1},
    {"device": (2, 0)},
    {"device": (3, 0)},
    {"device": (1, 7)},
    {"device": (10, 0)},
    {"device": (2, -1)},
    {"device": (-1, 0)},
]
NUMBERS = [
    ((2, 3), (3, 1)),
    ((3, 2), (1, 3)),
    ((), ()),
    ((0,), (1,)),
    ((0, 3), (2**40, 2**61)),
    ((2, -3), (3, 1)),
    ((-1,), (1,)),
    ((2**62,), (1,)),
    ((2**31, 2**31, 2), (0, 0, 0)),
    ((2,), (2**61,)),
    ((2,), (-(2**61),)),
    ((2,), (-(2**63),)),
    ((2,), (2**60,)),
    ((3,), (-1,)),
    ((2**61 - 1,), (1,)),
    ((2**61,), (1,)),
    ((1,) * 64, (1,) * 64),
    ((2, 0, -1), (1, 1, 1)),
]


@pytest.mark.parametrize("fields", CASES, ids=str)
def test_fields(way, fields):
    for shape, strides in ((2, 3), (3, 1)), ((2, 2), (3, 1)):  # new fields, and new extents
        tell_apart(way, lambda: side_by_side(shape, strides, **fields))


@pytest.mark.parametrize("shape, strides", NUMBERS, ids=lambda numbers: str(numbers)[:40])
def test_numbers(way, shape, strides):
    dimensions = len(shape)
    tell_apart(way, lambda: side_by_side((1,) * dimensions, (1,) * dimensions))
    for _ in range(2):
        tell_apart(way, lambda: side_by_side(shape, strides))


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": 0, "strides": 0},
        {"shape": 1, "strides": 0},
        {"strides": 0},
        {"strides": 1},
        {"ndim": 0, "shape": 0, "strides": 0},
        {"ndim": 0, "shape": 0, "strides": 7},
    ],
    ids=str,
)
def test_pointers(way, fields):
    tell_apart(way, lambda: side_by_side((2, 3), (3, 1)))
    tell_apart(way, lambda: side_by_side((2, 3), (3, 1), **fields))
    tell_apart(way, lambda: Tensor(shape=(2, 3), strides=(3, 1)))  # not adjacent


def tell_apart(way, make):
    """Check that both readers have the same result, the first time and later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "_METHOD", None)
        expected = outcome(type("Array", (Array,), {})(make))
    short = type("Array", (Array,), {})
    assert [outcome(short(make)) for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"strides": (1, 2)},
        {"data": 0},
        {"byte_offset": 4},
        {"dtype": (1, 4, 1)},
        {"shape": (2, -3)},
        {"device": (2, 0)},
    ],
    ids=str,
)
def test_legacy_capsules(way, fields):
    tell_apart(way, lambda: Tensor(version=None, **{"shape": (2, 3), **fields}))


@pytest.fixture
def short(way, pytestconfig):
    """An Array that is read as if its __dlpack__ were a C function."""
    kind = type("Array", (Array,), {})
    assert view(kind(lambda: side_by_side((1,), (1,)))).shape == (1,)
    in_c = choosing.readers[None].answers[id(kind)].__qualname__.startswith("reader_in_c")
    assert in_c or pytestconfig.getoption("plain")  # then the general reader must do the same
    return kind


def test_what_is_no_capsule():
    class Given(Exporter):
        pass

    for given in (7, "capsule", object(), []):
        with pytest.raises(errors.ProtocolError, match="not a PyCapsule"):
            view(Given(Tensor(), capsule=given))
    used = Tensor().capsule()
    kept = view(used)  # consumed, as the name shows
    with pytest.raises(errors.ProtocolError, match="consumed already"):
        view(Given(Tensor(), capsule=used))
    del kept


@pytest.mark.parametrize("given", [7, "capsule", None], ids=repr)
def test_what_is_no_capsule_after_one_that_was(short, given):
    made = itertools.chain([Tensor()], itertools.repeat(types.SimpleNamespace(capsule=lambda: given)))
    with pytest.raises(errors.ProtocolError, match="not a PyCapsule"):
        view(short(lambda: next(made)))


def test_what_is_replaced_later_counts(short):
    """A change of a class or an object after its type was learned has an effect."""
    make = lambda: side_by_side((2,), (1,))  # noqa: E731
    assert view(short(make)).shape == (2,)
    one = short(make)
    one.__dlpack__ = short(lambda: side_by_side((5,), (1,))).__dlpack__
    assert view(one).shape == (5,)
    two = short(make)
    two.__dlpack_device__ = lambda: (2, 0)
    with pytest.raises(errors.ProtocolError, match="contradicts"):
        view(two)
    short.__dlpack_device__ = lambda self: (2, 0)
    with pytest.raises(errors.ProtocolError, match="contradicts"):
        view(short(make))
    del short.__dlpack_device__
    short.__dlpack__ = lambda self, **keywords: side_by_side((7,), (1,)).capsule()
    assert view(short(make)).shape == (7,)


def test_a_legacy_capsule_from_a_type_that_gave_versioned_ones(short):
    assert view(short(lambda: Tensor(version=None, shape=(2, 3)))).readonly


def test_what_was_never_seen_goes_the_short_way_too(short, monkeypatch):
    monkeypatch.setattr(protocol, "describe", None)
    for extents, steps in ((2, 3), (3, 1)), ((4, 5), (1, 4)), ((4, 5), (1, 4)), ((6,), (2,)), ((), ()):
        assert view(short(lambda extents=extents, steps=steps: side_by_side(extents, steps))).strides == tuple(
            [4 * step for step in steps]
        )


def test_of_a_million_layouts_some_are_kept(short, way, monkeypatch):
    monkeypatch.setattr(tensors, "MOST_LAYOUTS", 1000)
    for n in range(2500):
        assert view(short(lambda n=n: side_by_side((n, 2), (2, 1)))).shape == (n, 2)
    kinds = tensors.BY_CAPSULE
    assert 1 < max(len(kind[2]) for kind in kinds.answers.values()) <= tensors.MOST_LAYOUTS
    for lanes in range(1, 250):
        assert view(short(lambda lanes=lanes: side_by_side((2,), (1,), dtype=(1, 8, lanes)))).itemsize == lanes
    assert 1 < len(kinds) <= 100


def test_threads_that_meet_layouts_together(short):
    wrong = []

    def work(seed):
        for n in range(400):
            shape = (n * 7 + seed) % 1300, n % 3 + 1
            v = view(short(lambda shape=shape: side_by_side(shape, (shape[1], 1))))
            if v.shape != shape or v.strides != (4 * shape[1], 4):
                wrong.append((v.shape, shape))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- the short ways are taken: no result differs without them, only the time


def functions_called(function):
    """Return the functions of the package that a call calls, as `module.name`, in order."""
    names = []

    def profile(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and FOLDER in path.parents:
            names.append(f"{path.stem}.{frame.f_code.co_name}")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return names


class Host:
    """An exporter with __array_interface__ only."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


class InPython(Host):
    """An exporter with __dlpack__, in Python, that takes all keywords."""

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return 1, 0


BY_BUFFER = ["choosing.read", "buffer.describe", "pep3118.dtype_of", "layout.checked_bounds", "buffer.__init__"]
SHORT = {
    "array": ("f4", lambda array: array, "dlpack", ["dlpack_capsule.read"]),
    "part": ("f4", lambda array: array[:, ::2].T, "dlpack", ["dlpack_capsule.read"]),
    "dates": ("M8[s]", lambda array: array, "array_interface", ["dlpack_capsule.read", "array_interface.read"]),
    "fields": (
        "i4,f8",
        lambda array: array,
        "buffer",
        [
            "dlpack_capsule.read",
            "choosing.read",
            "buffer.describe_array",
            "dtypes.of_numpy",
            "buffer.describe",
            "layout.checked_bounds",
            BY_BUFFER[-1],
        ],
    ),
    "number": ("f4", lambda array: array[0, 0], "buffer", BY_BUFFER),
    "buffer": ("f4", memoryview, "buffer", BY_BUFFER),
    "interface": ("f4", Host, "array_interface", ["array_interface.read"]),
    "Python": (
        "f4",
        InPython,
        "dlpack",
        ["choosing.read", "dlpack_capsule.describe", "dlpack.identify", "tensor.describe_tensor"],
    ),
}


@pytest.mark.parametrize("name", SHORT)
def test_a_later_view_of_a_type_takes_the_short_way(name, pytestconfig):
    if pytestconfig.getoption("plain"):
        pytest.skip("the short ways are switched off")
    numpy = pytest.importorskip("numpy")
    kind, make, way, called = SHORT[name]
    recent = tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 3)
    if not recent and any(each.startswith("dlpack_capsule.") for each in called):
        pytest.skip("this NumPy has no versioned capsules, or keeps shape and strides apart from the tensor")
    exporter = make(numpy.zeros((4, 6), kind))
    view(exporter), view(exporter)
    made = []
    assert functions_called(lambda: made.append(view(exporter))) == ["strided.view", *called]
    assert made[0].protocol == way


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="capsules are read where CPython has their fields")
def test_capsules_and_buffers_are_read_in_place(pytestconfig):
    if pytestconfig.getoption("plain"):
        pytest.skip("the short ways are switched off")
    assert type(module("dlpack").names) is type(module("dlpack").pointers) is memoryview
    assert module("protocols.buffer")._offset
