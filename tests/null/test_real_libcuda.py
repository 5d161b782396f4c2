"""The table of cuda.h and the emulator agree with NVIDIA's own drivers, as far as these answer without a GPU.

The drivers are unpacked once, from packages; where these cannot be had, the tests are skipped with the reason. Each
driver is asked in a process of its own, before cuInit.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.emulator_client import Client
from tests.null import real_drivers
from tests.null.test_cuda_h import number
from tests.subject import CHECKOUT, NAME, module

cuda_h, codes, abis = module("headers.cuda_h"), module("emulator.machine.codes"), module("emulator.interface.abis")
CACHE = CHECKOUT / ".venv" / "libcuda"
pytestmark = [pytest.mark.heavy, pytest.mark.every_change, pytest.mark.xdist_group("libcuda")]

# What libcuda exports for other headers, for NVIDIA's debugger, and without any header.
OTHERS = re.compile(
    r"cudbg|cu(GL|EGL|VDPAU)[A-Z]|cuGraphics(GL|EGL|VDPAU|ResourceGetMappedEgl)|cuMemGetAttribute(_v2)?$"
)
ANSWERING = "cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString cuGetProcAddress cuGetProcAddress_v2".split()
POINTERS = (ctypes._Pointer, module("headers.c_types").VoidPointer, module("headers.c_types").String)
NONE = ["", "cuNothing", "cuMemAlloc_v2", "cuMemcpy_ptds", "cuMemcpy_ptsz", "CUINIT", "cuinit", "malloc", "cudbgMain"]


@functools.cache
def questions() -> list[tuple[str, int, int]]:
    """Return (name, version, flags) to ask for: each name just before and at the version of each of its ABIs."""
    abis: dict[str, set[int]] = {name: set() for name in NONE}
    for symbol, prototype in cuda_h.prototypes().items():
        plain = re.sub(r"(_v\d)?(_ptsz|_ptds)?$", "", symbol)
        abis.setdefault(plain, set()).update((number(prototype.abi) - 10, number(prototype.abi)))
    return [
        (name, version, flags)
        for name in abis
        for version in sorted(abis[name] | {0, 2010, 6990, 12000, -1})
        for flags in ((0, 1, 2, 3, 4, 8, 2**32 + 1, 2**63) if version == 12000 else (0, 2))
    ]


@functools.cache
def calls() -> list[tuple[str, str]]:
    """Return each function that has no handle, function or structure among its parameters, and their kinds."""
    found = []
    for name, prototype in cuda_h.prototypes().items():
        kinds = [kind for _, kind in prototype.parameters]
        if name not in ANSWERING and all(issubclass(kind, (cuda_h.Integer, *POINTERS)) for kind in kinds):
            found.append((name, "".join("i" if issubclass(kind, cuda_h.Integer) else "p" for kind in kinds)))
    return found


@functools.cache
def answers(path: Path) -> dict[str, Any]:
    """Return what a driver answers."""
    command = [sys.executable, real_drivers.__file__, str(path)]
    asked = json.dumps([questions(), calls()])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture(params=range(len(real_drivers.DRIVERS)), ids=real_drivers.DRIVERS)
def driver(request: pytest.FixtureRequest) -> Path:
    """A real libcuda.so.1."""
    if sys.platform != "linux" or sys.maxsize < 2**32 or os.uname().machine != "x86_64":
        pytest.skip("the drivers that can be unpacked are for Linux on x86-64")
    found, reason = real_drivers.drivers(CACHE)
    if request.param >= len(found):
        pytest.skip(f"no driver to compare with: {reason or 'set CUDA_DRIVERS'}")
    return found[request.param]  # type: ignore[no-any-return]


@pytest.fixture
def real(driver: Path) -> dict[str, Any]:
    """What a real driver answers."""
    return answers(driver)


def test_the_driver_exports_what_the_table_says(real: dict[str, Any]) -> None:
    """Every function of the table whose version the driver has, and nothing else: so each `since` is right."""
    _, version = real["driver version"]
    wanted = {name for name, prototype in cuda_h.prototypes().items() if number(prototype.since) <= version}
    exported = {name for name in real["symbols"] if not OTHERS.match(name)}
    assert len(wanted) > 450 and sorted(wanted ^ exported) == []


def test_the_emulator_names_and_describes_codes_as_the_driver_does(real: dict[str, Any]) -> None:
    """Each code; those that only newer drivers know are left out. Neither knows any other number."""
    client = Client(start=False)
    text = ctypes.c_char_p()
    for code in [*range(-2, 1100), 2**31 - 1, -(2**31)]:
        row: list[Any] = []
        for symbol in ("cuGetErrorName", "cuGetErrorString"):
            text.value = b"untouched"
            row += [client.code(symbol, code % 2**32, text), None if text.value is None else text.value.decode()]
        theirs = real["codes"].get(str(code))
        if theirs is None and code in codes.NAMES:
            assert row[0] == row[2] == 0, code
        else:
            assert row == (theirs or [1, None, 1, None]), code
    assert {int(code) for code in real["codes"]} <= set(codes.NAMES)


def test_the_emulator_finds_the_abi_that_the_driver_finds(real: dict[str, Any]) -> None:
    """Each name, version and flag; versions newer than the driver are left out."""
    _, version = real["driver version"]
    wrong = {}
    for (name, asked, flags), theirs in zip(questions(), real["addresses"]):
        if not -1 < asked <= version or number(first(name)) > version or flags > 3:
            continue
        symbol, status = abis.symbol_of(name, asked, flags)
        ours = [0, symbol, 0, symbol, 0] if symbol else [500, "untouched", 0, "", status]
        if ours[: len(theirs)] != theirs:  # before CUDA 12.0, there is one form only
            wrong[name, asked, flags] = ours, theirs
    assert len(real["addresses"]) > 5000 and not wrong


def first(name: str) -> tuple[int, int]:
    """Return the first version of CUDA that has a function of this plain name."""
    found = [cuda_h.prototypes().get(f"{name}{suffix}") for suffix in ("", "_v2", "_v3", "_v4")]
    return min((each.since for each in found if each is not None), default=(0, 0))


def test_the_emulator_answers_questions_for_addresses_as_the_driver_does(real: dict[str, Any]) -> None:
    """Its entry points, through both forms of cuGetProcAddress; what it lacks, it does not find."""
    _, version = real["driver version"]
    client = Client(start=False)
    of, wrong = client.emulator.address, {}

    class Library:
        cuGetProcAddress = staticmethod(ctypes.CFUNCTYPE(ctypes.c_int)(of("cuGetProcAddress")))
        cuGetProcAddress_v2 = staticmethod(ctypes.CFUNCTYPE(ctypes.c_int)(of("cuGetProcAddress_v2")))

    places = {of(symbol): symbol for symbol in cuda_h.prototypes() if of(symbol)}
    served = 0
    for (name, asked, flags), theirs in zip(questions(), real["addresses"]):
        if asked > version or number(first(name)) > version:
            continue
        if asked == -1 and abis.symbol_of(name, -1, flags) != abis.symbol_of(name, version, flags):
            continue  # the newest ABI is newer than this driver
        ours = real_drivers.resolve(Library, name, asked, flags, places)
        lacks = theirs[1] not in ("", "untouched") and of(theirs[1]) is None
        wanted = [500, "untouched", 0, "", 1][: len(theirs)] if lacks else theirs
        served += theirs[0] == 0 and not lacks
        if ours[: len(theirs)] != wanted:
            wrong[name, asked, flags] = ours, wanted
    assert served > 1000 and not wrong, dict(list(wrong.items())[:20])


def test_before_cuinit_the_emulator_refuses_what_the_driver_refuses(real: dict[str, Any]) -> None:
    """NOT_INITIALIZED; the driver looks at a few arguments first, the emulator never does."""
    client = Client(start=False)
    served = [(name, form) for name, form in calls() if name in real["refusals"] and client.emulator.address(name)]
    for name, form in served:
        function = ctypes.CFUNCTYPE(ctypes.c_int)(client.emulator.address(name))
        assert real_drivers.call(function, form) == 3, name
    theirs = [real["refusals"][name] for name, _ in served]
    theirs = [code for code in theirs if code != 801]  # of older functions, which the driver no longer has
    assert len(theirs) > 90 and set(theirs) <= {1, 3} and theirs.count(3) >= len(theirs) - 4


def test_the_version(real: dict[str, Any], driver: Path) -> None:
    code, version = real["driver version"]
    known = (11040, 12000, 12020, 12040, 12050)
    assert code == 0 and version in known or str(driver) in os.environ.get("CUDA_DRIVERS", "")


# -- what a user is told who has a driver and no GPU


@pytest.fixture
def without_gpu(driver: Path) -> Any:
    """A function that runs Python with a real driver on a machine without a GPU; returns the finished process."""
    if Path("/dev/nvidia0").exists() or Path("/dev/dxg").exists():
        pytest.skip("this machine has a GPU")

    def run(*words: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("RAWCUDA", "CUDA_VISIBLE"))},
            "LD_LIBRARY_PATH": str(driver.parent),
            **{key: value for key, value in variables.items() if value is not None},
        }
        with real_drivers.Nodes():
            return subprocess.run(
                [sys.executable, *words], capture_output=True, text=True, timeout=120, env=environment, cwd=CHECKOUT
            )

    return run


TELLING = (
    "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected",
    "A driver for CUDA 1",
    "was loaded, but it sees no GPU",
    "use('emulator')",
    "RAWCUDA_DRIVER=emulator",
    "kernel module",
    "docker run --gpus all",
)


def test_the_error_says_that_the_driver_is_there_and_what_to_do(without_gpu: Any) -> None:
    code = """
        from tests.subject import rawcuda
        for ask in (lambda: rawcuda.Device(0), rawcuda.devices, lambda: rawcuda.cu.cuCtxSynchronize()):
            try:
                ask()
            except rawcuda.Unsupported as error:
                print(error, error.code, error.name)
        rawcuda.use("emulator")
        print(rawcuda.Device(0).name)
    """
    done = without_gpu("-c", textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    for words in (*TELLING, "100 CUDA_ERROR_NO_DEVICE"):
        assert done.stdout.count(words) == 3, words
    assert done.stdout.rstrip().endswith(" emulator"), "after the refusal, the emulator can still be chosen"
    hidden = without_gpu("-c", textwrap.dedent(code), CUDA_VISIBLE_DEVICES="-1")
    assert "CUDA_VISIBLE_DEVICES is '-1', which hides every GPU" in hidden.stdout


def test_doctor_says_that_the_driver_is_there_and_sees_no_gpu(without_gpu: Any, driver: Path) -> None:
    done = without_gpu("-m", NAME, "doctor")
    assert done.returncode == 1 and not done.stderr, done.stderr
    out = " ".join(done.stdout.split())
    for words in (*TELLING, "libcuda.so.1 (the system loader's search", "loads", "CUDA version 1", "entry points"):
        assert words in out, words
    version = re.search(r"CUDA version +(\d+)\.(\d+)", done.stdout)
    assert version and f"came after CUDA {version[1]}.{version[2]}" in out and "it lacks" not in out
    assert "No kernel ran: a driver for CUDA 1" in out and "demo --driver emulator" in out and done.stdout.isascii()


def test_demo_runs_on_the_emulator_or_says_why_it_does_not(without_gpu: Any, driver: Path) -> None:
    if "trixie" in driver.parts:  # the kernels take some seconds
        done = without_gpu("-m", NAME, "demo")
        assert done.returncode == 0, done.stderr
        told = " ".join(done.stdout.split())  # it is wrapped
        assert told.startswith("On the emulator (no GPU can be used: a driver for CUDA 12.4 was loaded, but it sees no")
    for words in (("--driver", "nvidia"), ("--driver", str(driver))):
        refused = without_gpu("-m", NAME, "demo", *words)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
        assert refused.stderr.startswith("error: a driver for CUDA 1") and "sees no GPU" in refused.stderr
        assert "doctor shows more, and --driver emulator needs no GPU" in refused.stderr


def test_the_driver_leaves_no_device_node_behind(without_gpu: Any) -> None:
    before = sorted(Path("/dev").glob("nvidia*"))
    without_gpu("-c", "from tests.subject import rawcuda\ntry: rawcuda.Device(0)\nexcept rawcuda.Unsupported: pass")
    assert sorted(Path("/dev").glob("nvidia*")) == before
