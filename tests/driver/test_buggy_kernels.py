"""Fifty buggy kernels are reported with their kind, their lines and their launch; their corrected forms are silent.

The kernels are in tests/data/buggy, in CUDA C. A line that takes part in a mistake ends with a mark such as `// race`.
"""

from __future__ import annotations

import functools
import re
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.driver.race_pairs import is_same_pair
from tests.subject import module, rawcuda

pytestmark = [
    pytest.mark.emulator_only("a GPU does not write such reports"),
    pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS"),
    pytest.mark.once,
]
SOURCES = Path(__file__).resolve().parent.parent / "data" / "buggy"
CHECKS = ("racecheck", "synccheck")
FILES = ("memory.cu", "order.cu", "ends.cu", "copies.cu")
TARGETS = {"copies.cu": "sm_90"}
COMPILED = {"lineinfo": ["-lineinfo"], "debug": ["-G"]}


class Case(NamedTuple):
    """A kernel, the beginning of its report, and how it is launched.

    shape   arguments: "f64" is an array of 64 floats that count from 0, "i64" of integers, "0x64" of zeros, "u64"
            is not initialized, "freed" was freed, "null" is 0; a number is an int
    """

    kind: str
    arguments: str
    block: int | tuple[int, int] = 64
    grid: int | tuple[int, int] = 1
    shared: int = 0


CASES = {
    "past_the_end": Case("out-of-bounds read", "f100 u100 100", 64, 2),
    "before_the_start": Case("out-of-bounds read", "u64 f64 16 4", 16, 4),
    "wrong_pitch": Case("out-of-bounds write", "u128 32 4", 4),
    "a_null_pointer": Case("null-pointer read of 4 bytes", "u32 null", 32),
    "past_shared": Case("out-of-bounds read", "i32 u32", 32),
    "dynamic_shared": Case("out-of-bounds write", "d16 u32 16", 16, 1, 128),
    "past_local": Case("out-of-bounds read", "u8 0x8", 8),
    "stale": Case("use-after-free read", "u32 freed f32", 32),
    "list_of_freed_nodes": Case("use-after-free read", "u4", 32),
    "misaligned_vector": Case("misaligned read", "f64 u64", 4),
    "misaligned_packet": Case("misaligned read", "i16 u4", 4),
    "sum_without_start": Case("initcheck: ", "i16 u1 16", 32),
    "scratch_without_start": Case("initcheck: ", "u64 u64 64", 64),
    "stencil": Case("racecheck: ", "f100 u100 100", 64, 2),
    "reverse": Case("racecheck: write after read", "i64", 64, 1, 256),
    "tiled_product": Case("racecheck: ", "f256 f256 u256 16", (8, 8), (2, 2)),
    "tree": Case("racecheck: ", "i128 u1", 128),
    "scan": Case("racecheck: ", "i64 u64", 64),
    "histogram": Case("racecheck: write after write", "i64 u32 256", 64),
    "votes": Case("racecheck: (read after write|write after read)", "i256 u1", 256),
    "barrier_in_a_branch": Case("synccheck: threads that do not meet", "i64", 64),
    "two_barriers": Case("synccheck: barrier divergence", "i64", 64),
    "barrier_in_a_loop": Case("synccheck: barrier divergence", "i64 u64", 64),
    "a_count_that_does_not_fit": Case("synccheck: deadlock", "i64", 64),
    "half_a_warp_shuffles": Case("synccheck: threads that do not meet", "f64", 64),
    "a_mask_without_the_caller": Case("synccheck: threads that do not meet", "i64", 64),
    "a_ballot_of_some": Case("synccheck: deadlock", "i64 u64 20", 64),
    "last_warp": Case("racecheck: ", "i64 u1", 64),
    "volatile_warp": Case("racecheck: ", "i64 u1", 64),
    "neighbours_in_a_warp": Case("racecheck: (write after read|read after write)", "i32", 32),
    "counter": Case("racecheck: ", "0x1 i128", 64, 2),
    "halo": Case("racecheck: ", "f128 f128 128", 32, 4),
    "decode": Case("racecheck: write after read", "i64 u64 0x1", 64),
    "backwards": Case("racecheck: write after read", "i64 u64 u64", 64),
    "next_element": Case("racecheck: write after read", "u32 u32", 32),
    "neighbours_block": Case("racecheck: ", "u128 u128", 32, 4),
    "atomics_of_a_block": Case("racecheck: write after write", "0x1", 32, 2),
    "last_block": Case("racecheck: read after write", "f256 u8 u1", 32, 8),
    "message": Case("racecheck: read after write", "0x1 0x1 u1", 32, 2),
    "a_lock": Case("racecheck: read after write", "0x1 0x1", 32, 4),
    "bins_without_start": Case("racecheck: write after write", "i64 u64 64", 64),
    "reset_too_early": Case("racecheck: write after write", "0x1 u64", 64),
    "last_block_of_many": Case("racecheck: read after write", "f256 u256 u256", 64, 4),
    "last_warp_of_many": Case("racecheck: read after write", "f256 u256 u256", 64, 4),
    "first_warp_publishes": Case("racecheck: read after write", "u32 0x1 u32", 64, 2),
    "fence_of_the_block_only": Case("racecheck: read after write", "u32 0x1 u32", 32, 2),
    "asserts": Case("assertion failed", "i32 u32", 32),
    "traps": Case("the kernel executed a trap", "i32 u32", 32),
    "endless": Case("endless loop", "i32 u32", 32),
    "waits_for_nobody": Case("endless loop", "0x1 u32", 32),
    "copy_without_wait": Case("racecheck: read before the end of a copy", "f64 u64"),
    "copy_without_commit": Case("racecheck: read before the end of a copy", "f64 u64"),
    "one_group_too_few": Case("racecheck: read before the end of a copy", "f256 u64 4"),
    "barrier_before_the_wait": Case("racecheck: read before the end of a copy", "f64 u64"),
    "no_barrier_after_the_wait": Case("racecheck: read after write", "f64 u64"),
    "reads_the_next_thread": Case("racecheck: write after read", "f64 u64"),
    "copy_over_what_is_read": Case("racecheck: (write after read|read after write)", "f256 u64 4"),
    "store_over_a_copy": Case("racecheck: write before the end of a copy", "f64 u64"),
    "bulk_without_wait": Case("racecheck: read before the end of a copy", "f64 u64"),
    "one_thread_waits": Case("racecheck: read before the end of a copy", "f64 u64"),
    "bulk_without_fence": Case("racecheck: read after write", "f64 u64"),
    "source_overwritten": Case("racecheck: write before the end of a copy", "f64 u128"),
    "neighbours_in_a_cluster": Case("racecheck: ", "f64 u64", 32, 2),
    "last_cluster": Case("racecheck: read after write", "f256 u256 u256", 64, 4),
}


@functools.cache
def sources() -> dict[str, tuple[Path, int, int]]:
    """Return where each kernel is: the file, and the lines from the end of the kernel before to its own end."""
    found = {}
    for path in (SOURCES / file for file in FILES):
        lines, first = path.read_text().split("\n"), 1
        name = ""
        for number, line in enumerate(lines, 1):
            named = re.match(r'extern "C" __global__ void (?:__cluster_dims__\([\d, ]+\) )?(\w+)', line)
            name = named[1] if named else name
            if line == "}" and name:
                found[name], first, name = (path, first, number), number + 1, ""
    return found


def marked(name: str) -> set[int]:
    """Return the marked lines of a kernel."""
    path, first, last = sources()[name]
    lines = path.read_text().split("\n")
    return {n for n in range(first, last + 1) if re.search(r"// [a-z ]+(\(inlined\))?$", lines[n - 1])}


@functools.cache
def compiled(path: Path, wrong: bool, how: str) -> bytes:
    options = [*COMPILED[how], *(["-DBUG"] if wrong else [])]
    return bytes(rawcuda.compile(path, target=TARGETS.get(path.name, "sm_75"), options=options))


def argument(client: Any, word: str) -> Any:
    kind, count = word[:1], word[1:]
    if word == "null":
        return 0
    if word.isdecimal():
        return struct.pack("<i", int(word))
    if word == "freed":
        address = client.upload(bytes(4096))
        client.do("cuMemFree_v2", address)
        return address
    if word.startswith("0x"):
        return client.upload(bytes(4 * int(word[2:])))
    if kind == "u":
        return client.allocate(4 * int(count))
    code = {"f": "f", "i": "i", "d": "d"}[kind]
    return client.upload(struct.pack(f"<{int(count)}{code}", *range(int(count))))


def three(size: int | tuple[int, int]) -> tuple[int, int, int]:
    return (size, 1, 1) if isinstance(size, int) else (*size, 1)


def only(code: bytes, name: str) -> bytes:
    """Return some PTX with one of its kernels, which loads faster."""
    entry = re.compile(rb"^\.visible \.entry (\w+)\(.*?^\}\n", re.DOTALL | re.MULTILINE)
    return entry.sub(lambda found: found[0] if found[1] == name.encode() else b"", code)


def start(client: Any, module: int, name: str) -> int:
    """Run a kernel; return the result."""
    case = CASES[name]
    arguments = [argument(client, word) for word in case.arguments.split()]
    function = client.get("cuModuleGetFunction", module, name.encode())
    code = client.launch(function, arguments, grid=three(case.grid), block=three(case.block), shared=case.shared)
    return int(code or client.code("cuCtxSynchronize"))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let endless loops end soon."""
    monkeypatch.setattr(module("emulator.ptx.running.lookups").Limits.__init__, "__defaults__", (40_000, 50, 0.0))


TELLS = pytest.mark.tells_freed


@pytest.mark.parametrize("how", COMPILED)
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=TELLS if each in ("stale", "list_of_freed_nodes") else ()) for each in CASES]
)
def test_a_buggy_kernel_is_reported(name: str, how: str, impatient: None) -> None:
    from tests.emulator.emulator_client import Client

    client = Client(strict=True, checks=CHECKS)
    code = start(client, client.load(only(compiled(sources()[name][0], True, how), name)), name)
    reports = client.emulator.reports
    assert code and reports, (code, reports)
    report = reports[-1]
    assert re.match(CASES[name].kind, report), report
    assert re.search(r"\n    launched at .*emulator_client\.py:\d+ \| ", report), report
    assert f"kernel {name}, block (" in report and "thread (" in report, report
    file, lines = sources()[name][0].name, marked(name)
    named = {int(number) for number in re.findall(rf"{re.escape(file)}:(\d+)\b", report)}
    assert lines & named, (sorted(lines), report)
    quoted = re.findall(rf"^    {re.escape(file)}:(\d+)(?::\d+)? \| (.*)$", report, re.MULTILINE)
    text = sources()[name][0].read_text().split("\n")
    assert quoted and all(line == text[int(number) - 1].strip()[:160] for number, line in quoted), report
    if CASES[name].kind.startswith("racecheck"):
        assert len(re.findall(r"thread \(\d+, \d+, \d+\)", report)) >= 3, report  # both threads, and the place
        remedies = ("a barrier is missing between them", "nothing orders the two blocks", "the scope of one of",
                    "that nobody has waited for", "no fence.proxy.async in between",
                    "An atomic operation does that in one step")  # fmt: skip
        assert any(words in report for words in remedies), report


MODES: dict[str, dict[str, Any]] = {
    "checked": {"checks": CHECKS},
    "numpy": {"executor": "numpy"},
    "scalar": {"executor": "scalar"},
    "random": {"mode": "random"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", COMPILED)
@pytest.mark.parametrize("file", FILES)
def test_the_corrected_forms_are_silent(file: str, how: str, mode: str) -> None:
    from tests.emulator.emulator_client import Client

    client = Client(strict=True, **MODES[mode])
    loaded = client.load(compiled(SOURCES / file, False, how))
    for name in CASES:
        if sources()[name][0].name == file:
            assert (start(client, loaded, name), client.emulator.reports) == (0, []), name


DEFAULTS: dict[str, dict[str, Any]] = {
    "auto": {},
    "numpy": {"executor": "numpy"},
    "scalar": {"executor": "scalar"},
    "random": {"mode": "random"},
    "strict": {"strict": True},
}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind.startswith("racecheck")])
def test_without_racecheck_the_same_pair_is_named(name: str, impatient: None) -> None:
    """Both threads, the address and the line are those of the report of racecheck, or it names a group of threads."""
    from tests.emulator.emulator_client import Client

    code = only(compiled(sources()[name][0], True, "lineinfo"), name)

    def races(**options: Any) -> list[str]:
        client = Client(**options)
        start(client, client.load(code), name)
        return [report for report in client.emulator.reports if report.startswith("racecheck")]

    (checked,) = races(checks=("racecheck",))
    for mode, options in DEFAULTS.items():
        for report in races(**options):
            assert is_same_pair(report, checked), (mode, report, checked)


def test_every_kernel_is_tested() -> None:
    assert set(sources()) == set(CASES) and len(CASES) >= 40
    assert all(marked(name) for name in CASES)
