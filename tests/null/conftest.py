"""Nothing in this folder has a driver, even where tests of tests/driver ran before, or where the machine has one."""

from __future__ import annotations

import pytest

from tests.subject import module


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the driver that another folder's tests chose, and that of this machine."""
    monkeypatch.setattr(module("driver"), "_current", None)
    monkeypatch.setattr(module("driver"), "_chosen", "/no/such/libcuda.so.1")
