"""Tests on arm64: Debian's Python for arm64, under QEMU's user emulation, on another processor.

This needs root, debootstrap, and a kernel that starts programs for arm64 with QEMU; the first run makes the root of
such a system in .venv/, from the archives and the package index that this machine is set to. There is no CUDA, of
course: what differs from x86-64 is the machine code of the objects that `emulate` loads, the layout of structures, and
how C functions and callbacks are called. Everything takes some ten times as long.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.subject import CHECKOUT, NAME

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(NAME != "rawcuda", reason="this runs the checkout"),
    pytest.mark.skipif(platform.machine() == "aarch64", reason="the plain tests run on arm64 here"),
    pytest.mark.xdist_group("arm64"),
]

SUITE, VERSION = "bookworm", "3.11"  # of Debian, and of its Python
PACKAGES = f"python3,libpython{VERSION},gcc,libc6-dev"
WHEELS = ("pytest >= 8", "numpy", "ml_dtypes", "nvidia-cuda-runtime >= 13", "nvidia-cuda-nvrtc >= 13")
ROOT = CHECKOUT / ".venv" / f"arm64-{SUITE}"

# The files of tests: those about what differs, and some of each kind.
FILES = {
    "objects": ("emulator/test_impersonation.py",),
    "layouts": tuple(
        f"null/test_{name}.py"
        for name in ("ctypes_types", "cuda_h", "cuda_h_types", "dtypes", "kernel_types", "layout")
    ),
    "exchange": tuple(f"null/test_dlpack_{name}.py" for name in ("callback", "exchange", "export", "import", "struct"))
    + ("null/test_protocol_buffer.py", "null/test_view.py", "null/test_view_numpy.py", "null/test_vendor.py"),
    "driver": tuple(f"driver/test_{name}.py" for name in ("copies", "kernel", "launch", "modules", "stream")),
}


def _done(command: list[str], **options: object) -> str:
    """Run a command and return its output; skip the test if it fails."""
    done = subprocess.run(  # type: ignore[call-overload]
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stdout[-500:]}")
    return str(done.stdout)


@pytest.fixture(scope="module")
def root(pytestconfig: pytest.Config) -> Path:
    """Return the root of a Debian for arm64; make it if there is none."""
    if pytestconfig.getoption("change"):
        pytest.skip("this takes too long for each change: `python3 -m tests --heavy reruns -- -k arm64` runs it")
    if not sys.platform.startswith("linux") or os.geteuid():
        pytest.skip("only root on Linux can make and enter the root of another system")
    missing = [name for name in ("debootstrap", "dpkg-deb", "unshare", "chroot") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"there is no {' or '.join(missing)} (on Debian: apt install debootstrap)")
    if not Path("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists():
        pytest.skip(
            "the kernel does not start programs for arm64: apt install qemu-user-static; without systemd, then\n"
            "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; "
            "cat /usr/lib/binfmt.d/qemu-aarch64.conf > /proc/sys/fs/binfmt_misc/register"
        )
    if not (ROOT / "complete").exists():
        shutil.rmtree(ROOT, ignore_errors=True)
        _make()
        (ROOT / "complete").touch()
    return ROOT


def _make() -> None:
    """Unpack Debian's packages without their scripts, which take minutes under emulation, and the wheels."""
    ROOT.mkdir(parents=True)
    words = ["--arch=arm64", "--foreign", "--variant=minbase", f"--include={PACKAGES}"]
    _done(["debootstrap", *words, SUITE, str(ROOT)])
    for archive in sorted((ROOT / "var/cache/apt/archives").glob("*.deb")):
        unpack = 'dpkg-deb --fsys-tarfile "$0" | tar -x -p --keep-directory-symlink -C "$1"'
        _done(["sh", "-c", unpack, str(archive), str(ROOT)])
        archive.unlink()
    (ROOT / "proc").unlink()  # a link, until the scripts have run
    for name in ("proc", "checkout"):
        (ROOT / name).mkdir()
    (ROOT / "usr/bin/cc").symlink_to("gcc")
    shutil.copy(ROOT / "usr/share/base-passwd/passwd.master", ROOT / "etc/passwd")
    target = ROOT / f"usr/local/lib/python{VERSION}/dist-packages"
    place = ["--target", str(target), "--only-binary=:all:", "--python-version", VERSION]
    platforms = ["--platform=manylinux_2_28_aarch64", "--platform=manylinux2014_aarch64"]
    _done([sys.executable, "-m", "pip", "install", "--quiet", *place, *platforms, *WHEELS])


def start(root: Path, *words: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a command there, in the checkout. What it mounts is seen by this command only, and ends with it."""
    mounts = 'mount --bind "$1" "$0/checkout"; mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"'
    enter = 'root=$0; shift; exec chroot "$root" env -i -C /checkout "$@"'
    variables = ("PATH=/usr/bin:/usr/sbin", "HOME=/root", "LANG=C.UTF-8", "PYTHONPYCACHEPREFIX=/tmp/bytecode")
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", f"{mounts}; {enter}", str(root), str(CHECKOUT), *variables, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
    )


@pytest.mark.parametrize("part", FILES)
def test_the_tests_pass_on_arm64(root: Path, part: str) -> None:
    files = [f"tests/{name}" for name in FILES[part]]
    options = ["-q", "--tb=short", "-rfEs", "-p", "no:cacheprovider", "-o", "addopts="]
    done = start(root, "python3", "-m", "pytest", *files, *options, timeout=3600)
    print(done.stdout)
    assert done.returncode == 0 and " passed" in done.stdout.splitlines()[-1], done.stdout


@pytest.mark.parametrize(
    "command", ["demo --driver emulator", "doctor --driver emulator", "check --driver emulator --no-report"]
)
def test_the_commands_run_on_arm64(root: Path, command: str) -> None:
    done = start(root, "python3", "-m", "rawcuda", *command.split(), timeout=900)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
