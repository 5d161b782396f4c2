"""typing.get_type_hints() works for everything public, at no cost to programs that do not call it.

The rule: an annotation of a public function, method or class uses only names that its module has when it runs. Names
that the module needs for nothing else come from `names`: `names.Any`, `names.Graph`. A parameter that takes any object
has the type `object`.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator

import pytest

from tests.conftest import Python
from tests.subject import NAME, rawcuda

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
    """Yield everything that can be reached from the façade, with its path."""
    for name in rawcuda.__all__:
        value = None if name in NOT_ANNOTATED else getattr(rawcuda, name)
        if isinstance(value, type):
            yield from ((f"{value.__module__} {place}", each) for place, each in functions_of(value))
        elif inspect.isfunction(value):
            yield f"{value.__module__} {name}", value


@pytest.mark.skipif(sys.version_info < (3, 10), reason="X | None is no expression before 3.10")
def test_every_public_annotation_can_be_evaluated() -> None:
    wrong, seen = [], 0
    for place, value in dict(public()).items():
        seen += 1
        try:
            typing.get_type_hints(value)
        except Exception as error:
            wrong.append(f"{place}: {type(error).__name__}: {error}")
    assert seen > 150
    assert not wrong, f"{len(wrong)} of {seen}:\n" + "\n".join(sorted(wrong))


@pytest.mark.skipif(sys.version_info < (3, 10), reason="X | None is no expression before 3.10")
def test_annotations_are_the_real_classes() -> None:
    hints = typing.get_type_hints(rawcuda.view)
    assert hints["return"] is rawcuda.StridedView and hints["protocol"] == typing.Optional[str]
    assert typing.get_type_hints(rawcuda.use)["driver"].__args__[0] is str
    assert typing.get_type_hints(rawcuda.trace)["form"] == typing.Optional[str]


def test_typing_is_imported_only_when_somebody_asks(python: Python) -> None:
    result = python(
        """
        import sys
        from tests.subject import rawcuda
        rawcuda.view(bytearray(8)).tolist()
        with rawcuda.trace([]):
            rawcuda.view(b"abc")
        assert "typing" not in sys.modules
        import typing
        if sys.version_info >= (3, 10):
            assert typing.get_type_hints(rawcuda.trace)["return"].__name__ == "Trace"
        """,
        flags=("-S",),
    )
    assert result.returncode == 0, result.stderr


def test_what_is_no_name_is_an_attribute_error() -> None:
    from tests.subject import module

    names = module("names")
    assert names.Any is typing.Any and names.Device is rawcuda.Device and names.TracebackType is type_of_traceback()
    for name in ("NoSuchName", "_private", "__path__"):
        with pytest.raises(AttributeError, match=name):
            getattr(names, name)


def type_of_traceback() -> type:
    try:
        raise ValueError
    except ValueError as error:
        return type(error.__traceback__)
