"""Blocks that restore something after an exception: no loop stands directly in them.

A signal handler may raise an exception between any two instructions. CPython 3.12 to 3.14 leave the jump back to the
beginning of some loops out of the exception table. What a handler raises at that jump leaves the function without
`finally`, `except` or the end of a `with` block: the lock stays locked, the handle is lost. (Loops end with such a jump
if they are `while` loops, `for` loops that end with an `if`, or, since they are inlined, comprehensions.) An exception
that leaves a call is always caught. So the loop stands in a function of its own, or in C code.
"""

from __future__ import annotations

import ast
import dis
import signal
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shared import together
from tests.subject import FOLDER

LOOPS = ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp
NEW_FRAMES = ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp
# Here nothing is lost if the block's end is left out.
ALLOWED = {
    "gpu/kernels/launch.py: _pack_again": "it only marks an error of its own",
    "tools/checking/groups/check_launches.py: _compiled": "a row of `check` runs in a process of its own",
    "tools/checking/groups/check_memory.py: _used": "a row of `check` runs in a process of its own",
    "tools/checking/workers.py: outcomes": "the command ends at an interrupt, and its workers with it",
    "tools/commands/emulate_command.py: main": "the command ends at an interrupt",
    "ownership.py: drain": "what an interrupt leaves unreleased may stay allocated",
    "emulator/impersonating/loading.py: prepare": "it removes a folder of temporary files",
    "protocols/choosing.py: read": "it ends a reference cycle; the garbage collector does that, too",
}


def restores(node: ast.AST) -> bool:
    """Tell whether a statement restores state after an exception.

    An object that was made for its with block, as by open() or current(), does it in its finalizer, too.
    """
    if isinstance(node, ast.With):
        return not all(isinstance(item.context_expr, ast.Call) for item in node.items)
    if not isinstance(node, ast.Try):
        return False
    return bool(node.finalbody) or any(
        handler.type is None or getattr(handler.type, "id", "") == "BaseException" for handler in node.handlers
    )


def loops(node: ast.AST, function: str = "", inside: bool = False) -> Iterator[tuple[str, int]]:
    """Yield (function, line) of each loop that stands directly in such a block."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            now = inside
            if isinstance(node, NEW_FRAMES):
                function, now = getattr(node, "name", function), False
            elif field == "body" or isinstance(node, ast.Try) and node.finalbody and field in ("handlers", "orelse"):
                now = inside or restores(node)
            if now and isinstance(child, LOOPS):
                yield function, child.lineno
            yield from loops(child, function, now)


@together("path", sorted(FOLDER.rglob("*.py")))
def test_no_loop_stands_in_a_block_that_restores(path: Any) -> None:
    name = path.relative_to(FOLDER).as_posix()
    found = [
        f"{name}:{line}, in {function}: move this loop into a function of its own"
        for function, line in loops(ast.parse(path.read_text("utf-8")))
        if f"{name}: {function}" not in ALLOWED
    ]
    assert not found


EXAMPLE = """
def f(lock, things):
    with lock:
        while things:
            things.pop()
    with lock:
        first = [thing for thing in things if thing]
    try:
        for thing in things:
            if thing:
                return
    finally:
        lock.release()
    with open("a") as file:
        for line in file:
            pass
    try:
        g(lambda: [thing for thing in things])
    except BaseException:
        raise
"""


def test_the_rule_finds_each_kind() -> None:
    assert [line for _, line in loops(ast.parse(EXAMPLE))] == [4, 7, 9]


@pytest.mark.skipif(not (3, 12) <= sys.version_info < (3, 15), reason="the table has every loop")
def test_the_rule_is_needed() -> None:
    """When this fails on a Python, that Python needs the rule no more."""
    code = next(c for c in compile(EXAMPLE, "", "exec").co_consts if isinstance(c, types.CodeType))
    entries: Any = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    jumps = [i.offset for i in dis.get_instructions(code) if i.opname == "JUMP_BACKWARD"]
    assert any(not any(entry.start <= jump < entry.end for entry in entries) for jump in jumps)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="a signal may come just before __exit__()")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
def test_a_loop_in_a_function_of_its_own_lets_go_of_the_lock() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled in the main thread only")
    lock, caught = threading.Lock(), 0

    def handler(*_: object) -> None:
        raise InterruptedError

    def loop() -> None:
        n = 100
        while n:
            n -= 1

    def hold() -> None:
        while True:
            with lock:
                loop()

    old = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(1000):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4)
                hold()
            except InterruptedError:
                caught += 1
            assert not lock.locked()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert caught == 1000
