"""Copies between two devices: every layout, in the order of a stream of either device, or of a default stream."""

import array
import itertools
import threading

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")


@pytest.fixture
def other():
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    return rawcuda.Device(1)


class Pinned:
    """An exporter of page-locked memory, as another library's array is."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


LAYOUTS = {
    "run": lambda grid: grid,
    "rows": lambda grid: grid[:, 1, 2:6],
    "box": lambda grid: grid[1:, 1:, 2:5],
    "every second": lambda grid: grid[..., ::2],
    "backwards": lambda grid: grid[::-1, :, ::-1],
    "transposed": lambda grid: grid.transpose((2, 0, 1)),
    "element": lambda grid: grid[1, 2, 3],
    "none": lambda grid: grid[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("whose", ["default", "per thread", "of the source", "of the target"])
@pytest.mark.parametrize("way", [(0, 1), (1, 0)])
def test_every_layout_on_every_stream(device, other, layout, whose, way):
    """The source is filled, and the target read, in the order of other streams: the copy comes in between."""
    devices = (device, other)
    here, there = devices[way[0]], devices[way[1]]
    shape, pick = (3, 4, 8), LAYOUTS[layout]
    with here.stream() as sending, there.stream() as receiving:
        stream = {"default": None, "per thread": 2, "of the source": sending, "of the target": receiving}[whose]
        source, target = here.empty(shape, "int32"), there.empty(shape, "int32")
        source.copy_from(
            rawcuda.view(memoryview(bytearray(4 * 96)).cast("i").cast("B")).reinterpret("int32").reshape(shape)
        )
        plain = rawcuda.view(bytearray(4 * 96)).reinterpret("int32").reshape(shape)
        for at, place in enumerate(itertools.product(range(3), range(4), range(8))):
            plain[place].fill(at)
        source.copy_from(plain, stream=sending)
        target.fill(-1, stream=receiving)
        part = pick(target)
        part.copy_from(pick(source), stream=stream)
        assert part.download().tolist() == pick(plain).tolist()  # waits for the stream of the part
        rawcuda.synchronize()
        wanted = plain.download()
        wanted.fill(-1)
        pick(wanted).copy_from(pick(plain))
        assert target.tolist() == wanted.tolist(), layout


@pytest.mark.parametrize("kinds", list(itertools.product(["device", "pinned", "managed"], repeat=2)), ids="-".join)
def test_memory_of_every_kind_of_two_devices(device, other, kinds):
    with device.allocate(1000, kind=kinds[0]) as a, other.allocate(1000, kind=kinds[1]) as b:
        with device.stream() as first, other.stream() as second:
            for stream in (None, first, second, 2):
                a.fill(3)
                b.fill(4)
                rawcuda.synchronize()
                b.copy_from(a, stream=stream)
                rawcuda.synchronize()
                assert set(b.view().tolist()) == {3}
                b.fill(5)
                rawcuda.synchronize()
                a.view()[::2].copy_from(b.view()[::-2], stream=stream)
                rawcuda.synchronize()
                assert a.view()[:4].tolist() == [5, 3, 5, 3]


def test_a_run_and_a_box_are_one_call_without_a_wait(device, other):
    calls = []
    source, target = device.empty((4, 8), "float32"), other.empty((4, 8), "float32")
    source.fill(1)
    device.synchronize()
    with other.stream() as stream:
        with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            target.copy_from(source, stream=stream)
            target[:, :4].copy_from(source[:, 4:], stream=stream)
        assert [name for name in calls if "emcpy" in name] == ["cuMemcpyPeerAsync", "cuMemcpy3DPeerAsync"]
        assert not [name for name in calls if "Synchronize" in name]
        stream.synchronize()
        assert target.tolist() == [[1.0] * 8] * 4


def test_a_copy_leaves_the_exceptions_of_functions_to_the_next_synchronization(device, other):
    """A copy between two layouts waits, but is no synchronization: it raised what a function of a graph had raised."""
    with device.stream() as stream:
        with stream.capture() as graph:
            stream.call(lambda: 1 / 0)
        graph.launch(stream)
        stream.record().synchronize()
        source, target = device.zeros((4, 6, 8), "int32").fill(7), other.empty((8, 6, 4), "int32")
        target.T.copy_from(source)
        with pytest.raises(ZeroDivisionError):
            stream.synchronize()
        assert target[0, 0].tolist() == [7] * 4


def test_default_streams_wait_for_each_other(device, other):
    """What was queued on the default streams of both devices comes before, what is queued later comes after."""
    source, target = device.empty((1000,), "uint8"), other.empty((1000,), "uint8")
    for number in range(5):
        source.fill(number)
        target.fill(9)
        target.copy_from(source)
        source.fill(100)
        assert target.tolist() == [number] * 1000


def test_a_capture_records_it(device, other):
    source, target = device.empty((8,), "uint8"), other.empty((8,), "uint8")
    source.fill(1)
    target.fill(2)
    rawcuda.synchronize()
    with other.stream() as stream:
        with stream.capture() as graph:
            target.copy_from(source, stream=stream)
        source.fill(3)
        device.synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert target.tolist() == [3] * 8
        graph.close()


@pytest.mark.parametrize("use", ["copy", "box", "launch", "fill", "batch"])
def test_memory_closed_while_a_stream_of_another_device_uses_it(device, other, use):
    """The close() of memory waits for the work of its own device; for a stream of another, it is freed later."""
    device.enable_peer_access(other)
    try:
        with device.stream() as stream, other.stream() as its_own, device.load(kernels.ADD) as code:
            memory, there = other.allocate(400), device.empty((100,), "float32")
            memory.view("float32").fill(2, stream=its_own)
            its_own.synchronize()
            if use == "copy":
                there.copy_from(memory.view("float32"), stream=stream)
            elif use == "box":
                there.reshape((10, 10))[:, :5].copy_from(memory.view("float32").reshape((10, 10))[:, :5], stream=stream)
            elif use == "launch":
                code["add"].launch(memory, memory, there, 100, grid=1, block=128, stream=stream)
            elif use == "fill":
                memory.fill(1, stream=stream)
            else:
                parts = memory.view("float32")
                rawcuda.copy_batch([(there[:50], parts[:50]), (there[50:], parts[50:])], stream=stream)
            memory.close()
            stream.synchronize()
            if use in ("copy", "batch"):
                assert there.tolist() == [2.0] * 100
            if use == "launch":
                assert there.tolist() == [4.0] * 100
    finally:
        rawcuda.synchronize()
        device.disable_peer_access(other)


def test_foreign_arrays_of_two_devices(device, other):
    import gc

    with device.stream() as stream:
        made = [each.empty((100,), "int32") for each in (device, other)]
        made[0].fill(6, stream=stream)
        stream.synchronize()
        source, target = (rawcuda.view(each, protocol="dlpack") for each in made)
        rawcuda.copy(target, source, stream=stream)
        del source, made[0]
        gc.collect()
        stream.synchronize()
        assert made[0].tolist() == [6] * 100


def test_in_a_batch_with_other_copies(device, other):
    with device.stream() as stream:
        arrays = [each.empty((100,), "int32") for each in (device, other, device, other)]
        arrays[0].fill(1, stream=stream)
        arrays[1].fill(2)
        rawcuda.synchronize()
        rawcuda.copy_batch([(arrays[2], arrays[0]), (arrays[3], arrays[0])], stream=stream)
        stream.synchronize()
        assert arrays[2].tolist() == arrays[3].tolist() == [1] * 100


def memory_of_kind(device, kind):
    if kind == "registered":
        return device.register(bytearray(16)).view("int32")
    return device.allocate(16, kind=kind).view("int32")


@pytest.mark.parametrize("kind", ["pinned", "managed", "registered"])
@pytest.mark.parametrize("given", [None, "legacy", "per_thread"])
@pytest.mark.parametrize("opaque", [False, True], ids=["device memory", "CUDA array"])
def test_default_streams_of_two_devices_wait_for_each_other(device, other, kind, given, opaque):
    """A copy waits for what reads its target, too, and what writes its source later waits for the copy."""
    stream = getattr(rawcuda.Stream, given) if given else None
    shared, there = memory_of_kind(other, kind), other.empty((4,), "int32")
    image = device.array((4,), "int32") if opaque else device.empty((4,), "int32")
    shared.fill(1, stream=stream)
    image.copy_from(shared, stream=stream)
    shared.fill(2, stream=stream)
    there.copy_from(shared, stream=stream)
    image.copy_to(shared, stream=stream)
    device.synchronize()
    assert there.tolist() == [2] * 4 and image.tolist() == [1] * 4
    other.synchronize()
    assert shared.tolist() == [1] * 4


@pytest.mark.parametrize("kind", ["pinned", "managed"])
@pytest.mark.parametrize("to_array", [False, True], ids=["from an array", "to an array"])
def test_an_interrupted_copy_of_a_cuda_array_is_done(device, other, monkeypatch, kind, to_array):
    """The default stream of the other device did not wait for it, and nobody else did."""
    transfers = module("gpu.textures.transfers")
    image, shared = device.array((4,), "int32"), memory_of_kind(other, kind)
    image.copy_from(array.array("i", range(4)))
    shared.fill(9)
    rawcuda.synchronize()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(transfers, "hold_back_default", interrupt)
    with pytest.raises(KeyboardInterrupt):
        image.copy_from(shared) if to_array else image.copy_to(shared)
    monkeypatch.undo()
    if to_array:
        shared.fill(5)
        rawcuda.synchronize()
        assert image.tolist() == [9] * 4
    else:
        assert shared.tolist() == [0, 1, 2, 3]


def test_an_interrupted_copy_through_temporary_memory_is_noted(device, other, monkeypatch):
    """Memory was read without waiting for the copy: only the view of it that was copied had noted the stream."""
    copying = module("arrays.copying")
    real, image, memory = copying.copy, device.array(array.array("i", range(4))), other.allocate(16)
    memory.fill(0)
    rawcuda.synchronize()

    def interrupt(*given, **more):
        real(*given, **more)
        raise KeyboardInterrupt

    with device.stream() as stream, other.stream() as theirs:
        monkeypatch.setattr(copying, "copy", interrupt)
        with pytest.raises(KeyboardInterrupt):
            image.copy_to(memory, stream=stream)
        monkeypatch.undo()
        assert memory.view("int32").download(stream=theirs).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["pinned", "managed"])
@pytest.mark.parametrize("given", [None, "per_thread"])
@pytest.mark.parametrize("layout", ["rows", "backwards"])
def test_a_copy_to_a_cuda_array_waits_for_a_kernel_that_writes_memory_of_another_device(
    device, other, kind, given, layout
):
    stream = getattr(rawcuda.Stream, given) if given else None
    shared, ones = other.allocate(16, kind=kind).view("float32"), device.full((4,), 1, "float32")
    with device.array((4,), "float32") as image, device.load(kernels.ADD) as code:
        shared.fill(0)
        rawcuda.synchronize()
        code["add"].launch(ones, ones, shared, 4, grid=1, block=128, stream=stream)
        image.copy_from(shared[::-1] if layout == "backwards" else shared, stream=stream)
        assert image.tolist() == [2.0] * 4


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("opaque", [False, True], ids=["device memory", "CUDA array"])
def test_a_copy_breaks_no_capture_that_bars_the_default_stream_of_the_other_device(device, other, opaque):
    shared, noted = memory_of_kind(other, "pinned"), other.empty((4,), "int32")
    image = device.array((4,), "int32") if opaque else device.empty((4,), "int32")
    shared.fill(1)
    with other.stream(nonblocking=False) as captured:
        with captured.capture() as graph:
            noted.fill(3, stream=captured)
            image.copy_from(shared)
            image.copy_to(shared)
        graph.launch(captured)
        rawcuda.synchronize()
        graph.close()
    assert image.tolist() == shared.tolist() == [1] * 4 and noted.tolist() == [3] * 4


@pytest.mark.parametrize("why", ["during_api_call", "pageable"])
@pytest.mark.parametrize("given", ["default", "per thread", "own"])
def test_a_batch_waits_for_each_device_that_takes_part(device, other, given, why):
    source, target = other.allocate(100, kind="pinned").view(), other.zeros(100, "uint8")
    pairs, order = [(device.zeros(100, "uint8"), device.zeros(100, "uint8"))], "during_api_call"
    if why == "pageable":
        pairs, order = [(device.zeros(4, "uint8"), b"1234")], "stream"
    source.fill(5)
    device.synchronize(), other.synchronize()
    with device.stream() as own, source.memoryview() as elements:
        stream = {"default": None, "per thread": 2, "own": own}[given]
        rawcuda.copy_batch([*pairs, (target, source)], stream=stream, source_order=order)
        elements[0] = 9  # the copy has read it
        device.synchronize(), other.synchronize()
        assert target[0].tolist() == 5


def test_virtual_memory_and_pools_of_two_devices(device, other):
    if not device.attribute("VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"):
        pytest.skip("this device has no virtual memory management")
    with device.virtual_memory(1) as virtual, other.memory_pool() as pool, other.stream() as stream:
        memory = pool.allocate(virtual.nbytes, stream=stream)
        memory.fill(6, stream=stream)
        virtual.copy_from(memory, stream=stream)
        stream.synchronize()
        assert virtual.view()[-1].tolist() == 6
        virtual.fill(7)
        memory.copy_from(virtual)
        rawcuda.synchronize()
        assert memory.view()[0].tolist() == 7
        memory.close()


@pytest.mark.parametrize("what", ["host", "strided"])
def test_a_copy_that_is_refused_in_a_capture_leaves_it_valid(device, other, what):
    here, there = device.zeros((4, 8), "float32"), other.zeros((8, 4), "float32").T
    device.synchronize(), other.synchronize()
    source = array.array("f", [0.0] * 32)
    with device.stream() as stream:
        with stream.capture() as graph:
            here.fill(1, stream=stream)
            with pytest.raises(errors.InvalidUse, match="the stream is being captured"):
                if what == "host":
                    there.T.reshape(-1).copy_from(source, stream=stream)
                else:
                    here.copy_from(there, stream=stream)
            here.fill(2, stream=stream)
        assert len(graph.nodes) == 2
        graph.close()


class Info:
    kinds = ""

    def Get(self, key):
        return self.kinds

    def Free(self):
        pass


class Comm:
    """A communicator whose MPI does not say that it can use device memory."""

    def Get_info(self):
        return Info()

    def Get_rank(self):
        return 0


def test_what_a_message_does_not_fill_stays(device):
    view = device.upload(bytes(range(8)))
    with module("integrations.mpi").buffer(view, Comm(), "receive") as data:
        data[2:5].memoryview()[:] = bytes([9] * 3)
    assert view.tolist() == [0, 1, 9, 9, 9, 5, 6, 7]


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_mpi_waits_for_the_device_of_page_locked_memory(device, other, monkeypatch, whose):
    """DLPack gives every page-locked array the ordinal 0."""
    buffer, devices = module("integrations.mpi").buffer, module("gpu.devices.device")
    waited = []

    def finish(primary, what=""):
        waited.append(primary.ordinal)
        return wait(primary, what)

    wait = devices.finish_context
    monkeypatch.setattr(devices, "finish_context", finish)
    monkeypatch.setattr(module("gpu.memory.ordering"), "finish_context", finish)
    with other.allocate(64, kind="pinned") as pinned:
        made = pinned.view()
        if whose == "theirs":
            made = rawcuda.view(Pinned(made))
        with buffer(made, Comm(), "send"):
            assert other.ordinal in waited


@pytest.mark.parametrize("how", ["a view", "a memoryview", "the handle of the stream", "a default stream"])
def test_mpi_waits_for_the_stream_whatever_the_memory_is_called(device, how):
    """A memoryview or a NumPy array of page-locked memory has the device "cpu", and a stream writes it all the same."""
    there = device.empty(4, "int32").fill(7)
    with device.stream() as stream, device.allocate(16, kind="pinned") as pinned:
        pinned.fill(0)
        device.synchronize()
        pinned.view("int32").copy_from(there, stream=stream)
        made = pinned.view("int32").memoryview()
        given = {"the handle of the stream": stream.handle, "a default stream": 1}.get(how, stream)
        with module("integrations.mpi").buffer(
            rawcuda.view(made) if how == "a view" else made, Comm(), "send", stream=given
        ) as data:
            assert data.device[0] == "cpu" and stream.query() and data.tolist() == [7] * 4


@pytest.mark.parametrize("has_driver", [False, True])
def test_mpi_takes_every_stream_for_host_memory(python, has_driver):
    """A program gives the same stream for arrays of the host and of a device, also before it has used a device."""
    result = python(
        """
        import array
        from tests.driver.test_copy_peer import Comm
        from tests.subject import module
        for stream in None, 1, 2, -1:
            with module("integrations.mpi").buffer(array.array("f", [1, 2]), Comm(), "send", stream=stream) as data:
                assert data.tolist() == [1, 2]
        """,
        env={} if has_driver else {"RAWCUDA_DRIVER": "/nowhere/libcuda.so.1"},
    )
    assert result.returncode == 0, result.stderr


def test_mpi_does_not_wait_without_order(device):
    go = threading.Event()
    with device.stream() as stream, device.allocate(16, kind="pinned") as pinned:
        stream.call(lambda: go.wait(5))
        with module("integrations.mpi").buffer(pinned.view("int32"), Comm(), "send", stream=-1):
            assert not stream.query()
        go.set()
        stream.synchronize()


@pytest.mark.parametrize("given", [False, True])
def test_mpi_waits_for_the_stream_that_wrote_an_array(device, given, monkeypatch):
    """A CUDA-aware MPI reads the memory itself, whatever stream it is given for its own order."""
    mpi = module("integrations.mpi")
    monkeypatch.setattr(mpi, "uses_device_memory", lambda comm: True)
    there, made = device.empty(4, "int32").fill(7), device.zeros(4, "int32")
    with device.stream() as stream, device.stream() as other:
        device.synchronize()
        made.copy_from(there, stream=stream)
        with mpi.buffer(made, Comm(), "send", **({"stream": other} if given else {})) as data:
            assert data is made and stream.query()


@pytest.mark.parametrize(
    "kinds, expected",
    [
        ("", False),
        ("mpi,system", False),
        ("mpi,system,cuda", True),
        ("system, cuda:device ,mpi", True),
        ("cuda:host", False),
        ("cuda:managed,xcuda,cudax:device", False),
        ("cuda:host,cuda:device", True),
        ("cuda:host:device", True),
    ],
)
def test_an_mpi_may_use_only_some_memory_of_cuda(device, monkeypatch, kinds, expected):
    monkeypatch.setattr(Info, "kinds", kinds)
    assert module("integrations.mpi").uses_device_memory(Comm()) is expected


@pytest.mark.parametrize("kind", ["device", "host"])
def test_a_buffer_for_mpi_is_used_by_one_with_block_at_a_time(device, kind):
    """The second block took the place of the page-locked memory of the first one, whose elements were lost."""
    values = array.array("i", range(4))
    used = module("integrations.mpi").buffer(device.upload(values) if kind == "device" else values, Comm())
    for number in (5, 6):  # one block after another, also after an error
        with used as data:
            data[0] = number
            with pytest.raises(ValueError, match="in use in another with block"), used:
                pass
        assert used.view[0] == number
        with pytest.raises(ZeroDivisionError), used:
            raise ZeroDivisionError
