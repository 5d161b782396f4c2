"""Lifetime of the memory of views and exports, and write access through them: a test for each class of defect."""

from __future__ import annotations

import array
import ctypes
import gc
import io
import sys
import threading
import weakref

import pytest

from tests.null.producers import Exporter, Tensor, name_of
from tests.subject import module, rawcuda

dlpack, errors, choosing = module("dlpack"), module("errors"), module("protocols.choosing")
view, ProtocolError = rawcuda.view, errors.ProtocolError


class Shared(Exporter):
    """An exporter that returns the same capsule each time, as a wrapper of a capsule does."""

    def __init__(self, tensor, keep):
        super().__init__(tensor)
        self.kept = tensor.capsule() if keep == "object" else None
        self.keep = keep

    def __dlpack__(self, **keywords):
        made = self.kept if self.kept is not None else self.tensor.capsule()
        if self.keep == "list":
            _kept.append(made)
        return made


_kept = []


@pytest.mark.parametrize("version", [(1, 3), None], ids=["versioned", "legacy"])
@pytest.mark.parametrize("keep", ["object", "list"])
def test_a_capsule_that_something_else_holds_is_consumed(keep, version):
    tensor = Tensor(version=version)
    exporter = Shared(tensor, keep)
    v = view(exporter)
    capsule = exporter.kept if keep == "object" else _kept.pop()
    assert name_of(capsule).startswith(b"used_dltensor")
    for second in (capsule, Exporter(tensor, capsule=capsule)):
        with pytest.raises(ProtocolError, match="consumed already"):
            view(second)
    del capsule, exporter
    gc.collect()
    assert tensor.freed == 0 and v.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    del v, second
    gc.collect()
    assert tensor.freed == 1


class MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def method_in_c(type_, name, function):
    """Give a type a method that is a C function, as the types of extension modules have; it calls function(self)."""
    call = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(
        lambda self, arguments, keywords: function(self)
    )
    definition = MethodDef(name.encode(), ctypes.cast(call, ctypes.c_void_p), 3)  # METH_VARARGS | METH_KEYWORDS
    api = ctypes.PyDLL(None) if sys.platform != "win32" else ctypes.PyDLL("", handle=sys.dllhandle)
    new = api["PyDescr_NewMethod"]
    new.restype, new.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    setattr(type_, name, new(type_, ctypes.addressof(definition)))
    return call, definition


def test_a_method_in_c_that_returns_a_capsule_that_something_else_holds():
    """The way to read such objects was learned from one that makes a new capsule each time."""

    class Array:
        def __init__(self):
            self.tensors, self.capsule = [Tensor()], None

        def export(self):
            self.tensors.append(Tensor())
            return self.capsule or self.tensors[-1].capsule()

    kept = [
        method_in_c(Array, "__dlpack__", Array.export),
        method_in_c(Array, "__dlpack_device__", lambda self: (1, 0)),
    ]
    plain, shares = Array(), Array()
    for _ in range(3):
        assert view(plain).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    tensor = shares.tensors[0]
    shares.capsule = tensor.capsule()
    v = view(shares)
    assert kept and name_of(shares.capsule).startswith(b"used_dltensor")
    with pytest.raises(ProtocolError, match="consumed already"):
        view(shares)
    shares.capsule = None
    gc.collect()
    assert tensor.freed == 0 and v.tolist()[1] == [3.0, 4.0, 5.0]
    del v
    assert tensor.freed == 1


def test_a_refused_capsule_that_is_held_elsewhere_is_left_alone():
    tensor = Tensor()
    exporter = Shared(tensor, "object")
    exporter.says = exporter.__dlpack_device__ = lambda: (2, 0)
    with pytest.raises(ProtocolError, match="contradicts"):
        view(exporter, stream=-1)
    assert name_of(exporter.kept) == b"dltensor_versioned" and tensor.freed == 0
    exporter.__dlpack_device__ = lambda: (1, 0)
    assert view(exporter).shape == (2, 3)


def test_threads_that_are_given_one_capsule():
    """Exactly one thread gets the tensor."""
    for _ in range(100):
        tensor = Tensor()
        exporter, got = Shared(tensor, "object"), []

        def work(exporter=exporter, got=got):
            try:
                got.append(view(exporter))
            except ProtocolError:
                pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1 and tensor.freed == 0
        got.clear()
        gc.collect()
        assert tensor.freed == 1


def test_the_owner_of_a_view_is_no_way_to_its_capsule():
    tensor = Tensor()
    v = view(Exporter(tensor))
    w = v[0]
    for owner in (v.owner, w.owner):
        assert type(owner).__name__ != "PyCapsule" and "capsule" in repr(owner)
        with pytest.raises(TypeError):
            view(owner)
    assert v.owner == w.owner and hash(v.owner) == hash(w.owner) and v.owner != view(Exporter(Tensor())).owner
    owner = v.owner
    del v, w
    gc.collect()
    assert tensor.freed == 0  # a reference to the owner keeps the memory alive
    del owner
    assert tensor.freed == 1


@pytest.mark.parametrize("make", [lambda v: v.memoryview(), lambda v: v.__buffer__(0), lambda v: v.__buffer__(0x11C)])
def test_a_memoryview_keeps_its_view(make):
    class Mine(array.array):
        pass

    data = Mine("i", range(6))
    gone = weakref.ref(data)
    m = make(view(data)[::-1])
    del data
    gc.collect()
    assert gone() is not None and m.tolist() == [5, 4, 3, 2, 1, 0] and memoryview(m).tolist() == m.tolist()
    part = m[1:3]
    del m
    gc.collect()
    assert part.tolist() == [4, 3]
    del part
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 688")
def test_a_class_that_delegates_its_buffer():
    class Image:
        def __buffer__(self, flags):
            return view(bytearray(b"x" * 100_000))[::1].__buffer__(flags)

    m = memoryview(Image())
    gc.collect()
    junk = [bytearray(b"y" * 100_000) for _ in range(10)]
    assert bytes(m) == b"x" * 100_000 and junk


def test_a_memoryview_many_times():
    v = view(array.array("i", range(6)))
    v.memoryview(), v.memoryview()
    gc.collect()
    before = sys.getrefcount(v)
    for _ in range(1000):
        v.memoryview()
        kept = v.memoryview()
        assert kept.obj is v
    del kept
    assert sys.getrefcount(v) == before


# -- write access


def test_no_way_round_a_memoryview_writes_read_only_memory():
    secret = b"constant bytes object"
    v = view(secret)
    m = v.memoryview()
    assert m.readonly and v.__buffer__(0).readonly
    for target in (m, m.obj, memoryview(m), m.cast("B")):
        with pytest.raises((TypeError, BufferError)):
            io.BytesIO(b"OVERWRITTEN").readinto(target)
    for thing in [m, *gc.get_referents(m)]:  # nor does an object to which the memoryview refers
        with pytest.raises((TypeError, BufferError)):
            (ctypes.c_char * 4).from_buffer(thing)
    assert secret == b"constant bytes object"
    with pytest.raises(BufferError):
        v.__buffer__(1)
    backwards = view(bytearray(b"0123456789"))[::-1]
    try:
        io.BytesIO(b"A" * 64).readinto(backwards.memoryview().obj)
    except (TypeError, BufferError):
        pass
    assert backwards.memoryview().tobytes() == b"9876543210"


def test_writable_is_decided_in_one_place():
    legacy = Tensor(version=None)
    assert view(Exporter(legacy)).readonly
    for make in (lambda: Exporter(Tensor(version=None)), lambda: Tensor(version=None).capsule()):
        assert view(make()).readonly and not view(make(), writable=True).readonly
        assert view(make(), writable=False).readonly
    said = view(Exporter(Tensor(flags=1)))
    for thing in (said, said[0], b"abc", view(bytearray(3), writable=False), view(bytearray(3)).broadcast_to((2, 3))):
        with pytest.raises(ProtocolError, match="readonly"):
            view(thing, writable=True)
    with pytest.raises(ProtocolError, match="readonly"):  # repeated elements are refused in a legacy capsule, too
        view(view(Exporter(Tensor(version=None))).broadcast_to((2, 2, 3)), writable=True)


# -- interpreters without a safe callback, where exports are swept


@pytest.mark.parametrize("when", ["name_of", "getrefcount"])
def test_a_capsule_that_is_consumed_while_it_is_swept(swept, monkeypatch, when):
    """A consumer may take the capsule between any two steps of the sweep."""
    kept = [view(bytearray(b"x" * 64)).__dlpack__(max_version=(1, 0))]
    done = []

    def interrupted(real):
        def call(capsule):
            result = real(capsule) if when == "name_of" else None
            if not done:
                done.append(True)
                kept[0] = view(kept[0])  # consumed, and the capsule dropped
            return real(capsule) if when == "getrefcount" else result

        return call

    if when == "name_of":
        monkeypatch.setattr(dlpack, "name_of", interrupted(dlpack.name_of))
    else:

        class Sys:
            getrefcount = staticmethod(interrupted(sys.getrefcount))

            def __getattr__(self, name):
                return getattr(sys, name)

        monkeypatch.setattr(dlpack, "sys", Sys())
        alone = dlpack._count_alone()
        monkeypatch.setattr(dlpack, "_count_alone", lambda: alone)
    assert dlpack.sweep() == 0
    if isinstance(kept[0], rawcuda.StridedView):
        assert kept[0].owner._address in dlpack.outstanding
    else:
        kept[0] = view(kept[0])
    assert kept[0].tolist() == [120] * 64
    kept.clear()
    assert dlpack.sweep() == 1 and not dlpack.outstanding
