"""Any value in the fields of any protocol gives a ProtocolError or an error of Python, never a crash."""

from __future__ import annotations

import ctypes
import itertools
import random

import pytest

from tests.null.producers import Exporter, Shows, Tensor
from tests.subject import module, rawcuda

errors, pep3118, cuda, cuda_stream = (
    module("errors"),
    module("protocols.pep3118"),
    module("protocols.cuda_array_interface"),
    module("protocols.cuda_stream"),
)
view = rawcuda.view
MEMORY = (ctypes.c_char * 4096)()
ADDRESS = ctypes.addressof(MEMORY)


class Broken:
    """An object whose special methods all raise."""

    def __index__(self, *_):
        raise ZeroDivisionError

    __len__ = __bool__ = __int__ = __iter__ = __repr__ = __eq__ = __lt__ = __index__
    __hash__ = object.__hash__


JUNK = (
    None,
    0,
    1,
    -1,
    2,
    3,
    8,
    2**31,
    2**32,
    2**63,
    2**64,
    -(2**63),
    10**5000,
    True,
    False,
    0.0,
    1.5,
    float("nan"),
    "",
    "a",
    "<f4",
    "|O8",
    ">i2",
    "\0",
    "é" * 50,
    b"",
    b"abc",
    (),
    [],
    {},
    (1,),
    (2, 3),
    (1, 2, 3),
    (-1, 2),
    (0,),
    (2**62, 4),
    ("a", "b"),
    [1, [2]],
    (True, True),
    (1.0,),
    (None,),
    ((),),
    object(),
    int,
    type,
    Broken(),
    Ellipsis,
    range(3),
    {1: 2},
    lambda: 1,
    [("a", "<f4")],
    [("", "<i4"), ("b", "|u1", (3,))],
    bytearray(24),
    1j,
)
ALLOWED = (errors.ProtocolError, ZeroDivisionError)  # the second is an error of the exporter


@pytest.mark.parametrize("seed", range(4))
def test_array_interfaces(seed):
    choose = random.Random(seed)
    read = made = 0
    for _ in range(3000):
        said = {"shape": (2, 3), "typestr": "<f4", "data": (ADDRESS, False), "version": 3}
        for _ in range(choose.randrange(1, 4)):
            key = choose.choice(("shape", "typestr", "data", "version", "strides", "descr", "mask", "stream", "offset"))
            said[key] = choose.choice(JUNK)
            if key == "data" and choose.random() < 0.5:
                said[key] = (choose.choice(JUNK), choose.choice(JUNK))
            if choose.random() < 0.1:
                del said[key]
        for describe in (
            lambda: view(Shows(host=said), protocol="array_interface"),
            lambda: cuda.describe(Shows(cuda=said)),
        ):
            try:
                described = describe()
                made += 1
            except ALLOWED:
                pass
            else:
                assert all(type(n) is int for n in described.shape + described.strides) and len(described.shape) == len(
                    described.strides
                )
                assert type(described.ptr) is int and 0 <= described.ptr < 2**64
            read += 1
    assert 0 < made < read


@pytest.mark.parametrize(
    "field, value",
    [
        ("shape", itertools.count()),
        ("shape", (n for n in (2, 3))),
        ("shape", range(10**12)),
        ("shape", {}),
        ("shape", {2: 0}),
        ("shape", {2, 3}),
        ("shape", ""),
        ("shape", b"\2\3"),
        ("shape", (True, 3)),
        ("strides", (True, False)),
        ("strides", (2**63, 4)),
        ("strides", (4, -(2**63))),
        ("strides", itertools.repeat(4)),
        ("descr", [3]),
        ("descr", [None]),
        ("descr", [("a", "<f4", (2**61,) * 2000)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_tuple_of_ints(field, value):
    """Values without an end, without an order, or a bool, which NumPy does not accept as an int, either."""
    said = {
        "shape": (1, 3),
        "typestr": "<f4" if field != "descr" else "|V4",
        "data": (ADDRESS, False),
        "version": 3,
        field: value,
    }
    for describe in (
        lambda: view(Shows(host=said), protocol="array_interface"),
        lambda: cuda.describe(Shows(cuda=said)),
    ):
        with pytest.raises(errors.ProtocolError) as caught:
            describe()
        assert caught.value.field == field


def test_layouts_that_only_look_alike_as_bytes():
    """The cached result of a dict is not used for a different dict with the same bytes in marshal."""
    numpy = pytest.importorskip("numpy")
    for dtype, expected in (("int64", (2, 3)), ("int32", (2, 0, 3, 0)), ("int64", (2, 3))):
        shape = numpy.frombuffer(b"\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", dtype)
        assert (
            cuda.describe(Shows(cuda={"shape": shape, "typestr": "<f4", "data": (ADDRESS, False), "version": 3})).shape
            == expected
        )


def test_anything_as_the_dict_itself():
    for junk in JUNK:
        for shows in (Shows(host=junk), Shows(cuda=junk)):
            if junk is None or isinstance(junk, Exception):
                continue
            with pytest.raises((*ALLOWED, TypeError)):
                view(shows, protocol="array_interface" if shows.host is not None else "cuda_array_interface")


@pytest.mark.parametrize("seed", range(4))
def test_tensors(seed):
    choose = random.Random(seed)
    made = refused = 0
    for _ in range(1500):
        # Addresses cannot be checked: they are right, null, or too small or too large.
        ndim = choose.choice((0, 1, 2, 3, 5))
        edge = (0, 1, 2, 3, -1, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))
        tensor = Tensor(
            choose.choice((ADDRESS, ADDRESS, 0)),
            shape=[choose.choice(edge[:4] if choose.random() < 0.7 else edge) for _ in range(ndim)],
            strides=choose.choice((None, [choose.choice(edge) for _ in range(ndim)])),
            dtype=(
                choose.choice((2, choose.randrange(256))),
                choose.choice((32, choose.randrange(256))),
                choose.choice((1, choose.randrange(2**16))),
            ),
            device=choose.choice(((1, 0), (1, 0), (choose.randrange(-3, 20), choose.randrange(-3, 5)))),
            version=choose.choice(((1, 3), None, (choose.randrange(3), choose.randrange(9)))),
            flags=choose.choice((0, 1, 7, 2**63, choose.randrange(2**64))),
            byte_offset=choose.choice((0, 0, 8, 2**63, 2**64 - 1)),
            ndim=choose.choice((None, None, None, -1, 65, 2**31 - 1)),
        )
        try:
            v = view(Exporter(tensor))
            repr(v), v.nbytes, v.is_c_contiguous, v.T, v[..., None]
            made += 1
            del v
        except errors.ProtocolError as error:
            refused += 1
            if "there is no device" in str(error):  # so it was not asked for the tensor
                continue
        assert tensor.freed >= 1
    assert made > 20 and refused > 20


@pytest.mark.parametrize("seed", range(4))
def test_formats(seed):
    choose = random.Random(seed)
    letters = "?bBhHiIlLqQnNefdgspPcuwxOZTX{}():,@=<>!^|&kt 0123456789a\0é"
    for _ in range(5000):
        text = "".join(choose.choice(letters) for _ in range(choose.randrange(12)))
        try:
            dtype = pep3118.dtype_of(text, choose.choice((0, 1, 2, 4, 8, 16, 24)))
        except errors.ProtocolError:
            continue
        assert dtype.itemsize >= 0 and isinstance(str(dtype), str)
    for text in (
        "(" * 10000,
        "T{" * 10000,
        "T{i:a:" * 1000,
        "9" * 10000 + "i",
        ":" * 1000,
        "(" + "9," * 5000 + ")i",
        "Zx",
        "T",
        "T{",
        "(",
        ":",
        "1",
        "(1)",
        "@",
    ):
        assert pep3118.dtype_of(text, 4).kind == "opaque"


def test_streams():
    for junk in JUNK:

        class Offers:
            __cuda_stream__ = junk

        for thing in (junk, Offers()):
            if type(thing) is int and thing in (1, 2, 3, 8, 2**31, 2**32, 2**63, -1) or thing is None:
                continue
            with pytest.raises((TypeError, ValueError, errors.ProtocolError, ZeroDivisionError, AttributeError)):
                cuda_stream.handle_from(thing)
            with pytest.raises((TypeError, ValueError, errors.ProtocolError, ZeroDivisionError, AttributeError)):
                view(b"", stream=thing)


@pytest.mark.parametrize(
    "method",
    [
        "__dlpack__",
        "reshape",
        "transpose",
        "broadcast_to",
        "squeeze",
        "reinterpret",
        "fill",
        "__getitem__",
        "copy_from",
    ],
)
def test_our_own_methods(method):
    v = view(bytearray(24)).reshape(2, 3, 4)
    for junk in JUNK:
        calls = [lambda: getattr(v, method)(junk)]
        if method == "__dlpack__":
            calls = [
                lambda word=word: v.__dlpack__(**{word: junk})
                for word in ("stream", "max_version", "dl_device", "copy")
            ]
        for call in calls:
            try:
                call()
            except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError) as error:
                assert method != "__dlpack__" or isinstance(error, ZeroDivisionError), (junk, error)
            except BufferError:
                pass


def test_anything_is_no_exporter():
    for junk in JUNK:
        try:
            view(junk)
        except (TypeError, BufferError, ZeroDivisionError):
            pass
