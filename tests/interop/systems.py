"""The libraries that these tests know: how each makes an array, takes one of ours, and says what it has.

What a library cannot do is told in its row, with the reason, and seen to be so: a test that stops failing says that the
library has changed.
"""
from __future__ import annotations

import importlib
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Callable, Optional

import pytest


class System:
    """One library.

    name       what is imported
    made_from  an array of theirs over a NumPy array's values (a copy is fine)
    takes      an array of theirs over a view of ours, by DLPack, sharing its memory
    numbers    nested lists of an array of theirs
    facts      (address, shape, element strides or None, read-only or None, DLPack device) of an array of theirs
    refuses    what it cannot take from us: any of "reversed", "broadcast", "strided", "readonly", "empty", "scalar", "cuda"
    """

    name = ""
    refuses: "frozenset[str]" = frozenset()
    lacks: "frozenset[str]" = frozenset()                # dtypes that it has not
    gives_legacy = False                                 # its capsules cannot say read-only
    module: Any

    def load(self) -> "System":
        """Import the library, or skip the test by its name."""
        self.module = pytest.importorskip(self.name)
        return self

    def made_from(self, array: Any) -> Any:
        raise NotImplementedError

    def takes(self, view: Any) -> Any:
        return self.module.from_dlpack(view)

    def numbers(self, theirs: Any) -> Any:
        return theirs.tolist()

    def facts(self, theirs: Any) -> "tuple[Any, ...]":
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


class NumPy(System):
    name = "numpy"
    refuses = frozenset({"reversed", "cuda"})

    def made_from(self, array: Any) -> Any:
        return array

    def facts(self, theirs: Any) -> "tuple[Any, ...]":
        strides = tuple(stride // theirs.itemsize for stride in theirs.strides)
        return theirs.__array_interface__["data"][0], theirs.shape, strides, not theirs.flags.writeable, (1, 0)


class Strict(System):
    name = "array_api_strict"
    refuses = frozenset({"reversed", "cuda"})
    lacks = frozenset({"f2"})

    def made_from(self, array: Any) -> Any:
        return self.module.asarray(array)

    def numbers(self, theirs: Any) -> Any:
        return theirs._array.tolist()

    def facts(self, theirs: Any) -> "tuple[Any, ...]":
        return NumPy().facts(theirs._array)


class Torch(System):
    name = "torch"
    refuses = frozenset({"reversed", "cuda"})

    def made_from(self, array: Any) -> Any:
        return self.module.tensor(array.copy() if array.size else array.copy(), dtype=None) if array.ndim else self.module.tensor(array.item())

    def facts(self, theirs: Any) -> "tuple[Any, ...]":
        return theirs.data_ptr(), tuple(theirs.shape), theirs.stride(), None, (1, 0)


class Jax(System):
    name = "jax"
    refuses = frozenset({"reversed", "broadcast", "strided", "readonly", "cuda"})     # compact only; and it never asks for a version
    gives_legacy = True

    def load(self) -> "System":
        super().load()
        self.module.config.update("jax_enable_x64", True)
        return self

    def made_from(self, array: Any) -> Any:
        return self.module.numpy.asarray(array.copy())

    def takes(self, view: Any) -> Any:
        return self.module.dlpack.from_dlpack(view)

    def facts(self, theirs: Any) -> "tuple[Any, ...]":
        return theirs.unsafe_buffer_pointer(), theirs.shape, None, None, (1, 0)


class TvmFfi(System):
    name = "tvm_ffi"
    refuses = frozenset({"reversed"})                    # it reads our exchange table, and forgets the read-only flag in it

    def made_from(self, array: Any) -> Any:
        import numpy
        return self.module.from_dlpack(numpy.ascontiguousarray(array).reshape(array.shape).copy())

    def numbers(self, theirs: Any) -> Any:
        import numpy
        return numpy.from_dlpack(theirs).tolist()

    def facts(self, theirs: Any) -> "tuple[Any, ...]":
        kind, ordinal = theirs.__dlpack_device__()
        return theirs.data_ptr(), tuple(theirs.shape), tuple(theirs.strides), None, (int(kind), ordinal)


class CudaCore(System):
    name = "cuda.core.utils"
    refuses = frozenset({"reversed"})

    def load(self) -> "System":
        pytest.importorskip("cuda.core", exc_type=ImportError)
        pytest.importorskip("cuda.bindings", exc_type=ImportError)
        self.module = importlib.import_module("cuda.core.utils")
        return self

    def made_from(self, array: Any) -> Any:
        return self.module.StridedMemoryView.from_dlpack(array.copy(), -1)

    def takes(self, view: Any) -> Any:
        return self.module.StridedMemoryView.from_dlpack(view, -1)

    def numbers(self, theirs: Any) -> Any:
        import numpy
        return numpy.from_dlpack(theirs).tolist()

    def facts(self, theirs: Any) -> "tuple[Any, ...]":
        strides = theirs.strides
        if strides is None:                              # its word for C order
            strides, step = [], 1
            for n in reversed(theirs.shape):
                strides.insert(0, step)
                step *= n
        device = (2, theirs.device_id) if theirs.is_device_accessible else (1, 0)
        return theirs.ptr, tuple(theirs.shape), tuple(strides), theirs.readonly, device


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
NB_MODULE(THE_EXTENSION, m) {
    m.def("facts", [](nb::ndarray<> a) { return facts(a); });
    m.def("facts_ro", [](nb::ndarray<nb::ro> a) { return facts(a); });
    m.def("facts_cuda", [](nb::ndarray<float, nb::device::cuda> a) { return facts(a); });
    m.def("identity", [](nb::ndarray<nb::ro> a) { return a; });
    m.def("made", [](size_t n) {
        float *data = new float[n];
        for (size_t i = 0; i < n; ++i) data[i] = (float) i;
        nb::capsule owner(data, [](void *p) noexcept { delete[] (float *) p; });
        return nb::ndarray<nb::array_api, float, nb::ndim<1>, nb::device::cpu>(data, {n}, owner);
    });
    m.def("capsule", [](uintptr_t p, size_t n) {
        return nb::ndarray<float, nb::ndim<1>, nb::device::cpu>((void *) p, {n}, nb::capsule((void *) p, [](void *) noexcept { }));
    });
    m.def("labelled", [](uintptr_t p, size_t n) {
        return nb::ndarray<nb::array_api, float, nb::ndim<1>>((void *) p, {n}, nb::capsule((void *) p, [](void *) noexcept { }), {},
                                                              nb::dtype<float>(), nb::device::cuda::value, 0);
    });
}
"""


class Nanobind(System):
    name = "nanobind"

    def load(self, folder: "Optional[Path]" = None) -> "System":
        self.module = pytest.importorskip("nanobind")
        if folder is None:
            return self
        name = "views_extension"
        source, target = folder / f"{name}.cpp", folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        source.write_text(_SOURCE.replace("THE_EXTENSION", name))
        src = Path(self.module.source_dir())
        robin = src.parent / "ext" / "robin_map" / "include"
        command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", f"-I{self.module.include_dir()}",
                   f"-I{robin}", f"-I{sysconfig.get_paths()['include']}", str(source), str(src / "nb_combined.cpp"), "-o", str(target)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except FileNotFoundError:
            pytest.skip("nanobind needs a C++ compiler, g++")
        assert result.returncode == 0, result.stderr[-3000:]
        sys.path.insert(0, str(folder))
        try:
            self.module = importlib.import_module(name)
        finally:
            sys.path.remove(str(folder))
        return self


SYSTEMS: "tuple[Callable[[], System], ...]" = (NumPy, Strict, Torch, Jax, TvmFfi, CudaCore)
