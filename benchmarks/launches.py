"""What launches and the other small driver calls cost, beside cuda.core and the other peers. Run by __main__.py."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
import time
from importlib import import_module

import rawcuda

from .timing import Section, quartiles, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

CORE = "cuda.core"
KINDS = {4: "QQQi", 12: "QQQQQQQQiiif"}
GRID, BLOCK = (5, 1, 1), (32, 1, 1)
TYPES = {"Q": ".u64", "i": ".u32", "f": ".f32"}


def ptx(*signatures: str) -> str:
    """Write PTX with a kernel argsN for each signature, which does nothing."""
    text = ".version 6.3\n.target sm_50\n.address_size 64\n"
    for kinds in signatures:
        parameters = ", ".join(f".param {TYPES[kind]} p{i}" for i, kind in enumerate(kinds))
        text += f".visible .entry args{len(kinds)}({parameters})\n{{\n\tret;\n}}\n"
    return text


class Setup:
    """One device, stream and module of ours, and arguments for both signatures."""

    def __init__(self) -> None:
        self.device = rawcuda.Device(0)
        self.stream = self.device.stream()
        self.module = self.device.load(ptx(*KINDS.values()))
        self.arrays = [self.device.empty((4, 5, 6), "float32") for _ in range(8)]
        self.views = [rawcuda.view(array) for array in self.arrays]
        self.scalars = {4: [7], 12: [7, 8, 9, 0.5]}

    def arguments(self, n: int, arrays: list[object]) -> list[object]:
        return [*arrays[: KINDS[n].count("Q")], *self.scalars[n]]


def check(setup: Setup, n: int, call: object) -> None:
    """See that a launch hands over the right values, where the stub can tell."""
    try:
        stub = ctypes.CDLL("libcuda.so.1")
        capture = ctypes.c_int.in_dll(stub, "stub_capture")
    except (OSError, ValueError):
        return  # a real driver: the suite has launches that compute
    capture.value = n
    call()  # type: ignore[operator]
    capture.value = 0
    masks = [
        2**64 - 1 if kind == "Q" else 2**32 - 1 for kind in KINDS[n]
    ]  # cuda.core's kernel has no PTX to tell widths
    seen = [value & mask for value, mask in zip((ctypes.c_uint64 * n).in_dll(stub, "stub_arguments"), masks)]
    wanted = [array.ptr for array in setup.arrays[: KINDS[n].count("Q")]] + [
        struct.unpack("<I", struct.pack("<" + kind, value))[0]
        for kind, value in zip(KINDS[n].replace("Q", ""), setup.scalars[n])
    ]
    assert seen == wanted, (seen, wanted)
    assert list((ctypes.c_uint * 6).in_dll(stub, "stub_extents")) == [*GRID, *BLOCK]


def launches(setup: Setup, n: int, goal: float, stretch: float) -> None:
    names = [f"a{i}" for i in range(n)]
    arguments = ", ".join(names)
    ours = dict(zip(names, setup.arguments(n, setup.views)))
    kernel = setup.module[f"args{n}"]
    launch = kernel.configure(grid=GRID, block=BLOCK, stream=setup.stream)
    check(setup, n, lambda: launch(*ours.values()))
    section = Section(f"launch, {n} arguments, configuration bound", CORE, {"rawcuda": goal})
    dynamic = Section(
        f"launch, {n} arguments, grid, block and stream at each call",
        CORE + ", config made each call",
        {"rawcuda kernel.launch": 1.0},
    )
    core(setup, n, section, dynamic)
    section.add("rawcuda", f"f({arguments})", f=launch, **ours)
    section.add("floor: the pack and the call alone", f"f({arguments})", f=floor(n, launch), **ours)
    own = dict(zip(names, setup.arguments(n, setup.arrays)))
    section.add("rawcuda, arrays made by Device.empty", f"f({arguments})", f=launch, **own)
    section.add(
        "rawcuda, two streams' Launches in turn",
        f"f({arguments}); g({arguments})",
        per=2,
        f=launch,
        g=kernel.configure(grid=GRID, block=BLOCK, stream=setup.device.stream()),
        **ours,
    )
    dynamic.add(
        "rawcuda kernel.launch",
        f"k.launch({arguments}, grid=G, block=B, stream=S)",
        k=kernel,
        G=GRID,
        B=BLOCK,
        S=setup.stream,
        **ours,
    )
    for peer in (bindings, cupy, numba, pycuda):
        try:
            peer(setup, n, section)
        except Exception as error:
            section.leave_out(peer.__name__, error)
    section.run()
    dynamic.run()


def floor(n: int, launch: rawcuda.Launch) -> Callable[..., None]:
    """Write the least that a launch can be from Python: no argument is looked at, nor whether anything is open."""
    names = [f"a{i}" for i in range(n)]
    values = ", ".join(name + ".start" if kind == "Q" else name for name, kind in zip(names, KINDS[n]))
    scope: dict[str, Any] = {}
    exec(
        f"""
def make(pool, pack, call):
    def launch({", ".join(names)}):
        entry = pool.pop()
        storage, arguments = entry
        pack(storage, 0, {values})
        if call(*arguments):
            raise RuntimeError
        pool.append(entry)
    return launch
""",
        scope,
    )
    return scope["make"](launch._plan._pool, struct.Struct("<" + KINDS[n]).pack_into, launch._plan._function)  # type: ignore[no-any-return]


def core(setup: Setup, n: int, section: Section, dynamic: Section) -> None:
    try:
        import numpy

        core = import_module("cuda.core")
    except Exception as error:
        section.leave_out(CORE, error)
        return
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    on_stub = rawcuda.Device(0).name == "stub"
    code = core.ObjectCode.from_cubin(b"x" * 64) if on_stub else core.ObjectCode.from_ptx(ptx(*KINDS.values()).encode())
    kernel = code.get_kernel(f"args{n}")
    config = core.LaunchConfig(grid=GRID, block=BLOCK)
    arrays = setup.arrays[: KINDS[n].count("Q")]
    buffers = [core.Buffer.from_handle(array.ptr, array.nbytes, owner=array) for array in arrays]
    scalars = [numpy.int32(7)] if n == 4 else [numpy.int32(7), numpy.int32(8), numpy.int32(9), numpy.float32(0.5)]
    names = [f"a{i}" for i in range(n)]
    given = dict(zip(names, [*buffers, *scalars]))
    check(setup, n, lambda: core.launch(stream, config, kernel, *given.values()))
    arguments = ", ".join(names)
    section.add(CORE, f"f(s, c, k, {arguments})", f=core.launch, s=stream, c=config, k=kernel, **given)
    section.add(
        "cuda.core, addresses as ints",
        f"f(s, c, k, {arguments})",
        f=core.launch,
        s=stream,
        c=config,
        k=kernel,
        **dict(zip(names, [*[array.ptr for array in arrays], *scalars])),
    )
    dynamic.add(
        CORE + ", config made each call",
        f"f(s, L(grid=G, block=B), k, {arguments})",
        f=core.launch,
        s=stream,
        L=core.LaunchConfig,
        G=GRID,
        B=BLOCK,
        k=kernel,
        **given,
    )


def bindings(setup: Setup, n: int, section: Section) -> None:
    driver = import_module("cuda.bindings.driver")
    f, s = driver.CUfunction(setup.module[f"args{n}"].handle), driver.CUstream(setup.stream.handle)
    values = tuple(getattr(a, "ptr", a) for a in setup.arguments(n, setup.arrays))
    types = tuple({"Q": ctypes.c_void_p, "i": ctypes.c_int32, "f": ctypes.c_float}[kind] for kind in KINDS[n])
    section.add(
        "cuda.bindings cuLaunchKernel, values and types",
        "call(f, 5, 1, 1, 32, 1, 1, 0, s, (v, t), 0)",
        call=driver.cuLaunchKernel,
        f=f,
        s=s,
        v=values,
        t=types,
    )


def cupy(setup: Setup, n: int, section: Section) -> None:
    module = import_module("cupy.cuda.function").Module()
    module.load(ptx(*KINDS.values()).encode() + b"\0")
    kernel = module.get_function(f"args{n}")
    values = tuple(getattr(a, "ptr", a) for a in setup.arguments(n, setup.arrays))
    import numpy

    given = tuple(
        numpy.uint64(v) if k == "Q" else numpy.int32(v) if k == "i" else numpy.float32(v)
        for k, v in zip(KINDS[n], values)
    )
    stream = import_module("cupy").cuda.ExternalStream(setup.stream.handle)
    section.add("CuPy Function", "f(G, B, a, 0, s)", f=kernel, G=GRID, B=BLOCK, a=given, s=stream)


def numba(setup: Setup, n: int, section: Section) -> None:
    import warnings

    warnings.filterwarnings("ignore")
    import numpy

    cuda = import_module("numba.cuda")
    scope: dict[str, object] = {}
    exec(f"def args{n}({', '.join(f'a{i}' for i in range(n))}):\n    pass\n", scope)
    kinds = {"Q": "uint64", "i": "int32", "f": "float32"}
    kernel = cuda.jit("void(" + ",".join(kinds[kind] for kind in KINDS[n]) + ")")(scope[f"args{n}"])
    configured = kernel[GRID, BLOCK, cuda.stream()]
    values = [getattr(a, "ptr", a) for a in setup.arguments(n, setup.arrays)]
    given = {f"a{i}": getattr(numpy, kinds[kind])(value) for i, (kind, value) in enumerate(zip(KINDS[n], values))}
    section.add("numba-cuda, configured", f"f({', '.join(given)})", f=configured, **given)


def pycuda(setup: Setup, n: int, section: Section) -> None:
    driver = import_module("pycuda.driver")
    driver.init()
    driver.Device(0).retain_primary_context().push()
    f = driver.module_from_buffer(ptx(*KINDS.values()).encode()).get_function(f"args{n}")
    f.prepare(KINDS[n].replace("Q", "P"))
    values = [getattr(a, "ptr", a) for a in setup.arguments(n, setup.arrays)]
    names = {f"a{i}": value for i, value in enumerate(values)}
    section.add(
        "PyCUDA prepared_async_call",
        f"f.prepared_async_call(G, B, s, {', '.join(names)})",
        f=f,
        G=GRID[:2],
        B=BLOCK,
        s=driver.Stream(),
        **names,
    )


def exporter(setup: Setup) -> None:
    """A launch with an exporter of somebody else's as its argument; CuPy's array on a GPU, else one that only has the dict."""
    from .views import Fresh

    kernel = setup.device.load(ptx("Qi"))["args2"]
    launch = kernel.configure(grid=1, block=1, stream=setup.stream)
    section = Section("launch, one exporter as argument", "rawcuda, its own view")
    section.add("rawcuda, its own view", "f(a, 7)", f=launch, a=setup.views[0])
    section.add("rawcuda, a CAI exporter", "f(a, 7)", f=launch, a=Fresh(setup.arrays[0].ptr))
    for name, make in (("torch", lambda m: m.zeros(120, device="cuda")), ("cupy", lambda m: m.zeros(120, m.float32))):
        try:
            section.add(f"rawcuda, a {name} array", "f(a, 7)", f=launch, a=make(import_module(name)))
        except Exception as error:
            section.leave_out(f"rawcuda, a {name} array", error)
    try:
        import warp

        warp.config.quiet = True
        from .warp_kernel import prepare

        kernel_of_warp, given = prepare()
        section.add(
            "Warp wp.launch of its own array", "f(k, dim=32, inputs=g)", f=warp.launch, k=kernel_of_warp, g=given
        )
    except Exception as error:
        section.leave_out("Warp wp.launch of its own array", error)
    section.run()


def calls(setup: Setup) -> None:
    """Events, streams, allocations, and a small copy."""
    d, s = setup.device, setup.stream
    sections = {
        name: Section(name, CORE, {"rawcuda": goal})
        for name, goal in (
            ("event record", 3.0),
            ("stream create + close", 1.5),
            ("allocate + close", 1.5),
            ("async copy of 64 bytes", 2.6),
        )
    }
    event = d.event()
    try:
        core = import_module("cuda.core")
        device = core.Device(0)
        device.set_current()
        stream = device.create_stream()
        sections["event record"].add(CORE, "s.record(e)", s=stream, e=stream.record())
        sections["stream create + close"].add(CORE, "d.create_stream().close()", d=device)
        sections["allocate + close"].add(CORE, "d.allocate(1024, stream=s).close()", d=device, s=stream)
        pinned = core.LegacyPinnedMemoryResource().allocate(64)
        sections["async copy of 64 bytes"].add(
            CORE, "a.copy_from(b, stream=s)", a=device.allocate(64, stream=stream), b=pinned, s=stream
        )
    except Exception as error:
        for section in sections.values():
            section.leave_out(CORE, error)
    sections["event record"].add("rawcuda", "s.record(e)", s=s, e=event)
    sections["stream create + close"].add("rawcuda", "d.stream().close()", d=d)
    sections["allocate + close"].add("rawcuda", "d.allocate(1024, stream=s).close()", d=d, s=s)
    sections["allocate + close"].add("rawcuda, not stream-ordered", "d.allocate(1024).close()", d=d)
    target, source = d.empty((64,), "uint8"), d.allocate(64, kind="pinned").view()
    sections["async copy of 64 bytes"].add(
        "rawcuda", "copy(a, b, stream=s)", copy=rawcuda.copy, a=target, b=source, s=s
    )
    from rawcuda.headers import cuda_h

    cu = rawcuda.cu
    sections["async copy of 64 bytes"].add(
        "rawcuda.cu.cuMemcpyHtoDAsync_v2",
        "f(a, b, 64, s)",
        f=cu.cuMemcpyHtoDAsync_v2,
        a=target.ptr,
        b=source.ptr,
        s=cuda_h.CUstream(s.handle),
    )
    floors(setup, sections, event, target, source)
    for section in sections.values():
        section.run()


def floors(
    setup: Setup,
    sections: dict[str, Section],
    event: rawcuda.Event,
    target: rawcuda.StridedView,
    source: rawcuda.StridedView,
) -> None:
    """The foreign calls of each alone, with every argument prepared: less is not to be had from ctypes."""
    from rawcuda.driver import as_argument

    raw, queue, cell = rawcuda.cu.raw, as_argument(setup.stream.handle), ctypes.c_void_p()
    where, made = ctypes.byref(cell), (cell,)
    sections["event record"].add(
        "floor: the call alone", "f(*a)", f=raw("cuEventRecord"), a=(as_argument(event.handle), queue)
    )
    create = {
        "f": raw("cuStreamCreateWithPriority"),
        "a": (where, ctypes.c_uint.from_param(1), ctypes.c_int.from_param(0)),
        "g": raw("cuStreamDestroy_v2"),
        "b": made,
    }
    sections["stream create + close"].add("floor: the two calls alone", "f(*a); g(*b)", **create)
    sections["stream create + close"].add(
        "floor: with the question which context is current",
        "q(*w); f(*a); g(*b)",
        q=raw("cuCtxGetCurrent"),
        w=(ctypes.byref(ctypes.c_void_p()),),
        **create,
    )
    calls = {
        "f": raw("cuMemAllocAsync"),
        "a": (where, ctypes.c_size_t.from_param(1024), queue),
        "g": raw("cuMemFreeAsync"),
        "b": (cell, queue),
    }
    sections["allocate + close"].add("floor: the two calls alone", "f(*a); g(*b)", **calls)
    sections["allocate + close"].add(
        "floor: with the capture mode and state",
        "f(*a); x(*m); s(*c); g(*b); x(*m)",
        **calls,
        s=raw("cuStreamIsCapturing"),
        c=(queue, ctypes.byref(ctypes.c_uint())),
        x=raw("cuThreadExchangeStreamCaptureMode"),
        m=(ctypes.byref(ctypes.c_uint(2)),),
    )
    sections["async copy of 64 bytes"].add(
        "floor: the call alone",
        "f(*a)",
        f=raw("cuMemcpyHtoDAsync_v2"),
        a=(as_argument(target.ptr), as_argument(source.ptr), ctypes.c_size_t.from_param(64), queue),
    )


def growth(setup: Setup) -> None:
    """By arguments; by threads, each with a view of its own; traced."""
    for n in (0, 1, 2, 4, 8, 16, 32, 64):
        section = Section(f"growth: launch of {n} arguments", "rawcuda")
        launch = setup.device.load(ptx("Q" * n))[f"args{n}"].configure(grid=1, block=1, stream=setup.stream)
        names = {f"a{i}": setup.views[i % 8] for i in range(n)}
        section.add("rawcuda", f"f({', '.join(names)})", f=launch, **names)
        section.run(rounds=15)
    launch = setup.module["args4"].configure(grid=GRID, block=BLOCK, stream=setup.stream)
    arguments = setup.arguments(4, setup.views)
    for threads in (1, 2, 4, 8):
        times = []
        for _ in range(7):
            many = [
                threading.Thread(target=_repeat, args=(launch, arguments, 20_000 // threads)) for _ in range(threads)
            ]
            begun = time.perf_counter()
            for one in many:
                one.start()
            for one in many:
                one.join()
            times.append((time.perf_counter() - begun) / 20_000 * 1e9)
        low, middle, high = quartiles(times)
        tell(
            {
                "section": "growth: launches by threads",
                "case": f"{threads} threads, one Launch",
                "median_ns": middle,
                "low_ns": low,
                "high_ns": high,
            }
        )
    section = Section("growth: launch, traced", "not traced")
    section.add("not traced", "f(*a)", f=launch, a=arguments)
    section.add(
        "traced by a function that does nothing",
        "with t:\n    f(*a)",
        f=launch,
        a=arguments,
        t=rawcuda.trace(lambda event: None),
    )
    section.run(rounds=15)


def _repeat(launch: object, arguments: list[object], times: int) -> None:
    for _ in range(times):
        launch(*arguments)  # type: ignore[operator]


def main(parts: list[str]) -> None:
    setup = Setup()
    if "4" in parts:
        launches(setup, 4, 0.85, 0.75)
    if "12" in parts:
        launches(setup, 12, 0.70, 0.65)
    if "exporter" in parts:
        exporter(setup)
    if "calls" in parts:
        calls(setup)
    if "growth" in parts:
        growth(setup)
    sys.stdout.flush()
    import os

    os._exit(0)  # how peers end on a stub is of no interest here


if __name__ == "__main__":
    main(sys.argv[1:] or ["4", "12", "exporter", "calls", "growth"])
