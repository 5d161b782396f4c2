"""A short run of tests/load."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import Rerun

pytestmark = pytest.mark.heavy


def test_a_short_load(rerun: Rerun, request: pytest.FixtureRequest) -> None:
    output = rerun([sys.executable, "-m", "pytest", "tests/load", "--minutes", "0.3"])
    for line in output.splitlines():
        if line.startswith("load: "):
            request.node.user_properties.append(("told", line))
