"""Five classes of bugs between array libraries, each tested from both sides.

If we are the consumer, the producer is an object with exactly this bug, and then the real library. If we are the
producer, the consumer is the real library. Tests that need device memory are in test_device_systems.py.
"""

from __future__ import annotations

import gc
import operator
import sys
import types

import pytest

from tests.interop.exchanges import claims
from tests.interop.systems import CudaCore, Jax, Mpi4py, Nanobind, Only, Strict, TvmFfi
from tests.null.producers import Exporter, Shows, Tensor, name_of
from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
errors, dlpack, exporting = module("errors"), module("dlpack"), module("arrays.exporting")
cuda_array_interface = module("protocols.cuda_array_interface")
view, ProtocolError = rawcuda.view, errors.ProtocolError
A = numpy.arange(12, dtype="f4").reshape(3, 4)
GOOD = {"shape": (3, 4), "typestr": "<f4", "data": (A.__array_interface__["data"][0], False), "version": 3}


def read(**changes):
    return cuda_array_interface.describe(Shows(cuda={**GOOD, **changes}))


# -- class A: a CAI dict without strides (Warp)


def test_class_a_consumer_missing_none_and_explicit_strides_are_the_same():
    class Index:
        def __init__(self, n):
            self.n = n

        def __index__(self):
            return self.n

    missing = read()
    for strides in (None, (16, 4), [16, 4], (numpy.int64(16), Index(4))):
        d = read(strides=strides)
        assert (
            (d.ptr, d.shape, d.strides)
            == (missing.ptr, (3, 4), (16, 4))
            == (missing.ptr, missing.shape, missing.strides)
        )
    assert all(type(n) is int for n in (*read(shape=[numpy.int32(3), Index(4)]).shape, *missing.strides))
    vectors = {"typestr": "|V12", "descr": [("x", "<f4"), ("y", "<f4"), ("z", "<f4")]}
    assert read(shape=(2,), **vectors).strides == (12,)  # from the item size only, for any structure
    assert read(shape=(), strides=()).shape == () and read(shape=(0, 3), data=(0, False)).shape == (0, 3)
    for version in (0, 1, 2, 3):
        assert read(version=version).strides == (16, 4)
    shows = Shows(cuda=types.MappingProxyType({**GOOD, "data": (GOOD["data"][0], True)}))
    assert cuda_array_interface.describe(shows)._place.readonly and shows.reads == 1
    with pytest.raises(ProtocolError, match="mask"):
        read(mask=Shows(cuda=GOOD))
    for error in (RuntimeError("no"), KeyError("typestr")):
        with pytest.raises(type(error)):
            cuda_array_interface.describe(Shows(cuda=error))


@pytest.mark.parametrize(
    "layout, strides",
    [
        ("contiguous", None),
        ("strided", (16, 8)),
        ("transposed", (4, 16)),
        ("reversed", (16, -4)),
        ("0-d", None),
        ("broadcast", (0, 4)),
        ("empty", None),
    ],
)
def test_class_a_producer_every_key_is_there(layout, strides):
    v = claims(layout)
    said = v.__cuda_array_interface__
    assert set(said) == {"version", "shape", "typestr", "data", "strides", "descr", "mask", "stream"}
    assert (said["version"], said["typestr"], said["strides"], said["mask"]) == (3, "<f4", strides, None)
    assert (
        all(type(n) is int for n in (*said["shape"], *(strides or ()), said["data"][0]))
        and type(said["data"][1]) is bool
    )
    assert said is not v.__cuda_array_interface__  # a fresh one each time
    host = view(A)
    assert not hasattr(host, "__cuda_array_interface__")


def test_class_a_producer_the_real_consumer_takes_ours():
    system = Mpi4py().load()
    for layout in ("contiguous", "0-d", "empty", "read-only"):
        v = claims(layout)
        theirs = system.by()["cuda_array_interface"](v)
        assert (theirs.address or v.ptr, theirs.nbytes, theirs.readonly) == (
            v.ptr if v.size else theirs.address or v.ptr,
            v.nbytes,
            v.readonly,
        )


# -- class B: a NumPy array and a stream (cuda.core)


class Strictly:
    """A producer of host memory that accepts no stream, and does not have the keyword, as NumPy's older arrays."""

    def __init__(self):
        self.tensor, self.asked = Tensor(), []

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, max_version=None, dl_device=None, copy=None):
        self.asked.append(max_version)
        return self.tensor.capsule()


@pytest.mark.parametrize("stream", [None, -1, 1, 2, 0x7F00DEADBEEF])
def test_class_b_consumer_host_memory_never_gets_a_stream(stream):
    producer = Strictly()
    v = view(producer, stream=stream)
    assert v.tolist()[1] == [3.0, 4.0, 5.0] and producer.asked == [(1, 3)] and not module("driver").is_loaded()
    for exporter in (A, A.T, memoryview(A), b"abc"):
        assert view(exporter, stream=stream).size
    assert view(Exporter(Tensor(device=(2, 0))), stream=stream).device == ("cuda", 0)
    exporter = Exporter(Tensor(device=(2, 0)))
    view(exporter, stream=stream)
    assert exporter.asked[0]["stream"] == (1 if stream is None else stream)  # CUDA memory: always one


@pytest.mark.parametrize("stream", [0, True, False, -2, 2**64, 1.5, "1"])
def test_class_b_streams_that_are_none_are_refused(stream):
    with pytest.raises((ValueError, TypeError)):
        view(A, stream=stream)
    with pytest.raises(BufferError):
        view(A).__dlpack__(stream=stream)
    with pytest.raises(BufferError):
        claims("contiguous").__dlpack__(stream=stream)


def test_class_b_producer_host_memory_takes_none_and_minus_one_only():
    v = view(A)
    for stream in (None, -1):
        assert name_of(v.__dlpack__(stream=stream)) == b"dltensor"
    for stream in (1, 2, 12345):
        with pytest.raises(BufferError, match="host memory"):
            v.__dlpack__(stream=stream)
    system = CudaCore().load()  # it passes the stream that it was given to us, or none
    assert system.module.StridedMemoryView.from_dlpack(v, -1).ptr == v.ptr


def test_class_b_the_real_producers():
    for kind in (CudaCore, TvmFfi, Nanobind):
        try:
            system = kind().load()
        except pytest.skip.Exception:
            continue
        for stream in (None, -1, 1, 2, 12345):
            assert view(system.made_from(A), stream=stream).tolist() == A.tolist()


# -- class C: JAX and the versioned capsule (cuda.core)


def test_class_c_consumer_the_capsules_name_decides():
    class Accepting:
        """An exporter that accepts max_version and returns any capsule."""

        def __init__(self, version):
            self.tensor = Tensor(version=version)

        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            return self.tensor.capsule()

        def __dlpack_device__(self):
            return (1, 0)

    for version, readonly in ((None, True), ((1, 0), False), ((1, 9), False)):
        producer = Accepting(version)
        v = view(producer)
        assert v.tolist()[0] == [0.0, 1.0, 2.0] and v.readonly == readonly
        del v
        gc.collect()
        assert producer.tensor.freed == 1
    for tensor, field in (
        (Tensor(version=(2, 0)), "version.major"),
        (Tensor(ndim=-1), "ndim"),
        (Tensor(shape=(2, -3)), "shape"),
        (Tensor(dtype=(2, 0, 1)), "dtype"),
        (Tensor(device=(99, 0)), "device.device_type"),
    ):
        capsule = tensor.capsule()
        with pytest.raises(ProtocolError) as caught:
            view(capsule)
        assert caught.value.field == field and name_of(capsule) == b"dltensor_versioned"  # checked before it is renamed
        del caught
        del capsule
        gc.collect()
        assert tensor.freed == 1
    assert view(Exporter(Tensor(shape=(2, 2), strides=None, byte_offset=4))).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_class_c_producer_the_version_that_was_asked_for():
    v, readonly = view(A), view(b"abcd")
    for asked, name in (
        (None, b"dltensor"),
        ((0, 8), b"dltensor"),
        ((1, 0), b"dltensor_versioned"),
        ((1, 9), b"dltensor_versioned"),
        ((2, 0), b"dltensor_versioned"),
    ):
        assert name_of(v.__dlpack__(max_version=asked)) == name
        if name == b"dltensor":
            with pytest.raises(BufferError, match="read-only"):
                readonly.__dlpack__(max_version=asked)


def test_class_c_the_real_producer_and_consumer():
    system = Jax().load()
    array = system.module.numpy.arange(6.0)
    assert name_of(array.__dlpack__(max_version=(1, 3))) == b"dltensor"
    before = sys.getrefcount(array)
    for _ in range(100):
        v = view(array)
        assert v.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] and v.readonly
    del v
    gc.collect()
    assert sys.getrefcount(array) == before
    assert system.takes(view(A)).tolist() == A.tolist()


# -- class D: a GPU array labelled CPU (nanobind)


def test_class_d_consumer_the_capsules_device_is_the_truth():
    for inside, outside in (((1, 0), (2, 0)), ((2, 0), (1, 0)), ((2, 0), (2, 1)), ((13, 0), (1, 0))):
        exporter = Exporter(Tensor(device=inside), says=outside)
        with pytest.raises(ProtocolError, match="__dlpack_device__"):
            view(exporter)
    labelled = claims("contiguous")
    for use in (
        labelled.memoryview,
        lambda: labelled.__array_interface__,
        lambda: numpy.asarray(labelled),
        lambda: bytes(labelled.memoryview()),
    ):
        with pytest.raises((BufferError, AttributeError, TypeError)):
            use()  # nothing reads it from the host


def test_class_d_producer_one_device_record_feeds_all():
    for v, device in ((view(A), (1, 0)), (claims("contiguous"), (2, 0))):
        assert v.__dlpack_device__() == device == view(v.__dlpack__(max_version=(1, 0))).__dlpack_device__()
        assert hasattr(v, "__array_interface__") == (device == (1, 0)) and hasattr(v, "__cuda_array_interface__") == (
            device == (2, 0)
        )
        other = (2, 0) if device == (1, 0) else (2, 1)
        with pytest.raises(BufferError):
            v.__dlpack__(dl_device=other)
    system = Nanobind().load()
    theirs = system.takes(claims("contiguous"))
    assert system.facts(theirs)[-1] == (2, 0) and view(system.exporter(theirs)).device == ("cuda", 0)
    kept = claims("contiguous")  # (the exporter of this test must not be released while an exception is pending)
    with pytest.raises(TypeError):
        system.module.total(kept)  # it requires nb::device::cpu
    with pytest.raises(TypeError):
        system.module.facts_cuda(view(A))


def test_class_d_memory_is_freed_once_by_whoever_drops_it_last():
    system = Nanobind().load()
    tensor = Tensor()
    for order in ("ours first", "theirs first"):
        tensor = Tensor()
        ours = view(Exporter(tensor))
        theirs = system.takes(ours)
        if order == "ours first":
            del ours
            gc.collect()
            assert tensor.freed == 0
            del theirs
        else:
            del theirs
            gc.collect()
            assert tensor.freed == 0
            del ours
        gc.collect()
        assert tensor.freed == 1


# -- class E: `stream: None` in a CAI dict (DALI, from PyCUDA)


def test_class_e_consumer_none_is_no_wait_and_0_is_refused():
    assert [read(stream=stream).stream for stream in (None, 1, 2, 12345)] == [read().stream, 1, 2, 12345]

    class Index:
        def __index__(self):
            return 77

    assert read(stream=Index()).stream == 77
    for stream in (0, True, False, -1, 1.0, "x", 2**64):
        with pytest.raises(ProtocolError, match="stream"):
            read(stream=stream)
    pycuda = {"shape": (3, 4), "strides": (16, 4), "data": GOOD["data"], "typestr": "<f4", "stream": None, "version": 3}
    assert cuda_array_interface.describe(Shows(cuda=pycuda)).shape == (3, 4)


def test_class_e_producer_never_says_0():
    v = claims("contiguous")
    assert operator.index(v.__cuda_array_interface__["stream"] or 1) >= 1
    assert exporting.cuda_array_interface(v)["stream"] != 0
    system = Mpi4py().load()
    assert system.module.buffer(Only(v, "__cuda_array_interface__")).address == v.ptr


def test_class_e_the_standard_library_of_arrays_passes_every_keyword():
    strict = Strict().load()
    assert strict.takes(view(A))._array.tolist() == A.tolist()
