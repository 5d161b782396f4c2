"""What docs/systems.md says around its table: written by hand; the lines to paste are run by test_table.py."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AFTER", "BEFORE", "ENTRIES", "Entry"]


class Entry(NamedTuple):
    """One library's title, remark and lines to paste; the lines end with what they print or assert."""

    title: str
    lines: str
    remark: str = ""


BEFORE = """# Array systems: what works with which library

`python3 -m tests.systems_table` writes this page from what it measures with the real libraries. Do not edit it by hand.
A test measures again and fails when a row got worse.

Every row is one library, one direction and one protocol. *Takes ours*: the library is given a view of ours. *Gives to
us*: `rawcuda.view` is given an array of theirs. For every layout (contiguous, strided, transposed, reversed, broadcast,
offset, 0-d, empty, read-only) and every dtype, the values, shape, strides, dtype, device, address and read-only flag
are compared, as far as the library tells them. A case without a word is right, and is the same memory; the words are

- *as bytes*: the same memory, but the protocol has no name for the dtype;
- *copied*: right, in other memory, by the library's doing;
- *refused*: an exception, on either side;
- *has none*: the library has no such array or dtype;
- *wrong*: what comes out, and is the library's own doing; its remark below says more.

"Labelled CUDA" is host memory that claims to be a GPU's. Without a driver nobody can tell the difference, so that
addresses, strides, flags and devices can be compared there, too. Device memory itself is tested by
`tests/interop/test_device_*.py`, which `python3 -m tests interop --driver nvidia` runs on a machine with a GPU.

Our `__dlpack__` refuses reversed arrays, since PyTorch up to 2.13 ends the process on a negative stride; the other
protocols give them.
"""

AFTER = """## For each library, the lines to paste

`tests/interop/test_table.py` runs each block where the library is installed. `v` is always a view by us, `x` an array
of theirs; both share one memory unless the block says otherwise."""

_NUMPY = """
import numpy, rawcuda

v = rawcuda.view(numpy.arange(6, dtype="float32"))  # theirs, here
x = numpy.from_dlpack(v)  # ours, there; numpy.asarray(v) does it, too
assert x.ctypes.data == v.ptr
"""

ENTRIES = {
    "numpy": Entry(
        "NumPy", _NUMPY, 'dtypes of ml_dtypes come and go as bytes: say which with `v.reinterpret("bfloat16")`.'
    ),
    "array_api_strict": Entry(
        "array-api-strict",
        """
import array_api_strict, rawcuda

v = rawcuda.view(array_api_strict.asarray([1.0, 2.0, 3.0]))
x = array_api_strict.from_dlpack(v)
assert rawcuda.view(x).ptr == v.ptr
""",
    ),
    "torch": Entry(
        "PyTorch",
        """
import torch, rawcuda

v = rawcuda.view(torch.arange(6.0))  # by the C exchange table; protocol="dlpack" asks the Python way
x = torch.from_dlpack(v)
assert x.data_ptr() == v.ptr
""",
        "Tensors that require a gradient, or have the conjugate or negative bit set, are refused with the remedy: "
        "`detach()`, `resolve_conj()`, `resolve_neg()`. torch ignores the read-only flag of what it takes.",
    ),
    "jax": Entry(
        "JAX",
        """
import jax, numpy, rawcuda

v = rawcuda.view(jax.numpy.arange(6.0))  # read-only, as JAX's arrays are
x = jax.dlpack.from_dlpack(rawcuda.view(numpy.zeros(6, "float32")))
assert v.readonly and x.shape == (6,)
""",
        "JAX asks for legacy capsules only, so that it refuses read-only views (give it `v.download()`), and takes "
        "compact strides only. It copies what does not begin at a multiple of 64 bytes.",
    ),
    "tvm_ffi": Entry(
        "tvm-ffi",
        """
import numpy, tvm_ffi, rawcuda

x = tvm_ffi.from_dlpack(rawcuda.view(numpy.arange(6.0)))  # by the C exchange table
v = rawcuda.view(x)
assert x.data_ptr() == v.ptr
""",
        "It forgets the read-only flag of what it takes by the exchange table, and refuses read-only views by plain "
        "DLPack.",
    ),
    "cuda.core.utils": Entry(
        "cuda.core",
        """
import numpy, rawcuda
from cuda.core.utils import StridedMemoryView

x = StridedMemoryView.from_dlpack(rawcuda.view(numpy.arange(6.0)), -1)  # -1: no ordering; host memory needs none
v = rawcuda.view(x)
assert x.ptr == v.ptr
""",
        "Its array interfaces, of host memory too, need a CUDA driver: the rows that say "
        '"refused: all" were measured without one.',
    ),
    "nanobind": Entry(
        "nanobind",
        """
import numpy, rawcuda

v = rawcuda.view(numpy.arange(6, dtype="float32"))
# a function of yours in C++, bound with nanobind, takes the view as it takes any array:
#     m.def("total", [](nb::ndarray<const float, nb::ndim<1>, nb::device::cpu> a) { ... });
# and what it returns as nb::ndarray<nb::array_api, float> is viewed like any other: rawcuda.view(extension.made(5))
""",
        "An `nb::ndarray<nb::ro>` or `nb::ndarray<const T>` argument takes read-only views, too.",
    ),
    "mpi4py": Entry(
        "mpi4py",
        """
import numpy, rawcuda
import mpi4py

mpi4py.rc.initialize = False  # (only so that these lines run without an MPI job)
from mpi4py import MPI

v = rawcuda.view(numpy.arange(6.0))
x = MPI.buffer(v)  # what comm.Send(v) does with it; device memory as well
assert x.address == v.ptr
""",
        "Contiguous memory only, which it sees as bytes in one dimension, in the order in which they lie.",
    ),
    "pyarrow": Entry(
        "pyarrow",
        """
import pyarrow, rawcuda

v = rawcuda.view(pyarrow.array([1, 2, 3]))  # a column without nulls; read-only, as columns are
x = pyarrow.py_buffer(v.memoryview())
assert v.tolist() == [1, 2, 3] and x.address == v.ptr
""",
    ),
    "warp": Entry(
        "NVIDIA Warp",
        """
import numpy, warp, rawcuda

v = rawcuda.view(warp.zeros(6, dtype=warp.float32, device="cpu"))
x = warp.from_dlpack(rawcuda.view(numpy.zeros(6, "float32")))
assert v.shape == x.shape == (6,)
""",
        "Warp asks for legacy capsules only, so that it refuses read-only views there; its array interface "
        "(`warp.array(v, copy=False)`) takes them. It makes one dimension of none. "
        "Its bfloat16 arrays say uint16 in the array interface, as its documentation has it.",
    ),
    "nvidia.dali.tensors": Entry(
        "NVIDIA DALI",
        """
import numpy, rawcuda
from nvidia.dali.tensors import TensorCPU

x = TensorCPU(rawcuda.view(numpy.zeros((2, 3), "float32")).__dlpack__(), "")
v = rawcuda.view(x)
assert v.ptr == x.data_ptr()
""",
        "By the buffer protocol DALI 2.4 takes complex numbers for real ones, of the same shape and half the bytes. "
        "What a pipeline returns is used again by its next iteration: copy it, or be done before.",
    ),
    "tensorflow": Entry(
        "TensorFlow",
        """
import numpy, tensorflow, rawcuda

v = rawcuda.view(tensorflow.constant([1.0, 2.0, 3.0]))  # read-only, as tensors are
x = tensorflow.experimental.dlpack.from_dlpack(rawcuda.view(numpy.zeros(3, "float32")).__dlpack__())
assert v.readonly and x.shape == (3,)
""",
        "TensorFlow takes legacy capsules only, so no read-only views by DLPack, and no strides.",
    ),
    "drjit": Entry(
        "Dr.Jit",
        """
import numpy, drjit.scalar, rawcuda

x = drjit.scalar.TensorXf(rawcuda.view(numpy.zeros((2, 3), "float32")))  # copied, by Dr.Jit
v = rawcuda.view(x)
assert v.tolist() == [[0.0] * 3] * 2
""",
    ),
    "paddle": Entry(
        "PaddlePaddle",
        """
import numpy, paddle, rawcuda

v = rawcuda.view(paddle.arange(6, dtype="float32"))
x = paddle.from_dlpack(rawcuda.view(numpy.zeros(6, "float32")))
assert v.ptr and x.shape == [6]
""",
        "It ignores the read-only flag of what it takes, and up to 3.3.1 never frees it: what a view holds is held for "
        "good. Give it a copy, or one view that you keep.",
    ),
}
