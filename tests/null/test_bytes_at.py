"""The copy of bytes at an address: interpreter/cpython.py's `bytes_at`."""

from __future__ import annotations

import ctypes
import sys
import threading

import pytest

from tests.subject import module

cpython = module("interpreter.cpython")
HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


@pytest.mark.parametrize("has_window", [True, False])
def test_bytes_at_copies_and_reads_nothing_of_nothing(monkeypatch, has_window):
    if not has_window:  # as where no view of all memory can be made, or sliced by several threads
        monkeypatch.setattr(cpython, "_sliced", None)
    memory = ctypes.create_string_buffer(b"abc\0def", 7)
    start = ctypes.addressof(memory)
    copied = cpython.bytes_at(start + 1, 5)
    memory[1] = b"x"
    assert type(copied) is bytes and copied == b"bc\0de"
    assert cpython.bytes_at(0, 0) == cpython.bytes_at(start, 0) == b""


def test_threads_copy_bytes_at_once():
    memory, rounds = ctypes.create_string_buffer(bytes(range(64)), 64), 1_000 if HAS_GIL else 200_000
    start, copied, together = ctypes.addressof(memory), [], threading.Barrier(8)

    def copy():
        together.wait()
        for _ in range(rounds):
            if cpython.bytes_at(start, 64) != memory.raw:
                break
        else:
            copied.append(cpython.bytes_at(start, 64))

    threads = [threading.Thread(target=copy) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert copied == [memory.raw] * 8
