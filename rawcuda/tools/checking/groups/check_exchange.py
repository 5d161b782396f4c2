"""The rows about exchange: every protocol with objects of Python, and the libraries that are installed.

What it is   the group "exchange". The row of a library exchanges arrays in host memory in both directions. If the
             library can use the device, a kernel also gets one of its device arrays, and the library gets one of ours.
What not     the rules of the protocols in detail, which the package's tests know.
Read next    check_failures.py
"""

from __future__ import annotations

import ctypes
import importlib
from array import array
from importlib.util import find_spec

from ....arrays.strided import view
from ..rows import Given, Missing, expect, floats, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []


@row("exchange", "buffers: array, bytes, ctypes")
def _buffers(given: Given) -> None:
    for source in (array("h", [1, 2, 3]), b"\1\0\2\0\3\0", (ctypes.c_int16 * 3)(1, 2, 3), memoryview(b"\1\0\2\0\3\0")):
        seen = view(source)
        expect(type(source).__name__, seen.reinterpret("int16").tolist(), [1, 2, 3])
    expect("the export", memoryview(view(array("h", [1, 2, 3])).memoryview()).tolist(), [1, 2, 3])


@row("exchange", "DLPack, both versions")
def _dlpack(given: Given) -> None:
    data = array("f", [1, 2, 3])
    for asked in ({}, {"max_version": (1, 0)}):
        seen = view(view(data).__dlpack__(**asked))
        expect("the elements", seen.tolist(), [1.0, 2.0, 3.0])
        expect("the address", seen.ptr, data.buffer_info()[0])
    there = given.device.upload(data)
    seen = view(there.__dlpack__(max_version=(1, 0)))
    given.scaled(seen)
    expect("on the device", there.tolist(), [2.0, 4.0, 6.0])


class _ByHand:
    """An object with one of the interfaces that are dictionaries."""

    def __init__(self, name: str, address: int, keep: Any) -> None:
        self.keep = keep
        setattr(self, name, {"shape": (3,), "typestr": "<f4", "data": (address, False), "version": 3})


@row("exchange", "the array interface")
def _array_interface(given: Given) -> None:
    data = array("f", [1, 2, 3])
    seen = view(_ByHand("__array_interface__", data.buffer_info()[0], data))
    expect("the elements", seen.tolist(), [1.0, 2.0, 3.0])
    expect("ours", view(data).__array_interface__["data"][0], data.buffer_info()[0])


@row("exchange", "the CUDA Array Interface")
def _cuda_array_interface(given: Given) -> None:
    there = given.device.upload(array("f", [1, 2, 3]))
    given.scaled(view(_ByHand("__cuda_array_interface__", there.ptr, there)))
    expect("the elements", there.tolist(), [2.0, 4.0, 6.0])
    expect("ours", there.__cuda_array_interface__["data"][0], there.ptr)


@row("exchange", "streams of other objects")
def _stream(given: Given) -> None:
    with given.device.stream() as stream:

        class Other:
            """An object with a stream."""

            def __cuda_stream__(self) -> tuple[int, int]:
                """Return the protocol's version and the stream."""
                return (0, stream.handle)

        there = given.device.upload(floats(8))
        given.kernel("scale").launch(there, 2.0, 8, grid=1, block=8, stream=Other())
        stream.synchronize()
        expect("the elements", there.tolist(), [2 * each for each in floats(8)])


class _Library:
    """How to use a library: functions of its module, "" where it has none.

    host, device  make an array of float32 from a list
    taken         takes an array of ours
    """

    def __init__(self, host: Any, device: Any, taken: Any) -> None:
        self.host, self.device, self.taken = host, device, taken


def _jax(place: str) -> Any:
    def make(jax: Any, data: Any) -> Any:
        return jax.device_put(jax.numpy.array(data, "float32"), jax.devices(place)[0])

    return make


_LIBRARIES = {
    "numpy": _Library(lambda m, data: m.array(data, "f4"), None, lambda m, ours: m.from_dlpack(ours)),
    "torch": _Library(
        lambda m, data: m.tensor(data),
        lambda m, data: m.tensor(data, device="cuda") if m.cuda.is_available() else None,
        lambda m, ours: m.from_dlpack(ours),
    ),
    "cupy": _Library(None, lambda m, data: m.array(data, "f4"), lambda m, ours: m.from_dlpack(ours)),
    "jax": _Library(_jax("cpu"), None, lambda m, ours: m.numpy.from_dlpack(ours)),
    "pyarrow": _Library(lambda m, data: m.array(data, "float32"), None, None),
    "warp": _Library(
        lambda m, data: m.array(data, dtype=m.float32, device="cpu"), None, lambda m, ours: m.from_dlpack(ours)
    ),
    "numba": _Library(None, lambda m, data: importlib.import_module("numba.cuda").to_device(array("f", data)), None),
}


def _library(name: str) -> None:
    """Add the row of a library."""

    @row("exchange", name)
    def exchanged(given: Given) -> str:
        """Import arrays of the library, and let it import ours."""
        if find_spec(name) is None:
            raise Missing("not installed")
        module, how = importlib.import_module(name), _LIBRARIES[name]
        numbers, did = floats(16).tolist(), []
        if how.host is not None:
            theirs = how.host(module, numbers)
            expect("its array", view(theirs).tolist(), numbers)
            there = given.device.upload(theirs)
            given.scaled(there)
            expect("its array, doubled", there.tolist(), [2 * each for each in numbers])
            did.append("host")
        if how.taken is not None and how.host is not None:
            expect("our array", how.taken(module, view(floats(16))).tolist(), numbers)
        if how.device is not None and given.on_gpu():
            theirs = how.device(module, numbers)
            if theirs is not None:
                given.scaled(view(theirs))
                expect("its array on the device", view(theirs).tolist(), [2 * each for each in numbers])
                did.append("device")
                if how.taken is not None:
                    ours = given.device.upload(floats(16))
                    expect("our array on the device", how.taken(module, ours).tolist(), numbers)
        if not did:
            raise Missing("it needs a GPU")
        return f"{module.__version__}: {', '.join(did)}"


for _name in _LIBRARIES:
    _library(_name)
