"""The driver's guarantees about order, host functions, handles and errors, tested through the public driver layer.

Most tests also run on a GPU, because the emulator must give the same results as the driver.
"""

import array
import ctypes
import threading
import types

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

cuda_h, errors = module("headers.cuda_h"), module("errors")


@pytest.fixture
def context(device, driver):
    """Make the first device's context current for the calls of a test."""
    with device.current():
        yield


def _out(kind):
    value = kind()
    return value, ctypes.byref(value)


# -- order


def test_host_functions_run_in_stream_order_and_may_not_call_the_driver(device, driver, context):
    seen = []
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    @prototype
    def function(data):
        count, pointer = _out(ctypes.c_int)
        try:
            driver.cuDeviceGetCount(pointer)
            seen.append((data, "went through"))
        except errors.CudaError as error:
            seen.append((data, error.name))

    with device.stream() as stream:
        for number in (1, 2, 3):
            driver.cuLaunchHostFunc(
                cuda_h.CUstream(stream.handle), cuda_h.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value), number
            )
        stream.synchronize()
    assert [number for number, _ in seen] == [1, 2, 3]
    assert {answer for _, answer in seen} <= {"CUDA_ERROR_NOT_PERMITTED"}


def test_a_host_function_that_waits_for_its_launcher_does_not_hang(device, driver, context):
    gate, ran = threading.Lock(), []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: gate.acquire() and ran.append(data))
    with device.stream() as stream:
        with gate:
            driver.cuLaunchHostFunc(
                cuda_h.CUstream(stream.handle), cuda_h.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value), 7
            )
            assert not stream.query()
        stream.synchronize()
    assert ran == [7]


def test_work_in_a_stream_that_was_destroyed_is_done(device):
    source, target = device.upload(array.array("I", [5] * 1000)), device.empty(1000, "uint32")
    stream = device.stream()
    rawcuda.copy(target, source, stream=stream)
    stream.close()
    device.synchronize()
    assert target.tolist() == [5] * 1000


def test_one_stream_waits_for_another(device):
    n = 4096
    with device.stream() as first, device.stream() as second, device.load(kernels.ADD) as loaded:
        one, two, three = (device.upload(array.array("f", [value] * n)) for value in (1.0, 0.0, 0.0))
        device.synchronize()
        add = loaded["add"]
        add.launch(one, one, two, n, grid=16, block=256, stream=first)
        second.wait(first)
        add.launch(two, one, three, n, grid=16, block=256, stream=second)
        second.synchronize()
        assert three.tolist() == [3.0] * n
        first.synchronize()


# -- codes


@pytest.mark.parametrize(
    "grid, block",
    [
        ((0, 1, 1), (1, 1, 1)),
        ((1, 65536, 1), (1, 1, 1)),
        ((1, 1, 65536), (1, 1, 1)),
        ((1, 1, 1), (1025, 1, 1)),
        ((1, 1, 1), (32, 32, 2)),
        ((1, 1, 1), (1, 1, 65)),
    ],
)
def test_launches_that_cannot_be_are_1(device, driver, context, grid, block):
    with device.load(kernels.GLOBALS) as loaded:
        nothing = cuda_h.CUfunction(loaded["nothing"].handle)
        with pytest.raises(errors.InvalidUse) as caught:
            driver.cuLaunchKernel(nothing, *grid, *block, 0, None, None, None)
        assert caught.value.code == 1


def test_elapsed_time_of_events_that_were_not_recorded_is_400(driver, context):
    events = []
    for _ in range(2):
        event, pointer = _out(cuda_h.CUevent)
        driver.cuEventCreate(pointer, 0)
        events.append(event)
    _, pointer = _out(ctypes.c_float)
    with pytest.raises(errors.InvalidUse) as caught:
        driver.cuEventElapsedTime(pointer, *events)
    assert caught.value.code == 400
    for event in events:
        driver.cuEventDestroy_v2(event)


def test_pointers_are_told_apart(device, driver, context):
    for kind, expected in (("device", 2), ("pinned", 1)):
        with device.allocate(64, kind=kind) as memory:
            value, pointer = _out(ctypes.c_int)
            driver.cuPointerGetAttribute(pointer, 2, memory.ptr + 7)
            assert value.value == expected
    with pytest.raises(errors.InvalidUse):
        driver.cuPointerGetAttribute(pointer, 2, ctypes.addressof(value))


def test_a_cooperative_launch_must_fit(device, driver, context):
    with device.load(kernels.GLOBALS) as loaded:
        nothing = cuda_h.CUfunction(loaded["nothing"].handle)
        blocks, pointer = _out(ctypes.c_int)
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(pointer, nothing, 1024, 0)
        multiprocessors, pointer = _out(ctypes.c_int)
        driver.cuDeviceGetAttribute(pointer, 16, 0)
        fits = blocks.value * multiprocessors.value
        driver.cuLaunchCooperativeKernel(nothing, fits, 1, 1, 1024, 1, 1, 0, None, None)
        with pytest.raises(errors.CudaError) as caught:
            driver.cuLaunchCooperativeKernel(nothing, fits + 1, 1, 1, 1024, 1, 1, 0, None, None)
        assert caught.value.code == 720
        driver.cuCtxSynchronize()


# -- two devices


def test_two_devices_have_their_own_memory_and_exchange_it():
    found = rawcuda.devices()
    if len(found) < 2:
        pytest.skip("one device here")
    first, second = found[:2]
    source = first.upload(array.array("I", range(100)))
    target = second.empty(100, "uint32")
    rawcuda.copy(target, source)
    first.synchronize()
    second.synchronize()
    assert target.tolist() == list(range(100))
    assert first.uuid != second.uuid


# -- features of the emulator only


@pytest.mark.emulator_only("the report of a failed call")
def test_errors_say_what_was_wrong(device, driver, context):
    memory, other = device.allocate(64), device.allocate(16)
    for call, words in (
        (
            lambda: driver.cuMemcpyDtoD_v2(memory.ptr, other.ptr, 17),
            ("last 1 of 17 bytes", "16-byte device allocation"),
        ),
        (lambda: driver.cuMemFree_v2(memory.ptr + 4), ("4 bytes inside", "64-byte device allocation")),
        (
            lambda: driver.cuMemcpyHtoD_v2(memory.ptr, memory.ptr + 1000, 4),
            ("936 bytes past the end", "cannot be a host pointer"),
        ),
        (
            lambda: driver.cuStreamSynchronize(cuda_h.CUstream(77)),
            ("0x4d is not the handle of a stream: it refers to no object",),
        ),
    ):
        with pytest.raises(errors.CudaError) as caught:
            call()
        for word in words:
            assert word in str(caught.value)
    for each in (memory, other):
        each.close()


@pytest.mark.emulator_only("the count of live handles")
def test_handles_are_counted(device, library):
    before = library.live_handles()
    with (
        device.stream(),
        device.event(),
        device.allocate(4),
        device.allocate(4, kind="pinned"),
        device.load(kernels.ADD),
    ):
        during = library.live_handles()
    gained = {kind: during[kind] - before[kind] for kind in during if during[kind] != before[kind]}
    assert gained == {"stream": 1, "event": 1, "memory": 2, "module": 1}
    assert library.live_handles() == before


@pytest.mark.emulator_only("a GPU's kernel cannot be interrupted")
def test_ctrl_c_ends_an_endless_kernel(python):
    result = python("""
        import signal, threading
        from tests.driver import kernels
        from tests.subject import rawcuda
        endless = kernels.HEAD + ".visible .entry endless() { AGAIN: bra AGAIN; }"
        device = rawcuda.Device(0)
        loaded = device.load(endless)
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        try:
            loaded["endless"].launch(grid=1, block=1)
            device.synchronize()
            threading.Event().wait(5)
        except KeyboardInterrupt:
            print("interrupted")
        device.synchronize()
        with device.allocate(4) as memory:
            print("and well")
    """)
    assert (result.stdout, result.stderr) == ("interrupted\nand well\n", "")


@pytest.mark.emulator_only("a variable of the emulator")
@pytest.mark.parametrize("text, expected", [("lazy", "lazy 1"), ("random=4,devices=3", "random 3"), ("", "eager 1")])
def test_the_environment_describes_the_emulator(python, text, expected):
    result = python(
        """
        from tests.subject import rawcuda
        print(rawcuda.cu.libcuda.mode, len(rawcuda.devices()))
    """,
        env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": text},
    )
    assert result.stdout.strip() == expected, result.stderr


@pytest.mark.emulator_only("only the emulator runs kernels in the thread that launches them")
def test_a_collection_inside_a_kernel_that_waits_for_the_device_is_refused_and_does_not_hang(python):
    result = python(
        """
        import gc
        from tests.driver import kernels
        from tests.subject import rawcuda, module

        device = rawcuda.Device(0)
        loaded, a = device.load(kernels.ADD), device.empty(4096, "float32")
        stream, seen = device.stream(), []

        class Late:
            def __init__(self):
                self.me = self                               # garbage that only a collection finds

            def __del__(self):
                try:
                    device.synchronize()
                    seen.append("waited")
                except rawcuda.InvalidUse as error:
                    seen.append("__del__" in str(error))

        entry = module("emulator.ptx.ptx_program").Entry
        run = entry.run
        def collect_and_run(self, *arguments, **options):
            gc.collect()
            return run(self, *arguments, **options)
        entry.run = collect_and_run
        gc.disable()
        for _ in range(3):
            Late()
            loaded["add"].launch(a, a, a, 4096, grid=16, block=256, stream=stream)
        stream.synchronize()
        print(seen)
    """,
        timeout=60,
    )
    assert result.stdout == "[True, True, True]\n", result.stdout + result.stderr


@pytest.mark.emulator_only("only the emulator runs kernels in the thread that launches them")
def test_a_copy_that_a_collection_inside_a_kernel_begins_writes_nothing_later(python):
    """It cannot wait for its end, so its target would be freed before it is written."""
    result = python(
        """
        import array, gc, pickle
        from tests.driver import kernels
        from tests.subject import rawcuda, module

        device = rawcuda.Device(0)
        loaded, a = device.load(kernels.ADD), device.empty(64, "float32").fill(1)
        b = device.empty(64, "float32").fill(1)
        device.synchronize()
        targets, seen = [], []

        def into(step):
            targets.append(array.array("f", [0.0] * 64))
            rawcuda.copy(rawcuda.view(targets[-1])[::step], a[::step])

        todo = [lambda: into(1), lambda: into(2), a.tolist, lambda: pickle.dumps(a), a[::-1].tolist]

        class Late:
            def __init__(self):
                self.me = self                               # garbage that only a collection finds

            def __del__(self):
                for each in todo:
                    try:
                        each()
                        seen.append("waited")
                    except rawcuda.InvalidUse as error:
                        seen.append("do not wait in __del__" in str(error))

        entry = module("emulator.ptx.ptx_program").Entry
        run = entry.run
        def collect_and_run(self, *arguments, **options):
            gc.collect()
            return run(self, *arguments, **options)
        entry.run = collect_and_run
        gc.disable()
        Late()
        loaded["add"].launch(b, b, b, 64, grid=1, block=64)
        device.synchronize()
        print(seen, [any(target) for target in targets], b.tolist() == [2.0] * 64)
    """,
        timeout=60,
    )
    assert result.stdout == "[True, True, True, True, True] [False, False] True\n", result.stdout + result.stderr


@pytest.mark.emulator_only("only the emulator runs kernels in the thread that launches them")
@pytest.mark.codes("cuStreamSynchronize returned 800")
def test_what_queued_work_uses_is_kept_if_the_wait_for_its_end_is_refused(device, monkeypatch):
    ordering, points = module("gpu.memory.ordering"), module("gpu.core.points")
    primary, kept = device._primary, []
    entry = module("emulator.ptx.ptx_program").Entry
    run = entry.run

    class Thing:
        def __del__(self):
            kept.append("freed")

    def end_and_run(self, *arguments, **options):
        ordering.end_work(ValueError(), primary, module("driver").as_argument(1), Thing())
        kept.append("kept")
        return run(self, *arguments, **options)

    with device.load(kernels.ADD) as loaded, device.allocate(16) as memory:
        memory.fill(0)
        device.synchronize()
        monkeypatch.setattr(entry, "run", end_and_run)
        loaded["add"].launch(memory, memory, memory, 4, grid=1, block=4)
        device.synchronize()
        monkeypatch.setattr(entry, "run", run)
        device.synchronize()  # also for what was queued inside the kernel
        points.sweep(now=True)
    assert kept == ["kept", "freed"] and not ordering._unfinished


# -- the stack


def test_what_restores_a_thread_is_no_python_function(device):
    """An interrupt would come before the call, and leave a context pushed or the capture mode relaxed."""
    primary = device._primary
    for function in (primary.pop, primary.driver.exchange_mode, primary.driver.ask_current):
        assert not isinstance(function, types.FunctionType)


@pytest.mark.parametrize("what", ["fill", "copy", "launch", "allocate"])
def test_a_call_near_the_recursion_limit_does_its_work_or_raises(device, what):
    """At every depth: what returns was done, what raises RecursionError was not, and the device can be used on."""
    with device.load(kernels.ADD) as code, device.stream() as stream:
        numbers, ones = device.zeros(4096, "float32"), device.upload(array.array("f", [1]))
        byte = device.upload(bytes([1]))
        returned = []
        actions = {
            "fill": lambda n: numbers[n : n + 1].fill(1),
            "copy": lambda n: rawcuda.copy(numbers[n : n + 1], ones, stream=stream),
            "launch": lambda n: code["add"].launch(ones, ones, numbers[n : n + 1], 1, grid=1, block=1),
            "allocate": lambda n: device.allocate(1).copy_from(byte).view().item() == 1 or returned.clear(),
        }

        def walk(n):
            actions[what](n)
            returned.append(n)
            walk(n + 1)

        def deeper(more):
            return deeper(more - 1) if more else walk(0)

        for more in range(6):
            numbers.fill(0)
            returned.clear()
            with pytest.raises(RecursionError):
                deeper(more)
            stream.synchronize()
            expected = {"fill": 1.0, "copy": 1.0, "launch": 2.0, "allocate": 0.0}[what]
            found = numbers.tolist()
            assert len(returned) > 50 and [found[n] for n in returned] == [expected] * len(returned)
            assert found[len(returned) + 1 :] == [0.0] * (4095 - len(returned))
