"""C callbacks implemented in Python: one that may be called while an exception is pending, and one that may raise.

Why so       ctypes supports neither. C code drops objects while an exception is set: numpy.from_dlpack(x)[10**9] does.
             The dropped object may be a capsule or a tensor of ours, whose destructor is a callback. ctypes would enter
             Python with the exception set, and lose it: the user would see "SystemError: error return without
             exception set".
How          No Python code may run while an exception is set, nor between saving and restoring it: not even the first
             instruction of a function, where a signal handler may raise. So ctypes calls an iterator, all of whose
             steps are in C:
             1. In its class `__call__` is a property, which is next(): a call asks for the next item and calls it.
             2. Items are next(pending, function): our function, unless the iterator `pending` has an item. Usually it
                has none, and nothing else happens.
             3. `pending` begins with an object whose slot for "next" is a function of the C API that takes the
                exception away (before 3.12 it only returns it, and another function takes it). If no exception is set,
                it returns null, which ends an iterator; the next call starts again. CPython does not check after a
                slot, unlike after a call, whether an exception is set, so a slot can be the first to look.
             4. A map makes a partial of a class from the exception. Called with the argument, that returns an instance,
                which is a partial again and holds both.
             5. The callback is declared to return a bool, so ctypes asks whether the instance is true. The class
                answers by a slot that calls the instance, and that call, partial's own, sets the exception again.
             6. ctypes drops the instance. Our function runs in its __del__; CPython saves a pending exception during
                any __del__, and reports an exception raised inside.
To raise     Exceptions in a callback are reported and lost. But ctypes drops the function's result after converting it
             to a C int, so `raising` returns an int whose finalizer (a slot again) sets the exception.
Not known    CPython 3.16 and later, free-threaded builds but 3.13, debug builds, and subinterpreters before 3.12:
             `available()` is False there, and dlpack.py uses no callback. Near the recursion limit, or if a signal
             handler raises, our function may be cut short, unless it may be called again.
Source       Python/C API Reference Manual: Exception Handling, Type Objects, PyCapsule_Destructor
Read next    dlpack.py
"""

from __future__ import annotations

import ctypes
import sys
from _operator import attrgetter
from itertools import repeat
from struct import Struct

from .covering import covered
from .cpython import address_of, bind, callbacks_return, immortal, partial, type_with_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = ["available", "callback", "raising"]

_NB_BOOL, _TP_ITER, _TP_ITERNEXT, _TP_FINALIZE = 9, 62, 63, 80  # Py_nb_bool and so on
_FLAGS = 1 << 18 | 1 << 10  # Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE
_SINCE_3_12 = sys.version_info >= (3, 12)
_kinds: dict[str, Any] = {}  # the types that are made once, for the first callback


def available() -> bool:
    """Tell whether this interpreter is known to work: a release build of CPython 3.9 to 3.15, or 3.13 without the GIL.

    Threads share the iterators below, none of which changes: a map has no state of its own, and repeat() has no end.
    In a subinterpreter, only Python 3.12 and later work.
    """
    return (
        sys.implementation.name == "cpython"
        and (3, 9) <= sys.version_info[:2] <= (3, 15)
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and not hasattr(sys, "gettotalrefcount")
        and (getattr(sys, "_is_gil_enabled", lambda: True)() or sys.version_info[:2] == (3, 13))
        and callbacks_return()
    )


def callback(function: Callable[[int | None], object], is_certain: bool = False) -> int:
    """Return the address of a C function that calls `function(argument)`, from any thread; it is never freed.

    Exceptions of `function` are reported to sys.unraisablehook, and its result is ignored.
    is_certain  whether the function is called again if an interrupt has cut it short: it must then do no harm if it was
                done already
    raises      NotImplementedError   not available() here
    """
    if not available():
        raise NotImplementedError("no callback that preserves exceptions is known for this interpreter")
    if "partial" not in _kinds:
        first = "PyErr_Occurred"
        if _SINCE_3_12:
            first = "PyErr_GetRaisedException"
        _kinds["pending"] = _kind(object, (_TP_ITER, "PyObject_SelfIter"), (_TP_ITERNEXT, first))
        _kinds["called"] = type("Called", (map,), {"__call__": property(next)})
        _kinds["partial"] = _kind(partial, (_NB_BOOL, "PyObject_CallNoArgs"))  # the last one: other threads look for it

    truth: Any = _kinds["partial"]

    if is_certain:
        function = _certain(function)

    def drop(self: Any) -> None:
        try:
            function(self.args[-1])
        except BaseException:
            if is_certain:
                function(self.args[-1])
            raise

    Served: Any = type("Served", (truth,), {"__del__": covered(drop)})  # type: ignore[arg-type]
    pending = (_pending_since_3_12 if _SINCE_3_12 else _pending_before_3_12)(Served, _kinds["pending"]())
    called = _kinds["called"](next, repeat(pending), repeat(function))
    # It is never freed: its memory would be reused for another callback, which C code would call with our argument.
    thunk = immortal(ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(called))
    return ctypes.cast(thunk, ctypes.c_void_p).value or 0


def _certain(function: Callable[[Any], object]) -> Any:
    """Return a function that calls a function again if an interrupt has cut it short, and a third time if need be."""

    def run(argument: Any) -> None:
        try:
            try:
                function(argument)
            except BaseException:
                function(argument)
                raise
        except BaseException:
            function(argument)
            raise

    return covered(run)  # type: ignore[arg-type]


def raising(result: Any, *parameters: Any) -> Callable[[Callable[..., int]], Any]:
    """Return a decorator that makes a C function from a Python function; if that raises, the C function returns -1.

    result, parameters   ctypes types; the result is an integer type
    returns              the ctypes function object, which is never freed
    raises               NotImplementedError   not available() here
    """
    if not available():
        raise NotImplementedError("no callback that may raise is known for this interpreter")
    if "int" not in _kinds:
        _kinds["int"] = _failure_kind()
    failure, set_error = _kinds["int"], bind("PyErr_SetObject", None, ctypes.py_object, ctypes.py_object)

    def make(function: Callable[..., int]) -> Any:
        def served(*arguments: Any) -> int:
            # The outer try statement is for a signal handler that raises in the handler of the inner one. The results
            # are not stored in variables: the error's traceback refers to this frame, which would delay the finalizer.
            try:
                try:
                    return function(*arguments)
                except BaseException as error:
                    return failure(partial(set_error, type(error), error))  # type: ignore[no-any-return]
            except BaseException as error:
                return failure(partial(set_error, type(error), error))  # type: ignore[no-any-return]

        whole: Any = covered(served)  # type: ignore[arg-type]
        return immortal(ctypes.CFUNCTYPE(result, *parameters)(whole))

    return make


def _failure_kind() -> Any:
    """Return the type of an int -1 that raises in its finalizer, which only C functions find and call."""
    base: Any = _kind(int, (_TP_FINALIZE, "PyObject_CallNoArgs"))

    class Failure(base):  # type: ignore[misc]
        def __new__(cls, put: Any) -> Any:
            made = base.__new__(cls, -1)
            made.put = put
            return made

        __call__ = property(attrgetter("put"))

    return Failure


def _kind(base: type, *answers: tuple[int, str]) -> Any:
    """Return a subclass whose slots are functions of the C API, without Python code in between."""
    slots = ((slot, address_of(name)) for slot, name in answers)
    return type_with_slots(f"{__name__}.Calling", base, _FLAGS, *slots)


def _pending_since_3_12(served: Any, first: Any) -> Any:
    put = bind("PyErr_SetRaisedException", None, _retained(ctypes.py_object), ctypes.py_object)
    return map(partial(partial, served, put), first)


def _pending_before_3_12(served: Any, first: Any) -> Any:
    # PyErr_Occurred returns the exception's type, without taking the exception. The reference is borrowed, but the
    # consumer of the item will drop it; `put` makes up for that. PyErr_Fetch, the second step, writes into three words
    # that all threads share. The check of its result, which ctypes calls as it does for an HRESULT, copies them first,
    # and nothing between the two can release the GIL: no bytecode, and no allocation that could start a garbage
    # collection. So it is next() over C iterators.
    words = (ctypes.c_void_p * 3)()
    copies = map(Struct("3P").unpack, iter(memoryview(words).tobytes, None))
    take = bind(
        "PyErr_Fetch", type("Copied", (ctypes._SimpleCData,), {"_type_": "b", "_check_retval_": partial(next, copies)})
    )
    take.argtypes = None  # converting arguments might fail because an exception is set
    taken = map(take, *[repeat(ctypes.byref(words, i * ctypes.sizeof(ctypes.c_void_p))) for i in range(3)])
    put = bind("PyErr_Restore", None, _retained(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p)
    # called (type, (type, value, traceback), argument); the first is there for the garbage collector to see, and C
    # gets (put, (...))
    instead = type("Instead", (), {"from_param": partial(next, repeat(ctypes.py_object(put)))})
    call = bind("PyObject_CallObject", ctypes.py_object, instead, ctypes.py_object, ctypes.py_object)
    return map(partial(partial, served, call), first, taken)


def _retained(kind: Any) -> Any:
    """Return an argument type for objects that the C function keeps: it adds a reference."""
    own = bind("PyObject_SelfIter", type("Own", (ctypes.c_void_p,), {}), kind)
    return type("Retained", (), {"from_param": own})
