"""The libraries again, with arrays in the memory of a GPU. This module is not used on a machine without a GPU.

`Itself` is this package in place of another library. With it, the tests also run on the emulator, which shows that they
work.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from contextlib import nullcontext
from typing import Any

import pytest

from tests.interop.late_writes import ByDlpack, ByInterface
from tests.interop.systems import LAYOUTS, Absent, Only, OnlyDlpack, installed
from tests.subject import rawcuda

__all__ = ["DEVICE_HERE", "DEVICE_SYSTEMS", "DeviceSystem", "Itself"]


class DeviceSystem:
    """One library, on device 0.

    name       the module to import; `project` is the project to install
    made       an array of the library with the values and, if possible, the layout of a NumPy array (else Absent)
    takes      for each protocol: an array of the library over our view
    host       a NumPy array of the library's array, after all its work is complete
    facts      (address, shape, element strides or None)
    streams    whether it has its own streams; then stream(), handle(stream) and fill(array, value, stream)
    """

    name = ""
    project = ""
    protocols: tuple[str, ...] = ("dlpack", "cuda_array_interface")  # the protocols that its arrays offer
    compact = False  # no strides
    streams = True
    deaf: tuple[str, ...] = ()  # the protocols through which it ignores the stream of our arrays
    dtypes: tuple[str, ...] = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64")
    module: Any

    def load(self, device: Any) -> DeviceSystem:
        """Import the library and check that it finds a GPU, or skip the test by its name."""
        try:
            self.module = importlib.import_module(self.name)
        except ImportError as error:
            pytest.skip(f"{self.project or self.name} is not installed here: {error}")
        self.device = device
        self.start()
        return self

    def start(self) -> None: ...

    @property
    def version(self) -> str:
        return importlib.metadata.version(self.project or self.name)

    def made(self, layout: str, array: Any) -> Any:
        whole = self.from_host(array)
        if (
            layout in ("reversed", "broadcast", "read-only", "transposed", "0-d")
            or self.compact
            and layout != "contiguous"
        ):
            raise Absent
        return LAYOUTS[layout](whole)

    def from_host(self, array: Any) -> Any:
        raise NotImplementedError

    def takes(self) -> dict[str, Any]:
        raise NotImplementedError

    def host(self, theirs: Any) -> Any:
        raise NotImplementedError

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        said = theirs.__cuda_array_interface__
        size = int(said["typestr"][2:])
        return said["data"][0], tuple(said["shape"]), said.get("strides") and tuple(s // size for s in said["strides"])

    def stream(self) -> Any:
        raise NotImplementedError

    def handle(self, stream: Any) -> int:
        raise NotImplementedError

    def fill(self, theirs: Any, value: float, stream: Any) -> None:
        raise NotImplementedError

    def within(self, stream: Any) -> Any:
        """Return a context manager in which the library's work is on this stream."""
        return nullcontext()

    def used(self, theirs: Any) -> Any:
        """Return a copy made on the library's current stream, as an example of a use; by default no copy."""
        return theirs

    def synchronize(self) -> None:
        rawcuda.synchronize()

    def __repr__(self) -> str:
        return self.name


class Itself(DeviceSystem):
    """This package as if it were another library, with the exporters of late_writes.py."""

    name = "itself"

    class Array(ByDlpack, ByInterface):
        """An array that offers both protocols, as CuPy's arrays do."""

    def load(self, device: Any) -> DeviceSystem:
        self.device, self.own = device, device.stream()
        return self

    @property
    def version(self) -> str:
        return "0"

    def from_host(self, array: Any) -> Any:
        return self.Array(self.device.upload(array), self.own)

    def made(self, layout: str, array: Any) -> Any:
        whole = self.device.upload(array)
        if layout == "read-only":
            raise Absent
        return self.Array(LAYOUTS[layout](whole), self.own)

    def takes(self) -> dict[str, Any]:
        return {
            "dlpack": lambda v: rawcuda.view(OnlyDlpack(v)),
            "cuda_array_interface": lambda v: rawcuda.view(Only(v, "__cuda_array_interface__")),
        }

    def used(self, theirs: Any) -> Any:
        return self.device.empty(theirs.shape, theirs.dtype).copy_from(theirs)

    def host(self, theirs: Any) -> Any:
        import numpy

        rawcuda.synchronize()
        return numpy.asarray(getattr(theirs, "array", theirs).download())

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        array = getattr(theirs, "array", theirs)
        return array.ptr, array.shape, array.element_strides

    def stream(self) -> Any:
        return self.device.stream()

    def handle(self, stream: Any) -> int:
        handle: int = stream.handle
        return handle

    def fill(self, theirs: Any, value: float, stream: Any) -> None:
        theirs.stream = stream
        theirs.array.fill(value, stream=stream)


class Torch(DeviceSystem):
    name = "torch"
    protocols = ("dlpack_c_exchange", "dlpack", "cuda_array_interface")
    deaf = ("cuda_array_interface",)

    def start(self) -> None:
        if not self.module.cuda.is_available():
            pytest.skip("this torch has no CUDA")

    def from_host(self, array: Any) -> Any:
        return self.module.from_numpy(array.copy()).cuda()

    def made(self, layout: str, array: Any) -> Any:
        whole = self.from_host(array)
        if layout in ("reversed", "read-only"):
            raise Absent
        return (
            whole[:1].expand(3, 4)
            if layout == "broadcast"
            else whole[1, 2]
            if layout == "0-d"
            else LAYOUTS[layout](whole)
        )

    def takes(self) -> dict[str, Any]:
        return {
            "dlpack": self.module.from_dlpack,
            "cuda_array_interface": lambda v: self.module.as_tensor(Only(v, "__cuda_array_interface__"), device="cuda"),
        }

    def used(self, theirs: Any) -> Any:
        return theirs.clone()

    def host(self, theirs: Any) -> Any:
        self.module.cuda.synchronize()
        return theirs.cpu().numpy()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.data_ptr(), tuple(theirs.shape), theirs.stride()

    def stream(self) -> Any:
        return self.module.cuda.Stream()

    def handle(self, stream: Any) -> int:
        return int(stream.cuda_stream)

    def within(self, stream: Any) -> Any:
        return self.module.cuda.stream(stream)

    def fill(self, theirs: Any, value: float, stream: Any) -> None:
        with self.within(stream):
            theirs.fill_(value)


class CuPy(DeviceSystem):
    name = "cupy"

    def start(self) -> None:
        try:
            self.module.cuda.runtime.getDeviceCount()
        except Exception as error:
            pytest.skip(f"cupy finds no GPU: {error}")

    @property
    def version(self) -> str:
        return str(self.module.__version__)

    def from_host(self, array: Any) -> Any:
        return self.module.asarray(array)

    def made(self, layout: str, array: Any) -> Any:
        whole = self.from_host(array)
        if layout == "read-only":
            raise Absent
        return self.module.broadcast_to(whole[:1], (3, 4)) if layout == "broadcast" else LAYOUTS[layout](whole)

    def takes(self) -> dict[str, Any]:
        return {
            "dlpack": self.module.from_dlpack,
            "cuda_array_interface": lambda v: self.module.asarray(Only(v, "__cuda_array_interface__")),
        }

    def used(self, theirs: Any) -> Any:
        return theirs.copy()

    def host(self, theirs: Any) -> Any:
        self.module.cuda.Device().synchronize()
        return theirs.get()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.data.ptr, theirs.shape, tuple(stride // theirs.itemsize for stride in theirs.strides)

    def stream(self) -> Any:
        return self.module.cuda.Stream(non_blocking=True)

    def handle(self, stream: Any) -> int:
        return int(stream.ptr)

    def within(self, stream: Any) -> Any:
        return stream

    def fill(self, theirs: Any, value: float, stream: Any) -> None:
        with stream:
            theirs.fill(value)


class Jax(DeviceSystem):
    name = "jax"
    compact = True
    streams = False

    def start(self) -> None:
        self.module.config.update("jax_enable_x64", True)
        try:
            self.gpu = self.module.devices("gpu")[0]
        except Exception as error:
            pytest.skip(f"jax has no GPU: {error}")

    def from_host(self, array: Any) -> Any:
        return self.module.device_put(array.copy(), self.gpu)

    def takes(self) -> dict[str, Any]:
        return {"dlpack": self.module.dlpack.from_dlpack}

    def used(self, theirs: Any) -> Any:
        return theirs + 0

    def host(self, theirs: Any) -> Any:
        import numpy

        return numpy.asarray(theirs)

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        theirs.block_until_ready()
        return theirs.unsafe_buffer_pointer(), theirs.shape, None


class Numba(DeviceSystem):
    name = "numba.cuda"
    project = "numba-cuda"
    protocols = ("cuda_array_interface",)

    def start(self) -> None:
        if not self.module.is_available():
            pytest.skip("numba finds no GPU")

    def from_host(self, array: Any) -> Any:
        return self.module.to_device(array)

    def takes(self) -> dict[str, Any]:
        return {"cuda_array_interface": self.module.as_cuda_array}

    def host(self, theirs: Any) -> Any:
        self.module.synchronize()
        return theirs.copy_to_host()

    def stream(self) -> Any:
        return self.module.stream()

    def handle(self, stream: Any) -> int:
        return int(getattr(stream.handle, "value", stream.handle))

    def fill(self, theirs: Any, value: float, stream: Any) -> None:
        import numpy

        theirs.stream = stream  # the stream that its array interface will name
        theirs.copy_to_device(numpy.full(theirs.shape, value, theirs.dtype), stream=stream)


class CudaCore(DeviceSystem):
    name = "cuda.core.utils"
    deaf = ("dlpack", "cuda_array_interface")  # it is requested without a wait
    project = "cuda-core"
    protocols = ("dlpack", "dlpack_c_exchange")
    streams = False

    def start(self) -> None:
        from cuda.core import Device

        try:
            Device(0).set_current()
        except Exception as error:
            pytest.skip(f"cuda.core finds no GPU: {error}")

    def from_host(self, array: Any) -> Any:
        return self.takes()["dlpack"](self.device.upload(array))

    def made(self, layout: str, array: Any) -> Any:
        if layout in ("reversed", "read-only"):
            raise Absent
        return self.takes()["dlpack"](LAYOUTS[layout](self.device.upload(array)))

    def takes(self) -> dict[str, Any]:
        kind = self.module.StridedMemoryView
        return {
            "dlpack": lambda v: kind.from_dlpack(v, -1),
            "cuda_array_interface": lambda v: kind.from_cuda_array_interface(Only(v, "__cuda_array_interface__"), -1),
        }

    def host(self, theirs: Any) -> Any:
        import numpy

        rawcuda.synchronize()
        return numpy.asarray(rawcuda.view(theirs, stream=-1).download())

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.ptr, tuple(theirs.shape), theirs.strides and tuple(theirs.strides)


class Warp(DeviceSystem):
    name = "warp"
    deaf = ("cuda_array_interface",)
    project = "warp-lang"
    dtypes = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64")

    def start(self) -> None:
        self.module.config.quiet = True
        self.module.init()
        if not self.module.is_cuda_available():
            pytest.skip("warp finds no GPU")

    def from_host(self, array: Any) -> Any:
        return self.module.array(array.copy(), dtype=self.module.dtype_from_numpy(array.dtype), device="cuda:0")

    def takes(self) -> dict[str, Any]:
        return {
            "dlpack": self.module.from_dlpack,
            "cuda_array_interface": lambda v: self.module.array(
                Only(v, "__cuda_array_interface__"), copy=False, device="cuda:0"
            ),
        }

    def used(self, theirs: Any) -> Any:
        return self.module.clone(theirs)

    def host(self, theirs: Any) -> Any:
        self.module.synchronize()
        return theirs.numpy()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        size = self.module.types.type_size_in_bytes(theirs.dtype)
        return theirs.ptr, tuple(theirs.shape), tuple(stride // size for stride in theirs.strides)

    def stream(self) -> Any:
        return self.module.Stream("cuda:0")

    def handle(self, stream: Any) -> int:
        return int(stream.cuda_stream)

    def within(self, stream: Any) -> Any:
        return self.module.ScopedStream(stream)

    def fill(self, theirs: Any, value: float, stream: Any) -> None:
        with self.within(stream):
            theirs.fill_(value)


class Dali(DeviceSystem):
    name = "nvidia.dali.tensors"
    deaf = ("dlpack", "cuda_array_interface")  # it takes legacy capsules without a wait
    project = "nvidia-dali-cuda130"
    compact = True
    streams = False
    dtypes = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64")

    def start(self) -> None:
        import numpy

        try:
            self.from_host(numpy.zeros(3, "f4"))
        except RuntimeError as error:
            pytest.skip(f"DALI finds no GPU: {error}")

    def from_host(self, array: Any) -> Any:
        uploaded = self.device.upload(array)
        rawcuda.synchronize()
        return self.module.TensorGPU(Only(uploaded, "__cuda_array_interface__"), "")

    def takes(self) -> dict[str, Any]:
        return {
            "dlpack": lambda v: self.module.TensorGPU(v.__dlpack__(), ""),
            "cuda_array_interface": lambda v: self.module.TensorGPU(Only(v, "__cuda_array_interface__"), ""),
        }

    def host(self, theirs: Any) -> Any:
        import numpy

        rawcuda.synchronize()
        return numpy.array(theirs.as_cpu())

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.data_ptr(), tuple(theirs.shape()), None


class PyCuda(DeviceSystem):
    name = "pycuda.gpuarray"
    project = "pycuda"
    protocols = ("cuda_array_interface",)

    def start(self) -> None:
        try:
            importlib.import_module("pycuda.autoprimaryctx")
        except Exception as error:
            pytest.skip(f"pycuda finds no GPU: {error}")

    def from_host(self, array: Any) -> Any:
        return self.module.to_gpu(array)

    def takes(self) -> dict[str, Any]:
        import numpy

        return {"pointer": lambda v: self.module.GPUArray(v.shape, numpy.dtype(str(v.dtype)), gpudata=v.ptr, base=v)}

    def host(self, theirs: Any) -> Any:
        rawcuda.synchronize()
        return theirs.get()

    def stream(self) -> Any:
        return importlib.import_module("pycuda.driver").Stream()

    def handle(self, stream: Any) -> int:
        return int(stream.handle)

    def fill(self, theirs: Any, value: float, stream: Any) -> None:
        raise Absent  # its array interface names no stream even if work is pending: the user waits


DEVICE_SYSTEMS: tuple[type[DeviceSystem], ...] = (Itself, Torch, CuPy, Jax, Numba, CudaCore, Warp, Dali, PyCuda)
DEVICE_HERE = tuple(kind for kind in DEVICE_SYSTEMS if kind is Itself or installed(kind))
