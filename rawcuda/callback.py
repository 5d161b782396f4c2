"""C callbacks that Python serves: one that may be called while an exception is on its way, and one that may raise.

Why so       ctypes itself can do neither. C code drops objects with an exception set: numpy.from_dlpack(x)[10**9] does. What is dropped then may be a
             capsule or a tensor of ours, whose destructor is a callback. ctypes would enter Python with the exception set,
             and lose it: the user would see "SystemError: error return without exception set".
How          no Python code may run between putting the exception aside and putting it back, so the callback is a chain of
             C functions that ctypes and functools.partial tie together:
             1. ctypes calls "take", a ctypes function itself: the C API's own way to take the pending exception away.
             2. Its errcheck is a class, called from C: the instance, a partial, keeps the exception and the argument.
             3. The callback is declared to return a bool, so ctypes asks whether the instance is true. The class answers
                by a slot that calls the instance, and that call, partial's own, sets the exception again.
             4. ctypes drops the instance. Its __del__ is where our function runs; CPython puts a pending exception aside
                for the length of any __del__, and reports what is raised inside.
To raise     a callback's exceptions are reported and lost. But ctypes drops what the function returned after it has made a C
             int of it, so an int whose death calls it (by a slot, once more) can raise then: `raising`.
Not known    CPython 3.14 and later, free-threaded and debug builds: `available()` is False there, and dlpack.py does without.
             Near the recursion limit, or under a signal handler that raises, our function may be cut short.
Source       Python/C API Reference Manual: Exception Handling, PyType_FromSpec, PyCapsule_Destructor
Read next    dlpack.py
"""
from __future__ import annotations

import ctypes
import sys
from functools import partial
from operator import attrgetter
from struct import Struct

from .cpython import address_of, bind, immortal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = ["available", "callback", "raising"]

_NB_BOOL, _TP_FINALIZE = 9, 80                           # Py_nb_bool, Py_tp_finalize
_FLAGS = 1 << 18 | 1 << 10                               # Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE
_kinds: dict[str, Any] = {}                            # what is made once, when the first callback is


def available() -> bool:
    """Tell whether this interpreter is one on which the chain was seen to hold: a release build of CPython 3.9 to 3.13."""
    return (sys.implementation.name == "cpython" and (3, 9) <= sys.version_info[:2] <= (3, 13)
            and ctypes.sizeof(ctypes.c_void_p) == 8 and not hasattr(sys, "gettotalrefcount")
            and getattr(sys, "_is_gil_enabled", lambda: True)())


def callback(function: "Callable[[int | None], object]") -> int:
    """Return the address of a C function that calls `function(argument)`, from any thread; it exists for good.

    What `function` raises is reported to sys.unraisablehook.
    raises  NotImplementedError   not available() here
    """
    if not available():
        raise NotImplementedError("no callback that preserves exceptions is known for this interpreter")
    if "partial" not in _kinds:
        _kinds["partial"] = _kind_that_calls_itself(partial, _NB_BOOL)

    truth: Any = _kinds["partial"]

    class Served(truth):                                 # type: ignore[misc]
        def __del__(self, function: Any = function) -> None:
            function(self.args[-1][-1])                  # the last thing errcheck is given: the callback's arguments

    take = _take_since_3_12(Served) if sys.version_info >= (3, 12) else _take_before_3_12(Served)
    # Freed, its memory would serve another callback, which C code would then call with our argument: never free it.
    thunk = immortal(ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(take))
    return ctypes.cast(thunk, ctypes.c_void_p).value or 0


def raising(result: Any, *parameters: Any) -> Callable[[Callable[..., int]], Any]:
    """Return a decorator: it makes a C function of a Python one, which may raise; then the C function returns -1.

    result, parameters   ctypes types; the result is an integer type
    returns              the ctypes function object, which exists for good
    raises               NotImplementedError   not available() here
    """
    if not available():
        raise NotImplementedError("no callback that may raise is known for this interpreter")
    if "int" not in _kinds:
        _kinds["int"] = _failure_kind()
    failure, set_error = _kinds["int"], bind("PyErr_SetObject", None, ctypes.py_object, ctypes.py_object)

    def make(function: Callable[..., int]) -> Any:
        def served(*arguments: Any) -> int:
            try:
                return function(*arguments)
            except BaseException as error:
                # Not kept in a variable: the error's traceback holds this frame, and so would keep it from dying at once.
                return failure(partial(set_error, type(error), error))  # type: ignore[no-any-return]

        return immortal(ctypes.CFUNCTYPE(result, *parameters)(served))

    return make


def _failure_kind() -> Any:
    """Make the int -1 that raises when it dies: what it is called with is found and called by C functions alone."""
    base: Any = _kind_that_calls_itself(int, _TP_FINALIZE)

    class Failure(base):                                 # type: ignore[misc]
        def __new__(cls, put: Any) -> Any:
            made = base.__new__(cls, -1)
            made.put = put
            return made

        __call__ = property(attrgetter("put"))

    return Failure


def _kind_that_calls_itself(base: type, slot: int) -> Any:
    """Make a subclass that answers a slot by calling itself, without Python code in between."""
    class Slot(ctypes.Structure):                        # PyType_Slot
        _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]

    class Spec(ctypes.Structure):                        # PyType_Spec
        _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int),
                    ("flags", ctypes.c_uint), ("slots", ctypes.POINTER(Slot))]

    slots = (Slot * 2)(Slot(slot, address_of("PyObject_CallNoArgs")), Slot(0, None))
    spec = Spec(f"{__name__}.Calling".encode(), 0, 0, _FLAGS, slots)
    immortal((slots, spec))                              # some versions keep pointers into both
    return bind("PyType_FromSpecWithBases", ctypes.py_object, ctypes.POINTER(Spec), ctypes.py_object)(spec, (base,))


def _take_since_3_12(served: Any) -> Any:
    put = bind("PyErr_SetRaisedException", None, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    # Without argument types: it is called with an exception set, and converting arguments could fail for that alone.
    take = bind("PyErr_GetRaisedException", ctypes.c_void_p)
    take.argtypes = None
    take.errcheck = partial(served, put)                 # errcheck(exception, take, arguments) -> served(put, ...)
    return take


def _take_before_3_12(served: Any) -> Any:
    put = bind("PyErr_Restore", None, *[ctypes.c_void_p] * 3)
    # called (put, (type, value, traceback), take, arguments): the C function has two parameters and ignores the rest
    call = bind("PyObject_CallObject", ctypes.py_object, *[ctypes.py_object] * 4)
    # PyErr_Fetch writes into three words that all threads share. The conversion of its result copies them first thing,
    # and nothing between the two can hand over the GIL: no bytecode, and no allocation that could start a collection.
    # So: next() over C iterators; calling a partial or a ctypes function there would make a tuple.
    words = (ctypes.c_void_p * 3)()
    copies = iter(memoryview(words).tobytes, None)
    take = bind("PyErr_Fetch", None)
    take.argtypes, take.restype = None, partial(next, map(Struct("3P").unpack, copies))
    take.errcheck = partial(served, call, put)
    size = ctypes.sizeof(ctypes.c_void_p)
    return partial(take, *[ctypes.byref(words, i * size) for i in range(3)])
