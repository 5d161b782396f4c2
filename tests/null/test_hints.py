"""Names of other libraries: each is refused with the name that it has here, which exists."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any

import pytest

from tests.subject import module, rawcuda

hints = module("hints")
CLASSES = [kind for kind in hints.HINTS if kind[0].isupper()]
KINDS = {
    "device": "Device", "view": "StridedView", "memory": "Memory", "stream": "Stream", "event": "Event",
    "kernel": "Kernel", "module": "Module", "launch": "Launch",
    "graph": "Graph",
}  # fmt: skip

PAIRS = [(kind, name) for kind, table in hints.HINTS.items() for names in table for name in names.split()]


def test_no_name_is_in_a_table_twice() -> None:
    assert len(PAIRS) == len(set(PAIRS)) > 150


@pytest.mark.parametrize("kind", CLASSES)
def test_a_missing_attribute_says_what_it_is_called_here(kind: str) -> None:
    owner = getattr(rawcuda, kind)
    for name in (name for each, name in PAIRS if each == kind):
        found = getattr(owner, name)  # of the class, as help() reads it
        assert type(found) is hints.NotHere
        one = partial.__new__(owner, print) if owner is rawcuda.Launch else owner.__new__(owner)
        assert not hasattr(one, name)
        with pytest.raises(AttributeError, match=rf"^'{kind}' object has no attribute '{name}': ") as caught:
            getattr(one, name)
        assert str(caught.value).endswith(hints.of(kind, name)) and hints.of(kind, name)


@pytest.mark.parametrize("name", [name for kind, name in PAIRS if kind == "the package"])
def test_so_does_a_missing_name_of_the_package(name: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as caught:
        getattr(rawcuda, name)
    assert "did you mean" not in str(caught.value) and name not in rawcuda.__all__


def test_what_a_hint_names_is_there() -> None:
    for kind, table in hints.HINTS.items():
        for text in table.values():
            for word, name in re.findall(r"\b(device|view|memory|stream|event|kernel|module|rawcuda)\.(\w+)", text):
                owner: Any = rawcuda if word == "rawcuda" else getattr(rawcuda, KINDS[word])
                assert type(getattr(owner, name)) is not hints.NotHere, (kind, text)
            for name in re.findall(r"Device\(0\)\.(\w+)", text):
                assert hasattr(rawcuda.Device, name), (kind, text)


def test_a_class_with_hints_reads_its_attributes_as_others_do() -> None:
    """A __getattr__ would make every read slower. Subclasses may have the names, and objects do not list them."""
    for kind in CLASSES:
        assert "__getattr__" not in vars(getattr(rawcuda, kind))
    view = rawcuda.view(bytearray(4))
    assert "sum" not in dir(view) and "download" in dir(view) and not hasattr(view, "sum")

    class Mine(rawcuda.StridedView):  # type: ignore[misc]
        def sum(self) -> int:
            return 7

    assert Mine.sum(view) == 7
    mine = Mine.__new__(Mine)
    mine.mean = 5  # (an object of this subclass has a __dict__)
    assert {"sum", "mean"} <= {*dir(mine)} and mine.mean == 5 and {*dir(mine)} >= {*dir(view)}
    assert "max" not in dir(mine)


def test_a_name_that_no_library_has_is_an_ordinary_error() -> None:
    assert hints.of("Device", "no_such_name") == "" == hints.of("no such kind", "alloc")
    assert "stream=stream" in hints.of("Stream", "launch")
    with pytest.raises(AttributeError):
        rawcuda.view(bytearray(4)).no_such_name


def test_methods_of_a_divided_class_have_the_name_of_the_public_class() -> None:
    """Python writes it into its errors, and into the repr of a method."""
    view = rawcuda.view(bytearray(4))
    with pytest.raises(TypeError, match=r"^(StridedView\.)?reshape\(\) got an unexpected keyword argument 'shape'"):
        view.reshape(shape=4)  # (Python 3.9 writes the bare name)
    assert repr(view.ravel).startswith("<bound method StridedView.ravel of ")
    assert rawcuda.Device.attribute.__qualname__ == "Device.attribute"
    assert rawcuda.Stream.close.__qualname__ == rawcuda.Memory.close.__qualname__  # several classes share it


@pytest.mark.parametrize(
    "name, words",
    [("arch", "compile\\(source, target\\)"), ("cache_dir", "cache=\\.\\.\\."), ("keep", "options="), ("x", "")],
)
def test_a_keyword_of_another_compiler(name: str, words: str) -> None:
    with pytest.raises(TypeError, match=rf"^compile\(\) has no option '{name}'(?:$|: .*{words})"):
        rawcuda.compile("", **{name: 1})
    assert (hints.of("compile", name) == "") == (words == "")


def test_no_hint_hides_what_a_class_has() -> None:
    for kind in CLASSES:
        owner = getattr(rawcuda, kind)
        for name in (name for each, name in PAIRS if each == kind):
            found = [vars(each)[name] for each in owner.__mro__ if name in vars(each)]
            assert [type(each) for each in found] == [hints.NotHere], f"{kind}.{name}"
            assert f"    def {name}(" not in inspect.getsource(owner), f"{kind}.{name}"
            assert name not in owner.__annotations__, f"{kind}.{name}"


def test_no_repr_shows_where_a_class_is_defined() -> None:
    receiver = rawcuda.receive_on("host")
    with receiver:
        assert repr(receiver) == "<receive_on: arrays arrive on 'host' now>"
    for made in (rawcuda.profile(), rawcuda.progress([1, 2]), rawcuda.progress(iter("ab"))):
        assert repr(made).startswith(f"<{type(made).__name__}") and " at 0x" not in repr(made)
    assert repr(rawcuda.progress([1, 2])) == "<progress of 2 items>"
