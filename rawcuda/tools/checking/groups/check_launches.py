"""The rows about launches: every kind of grid, argument and option, and every way to get code.

What it is   the group "launches".
What not     graphs and the order of streams.
Read next    check_graphs.py, check_order.py
"""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from array import array

from ....arrays.strided import view
from ....driver import current
from ....errors import CompilerNotFound, LinkerNotFound, Unsupported
from ....gpu.devices.device import devices
from ....gpu.kernels.declared_parameters import In
from ....gpu.kernels.libraries import Library
from ....gpu.textures.tensor_map import TensorMap
from ....headers import cuda_h
from .. import check_kernels
from ..rows import Given, Missing, expect, floats, in_thread, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []


def _counted(given: Given, threads: int, **options: Any) -> None:
    """Launch a kernel in which each thread counts, and compare the count."""
    at = given.device.empty(1, "uint32").fill(0)
    given.device.synchronize()  # a stream does not wait for the fill
    given.kernel("count").launch(at, **options)
    given.device.synchronize()
    expect("the threads that ran", at.tolist(), [threads])


@row("launches", "a kernel")
def _kernel(given: Given) -> None:
    _counted(given, 5 * 33, grid=5, block=33)


@row("launches", "grids and blocks of three dimensions")
def _three(given: Given) -> None:
    out = given.device.empty(3 * 2 * 2 * 4 * 3 * 2, "uint32").fill(0)
    given.kernel("number").launch(out, grid=(3, 2, 2), block=(4, 3, 2))
    expect("the threads", out.tolist(), list(range(1, out.size + 1)))


@row("launches", "arguments of every type")
def _arguments(given: Given) -> None:
    out = given.device.empty(32, "uint8").fill(0)
    given.kernel("keep").launch(out, 200, -3, -(2**40), 0.1, struct.pack("<if", -7, 1.5), grid=1, block=1)
    found = struct.unpack("<Bxhxxxxqdif", bytes(out.tolist()))
    expect("what the kernel got", found, (200, -3, -(2**40), 0.1, -7, 1.5))


@row("launches", "a configuration, launched often")
def _configured(given: Given) -> None:
    at = given.device.empty(1, "uint32").fill(0)
    launch = given.kernel("count").configure(grid=2, block=32)
    for _ in range(100):
        launch(at)
    expect("the threads that ran", at.tolist(), [6400])


@row("launches", "dynamic shared memory")
def _shared(given: Given) -> None:
    x = given.device.upload(array("I", range(100)))
    given.kernel("turn").launch(x, grid=1, block=100, shared_bytes=400)
    expect("the elements", x.tolist(), list(range(99, -1, -1)))


@row("launches", "more shared memory than 48 KiB")
def _more_shared(given: Given) -> str:
    most = int(given.device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"))
    kernel = given.kernel("turn")
    kernel.attributes["max_dynamic_shared_size_bytes"] = most
    x = given.device.upload(array("I", range(10)))
    kernel.launch(x, grid=1, block=10, shared_bytes=most)
    expect("the elements", x.tolist(), list(range(9, -1, -1)))
    return f"{most >> 10} KiB"


@row("launches", "on a stream")
def _stream(given: Given) -> None:
    with given.device.stream() as stream:
        _counted(given, 64, grid=2, block=32, stream=stream)


@row("launches", "cooperative", needs="COOPERATIVE_LAUNCH")
def _cooperative(given: Given) -> None:
    _counted(given, 64, grid=2, block=32, cooperative=True)


def _clusters(given: Given, size: int) -> None:
    """Launch two clusters, whose blocks write down how many they are."""
    out = given.device.empty(2 * size, "uint32").fill(0)
    with given.device.load(check_kernels.NEWER) as module:
        kernel = module["cluster"]
        if size > 8:
            kernel.attributes["non_portable_cluster_size_allowed"] = True
            most = kernel.max_potential_cluster_size(32)
            if most < size:
                raise Missing(f"the largest cluster of this device has {most} blocks")
        kernel.launch(out, grid=2 * size, block=32, cluster=size)
        expect("the blocks in each cluster", out.tolist(), [size] * 2 * size)


@row("launches", "clusters of blocks", needs="CLUSTER_LAUNCH", since=12000)
def _cluster(given: Given) -> None:
    _clusters(given, 2)


@row("launches", "clusters of 16 blocks", needs="CLUSTER_LAUNCH", since=12000)
def _large_cluster(given: Given) -> None:
    _clusters(given, 16)


@row("launches", "a barrier of the whole grid", needs="COOPERATIVE_LAUNCH")
def _grid_barrier(given: Given) -> str:
    blocks = 2 * given.device.attribute("MULTIPROCESSOR_COUNT")
    arrived, x, out = (given.device.empty(count, "uint32").fill(0) for count in (1, blocks, blocks))
    given.kernel("meet").launch(arrived, x, out, grid=blocks, block=1, cooperative=True)
    expect("what the blocks read", out.tolist(), [*range(2, blocks + 1), 1])
    return f"{blocks} blocks"


@row("launches", "a tensor map", needs="TENSOR_MAP_ACCESS_SUPPORTED", since=12000)
def _tensor_map(given: Given) -> None:
    numbers, out = given.device.upload(array("I", range(256))).reshape(16, 16), given.device.empty(32, "uint32").fill(0)
    with given.device.load(check_kernels.NEWER) as module:
        module["tile"].launch(TensorMap.tiled(numbers, box=(4, 8)), out, grid=1, block=32)
        expect("the box", out.tolist(), [16 * row + column for row in range(1, 5) for column in range(4, 12)])


def _work(given: Given) -> None:
    """Launch a kernel, and allocate, write, read and free memory."""
    with given.device.stream() as stream:
        _counted(given, 64, grid=2, block=32, stream=stream)
        memory = given.device.allocate(400, stream=stream)
        memory.copy_from(floats(100), stream=stream)
        back = floats(100)
        memory.copy_to(back, stream=stream)
        stream.synchronize()
        expect("the numbers", back, floats(100))
        memory.close()
        given.device.allocate(400).close()


def _asked(given: Given, situation: str) -> str:
    """Ask which calls need the context of what they are given, as C makes them; return a remark."""
    driver, asked = current(), []
    memory, host = cuda_h.CUdeviceptr(), ctypes.create_string_buffer(64)
    with given.device.stream() as ours, given.device.event() as point:
        kernel, stream, event = (
            kind(each.handle)
            for kind, each in (
                (cuda_h.CUfunction, given.kernel("nothing")),
                (cuda_h.CUstream, ours),
                (cuda_h.CUevent, point),
            )
        )
        with given.device.current():
            driver.cuMemAlloc_v2(ctypes.byref(memory), 64)
            if given.device.attribute("HOST_REGISTER_SUPPORTED"):
                driver.cuMemHostRegister_v2(host, 64, 0)
        calls: list[tuple[str, tuple[Any, ...]]] = [
            ("cuLaunchKernel", (kernel, 1, 1, 1, 1, 1, 1, 0, stream, None, None)),
            ("cuEventRecord", (event, stream)),
            ("cuEventQuery", (event,)),
            ("cuEventSynchronize", (event,)),
            ("cuStreamWaitEvent", (stream, event, 0)),
            ("cuStreamQuery", (stream,)),
            ("cuMemsetD8Async", (memory, 0, 64, stream)),
            ("cuStreamSynchronize", (stream,)),
            ("cuMemFree_v2", (memory,)),
        ]
        if given.device.attribute("HOST_REGISTER_SUPPORTED"):
            calls.append(("cuMemHostUnregister", (host,)))
        for symbol, arguments in calls:
            asked.append(given.ask(f"{symbol} {situation}", symbol, *arguments))
        with given.device.current():
            for symbol, arguments in calls[7:]:  # what was refused is still to be done
                if given.answers[f"{symbol} {situation}"]:
                    driver[symbol](*arguments)
    refused = [each for each in asked if not each.endswith("CUDA_SUCCESS")]
    return f"{asked[0]}; {len(refused)} of {len(asked)} calls are refused"


@row("launches", "in a thread without a context")
def _cold(given: Given) -> str:
    def work() -> str:
        _work(given)
        return _asked(given, "without a context")

    return str(in_thread(work))


@row("launches", "while another context is current")
def _other_context(given: Given) -> str:
    driver, other, now = current(), cuda_h.CUcontext(), cuda_h.CUcontext()
    if not driver.has("cuCtxCreate_v2"):
        raise Missing("the driver does not have cuCtxCreate_v2")

    def work() -> str:
        driver.cuCtxCreate_v2(ctypes.byref(other), 0, cuda_h.CUdevice(devices()[-1].ordinal))
        try:
            _work(given)
            driver.cuCtxGetCurrent(ctypes.byref(now))
            expect("the current context", now.value, other.value)
            return _asked(given, "in another context")
        finally:
            driver.cuCtxDestroy_v2(other)

    return str(in_thread(work))


@row("launches", "5,000 in a queue")
def _queue(given: Given) -> None:
    at, finished = given.device.empty(1, "uint32").fill(0), threading.Event()
    given.device.synchronize()

    def allocate() -> None:
        while not finished.is_set():
            given.device.allocate(1 << 20).close()

    other = threading.Thread(target=allocate, daemon=True)
    with given.device.stream() as stream:
        launch = given.kernel("count").configure(grid=1, block=1, stream=stream)
        stream.call(time.sleep, 0.1)
        other.start()
        try:
            _repeat(5000, launch, at)
        finally:  # the rows that follow are in the same process
            finished.set()
            other.join()
        stream.synchronize()
    expect("the launches", at.tolist(), [5000])


def _repeat(times: int, function: Any, argument: Any) -> None:
    for _ in range(times):
        function(argument)


@row("launches", "with a priority", since=11080)
def _priority(given: Given) -> None:
    _counted(given, 32, grid=1, block=32, priority=given.device.stream_priorities[1])


@row("launches", "occupancy")
def _occupancy(given: Given) -> str:
    kernel = given.kernel("scale")
    block, grid = kernel.suggest_block()
    if not 0 < block <= given.device.attribute("MAX_THREADS_PER_BLOCK") or grid < 1:
        raise AssertionError(f"the driver suggests {grid} blocks of {block} threads")
    x = given.device.upload(floats(1000))
    kernel.launch(x, 2.0, 1000, grid=grid, block=block)
    expect("the numbers", x.tolist(), [2 * each for each in floats(1000)])
    return f"{grid} blocks of {block}"


@row("launches", "variables of a module")
def _variable(given: Given) -> None:
    setting, out = given.module.global_("setting"), given.device.empty(1, "uint32").fill(0)
    given.kernel("read_setting").launch(out, grid=1, block=1)
    expect("its first value", out.tolist(), [7])
    setting.copy_from(array("I", [9]))
    given.kernel("read_setting").launch(out, grid=1, block=1)
    expect("its second value", out.tolist(), [9])
    setting.copy_from(array("I", [7]))
    given.device.synchronize()


@row("launches", "a library for all devices", since=12000)
def _library(given: Given) -> None:
    with Library(check_kernels.SOURCE) as library:
        at = given.device.empty(1, "uint32").fill(0)
        library.module(given.device)["count"].launch(at, grid=1, block=7)
        expect("the threads that ran", at.tolist(), [7])


@row("launches", "textures")
def _texture(given: Given) -> None:
    with given.device.array(given.device.upload(floats(8)).reshape(1, 8)) as image:
        texture, out = given.device.texture(image), given.device.empty(8, "float32").fill(0)
        given.kernel("sample").launch(texture, out, grid=1, block=8)
        expect("the elements", out.tolist(), floats(8).tolist())
        texture.close()


@row("launches", "surfaces")
def _surface(given: Given) -> None:
    with given.device.array(given.device.upload(array("i", range(8))).reshape(1, 8), surface=True) as image:
        surface, back = given.device.surface(image), given.device.empty((1, 8), "int32").fill(0)
        given.kernel("paint").launch(surface, grid=1, block=8)
        image.copy_to(back)
        expect("the elements", back.tolist(), [list(range(10, 18))])
        surface.close()


@row("launches", "read-only arrays")
def _read_only(given: Given) -> None:
    there, out = given.device.upload(array("I", [5])), given.device.empty(1, "uint32").fill(0)
    kept = view(ReadOnly(there))
    try:
        given.kernel("peek").launch(kept, out, grid=1, block=1)
    except (ValueError, TypeError, BufferError):
        expect("what the refused launch wrote", out.tolist(), [0])
    else:
        raise AssertionError("a read-only array was passed without In")
    given.kernel("peek").launch(In(kept), out, grid=1, block=1)
    expect("the number", out.tolist(), [5])


class ReadOnly:
    """An array of another library, which must not be written."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (1,),
            "typestr": "<u4",
            "data": (array.ptr, True),
            "version": 3,
            "stream": None,
        }


@row("launches", "PTX that is linked")
def _linked(given: Given) -> None:
    x = given.device.upload(array("I", [21]))
    try:
        module = given.device.link([*check_kernels.LINKED])
    except LinkerNotFound as error:
        raise Missing(str(error)) from None
    with module:
        module["main"].launch(x, grid=1, block=1)
        expect("the result", x.tolist(), [42])


@row("launches", "CUDA C that is compiled")
def _compiled(given: Given) -> None:
    x = given.device.upload(floats(40))
    try:
        module = given.device.compile(
            'extern "C" __global__ void half(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] /= 2; }'
        )
    except CompilerNotFound:
        raise Missing("no compiler for CUDA C is installed") from None
    except Unsupported as error:  # it is newer than the driver, or too old for the device
        raise Missing(str(error)) from None
    with module:
        module["half"].launch(x, grid=4, block=10)
        expect("the numbers", x.tolist(), [each / 2 for each in floats(40)])
