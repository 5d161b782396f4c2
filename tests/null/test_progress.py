"""The progress bar: on a terminal, in a file, and where the output is broken."""

from __future__ import annotations

import io
import sys

import pytest

from tests.subject import rawcuda

progress = rawcuda.progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_iterable_begins_with_the_loop() -> None:
    class Once:
        began = 0

        def __iter__(self) -> object:
            Once.began += 1
            return iter([1, 2][: 2 * (Once.began == 1)])

    assert list(progress(Once())) == [1, 2] and Once.began == 1
    with pytest.raises(TypeError, match="needs an iterable, not an int"):
        progress(3)


def run(monkeypatch, out, *arguments, **keywords):
    monkeypatch.setattr(sys, "stderr", out)
    return list(progress(*arguments, **keywords))


def test_plain_text_has_some_lines(monkeypatch):
    out = io.StringIO()
    assert run(monkeypatch, out, range(1000), label="upload") == list(range(1000))
    lines = out.getvalue().splitlines()
    assert 5 <= len(lines) <= 15 and lines[-1].startswith("upload 100 % 1000/1000") and "\r" not in out.getvalue()


def test_a_terminal_has_one_line(monkeypatch):
    out = Terminal()
    assert run(monkeypatch, out, range(50)) == list(range(50))
    assert out.getvalue().count("\n") == 1 and "[##############################] 100 % 50/50" in out.getvalue()


def test_an_unknown_number_of_items(monkeypatch):
    out = io.StringIO()
    assert run(monkeypatch, out, iter(range(10))) == list(range(10))
    assert out.getvalue().splitlines()[-1].startswith("10 ") and "%" not in out.getvalue()
    assert "100 %" in (run(monkeypatch, out := Terminal(), iter("ab"), 2), out.getvalue())[1]
    assert run(monkeypatch, io.StringIO(), []) == []


def test_a_broken_output_does_not_disturb_the_loop(monkeypatch):
    closed = io.StringIO()
    closed.close()

    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "no space left")

    for out in (None, closed, Full(), io.TextIOWrapper(io.BytesIO(), "ascii")):
        assert run(monkeypatch, out, range(5), label="ü") == list(range(5))


def test_an_exception_ends_the_line(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with pytest.raises(KeyError):
        for item in progress(range(10)):
            if item == 5:
                raise KeyError
    assert len(progress(range(10))) == 10


def test_arguments_are_checked():
    for wrong, error in (((5,), TypeError), (([], "a"), TypeError), (([], True), TypeError), (([], -1), ValueError)):
        with pytest.raises(error):
            progress(*wrong)
    with pytest.raises(TypeError, match="not known"):
        len(progress(iter([])))
    with pytest.raises(TypeError, match="label.*must be a str, not an int"):
        progress("ab", label=5)
