"""The same work in 8 threads and in one: no result is wrong, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.subject import CHECKOUT, NAME, ROOT


def test_work_in_threads(request: pytest.FixtureRequest) -> None:
    path = os.pathsep.join(dict.fromkeys((str(ROOT), str(CHECKOUT))))
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.load.threads", "100", "1"],
        cwd=CHECKOUT,
        text=True,
        capture_output=True,
        timeout=600,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "TESTED_PACKAGE": NAME,
            "PYTHONDONTWRITEBYTECODE": "1",
            "MALLOC_ARENA_MAX": "1",
        },
    )
    assert result.stdout, result.stderr
    report = json.loads(result.stdout.splitlines()[-1])
    assert not report["errors"], report["errors"][0]
    assert result.returncode == 0 and (report["left"], report["exports"]) == ({}, 0), report
    request.node.user_properties.append(
        ("told", f"8 threads: ratio {report['ratio']}, {report['operations']} operations")
    )
