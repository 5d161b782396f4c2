"""`vendor`: the whole and each part, copied, checked, replaced, refused; and each part at work in a bare interpreter."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import textwrap
import zipfile
from pathlib import Path
from typing import Callable

import pytest

from tests.conftest import Python
from tests.subject import CHECKOUT, FOLDER, NAME, ROOT, module

main = module("__main__").main
vendor = module("tools.commands.vendor")
PARTS = sorted(vendor.PARTS)
Told = Callable[..., str]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Run one command line and return what it printed; its status must be the one that is expected."""

    def run(*words: str | Path, status: int = 0) -> str:
        capsys.readouterr()
        assert main(["vendor", *map(str, words)]) == status
        out, err = capsys.readouterr()
        return str(err or out)

    return run


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def original() -> dict[str, bytes]:
    return {name: data for name, data in files_of(FOLDER).items() if name != "VENDORED.txt"}


def test_the_whole_is_copied_byte_for_byte(told: Told, tmp_path: Path) -> None:
    assert "all of" in told(tmp_path / "taken")
    copied = files_of(tmp_path / "taken")
    manifest = copied.pop("VENDORED.txt").decode()
    assert copied == original()
    assert (FOLDER / "LICENSE").read_text("utf-8") in manifest and module("").__version__ in manifest.splitlines()[0]
    assert not [name for name in os.listdir(tmp_path) if name != "taken"], "something was left beside it"
    said = told("--check", tmp_path / "taken")
    assert "It is unchanged" in said and "today" in said and "that is running" in said


def test_the_licence_is_the_checkouts() -> None:
    assert (FOLDER / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_its_own_files_unchanged(told: Told, tmp_path: Path, name: str) -> None:
    told(tmp_path / "taken", "--only", name)
    copied, whole = files_of(tmp_path / "taken"), original()
    del copied["VENDORED.txt"]
    made = {path for path in copied if copied[path] != whole.get(path)}
    if name == "dlpack":
        assert made == {"__init__.py"} and copied["__init__.py"] == whole["dlpack.py"] and len(copied) <= 6
    else:
        stand_ins = {path for path in copied if b"was left out" in copied[path] and path in made}
        assert made - stand_ins == {"__init__.py"}
        assert vendor.PARTS[name][0].replace(".", "/") + ".py" in copied
        assert {path[:-3] for path in stand_ins} <= set(vendor.PARTS[name][1].split())
    assert "headers/cuda_h.py" in copied or name != "driver"
    assert "It is unchanged" in told("--check", tmp_path / "taken")


def test_sha256sum_reads_the_manifest(told: Told, tmp_path: Path) -> None:
    told(tmp_path / "taken", "--only", "dlpack")
    lines = (tmp_path / "taken" / "VENDORED.txt").read_text().splitlines()
    hashes = dict(reversed(line.split("  ")) for line in lines if len(line.split("  ")[0]) == 64)
    assert hashes == {
        name: hashlib.sha256(data).hexdigest()
        for name, data in files_of(tmp_path / "taken").items()
        if name != "VENDORED.txt"
    }
    if shutil.which("sha256sum"):
        result = subprocess.run(
            ["sha256sum", "--quiet", "-c", "VENDORED.txt"], cwd=tmp_path / "taken", stderr=subprocess.PIPE
        )
        assert result.returncode == 0, result.stderr


AT_WORK = {
    "dlpack": """
        import ctypes, taken as ours
        memory = ctypes.create_string_buffer(16)
        template = ours.Template((1, 0), (2, 32, 1), (4,), (1,), versioned=True)
        capsule = ours.export(template, ctypes.addressof(memory), memory)
        owner = ours.consume(capsule)
        try:
            ours.consume(capsule)
        except BufferError as error:
            assert "consumed already" in str(error)
        else:
            raise AssertionError("twice")
        assert len(ours.outstanding) == 1
        del owner
        assert not ours.outstanding
    """,
    "view": """
        import array, taken as ours
        values = array.array("f", range(6))
        view = ours.view(values).reshape(2, 3)
        assert ours.view(view.T.__dlpack__(max_version=(1, 0))).tolist() == [[0, 3], [1, 4], [2, 5]]
        view[1].fill(7)
        assert ours.copy(bytearray(2), b"ab") is None and values.tolist() == [0, 1, 2, 7, 7, 7]
        assert view.download().tolist() == view.tolist() and ours.view(view.memoryview()).shape == (2, 3)
        class OnDevice:
            __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}
        for reach in (lambda: ours.view(OnDevice()), lambda: ours.cu, lambda: ours.use("emulator")):
            try:
                reach()
            except NotImplementedError as error:
                assert "the part 'view' only" in str(error), error
            else:
                raise AssertionError(reach)
        heard = []
        with ours.trace(heard):
            ours.view(ours.view(values))
        assert [step.protocol for step in heard]
        from taken import *
        assert StridedView is ours.StridedView
    """,
    "driver": """
        import taken as ours, ctypes
        class Library:
            def address(self, symbol):
                return None
        try:
            ours.use("emulator")
        except NotImplementedError as error:
            assert "the part 'driver' only" in str(error), error
        else:
            raise AssertionError("there is no emulator")
        ours.use(Library())
        try:
            ours.cu.cuInit
        except OSError as error:
            assert isinstance(error, ours.DriverNotFound) and "no cuInit" in str(error), error
        else:
            raise AssertionError("it has nothing")
        from taken import *
        assert use is ours.use
    """,
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_works_alone_in_a_bare_interpreter(told: Told, python: Python, tmp_path: Path, name: str) -> None:
    told(tmp_path / "taken", "--only", name)
    result = python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        + textwrap.dedent(AT_WORK[name])
        + f"\nassert not [name for name in sys.modules if name.partition('.')[0] == {NAME.partition('.')[0]!r}]",
        flags=("-I", "-S"),
    )
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_parts_exchange_arrays_and_catch_each_others_errors(told: Told, python: Python, tmp_path: Path) -> None:
    for name in ("view", "dlpack"):
        told(tmp_path / f"part_{name}", "--only", name)
    told(tmp_path / "whole")
    result = python(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import array, part_dlpack, part_view, whole
        values = array.array("f", [1, 2, 3])
        for one, other in ((part_view, whole), (whole, part_view)):
            assert other.view(one.view(values)).tolist() == [1, 2, 3]
        capsule = whole.view(values).__dlpack__(max_version=(1, 3))
        owner = part_dlpack.consume(capsule)              # one takes what another has made
        for refusing in (part_dlpack.consume, part_view.view, whole.view):
            try:
                refusing(capsule)
            except BufferError as error:
                assert "consumed already" in str(error) and type(error).__module__.partition(".")[0] == refusing.__module__.partition(".")[0]
            else:
                raise AssertionError(refusing)
        assert len(whole.dlpack.outstanding) == 1
        del owner
        assert not whole.dlpack.outstanding
    """,
        flags=("-I", "-S"),
    )
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_from_a_zip_and_again_from_the_copy(python: Python, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        for name, data in files_of(FOLDER).items():
            archive.writestr((FOLDER / name).relative_to(ROOT).as_posix(), data)
        for parent in list(FOLDER.relative_to(ROOT).parents)[:-1]:
            archive.writestr(f"{parent.as_posix()}/__init__.py", "")
    result = python(
        ["-m", NAME, "vendor", str(tmp_path / "taken")], flags=("-S",), env={"PYTHONPATH": str(tmp_path / "packed.zip")}
    )
    assert result.returncode == 0, result.stderr
    again = python(
        ["-m", "taken", "vendor", str(tmp_path / "again")],
        flags=("-S",),
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
    )
    assert again.returncode == 0 and "all of " in again.stdout, again.stderr
    assert files_of(tmp_path / "again") == files_of(tmp_path / "taken"), "a copy of a copy tells another origin"


def test_what_was_changed_is_told(told: Told, tmp_path: Path) -> None:
    copy = tmp_path / "taken"
    told(copy, "--only", "dlpack")
    (copy / "errors.py").write_text("# mended\n")
    (copy / "interpreter" / "cpython.py").unlink()
    (copy / "more.py").touch()
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "more.pyc").touch()
    said = told("--check", copy, status=1)
    assert [line.strip() for line in said.splitlines() if line.startswith("  ")] == [
        "errors.py was changed",
        "interpreter/cpython.py is gone",
        "more.py was added",
    ]
    assert "edited: errors.py was changed" in told(copy, status=2)
    assert (copy / "errors.py").read_text() == "# mended\n"


def test_how_old_a_copy_is(told: Told, tmp_path: Path) -> None:
    copy = tmp_path / "taken"
    told(copy, "--only", "dlpack")
    manifest = copy / "VENDORED.txt"
    text = manifest.read_text("utf-8")
    first = text.splitlines()[0]
    version, date = first.split()[1].strip(","), first.split()[-1].strip(".")
    for then, expected in (("0.0.9", "older than"), ("999.0", "newer than")):
        manifest.write_text(text.replace(version, then, 1).replace(date, "2020-01-01", 1), "utf-8")
        said = told("--check", copy)
        assert expected in said and " days ago" in said and "2020-01-01" in said and then in said
    manifest.write_text(text.replace("  errors.py", "  errors2.py"), "utf-8")
    assert "files were another then" in told("--check", copy, status=1)


def test_an_unchanged_copy_is_replaced(told: Told, tmp_path: Path) -> None:
    copy = tmp_path / "taken"
    told(copy)
    told(copy, "--only", "dlpack")
    assert len(files_of(copy)) <= 7
    assert os.listdir(tmp_path) == ["taken"]


def test_what_is_not_ours_is_left_alone(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "module.py").write_text("x = 1\n")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    assert "no copy of this package" in told(tmp_path / "theirs", status=2)
    assert "no folder" in told(tmp_path / "file", status=2)
    assert "no folder" in told(tmp_path / "link", status=2)
    assert "no folder" in told(tmp_path / "nowhere" / "taken", status=2)
    assert all("cannot be imported" in told(tmp_path / name, status=2) for name in ("my-copy", "3d", "class"))
    assert "being copied" in told(FOLDER, status=2)
    assert "being copied" in told(FOLDER / "inside", status=2)
    assert "no copy that" in told("--check", tmp_path / "theirs", status=2)
    assert "leave --only out" in told("--check", tmp_path / "theirs", "--only", "view", status=2)
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "theirs"] and os.listdir(tmp_path / "theirs") == [
        "module.py"
    ]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "you are in" in told(".", status=2) and not os.listdir(".")


def test_nothing_is_half_written(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "taken"
    told(copy, "--only", "dlpack")
    before, rename = files_of(copy), os.rename

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def only_out_of_the_way(source: str, target: str) -> None:
        return full() if os.path.basename(source) == "new" else rename(source, target)

    for name, failing in (("rename", only_out_of_the_way), ("makedirs", full)):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, failing)
            assert "No space" in told(copy, status=1)
        assert files_of(copy) == before and os.listdir(tmp_path) == ["taken"]
