"""The state of one libcudart: the errors and the device of each thread, and the code that the program has registered.

What it is   `Runtime`, with which every function of the runtime begins; and `runtime`, the decorator of those functions
             that are more than a call of the driver.
How          a function of the runtime calls the functions of the driver as a client would, but in Python. The primary
             context of the thread's device becomes current in the first call that needs a context. Each major version
             has its own state, as the libraries of NVIDIA do, and all share the primary contexts.
Source       CUDA Runtime API, "Error Handling", "Interactions with the CUDA Driver API"
Read next    code.py, serving.py
"""

from __future__ import annotations

import ctypes
import os
from weakref import WeakKeyDictionary

from ..interface.thunks import ENTRIES, is_again, wrapped
from ..machine.codes import CONTEXT_IS_DESTROYED, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, TypeVar

    from ..machine.machine import Machine, Thread
    from .code import Fatbin, Kernel, Variable

    F = TypeVar("F", bound=Callable[..., Optional[int]])

__all__ = ["BODIES", "Body", "Runtime", "RuntimeThread", "runtime"]

_MEMORY = ctypes.Array, ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_size_t  # not structures by value


class Body:
    """A function of the runtime in Python.

    function    gets the Runtime, then each parameter
    context     whether a context is necessary
    records     whether an error becomes the last error of the thread
    """

    __slots__ = ("function", "context", "records")

    def __init__(self, function: Callable[..., int | None], context: bool, records: bool) -> None:
        self.function, self.context, self.records = function, context, records


BODIES: dict[str, Body] = {}


def runtime(*names: str, context: bool = True, records: bool = True) -> Callable[[F], F]:
    """Declare that a Python function is the function of these names."""

    def declare(function: F) -> F:
        for name in names:
            if not is_again(BODIES.get(name), function):
                raise ValueError(f"{name} is declared twice")
            BODIES[name] = Body(function, context, records)
        return function

    return declare


class RuntimeThread:
    """The state of a thread: its device, its last error, and the launches that are configured and not yet made."""

    __slots__ = ("device", "error", "configurations")

    def __init__(self) -> None:
        self.device = 0
        self.error = 0
        self.configurations: list[tuple[Any, Any, int, int]] = []


class Runtime:
    """The state behind the functions of one major version of libcudart in this process."""

    def __init__(self, machine: Machine, major: int) -> None:
        self.machine, self.major = machine, major
        self.fatbins: dict[int, Fatbin] = {}  # by handle
        self.kernels: dict[int, Kernel] = {}  # by the address of the function on the host
        self.variables: dict[int, Variable] = {}  # by the address of the variable on the host
        self.begun = False  # whether the driver is initialized
        self._threads: WeakKeyDictionary[Thread, RuntimeThread] = WeakKeyDictionary()  # those that have not ended
        self._driver: dict[str, Callable[..., int]] = {}

    def thread(self) -> RuntimeThread:
        """Return the state of the calling thread."""
        thread = self.machine.thread()
        found = self._threads.get(thread)
        if found is None:
            found = self._threads.setdefault(thread, RuntimeThread())
        return found

    # -- the driver

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function of the driver, and return its code; memory among the arguments is passed by its address."""
        function = self._driver.get(name)
        if function is None:
            function = self._driver[name] = wrapped(self.machine, ENTRIES[name])
        return function(*(ctypes.addressof(each) if isinstance(each, _MEMORY) else each for each in arguments))

    def do(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        raises  Refused  it returned an error
        """
        code = self.call(name, *arguments)
        if code:
            raise Refused(code)

    def get(self, name: str, *arguments: Any, kind: Any = ctypes.c_uint64) -> int:
        """Call a function of the driver whose first parameter is a pointer to its result, and return the result."""
        word = kind()
        self.do(name, word, *arguments)
        return int(word.value)

    # -- devices and contexts

    def initialize(self) -> None:
        """Initialize the driver, or refuse a child of fork(), which may have copied a lock while it was held."""
        if not self.begun or self.machine.pid != os.getpid():
            self.do("cuInit", 0)
            self.begun = True

    def enter(self) -> None:
        """Make a context current in the calling thread, if none is, or if a reset has destroyed it."""
        self.initialize()
        stack = self.machine.thread().stack
        if not stack:
            self.use(self.thread().device)
        elif stack[-1].state == CONTEXT_IS_DESTROYED and stack[-1].primary:
            self.use(stack[-1].device.ordinal)

    def check_device(self, device: int) -> None:
        """Initialize the driver, and refuse the number of a device that does not exist."""
        self.initialize()
        self.machine.device(device)

    def retain(self, device: int) -> int:
        """Return the handle of a device's primary context, which is initialized."""
        held = self.machine.device(device)
        before = held.retained
        if not before or held.primary.state == CONTEXT_IS_DESTROYED:
            self.get("cuDevicePrimaryCtxRetain", device)
            if before:  # a reset has kept the number of retains
                self.do("cuDevicePrimaryCtxRelease_v2", device)
        return held.primary.handle

    def use(self, device: int) -> None:
        """Make the primary context of a device current."""
        self.do("cuCtxSetCurrent", self.retain(device))
        self.thread().device = device

    def device(self) -> int:
        """Return the number of the current device."""
        stack = self.machine.thread().stack
        if stack:
            return stack[-1].device.ordinal
        return self.thread().device
