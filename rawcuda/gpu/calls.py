"""Driver calls with prepared arguments: the fast calls, and sequences that no interrupt can divide.

What it is   `Calls`, through which all hot calls go: `primary.direct.cuStreamQuery(stream)`; `run`, which makes several
             calls as one step; `Scratch`, the C memory that they read and write; and `Explained`, for their errors.
How          A checked call (driver.py) converts and checks each argument, which costs a microsecond. Here every
             argument already is a ctypes object. The call is still traced, refused in a forked child, and answered with
             the driver's error.
             Python runs signal handlers only between bytecodes. `run` passes all calls to C functions (starmap,
             list.extend), so that KeyboardInterrupt is raised before the first call or after the last: no context stays
             pushed, and no capture mode stays changed.
Source       CUDA Driver API, "Context Management"; Python's documentation of signal, "Execution of Python signal
             handlers"
Read next    context.py, handles.py
"""

from __future__ import annotations

import ctypes
from functools import partial
from itertools import chain, starmap, tee
from time import perf_counter_ns

from .. import driver, tracing
from ..errors import CudaError, InvalidUse
from ..headers import cuda_h
from ..tracing import careful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable, Optional

    from .context import PrimaryContext

    Step = Any  # a tuple: a function of Driver.raw() and its arguments
    Around = Callable[[], Optional[PrimaryContext]]

__all__ = ["UNTRIED", "Calls", "Explained", "Scratch", "invoke", "refused", "run", "scratches", "take_scratch", "tell"]

_NOT_READY = 600
UNTRIED = -1  # instead of a code: the call was not made yet
_QUERIES = ("cuStreamQuery", "cuEventQuery")  # for these NOT_READY is not an error

invoke = ctypes.CFUNCTYPE(ctypes.c_int).__call__  # invoke(function, *arguments) is function(*arguments)
_call: Any = partial.__call__


class _Words(ctypes.Structure):
    _fields_ = [
        ("handle", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("status", ctypes.c_uint),
    ]


class Scratch:
    """C memory for one call at a time, and the arguments that refer to it.

    Take one from `scratches`, and append it again afterwards.

    words      handle, number, status
    to_handle  an argument: a pointer to words.handle; also to_number and to_status
    """

    __slots__ = ("words", "to_handle", "to_number", "to_status")

    def __init__(self) -> None:
        self.words = words = _Words()
        self.to_handle = ctypes.byref(words)
        self.to_number = ctypes.byref(words, _Words.number.offset)
        self.to_status = ctypes.byref(words, _Words.status.offset)


scratches: list[Scratch] = []  # list.pop and append are atomic: two threads never share one


def take_scratch() -> Scratch:
    """Return a Scratch for this thread alone; append it to `scratches` afterwards (a lost one is replaced)."""
    try:
        return scratches.pop()
    except IndexError:
        return Scratch()


def run(steps: Iterable[Step], context: PrimaryContext | None = None) -> list[int]:
    """Make these calls as one step, and return the code that each returned.

    steps    each a function of Driver.raw() and its arguments; an iterator made of C functions, so that no Python code
             runs in between
    context  pushed before the calls and popped after them; if the push fails, no other call is made
    raises   CudaError   the context cannot be pushed
    """
    codes: list[int] = []
    if careful:
        return _run_traced(steps, context)
    if context is None:
        codes.extend(starmap(invoke, steps))
        return codes
    push, pop = context.pushing
    inside = partial(codes.extend, starmap(invoke, chain(steps, (pop,))))
    failed = next(filter(None, map(_call, (context.push, inside))), 0)  # stops at the first code that is not 0
    if failed:
        raise refused(push, failed, context)
    return codes


def _run_inside(step: Step, context: PrimaryContext) -> int:
    """Make one call as run((step,), context) does without listeners, and return its code; saves 300 of 1,500 ns."""
    push, pop = context.pushing
    codes: list[int] = []
    inside = partial(codes.extend, starmap(invoke, (step, pop)))
    failed = next(filter(None, map(_call, (context.push, inside))), 0)
    if failed:
        raise refused(push, failed, context)
    return codes[0]


def _run_traced(steps: Iterable[Step], context: PrimaryContext | None) -> list[int]:
    """Do the same as run(), and report each call and its time to the listeners."""
    # A step is taken from `steps` when it is made, as in run(): an interrupt must not lose a step that was taken.
    taken, made = tee(steps if context is None else chain(steps, (context.pushing[1],)))
    clock = iter(perf_counter_ns, None)
    log: list[tuple[int, int, int, Step]] = []  # for each call: its start, its code, its end, the step
    inside: Any = partial(log.extend, zip(clock, starmap(invoke, taken), clock, made))
    began = perf_counter_ns()
    if context is None:
        inside()
    else:
        push = context.pushing[0]
        failed = next(filter(None, map(_call, (context.push, inside))), 0)
        if failed:
            raise refused(push, failed, context)
        _tell(push, 0, began, log[0][0] - 1)  # 1 ns less, so that a timeline shows separate calls
    for began, code, ended, step in log:
        _tell(step, code, began, ended)
    return [code for _, code, _, _ in log]


def _tell(step: Step, code: int, began_ns: int, ended_ns: int) -> None:
    if tracing.listeners:
        names, values = _shown(step)
        driver.current().tell(step[0].symbol, names, values, code, began_ns, ended_ns - began_ns)


def tell(step: Step, code: int, began_ns: int) -> None:
    """Report a call that was just made to the listeners."""
    _tell(step, code, began_ns, perf_counter_ns())


def refused(push: Step, code: int, context: PrimaryContext) -> CudaError:
    """Return the error for a context that could not be pushed; raises ForkedAfterInit in a child of fork()."""
    if context.driver.forked:
        context.driver.refuse_forked(push[0].symbol)
    return context.driver.error(code, push[0].symbol, *_shown(push))


def _shown(step: Step) -> tuple[list[str], tuple[Any, ...]]:
    """Return a call's parameter names, and its arguments in the form that a checked call takes."""
    parameters = cuda_h.prototypes()[step[0].symbol].parameters
    values = []
    for (_, kind), argument in zip(parameters, step[1:]):
        inside = getattr(argument, "_obj", argument)
        if inside is None and argument is not None:  # made by as_argument(), or another type's from_param()
            number = _number_in(repr(argument))
            values.append(kind(number) if issubclass(kind, cuda_h.Handle) else number)
        elif isinstance(inside, ctypes.c_void_p):  # a Lifetime: the handle, or a pointer to it
            value = inside.value or 0
            values.append(kind(value) if inside is argument else ctypes.byref(ctypes.c_uint64(value)))
        elif isinstance(inside, _Words):
            values.append(ctypes.byref(ctypes.c_uint64(inside.handle)))
        else:
            values.append(inside)
    return [name for name, _ in parameters], tuple(values)


def _number_in(text: str) -> int:
    """Return the number in <cparam 'P' (0x7f00)> or <cparam 'I' (5)>: ctypes shows it in no other way."""
    digits = text.rpartition("' (")[2].rstrip(")>")
    return 0 if "nil" in digits else int(digits, 0)


class Calls:
    """The driver's functions for prepared arguments, each bound on first use: calls.cuStreamQuery(stream).

    around  returns the context to push if a call fails because no context is current; None: do not retry
    inside  a context that must be current during each call
    """

    def __init__(self, loaded: driver.Driver, around: Around, inside: PrimaryContext | None = None) -> None:
        self._driver, self._around, self._inside = loaded, around, inside

    def __getattr__(self, symbol: str) -> Callable[..., int]:
        if not symbol.startswith("cu"):
            raise AttributeError(symbol)
        prepared = self._prepare(self._driver.raw(symbol))
        self.__dict__[symbol] = prepared
        return prepared

    def _prepare(self, function: Any) -> Callable[..., int]:
        inside, finish, current_context = self._inside, self.finish, self._driver.current_context
        context: Any = inside

        def call_directly(*arguments: Any) -> int:
            code: int = UNTRIED if careful else function(*arguments)
            return finish(function, code, arguments) if code else 0

        def call_inside(*arguments: Any) -> int:
            code: int = UNTRIED
            if not careful:
                if current_context() == context._handle:
                    code = function(*arguments)
                else:
                    code = _run_inside((function, *arguments), context)
            return finish(function, code, arguments) if code else 0

        return call_directly if inside is None else call_inside

    def finish(self, function: Any, code: int, arguments: tuple[Any, ...]) -> int:
        """Make a call that was not made yet, or that failed because no context was current.

        It returns the code of the call, or raises its error.

        code  what the call returned, or UNTRIED
        """
        loaded = self._driver
        if loaded.forked:
            loaded.refuse_forked(function.symbol)
        step = (function, *arguments)
        if code == UNTRIED:
            known = None if careful else self._inside
            code = run((step,), self._around())[0] if known is None else _run_inside(step, known)
        elif code in driver.WRONG_CONTEXT and self._inside is None:
            context = self._around()
            if context is not None:
                code = run((step,), context)[0]
        if code and not (code == _NOT_READY and function.symbol in _QUERIES):
            raise loaded.error(code, function.symbol, *_shown(step))
        return code


class Explained:
    """A context manager that replaces the driver's error with this code by an InvalidUse that explains it."""

    __slots__ = ("_code", "_meaning")

    def __init__(self, code: int, meaning: str) -> None:
        self._code, self._meaning = code, meaning

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: Any, traceback: object) -> None:
        if isinstance(error, CudaError) and error.code == self._code:
            raise InvalidUse(
                self._meaning,
                code=error.code,
                name=error.name,
                call=error.call,
                arguments=error.arguments,
            ) from None
