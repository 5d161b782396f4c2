"""Managed memory: advice, prefetches, discards, and what is known about its pages."""

import ctypes
from contextlib import ExitStack

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")
PAGE = 1 << 16  # no driver has larger pages


def driver_version():
    return module("driver").current().version


@pytest.fixture
def managed(device):
    with device.allocate(4 * PAGE, kind="managed") as memory:
        yield memory


def concurrent(device):
    if not device.attribute("CONCURRENT_MANAGED_ACCESS"):
        pytest.skip("this device cannot use managed memory at the same time as the host")


def test_an_assignment_that_is_refused_takes_no_access_away(device, managed, monkeypatch):
    concurrent(device)
    managed.accessed_by = ["host"]
    calls = vars(device._primary.calls)
    name = "cuMemAdvise_v2" if module("driver").current().has("cuMemAdvise_v2") else "cuMemAdvise"
    advise = getattr(device._primary.calls, name)

    def refuse(address, size, advice, where):
        if advice.value == 5:  # CU_MEM_ADVISE_SET_ACCESSED_BY
            raise errors.OutOfMemory("full", code=2, name="CUDA_ERROR_OUT_OF_MEMORY", call=name)
        advise(address, size, advice, where)

    monkeypatch.setitem(calls, name, refuse)
    with pytest.raises(errors.OutOfMemory):
        managed.accessed_by = [device]
    assert list(managed.accessed_by) == ["host"]


def test_advice_is_remembered(device, managed):
    concurrent(device)
    assert managed.read_mostly is False and managed.preferred_location is None and not managed.accessed_by
    assert managed.advise("set_read_mostly") is managed and managed.read_mostly
    managed.read_mostly = False
    assert not managed.read_mostly
    for location in (device, "host"):
        managed.preferred_location = location
        assert managed.preferred_location == location
        managed.accessed_by.add(location)
        assert location in managed.accessed_by
    assert set(managed.accessed_by) == {device, "host"} and len(managed.accessed_by) == 2
    managed.preferred_location = None
    assert managed.preferred_location is None
    managed.accessed_by = ["host"]
    assert list(managed.accessed_by) == ["host"]
    managed.accessed_by.discard("host")
    managed.accessed_by.discard("host")
    assert list(managed.accessed_by) == []


def test_advice_about_a_part(device, managed):
    concurrent(device)
    managed.advise("set_read_mostly", offset=PAGE, nbytes=PAGE)
    assert not managed.read_mostly  # only a part is
    managed.advise("set_read_mostly", nbytes=PAGE).advise("set_read_mostly", offset=2 * PAGE)
    assert managed.read_mostly
    managed.advise("set_preferred_location", "host", nbytes=PAGE)
    assert managed.preferred_location is None
    managed.advise("set_preferred_location", "host", offset=PAGE)
    assert managed.preferred_location == "host"
    managed.advise("set_accessed_by", device, nbytes=PAGE)
    assert device not in managed.accessed_by


def test_the_attributes_of_a_part(device, managed):
    concurrent(device)
    managed.advise("set_read_mostly", nbytes=PAGE).advise("set_accessed_by", "host", offset=PAGE)
    managed.prefetch(device, nbytes=PAGE)
    wanted = {"read_mostly": True, "preferred_location": None, "accessed_by": [], "last_prefetch_location": device}
    assert managed.range_attributes(nbytes=PAGE) == managed.range_attributes(nbytes=1) == wanted
    rest = managed.range_attributes(offset=PAGE)
    assert rest["accessed_by"] == ["host"] and not rest["read_mostly"] and rest["last_prefetch_location"] is None
    assert managed.range_attributes()["accessed_by"] == []
    assert managed.range_attributes(nbytes=0)["preferred_location"] is None
    with pytest.raises(ValueError, match="is not in"):
        managed.range_attributes(offset=5 * PAGE)
    device.synchronize()


def test_a_prefetch_comes_in_the_order_of_its_stream(device, managed):
    concurrent(device)
    assert managed.last_prefetch_location is None
    with device.stream() as stream:
        managed.fill(3, stream=stream)
        assert managed.prefetch(device, stream=stream) is managed
        managed.prefetch("host", stream=stream)
        stream.synchronize()
    assert managed.last_prefetch_location == "host" and managed.view().tolist()[:3] == [3] * 3
    managed.prefetch(device)
    assert managed.last_prefetch_location == device
    managed.prefetch("host", nbytes=PAGE)
    assert managed.last_prefetch_location is None
    device.synchronize()


def test_nodes_of_the_host(device, managed):
    concurrent(device)
    if rawcuda.cu.version < 13000 or device.attribute("HOST_NUMA_ID") < 0:
        pytest.skip("this driver tells no nodes")
    node = f"numa:{device.attribute('HOST_NUMA_ID')}"
    managed.preferred_location = node
    managed.prefetch(node)
    assert managed.preferred_location == managed.last_prefetch_location == node
    managed.prefetch("numa:current")
    device.synchronize()
    assert str(managed.last_prefetch_location).startswith("numa:")
    with pytest.raises(ValueError, match="not for a node"):
        managed.advise("set_accessed_by", node)
    with pytest.raises(ValueError, match="not by a node"):
        managed.accessed_by.add(node)


def test_discarded_memory_can_be_written_again(device, managed):
    concurrent(device)
    with device.stream() as stream:
        try:
            managed.discard(stream=stream)
        except errors.Unsupported as error:
            assert rawcuda.cu.version < 13000 and "CUDA 13.0" in str(error)
            return
        managed.fill(9, stream=stream).discard(device, stream=stream).fill(8, stream=stream)
        stream.synchronize()
        assert managed.view().tolist()[-2:] == [8, 8]
        assert managed.last_prefetch_location == device
    for legacy in (None, 1, rawcuda.Stream.legacy):
        with pytest.raises(ValueError, match="legacy default stream"):
            managed.discard(stream=legacy)


def test_what_is_no_advice(device, managed):
    for use, error, words in (
        (lambda: managed.advise("read_mostly"), ValueError, "set_read_mostly"),
        (lambda: managed.advise(1), ValueError, "give one of"),
        (lambda: managed.advise("set_preferred_location"), ValueError, "needs a location"),
        (lambda: managed.advise("set_read_mostly", "host"), ValueError, "takes no location"),
        (lambda: managed.advise("set_preferred_location", "gpu"), ValueError, "'host', 'numa:0'"),
        (lambda: managed.advise("set_preferred_location", 2.5), TypeError, "must be a Device"),
        (lambda: managed.advise("set_preferred_location", 99), ValueError, "no device 99"),
        (lambda: managed.prefetch(None), TypeError, "must be a Device"),
        (lambda: managed.prefetch("numa:-1"), ValueError, "number of a node"),
        (lambda: managed.prefetch(device, stream=0), ValueError, "stream=0"),
        (lambda: managed.prefetch(device, offset=-1), ValueError, "offset=-1"),
        (lambda: managed.prefetch(device, offset=1, nbytes=4 * PAGE), ValueError, "not a part"),
        (lambda: managed.prefetch(device, nbytes=2**63), ValueError, "not a part"),
        (lambda: managed.prefetch(device, nbytes=1.0), TypeError, "nbytes must be an int"),
        (lambda: managed.advise("set_read_mostly", offset=True), TypeError, "offset must be an int"),
    ):
        with pytest.raises(error, match=words):
            use()
    for kind in ("device", "pinned"):
        with device.allocate(64, kind=kind) as memory:
            for use in (
                lambda: memory.advise("set_read_mostly"),  # noqa: B023
                lambda: memory.prefetch("host"),  # noqa: B023
                lambda: memory.discard(stream=2),  # noqa: B023
                lambda: memory.read_mostly,  # noqa: B023
                lambda: memory.preferred_location,  # noqa: B023
                lambda: memory.accessed_by,  # noqa: B023
                lambda: memory.last_prefetch_location,  # noqa: B023
            ):
                with pytest.raises(AttributeError, match="kind='managed'"):
                    use()
            with pytest.raises(AttributeError, match="kind='managed'"):
                memory.read_mostly = True
            assert type(memory) is rawcuda.Memory and not hasattr(memory, "advise")
            with pytest.raises(ValueError, match="memory 1: .*kind='managed'"):
                rawcuda.prefetch_batch([managed, memory], "host")
    borrowed = rawcuda.Memory.borrow(device, managed.ptr, PAGE, kind="managed", owner=managed)
    assert type(borrowed) is type(managed) is rawcuda.ManagedMemory and borrowed.read_mostly is False
    assert repr(managed).startswith("<ManagedMemory 0x")
    managed.close()
    for use in (lambda: managed.advise("set_read_mostly"), lambda: managed.prefetch(device)):
        with pytest.raises(errors.Closed):
            use()
    with device.allocate(0, kind="managed") as nothing:
        nothing.advise("set_read_mostly").prefetch("host")
        assert nothing.preferred_location is None


@pytest.mark.parametrize("as_number", [True, False])
@pytest.mark.parametrize("call", ["prefetch", "discard"])
def test_a_stream_of_another_context_is_refused_before_anything_is_queued(device, managed, call, as_number):
    """The end of its work could not be determined; the content would be lost already."""
    concurrent(device)
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    cu, context, handle = rawcuda.cu, rawcuda.cu.CUcontext(), rawcuda.cu.CUstream()
    managed.fill(5)
    device.synchronize()
    cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    try:
        cu.cuStreamCreate(ctypes.byref(handle), 1)
        cu.cuCtxPopCurrent_v2(ctypes.byref(cu.CUcontext()))
        stream = handle.value if as_number else rawcuda.Stream.from_handle(handle.value)
        made = []
        with rawcuda.trace(lambda event: made.append(event.name)):
            with pytest.raises(ValueError, match="another context than the primary context"):
                managed.prefetch(device, stream=stream) if call == "prefetch" else managed.discard(stream=stream)
        assert not [name for name in made if name.startswith("cuMem")]
        device.synchronize()
        assert managed.view().tolist()[:4] == [5] * 4
    finally:
        cu.cuCtxDestroy_v2(context)


def test_a_closed_device_is_no_location(device, managed):
    second = rawcuda.Device(0)
    second.close()
    with pytest.raises(errors.Closed):
        managed.prefetch(second)


def test_managed_memory_in_a_kernel_after_a_prefetch(device, managed):
    concurrent(device)
    managed.fill(0)
    with device.load(kernels.ADD) as code:
        managed.prefetch(device).advise("set_preferred_location", device)
        numbers = managed.view("float32")[:100]
        code["add"].launch(numbers, numbers, numbers, 100, grid=1, block=128)
        device.synchronize()
        assert numbers.tolist() == [0.0] * 100


@pytest.mark.emulator_only("drivers of before CUDA 12.2 and 13.0 are played by leaving out what is newer")
def test_an_older_driver(device, managed, monkeypatch):
    loaded = device._primary.driver
    monkeypatch.setattr(type(loaded), "has", lambda self, name: not name.endswith("_v2"))
    monkeypatch.setattr(type(loaded), "version", 12010)
    managed.preferred_location = device
    managed.accessed_by = ["host", device]
    managed.prefetch("host")
    assert managed.preferred_location == device and managed.last_prefetch_location == "host"
    assert set(managed.accessed_by) == {"host", device}
    managed.preferred_location = "host"
    assert managed.preferred_location == "host"
    managed.preferred_location = None
    assert managed.preferred_location is None
    with pytest.raises(errors.Unsupported, match="have no NUMA nodes"):
        managed.prefetch("numa:0")


# -- several runs of memory at once


@pytest.fixture
def runs(device):
    concurrent(device)
    with ExitStack() as held:
        yield [held.enter_context(device.allocate(4096 * (number + 1), kind="managed")) for number in range(3)]


def where(runs):
    return [memory.last_prefetch_location for memory in runs]


def test_several_prefetches_in_one_call(device, runs):
    with device.stream() as stream:
        heard = []
        with rawcuda.trace(heard):
            rawcuda.prefetch_batch(runs, device, stream=stream)
        made = [call.name for call in heard if getattr(call, "name", "").startswith("cuMemPrefetch")]
        assert len(made) == (1 if driver_version() >= 13000 else 3) and where(runs) == [device] * 3
        rawcuda.prefetch_batch(iter(runs), ["host", "host", device], stream=stream)
        assert where(runs) == ["host", "host", device]
        rawcuda.prefetch_batch(runs[:1], device, stream=stream)
        rawcuda.prefetch_batch(runs[1:], (device, "host"))  # on the legacy default stream, one by one
        rawcuda.prefetch_batch([], device, stream=stream)
        stream.synchronize()
        assert where(runs) == [device, device, "host"]


def test_several_discards_in_one_call(device, runs):
    if driver_version() < 13000:
        pytest.skip("the driver is older than CUDA 13.0")
    with device.stream() as stream:
        rawcuda.prefetch_batch(runs, "host", stream=stream)
        rawcuda.discard_batch(runs, stream=stream)
        rawcuda.discard_batch(runs[:2], device, stream=stream)
        stream.synchronize()
        assert where(runs) == [device, device, "host"]
        for memory in runs:
            memory.fill(1, stream=stream)
        stream.synchronize()
        with pytest.raises(ValueError, match="legacy default stream"):
            rawcuda.discard_batch(runs, stream=None)


def test_a_default_stream_discards_memory_of_its_own_device_only(device, second):
    if driver_version() < 13000:
        pytest.skip("the driver is older than CUDA 13.0")
    with device.allocate(64, kind="managed") as first, second.allocate(64, kind="managed") as other:
        first.fill(1), other.fill(1)
        device.synchronize(), second.synchronize()
        with pytest.raises(ValueError, match="of several devices, each with its own default stream"):
            rawcuda.discard_batch([first, other], stream=rawcuda.Stream.per_thread)
        assert first.view().tolist() == other.view().tolist() == [1] * 64


def test_nothing_is_moved_if_one_run_is_wrong(device, runs):
    with device.allocate(8) as plain, device.stream() as stream:
        for memories, location, error, words in (
            ([runs[0], plain], device, ValueError, "memory 1: .* does not move"),
            ([runs[0], 3], device, TypeError, "memory 1: give a Memory, not an int"),
            (runs[0], device, TypeError, "memories must be a sequence of Memory objects"),
            (runs, [device], ValueError, "1 locations for 3 runs of memory"),
            (runs, ["host", "host", "moon"], ValueError, "memory 2: location 'moon'"),
            (runs, ["host", None, "host"], TypeError, "memory 1: a location must be a Device"),
            (runs, None, TypeError, "memory 0: a location must be a Device"),
        ):
            with pytest.raises(error, match=words):
                rawcuda.prefetch_batch(memories, location, stream=stream)
        runs[2].close()
        with pytest.raises(errors.Closed, match="memory 2: this ManagedMemory is closed"):
            rawcuda.prefetch_batch(runs, device, stream=stream)
        assert where(runs[:2]) == [None, None]


@pytest.mark.parametrize("batch", [False, True])
def test_what_is_written_after_a_discard_waits_for_it(device, batch):
    with device.allocate(64, kind="managed") as memory, device.stream() as stream, device.stream() as other:
        memory.fill(5, stream=other)
        if batch:
            rawcuda.discard_batch([memory], stream=stream)
        else:
            memory.discard(stream=stream)
        assert memory.stream is stream
        assert memory.fill(7).view().tolist() == [7] * 64
        device.synchronize()
        assert memory.view().tolist() == [7] * 64
