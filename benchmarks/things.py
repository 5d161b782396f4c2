"""The objects whose names appear in matrix.txt, made on the stub driver: ours, those of libraries, and cuda.core's.

A library that is not installed adds no names; measure.py skips the rows that need them.
"""

from __future__ import annotations

import array
import ctypes
import enum
import functools
import itertools
import mmap
import struct
import tempfile
import warnings
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple

import rawcuda

ARRAYS = 64  # the number of arrays that are used in turn


def ptx(**kernels: str) -> str:
    """Write a PTX module whose kernels have these parameter lists and do nothing."""
    text = ".version 6.3\n.target sm_50\n.address_size 64\n.visible .global .align 4 .b8 g[64];\n"
    return text + "".join(f".visible .entry {name}({given})\n{{\n\tret;\n}}\n" for name, given in kernels.items())


def parameters(types: str) -> str:
    """Write the parameters of a kernel; "u64 b8[24]" means an address and 24 untyped bytes."""
    written = []
    for number, kind in enumerate(types.split()):
        kind, bracket, size = kind.partition("[")
        written.append(
            f".param {'.align 2 ' if size == '2]' else '.align 8 ' if size else ''}.{kind} p{number}{bracket}{size}"
        )
    return ", ".join(written)


SIGNATURES = {
    "k": "u64 u64 u64 u32",
    "k_u8": "u64 u8",
    "k_u16": "u64 u16",
    "k_u64": "u64 u64",
    "k_f32": "u64 f32",
    "k_f64": "u64 f64",
    "k_half": "u64 b8[2]",
    "k_24": "u64 b8[24]",
    "k12": "u64 " * 8 + "u32 u32 u32 f32",
    **{f"k{n}": "u64 " * n for n in (0, 1, 2, 8, 16, 32, 64)},
}
PTX = ptx(**{name: parameters(types) for name, types in SIGNATURES.items()})


class Exporter:
    """An exporter of the CUDA Array Interface, which makes a new dict each time, as real exporters do."""

    def __init__(self, ptr: int, shape: tuple[int, ...] = (64,), strides: Any = None, stream: Any = None) -> None:
        self.made = shape, "<f4", (ptr, False), 3, strides, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        shape, typestr, data, version, strides, stream = self.made
        return dict(shape=shape, typestr=typestr, data=data, version=version, strides=strides, stream=stream)


class ReadOnlyExporter(Exporter):
    """An exporter of read-only memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**super().__cuda_array_interface__, "data": (self.made[2][0], True)}


class DLPackExporter:
    """An exporter whose __dlpack__ is Python code; the capsule is that of another object."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __dlpack__(self, **options: Any) -> Any:
        return self.owner.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.owner.__dlpack_device__()


class OldDLPackExporter(DLPackExporter):
    """An exporter that is older than DLPack 1.0, and does not know max_version."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.owner.__dlpack__()


class StreamObject:
    """An object that supports the CUDA stream protocol."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class Attributes:
    """A class whose instances get their attributes from outside."""


class Enum(enum.IntEnum):
    """An int that is not of the type int."""

    SEVEN = 7


class Struct(ctypes.Structure):
    """A structure of 24 bytes."""

    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double), ("n", ctypes.c_int), ("m", ctypes.c_int)]


class Bound(NamedTuple):
    """A launch that is configured separately for each row, so that no row profits from another."""

    kernel: Any
    stream: Any

    def make(self) -> Any:
        """Return the configured launch."""
        return self.kernel.configure(grid=5, block=32, stream=self.stream)


def turns(things: Any) -> Callable[[], Any]:
    """Return a function that returns each of these in turn, in an endless cycle."""
    return itertools.cycle(list(things)).__next__


def nothing() -> None:
    """Do nothing."""


def instance(exporter: Exporter) -> Any:
    """Return an object that has the dict in the instance."""
    made: Any = Attributes()
    made.__cuda_array_interface__ = exporter.__cuda_array_interface__
    return made


def ours() -> dict[str, Any]:
    """Make our own things, and those of the standard library."""
    d = rawcuda.Device(0)
    s, t = d.stream(), d.stream()
    m = d.load(PTX)
    k = m["k"]
    bind = dict(grid=5, block=32)
    arrays = [d.empty((64,), "float32") for _ in range(ARRAYS)]
    a, b, c = arrays[:3]
    pin, managed, mem = d.allocate(256, kind="pinned"), d.allocate(256, kind="managed"), d.allocate(256)
    pin64, pin64b, mem64 = d.allocate(64, kind="pinned"), d.allocate(64, kind="pinned"), d.allocate(64)
    a2, wide = d.empty((8, 8), "float32"), d.empty((8, 16), "float32")
    s_object, borrowed = StreamObject(s.handle), rawcuda.Stream.from_handle(s.handle)
    legacy, thread = rawcuda.Stream.legacy, rawcuda.Stream.per_thread
    cai = Exporter(a.ptr)
    const = rawcuda.view(ReadOnlyExporter(b.ptr), stream=-1)
    host = rawcuda.view(array.array("f", range(64)))
    warnings.filterwarnings("ignore", "nothing was captured")  # the stub driver has no nodes
    with s.capture() as graph:
        k.launch(a, b, c, 7, **bind, stream=s)

    def capture() -> None:
        with s.capture() as recorded:
            pass
        recorded.close()

    made: dict[str, Any] = {name: kernel for name, kernel in locals().items() if name not in ("arrays", "bind", "host")}
    made |= {f"own{n}": (arrays * 2)[:n] for n in (1, 2, 8, 16, 32, 64)}
    made |= {f"launch{n}": Bound(m[f"k{n}"], s) for n in (0, 1, 2, 8, 12, 16, 32, 64)}
    made |= {f"launch_{n}": Bound(m[f"k_{n}"], s) for n in "u8 u16 u64 f32 f64 half 24".split()}
    streams = dict(l=None, legacy=legacy, thread=thread, handle=s.handle, borrowed=borrowed, object=s_object, t=t)
    streams |= {"1": 1, "2": 2}
    made |= {f"launch_{name}": Bound(k, stream) for name, stream in streams.items()}
    made |= dict(
        rc=rawcuda,
        view=rawcuda.view,
        copy=rawcuda.copy,
        In=rawcuda.In,
        cu=rawcuda.cu,
        explain=rawcuda.explain,
        ctypes=ctypes,
        nothing=nothing,
        ptx=PTX,
        ptx_bytes=PTX.encode(),
        launch=Bound(k, s),
        four=(a, b, c, 7),
        k0=m["k0"],
        k12=m["k12"],
        in_a=rawcuda.In(a),
        in_const=rawcuda.In(const),
        part=a[1:],
        part_b=b[1:],
        turn=turns(arrays),
        few=turns(range(1, 9)),
        many=turns(range(1, 1001)),
        count=turns(range(1000)),
        kinds=turns([a, mem, mem.view(), None]),
        a2t=a2.T,
        a2b=d.empty((8, 8), "float32"),
        a_0=d.empty((), "float32"),
        a_1=d.empty((1, 64, 1), "float32"),
        a_s=rawcuda.view(a, stream=s),
        a_gaps=wide[::2, ::2],
        a_pitch=wide[:, :8],
        a_ptr=a.ptr,
        mem2=d.allocate(256),
        mem3=d.allocate(256),
        async_mem=d.allocate(256, stream=s),
        mem_view=mem.view(),
        pin_view=pin.view(),
        managed_view=managed.view(),
        dev64=mem64.view(),
        dev256=d.empty((256,), "uint8"),
        pin64=pin64.view(),
        pin64b=pin64b.view(),
        bytes_a=d.empty((256,), "uint8"),
        int8_a=d.empty((256,), "int8"),
        shorts=d.empty((64,), "int16"),
        ints=d.empty((64,), "int32"),
        doubles=d.empty((64,), "float64"),
        complexes=d.empty((64,), "complex128"),
        host_view=host,
        host_b=rawcuda.view(array.array("f", range(64))),
        host_2=host.reshape(8, 8),
        s_handle=s.handle,
        t_handle=t.handle,
        e=d.event(),
        e_timing=s.record(d.event(timing=True)),
        e_timing2=s.record(d.event(timing=True)),
        g3=(5, 1, 1),
        b2=(32, 1),
        enum=Enum.SEVEN,
        b24=bytes(24),
        b64=bytes(64),
        two=b"ab",
        four_bytes=b"abcd",
        byte64=bytearray(64),
        byte_array=bytearray(64),
        mem_v=memoryview(bytearray(64)),
        mem_v2=memoryview(bytearray(64)).cast("f", (4, 4)),
        mem_ro=memoryview(bytes(64)),
        arr=array.array("f", range(16)),
        mapped=mmap.mmap(-1, 64),
        trace=rawcuda.trace(lambda event: None),
        dlp=DLPackExporter(a),
    )
    made["launch_in"] = Bound(m.kernel("k", [rawcuda.In, "pointer", "pointer", "u32"]), s)
    made["launch_decl"] = Bound(m.kernel("k_24", ["pointer", Struct]), s)
    return made | scalars() | interfaces(made) | raw_calls(made)


def scalars() -> dict[str, Any]:
    """Make scalars, structures and arrays of ctypes."""
    made: dict[str, Any] = {
        f"c_{name}": getattr(ctypes, f"c_{name}")(7)
        for name in "int uint uint8 short uint64 size_t float double".split()
    }
    return made | dict(
        c_struct=Struct(1, 2, 3, 4),
        c_array=(ctypes.c_float * 6)(),
        c_array2=(ctypes.c_float * 4 * 4)(),
        c_ref=ctypes.byref(ctypes.c_int()),
    )


def interfaces(made: dict[str, Any]) -> dict[str, Any]:
    """Make exporters of the CUDA Array Interface over our memory; upper-case names are for cuda.core's expressions."""
    a, b, s, t = made["a"], made["b"], made["s"], made["t"]
    exporters: dict[str, Any] = dict(
        cai=Exporter(a.ptr),
        cai2=Exporter(b.ptr),
        cai_gaps=Exporter(a.ptr, (8, 4), (32, 8)),
        cai_s=Exporter(a.ptr, stream=s.handle),
        cai_1=Exporter(a.ptr, stream=1),
        cai_2=Exporter(a.ptr, (8, 8)),
        cai_ro=ReadOnlyExporter(a.ptr),
        cai_i=instance(Exporter(a.ptr)),
        cai_pin=Exporter(made["pin"].ptr),
        cai_managed=Exporter(made["managed"].ptr),
    )
    shapes = [Exporter(a.ptr, (n,)) for n in range(1, 65)]
    return (
        exporters
        | {name.upper(): exporter for name, exporter in exporters.items()}
        | dict(cai_shapes=turns(shapes), CAI_SHAPES=turns(shapes), S_PTR=s.handle, T_PTR=t.handle, A_PTR=a.ptr)
    )


def raw_calls(made: dict[str, Any]) -> dict[str, Any]:
    """Make the objects for calls of the driver by ctypes with prepared arguments: the least that a wrapper can cost."""
    from rawcuda.headers import cuda_h

    library = ctypes.CDLL("libcuda.so.1")
    names = (
        "cuCtxSynchronize cuStreamSynchronize cuEventRecord cuMemcpyDtoDAsync_v2 cuLaunchKernel cuStreamCreate".split()
    )
    names += "cuStreamDestroy_v2 cuEventCreate cuEventDestroy_v2 cuMemAlloc_v2 cuMemFree_v2 cuCtxGetCurrent".split()
    names += "cuStreamCreateWithPriority cuThreadExchangeStreamCaptureMode cuLaunchKernelEx".split()
    cell, other = ctypes.c_void_p(), ctypes.c_void_p()
    kinds = (ctypes.c_int * 3)(2, 8, 9)
    values = (ctypes.c_int * 3)()
    results = (ctypes.c_void_p * 3)(*(ctypes.addressof(values) + 4 * n for n in range(3)))
    word: Callable[[int], Any] = ctypes.c_void_p.from_param
    raw = SimpleNamespace(**{name: library[name] for name in [*names, "cuPointerGetAttributes"]})
    return promised(raw) | dict(
        raw=raw,
        q=word(made["s"].handle),
        p=word(made["a"].ptr),
        n=ctypes.c_size_t(3),
        i=ctypes.c_uint(1),
        z=None,
        r=ctypes.byref(cell),
        r2=ctypes.byref(other),
        x=cell,
        attributes=kinds,
        results=results,
        results_written=values,  # the driver writes into it each time: `results` has only its address
        cu_stream=cuda_h.CUstream(made["s"].handle),
        c_pointer=ctypes.c_void_p(made["a"].ptr),
        dev_ptr=made["mem64"].ptr,
        pin_ptr=made["pin64"].ptr,
    )


class Finalized:
    """An object whose finalizer is a function in C, in which no signal handler runs."""

    __slots__ = ("handle", "__del__")


def promised(raw: Any) -> dict[str, Any]:
    """Make the minimum that a release which happens exactly once needs: each call, each object and each query."""
    dropped: list[Any] = []
    one, size, unused = ctypes.c_uint(1), ctypes.c_uint64(1024), ctypes.byref(ctypes.c_void_p())

    def finalized() -> None:
        made: Any = Finalized()
        made.handle = cell = ctypes.c_void_p()
        made.__del__ = functools.partial(dropped.append, cell)
        made.__del__ = dropped.copy

    def stream() -> None:
        made: Any = Finalized()
        made.handle = cell = ctypes.c_void_p()
        made.__del__ = functools.partial(dropped.append, cell)
        raw.cuCtxGetCurrent(unused)
        raw.cuStreamCreateWithPriority(ctypes.byref(cell), one, one)
        raw.cuStreamDestroy_v2(cell)
        made.__del__ = dropped.copy

    def memory() -> None:
        made: Any = Finalized()
        made.handle = cell = ctypes.c_void_p()
        made.__del__ = functools.partial(dropped.append, cell)
        raw.cuCtxGetCurrent(unused)
        raw.cuMemAlloc_v2(ctypes.byref(cell), size)
        raw.cuThreadExchangeStreamCaptureMode(unused)
        raw.cuMemFree_v2(cell)
        raw.cuThreadExchangeStreamCaptureMode(unused)
        made.__del__ = dropped.copy

    class Array:
        __slots__ = ("address",)

    array: Any = Array()
    values, few = ctypes.create_string_buffer(64), ctypes.c_uint64(8)
    array.address = ctypes.addressof(values)
    pool, pack_into, prepared = [memoryview(values)], struct.Struct("3QI").pack_into, ctypes.c_void_p(8)

    def launch(a: Any, b: Any, c: Any, n: int) -> None:
        buffer = pool.pop()
        pack_into(buffer, 0, a.address, b.address, c.address, n)
        raw.cuCtxGetCurrent(unused)
        raw.cuLaunchKernelEx(prepared, prepared, prepared, None)
        pool.append(buffer)

    def copy(a: Any, b: Any) -> None:
        raw.cuCtxGetCurrent(unused)
        raw.cuMemcpyDtoDAsync_v2(ctypes.c_uint64(a.address), ctypes.c_uint64(b.address), few, prepared)

    functions = dict(promised_stream=stream, promised_memory=memory, promised_launch=launch, promised_copy=copy)
    return dict(finalized=finalized, promised_array=array, **functions)


def numpys(made: dict[str, Any]) -> dict[str, Any]:
    """Make NumPy's arrays and scalars."""
    import numpy as np

    x, square = np.zeros(64, "f4"), np.zeros((8, 8), "f4")
    names = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
    all_dtypes = [np.zeros(4, name) for name in names]
    found = {f"np_{name}": getattr(np, name)(7) for name in names} | dict(
        np_bool=np.bool_(True),
        np_complex=np.complex128(1),
        np_void=np.zeros(1, "f8,f8,i4,i4")[0],
        np_address=np.uint64(made["a"].ptr),
        np_three=(np.int32(7), np.int32(8), np.int32(9)),
        np_dtype=np.dtype("f4"),
        np_x=x,
        np_0=np.zeros((), "f4"),
        np_2=square,
        np_3=np.zeros((4, 5, 6), "f4"),
        np_8=np.zeros((1,) * 8, "f4"),
        np_32=np.zeros((1,) * 32, "f4"),
        np_empty=np.zeros((0, 3), "f4"),
        np_t=square.T,
        np_gaps=square[::2, 1::3],
        np_back=x[::-1],
        np_wide=np.broadcast_to(x, (4, 64)).view(),
        np_f=np.zeros((4, 5), "f4", order="F"),
        np_ro=np.zeros(64, "f4"),
        np_shapes=turns(np.zeros(5000, "f4")[:n] for n in range(1, 5001)),
        np_dtypes=turns(all_dtypes),
        np_bools=np.zeros(64, "?"),
        np_complexes=np.zeros(64, "c16"),
        np_halves=np.zeros(64, "f2"),
        np_sub=x.view(type("Sub", (np.ndarray,), {})),
        np_matrix=square.view(np.matrix),
        np_memmap=np.memmap(tempfile.TemporaryFile(), "f4", "w+", shape=(64,)),
        np_dlp=DLPackExporter(x),
        np_old=OldDLPackExporter(x),
        np_records=np.zeros(4, "f4,i4"),
        np_dates=np.zeros(4, "M8[s]"),
        np_strings=np.zeros(4, "S8"),
        np_iface_i=Attributes(),
        np_pinned=np.frombuffer((ctypes.c_char * 256).from_address(made["pin"].ptr), "f4"),
        np_managed=np.frombuffer((ctypes.c_char * 256).from_address(made["managed"].ptr), "f4"),
        np_kinds=turns([np.int32(1), np.uint32(2), np.int64(3), np.uint8(4)]),
        np_from_dlpack=np.from_dlpack,
        np_asarray=np.asarray,
    )
    found["np_ro"].flags.writeable = False
    found["np_iface_i"].__array_interface__ = x.__array_interface__
    found["np_iface"] = type("Iface", (), {"__array_interface__": property(lambda self: x.__array_interface__)})()
    try:
        import ml_dtypes

        found["np_bf16"] = np.zeros(64, ml_dtypes.bfloat16)
    except ImportError:
        pass
    return found


def torches(made: dict[str, Any]) -> dict[str, Any]:
    """Make torch's tensors."""
    import torch

    x, square = torch.zeros(64), torch.zeros(8, 8)
    found = dict(
        torch_x=x,
        torch_0=torch.zeros(()),
        torch_gaps=square[::2, 1::3],
        torch_t=square.T,
        torch_bf16=torch.zeros(64, dtype=torch.bfloat16),
        torch_parameter=torch.nn.Parameter(x).detach(),
        torch_sub=x.as_subclass(type("Sub", (torch.Tensor,), {})),
        torch_shapes=turns(torch.zeros(1000)[:n] for n in range(1, 1001)),
        torch_from_dlpack=torch.from_dlpack,
    )
    if "np_pinned" in made:
        found["torch_pinned"] = torch.from_numpy(made["np_pinned"])
    return found


def jaxes(made: dict[str, Any]) -> dict[str, Any]:
    """Make JAX's arrays, on the CPU."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    import jax.numpy as jnp

    return dict(jax_x=jnp.zeros(64, "f4"), jax_2=jnp.zeros((8, 8), "f4"), jax_0=jnp.float32(1))


def peers(made: dict[str, Any]) -> dict[str, Any]:
    """Make cuda.core's things."""
    import cuda.bindings.driver as bindings
    import cuda.core as core
    from cuda.core.utils import StridedMemoryView

    device = core.Device(0)
    device.set_current()
    s, t = device.create_stream(), device.create_stream()
    code = core.ObjectCode.from_ptx(PTX.encode())
    buffers = [device.allocate(256, stream=s) for _ in range(ARRAYS)]
    a, b, c = buffers[:3]
    pinned, managing = core.LegacyPinnedMemoryResource(), core.ManagedMemoryResource()
    timed = core.EventOptions(timing_enabled=True)
    found = dict(
        LAUNCH=core.launch,
        LaunchConfig=core.LaunchConfig,
        CFG=core.LaunchConfig(grid=5, block=32),
        Device=core.Device,
        Stream=core.Stream,
        ObjectCode=core.ObjectCode,
        BINDINGS=bindings,
        SMV=StridedMemoryView,
        SMV_DLPACK=StridedMemoryView.from_dlpack,
        SMV_CAI=StridedMemoryView.from_cuda_array_interface,
        D=device,
        S=s,
        T=t,
        A=a,
        B=b,
        C=c,
        FOUR=(a, b, c),
        TURN=turns(buffers),
        CODE=code,
        LEGACY=core.LEGACY_DEFAULT_STREAM,
        THREAD=core.PER_THREAD_DEFAULT_STREAM,
        OBJECT=StreamObject(int(s.handle)),
        PIN=pinned.allocate(256),
        PIN64=pinned.allocate(64),
        PIN64B=pinned.allocate(64),
        DEV64=device.allocate(64, stream=s),
        MANAGED=managing.allocate(256, stream=s),
        PINNED=pinned,
        MANAGING=managing,
        E=s.record(),
        TIMED=timed,
        URGENT=core.StreamOptions(priority=-1),
        E_TIMING=s.record(options=timed),
        E_TIMING2=s.record(options=timed),
        GRAPH=bindings.CUgraphExec(made["graph"].handle),
        WARP=bindings.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE,
        DEV_PTR=bindings.CUdeviceptr(made["mem64"].ptr),
        PIN_PTR=made["pin64"].ptr,
    )
    found |= {f"PEER{n}": buffers[:n] for n in (1, 2, 8, 16, 32, 64)}
    found |= {name.upper(): code.get_kernel(name) for name in SIGNATURES}
    found["dlp_core"] = DLPackExporter(a)
    found["core_view"] = rawcuda.view(b, stream=-1)
    found["launch_core"] = Bound(made["k"], s)
    if "np_x" in made:
        found["VIEW"] = StridedMemoryView.from_dlpack(made["np_x"], -1)
    return found


LIBRARIES = {"numpy": numpys, "torch": torches, "jax": jaxes, "cuda.core": peers}


def make() -> tuple[dict[str, Any], dict[str, str]]:
    """Return every object by its name, and why each missing library is missing."""
    made, missing = ours(), {}
    for library, maker in LIBRARIES.items():
        try:
            made |= maker(made)
        except Exception as error:
            missing[library] = f"{type(error).__name__}: {error}".splitlines()[0]
    return made, missing
