"""Run the blocks of code of a page in order, in one namespace, and compare what they print with what the page shows.

    python3 -m tests.docs.pages PAGE              run the page, and print the errors
    python3 -m tests.docs.pages PAGE --show       the same, and print the output of each block
    python3 -m tests.docs.pages PAGE --here       the same in this folder, where files that the page writes stay

The conventions of a page:
    ```python     is run. Its output is compared with the ```text block directly below it, or with the comments
                  after its print() calls. If the block raises, the last line of the traceback is its output.
    ```console    the shell runs each line that begins with "$ "; the lines below, if any, are its output.
    ```text       elsewhere, and blocks of other languages, are only text.
    ...           in the output that a page shows, matches anything; one space matches any number of spaces.
    <!-- file: NAME -->       above a block of any language: it is written to this file, in the folder of the run.
    <!-- not run: WHY -->     above a block: it is not run. <!-- needs numpy -->: only if that module is installed.
    <!-- not in a browser: WHY -->    above a block: it has no Run button on the site.
    <!-- test -->             above a block: it tests the block before it, a task for the reader. As the page has the
                              task, the test fails with the message that is shown below it.
    <!-- solution -->         above a block: it solves the last task. It runs in the place of the task; the test then
                              prints "right".
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```(\w*)\s*$")
FILE = re.compile(r"^<!-- file: ([\w.-]+) -->$")
REMARK = re.compile(r"^<!-- (not run|needs):? (.*\S) -->$")
NOT_IN_BROWSER = re.compile(r"^<!-- not in a browser: .*\S -->$")
ROLE = re.compile(r"^<!-- (test|solution) -->$")
SAID = re.compile(r"^print\(.*\) {2,}# (.*)$", re.M)
RUN = ("python", "console")


class Block(NamedTuple):
    """A fenced block: the number of its first line, the reason if it is not run, and the text block below it."""

    language: str
    code: str
    line: int
    left_out: str
    shown: str | None
    role: str = ""  # "test" or "solution", of a task


def pages() -> list[Path]:
    """Return the pages in the root of the checkout and in docs/."""
    return [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]


def fenced(text: str) -> Iterator[tuple[str, str, int, int, str]]:
    """Yield each fenced block: language, code, number of its first line, line after its end, last line above it."""
    lines = text.splitlines()
    above, at = "", 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if opening:
            end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == "```")
            code = "".join(line[len(opening[1]) :] + "\n" for line in lines[at + 1 : end])
            yield opening[2], code, at + 2, end + 1, above
            above, at = "", end
        elif lines[at].strip():
            above = lines[at].strip()
        at += 1


def blocks(text: str) -> list[Block]:
    """Return the blocks that are to be run."""
    found: list[Block] = []
    behind = None  # the end of the block to which a text block directly below belongs
    for language, code, line, end, above in fenced(text):
        if FILE.match(above):
            found.append(Block("file", code, line, "", FILE.match(above)[1]))  # type: ignore[index]
            behind = None
        elif language in RUN:
            remark, role = REMARK.match(above), ROLE.match(above)
            found.append(
                Block(language, code, line, why(remark[1], remark[2]) if remark else "", None, role[1] if role else "")
            )
            behind = end
        elif language == "text" and behind is not None and not above:
            found[-1] = found[-1]._replace(shown=code)
            behind = None
        else:
            behind = None
    return found


def in_browser(text: str) -> Iterator[tuple[Block, dict[str, str]]]:
    """Yield each block that has a Run button on the site, and the files that the page has above it: name -> text."""
    left_out = {line for _, _, line, _, above in fenced(text) if REMARK.match(above) or NOT_IN_BROWSER.match(above)}
    files: dict[str, str] = {}
    for block in blocks(text):
        if block.language == "file":
            files[str(block.shown)] = block.code
        elif block.language == "python" and block.line not in left_out and block.role != "solution":
            yield block, dict(files)


def said_by(block: Block) -> str | None:
    """Return the output that a page shows for a block: below it, or in the comments after its calls of print()."""
    said = SAID.findall(block.code)
    return block.shown if block.shown is not None else "\n".join(said) if said else None


def why(kind: str, what: str) -> str:
    """Return the reason why a block is not run, or "" if it can be run."""
    if kind == "not run":
        return what
    missing = [name for name in what.split(", ") if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} not installed" if missing else ""


def agrees(shown: str, printed: str) -> bool:
    """Tell whether an output matches the output that is shown, in which ... matches anything."""
    wanted, got = ("\n".join(" ".join(line.split()) for line in text.strip().splitlines()) for text in (shown, printed))
    return re.fullmatch(".*?".join(map(re.escape, wanted.split("..."))), got, re.S) is not None


def run_python(block: Block, path: Path, namespace: dict[str, object]) -> tuple[str, str]:
    """Run a block of Python; return its output, and an error message or ""."""
    out, wrong = io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try:
            exec(compile("\n" * (block.line - 1) + block.code, str(path), "exec"), namespace)
        except Exception as error:
            if block.shown is None:
                wrong = traceback.format_exc()
            out.write(f"{type(error).__name__}: {error}\n")
    printed = out.getvalue()
    shown = said_by(block)
    if not wrong and (shown is None and printed or shown is not None and not agrees(shown, printed)):
        wrong = f"it shows\n{shown}\nand it printed\n{printed}"
    return printed, wrong


def run_console(block: Block) -> tuple[str, str]:
    """Run the commands of a console block; return their output, and an error message or ""."""
    printed = ""
    for part in re.split(r"^\$ ", block.code, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        command = command.partition("  # ")[0].strip()
        python = re.sub(r"\bpython3\b", lambda _: shlex.quote(sys.executable), command)
        done = subprocess.run(
            python,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        printed += f"$ {command}\n{done.stdout}"
        if done.returncode:
            return printed, f"exit status {done.returncode}: {printed}"
        if shown.strip() and not agrees(shown, done.stdout):
            return printed, f"{command}\nshows\n{shown}\nand it printed\n{done.stdout}"
    return printed, ""


def run(path: Path, show: bool = False) -> int:
    """Run a page in this process, and return the number of blocks with errors."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    failed = 0
    test = None  # the last one
    text = path.read_text("utf-8")
    for block in blocks(text):
        if block.left_out:
            print(f"{path.name}:{block.line}: not run: {block.left_out}")
            continue
        if block.language == "file":
            Path(str(block.shown)).write_text(block.code, "utf-8")
            continue
        printed, wrong = run_python(block, path, namespace) if block.language == "python" else run_console(block)
        test = block if block.role == "test" else test
        if block.role == "solution" and not wrong:
            assert test is not None, f"{path}:{block.line}: a solution without a test above it"
            printed, wrong = run_python(test._replace(shown="right"), path, namespace)
        if show:
            print(f"--- {path.name}:{block.line}\n{printed}", end="")
        if wrong:
            print(f"{path}:{block.line}: {wrong}")
            failed += 1
    sys.stdout.flush()
    return failed


def run_in_a_folder(path: Path, show: bool) -> int:
    """Run a page in a process whose working folder is removed afterwards; return the process's exit status.

    Its output is read to the end, so the folder is there until the last process that a block started has ended, such
    as the resource tracker of multiprocessing.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.docs.pages", str(path), "--here", *["--show"] * show],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(done.stdout, end="")
        return done.returncode


if __name__ == "__main__":
    asked = Path(sys.argv[1]).resolve()
    if "--here" not in sys.argv:
        sys.exit(run_in_a_folder(asked, "--show" in sys.argv))
    os.environ.update(RAWCUDA_DRIVER="emulator", PYTHONPATH=str(CHECKOUT), COLUMNS="100")
    sys.exit(min(run(asked, "--show" in sys.argv), 100))
