"""What a browser lacks: a test that asks for it is skipped there, with this as its reason."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Callable

import pytest

__all__ = ["Lacking", "refuse"]

# Names in the code of a test, and of what it calls in the tests: it is left out before it has begun any work.
_WORDS = {
    **dict.fromkeys(("threading", "ThreadPoolExecutor"), "threads"),
    **dict.fromkeys(("fork", "Popen", "check_output"), "processes"),
    **dict.fromkeys(("setitimer", "alarm", "raise_signal", "pthread_kill"), "signals"),
    **dict.fromkeys(("geteuid", "chown", "getgroups"), "owners of files"),
    "mkfifo": "pipes with a name",
    "posix_fallocate": "space that is reserved for a file",
    "thread_time": "time of one thread",
}


def refuse() -> None:
    """Replace what cannot work by functions that skip the test which calls them."""
    replaced: Any = subprocess.Popen
    replaced.__init__ = _skipping("processes")
    replaced.__del__ = lambda self: None
    thread: Any = threading.Thread
    thread.start = _skipping("threads")
    for module, name in (os, "fork"), (signal, "setitimer"), (signal, "alarm"), (asyncio, "run"):
        setattr(module, name, _skipping(name))


class Lacking:
    """A plugin that skips a file or a test which asks for something that is not there."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        names = [item.nodeid for item in items]
        files = {f"{name.partition('::')[0]}::" for name in names}
        for begin in TESTS:
            if begin.startswith(tuple(files)) and not any(name.startswith(begin) for name in names):
                raise pytest.UsageError(f"tests/pyodide/lacking.py leaves out {begin}: there is no such test")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        for begin, reason in TESTS.items():
            if item.nodeid.startswith(begin):
                pytest.skip(reason)
        if "python" in getattr(item, "fixturenames", ()):
            pytest.skip("in a browser there are no processes")
        for name in _names(item.function, set()):  # type: ignore[attr-defined]
            if name in _WORDS:
                pytest.skip(f"in a browser there are no {_WORDS[name]}")
        _translate((yield))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        _translate((yield))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        report = (yield).get_result()  # type: ignore[misc]
        lacking = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", str(report.longrepr))
        if report.failed and lacking:
            report.outcome = "skipped"
            report.longrepr = str(collector.path), None, f"Skipped: in a browser there is no {lacking[1]}"


def _translate(outcome: Any) -> None:
    """Make a skipped test of one that failed because of something that is not there."""
    error = None if outcome.excinfo is None else outcome.excinfo[1]
    if error is None:
        return
    if "does not fit a pointer, which has" in str(error):
        reason = "in a browser DLPack exports no device memory"
    elif "globalAddress: " in str(error) and str(error).endswith("above 0xffffffff"):
        reason = "in a browser a tensor map has a pointer of 4 bytes"
    elif "sharing between processes needs Linux" in str(error):
        reason = "in a browser there are no other processes"
    elif "dlpack_c_exchange: StridedView does not offer it" in str(error):
        reason = "in a browser there is no C exchange table"
    elif isinstance(error, ModuleNotFoundError):
        reason = f"in a browser there is no {error.name}"
    elif type(error).__name__ == "CompilerNotFound":
        reason = "in a browser there is no compiler for CUDA C"
    elif isinstance(error, pytest.skip.Exception):
        reason = str(error)
    else:
        return
    for name in "last_type", "last_value", "last_traceback", "last_exc":  # pytest's: they keep the frames alive
        vars(sys).pop(name, None)
    outcome.force_exception(pytest.skip.Exception(reason))


def _names(function: Any, seen: set[int]) -> Iterator[str]:
    """Yield the names and texts in the code of a function, of those inside it, and of the functions that it calls."""
    code = getattr(function, "__code__", None)
    inside = [code] if code is not None and id(code) not in seen else []
    while inside:
        each = inside.pop()
        seen.add(id(each))
        inside += [value for value in each.co_consts if isinstance(value, types.CodeType)]
        yield from (value for value in each.co_consts if isinstance(value, str))  # for monkeypatch.setattr()
        for name in each.co_names:
            yield name
            called = function.__globals__.get(name)
            if isinstance(called, types.FunctionType) and called.__module__.startswith("tests."):
                yield from _names(called, seen)


def _skipping(what: str) -> Callable[..., None]:
    def skip(*given: object, **_: object) -> None:
        for each in given:
            if isinstance(each, types.CoroutineType):
                each.close()
        pytest.skip(f"in a browser there is no {what}")

    return skip


# Single tests, or what their names begin with, and why.
_INLINE = "in a browser work is done in the call that submits it, so nobody can end its wait"
_FREED = "in a browser no destructor frees an export at once"
_WIDE = "in a browser pointers, size_t and long have 4 bytes"
_OWNERS = "in a browser files have no owners"
TESTS = {
    f"tests/{name}": reason
    for reason, names in {
        _INLINE: (
            "driver/test_every_call.py::test_an_exception_at_each_line_of_every_call[Event]",
            "driver/test_every_call.py::test_an_exception_at_each_line_of_every_call[Stream]",
            "driver/test_host_functions.py::test_a_function_lives_until_it_has_run",
            "driver/test_interrupts.py::test_an_exception_at_each_line[values and calls]",
            "driver/test_peers.py::test_streams_of_two_devices_wait_for_each_other",
            "driver/test_trace.py::test_a_real_chrome_trace",
            "driver/test_trace.py::test_lanes_of_real_streams",
            "driver/test_waiting.py::test_a_pipeline_of_two_streams",
            "driver/test_waiting.py::test_a_wait_can_be_cancelled",
            "driver/test_waiting.py::test_a_wait_with_a_time_limit",
        ),
        _FREED: (
            "driver/test_memory.py::test_an_array_interface_of_a_memory_keeps_its_bytes",
            "driver/test_memory.py::test_an_export_keeps_the_bytes_of_closed_memory",
            "driver/test_memory_registered.py::test_it_is_undone_when_it_is_dropped",
            "driver/test_reset.py::test_host_memory_that_arrays_use[DLPack-",
            "driver/test_reset.py::test_registered_memory_outlives_the_reset[DLPack-",
            "null/test_dlpack_import.py::test_2_27_the_deleter_is_called_with_the_gil",
            "null/test_pictures.py::test_lives_that_end_otherwise",
            "null/test_protocol_buffer.py::test_6_16_a_pending_export_pins_a_bytearray",
            "null/test_trace.py::test_each_step_in_the_life_of_a_capsule_is_told",
        ),
        _WIDE: (
            "driver/test_kernel.py::test_a_declared_integer_takes_the_numbers_of_its_range[.u64-c_ulong-",
            "driver/test_kernel.py::test_a_declared_signed_integer_of_8_bytes_takes_numbers_alone[c_long]",
            "driver/test_kernel.py::test_types_that_do_not_tell_the_sign_take_both[-1-c_void_p]",
            "driver/test_kernel.py::test_types_that_do_not_tell_the_sign_take_both[1-c_void_p]",
            "driver/test_kernel.py::test_values_arrive_bit_for_bit[.u64-argument21-",
            "driver/test_launch.py::test_every_argument_on_every_stream",
            "driver/test_launch_options.py::test_an_access_policy_window",
            "driver/test_limits.py::test_bad_limits[malloc_heap_size-",
            "driver/test_limits.py::test_bad_limits[stack_size-1099511627776-",
            "driver/test_memory.py::test_sizes",
            "driver/test_memory_virtual.py::test_too_little_memory_leaves_what_was_there",
            "driver/test_emulator_public.py::test_errors_say_what_was_wrong",
            "driver/test_every_call.py::test_an_exception_at_each_line_of_every_call[TensorMap]",
            "driver/test_every_call.py::test_every_call_while_a_driver_call_fails[TensorMap]",
            "driver/test_values.py::test_access_policy_window",
            "driver/test_wrong_objects.py::test_wrong_objects[TensorMap.",
            "null/test_cuda_h_types.py::test_a_ctypes_integer_of_the_same_width",
            "null/test_cuda_h_types.py::test_an_integer_of_its_range_only[size_t]",
            "null/test_cuda_h_types.py::test_every_argument_arrives",
            "null/test_driver.py::test_an_old_abi_is_had_by_its_exact_name_only",
            "null/test_headers_reader.py::test_a_structure_with_everything",
            "null/test_headers_reader.py::test_every_size_is_that_of_64_bits",
            "null/test_kernel_types.py::test_the_source_and_the_name_agree[_Z4castId6__halfEvPKT_PT0_m]",
            "null/test_kernel_types.py::test_the_source_and_the_name_agree[_Z5hgemmPK6__halfS1_PS_mmm]",
            "null/test_kernel_types.py::test_the_source_and_the_name_agree[_Z6sha256PKhmPjy]",
            "null/test_protocol_buffer.py::test_6_11_6_12_6_13_the_format_language[N-8-uint64]",
            "null/test_protocol_buffer.py::test_6_11_6_12_6_13_the_format_language[n-8-int64]",
            "null/test_view_short.py::test_fields[{'byte_offset': 18446744073709551615}]",
        ),
        _OWNERS: (
            "driver/test_graph_nodes.py::test_debug_dot_writes_where_no_other_user_can_put_a_link",
            "null/test_locate.py::test_a_folder_with_the_sticky_bit_has_what_its_owner_put_there",
            "null/test_locate.py::test_headers_that_every_user_could_have_planted_are_not_used",
            "null/test_locate.py::test_no_link_on_the_way_may_be_exchanged_by_every_user",
            "null/test_locate.py::test_software_of_another_user_is_trusted_where_only_its_owner_can_write",
            "null/test_locate.py::test_the_current_folder_is_never_searched_however_it_got_into_a_path",
            "null/test_locate.py::test_this_python_is_trusted_but_not_a_link_to_it",
            "null/test_locate.py::test_what_every_user_could_have_planted_is_refused",
        ),
        "in a browser DLPack exports no device memory": (
            "driver/test_view_device.py::test_a_protocol_that_a_class_gets_later_comes_first",
        ),
        "in a browser there is no C exchange table": ("driver/test_view_argument.py::test_by_the_exchange_table_too",),
        "in a browser a handle is told as a number": ("driver/test_trace.py::test_the_log_tells_each_call",),
        "in a browser no space is reserved for a file": (
            "null/test_image_limits.py::test_mutants_are_read_or_refused[journal]",
        ),
        "in a browser capsules and buffers are read by functions of CPython": (
            "null/test_view_short.py::test_capsules_and_buffers_are_read_in_place",
        ),
        "in a browser a function of CPython cannot stand for one with other arguments": (
            "null/test_protocol_buffer.py::test_a_type_error_of_an_exporter_is_its_own",
        ),
    }.items()
    for name in names
}
