"""Device arrays in both directions, with every installed library that finds a GPU: the device half of tests/interop.

    python3 -m tests interop --driver nvidia --here

It needs no network, skips libraries that are not installed by name, and writes tests/interop/systems_gpu.json and
docs/systems_gpu.md.
"""

from __future__ import annotations

import gc
import threading

import pytest

from tests.interop.device_systems import DEVICE_HERE, DEVICE_SYSTEMS, Itself
from tests.interop.exchanges import same_strides
from tests.interop.late_writes import SPIN, N
from tests.interop.systems import LAYOUTS, Absent, Nanobind
from tests.null.producers import Shows
from tests.shared import NUMBERS
from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
errors, dlpack = module("errors"), module("dlpack")
view, ProtocolError = rawcuda.view, errors.ProtocolError
PROTOCOLS = ("dlpack", "dlpack_c_exchange", "cuda_array_interface")
CASES = [name for name in LAYOUTS if name != "row"]


@pytest.fixture(params=DEVICE_HERE, ids=lambda kind: kind.name)
def system(request, device):
    return request.param().load(device)


@pytest.fixture
def spin(device):
    """Keep a stream busy for some milliseconds, so that later work is delayed."""
    with device.load(SPIN) as loaded:
        kernel = loaded["spin"]
        emulated = "emulator" in device.name.lower()
        yield (
            lambda stream, cycles=20_000_000: (
                None if emulated else kernel.launch(cycles, grid=1, block=1, stream=stream)
            )
        )
        rawcuda.synchronize()


def numbers():
    return numpy.arange(12, dtype="f4").reshape(3, 4)


def made_or_skip(system, layout, array):
    try:
        return system.made(layout, array)
    except Absent:
        pytest.skip(f"{system} has no such array")


@pytest.mark.parametrize("name", [kind.name for kind in DEVICE_SYSTEMS if kind not in DEVICE_HERE])
def test_what_is_not_installed_is_told(name, device):
    pytest.skip(f"{name} is not installed here")


# -- exchanges in both directions


@pytest.mark.parametrize("protocol", [None, *PROTOCOLS])
@pytest.mark.parametrize("layout", [case for case in CASES if case != "read-only"])
def test_theirs_comes_here(system, layout, protocol):
    if protocol is not None and protocol not in system.protocols:
        pytest.skip(f"{system} does not offer {protocol}")
    expected = LAYOUTS[layout](numbers())
    theirs = made_or_skip(system, layout, numbers())
    if layout == "reversed" and protocol in ("dlpack", None) and system.name == "itself":
        pytest.skip("our own __dlpack__ refuses negative strides")
    v = view(theirs, protocol=protocol)
    address, shape, strides = system.facts(theirs)
    assert v.shape == tuple(shape) == expected.shape and str(v.dtype) == "float32"
    assert v.ptr == address or not expected.size
    assert v.device == ("cuda", 0) or not expected.size
    assert strides is None or same_strides(shape, strides, v.element_strides)
    assert v.download().tolist() == expected.tolist()
    assert protocol is None or v.protocol == protocol
    with pytest.raises((BufferError, AttributeError)):
        v.memoryview()  # the host cannot access it


@pytest.mark.parametrize("layout", CASES)
@pytest.mark.parametrize("way", ["dlpack", "cuda_array_interface", "pointer"])
def test_ours_goes_there(system, layout, way, device):
    takes = system.takes()
    if way not in takes or way == "pointer" and layout != "contiguous":
        pytest.skip(f"{system} takes nothing by {way}")
    uploaded = device.upload(numbers())
    ours = uploaded.broadcast_to((3, 4)) if layout == "read-only" else LAYOUTS[layout](uploaded)
    expected = numbers() if layout == "read-only" else LAYOUTS[layout](numbers())
    rawcuda.synchronize()
    try:
        theirs = takes[way](ours)
    except Exception as error:  # refused by the library or by us; never wrong
        if layout == "contiguous":
            raise
        pytest.skip(f"{system} takes no {layout} array by {way}: {type(error).__name__}: {error}")
    assert numpy.array_equal(system.host(theirs), expected)
    address, shape, strides = system.facts(theirs)
    assert address == ours.ptr or not expected.size or layout != "contiguous"
    assert strides is None or address != ours.ptr or same_strides(expected.shape, strides, ours.element_strides)


@pytest.mark.parametrize(
    "name",
    NUMBERS,
)
def test_dtypes_both_ways(system, name, device):
    if name not in system.dtypes:
        pytest.skip(f"{system} has no test for {name}")
    a = numpy.arange(6).astype(name).reshape(2, 3)
    v = view(system.from_host(a))
    assert (str(v.dtype), v.download().tolist()) == (name, a.tolist())
    ours = device.upload(a)
    rawcuda.synchronize()
    for take in system.takes().values():
        assert numpy.array_equal(system.host(take(ours)), a)


def test_what_one_side_writes_the_other_reads(system, device):
    ours = device.upload(numbers())
    rawcuda.synchronize()
    for take in system.takes().values():
        theirs = take(ours)
        ours.fill(7.0)
        rawcuda.synchronize()
        if system.facts(theirs)[0] == ours.ptr:
            assert (system.host(theirs) == 7.0).all()
    given = system.from_host(numbers())
    v = view(given, writable=True)
    v.fill(5.0)
    rawcuda.synchronize()
    assert v.download().tolist() == [[5.0] * 4] * 3
    if not system.compact:
        assert (system.host(given) == 5.0).all()


def test_theirs_is_a_kernels_argument(system, device):
    kernel = device.load(_TWICE)["twice"]
    theirs, target = system.from_host(numbers()), device.empty((3, 4), "float32")
    kernel.launch(rawcuda.In(theirs), target, 12, grid=1, block=32)
    rawcuda.synchronize()
    assert target.download().tolist() == (numbers() * 2).tolist()


# -- streams


@pytest.mark.parametrize("stream", [None, -1, 1, 2, "ours"])
def test_any_stream_may_be_asked_for(system, stream, device):
    given = system.from_host(numbers())
    system.synchronize()
    with device.stream() as own:
        v = view(given, stream=own if stream == "ours" else stream)
        assert (
            v.download(stream=None if stream == -1 else own if stream == "ours" else stream).tolist()
            == numbers().tolist()
        )
        ours = device.upload(numbers())
        rawcuda.synchronize()
        handle = own.handle if stream == "ours" else stream
        assert view(ours.__dlpack__(stream=handle, max_version=(1, 0))).ptr == ours.ptr
        rawcuda.synchronize()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_late_write_of_theirs_is_never_missed(system, protocol, device, spin):
    if not system.streams or protocol not in system.protocols:
        pytest.skip(f"{system} has no streams of its own, or does not offer {protocol}")
    theirs_stream = system.stream()
    with device.stream() as own:
        for turn in range(1, 6):
            theirs = system.from_host(numpy.zeros(N, "f4"))
            system.synchronize()
            target = device.empty(N, "float32")
            spin(rawcuda.Stream.from_handle(system.handle(theirs_stream)))
            try:
                system.fill(theirs, turn, theirs_stream)
            except Absent:
                pytest.skip(f"{system} does not tell which work is pending")
            with system.within(theirs_stream):  # exported from the stream that writes it
                v = view(theirs, stream=own, protocol=protocol)
            target.copy_from(v, stream=own)
            own.synchronize()
            assert set(target.download().tolist()) == {float(turn)}
            rawcuda.synchronize()


def test_a_late_write_of_ours_is_never_missed(system, device, spin):
    with device.stream() as own:
        for way, take in system.takes().items():
            if way == "pointer":
                continue
            for turn in range(1, 6):
                ours = device.empty(N, "float32").fill(0)
                rawcuda.synchronize()
                ours.stream = own
                spin(own)
                ours.fill(turn, stream=own)
                if way in system.deaf:  # then the user must wait
                    own.synchronize()
                if system.streams and system.name != "itself":
                    theirs_stream = system.stream()
                    with system.within(theirs_stream):
                        used = system.used(take(ours))
                else:
                    used = system.used(take(ours))
                got = system.host(used)  # which waits for everything, but after the data was read
                assert set(got.ravel().tolist()) == {float(turn)}, way
                rawcuda.synchronize()


def test_streams_that_are_none_are_refused(system, device):
    given, ours = system.from_host(numbers()), device.upload(numbers())
    rawcuda.synchronize()
    for stream in (0, True, -2, 2**64, 1.5, "1"):
        with pytest.raises((ValueError, TypeError)):
            view(given, stream=stream)
        with pytest.raises(BufferError):
            ours.__dlpack__(stream=stream)


# -- ownership and lifetime of the memory


def test_memory_lives_as_long_as_either_side(system, device):
    gc.collect()
    before = len(dlpack.outstanding)
    for where in ("here", "another thread"):
        given = system.from_host(numbers())
        v = view(given)
        del given
        gc.collect()
        churn = [system.from_host(numpy.full((3, 4), 9, "f4")) for _ in range(50)]
        assert v.download().tolist() == numbers().tolist() and churn
        ours = device.upload(numbers())
        rawcuda.synchronize()
        box = [take(ours) for way, take in system.takes().items() if way != "pointer"]
        del ours
        gc.collect()
        fresh = [device.empty((3, 4), "float32").fill(3) for _ in range(50)]
        rawcuda.synchronize()
        for theirs in box:
            assert numpy.array_equal(system.host(theirs), numbers()) and fresh
            del theirs
        if where == "here":
            box.clear()
        else:
            thread = threading.Thread(target=box.clear)
            thread.start()
            thread.join()
        del v, churn, fresh
    gc.collect()
    rawcuda.synchronize()
    assert len(dlpack.outstanding) == before


def test_1_000_exchanges_leave_nothing(system, device):
    given, ours = system.from_host(numbers()), device.upload(numbers())
    rawcuda.synchronize()
    take = (
        next(take for way, take in system.takes().items() if way != "pointer")
        if system.name != "pycuda.gpuarray"
        else None
    )
    view(given), take and take(ours)
    gc.collect()
    before = len(dlpack.outstanding), device.free_memory
    for _ in range(1000):
        view(given)
        if take:
            take(ours)
    gc.collect()
    rawcuda.synchronize()
    after = len(dlpack.outstanding), device.free_memory
    assert after[0] == before[0] and after[1] > before[1] - 2**26


# -- features of a single library


def load(kind, device):
    return next(each for each in DEVICE_SYSTEMS if each.name == kind)().load(device)


def test_torchs_pinned_and_managed_memory(device):
    torch = load("torch", device).module
    pinned = torch.arange(12.0).pin_memory()
    v = view(pinned)
    assert v.ptr == pinned.data_ptr() and v.tolist() == list(range(12)) and v.device[0] in ("cpu", "cuda_host")
    target = device.empty(12, "float32").copy_from(v)
    rawcuda.synchronize()
    assert target.download().tolist() == list(range(12))
    with device.allocate(48, kind="pinned") as memory:
        ours = memory.view().reinterpret("float32").fill(2)
        assert numpy.from_dlpack(ours).tolist() == [2.0] * 12
        del ours
    with device.allocate(48, kind="managed") as memory:
        ours = memory.view().reinterpret("float32").fill(3)
        rawcuda.synchronize()
        assert ours.tolist() == [3.0] * 12 and ours.__dlpack_device__()[0] == 13
        del ours


def test_torch_tensors_on_a_gpu_that_are_not_what_their_memory_says(device):
    torch = load("torch", device).module
    conjugate = torch.tensor([1 + 2j, 3 + 4j], device="cuda").conj()
    for tensor, field in (
        (torch.zeros(3, device="cuda", requires_grad=True), "requires_grad"),
        (conjugate, "is_conj"),
        (conjugate.imag, "is_neg"),
    ):
        for protocol in (None, *PROTOCOLS):
            with pytest.raises(ProtocolError) as caught:
                view(tensor, protocol=protocol)
            assert caught.value.field == field
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        assert str(view(torch.zeros(4, dtype=getattr(torch, name), device="cuda")).dtype) == name


def test_cupys_pinned_and_managed_memory(device):
    cupy = load("cupy", device).module
    memory = cupy.cuda.alloc_pinned_memory(48)
    pinned = numpy.frombuffer(memory, "f4", 12)
    pinned[...] = range(12)
    assert view(pinned).tolist() == list(range(12))
    managed = cupy.ndarray(12, "f4", memptr=cupy.cuda.malloc_managed(48))
    managed.fill(4)
    cupy.cuda.Device().synchronize()
    for protocol in ("dlpack", "cuda_array_interface"):
        v = view(managed, protocol=protocol)
        assert v.ptr == managed.data.ptr and v.download().tolist() == [4.0] * 12


def test_warps_vectors_from_a_dict_without_strides(device):
    wp = load("warp", device).module
    vectors = wp.array(numpy.arange(12, dtype="f4").reshape(4, 3), dtype=wp.vec3, device="cuda:0")
    for protocol in ("dlpack", "cuda_array_interface"):
        v = view(vectors, protocol=protocol)
        assert (
            v.shape == (4, 3)
            and v.download().tolist() == numpy.arange(12.0).reshape(4, 3).tolist()
            and v.ptr == vectors.ptr
        )
    ours = device.upload(numpy.arange(12, dtype="f4").reshape(4, 3))
    rawcuda.synchronize()
    said = {key: value for key, value in ours.__cuda_array_interface__.items() if key not in ("strides", "stream")}

    class Sized:
        def __init__(self):
            self.__cuda_array_interface__, self.ours = said, ours

        def __len__(self):
            return 4

    theirs = wp.array(Sized(), dtype=wp.vec3, copy=False, device="cuda:0")
    assert theirs.shape == (4,) and theirs.numpy().tolist() == numpy.arange(12.0).reshape(4, 3).tolist()
    assert view(Sized()).download().tolist() == ours.download().tolist()


def test_dali_takes_a_dict_whose_stream_is_none(device):
    system = load("nvidia.dali.tensors", device)
    ours = device.upload(numbers())
    rawcuda.synchronize()
    said = ours.__cuda_array_interface__
    for change in ({"stream": None}, {"stream": 1}, {"stream": 2}):
        theirs = system.module.TensorGPU(Shows(cuda={**said, **change, "strides": None}), "")
        assert numpy.array_equal(system.host(theirs), numbers())
    pycuda = Shows(
        cuda={"shape": (3, 4), "strides": (16, 4), "data": said["data"], "typestr": "<f4", "stream": None, "version": 3}
    )
    assert view(pycuda).download().tolist() == numbers().tolist()


def test_jaxs_arrays_with_and_without_a_stream(device):
    system = load("jax", device)
    array = system.from_host(numbers())
    with device.stream() as own:
        for stream in (None, -1, 1, own):
            v = view(array * 2, stream=stream)  # the computation may still be running
            assert v.download().tolist() == (numbers() * 2).tolist() and v.readonly
    assert view(array).download().tolist() == numbers().tolist()


def test_cuda_cores_buffers_and_streams(device):
    system = load("cuda.core.utils", device)
    from cuda.core import Device

    theirs = Device(0)
    stream = theirs.create_stream()
    buffer = theirs.memory_resource.allocate(48, stream=stream)
    v = view(buffer, stream=stream)
    assert v.nbytes == 48 and v.device == ("cuda", 0) and system.version
    target = device.empty(48, "uint8").copy_from(v.fill(7, stream=stream), stream=stream)
    rawcuda.synchronize()
    assert target.download().tolist() == [7] * 48
    del v
    buffer.close(stream)


def test_tritons_kernels_take_ours_through_torch(device):
    torch = load("torch", device).module
    triton = pytest.importorskip("triton", reason="triton is not installed here")
    ours = device.upload(numpy.arange(128, dtype="f4"))
    rawcuda.synchronize()
    theirs = torch.from_dlpack(ours)
    kernel = _triton_kernel(triton)
    kernel[(1,)](theirs, BLOCK=128)
    torch.cuda.synchronize()
    assert ours.download().tolist() == [2.0 * n for n in range(128)]


def _triton_kernel(triton):
    import importlib.util
    import sys
    import tempfile
    from pathlib import Path

    folder = tempfile.mkdtemp()  # triton reads the source of a kernel from its file
    path = Path(folder, "doubling.py")
    path.write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef double(x, BLOCK: tl.constexpr):\n"
        "    at = tl.arange(0, BLOCK)\n    tl.store(x + at, tl.load(x + at) * 2)\n"
    )
    spec = importlib.util.spec_from_file_location("doubling", path)
    made = sys.modules["doubling"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made.double


def test_nanobinds_cuda_arrays(device):
    extension = Nanobind().load().module
    ours = device.upload(numbers())
    rawcuda.synchronize()
    address, shape, strides, kind, ordinal, code, bits = extension.facts_cuda(ours)
    assert (address, shape, strides, kind, ordinal, code, bits) == (ours.ptr, (3, 4), (4, 1), 2, 0, 2, 32)
    with pytest.raises(TypeError):
        extension.total(ours)  # it requires host memory
    kept = extension.Writable(ours)
    back = view(kept.out())
    assert back.device == ("cuda", 0) and back.download().tolist() == numbers().tolist()
    wrong = extension.labelled(numbers().ctypes.data, 12)  # host memory labelled CUDA: the driver contradicts the label
    with pytest.raises(BufferError):
        view(wrong).download()


def test_one_array_goes_round_all_that_are_here(device):
    current, route = device.upload(numbers()), []
    rawcuda.synchronize()
    start = current.ptr
    for kind in DEVICE_HERE:
        try:
            system = kind().load(device)
            theirs = next(take for way, take in system.takes().items() if way == "dlpack")(current)
        except (pytest.skip.Exception, StopIteration):
            continue
        if system.facts(theirs)[0] == start:
            current = view(theirs, writable=True)
            route.append(system.name)
    assert route[0] == Itself.name and current.ptr == start and current.download().tolist() == numbers().tolist()


_TWICE = """
.version 6.3
.target sm_50
.address_size 64
.visible .entry twice(.param .u64 source, .param .u64 target, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .f32 %f<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd0, [source];
    ld.param.u64 %rd1, [target];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p0, %r1, %r0;
    @%p0 bra DONE;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd0, %rd2;
    add.s64 %rd4, %rd1, %rd2;
    ld.global.f32 %f0, [%rd3];
    add.f32 %f1, %f0, %f0;
    st.global.f32 [%rd4], %f1;
DONE:
    ret;
}
"""
