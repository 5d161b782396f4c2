"""SECURITY.md: each sentence about this package names the tests that show it; and what only an audit shows."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.subject import CHECKOUT, FOLDER, NAME, ROOT

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the page is about the original")

PAGE = (CHECKOUT / "SECURITY.md").read_text("utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| input", "| rule"))]


@functools.cache
def names_in(file: str) -> set[str]:
    """Return the names of the tests in the files of this name."""
    return {
        node.name
        for path in (CHECKOUT / "tests").rglob(f"{file}.py")
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.strip("| ")[:50])
def test_each_sentence_has_a_test(row: str) -> None:
    shown = row.rstrip("| ").rpartition("|")[2]
    named = re.findall(r"`(\w+)::(\w+)`", shown)
    assert named or shown.strip() == "yours"
    assert not re.sub(r"`\w+::\w+`|[, ]", "", shown) or shown.strip() == "yours"
    for file, test in named:
        assert test in names_in(file), f"{file}.py has no {test}"


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 25 and sum(row.rstrip("| ").endswith("yours") for row in ROWS) == 3


def test_only_local_sockets() -> None:
    """No module imports a client or a server of a network, and the only sockets are those of Unix."""
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            for name in names:
                assert name.partition(".")[0] not in _NETWORK, path
                assert name != "socket" or path.parent.name == "processes", path
            if isinstance(node, ast.Attribute) and node.attr.startswith("AF_"):
                assert node.attr == "AF_UNIX", path


_NETWORK = {"urllib", "http", "ftplib", "smtplib", "ssl", "socketserver", "xmlrpc", "telnetlib"}

AUDIT = """
import json, os, sys, tempfile
written = set()
def heard(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        flags = arguments[2]
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.add(os.path.abspath(os.fsdecode(arguments[0])))
    elif event in ("os.mkdir", "os.remove"):
        written.add(os.path.abspath(os.fsdecode(arguments[0])))
    elif event in ("os.rename", "os.link", "os.symlink"):
        written.add(os.path.abspath(os.fsdecode(arguments[1])))
    elif event == "socket.connect" or event == "socket.bind":
        written.add(repr(arguments[1]))
sys.addaudithook(heard)
sys.dont_write_bytecode = True
from rawcuda.__main__ import main
assert main(sys.argv[1:]) == 0
with os.fdopen(3, "w") as out:
    json.dump(sorted(written), out)
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["demo", "--driver", "emulator"], []),
        (["doctor"], []),
        (["run", "k.ptx"], []),
        (["run", "k.ptx", "k", "zeros:4:int32", "--grid", "1", "--block", "1", "--out", "0=out.npy"], ["out.npy"]),
        (["inspect", "[1, 2]"], []),
        (["bench", "view() of a bytearray", "--json", "bench.json"], ["bench.json"]),
        (["check", "--one-process", "copies"], ["rawcuda-check.json"]),
        (["check", "--one-process", "copies", "--no-report"], []),
    ],
    ids=lambda words: " ".join(words),
)
def test_files_that_are_written(tmp_path: Path, words: list[str], expected: list[str]) -> None:
    """Only those that the words name, and temporary ones; nothing is connected or listened to."""
    head = ".version 6.3\n.target sm_50\n.address_size 64\n"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    here = tmp_path / "here"
    here.mkdir()
    (here / "k.ptx").write_text(head + ".entry k(.param .u64 p) { ret; }\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), "RAWCUDA_DRIVER": "emulator"}
    told = tmp_path / "told"
    code = AUDIT.replace("os.fdopen(3, ", f"open({str(told)!r}, ")
    command = [sys.executable, "-c", code, *words]
    ran = subprocess.run(
        command, cwd=here, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert ran.returncode == 0, ran.stdout
    allowed = ("/dev/null", str(temporary), "/proc/self/", "/dev/shm")
    written = [name for name in json.loads(told.read_text()) if not name.startswith((*allowed, f"{here}{os.sep}"))]
    assert written == [str(told)]
    assert sorted(os.listdir(here)) == sorted(["k.ptx", *expected])
