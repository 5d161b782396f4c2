"""The copy of bytes at an address: interpreter/cpython.py's `bytes_at`."""

from __future__ import annotations

import ctypes

import pytest

from tests.subject import module

cpython = module("interpreter.cpython")


@pytest.mark.parametrize("has_window", [True, False])
def test_bytes_at_copies_and_reads_nothing_of_nothing(monkeypatch, has_window):
    if not has_window:  # as where no view of all memory can be made
        monkeypatch.setattr(cpython, "window", None)
    memory = ctypes.create_string_buffer(b"abc\0def", 7)
    start = ctypes.addressof(memory)
    copied = cpython.bytes_at(start + 1, 5)
    memory[1] = b"x"
    assert type(copied) is bytes and copied == b"bc\0de"
    assert cpython.bytes_at(0, 0) == cpython.bytes_at(start, 0) == b""
