"""The table of what functions do beside what they are called for."""

from __future__ import annotations

import re

import pytest

from tests.behaviour_table import PAGE, filled, sources
from tests.subject import module

behaviour, cuda_h = module("headers.behaviour"), module("headers.cuda_h")
PLAIN = {re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", symbol) for symbol in cuda_h.prototypes()}


def test_each_function_is_declared_and_stands_in_one_row():
    listed = [name for line in behaviour._TABLE.strip().splitlines() for name in line.split("|")[4].split()]
    assert len(listed) == len(set(listed)) == len(behaviour.functions())
    assert set(listed) <= PLAIN, set(listed) - PLAIN


def test_the_columns():
    for row in behaviour.functions().values():
        assert row.capture in ("unsafe", "captured", "free")
        assert row.waits in ("", "context", "stream", "event", "memory")
        assert row.sources, "a row needs a source"
    assert {number for row in behaviour.functions().values() for number in row.sources} == set(sources(behaviour))


@pytest.mark.parametrize("symbol", ["cuMemAlloc", "cuMemAlloc_v2", "cuMemcpyHtoD_v2_ptds", "cuEventQuery"])
def test_all_names_of_a_function(symbol):
    assert behaviour.of(symbol).capture == "unsafe"


def test_a_function_that_is_not_in_the_table_disturbs_nothing():
    assert behaviour.of("cuDeviceGetCount") == ("free", "", "", ())


def test_the_tables_of_codes():
    results = cuda_h.results()
    for table in (behaviour._ANSWERS, behaviour._DIFFERENT):
        for name, (numbers, told) in behaviour.codes(table).items():
            assert name in PLAIN and numbers and set(numbers) <= {0, *results} and told
    assert behaviour.answers("cuStreamQuery_ptsz") == (600,) and behaviour.answers("cuMemAlloc_v2") == ()


def test_what_a_host_function_may_call_is_what_the_emulator_permits_there():
    emulator = module("emulator")
    emulator.Emulator()  # it imports the entry points
    entries = module("emulator.interface.thunks").ENTRIES
    free = {re.sub(r"_v\d+$", "", name) for name, entry in entries.items() if entry.free}
    assert free == behaviour.ANYWHERE


def test_the_page_has_the_tables():
    text = PAGE.read_text("utf-8")
    assert filled(text) == text, "run python3 -m tests.behaviour_table"
