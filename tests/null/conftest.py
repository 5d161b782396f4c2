"""Tests in this folder have no driver, even after tests of tests/driver, or on a machine that has one."""

from __future__ import annotations

import atexit
from collections.abc import Iterator

import pytest

from tests.subject import module


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the driver that the tests of another folder chose, and the driver of this machine."""
    monkeypatch.setattr(module("driver"), "_current", None)
    monkeypatch.setattr(module("driver"), "_chosen", "/no/such/libcuda.so.1")


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make exports work as on an interpreter without a safe callback."""
    dlpack = module("dlpack")
    monkeypatch.setattr(dlpack, "available", lambda: False)
    monkeypatch.setattr(dlpack, "_exports", None)
    monkeypatch.setattr(dlpack, "outstanding", {})
    monkeypatch.setattr(dlpack, "_forms", {})
    module("arrays.exporting")._templates.clear()
    yield
    atexit.unregister(dlpack._exports.end)
