"""Five minutes of the campaign of tests/attack, each with a new seed, which is printed."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import Rerun

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("part", range(1, 6))
def test_the_campaign_finds_nothing(rerun: Rerun, request: pytest.FixtureRequest, part: int) -> None:
    output = rerun([sys.executable, "-m", "pytest", "tests/attack", "--minutes", "1"], timeout=1800)
    for line in output.splitlines():
        if ": seed " in line:
            request.node.user_properties.append(("told", line))
