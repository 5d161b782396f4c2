"""What only a GPU can show of pools, managed, page-locked and virtual memory, and of batches: real memory and time."""

import time

import pytest

from tests.subject import rawcuda

MIB = 1 << 20


@pytest.mark.gpu_only("only a GPU has physical memory that a pool keeps")
def test_a_pool_keeps_physical_memory(device):
    with device.memory_pool() as pool, device.stream() as stream:
        pool.release_threshold = 2**64 - 1
        pool.allocate(256 * MIB, stream=stream).close()
        stream.synchronize()
        kept = device.free_memory
        pool.trim()
        assert device.free_memory >= kept + 200 * MIB


@pytest.mark.gpu_only("only a GPU has physical memory behind reserved addresses")
def test_only_what_is_mapped_takes_memory(device):
    device.synchronize()
    before = device.free_memory
    with device.virtual_memory(64 * MIB, reserve=1 << 40) as memory:
        assert 60 * MIB <= before - device.free_memory <= 200 * MIB
        memory.fill(1)
        memory.grow(128 * MIB)
        assert 120 * MIB <= before - device.free_memory <= 300 * MIB
        assert memory.view()[0].tolist() == 1
        memory.shrink(64 * MIB)
        assert before - device.free_memory <= 200 * MIB


@pytest.mark.gpu_only("only a GPU copies while the program goes on")
def test_a_copy_of_page_locked_memory_does_not_wait(device):
    array = bytearray(512 * MIB)
    with device.allocate(len(array)) as there, device.stream() as stream:
        with device.register(array) as locked:
            there.copy_from(locked, stream=stream)
            assert not stream.query()  # it is still under way
            stream.synchronize()
        there.copy_from(array, stream=stream)
        assert stream.query()  # pageable memory has been read


@pytest.mark.gpu_only("only a GPU moves managed memory")
def test_managed_memory_is_on_the_device_after_a_prefetch(device):
    if not device.attribute("CONCURRENT_MANAGED_ACCESS"):
        pytest.skip("this device cannot use managed memory at the same time as the host")
    with device.allocate(256 * MIB, kind="managed") as memory:
        memory.prefetch("host")
        memory.fill(1)
        memory.prefetch("host")
        device.synchronize()
        before = device.free_memory
        memory.prefetch(device)
        device.synchronize()
        assert before - device.free_memory >= 200 * MIB


@pytest.mark.gpu_only("only on a GPU does a call of the driver take its time")
def test_a_batch_is_not_slower_than_its_copies(device):
    with device.stream() as stream:
        pairs = [(device.empty((1024,), "uint8"), device.empty((1024,), "uint8")) for _ in range(500)]

        def seconds(copy):
            stream.synchronize()
            start = time.perf_counter()
            copy()
            stream.synchronize()
            return time.perf_counter() - start

        together = min(seconds(lambda: rawcuda.copy_batch(pairs, stream=stream)) for _ in range(5))
        apart = min(seconds(lambda: [rawcuda.copy(a, b, stream=stream) for a, b in pairs]) for _ in range(5))
        assert together < 3 * apart


@pytest.mark.gpu_only("only between two GPUs are there two memories and two clocks")
def test_a_copy_between_two_gpus_does_not_wait(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    other = rawcuda.Device(1)
    with device.allocate(512 * MIB) as source, other.allocate(512 * MIB) as target, other.stream() as stream:
        source.fill(5)
        device.synchronize()
        target.copy_from(source, stream=stream)
        assert not stream.query()
        stream.synchronize()
        assert target.view()[-1].tolist() == 5
