"""The types for Windows, where nobody has run this yet: no function is used that is not there."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from tests.subject import CHECKOUT, NAME

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(NAME != "rawcuda", reason="this checks the checkout")]

# What is for Linux alone, and the function that refuses any other system before the rest is reached.
ONLY_LINUX = {
    "gpu/processes/server.py": "check_system",
    "emulator/machine/sharing.py": "_require",
    "emulator/impersonating/attaching.py": "loading.unusable",
    "emulator/impersonating/journal.py": "loading.unusable",
    "emulator/impersonating/loading.py": "loading.unusable",
    "tools/commands/emulate_command.py": "loading.unusable",
}


def test_types_are_right_for_windows(tmp_path_factory: pytest.TempPathFactory) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    cache = str(tmp_path_factory.mktemp("mypy"))
    words = ["--strict", "--no-warn-unreachable", "--platform", "win32", "--cache-dir", cache, "-p", NAME]
    result = subprocess.run([sys.executable, "-m", "mypy", *words], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    lines = [line for line in result.stdout.replace("\\", "/").splitlines() if ": error:" in line]
    assert result.returncode in (0, 1) and lines, result.stdout  # mypy itself works, and sees what Windows lacks
    of = [(re.match(rf"{NAME}/([\w/.]+):", line), line) for line in lines]
    wrong = [line for place, line in of if place is None or place[1] not in ONLY_LINUX]
    assert not wrong, "\n".join(wrong)
    unknown = [line for line in lines if "[attr-defined]" not in line and "[no-any-return]" not in line]
    assert not unknown, "\n".join(unknown)
