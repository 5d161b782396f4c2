"""Measure the exchange of arrays with one library: a word for each protocol, direction, layout and dtype.

yes    the same memory; values, shape, strides, dtype, device and read-only flag are right
copy   the values, shape and dtype are right, in other memory
no     refused by an exception
none   the library has no such array, or no such dtype
bytes  the same memory, as bytes: the protocol has no name for the dtype
A wrong result is reported as "wrong: ...", and is a bug of one side.
"""

from __future__ import annotations

import gc
import math
from typing import Any, Callable

from tests.interop.systems import LAYOUTS, Absent, ArrowArray, System
from tests.null.producers import Exporter, Tensor
from tests.shared import NUMBERS
from tests.subject import module, rawcuda

view = rawcuda.view
ProtocolError = module("errors").ProtocolError

DTYPES = (*NUMBERS, "bfloat16", "float8_e4m3fn", "float8_e5m2")
PROTOCOLS = ("dlpack", "dlpack_c_exchange", "array_interface", "buffer", "cuda_array_interface")
CASES = tuple(name for name in LAYOUTS if name != "row")
Row = "dict[str, str]"


def rows_of(system: System) -> dict[str, dict[str, str]]:
    """Measure every row of a loaded library: {"takes dlpack host": {"contiguous": "yes", ..., "int8": "yes", ...}}."""
    rows: dict[str, dict[str, str]] = {}
    for protocol, take in system.by().items():
        if protocol != "cuda_array_interface":
            rows[f"takes {protocol} host"] = taking(system, take)
        if protocol in system.labelled:
            rows[f"takes {protocol} labelled"] = taking_labelled(system, take)
    for protocol in PROTOCOLS:
        found = giving(system, protocol)
        if not {"none", "no"}.issuperset(found.values()):
            rows[f"gives {protocol} host"] = found
    if "dlpack" in system.labelled and system.name != "mpi4py":
        for protocol in PROTOCOLS:
            found = giving_labelled(system, protocol)
            if not {"none", "no"}.issuperset(found.values()):
                rows[f"gives {protocol} labelled"] = found
    gc.collect()
    return rows


def outcome_of(exchange: Callable[[], str]) -> str:
    """Run one exchange, and return its result as a word."""
    try:
        return exchange()
    except Absent:
        return "none"
    except AssertionError as error:
        return f"wrong: {str(error).splitlines()[0]}"
    except Exception:
        return "no"


# -- the library takes our views


def made(layout: str) -> Any:
    """Return (a NumPy array of this layout, our view of it)."""
    import numpy

    whole = aligned(48).view("f4").reshape(3, 4)
    whole[...] = numpy.arange(12).reshape(3, 4)
    a = LAYOUTS[layout](whole)
    return a, view(a, protocol="array_interface")


def aligned(nbytes: int) -> Any:
    """Return zeros at an address that is a multiple of 64, which JAX does not copy."""
    import numpy

    raw = numpy.zeros(nbytes + 64, "u1")
    return raw[-raw.ctypes.data % 64 :][:nbytes]


def values(name: str) -> Any:
    """Return 2 by 3 numbers of a dtype of NumPy or ml_dtypes."""
    import numpy

    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        try:
            import ml_dtypes
        except ImportError:
            raise Absent from None
        return numpy.arange(6).astype(getattr(ml_dtypes, name)).reshape(2, 3)
    return numpy.arange(6).astype(name).reshape(2, 3)


def viewed(a: Any) -> Any:
    """Return our view of such numbers; the array interface has no names for the types of ml_dtypes."""
    v = view(a, protocol="array_interface")
    return v if str(v.dtype) == a.dtype.name else v.reinterpret(a.dtype.name)


def taking(system: System, take: Callable[[Any], Any]) -> dict[str, str]:
    found = {layout: outcome_of(lambda layout=layout: took(system, take, *made(layout))) for layout in CASES}
    for name in DTYPES:

        def exchange(name: str = name) -> str:
            a = values(name)
            theirs = take(viewed(a))
            if system.flat:
                return "yes"
            back = view(system.exporter(theirs))
            if str(back.dtype) == f"|V{a.itemsize}":
                return "bytes"
            assert (str(back.dtype), back.shape) == (name, a.shape), (
                f"{back.dtype} {back.shape} instead of {name} {a.shape}"
            )
            assert back.tolist() == viewed(a).tolist(), "other values"
            return "yes"

        found[name] = outcome_of(exchange)
    return found


def took(system: System, take: Callable[[Any], Any], a: Any, v: Any) -> str:
    theirs = take(v)
    address, shape, strides, readonly, device = system.facts(theirs)
    expected = a.ravel("K").tolist() if system.flat else a.tolist()
    numbers = system.numbers(theirs)
    assert numbers == expected, f"values {numbers} instead of {expected}"
    assert shape is None or shape == a.shape, f"shape {shape} instead of {a.shape}"
    assert device is None or device == (1, 0), f"device {device}"
    shared = address == v.ptr or not a.size
    assert strides is None or not shared or same_strides(a.shape, strides, v.element_strides), (
        f"strides {strides} instead of {v.element_strides}"
    )
    assert readonly is None or not shared or not a.size or readonly == v.readonly, (
        f"read-only {readonly} instead of {v.readonly}"
    )
    return "yes" if shared else "copy"


def same_strides(shape: tuple[int, ...], some: Any, others: Any) -> bool:
    """Compare the strides of dimensions with more than one element."""
    return math.prod(shape) == 0 or [s for n, s in zip(shape, some) if n > 1] == [
        s for n, s in zip(shape, others) if n > 1
    ]


# -- we view arrays of the library


def giving(system: System, protocol: str) -> dict[str, str]:
    found = {layout: outcome_of(lambda layout=layout: gave(system, protocol, layout)) for layout in CASES}
    for name in DTYPES:

        def exchange(name: str = name) -> str:
            if name in system.lacks:
                raise Absent
            a = values(name)
            v = offered(theirs_or_none(lambda: other(system, protocol).made_dtype(name, a)), protocol)
            if system.name == "mpi4py":
                return "bytes"
            if str(v.dtype) == f"|V{a.itemsize}":
                return "bytes"
            if isinstance(other(system, protocol), ArrowArray):
                a = a.ravel()
            assert (str(v.dtype), v.shape) == (name, a.shape), f"{v.dtype} {v.shape} instead of {name} {a.shape}"
            assert v.tolist() == viewed(a).tolist(), "other values"
            return "yes"

        found[name] = outcome_of(exchange)
    return found


def theirs_or_none(make: Callable[[], Any]) -> Any:
    """Make an array of the library; if that fails, the library has no such array."""
    try:
        return make()
    except Exception as error:
        raise Absent from error


def other(system: System, protocol: str) -> System:
    """Return the kind of array of the library that offers a protocol."""
    if system.name == "pyarrow" and protocol == "dlpack":
        column = ArrowArray()
        column.module = system.module
        return column
    return system


def offered(theirs: Any, protocol: str) -> Any:
    """View an array of the library by one protocol, which must be offered."""
    try:
        return view(theirs, protocol=protocol)
    except ProtocolError as error:
        if "does not offer" in str(error):
            raise Absent from None
        raise


def gave(system: System, protocol: str, layout: str) -> str:
    a, _ = made(layout)
    system = other(system, protocol)
    if isinstance(system, ArrowArray):
        a = a.ravel()
    theirs = theirs_or_none(lambda: system.made_as(layout, a))
    v = offered(theirs, protocol)
    address, shape, strides, readonly, device = system.facts(theirs)
    if shape is None:  # bytes in one dimension
        assert bytes(v.memoryview()) == a.tobytes(), "other bytes"
        return "yes" if v.ptr == address else "copy"
    assert v.shape == tuple(shape) == a.shape, f"shape {v.shape} of {shape} instead of {a.shape}"
    assert str(v.dtype) == "float32", f"dtype {v.dtype}"
    assert v.tolist() == a.tolist(), f"values {v.tolist()} instead of {a.tolist()}"
    assert strides is None or same_strides(shape, strides, v.element_strides), (
        f"strides {v.element_strides} instead of {strides}"
    )
    assert same_strides(shape, v.strides, a.strides), f"strides {v.strides} instead of {a.strides}"
    assert v.__dlpack_device__() == device, f"device {v.__dlpack_device__()} instead of {device}"
    assert system.immutable or readonly is None or v.readonly == readonly, (
        f"read-only {v.readonly} instead of {readonly}"
    )
    assert v.readonly or not system.immutable, "writable"
    return "yes" if address is None or v.ptr == address or not a.size else "copy"


# -- host memory that claims to be GPU memory


def claims(layout: str) -> Any:
    """Return our view of host memory that is labelled CUDA; without a driver, no library can tell the difference."""
    tensor = Tensor(shape=(3, 4), strides=(4, 1), device=(2, 0), flags=1 if layout == "read-only" else 0)
    v = view(Exporter(tensor))
    return v if layout == "read-only" else LAYOUTS[layout](v)


def taking_labelled(system: System, take: Callable[[Any], Any]) -> dict[str, str]:
    return {layout: outcome_of(lambda layout=layout: took_labelled(system, take, claims(layout))) for layout in CASES}


def took_labelled(system: System, take: Callable[[Any], Any], v: Any) -> str:
    address, shape, strides, readonly, device = system.facts(take(v))
    assert address == v.ptr or not v.size, "another address"
    assert shape is None or shape == v.shape, f"shape {shape} instead of {v.shape}"
    assert device is None or device == (2, 0), f"device {device}"
    assert strides is None or same_strides(v.shape, strides, v.element_strides), (
        f"strides {strides} instead of {v.element_strides}"
    )
    assert readonly is None or readonly == v.readonly or not v.size, f"read-only {readonly} instead of {v.readonly}"
    return "yes"


def giving_labelled(system: System, protocol: str) -> dict[str, str]:
    def exchange(layout: str) -> str:
        ours = claims(layout)
        try:
            theirs = system.takes(ours)
        except Exception:
            raise Absent from None
        v = offered(system.exporter(theirs), protocol)
        assert (v.device, v.shape) == (("cuda", 0), ours.shape), f"{v.device} {v.shape}"
        assert v.ptr == ours.ptr or not ours.size, "another address"
        assert same_strides(v.shape, v.strides, ours.strides), f"strides {v.strides} instead of {ours.strides}"
        readonly: bool | None = system.facts(theirs)[3]
        assert readonly is None or not ours.size or v.readonly == readonly, (
            f"read-only {v.readonly} instead of {readonly}"
        )
        return "yes"

    return {layout: outcome_of(lambda layout=layout: exchange(layout)) for layout in CASES}  # type: ignore[misc]
