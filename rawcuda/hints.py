"""What other libraries call things, and what they are called here.

What it is   `HINTS`, one table for names that users of NumPy, CuPy, PyCUDA, numba and cuda.core type; `hinted`, a class
             decorator that gives the errors about missing attributes a hint; `of`, for all other errors;
             `no_such_option`, the error for a keyword.
What not     other names for the same things: none of these names works.
How          Each name becomes a descriptor of the class that raises AttributeError, so that hasattr() is false. A
             __getattr__ would do the same, but Python reads every attribute of such a class more slowly. For the same
             reason, only functions that run for milliseconds take keywords that they do not know, in order to explain
             them: those of all other functions are refused by Python, which names the function and the keyword.
Read next    gpu/devices/device.py, which is one of the decorated classes
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    _Type = TypeVar("_Type")

__all__ = ["HINTS", "NotHere", "hinted", "no_such_option", "of"]

_COMPUTE = "a view computes nothing: compute with numpy.asarray(view.download()), or on the device with cupy or torch"
_LAUNCH = 'kernel.launch(..., grid=blocks, block=threads) with kernel = module["name"]'

# kind: {names, separated by spaces: what to write instead}. A kind is a class, the package, or what takes keywords.
_ARRAYS = {
    "order": "the array is in C order; a transposed one is in Fortran order: device.empty(shape[::-1], dtype).T",
    "kind memory memory_type pinned managed": (
        'x = device.allocate(nbytes, kind="managed").view(dtype).reshape(shape), or kind="pinned"'
    ),
}

HINTS: dict[str, dict[str, str]] = {
    "the package": {
        "upload array asarray ascontiguousarray to_device to_gpu from_numpy device_array_like": (
            "Device(0).upload(x) copies an array to a device; view(x) is a view of one where it is"
        ),
        "empty device_array zeros ones full empty_like zeros_like ndarray GPUArray gpuarray": (
            "a device makes arrays: Device(0).empty(shape, dtype), .zeros(), .full() and .upload(x)"
        ),
        "asnumpy copy_to_host to_host memcpy memcpy_dtoh memcpy_htod memcpy_dtod": (
            "copy(dst, src) copies between any two arrays; view.download() copies to the host"
        ),
        "mem_alloc malloc alloc cuda_malloc cudaMalloc allocate DeviceAllocation Buffer": (
            "Device(0).allocate(nbytes) allocates memory; .empty(shape, dtype) makes an array"
        ),
        "pagelocked_empty pinned_array alloc_pinned_memory managed_empty managed_array pinned pinned_empty "
        "empty_pinned alloc_pinned pin pinned_memory PinnedMemory PinnedArray managed empty_managed alloc_managed": (
            'Device(0).allocate(nbytes, kind="pinned") or kind="managed" allocates such memory'
        ),
        "jit njit vectorize guvectorize": ("kernels are CUDA C or PTX here: Device(0).compile(source) or .load(ptx)"),
        "RawKernel RawModule SourceModule Program ElementwiseKernel ReductionKernel compile_ptx nvrtc": (
            'Device(0).compile(source)["name"] is a kernel of CUDA C; compile(source) makes PTX without a device'
        ),
        "module_from_file module_from_buffer load_module load ObjectCode": (
            'Device(0).load(code)["name"] is a kernel of PTX, a cubin or a fatbin'
        ),
        "launch LaunchConfig grid blockIdx threadIdx": f"a kernel is launched by its method: {_LAUNCH}",
        "cuda libcuda": "the functions of the driver are cu.cuMemAlloc_v2(...) and so on",
        "device get_device select_device current_device get_current_device set_device gpus init autoinit Context "
        "make_default_context current_context": (
            "Device(0) is the first GPU, devices() lists them all; its context is made when it is needed"
        ),
        "device_count get_device_count getDeviceCount": "len(devices())",
        "Out InOut": (
            "an array that a kernel writes is on the device: x = Device(0).upload(a), launch with x, then x.copy_to(a)"
        ),
        "elapsed_time get_elapsed_time": "end.elapsed_ms(start) of events of Device(0).event(timing=True)",
        "stream current_stream default_stream get_current_stream": "Device(0).stream() makes a stream",
        "event": "Device(0).event() makes an event",
        "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bfloat16 complex64 complex128": (
            'an element type is given by its name, such as "float32", or by NumPy\'s dtype'
        ),
    },
    "Device": {
        "alloc malloc mem_alloc cuda_malloc allocate_memory": "device.allocate(nbytes)",
        "pagelocked_empty alloc_pinned malloc_host pinned pinned_empty empty_pinned allocate_pinned": (
            'device.allocate(nbytes, kind="pinned")'
        ),
        "malloc_managed alloc_managed managed_array managed managed_empty empty_managed allocate_managed": (
            'device.allocate(nbytes, kind="managed")'
        ),
        "arange linspace eye random rand": "device.upload(numpy.arange(n)) copies an array of NumPy into new memory",
        "elapsed_time get_elapsed_time": "end.elapsed_ms(start) of events of device.event(timing=True)",
        "ones": "device.full(shape, 1, dtype)",
        "empty_like zeros_like device_array_like": "device.empty(x.shape, x.dtype) or device.zeros(x.shape, x.dtype)",
        "device_array ndarray": "device.empty(shape, dtype)",
        "to_device to_gpu asarray ascontiguousarray from_numpy from_array copy_to_device put send memcpy_htod copy": (
            "device.upload(x) copies an array into new memory; view.copy_from(x) into an array that is there"
        ),
        "download asnumpy copy_to_host memcpy_dtoh": "view.download() copies an array to the host",
        "sync": "device.synchronize()",
        "create_stream new_stream Stream": "device.stream()",
        "create_event new_event Event": "device.event()",
        "capture Graph begin_capture": "with device.stream().capture() as graph: ..., or device.graph()",
        "memcpy memcpy_dtod": "the function copy(target, source) copies between any two arrays",
        "get_function get_kernel": 'device.load(code)["name"] is a kernel',
        "mem_info mem_get_info memory_info get_memory_info": "device.free_memory and device.total_memory",
        "use set_current push make_context activate make_current": (
            "it need not be made current: its methods name it. `with device.current():` is for other libraries"
        ),
        "id index device_id": "device.ordinal",
        "properties attrs get_attributes get_attribute getAttribute": (
            'device.attributes lists them; device.attribute("WARP_SIZE") asks for one by its name in cuda.h'
        ),
        "launch": _LAUNCH,
        "RawKernel RawModule SourceModule Program build": 'device.compile(source)["name"] is a kernel of CUDA C',
        "load_module module module_from_file module_from_buffer": "device.load(code) loads PTX, a cubin or a fatbin",
        "count": "len(devices())",
    },
    "StridedView": {
        "sum mean max min std var prod dot matmul cumsum argmax argmin any all round clip sort argsort nonzero conj "
        "real imag trace take put repeat": _COMPUTE,
        "get numpy asnumpy copy_to_host to_host to_cpu cpu to_numpy": (
            "view.download() copies it to the host; numpy.asarray(view.download()) is a NumPy array"
        ),
        "set copy_to_device set_async assign put_async": "view.copy_from(x), or view[...] = x",
        "data device_ptr gpudata data_ptr gpu_address address device_ctypes_pointer device_pointer base": (
            "view.ptr is its address, view.owner the object that keeps its memory alive"
        ),
        "memset memset_async": "view.fill(value)",
        "free close delete release": "its memory is freed with the last view of it, or by view.owner.close()",
        "to to_device cuda gpu": "Device(0).upload(view) copies it to a device",
        "view": 'the function view(x) makes a view; view.reinterpret("int32") has another element type',
        "flatten": "view.ravel(), or view.copy().ravel()",
    },
    "Kernel": {
        "run prepare prepared_call prepared_async_call call execute launch_kernel forall": (
            "kernel.launch(..., grid=blocks, block=threads), or configure(grid=blocks, block=threads) and call the "
            "result with the arguments"
        ),
        "max_threads_per_block num_regs local_size_bytes shared_size_bytes": "kernel.attributes has them",
        "signature argtypes args": "kernel.parameters",
    },
    "Graph": {
        "replay run execute": "graph.launch(stream)",
        "capture begin_capture capture_begin start_capture": "with stream.capture() as graph: ...",
        "add_kernel_node add_kernel": "graph.kernel(launch, ...) with launch = kernel.configure(grid=..., block=...)",
        "add_memcpy_node memcpy": "graph.copy(target, source)",
        "add_memset_node memset": "graph.fill(target, value)",
    },
    "Launch": {
        "launch run execute call prepared_call": "call it with the arguments of the kernel",
        "configure": "launch.kernel.configure(grid=blocks, block=threads)",
    },
    "Module": {
        "get get_function get_kernel function get_entry": 'module["name"] is a kernel',
        "launch run": 'module["name"] is a kernel: module["name"].launch(..., grid=blocks, block=threads)',
        "get_global get_variable get_texref": (
            'module.global_("name") is a variable, .copy_from(x) sets it; Device.texture() makes a texture'
        ),
        "unload": "module.close()",
        "kernels functions": "module.names, or iterate over the module",
    },
    "Stream": {
        "sync": "stream.synchronize()",
        "wait_event wait_for wait_stream wait_marker": "stream.wait(event or stream)",
        "record_event": "stream.record()",
        "is_done done is_complete": "stream.query()",
        "use": "streams are given to calls: stream=...",
        "add_callback launch_host_func": "stream.call(function)",
        "begin_capture": "with stream.capture() as graph: ...",
        "launch": "kernel.launch(..., grid=blocks, block=threads, stream=stream)",
        "ptr cuda_stream": "stream.handle",
    },
    "Event": {
        "sync wait": "event.synchronize(); for a stream, stream.wait(event)",
        "elapsed_time time_till time_since get_elapsed_time": (
            "end.elapsed_ms(start); device.event(timing=True) makes both"
        ),
        "is_done done": "event.query()",
    },
    "Memory": {
        "free delete release": "memory.close(), or the end of `with memory:`",
        "size": "memory.nbytes",
        "get numpy asnumpy copy_to_host download": "memory.view(dtype).download() copies it to the host",
        "set upload": "memory.copy_from(x)",
        "memset memset_async": "memory.fill(value)",
        "address data device_ptr": "memory.ptr",
    },
    "allocate": {
        "dtype shape": "device.empty(shape, dtype) makes an array",
        "pinned managed memory memory_type type": 'write kind="pinned" or kind="managed"',
    },
    "empty": _ARRAYS,
    "zeros": _ARRAYS,
    "full": _ARRAYS | {"value": "the second argument is the value: device.full(shape, value, dtype)"},
    "upload": {
        "dtype": 'convert it first: device.upload(x.astype("float32"))',
        "order": "an upload is in C order: device.upload(x.T).T is in Fortran order",
        "kind memory pinned managed": (
            'x = device.allocate(a.nbytes, kind="managed").view(a.dtype).reshape(a.shape), then x.copy_from(a)'
        ),
    },
    "launch": {
        "smem shared shared_memory sharedmem shmem dynamic_shared shared_size sharedMemBytes dynamic_shared_memory": (
            "write shared_bytes=..."
        ),
        "blocks": "write grid=... for the blocks of the grid, block=... for the threads of a block",
        "grid_dim gridDim griddim num_blocks nblocks grid_size global_size": "write grid=...",
        "threads block_dim blockDim blockdim threads_per_block threadsperblock tpb nthreads block_size local_size": (
            "write block=..."
        ),
        "args params arguments": "the arguments of the kernel are given by position, before grid=",
        "queue hStream cuda_stream": "write stream=...",
    },
    "compile": {
        "arch architecture gpu_architecture gpu_arch sm cc compute_capability": (
            "Device.compile() compiles for its device, and compile(source, target) for any architecture"
        ),
        "include_dirs include_path include_paths includes include": (
            'write options=["-I/some/folder"], or headers={...}'
        ),
        "keep std lineinfo debug fast_math use_fast_math maxrregcount extra_options flags nvcc_options defines": (
            'write options=[...], such as ["--use_fast_math"]'
        ),
        "name_expressions expressions instances": 'write names=["scale<float>"]',
        "cache_dir cachedir": "write cache=...",
        "name filename file path": "to compile a file, give a pathlib.Path as the source",
    },
    "the command line": {
        "shared-bytes shared-mem shared-memory smem shmem": "--shared",
        "blocks grid-dim num-blocks": "--grid",
        "threads block-dim threads-per-block": "--block",
        "output": "--out, or -o",
        "arch gpu-architecture sm": "--target",
        "emulator emulate": "--driver emulator",
        "verbose": "--debug",
        "include": "--option=-I...",
    },
}


def of(kind: str, name: str) -> str:
    """Return what to write instead of a name, or ""."""
    for names, text in HINTS.get(kind, {}).items():
        if name in names.split():
            return text
    return ""


def no_such_option(kind: str, unknown: Iterable[str]) -> TypeError:
    """Return the error for keywords that a function does not have."""
    name = next(iter(unknown))
    hint = of(kind, name)
    return TypeError(f"{kind}() has no option {name!r}" + f": {hint}" * bool(hint))


class NotHere:
    """A descriptor in the place of an attribute that other libraries have: an object raises AttributeError for it."""

    __slots__ = ("_name", "_text")

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def __get__(self, found: object, kind: Any = None) -> NotHere:
        if found is None:  # of the class, as help() and inspect read it
            return self
        raise AttributeError(f"{type(found).__name__!r} object has no attribute {self._name!r}: {self._text}")


def hinted(kind: type[_Type]) -> type[_Type]:
    """Class decorator: an error about an attribute of other libraries says what it is called here.

    The methods of a class that was divided among several files get its name, for the errors that Python writes.
    """
    for part in kind.__bases__:
        if part.__module__ != "builtins" and part.__subclasses__() == [kind]:
            for method in vars(part).values():
                if hasattr(method, "__code__"):
                    method.__qualname__ = f"{kind.__name__}.{method.__name__}"
    for names, text in HINTS[kind.__name__].items():
        for name in names.split():
            setattr(kind, name, NotHere(name, text))

    every = kind.__dir__

    def listed(self: _Type) -> list[str]:
        from inspect import getattr_static

        return [name for name in every(self) if not isinstance(getattr_static(self, name, None), NotHere)]

    kind.__dir__ = listed  # type: ignore[method-assign, assignment]
    return kind
