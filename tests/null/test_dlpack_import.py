"""DLPack imports from the producers of producers.py: sections 1 and 2 of docs/protocols.md, the side of the consumer.

The tests are named after its rules.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import threading

import pytest

from tests.null.producers import Exporter, Shows, Tensor, _api, capsule, name_of
from tests.subject import module, rawcuda

errors = module("errors")
view, ProtocolError = rawcuda.view, errors.ProtocolError


def viewed(tensor, **keywords):
    """View a tensor through its exporter; check that it is freed exactly once, with the view."""
    made = view(Exporter(tensor), **keywords)
    assert tensor.freed == 0
    return made


def refused(tensor, field, value=None, **keywords):
    """Check that a tensor is refused by protocol, field and value, and still freed exactly once."""
    exporter = Exporter(tensor, **keywords)
    with pytest.raises(ProtocolError) as caught:
        view(exporter)
    error = caught.value
    assert (error.protocol, error.field) == ("dlpack", field) and isinstance(error, BufferError), error
    assert str(error).startswith("dlpack: ") and (value is None or str(value) in str(error)), error
    assert not isinstance(error.__context__, LookupError)  # it would be shown above the refusal
    del caught, error
    gc.collect()
    assert tensor.freed == len(exporter.asked)  # each capsule that was made was dropped


EVERY_VERSION = pytest.mark.parametrize("version", [None, (1, 0), (1, 1), (1, 2), (1, 3)], ids=str)


def test_what_a_view_says():
    tensor = Tensor()
    v = viewed(tensor)
    assert (
        v.ptr == ctypes.addressof(tensor.values)
        and v.shape == (2, 3)
        and v.strides == (12, 4)
        and v.element_strides == (3, 1)
    )
    assert (
        v.dtype == "float32"
        and str(v.dtype) == "float32"
        and v.itemsize == 4
        and v.ndim == 2
        and v.size == 6
        and v.nbytes == 24
    )
    assert v.device == ("cpu", 0) and v.protocol == "dlpack" and not v.readonly and v.stream is None and len(v) == 2
    assert v.is_c_contiguous and not v.is_f_contiguous and v.is_host_accessible and not v.is_device_accessible
    assert type(v._owner).__name__ == "PyCapsule" and name_of(v._owner) == b"dltensor_versioned"  # kept unchanged
    assert type(v.owner).__name__ != "PyCapsule"  # but not exposed: another consumer would take it
    assert v.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    w = v[1]
    del v
    gc.collect()
    assert tensor.freed == 0 and w.tolist() == [3.0, 4.0, 5.0]
    del w
    assert tensor.freed == 1


def test_1_17_unknown_flags_do_not_matter():
    assert not viewed(Tensor(flags=1 << 40)).readonly
    assert viewed(Tensor(flags=1 << 40 | 1)).readonly
    assert not viewed(Tensor(flags=2)).readonly
    assert viewed(Tensor(flags=4)).shape == (2, 3)


@EVERY_VERSION
def test_1_18_byte_offset_counts(version):
    tensor = Tensor(version=version, byte_offset=8)
    v = viewed(tensor)
    assert v.ptr == ctypes.addressof(tensor.values) + 8 and v.tolist()[0] == [2.0, 3.0, 4.0]
    refused(Tensor(version=version, byte_offset=2**64 - 1), "data")


@pytest.mark.parametrize("data", [0, None, 0xDEAD0000])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2)])
@EVERY_VERSION
def test_1_19_no_elements(shape, data, version):
    v = viewed(Tensor(data, shape=shape, version=version), writable=True)
    assert (
        v.size == v.nbytes == 0
        and v.is_c_contiguous
        and v.is_f_contiguous
        and v.tolist() == ([] if shape[0] == 0 else [[], [], []])
    )
    assert v.download().shape == shape and v.memoryview().nbytes == 0
    v.copy_from(v)
    v.fill(1)
    assert v.__dlpack__(max_version=(1, 3)) is not None
    interface = v.__array_interface__
    assert interface["shape"] == shape


def test_1_19_null_data_with_elements_is_refused():
    refused(Tensor(0), "data")
    assert viewed(Tensor(0, shape=(2, 0))).ptr == 0


@EVERY_VERSION
@pytest.mark.parametrize(
    "shape, strides, expected",
    [
        ((2, 3), (1, 2), [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]),
        ((3, 2), (0, 1), [[0.0, 1.0]] * 3),
        ((2, 2), (6, 2), [[0.0, 2.0], [6.0, 8.0]]),
    ],
)
def test_1_20_strides_count_elements(version, shape, strides, expected):
    v = viewed(Tensor(shape=shape, strides=strides, version=version))
    assert v.tolist() == expected and v.element_strides == strides and v.strides == tuple(4 * s for s in strides)


def test_1_20_reversed():
    tensor = Tensor(shape=(3,), strides=(-1,), byte_offset=8)
    v = viewed(tensor)
    assert v.tolist() == [2.0, 1.0, 0.0] and v.strides == (-4,) and v[::-1].tolist() == [0.0, 1.0, 2.0]


@EVERY_VERSION
def test_1_21_null_strides_are_c_order(version):
    v = viewed(Tensor(shape=(2, 3, 2), strides=None, version=version))
    assert v.strides == (24, 8, 4) and v.is_c_contiguous and v.tolist()[1][2] == [10.0, 11.0]


@EVERY_VERSION
@pytest.mark.parametrize("shape, strides", [(0, 0), (8, 8), (1, 2**63), (2**64 - 1, 2**64 - 1)])
def test_1_22_no_dimensions_no_pointers(version, shape, strides):
    v = viewed(Tensor(shape=shape, strides=strides, ndim=0, version=version))
    assert v.shape == () and v.strides == () and v.tolist() == 0.0 and v.size == 1 and v.is_c_contiguous


def test_1_23_strides_of_single_and_empty_extents_say_nothing():
    assert viewed(Tensor(shape=(1, 3), strides=(77, 1))).is_c_contiguous
    assert viewed(Tensor(shape=(2, 0), strides=(0, 0))).is_c_contiguous
    assert viewed(Tensor(shape=(1, 1), strides=(-9, 5))).is_f_contiguous


def test_1_24_1_25_a_null_deleter_and_a_freed_struct():
    tensor = Tensor(null_deleter=True)
    handed = tensor.capsule()
    v = view(handed)
    assert v.tolist()[0] == [0.0, 1.0, 2.0]
    del v, handed
    gc.collect()
    assert tensor.freed == 0
    tensor = Tensor()
    v = view(tensor.capsule())
    assert v.shape == (2, 3)
    del v  # the deleter overwrites struct and shape, so a later read would crash
    assert tensor.freed == 1


@EVERY_VERSION
@pytest.mark.parametrize(
    "field, changes",
    [
        ("ndim", dict(ndim=-1)),
        ("ndim", dict(ndim=65)),
        ("ndim", dict(ndim=2**31 - 1)),
        ("shape", dict(shape=(-1, 3))),
        ("shape", dict(shape=(2**32, 2**32))),
        ("shape", dict(shape=(2**62,))),
        ("shape", dict(shape=(0, 2**63 - 1, 2**63 - 1))),
        ("dtype", dict(dtype=(2, 32, 0))),
        ("dtype", dict(dtype=(2, 0, 1))),
        ("shape", dict(shape=0, ndim=2)),
        ("shape", dict(shape=8, ndim=1)),
        ("strides", dict(shape=(2,), strides=8)),
        ("shape", dict(shape=2**63, ndim=1)),
        ("strides", dict(shape=(3,), strides=(2**62,))),
        ("strides", dict(shape=(3,), strides=(-(2**62),))),
    ],
)
def test_1_26_validated_before_use(version, field, changes):
    refused(Tensor(version=version, **changes), field)


def test_the_widest_strides_that_fit_are_fine():
    for step in sys.maxsize - 1, -sys.maxsize:  # with the last element, as many bytes as a signed word counts
        data = sys.maxsize + 1 if step < 0 else None
        assert viewed(Tensor(data, shape=(2,), strides=(step,), dtype=(1, 8, 1))).strides == (step,)
    for step in sys.maxsize, -sys.maxsize - 1:
        refused(Tensor(shape=(2,), strides=(step,), dtype=(1, 8, 1)), "strides")


@EVERY_VERSION
@pytest.mark.skipif(sys.maxsize < 2**62, reason="in a browser pointers have 4 bytes")
@pytest.mark.parametrize(
    "data, offset, shape, strides",
    [
        (0x1000, 0, (2,), (-(2**40),)),
        (0x1000, 2**40 - 0x1000, (2,), (-(2**40),)),  # a byte at address 0
        (2**64 - 2, 0, (8,), None),
        (2**64 - 16, 12, (8,), (1,)),
        (2**63 + 5, 0, (2,), (2**63 - 2,)),
    ],
)
def test_1_26_elements_outside_of_the_address_space_are_refused(version, data, offset, shape, strides):
    options = dict(shape=shape, strides=strides, dtype=(1, 8, 1), version=version)
    refused(Tensor(data, byte_offset=offset, **options), "strides", "out of the address space")
    assert viewed(Tensor(2**63, byte_offset=offset, **options)).ptr == 2**63 + offset


def test_64_dimensions_are_fine():
    v = viewed(Tensor(shape=(1,) * 63 + (3,), strides=(5,) * 63 + (1,)))
    assert v.ndim == 64 and v.squeeze().tolist() == [0.0, 1.0, 2.0] and v.memoryview().ndim == 64


@pytest.mark.parametrize(
    "version, fine",
    [((1, 0), True), ((1, 9), True), ((1, 2**32 - 1), True), ((2, 0), False), ((0, 8), False), ((99, 1), False)],
)
def test_1_32_another_major_is_refused_and_freed(version, fine):
    tensor = Tensor(version=version)
    if fine:
        assert viewed(tensor).tolist()[1] == [3.0, 4.0, 5.0]
    else:
        refused(tensor, "version.major", version[0])
        handed = (again := Tensor(version=version)).capsule()
        with pytest.raises(ProtocolError):
            view(handed)
        assert again.freed == 0 and name_of(handed) == b"dltensor_versioned"  # unchanged: it belongs to the user
        del handed
        assert again.freed == 1


# -- the level of Python


def test_2_20_the_device_is_asked_first_and_its_id_may_be_none():
    exporter = Exporter(Tensor(), says=(1, None))
    assert view(exporter).device == ("cpu", 0) and exporter.asked == [{"max_version": (1, 3)}]
    assert view(Exporter(Tensor(device=(2, 0)), says=(2, None))).device == ("cuda", 0)

    class Kind(int):
        pass

    assert view(Exporter(Tensor(), says=(Kind(1), Kind(0)))).device == ("cpu", 0)
    assert view(Exporter(Tensor(), says=False)).device == ("cpu", 0)  # without the method, the capsule tells the device
    for wrong in ((1,), 1, (None, 0), "x", ("cpu", 0), (1.5, 0), ("1", "0"), (1, 0.0)):
        with pytest.raises(ProtocolError, match="^dlpack: __dlpack_device__ "):
            view(Exporter(Tensor(), says=wrong))
    with pytest.raises(TypeError, match="not an exporter"):
        view(object())
    for sequence in ([1, 2], (1, 2), []):
        with pytest.raises(TypeError, match="not an exporter.*: make an array of it with array.array or numpy.asarray"):
            view(sequence)


@pytest.mark.parametrize(
    "knows, asked",
    [
        ((), [{"max_version": (1, 3)}, {}]),
        (("stream",), [{"max_version": (1, 3)}, {}]),
        (("stream", "max_version"), [{"max_version": (1, 3)}]),
        (("stream", "max_version", "dl_device", "copy"), [{"max_version": (1, 3)}]),
    ],
)
def test_2_21_exporters_older_than_a_keyword(knows, asked):
    exporter = Exporter(Tensor(), knows=knows)
    assert view(exporter).tolist()[0] == [0.0, 1.0, 2.0] and exporter.asked == asked


def test_a_function_whose_parameters_show_is_asked_once():
    class Newer(Exporter):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            return super().__dlpack__(max_version=max_version)

    class Older(Exporter):
        def __dlpack__(self, stream=None):
            return super().__dlpack__()

    for kind, asked in ((Newer, {"max_version": (1, 3)}), (Older, {})):
        for _ in range(2):
            exporter = kind(Tensor(version=(1, 3) if asked else None))
            assert view(exporter).tolist()[0] == [0.0, 1.0, 2.0] and exporter.asked == [asked]
    exporter = Older(Tensor(), says=(1, 0))
    exporter.__dlpack__ = Newer(Tensor()).__dlpack__  # a function of the object's own may have other parameters
    assert view(exporter).shape == (2, 3) and exporter.__dlpack__.__self__.asked == [{"max_version": (1, 3)}]
    Older.__dlpack__ = lambda self, max_version=None: Exporter.__dlpack__(self, max_version=max_version)
    exporter = Older(Tensor())
    assert view(exporter).shape == (2, 3) and exporter.asked == [{"max_version": (1, 3)}]


@pytest.mark.parametrize(
    "knows, asked",
    [
        (("stream",), [{"max_version": (1, 3), "stream": 1}, {"stream": 1}]),
        (("stream", "max_version"), [{"max_version": (1, 3), "stream": 1}]),
    ],
)
def test_2_21_the_stream_is_kept(knows, asked):
    exporter = Exporter(Tensor(device=(2, 1)), knows=knows)
    assert view(exporter).device == ("cuda", 1) and exporter.asked == asked


def test_2_22_the_first_error_is_the_one_raised():
    first, second = TypeError("broken inside"), ValueError("the retry")
    exporter = Exporter(Tensor(), raises={True: first, False: second})
    with pytest.raises(TypeError, match="broken inside") as caught:
        view(exporter)
    assert caught.value is first and len(exporter.asked) == 2


def test_2_23_after_a_buffer_error_the_other_kind_is_asked_for_once():
    exporter = Exporter(Tensor(version=None), raises={True: BufferError("no versioned ones")})
    assert view(exporter).shape == (2, 3) and exporter.asked == [{"max_version": (1, 3)}, {}]
    refusal = BufferError("never")
    with pytest.raises(BufferError) as caught:
        view(Exporter(Tensor(), raises={True: refusal, False: BufferError("again")}))
    assert caught.value is refusal


def test_2_24_the_name_decides():
    assert view(Exporter(Tensor(version=None))).readonly  # a legacy capsule, although (1, 3) was requested
    assert not view(Exporter(Tensor())).readonly
    for name, words in (
        (b"used_dltensor", "consumed"),
        (b"used_dltensor_versioned", "consumed"),
        (b"something_else", "not a name"),
        (None, "None"),
    ):
        with pytest.raises(ProtocolError, match=words) as caught:
            view(Exporter(Tensor(), capsule=capsule(4096, name)))
        assert caught.value.field == "capsule.name"
        with pytest.raises(ProtocolError, match=words):
            view(capsule(4096, name))
    for thing in (None, 3, b"dltensor", object()):
        exporter = Exporter(Tensor())
        exporter.given = thing
        if thing is not None:
            with pytest.raises(ProtocolError, match="PyCapsule"):
                view(exporter)


@EVERY_VERSION
def test_2_25_a_capsule_of_the_users_is_consumed_once(version):
    tensor = Tensor(version=version)
    handed = tensor.capsule()
    v = view(handed)
    assert name_of(handed) == (b"used_dltensor" if version is None else b"used_dltensor_versioned")
    with pytest.raises(ProtocolError, match="consumed already"):
        view(handed)
    del handed
    assert tensor.freed == 0 and v.tolist()[1] == [3.0, 4.0, 5.0]
    del v
    assert tensor.freed == 1


def test_2_25_a_refused_capsule_stays_the_users():
    tensor = Tensor(dtype=(99, 32, 1))
    handed = tensor.capsule()
    with pytest.raises(ProtocolError):
        view(handed)
    assert name_of(handed) == b"dltensor_versioned" and tensor.freed == 0
    del handed
    assert tensor.freed == 1


def test_2_25_two_threads_want_one_capsule(monkeypatch):
    """The second thread comes when the first has read the name, and has not renamed the capsule yet."""
    dlpack, threads, got = module("dlpack"), [], []
    tensor, consumed = Tensor(), dlpack.Consumed
    handed = tensor.capsule()

    def take():
        try:
            got.append(view(handed))
        except ProtocolError as error:
            got.append(str(error))

    def interrupted(*arguments):
        if not threads:
            threads.append(threading.Thread(target=take))
            threads[0].start()
            threads[0].join(0.1)
        return consumed(*arguments)

    monkeypatch.setattr(dlpack, "Consumed", interrupted)
    take()
    threads[0].join()
    assert [type(one) is str for one in got] == [False, True] and "consumed already" in got[1]
    got.clear()
    assert tensor.freed == 1


def test_an_exception_at_any_line_leaves_capsules_usable_for_other_threads():
    """An exporter that keeps its capsule has it read under a lock."""
    dlpack, reader, seen = module("dlpack"), module("protocols.dlpack_capsule"), set()

    class Injected(BaseException):
        pass

    class Keeping:
        def __dlpack__(self, **options):
            self.kept = tensor.capsule()
            return self.kept

    def trace(frame, event, _):
        place = frame.f_code.co_filename, frame.f_lineno
        if place[0] != reader.__file__:
            return None
        if event == "line" and place not in seen:
            seen.add(place)
            sys.settrace(None)
            raise Injected
        return trace

    def look():
        found.append(dlpack.taking.acquire(False))
        dlpack.taking.release()

    before, was = -1, sys.gettrace()
    while len(seen) > before:
        before, tensor, found = len(seen), Tensor(), []
        sys.settrace(trace)
        try:
            view(Keeping())
        except Injected:
            pass
        finally:
            sys.settrace(was)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert found == [True]
    assert len(seen) > 10


@pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect()")
@pytest.mark.parametrize("name", [b"dltensor", b"dltensor_versioned", b"something_else", b""])
def test_a_name_at_the_end_of_what_can_be_read(name):
    size, libc = mmap.PAGESIZE, ctypes.CDLL(None)
    pages = mmap.mmap(-1, 2 * size)
    pages[size - len(name) - 1 : size - 1] = name
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = lambda allowed: libc.mprotect(ctypes.c_void_p(start + size), size, allowed)  # noqa: E731
    tensor, new = Tensor(version=(1, 3) if name.endswith(b"_versioned") else None), _api["PyCapsule_New"]
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    made = new(tensor.address, start + size - len(name) - 1, None)
    assert protect(0) == 0
    try:
        if name.startswith(b"dltensor"):
            assert view(made).shape == (2, 3)
        else:
            with pytest.raises(ProtocolError, match="^dlpack: capsule.name .* is not a name of DLPack"):
                view(made)
    finally:
        protect(mmap.PROT_READ | mmap.PROT_WRITE)
        del made


def test_the_owner_of_what_was_consumed_frees_it():
    for version in (None, (1, 3)):
        tensor = Tensor(version=version)
        owner = module("dlpack").consume(tensor.capsule())
        assert tensor.freed == 0
        del owner
        assert tensor.freed == 1


def test_a_finalizer_uses_a_view_that_is_garbage_with_it():
    """Python calls the finalizers of a cycle in any order; the tensor is freed after all of them."""
    seen = []

    class User:
        def __init__(self, made):
            self.view, self.me = made, self

        def __del__(self):
            seen.append((tensor.freed, self.view.tolist()[1]))

    tensor = Tensor()
    made = view(tensor.capsule())
    User(made)
    del made
    gc.collect()
    assert seen == [(0, [3.0, 4.0, 5.0])] and tensor.freed == 1


def test_an_exporter_that_consumes_its_capsule_while_it_is_viewed():
    """The array interface is asked whether the memory may be written; this must not consume the capsule twice."""

    class Greedy:
        def __init__(self):
            self.tensor, self.views = Tensor(version=None), []
            self.capsule = self.tensor.capsule()

        def __dlpack__(self, **_):
            return self.capsule

        def __dlpack_device__(self):
            return 1, 0

        @property
        def __array_interface__(self):
            if not self.views:
                self.views.append(view(self.capsule))
            raise AttributeError

    greedy = Greedy()
    with pytest.raises(ProtocolError, match="was consumed already"):
        view(greedy)
    assert greedy.tensor.freed == 0 and greedy.views[0].tolist()[1] == [3, 4, 5]
    greedy.views.clear()
    assert greedy.tensor.freed == 1


def test_2_26_a_destructor_that_does_not_look_at_the_name():
    tensor = Tensor()
    destroy = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(lambda address: tensor._delete(tensor.address))
    handed = capsule(tensor.address, b"dltensor_versioned", ctypes.cast(destroy, ctypes.c_void_p).value)
    v = view(handed)
    del handed
    assert tensor.freed == 0
    del v
    assert tensor.freed == 1


def test_2_27_the_deleter_is_called_with_the_gil():
    check = ctypes.PyDLL(None)["PyGILState_Check"] if sys.platform != "win32" else None
    held = []
    tensor = Tensor()
    raw = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(
        lambda address: held.append(check())
    )  # PYFUNCTYPE does not acquire the GIL
    ctypes.c_uint64.from_address(tensor.address + 16).value = ctypes.cast(raw, ctypes.c_void_p).value
    v = view(tensor.capsule())
    del v
    assert held == [1]


def test_2_27_a_view_that_goes_with_an_exception_pending():
    tensor = Tensor()
    with pytest.raises(KeyError, match="mine"):
        kept = [view(tensor.capsule())]
        raise KeyError("mine", kept.pop())
    gc.collect()
    with pytest.raises(TypeError, match="computes nothing"):
        -view(Tensor().capsule())


def test_2_29_read_only_is_never_lost():
    v = viewed(Tensor(flags=1))
    assert v.readonly and v[0].readonly and v.T.readonly and v.reshape(6).readonly and v.reinterpret("int32").readonly
    for write in (lambda: v.fill(0), lambda: v.copy_from(v), lambda: v.__setitem__(0, 1.0), lambda: rawcuda.copy(v, v)):
        with pytest.raises(ProtocolError, match="readonly"):
            write()
    with pytest.raises(ProtocolError, match="writable=True"):
        viewed(Tensor(flags=1), writable=True)
    assert viewed(Tensor(), writable=False).readonly


def test_2_29_a_legacy_capsule_cannot_say():
    assert viewed(Tensor(version=None)).readonly
    assert not viewed(Tensor(version=None), writable=True).readonly
    assert (
        view(Tensor(version=None).capsule()).readonly
        and not view(Tensor(version=None).capsule(), writable=True).readonly
    )

    class Both(Exporter):
        def __init__(self, tensor, data):
            super().__init__(tensor)
            self.__array_interface__ = {"shape": (2, 3), "typestr": "<f4", "version": 3, "data": data}

    for readonly, shift in ((False, 0), (True, 0), (False, 4)):
        tensor = Tensor(version=None)
        v = view(Both(tensor, (ctypes.addressof(tensor.values) + shift, readonly)), protocol="dlpack")
        assert v.readonly == (readonly or shift != 0)  # its answer for another address says nothing about this one
    for data in (None, 3, (1, 2, 3)):  # an interface that cannot be read says nothing
        assert view(Both(Tensor(version=None), data), protocol="dlpack").readonly


def test_2_30_unknown_code_and_device():
    refused(Tensor(dtype=(99, 32, 1)), "dtype.code", 99)
    refused(Tensor(device=(99, 0)), "device.device_type", 99)
    refused(Tensor(device=(10, 0)), "device.device_type", "kDLROCM")
    refused(Tensor(device=(-1, 0)), "device.device_type", -1)
    refused(Tensor(device=(2, -1)), "device.device_id", -1)


def test_2_31_the_copied_flag_proves_nothing():
    assert viewed(Tensor(flags=2)).tolist() == viewed(Tensor(flags=0)).tolist()


def test_2_33_nothing_but_the_struct_is_held():
    import weakref

    tensor = Tensor()
    exporter = Exporter(tensor)
    gone = weakref.ref(exporter)
    v = view(exporter)
    del exporter
    gc.collect()
    assert gone() is None and tensor.freed == 0 and v.tolist()[1] == [3.0, 4.0, 5.0]


def test_3_4_rocm_memory_is_refused_before_a_stream_is_needed():
    exporter = Exporter(Tensor(device=(10, 0)))
    with pytest.raises(ProtocolError, match="kDLROCM"):
        view(exporter)
    assert exporter.asked == [{"max_version": (1, 3)}]  # 0, 1 and 2 have other meanings there


def test_packed_elements_have_no_address():
    refused(Tensor(dtype=(17, 4, 1)), "dtype", "(17, 4, 1)")
    assert viewed(Tensor(dtype=(17, 4, 1), flags=4)).itemsize == 1
    assert str(viewed(Tensor(dtype=(17, 4, 2))).dtype) == "float4_e2m1fnx2"


def test_lanes():
    v = viewed(Tensor(shape=(3,), dtype=(2, 32, 4)))
    assert str(v.dtype) == "float32x4" and v.strides == (16,) and v.nbytes == 48
    assert v[1].reshape(1).reinterpret("float32").tolist() == [4.0, 5.0, 6.0, 7.0]


@pytest.mark.parametrize(
    "says, device",
    [((2, 0), (1, 0)), ((1, 0), (2, 0)), ((2, 1), (2, 0)), ((13, 0), (2, 0)), ((2, 0), (3, 0)), ((10, 0), (1, 0))],
)
def test_a_capsule_that_contradicts_its_exporter(says, device):
    refused(Tensor(device=device), "__dlpack_device__", value=says, says=says)


def test_pinned_memory_may_be_called_so_by_either():
    assert view(Exporter(Tensor(device=(1, 0)), says=(3, 0))).device == ("cuda_host", 0)
    assert view(Exporter(Tensor(device=(3, 0)), says=(1, 0))).device == ("cuda_host", 0)
    assert view(Exporter(Tensor(device=(11, 5)))).device == ("cpu", 0)


# -- which protocol, and whose error


def test_5_17_a_buffer_error_falls_to_the_next_protocol():
    class Both(Exporter):
        @property
        def __array_interface__(self):
            return {
                "shape": (3,),
                "typestr": "<f4",
                "version": 3,
                "data": (ctypes.addressof(self.tensor.values), False),
            }

    falls = BufferError("not this time")
    v = view(Both(Tensor(), raises={True: falls, False: falls}))
    assert v.protocol == "array_interface" and v.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(BufferError) as caught:
        view(Both(Tensor(), raises={True: falls, False: falls}), protocol="dlpack")
    assert caught.value is falls
    assert view(Both(Tensor())).protocol == "dlpack"


def test_when_every_protocol_refuses_each_is_told():
    class Both(Exporter):
        @property
        def __array_interface__(self):
            return {
                "shape": (3,),
                "typestr": "|O8",
                "version": 3,
                "data": (ctypes.addressof(self.tensor.values), False),
            }

    with pytest.raises(ProtocolError, match="(?s)dlpack: dtype.*array_interface: typestr") as caught:
        view(Both(Tensor(dtype=(99, 1, 1))))
    assert isinstance(caught.value.__cause__, ProtocolError)


def test_an_interface_that_is_refused_falls_to_the_next_one():
    values = (ctypes.c_float * 3)(1, 2, 3)
    good = {"shape": (3,), "typestr": "<f4", "version": 3, "data": (ctypes.addressof(values), False)}
    refused = {**good, "typestr": "|O8"}
    for _ in range(2):  # the first of a type, and another one
        v = view(Shows(cuda=refused, host=good))
        assert v.protocol == "array_interface" and v.tolist() == [1.0, 2.0, 3.0]
        with pytest.raises(ProtocolError, match="cuda_array_interface: typestr.*: array_interface: typestr") as caught:
            view(Shows(cuda=refused, host=refused))
        assert str(caught.value).count("cuda_array_interface:") == 2  # by whom, and the refusal: told once


def test_a_protocol_that_a_class_gets_later():
    """Objects that have no attributes of their own may be of a class that changes."""
    values = (ctypes.c_float * 3)(1, 2, 3)

    class Changes:
        __slots__ = ()
        interface = {"shape": (3,), "typestr": "<f4", "version": 3, "data": (ctypes.addressof(values), False)}
        __array_interface__ = property(lambda self: self.interface)

    assert view(Changes()).protocol == "array_interface"
    Changes.__dlpack__ = lambda self, **keywords: Tensor().capsule()
    assert view(Changes()).protocol == "dlpack"


def test_a_protocol_by_name():
    with pytest.raises(ValueError, match="dlpack_c_exchange"):
        view(b"", protocol="dlpak")
    with pytest.raises(ProtocolError, match="does not offer"):
        view(b"", protocol="dlpack")
    with pytest.raises(ProtocolError, match="does not offer"):
        view(Exporter(Tensor()), protocol="buffer")


def test_a_class_is_no_exporter():
    numpy = pytest.importorskip("numpy")
    for kind in (numpy.ndarray, Exporter, bytes, rawcuda.StridedView):
        with pytest.raises(TypeError, match="not an exporter"):
            view(kind)


def test_a_view_of_a_view():
    v = viewed(Tensor())
    w = view(v)
    assert (w.ptr, w.shape, w.strides, w.owner) == (v.ptr, v.shape, v.strides, v.owner) and w is not v
    assert view(v, writable=False).readonly and not v.readonly
    assert view(v, protocol="dlpack").protocol == "dlpack" and view(v, protocol="array_interface").owner is v


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
@pytest.mark.parametrize("before, after", [((1000, 1), (1000,)), ((1000,), (1000, 1))])
def test_an_array_that_another_thread_reshapes_meanwhile(before, after, python):
    """Not with strides that the array never had. A trace function changes it, as another thread can.

    In a new process: which reader an array gets depends on what was viewed before.
    """
    pytest.importorskip("numpy")
    code = f"""
        import sys
        import numpy
        from tests.subject import rawcuda
        before, after = {before}, {after}
        array = numpy.lib.stride_tricks.as_strided(numpy.array([7.0]), before, (0, 8)[: len(before)])
        rawcuda.view(array)  # prepares the reader for this type

        def change(frame, event, _):
            if event == "line" and "capsule" in frame.f_locals and array.shape == before:
                array.shape = after
                changed.append(frame.f_lineno)
            return change

        changed, was = [], sys.gettrace()
        sys.settrace(lambda frame, event, _: change if frame.f_code.co_name == "read" else None)
        try:
            made = rawcuda.view(array)
        finally:
            sys.settrace(was)
        assert changed or not hasattr(numpy, "unstack"), "before NumPy 2.1, another reader is used"
        assert made.shape in (before, after)
        assert made.strides[0] == 0  # the stride of an extent of 1 says nothing
    """
    python(code, flags=("-W", "ignore"), check=True)


def test_a_deleter_that_could_not_be_called_for_want_of_memory_is_called_later(monkeypatch):
    dlpack, tensor = module("dlpack"), Tensor()
    finalizer = dlpack.Consumed.__del__

    def short(*_):
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr(finalizer, "__defaults__", (short, *finalizer.__defaults__[1:]))
    dlpack.consume(tensor.capsule())
    assert tensor.freed == 0
    dlpack.consume(Tensor().capsule())
    assert tensor.freed == 1
