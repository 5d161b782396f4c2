"""What only a GPU can show of each feature: that work runs at the same time, where it runs, and what it takes.

Each function below is about one feature. `test_on_a_gpu` runs it on a GPU. `test_its_calls` runs the same function on
the emulator, with short times and small sizes: there, everything but gpu.shows() must hold, too. A third test compiles
all of the kernels to machine code.
"""

from __future__ import annotations

import array
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any, Callable

import pytest

from tests.subject import module, rawcuda

from . import gpu_kernels, graph_kernels
from .texture_kernels import load, ptx

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")
errors = module("errors")

MIB = 1 << 20
SECOND = 10**9
BODIES: dict[str, Callable[..., None]] = {}


class Gpu:
    """Where a body runs: `real` is False on the emulator."""

    def __init__(self, device: Any, real: bool, held: ExitStack) -> None:
        self.device, self.real, self.held = device, real, held

    def shows(self, fact: bool) -> None:
        """Fail on a GPU if a fact does not hold."""
        assert fact or not self.real

    def time(self, ns: float) -> int:
        """Return how long a kernel should run, in nanoseconds."""
        return int(ns) if self.real else 0

    def size(self, nbytes: int) -> int:
        return nbytes if self.real else min(nbytes, 4 * MIB)

    def load(self, source: str = gpu_kernels.KERNELS) -> Any:
        """Load kernels, so that no launch has to wait for that later; skip where the device is too old for them."""
        oldest = gpu_kernels.SOURCES[source]
        if self.device.compute_capability < divmod(oldest, 10):
            pytest.skip(f"this needs compute capability {oldest / 10}")
        made = self.held.enter_context(load(self.device, source))
        for name in made.names:
            try:
                made[name].load()
            except errors.SymbolNotFound:  # a driver before CUDA 12.4
                break
        return made

    def ones(self, count: int) -> Any:
        made = self.device.empty(count, "float32").fill(1)
        self.device.synchronize()  # the streams of the tests do not wait for the legacy stream
        return made

    def flags(self, count: int = 4) -> Any:
        made = self.device.empty(count, "uint32").fill(0)
        self.device.synchronize()
        return made


def body(function: Callable[..., None]) -> Callable[..., None]:
    BODIES[function.__name__] = function
    return function


def other_device() -> Any:
    """Return a second device."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    return rawcuda.Device(1)


# -- graphs


@body
def branches_of_a_graph_run_at_the_same_time(device, gpu):
    flags, kernels = gpu.flags(), gpu.load()
    meet = kernels["meet"].configure(grid=1, block=1)
    with device.graph() as graph, device.stream() as stream:
        cleared = graph.fill(flags, 0)
        for mine in (0, 1):
            graph.kernel(meet, flags, mine, gpu.time(SECOND), after=cleared)
        graph.launch(stream)
        stream.synchronize()
    assert flags[:2].tolist() == [1, 1]
    gpu.shows(flags[2:].tolist() == [1, 1])


@body
def a_loop_of_a_graph_runs_without_the_cpu(device, gpu):
    times = 1000 if gpu.real else 20
    count, loop = device.upload(array.array("I", [times])), device.load(graph_kernels.CONDITIONS)
    x, kernels = gpu.ones(1), gpu.load()
    with loop, device.graph() as graph, device.stream() as stream:
        try:
            going = graph.create_condition(default=1)
        except errors.Unsupported as error:
            pytest.skip(str(error))
        node = graph.while_loop(going)
        grown = node.body.kernel(kernels["scale"], x, 1.0, 1, grid=1, block=1)
        node.body.kernel(loop["countdown"], going, count, grid=1, block=1, after=grown)
        stream.call((lambda held: held.wait(5)), begun := threading.Event())
        graph.launch(stream)  # the whole loop is queued, with one call
        assert not stream.query() or not gpu.real
        begun.set()
        stream.synchronize()
    assert count.tolist() == [0]


@body
def a_branch_of_a_graph_is_chosen_on_the_device(device, gpu):
    number, choose = device.upload(array.array("I", [2])), device.load(graph_kernels.CONDITIONS)
    x, kernels = gpu.ones(3), gpu.load()
    with choose, device.graph() as graph, device.stream() as stream:
        try:
            way, first = graph.create_condition(), graph.create_condition()
            chosen = [graph.kernel(choose["choose"], each, number, grid=1, block=1) for each in (way, first)]
            node, then = graph.switch(way, 3, after=chosen), graph.if_then(first, after=chosen)
        except errors.Unsupported as error:
            pytest.skip(str(error))
        for which, branch in enumerate(node.branches):
            branch.kernel(kernels["scale"], x[which:], float(which + 2), 1, grid=1, block=1)
        then.then.kernel(kernels["scale"], x, 10.0, 1, grid=1, block=1)
        graph.launch(stream)
        stream.synchronize()
        assert x.tolist() == [10, 1, 4]
        number.fill(0)
        device.synchronize()
        graph.launch(stream)
        stream.synchronize()
    assert x.tolist() == [20, 1, 4]


@body
def memory_of_a_graph_is_taken_by_its_launch(device, gpu):
    nbytes = gpu.size(256 * MIB)
    with device.stream() as stream, device.graph() as graph:
        scratch = graph.allocate(nbytes)
        graph.fill(scratch.memory, 7, after=scratch)
        device.synchronize()
        before = device.free_memory
        graph.launch(stream)
        stream.synchronize()
        assert scratch.memory.view()[-1].tolist() == 7
        gpu.shows(before - device.free_memory >= 0.8 * nbytes)
        scratch.release(stream)
        stream.synchronize()


@body
def an_executable_graph_is_updated_where_it_is(device, gpu):
    x, kernels = gpu.ones(2), gpu.load()
    scale = kernels["scale"].configure(grid=1, block=1)
    with device.graph() as graph, device.stream() as stream:
        first = graph.kernel(scale, x, 2.0, 1)
        second = graph.kernel(scale, x[1:], 3.0, 1, after=first)
        with graph.instantiate() as executable:
            executable.upload(stream)
            executable.launch(stream)
            executable[first].update(x, 5.0, 1)  # the launch before does not see it
            executable[second].disable()
            executable.launch(stream)
            stream.synchronize()
            assert x.tolist() == [10, 3]
            executable.update(graph)
            executable[second].enable()
            executable.launch(stream)
            stream.synchronize()
            assert x.tolist() == [20, 9]


@body
def events_and_functions_of_a_graph_happen_on_the_way(device, gpu):
    kernels, seen = gpu.load(), []
    begun, ended = device.event(timing=True), device.event(timing=True)
    with begun, ended, device.graph() as graph, device.stream() as stream, device.stream() as other:
        start = graph.record(begun)
        ran = graph.kernel(kernels["spin"], gpu.time(SECOND / 20), grid=1, block=1, after=start)
        end = graph.record(ended, after=ran)
        called = graph.callback(lambda: seen.append(threading.get_ident()), after=end)
        graph.kernel(kernels["spin"], gpu.time(SECOND / 20), grid=1, block=1, after=called)
        graph.launch(stream)
        other.wait(ended)
        other.synchronize()
        gpu.shows(not stream.query())
        stream.synchronize()
        gpu.shows(45 <= ended.elapsed_ms(begun) < 5000)
    assert len(seen) == 1 and seen[0] != threading.get_ident()


@body
def graphs_in_graphs_and_copies_of_graphs_run(device, gpu):
    x, kernels = gpu.ones(1), gpu.load()
    scale = kernels["scale"].configure(grid=1, block=1)
    with device.graph() as inner, device.graph() as graph, device.stream() as stream:
        inner.kernel(scale, x, 2.0, 1)
        embedded = graph.embed(inner)
        joined = graph.join(embedded, graph.empty())
        try:
            with stream.capture(into=graph, after=joined):
                kernels["scale"].launch(x, 5.0, 1, grid=1, block=1, stream=stream)
        except errors.SymbolNotFound as error:
            pytest.skip(str(error))
        assert graph.debug_dot().lstrip().startswith("digraph") and len(graph.edges) == 3
        with graph.clone() as clone:
            graph.nodes[-1].destroy()
            clone.launch(stream)
            graph.launch(stream)
            stream.synchronize()
    assert x.tolist() == [20]


# -- memory


@body
def a_pool_keeps_as_much_as_its_threshold_says(device, gpu):
    nbytes = gpu.size(256 * MIB)
    with device.memory_pool() as pool, device.stream() as stream:
        device.synchronize()
        before = device.free_memory
        for threshold, kept in ((0, 0), (2**64 - 1, nbytes)):
            pool.release_threshold = threshold
            with device.allocate(nbytes, pool=pool, stream=stream) as memory:
                memory.fill(1, stream=stream)
                assert pool.attributes.used_mem_current >= nbytes
            stream.synchronize()
            assert pool.attributes.reserved_mem_current >= kept and pool.attributes.used_mem_current == 0
            gpu.shows(abs(before - device.free_memory - kept) <= nbytes // 4)
        pool.trim()
        assert pool.attributes.reserved_mem_current == 0
        gpu.shows(before - device.free_memory <= nbytes // 4)


@body
def a_pool_lets_another_device_in(device, gpu):
    other, kernels = other_device(), gpu.load()
    if not other.can_reach(device):
        pytest.skip("the devices cannot reach each other")
    with device.memory_pool() as pool, device.stream() as stream, load(other, gpu_kernels.KERNELS) as there:
        pool.peer_accessible_by = [other]
        with device.allocate(4, pool=pool, stream=stream) as memory:
            x = memory.view("float32")
            x.fill(3, stream=stream)
            stream.synchronize()
            there["scale"].launch(x, 2.0, 1, grid=1, block=1)
            other.synchronize()
            assert kernels["scale"] and x.tolist() == [6]


@body
def managed_memory_goes_where_it_is_sent(device, gpu):
    if not device.attribute("CONCURRENT_MANAGED_ACCESS"):
        pytest.skip("this device cannot use managed memory at the same time as the host")
    kernels, nbytes = gpu.load(), gpu.size(64 * MIB)
    with device.allocate(nbytes, kind="managed") as memory, device.stream() as stream:
        assert memory.last_prefetch_location is None
        words = memory.view().memoryview().cast("f")
        words[0] = words[nbytes // 4 - 1] = 4
        memory.advise("set_preferred_location", device).advise("set_read_mostly").prefetch(device, stream=stream)
        kernels["scale"].launch(memory.view("float32"), 2.0, nbytes // 4, grid=1024, block=256, stream=stream)
        stream.synchronize()
        assert memory.last_prefetch_location == device == memory.preferred_location and memory.read_mostly
        memory.prefetch("host", stream=stream, nbytes=nbytes // 2)
        stream.synchronize()
        assert memory.last_prefetch_location is None  # the two halves have different ones
        assert memory.range_attributes(nbytes=nbytes // 2)["last_prefetch_location"] == "host"
        assert words[0] == words[nbytes // 4 - 1] == 8
        with device.allocate(nbytes, kind="managed") as another:
            rawcuda.prefetch_batch([memory, another], [device, "host"], stream=stream)
            stream.synchronize()
            assert [memory.last_prefetch_location, another.last_prefetch_location] == [device, "host"]


@body
def a_kernel_writes_a_page_locked_array_in_place(device, gpu):
    kernels, numbers = gpu.load(), array.array("f", [3]) * 5000
    with rawcuda.Memory.register(numbers) as locked, device.stream() as stream:
        kernels["scale"].launch(locked.view("float32"), 2.0, 4999, grid=8, block=256, stream=stream)
        stream.synchronize()
    assert set(numbers[:4999]) == {6} and numbers[4999] == 3


@body
def a_batch_is_copied_in_the_order_of_its_stream(device, gpu):
    kernels, sources = gpu.load(), [gpu.ones(1024) for _ in range(8)]
    targets = [gpu.ones(1024) for _ in range(8)]
    with device.stream() as stream:
        kernels["spin"].launch(gpu.time(SECOND / 10), grid=1, block=1, stream=stream)
        for source in sources:
            kernels["scale"].launch(source, 9.0, 1024, grid=4, block=256, stream=stream)
        rawcuda.copy_batch(zip(targets, sources), stream=stream)
        gpu.shows(not stream.query())
        stream.synchronize()
    assert all(set(target.tolist()) == {9.0} for target in targets)


@body
def a_kernel_sees_all_parts_of_virtual_memory(device, gpu):
    kernels = gpu.load()
    with device.virtual_memory(1, reserve=1 << 34) as memory:
        step = memory.granularity
        address = memory.ptr
        memory.fill(0)
        memory.grow(3 * step)
        assert memory.ptr == address and memory.nbytes == 3 * step
        x = memory.view("float32")
        edges = [0, step // 4 - 1, step // 4, 3 * step // 4 - 1]
        for edge in edges:
            x[edge].fill(1)
        for edge in edges:
            kernels["scale"].launch(x[edge:], 3.0, 1, grid=1, block=32)
        device.synchronize()
        assert [x[edge].tolist() for edge in edges] == [3] * 4


@body
def a_kernel_reads_the_memory_of_another_device(device, gpu):
    other, kernels = other_device(), gpu.load()
    if not device.can_reach(other):
        pytest.skip("the devices cannot reach each other")
    there = other.upload(array.array("f", [2, 3]))
    with device.peer_access(other):
        kernels["scale"].launch(there, 10.0, 2, grid=1, block=2)
        device.synchronize()
    assert there.tolist() == [20, 30]
    with pytest.raises(ValueError, match="enable_peer_access"):
        kernels["scale"].launch(there, 10.0, 2, grid=1, block=2)


@body
def boxes_are_copied_through_pitched_memory(device, gpu):
    rows = device.empty_pitched((3, 5), "float32")
    data = rawcuda.view(array.array("f", range(60))).reshape(3, 4, 5)
    rows.copy_from(data[:, 1])
    with device.array((3, 4, 5), "float32") as box, device.stream() as stream:
        box.copy_from(data, stream=stream)
        box[1, 1:3].copy_from(rows[:2], stream=stream)
        stream.synchronize()
        assert rows.strides[0] % device.attribute("TEXTURE_PITCH_ALIGNMENT") == 0
        assert box[1].tolist() == [data[1, 0].tolist(), data[0, 1].tolist(), data[1, 1].tolist(), data[1, 3].tolist()]


# -- textures


@body
def the_hardware_filters_with_eight_bits(device, gpu):
    kernels, out = gpu.load(gpu_kernels.IMAGES), device.empty(1000, "float32")
    with device.array(rawcuda.view(array.array("f", [0, 1])).reshape(1, 2)) as image:
        with device.texture(image, filter_mode="linear") as texture:
            kernels["between"].launch(texture, 1 / 999, out, grid=1, block=1000)
            device.synchronize()
    found = out.tolist()
    assert all(abs(value - place / 999) <= 1 / 256 for place, value in enumerate(found))
    assert all(value * 256 == int(value * 256) for value in found) and len(set(found)) > 200


@body
def a_texture_reads_what_a_surface_wrote(device, gpu):
    kernels, out = gpu.load(gpu_kernels.IMAGES), device.empty(4, "float32")
    with device.array((4, 4), "float32", surface=True) as image, device.stream() as stream:
        with device.surface(image) as surface, device.texture(image) as texture:
            kernels["paint"].launch(surface, grid=1, block=(4, 4), stream=stream)
            kernels["between"].launch(texture, 1.0, out, grid=1, block=4, stream=stream)
            stream.synchronize()
            assert out.tolist() == [0, 1, 2, 3] and image[3].tolist() == [30, 31, 32, 33]


@body
def the_hardware_blends_two_levels(device, gpu):
    kernels, out = gpu.load(gpu_kernels.IMAGES), device.empty(9, "float32")
    with device.mipmapped_array((4, 4), "float32", levels=3) as images:
        for number, level in enumerate(images):
            level.copy_from(rawcuda.view(array.array("f", [number * 10.0] * (level.nbytes // 4))).reshape(level.shape))
        options = {"normalized_coords": True, "filter_mode": "linear", "mipmap_filter_mode": "linear"}
        with device.texture(images, **options, max_mipmap_level_clamp=2) as texture:
            kernels["level"].launch(texture, out, 0.25, grid=1, block=9)
            device.synchronize()
    assert out.tolist() == pytest.approx([2.5 * place for place in range(9)], abs=0.1)


# -- streams and events


@body
def work_of_a_higher_priority_overtakes(device, gpu):
    kernels, (lowest, highest) = gpu.load(), device.stream_priorities
    if lowest == highest:
        pytest.skip("this device has no priorities")
    blocks = 128 * device.attribute("MULTIPROCESSOR_COUNT") if gpu.real else 2
    with device.stream(priority=lowest) as low, device.stream(priority=highest) as high, device.stream() as plain:
        assert (low.priority, high.priority) == (lowest, highest)
        for stream, options in ((high, {}), (plain, {"priority": highest})):
            kernels["spin"].launch(gpu.time(SECOND / 1000), grid=blocks, block=1024, stream=low)
            kernels["spin"].launch(gpu.time(1000), grid=1, block=32, stream=stream, **options)
            stream.synchronize()
            gpu.shows(not low.query())
            low.synchronize()


@body
def an_event_tells_the_time_of_a_kernel(device, gpu):
    kernels = gpu.load()
    with device.stream() as stream, device.event(timing=True) as begun, device.event(timing=True) as ended:
        stream.record(begun)
        kernels["spin"].launch(gpu.time(SECOND / 20), grid=1, block=1, stream=stream)
        stream.record(ended)
        gpu.shows(not ended.query())
        ended.synchronize()
        assert ended.elapsed_ms(begun) >= 0
        gpu.shows(45 <= ended.elapsed_ms(begun) < 5000)


@body
def the_cpu_sleeps_while_it_waits_for_a_blocking_event(device, gpu):
    kernels = gpu.load()
    with device.stream() as stream, device.event(blocking=True) as done:
        kernels["spin"].launch(gpu.time(SECOND / 2), grid=1, block=1, stream=stream)
        stream.record(done)
        began, used = time.perf_counter(), time.thread_time()
        done.synchronize()
        gpu.shows(time.thread_time() - used < 0.5 * (time.perf_counter() - began))


@body
def a_stream_waits_for_what_the_cpu_writes(device, gpu):
    kernels, x = gpu.load(), gpu.ones(1)
    with device.allocate(8, kind="pinned") as memory, device.stream() as stream:
        flags = memory.view("uint32")
        flags.fill(0)
        device.synchronize()
        try:
            stream.wait_value(flags[0], 1)
        except errors.Unsupported as error:
            pytest.skip(str(error))
        kernels["scale"].launch(x, 4.0, 1, grid=1, block=1, stream=stream)
        stream.write_value(flags[1], 9)
        words = flags.memoryview()
        assert not stream.query() and words[1] == 0
        words[0] = 1
        stream.synchronize()
        assert words[1] == 9 and x.tolist() == [4]


@body
def a_function_is_called_between_two_kernels(device, gpu):
    kernels, seen = gpu.load(), []
    with device.allocate(4, kind="pinned") as memory, device.stream() as stream:
        x = memory.view("float32")
        words = x.memoryview()
        words[0] = 1
        kernels["spin"].launch(gpu.time(SECOND / 20), grid=1, block=1, stream=stream)
        kernels["scale"].launch(x, 5.0, 1, grid=1, block=1, stream=stream)
        stream.call(lambda: seen.append((words[0], threading.get_ident())))
        kernels["scale"].launch(x, 5.0, 1, grid=1, block=1, stream=stream)
        gpu.shows(not seen)
        stream.synchronize()
        assert words[0] == 25 and len(seen) == 1 and seen[0][0] == 5 and seen[0][1] != threading.get_ident()


@body
def default_streams_of_two_threads_run_at_the_same_time(device, gpu):
    flags, kernels = gpu.flags(), gpu.load()

    def run(mine: int) -> None:
        with device.current():
            kernels["meet"].launch(flags, mine, gpu.time(SECOND), grid=1, block=1, stream=rawcuda.Stream.per_thread)
            rawcuda.Stream.per_thread.synchronize()

    threads = [threading.Thread(target=run, args=(mine,)) for mine in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert flags[:2].tolist() == [1, 1]
    gpu.shows(flags[2:].tolist() == [1, 1])


@body
def a_stream_has_the_attributes_that_were_set(device, gpu):
    x, kernels = gpu.ones(1024), gpu.load()
    with device.stream() as stream, device.stream() as other:
        assert stream.id != other.id
        stream.attributes.synchronization_policy = "blocking_sync"
        if device.attribute("MAX_ACCESS_POLICY_WINDOW_SIZE"):
            stream.attributes.set_access_policy_window(x, hit_ratio=0.5)
            assert stream.attributes.access_policy_window[:3] == (x.ptr, x.nbytes, 0.5)
        other.attributes.copy_from(stream)
        assert other.attributes.synchronization_policy == "blocking_sync"
        kernels["scale"].launch(x, 2.0, 1024, grid=4, block=256, stream=other)
        other.synchronize()
        assert set(x.tolist()) == {2}


@body
def a_capture_forbids_calls_as_its_mode_says(device, gpu):
    import ctypes

    pointer, refused, x = ctypes.c_uint64(), {}, device.zeros(1, "uint8")
    for mode in ("global", "thread_local", "relaxed"):

        def allocate(mode: str = mode) -> None:
            with device.current():
                try:
                    rawcuda.cu.cuMemAlloc_v2(ctypes.byref(pointer), 64)
                except errors.InvalidUse:
                    refused[mode] = True

        with device.stream() as stream:
            graph = stream.capture(mode)
            try:
                with graph:
                    x.fill(1, stream=stream)
                    thread = threading.Thread(target=allocate)
                    thread.start()
                    thread.join()
            except errors.InvalidUse:  # the refusal ended the capture
                assert mode in refused
            graph.close()
        if mode not in refused:
            with device.current():
                rawcuda.cu.cuMemFree_v2(pointer)
    assert list(refused) == ["global"]


# -- devices


@body
def a_kernel_has_the_stack_that_was_set(device, gpu):
    kernels, before = gpu.load(), device.limits.stack_size
    out = gpu.flags(2).reinterpret("int32")
    try:
        device.limits.stack_size = 16384
        assert device.limits.stack_size >= 16384
        kernels["heights"].launch(out, 60, grid=1, block=1)
        device.synchronize()
        assert out.tolist() == [0, sum(range(61))]
    finally:
        device.limits.stack_size = before


@body
def a_green_context_has_only_its_multiprocessors(device, gpu):
    kernels, seen = gpu.load(), gpu.flags(1024)
    try:
        parts = device.split(2, rest=True)
    except errors.Unsupported as error:
        pytest.skip(str(error))
    with parts as (small, large), small.stream() as one, large.stream() as two:
        for part, stream in ((small, one), (large, two)):
            seen.fill(0, stream=stream)
            blocks = 64 * part.sm_count if gpu.real else 4
            kernels["places"].launch(seen, gpu.time(SECOND / 10000), grid=blocks, block=1024, stream=stream)
            stream.synchronize()
            found = seen.tolist()
            assert sum(found) == blocks
            gpu.shows(sum(count != 0 for count in found) <= part.sm_count)
        assert small.sm_count + large.sm_count <= device.attribute("MULTIPROCESSOR_COUNT")


@body
def as_many_blocks_as_are_told_run_at_the_same_time(device, gpu):
    kernels, count = gpu.load(), gpu.flags(1)
    together = kernels["together"]
    block, _ = together.suggest_block()
    most = together.max_active_blocks(block) * device.attribute("MULTIPROCESSOR_COUNT")
    blocks = most if gpu.real else 4
    with device.stream() as stream:
        together.launch(count, grid=blocks, block=block if gpu.real else 1, stream=stream, cooperative=True)
        stream.synchronize()
        assert count.tolist() == [blocks]
        with pytest.raises(errors.CudaError):
            together.launch(count, grid=most + 1, block=block, stream=stream, cooperative=True)


# -- launches


@body
def the_blocks_of_a_cluster_run_at_the_same_time(device, gpu):
    kernels, out = gpu.load(gpu_kernels.CLUSTER), gpu.flags(16)
    kernels["ring"].launch(out, grid=16, block=1, cluster=8)
    device.synchronize()
    assert out.tolist() == [107, 100, 101, 102, 103, 104, 105, 106] * 2
    assert kernels["ring"].max_active_clusters(1, cluster=8) >= 1


@body
def a_dependent_kernel_begins_early(device, gpu):
    kernels, flags = gpu.load(gpu_kernels.DEPENDENT), gpu.flags()
    with device.stream() as stream:
        kernels["first"].launch(flags, gpu.time(SECOND), grid=1, block=1, stream=stream)
        kernels["second"].launch(flags, grid=1, block=1, stream=stream, programmatic_stream_serialization=True)
        stream.synchronize()
    begun, met, written, read = flags.tolist()
    assert begun == 1 and written == read == 7
    gpu.shows(met == 1)


@body
def an_event_of_a_launch_comes_before_its_end(device, gpu):
    if device.compute_capability < (9, 0):
        pytest.skip("this needs compute capability 9.0")
    kernels = gpu.load()
    with device.stream() as stream, device.event() as begun:
        try:
            launch = kernels["spin"].configure(grid=1, block=1, stream=stream, launch_completion_event=begun)
        except errors.Unsupported as error:
            pytest.skip(str(error))
        launch(gpu.time(SECOND / 2))
        begun.synchronize()
        gpu.shows(not stream.query())
        stream.synchronize()


@body
def a_launch_has_a_domain_and_a_policy_for_the_cache(device, gpu):
    kernels, x = gpu.load(), gpu.ones(1024)
    options: dict[str, Any] = {}
    if device.attribute("MAX_ACCESS_POLICY_WINDOW_SIZE"):
        options["access_policy_window"] = x
    if device.compute_capability >= (9, 0):
        options["mem_sync_domain"] = "remote"
    if not options:
        pytest.skip("this device has neither")
    kernels["scale"].launch(x, 3.0, 1024, grid=4, block=256, **options)
    device.synchronize()
    assert set(x.tolist()) == {3}


@body
def a_tensor_map_describes_a_bulk_copy(device, gpu):
    source = device.upload(array.array("f", range(64 * 64))).reshape(64, 64)
    tensor_map = rawcuda.TensorMap.tiled(source, box=(8, 32))
    out = gpu.ones(8 * 32)
    tile = gpu.load(gpu_kernels.TENSOR)["tile"]
    for x, y in ((0, 0), (32, 8), (5, 3)):
        tile.launch(tensor_map, x, y, out, grid=1, block=32)
        device.synchronize()
        assert out.reshape(8, 32).tolist() == source[y : y + 8, x : x + 32].tolist()


@body
def a_kernel_gets_the_shared_memory_that_was_set(device, gpu):
    kernels, x = gpu.load(), device.upload(array.array("f", range(256)))
    kernel = kernels["reversed"]
    most = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    kernel.attributes.max_dynamic_shared_bytes = most
    kernel.attributes.preferred_shared_carveout = "max_shared"
    assert kernel.attributes.max_dynamic_shared_bytes == most and kernel.attributes.registers > 0
    kernel.launch(x, grid=1, block=256, shared_bytes=most)
    device.synchronize()
    assert x.tolist() == [*range(255, -1, -1)]
    assert kernel.max_active_blocks(256, most) == 1


# -- modules


@body
def a_kernel_is_loaded_when_it_is_used(device, gpu):
    with load(device, gpu_kernels.KERNELS) as kernels:
        kernel, x = kernels["scale"], gpu.ones(1)
        try:
            before = kernel.is_loaded
        except errors.SymbolNotFound as error:
            pytest.skip(str(error))
        assert before == (kernels.loading_mode == "eager")
        kernel.launch(x, 2.0, 1, grid=1, block=1)
        device.synchronize()
        assert kernel.is_loaded and x.tolist() == [2]


@body
def a_library_runs_on_every_device(device, gpu):
    major, minor = device.compute_capability
    with rawcuda.Library(ptx(gpu_kernels.KERNELS, f"sm_{major}{minor}")) as library:
        for each in rawcuda.devices():
            if each.compute_capability >= device.compute_capability:
                x = each.empty(1, "float32").fill(1)
                library.module(each)["scale"].launch(x, 7.0, 1, grid=1, block=1)
                each.synchronize()
                assert x.tolist() == [7]


@body
def a_managed_variable_is_seen_by_both_sides(device, gpu):
    kernels = gpu.load()
    counter = kernels.global_("counter")
    assert counter.kind == "managed" and counter.tolist() == 5
    seen = counter.view().reshape(1).memoryview()
    kernels["count"].launch(grid=1, block=1)
    device.synchronize()
    assert seen[0] == 6
    seen[0] = 40
    kernels["count"].launch(grid=1, block=1)
    device.synchronize()
    assert counter.tolist() == 41
    table = kernels.global_("table")
    assert table.nbytes == 1 << 26 and table.view("float32")[0].tolist() == 41


@body
def a_profiler_does_not_change_what_runs(device, gpu):
    kernels, x = gpu.load(), gpu.ones(1)
    with rawcuda.profile(), rawcuda.range("scaled"), rawcuda.range("twice", color="red"):
        kernels["scale"].launch(x, 2.0, 1, grid=1, block=1)
        device.synchronize()
    with rawcuda.profile():
        pass
    assert x.tolist() == [2]


# -- the tests


def run(name: str, device: Any, real: bool) -> None:
    with ExitStack() as held:
        BODIES[name](device, Gpu(device, real, held))
        device.synchronize()


@pytest.mark.gpu_only("only a GPU shows when and where work runs, and what it takes")
@pytest.mark.parametrize("name", BODIES)
def test_on_a_gpu(device: Any, name: str) -> None:
    run(name, device, True)


@pytest.mark.emulator_only("a GPU runs the test above")
@pytest.mark.parametrize("name", BODIES)
def test_its_calls(device: Any, name: str) -> None:
    run(name, device, False)


@pytest.mark.parametrize("oldest", sorted(set(gpu_kernels.SOURCES.values())))
def test_the_kernels_are_machine_code_of_every_architecture(oldest: int) -> None:
    for source, least in gpu_kernels.SOURCES.items():
        for target in (oldest, 120):
            if target >= least:
                assert rawcuda.compile(source, f"sm_{target}", "cubin")[:4] == b"\x7fELF"
