"""The functions of the runtime as C functions.

What it is   `open_runtime`, which returns the addresses of the C functions of one major version; and `lacks`, which
             tells which of them are not emulated.
How          a function that is a call of the driver gets its arguments converted by their types: the address of a
             kernel's stand-in becomes a kernel, and a structure of the runtime one of the driver. In a form _ptsz or
             _ptds, stream NULL is the per-thread default stream in all calls of the driver.
Read next    impersonating/stand_in_libraries.py
"""

from __future__ import annotations

import ctypes

from ...interpreter.covering import covered
from ..interface.thunks import keep_for_ever
from ..machine.codes import NOT_SUPPORTED, Refused
from ..machine.recovery import answer
from ..machine.space import say
from . import (  # noqa: F401  # they declare their functions
    runtime_arrays,
    runtime_copies,
    runtime_devices,
    runtime_graphs,
    runtime_launches,
    runtime_memory,
    runtime_streams,
)
from .code import kernel_of
from .runtime_graphs import node_of
from .runtime_table import functions
from .state import BODIES, Body, Runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .. import Emulator
    from .runtime_table import Function, Parameter

    Convert = Callable[[Runtime, int], Any]

__all__ = ["lacks", "open_runtime"]

_LEGACY, _PER_THREAD = 0, 2  # what stream NULL means, the latter in a form _ptsz or _ptds


def lacks(major: int, name: str) -> bool:
    """Tell whether a version exports a function that is not emulated."""
    function = functions(major)[name]
    return function is None or _body_of(function) is None


def open_runtime(emulator: Emulator, major: int) -> Callable[[str], int | None]:
    """Return a function that returns the address of the C function of a name."""
    state = Runtime(emulator._machine, major)
    known = functions(major)

    def answers(name: str) -> int | None:
        function = known[name]
        if function is None:
            prototype, body, of_thread = ctypes.CFUNCTYPE(ctypes.c_int), _lacking(name), False
        else:
            body, of_thread = _body_of(function) or _lacking(name), name != function.name
            prototype = function.prototype()
        made = prototype(_wrapped(state, name, body, of_thread))
        keep_for_ever(made)
        return ctypes.cast(made, ctypes.c_void_p).value

    return answers


def _body_of(function: Function) -> Body | None:
    return BODIES.get(function.name) or _passed_on(function)


def _lacking(name: str) -> Body:
    """Return the body of a function that is not emulated."""
    report = "the emulated CUDA runtime does not have this function"
    told: list[str] = []

    def refuse(state: Runtime, *arguments: Any) -> int:
        if not told and state.machine.aloud:
            told.append(report)
            say(f"{name} returned {NOT_SUPPORTED}: {report}")
        raise Refused(NOT_SUPPORTED, report)

    return Body(refuse, False, True)


def _wrapped(state: Runtime, name: str, body: Body, of_thread: bool) -> Callable[..., int]:
    """Wrap a function so that it always returns a code, and records it as the last error of the thread.

    recovery.py finds calls in progress by the name `call_entry` and the names of its variables.
    """
    machine, function, null = state.machine, body.function, _PER_THREAD if of_thread else _LEGACY

    def call_entry(*arguments: Any, free: bool = True) -> int:
        try:
            thread = machine.thread()
            before = thread.null  # of the call, if any, in which a __del__ or a signal handler makes this one
            try:
                thread.null = null
                if body.context:
                    state.enter()
                code = function(state, *arguments) or 0
            finally:
                thread.null = before
            if code and body.records:
                state.thread().error = code
            return code
        except BaseException as caught:
            code = answer(machine, name, caught)
            if body.records:
                state.thread().error = code
            return code

    return covered(call_entry)  # type: ignore[arg-type]


# -- functions that are a call of the driver


def _kernel(state: Runtime, value: int) -> Any:
    return kernel_of(state, value)


def _converter(parameter: Parameter) -> Convert | None:
    if parameter.c_type == "const void *" and parameter.name == "func":
        return _kernel
    if parameter.c_type == "const cudaKernelNodeParams *":
        return node_of
    return None


def _passed_on(function: Function) -> Body | None:
    """Return the body of a function that is a call of the driver, or None if it is not."""
    driver = function.driver
    if not driver:
        return None
    converters = [(at, _converter(parameter)) for at, parameter in enumerate(function.parameters)]
    needed = [(at, convert) for at, convert in converters if convert is not None]

    def pass_on(state: Runtime, *arguments: Any) -> int:
        given: list[Any] = list(arguments)
        for at, convert in needed:
            given[at] = convert(state, given[at])
        return state.call(driver, *given)

    def initialize_and_pass_on(state: Runtime, *arguments: Any) -> int:
        state.initialize()
        return pass_on(state, *arguments)

    needs_context = not driver.startswith("cuDevice")
    return Body(pass_on if needs_context else initialize_and_pass_on, needs_context, True)
