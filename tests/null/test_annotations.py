"""Every public annotation has a meaning, at no cost to programs that do not ask for it.

The rule: what an annotation needs and its module does not need when it runs, is imported under `if TYPE_CHECKING`. Such
an annotation can be evaluated with the names of the standard library and of this package:
typing.get_type_hints(view, localns={**vars(typing), **{name: getattr(rawcuda, name) for name in rawcuda.__all__}}).
"""

from __future__ import annotations

import ast
import collections.abc
import importlib
import inspect
import os
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Python
from tests.subject import NAME, module, rawcuda

PUBLIC = {**vars(typing), **{name: getattr(rawcuda, name) for name in rawcuda.__all__}}
NOT_ANNOTATED = {"cu"}  # it represents the driver, whose functions are C functions


def functions_of(kind: type) -> Iterator[tuple[str, object]]:
    """Yield the methods, properties and special methods that our class and its bases define."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] != NAME.partition(".")[0]:
            continue
        yield base.__qualname__, base
        for name, value in vars(base).items():
            if name.startswith("_") and not name.startswith("__"):
                continue
            for each in (value.fget, value.fset) if isinstance(value, property) else (value,):
                each = getattr(each, "__func__", each)
                if inspect.isfunction(each):
                    yield f"{base.__qualname__}.{name}", each


def public() -> Iterator[tuple[str, object]]:
    """Yield everything that can be reached from the public names, with its path."""
    for name in rawcuda.__all__:
        value = None if name in NOT_ANNOTATED else getattr(rawcuda, name)
        if isinstance(value, type):
            yield from ((f"{value.__module__} {place}", each) for place, each in functions_of(value))
        elif inspect.isfunction(value):
            yield f"{value.__module__} {name}", value


def names_of(value: object) -> dict[str, object]:
    """Return the names that an annotation may use: its module's, those of typing and the like, and of the package."""
    home = sys.modules[value.__module__]
    names: dict[str, object] = {"Self": typing.Any}  # typing has it from Python 3.11 on
    for standard in (collections.abc, types, os, typing):
        names.update(vars(standard))
    names.update({name: getattr(rawcuda, name) for name in rawcuda.__all__})
    names.update(imported_for_types(home))
    return {**names, **vars(home)}


def imported_for_types(module: types.ModuleType) -> dict[str, object]:
    """Return the names of this package that a module imports for annotations, or gives to a type."""
    found: dict[str, object] = {}
    home = module.__name__.split(".")
    if not hasattr(module, "__path__"):
        home.pop()
    for block in ast.parse(inspect.getsource(module)).body:
        if not (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"):
            continue
        for node in block.body:
            if isinstance(node, ast.ImportFrom) and node.level:
                origin = ".".join([*home[: len(home) - node.level + 1], *filter(None, [node.module])])
                if origin.endswith("headers.calls"):  # a stub, for type checkers alone
                    found.update({alias.name: typing.Any for alias in node.names})
                    continue
                source = importlib.import_module(origin)
                for alias in node.names:
                    names = vars(source) if alias.name in vars(source) else imported_for_types(source)
                    found[alias.asname or alias.name] = names[alias.name]
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    found[ast.unparse(target)] = typing.Any
    return found


@pytest.mark.skipif(sys.version_info < (3, 10), reason="X | None is no expression before 3.10")
def test_every_public_annotation_can_be_evaluated() -> None:
    wrong, seen = [], 0
    for place, value in dict(public()).items():
        seen += 1
        names = names_of(value)
        try:
            inspect.get_annotations(value, globals=names, eval_str=True)  # type: ignore[arg-type]
        except Exception as error:
            wrong.append(f"{place}: {type(error).__name__}: {error}")
    assert seen > 150
    assert not wrong, f"{len(wrong)} of {seen}:\n" + "\n".join(sorted(wrong))


@pytest.mark.skipif(sys.version_info < (3, 10), reason="X | None is no expression before 3.10")
def test_a_name_that_does_not_exist_is_found() -> None:
    def wrong(x: NoSuchName) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    names = names_of(wrong)
    with pytest.raises(NameError, match="NoSuchName"):
        inspect.get_annotations(wrong, globals=names, eval_str=True)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="X | None is no expression before 3.10")
def test_annotations_are_the_real_classes() -> None:
    hints = hints_of(rawcuda.view)
    assert hints["return"] is rawcuda.StridedView and hints["protocol"] == typing.Optional[str]
    assert hints_of(rawcuda.use)["driver"].__args__ == (str, module("driver").Library)
    assert hints_of(rawcuda.trace)["form"] == typing.Optional[str]


def hints_of(value: object) -> dict[str, Any]:
    """Evaluate annotations as a user may: with the names of typing and of the package."""
    return typing.get_type_hints(value, localns={**PUBLIC, **vars(sys.modules[value.__module__])})


def test_typing_is_imported_only_when_somebody_asks(python: Python) -> None:
    result = python(
        """
        import sys
        from tests.subject import rawcuda
        rawcuda.view(bytearray(8)).tolist()
        with rawcuda.trace([]):
            rawcuda.view(b"abc")
        assert "typing" not in sys.modules
        """,
        flags=("-S",),
    )
    assert result.returncode == 0, result.stderr
