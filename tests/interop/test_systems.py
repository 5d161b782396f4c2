"""Each library takes our views and gives us arrays: values, shape, strides, flags, device, and who keeps the memory alive."""
from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import pytest

from tests.interop.systems import SYSTEMS, System
from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
dlpack, errors = module("dlpack"), module("errors")
view = rawcuda.view


@pytest.fixture(params=SYSTEMS, ids=lambda kind: kind.name)
def system(request: pytest.FixtureRequest) -> System:
    """One library after the other."""
    loaded: System = request.param().load()
    return loaded


@pytest.fixture(autouse=True)
def nothing_left_out() -> Any:
    """See that every tensor that a test exported was freed."""
    gc.collect()
    before = len(dlpack.outstanding)
    yield
    gc.collect()
    assert len(dlpack.outstanding) == before


LAYOUTS = {
    "contiguous": lambda a: a, "strided": lambda a: a[:, ::2], "transposed": lambda a: a.T, "offset": lambda a: a[1:, 1:], "row": lambda a: a[1],
    "reversed": lambda a: a[:, ::-1], "broadcast": lambda a: numpy.broadcast_to(a[:1], (3, 4)), "scalar": lambda a: a[1, 2, ...], "empty": lambda a: a[:, :0],
}
KINDS = {"strided": "strided", "offset": "strided", "reversed": "reversed", "broadcast": "broadcast", "empty": "empty",
         "scalar": "scalar"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ours_goes_there(system, layout):
    a = LAYOUTS[layout](numpy.arange(12, dtype="f4").reshape(3, 4))
    v = view(a, protocol="array_interface")
    if layout == "broadcast" and "readonly" in system.refuses or KINDS.get(layout) in system.refuses:
        with pytest.raises(Exception):
            system.takes(v)
        return
    theirs = system.takes(v)
    address, shape, strides, readonly, device = system.facts(theirs)
    assert system.numbers(theirs) == a.tolist() and shape == a.shape and device == (1, 0)
    assert address == v.ptr or not a.size or system.name == "jax"        # JAX copies what is not aligned for it
    assert strides is None or not a.size or [s for n, s in zip(shape, strides) if n > 1] == [s for n, s in zip(v.shape, v.element_strides) if n > 1]
    assert readonly is None or readonly == v.readonly or not a.size or system.name == "torch"
    del theirs


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "u2", "u4", "u8"])
def test_dtypes_both_ways(system, dtype):
    if dtype in system.lacks:
        pytest.skip(f"{system.name} has no {dtype}")
    a = numpy.arange(6).astype(dtype).reshape(2, 3)
    theirs = system.takes(view(a, protocol="array_interface"))
    assert system.numbers(theirs) == a.tolist()
    back = view(theirs)
    assert back.dtype == str(a.dtype) and back.tolist() == a.tolist()
    del back, theirs


def test_theirs_comes_here(system):
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    theirs = system.made_from(a)
    v = view(theirs)
    address, shape, strides, readonly, device = system.facts(theirs)
    assert v.tolist() == a.tolist() and v.ptr == address and v.shape == shape and v.dtype == "float32" and v.__dlpack_device__() == device
    assert strides is None or v.element_strides == tuple(strides)
    assert v.readonly == (system.gives_legacy if readonly is None else readonly)
    expected = "dlpack_c_exchange" if system.name == "torch" else "dlpack"
    assert v.protocol == expected
    assert view(theirs, protocol="dlpack").tolist() == a.tolist()
    del v


def test_read_only_goes_there_or_is_refused(system):
    v = view(b"abcdef")
    if "readonly" in system.refuses:
        with pytest.raises(BufferError, match="read-only"):
            system.takes(v)
        return
    theirs = system.takes(v)
    readonly = system.facts(theirs)[3]
    assert readonly in (True, None) and system.numbers(theirs) == list(b"abcdef")
    back = view(theirs)
    assert back.tolist() == list(b"abcdef")
    del theirs, back


def test_the_memory_lives_as_long_as_either_side(system):
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    before = sys.getrefcount(a)
    theirs = system.takes(view(a, protocol="array_interface"))
    gc.collect()
    assert system.numbers(theirs) == a.tolist()          # our view is gone, its memory is not
    thread = threading.Thread(target=lambda box: box.clear(), args=([theirs],))
    del theirs
    thread.start()
    thread.join()                                        # the last reference goes in another thread
    del thread
    gc.collect()
    assert sys.getrefcount(a) == before
    made = system.made_from(a)
    v = view(made)
    del made
    gc.collect()
    assert v.tolist() == a.tolist()                      # their array is gone, its memory is not


def test_an_exception_on_its_way_survives_their_dropping_our_tensor(system):
    v = view(numpy.arange(6, dtype="f4"), protocol="array_interface")
    for _ in range(50):
        if system.name != "jax":                         # (where every index is clamped)
            with pytest.raises((IndexError, TypeError)):
                system.takes(v)[10**9]
        with pytest.raises(AttributeError):
            system.takes(v).no_such_attribute
        with pytest.raises(TypeError):
            len(system.takes(v), 3)


def test_exchanges_leave_nothing(system):
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    v, theirs = view(a, protocol="array_interface"), system.made_from(a)
    for exchange in (lambda: system.takes(v), lambda: view(theirs), lambda: view(theirs, protocol="dlpack")):
        for _ in range(100):
            exchange()
        gc.collect()
        before = sys.getrefcount(v), sys.getrefcount(theirs), len(dlpack.outstanding), sys.getallocatedblocks()
        for _ in range(3000):
            exchange()
        gc.collect()
        after = sys.getrefcount(v), sys.getrefcount(theirs), len(dlpack.outstanding), sys.getallocatedblocks()
        assert after[:3] == before[:3] and after[3] - before[3] < 300, (before, after)


def test_exit_with_arrays_alive(system, python):
    result = python(f"""
        import builtins, numpy
        from tests.interop.systems import SYSTEMS
        from tests.subject import rawcuda
        system = next(kind for kind in SYSTEMS if kind.name == {system.name!r})().load()
        v = rawcuda.view(numpy.arange(6, dtype="f4"), protocol="array_interface")
        builtins.theirs = system.takes(v)
        builtins.ours = rawcuda.view(system.made_from(numpy.arange(6, dtype="f4")))
        print("done")
    """, env={"RAWCUDA_DRIVER": None}, timeout=120)
    assert result.returncode == 0 and result.stdout.endswith("done\n"), result.stderr
