"""Every public function, method and property, with an exception at each line, and with each driver call that fails.

A call of public_calls.py is interrupted at one line after another, as by Ctrl-C; the next call must work, nothing may
stay pushed or changed, and at most one object for each interrupt may be left. Usually, a line that was reached from the
same line before is left out; --every-line leaves out none.

    python3 -m tests driver -- --every-call -k test_every_call

Other tests do not run in the same process: tests/reruns/test_pythons.py runs these on three Pythons.
"""

from __future__ import annotations

import gc
import inspect
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.driver.public_calls import GROUPS, LEFT_OUT, OBJECTS, OTHERS, calls_of, public_names
from tests.driver.test_interrupts import CALLED_BY_C, GONE, Injected, cleans_up, put_back, state
from tests.driver.test_wrong_objects import CASES, World
from tests.driver.test_wrong_objects import LEFT_OUT as NO_CASES
from tests.subject import FOLDER, module, rawcuda

# Of a call that was ended in the middle, the same; and a node that allocates memory cannot be taken out of its graph.
ENDED = *GONE, "cuGraphDestroyNode returned 801", "cuMemAddressFree returned 1", "cuMemFreeAsync returned 1"
pytestmark = [
    pytest.mark.counts_handles,
    pytest.mark.codes(*ENDED),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
owned = module("ownership")
PACKAGE = str(FOLDER) + os.sep
CHANGING = ("Graph", "Node", "Executable", "Condition", "Allocation", "Child")  # these need new objects for each call
CODES = (2, 801, 999)
KNOWN: set[Any] = set()


def outcome(call: Callable[[World], object], w: World) -> str:
    """Make a call; return the class of its error, or "": some calls are refused when they are made again."""
    try:
        call(w)
    except Exception as error:
        return type(error).__name__
    return ""


def handles(library: Any) -> int:
    """Count what is alive, after everything was released that nobody uses."""
    for device in rawcuda.devices():
        device.synchronize()
    gc.collect()
    owned.drain()
    for primary in module("gpu.core.context")._contexts.values():
        primary.forget()
    counts = {} if library is None else dict(library.live_handles())
    counts.pop("context", None)
    return sum(counts.values()) + len(module("dlpack").outstanding)


def each_call(group: str, library: Any) -> Iterator[tuple[str, Callable[[World], object], World, list[int]]]:
    """Yield each call with its name, a world and a list; afterwards, check what is left.

    The caller appends to the list how many handles may be left.
    """
    w, first = None, World()
    names = [*calls_of(group, first)]
    first.close()
    for name in names:
        if w is None:
            before, allowed, w = handles(library), [0], World()
        yield name, calls_of(group, w)[name], w, allowed
        if group.startswith(CHANGING) or name == names[-1]:
            w.close()
            w = None
            left = handles(library) - before
            assert left <= sum(allowed), f"{name} leaves {left} handles after {sum(allowed)} interrupts or failures"


def is_outside(frame: Any) -> bool:
    """Tell whether an exception does not get through a function: C calls it, which a real driver would do, too."""
    return frame.f_code.co_filename.startswith(CALLED_BY_C) or frame.f_code.co_name in (
        "__del__",
        "_dropped",
        "_deleted",
    )


def interrupted(call: Callable[[World], object], w: World, known: set[Any]) -> bool:
    """Make a call, and raise at the first line of the package that is not known; tell whether there was one."""
    hit = False

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal hit
        if not frame.f_code.co_filename.startswith(PACKAGE) or frame.f_code.co_filename.startswith(CALLED_BY_C):
            return None
        if event == "line" and not hit:
            above = frame.f_back
            key = frame.f_code, frame.f_lineno, above and (above.f_code, above.f_lineno)
            if key not in known and not cleans_up(frame):
                known.add(key)
                above = frame
                while above is not None and not is_outside(above):
                    above = above.f_back
                if above is None:
                    hit = True
                    sys.settrace(None)
                    raise Injected
        return trace

    was = sys.gettrace()
    sys.settrace(trace)
    try:
        call(w)
    except (Injected, Exception):
        pass
    finally:
        sys.settrace(was)
    return hit


@pytest.mark.parametrize("group", GROUPS)
def test_an_exception_at_each_line_of_every_call(library: Any, group: str, pytestconfig: Any, tmp_path: Any) -> None:
    os.chdir(tmp_path)
    was = state()
    for name, call, w, allowed in each_call(group, library):
        right = {outcome(call, w) for _ in range(3)}
        known: set[Any] = set() if pytestconfig.getoption("every_line") else KNOWN
        while interrupted(call, w, known):
            allowed.append(1)
            owned.drain()
            put_back(was)
            gc.collect(0)
            owned.drain()
            after = outcome(call, w)
            assert after in right, f"{name}: after an interrupt, the next call ends with {after}, not {right}"


@pytest.mark.emulator_only("only the emulator can make a call fail on purpose")
@pytest.mark.parametrize("group", GROUPS)
def test_every_call_while_a_driver_call_fails(library: Any, group: str, pytestconfig: Any, tmp_path: Any) -> None:
    os.chdir(tmp_path)
    was = state()
    for name, call, w, allowed in each_call(group, library):
        right = {outcome(call, w) for _ in range(3)}
        if name.endswith(".register"):
            right.add("InvalidUse")  # cuMemHostUnregister failed: the memory is still registered
        library.fail("*", 10**9)
        outcome(call, w)
        count = library.fail_no_more()
        step = 1 if pytestconfig.getoption("every_line") else 1 + count // 4
        for number in range(1, count + 1, step):
            code = CODES[number // step % len(CODES)]
            library.fail("*", number, code)
            try:
                call(w)
                error = None
            except Exception as caught:
                error = caught
            finally:
                library.fail_no_more()
            allowed.append(2)  # a release that fails leaves its handle, or memory and its addresses
            if error is not None and type(error).__name__ not in right:
                assert isinstance(error, (rawcuda.CudaError, rawcuda.ProtocolError)), f"{name}, {number}: {error!r}"
                assert getattr(error, "code", code) == code, f"{name}, {number}: {error!r}"
            error = None
            owned.drain()
            assert state() == was, f"{name}: call {number} leaves {state()}, was {was}"
            after = outcome(call, w)
            assert after in right, f"{name}: after call {number} failed, the next one ends with {after}, not {right}"


def test_every_public_name_is_called() -> None:
    """What takes parameters is in CASES, as another test checks."""
    missing = []
    for name in {*rawcuda.__all__, "range"} - {"cu", "NO_SYNC"}:
        thing = getattr(rawcuda, name)
        if not isinstance(thing, type):
            missing += [name] if name not in {**CASES, **OTHERS, **NO_CASES} else []
        elif not issubclass(thing, BaseException):
            assert name in OBJECTS, name
            found = public_names(thing)
            for part in dir(thing):
                method = inspect.getattr_static(thing, part)
                callable_here = isinstance(method, property) or inspect.isfunction(getattr(method, "__func__", method))
                if callable_here and not part.startswith("_") and part not in found:
                    cases = {**CASES, **NO_CASES, **LEFT_OUT}
                    inherited = name in ("VirtualMemory", "ManagedMemory") and f"Memory.{part}" in cases
                    missing += [f"{name}.{part}"] if f"{name}.{part}" not in cases and not inherited else []
    assert not missing, " ".join(sorted(missing))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
def test_real_signals_in_every_call(library: Any, pytestconfig: Any, tmp_path: Any) -> None:
    """A timer interrupts random calls; --signals says how often."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled in the main thread only")
    os.chdir(tmp_path)
    chance, was, caught = random.Random(7), state(), 0
    armed = False  # the system may give a signal to another thread, which runs later on a busy machine

    def handler(_: int, frame: Any) -> None:
        if not armed or frame is None or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        while frame is not None:
            if is_outside(frame):
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    try:
        while caught < pytestconfig.getoption("signals"):
            before, w, caught_before = handles(library), World(), caught
            groups = [group for group in GROUPS if not group.startswith(CHANGING)]
            made = [call for group in chance.sample(groups, 8) for call in calls_of(group, w).items()]
            if not made:
                continue
            right = {name: {outcome(call, w) for _ in range(3)} for name, call in made}
            for _ in range(400):
                name, call = chance.choice(made)
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 4e-4))
                    outcome(call, w)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    caught += 1
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                owned.drain()
                put_back(was)
            for name, call in made:
                assert outcome(call, w) in right[name], name
            w.close()
            assert handles(library) <= before + caught - caught_before
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
