"""Driver calls whose arguments are prepared: the second of the ways to call the driver.

The ways     driver.cuX(...) converts and checks each argument (driver.py); primary.calls.cuX(...) takes prepared ones;
             driver.raw("cuX") is the C function alone, for launches and for questions about the current context.
What it is   `Calls`: `primary.calls.cuStreamQuery(stream)` makes a call in the context `primary`; `relaxed`, for a with
             block in which calls of this thread break no capture; `Explained`, which replaces the driver's error by
             one that says more.
How          To convert and check each argument costs a microsecond. Here every argument already is a ctypes object.
             Nothing else is left out: the context is made current where another one is, a trace reports the call, a
             child of fork() is refused, and a code that is an error becomes the driver's error.
Captures     While any thread captures a stream in the mode "global", some functions are refused in every thread, and
             the capture breaks. They are made in the relaxed mode, because none of them disturbs the captured work.
Source       CUDA Driver API, "Context Management", cuThreadExchangeStreamCaptureMode; headers/behaviour.py lists the
             functions
Read next    context.py, handles.py
"""

from __future__ import annotations

import ctypes
from collections import deque
from time import perf_counter_ns

from ... import tracing
from ...driver import keep_answer, new_answer, take_answer
from ...errors import CudaError, InvalidUse
from ...headers import behaviour, cuda_h
from ...headers.status import NOT_READY
from ...tracing import careful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Protocol

    from ...driver import Driver

    class Context(Protocol):
        """What Calls need of a context."""

        _handle: int | None

        def current(self) -> Any:
            """Return a context manager that makes it current."""

        def call_pushed(self, function: Any, arguments: tuple[Any, ...]) -> int:
            """Call a function in the context, which is not current, and return the code."""


__all__ = ["Calls", "Explained", "relaxed", "reworded", "report"]

_QUERIES = ("cuStreamQuery", "cuEventQuery")  # for these NOT_READY is not an error
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
# No source tells whether these are unsafe in a capture, as headers/behaviour.py calls that.
_MAYBE_UNSAFE = ("cuMemPoolDestroy", "cuTexObjectDestroy", "cuSurfObjectDestroy", "cuGreenCtxDestroy")


class Calls:
    """The driver's functions for prepared arguments, each bound on first use: calls.cuStreamQuery(stream).

    They return 0, or 600 for a query of work that is not done.

    context  is current during each call
    """

    def __init__(self, loaded: Driver, context: Context) -> None:
        self._driver, self._context = loaded, context

    def __getattr__(self, symbol: str) -> Callable[..., int]:
        if not symbol.startswith("cu"):
            raise AttributeError(symbol)
        prepared = self._prepare(self._driver.raw(symbol))
        if behaviour.of(symbol).capture == "unsafe" or symbol in _MAYBE_UNSAFE:
            prepared = self._prepare_relaxed(prepared)
        self.__dict__[symbol] = prepared
        return prepared

    def _prepare(self, function: Any) -> Callable[..., int]:
        ask, context, answer, call_carefully = self._driver.ask_current, self._context, self.answer, self.call_carefully

        def call(*arguments: Any) -> int:
            if careful:
                return call_carefully(function, arguments)
            try:  # context.is_current(), written out: its frame takes 40 of 450 ns
                mine = take_answer()
            except IndexError:
                mine = new_answer()
            into, now = mine
            elsewhere = ask(*into) or now.value != context._handle
            keep_answer(mine)
            if elsewhere:
                code = context.call_pushed(function, arguments)
            else:
                code = function(*arguments)
            if code:
                return answer(function, code, arguments)
            return 0

        return call

    def _prepare_relaxed(self, call: Callable[..., int]) -> Callable[..., int]:
        """Return a prepared call that is made in the relaxed mode: with `relaxed`, it would take 300 ns more."""
        loaded, exchange = self._driver, self._driver.exchange_mode
        modes: deque[Any] = deque()  # that no call uses now

        def relaxed_call(*arguments: Any) -> int:
            if careful:
                with relaxed(loaded):
                    return call(*arguments)
            try:
                mode = modes.pop()
            except IndexError:
                mode = _relaxed_mode()
            try:
                exchange(*mode)
                return call(*arguments)
            finally:
                try:
                    if mode[0]._obj.value != _RELAXED:  # that from before, unless an interrupt came before the exchange
                        exchange(*mode)
                except BaseException:  # before Python 3.11, an interrupt may come here before the exchange, too
                    if mode[0]._obj.value != _RELAXED:
                        exchange(*mode)
                    raise
                modes.append(mode)

        return relaxed_call

    def call_carefully(self, function: Any, arguments: tuple[Any, ...]) -> int:
        """Check the thread, make a call inside the context, and report it to the listeners."""
        self._driver.check_thread(function.symbol)
        with self._context.current():
            code = report(self._driver, function, arguments)
        if code:
            return self.answer(function, code, arguments)
        return 0

    def answer(self, function: Any, code: int, arguments: tuple[Any, ...]) -> int:
        """Return the code of a query, and raise the error for every other one."""
        if code == NOT_READY and function.symbol in _QUERIES:
            return code
        raise self.failed(function, code, arguments)

    def failed(self, function: Any, code: int, arguments: tuple[Any, ...]) -> CudaError:
        """Return the error for a call that returned this code; raises ForkedAfterInit in a child of fork()."""
        names, values = _shown(function, arguments)
        return self._driver.error(code, function.symbol, names, values)


class relaxed:  # noqa: N801 (it is used like a function)
    """Set this thread's capture mode to relaxed in a with block, and restore it at the end.

    It does not permit waiting for a stream that is captured, nor using an event that was recorded in it.
    calls   cuThreadExchangeStreamCaptureMode
    """

    __slots__ = ("_driver", "_mode")

    def __init__(self, loaded: Driver) -> None:
        self._driver, self._mode = loaded, _relaxed_mode()

    def __enter__(self) -> None:
        try:
            self._exchange()
        except BaseException:  # an interrupt may come after the exchange
            self.__exit__()
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            self._restore()
        except BaseException:  # an interrupt may come before the exchange
            self._restore()
            raise

    def _restore(self) -> None:
        if self._mode[0]._obj.value != _RELAXED:  # the mode from before
            self._exchange()

    def _exchange(self) -> None:
        if careful:
            report(self._driver, self._driver.exchange_mode, self._mode)
        else:
            self._driver.exchange_mode(*self._mode)


def _relaxed_mode() -> tuple[Any]:
    """Return the arguments of an exchange: the mode to set, in whose place the driver puts the earlier one."""
    return (ctypes.byref(ctypes.c_uint(_RELAXED)),)


def report(loaded: Driver, function: Any, arguments: tuple[Any, ...]) -> int:
    """Check the thread, call a function of Driver.raw(), report the call to the listeners, and return its code."""
    loaded.check_thread(function.symbol)
    began = perf_counter_ns()
    code: int = function(*arguments)
    elapsed = perf_counter_ns() - began
    if tracing.listeners:
        names, values = _shown(function, arguments)
        loaded.tell(function.symbol, names, values, code, began, elapsed)
    return code


def _shown(function: Any, arguments: tuple[Any, ...]) -> tuple[list[str], tuple[Any, ...]]:
    """Return a call's parameter names, and its arguments in the form that a checked call takes."""
    parameters = cuda_h.prototypes()[function.symbol].parameters
    values = []
    for (_, kind), argument in zip(parameters, arguments):
        inside = getattr(argument, "_obj", argument)
        if inside is None and argument is not None:  # made by as_argument(), or another type's from_param()
            number = _number_in(repr(argument))
            values.append(kind(number) if issubclass(kind, cuda_h.Handle) else number)
        elif isinstance(inside, ctypes.c_void_p):  # the C memory of a handle, or a pointer to it
            value = inside.value or 0
            values.append(kind(value) if inside is argument else ctypes.byref(ctypes.c_uint64(value)))
        else:
            values.append(inside)
    return [name for name, _ in parameters], tuple(values)


def _number_in(text: str) -> int:
    """Return the number in <cparam 'P' (0x7f00)> or <cparam 'I' (5)>: ctypes shows it in no other way."""
    digits = text.rpartition("' (")[2].rstrip(")>")
    if "nil" in digits:
        return 0
    return int(digits, 0)


def reworded(error: CudaError, message: str, kind: type[CudaError]) -> CudaError:
    """Return an error of this class for the same call and code, with a message that says more."""
    return kind(message, code=error.code, name=error.name, call=error.call, arguments=error.arguments)


class Explained:
    """A context manager that replaces the driver's error with this code by an InvalidUse that explains it."""

    __slots__ = ("_code", "_meaning")

    def __init__(self, code: int, meaning: str) -> None:
        self._code, self._meaning = code, meaning

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: Any, traceback: object) -> None:
        if isinstance(error, CudaError) and error.code == self._code:
            raise reworded(error, self._meaning, InvalidUse) from None
