"""DLPack exports of host memory: section 2 of docs/protocols.md, the side of the producer.

The tests are named after its rules.
"""

from __future__ import annotations

import array
import ctypes
import enum
import gc
import inspect
import struct
import sys
import threading
import time

import pytest

from tests.null.producers import Exporter, Tensor, name_of
from tests.subject import module, rawcuda

dlpack, errors, exporting, dtypes = (
    module("dlpack"),
    module("errors"),
    module("arrays.exporting"),
    module("elements.dtypes"),
)
view, ProtocolError = rawcuda.view, errors.ProtocolError
_api = ctypes.PyDLL(None) if sys.platform != "win32" else ctypes.PyDLL("", handle=sys.dllhandle)

pytestmark = pytest.mark.usefixtures("exports_are_freed")


def pointer_of(capsule):
    get = _api["PyCapsule_GetPointer"]
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name_of(capsule))


def fields(capsule):
    """Read the tensor of a capsule as C code does."""
    address = pointer_of(capsule)
    if name_of(capsule) == b"dltensor_versioned":
        managed = dlpack.DLManagedTensorVersioned.from_address(address)
        flags, version = managed.flags, (managed.version.major, managed.version.minor)
    else:
        managed, flags, version = dlpack.DLManagedTensor.from_address(address), None, None
    tensor = managed.dl_tensor
    read = lambda at: tuple((ctypes.c_int64 * tensor.ndim).from_address(at)) if at else None  # noqa: E731
    return {
        "version": version,
        "flags": flags,
        "data": tensor.data,
        "device": (tensor.device.device_type, tensor.device.device_id),
        "ndim": tensor.ndim,
        "dtype": (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        "shape": read(tensor.shape),
        "strides": read(tensor.strides),
        "byte_offset": tensor.byte_offset,
        "deleter": managed.deleter,
    }


def floats(*shape):
    """Return a view of writable host memory."""
    values = array.array("f", range(dtypes and __import__("math").prod(shape)))
    return view(values).reshape(shape)


def test_2_1_2_2_names_are_static():
    capsules = [floats(2, 3).__dlpack__(), floats(2, 3).__dlpack__(max_version=(1, 0))]
    for _ in range(100):
        gc.collect() if _ % 50 == 0 else b"dltensorx" * 100
    assert [name_of(capsule) for capsule in capsules] == [b"dltensor", b"dltensor_versioned"]


def test_2_3_a_dropped_capsule_frees_and_a_consumed_one_does_not():
    v = floats(6)
    before = sys.getrefcount(v)
    for keywords in ({}, {"max_version": (1, 3)}):
        capsule = v.__dlpack__(**keywords)
        assert len(dlpack.outstanding) >= 1 and sys.getrefcount(v) == before + 1
        del capsule
        assert sys.getrefcount(v) == before
        capsule = v.__dlpack__(**keywords)
        w = view(capsule)  # consumes it
        del capsule
        assert sys.getrefcount(v) == before + 1 and w.tolist() == v.tolist()
        del w
        assert sys.getrefcount(v) == before


def test_2_5_the_deleter_runs_in_any_thread():
    v = floats(6)
    before = sys.getrefcount(v)
    capsules = [v.__dlpack__(max_version=(1, 0)) for _ in range(50)]
    rename = _api["PyCapsule_SetName"]
    rename.argtypes = [ctypes.py_object, ctypes.c_void_p]
    used = ctypes.create_string_buffer(b"used_dltensor_versioned")
    jobs = []
    for capsule in capsules:
        address, deleter = pointer_of(capsule), fields(capsule)["deleter"]
        rename(capsule, ctypes.addressof(used))
        jobs.append((ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter), address))  # CFUNCTYPE releases the GIL
    assert sys.getrefcount(v) == before + 50
    for delete, address in jobs[:10]:
        delete(address)
    threads = [threading.Thread(target=delete, args=(address,)) for delete, address in jobs[10:30]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sys.platform.startswith("linux"):
        libc, handle = ctypes.CDLL(None), ctypes.c_ulong()  # a thread that Python does not know
        libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
        libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
        for delete, address in jobs[30:]:
            assert libc.pthread_create(ctypes.byref(handle), None, ctypes.cast(delete, ctypes.c_void_p), address) == 0
            libc.pthread_join(handle, None)
    else:
        for delete, address in jobs[30:]:
            delete(address)
    assert sys.getrefcount(v) == before
    del capsules, capsule
    assert sys.getrefcount(v) == before  # and their destructors did not free a second time


def test_2_6_every_export_is_its_own():
    v = floats(6)
    capsules = [v.__dlpack__(max_version=(1, 0)) for _ in range(1000)]
    assert len({pointer_of(capsule) for capsule in capsules}) == 1000 and len(dlpack.outstanding) >= 1000
    del capsules[1::2]
    gc.collect()
    assert fields(capsules[0])["shape"] == (6,)


def test_2_7_the_memory_lives_until_the_deleter():
    v = floats(2, 3)
    w = view(v[1].__dlpack__(max_version=(1, 0)))
    del v
    gc.collect()
    assert w.tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("broken", ["_wrap", "_Block", "Template"])
@pytest.mark.parametrize("before", [False, True])
def test_2_8_an_export_that_fails_half_way_leaves_nothing(monkeypatch, broken, before):
    v = floats(6)
    exporting._templates.clear()
    if before:  # now its template and a block for it exist
        v.__dlpack__(max_version=(1, 0))
    monkeypatch.setattr(dlpack, "_forms", {})
    before_it = sys.getrefcount(v), len(dlpack.outstanding)

    def fails(*arguments, **keywords):
        raise MemoryError("injected")

    monkeypatch.setattr(exporting if broken == "Template" else dlpack, broken, fails)
    if before and broken != "_wrap":
        assert v.__dlpack__(max_version=(1, 0)) is not None
    else:
        with pytest.raises(MemoryError):
            v.__dlpack__(max_version=(1, 0))
    gc.collect()
    assert (sys.getrefcount(v), len(dlpack.outstanding)) == before_it


def test_an_interrupt_after_a_capsule_was_dropped_frees_no_other_export(monkeypatch):
    """The capsule frees its block when it is dropped, and another thread exports with this block at once."""
    first, second = floats(2, 3), floats(2, 3)
    before, real, others = sys.getrefcount(second), dlpack._wrap, []

    def interrupted(*arguments):
        monkeypatch.setattr(dlpack, "_wrap", real)
        capsule = real(*arguments)
        del capsule
        others.append(second.__dlpack__())
        raise KeyboardInterrupt

    monkeypatch.setattr(dlpack, "_wrap", interrupted)
    with pytest.raises(KeyboardInterrupt):
        first.__dlpack__()
    assert sys.getrefcount(second) > before
    others.clear()
    gc.collect()


def test_2_9_the_signature():
    signature = inspect.signature(rawcuda.StridedView.__dlpack__)
    assert list(signature.parameters) == ["self", "stream", "max_version", "dl_device", "copy"]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is None for p in list(signature.parameters.values())[1:])
    assert inspect.isfunction(vars(rawcuda.StridedView)["__dlpack__"]) and inspect.isfunction(
        vars(rawcuda.StridedView)["__dlpack_device__"]
    )
    with pytest.raises(TypeError):
        floats(6).__dlpack__(None)


@pytest.mark.parametrize(
    "max_version, versioned",
    [
        (None, False),
        ((0, 8), False),
        ((0, 0), False),
        ((1, 0), True),
        ((1, 3), True),
        ((1, 9), True),
        ((2, 0), True),
        ([1, 0], True),
    ],
)
def test_1_31_2_10_max_version(max_version, versioned):
    said = fields(floats(2, 3).__dlpack__(max_version=max_version))
    assert said["version"] == ((1, 3) if versioned else None) and said["flags"] == (0 if versioned else None)
    assert (
        said["shape"] == (2, 3) and said["strides"] == (3, 1) and said["byte_offset"] == 0 and said["device"] == (1, 0)
    )


@pytest.mark.parametrize(
    "keyword, value",
    [
        ("max_version", 1),
        ("max_version", "13"),
        ("max_version", (1,)),
        ("max_version", ("a", "b")),
        ("dl_device", 1),
        ("dl_device", "cpu"),
        ("dl_device", (1, 0, 0)),
        ("dl_device", (1, None)),
        ("copy", 1),
        ("copy", "no"),
        ("stream", "x"),
        ("stream", 0),
        ("stream", 1),
        ("stream", 5),
        ("stream", True),
        ("stream", -2),
        ("stream", 1.0),
        ("stream", int),
        ("stream", type),
        ("dl_device", (2, 0)),
        ("dl_device", (99, 0)),
        ("dl_device", (1, 1)),
    ],
)
def test_2_10_2_13_never_a_type_error(keyword, value):
    v = floats(2, 3)
    before = sys.getrefcount(v)
    with pytest.raises(ProtocolError) as caught:
        v.__dlpack__(**{keyword: value})
    assert (
        caught.value.field in (keyword, "dl_device")
        and caught.value.protocol == "dlpack"
        and str(value) in str(caught.value)
    )
    del caught
    gc.collect()
    assert sys.getrefcount(v) == before


class Answers:
    """Something whose methods answer with this, or raise it, as NumPy's arrays do when they are compared."""

    def __init__(self, answer):
        self.answer = answer

    def __index__(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def __eq__(self, other):
        raise ValueError("the truth value of an array is ambiguous")


@pytest.mark.parametrize("answer", ["x", None, ValueError("no"), RuntimeError("no")])
@pytest.mark.parametrize("keyword", ["max_version", "dl_device", "stream"])
def test_2_10_2_13_what_the_methods_of_a_value_raise_is_a_buffer_error(keyword, answer):
    wrong = Answers(answer)
    for value in (wrong,) if keyword == "stream" else (wrong, (wrong, 0), (1, wrong), [wrong, wrong]):
        with pytest.raises(ProtocolError) as caught:
            floats(2, 3).__dlpack__(**{keyword: value})
        assert caught.value.field == keyword


def test_ints_of_any_kind():
    one, less = Answers(1), Answers(-1)
    capsule = floats(2, 3).__dlpack__(stream=less, max_version=(one, one), dl_device=(one, Answers(0)))
    assert fields(capsule)["device"] == (1, 0) and fields(capsule)["version"][0] == 1


class Kind(enum.IntEnum):
    CPU = 1


@pytest.mark.parametrize("dl_device", [None, (1, 0), (Kind.CPU, 0), [1, 0]])
def test_2_11_own_device(dl_device):
    v = floats(2, 3)
    for copy in (None, False):
        assert fields(v.__dlpack__(dl_device=dl_device, copy=copy, max_version=(1, 0)))["data"] == v.ptr
    assert v.__dlpack_device__() == (1, 0) and all(type(n) is int for n in v.__dlpack_device__())


@pytest.mark.parametrize("max_version", [None, (1, 3)])
def test_2_12_copies(max_version):
    v = floats(2, 3)
    said = fields(capsule := v.T.__dlpack__(copy=True, max_version=max_version))
    assert said["data"] != v.ptr and said["flags"] == (2 if max_version else None) and said["strides"] == (2, 1)
    assert view(capsule).tolist() == v.T.tolist()
    readonly = view(b"abc")
    said = fields(readonly.__dlpack__(copy=True, max_version=max_version))  # a copy may be written, so it may be legacy
    assert said["flags"] == (2 if max_version else None)
    assert fields(v.__dlpack__(copy=False, max_version=max_version))["data"] == v.ptr


def test_2_14_read_only():
    v = view(b"abcdef")
    with pytest.raises(ProtocolError, match="legacy"):
        v.__dlpack__()
    with pytest.raises(ProtocolError, match="legacy"):
        v.__dlpack__(max_version=(0, 8))
    assert fields(v.__dlpack__(max_version=(1, 0)))["flags"] == 1


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: view(array.array("f", [1, 2, 3]))[::-1], "strides"),
        (lambda: view(bytearray(24)).reinterpret("|V12").reinterpret("|V12"), "dtype"),
        (lambda: view(bytearray(16)).reinterpret("float128"), "dtype"),
        (lambda: view(bytearray(16)).reinterpret("<M8[s]"), "dtype"),
        (lambda: view(bytearray(16)).reinterpret("|S4"), "dtype"),
    ],
)
def test_2_13_2_16_what_dlpack_cannot_say(make, field):
    for max_version in (None, (1, 0)):
        with pytest.raises(ProtocolError) as caught:
            make().__dlpack__(max_version=max_version)
        assert caught.value.field == field
        assert not isinstance(caught.value.__context__, LookupError)  # it would be shown above the refusal


def test_2_16_6_18_strides_that_are_no_whole_elements():
    numpy = pytest.importorskip("numpy")
    v = view(numpy.ndarray((3,), "f8", bytearray(40), strides=(12,)))
    assert v.strides == (12,) and v.protocol in ("buffer", "array_interface")
    with pytest.raises(ProtocolError, match="not multiples of"):
        v.__dlpack__(max_version=(1, 0))
    with pytest.raises(ValueError, match="whole"):
        v.element_strides


def test_1_16_swapped_bytes_never_get_in():
    numpy = pytest.importorskip("numpy")
    for protocol in ("buffer", "array_interface", None):
        with pytest.raises(BufferError):
            view(numpy.zeros(3, ">f4"), protocol=protocol)


def test_1_21_strides_are_always_written():
    for make, strides in (
        (lambda: floats(2, 3), (3, 1)),
        (lambda: floats(2, 3).T, (1, 3)),
        (lambda: floats(6)[None, :, None], (6, 1, 1)),
        (lambda: floats(6)[:0], (1,)),
        (lambda: floats(2, 3)[:, :1], (3, 1)),
        (lambda: floats(2, 3)[:, 1], (3,)),
    ):
        for max_version in (None, (1, 0)):
            assert fields(make().__dlpack__(max_version=max_version))["strides"] == strides
    for _ in range(2):  # the second is copied from the first
        said = fields(capsule := floats(1).reshape(()).__dlpack__(max_version=(1, 0)))
        at = pointer_of(capsule) + 32
        assert said["ndim"] == 0 and struct.unpack("QQ", ctypes.string_at(at + 24, 16)) == (0, 0)
    said = fields(view(bytearray(3)).broadcast_to((2, 3)).__dlpack__(max_version=(1, 0)))
    assert said["strides"] == (0, 1) and said["flags"] == 1


@pytest.mark.parametrize("windows", [True, False])
def test_a_struct_from_a_template_lives_as_long_as_it_is_out(monkeypatch, windows):
    if not windows:  # as if the place of a capsule's fields is not known
        monkeypatch.setattr(dlpack, "window", None)
        pointers, names = dlpack._open_windows()
        monkeypatch.undo()
        monkeypatch.setattr(dlpack, "pointers", pointers)
        monkeypatch.setattr(dlpack, "names", names)
    module("arrays.exporting")._templates.clear()
    arrays = [floats(2, 3, 4)[:, :n] for n in (2, 3)]
    for _ in range(2):  # the second are copied from the first
        capsules = [v.__dlpack__(max_version=(1, 0)) for v in arrays]
    consumed = view(arrays[1].__dlpack__(max_version=(1, 0)))
    other = arrays[0].__dlpack__(max_version=(1, 0))
    at = pointer_of(other)
    for pointer in struct.unpack("QQ", ctypes.string_at(at + 56, 16)):
        assert at < pointer < at + 160
        ctypes.memset(pointer, 7, 24)  # the consumer of a tensor may write to it
    del other
    module("arrays.exporting")._templates.clear()
    gc.collect()
    kept = [bytes(80) for _ in range(100)] + [ctypes.create_string_buffer(128) for _ in range(100)]
    for v, capsule in zip(arrays, capsules):
        said = fields(capsule)
        assert (said["data"], said["shape"], said["strides"], said["deleter"]) == (
            v.ptr,
            v.shape,
            (12, 4, 1),
            dlpack._exports.deleter,
        )
        assert said["version"] == (1, 3) and said["flags"] == said["byte_offset"] == 0 and said["device"] == (1, 0)
    assert consumed.tolist() == arrays[1].tolist() and kept
    before = sys.getrefcount(arrays[0]), len(dlpack.outstanding)
    del capsules, capsule
    assert (sys.getrefcount(arrays[0]), len(dlpack.outstanding)) == (before[0] - 1, before[1] - 2)


def test_1_15_1_17_padded_elements_are_flagged():
    v = view(bytearray(range(6))).reinterpret("float4_e2m1fn")
    said = fields(v.__dlpack__(max_version=(1, 0)))
    assert said["dtype"] == (17, 4, 1) and said["flags"] == 4
    with pytest.raises(ProtocolError, match="padded"):
        v.__dlpack__()
    assert fields(view(bytearray(6)).reinterpret("float4_e2m1fnx2").__dlpack__())["dtype"] == (17, 4, 2)


@pytest.mark.parametrize("name", [row[0] for row in dtypes._TABLE if row[1] is not None])
def test_every_dtype_there_and_back(name):
    dtype = dtypes.of(name)
    v = view(bytearray(range(dtype.itemsize * 4))).reinterpret(dtype)
    w = view(v, protocol="dlpack")
    assert w.dtype is dtype and (w.ptr, w.shape, w.strides) == (v.ptr, v.shape, v.strides) and not w.readonly


def test_alignment_and_offset():
    v = floats(6)[1:]
    said = fields(v.__dlpack__(max_version=(1, 0)))
    assert said["data"] == v.ptr and said["byte_offset"] == 0
    assert v.download().ptr % 64 == 0


def test_host_memory_takes_no_stream_but_minus_one():
    v = floats(6)
    assert fields(v.__dlpack__(stream=None))["data"] == fields(v.__dlpack__(stream=-1))["data"] == v.ptr
    assert fields(v.__dlpack__(stream=None, dl_device=(1, 0), copy=True, max_version=(1, 0)))["flags"] == 2


def test_a_foreign_tensor_passes_through():
    tensor = Tensor(byte_offset=4, shape=(2, 2), strides=(3, 1))
    v = view(Exporter(tensor))
    said = fields(capsule := v.__dlpack__(max_version=(1, 0)))
    assert said["data"] == v.ptr and said["strides"] == (3, 1)
    del v
    gc.collect()
    assert tensor.freed == 0
    del capsule
    assert tensor.freed == 1


def test_a_capsule_that_is_freed_after_the_names_of_its_module_is_left_alone(python):
    """gc.freeze() keeps modules in memory until their names are cleared, one module after the other."""
    result = python(
        """
        import gc
        from tests.subject import rawcuda, module
        dlpack = module("dlpack")
        module("errors").kept = rawcuda.view(bytearray(8)).__dlpack__(max_version=(1, 0))
        gc.freeze()
        """
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_2_28_exports_outlive_the_interpreter(python):
    result = python(
        """
        import array, atexit, builtins, ctypes, gc, sys, threading, time
        from tests.subject import rawcuda, module
        dlpack = module("dlpack")

        class Mine(array.array):
            def __del__(self):
                sys.stderr.write("freed after the end")

        def late():
            # registered before the first export, so this runs after its hook: exports made now are harmless from birth
            builtins.late = w.__dlpack__(max_version=(1, 0))
            nothing = dlpack.address_of("Py_IsInitialized")
            out = dict(dlpack.outstanding)
            assert set(addresses) <= set(out)
            for address, (block, owner) in out.items():
                deadline = time.monotonic() + 20  # a thread may be just about to give its export this deleter
                deleter = ctypes.c_uint64.from_address(address + block.deleter_at)
                while deleter.value != nothing and address in dlpack.outstanding:
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
            print("harmless")

        atexit.register(late)
        v = rawcuda.view(Mine("f", range(6)))
        builtins.capsule = v.__dlpack__(max_version=(1, 0))
        builtins.consumer = rawcuda.view(v.__dlpack__())
        sys.capsules = [v.__dlpack__() for _ in range(3)]
        class Circle: pass
        circle = Circle(); circle.self = circle; circle.capsule = v.__dlpack__()
        addresses = list(dlpack.outstanding)

        w = rawcuda.view(bytearray(8))

        def work():
            while True:
                w.__dlpack__(max_version=(1, 0))
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
    """,
        env={"RAWCUDA_DRIVER": None},
    )
    assert result.returncode == 0 and result.stdout == "harmless\n" and "Error" not in result.stderr, result.stderr


def test_threads_that_export_first_share_the_callbacks(monkeypatch):
    made = []

    class Slow(type(dlpack._exports or dlpack._begin())):
        def __init__(self):
            made.append(self)
            time.sleep(0.02)

    monkeypatch.setattr(dlpack, "_exports", None)
    monkeypatch.setattr(dlpack, "_Exports", Slow)
    found = []
    threads = [threading.Thread(target=lambda: found.append(dlpack._begin())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == made * 4
