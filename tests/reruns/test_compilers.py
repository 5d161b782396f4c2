"""CUDA C with old and new versions of NVRTC and nvJitLink, each in an environment of its own.

In each environment, the tests of the compiler and of the linker run, and the blocks of every page that compiles CUDA C.
What a version lacks is listed here, with its words.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.__main__ import environment
from tests.docs import pages
from tests.subject import CHECKOUT, NAME

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(NAME != "rawcuda", reason="the pages are about the original"),
    pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS"),
    pytest.mark.xdist_group("compilers"),
]


class Version(NamedTuple):
    """A version of CUDA on the package index, and what it lacks.

    packages    behind "nvidia-", with the end of their names for this version
    newest      the newest architecture that its compiler knows
    refused     page: what each of its blocks that fail says
    left_out    tests that need what this version lacks
    """

    packages: tuple[str, ...]
    newest: str
    refused: dict[str, str]
    left_out: tuple[str, ...]


HEADERS = ("cuda-runtime", "cuda-cccl")
COMPILERS = ("cuda-nvrtc", *HEADERS)
VERSIONS = {
    "11.8": Version(
        tuple(f"{name}-cu11 == 11.8.*" for name in COMPILERS),
        "sm_90",
        {
            "docs/compiling.md": "(NVRTC 11.8) does not know sm_90a",
            "docs/linking.md": "makes no LTO-IR: CUDA 12.0 introduced it|no linker was found: nvJitLink",
        },
        (
            "test_bytes[sm_90-ltoir]",
            "test_bytes[compute_90a",
            "test_everything_that_matters_is_part_of_the_key",  # with sm_90a
            "test_targets_and_outputs_that_are_refused",  # of LTO-IR
            "test_without_nvjitlink_each_place_is_listed",  # with LTO-IR
            "test_an_identifier_that_a_header_declares[FLT_MAX",  # its <cuda/std/cfloat> does not declare it
        ),
    ),
    "12.0": Version(
        tuple(f"{name}-cu12 == 12.0.*" for name in (*COMPILERS, "nvjitlink")),
        "sm_90a",
        {},
        (
            "test_lto_ir",  # with -O3
            "test_fatbins_objects_and_archives",  # those of nvcc 13
            "test_missing_and_duplicate_symbols_in_lto_ir",  # it takes one of the two
            "test_another_architecture",  # it takes LTO-IR for an older one
            "test_an_identifier_that_a_header_declares",  # its package has no <cuda/std/...>
        ),
    ),
    "12.9": Version(
        tuple(f"{name}-cu12 == 12.9.*" for name in (*COMPILERS, "nvjitlink")),
        "sm_121",
        {},
        ("test_fatbins_objects_and_archives", "test_an_identifier_that_a_header_declares[FLT_MAX"),
    ),
    "newest": Version(tuple(f"{name} >= 13" for name in (*COMPILERS, "nvjitlink")), "sm_121", {}, ()),
}
# These show numbers of lines of the PTX, which each version makes in its own way.
WITH_LINES = {"docs/checkers.md", "docs/emulator.md"}
PAGES = [
    path.relative_to(CHECKOUT).as_posix()
    for path in pages.pages()
    if any("compile(" in block.code for block in pages.blocks(path.read_text("utf-8")))
]

BOTH_ENDS = """
import sys
import rawcuda

name, newest, has_linker = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
source = open("examples/saxpy.cu").read()
ptx = rawcuda.compile(source, target="sm_80")
print("compiled", ptx.decode().partition("release ")[2].partition(",")[0])
for target in ("sm_80", newest):
    cubin = rawcuda.compile(source, target=target, output="cubin")
    assert cubin[:4] == b"\\x7fELF" and b"saxpy" in cubin
device = rawcuda.Device(0)
x, y = (device.upload(bytearray(4000)).reinterpret("float32") for _ in range(2))
x.fill(3)
y.fill(1)
device.load(ptx)["saxpy"].launch(1000, 2.5, x, y, grid=4, block=256)
assert y.tolist() == [8.5] * 1000
if has_linker:
    caller = 'extern __device__ int f(int); extern "C" __global__ void k(int *p) { *p = f(*p); }'
    for output in ("ptx", "ltoir"):
        options = ["-rdc=true"] if output == "ptx" else []
        images = [
            rawcuda.compile(each, target="sm_80", output=output, options=options)
            for each in (caller, "__device__ int f(int x) { return 2 * x; }")
        ]
        assert rawcuda.link(images, target="sm_90")[:4] == b"\\x7fELF"
    linked = rawcuda.link(images, target="sm_90", output="ptx")
    print("linked", linked.decode().partition("release ")[2].partition(",")[0])
    p = device.empty(1, "int32").fill(21)
    device.load(linked)["k"].launch(p, grid=1, block=1)
    assert p.tolist() == [42]
"""


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """The name of a version."""
    if request.config.getoption("change"):
        pytest.skip("this takes too long for each change: `python3 -m tests --heavy reruns -- -k compilers` runs it")
    return str(request.param)


def python_of(version: str) -> str:
    """Return the Python of the environment with this version; the packages are downloaded once."""
    return environment(["pytest >= 8", "numpy", *(f"nvidia-{name}" for name in VERSIONS[version].packages)])


def run(version: str, *words: str, folder: Path = CHECKOUT, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    """Run a command of that Python, on the emulator; the compilers of this machine's toolkit are not looked for."""
    variables = {key: value for key, value in os.environ.items() if key not in ("CUDA_HOME", "CUDA_PATH")}
    variables.update(RAWCUDA_DRIVER="emulator", PYTHONPATH=str(CHECKOUT))
    return subprocess.run(
        [python_of(version), *words],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )


def number(version: str) -> str:
    """Return the version of CUDA as a regular expression."""
    return re.escape(version) if version != "newest" else r"(?:13\.[5-9]|13\.\d\d|1[4-9]\.\d+)"


def test_it_is_this_version_that_compiles_and_links(version: str) -> None:
    has_linker = version != "11.8"
    done = run(version, "-c", BOTH_ENDS, version, VERSIONS[version].newest, str(has_linker))
    assert done.returncode == 0, done.stdout
    wanted = [f"compiled {number(version)}", *[f"linked {number(version)}"] * has_linker]
    assert re.fullmatch("\n".join(wanted), done.stdout.strip()), done.stdout


def test_doctor_tells_the_versions(version: str) -> None:
    done = run(version, "-m", NAME, "doctor", "--driver", "emulator")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, said
    assert re.search(rf"nvrtc /\S+ {number(version)} ", said), said
    if version == "11.8":
        assert "nvjitlink not found" in said
    else:
        assert re.search(rf"nvjitlink /\S+ {number(version)} ", said), said


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITH_LINES])
def test_the_pages_run(version: str, page: str, tmp_path: Path) -> None:
    done = run(version, "-m", "tests.docs.pages", str(CHECKOUT / page), "--here", folder=tmp_path)
    refusal = VERSIONS[version].refused.get(page)
    if refusal is None:
        assert done.returncode == 0, done.stdout
    else:
        failed = re.split(rf"^{re.escape(str(CHECKOUT / page))}:\d+: ", done.stdout, flags=re.M)[1:]
        allowed = refusal.split("|")
        assert failed and all(any(words in each for words in allowed) for each in failed), done.stdout


def test_the_tests_of_compiler_and_linker_pass(version: str, tmp_path: Path) -> None:
    files = [f"tests/driver/test_{name}.py" for name in ("compile", "link")]
    left_out = VERSIONS[version].left_out
    collected = run(version, "-m", "pytest", *files, "--collect-only", "-q", "-o", "addopts=").stdout.splitlines()
    without = [line for line in collected if any(f"::{name}" in line for name in left_out)]
    assert len(without) >= len(left_out), collected
    words = [
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        f"--basetemp={tmp_path / 'inner'}",
        *(f"--deselect={each}" for each in without),
    ]
    done = run(version, "-m", "pytest", *files, *words, timeout=1800)
    print(done.stdout)
    assert done.returncode == 0 and " passed" in done.stdout.splitlines()[-1], done.stdout
