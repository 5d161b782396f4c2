"""A release: what must agree is checked, and archives are the same bytes however they were built."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import release
from tests.subject import CHECKOUT, NAME

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="only the original is released")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the files that are checked, with a changelog that is ready."""
    (tmp_path / "rawcuda").mkdir()
    for name in ("setup.cfg", "CHANGELOG.md", "CITATION.cff", "rawcuda/__init__.py"):
        shutil.copy(CHECKOUT / name, tmp_path / name)
    changes = tmp_path / "CHANGELOG.md"
    first = changes.read_text("utf-8").replace("## Unreleased", "## 0.2.0 (2030-01-31)", 1)
    changes.write_text(first, "utf-8")
    replace(tmp_path / "rawcuda/__init__.py", '__version__ = "0.1.0"', '__version__ = "0.2.0"')
    replace(tmp_path / "CITATION.cff", "version: 0.1.0", "version: 0.2.0")
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text, f"{path} has no {old!r}"
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_a_release_that_is_ready(copy: Path) -> None:
    assert release.problems(copy) == []


@pytest.mark.parametrize(
    "name, old, new, finding",
    [
        (
            "CHANGELOG.md",
            "## 0.2.0 (2030-01-31)",
            "## Unreleased",
            "its first section must be '## 0.2.0 (YEAR-MONTH-DAY)'",
        ),
        ("CHANGELOG.md", "## 0.2.0 (2030-01-31)", "## 0.2.0", "its first section must be"),
        ("CHANGELOG.md", "## 0.2.0 (2030-01-31)", "## 0.3.0 (2030-01-31)", "its first section must be"),
        ("CHANGELOG.md", "## 0.1.0", "## 0.2.0 (2030-01-31)", "two sections have the same title"),
        ("CITATION.cff", "version: 0.2.0", "version: 0.1.0", "CITATION.cff: its version is 0.1.0, and not 0.2.0"),
        ("setup.cfg", "version = attr: rawcuda.__version__", "version = 0.2.0", "must take the version from"),
        ("rawcuda/__init__.py", '"0.2.0"', '"next"', "'next' is not a version"),
    ],
)
def test_what_does_not_agree_is_named(copy: Path, name: str, old: str, new: str, finding: str) -> None:
    replace(copy / name, old, new)
    assert any(finding in problem for problem in release.problems(copy)), release.problems(copy)


def test_a_draft_may_have_an_unreleased_section() -> None:
    assert release.problems(CHECKOUT, draft=True) == []


def test_archives_do_not_depend_on_how_they_were_made(tmp_path: Path) -> None:
    """Two archives with the same files, in another order, with other times and users."""
    files = {"a/one.py": b"1" * 1000, "a/two.py": b"2", "b.txt": b""}
    made = []
    for number, names in enumerate((list(files), list(reversed(files)))):
        tar, wheel = tmp_path / f"{number}.tar.gz", tmp_path / f"{number}.whl"
        with tarfile.open(tar, "w:gz", compresslevel=1 + number) as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.uid, member.uname = len(files[name]), number, number, str(number)
                archive.addfile(member, io.BytesIO(files[name]))
        with zipfile.ZipFile(wheel, "w") as packed:
            for name in names:
                packed.writestr(zipfile.ZipInfo(name, (2000 + number, 1, 1, 0, 0, 0)), files[name])
        release.settle_tar(tar, 86400)
        release.settle_wheel(wheel)
        made.append((tar.read_bytes(), wheel.read_bytes()))
    assert made[0] == made[1]
    with zipfile.ZipFile(tmp_path / "0.whl") as packed:
        assert {name: packed.read(name) for name in packed.namelist()} == files


@pytest.mark.heavy
def test_a_release_is_one_command(tmp_path: Path) -> None:
    """Two builds are the same bytes, twine finds nothing, and a kernel runs after the installation."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.release", str(tmp_path), "--draft", "--here"],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".gz", ".json", ".whl"]
    assert done.stdout.count("runs with") == 2


def test_a_release_has_checksums_and_a_bill_of_materials(tmp_path: Path) -> None:
    """Two runs write the same bytes; each file of the wheel is listed, and what it needs without an extra."""
    wheel, source, folder = (
        tmp_path / "rawcuda-1.2.3-py3-none-any.whl",
        tmp_path / "rawcuda-1.2.3.tar.gz",
        tmp_path / "d",
    )
    source.write_bytes(b"source")
    about = b"Name: rawcuda\nVersion: 1.2.3\nLicense: MIT\nRequires-Dist: one>=1\nRequires-Dist: two; extra == 'x'\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in (("rawcuda/__init__.py", b"1"), ("rawcuda-1.2.3.dist-info/METADATA", about)):
            archive.writestr(name, content)
    made = []
    for _ in range(2):
        release.written([source, wheel], folder)
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1] and set(made[0]) == {wheel.name, source.name, "rawcuda-1.2.3.cdx.json", "SHA256SUMS"}
    sums = dict(reversed(line.split("  ")) for line in made[0].pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in made[0].items()}
    bill = json.loads(made[0]["rawcuda-1.2.3.cdx.json"])
    [digest] = bill["metadata"]["component"]["hashes"]
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/rawcuda@1.2.3" and digest["content"] == sums[wheel.name]
    files = {each["name"]: each["hashes"][0]["content"] for each in bill["components"] if each["type"] == "file"}
    assert files["rawcuda/__init__.py"] == hashlib.sha256(b"1").hexdigest() and len(files) == 2
    assert bill["dependencies"] == [{"ref": "pkg:pypi/rawcuda@1.2.3", "dependsOn": ["one>=1"]}]
