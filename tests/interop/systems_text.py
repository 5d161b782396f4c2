"""The text around the table of docs/systems.md, which is written by hand; test_table.py runs its blocks of code."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AFTER", "BEFORE", "ENTRIES", "Entry"]


class Entry(NamedTuple):
    """The title, the remark and the block of code of one library."""

    title: str
    lines: str
    remark: str = ""


BEFORE = """# Array systems: what works with which library

`python3 -m tests.systems_table` writes this page from measurements with the real libraries. Do not edit it by hand.
A test measures again, and fails if a row has become worse.

A tick means that both sides use the same memory for every layout that is contiguous, strided, transposed, offset, 0-d
or empty, and for every dtype of integers and of 32 and 64-bit floats that the library has. A tick in parentheses
means that some of these work. An empty cell means that the library does not offer the protocol, or that nothing
works. The section of each library below the table adds the other layouts (reversed, broadcast, read-only) and dtypes.

*Takes ours* means that the library receives a view of ours. *Gives to us* means that `rawcuda.view` receives an array
of the library. The values, shape, strides, dtype, device, address and read-only flag are compared, as far as the
library reports them.

In the sections, a layout or a dtype with no word before it works. Other results follow one of these words:

- *as bytes*: both sides use the same memory, but the protocol has no name for the dtype;
- *copied*: the values are right, but the library copied them to other memory;
- *refused*: one side raised an exception;
- *has none*: the library has no such array or dtype;
- *wrong*: the library returns something else, which the row shows; its remark below explains it.

"Labelled CUDA" means host memory that claims to be GPU memory. On a machine without a driver, no library can tell the
difference, so the program can compare addresses, strides, flags and devices there too. `tests/interop/test_device_*.py`
test real device memory; run them on a machine with a GPU with `python3 -m tests interop --driver nvidia`.

Our `__dlpack__` refuses reversed arrays, because PyTorch up to version 2.13 terminates the process when it receives a
negative stride. The other protocols support them.
"""

AFTER = """## Columns, tables and files

`view` shares the memory of Arrow arrays and of columns (`protocol="arrow"`, which is tried last). `device.upload(x)`,
`rawcuda.copy(target, x)` and `view[...] = x` put several chunks together, and ask for `__array__` last, for data that
no protocol describes: booleans of one bit, tables, data that is compressed or in a file.
`tests/interop/test_copied.py` and `test_arrow.py` test each row; `python3 -m tests --heavy reruns` has the libraries.

| library | version | upload and copy | view without a copy | takes our one-dimensional host views |
|---|---|---|---|---|
| pandas | 3.1 | `DataFrame`, `Series`, `Index` and its arrays | a `Series` in which nothing is missing, if pyarrow \
is installed; before pandas 3, only by its NumPy array | `Series.from_arrow(v)`, as an Arrow array |
| polars | 2.1 | `DataFrame`, `Series` | a `Series` of one chunk; else `view(series.rechunk())` | `Series(v)`, as \
an Arrow array |
| pyarrow | 26.0 | arrays, columns of tables, tables | arrays, and columns of one chunk; else \
`view(column.combine_chunks())` | `pyarrow.array(v)`, the same memory |
| ml_dtypes | 0.6 | arrays of NumPy with its dtypes, and its scalars | `view(x)`, which keeps the dtype: bfloat16, \
the float8 types, int4 | `numpy.asarray(v)`, the same memory and dtype |
| xarray | 2026 | `DataArray` | `view(x.values)` | `DataArray(numpy.asarray(v))` |
| awkward | 2 | rectangular arrays of numbers | `view(awkward.to_numpy(x))` | `awkward.from_numpy(numpy.asarray(v))` |
| h5py | 3.16 | `Dataset`, also compressed | no: the data is in a file | `dataset[...] = numpy.asarray(v)` |
| zarr | 3.1 | `Array`, also compressed | no: the data is in a store | `array[...] = numpy.asarray(v)` |

What holds for all of them:

- Elements that are missing are refused, by views and by copies: nulls of Arrow, polars and pyarrow, NA of pandas,
  masks of NumPy. Fill or drop them first.
- NaN is a number, and NaT is an element of NumPy's datetimes. pandas turns both into nulls when it exports a `Series`
  or a `DataFrame` of NumPy's dtypes by Arrow. So `view` refuses them, but `view(x.to_numpy())` takes them, and copies
  keep them.
- NaT in one of our views leaves by Arrow as null. A timestamp of -2**63, which NumPy would read as NaT, is refused.
- Timestamps (in UTC, without their time zone), durations and date64 have NumPy's dtypes. Other dates and times are
  the integers that Arrow stores.
- A dictionary or a categorical column of numbers is copied by `__array__`, which decodes it. Fixed-size lists of
  numbers have more dimensions. Other lists, text, decimals and structures are refused, unless the library's own
  `__array__` makes numbers of them. Extension types are always refused: take their storage.

## CuPy and PyCUDA

| library | tried without a GPU | needs a GPU |
|---|---|---|
| CuPy | the dictionaries of its `__cuda_array_interface__`, as its source makes them, over memory of the emulator: \
ten layouts, 14 dtypes, structures, both versions, and every kind of stream, viewed, copied, uploaded and written \
to (`tests/driver/test_cupy_interface.py`) | CuPy itself, and its DLPack: it uses the CUDA runtime, [which does not \
run on the emulator](clients.md#the-cuda-runtime) |
| PyCUDA | PyCUDA 2026.1 itself, on the emulator: its `GPUArray` in five layouts and ten dtypes is viewed, copied, \
written to and passed to a kernel, and takes our memory (`python3 -m tests --clients --programs pycuda-arrays`) | \
nothing else was found; its streams, as it does not name them: synchronize before you view an array on which a \
stream of PyCUDA works |

On a GPU, `tests/interop/test_device_systems.py` tests both, and those libraries of this page that use device memory.

## Code for each library

`tests/interop/test_table.py` runs each block if the library is installed. `v` is always a view of ours, and `x` is an
array of the library. Both use the same memory, unless the block says otherwise."""

_NUMPY = """
import numpy, rawcuda

v = rawcuda.view(numpy.arange(6, dtype="float32"))
x = numpy.from_dlpack(v)  # numpy.asarray(v) works too
assert x.ctypes.data == v.ptr
"""

ENTRIES = {
    "numpy": Entry(
        "NumPy",
        _NUMPY,
        "Arrays with a dtype of ml_dtypes keep it, by `.dtype`. Other programs read them as bytes from the array "
        'interface: `v.reinterpret("bfloat16")` restores the dtype.',
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

v = rawcuda.view(torch.arange(6.0))  # uses the C exchange table; protocol="dlpack" calls __dlpack__()
x = torch.from_dlpack(v)
assert x.data_ptr() == v.ptr
""",
        "`view` refuses a tensor that requires a gradient, or whose conjugate or negative bit is set. The error "
        "names the remedy: `detach()`, `resolve_conj()` or `resolve_neg()`. torch ignores the read-only flag of "
        "arrays that it takes.",
    ),
    "jax": Entry(
        "JAX",
        """
import jax, numpy, rawcuda

v = rawcuda.view(jax.numpy.arange(6.0))  # read-only, like every JAX array
x = jax.dlpack.from_dlpack(rawcuda.view(numpy.zeros(6, "float32")))
assert v.readonly and x.shape == (6,)
""",
        "JAX requests only legacy capsules, so it cannot take read-only views (pass `v.download()` instead). It "
        "takes only arrays without gaps. It copies an array whose address is not a multiple of 64.",
    ),
    "tvm_ffi": Entry(
        "tvm-ffi",
        """
import numpy, tvm_ffi, rawcuda

x = tvm_ffi.from_dlpack(rawcuda.view(numpy.arange(6.0)))  # uses the C exchange table
v = rawcuda.view(x)
assert x.data_ptr() == v.ptr
""",
        "Through the exchange table, it loses the read-only flag of arrays that it takes. Through plain DLPack, "
        "it refuses read-only views.",
    ),
    "cuda.core.utils": Entry(
        "cuda.core",
        """
import numpy, rawcuda
from cuda.core.utils import StridedMemoryView

x = StridedMemoryView.from_dlpack(rawcuda.view(numpy.arange(6.0)), -1)  # -1: no ordering, as for host memory
v = rawcuda.view(x)
assert x.ptr == v.ptr
""",
        'Its array interfaces need a CUDA driver, even for host memory. The rows with the result "refused: all" '
        "were measured without a driver.",
    ),
    "nanobind": Entry(
        "nanobind",
        """
import numpy, rawcuda

v = rawcuda.view(numpy.arange(6, dtype="float32"))
# A C++ function that you bind with nanobind takes a view like any other array:
#     m.def("total", [](nb::ndarray<const float, nb::ndim<1>, nb::device::cpu> a) { ... });
# If it returns an nb::ndarray<nb::array_api, float>, you can view the result: rawcuda.view(extension.made(5))
""",
        "An `nb::ndarray<nb::ro>` or `nb::ndarray<const T>` argument also takes read-only views.",
    ),
    "mpi4py": Entry(
        "mpi4py",
        """
import numpy, rawcuda
import mpi4py

mpi4py.rc.initialize = False  # only so that this code runs without an MPI job
from mpi4py import MPI

v = rawcuda.view(numpy.arange(6.0))
x = MPI.buffer(v)  # comm.Send(v) does this; device memory works too
assert x.address == v.ptr
""",
        "It takes only contiguous memory, and treats it as a one-dimensional array of bytes in memory order.",
    ),
    "pyarrow": Entry(
        "pyarrow",
        """
import pyarrow, rawcuda

v = rawcuda.view(pyarrow.array([1, 2, 3]))  # a column without nulls; columns are read-only
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
        "Warp requests only legacy capsules, so it cannot take read-only views through DLPack. Through the array "
        "interface (`warp.array(v, copy=False)`) it can. It turns an array without dimensions into one with one "
        "dimension. In the array interface, its bfloat16 arrays have the dtype uint16, as its documentation says.",
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
        "Through the buffer protocol, DALI 2.4 takes complex numbers for real numbers with the same shape and "
        "half the size. The next iteration of a pipeline reuses the memory of its results: copy them, or finish "
        "your work before.",
    ),
    "tensorflow": Entry(
        "TensorFlow",
        """
import numpy, tensorflow, rawcuda

v = rawcuda.view(tensorflow.constant([1.0, 2.0, 3.0]))  # tensors are read-only
x = tensorflow.experimental.dlpack.from_dlpack(rawcuda.view(numpy.zeros(3, "float32")).__dlpack__())
assert v.readonly and x.shape == (3,)
""",
        "TensorFlow takes only legacy capsules, so it cannot take read-only views through DLPack. It takes only "
        "contiguous arrays.",
    ),
    "drjit": Entry(
        "Dr.Jit",
        """
import numpy, drjit.scalar, rawcuda

x = drjit.scalar.TensorXf(rawcuda.view(numpy.zeros((2, 3), "float32")))  # Dr.Jit makes a copy
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
        "It ignores the read-only flag of arrays that it takes. Up to 3.3.1 it never releases an array, so the "
        "memory stays allocated until the process ends. Pass it a copy, or one view that you keep.",
    ),
}
