"""The package as users get it: one small pure wheel, a checkout, a zip, a folder under python -I -S."""

from __future__ import annotations

import configparser
import email
import email.message
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import Python
from tests.subject import CHECKOUT, FOLDER, NAME, rawcuda

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="only the original is packaged")

MOST_BYTES = 1_450_000  # docs/performance.md says what weighs how much
DEMO = ["-m", "rawcuda", "demo"]
EMULATOR = {"RAWCUDA_DRIVER": "emulator"}
METADATA = configparser.ConfigParser()
METADATA.read(CHECKOUT / "setup.cfg", encoding="utf-8")


def sources() -> dict[str, bytes]:
    """Return the files of the package: path below its parent folder, and content."""
    return {
        path.relative_to(FOLDER.parent).as_posix(): path.read_bytes()
        for path in sorted(FOLDER.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of a copy as pip does, with the setuptools of this environment and without a network."""
    if importlib.util.find_spec("setuptools") is None or importlib.util.find_spec("pip") is None:
        pytest.skip("pip and setuptools are not installed")
    if int(importlib.metadata.version("setuptools").split(".")[0]) < 71 and importlib.util.find_spec("wheel") is None:
        pytest.skip("setuptools is older than 70.1, and wheel is not installed")
    copy, built = tmp_path_factory.mktemp("checkout") / "copy", tmp_path_factory.mktemp("wheel")
    shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info"))
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-build-isolation",
            "--no-deps",
            "--no-index",
            "--quiet",
            "--disable-pip-version-check",
            "--wheel-dir",
            built,
            copy,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    [path] = built.iterdir()
    return path


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> email.message.Message:
    """Return the metadata of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_is_pure_and_small(wheel: Path) -> None:
    assert wheel.name == f"rawcuda-{rawcuda.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < MOST_BYTES, f"{wheel.stat().st_size} bytes"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    assert packed["rawcuda/LICENSE"] == (CHECKOUT / "LICENSE").read_bytes()  # once: what `vendor` copies, too
    assert "rawcuda/py.typed" in packed
    assert packed == sources()


def test_the_metadata(metadata: email.message.Message) -> None:
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert required == []
    assert metadata["Name"] == "rawcuda" and metadata["Requires-Python"].replace(" ", "") == ">=3.9"
    assert "MIT" in (metadata["License"] or metadata["License-Expression"])
    assert metadata.get_all("Provides-Extra") == ["nvrtc", "site", "test"]
    assert metadata.get_payload() or metadata["Description"]


def test_there_is_one_version() -> None:
    """setup.cfg takes it from the package, and the other files of a release say the same."""
    from tests.release import problems

    assert METADATA["metadata"]["version"] == "attr: rawcuda.__version__"
    assert problems(CHECKOUT, draft=True) == []


def test_pyproject_holds_no_metadata() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text("utf-8")
    assert "[project" not in text and "[build-system]" in text
    assert "install_requires" not in METADATA["options"]


def test_the_licence() -> None:
    text = (CHECKOUT / "LICENSE").read_text("utf-8")
    assert text.startswith("MIT License") and "the rawcuda developers" in text


# -- running it


def demo_is_right(result: subprocess.CompletedProcess[str]) -> None:
    """Check that a demo ran on the emulator, that its first line says so, and that its results are right."""
    assert result.returncode == 0, result.stdout + result.stderr
    assert "emulator" in result.stdout.splitlines()[0], result.stdout


def test_it_runs_straight_from_a_checkout(python: Python) -> None:
    demo_is_right(python(DEMO, flags=("-S",), cwd=CHECKOUT, env={**EMULATOR, "PYTHONPATH": None}))


def test_it_runs_from_an_unpacked_wheel(python: Python, wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    demo_is_right(python(DEMO, flags=("-S",), env={**EMULATOR, "PYTHONPATH": str(tmp_path / "site")}))


def test_an_unpacked_wheel_can_be_vendored_from(python: Python, wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    result = python(
        ["-m", "rawcuda", "vendor", str(tmp_path / "copy")], flags=("-S",), env={"PYTHONPATH": str(tmp_path / "site")}
    )
    assert result.returncode == 0, result.stderr
    copied = {
        path.relative_to(tmp_path / "copy").as_posix(): path.read_bytes()
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file()
    }
    assert b"MIT License" in copied.pop("VENDORED.txt")
    assert {f"rawcuda/{name}": data for name, data in copied.items()} == sources()


def test_it_runs_from_a_zip(python: Python, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for name, content in sources().items():
            archive.writestr(name, content)
    env = {**EMULATOR, "PYTHONPATH": str(tmp_path / "package.zip")}
    where = python("import rawcuda; print(rawcuda.__file__)", flags=("-S",), env=env)
    assert "package.zip" in where.stdout, where.stderr
    demo_is_right(python(DEMO, flags=("-S",), env=env))


def test_it_runs_isolated_without_site(python: Python) -> None:
    """-I ignores the environment, so the emulator is chosen by an argument."""
    demo_is_right(
        python(
            f"""
        import sys
        sys.path.insert(0, {str(FOLDER.parent)!r})
        from rawcuda.__main__ import main
        sys.exit(main(["demo", "--driver", "emulator"]))
    """,
            flags=("-I", "-S"),
        )
    )


def test_a_folder_that_sys_path_names_with_dots(python: Python) -> None:
    """As in the notebooks: the emulator still tells its own code from the program's."""
    result = python(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        import rawcuda
        from rawcuda.emulator.machine import recovery

        device = rawcuda.Device(0)
        memory = device.empty(4, "float32")
        kernel = device.load('''.version 7.8
            .target sm_75
            .address_size 64
            .entry k(.param .u64 out) { .reg .b64 %d; ld.param.u64 %d, [out]; st.global.u32 [%d+16], 1; ret; }''')["k"]
        kernel.launch(memory, grid=1, block=1)
        try:
            device.synchronize()
        except rawcuda.CudaError as error:
            print(error)
        try:
            recovery.covered(None, None)
        except Exception as error:
            inside = error.with_traceback(error.__traceback__.tb_next)
            print(rawcuda.__file__, recovery.is_outside(inside))
        """,
        str(CHECKOUT / "tests" / ".."),
        env=EMULATOR,
    )
    assert result.returncode == 0 and "tests/..".replace("/", os.sep) in result.stdout, result.stderr
    assert "allocated at <string>:8; " in result.stdout and "launched at <string>:13" in result.stdout, result.stdout
    assert result.stdout.endswith(" False\n")
