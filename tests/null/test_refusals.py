"""What an exporter's exception means: "not by this protocol", or the end of the search."""

from __future__ import annotations

import array
import ctypes
import traceback

import pytest

from tests.null.producers import Exporter, Tensor
from tests.subject import module, rawcuda

view, ProtocolError = rawcuda.view, rawcuda.ProtocolError
VALUES = (ctypes.c_float * 3)(1, 2, 3)
GOOD = {"shape": (3,), "typestr": "<f4", "version": 3, "data": (ctypes.addressof(VALUES), False)}
OTHERS = [TypeError, ValueError, NotImplementedError, RuntimeError, ImportError]
ANSWERS = [BufferError, *OTHERS, ModuleNotFoundError, UnicodeError, RecursionError]
NAMES = ["__dlpack__", "__dlpack_device__", "__cuda_array_interface__", "__array_interface__"]


def method(error):
    def ask(self, **keywords):
        raise error

    return ask


def exporter(raises, base=(), **more):
    """Return an object of a new class; `raises` has the exception of each attribute, a method or a property."""
    parts = {}
    for name, error in raises.items():
        parts[name] = property(method(error)) if name.endswith("interface__") else method(error)
    return type("Refuses", base, {**parts, **more})()


def shows(interface):
    return property(lambda self: interface)


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("name", NAMES)
def test_5_17_the_next_protocol_is_tried(name, kind):
    error = kind("not in this way") if kind is not RecursionError else kind()
    other = "__array_interface__"
    raises = {name: error, **({"__dlpack__": error} if name == "__dlpack_device__" else {})}
    if name == other:
        thing = exporter(raises, (bytearray,))
        thing.extend(b"abc")
        for _ in range(3):  # the first of its type, and what is remembered of it
            assert view(thing).tolist() == [97, 98, 99]
        return
    thing = exporter(raises, __array_interface__=shows(GOOD))
    for _ in range(3):
        made = view(thing)
        assert made.protocol == "array_interface" and made.tolist() == [1, 2, 3]
    host = array.array("f", [0, 0, 0])
    rawcuda.copy(host, thing)
    assert host.tolist() == [1, 2, 3]
    target = view(array.array("f", [0, 0, 0]))
    target[...] = thing
    assert target.tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ANSWERS)
def test_0_6_the_first_exception_is_raised_as_it_is_if_no_protocol_gives_the_memory(kind):
    first, second = kind("first"), ValueError("second")
    thing = exporter({"__dlpack__": first, "__array_interface__": second})
    for _ in range(2):
        with pytest.raises(kind) as caught:
            view(thing)
        if kind is BufferError:  # it is put together with what the others say
            assert "dlpack: first; array_interface: second" in str(caught.value) and caught.value.__cause__ is first
            continue
        assert caught.value is first and str(first) == "first" and len(first.__notes__) == 1
        text = "".join(traceback.format_exception(type(caught.value), caught.value, caught.value.__traceback__))
        assert "dlpack: Refuses raised this, and no other protocol fits. array_interface: ValueError: second" in text
    for call in (
        lambda: rawcuda.copy(array.array("f", [0]), thing),
        lambda: view(array.array("f", [0])).copy_from(thing),
    ):
        with pytest.raises(kind, match="first"):
            call()


@pytest.mark.parametrize("kind", OTHERS)
def test_0_6_a_cause_of_the_exporters_own_is_kept(kind):
    error, reason = kind("no"), KeyError("the reason")
    error.__cause__ = reason
    with pytest.raises(kind) as caught:
        view(exporter({"__dlpack__": error}))
    assert caught.value is error and error.__cause__ is reason and "dlpack" in error.__notes__[0]


class Interrupt(BaseException):
    pass


class Foreign(Exception):
    pass


class OutOfMemory(RuntimeError, MemoryError):
    """Like that of another copy of this package."""


ENDS = [MemoryError, OutOfMemory, KeyboardInterrupt, SystemExit, Interrupt, Foreign, OSError, KeyError]


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("name", NAMES)
def test_0_7_what_ends_the_search(name, kind):
    error = kind("at once")
    raises = {name: error, **({"__dlpack__": ValueError()} if name == "__dlpack_device__" else {})}
    more = {"__array__": lambda self, *a, **k: VALUES, **({} if name in NAMES[3:] else {NAMES[3]: shows(GOOD)})}
    thing = exporter(raises, **more)
    for call in (view, lambda thing: rawcuda.copy(array.array("f", [0, 0, 0]), thing)):
        for _ in range(2):
            with pytest.raises(kind) as caught:
                call(thing)
            assert caught.value is error and not hasattr(error, "__notes__")


def test_0_7_memory_that_runs_out_in_a_second_request_ends_the_search():
    class Old(Exporter):
        __array_interface__ = shows(GOOD)

    error = MemoryError("no bytes left")
    with pytest.raises(MemoryError) as caught:
        view(Old(Tensor(), raises={True: BufferError("only legacy"), False: error}))
    assert caught.value is error


def test_0_7_our_own_errors_end_the_search():
    """Those of exporters that use this package, too: a closed memory is closed by every protocol."""
    for kind in (rawcuda.Closed, rawcuda.OutOfMemory, rawcuda.InvalidUse, rawcuda.ForkedAfterInit):
        error = kind("ours")
        with pytest.raises(kind) as caught:
            view(exporter({"__dlpack__": error}, __array_interface__=shows(GOOD)))
        assert caught.value is error


@pytest.mark.parametrize("kind", ANSWERS)
def test_0_9_a_named_protocol_is_the_only_one(kind):
    error = kind("not in this way")
    thing = exporter({"__dlpack__": error}, __array_interface__=shows(GOOD))
    for _ in range(2):
        with pytest.raises(kind) as caught:
            view(thing, protocol="dlpack")
        assert caught.value is error
    assert view(thing, protocol="array_interface").tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["__cuda_array_interface__", "__array_interface__"])
def test_0_8_a_mask_ends_the_search(name):
    masked = {**GOOD, "mask": object()}
    parts = {name: shows(masked), "__array__": lambda self, *a, **k: VALUES}
    if name == "__cuda_array_interface__":
        parts["__array_interface__"] = shows(GOOD)
    thing = type("Masked", (bytearray,), parts)(b"abcd")
    for call in (view, lambda thing: rawcuda.copy(bytearray(4), thing), lambda t: view(bytearray(4)).copy_from(t)):
        for _ in range(2):
            with pytest.raises(ProtocolError, match="mask") as caught:
                call(thing)
            assert caught.value.protects and caught.value.field == "mask"


def test_0_8_a_masked_array_of_numpy_is_never_copied_by_its_array():
    numpy = pytest.importorskip("numpy")
    masked = numpy.ma.array([1.0, 2.0], mask=[False, True])
    target = view(array.array("d", [0, 0]))
    for call in (view, lambda thing: rawcuda.copy(target, thing), lambda thing: target.__setitem__(..., thing)):
        with pytest.raises(TypeError, match="a masked array cannot be viewed"):
            call(masked)
    assert target.tolist() == [0, 0]


# -- __array__, the last resort of copies


@pytest.mark.parametrize("kind", [BufferError, *OTHERS])
def test_0_10_copies_ask_for_an_array_last(kind):
    numpy = pytest.importorskip("numpy")

    def asked(self, *a, **k):
        self.asked = getattr(self, "asked", 0) + 1
        return numpy.array([1, 2, 3], "f4")

    thing = exporter({"__dlpack__": kind("no"), "__array_interface__": kind("nor so")}, __array__=asked)
    target = array.array("f", [0, 0, 0])
    rawcuda.copy(target, thing)
    assert target.tolist() == [1, 2, 3] and thing.asked == 1
    part = view(array.array("f", [0, 0, 0]))
    part[...] = thing
    part[:].copy_from(thing)
    assert part.tolist() == [1, 2, 3] and thing.asked == 3
    with pytest.raises(kind):
        view(thing)
    assert thing.asked == 3
    fits = exporter({"__dlpack__": kind("no")}, __array_interface__=shows(GOOD), __array__=method(AssertionError()))
    rawcuda.copy(target, fits)  # a protocol that fits comes first


@pytest.mark.parametrize("kind", OTHERS)
def test_0_10_if_the_array_refuses_too_the_first_exception_is_raised(kind):
    pytest.importorskip("numpy")
    first = kind("first")
    thing = exporter({"__dlpack__": first, "__array__": TypeError("nor an array")})
    with pytest.raises(kind) as caught:
        rawcuda.copy(array.array("f", [0]), thing)
    assert caught.value is first
    assert "__array__: TypeError: nor an array" in first.__notes__ and "dlpack: " in first.__notes__[0]
    alone = TypeError("the only way")
    with pytest.raises(TypeError) as caught:
        rawcuda.copy(array.array("f", [0]), exporter({"__array__": alone}))
    assert caught.value is alone
    error = MemoryError()
    with pytest.raises(MemoryError) as caught:
        rawcuda.copy(array.array("f", [0]), exporter({"__dlpack__": first, "__array__": error}))
    assert caught.value is error


def test_an_array_of_numpy_is_refused_once():
    """Its `__array__` returns the array itself, which is refused for the same reasons."""
    numpy = pytest.importorskip("numpy")
    with pytest.raises(ProtocolError, match="typestr '.O': means Python objects") as caught:
        rawcuda.copy(array.array("f", [0]), numpy.array([None]))
    assert not [note for note in getattr(caught.value, "__notes__", []) if note.startswith("__array__: ")]


def test_an_array_that_is_assigned_is_no_number():
    numpy = pytest.importorskip("numpy")

    class Series:
        """Like a Series of pandas, which has `__float__` for those of one element."""

        shape = (3,)

        def __array__(self, *a, **k):
            return numpy.array([1, 2, 3], "f4")

        def __float__(self):
            raise TypeError("more than one element")

    class Number(Series):
        shape = ()

        def __float__(self):
            return 7.0

    part = view(array.array("f", [0, 0, 0]))
    part[...] = Series()
    assert part.tolist() == [1, 2, 3]
    part[...] = Number()
    assert part.tolist() == [7, 7, 7]


class Missing:
    """Like an array of pandas, whose dtype is not NumPy's and whose `__array__` replaces what is missing by NaN."""

    dtype = "Int64"

    def __init__(self, flags):
        self.flags = flags

    def isna(self):
        import numpy

        return numpy.array(self.flags)

    def __array__(self, *a, **k):
        import numpy

        return numpy.array([1.0, float("nan")])


def test_0_10_missing_elements_are_not_copied_as_nan():
    numpy = pytest.importorskip("numpy")
    target = array.array("d", [0, 0])
    with pytest.raises(ProtocolError, match=r"__array__: isna\(\) True: elements of the Missing are missing") as caught:
        rawcuda.copy(target, Missing([False, True]))
    assert caught.value.protects and target.tolist() == [0, 0]
    rawcuda.copy(target, Missing([False, False]))
    assert target[0] == 1
    as_numpy = Missing([False, True])
    as_numpy.dtype = numpy.dtype("f8")  # NaN is an element like any other
    rawcuda.copy(target, as_numpy)
    assert target[1] != target[1]


def test_explain_tells_the_refusal_and_the_protocol_that_fits():
    said = str(rawcuda.explain(exporter({"__dlpack__": TypeError("bits")}, __array_interface__=shows(GOOD))))
    assert "refused: TypeError: bits" in said and "by array_interface: [1.0, 2.0, 3.0]>" in said


def test_one_rule():
    rule = module("protocols.refusals").means_another
    for kind in ANSWERS:
        assert rule(kind())
    for kind in (MemoryError, KeyboardInterrupt, OSError, AttributeError, rawcuda.Closed, rawcuda.OutOfMemory):
        assert not rule(kind("no"))
    assert rule(ProtocolError("x")) and not rule(module("errors").protecting("cuda_array_interface", "mask", 1, "no"))
