"""What views cost, beside cuda.core: made, and `ptr shape strides dtype` read. Run by __main__.py, in the environment of the peers."""

from __future__ import annotations

import ctypes
import gc
import sys
from importlib import import_module

import rawcuda

from .timing import Section, tell

CORE = "cuda.core"
READ = "; v.ptr; v.shape; v.strides; v.dtype"


def have(name: str) -> object:
    """Import a peer; None where it is not installed."""
    try:
        return import_module(name)
    except Exception as error:
        tell({"section": "peers", "case": name, "left_out": f"{type(error).__name__}: {error}".splitlines()[0]})
        return None


numpy, core = have("numpy"), have("cuda.core.utils")
view = rawcuda.view


class Fresh:
    """An exporter of the CUDA Array Interface that makes its dict anew each time, as real ones do."""

    def __init__(self, address: int) -> None:
        self.data = address, False

    @property
    def __cuda_array_interface__(self) -> dict:
        return {
            "shape": (4, 5, 6),
            "typestr": "<f4",
            "data": self.data,
            "version": 3,
            "strides": (240, 24, 4),
            "stream": None,
        }


def by_dlpack(what: str, array: object, goal: float | None, more: dict[str, object] | None = None) -> None:
    section = Section(f"view of {what}", CORE, {"rawcuda": goal} if goal else {})
    if core:
        section.add(CORE, "v = f(a, -1)" + READ, f=core.StridedMemoryView.from_dlpack, a=array)
    section.add("rawcuda", "v = f(a)" + READ, f=view, a=array)
    section.add("rawcuda, made only", "f(a)", f=view, a=array)
    section.add("the exporter's __dlpack__ alone", "a.__dlpack__(max_version=(1, 3))", a=array)
    for name, f in (more or {}).items():
        section.add(name, "f(a)", f=f, a=array)
    section.run()


def torch_floor(tensor: object) -> object:
    """Return what any view of a real torch tensor must do: ask two things, call the exchange table, and hold the storage."""
    from rawcuda.protocols.dlpack_c_exchange import table_of

    table, struct = table_of(type(tensor)), ctypes.create_string_buffer(48)
    argument = ctypes.c_void_p.from_param(struct)

    def ask(tensor: object) -> object:
        tensor.requires_grad, tensor.is_neg()
        table.borrow(ctypes.py_object(tensor), argument)
        return tensor.untyped_storage()

    return ask


def main() -> None:
    if numpy:
        a = numpy.zeros((4, 5, 6), numpy.float32)
        by_dlpack("a NumPy array", a, 1.0, {"np.from_dlpack": numpy.from_dlpack})
        by_dlpack("a NumPy array with gaps", a[::2, 1:, ::3], 1.0)
    torch = have("torch")
    if torch:
        tensor = torch.zeros((4, 5, 6))
        view(tensor)
        by_dlpack(
            "a torch CPU tensor",
            tensor,
            0.25,
            {"floor: the table's call, and what it does not check": torch_floor(tensor)},
        )
    jax = have("jax.numpy")
    if jax:
        by_dlpack("a JAX CPU array", jax.zeros((4, 5, 6), "float32"), 0.9)
    tvm = have("tvm_ffi")
    if tvm and numpy:
        by_dlpack("a tvm-ffi tensor", tvm.from_dlpack(numpy.zeros((4, 5, 6), "float32")), None)
    interface()
    buffers()
    exports()
    growth()
    kept()


def interface() -> None:
    section = Section("view of a CAI dict, fresh, with strides", CORE, {"rawcuda": 0.6})
    device = rawcuda.Device(0)
    memory = device.allocate(1024)
    exporter = Fresh(memory.ptr)
    if core:
        have("cuda.core").Device(0).set_current()
        section.add(CORE, "v = f(a, -1)" + READ, f=core.StridedMemoryView.from_cuda_array_interface, a=exporter)
    section.add("rawcuda", "v = f(a, stream=-1)" + READ, f=view, a=exporter)
    section.add("rawcuda, on the legacy stream", "v = f(a)" + READ, f=view, a=exporter)
    section.add("the dict alone", "a.__cuda_array_interface__", a=exporter)
    view(exporter)
    from rawcuda.gpu.cuda_side import spot

    section.add(
        "floor: the dict, and the question to the driver",
        "a.__cuda_array_interface__; f(p)",
        f=spot,
        p=memory.ptr,
        a=exporter,
    )
    with device.current():
        section.run()


def buffers() -> None:
    floor = "memoryview + ctypes.from_buffer"
    section = Section("view of a bytearray", floor, {"rawcuda": 3.0})
    a = bytearray(480)
    section.add(
        floor,
        "v = memoryview(a); v.shape; v.strides; v.format; addressof(array.from_buffer(a))",
        a=a,
        addressof=ctypes.addressof,
        array=ctypes.c_char * 480,
    )
    section.add("rawcuda", "v = f(a)" + READ, f=view, a=a)
    section.run()


def least(exported: object) -> object:
    """Return what no export can do without: it gives one ready struct again and again, whose destructor and deleter do nothing."""
    from rawcuda.dlpack import identify, versioned_name
    from rawcuda.interpreter.callback import callback
    from rawcuda.interpreter.cpython import bind

    capsule = exported.__dlpack__(max_version=(1, 0))
    nothing = callback(lambda address: None)
    image = ctypes.string_at(identify(capsule)[0], 80)
    struct = image[:16] + nothing.to_bytes(8, sys.byteorder) + image[24:]
    new, destructor = bind("PyCapsule_New", ctypes.py_object), ctypes.c_void_p.from_param(nothing)
    new.argtypes = None

    class Least:
        owner = capsule  # the struct points to shape and strides in its tensor

        def __dlpack__(
            self, *, stream: object = None, max_version: object = None, dl_device: object = None, copy: object = None
        ) -> object:
            return new(struct, versioned_name, destructor)

    return Least()


def exports() -> None:
    if not numpy:
        return
    a = numpy.zeros((4, 5, 6), numpy.float32)
    section = Section("np.from_dlpack of a view", CORE, {"rawcuda": 4.0})
    if core:
        theirs = core.StridedMemoryView.from_dlpack(a, -1)
        if hasattr(theirs, "__dlpack__"):
            section.add(CORE, "f(v)", f=numpy.from_dlpack, v=theirs)
    section.add("rawcuda", "f(v)", f=numpy.from_dlpack, v=view(a))
    section.add("rawcuda's __dlpack__ alone", "v.__dlpack__(max_version=(1, 3))", v=view(a))
    section.add("np.asarray of rawcuda's view", "f(v)", f=numpy.asarray, v=view(a))
    section.add("of a NumPy array", "f(v)", f=numpy.from_dlpack, v=a)
    section.add(
        "floor: NumPy's part, a capsule, two callbacks that do nothing", "f(v)", f=numpy.from_dlpack, v=least(view(a))
    )
    from rawcuda.interpreter.callback import callback

    keeping = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(callback(lambda address: None))
    section.add("two callbacks that keep a pending exception", "f(1); f(1)", f=keeping)
    section.run()
    tensor = have("torch")
    if tensor:
        section = Section("torch.from_dlpack of a view", CORE)
        if core and hasattr(core.StridedMemoryView, "__dlpack__"):
            section.add(CORE, "f(v)", f=tensor.from_dlpack, v=theirs)
        section.add("rawcuda", "f(v)", f=tensor.from_dlpack, v=view(a))
        section.run()


def growth() -> None:
    """By the number of dimensions; and of an array whose layout is another each time, which nothing can remember."""
    if not numpy:
        return
    for n in (0, 1, 2, 3, 4, 8, 16, 32):
        a = numpy.zeros((1,) * n, numpy.float32)
        section = Section(f"growth: view of {n} dimensions", CORE)
        if core:
            section.add(CORE, "v = f(a, -1)" + READ, f=core.StridedMemoryView.from_dlpack, a=a)
        section.add("rawcuda", "v = f(a)" + READ, f=view, a=a)
        section.run(rounds=15)
    whole = numpy.zeros(5000, numpy.float32)
    many = [whole[:n] for n in range(5000)]
    section = Section("growth: 5000 arrays of 5000 shapes", CORE)
    if core:
        section.add(
            CORE, "for a in many:\n    v = f(a, -1)" + READ, per=5000, f=core.StridedMemoryView.from_dlpack, many=many
        )
    section.add("rawcuda", "for a in many:\n    v = f(a)" + READ, per=5000, f=view, many=many)
    section.run(rounds=7, batch_ms=1)
    section = Section("growth: view of a NumPy array, traced", "not traced")
    a = numpy.zeros((4, 5, 6), numpy.float32)
    section.add("not traced", "f(a)", f=view, a=a)
    trace = rawcuda.trace(lambda event: None)
    section.add("traced by a function that does nothing", "with t:\n    f(a)", f=view, a=a, t=trace)
    section.run(rounds=15)


def kept() -> None:
    """The memory that a view takes while it is kept, and whether that grows: by counting blocks and by the process's size."""
    if not numpy:
        return
    a = numpy.zeros((4, 5, 6), numpy.float32)
    view(a)
    gc.collect()
    import tracemalloc

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    views = [view(a) for _ in range(10_000)]
    traced = (tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(views)) / len(views)
    tracemalloc.stop()
    tell(
        {
            "section": "weight: a kept view",
            "case": "StridedView object",
            "value": sys.getsizeof(views[0]),
            "unit": "bytes",
        },
        200,
    )
    tell(
        {
            "section": "weight: a kept view",
            "case": "with NumPy's capsule, as tracemalloc counts",
            "value": traced,
            "unit": "bytes",
        }
    )
    del views
    sizes = []
    for _ in range(2):
        views = []
        for _ in range(10):
            at = resident()
            views.append([view(a) for _ in range(100_000)])
            sizes.append((resident() - at) / 100_000)
        del views
    tell(
        {
            "section": "weight: a kept view",
            "case": "growth of the process a view, first to last 100,000 of a million",
            "value": sizes[0],
            "last": sizes[9],
            "unit": "bytes",
        }
    )


def resident() -> int:
    """Return the process's resident memory in bytes."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


if __name__ == "__main__":
    main()
