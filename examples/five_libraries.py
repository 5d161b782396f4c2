"""Run one kernel on the arrays of five libraries: first those that are installed, then types of Python itself.

From the checkout:            PYTHONPATH=. python3 examples/five_libraries.py
on a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/five_libraries.py
"""

import importlib
import mmap
import struct

import rawcuda

N = 1000
NUMBERS = [float(i) for i in range(N)]


def mapped():
    """Return the numbers in anonymous mapped memory. A mapped file works too."""
    memory = mmap.mmap(-1, 4 * N)
    memory.write(struct.pack(f"{N}f", *NUMBERS))
    return memory


# For each library, the module that it needs, and a function that makes an array of 32-bit floats from this module.
LIBRARIES = {
    "torch": (
        "torch",
        lambda torch: torch.arange(N, dtype=torch.float32, device="cuda" if torch.cuda.is_available() else "cpu"),
    ),
    "cupy": ("cupy", lambda cupy: cupy.arange(N, dtype="float32")),
    "jax": ("jax", lambda jax: jax.numpy.arange(N, dtype="float32")),
    "numpy": ("numpy", lambda numpy: numpy.arange(N, dtype="float32")),
    "pyarrow": ("pyarrow", lambda pyarrow: pyarrow.array(NUMBERS, pyarrow.float32())),
    "array.array": ("array", lambda array: array.array("f", NUMBERS)),
    "ctypes": ("ctypes", lambda ctypes: (ctypes.c_float * N)(*NUMBERS)),
    "mmap": ("mmap", lambda mmap: mapped()),
    "bytearray": ("builtins", lambda builtins: bytearray(struct.pack(f"{N}f", *NUMBERS))),
    "memoryview": ("builtins", lambda builtins: memoryview(struct.pack(f"{N}f", *NUMBERS))),
}

# sum5(out, a, b, c, d, e, n): out[i] = a[i] + b[i] + c[i] + d[i] + e[i]
ADDING = "".join(
    f"""
    ld.param.u64        %rd3, [{name}];
    add.s64             %rd3, %rd3, %rd1;
    ld.f32              %f2, [%rd3];
    add.f32             %f1, %f1, %f2;"""
    for name in "abcde"
)
PTX = f"""
.version 6.3
.target sm_50
.address_size 64

.visible .entry sum5(.param .u64 out, {", ".join(f".param .u64 {name}" for name in "abcde")}, .param .u32 n)
{{
    .reg .pred %p<2>;
    .reg .b32  %r<6>;
    .reg .f32  %f<3>;
    .reg .b64  %rd<4>;

    mov.u32             %r1, %ctaid.x;
    mov.u32             %r2, %ntid.x;
    mov.u32             %r3, %tid.x;
    mad.lo.u32          %r4, %r1, %r2, %r3;
    ld.param.u32        %r5, [n];
    setp.ge.u32         %p1, %r4, %r5;
    @%p1 ret;
    mul.wide.u32        %rd1, %r4, 4;
    mov.f32             %f1, 0f00000000;{ADDING}
    ld.param.u64        %rd2, [out];
    add.s64             %rd2, %rd2, %rd1;
    st.f32              [%rd2], %f1;
    ret;
}}
"""


def available():
    """Return arrays of the first five libraries that work, and print which ones do not."""
    found = {}
    for name, (module, make) in LIBRARIES.items():
        if len(found) == 5:
            break
        try:
            found[name] = make(importlib.import_module(module))
        except Exception as error:  # it is not installed, or it needs a GPU
            print(f"without {name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    return found


def flat(found):
    """Return a view of an array as 32-bit floats. Arrays of bytes are reinterpreted."""
    view = rawcuda.view(found)
    return view if str(view.dtype) == "float32" else view.reinterpret("float32")


device = rawcuda.Device(0)
arrays = available()
views = {name: flat(found) for name, found in arrays.items()}
for name, view in views.items():
    print(f"{name:11} {view}")
there = [view if view.is_device_accessible else device.upload(view) for view in views.values()]
out = device.empty(N, "float32")
device.load(PTX)["sum5"].launch(out, *map(rawcuda.In, there), N, grid=-(-N // 128), block=128)

assert out.tolist() == [5 * x for x in NUMBERS]
print(f"{device.name}: one kernel added the arrays of {', '.join(views)}")
