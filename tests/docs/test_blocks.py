"""Every block of code in README.md and docs/ runs as written and prints what the page shows; every link works."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

from tests.conftest import Python
from tests.shared import sampled
from tests.subject import CHECKOUT, NAME

from . import pages

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the pages are about the original")

PAGES = {path.relative_to(CHECKOUT).as_posix(): path for path in pages.pages()}
COURSES = {"course": 10, "kernels": 5}  # folders in docs/, and how many chapters each has
CHAPTERS = {name: path for name, path in PAGES.items() if name.split("/")[1:2] and name.split("/")[1] in COURSES}
ELSEWHERE = {"docs/systems.md"}  # made by tests/systems_table.py, and run block by block by tests/interop/test_table.py
every_page = pytest.mark.parametrize("name", PAGES)


WITH_BLOCKS = [name for name, path in PAGES.items() if name not in ELSEWHERE and pages.blocks(path.read_text("utf-8"))]


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in WITH_BLOCKS if name.count("/") < 2),
        *sampled(name for name in WITH_BLOCKS if name.count("/") > 1),  # the how-to pages and the courses
    ],
)
def test_every_block_runs(python: Python, record_property: Callable[[str, object], None], name: str) -> None:
    result = python(["-m", "tests.docs.pages", str(PAGES[name]), "--here"], env={"RAWCUDA_EMULATOR": None}, timeout=300)
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr


@every_page
def test_fences_are_closed_and_remarks_understood(name: str) -> None:
    text = PAGES[name].read_text("utf-8")
    fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
    assert len(fences) % 2 == 0
    for line, closing in zip(fences, [False, True] * len(fences)):
        assert line.strip() == "```" if closing else pages.FENCE.match(line) and line.strip() != "```", (
            f"{line}: name the language of the block"
        )
    remarks = [line for line in text.splitlines() if re.match(r"<!--\s*(not run|needs)", line)]
    assert len([line for line in remarks if pages.REMARK.match(line)]) == len(remarks)
    used = sum(
        bool(pages.REMARK.match(above)) for language, _, _, _, above in pages.fenced(text) if language in pages.RUN
    )
    assert used == len(remarks), "a remark that is not directly above a block"


def anchors(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.M | re.S)
    return {
        re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", text, re.M)
    }


@every_page
def test_links_lead_somewhere(name: str) -> None:
    path = PAGES[name]
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.M | re.S)):
        target, _, anchor = link.partition("#")
        if target.startswith("https://"):
            continue
        found = (path.parent / target).resolve() if target else path
        if not found.exists() or anchor and anchor not in anchors(found):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_names_its_specification_and_the_modules_beside_it(name: str) -> None:
    text = CHAPTERS[name].read_text("utf-8")
    head = text.split("\n\n")[1]
    assert head.startswith("*Specification: ") and "Read beside it:" in head.replace("\n", " ")
    named = re.findall(r"`((?:rawcuda|examples)/[\w/]+\.py)`", text)
    assert named and all((CHECKOUT / module).exists() for module in named), named
    assert "## Exercises" in text and "## Answers" in text
    exercises, answers = text.split("## Exercises")[1].split("## Answers")
    asked, answered = re.findall(r"^(\d)\. ", exercises, re.M), re.findall(r"^\*\*(\d)\.\*\* ", answers, re.M)
    assert len(asked) > 1 and answered == asked, "an exercise without its answer"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_ends_with_tasks_that_test_themselves(name: str) -> None:
    """A block to change, its test, and its solution, which is folded up; all three run in a browser."""
    text = CHAPTERS[name].read_text("utf-8")
    found = pages.blocks(text[: text.index("## Tasks")]), pages.blocks(text)
    roles = [block.role for block in found[1][len(found[0]) :]]
    assert len(roles) in (6, 9) and roles == ["", "test", "solution"] * (len(roles) // 3), roles
    assert all("AssertionError: " in str(block.shown) for block in found[1] if block.role == "test")
    assert text.count("<details") == text.count("<summary>Solution</summary>\n\n<!-- solution -->") == len(roles) // 3


@pytest.mark.parametrize("course", COURSES)
def test_each_chapter_leads_to_the_next(course: str) -> None:
    found = [name for name in sorted(CHAPTERS) if name.startswith(f"docs/{course}/")]
    names = [Path(name).name for name in found]
    assert [name[:2] for name in names] == [f"{n:02}" for n in range(1, COURSES[course] + 1)]
    texts = [CHAPTERS[name].read_text("utf-8") for name in found]
    assert all(f"({following})" in text for text, following in zip(texts, names[1:]))
    index = PAGES["docs/index.md"].read_text("utf-8")
    assert all(f"({course}/{name})" in index for name in names)
    assert all(text.startswith(f"# {n}. ") for n, text in enumerate(texts, 1))


def test_the_last_chapter_is_the_example() -> None:
    """Each statement of examples/exporter.py is in chapter 10, word for word, and the example has about 60 lines."""
    source = (CHECKOUT / "examples" / "exporter.py").read_text("utf-8")
    chapter = CHAPTERS["docs/course/10-write-an-exporter.md"].read_text("utf-8")
    own = source.partition('\nif __name__ == "__main__":')[0].rstrip() + "\n"
    assert len(own.partition("import atexit")[2].splitlines()) <= 65
    missing = [
        part for node in ast.parse(own).body[1:] for part in [ast.get_source_segment(own, node)] if part not in chapter
    ]
    assert not missing


@pytest.mark.heavy
@pytest.mark.skipif(sys.version_info < (3, 10), reason="the version of PyTorch that is tested needs Python 3.10")
def test_the_page_about_torch_runs_with_torch() -> None:
    """In the environment of tests/reruns/test_systems.py, because PyTorch is large."""
    from tests.__main__ import environment
    from tests.systems_table import ENVIRONMENTS, TOOLS

    python = environment([*TOOLS, *ENVIRONMENTS["torch"]])
    page = CHECKOUT / "docs" / "howto" / "torch.md"
    done = subprocess.run([python, "-m", "tests.docs.pages", str(page)], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0 and "not installed" not in done.stdout, done.stdout + done.stderr


# -- the program that runs the pages reports errors

PAGE = """
```python
x = 1
print(x)
```

```text
{}
```
"""


TASK = """
```python
x = 1
```

<!-- test -->
```python
assert x == 2, "no"
print("right")
```

```text
{}
```

<!-- solution -->
```python
{}
```
"""


@pytest.mark.parametrize(
    "text, count",
    [
        (PAGE.format("1"), 0),
        (PAGE.format("2"), 1),
        (PAGE.format("1..."), 0),
        (PAGE.format("..."), 0),
        (PAGE.format(""), 1),
        ("```python\nprint(1)\n```\n", 1),
        ("```python\nx = 1\n```\n", 0),
        ("```python\nprint(2)  # 2\n```\n", 0),
        ("```python\nprint(2)  # 3\n```\n", 1),
        ("```python\n1 / 0\n```\n", 1),
        ("```python\n1 / 0\n```\n\n```text\nZeroDivisionError: division by zero\n```\n", 0),
        ("```python\n1 / 1\n```\n\n```text\nZeroDivisionError: division by zero\n```\n", 1),
        ("```python\nx = 1\n```\n\nwords\n\n```text\nother\n```\n", 0),
        ("```python\nx = 1\n```\n```python\nassert x\n```\n", 0),
        ("<!-- not run: why -->\n```python\n1 / 0\n```\n", 0),
        ("<!-- needs no_such_module -->\n```python\n1 / 0\n```\n", 0),
        ("<!-- needs json -->\n```python\n1 / 0\n```\n", 1),
        ("```sh\nfalse\n```\n", 0),
        (TASK.format("AssertionError: no", "x = 2"), 0),
        (TASK.format("AssertionError: other", "x = 2"), 1),
        (TASK.format("AssertionError: no", "x = 3"), 1),
        ("```console\n$ exit 3\n```\n", 1),
        ("```console\n$ echo ab\nab\n$ echo c  # a remark\n```\n", 0),
        ("```console\n$ echo ab\nba\n```\n", 1),
    ],
)
def test_the_runner(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, count: int) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    assert pages.run(page) == count, capsys.readouterr().out


LATE = """
```python
import subprocess, sys
process = subprocess.Popen([sys.executable, "-c", "import os, time; time.sleep(0.3); open('late', 'x'); os.getcwd()"])
```
"""


def test_the_folder_of_the_runner_is_there_until_the_last_process_has_ended(python: Python, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(LATE, "utf-8")
    result = python(["-m", "tests.docs.pages", str(page)])
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not (tmp_path / "late").exists()
