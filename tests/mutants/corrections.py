"""Defects that were found once, and the tests that keep them out: each correction is taken out, and a test must fail.

    python3 -m tests.mutants.corrections [WORD ...]        only rows with one of these in the defect
    python3 -m tests.mutants.corrections 3/10              the third of ten parts: rows 3, 13, 23 ...

A row takes a correction out by the smallest edit: `old` stands exactly once in the module, and is replaced by `new`. No
file is changed; see running.py. A defect that could come back in several places has a row for each.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from .remembered import GUARDS

__all__ = ["CORRECTIONS", "Correction", "main"]


class Correction(NamedTuple):
    """A correction, and the test that fails without it.

    found   the attack that found the defect
    defect  what happened
    module    the path of the module below the package
    test    the node id of the test below tests/
    hangs   whether the test may end by taking too long, too
    before  the first version of Python without the defect
    mode    when the emulator does work in this test
    """

    found: str
    defect: str
    module: str
    old: str
    new: str
    test: str
    hangs: bool = False
    before: tuple[int, int] = (4, 0)
    mode: str = "eager"


REMEMBERED = "driver/test_remembered.py::test_what_is_remembered_is_what_would_be_worked_out_anew"
CORRECTIONS = [
    Correction(
        "sigint_context_left_pushed",
        "an interrupt before the pop leaves a context of the emulator pushed",
        "driver.py",
        old='            if symbol != "cuCtxPopCurrent_v2":',
        new="            if True:",
        test="driver/test_emulator_public.py::test_what_restores_a_thread_is_no_python_function",
    ),
    Correction(
        "captures and graphs, read line by line",
        "a node of a graph fails in a thread without a context",
        "emulator/entries/graphs/operations.py",
        old="        stack.append(context)\n",
        new="        stack.append(stack[-1])\n",
        test="driver/test_graph.py::test_a_graph_runs_when_a_thread_without_a_context_calls_the_driver",
    ),
    Correction(
        "captures and graphs, read line by line",
        "a label shows the driver a function of a closed module",
        "gpu/graphs/nodes.py",
        old="            node_parameters.check_open(graph)\n",
        new="            pass\n",
        test="driver/test_graph_updates.py::test_a_recorded_kernel_has_no_name_after_its_module",
    ),
    Correction(
        "captures and graphs, read line by line",
        "debug_dot() shows the driver a function of a closed module",
        "gpu/graphs/graph.py",
        old="                check_open(self)  # the driver reads the names of functions\n",
        new="",
        test="driver/test_graph_updates.py::test_a_recorded_kernel_has_no_name_after_its_module",
    ),
    Correction(
        "what others can write",
        "nvcc looks for the host's compiler in the current folder",
        "compiler/nvcc.py",
        old="environment = locate.environment()",
        new="environment = dict(os.environ)",
        test="driver/test_compile.py::test_nvcc_does_not_look_for_programs_in_the_current_folder",
    ),
    Correction(
        "what others can write",
        "nvcc looks for the host's compiler where every user can put files",
        "locate.py",
        old="            folders = [folder for folder in there if not _is_planted(folder)]\n",
        new="            folders = there\n",
        test="null/test_locate.py::test_programs_get_no_list_of_folders_in_which_something_could_be_planted[1023]",
    ),
    Correction(
        "what others can write",
        "others put headers into a folder with the sticky bit",
        "locate.py",
        old="        _refuse_open(here)\n",
        new="",
        test="null/test_locate.py::test_headers_that_every_user_could_have_planted_are_not_used",
    ),
    Correction(
        "what others can write",
        "what the text of a header includes is taken from the current folder",
        "compiler/nvrtc.py",
        old="        if not os.path.isabs(name):\n",
        new="        if False:\n",
        test="driver/test_compile.py::test_what_a_header_includes_is_not_taken_from_the_current_folder[macro]",
    ),
    Correction(
        "what others can write",
        "nvcc's temporary files can be exchanged",
        "compiler/nvcc.py",
        old='"-x", "cu", source], folder)',
        new='"-x", "cu", source])',
        test="driver/test_compile.py::test_nvccs_temporary_files_are_in_a_private_folder",
    ),
    Correction(
        "kept code",
        "code of another compiler of the host is taken from the cache",
        "compiler/nvcc.py",
        old="[self.path, *(host for host in hosts if host)]",
        new="[self.path]",
        test="driver/test_compile.py::test_what_nvcc_makes_depends_on_the_compiler_of_the_host",
    ),
    Correction(
        "kept code",
        "the key names the NVRTC that is on disk now",
        "compiler/nvrtc.py",
        old='        return f"{self.kind} {self.version} {self._file} ',
        new='        return f"{self.kind} {self.version} {os.stat(self.path).st_size} ',
        test="driver/test_compile.py::test_the_compiler_of_the_key_is_the_one_that_is_loaded",
    ),
    Correction(
        "kept code",
        "what NVRTC reads from the environment is not in the key",
        "compiler/nvrtc.py",
        old=' {[os.environ.get(name) for name in VARIABLES]}"',
        new='"',
        test="driver/test_compile.py::test_the_compiler_of_the_key_is_the_one_that_is_loaded",
    ),
    Correction(
        "interrupts and forks, the third time",
        "an interrupt of drain() loses a release",
        "ownership.py",
        old=(
            "            later.extend(map(_first, (dropped,)))  # one call of a C function,"
            " which no interrupt divides\n"
            "            release = later[-1]\n"
        ),
        new="            release = dropped.popleft()\n            later.append(release)\n",
        test="null/test_owned.py::test_an_interrupt_at_any_instruction_of_drain_loses_no_release",
    ),
    Correction(
        "interrupts and forks, the third time",
        "an interrupt leaves the lock of the server of shared memory held",
        "gpu/processes/server.py",
        old="        self.lock = _thread.RLock()\n",
        new=(
            "        import threading\n"
            "\n"
            "        self.lock: Any = threading.Condition()\n"
            "        self.lock._is_owned = self.lock._lock._is_owned\n"
        ),
        test="driver/test_sharing.py::test_an_interrupt_at_any_call_leaves_no_lock_held",
        hangs=True,
    ),
    Correction(
        "interrupts and forks, the third time",
        "an interrupt of a wait for nvJitLink stops its thread",
        "compiler/nvjitlink.py",
        old="    running = _thread.allocate_lock()\n    running.acquire()\n",
        new=(
            "    import threading\n"
            "\n"
            "    running: Any = threading.Event()\n"
            "    running.acquire, running.release = running.wait, running.set\n"
        ),
        test="driver/test_link.py::test_an_interrupt_while_it_waits_does_not_stop_the_thread_of_links",
        hangs=True,
    ),
    Correction(
        "interrupts and forks, the third time",
        "the process ends while a link runs",
        "compiler/nvjitlink.py",
        old="            atexit.register(_finish, pid, made, thread)\n",
        new="            pass\n",
        test="driver/test_link.py::test_the_end_of_the_process_waits_for_a_link_that_was_interrupted",
    ),
    Correction(
        "interrupts and forks, the third time",
        "each child of emulate leaves journals",
        "emulator/impersonating/attaching.py",
        old=(
            "        if each.is_used:\n"
            "            each.begin()\n"
            "            ATTACHED.append(each)\n"
            "        else:\n"
            "            table.put_pointer(layout.JOURNAL, 0)\n"
            "            table.put_pointer(layout.RESOLVE, 0)\n"
        ),
        new="        each.begin()\n        ATTACHED.append(each)\n",
        test="emulator/test_impersonation.py::test_a_child_without_cuda_leaves_no_journals",
    ),
    Correction(
        "interrupts and forks, the third time",
        "NVML waits in a child for a lock of its parent",
        "emulator/impersonating/nvml.py",
        old="            function(machine, *arguments)\n            return 0\n",
        new="            with machine.lock:\n                function(machine, *arguments)\n            return 0\n",
        test=(
            "emulator/test_impersonation.py::test_nvml_answers_a_child_that_is_forked_while_another_thread_makes_a_call"
        ),
    ),
    Correction(
        "interrupts and forks, the third time",
        "pytest waits for what a fixture would let go on",
        "emulate.py",
        old=(
            '            patience = None if when == "teardown" else _PATIENCE  # the end of a fixture'
            " may let work go on\n"
        ),
        new="            patience = None\n",
        test="emulator/test_emulate_plugin.py::test_work_may_wait_for_the_end_of_a_fixture",
        hangs=True,
    ),
    Correction(
        "types of parameters",
        "what another branch or scope defines is taken for certain",
        "compiler/declarations.py",
        old="            self._certain = self._complete or not scopes and not doubtful\n",
        new="            self._certain = True\n",
        test="null/test_kernel_types.py::test_beside_a_header_only_the_outermost_definitions_are_certain",
    ),
    Correction(
        "what commands say",
        "doctor says that everything works though a device failed",
        "tools/commands/doctor.py",
        old="    if ran and failed:\n",
        new="    if False:\n",
        test="driver/test_commands.py::test_doctor_tells_of_the_device_that_fails[1-cuDeviceGetName]",
    ),
    Correction(
        "what commands say",
        "in a hook of git, the commit of another repository is recorded",
        "tools/commands/vendor.py",
        old=' if not name.startswith("GIT_")',
        new="",
        test="null/test_vendor.py::test_in_a_hook_the_commit_is_that_of_the_checkout",
    ),
    Correction(
        "interrupts and forks, the third time",
        "an interrupted registration of host memory can never be ended",
        "emulator/entries/memories/memory_entries.py",
        old=", since=6050, save=_save_registered)",
        new=", since=6050)",
        test=(
            "emulator/test_interrupts.py::"
            "test_host_memory_can_be_registered_again_after_an_interrupt_at_any_line[cuMemHostRegister_v2]"
        ),
    ),
    Correction(
        "interrupts and forks, the third time",
        "a timeout in a function of the standard library is taken for a failure of the emulator",
        "emulator/machine/recovery.py",
        old="        if not _is_of_python(frame.f_code.co_filename) and frame",
        new="        if not frame.f_code.co_filename.startswith(_PACKAGE) and frame",
        test="emulator/test_interrupts.py::test_what_a_handler_raises_comes_from_outside_wherever_it_ran[files0-False]",
    ),
    Correction(
        "interrupts and forks, the third time",
        "what ends the program while an argument is converted becomes a TypeError",
        "driver.py",
        old="                except (TypeError, ValueError, OverflowError) as error:\n",
        new="                except BaseException as error:  # type: ignore[assignment]\n",
        test="null/test_driver.py::test_what_is_raised_while_an_argument_is_converted_stays_what_it_is[SystemExit]",
    ),
    Correction(
        "what others can write",
        "nvcc runs programs of its toolkit that everyone can write",
        "compiler/nvcc.py",
        old="        self.path = path\n        locate.refuse_toolkit(path)\n",
        new="        self.path = path\n",
        test="driver/test_compile.py::test_an_nvcc_whose_toolkit_can_be_exchanged_is_not_used",
    ),
    Correction(
        "texts in proportion",
        "a link looks for each name in all declarations",
        "emulator/ptx/reading/ptx_linking.py",
        old="            and name in unit.names\n",
        new="            and any(name in item.names for item in unit.items)\n",
        test=(
            "emulator/test_ptx_linear.py::"
            "test_ten_times_the_texts_to_link_take_at_most_12_times[functions that nothing defines]"
        ),
    ),
    Correction(
        "arrays, read line by line",
        "a field of a damaged pickle lies outside of its structure",
        "elements/dtypes.py",
        old="        if offset + fields[-1].nbytes > size:\n",
        new="        if False:\n",
        test="null/test_view_pickle.py::test_a_damaged_field_of_a_structure_is_refused[change1]",
    ),
    Correction(
        "arrays, read line by line",
        "NumPy reads a copy of managed memory before it is made",
        "arrays/exporting.py",
        old="        else:\n            _order(made, stream, device)\n        return made",
        new="        return made",
        test=(
            "driver/test_view_stream.py::"
            "test_2_12_a_copy_that_the_host_can_read_is_complete[the default stream-None-managed]"
        ),
        mode="lazy",
    ),
    Correction(
        "arrays, read line by line",
        "an unpickled read-only array of a device can be filled",
        "arrays/pickling.py",
        old="        made = made._derived(made.ptr, made.shape, made.strides, readonly=True)  #",
        new="        made._place = made._place.frozen  #",
        test="driver/test_pickle.py::test_a_view_of_a_device_arrives_on_the_current_device[5-device]",
    ),
    Correction(
        "arrays, read line by line",
        "of two threads that make the format of a type, one frees that of the other",
        "elements/dtypes.py",
        old="        return addressof(self._c_format[0])\n",
        new="        return addressof(self._c_format[-1])\n",
        test="null/test_dtypes.py::test_the_format_for_c_stays_where_two_threads_make_it",
    ),
    Correction(
        "arrays, read line by line",
        "an array that must not be copied is converted",
        "arrays/exporting.py",
        old="    if copy is False and wanted != array.dtype:\n",
        new="    if False:\n",
        test="null/test_view.py::test_numpy_makes_an_array_of_host_memory_only",
    ),
    Correction(
        "texts in proportion",
        "the emulator keeps every report of an error",
        "emulator/machine/machine.py",
        old="        Reports.append(self.machine.findings, report)\n",
        new="        list.append(self.machine.findings, report)\n",
        test="emulator/test_codes.py::test_the_newest_thousand_are_kept_and_places_only_of_loaded_modules",
    ),
    Correction(
        "texts in proportion",
        "places of findings stay when their module is unloaded",
        "emulator/ptx/ptx_program.py",
        old="self.space.told.difference_update([key for key in list(self.space.told) if key[0] == filename])",
        new="pass",
        test="emulator/test_codes.py::test_the_newest_thousand_are_kept_and_places_only_of_loaded_modules",
    ),
    Correction(
        "texts in proportion",
        "each name in a format copies the rest of it",
        "protocols/pep3118.py",
        old='            end = self.text.find(":", self.at + 1)\n',
        new='            end = self.at + 1 + self.text[self.at + 1 :].find(":")\n',
        test="null/test_dtypes.py::test_a_long_format_is_read_once",
    ),
    Correction(
        "texts in proportion",
        "the text of a nested structure doubles with each level",
        "elements/dtypes.py",
        old='{len(part.dtype._identity)} {part.dtype._identity}"',
        new='{part.dtype._identity!r}"',
        test="null/test_dtypes.py::test_nested_structures_are_told_apart_in_little_memory",
    ),
    Correction(
        "what others can write",
        "headers of a toolkit are not looked at if a line break divides #include",
        "compiler/program.py",
        old='b"include" in joined(text)',
        new='b"include" in text',
        test="driver/test_compile.py::test_the_toolkits_headers_are_looked_at_if_one_may_be_included[joined]",
    ),
    Correction(
        "kept code",
        "a folder after a blank is not part of the key",
        "compiler/cache.py",
        old='            yield from {value, value.strip(_BLANKS), *value.split(",")}\n',
        new='            yield from {value, *value.split(",")}\n',
        test="driver/test_compile.py::test_blanks_around_a_folder_do_not_hide_it[between]",
    ),
    Correction(
        "kept code",
        "an option after a blank is not part of the key",
        "compiler/cache.py",
        old="    stripped = [option.strip(_BLANKS) for option in options]\n",
        new="    stripped = options\n",
        test="driver/test_compile.py::test_blanks_around_a_folder_do_not_hide_it[before]",
    ),
    Correction(
        "kept code",
        "code with paths of another folder is taken from the cache",
        "compiler/cache.py",
        old="            add(os.fsencode(_here()))  # the code contains the absolute paths of sources\n",
        new="            pass\n",
        test="driver/test_compile.py::test_code_with_paths_of_sources_belongs_to_the_current_folder",
    ),
    Correction(
        "kept code",
        "the time of the first compilation is kept",
        "compiler/cache.py",
        old="        if _CLOCK.search(joined(text)):\n",
        new="        if False:\n",
        test="driver/test_compile.py::test_code_that_depends_on_the_time_is_not_kept",
    ),
    Correction(
        "texts in proportion",
        "zeros after PTX do not count",
        "images/containers.py",
        old="        left -= member.size\n",
        new="        left -= len(member.code)\n",
        test="null/test_image_limits.py::test_zeros_after_ptx_count",
    ),
    Correction(
        "texts in proportion",
        "zeros after PTX in several fatbins do not count",
        "images/containers.py",
        old="            most -= member.size\n",
        new="            most -= len(member.code)\n",
        test="null/test_image_limits.py::test_zeros_after_ptx_count",
    ),
    Correction(
        "texts in proportion",
        "many types of one variable",
        "images/outline.py",
        old='            kind, halves = "uint64", (2,)\n',
        new='            kind, halves = "uint64", (*halves, 2)\n',
        test="null/test_image_limits.py::test_time_and_memory_grow_no_faster_than_the_input[outline]",
    ),
    Correction(
        "what others can write",
        "ptxas of emulate imports from the current folder",
        "emulator/impersonating/programs.py",
        old="unset PYTHONPATH\n",
        new="",
        test="emulator/test_compilers.py::test_the_programs_import_nothing_from_the_current_folder",
    ),
    Correction(
        "what others can write",
        "a report quotes a private file through a link",
        "emulator/ptx/checking/sources.py",
        old=" or not os.path.realpath(file).lower().endswith(_SOURCES):",
        new=":",
        test=(
            "emulator/test_ptx_hostile.py::"
            "test_a_report_quotes_only_files_whose_names_are_those_of_sources[link.c-False]"
        ),
    ),
    Correction(
        "texts in proportion",
        "blank lines of CUDA C take quadratic time",
        "compiler/declarations.py",
        old='_INCLUDES = re.compile(r"^[ \\t\\f\\v]*#',
        new='_INCLUDES = re.compile(r"^\\s*#',
        test="null/test_kernel_types.py::test_blank_lines_are_read_in_linear_time",
        hangs=True,
    ),
    Correction(
        "captures and graphs, read line by line",
        "an update shows the driver a closed event",
        "gpu/graphs/updates.py",
        old="    node_parameters.check_open(graph)\n",
        new="",
        test="driver/test_graph_updates.py::test_the_driver_sees_no_closed_object_of_a_graph[event-update]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "embed() shows the driver a function of a closed module",
        "gpu/graphs/node_parameters.py",
        old="    check_open(child)\n",
        new="",
        test="driver/test_graph_updates.py::test_the_driver_sees_no_closed_object_of_a_graph[module-embed]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "clone() shows the driver a function of a closed module",
        "gpu/graphs/graph.py",
        old="        check_open(self)\n",
        new="",
        test="driver/test_graph_updates.py::test_the_driver_sees_no_closed_object_of_a_graph[module-clone]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "two threads destroy one node",
        "gpu/graphs/nodes.py",
        old="            if handle is None:  # another thread has destroyed it\n                return\n",
        new="            handle = handle or node_handles(graph)[0] if node_handles(graph) else 7\n",
        test="driver/test_graph_updates.py::test_a_node_is_destroyed_once_by_several_threads",
    ),
    Correction(
        "captures and graphs, read line by line",
        "a stream object that closes the graph launches it",
        "gpu/graphs/executable.py",
        old="        queue = work_handle(stream)  # (this may run code, which may close this graph)\n",
        new="        handle = self.handle\n        queue = work_handle(stream)\n        self._handle = handle\n",
        test="driver/test_graph_updates.py::test_a_stream_object_that_closes_the_graph_launches_nothing",
    ),
    Correction(
        "captures and graphs, read line by line",
        "an interrupt at the end of a capture leaves the stream captured",
        "gpu/graphs/recording.py",
        old="            dropped.append(self)\n            raise\n",
        new="            raise\n",
        test="driver/test_graph_updates.py::test_an_interrupt_at_the_end_of_a_capture_leaves_no_stream_captured",
    ),
    Correction(
        "captures and graphs, read line by line",
        "an export to a captured stream breaks the capture",
        "gpu/memory/ordering.py",
        old="            end = wait_in_order(device, consumer, home_of(theirs, device), working)\n",
        new="            order(home_of(theirs, device), working, device, consumer)\n",
        test="driver/test_foreign_captures.py::test_an_export_to_a_captured_stream_does_not_break_the_capture",
    ),
    Correction(
        "captures and graphs, read line by line",
        "a capture begins while pageable memory is copied, and records the copy",
        "gpu/memory/ordering.py",
        old="    waiting.add(wait)\n    if capturing:  #",
        new="    if capturing:  #",
        test="driver/test_foreign_captures.py::test_no_capture_begins_while_pageable_memory_is_copied[download]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "a graph does not keep the event of a captured launch",
        "gpu/kernels/kernel.py",
        old="if capturing and attributes.uses:",
        new="if False:",
        test="driver/test_launch_options.py::test_a_graph_keeps_the_event_of_a_launch[launch]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "a graph does not keep the event of a configured launch",
        "gpu/kernels/launch.py",
        old="self.handle, (module, *uses))",
        new="self.handle, (module,))",
        test="driver/test_launch_options.py::test_a_graph_keeps_the_event_of_a_launch[configured]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "a node does not keep the event of its launch",
        "gpu/graphs/node_parameters.py",
        old="*packed.uses, ",
        new="",
        test="driver/test_launch_options.py::test_a_graph_keeps_the_event_of_a_launch[node]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "a capture that another thread tried to end can never be ended",
        "gpu/graphs/recording.py",
        old='if getattr(error, "code", 0) == STREAM_CAPTURE_WRONG_THREAD:',
        new="if False:",
        test="driver/test_graph_updates.py::test_a_capture_that_another_thread_cannot_end_goes_on[True]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "the graph of a capture that another thread tried to end is lost",
        "gpu/graphs/graph.py",
        old="            if record.is_in_progress:  # it began",
        new="            if False:  # it began",
        test="driver/test_graph_updates.py::test_a_capture_that_another_thread_cannot_end_goes_on[False]",
    ),
    Correction(
        "captures and graphs, read line by line",
        "work is captured into a graph that is closed",
        "gpu/graphs/graph.py",
        old="            recording._end(False)  # the driver",
        new="            pass  # the driver",
        test="driver/test_graph_updates.py::test_a_graph_that_is_closed_captures_no_more",
    ),
    Correction(
        "captures and graphs, read line by line",
        "adding a node waits for the default stream and breaks a capture",
        "gpu/graphs/node_parameters.py",
        old="    barred = is_barred(graph._primary.calls)\n",
        new="    barred = False\n",
        test=(
            "driver/test_foreign_captures.py::"
            "test_adding_nodes_breaks_no_capture_of_a_stream_that_waits_for_the_default_stream[kernel]"
        ),
    ),
    Correction(
        "captures and graphs, read line by line",
        "a fill node uploads its element on the default stream and breaks a capture",
        "gpu/copies/device_copy.py",
        old="_uploaded(pattern, device, aside.handle)",
        new="_uploaded(pattern, device, 1)",
        test=(
            "driver/test_foreign_captures.py::"
            "test_adding_nodes_breaks_no_capture_of_a_stream_that_waits_for_the_default_stream[wide]"
        ),
    ),
    Correction(
        "captures and graphs, read line by line",
        "a captured stream waits for the exporter's stream, which breaks the capture",
        "gpu/memory/ordering.py",
        old="    if mine == other:\n        order(home, working, primary, using)\n",
        new="    if True:\n        order(home, working, primary, using)\n",
        test=(
            "driver/test_foreign_captures.py::"
            "test_arrays_whose_exporter_names_a_stream_are_used_in_a_capture[launch-another-False-True]"
        ),
    ),
    Correction(
        "captures and graphs, read line by line",
        "the exporter's stream waits for a captured one, which breaks the capture",
        "gpu/memory/ordering.py",
        old="if mine == other and not barred:",
        new="if not barred:",
        test=(
            "driver/test_foreign_captures.py::"
            "test_arrays_whose_exporter_names_a_stream_are_used_in_a_capture[copy-legacy-True-True]"
        ),
    ),
    Correction(
        "captures and graphs, read line by line",
        "each update of a node walks through what all nodes keep",
        "gpu/graphs/updates.py",
        old="    executable._kept[node.handle] = given.kept\n    executable._changed()\n",
        new="    executable._kept[node.handle] = given.kept\n    executable._collect()\n",
        test="driver/test_graph_updates.py::test_an_update_of_a_node_does_not_look_at_the_others",
    ),
    Correction(
        "what others can write",
        "libraries are put into a folder that a group can exchange",
        "emulator/impersonating/loading.py",
        old="locate.refuse_planted(place, private=True)",
        new="locate.refuse_planted(place)",
        test="emulator/test_impersonation.py::test_libraries_are_not_put_where_others_could_exchange_them[509]",
    ),
    Correction(
        "what others can write",
        "all of the prefix of this Python is trusted, which may be /usr",
        "locate.py",
        old='    return [os.path.join(prefix, name + flag, "") for',
        new='    return [os.path.join(prefix, "") for',
        test="null/test_locate.py::test_this_python_is_trusted_but_not_a_link_to_it",
    ),
    Correction(
        "what others can write",
        "headers that everyone can write are used",
        "locate.py",
        old="            _refuse_below(folder)\n",
        new="            pass\n",
        test="null/test_locate.py::test_headers_that_every_user_could_have_planted_are_not_used",
    ),
    Correction(
        "memory that knows its order",
        "a Memory asks a stream of other software that was destroyed",
        "gpu/core/stream_arguments.py",
        old="    return isinstance(stream, int) and stream <= PER_THREAD\n",
        new="    return True\n",
        test="driver/test_copies.py::test_memory_notes_no_stream_of_other_software",
    ),
    Correction(
        "memory that knows its order",
        "memory that is used in a capture and outside of it at once breaks the capture",
        "gpu/memory/ordering.py",
        old="    if mine == other:\n",
        new="    if True:\n",
        test="driver/test_copies.py::test_what_was_captured_is_not_pending[global]",
    ),
    Correction(
        "memory that knows its order",
        "a stream that another thread closes is destroyed while its memory is used: wait",
        "gpu/memory/ordering.py",
        old="else thing._primary\n    with unless_inside(destroying):\n",
        new="else thing._primary\n    if True:\n",
        test="driver/test_ownership.py::test_the_stream_of_what_is_used_is_not_destroyed_meanwhile[wait]",
    ),
    Correction(
        "memory that knows its order",
        "a stream that another thread closes is destroyed while its memory is used: export",
        "gpu/memory/ordering.py",
        old="    theirs, device, end = view.stream, device_of(view), None\n    with unless_inside(destroying):\n",
        new="    theirs, device, end = view.stream, device_of(view), None\n    if True:\n",
        test="driver/test_ownership.py::test_the_stream_of_what_is_used_is_not_destroyed_meanwhile[export]",
    ),
    Correction(
        "memory that knows its order",
        "a stream that another thread closes is destroyed while its memory is used: copy",
        "gpu/memory/ordering.py",
        old="    using = work_handle(stream)\n    with unless_inside(destroying):\n",
        new="    using = work_handle(stream)\n    if True:\n",
        test="driver/test_ownership.py::test_the_stream_of_what_is_used_is_not_destroyed_meanwhile[copy]",
    ),
    Correction(
        "memory that knows its order",
        "what a stream had to do before a capture is not waited for",
        "gpu/memory/ordering.py",
        old="    return before.get(other)  #",
        new="    return None  #",
        test="driver/test_copies.py::test_what_a_stream_had_to_do_before_a_capture_is_waited_for",
    ),
    Correction(
        "memory that knows its order",
        "the host waits for a stream that is being captured, and breaks the capture",
        "gpu/memory/ordering.py",
        old="            if capture_number(home.calls, working) is not None:\n                return  # nothing",
        new="            if False:\n                return  # nothing",
        test="driver/test_copies.py::test_what_was_captured_is_not_pending[global]",
    ),
    Correction(
        "texts in proportion",
        "a string of PTX takes 265 bytes of memory for each character",
        "emulator/ptx/reading/lexer.py",
        old=r""""[^"\\\n]*(?:\\.[^"\\\n]*)*" )""",
        new=r""""(?:[^"\\\n]|\\.)*" )""",
        test='emulator/test_ptx_linear.py::test_texts_in_texts_take_little_memory[.file 1 "{}"]',
    ),
    Correction(
        "texts in proportion",
        "compile() takes the square of the number of kernels",
        "emulator/ptx/ptx_program.py",
        old="*starts[_AT_ONCE::_AT_ONCE], ",
        new="",
        test="emulator/test_ptx_linear.py::test_the_kernels_of_a_module_are_compiled_a_few_at_once",
    ),
    Correction(
        "memory that knows its order",
        "a view of a Memory does not know on which stream the Memory was filled",
        "arrays/making.py",
        old="made._owner, made.stream, made._side = memory, memory.stream, None",
        new="made._owner, made.stream, made._side = memory, None, None",
        test="driver/test_copies.py::test_what_uses_a_memory_waits_for_its_last_copy_or_fill[view-fill]",
    ),
    Correction(
        "memory that knows its order",
        "a Memory does not note a fill",
        "gpu/copies/contiguous.py",
        old="        target.stream = stream  # as in copy_run",
        new="        pass",
        test="driver/test_copies.py::test_memory_knows_its_stream",
    ),
    Correction(
        "memory that knows its order",
        "a Memory does not note a copy in a batch",
        "gpu/copies/batch.py",
        old="            note(each.dst, given)",
        new="            pass",
        test=("driver/test_copies.py::test_what_uses_a_memory_waits_for_its_last_copy_or_fill[view-copies]"),
    ),
    Correction(
        "memory that knows its order",
        "a copy of a CUDA array does not wait for the last one",
        "gpu/textures/transfers.py",
        old="    make_ready(primary, stream, box.array)\n",
        new="",
        test="driver/test_array.py::test_arrays_are_ready_in_the_order_of_their_copies",
        mode="lazy",
    ),
    Correction(
        "memory that knows its order",
        "a CUDA array does not note a copy",
        "gpu/textures/transfers.py",
        old='    if end == "dst":\n        note',
        new='    if end == "none":\n        note',
        test="driver/test_array.py::test_arrays_are_ready_in_the_order_of_their_copies",
    ),
    Correction(
        "memory that knows its order",
        "the levels of a mipmapped array do not know each other's copies",
        "gpu/textures/opaque_arrays.py",
        old="            return self.parent._origin()",
        new="            return self",
        test="driver/test_array.py::test_arrays_are_ready_in_the_order_of_their_copies",
    ),
    Correction(
        "work that uses what is released",
        "a launch does not keep the memory of a tensor map whose address is replaced",
        "gpu/kernels/packing.py",
        old="kept.extend((argument, source))",
        new="kept.append(argument)",
        test=(
            "driver/test_tensor_map.py::test_a_launch_keeps_the_memory_of_a_tensor_map_whose_address_is_replaced[False]"
        ),
    ),
    Correction(
        "work that uses what is released",
        "virtual memory is unmapped under a view that was made during the wait",
        "gpu/memory/virtual.py",
        old=(
            '            self._reservation.wait("shrink()")\n'
            '            self._check_unused(pieces[0].offset, "shrink()")'
        ),
        new=(
            '            self._check_unused(pieces[0].offset, "shrink()")\n'
            '            self._reservation.wait("shrink()")'
        ),
        test="driver/test_memory_virtual.py::test_a_view_that_is_made_during_the_wait_is_noticed[shrink]",
    ),
    Correction(
        "work that uses what is released",
        "virtual memory is unmapped though a reader of its array interface uses it",
        "gpu/memory/virtual.py",
        old="if any(each._is_shown() for each",
        new="if any(False for each",
        test=("driver/test_memory_virtual.py::test_what_a_reader_of_the_array_interface_uses_stays[shrink]"),
    ),
    Correction(
        "work that uses what is released",
        "parts of one CUDA array overlap if two objects stand for it",
        "gpu/textures/transfers.py",
        old="target.array.handle == source.array.handle and all(",
        new="target.array is source.array and all(",
        test="driver/test_array.py::test_overlapping_parts_of_one_array_are_refused",
    ),
    Correction(
        "work that uses what is released",
        "MPI overwrites what a shorter message leaves",
        "integrations/mpi.py",
        old="            memory.copy_from(made, stream=self.stream)  # to",
        new='            self.way == "receive" or memory.copy_from(made, stream=self.stream)  # to',
        test="driver/test_copy_peer.py::test_what_a_message_does_not_fill_stays",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "an interrupt leaves a tensor map of the new memory that keeps the old one",
        "gpu/textures/tensor_map.py",
        old=(
            "        made = cuda_h.CUtensorMap()\n"
            "        ctypes.memmove(ctypes.byref(made), ctypes.byref(self._described[0]), _SIZE)\n"
        ),
        new="        made = self._described[0]\n",
        test="driver/test_tensor_map.py::test_an_exception_while_the_address_is_replaced",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "after a thread for links could not start, links wait for ever",
        "compiler/nvjitlink.py",
        old=(
            "        thread.start()  # first: without it nothing would answer\n"
            "        known = _queues.setdefault(pid, made)\n"
        ),
        new="        known = _queues.setdefault(pid, made)\n        thread.start()\n",
        test="driver/test_link.py::test_links_work_after_their_thread_did_not_start",
        hangs=True,
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "an interrupted open of a handle leaves it open",
        "gpu/processes/opening.py",
        old="    def abandon(self) -> None:\n",
        new="    def abandon(self) -> None:\n        return\n\n    def forget(self) -> None:\n",
        test="driver/test_sharing.py::test_an_exception_at_any_line_of_an_open_leaves_nothing[plain]",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "descriptors of shared memory are inherited",
        "gpu/processes/server.py",
        old="socket.CMSG_SPACE(253 * 4), socket.MSG_CMSG_CLOEXEC)",
        new="socket.CMSG_SPACE(253 * 4))",
        test="driver/test_sharing.py::test_descriptors_that_arrive_are_not_inherited",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "an interrupt leaves an event with the handle of another one",
        "gpu/processes/shared_events.py",
        old="        _set(event, slots, mine)\n",
        new="",
        test="driver/test_sharing.py::test_an_exception_while_an_event_becomes_one_that_can_be_shared",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "threads that leave one range take each other's entries",
        "gpu/devices/ranges.py",
        old="        for entry in reversed(tuple(self._begun)):  # other",
        new="        for entry in [self._begun[at] for at in reversed(_numbers(len(self._begun)))]:  # other",
        test="driver/test_ranges.py::test_threads_use_one_range_at_once",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "an interrupted close() of virtual memory keeps it for ever",
        "gpu/core/reservation.py",
        old="            self.taken.release()\n            raise\n",
        new="            raise\n",
        test="driver/test_memory_virtual.py::test_close_goes_on_after_an_interrupt[wait]",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "a release that is interrupted in its wait is never made",
        "gpu/core/handles.py",
        old="                self.taken.release()  # the next call goes on\n",
        new="                pass\n",
        test=("driver/test_ownership.py::test_a_wait_of_close_that_is_interrupted_is_made_again[pinned-close]"),
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "a release that is interrupted in drain() is forgotten",
        "ownership.py",
        old="    finally:\n        dropped.extend(later)\n",
        new="    finally:\n        pass\n",
        test=("driver/test_ownership.py::test_a_wait_of_close_that_is_interrupted_is_made_again[pinned-drop]"),
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "a green context ends before a stream that another thread made",
        "gpu/devices/green.py",
        old="        self._streams.append(ref(made, self._streams.remove))\n",
        new=(
            "        self._streams = [each for each in self._streams if each() is not None]\n"
            "        self._streams.append(ref(made))\n"
        ),
        test="driver/test_green.py::test_close_closes_the_streams_that_two_threads_made",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "an interrupted reset() leaves objects with handles of the old context",
        "gpu/devices/resetting.py",
        old="        owner._handle, owner._release = None, _Ended(primary.ordinal)\n",
        new="        pass\n",
        test="driver/test_reset.py::test_objects_say_so_after_a_reset_that_was_interrupted",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "code of a header that changed during the compilation is kept under the old one",
        "compiler/program.py",
        old=" and store.path(request, loaded, folders) == path:",
        new=":",
        test="driver/test_compile.py::test_code_is_not_kept_if_a_header_changes_while_the_compiler_runs",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "a header and its text are taken for names of kernels in the cache",
        "compiler/cache.py",
        old=(
            '        add(b"%d options, %d names, %d headers" % (len(options), len(request.names), '
            "len(request.headers)))\n"
        ),
        new="",
        test="driver/test_compile.py::test_the_parts_of_a_key_are_counted",
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "a default is taken for the value of a macro that an unread header defines",
        "compiler/declarations.py",
        old="defined[3] and not complete:",
        new="defined[3] and False:",
        test=("null/test_kernel_types.py::test_a_header_that_is_not_read_may_define_a_macro_that_has_a_default"),
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "the thread that shares and a finalizer in it wait for each other",
        "gpu/processes/server.py",
        old="        self._thread = _thread.start_new_thread(self._serve, ())\n",
        new=(
            "        import threading\n"
            "\n"
            "        made = threading.Thread(target=self._serve, daemon=True)\n"
            "        made.start()\n"
            "        made.join(40)\n"
            "        self._thread = made.ident or 0\n"
        ),
        test="driver/test_sharing.py::test_a_finalizer_in_the_thread_that_answers_may_share",
        hangs=True,
    ),
    Correction(
        "interrupts and races that leave something half-done",
        "an interrupted first use of the emulator breaks every later one",
        "emulator/interface/thunks.py",
        old="    return known is None or (",
        new="    return known is None or None is (",
        test="emulator/test_thunks.py::test_an_entry_may_be_declared_again_by_its_own_module",
    ),
    Correction(
        "the emulator is as strict as a driver",
        "near the recursion limit, the emulator does nothing and says that it did",
        "driver.py",
        old="        if not room:\n",
        new="        if True:\n",
        test=("driver/test_emulator_public.py::test_a_call_near_the_recursion_limit_does_its_work_or_raises[fill]"),
    ),
    Correction(
        "the emulator is as strict as a driver",
        "an update of a graph ignores the defaults of its conditions",
        "emulator/entries/graphs/executables.py",
        old="            changes.append((mine, Conditional(",
        new="            ((mine, Conditional(",
        test="emulator/test_graph_nodes.py::test_an_update_takes_the_conditions_of_the_new_graph[eager0]",
    ),
    Correction(
        "the emulator is as strict as a driver",
        "an update changes the bodies of a pending launch",
        "emulator/entries/graphs/executables.py",
        old="    if graph.holds(Conditional):  # later",
        new="    if False:  # later",
        test="emulator/test_graph_nodes.py::test_an_update_does_not_change_a_pending_launch[lazy0]",
    ),
    Correction(
        "the emulator is as strict as a driver",
        "nodes of a graph mix with the work of another thread",
        "emulator/entries/graphs/executables.py",
        old="    with machine.queues.together():\n",
        new="    if True:\n",
        test=("emulator/test_graph_nodes.py::test_a_launch_is_one_piece_of_the_order_of_its_stream[eager0]"),
    ),
    Correction(
        "the emulator is as strict as a driver",
        "a refused launch runs a part of its graph",
        "emulator/entries/graphs/executables.py",
        old="    events = [_events(machine, node.does) for node, _ in pieces]\n",
        new="    events = (_events(machine, node.does) for node, _ in pieces)\n",
        test="emulator/test_graph_nodes.py::test_a_launch_that_is_refused_runs_nothing[eager0]",
    ),
    Correction(
        "the emulator is as strict as a driver",
        "user objects of child graphs are destroyed while they are used",
        "emulator/entries/graphs/definitions.py",
        old="        theirs.objects = dict(mine.objects)\n",
        new="        theirs.objects = dict(mine.objects)\n        break\n",
        test="emulator/test_graph_nodes.py::test_user_objects_of_child_graphs[eager0-cloned]",
    ),
    Correction(
        "the emulator is as strict as a driver",
        "the arguments of a node that were read are freed",
        "emulator/entries/graphs/parameter_entries.py",
        old="    if node.shown is None or node.shown[:2] != (does.function, does.arguments):\n",
        new="    if True:\n",
        test="emulator/test_graph_nodes.py::test_arguments_that_were_read_stay_where_they_are[eager0]",
    ),
    Correction(
        "the emulator is as strict as a driver",
        "the dependencies of a stream that were read are freed",
        "emulator/entries/graphs/capture.py",
        old="        capture.shown[machine.stream(handle)] = made\n",
        new="        capture.shown = {machine: made}\n",
        test=("emulator/test_graph_nodes.py::test_the_dependencies_of_two_streams_stay_where_they_are[eager0]"),
    ),
    Correction(
        "the emulator is as strict as a driver",
        "a shared event that is destroyed early is never reached",
        "emulator/machine/sharing.py",
        old="        if all(mark is not self for _, mark, _ in self.machine.queues.marks):\n",
        new="        if True:\n",
        test="driver/test_sharing.py::test_an_event_that_is_closed_before_it_is_reached_is_reached",
        hangs=True,
    ),
    Correction(
        "the emulator is as strict as a driver",
        "memory whose free was refused can never be freed",
        "emulator/entries/memories/pools.py",
        old="    machine.queues.admit(stream)\n    holding.released",
        new="    holding.released",
        test="emulator/test_graph_nodes.py::test_what_a_capture_refuses_can_be_done_later[eager0]",
    ),
    Correction(
        "the emulator is as strict as a driver",
        "cudaGraphKernelNodeGetParams writes behind the structure",
        "emulator/runtime/runtime_graphs.py",
        old="_NODE = 56",
        new="_NODE = 64",
        test="emulator/test_cudart.py::test_graphs_name_kernels_by_their_stand_ins",
    ),
    # -- lifetime
    Correction(
        "work that uses what is released",
        "an array of zeros is copied before its stream has filled it",
        "arrays/making.py",
        old="    return empty(device, shape, element).fill(bytes(element.itemsize), stream=stream)",
        new="    made = empty(device, shape, element)\n    made.owner.fill(0, stream=stream)\n    return made",
        test="driver/test_copies.py::test_zeros_are_ready_in_the_order_of_their_fill",
    ),
    Correction(
        "work that uses what is released",
        "an array of zeros does not know the stream of another library that fills it",
        "arrays/making.py",
        old="    return empty(device, shape, element).fill(bytes(element.itemsize), stream=stream)",
        new="    made = empty(device, shape, element)\n    made.stream = made.owner.fill(0, stream=stream).stream\n"
        "    return made",
        test="driver/test_copies.py::test_zeros_are_ready_in_the_order_of_their_fill",
    ),
    Correction(
        "work that uses what is released",
        "MPI reads page-locked memory while another device writes it",
        "integrations/mpi.py",
        old="                Device(home.ordinal).synchronize()",
        new="                Device(0).synchronize()",
        test="driver/test_copy_peer.py::test_mpi_waits_for_the_device_of_page_locked_memory[ours]",
    ),
    Correction(
        "work that uses what is released",
        "a copy of an Arrow array does not wait for its event",
        "gpu/for_arrays.py",
        old='("dlpack", "arrow")',
        new='"dlpack"',
        test="interop/test_arrow.py::test_8_12_device_memory_is_ready_in_the_order_of_the_stream_that_waited",
    ),
    Correction(
        "work that uses what is released",
        "work on a stream does not wait for an element that was set by flat",
        "arrays/reshaping.py",
        old="        self._view.stream = part.stream  # which",
        new="        pass  # which",
        test="driver/test_copies.py::test_an_element_that_is_set_by_flat_is_ready_in_its_order",
    ),
    Correction(
        "work that uses what is released",
        "the launch of a graph keeps the elements of an exporter that is a tuple, not the exporter",
        "gpu/graphs/node_parameters.py",
        old="type(thing) is tuple or",
        new="isinstance(thing, tuple) or",
        test="driver/test_graph.py::test_a_launch_keeps_an_exporter_that_is_a_tuple",
    ),
    Correction(
        "work that uses what is released",
        "a copy of what is pending on the default stream breaks the capture of a blocking stream",
        "gpu/memory/ordering.py",
        old="        if is_barred(home.calls):\n            return barred_end(home)\n",
        new="",
        test="driver/test_foreign_captures.py::test_a_blocking_stream_is_captured[True-False]",
    ),
    Correction(
        "work that uses what is released",
        "virtual memory is unmapped after the wait for its work was refused",
        "gpu/core/reservation.py",
        old="                if error.code == STREAM_CAPTURE_UNSUPPORTED:",
        new="                if False:",
        test="driver/test_foreign_captures.py::test_virtual_memory_that_is_collected_in_a_capture_of_other_software",
    ),
    Correction(
        "work that uses what is released",
        "two graphs that free each other's memory wait for each other",
        "gpu/graphs/recording.py",
        old="each.graph if isinstance(each, Node) else each",
        new="each",
        test="driver/test_graph_nodes.py::test_two_graphs_that_free_each_others_memory_take_their_locks_in_one_order",
        hangs=True,
    ),
    Correction(
        "work that uses what is released",
        "a graph is launched with a texture whose array is closed",
        "gpu/textures/texture.py",
        old="        return self.resource\n",
        new="        return None\n",
        test="driver/test_array.py::test_a_graph_with_a_texture_of_a_closed_array_is_not_launched[array-True]",
    ),
    Correction(
        "work that uses what is released",
        "a graph is launched with a surface whose array is closed",
        "gpu/textures/surfaces.py",
        old="        return self.resource\n",
        new="        return None\n",
        test="driver/test_array.py::test_a_graph_with_a_surface_of_a_closed_array_is_not_launched[True]",
    ),
    Correction(
        "work that uses what is released",
        "a graph is launched with a level of an array that is closed",
        "gpu/graphs/node_parameters.py",
        old='owners_in([getattr(thing, "parent", None)])',
        new="owners_in([])",
        test="driver/test_array.py::test_a_captured_copy_of_a_closed_mipmapped_array_is_not_launched",
    ),
    Correction(
        "work that uses what is released",
        "a launch with foreign arrays breaks a capture of other software",
        "gpu/core/points.py",
        old="    if keep_in_graph(primary, queue, things):",
        new="    if capturing and keep_in_graph(primary, queue, things):",
        test="driver/test_foreign_captures.py::test_launches_with_foreign_arrays_break_no_capture_of_other_software[1]",
    ),
    Correction(
        "work that uses what is released",
        "work on a stream does not wait for a fill on the default stream",
        "gpu/copies/contiguous.py",
        old="        return queue_of(None), LEGACY, LEGACY",
        new="        return queue_of(None), LEGACY, None",
        test="driver/test_copies.py::test_work_on_a_stream_waits_for_that_on_the_default_stream[copy-fill]",
    ),
    Correction(
        "work that uses what is released",
        "a copy of a foreign view does not wait for its exporter",
        "gpu/for_arrays.py",
        old="        made.stream = LEGACY  # which",
        new="        pass  # which",
        test="driver/test_copies.py::test_work_on_a_stream_waits_for_that_on_the_default_stream[copy-view]",
    ),
    Correction(
        "work that uses what is released",
        "a refused copy between devices breaks a capture",
        "gpu/copies/device_copy.py",
        old="attempt(finish_context, home)",
        new="attempt(home.calls.cuCtxSynchronize)",
        test="driver/test_copy_peer.py::test_a_copy_that_is_refused_in_a_capture_leaves_it_valid[host]",
    ),
    Correction(
        "work that uses what is released",
        "pending copies of tensors count as one, whatever they keep",
        "emulator/ptx/running/units/tensors.py",
        old=", made.runs(base), len(rows))",
        new=", made.runs(base))",
        test="emulator/test_ptx_hostile.py::test_a_copy_of_a_tensor_counts_as_many_rows_as_it_keeps[in]",
    ),
    Correction(
        "work that uses what is released",
        "a module that an argument closes reaches the driver",
        "gpu/kernels/launch.py",
        old="        if not self.token:\n            self.check()\n",
        new="",
        test="driver/test_launch.py::test_a_module_that_an_argument_closes",
    ),
    Correction(
        "work that uses what is released",
        "an interrupted close() of a stream takes the end of its work as reached",
        "gpu/core/stream_arguments.py",
        old='        if hasattr(self, "_end"):  # an',
        new="        if False:  # an",
        test="driver/test_ownership.py::test_an_interrupted_close_of_a_stream_keeps_the_end_of_its_work",
    ),
    Correction(
        "work that uses what is released",
        "an event is recorded by one thread and taken from the pool by another",
        "gpu/core/points.py",
        old=" and not self.recording:  # (it",
        new=" and True:  # (it",
        test="driver/test_ownership.py::test_an_event_is_not_used_elsewhere_while_a_thread_records_it",
    ),
    Correction(
        "work that uses what is released",
        "what a closed stream uses is released with the work of the next one",
        "gpu/core/points.py",
        old="    _newest.pop((primary.ordinal, handle, 0), None)",
        new="    pass",
        test="driver/test_ownership.py::test_the_next_stream_with_the_same_handle_has_a_point_of_its_own",
    ),
    Correction(
        "work that uses what is released",
        "virtual memory that is collected is unmapped while work uses it",
        "gpu/core/reservation.py",
        old="        if self.pieces:  # (work",
        new="        if self.pieces and not late:  # (work",
        test="driver/test_memory_virtual.py::test_what_is_collected_waits_for_work[False]",
    ),
    Correction(
        "work that uses what is released",
        "registered memory that is collected is unregistered while work uses it",
        "gpu/core/handles.py",
        old="(not late or self.kind.unretained)",
        new="not late",
        test="driver/test_memory_registered.py::test_what_is_collected_waits_for_work",
    ),
    Correction(
        "work that uses what is released",
        "a graph launches a function of a module that was collected",
        "gpu/kernels/launch.py",
        old="            keep_in_graph(self.primary, self.handle, (module, *uses))\n",
        new="",
        test="driver/test_graph.py::test_a_graph_keeps_the_module_of_a_captured_launch[False]",
    ),
    Correction(
        "work that uses what is released",
        "a launch that was checked before a capture does not keep its module",
        "gpu/graphs/recording.py",
        old="            invalidate()  # from",
        new="            pass  # from",
        test="driver/test_graph.py::test_a_graph_keeps_the_module_of_a_captured_launch[True]",
    ),
    Correction(
        "work that uses what is released",
        "a graph that was closed keeps what was captured",
        "gpu/graphs/graph.py",
        old="            self._record = None  # with",
        new="            pass  # with",
        test="driver/test_graph.py::test_a_graph_keeps_the_module_of_a_captured_launch[False]",
    ),
    Correction(
        "work that uses what is released",
        "a node whose update was refused in part uses what nothing keeps",
        "gpu/graphs/updates.py",
        old="known is not None and attempt(known.change, graph, handle, None)",
        new="known is not None",
        test="driver/test_graph_updates.py::test_an_update_of_which_only_a_part_was_accepted_is_taken_back",
    ),
    Correction(
        "work that uses what is released",
        "a node that was destroyed keeps what the graphs in it used",
        "gpu/graphs/nodes.py",
        old="            for node in (self, *inner):",
        new="            for node in (self,):",
        test="driver/test_graph_nodes.py::test_a_node_that_is_destroyed_keeps_nothing_of_the_graphs_in_it",
    ),
    Correction(
        "work that uses what is released",
        "a node is added while a capture into its graph begins",
        "gpu/graphs/recording.py",
        old="        if refused and recording",
        new="        if False and recording",
        test="driver/test_graph_nodes.py::test_no_node_is_added_while_a_capture_into_the_graph_begins",
    ),
    Correction(
        "work that uses what is released",
        "the owner of shared memory is told that it is closed before it is",
        "gpu/processes/opening.py",
        old="            if part.release(late) is False:\n                return False\n",
        new="            part.release(late)\n",
        test="driver/test_sharing.py::test_the_owner_is_told_when_all_is_released",
    ),
    Correction(
        "work that uses what is released",
        "two threads use an executable graph at once",
        "gpu/graphs/nodes.py",
        old="graph._asking(), self.executable._lock:",
        new="graph._asking():",
        test="driver/test_graph_nodes.py::test_an_executable_graph_is_used_by_one_thread_at_a_time[disable]",
    ),
    Correction(
        "work that uses what is released",
        "a copy of a CUDA array breaks a capture",
        "gpu/textures/transfers.py",
        old='    if side.kind == "host":\n        uncaptured(',
        new="    if False:\n        uncaptured(",
        test="driver/test_array.py::test_what_cannot_be_captured_is_refused_and_the_capture_stays_valid[host]",
    ),
    Correction(
        "work that uses what is released",
        "a consumer does not wait for a copy through temporary memory",
        "gpu/textures/transfers.py",
        old="        stream = data.stream\n    elif",
        new="        return\n    elif",
        test="driver/test_array.py::test_a_target_is_ready_in_the_order_of_the_copy[vectors in columns]",
    ),
    Correction(
        "work that uses what is released",
        "reset() makes tuple(generator) of another thread raise SystemError",
        "gpu/devices/resetting.py",
        old="gc.get_referrers(*classes)",
        new="gc.get_objects()",
        test="driver/test_reset.py::test_twice_and_with_nothing",
    ),
    Correction(
        "closed where the driver may not be called",
        "what a host function closes is released while other work uses it",
        "ownership.py",
        old="release.release(False) is False):\n                    dropped.append(Asked(release))",
        new="release.release(False) is False):\n                    dropped.append(release)",
        test=(
            "driver/test_host_functions.py::"
            "test_what_a_function_closes_is_released_after_the_work_that_uses_it[texture]"
        ),
    ),
    Correction(
        "closed where the driver may not be called",
        "the last export of closed memory releases it while work uses it",
        "gpu/memory/leases.py",
        old="bound(dropped.append, Asked(release)), _nothing",
        new="bound(dropped.append, release), _nothing",
        test="driver/test_memory_virtual.py::test_what_was_closed_and_is_exported_waits_for_work_at_its_end[pinned]",
    ),
    Correction(
        "closed where the driver may not be called",
        "virtual memory that is closed during a capture is unmapped while work uses it",
        "gpu/core/reservation.py",
        old="                if not self.wait():\n",
        new="                if not self.wait() and False:\n",
        test="driver/test_memory_virtual.py::test_during_a_capture",
    ),
    Correction(
        "closed where the driver may not be called",
        "access that is closed during a capture ends while kernels use it",
        "gpu/devices/peers.py",
        old="    if capturing and not link.foreign:",
        new="    if False:",
        test="driver/test_peers.py::test_access_does_not_end_during_a_capture",
    ),
    Correction(
        "a more lenient emulator",
        "copies that barriers wait for are counted for ever, and later ones are completed early",
        "emulator/ptx/running/units/late_units.py",
        old="            copies[:] = [each for each in copies if each]",
        new="            copies[:] = [each for each in copies]",
        test="emulator/test_ptx_hostile.py::test_copies_that_barriers_wait_for_are_not_counted_for_ever",
    ),
    Correction(
        "exceptions of the emulator",
        "an unexpected exception keeps everything that its callers held",
        "emulator/machine/machine.py",
        old="        caught.__traceback__ = caught.__context__ = None\n        caught.__cause__",
        new="        caught.__cause__",
        test="emulator/test_codes.py::test_an_exception_that_is_kept_keeps_nothing_of_its_callers",
    ),
    Correction(
        "accesses of surfaces",
        "a store that is wider than a row writes to other rows",
        "emulator/ptx/running/sampling.py",
        old="        if size > level.pitch and",
        new="        if False and",
        test="emulator/test_textures.py::test_an_access_that_is_wider_than_a_row_is_refused[eager-clamp]",
    ),
    Correction(
        "time without end",
        "a printf of long texts in a loop runs for hours after the time that was set",
        "emulator/ptx/running/builtins.py",
        old="    thread.launch.look_at_clock()  # each text can be long\n",
        new="",
        test="emulator/test_ptx_hostile.py::test_slow_instructions_end_after_the_time_that_was_set",
        hangs=True,
    ),
    Correction(
        "time without end",
        "slow instructions in a loop run for hours after the time that was set",
        "emulator/ptx/running/lookups.py",
        old="                portion = max(portion // 8, 1)\n",
        new="                pass\n",
        test="emulator/test_ptx_hostile.py::test_the_clock_is_looked_at_more_often_while_iterations_are_slow",
    ),
    Correction(
        "files of other users",
        "a file that is replaced stays setuid, and becomes this user's",
        "elements/npy.py",
        old="os.stat(real).st_mode & 0o777",
        new="os.stat(real).st_mode & 0o7777",
        test="null/test_npy.py::test_a_file_that_is_replaced_keeps_only_permissions",
    ),
    Correction(
        "handles and finalizers",
        "a handle whose sharing begins while the last other one ends can never be opened",
        "gpu/processes/server.py",
        old="            if self.over:\n                del self.offers[offer.key]\n",
        new="            if False:\n",
        test="driver/test_sharing.py::test_a_finalizer_that_ends_or_shares_at_any_line[share]",
    ),
    Correction(
        "structs that contradict themselves",
        "the bitmap of an Arrow array that cannot be viewed is read beyond its end",
        "protocols/arrow.py",
        old="    _check_numbers(length, nulls, offset)\n    _check_child(length, first + count)\n",
        new="    pass\n",
        test="interop/test_arrow.py::test_8_10_what_cannot_be_viewed_contradicts_itself[member-length]",
    ),
    Correction(
        "events of exporters",
        "pinned memory of Arrow is read before its event",
        "protocols/arrow.py",
        old='    made.unread = on_device or (kind != "cpu" and made.event != 0)\n',
        new="    made.unread = on_device\n",
        test="interop/test_arrow.py::test_8_12_pinned_memory_is_not_read_before_its_event",
    ),
    Correction(
        "structs that contradict themselves",
        "a buffer with a negative extent is viewed, and written outside of its memory",
        "protocols/buffer.py",
        old="        layout.checked_end(NAME, shape, strides, itemsize)\n",
        new="        pass\n",
        test="null/test_protocol_buffer.py::test_6_19_layouts_that_are_impossible_are_refused[rows]",
    ),
    Correction(
        "memory without end",
        "asynchronous copies that nobody waits for fill the memory",
        "emulator/ptx/running/units/late_units.py",
        old="        if self.pending > MOST_PENDING:\n",
        new="        if False:\n",
        test="emulator/test_ptx_hostile.py::test_copies_that_nobody_waits_for_are_completed[groups]",
    ),
    Correction(
        "memory without end",
        "local memory of blocks that wait for each other fills the memory",
        "emulator/ptx/running/lookups.py",
        old="        if self.launch.local_bytes > MOST_LOCAL:\n",
        new="        if False:\n",
        test="emulator/test_ptx_hostile.py::test_local_memory_of_blocks_that_wait_for_each_other_is_limited[5-True]",
    ),
    Correction(
        "directions of infinities",
        "a cubemap that is read at two infinite coordinates loses the context",
        "emulator/ptx/running/sampling.py",
        old="            return 6 * layer + face, [_finite(x), _finite(y)]\n",
        new="            return 6 * layer + face, [x, y]\n",
        test="driver/test_texture.py::test_cubemaps_take_directions_without_a_largest_coordinate",
    ),
    Correction(
        "places of other users",
        "another user can take the place of the libraries of emulate when they are removed",
        "emulator/impersonating/loading.py",
        old='            return mkdtemp(prefix="", dir=_own_folder(place))\n',
        new='            return mkdtemp(prefix="emulated-", dir=place)\n',
        test="emulator/test_impersonation.py::test_nobody_can_take_the_place_of_the_libraries",
    ),
    Correction(
        "places of other users",
        "a folder of libraries that everybody can write to is used",
        "emulator/impersonating/loading.py",
        old="        locate.refuse_planted(os.path.abspath(folder))\n",
        new="        pass\n",
        test="emulator/test_impersonation.py::test_the_folder_that_a_parent_names_is_not_one_of_everybody",
    ),
    Correction(
        "copies that were interrupted",
        "an update does not find the copy that an interrupted one left",
        "tools/commands/vendor.py",
        old="        _bring_back(os.path.abspath(options.dest))\n",
        new="        pass\n",
        test="null/test_vendor.py::test_an_update_finds_what_an_interrupt_left_beside_its_place",
    ),
    Correction(
        "copies that were interrupted",
        "half of a copy is brought back",
        "tools/commands/vendor.py",
        old=" and _is_whole(old, kept):\n",
        new=":\n",
        test="null/test_vendor.py::test_a_folder_that_is_no_copy_is_not_brought_back[half of a copy]",
    ),
    Correction(
        "errors of consumers",
        "the error that a consumer sets becomes a SystemError",
        "arrays/exchange_table.py",
        old="_SetError = ctypes.PYFUNCTYPE(",
        new="_SetError = ctypes.CFUNCTYPE(",
        test="null/test_dlpack_table.py::test_4_8_the_allocator",
    ),
    Correction(
        "structs that contradict themselves",
        "null children of Arrow structs end the process",
        "protocols/arrow.py",
        old='    if not found:\n        raise refusal("arrow", "children"',
        new='    if False:\n        raise refusal("arrow", "children"',
        test="interop/test_arrow.py::test_children_that_are_null[False-array-+w:3]",
    ),
    Correction(
        "a more lenient emulator",
        "copies and fills write memory that devices may only read",
        "emulator/entries/memories/copy_entries.py",
        old="        if not is_writable:\n",
        new="        if False:\n",
        test="driver/test_memory_registered.py::test_no_call_writes_memory_that_devices_may_only_read[virtual]",
    ),
    Correction(
        "conditions of graphs",
        "an executable graph with a condition fails after its graph was closed",
        "emulator/entries/graphs/definitions.py",
        old="        if not self.root.users:",
        new="        if True:",
        test="driver/test_graph_updates.py::test_an_executable_graph_with_a_condition_outlives_its_graph",
    ),
    Correction(
        "capsules that are consumed twice",
        "an exporter that consumes its capsule while it is viewed makes two owners of one tensor",
        "dlpack.py",
        old="        address, versioned = identify(capsule)\n        deleter =",
        new="        address, versioned = pointers[hash(capsule)], b'v' in name_of(capsule)\n        deleter =",
        test="null/test_dlpack_import.py::test_an_exporter_that_consumes_its_capsule_while_it_is_viewed",
    ),
    Correction(
        "signals of foreign programs",
        "Ctrl-C does not end a program in C whose first call starts the emulator",
        "emulator/impersonating/loading.py",
        old="if is_foreign and signal",
        new="if False and signal",
        test="emulator/test_impersonation.py::test_ctrl_c_ends_a_program_in_c[--2]",
    ),
    Correction(
        "stale code in the cache",
        "an empty header counts as a missing one",
        "compiler/cache.py",
        old='b"" if text is None else hashlib.sha256(text).digest()',
        new='hashlib.sha256(text or b"").digest()',
        test="driver/test_compile.py::test_an_empty_header_is_not_a_missing_one",
    ),
    Correction(
        "stale code in the cache",
        "a header above a link is searched for elsewhere than the compiler does",
        "compiler/cache.py",
        old="real[above] = os.path.realpath(above)",
        new="real[above] = os.path.normpath(above)",
        test="driver/test_compile.py::test_the_folder_above_a_link_is_that_above_its_target",
    ),
    Correction(
        "files of a user",
        "everyone can read the new content of a private file while it is written",
        "elements/npy.py",
        old="    at_first = 0o600\n",
        new="    at_first = 0o666\n",
        test="null/test_npy.py::test_nobody_else_can_read_the_new_content_of_a_private_file",
    ),
    Correction(
        "captures and threads",
        "Device.synchronize() breaks a capture that another thread begins meanwhile",
        "gpu/core/points.py",
        old="            waiting.add(wait)\n",
        new="            pass\n",
        test="driver/test_capture_order.py::test_a_wait_for_the_device_breaks_no_capture_of_another_thread",
    ),
    Correction(
        "graphs and threads",
        "a graph that is instantiated while another thread adds a node does not keep what the node uses",
        "gpu/graphs/executable.py",
        old="        with graph._lock:\n            self._make(graph, flags)",
        new="        self._make(graph, flags)",
        test="driver/test_graph_nodes.py::test_a_graph_is_copied_while_another_thread_adds_a_node[instantiated]",
    ),
    Correction(
        "graphs and threads",
        "a graph that is embedded while another thread adds a node does not keep what the node uses",
        "gpu/graphs/recording.py",
        old="    inner = next((each for each in graphs if isinstance(each, type(root))), root)",
        new="    inner = root",
        test="driver/test_graph_nodes.py::test_a_graph_is_copied_while_another_thread_adds_a_node[embedded]",
    ),
    Correction(
        "interrupts after a launch",
        "an interrupt after the launch of a graph leaves work whose memory nothing keeps",
        "gpu/graphs/executable.py",
        old="            if keeping:  # the driver may have accepted the launch before the interrupt",
        new="            if False:",
        test="driver/test_interrupts.py::test_foreign_memory_outlives_work_that_an_exception_ends[in a graph]",
    ),
    Correction(
        "interrupts after a launch",
        "an interrupt after a write in stream order leaves work whose memory nothing keeps",
        "gpu/streams/stream_values.py",
        old="            _keep_each(stream, steps)\n        raise\n",
        new="            pass\n        raise\n",
        test="driver/test_interrupts.py::test_foreign_memory_outlives_work_that_an_exception_ends[a value]",
    ),
    Correction(
        "undefined bits",
        "a kernel that drops the undefined half of a register is reported",
        "emulator/ptx/translating/tracking.py",
        old="        moved = self._moved_bits(instruction, shape)\n",
        new="        moved = ''\n",
        test="emulator/test_ptx_undefined.py::test_registers_with_some_undefined_bits[scalar]",
    ),
    Correction(
        "undefined bits",
        "what is computed from a register with an undefined half counts as defined in the other half",
        "emulator/ptx/running/undefined.py",
        old="        self.computed = first.computed\n",
        new="",
        test="emulator/test_ptx_undefined.py::test_registers_with_some_undefined_bits[scalar]",
    ),
    Correction(
        "fork and host functions",
        "a child of fork() waits for a lock that another thread of its parent held",
        "interpreter/cpython.py",
        old="        lock._at_fork_reinit()",
        new="        pass",
        test="driver/test_fork_locks.py::test_a_child_does_not_wait_for_locks_of_its_parent",
    ),
    Correction(
        "fork and host functions",
        "a child of fork() that returns from a host function waits forever",
        "emulator/machine/host_thread.py",
        old="if os.getpid() != self._machine.pid:",
        new="if False:",
        test="emulator/test_thunks.py::test_a_child_that_returns_from_a_host_function_ends",
    ),
    Correction(
        "close inside a call of the emulator",
        "close() in a __del__ inside a call of the emulator waits for locks of another thread",
        "ownership.py",
        old="or any(inside() for inside in calling)",
        new="or False",
        test="driver/test_ownership.py::test_close_inside_a_call_of_the_emulator_waits_for_no_lock[False]",
        hangs=True,
    ),
    Correction(
        "time of loading",
        "Python moves a block that grows with the accesses of a kernel for each of its cells",
        "emulator/ptx/translating/translate.py",
        old='            put(base - 1, "for _ in (): pass")\n',
        new="",
        test="emulator/test_ptx_linear.py::test_cells_of_many_accesses_are_not_in_a_block_with_other_instructions",
    ),
    Correction(
        "time of loading",
        "a run as arrays lists the live registers of all nodes, however many these are",
        "emulator/ptx/vectors/writing/value_graph.py",
        old='        raise Unsuited("too many registers are live in too many blocks")',
        new="        pass",
        test="emulator/test_ptx_linear.py::test_too_many_live_registers_are_not_for_arrays",
    ),
    Correction(
        "launch.func",
        "a module that is collected unloads, and launches that know it do not look again",
        "gpu/core/handles.py",
        old="if tokens and self.kind is MODULE:",
        new="if False:",
        test="driver/test_launch.py::test_the_function_of_a_launch_whose_module_was_collected",
    ),
    Correction(
        "captures",
        "a collection that closes pinned memory while a capture begins breaks the capture",
        "gpu/graphs/recording.py",
        old="            capturing[_NEXT] = self._kept\n",
        new="",
        test="driver/test_ownership.py::"
        "test_closing_in_a_collection_while_a_capture_begins_or_ends[cuStreamBeginCapture_v2]",
    ),
    Correction(
        "close inside a call of the emulator",
        "close() of a stream marks the end of its work inside a call of the emulator",
        "gpu/core/stream_arguments.py",
        old=" and not releases_later():",
        new=":",
        test="driver/test_ownership.py::test_close_inside_a_call_of_the_emulator_waits_for_no_lock[False]",
        hangs=True,
    ),
    Correction(
        "fork and host functions",
        "reset() in a host function closes everything before it is refused",
        "gpu/devices/resetting.py",
        old="    if is_serving():\n        raise",
        new="    if False:\n        raise",
        test="driver/test_fork_locks.py::test_a_reset_in_a_host_function_closes_nothing",
    ),
    Correction(
        "reader_in_c",
        "an entry is not identified by a method that the class got later",
        "protocols/dlpack_capsule.py",
        old="its.__dlpack__ is not ask",
        new="its is None",
        test="null/test_view_numpy.py::test_a_subclass_that_changes_is_read_anew",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "the memory of a view is freed while a kernel of another device uses it",
        "gpu/kernels/packing.py",
        old="        _keep_elsewhere(slot, owner, kept)\n    if owner",
        new="        pass\n    if owner",
        test="driver/test_other_device.py::test_memory_is_kept_for_another_device[a launch with a view]",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "a view of pinned memory of another device is taken for one of this device",
        "gpu/kernels/packing.py",
        old="    if owner is not None and place.home != slot.ordinal:",
        new="    if False:",
        test="driver/test_other_device.py::test_memory_is_kept_for_another_device[a launch with a view]",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "the memory of a texture is freed while a kernel of another device reads it",
        "gpu/kernels/packing.py",
        old="    if isinstance(owner, Memory):\n        _keep",
        new="    if False:\n        _keep",
        test="driver/test_other_device.py::test_memory_is_kept_for_another_device[a launch with a texture]",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "memory is freed before a stream of another device has written a value to it",
        "gpu/streams/stream_values.py",
        old="        keep_ours(seen.owner._primary, stream, seen)\n",
        new="",
        test="driver/test_other_device.py::test_memory_is_kept_for_another_device[a value that is written]",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "memory is freed before it was copied to an array of another device",
        "gpu/textures/transfers.py",
        old="                keep_ours(primary, stream, thing)",
        new="                pass",
        test="driver/test_other_device.py::test_memory_is_kept_for_another_device[a copy to an array]",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "reset() does not wait for the work of another device",
        "gpu/devices/resetting.py",
        old="                attempt(other.calls.cuCtxSynchronize)",
        new="                pass",
        test="driver/test_other_device.py::test_memory_is_kept_for_another_device[a launch with the memory]",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "an argument of a launch closes the memory of an earlier one",
        "gpu/kernels/launch.py",
        old="prepared.check_open(kept{arguments})",
        new="kept.clear()",
        test="driver/test_other_device.py::test_an_argument_closes_the_memory_of_an_earlier_one[u32-memory]",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "the access to memory of a pool is not asked for a view",
        "gpu/kernels/packing.py",
        old="        access = owner._access_from(slot.ordinal)\n        if not access:\n            slot.refuse_p",
        new="        if not access:\n            slot.refuse_p",
        test="driver/test_other_device.py::test_access_to_memory_of_a_pool_is_asked_for_each_view",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "the steps of a search for loops that wait are not limited",
        "emulator/ptx/translating/waits.py",
        old="        if found is None and self.steps > self.most:",
        new="        if False:",
        test="emulator/test_ptx_linear.py::test_ten_times_the_text_takes_at_most_12_times[waits in a loop-steps]",
    ),
    Correction(
        "memory of device 0 for work of device 1",
        "a list whose lists are each as long as the view takes memory of the square of its size",
        "arrays/conversion.py",
        old="            left -= len(lists[-1])\n",
        new="            left = most + 1 - len(lists[-1])\n",
        test="null/test_view_numbers.py::test_a_list_that_changes_or_lies_while_it_is_read",
    ),
    Correction(
        "close, reset and lists that lie",
        "a variable of a module, or borrowed memory, stays open after the close() of its owner",
        "gpu/memory/leases.py",
        old="                borrower.close()\n",
        new="                pass\n",
        test="driver/test_lenders.py::test_a_view_is_closed_with_the_owner_of_the_bytes[module-device-close]",
    ),
    Correction(
        "close, reset and lists that lie",
        "a graph does not keep a variable after the close() of its module",
        "gpu/memory/leases.py",
        old="leases += borrower._held_by()",
        new="pass",
        test="driver/test_lenders.py::test_a_graph_keeps_a_variable",
    ),
    Correction(
        "close, reset and lists that lie",
        "reset() does not close the modules that a library has loaded",
        "gpu/devices/resetting.py",
        old="and each.borrowed\n",
        new="and False\n",
        test="driver/test_lenders.py::test_a_view_is_closed_with_the_owner_of_the_bytes[library-device-reset]",
    ),
    Correction(
        "close, reset and lists that lie",
        "reset() does not close what was opened by a handle of another process",
        "gpu/devices/resetting.py",
        old='[release, *getattr(release, "parts", ())]',
        new="[release]",
        test="driver/test_lenders.py::test_what_was_opened_by_a_handle_is_closed_by_reset_and_can_be_opened_again",
    ),
    Correction(
        "close, reset and lists that lie",
        "a copy remembers memory whose owner may end without closing it",
        "arrays/copying.py",
        old="    if is_final:\n",
        new="    if True:\n",
        test="driver/test_lenders.py::test_a_copy_after_the_end_of_an_owner_that_lends_nothing",
    ),
    Correction(
        "close, reset and lists that lie",
        "the length that a subclass of bytes tells is believed when an element is stored",
        "elements/scalars.py",
        old="if len(data) != dtype.itemsize:\n",
        new="if len(value) != dtype.itemsize:\n",
        test="null/test_view_numbers.py::test_a_list_that_changes_or_lies_while_it_is_read",
    ),
    Correction(
        "close, reset and lists that lie",
        "a graph is instantiated with a function of a module that is closed",
        "gpu/graphs/executable.py",
        old="self._check_open()  # the",
        new="pass  # the",
        test="driver/test_graph_nodes.py::test_what_a_graph_uses_is_closed[module-False-<lambda>0]",
    ),
    Correction(
        "close, reset and lists that lie",
        "exceptions of functions on streams that are closed are kept for ever",
        "gpu/core/host_functions.py",
        old="if len(failed) > _MOST_KEPT:",
        new="if False:",
        test="driver/test_host_functions.py::test_only_the_last_exceptions_wait_to_be_raised",
    ),
    Correction(
        "close, reset and lists that lie",
        "a folder with white space is preloaded as two",
        "emulator/impersonating/loading.py",
        old=r'r"[\s:;$]"',
        new='r"[:;]"',
        test="emulator/test_impersonation.py::test_libraries_are_put_where_the_loader_reads_one_path[$ORIGIN]",
    ),
    Correction(
        "close, reset and lists that lie",
        "a thread of C code begins with the state of an ended one",
        "emulator/machine/native_threads.py",
        old="number = read(key)",
        new="number = threading.get_native_id()",
        test="emulator/test_contexts.py::test_a_thread_with_the_number_of_an_ended_one_has_a_state_of_its_own",
    ),
    Correction(
        "close, reset and lists that lie",
        "the emulated runtime keeps the state of ended threads",
        "emulator/runtime/state.py",
        old=" = WeakKeyDictionary()",
        new=" = {}",
        test="emulator/test_cudart.py::test_the_state_of_ended_threads_does_not_stay",
    ),
    Correction(
        "read by a stranger",
        "a view whose stream only launches have used does not wait for them after the stream is closed",
        "arrays/strided.py",
        old="known = kind is gpu.Stream and stream._argument is not None",
        new="known = kind is gpu.Stream and stream._handle is not None",
        test="driver/test_view_stream.py::test_a_view_waits_for_the_launches_of_its_closed_stream[launch]",
    ),
    Correction(
        "read by a stranger",
        "what is closed in a capture is released without a wait for the work that may use it",
        "gpu/core/handles.py",
        old="if self.kind.needs_idle and (not late or self.kind.unretained) and self.stream is None:",
        new="if False:",
        test="driver/test_capture_order.py::test_what_other_streams_may_use_is_released_after_the_capture[texture]",
    ),
    Correction(
        "closed by many threads",
        "a stream is destroyed while another thread frees memory on it",
        "gpu/core/handles.py",
        old="        if self.kind.is_stream:",
        new="        if False:",
        test="driver/test_ownership.py::test_a_stream_is_not_destroyed_while_memory_is_freed_on_it[cuMemFreeAsync]",
    ),
    Correction(
        "closed by many threads",
        "a second thread that closes a stream asks the driver about it after the first has destroyed it",
        "gpu/core/stream_arguments.py",
        old='if not hasattr(self, "_end"):  # otherwise',
        new="if True:  # otherwise",
        test="driver/test_ownership.py::test_the_end_of_a_stream_that_another_thread_has_closed_stays_as_it_was_found",
    ),
    Correction(
        "dlpack_shared_capsule_uaf",
        "a capsule that its exporter hands out again is not consumed, so a second consumer frees the tensor",
        "protocols/dlpack_capsule.py",
        old="shared = getrefcount(capsule) > _ALONE",
        new="shared = False",
        test="null/test_view_lifetime.py::test_a_capsule_that_something_else_holds_is_consumed[object-versioned]",
    ),
    Correction(
        "dlpack_shared_capsule_uaf",
        "the same by a method that is a C function",
        "protocols/dlpack_capsule.py",
        old="names[hash(capsule)] != name or getrefcount(capsule) > _ALONE:",
        new="names[hash(capsule)] != name:",
        test="null/test_view_lifetime.py::test_a_method_in_c_that_returns_a_capsule_that_something_else_holds",
    ),
    Correction(
        "dlpack_shared_capsule_uaf",
        "the owner of a view is the capsule, which somebody else can consume",
        "arrays/strided.py",
        old="return OwnedCapsule(self._owner)",
        new="return self._owner",
        test="null/test_view_lifetime.py::test_the_owner_of_a_view_is_no_way_to_its_capsule",
    ),
    Correction(
        "buffer_dunder_uaf",
        "a memoryview does not keep its view",
        "interpreter/buffer_type.py",
        old="    _retain(owner)",
        new="    _retain(None)",
        test="null/test_view_lifetime.py::test_a_memoryview_keeps_its_view[<lambda>1]",
    ),
    Correction(
        "interrupts while work is queued",
        "a copy into pageable memory that an interrupt ends is still pending",
        "gpu/copies/contiguous.py",
        old="        end_work(error, primary, queue, dst, src)",
        new="        pass",
        test="driver/test_interrupts.py::test_a_copy_that_an_exception_ends_writes_nothing_later[copy]",
    ),
    Correction(
        "interrupts while work is queued",
        "the same of a pitched copy",
        "gpu/copies/device_copy.py",
        old="            end_work(error, device, queue_of(handle), target, source)",
        new="            pass",
        test="driver/test_interrupts.py::test_a_copy_that_an_exception_ends_writes_nothing_later[boxes]",
    ),
    Correction(
        "interrupts while work is queued",
        "foreign memory that is filled is freed before the fill, if an interrupt comes between",
        "gpu/copies/contiguous.py",
        old="            end_work(error, primary, queue, target)",
        new="            pass",
        test="driver/test_interrupts.py::test_foreign_memory_outlives_work_that_an_exception_ends[filled]",
    ),
    Correction(
        "close_under_export",
        "close() frees memory that somebody has by DLPack",
        "arrays/strided.py",
        old="        return self._owner.lease()",
        new="        return self._owner",
        test="driver/test_memory.py::test_an_export_keeps_the_bytes_of_closed_memory[a capsule]",
    ),
    Correction(
        "close_under_export",
        "close() frees memory of which somebody has a memoryview",
        "arrays/strided.py",
        old="        held._hold()\n",
        new="",
        test="driver/test_memory.py::test_an_export_keeps_the_bytes_of_closed_memory[a memoryview]",
    ),
    Correction(
        "close_under_export",
        "close() frees memory that somebody has by the array interface",
        "arrays/exporting.py",
        old=("    view._hold()\n    said = _interface(view)\n    if not"),
        new=("    said = _interface(view)\n    if not"),
        test="driver/test_memory.py::test_an_export_keeps_the_bytes_of_closed_memory[the array interface]",
    ),
    Correction(
        "close_under_export",
        "the same by the array interface of the Memory itself",
        "gpu/memory/leases.py",
        old="if shown:",
        new="if False:",
        test="driver/test_memory.py::test_an_array_interface_of_a_memory_keeps_its_bytes[__array_interface__-pinned]",
    ),
    Correction(
        "close_under_export",
        "close() frees memory that somebody has by the CUDA array interface",
        "arrays/exporting.py",
        old="    view._hold()\n    said = _interface(view)\n    said[",
        new="    said = _interface(view)\n    said[",
        test="driver/test_memory.py::test_an_export_keeps_the_bytes_of_closed_memory[the CUDA array interface]",
    ),
    Correction(
        "close_under_export",
        "close() frees memory that has exports",
        "gpu/memory/leases.py",
        old="if not leases or self._release is None:",
        new="if True:",
        test="driver/test_memory.py::test_leased_memory_is_freed_when_the_last_lease_goes[pinned]",
    ),
    Correction(
        "close_under_export",
        "an export begins while another thread closes the memory",
        "gpu/memory/memory.py",
        old="self.handle  # raises Closed\n                    release = ",
        new="pass\n                    release = ",
        test="driver/test_memory.py::test_leased_memory_is_freed_when_the_last_lease_goes[pinned]",
    ),
    Correction(
        "sweep_crash",
        "the sweep reads a capsule's name before its count, and a thread that consumes it in between loses the tensor",
        "dlpack.py",
        old=(
            "sys.getrefcount(capsule) <= alone:\n"
            '            gone = name_of(capsule) in (b"dltensor", b"dltensor_versioned")\n'
        ),
        new=(
            'name_of(capsule) in (b"dltensor", b"dltensor_versioned"):\n'
            "            gone = sys.getrefcount(capsule) <= alone\n"
        ),
        test="null/test_view_lifetime.py::test_a_capsule_that_is_consumed_while_it_is_swept[name_of]",
    ),
    Correction(
        "torch_race",
        "a view holds another storage than that of its address",
        "protocols/tensor.py",
        old="if data < begin or data + reach > begin + within.nbytes():",
        new="if False:",
        test="null/test_dlpack_exchange.py::test_a_tensor_that_gets_another_storage_while_it_is_read[False]",
    ),
    Correction(
        "copy.copy",
        "copy.copy() makes a second owner of a handle",
        "ownership.py",
        old="    def __copy__(self) -> NoReturn:\n",
        new=("    def __copy__(self) -> NoReturn:\n        return object.__new__(type(self))\n"),
        test="driver/test_memory.py::test_an_owned_thing_is_not_copied",
    ),
    # -- identity
    Correction(
        "launch_ready_attribute",
        "an attribute makes any object an array, in the function that is written for a launch",
        "gpu/kernels/launch.py",
        old='"address": """{x}._ptr if type({x}) is MemoryView and',
        new='"address": """{x}._ptr if hasattr({x}, "_place") and',
        test="driver/test_launch.py::test_an_attribute_makes_nothing_an_address",
    ),
    Correction(
        "launch_ready_attribute",
        "the same in the table for all other arguments",
        "gpu/kernels/kinds.py",
        old='    return "other"\n\n\n_EXACT',
        new='    return "view"\n\n\n_EXACT',
        test="driver/test_launch.py::test_an_attribute_makes_nothing_an_address",
    ),
    # -- read-only memory
    Correction(
        "readonly_laundered_by_copy",
        "a launch writes through a read-only view",
        "gpu/kernels/packing.py",
        old="if (place.readonly or access != 3) and not slot.reads:",
        new="if access != 3 and not slot.reads:",
        test="driver/test_launch.py::test_a_read_only_view_is_refused_after_anything_that_was_done_with_it",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a launch writes into read-only page-locked memory, by the written function",
        "gpu/kernels/launch.py",
        old="""                and {x}._owner._handle is not None
                else {x}._handle if type({x}) is Memory and {x}._primary is primary and {x}._keeps is None
                else {x} if type({x}) is int or type({x}) in plain_{n}
                else 0 if {x} is None
                else {x}._handle if type({x}) is ManagedMemory and {x}._primary is primary and {x}._keeps is None
                else {x}._ptr""",
        new="""                and {x}._owner._handle is not None
                else {x}._handle if isinstance({x}, Memory) and {x}._primary is primary and {x}._keeps is None
                else {x} if type({x}) is int or type({x}) in plain_{n}
                else 0 if {x} is None
                else {x}._handle if type({x}) is ManagedMemory and {x}._primary is primary and {x}._keeps is None
                else {x}._ptr""",
        test="driver/test_memory_registered.py::test_a_read_only_exporter",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "the same by the table",
        "gpu/memory/memory.py",
        old="        if self.readonly:\n            return 1\n        return 3\n",
        new="        return 3\n",
        test="driver/test_memory_registered.py::test_a_read_only_exporter",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a copy of one run of bytes writes",
        "arrays/copying.py",
        old="        if made.readonly:\n            made.target = None\n",
        new="",
        test="driver/test_memory.py::test_plain_copies_and_fills_on_any_stream[kinds0-none]",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a copy of a Memory's bytes writes",
        "arrays/copying.py",
        old="other.dtype is not None or to.readonly:",
        new="other.dtype is not None:",
        test="driver/test_memory_registered.py::test_a_read_only_exporter",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "any other copy writes",
        "arrays/copying.py",
        old=("    _check_usable(to, dst)\n    if to.readonly:"),
        new=("    _check_usable(to, dst)\n    if False:"),
        test="driver/test_view_copy.py::test_broadcast_and_refusals",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a copy in a graph writes",
        "arrays/copying.py",
        old=("    _check_target(to, dst)\n    _check_usable(of, src)\n    return _walk"),
        new=("    _check_usable(to, dst)\n    _check_usable(of, src)\n    return _walk"),
        test="driver/test_graph_nodes.py::test_copies_and_fills_that_are_refused",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a fill in a graph writes",
        "arrays/copying.py",
        old="    _check_target(to, target)\n    return target, to, pattern, widest(pattern)",
        new="    return target, to, pattern, widest(pattern)",
        test="driver/test_graph_nodes.py::test_copies_and_fills_that_are_refused",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a fill writes",
        "arrays/copying.py",
        old="        _check_target(to, target)\n    if to.kind",
        new="        _check_usable(to, target)\n    if to.kind",
        test="driver/test_memory_registered.py::test_a_read_only_exporter",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a stream writes a value",
        "gpu/streams/stream_values.py",
        old="if step.seen is not None and step.seen.readonly:",
        new="if False:",
        test="driver/test_values.py::test_other_bad_arguments",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a CUDA array is copied to it",
        "gpu/textures/transfers.py",
        old="    if data.readonly:",
        new="    if False:",
        test="driver/test_array.py::test_a_read_only_target_is_refused",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "page-locking makes it writable",
        "gpu/memory/registered.py",
        old="if side.readonly and not read_only and side.form.nbytes:",
        new="if False:",
        test="driver/test_memory_registered.py::test_a_read_only_exporter",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "an export by DLPack lacks the flag",
        "arrays/exporting.py",
        old="        flags |= DLPACK_FLAG_BITMASK_READ_ONLY\n",
        new="",
        test="null/test_dlpack_export.py::test_2_14_read_only",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "it is exported in a legacy capsule, which has no flag",
        "arrays/exporting.py",
        old=(
            "        if not versioned:\n"
            "            raise refusal(\n"
            '                "dlpack",\n'
            '                "max_version",\n'
            "                max_version,"
        ),
        new=(
            "        if False:\n"
            "            raise refusal(\n"
            '                "dlpack",\n'
            '                "max_version",\n'
            "                max_version,"
        ),
        test="null/test_dlpack_export.py::test_2_14_read_only",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "both array interfaces call it writable",
        "arrays/exporting.py",
        old="view.ptr, view._place.readonly),",
        new="view.ptr, False),",
        test="null/test_protocol_array_interface.py::test_what_a_view_of_host_memory_says",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a view of a view is writable",
        "arrays/strided.py",
        old="        made._place = self._place.frozen if readonly else self._place\n",
        new="        made._place = self._place\n",
        test="null/test_view.py::test_shapes",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "writable=True changes what an exporter says",
        "arrays/strided.py",
        old="    if where.readonly:\n",
        new="    if False:\n",
        test="null/test_view_lifetime.py::test_writable_is_decided_in_one_place",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "the flag of a DLPack tensor is ignored",
        "protocols/tensor.py",
        old="legacy or bool(flags & 1), protocol, legacy)",
        new="legacy, protocol, legacy)",
        test="null/test_dlpack_import.py::test_2_29_read_only_is_never_lost",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "a legacy capsule counts as writable",
        "protocols/tensor.py",
        old="legacy or bool(flags & 1), protocol, legacy)",
        new="not legacy and bool(flags & 1), protocol, legacy)",
        test="null/test_view_lifetime.py::test_writable_is_decided_in_one_place",
    ),
    Correction(
        "readonly_laundered_by_copy",
        "pickling makes it writable",
        "arrays/pickling.py",
        old="if readonly and not made.readonly:",
        new="if False:",
        test="driver/test_pickle.py::test_a_view_of_a_device_arrives_on_the_current_device[2-device]",
    ),
    Correction(
        "readonly_by_memoryview_obj",
        "the obj of a memoryview exports a buffer that can be written",
        "interpreter/buffer_type.py",
        old="    _retain(owner)",
        new=(
            "    other = one\n    _retain(other)\n"
            "    one = exporter(copy, source=struct[:8] + id(other).to_bytes(8, 'little') + struct[16:])"
        ),
        test="null/test_view_lifetime.py::test_no_way_round_a_memoryview_writes_read_only_memory",
    ),
    Correction(
        "readonly_by_memoryview_obj",
        "a writable buffer is given on request",
        "arrays/exporting.py",
        old="    if writable and where.readonly:",
        new="    if False:",
        test="null/test_view_lifetime.py::test_no_way_round_a_memoryview_writes_read_only_memory",
    ),
    Correction(
        "readonly_by_memoryview_obj",
        "every buffer is writable",
        "arrays/exporting.py",
        old="dtype, where.readonly, id(held))",
        new="dtype, False, id(held))",
        test="null/test_view_lifetime.py::test_no_way_round_a_memoryview_writes_read_only_memory",
    ),
    # -- interrupts
    Correction(
        "sigint_launch_breaks",
        "an interrupt is swallowed",
        "emulator/machine/recovery.py",
        old="        machine.interrupts.keep(caught)\n",
        new="",
        test="emulator/test_interrupts.py::test_an_interrupt_reaches_the_caller_wherever_it_comes",
    ),
    Correction(
        "sigint_launch_breaks",
        "an interrupt before an entry point's first line is swallowed (from Python 3.11 on)",
        "emulator/interface/thunks.py",
        old="made: Any = covered(call_entry)",
        new="made: Any = (call_entry)",
        test="emulator/test_interrupts.py::test_an_interrupt_before_the_first_line_reaches_the_caller",
    ),
    Correction(
        "sigint_launch_breaks",
        "an interrupt that nobody asks for is lost",
        "emulator/machine/recovery.py",
        old="            late = _Late(self, ident, caught)\n",
        new=("            return\n            late = _Late(self, ident, caught)\n"),
        test=(
            "emulator/test_interrupts.py::test_an_exception_that_nobody_claims_is_raised_in_the_thread_a_moment_later"
        ),
    ),
    Correction(
        "sigint_launch_breaks",
        "work runs twice",
        "emulator/machine/queues.py",
        old="        if work.begun and not work.done:\n",
        new="        if False:\n",
        test="emulator/test_interrupts.py::test_an_interrupted_launch_runs_at_most_once[eager]",
    ),
    Correction(
        "sigint_launch_breaks",
        "a launch hangs, because interrupted work still runs",
        "emulator/machine/queues.py",
        old="                    self._stop(work)\n",
        new="                    pass\n",
        test=(
            "emulator/test_interrupts.py::"
            "test_an_exception_at_any_line_leaves_everything_working[KeyboardInterrupt-launch-eager]"
        ),
        hangs=True,
    ),
    Correction(
        "sigint_launch_breaks",
        "the lock of the machine is never released",
        "emulator/machine/recovery.py",
        old=("    machine.repair()\n    _release(lock)\n"),
        new="    machine.repair()\n",
        test=(
            "emulator/test_interrupts.py::"
            "test_an_exception_at_any_line_leaves_everything_working[KeyboardInterrupt-launch-eager]"
        ),
        hangs=True,
    ),
    Correction(
        "sigint_launch_breaks",
        "a call inside another call releases the lock of that",
        "emulator/machine/recovery.py",
        old=("    for _ in range(depth):\n        lock.acquire()\n"),
        new="",
        test="emulator/test_interrupts.py::test_a_nested_call_of_a_collection_keeps_the_lock_of_the_outer_one",
    ),
    Correction(
        "sigint_context_left_pushed",
        "a context stays pushed",
        "gpu/core/context.py",
        old="            if pushed or self.is_current():  # an interrupt may come after the push",
        new="            if False:",
        test="driver/test_device.py::test_nothing_is_left_pushed",
    ),
    Correction(
        "sigint_context_left_pushed",
        "the capture mode stays relaxed after a block",
        "gpu/core/calls.py",
        old="                    exchange(*mode)\n                modes.append(mode)",
        new="                    pass\n                modes.append(mode)",
        test="driver/test_capture_unsafe.py::test_the_capture_mode_is_as_before",
    ),
    Correction(
        "sigint_pushed_timer",
        "a real signal leaves a context pushed, because the emulator divides the push",
        "emulator/machine/recovery.py",
        old="            return again()\n",
        new="            return _UNKNOWN\n",
        test=(
            "emulator/test_interrupts.py::"
            "test_an_interrupt_does_not_divide_what_brackets_other_calls[cuCtxPushCurrent_v2]"
        ),
    ),
    Correction(
        "vendor_interrupt",
        "an interrupt between the two renames leaves neither copy",
        "tools/commands/vendor.py",
        old=(
            "        if os.path.isdir(old) and not os.path.lexists(place):\n"
            "            os.rename(old, place)\n"
            "        raise"
        ),
        new="        raise",
        test="null/test_vendor.py::test_an_interrupt_at_any_line_leaves_a_whole_copy[1]",
    ),
    Correction(
        "vendor_interrupt",
        "after a second interrupt, the old copy is not found",
        "tools/commands/vendor.py",
        old="    _bring_back(place)\n    if os.path.islink",
        new="    if os.path.islink",
        test="null/test_vendor.py::test_a_copy_that_an_interrupt_left_beside_its_place_is_found",
    ),
    Correction(
        "vendor_interrupt",
        "an empty folder of the user's is deleted",
        "tools/commands/vendor.py",
        old=('        if not names and inside:\n            yield inside, "folder"\n'),
        new="",
        test="null/test_vendor.py::test_whatever_was_added_to_a_copy_stops_its_replacement[an empty folder]",
    ),
    Correction(
        "vendor_interrupt",
        "a link of the user's is deleted",
        "tools/commands/vendor.py",
        old="            elif not (_is_in_cache",
        new="            elif not stat.S_ISLNK(mode) and not (_is_in_cache",
        test="null/test_vendor.py::test_whatever_was_added_to_a_copy_stops_its_replacement[a link]",
    ),
    Correction(
        "vendor_interrupt",
        "a .pyc file of the user's is deleted",
        "tools/commands/vendor.py",
        old="elif not (_is_in_cache(path) and name.endswith(_CACHED) and stat.S_ISREG(mode)):",
        new="elif not name.endswith(_CACHED):",
        test="null/test_vendor.py::test_whatever_was_added_to_a_copy_stops_its_replacement[a .pyc file]",
    ),
    Correction(
        "vendor_interrupt",
        "what comes into a copy meanwhile is deleted",
        "tools/commands/vendor.py",
        old="        _clean(beside, [*files_of_new], files_of_old, place)\n",
        new="        __import__('shutil').rmtree(beside)\n",
        test="null/test_vendor.py::test_what_comes_into_a_copy_while_it_is_replaced_is_kept",
    ),
    Correction(
        "signals in every call",
        "an interrupt between __enter__() of a trace and its block leaves a listener",
        "tools/traces.py",
        old='if getattr(self, "_listener", None) is not None:\n',
        new="if False:\n",
        test="null/test_trace.py::test_an_exception_at_any_line_leaves_no_listener[a list]",
    ),
    # -- threads
    Correction(
        "emulator_space_race, threads_emulator",
        "an address is looked up without the lock: another allocation, or none, is found",
        "emulator/machine/space.py",
        old=(
            "        with self.lock:\n"
            "            bases = self._ordered()\n"
            "            at = bisect_right(bases, address) - 1\n"
            "            if at >= 0:\n"
            "                found = self._live[bases[at]]\n"
            "            else:\n"
            "                found = None\n"
            "        if found is not None and address - found.base < found.size:\n"
            "            return found\n"
            "        return None\n"
        ),
        new="        return None\n",
        test="emulator/test_interrupts.py::test_an_address_is_found_whatever_changes_in_between[free]",
    ),
    Correction(
        "subinterp_hang",
        "dropping an exported capsule in a subinterpreter hangs",
        "interpreter/cpython.py",
        old="return sys.version_info >= (3, 12) or not in_subinterpreter()",
        new="return True",
        test="driver/test_process.py::test_host_views_in_a_subinterpreter_work_or_are_refused",
        hangs=True,
        before=(3, 12),
    ),
    # -- kernels
    Correction(
        "decoded_without_barrier",
        "a thread uses what another one writes later, and the words are only that the memory was never written",
        "emulator/ptx/running/later_writes.py",
        old="        block.run_others(running)\n",
        new="",
        test="emulator/test_later_writes.py::test_one_thread_uses_what_all_write[32-plain]",
    ),
    Correction(
        "decoded_without_barrier",
        "a thread that let the others go first is taken for one that orders them: a later thread is named",
        "emulator/ptx/running/later_writes.py",
        old="        self.look(running)\n",
        new="",
        test="emulator/test_later_writes.py::test_neighbours[64-plain]",
    ),
    Correction(
        "store_after_atomic",
        "a plain store after an atomic of the same thread hides the atomics of the others",
        "emulator/ptx/checking/history.py",
        old="                cell.before = last\n",
        new="                pass\n",
        test="driver/test_race_table.py::test_several_accesses[global]",
    ),
    Correction(
        "ptxas_takes_it",
        "an operand that is a register plus a constant may be the destination",
        "emulator/ptx/translating/table/forms.py",
        old="not (isinstance(operand, Sum) and instruction.operands[1] is not operand.of)",
        new="True",
        test="emulator/test_ptx_rejected.py::test_what_ptxas_refuses_is_rejected",
    ),
    Correction(
        "watchdog_never_counts",
        "an endless loop with a barrier never ends, because the threads take turns",
        "emulator/ptx/running/lookups.py",
        old="turns > self.limits.turns or total > self.limits.turns * self.threads:",
        new="turns > self.limits.turns:",
        test="emulator/test_ptx_hostile.py::test_iterations_of_threads_that_take_turns_are_counted[33]",
    ),
    Correction(
        "watchdog_false_alarm",
        "the iterations of all threads are added up",
        "emulator/ptx/running/lookups.py",
        old="            if current == last:\n                turns = turns + portion\n",
        new="            if True:\n                turns = turns + portion\n",
        test="emulator/test_ptx_hostile.py::test_iterations_of_different_threads_are_not_added_up",
    ),
    Correction(
        "emulator_itself_failed",
        "a negative number is read into a register of floats",
        "emulator/ptx/translating/emitting/access.py",
        old=('            if code in "bhiq":\n                text = '),
        new=("            if False:\n                text = "),
        test=(
            "emulator/test_executors.py::test_bits_that_no_number_has"
            "[a negative number read into a register of floats-scalar]"
        ),
    ),
    Correction(
        "emulator_itself_failed",
        "a float is half of a register",
        "emulator/ptx/translating/emitting/emit.py",
        old="if BITS[type] <= 32:",
        new="if BITS[type] == 32:",
        test="emulator/test_executors.py::test_bits_that_no_number_has[a float as half of a register-scalar]",
    ),
    Correction(
        "ptx_run",
        "a register names a barrier that does not exist",
        "emulator/ptx/running/called.py",
        old="    if number > 15:",
        new="    if False:",
        test="emulator/test_ptx_hostile.py::test_a_barrier_that_a_register_names_must_exist[bar.sync %r1]",
    ),
    Correction(
        "ptx_run",
        "an assertion has a number of 5,000 digits",
        "emulator/ptx/running/report.py",
        old="\\bptx line (\\d{1,9})\\b",
        new="\\bptx line (\\d+)\\b",
        test="emulator/test_ptx_hostile.py::test_an_assertion_may_have_the_words_of_a_report[a number of a line]",
    ),
    Correction(
        "ptx_run",
        "a printf has a width of 5,000 digits",
        "emulator/ptx/running/builtins.py",
        old="min(int(digits[:9] or 0), 4096)",
        new="min(int(digits or 0), 4096)",
        test="emulator/test_ptx_hostile.py::test_printf_limits_a_width_of_any_length[a width]",
    ),
    Correction(
        "printf_stdout",
        "a kernel that prints loses the context where stdout cannot be written",
        "emulator/ptx/ptx_program.py",
        old=("    except Exception as reason:\n        launch.space.warnings"),
        new=("    except ZeroDivisionError as reason:\n        launch.space.warnings"),
        test="emulator/test_interrupts.py::test_a_kernel_prints_where_nothing_can_be_printed[None-None]",
    ),
    Correction(
        "recursion_limit_raised",
        "endless recursion overflows the stack of C",
        "emulator/ptx/translating/translate.py",
        old='f"if T.depth > {MOST_CALLS}: T.overflow()"',
        new='"pass"',
        test="emulator/test_ptx_hostile.py::test_endless_recursion_ends_whatever_the_recursion_limit_of_python[direct]",
    ),
    # -- resources
    Correction(
        "the emulator, read line by line",
        "a parameter's address is that of an earlier call",
        "emulator/ptx/running/thread.py",
        old="            if self.placed.pop(id(gone.memory), None) is None:\n                return\n",
        new="            return\n",
        test="emulator/test_ptx_addresses.py::test_the_address_of_a_parameter_is_that_of_this_call[both-plain]",
    ),
    Correction(
        "the emulator, read line by line",
        "a coarse quotient by a large number is exact",
        "emulator/ptx/running/rounding.py",
        old="    if abs(b) > 2.0**126:\n",
        new="    if False:\n",
        test="emulator/test_ptx_opcodes.py::test_a_coarse_quotient_by_a_large_number_is_zero[-scalar]",
    ),
    Correction(
        "the emulator, read line by line",
        "arrays give another coarse quotient by a large number",
        "emulator/ptx/vectors/floats.py",
        old="np.where(np.abs(b) > np.f4(2.0**126),",
        new="np.where(b != b,",
        test="emulator/test_ptx_opcodes.py::test_a_coarse_quotient_by_a_large_number_is_zero[-numpy]",
    ),
    Correction(
        "the emulator, read line by line",
        "a function that writes to its parameter changes that of its caller",
        "emulator/ptx/translating/translate.py",
        old='= {self.slot(variable)}[:]")',
        new='= {self.slot(variable)}")',
        test=(
            "emulator/test_ptx_addresses.py::"
            "test_a_function_that_writes_to_its_parameter_does_not_change_that_of_its_caller"
        ),
    ),
    Correction(
        "the emulator, read line by line",
        "parameters of a call have addresses",
        "emulator/ptx/translating/translate.py",
        old="            if target not in self.addressed:\n",
        new="            if False:\n",
        test="emulator/test_ptx_addresses.py::test_the_parameters_of_a_call_have_no_address[q]",
    ),
    Correction(
        "the emulator, read line by line",
        "what lies before shared memory is its end",
        "emulator/ptx/translating/translate.py",
        old="{self.shared[id(target)] + offset & 0xFFFFFFFF}",
        new="{self.shared[id(target)] + offset}",
        test=(
            "emulator/test_ptx_addresses.py::"
            "test_what_lies_before_a_variable_is_not_at_the_other_end[ld.shared.u32 %r2, [a+-4];-scalar]"
        ),
    ),
    Correction(
        "the emulator, read line by line",
        "arrays give a name of shared memory 64 bits",
        "emulator/ptx/vectors/writing/write_values.py",
        old="self.shared[id(target)] + operand.offset & 0xFFFFFFFF",
        new="self.shared[id(target)] + operand.offset",
        test="emulator/test_ptx_addresses.py::test_the_address_of_a_name_has_32_bits_except_in_global_memory[numpy]",
    ),
    Correction(
        "the emulator, read line by line",
        "a call through a pointer may have another prototype",
        "emulator/ptx/running/thread.py",
        old="        if numbers.get(signature) != prototype:\n",
        new="        if False:\n",
        test="emulator/test_ptx_addresses.py::test_a_prototype_that_is_not_that_of_the_function[bytes-plain]",
    ),
    Correction(
        "the emulator, read line by line",
        "constants are unsigned",
        "emulator/ptx/reading/declare.py",
        old="    if not unsigned:\n        a, b = _signed(a), _signed(b)\n",
        new="",
        test="emulator/test_ptx_addresses.py::test_constants_are_calculated_as_in_c[-5/2]",
    ),
    Correction(
        "the emulator, read line by line",
        "4 GiB behind shared memory is shared memory",
        "emulator/ptx/running/thread.py",
        old=" and not place & 0xFF << 32:",
        new=":",
        test="emulator/test_ptx_addresses.py::test_4_gib_further_is_nothing[ld.u32 %r2, [%d1];-shared-scalar]",
    ),
    Correction(
        "the emulator, read line by line",
        "4 GiB behind local memory is local memory, for arrays",
        "emulator/ptx/vectors/running/local.py",
        old="            if np.any(place >> np.u8(32)):\n",
        new="            if False:\n",
        test="emulator/test_ptx_addresses.py::test_4_gib_further_is_nothing[ld.u32 %r2, [%d1];-local-numpy]",
    ),
    Correction(
        "the emulator, read line by line",
        ".global of an atomic with a cache policy means nothing",
        "emulator/ptx/translating/table/opcodes.py",
        old='".space:global?", each[0])',
        new='".global?", each[0])',
        test=(
            "emulator/test_ptx_addresses.py::"
            "test_a_global_atomic_is_not_of_shared_memory[red.global.add.L2::cache_hint.u32 [{}], 1, %d2;]"
        ),
    ),
    Correction(
        "the emulator, read line by line",
        "a load past the parameters that never runs ends the kernel",
        "emulator/ptx/translating/registers.py",
        old="    return 0 <= start <= base.size - width * count and not (base.offset + start) % width\n",
        new="    return True\n",
        test="emulator/test_ptx_addresses.py::test_a_load_past_the_parameters_that_never_runs_does_no_harm[400-scalar]",
    ),
    Correction(
        "the emulator, read line by line",
        "arrivals alone complete no phase",
        "emulator/ptx/running/scheduler.py",
        old="            arrived = 0  # the phase",
        new="            pass  # the phase",
        test="emulator/test_ptx_together.py::test_a_phase_is_complete_without_threads_that_wait",
    ),
    Correction(
        "the emulator, read line by line",
        "arrivals for the next phase are lost",
        "emulator/ptx/running/scheduler.py",
        old="(came - count) % count if count else 0",
        new="0",
        test="emulator/test_ptx_together.py::test_threads_that_arrive_for_the_next_phase_are_counted",
    ),
    Correction(
        "the emulator, read line by line",
        "each read that waits for its report is looked at in each turn",
        "emulator/ptx/running/later_writes.py",
        old="        if len(self.asked) >= MOST_ASKED:",
        new="        if False:",
        test="emulator/test_ptx_linear.py::test_reports_of_a_launch_take_linear_time",
    ),
    Correction(
        "the emulator, read line by line",
        "each form that tracks undefined values looks at all lines",
        "emulator/ptx/ptx_program.py",
        old="        for number in range(self._numbered, len(self.lines)):\n",
        new="        self._numbers.clear()\n        for number in range(0, len(self.lines)):\n",
        test="emulator/test_ptx_linear.py::test_forms_that_track_undefined_values_are_made_in_linear_time",
    ),
    Correction(
        "the emulator, read line by line",
        "a function may be inlined without an end",
        "emulator/ptx/vectors/writing/value_graph.py",
        old="        if self.inlined > MOST_INLINED:\n",
        new="        if False:\n",
        test="emulator/test_ptx_linear.py::test_a_function_that_is_inlined_too_often_is_not_for_arrays",
    ),
    Correction(
        "the emulator, read line by line",
        "loops in loops are listed without an end",
        "emulator/ptx/vectors/writing/value_graph.py",
        old="                if count > MOST_IN_LOOPS:\n",
        new="                if False:\n",
        test="emulator/test_ptx_linear.py::test_many_loops_in_loops_are_not_for_arrays",
    ),
    Correction(
        "the emulator, read line by line",
        "the linker does not number the files of inlined_at",
        "emulator/ptx/reading/ptx_linking.py",
        old='(".loc", ".file", "inlined_at")',
        new='(".loc", ".file")',
        test="emulator/test_linking.py::test_the_lines_into_which_code_was_inlined_are_of_its_own_files",
    ),
    Correction(
        "an attack of an hour",
        "a pack is written out before it is counted",
        "images/mangled.py",
        old='            return ", ".join(map(self._text_of, given))\n',
        new="            return self._counted(str(given))\n",
        test="null/test_kernel_types.py::test_the_text_of_a_pack_is_counted",
    ),
    Correction(
        "an attack of an hour",
        "what lies between the rows of a host array is read",
        "emulator/entries/memories/copy_entries.py",
        old="        memory, at = self.rows(span_of(self, width, height, depth))\n",
        new="        memory, at = self.rows(span_of(self, width, height, depth))\n        memory = bytes(memory)\n",
        test="driver/test_copies.py::test_what_lies_between_the_rows_of_a_host_array_is_not_read",
    ),
    Correction(
        "an attack of an hour",
        "a node for a fill does not wait for what wrote its array",
        "gpu/graphs/node_parameters.py",
        old="        gpu.finish(array, barred)  #",
        new="        pass  #",
        test="driver/test_graph_nodes.py::test_a_node_waits_for_the_copy_or_fill_that_wrote_its_array_last[a fill]",
    ),
    Correction(
        "an attack of an hour",
        "freed pinned memory is kept, whatever its size",
        "emulator/machine/space.py",
        old="> QUARANTINED:\n",
        new="> 1 << 60:\n",
        test="emulator/test_ptx_space.py::test_large_pinned_memory_is_given_back_when_it_is_freed",
    ),
    Correction(
        "an attack of an hour",
        "the HTML of a trace contains control characters",
        "tools/pictures/page.py",
        old="escape(errors.shown(text))",
        new="escape(text)",
        test="driver/test_trace.py::test_the_html_of_a_trace_has_no_control_characters",
    ),
    Correction(
        "an attack of an hour",
        "an interrupt of debug_dot() leaves a file",
        "gpu/graphs/graph.py",
        old="                os.unlink(path)\n            except FileNotFoundError:\n",
        new="                path.strip()\n            except FileNotFoundError:\n",
        test="driver/test_graph_nodes.py::test_an_interrupt_of_debug_dot_leaves_nothing[os.chmod]",
    ),
    Correction(
        "an attack of an hour",
        "the key names a host compiler that nvcc does not find",
        "compiler/nvcc.py",
        old='shutil.which(name, path=locate.environment()["PATH"])',
        new="shutil.which(name)",
        test="driver/test_compile.py::test_what_nvcc_makes_depends_on_the_compiler_of_the_host",
    ),
    Correction(
        "another attack of an hour",
        "each store of the same value makes a report",
        "emulator/ptx/running/races.py",
        old="        if not launch.has_warned(frame):\n",
        new="        if True:\n",
        test="emulator/test_ptx_linear.py::test_the_report_of_an_instruction_is_made_once",
    ),
    Correction(
        "another attack of an hour",
        "a node waits for the default stream of its array and breaks a capture",
        "gpu/memory/ordering.py",
        old="        elif barred and working == _LEGACY:",
        new="        elif False:",
        test=(
            "driver/test_foreign_captures.py::"
            "test_adding_nodes_breaks_no_capture_of_a_stream_that_waits_for_the_default_stream[wide]"
        ),
    ),
    Correction(
        "another attack of an hour",
        "fences before atomics take cubic time",
        "emulator/ptx/checking/access_order.py",
        old="        released.writers.add(who)\n",
        new="        for writer in [*released.writers, who]:\n            released.writers.add(writer)\n",
        test=(
            "emulator/test_ptx_linear.py::"
            "test_what_many_threads_publish_at_one_place_takes_linear_time[a fence before an atomic]"
        ),
    ),
    Correction(
        "another attack of an hour",
        "nodes that were added against the direction of their edges run in another order",
        "emulator/entries/graphs/executables.py",
        old="    return sorted(ready, key=lambda node: (times[node], number[node]))\n",
        new="    return list(nodes)\n",
        test="driver/test_graph_nodes.py::test_nodes_run_in_order_however_they_were_added",
    ),
    Correction(
        "a third attack of an hour",
        "pending fills keep rows of their size",
        "emulator/entries/memories/copy_entries.py",
        old="min(count, _PIECE)",
        new="count",
        test="emulator/test_memory.py::test_fills_that_are_pending_need_little_memory[lazy]",
    ),
    Correction(
        "a third attack of an hour",
        "the marks of freed memory stay until a garbage collection",
        "emulator/machine/space.py",
        old="self.alive, self._keep, self.written = False, None, None",
        new="self.alive, self._keep = False, None",
        test="emulator/test_virtual.py::test_freed_memory_waits_for_no_garbage_collection[eager-device_memory]",
    ),
    Correction(
        "a third attack of an hour",
        "memory that was mapped stays until a garbage collection",
        "emulator/entries/memories/virtual_entries.py",
        old="        physical.data = physical.written = None",
        new="        pass",
        test="emulator/test_virtual.py::test_freed_memory_waits_for_no_garbage_collection[eager-mapped_memory]",
    ),
    Correction(
        "a third attack of an hour",
        "an array does not know of which thread its per-thread stream is",
        "gpu/memory/ordering.py",
        old="    if is_of_another_thread(stream):\n        return _LEGACY\n",
        new="",
        test="driver/test_copies.py::test_another_thread_waits_for_the_per_thread_stream_that_wrote_an_array[copy-own]",
        mode="lazy",
    ),
    Correction(
        "a third attack of an hour",
        "nothing waits for earlier work of the default stream while a capture bars it",
        "gpu/graphs/recording.py",
        old="                if not stream.is_nonblocking and",
        new="                if False and",
        test="driver/test_capture_order.py::test_work_of_the_default_stream_before_a_capture_that_bars_it[copy]",
        mode="lazy",
    ),
    Correction(
        "a third attack of an hour",
        "an interrupted copy is done over later work",
        "gpu/copies/contiguous.py",
        old="    except CudaError:\n        dst.stream = before",
        new="    except BaseException:\n        dst.stream = before",
        test="driver/test_interrupts.py::test_work_that_an_exception_ends_is_not_done_over_later_work[copy]",
        mode="lazy",
    ),
    Correction(
        "a third attack of an hour",
        "an interrupted fill is done over later work",
        "gpu/copies/contiguous.py",
        old="        if not to.ours or isinstance(error, CudaError):\n",
        new="        target.stream = before\n        if not to.ours or isinstance(error, CudaError):\n",
        test="driver/test_interrupts.py::test_work_that_an_exception_ends_is_not_done_over_later_work[fill]",
        mode="lazy",
    ),
    Correction(
        "a third attack of an hour",
        "an interrupted batch is done over later work",
        "gpu/copies/batch.py",
        old="        if foreign or isinstance(error, CudaError):\n            end_work(error, home, queue, together)\n",
        new="        if True:\n",
        test="driver/test_interrupts.py::test_work_that_an_exception_ends_is_not_done_over_later_work[batch]",
        mode="lazy",
    ),
    Correction(
        "a third attack of an hour",
        "copies accept device memory as their host side",
        "emulator/entries/memories/copy_entries.py",
        old='    if allocation.kind in ("device", "variable"):\n',
        new="    if False:\n",
        test="emulator/test_memory.py::test_device_memory_is_no_host_side[eager]",
        mode="lazy",
    ),
    Correction(
        "a third attack of an hour",
        "a view of virtual memory does not know the stream that wrote it",
        "gpu/memory/virtual.py",
        old="        made.stream = self.stream  # the window",
        new="        # the window",
        test="driver/test_memory_virtual.py::test_a_view_begins_with_the_stream_of_the_memory",
    ),
    Correction(
        "a third attack of an hour",
        "the stream of an exporter does not wait for a kernel that was given a view",
        "gpu/kernels/packing.py",
        old="    if type(argument) is argument._streamed:",
        new="    if False:",
        test="driver/test_view_stream.py::test_5_10_exporting_is_held_back_by_a_kernel_too[part]",
    ),
    Correction(
        "a third attack of an hour",
        "the stream of an exporter does not wait for a value that is written",
        "gpu/streams/stream_values.py",
        old="        gpu.keep_foreign(primary, stream, seen)",
        new="        gpu.keep_foreign(primary, stream, StridedView._derived(seen, 0, (), ()))",
        test="driver/test_view_stream.py::test_5_10_exporting_is_held_back_by_a_kernel_too[value]",
    ),
    Correction(
        "a third attack of an hour",
        "the report of a missing wait takes more than linear time",
        "emulator/machine/queues.py",
        old="                for other in work.after:\n                    next_of",
        new="                for other in [*work.after, *queue[: queue.index(work)]]:\n                    next_of",
        test="emulator/test_streams.py::test_a_missing_wait_is_found_in_linear_time",
    ),
    Correction(
        "a third attack of an hour",
        "each row of a copy of virtual memory is looked for in all mappings",
        "emulator/entries/memories/copy_entries.py",
        old="range(bisect_right(self._firsts, begin) - 1, bisect_left(self._firsts, end)):\n",
        new="range(len(self._pieces)):\n"
        "            if not begin - self._pieces[index].size < self._firsts[index] < end:\n"
        "                continue\n",
        test="emulator/test_virtual.py::test_rows_of_many_mappings_take_as_long_as_those_of_few[copy_rows]",
    ),
    Correction(
        "a third attack of an hour",
        "a call inside a call of a form _ptsz takes over its stream NULL",
        "emulator/interface/abis.py",
        old="            thread.null = null\n            return function(",
        new="            thread.null = null or before\n            return function(",
        test="emulator/test_abis.py::test_a_call_inside_a_call_in_the_threads_own_stream",
    ),
    Correction(
        "a third attack of an hour",
        "a call of the runtime inside a call of a form _ptsz takes over its stream NULL",
        "emulator/runtime/serving.py",
        old="                thread.null = null\n",
        new="                thread.null = null or before\n",
        test="emulator/test_cudart.py::test_the_null_stream_of_a_call_inside_a_call",
    ),
    Correction(
        "a third attack of an hour",
        "after a call of the runtime inside a call of a form _ptsz, stream NULL is another one",
        "emulator/runtime/serving.py",
        old="                thread.null = before\n",
        new="                thread.null = 0\n",
        test="emulator/test_cudart.py::test_the_null_stream_of_a_call_inside_a_call",
    ),
    Correction(
        "a third attack of an hour",
        "a destroyed context keeps its handle, and all that it had",
        "emulator/entries/hardware/contexts.py",
        old="    machine.handles.pop(handle, None)\n",
        new="",
        test="emulator/test_contexts.py::test_nothing_stays_of_a_destroyed_context[False]",
    ),
    Correction(
        "a third attack of an hour",
        "the peers of a destroyed context keep it",
        "emulator/machine/machine.py",
        old="            peer.reached_from.discard(self)\n",
        new="            pass\n",
        test="emulator/test_contexts.py::test_nothing_stays_of_a_destroyed_context[False]",
    ),
    Correction(
        "a third attack of an hour",
        "those who were peers of a destroyed context keep it",
        "emulator/entries/hardware/contexts.py",
        old="    peer.reached_from.discard(context)\n",
        new="",
        test="emulator/test_contexts.py::test_nothing_stays_of_a_destroyed_context[True]",
    ),
    Correction(
        "a third attack of an hour",
        "the handle of a destroyed context is an unknown one",
        "emulator/entries/hardware/contexts.py",
        old="    machine.destroyed.add(handle)\n",
        new="",
        test="emulator/test_contexts.py::test_nothing_stays_of_a_destroyed_context[False]",
    ),
    Correction(
        "a third attack of an hour",
        "advice about a device without concurrent access is accepted",
        "emulator/entries/memories/managed_entries.py",
        old="        _check_concurrent(machine)\n        return kind, number\n",
        new="        return kind, number\n",
        test="emulator/test_devices.py::test_prefetches_and_advice_without_concurrent_access",
    ),
    Correction(
        "a third attack of an hour",
        "a prefetch in a stream without concurrent access is accepted",
        "emulator/entries/memories/managed_entries.py",
        old="    _check_concurrent(machine)  # of the stream's device, also if the target is the host\n",
        new="",
        test="emulator/test_devices.py::test_prefetches_and_advice_without_concurrent_access",
    ),
    Correction(
        "a third attack of an hour",
        "a batch of discards without concurrent access is accepted",
        "emulator/entries/memories/managed_entries.py",
        old="    _check_concurrent(machine)\n    if flags",
        new="    if flags",
        test="emulator/test_devices.py::test_prefetches_and_advice_without_concurrent_access",
    ),
    Correction(
        "a third attack of an hour",
        "each prefetch looks for its part from the first one on",
        "emulator/entries/memories/managed_entries.py",
        old="        index = bisect_left(self.first, page)\n",
        new="        index = 0\n        while self.first[index:] and self.first[index] < page:\n"
        "            index += 1\n",
        test="emulator/test_memory.py::test_prefetches_of_many_parts_take_linear_time",
    ),
    Correction(
        "a third attack of an hour",
        "parts of managed memory with the same facts stay divided",
        "emulator/entries/memories/managed_entries.py",
        old="        begins = [index for index in runs if not index or self.facts[index] != self.facts[index - 1]]\n",
        new="        begins = runs\n",
        test="emulator/test_memory.py::test_parts_of_managed_memory_with_the_same_facts_are_one[eager]",
    ),
    Correction(
        "a third attack of an hour",
        "a new mapping is compared with all allocations",
        "emulator/entries/memories/virtual_entries.py",
        old="    other = machine.space.overlapping(base, size)\n",
        new="    other = None\n    for each in machine.space.live():\n"
        "        if each.base < base + size and base < each.base + each.size:\n            other = each\n",
        test="emulator/test_virtual.py::test_many_mappings_are_made_in_linear_time",
    ),
    Correction(
        "a third attack of an hour",
        "a freed reservation is compared with all allocations",
        "emulator/entries/memories/virtual_entries.py",
        old="    if machine.space.overlapping(base, size) is not None:\n",
        new="    for each in machine.space.live():\n        if not base <= each.base < base + size:\n"
        "            continue\n",
        test="emulator/test_virtual.py::test_many_mappings_are_made_in_linear_time",
    ),
    Correction(
        "a third attack of an hour",
        "freed physical memory is looked for in a list",
        "emulator/entries/memories/virtual_entries.py",
        old="        del machine.physical[physical]\n",
        new="        [machine.physical.pop(other) for other in list(machine.physical) if other is physical]\n",
        test="emulator/test_virtual.py::test_freed_memory_is_not_looked_for_in_a_list",
    ),
    Correction(
        "a third attack of an hour",
        "atomics that release take the square of the threads with racecheck",
        "emulator/ptx/checking/access_order.py",
        old="        if old is value:\n            continue\n",
        new="",
        test=(
            "emulator/test_ptx_linear.py::"
            "test_what_many_threads_publish_at_one_place_takes_linear_time[an atomic that releases]"
        ),
    ),
    Correction(
        "a third attack of an hour",
        "threads that take a lock take the square of the threads with racecheck",
        "emulator/ptx/checking/access_order.py",
        old="                own = known  # what the place publishes has only grown\n",
        new="                own = _merged(own, known)\n",
        test=("emulator/test_ptx_linear.py::test_what_many_threads_publish_at_one_place_takes_linear_time[a lock]"),
    ),
    Correction(
        "a third attack of an hour",
        "a signal handler inside a call of the emulator waits for a lock of another thread, which waits for that call",
        "ownership.py",
        old="nullcontext() if releases_later() else lock",
        new="lock",
        test="driver/test_ownership.py::test_what_runs_inside_a_call_of_the_driver_waits_for_no_lock[fill]",
    ),
    Correction(
        "a third attack of an hour",
        "what is written after a discard is discarded",
        "gpu/memory/managed.py",
        old="        gpu.note(memory, LEGACY if stream is None else stream)",
        new="        pass",
        test="driver/test_memory_managed.py::test_what_is_written_after_a_discard_waits_for_it[False]",
    ),
    Correction(
        "a third attack of an hour",
        "the cache takes a pipe for a header",
        "compiler/cache.py",
        old="                        raise _Unknown\n                    text = file.read()",
        new="                        pass\n                    text = file.read()",
        test="driver/test_compile.py::test_nothing_waits_for_a_pipe_in_the_place_of_a_header",
    ),
    Correction(
        "a third attack of an hour",
        "a null byte in the name of a header is a ValueError",
        "compiler/cache.py",
        old='            if name is None or b"\\0" in name:',
        new="            if name is None:",
        test="driver/test_compile.py::test_no_header_has_a_null_byte_in_its_name",
    ),
    Correction(
        "a third attack of an hour",
        "a fill of page-locked memory breaks a capture of other software",
        "gpu/memory/ordering.py",
        old="    if capture_number(primary.calls, work_handle(stream)) is not None:\n        return False",
        new="    if capturing and capture_number(primary.calls, 1) is not None:\n        return False",
        test="driver/test_foreign_captures.py::"
        "test_a_fill_of_page_locked_memory_breaks_no_capture_of_other_software",
    ),
    Correction(
        "a third attack of an hour",
        "leased memory is freed if two threads close it at once",
        "gpu/memory/leases.py",
        old="each.ends.append(end)",
        new="each.ends[:] = [end]",
        test="driver/test_ownership.py::test_leased_memory_that_two_threads_close_is_freed_after_the_last_lease",
    ),
    Correction(
        "a third attack of an hour",
        "two threads that close memory at once release nothing twice",
        "gpu/memory/leases.py",
        old="release = finalizer.__self__",
        new="release = self.__del__.__self__",
        test="driver/test_ownership.py::test_leased_memory_that_two_threads_close_is_freed_after_the_last_lease",
    ),
    Correction(
        "a third attack of an hour",
        "a shared event that two threads close at once is never destroyed",
        "gpu/streams/stream.py",
        old="= finalizer, _nothing",
        new="= self.__del__, _nothing",
        test="driver/test_ownership.py::test_a_shared_event_that_two_threads_close_is_destroyed_after_the_last_handle",
    ),
    Correction(
        "a third attack of an hour",
        "two objects of one variable do not know where the other was written",
        "gpu/kernels/module.py",
        old="name, self._written.setdefault(there, made._written)",
        new="name, made._written",
        test="driver/test_modules.py::test_all_objects_of_a_variable_know_where_it_was_written",
    ),
    Correction(
        "a third attack of an hour",
        "what is written during the wait for a closed stream is forgotten",
        "gpu/memory/ordering.py",
        old="    if thing.stream is stream:",
        new="    if True:",
        test="driver/test_ownership.py::test_what_is_written_during_the_wait_for_a_closed_stream_is_waited_for[copy]",
    ),
    Correction(
        "a third attack of an hour",
        "each question for a name in a library reads all of its code",
        "gpu/kernels/libraries.py",
        old="        if self._kernels is None:",
        new="        if True:",
        test="driver/test_modules.py::test_a_library_reads_its_code_once",
    ),
    Correction(
        "a third attack of an hour",
        "the first call() of a stream looks at all open streams",
        "gpu/core/host_functions.py",
        old="            _MANY[0] = max(64, 2 * len(_origins))",
        new="            pass",
        test="driver/test_host_functions.py::test_the_table_of_many_open_streams_is_seldom_searched",
    ),
    Correction(
        "a third attack of an hour",
        "a probe writes to the memory itself, and what other threads write meanwhile is lost",
        "emulator/ptx/ptx_program.py",
        old="            launch.space, launch.heap, launch.later = memory,",
        new="            _, launch.heap, launch.later = memory,",
        test="emulator/test_executors.py::test_a_probe_changes_no_memory_and_begins_with_that_of_the_chunk[False]",
    ),
    Correction(
        "a third attack of an hour",
        "the functions of a launch remember the memory of a probe",
        "emulator/ptx/ptx_program.py",
        old="            launch.functions, launch.output = {}, deque()",
        new="            launch.output = deque()",
        test="emulator/test_executors.py::test_a_probe_changes_no_memory_and_begins_with_that_of_the_chunk[False]",
    ),
    Correction(
        "a third attack of an hour",
        "a probe begins with what the chunk has stored",
        "emulator/ptx/vectors/running/running.py",
        old="                twin[index] = old\n",
        new="                pass\n",
        test="emulator/test_executors.py::test_a_probe_changes_no_memory_and_begins_with_that_of_the_chunk[True]",
    ),
    Correction(
        "a third attack of an hour",
        "atomics take the square of the late stores",
        "emulator/ptx/checking/delays.py",
        old="            for entry in self._parts.pop(part, ()):\n",
        new="            for entry in self._parts.get(part, ()):\n",
        test="emulator/test_ptx_linear.py::test_strong_accesses_look_at_the_late_stores_of_their_place_only_and_once",
    ),
    Correction(
        "a third attack of an hour",
        "a late store of a wide vector hides an atomic to its second half",
        "emulator/ptx/checking/delays.py",
        old="(entry[0] + entry[1] - 1 >> _PART) + 1):",
        new="(entry[0] >> _PART) + 1):",
        test="emulator/test_ptx_linear.py::test_strong_accesses_look_at_the_late_stores_of_their_place_only_and_once",
    ),
    Correction(
        "a third attack of an hour",
        "a kernel runs on multiprocessors that the device does not have",
        "emulator/entries/tasks/launch_entries.py",
        old="            multiprocessors=machine.answers.attributes[16],\n",
        new="            multiprocessors=132,\n",
        test="emulator/test_answers.py::test_blocks_run_on_the_multiprocessors_that_the_device_has[scalar]",
    ),
    Correction(
        "a third attack of an hour",
        "a kernel as arrays runs on multiprocessors that the device does not have",
        "emulator/ptx/vectors/running/vector_memory.py",
        old="dtype=np.i8) % launch.multiprocessors",
        new="dtype=np.i8) % 132",
        test="emulator/test_answers.py::test_blocks_run_on_the_multiprocessors_that_the_device_has[numpy]",
    ),
    Correction(
        "a third attack of an hour",
        "a device of more than 64 multiprocessors cannot be divided",
        "emulator/entries/hardware/green_entries.py",
        old="range(mask.bit_length()) if mask",
        new="range(64) if mask",
        test="emulator/test_answers.py::test_a_device_of_many_multiprocessors_can_be_divided[132]",
    ),
    Correction(
        "a third attack of an hour",
        "a device of more than 512 multiprocessors cannot be divided",
        "emulator/entries/hardware/green_entries.py",
        old="min(machine.answers.attributes[16], 512)",
        new="machine.answers.attributes[16]",
        test="emulator/test_answers.py::test_a_device_of_many_multiprocessors_can_be_divided[600]",
    ),
    Correction(
        "a third attack of an hour",
        "mprotect() is looked up for each managed allocation and each call of the driver",
        "emulator/machine/host_access.py",
        old="@cache\n",
        new="",
        test="emulator/test_devices.py::test_the_access_is_taken_from_managed_memory_that_is_live_and_from_neighbours_together",
    ),
    Correction(
        "a third attack of an hour",
        "the access is taken from each managed allocation alone",
        "emulator/machine/host_access.py",
        old="        if found and sum(found[-1]) == address:\n",
        new="        if False:\n",
        test="emulator/test_devices.py::test_the_access_is_taken_from_managed_memory_that_is_live_and_from_neighbours_together",
    ),
    Correction(
        "a third attack of an hour",
        "the access is taken from managed memory that was freed",
        "emulator/machine/space.py",
        old="            self.managed.pop(base, None)\n",
        new="",
        test="emulator/test_devices.py::test_the_access_is_taken_from_managed_memory_that_is_live_and_from_neighbours_together",
    ),
    Correction(
        "a third attack of an hour",
        "a copy between hosts reads a pageable source too early",
        "emulator/entries/memories/copy_entries.py",
        old="    between_hosts = target.is_host and source.is_host\n    # a captured",
        new="    between_hosts = False\n    # a captured",
        test="emulator/test_memory.py::test_a_copy_between_hosts_reads_a_pageable_source_in_stream_order[lazy]",
        mode="lazy",
    ),
    Correction(
        "a third attack of an hour",
        "a copy without a stream is captured",
        "emulator/entries/memories/copy_entries.py",
        old="    if handle is None and stream.capture is not None:",
        new="    if False:",
        test="emulator/test_graphs.py::test_a_call_without_a_stream_is_not_captured[eager0-cuMemcpyDtoH_v2]",
    ),
    Correction(
        "ptx_dos",
        "a chain of empty blocks takes quadratic time",
        "emulator/ptx/translating/flow.py",
        old="            final[passed] = end\n",
        new="            pass\n",
        test="emulator/test_ptx_hostile.py::test_loading_takes_steps_in_proportion_to_the_text[jumps]",
    ),
    Correction(
        "ptx_dos",
        "a chain of moves takes quadratic time",
        "emulator/ptx/translating/registers.py",
        old=(
            "        for used in moves.pop(work.pop(), ()):\n"
            "            if used not in found:\n"
            "                found.add(used)\n"
            "                work.append(used)\n"
        ),
        new=(
            "        work.pop()\n"
            "        for made, used in moves.items():\n"
            "            if made in found and not found.issuperset(used):\n"
            "                found.update(used)\n"
            "                work.append(made)\n"
        ),
        test="emulator/test_ptx_hostile.py::test_loading_takes_steps_in_proportion_to_the_text[movers]",
    ),
    Correction(
        "ptx_dos",
        "a chain of moves of floats takes quadratic time",
        "emulator/ptx/translating/registers.py",
        old=(
            "        for made in moves.pop(work.pop(), ()):\n"
            "            if made not in found:\n"
            "                found.add(made)\n"
            "                work.append(made)\n"
        ),
        new=(
            "        work.pop()\n"
            "        for used, targets in moves.items():\n"
            "            if used in found and not found.issuperset(targets):\n"
            "                found.update(targets)\n"
            "                work.append(used)\n"
        ),
        test="emulator/test_ptx_hostile.py::test_loading_takes_steps_in_proportion_to_the_text[movers of floats]",
    ),
    Correction(
        "ptx_dos",
        "a chain of moves in a loop that waits takes quadratic time",
        "emulator/ptx/translating/waits.py",
        old="for instruction, block in self.writers.get(number, ()):",
        new="for instruction, block in [each for key in self.writers for each in self.writers[key] if key == number]:",
        test="emulator/test_ptx_hostile.py::test_loading_takes_steps_in_proportion_to_the_text[movers in a waiter]",
    ),
    Correction(
        "ptx_dos",
        "loops with two entries take quadratic time",
        "emulator/ptx/translating/registers.py",
        old="                work.append(target)\n",
        new="                work += range(len(blocks))\n",
        test="emulator/test_ptx_linear.py::test_registers_of_loops_with_two_entries_are_found_in_linear_time",
    ),
    Correction(
        "ptx_dos",
        "the whole text is searched for the brace of each section",
        "emulator/ptx/reading/lexer.py",
        old='find("{", at, at + 257)',
        new='find("{", at)',
        test="emulator/test_ptx_hostile.py::test_a_section_is_searched_once[.section\\n]",
    ),
    Correction(
        "ptx_dos",
        "the whole text is searched for the end of each section",
        "emulator/ptx/reading/lexer.py",
        old="if opened >= 0 and not self._unclosed:",
        new="if opened >= 0:",
        test="emulator/test_ptx_hostile.py::test_a_section_is_searched_once[.section .x {\\n]",
    ),
    Correction(
        "ptx_dos",
        "variables of any size are allocated",
        "emulator/ptx/ptx_program.py",
        old="if sum(variable.size for variable in variables) > MOST_GLOBAL:",
        new="if False:",
        test="emulator/test_ptx_hostile.py::test_each_limit_has_its_error[MOST_GLOBAL]",
    ),
    Correction(
        "ptx_dos",
        "a brx.idx of 3,000 targets is refused",
        "emulator/ptx/translating/flow.py",
        old=("    if any(len(block.targets) > MOST_CASES for block in blocks):\n        return None\n"),
        new="",
        test="emulator/test_ptx_hostile.py::test_a_table_of_many_targets_runs",
    ),
    # -- addresses and values
    Correction(
        "array_interface_label",
        "a device address that is called host memory is read",
        "arrays/copying.py",
        old="        gpu.check_label(thing)\n",
        new="        pass\n",
        test=(
            "driver/test_view_device.py::"
            "test_a_device_address_that_is_called_host_memory_is_refused_by_any_protocol[<lambda>0]"
        ),
    ),
    Correction(
        "array_interface_label",
        "the same when it is exported",
        "arrays/exporting.py",
        old="    view._check_label()\n",
        new="",
        test=(
            "driver/test_view_device.py::"
            "test_a_device_address_that_is_called_host_memory_is_refused_by_any_protocol[<lambda>1]"
        ),
    ),
    Correction(
        "explain_hostile",
        "a number is taken for the address of an exchange table",
        "protocols/dlpack_c_exchange.py",
        old=" and peek(offered, 56):",
        new=":",
        test="null/test_dlpack_exchange.py::test_an_address_that_is_no_table",
    ),
    Correction(
        "cai_strides_ndarray",
        "strides that are an array have no truth value",
        "protocols/array_interface.py",
        old="    if given is None:\n",
        new="    if not given:\n",
        test="driver/test_view_device.py::test_strides_may_be_an_array_of_numpy",
    ),
    Correction(
        "ctypes_pointers",
        "a pointer of ctypes is viewed as eight bytes",
        "protocols/pep3118.py",
        old='if letter in ("O", "&", "X", "z") or',
        new='if letter in ("O", "&", "X") or',
        test="null/test_protocol_buffer.py::test_6_11_6_12_6_13_the_format_language[<z-8-None]",
    ),
    Correction(
        "masked_array",
        "the mask of an array is dropped",
        "protocols/choosing.py",
        old="        read = _refuse_mask\n",
        new="        pass\n",
        test="null/test_view_numbers.py::test_masked_arrays_are_refused",
    ),
    Correction(
        "masked_array",
        "the mask of an array interface is dropped",
        "protocols/array_interface.py",
        old='if _get(interface, "mask") is not None:',
        new="if False:",
        test="null/test_protocol_array_interface.py::test_5_7_6_5_a_mask_is_refused",
    ),
    # -- files and errors
    Correction(
        "doctor",
        "./nvidia/x/bin/ptxas runs, from sys.path",
        "locate.py",
        old="    for folder in _safe(sys.path):",
        new="    for folder in sys.path:",
        test="null/test_locate.py::test_tools_are_found_in_a_toolkit_and_never_in_a_relative_folder",
    ),
    Correction(
        "doctor",
        "a relative folder of any path is searched",
        "locate.py",
        old="        if os.path.isabs(folder):\n            try:\n                if here",
        new="        if folder:\n            try:\n                if here",
        test="null/test_locate.py::test_tools_are_found_in_a_toolkit_and_never_in_a_relative_folder",
    ),
    Correction(
        "doctor",
        "a relative CUDA_HOME is searched",
        "locate.py",
        old=("        if os.path.isabs(folder):\n            yield folder"),
        new=("        if folder:\n            yield folder"),
        test="null/test_locate.py::test_tools_are_found_in_a_toolkit_and_never_in_a_relative_folder",
    ),
    Correction(
        "doctor",
        "a program that every user can replace runs",
        "locate.py",
        old="            if mode & others and not (",
        new="            if False and not (",
        test="null/test_locate.py::test_what_every_user_could_have_planted_is_refused[bin]",
    ),
    Correction(
        "npy.read",
        "reading a pipe waits for ever",
        "elements/npy.py",
        old="    if not stat.S_ISDIR(status.st_mode):",
        new="    if False:",
        test="null/test_npy.py::test_a_pipe_is_not_opened[read]",
        hangs=True,
    ),
    Correction(
        "errors",
        "Device.can_reach(5) raises an AttributeError",
        "gpu/devices/device.py",
        old=("    if isinstance(other, Device):\n        return other\n    if isinstance(other, bool)"),
        new=("    if True:\n        return other\n    if isinstance(other, bool)"),
        test="driver/test_wrong_objects.py::test_wrong_objects[Device.can_reach]",
    ),
    Correction(
        "errors",
        "Module.global_(5) raises an AttributeError",
        "gpu/kernels/module.py",
        old=("        if not isinstance(name, str):\n            raise TypeError(f\"a variable's name"),
        new=("        if False:\n            raise TypeError(f\"a variable's name"),
        test="driver/test_wrong_objects.py::test_wrong_objects[Module.global_]",
    ),
    Correction(
        "errors",
        "Stream.record(b'') raises an AttributeError",
        "gpu/streams/stream.py",
        old=('        if not isinstance(event, Event):\n            raise TypeError(f"record()'),
        new=('        if False:\n            raise TypeError(f"record()'),
        test="driver/test_wrong_objects.py::test_wrong_objects[Stream.record]",
    ),
    Correction(
        "errors",
        'Device.attribute(set()) raises "unhashable type"',
        "gpu/devices/device_facts.py",
        old="known = None\n        if type(which) is str:",
        new="known = None\n        if True:",
        test="driver/test_wrong_objects.py::test_wrong_objects[Device.attribute]",
    ),
    Correction(
        "errors",
        "half of a surrogate pair as PTX raises a UnicodeEncodeError",
        "gpu/kernels/image.py",
        old="        except UnicodeEncodeError as error:",
        new="        except ZeroDivisionError as error:",
        test="driver/test_wrong_objects.py::test_wrong_objects[Device.load]",
    ),
    Correction(
        "errors",
        "__dlpack__(stream=an array) raises a TypeError",
        "arrays/exporting.py",
        old=('            handle = as_int("stream", stream)\n        except TypeError:'),
        new=('            handle = as_int("stream", stream)\n        except ZeroDivisionError:'),
        test="driver/test_view_stream.py::test_an_index_that_fails_is_a_buffer_error",
    ),
    # -- what real drivers refuse or do otherwise
    Correction(
        "real drivers 1, 8",
        "code that is loaded, or an event that is queried, while a stream is captured breaks the capture",
        "gpu/core/calls.py",
        old="                exchange(*mode)\n                return call(",
        new="                return call(",
        test="driver/test_capture_unsafe.py::test_a_strided_copy_loads_its_kernel_in_a_capture[global]",
    ),
    Correction(
        "real drivers 8",
        "Event.query() breaks a capture of another thread",
        "gpu/core/calls.py",
        old='behaviour.of(symbol).capture == "unsafe"',
        new='symbol.startswith("cuMem")',
        test="driver/test_capture_unsafe.py::test_events_are_queried_and_waited_for_in_a_capture[global-here]",
    ),
    Correction(
        "real drivers 6",
        "managed memory that is labelled as device memory is refused",
        "gpu/for_arrays.py",
        old='where.device[0] in ("cuda", "cuda_managed")',
        new='where.device[0] == "cuda_managed"',
        test="driver/test_view_stream.py::test_managed_memory_that_is_labelled_as_device_memory_is_relabelled",
    ),
    Correction(
        "real drivers 9",
        "the UUID of a MIG instance begins with GPU-",
        "gpu/devices/device_facts.py",
        old='"GPU" if answers[0] == answers[-1] else "MIG"',
        new='"GPU"',
        test="emulator/test_devices.py::test_mig_instances",
    ),
    Correction(
        "real drivers 10",
        "after an error that ends the process, the user is not told so",
        "errors.py",
        old="    226: (ContextLost,",
        new="    226: (CudaError,",
        test="null/test_errors.py::test_a_code_becomes_the_class_of_its_remedy[226-ContextLost]",
    ),
    Correction(
        "real drivers, allocations in a capture",
        "memory that is allocated while a stream is captured breaks the capture",
        "gpu/core/calls.py",
        old='behaviour.of(symbol).capture == "unsafe"',
        new='symbol.startswith("cuEvent")',
        test="driver/test_capture_unsafe.py::test_memory_is_allocated_and_freed_in_a_capture[global-here-device]",
    ),
    Correction(
        "real drivers, allocations in a capture",
        "memory that is registered while a stream is captured breaks the capture",
        "gpu/core/calls.py",
        old='behaviour.of(symbol).capture == "unsafe"',
        new='behaviour.of(symbol).capture == "unsafe" and "Register" not in symbol',
        test="driver/test_capture_unsafe.py::test_memory_is_allocated_and_freed_in_a_capture[global-here-registered]",
    ),
    Correction(
        "real drivers, unexpected codes",
        "an address is looked up without a context, so that the call fails",
        "gpu/for_arrays.py",
        old="ANY_CALLS[False].cuPointerGetAttributes",
        new='driver.current().raw("cuPointerGetAttributes")',
        test="driver/test_memory.py::test_between_two_memories",
    ),
    Correction(
        "real drivers, unexpected codes",
        "memory that a capture allocated and closed is freed after the capture, where it is not allocated",
        "gpu/core/handles.py",
        old="if status.value and (self.capture is None or capture_number(primary.calls, queue) != self.capture):",
        new="if status.value:",
        test="driver/test_graph_updates.py::test_memory_that_is_allocated_in_a_capture",
    ),
    Correction(
        "real drivers, unexpected codes",
        "whether a module has a kernel is asked by a call that fails",
        "gpu/kernels/module.py",
        old="        if self._can_enumerate():\n            return self._in_code",
        new="        if False:\n            return self._in_code",
        test="driver/test_modules.py::test_names_that_a_module_has_not",
    ),
    Correction(
        "real drivers 7",
        "the host uses managed memory while work is pending on a device without concurrent access",
        "gpu/memory/ordering.py",
        old='    primary.open()\n    finish_context(primary, "host access to managed memory")',
        new="    primary.open()",
        test="emulator/test_devices.py::test_managed_memory_without_concurrent_access[bytes(view.memoryview())[0]]",
    ),
    Correction(
        "real drivers 7",
        "NumPy gets managed memory by DLPack while work is pending on it",
        "arrays/exporting.py",
        old="    if device[0] == 13 and stream is None:",
        new="    if False:",
        test="emulator/test_devices.py::test_managed_memory_without_concurrent_access"
        "[numpy.from_dlpack(view)[0] & 255]",
    ),
    Correction(
        "real drivers 15",
        "a driver that compiles a library later writes its log into freed memory",
        "gpu/kernels/libraries.py",
        old="self._info_log = loaded_with_logs(load, self._logs, loaded, self._kind, self._data)\n        self._handle",
        new="self._info_log = loaded_with_logs(load, Logs(), loaded, self._kind, self._data)\n        self._handle",
        test="emulator/test_devices.py::test_a_library_that_is_compiled_later",
    ),
    Correction(
        "real drivers 18",
        "a host function may call the driver, which may wait for ever",
        "gpu/core/host_functions.py",
        old="    serving.append(ident)",
        new="    serving.append(0); ident = 0",
        test="driver/test_host_functions.py::test_a_function_is_refused_before_the_driver_is_asked",
    ),
    Correction(
        "real drivers 18",
        "what a host function closes is never released",
        "ownership.py",
        old="if not forked and (releases_later() or release.release(False) is False):",
        new="if not forked and release.release(False) is False:",
        test="driver/test_host_functions.py::test_what_a_function_closes_is_released_later",
    ),
    Correction(
        "real drivers 19",
        "memory is unregistered in another context than its own",
        "gpu/core/calls.py",
        old="if ask(*into) or now.value != context._handle:",
        new="if ask(*into) or not now.value:",
        test="driver/test_memory_registered.py::test_it_is_released_in_its_own_context[False]",
    ),
    Correction(
        "real drivers 2",
        "memory is freed in a capture of its own stream, so that each launch of the graph frees it",
        "gpu/core/handles.py",
        old="                return False  # it would be freed in each launch",
        new="                pass  # it would be freed in each launch",
        test="driver/test_foreign_streams.py::test_memory_that_is_released_in_a_capture_of_its_stream[False]",
    ),
    Correction(
        "real drivers 3",
        "memory whose last export is dropped is freed in the order of the stream that allocated it alone",
        "gpu/memory/memory.py",
        old="                        release.stream = Leased(release.stream)\n",
        new="                        pass\n",
        test="driver/test_foreign_streams.py::test_memory_whose_last_export_is_dropped[a capsule-False]",
        mode="lazy",
    ),
    Correction(
        "real drivers 4",
        "memory of a closed stream is freed without a wait for the work of this stream",
        "gpu/core/handles.py",
        old="                end.wait()\n                self._call()\n",
        new="                self._call()\n",
        test="driver/test_foreign_streams.py::test_memory_of_a_stream_that_was_closed_first",
        mode="lazy",
    ),
    Correction(
        "real drivers 12",
        "the driver calls the function of suggest_block() while it holds a lock",
        "gpu/kernels/occupancy.py",
        old="        found = _best_block(kernel, shared_bytes, most)\n",
        new=(
            "        grid, block, function = ctypes.c_int(), ctypes.c_int(), cuda_h.CUfunction(kernel.handle)\n"
            "        called = cuda_h.CUoccupancyB2DSize(shared_bytes)\n"
            "        with kernel.device.current():\n"
            "            kernel._primary.driver.cuOccupancyMaxPotentialBlockSize(\n"
            "                ctypes.byref(grid), ctypes.byref(block), function, called, 0, most\n"
            "            )\n"
            "        found = Suggestion((block.value, grid.value))\n"
        ),
        test="driver/test_occupancy.py::test_the_driver_holds_no_lock_while_the_function_runs",
    ),
    Correction(
        "real drivers 14",
        "check fails on a device that cannot be used after a lost context",
        "tools/checking/groups/check_failures.py",
        old='        return f"{name}; not usable after a reset: {error.name}"\n',
        new="        raise error\n",
        test="driver/test_check.py::test_a_device_that_cannot_be_reset_after_an_error",
    ),
    Correction(
        "real drivers 16",
        "only the newest nvJitLink is tried",
        "gpu/kernels/driver_linking.py",
        old="            refused.append(error)\n",
        new="            refused.append(error)\n            break\n",
        test="driver/test_link.py::test_a_linker_that_is_older_than_the_device_is_left_out",
    ),
    Correction(
        "real drivers 17",
        "a limit that the driver does not know makes reading all of them fail",
        "headers/behaviour.py",
        old="cuCtxGetLimit          | 215 801 201 1 |",
        new="cuCtxGetLimit          | 215 |",
        test="driver/test_limits.py::test_a_limit_that_the_driver_does_not_know_is_left_out[801]",
    ),
    Correction(
        "real drivers, unknown codes",
        "an error that the table does not know has not the driver's own name and text",
        "driver.py",
        old="name = found[0] or cuda_h.results()",
        new="name = cuda_h.results()",
        test="null/test_driver.py::test_a_code_that_the_table_does_not_know",
    ),
    # -- what is remembered
    *[
        Correction(table, f"an entry is not identified by {what}", module, old, new, REMEMBERED)
        for table, what, module, old, new in GUARDS
    ],
    Correction(
        "hardware",
        "a launch never waits for room in its context",
        "emulator/entries/tasks/launch_entries.py",
        old="    machine.queues.make_room(context)\n",
        new="",
        test="emulator/test_streams.py::test_a_launch_waits_if_its_context_holds_1024_pieces_of_work[lazy]",
    ),
    Correction(
        "hardware",
        "a host function needs a lock that is held while the driver is called",
        "gpu/core/host_functions.py",
        old="        careful.remove(_run)\n",
        new=(
            "        careful.remove(_run)\n        from .handles import destroying\n\n"
            "        with destroying:\n            pass\n"
        ),
        test=(
            "driver/test_host_functions.py::"
            "test_no_lock_of_ours_is_held_while_the_driver_waits_for_a_host_function[lazy]"
        ),
        hangs=True,
    ),
]


def main(words: list[str]) -> int:
    """Print what is wrong with each row, and return how many rows are wrong."""
    os.environ["SEQUENCES"] = "40"  # of tests/driver/test_remembered.py
    from .choice import Test
    from .running import PACKAGE, Limits, module_name, not_passing, prepare, run_codes

    prepare()
    rows = [row for row in CORRECTIONS if sys.version_info < row.before]
    if len(words) == 1 and re.fullmatch(r"\d+/\d+", words[0]):
        part, parts = map(int, words[0].split("/"))
        rows, words = rows[part - 1 :: parts], []
    rows = [row for row in rows if not words or any(word in f"{row.found} {row.defect}" for word in words)]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="corrections-") as folder:
        log = Path(folder, "log")
        tests = {row.test: Test(f"tests/{row.test}", 20.0 if row.test == REMEMBERED else 2.0, 10) for row in rows}
        passing = not_passing(list(tests.values()), log)
        if passing:
            print(f"without any change, these do not pass: {', '.join(passing)}\n{log.read_text('utf-8')}")
            wrong += 1
        for row in rows:
            begin = time.monotonic()
            why = why_wrong(row)
            if not why:
                path = PACKAGE / row.module
                code = compile(path.read_text("utf-8").replace(row.old, row.new), str(path), "exec", dont_inherit=True)
                limits = Limits(more=2, idle=4) if row.hangs else Limits()
                os.environ["PYTEST_ADDOPTS"] = f"--mode {row.mode}"
                ended = run_codes({module_name(row.module): code}, [tests[row.test]], log, limits)
                if ended.outcome not in ("failed", "crashed", "time" if row.hangs else "") or not ended.test:
                    why = f"{row.test}: {ended.outcome} without the correction"
                elif ended.test != f"tests/{row.test}":
                    why = f"{ended.test}: {log.read_text('utf-8')[-2000:]}"
            wrong += bool(why)
            seconds = time.monotonic() - begin
            print(f"{'wrong' if why else 'noticed'} {seconds:5.1f} s  {row.found}: {row.defect}", flush=True)
            if why:
                print(f"    {row.module}: {why}")
    print(f"{len(rows)} corrections, {wrong} wrong")
    return wrong


def why_wrong(row: Correction) -> str:
    """Return what is wrong with a row itself, or ""."""
    from .running import PACKAGE

    text = (PACKAGE / row.module).read_text("utf-8")
    number = text.count(row.old)
    if number != 1:
        return f"the text stands there {number} times: {row.old!r}"
    try:
        compile(text.replace(row.old, row.new), row.module, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error} (with the new text)"
    return ""


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
