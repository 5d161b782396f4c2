"""What the README, `doctor --limits` and docs/emulator.md say of the emulator: each row or phrase has a test.

The tables below name the tests: a row that is new, or whose test has gone, fails here.
"""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.emulator.test_answers import REPORT
from tests.subject import CHECKOUT, NAME, module

GAPS = {
    "real asynchrony": "emulator/test_streams.py::test_lazy_mode_does_as_little_as_is_allowed",
    "weak memory ordering": "driver/test_race_free.py::test_a_missing_fence_shows_in_the_random_mode",
    "the order of threads": "emulator/test_executors.py::test_random_programs",
    "resource limits": "emulator/test_ptx_memory.py::test_a_stack_that_overflows",
    "speed": "emulator/test_ptx_benchmark.py::test_instructions_are_counted",
    "machine code": "emulator/test_modules.py::test_a_fatbin_without_ptx_is_209",
    "wgmma,": "emulator/test_ptx_rejected.py::test_what_is_not_emulated_is_refused_with_opcode_and_line",
    "texture and": "emulator/test_promises.py::test_what_does_not_exist_is_not_served",
    "multicast objects,": "emulator/test_promises.py::test_what_does_not_exist_is_not_served",
    "linking of": "emulator/test_linking.py::test_what_cannot_be_linked",
    "nodes of": "emulator/test_promises.py::test_what_does_not_exist_is_not_served",
    "unified functions": "emulator/test_promises.py::test_what_does_not_exist_is_not_served",
    "graphics and": "emulator/test_promises.py::test_what_does_not_exist_is_not_served",
    "checkpoints, coredumps,": "emulator/test_promises.py::test_what_does_not_exist_is_not_served",
    "entry points": "emulator/test_signatures.py::test_every_entry_is_in_the_header",
    "old ABIs": "emulator/test_abis.py::test_a_name_and_a_version_stand_for_an_abi",
    "tables of": "emulator/test_cudart.py::test_whoever_asks_for_the_table_of_the_own_runtime_is_told_what_to_do",
    "arrays in": "emulator/test_memory.py::test_boxes_in_a_batch",
    "launches of": "emulator/test_graphs.py::test_flags_of_an_instantiation",
    "graphs": "emulator/test_graphs.py::test_random_mode_tries_the_orders_that_a_graph_allows",
    "PTX newer": "emulator/test_ptx_rejected.py::test_newer_versions_are_read",
    "attributes of": "emulator/test_streams.py::test_facts_of_a_stream",
    "green contexts": "driver/test_green.py::test_work_in_green_contexts",
    "several devices": "emulator/test_devices.py::test_the_environment_chooses_and_numbers",
    "waiting for": "driver/test_values.py::test_the_host_can_write_the_value",
    "arrays of": "emulator/test_textures.py::test_what_only_special_arrays_have",
    "texture variables": "emulator/test_textures.py::test_instructions_that_do_not_assemble",
    "tensor maps": "driver/test_tensor_map_copies.py::test_what_a_kernel_does_wrong",
    "products of": "emulator/test_ptx_units.py::test_products_are_those_of_numpy",
    "asynchronous copies": "driver/test_buggy_kernels.py::test_a_buggy_kernel_is_reported",
    "clusters": "driver/test_cluster.py::test_the_barrier_waits_for_every_warp_of_every_block_many_times",
    "limits, priorities": "driver/test_limits.py::test_limits",
    "programmatic dependent": "driver/test_cluster.py::test_dependent_launches_see_what_came_before",
    "memory pools": "emulator/test_memory.py::test_a_pool_keeps_memory_until_it_is_trimmed_or_a_call_waits",
    "sharing between": "driver/test_sharing.py::test_an_event_of_a_process_that_died",
    "managed memory": "driver/test_memory_managed.py::test_advice_is_remembered",
    "the memory": "driver/test_checker.py::test_what_is_only_moved_may_be_anything",
    "textures and": "emulator/test_textures.py::test_mistakes_of_kernels_are_reported",
    "stricter checks": "emulator/test_memory.py::test_an_upload_from_pageable_memory_may_still_be_under_way",
    "a wait": "driver/test_values.py::test_a_wait_that_nobody_can_end",
    "results that": "driver/test_answers.py::test_zero_bytes_in_stream_order_are_a_null_pointer",
}
SETTINGS = {
    "eager": "emulator/test_contexts.py::test_the_environment_chooses",
    "dump": "emulator/test_modules.py::test_dump_writes_the_source_and_says_where",
    "lazy": "emulator/test_streams.py::test_lazy_mode_does_as_little_as_is_allowed",
    "random=7": "emulator/test_streams.py::test_random_mode_tries_different_orders_and_repeats_a_seed",
    "strict": "driver/test_checker.py::test_what_nobody_wrote_is_only_reported_unless_all_is_strict",
    "leaks": "driver/test_checker.py::test_leaks_are_listed_at_the_end_of_a_context",
    "leakcheck": "driver/test_checker.py::test_leaks_are_listed_at_the_end_of_a_context",
    "racecheck": "driver/test_buggy_kernels.py::test_a_buggy_kernel_is_reported",
    "synccheck": "driver/test_buggy_kernels.py::test_a_buggy_kernel_is_reported",
    "memcheck": "driver/test_checker.py::test_a_mistake_names_kernel_lines_block_and_thread",
    "initcheck": "driver/test_checker.py::test_a_copy_to_the_host_of_what_nobody_wrote_is_reported_on_demand",
    "timeout=30": "emulator/test_ptx_hostile.py::test_an_endless_kernel_ends_after_the_time_that_was_set",
    "unchecked": "emulator/test_executors.py::test_ways",
    "executor=scalar": "emulator/test_executors.py::test_random_programs",
    "executor=numpy": "emulator/test_executors.py::test_random_programs",
    "sm=120": "emulator/test_contexts.py::test_the_architecture_is_chosen",
    "devices=4": "emulator/test_devices.py::test_the_environment_chooses_and_numbers",
    "peers=off": "driver/test_peers.py::test_devices_that_cannot_reach_each_other",
    "peers=pairs": "emulator/test_devices.py::test_the_environment_chooses_and_numbers",
    "cuda=12.4": "emulator/test_devices.py::test_which_driver_it_stands_for",
    "report=FILE": "emulator/test_answers.py::test_a_report_replaces_what_it_tells",
    "keep_status": "driver/test_reports.py::test_a_setting_keeps_the_exit_status",
    "mig": "emulator/test_devices.py::test_mig_instances",
    "cma=0": "emulator/test_devices.py::test_managed_memory_without_concurrent_access",
    "deferred": "emulator/test_devices.py::test_a_library_that_is_compiled_later",
    "fail=cuMemAlloc_v2:3:2": "driver/test_failures.py::test_the_word_of_the_environment",
}

_MISTAKE = "driver/test_checker.py::test_a_mistake_names_kernel_lines_block_and_thread"
_FREED = "driver/test_checker.py::test_memory_that_was_given_back_is_named"
_HOST = "null/test_view_alone.py::test_everything_of_host_memory_without_the_files_that_know_a_driver"
README = {  # each thing that its section about the emulator lists
    "runs": {
        "PTX": "driver/test_ptx_compiled.py::test_vector_add",
        "graphs": "driver/test_graph.py::test_record_and_launch",
        "textures": "driver/test_texture.py::test_floats",
        "clusters": "driver/test_cluster.py::test_the_barrier_waits_for_every_warp_of_every_block_many_times",
        "memory pools": "driver/test_pool.py::test_memory_from_a_pool_is_memory",
    },
    "reports": {
        "accesses outside an allocation": _MISTAKE,
        "misaligned accesses": _MISTAKE,
        "uses of memory that was freed or never written": _FREED,
        "races in shared memory": "driver/test_checker.py::test_races_in_shared_memory",
        "barriers that some threads do not reach": "driver/test_checker.py::test_a_deadlock_says_who_waits_where",
        "endless loops": "driver/test_checker.py::test_an_endless_loop_is_named",
    },
    "names": {
        "the kernel": _MISTAKE,
        "the line": _MISTAKE,
        "the block": _MISTAKE,
        "the thread": _MISTAKE,
        "the address": _MISTAKE,
        "the line of your program that allocated the memory": _MISTAKE,
    },
    "|": {  # rows of its table
        "kernels from CUDA C, PTX; graphs, textures, streams": "driver/test_compile.py::test_from_source_to_result",
        "cubins, and code for one architecture only": "emulator/test_modules.py::test_a_fatbin_without_ptx_is_209",
        "checks of every memory access": _MISTAKE,
        "views and exchange of host arrays, `inspect`": _HOST,
        "the course": "docs/test_blocks.py::test_every_block_runs",
        "speed, weak memory ordering, real asynchrony": "emulator/test_promises.py::test_each_limit_has_a_test",
    },
}


def missing(named: dict[str, str]) -> list[str]:
    """Return the tests of a table that do not exist."""
    texts = {name.partition("::")[0]: "" for name in named.values()}
    for path in texts:
        texts[path] = (CHECKOUT / "tests" / path).read_text("utf-8")
    found = ((*name.split("::"), name) for name in named.values())
    return [
        name for path, test, name in found if not re.search(rf"^(?:async )?def {test}\(", texts[path], re.MULTILINE)
    ]


def test_each_limit_has_a_test() -> None:
    rows = {
        what: [key for key in GAPS if what == key or what.startswith(key + " ")] for what, _ in module("emulator").GAPS
    }
    assert [what for what, keys in rows.items() if not keys] == []
    assert sorted({max(keys, key=len) for keys in rows.values()}) == sorted(GAPS)
    assert missing(GAPS) == []


@pytest.mark.skipif(NAME != "rawcuda", reason="the page is that of the original")
def test_what_the_readme_says_has_a_test() -> None:
    section = (CHECKOUT / "README.md").read_text("utf-8").split("## What runs without a GPU")[1].split("\n## ")[0]
    text = re.sub(r"\s*\([^)]*\)", "", " ".join(section.split()))
    listed = {
        "runs": re.findall(r"The emulator runs (.*?)\. ", text),
        "reports": re.findall(r"it reports (.*?)\. ", text),
        "names": re.findall(r"A report names (.*?)\. ", text),
    }
    found = {verb: re.split(r",? and |, ", said[0]) for verb, said in listed.items()}
    found["|"] = re.findall(r"^\| (\w[^|]*) \|", section, re.MULTILINE)
    assert found == {verb: [*tests] for verb, tests in README.items()}
    assert [each for tests in README.values() for each in missing(tests)] == []


@pytest.mark.skipif(NAME != "rawcuda", reason="the page is that of the original")
def test_each_setting_has_a_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "FILE").write_text(json.dumps(REPORT), "utf-8")
    monkeypatch.chdir(tmp_path)
    page = (CHECKOUT / "docs" / "emulator.md").read_text("utf-8").partition("## Settings")[2]
    words = [
        word for cell in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE) for word in re.findall(r"`(.*?)`", cell)
    ]
    assert sorted(words) == sorted(SETTINGS) and missing(SETTINGS) == []
    for word in words:
        monkeypatch.setenv("RAWCUDA_EMULATOR", word)
        module("emulator").Emulator.from_environment()


def test_what_does_not_exist_is_not_served() -> None:
    """The names in parentheses, of which `*` stands for anything, have no address."""
    emulator, known = module("emulator").Emulator(), module("headers.cuda_h").prototypes()
    rows = [
        what for what, _ in module("emulator").GAPS if GAPS.get(" ".join(what.split()[:2]), "").endswith("_not_served")
    ]
    assert len(rows) == 6
    for what in rows:
        patterns = re.findall(r"\bcu[A-Z]\w*(?:\*\w*)*", what)
        assert patterns, what
        for pattern in patterns:
            names = [name for name in known if fnmatchcase(name, pattern)]
            assert names or "*" in pattern, pattern
            assert [name for name in names if emulator.address(name) is not None] == [], pattern
