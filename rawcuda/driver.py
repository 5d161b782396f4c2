"""The driver: loading it, binding its functions on first use, checking every result, informing the listeners.

What it is   `Driver`, whose attributes are the cu* functions: they take C arguments and raise CudaError.
What not     it owns no handle, pushes no context and imports no emulator: it is given a library, any object with
             a method address(symbol) -> int or None.
Source       CUDA Driver API, "Error Handling", "Initialization", "Version Management"
Read next    errors.py, ownership.py, gpu/core/context.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import ctypes
import os
import sys
import time
from _weakref import ref
from collections import deque
from functools import cached_property
from keyword import iskeyword

from . import locate, tracing
from .errors import (
    ContextLost,
    CudaError,
    DriverNotFound,
    ForkedAfterInit,
    InvalidUse,
    SymbolNotFound,
    from_code,
    worded,
)
from .headers import cuda_h
from .headers.status import NO_DEVICE, NOT_PERMITTED, NOT_READY, SUCCESS
from .interpreter.cpython import IS_NARROW, as_argument, converting, free_after_fork, in_subinterpreter, watch_forks
from .locate import SharedLibrary
from .ownership import calling, forked, is_serving, note_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn, Protocol

    from .headers.calls import Calls

    Answer = tuple[tuple[Any], ctypes.c_uint64]
else:
    Calls = Protocol = object  # bases; importing typing takes milliseconds

__all__ = [
    "Driver",
    "InUse",
    "Library",
    "SharedLibrary",
    "use",
    "current",
    "dotted",
    "chosen_library",
    "is_emulator",
    "is_loaded",
    "show",
    "as_argument",
    "keep_answer",
    "new_answer",
    "take_answer",
]

_QUERIES = ("cuStreamQuery", "cuStreamQuery_ptsz", "cuEventQuery")  # for these NOT_READY is not an error


def dotted(version: int) -> str:
    """Return a version of CUDA as text: "12.4" for 12040."""
    return f"{version // 1000}.{version % 1000 // 10}"


_C: Any = ctypes  # (the types of ctypes leave these names out)


class _Prepared(_C._CFuncPtr):  # type: ignore[misc]
    """A C function without argument types, for calls whose arguments are all prepared; its result is an int.

    ctypes converts a result without a type as a C int, in 15 ns less than one of the type c_int.
    """

    _flags_ = _C._FUNCFLAG_CDECL


class _Brief(_C._CFuncPtr):  # type: ignore[misc]
    """The same for a call that keeps the interpreter's lock."""

    _flags_ = _C._FUNCFLAG_CDECL | _C._FUNCFLAG_PYTHONAPI


def show(value: Any) -> str:
    """Return a C argument as text for errors and traces; for a pointer to a number or handle, the text of that."""
    inside = getattr(value, "_obj", None)  # the object that byref() was called with
    if inside is not None:
        return "&" + show(inside)
    if isinstance(value, (ctypes.Structure, ctypes.Union, ctypes.Array)):
        return type(value).__name__
    if isinstance(value, ctypes.c_void_p):
        return f"{type(value).__name__}({value.value or 0:#x})"
    if isinstance(value, ctypes._SimpleCData):
        return show(value.value)
    if isinstance(value, (bytes, bytearray, str)) and len(value) > 40:
        return f"<{type(value).__name__} of {len(value)}>"
    if type(value) is int and value > 0xFFFFFFFF:
        return hex(value)  # an address, most likely
    return worded(value, 80)


class NoRoom(RecursionError):
    """A call that was not made, because too little of Python's stack is free."""


class Driver(Calls):
    """A loaded driver: each cu* function is an attribute, bound to its symbol on first use.

    A bound function takes the C arguments of its line in cuda_h.prototypes(), also by their names. It raises CudaError
    or, before calling the driver, a TypeError or ValueError with the parameter's name. It returns None, but
    cuStreamQuery and cuEventQuery return whether all work is done. driver["cuMemAlloc"] is the old ABI of that name.
    The other names of cuda.h are attributes, too: constants, enumerations (IntEnum), handles and structures (ctypes).
    """

    def __init__(self, library: Library) -> None:
        self.libcuda = library
        self._names: dict[int, tuple[str, str]] = {}
        self._exact: dict[str, Callable[..., bool | None]] = {}
        self._raw: dict[str, Any] = {}

    @property
    def forked(self) -> bool:
        """Tell whether this is a child of fork(), in which the driver cannot be used."""
        return bool(forked)

    # -- binding

    def address(self, symbol: str) -> int:
        """Return the address of a function; raises SymbolNotFound."""
        address = self.libcuda.address(symbol)
        if address:
            return address
        since = cuda_h.prototypes()[symbol].since
        loaded = self.version
        words, added = f"CUDA {dotted(loaded)}", f"CUDA {since[0]}.{since[1]}"
        if since[0] * 1000 + since[1] * 10 > loaded:
            text = f"the loaded driver is of {words} and lacks it; it was added in {added}: update the driver, or do "
            text += "without it"
        else:
            text = f"{self!r} lacks it, although it is of {words}, and {added} added it: the command doctor shows what "
            text += "a driver lacks"
        raise SymbolNotFound(
            f"{symbol}: {text}",
            symbol=symbol,
            since=since,
            driver_version=loaded,
        )

    def has(self, symbol: str) -> bool:
        """Tell whether the loaded driver exports a symbol."""
        return bool(self.libcuda.address(symbol))

    def raw(self, symbol: str, *kinds: Any) -> Any:
        """Bind a function without checks, for hot paths.

        kinds  the ctypes types of the first arguments; the others must be ctypes objects (an int would be truncated)
        """
        function: Any = None if kinds else self._raw.get(symbol)
        if function is None:
            function = (ctypes.CFUNCTYPE(ctypes.c_int, *kinds) if kinds else _Prepared)(self.address(symbol))
            function.symbol = symbol
            if not kinds:
                self._convert(function)
            if symbol != "cuCtxPopCurrent_v2":  # its push was guarded; an interrupt must find no Python code before it
                function = self._guarded(function)
            if not kinds:
                self._raw[symbol] = function
        return function

    def brief(self, symbol: str) -> Any:
        """Bind a function like raw(), for calls that do not release the GIL: they are 30 ns faster, of 110.

        It must only access variables of the calling thread, so that it cannot wait for another thread. It is not
        guarded: near the recursion limit it may do nothing, and the call that it is made for raises.
        """
        function: Any = _Brief(self.address(symbol))
        function.symbol = symbol
        self._convert(function)
        return function

    def _guarded(self, function: Any) -> Any:
        """Return a C function; one of the emulator is called only if Python's stack has room for its code.

        Otherwise, ctypes could not enter that code, and the caller would read an undefined result: 0, which is success.
        """
        room = getattr(self.libcuda, "room", 0)
        if not room:
            return function

        def guarded(*arguments: Any) -> Any:
            try:
                sys._getframe(max(sys.getrecursionlimit() - room, 0))
            except ValueError:  # the stack is not that deep
                return function(*arguments)
            raise NoRoom(f"maximum recursion depth exceeded: the emulated driver needs {room} more calls")

        vars(guarded).update(vars(function))
        return guarded

    def _convert(self, function: Any) -> None:
        """Give a function argument types where prepared arguments are only numbers."""
        if IS_NARROW:
            prototype = cuda_h.prototypes().get(function.symbol)
        else:
            prototype = None
        if prototype is not None:
            function.argtypes = tuple(map(converting, prototype.machine_types))

    @cached_property
    def ask_current(self) -> Any:
        """Return the function that tells which context is current in this thread."""
        return self.brief("cuCtxGetCurrent")

    @cached_property
    def exchange_mode(self) -> Any:
        """Return the function that exchanges the capture mode of this thread."""
        return self.brief("cuThreadExchangeStreamCaptureMode")

    def current_context(self) -> int | None:
        """Return the handle of the context that is current in this thread, or None.

        calls   cuCtxGetCurrent
        """
        if not tracing.careful:
            try:
                mine = take_answer()
            except IndexError:
                mine = new_answer()
            into, answer = mine
            code, handle = self.ask_current(*into), answer.value
            keep_answer(mine)
            if not code:
                return handle or None
        now = cuda_h.CUcontext()
        self.cuCtxGetCurrent(ctypes.byref(now))
        return now.value  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        found = _of_header(name)
        if found is None:
            _require(name)
            found = self[name]
        self.__dict__[name] = found
        return found

    def __getitem__(self, symbol: str) -> Callable[..., bool | None]:
        """Return a function by its exported name; this includes old ABIs, such as the cuMemAlloc of 32-bit addresses.

        raises  KeyError  a name that is not in the table
        """
        function = self._exact.get(symbol)
        if function is None:
            function = self._exact.setdefault(symbol, self._bind(symbol))
        return function

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_callable(), *_header_names()})

    def _bind(self, name: str) -> Callable[..., bool | None]:
        prototype = cuda_h.prototypes()[name]
        names = [parameter for parameter, _ in prototype.parameters]
        converters = [kind.from_param for _, kind in prototype.parameters]
        function = self._guarded(_Prepared(self.address(name)))
        count, is_query, listeners, careful, driver = (
            len(names),
            name in _QUERIES,
            tracing.listeners,
            tracing.careful,
            self,
        )

        def call(*arguments: Any, **named: Any) -> bool | None:
            if named:
                arguments = _in_order(name, names, arguments, named)
            if len(arguments) != count:  # C would accept any number, and read missing arguments from the stack
                raise TypeError(f"{name}() takes {count} arguments ({', '.join(names)}), not {len(arguments)}")
            if careful:
                driver.check_thread(name)
            if listeners:
                start = time.perf_counter_ns()
            else:
                start = 0
            # ctypes would do this, too, but turn what a signal handler raises meanwhile into an ArgumentError
            values: list[Any] = []
            for convert, argument in zip(converters, arguments):
                try:
                    values.append(convert(argument))
                except (TypeError, ValueError, OverflowError) as error:
                    _refuse_argument(error, name, names[len(values)])
            code = function(*values)
            if start:
                driver.tell(name, names, arguments, code, start, time.perf_counter_ns() - start)
            if is_query and code in (SUCCESS, NOT_READY):
                return bool(code == SUCCESS)
            if code:
                raise driver.error(code, name, names, arguments)
            return None

        return _described(call, name)  # type: ignore[no-any-return]

    # -- checking

    def describe(self, code: int) -> tuple[str, str]:
        """Return the name and text of a CUresult, from the driver or else from the header."""
        if code not in self._names:
            found = []
            for symbol in ("cuGetErrorName", "cuGetErrorString"):
                address, text = self.libcuda.address(symbol), ctypes.c_char_p()
                if address:
                    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(address)(code, ctypes.byref(text))
                found.append((text.value or b"").decode("utf-8", "replace"))
            name = found[0] or cuda_h.results().get(code, "CUDA_ERROR")
            self._names[code] = name, found[1] or "no text"
        return self._names[code]

    def error(
        self, code: int, name: str, parameters: list[str], arguments: tuple[Any, ...], detail: str = ""
    ) -> CudaError:
        """Return the exception for a failed call, including the emulator's report if there is one."""
        if self.forked:
            self.refuse_forked(name)
        explain = getattr(self.libcuda, "explain", None)
        if explain is not None:
            report = explain(code)
        else:
            report = None
        shown = [f"{parameter}={show(value)}" for parameter, value in zip(parameters, arguments)]
        words, private = (code, *self.describe(code)), hasattr(self.libcuda, "live_handles")
        first = getattr(report, "origin", None)
        made = from_code(*words, name, shown, detail, private=private, report=report, earlier=first is not None)
        if first is not None:
            made.__cause__ = first()
        elif report is not None and hasattr(report, "origin"):
            report.origin = _kept(made)
        return made

    def unnoticed(self, error: BaseException) -> None:
        """Note that the program does not see an error: the next one for the same failure shows the whole report."""
        if isinstance(error, ContextLost):
            explain = getattr(self.libcuda, "explain", None)
            if explain is not None:
                report = explain(error.code)
            else:
                report = None
            first = getattr(report, "origin", None)
            if report is not None and first is not None and first() is error:
                report.origin = None

    def tell(
        self, name: str, parameters: list[str], arguments: tuple[Any, ...], code: int, began_ns: int, elapsed_ns: int
    ) -> None:
        """Report a call to the listeners."""
        if code == 0:
            result = "CUDA_SUCCESS"
        else:
            result = self.describe(code)[0]
        shown = {parameter: show(value) for parameter, value in zip(parameters, arguments)}
        tracing.emit(tracing.Call(name, shown, result, elapsed_ns, began_ns))

    def check_thread(self, name: str) -> None:
        """Refuse a call in a child of fork(), and in a host function, where not every driver refuses it.

        raises  ForkedAfterInit  in a child of fork()
                InvalidUse       in a function that a stream or a graph calls
        """
        if forked:
            self.refuse_forked(name)
        if is_serving():
            raise InvalidUse(
                f"{name}: CUDA_ERROR_NOT_PERMITTED (800): a host function may not call the driver, which could wait "
                "for the function for ever: let it tell another thread what to do, or queue the work behind it",
                code=NOT_PERMITTED,
                name="CUDA_ERROR_NOT_PERMITTED",
                call=name,
            )

    def refuse_forked(self, name: str) -> NoReturn:
        """Raise ForkedAfterInit for a call in a child of fork()."""
        raise ForkedAfterInit(
            f"{name}: this process was forked from one that had initialized CUDA, and the driver does not survive a "
            "fork: start children with multiprocessing's 'spawn' or 'forkserver', or fork before the first CUDA call"
        )

    # -- facts

    @property
    def version(self) -> int:
        """Return the CUDA version that the driver supports; 12040 means 12.4."""
        version, address = ctypes.c_int(), self.libcuda.address("cuDriverGetVersion")
        if address:
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)(ctypes.byref(version))
        return version.value

    def __repr__(self) -> str:
        return f"<driver {getattr(self.libcuda, 'path', type(self.libcuda).__name__)}>"


# The arguments of the call that asks which context is current, and its answer; those that no question uses now. Each
# question has its own: a signal handler or a __del__ may ask between a call and the reading of its answer.
_answers: deque[Answer] = deque()  # (a list that gets empty gives its memory back, which takes twice as long)
take_answer, keep_answer = _answers.pop, _answers.append  # (to look the methods up takes 65 of 420 ns of a call)


def new_answer() -> Answer:
    """Return arguments for the call that asks which context is current, and where its answer will be."""
    answer = ctypes.c_uint64()
    return (ctypes.byref(answer),), answer


def _kept(error: CudaError) -> Callable[[], CudaError]:
    """Return a function that returns an exception, or an equal one if it is gone. It keeps no traceback alive."""
    found, kind, words, facts = ref(error), type(error), str(error), dict(vars(error))
    equal: list[CudaError] = []

    def get() -> CudaError:
        first = found()
        if first is not None:
            return first
        if not equal:
            equal.append(kind(words))
            vars(equal[0]).update(facts)
        return equal[0]

    return get


def _described(call: Any, name: str) -> Any:
    """Give a Python function the name, the documentation and the signature of a driver function, and return it."""
    prototype = cuda_h.prototypes()[name]
    call.__name__ = call.__qualname__ = name
    version = f"{prototype.since[0]}.{prototype.since[1]}"
    call.__doc__ = f"{prototype.line}\n\n{prototype.doc[0].upper()}{prototype.doc[1:]}.\n\nsince  CUDA {version}"
    call.__wrapped__ = _Parameters(name)
    return call


def _python_name(parameter: str) -> str:
    """Return the name of a parameter in Python: `from`, which is a keyword, becomes `from_`."""
    if iskeyword(parameter):
        return f"{parameter}_"
    return parameter


class _Parameters:
    """The parameters of a driver function: inspect.signature() follows __wrapped__, and asks this for __signature__."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def __signature__(self) -> Any:
        from inspect import Parameter, Signature

        texts = cuda_h.prototypes()[self._name].parameter_texts
        either = Parameter.POSITIONAL_OR_KEYWORD
        return Signature([Parameter(_python_name(name), either, annotation=text) for name, text in texts.items()])


def _in_order(name: str, names: list[str], arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call in the order of its parameters, including those that were given by name."""
    rest = names[len(arguments) :]
    keywords = {_python_name(each): each for each in names}
    named = {keywords.get(each, each): value for each, value in named.items()}
    for each in named:
        if each in names and each not in rest:
            raise TypeError(f"{name}() got two values for {each}")
        if each not in rest:
            raise TypeError(f"{name}() has no parameter {each}: its parameters are {', '.join(names) or 'none'}")
    lacking = [each for each in rest if each not in named]
    if lacking:
        raise TypeError(f"{name}() takes {len(names)} arguments ({', '.join(names)}): {', '.join(lacking)} is missing")
    return (*arguments, *(named[each] for each in rest))


def _of_header(name: str) -> Any:
    """Return what a name of cuda.h stands for: an int, an IntEnum or a ctypes type; None for functions and others."""
    if name.startswith("_") or name in cuda_h.prototypes():
        return None
    return cuda_h.HEADER.look_up(name)


def _header_names() -> list[str]:
    """Return the names of cuda.h that are not functions."""
    return cuda_h.HEADER.all_names({})


def _callable() -> list[str]:
    """Return the functions that are attributes: all but the old ABIs."""
    return [name for name, prototype in cuda_h.prototypes().items() if not prototype.old]


def _require(name: str) -> None:
    """Raise AttributeError for a name that is not a function, and for an old ABI, which is easily called by mistake."""
    prototype = None
    if name.startswith("cu"):
        prototype = cuda_h.prototypes().get(name)
    if prototype is None:
        ours = name.startswith(("cu", "CU"))
        raise AttributeError(f"{name}: {_near(name) if ours else 'the names of the driver begin with cu or CU'}")
    if prototype.old:
        raise AttributeError(
            f"{name}: an ABI of CUDA {prototype.since[0]}.{prototype.since[1]}, {prototype.doc}. Write the suffix, "
            f"which in C a #define adds; if you need the old ABI, use cu[{name!r}]"
        )


def _near(name: str) -> str:
    """Suggest names for a misspelled one, first those of functions whose suffix a #define in the header hides."""
    if name.startswith("cu"):
        known = _callable()
    else:
        known = _header_names()
    suffixed = [each for each in known if each.rpartition("_v")[0] == name]
    if suffixed:
        return f"libcuda exports it as {' and '.join(suffixed)}: write the suffix, which in C a #define adds"
    from difflib import get_close_matches

    near = get_close_matches(name, known, 3, 0.75)
    return (
        f"not in the table of {'driver functions' if name.startswith('cu') else 'cuda.h'}"
        + (f": did you mean {' or '.join(near)}?" if near else "")
        + cuda_h.HEADER.note
    )


def _refuse_argument(error: Exception, name: str, parameter: str) -> NoReturn:
    """Raise an error about an argument that names the call and the parameter."""
    text = str(error)
    if text.startswith("expected LP_"):  # ctypes: "expected LP_c_int instance instead of str"
        _, pointer, *_, given = text.split()
        text = f"takes a pointer: give ctypes.byref(x) for a {pointer[3:]} x, not {given}"
    if isinstance(error, TypeError):
        raise TypeError(f"{name}(): {parameter}: {text}") from None
    raise ValueError(f"{name}(): {parameter}: {text}") from None


# -- the one driver of this process

_lock = free_after_fork(_thread.RLock())  # garbage collection while it is held may re-enter
_chosen: Library | str | None = None
_current: Driver | None = None


class Library(Protocol):
    """An object that knows the addresses of the driver's functions: libcuda, the emulator, or your own."""

    def address(self, symbol: str) -> int | None:
        """Return the address of an exported symbol, or None."""


def use(driver: str | Library, **settings: Any) -> None:
    """Choose the driver, before the first call; choosing the one in use again does nothing.

        use("emulator", checkers=["racecheck", "initcheck"], strict=True)

    driver    "nvidia" (the default), "emulator", an absolute path, or a library object: any object with a method
              address(symbol) -> int | None
    settings  of the emulator: checkers, strict, mode, seed, devices, executor, timeout, keep_status and the others of
              emulator.Emulator. They win over the environment variable RAWCUDA_EMULATOR
    raises    RuntimeError  another driver is in use already, or the emulator with other settings; a subinterpreter
              ValueError    another name, a path that is not absolute, or a value that a setting cannot have
              TypeError     an object without the method address(), or settings that the emulator does not have
    """
    global _chosen
    _refuse_subinterpreter()
    if isinstance(driver, str) and driver == "emulator" and (_current is None or is_emulator(_current)):
        driver = _open_emulator(settings)
    elif settings and not (isinstance(driver, str) and driver == "emulator"):
        raise TypeError(f"use({worded(driver)}, {', '.join(settings)}=...): only 'emulator' has settings")
    with _lock:
        if _current is not None and (driver is _current.libcuda or isinstance(driver, str) and driver == _chosen):
            return
        if _current is not None:
            raise RuntimeError(f"{_current!r} is in use already: choose before the first call, or in another process")
        if isinstance(driver, str):
            if driver != "nvidia" and not os.path.isabs(driver):
                if "emulator" in driver:
                    more = "; settings are keywords: use('emulator', checkers=...)"
                else:
                    more = ""
                raise ValueError(
                    f"driver {worded(driver)}: give 'nvidia', 'emulator', an absolute path, or a library object{more}"
                )
        elif not callable(getattr(driver, "address", None)):
            raise TypeError(f"a library needs a method address(symbol); {type(driver).__name__} has none")
        _chosen = driver


def _open_emulator(settings: dict[str, Any]) -> Library:
    """Ask the package for its emulator, which this module does not import at its top."""
    from . import _open_emulator as opened

    return opened(settings)


def is_emulator(loaded: Driver) -> bool:
    """Tell whether this driver is the emulator."""
    return type(loaded.libcuda).__module__.startswith(f"{__package__}.emulator")


def is_loaded() -> bool:
    """Tell whether a driver is in use."""
    return _current is not None


def current() -> Driver:
    """Return the driver in use; the first call loads and initializes it.

    calls   cuInit
    raises  DriverNotFound  no driver could be loaded; the message lists each path that was tried
            CudaError       from cuInit, for instance because there is no device
    """
    if _current is not None:
        return _current
    watch_forks()  # before the lock: a child may be forked while another thread holds it
    with _lock:
        return _current or _start()


class InUse:
    """A proxy for the driver in use, which it loads when the first function is called."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # introspection (help, inspect) must not load a driver
            raise AttributeError(name)
        if _current is not None:
            return getattr(_current, name)
        found = _of_header(name)
        if found is not None:
            return found
        if name.startswith(("cu", "CU")):  # name completion reads attributes, and must not load one either
            _require(name)
            return _described(lambda *arguments, **named: getattr(current(), name)(*arguments, **named), name)
        return getattr(current(), name)

    def __getitem__(self, symbol: str) -> Any:
        return current()[symbol]

    def __dir__(self) -> list[str]:
        return sorted({*dir(Driver), *_callable(), *_header_names()})

    def __repr__(self) -> str:
        if _current is None:
            return "<driver, not loaded yet>"
        return repr(_current)


def _start() -> Driver:
    global _current
    driver = Driver(chosen_library())
    if not driver.has("cuInit"):
        raise DriverNotFound(f"{driver!r} is not a CUDA driver: it does not export cuInit")
    try:
        driver.cuInit(0)
    except CudaError as error:
        if error.code != NO_DEVICE:
            raise
        raise driver.error(error.code, "cuInit", ["Flags"], (0,), _why_no_gpu(driver)) from None
    watch_forks(note_fork)
    library: Any = driver.libcuda
    if hasattr(library, "is_calling"):  # only the emulator has this attribute
        calling[:] = [library.is_calling]
        library.watch_end()
    _current = _current or driver
    tracing.in_use[:] = (_current,)
    return _current


def chosen_library() -> Library:
    """Load the library of the driver that is chosen, without initializing it.

    raises  DriverNotFound  no driver could be loaded
            RuntimeError    this is a subinterpreter
    """
    _refuse_subinterpreter()
    if _chosen is not None and not isinstance(_chosen, str):
        return _chosen
    return _load(_chosen or _named_outside())


def _why_no_gpu(driver: Driver) -> str:
    """Return lines that say which driver was loaded, and what may hide the GPU from it."""
    version, path = driver.version, getattr(driver.libcuda, "path", "")
    if path:
        where = f" ({path})"
    else:
        where = ""
    lines = [f"A driver for CUDA {dotted(version)} was loaded, but it sees no GPU{where}."]
    lines += [f"{fact[0].upper()}{fact[1:]}." for fact in locate.hidden_gpus(real=bool(path))]
    if path:
        lines.append("To run without a GPU: use('emulator') before the first call, or RAWCUDA_DRIVER=emulator.")
    return "\n".join(lines)


def _named_outside() -> Library | str:
    """Return the driver that RAWCUDA_DRIVER names; like Python's own variables, -E and -I make it ignored."""
    if sys.flags.ignore_environment:
        name = ""
    else:
        name = os.environ.get("RAWCUDA_DRIVER", "")
    if name == "emulator":
        return _open_emulator({})
    if name and name != "nvidia" and not os.path.isabs(name):
        raise DriverNotFound(f"RAWCUDA_DRIVER is {name!r}: set it to 'nvidia', 'emulator' or an absolute path")
    return name or "nvidia"


def _load(which: Library | str) -> Library:
    if not isinstance(which, str):
        return which
    if which == "nvidia":
        places = locate.libcuda()
    else:
        places = [(which, "the path that was chosen")]
    tried = []
    for path, why in places:
        try:
            return SharedLibrary(path)
        except OSError as error:
            tried.append((path, why, str(error)))
    lines = "\n".join(f"  {path}  ({why}): {said}" for path, why, said in tried)
    remedy = locate.needs_glibc() or "Install NVIDIA's driver"
    raise DriverNotFound(
        f"no CUDA driver could be loaded. Tried:\n{lines}\n{remedy}, or run on the emulator instead: "
        f"use('emulator') before the first call, or the environment variable RAWCUDA_DRIVER=emulator",
        tried=tried,
    )


def _refuse_subinterpreter() -> None:
    """Refuse any interpreter but the main one: callbacks and exit handlers would run in the wrong one."""
    if in_subinterpreter():
        raise RuntimeError("this is a subinterpreter: the driver works in the main interpreter only")
