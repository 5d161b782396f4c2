"""The libraries that these tests know: how each makes an array, takes one of ours, and reports its properties.

The entry of a library lists what it cannot do, with the reason. The tests check these failures, too, so they notice if
the library has changed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any, Callable

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


class Absent(Exception):
    """The library has no such array."""


class Only:
    """A proxy of a view with a single attribute, so that only one protocol can be used."""

    def __init__(self, view: Any, name: str) -> None:
        self.view = view
        setattr(self, name, getattr(view, name))

    def __len__(self) -> int:
        return len(self.view)


class OnlyDlpack:
    """A proxy of a view with the two methods of DLPack on the type, where C extensions look them up."""

    def __init__(self, view: Any) -> None:
        self.view = view

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.view.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.view.__dlpack_device__()


ELSEWHERE = "`python3 -m tests --heavy reruns` has it in an environment of its own"


class System:
    """One library.

    name       the module to import
    project    the project to install, if it has another name
    made_from  an array of the library with the values of a NumPy array (it may be a copy)
    takes      an array of the library that shares the memory of our view, by DLPack
    by         the same for each protocol that it can take
    numbers    nested lists of the elements of an array of the library
    facts      (address, shape, element strides or None, read-only or None, DLPack device) of an array of the library
    refuses    the views that it cannot take by DLPack: any of "reversed", "broadcast", "strided", "readonly", "empty",
               "scalar"
    """

    name = ""
    project = ""
    refuses: frozenset[str] = frozenset({"reversed"})
    lacks: frozenset[str] = frozenset()  # dtypes that it does not have
    gives_legacy = False  # its capsules cannot be marked as read-only
    copies = False  # it copies the arrays that it takes
    compact = False  # its arrays have no strides
    immutable = False  # its arrays are immutable
    leaks = False  # it never releases the arrays that it takes
    large = False  # not in the test extra
    flat = False  # it treats arrays as bytes in one dimension
    labelled: tuple[str, ...] = ()  # the protocols through which it takes host memory that is labelled CUDA
    module: Any

    def load(self) -> System:
        """Import the library, or skip the test by its name."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of the library itself do not concern these tests
                self.module = importlib.import_module(self.name)
        except ImportError as error:
            pytest.skip(f"{self.project or self.name}: {error}" + (f"; {ELSEWHERE}" if self.large else ""))
        return self

    @property
    def version(self) -> str:
        return importlib.metadata.version(self.project or self.name)

    def made_from(self, array: Any) -> Any:
        raise NotImplementedError

    def made_as(self, layout: str, array: Any) -> Any:
        """Return an array of the library with the layout of a NumPy array, `array`."""
        if layout == "read-only" and (self.immutable or self.compact) != self.immutable:
            raise Absent
        if self.compact and array.size and not array.flags.c_contiguous:
            raise Absent
        return self.made_from(array)

    def made_dtype(self, name: str, array: Any) -> Any:
        """Return an array of the library of a dtype; `array` has the values, with a dtype of NumPy or ml_dtypes."""
        return self.made_from(array)

    def exporter(self, theirs: Any) -> Any:
        """Return the object that can be viewed, if the library's array itself cannot."""
        return theirs

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {"dlpack": self.takes}

    def takes(self, view: Any) -> Any:
        return self.module.from_dlpack(view)

    def numbers(self, theirs: Any) -> Any:
        return theirs.tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


class NumPy(System):
    name = "numpy"
    legacy_only = False  # before 2.1, the arrays that it takes are read-only, and it takes no read-only arrays

    def load(self) -> System:
        super().load()
        if tuple(map(int, self.version.split(".")[:2])) < (2, 1):
            self.legacy_only, self.refuses = True, self.refuses | {"readonly"}
        return self

    def made_from(self, array: Any) -> Any:
        return array

    def by(self) -> dict[str, Callable[[Any], Any]]:
        asarray = self.module.asarray
        return {
            "dlpack": self.takes,
            "array_interface": lambda v: asarray(Only(v, "__array_interface__")),
            "buffer": lambda v: asarray(v.memoryview()),
        }

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        strides = tuple(stride // theirs.itemsize for stride in theirs.strides)
        return (
            theirs.__array_interface__["data"][0],
            theirs.shape,
            strides,
            None if self.legacy_only else not theirs.flags.writeable,
            (1, 0),
        )


class Strict(System):
    name = "array_api_strict"
    project = "array-api-strict"
    lacks = frozenset({"float16"})

    def made_from(self, array: Any) -> Any:
        return self.module.from_dlpack(array)

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {"dlpack": self.takes, "buffer": lambda v: self.module.asarray(v.memoryview(), copy=False)}

    def numbers(self, theirs: Any) -> Any:
        return theirs._array.tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return NumPy().facts(theirs._array)


class Torch(System):
    name = "torch"
    large = True

    def made_from(self, array: Any) -> Any:
        return self.module.tensor(array.copy()) if array.ndim else self.module.tensor(array.item())

    def made_as(self, layout: str, array: Any) -> Any:
        whole = self.module.arange(12, dtype=self.module.float32).reshape(3, 4)
        if layout in ("reversed", "read-only"):
            raise Absent
        return (
            whole[:1].expand(3, 4)
            if layout == "broadcast"
            else whole[1, 2]
            if layout == "0-d"
            else LAYOUTS[layout](whole)
        )

    def made_dtype(self, name: str, array: Any) -> Any:
        if not hasattr(self.module, name):
            raise Absent
        return self.module.arange(6).reshape(2, 3).to(getattr(self.module, name))

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.data_ptr(), tuple(theirs.shape), theirs.stride(), None, (1, 0)


class Jax(System):
    name = "jax"
    large = True
    refuses = frozenset(
        {"reversed", "broadcast", "strided", "readonly"}
    )  # contiguous arrays only; it never requests a version
    gives_legacy = True
    compact = True
    immutable = True

    def load(self) -> System:
        super().load()
        self.module.config.update("jax_enable_x64", True)
        return self

    def made_from(self, array: Any) -> Any:
        return self.module.numpy.asarray(array.copy())

    def takes(self, view: Any) -> Any:
        return self.module.dlpack.from_dlpack(view)

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {"dlpack": self.takes, "buffer": lambda v: self.module.numpy.asarray(v.memoryview())}

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.unsafe_buffer_pointer(), theirs.shape, None, None, (1, 0)


class Warp(System):
    name = "warp"
    large = True
    project = "warp-lang"
    refuses = frozenset(
        {"reversed", "broadcast", "readonly", "scalar"}
    )  # legacy capsules only, none without dimensions
    lacks = frozenset({"complex64", "complex128"})

    def load(self) -> System:
        super().load()
        self.module.config.quiet = True
        self.module.init()
        return self

    def made_from(self, array: Any) -> Any:
        if not array.ndim:
            raise Absent
        return self.module.array(array.copy(), dtype=self.module.dtype_from_numpy(array.dtype), device="cpu")

    def made_as(self, layout: str, array: Any) -> Any:
        import numpy

        whole = self.made_from(numpy.arange(12, dtype="f4").reshape(3, 4))
        if layout in ("reversed", "broadcast", "0-d", "read-only", "empty"):
            raise Absent
        return whole.transpose() if layout == "transposed" else LAYOUTS[layout](whole)

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "dlpack": self.takes,
            "array_interface": lambda v: self.module.array(Only(v, "__array_interface__"), copy=False, device="cpu"),
        }

    def numbers(self, theirs: Any) -> Any:
        return theirs.numpy().tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        size = self.module.types.type_size_in_bytes(theirs.dtype)
        return theirs.ptr, tuple(theirs.shape), tuple(stride // size for stride in theirs.strides), None, (1, 0)


class PyArrow(System):
    name = "pyarrow"
    refuses = frozenset({"reversed", "strided", "broadcast"})
    lacks = frozenset({"bool"})  # its tensors have bytes instead
    flat = True

    def made_from(self, array: Any) -> Any:
        return self.module.Tensor.from_numpy(array.copy() if array.flags.c_contiguous else array)

    def takes(self, view: Any) -> Any:
        return self.module.py_buffer(view.memoryview())

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {"buffer": self.takes}

    def numbers(self, theirs: Any) -> Any:
        import numpy

        return (
            numpy.frombuffer(theirs, "f4").tolist()
            if isinstance(theirs, self.module.Buffer)
            else theirs.to_numpy().tolist()
        )

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        if isinstance(theirs, self.module.Buffer):
            return theirs.address, None, None, not theirs.is_mutable, (1, 0)
        size = theirs.type.bit_width // 8
        return (
            None,
            tuple(theirs.shape),
            tuple(stride // size for stride in theirs.strides),
            not theirs.is_mutable,
            (1, 0),
        )


class ArrowArray(PyArrow):
    """A column of pyarrow: one dimension, immutable, exported by DLPack."""

    immutable = True
    lacks = frozenset({"bool"})  # its columns have bits

    def made_from(self, array: Any) -> Any:
        if array.dtype.name in ("complex64", "complex128"):
            raise Absent
        return self.module.array(array.ravel())

    def made_as(self, layout: str, array: Any) -> Any:
        if layout not in ("contiguous", "read-only"):
            raise Absent
        return self.made_from(array)

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {}

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.buffers()[1].address, (len(theirs),), (1,), True, (1, 0)

    def __repr__(self) -> str:
        return "pyarrow.array"


class Dali(System):
    name = "nvidia.dali.tensors"
    large = True
    project = "nvidia-dali-cuda130"
    refuses = frozenset({"reversed", "strided", "broadcast", "readonly", "transposed"})
    lacks = frozenset({"complex64", "complex128"})
    gives_legacy = True  # they also have an array interface, which says that they may be written
    compact = True

    def made_from(self, array: Any) -> Any:
        return self.module.TensorCPU(array.copy(), "")

    def takes(self, view: Any) -> Any:
        return self.module.TensorCPU(view.__dlpack__(), "")

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {"dlpack": self.takes, "buffer": lambda v: self.module.TensorCPU(v.memoryview(), "")}

    def numbers(self, theirs: Any) -> Any:
        import numpy

        return numpy.array(theirs).tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.data_ptr(), tuple(theirs.shape()), None, None, (1, 0)


class TensorFlow(System):
    name = "tensorflow"
    large = True
    project = "tensorflow-cpu"
    refuses = frozenset({"reversed", "strided", "broadcast", "readonly", "transposed"})
    gives_legacy = True
    compact = True
    immutable = True

    def made_from(self, array: Any) -> Any:
        return self.module.constant(array)

    def takes(self, view: Any) -> Any:
        return self.module.experimental.dlpack.from_dlpack(view.__dlpack__())

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "dlpack": self.takes,
            "array_interface": lambda v: self.module.convert_to_tensor(Only(v, "__array_interface__")),
        }

    def numbers(self, theirs: Any) -> Any:
        return theirs.numpy().tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        from tests.subject import rawcuda

        return rawcuda.view(theirs, protocol="dlpack").ptr, tuple(theirs.shape), None, None, (1, 0)


class DrJit(System):
    name = "drjit"
    large = True
    refuses = frozenset({"reversed", "strided", "broadcast", "transposed"})
    lacks = frozenset({"int16", "uint16", "complex64", "complex128"})
    gives_legacy = True
    copies = True
    compact = True

    def load(self) -> System:
        super().load()
        self.module = importlib.import_module("drjit.scalar")
        return self

    def _tensor(self, dtype: str) -> Any:
        letters = {
            "bool": "b",
            "int8": "i8",
            "uint8": "u8",
            "int32": "i",
            "uint32": "u",
            "int64": "i64",
            "uint64": "u64",
            "float16": "f16",
            "float32": "f",
            "float64": "f64",
        }
        if dtype not in letters:
            raise Absent
        return getattr(self.module, f"TensorX{letters[dtype]}")

    def made_from(self, array: Any) -> Any:
        return self._tensor(array.dtype.name)(array)

    def takes(self, view: Any) -> Any:
        return self._tensor(str(view.dtype))(OnlyDlpack(view))

    def numbers(self, theirs: Any) -> Any:
        return theirs.numpy().tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return None, tuple(theirs.shape), None, None, (1, 0)


class Paddle(System):
    name = "paddle"
    large = True
    project = "paddlepaddle"
    lacks = frozenset({"uint16", "uint32", "uint64"})  # it takes NumPy's uint16 for bfloat16
    leaks = True  # test_live_bugs.py notices when this changes

    def made_from(self, array: Any) -> Any:
        return self.module.to_tensor(array)

    def made_as(self, layout: str, array: Any) -> Any:
        if layout in ("reversed", "read-only"):
            raise Absent
        whole = self.module.arange(12, dtype="float32").reshape([3, 4])
        strides = [stride // 4 for stride in array.strides]
        offset = {"offset": 20, "0-d": 24}.get(layout, 0)
        return whole if layout == "contiguous" else self.module.as_strided(whole, list(array.shape), strides, offset)

    def made_dtype(self, name: str, array: Any) -> Any:
        return self.module.arange(6).reshape([2, 3]).astype(name)

    def takes(self, view: Any) -> Any:
        return self.module.from_dlpack(view)

    def numbers(self, theirs: Any) -> Any:
        return theirs.numpy().tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.data_ptr(), tuple(theirs.shape), tuple(theirs.strides), None, (1, 0)


class TvmFfi(System):
    name = "tvm_ffi"
    project = "apache-tvm-ffi"
    labelled = ("dlpack", "dlpack_c_exchange")

    def made_from(self, array: Any) -> Any:
        return self.module.from_dlpack(array)

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {"dlpack": lambda v: self.module.from_dlpack(OnlyDlpack(v)), "dlpack_c_exchange": self.takes}

    def made_dtype(self, name: str, array: Any) -> Any:
        from tests.interop.exchanges import viewed

        return self.module.from_dlpack(OnlyDlpack(viewed(array)))

    def numbers(self, theirs: Any) -> Any:
        import numpy

        return numpy.from_dlpack(theirs).tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        kind, ordinal = theirs.__dlpack_device__()
        return theirs.data_ptr(), tuple(theirs.shape), tuple(theirs.strides), None, (int(kind), ordinal)


class CudaCore(System):
    name = "cuda.core.utils"
    project = "cuda-core"
    labelled = ("dlpack", "cuda_array_interface")

    def load(self) -> System:
        pytest.importorskip("cuda.bindings", exc_type=ImportError)
        return super().load()

    def made_from(self, array: Any) -> Any:
        return self.module.StridedMemoryView.from_dlpack(array, -1)

    def takes(self, view: Any) -> Any:
        return self.module.StridedMemoryView.from_dlpack(view, -1)

    def by(self) -> dict[str, Callable[[Any], Any]]:
        kind = self.module.StridedMemoryView
        return {
            "dlpack": self.takes,
            "array_interface": lambda v: kind.from_array_interface(Only(v, "__array_interface__")),
            "cuda_array_interface": lambda v: kind.from_cuda_array_interface(Only(v, "__cuda_array_interface__"), -1),
        }

    def numbers(self, theirs: Any) -> Any:
        import numpy

        return numpy.from_dlpack(theirs).tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        strides = theirs.strides
        if strides is None:  # its name for C order
            strides, step = [], 1
            for n in reversed(theirs.shape):
                strides.insert(0, step)
                step *= n
        device = (2, theirs.device_id) if theirs.is_device_accessible else (1, 0)
        return theirs.ptr, tuple(theirs.shape), tuple(strides), theirs.readonly, device


class Mpi4py(System):
    name = "mpi4py"
    refuses = frozenset({"reversed", "strided", "broadcast"})  # memory without gaps only
    flat = True
    labelled = ("dlpack", "cuda_array_interface")
    compact = True

    def load(self) -> System:
        super().load()
        self.module.rc.initialize = False
        try:
            self.module = importlib.import_module("mpi4py.MPI")
        except (ImportError, RuntimeError) as error:
            pytest.skip(f"mpi4py finds no MPI: {error}")
        return self

    def made_from(self, array: Any) -> Any:
        made = self.module.buffer.allocate(array.nbytes)
        made[:] = array.tobytes()
        return made

    def takes(self, view: Any) -> Any:
        return self.module.buffer(OnlyDlpack(view))

    def by(self) -> dict[str, Callable[[Any], Any]]:
        buffer = self.module.buffer
        return {
            "dlpack": self.takes,
            "buffer": lambda v: buffer(v.memoryview()),
            "cuda_array_interface": lambda v: buffer(Only(v, "__cuda_array_interface__")),
        }

    def numbers(self, theirs: Any) -> Any:
        import numpy

        return numpy.frombuffer(theirs, "f4").tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        return theirs.address, None, None, theirs.readonly, None


_SOURCE = r"""
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
namespace nb = nanobind;
template <typename A> nb::tuple facts(A a) {
    nb::list shape, strides;
    for (size_t i = 0; i < a.ndim(); ++i) { shape.append(a.shape(i)); strides.append(a.stride(i)); }
    return nb::make_tuple((uintptr_t) a.data(), nb::tuple(shape), nb::tuple(strides), a.device_type(), a.device_id(),
                          (int) a.dtype().code, (int) a.dtype().bits);
}
template <typename In> struct Keeper { In a; };
template <typename In, typename Out> void keeper(nb::module_ &m, const char *name) {
    nb::class_<Keeper<In>>(m, name)
        .def("__init__", [](Keeper<In> *self, In a) { new (self) Keeper<In>{a}; })
        .def("facts", [](Keeper<In> &self) { return facts(self.a); })
        .def("out", [](nb::object self) {
            In &a = nb::cast<Keeper<In> &>(self).a;
            size_t shape[32]; int64_t strides[32];
            for (size_t i = 0; i < a.ndim(); ++i) { shape[i] = a.shape(i); strides[i] = a.stride(i); }
            return Out(a.data(), a.ndim(), shape, self, strides, a.dtype(), a.device_type(), a.device_id());
        });
}
NB_MODULE(THE_EXTENSION, m) {
    m.def("facts", [](nb::ndarray<> a) { return facts(a); });
    m.def("facts_ro", [](nb::ndarray<nb::ro> a) { return facts(a); });
    m.def("facts_cuda", [](nb::ndarray<float, nb::device::cuda> a) { return facts(a); });
    m.def("facts_c", [](nb::ndarray<float, nb::ndim<2>, nb::c_contig> a) { return facts(a); },
          nb::arg("a").noconvert());
    m.def("facts_f", [](nb::ndarray<float, nb::ndim<2>, nb::f_contig> a) { return facts(a); },
          nb::arg("a").noconvert());
    m.def("facts_shape", [](nb::ndarray<float, nb::shape<3, 4>> a) { return facts(a); }, nb::arg("a").noconvert());
    m.def("identity", [](nb::ndarray<nb::ro> a) { return a; });
    keeper<nb::ndarray<nb::ro>, nb::ndarray<nb::array_api, nb::ro>>(m, "ReadOnly");
    keeper<nb::ndarray<>, nb::ndarray<nb::array_api>>(m, "Writable");
    m.def("fill", [](nb::ndarray<float, nb::ndim<1>, nb::device::cpu> a, float x) {
        for (size_t i = 0; i < a.shape(0); ++i) a(i) = x;
    });
    m.def("total", [](nb::ndarray<const float, nb::ndim<2>, nb::device::cpu> a) {
        double sum = 0;
        for (size_t i = 0; i < a.shape(0); ++i) for (size_t j = 0; j < a.shape(1); ++j) sum += a(i, j) * (10.0 * i + j);
        return sum;
    });
    m.def("made", [](size_t n) {
        float *data = new float[n];
        for (size_t i = 0; i < n; ++i) data[i] = (float) i;
        nb::capsule owner(data, [](void *p) noexcept { delete[] (float *) p; });
        return nb::ndarray<nb::array_api, float, nb::ndim<1>, nb::device::cpu>(data, {n}, owner);
    });
    m.def("capsule", [](uintptr_t p, size_t n) {
        return nb::ndarray<float, nb::ndim<1>, nb::device::cpu>(
            (void *) p, {n}, nb::capsule((void *) p, [](void *) noexcept { }));
    });
    m.def("labelled", [](uintptr_t p, size_t n) {
        return nb::ndarray<nb::array_api, float, nb::ndim<1>>(
            (void *) p, {n}, nb::capsule((void *) p, [](void *) noexcept { }), {},
            nb::dtype<float>(), nb::device::cuda::value, 0);
    });
}
"""
_built: dict[str, Any] = {}


class Nanobind(System):
    """An extension in C++ that is built here; its arrays for the array API have a Python `__dlpack__`."""

    name = "nanobind"
    labelled = ("dlpack",)

    def load(self) -> System:
        super().load()
        if "extension" not in _built:
            import tempfile

            _built["folder"] = tempfile.TemporaryDirectory(prefix="nanobind-", ignore_cleanup_errors=True)
            _built["extension"] = self._build(Path(_built["folder"].name))
        self.module = _built["extension"]
        return self

    def _build(self, folder: Path) -> Any:
        name = "views_extension"
        source, target = folder / f"{name}.cpp", folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        source.write_text(_SOURCE.replace("THE_EXTENSION", name))
        src = Path(self.module.source_dir())
        robin = src.parent / "ext" / "robin_map" / "include"
        command = [
            "g++",
            "-std=c++17",
            "-O1",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-fno-strict-aliasing",
            f"-I{self.module.include_dir()}",
            f"-I{robin}",
            f"-I{sysconfig.get_paths()['include']}",
            str(source),
            str(src / "nb_combined.cpp"),
            "-o",
            str(target),
        ]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except FileNotFoundError:
            pytest.skip("nanobind needs a C++ compiler, g++")
        assert result.returncode == 0, result.stderr[-3000:]
        sys.path.insert(0, str(folder))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(folder))

    def _kept(self, exporter: Any, readonly: bool) -> Any:
        return (self.module.ReadOnly if readonly else self.module.Writable)(exporter)

    def made_from(self, array: Any) -> Any:
        return self._kept(array, not array.flags.writeable).out()

    def made_dtype(self, name: str, array: Any) -> Any:
        from tests.interop.exchanges import viewed

        return self._kept(viewed(array), False).out()

    def takes(self, view: Any) -> Any:
        return self._kept(
            OnlyDlpack(view), view.readonly
        )  # on Python 3.12 and later, it would then use the buffer protocol

    def by(self) -> dict[str, Callable[[Any], Any]]:
        return {"dlpack": self.takes, "buffer": lambda v: self._kept(v.memoryview(), v.readonly)}

    def exporter(self, theirs: Any) -> Any:
        return theirs.out() if hasattr(theirs, "out") else theirs

    def numbers(self, theirs: Any) -> Any:
        import numpy

        return numpy.from_dlpack(self.exporter(theirs)).tolist()

    def facts(self, theirs: Any) -> tuple[Any, ...]:
        address, shape, strides, kind, ordinal, _, _ = (
            self.module.facts_ro(theirs) if not hasattr(theirs, "facts") else theirs.facts()
        )
        return address, shape, strides, None, (kind, ordinal)


def _broadcast(a: Any) -> Any:
    if hasattr(a, "broadcast_to"):
        return a[:1].broadcast_to((3, 4))
    import numpy

    return numpy.broadcast_to(a[:1], (3, 4))


def _locked(a: Any) -> Any:
    a = a[...]
    a.flags.writeable = False
    return a


# operations on an array of shape (3, 4): NumPy's, ours, and the library's if possible
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda a: a,
    "strided": lambda a: a[:, ::2],
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[:, ::-1],
    "broadcast": _broadcast,
    "offset": lambda a: a[1:, 1:],
    "row": lambda a: a[1],
    "0-d": lambda a: a[1, 2, ...],
    "empty": lambda a: a[:, :0],
    "read-only": _locked,
}
KINDS = {
    "strided": "strided",
    "offset": "strided",
    "reversed": "reversed",
    "broadcast": "broadcast",
    "empty": "empty",
    "0-d": "scalar",
    "transposed": "transposed",
    "read-only": "readonly",
}

SYSTEMS: tuple[type[System], ...] = (
    NumPy,
    Strict,
    Torch,
    Jax,
    TvmFfi,
    CudaCore,
    Nanobind,
    Mpi4py,
    PyArrow,
    Warp,
    Dali,
    TensorFlow,
    DrJit,
    Paddle,
)


def installed(kind: Any) -> bool:
    """Tell whether a library is installed, importing only the packages that contain it."""
    try:
        return importlib.util.find_spec(".".join(kind.name.split(".")[:2])) is not None
    except ModuleNotFoundError:
        return False


HERE = tuple(kind for kind in SYSTEMS if installed(kind))
