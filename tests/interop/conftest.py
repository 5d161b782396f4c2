"""No driver here: host memory, and host memory that only claims to be CUDA's, also after tests of tests/driver in this process."""
from __future__ import annotations

import pytest

from tests.subject import module


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the driver that another folder's tests chose."""
    monkeypatch.setattr(module("driver"), "_current", None)
