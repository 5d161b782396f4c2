"""Right programs give no report, whatever is checked; one without a barrier or a fence usually gives one."""

from __future__ import annotations

import os
import random
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.driver.random_kernels import BLOCKS, THREADS, WORDS, kernel, syncs
from tests.subject import rawcuda

pytestmark = [
    pytest.mark.emulator_only("a GPU does not write such reports"),
    pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS"),
    pytest.mark.once,
]
CHECKS = ("racecheck", "synccheck")
TOGETHER = 25  # kernels of one compilation
FEW, MANY = 100, int(os.environ.get("RACE_FREE", "5000"))  # of the run with --heavy


def run(texts: list[str], **options: Any) -> list[tuple[int, list[str]]]:
    """Compile kernels k0, k1, ... together, and run each on fresh memory; return results and reports."""
    from tests.emulator.emulator_client import Client

    code, found = rawcuda.compile("\n".join(texts), target="sm_75", options=["-lineinfo", "-w"]), []
    client = loaded = None
    for number in range(len(texts)):
        if client is None or found[-1][0]:
            client = Client(strict=True, **options)
            loaded = client.load(bytes(code))
        sizes = (4 * WORDS, 64, 4 * BLOCKS, 4, 4 * WORDS + 4)
        arguments = [client.upload(bytes(size)) for size in sizes]
        function = client.get("cuModuleGetFunction", loaded, b"k%d" % number)
        result = client.launch(function, arguments, grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1))
        result = result or client.code("cuCtxSynchronize")
        found.append((result, list(client.emulator.reports)))
        client.emulator.reports.clear()
    return found


def silent(seeds: range, **options: Any) -> None:
    for first in range(seeds.start, seeds.stop, TOGETHER):
        here = range(first, min(first + TOGETHER, seeds.stop))
        results = run([kernel(seed, f"k{number}") for number, seed in enumerate(here)], **options)
        for seed, result in zip(here, results):
            assert result == (0, []), (seed, kernel(seed, "k"), result)


def test_random_programs_without_races_are_silent() -> None:
    silent(range(FEW), checks=CHECKS)


RIGHT = Path(__file__).resolve().parent.parent / "data" / "buggy" / "right.cu"
GROUPS_PTX = RIGHT.with_name("groups.ptx")
PATTERNS = {  # grid, block, bytes of dynamic shared memory, arguments: arrays of ints by their length, or ("i", number)
    "early_return": (2, 64, 0, [100, 100, ("i", 100)]),
    "block_reduce": (3, 96, 0, [500, 1, ("i", 500)]),
    "small_block": (1, 20, 0, [20, 20]),
    "test_and_set": (2, 64, 0, [128, 1, ("i", 128)]),
    "visited": (2, 64, 0, [128, 32, 32, 1, ("i", 128)]),
    "same_flag": (2, 64, 0, [128, 1, ("i", 128)]),
    "ticket_lock": (4, 32, 0, [4]),
    "release_acquire": (3, 32, 0, [2, 1, 3]),
    "producer_consumer": (1, 64, 0, [160, 160, ("i", 5)]),
    "histogram_of_blocks": (3, 64, 64, [400, 16, ("i", 400)]),
    "bytes_of_neighbours": (2, 64, 0, [32]),
    "votes_of_a_block": (2, 64, 0, [64, 2]),
    "divergent_warp": (1, 64, 0, [64, 64]),
    "lock_with_plain_release": (4, 32, 0, [1, 1]),
    "lock_with_volatile_release": (4, 32, 0, [1, 1]),
    "lock_tested_first": (2, 64, 0, [1, 1]),
    "barrier_by_hand": (3, 64, 0, [192]),
    "split_reduction": (4, 64, 0, [256, 256, 1]),
    "flag_after_a_barrier": (3, 32, 0, [128, 1, 96]),
    "found_by_one": (2, 64, 0, [128, 1]),
    "transposed": ((2, 2), (16, 16), 0, [1024, 1024, ("i", 32)]),
}
GROUPS = {  # as above; the PTX of groups.cu
    "grid_barrier": (3, 64, 0, [192, ("i", 192)]),
    "tiles": (1, 64, 0, [64, 9]),
    "atomic_message": (3, 32, 0, [2, 1, 3]),
    "atomic_lock": (4, 32, 0, [1, 1]),
    "reduced": (1, 64, 0, [64, 2]),
}
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "checked": {"checks": CHECKS},
    "numpy": {"executor": "numpy"},
    "random": {"mode": "random"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["-lineinfo", "-G", "groups"])
def test_right_patterns_are_silent(how: str, way: str) -> None:
    from tests.emulator.emulator_client import Client

    groups = how == "groups"
    code = GROUPS_PTX.read_bytes() if groups else rawcuda.compile(RIGHT, target="sm_80", options=[how, "-w"])
    client = Client(strict=True, **WAYS[way])
    loaded = client.load(bytes(code))
    for name, (grid, block, shared, given) in (GROUPS if groups else PATTERNS).items():
        arguments = [
            client.upload(struct.pack(f"<{each}i", *range(each)))
            if isinstance(each, int)
            else struct.pack("<i", each[1])
            for each in given
        ]
        if name in ("visited", "release_acquire", "atomic_message"):
            arguments[1] = client.upload(bytes(128))
        if name == "atomic_lock":
            arguments[0] = client.upload(bytes(4))
        if name == "visited":
            arguments[3] = client.upload(bytes(4))
        sizes = [(size, 1, 1) if isinstance(size, int) else (*size, 1) for size in (grid, block)]
        function = client.get("cuModuleGetFunction", loaded, name.encode())
        launch = client.cooperative if name == "grid_barrier" else client.launch
        result = launch(function, arguments, grid=sizes[0], block=sizes[1], shared=shared)
        result = result or client.code("cuCtxSynchronize")
        assert (result, client.emulator.reports) == (0, []), name


@pytest.mark.parametrize("options", [{"executor": "numpy"}, {"mode": "random"}], ids=["numpy", "random"])
def test_other_ways_to_run_them_are_silent_too(options: dict[str, Any]) -> None:
    silent(range(FEW, FEW + TOGETHER), **options)


@pytest.mark.heavy
def test_many_random_programs_without_races_are_silent() -> None:
    silent(range(MANY), checks=CHECKS)


def test_most_programs_without_one_of_their_barriers_are_reported() -> None:
    seeds = [seed for seed in range(TOGETHER) if syncs(seed) > 3]
    wrong, reported = 0, 0
    for first in range(0, len(seeds), TOGETHER):
        here = seeds[first : first + TOGETHER]
        texts = [kernel(seed, f"k{n}", random.Random(seed).randint(1, syncs(seed))) for n, seed in enumerate(here)]
        for code, reports in run(texts, checks=CHECKS):
            wrong, reported = wrong + 1, reported + (code == 719 and reports[-1].startswith("racecheck: "))
            assert not code or code == 719, reports
    assert reported > wrong // 3, (wrong, reported)  # many of the barriers are needed for nothing


@pytest.mark.parametrize(
    "mode, fence, right", [("eager", False, True), ("random", True, True), ("random", False, False)]
)
def test_a_missing_fence_shows_in_the_random_mode(mode: str, fence: bool, right: bool) -> None:
    """The last block sums what all have stored; without a fence, it reads what was there before."""
    from tests.emulator.emulator_client import Client

    source = RIGHT.with_name("order.cu")
    code = bytes(rawcuda.compile(source, target="sm_75", options=[*([] if fence else ["-DBUG"]), "-w"]))
    sums = set()
    for seed in range(5):
        client = Client(mode, seed)
        part, out = client.upload(bytes(32)), client.upload(bytes(4))
        given = client.upload(struct.pack("<256f", *(k // 32 * (k % 32 == 0) for k in range(256))))
        function = client.get("cuModuleGetFunction", client.load(code), b"last_block")
        assert not client.launch(function, [given, part, out], grid=(8, 1, 1), block=(32, 1, 1))
        sums.add(*struct.unpack("<f", client.download(out, 4)))
        assert sorted(struct.unpack("<8f", client.download(part, 32))) == list(range(8))  # all is visible at the end
    assert (sums == {28.0}) is right, sums
