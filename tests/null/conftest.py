"""Nothing in this folder has a driver, also where tests of tests/driver ran before it in the same process."""
from __future__ import annotations

import pytest

from tests.subject import module


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the driver that another folder's tests chose."""
    monkeypatch.setattr(module("driver"), "_current", None)
