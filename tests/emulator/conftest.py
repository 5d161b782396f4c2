"""Tests in this folder choose no driver: they use the emulator as a library, or start processes of their own."""

from __future__ import annotations

import pytest

from tests.subject import module


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the driver that the tests of another folder chose, and the driver of this machine."""
    monkeypatch.setattr(module("driver"), "_current", None)
    monkeypatch.setattr(module("driver"), "_chosen", "/no/such/libcuda.so.1")
