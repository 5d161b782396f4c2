"""The race checker follows its table: what it does with two accesses, by their kinds and by what orders them."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.driver.race_pairs import is_same_pair
from tests.shared import sampled

pytestmark = [pytest.mark.emulator_only("a GPU does not write such reports"), pytest.mark.once]
TEXT = """.version 7.8
.target sm_75
.address_size 64
.visible .entry k(.param .u64 at) {{
    .reg .b64 %d1; .reg .b32 %r<9>; .reg .pred %p<9>;
    .shared .align 8 .b8 tile[8];
    ld.param.u64 %d1, [at]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
    {start}
    setp.ne.u32 %p1, %r3, 0; @%p1 bra A;
    {earlier}
A:  {between}
    setp.ne.u32 %p2, %r3, {other}; @%p2 bra B;
    {later}
B:  ret;
}}
"""
START = "setp.eq.u32 %p3, %r1, 0; @%p3 st.volatile.shared.v2.u32 [tile], {0, 0}; bar.sync 0;"
KINDS = {
    "a plain read": ["ld.{s}.u32 %r5, [{a}];", "ld.{s}{nc}.u32 %r5, [{a}];",
                     "ld.{s}{nc}.v2.u32 {{%r5, %r6}}, [{a}];"],  # (nc: const __restrict__)
    "a strong read": ["ld.volatile.{s}.u32 %r5, [{a}];", "ld.acquire.gpu.{s}.u32 %r5, [{a}];",
                      "atom.{s}.cas.b32 %r5, [{a}], 77, 78;"],
    "a plain store": ["st.{s}.u32 [{a}], {v};"],
    "a strong store": ["st.volatile.{s}.u32 [{a}], {v};", "st.relaxed.gpu.{s}.u32 [{a}], {v};"],
    "an atomic": ["atom.{s}.add.u32 %r6, [{a}], 1;", "red.{s}.or.b32 [{a}], 4;", "atom.{s}.exch.b32 %r6, [{a}], {v};"],
}  # fmt: skip
PLAIN_READ, STRONG_READ, PLAIN_STORE, STRONG_STORE, ATOMIC = KINDS
NOTHING, REPORT = "", "racecheck: "
TABLE = {
    PLAIN_READ: (NOTHING, NOTHING, REPORT, REPORT, REPORT),
    STRONG_READ: (NOTHING, NOTHING, NOTHING, NOTHING, NOTHING),
    PLAIN_STORE: (REPORT, NOTHING, REPORT, REPORT, REPORT),
    STRONG_STORE: (REPORT, NOTHING, REPORT, NOTHING, NOTHING),
    ATOMIC: (REPORT, NOTHING, REPORT, NOTHING, NOTHING),
}
# the later thread, what stands between the two accesses, whether the table holds
RELATIONS = {
    "the same thread": (0, "", False),
    "the same warp": (1, "", True),
    "a barrier of the warp": (1, "bar.warp.sync -1;", False),
    "another warp": (32, "", True),
    "a barrier of the warp, another warp": (32, "bar.warp.sync -1;", True),
    "a barrier": (32, "bar.sync 0;", False),
    "another block": (64, "", True),
    "another block after a barrier": (64, "bar.sync 0;", True),
}


def outcome(earlier: str, later: str, other: int = 32, between: str = "", shared: bool = False) -> str:
    """Run a kernel in which thread 0 does one thing and another thread a later one; return the report."""
    code, reports = run(earlier, later, other, between, shared, strict=True, checks=("racecheck", "synccheck"))
    assert code == (719 if reports and "the same value" not in reports[-1] else 0), reports
    return reports[-1] if reports else ""


def run(earlier: str, later: str, other: int, between: str, shared: bool, **options: Any) -> tuple[int, list[str]]:
    """Run such a kernel on an emulator with these options; return its code and the reports."""
    from tests.emulator.emulator_client import Client

    client = Client(**options)
    words = {"s": "shared" if shared else "global", "a": "tile" if shared else "%d1", "nc": "" if shared else ".nc"}
    start = START if shared else ""
    text = TEXT.format(
        start=start,
        earlier=earlier.format(**words, v=5),
        later=later.format(**words, v=6),
        other=other,
        between=between,
    )
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    code = client.launch(function, [client.upload(bytes(8))], grid=(2, 1, 1), block=(64, 1, 1))
    return code or client.code("cuCtxSynchronize"), client.emulator.reports


@pytest.mark.parametrize("relation", sampled(RELATIONS))
def test_two_accesses(relation: str) -> None:
    other, between, unordered = RELATIONS[relation]
    for earlier, later in itertools.product(KINDS, KINDS):
        wanted = TABLE[earlier][list(KINDS).index(later)] if unordered else NOTHING
        for first, second in itertools.product(KINDS[earlier], KINDS[later]):
            for shared in (False, True) if other < 64 else (False,):
                report = outcome(first, second, other, between, shared)
                assert report.startswith(wanted) and bool(report) == bool(wanted), (first, second, shared, report)


@pytest.mark.parametrize("executor", ["numpy", "scalar"])
def test_without_racecheck_the_same_pair_is_named(executor: str) -> None:
    """By default only races in shared memory are found, and not all of them."""
    found = 0
    for earlier, later in itertools.product(KINDS.values(), KINDS.values()):
        for other in (1, 32):
            _, reports = run(earlier[0], later[0], other, "", True, executor=executor)
            checked = outcome(earlier[0], later[0], other, "", True)
            assert all(is_same_pair(report, checked) for report in reports), (earlier, later, reports, checked)
            found += len(reports)
    assert found > 3


READ, POLL, STORE, RAISE, ADD = (KINDS[kind][0] for kind in KINDS)
TAKE, TAKE_TOO = "atom.{s}.cas.b32 %r6, [{a}], 0, 1;", "atom.{s}.exch.b32 %r6, [{a}], 1;"
USED = "setp.eq.u32 %p4, %r6, 1; @%p4 "
RED, BIT = "red.{s}.add.u32 [{a}], 1;", "atom.{s}.or.b32 %r6, [{a}], 1; setp.eq.u32 %p4, %r6, 1;"
RED_OR = "red.{s}.or.b32 [{a}], 1;"
BIT_TOO = "atom.{s}.or.b32 %r6, [{a}], 2; setp.ne.u32 %p4, %r6, 0; @!%p4 "
FENCE = "membar.gl;"
SAME = STORE.replace("{v}", "0")
RACE = "racecheck: "
CASES = {  # the earlier accesses, the later ones, the report
    "a plain store is not forgotten over an atomic": (STORE + ADD, ADD, RACE + "write after write"),
    "nor over a strong store": (STORE + RAISE, READ, RACE + "read after write"),
    "nor over a lock": (STORE + TAKE_TOO, READ, RACE + "read after write"),
    "nor is a plain read over a strong read": (READ + POLL, STORE, RACE + "write after read"),
    "nor over a strong store of another place": (READ + "st.volatile.{s}.u32 [{a}+4], 1;", STORE, RACE),
    "a reset after an addition": (ADD + STORE, ADD, RACE + "write after write"),
    "an addition before a reset": (ADD, "red.{s}.add.u32 [{a}+4], 1;" + STORE, RACE + "write after write"),
    "a reset of what a thread has counted": (ADD, ADD + USED + STORE, ""),
    "a reset of what others have counted, too": (ADD, ADD + STORE, RACE + "write after write"),
    "the same after an atomic that returns nothing": (ADD, RED + STORE, RACE + "write after write"),
    "the same after two of them": (ADD, RED + RED + STORE, RACE + "write after write"),
    "a reset of what a thread alone has counted": (READ, RED + STORE, RACE + "write after read"),
    "a reset by the thread that counted first": (RED + STORE, "", ""),
    "a bit lock released by a plain store": (BIT + FENCE + STORE, BIT, ""),
    "a bit lock of others": (BIT + FENCE, BIT_TOO + FENCE + STORE, ""),
    "a bit lock released by an atomic": (BIT + FENCE + "red.{s}.and.b32 [{a}], 0;", BIT + FENCE + STORE, ""),
    "a bit that is set without a look": (RED_OR, RED_OR + STORE, RACE + "write after write"),
    "a bit that is set first without a look": ("", RED_OR + FENCE + STORE + STORE, ""),
    "a reset of what a thread has polled": (ADD, POLL + STORE, ""),
    "a read of what a thread has polled": (RAISE, POLL + READ, ""),
    "a read of what a thread has counted": (ADD, ADD + READ, ""),
    "a lock released by a plain store": (TAKE + FENCE + STORE, TAKE, ""),
    "a lock of an exchange released by a plain store": (TAKE_TOO + FENCE + SAME, TAKE_TOO, ""),
    "a lock released by a volatile store": (TAKE + FENCE + RAISE, TAKE, ""),
    "a lock released by a volatile store, then taken and released": (TAKE + FENCE + RAISE, TAKE + FENCE + STORE, ""),
    "a second store after the release": (TAKE + FENCE + STORE + STORE, TAKE_TOO, RACE + "write after write"),
    "a store by a thread that did not get the lock": (TAKE, TAKE + STORE, ""),
    "a plain read of a lock": (TAKE + FENCE + STORE, READ, RACE + "read after write"),
    "a plain read before an attempt to take a lock": (TAKE + FENCE + STORE, READ + TAKE, ""),
    "a plain read before a strong store": (RAISE, READ + RAISE, ""),
    "a plain read that decides about a strong store": (READ + RAISE, RAISE, ""),
    "a flag by a plain store, and a strong one": (FENCE + STORE, RAISE, ""),
    "a flag by a strong store, and a plain one": (RAISE, FENCE + STORE, ""),
    "the value that is there, after a plain store": (SAME, SAME, f"{RACE}write after write(.|\\n)* the same value "),
    "the value that is there, after a plain read": (READ, SAME, ""),
    "the value that is there, after a strong store": (RAISE.replace("{v}", "0"), SAME, ""),
    "the value that is there, after an atomic": (ADD, STORE.replace("{v}", "1"), RACE + "write after write"),
}  # fmt: skip


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
def test_several_accesses(shared: bool) -> None:
    for name, (earlier, later, wanted) in CASES.items():
        report = outcome(earlier, later, shared=shared)
        assert re.match(wanted, report) and bool(report) == bool(wanted), (name, report)


def test_scopes_of_atomics() -> None:
    here = "atom.cta.{s}.add.u32 %r5, [{a}], 1;"
    for first, second in ((here, ADD), (ADD, here), (here, here)):
        assert "the scope of one of these atomics" in outcome(first, second, 64)
        assert not outcome(first, second, 32)
