"""NumPy, imported when it is first used, with short names for its types.

`np.u4` is numpy.uint32, `np.i8` is numpy.int64, `np.f4` is numpy.float32: a letter and the bytes, as in NumPy's codes.

Read next    numeric.py
"""

from __future__ import annotations

import _thread
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["np"]

_SHORT = {
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "i1": "int8", "i2": "int16", "i4": "int32",
    "i8": "int64", "f2": "float16", "f4": "float32", "f8": "float64", "b1": "bool_",
}  # fmt: skip


class LateNumPy:
    """A stand-in for the module NumPy, with a few more names."""

    def __getattr__(self, name: str) -> Any:
        """Import NumPy, and copy its names.

        raises  ImportError   NumPy is not installed, or older than 2.0
        """
        if "uint8" in self.__dict__:
            raise AttributeError(name)
        _import_elsewhere()
        import numpy

        if int(numpy.__version__.split(".")[0]) < 2:  # NumPy 1 has other type promotion rules
            raise ImportError("NumPy 2.0 or later is needed")
        own: dict[str, Any] = {short: getattr(numpy, long) for short, long in _SHORT.items()}
        own["TRUE"], own["FALSE"] = numpy.bool_(True), numpy.bool_(False)
        own["UNSIGNED"] = {width: own[f"u{width}"] for width in (1, 2, 4, 8)}
        own["WRITTEN"] = {width: own[f"u{width}"](int("01" * width, 16)) for width in (1, 2, 4, 8)}
        own["LANE"] = numpy.arange(32)
        own["NAN_64"] = numpy.uint64(0x7FF8000000000000).view(numpy.float64)
        self.__dict__.update({**vars(numpy), **own})
        return self.__dict__[name]


def _import_elsewhere() -> None:
    """Import NumPy in another thread, because an interrupt during the import would make it unusable in this process.

    Signal handlers run in the main thread, which only waits here.
    """
    if "numpy" in sys.modules:
        return
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            import numpy  # noqa: F401
        except Exception:  # the caller imports NumPy again, which raises it
            pass
        finally:
            done.release()

    try:
        _thread.start_new_thread(work, ())
    except RuntimeError:  # no thread can start: the interpreter ends, or is in a browser
        return
    done.acquire()


np: Any = LateNumPy()
