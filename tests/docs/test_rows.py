"""Each feature of the driver that is an object here has an example that runs, tests on the emulator, and one for a GPU.

The table says where. An example is a block of Python in a section of a page, which test_blocks.py runs. A test of
tests/driver runs on the emulator in its three modes, unless it is for a GPU only. The third column names bodies of
tests/driver/test_gpu.py, or tests elsewhere that are marked gpu_only.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.subject import CHECKOUT, NAME

from . import pages

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the pages are about the original")

DRIVER = CHECKOUT / "tests" / "driver"


class Row(NamedTuple):
    """A feature: the section of its example and what the example uses; tests for the emulator, and tests for a GPU."""

    section: str
    used: str
    emulator: str
    gpu: str


ROWS = {
    # graphs
    "kernel nodes": Row(
        "graphs.md#add-nodes",
        "graph.kernel(",
        "test_graph_nodes::test_a_kernel_node_takes_its_arguments_when_it_is_added",
        "branches_of_a_graph_run_at_the_same_time",
    ),
    "copy nodes": Row(
        "graphs.md#add-nodes",
        "graph.copy(",
        "test_graph_nodes::test_copies_of_every_layout test_graph_nodes::test_a_copy_reads_host_memory_in_each_launch",
        "graphs_in_graphs_and_copies_of_graphs_run",
    ),
    "fill nodes": Row(
        "graphs.md#add-nodes",
        "graph.fill(",
        "test_graph_nodes::test_fills",
        "branches_of_a_graph_run_at_the_same_time",
    ),
    "host nodes": Row(
        "graphs.md#add-nodes",
        "graph.callback(",
        "test_graph_nodes::test_callbacks",
        "events_and_functions_of_a_graph_happen_on_the_way",
    ),
    "event nodes": Row(
        "graphs.md#add-nodes",
        "outer.record(",
        "test_graph_nodes::test_events",
        "events_and_functions_of_a_graph_happen_on_the_way",
    ),
    "child and empty nodes": Row(
        "graphs.md#add-nodes",
        "outer.embed( outer.join( outer.empty(",
        "test_graph_nodes::test_a_child_graph",
        "graphs_in_graphs_and_copies_of_graphs_run",
    ),
    "allocation nodes": Row(
        "graphs.md#memory-that-belongs-to-a-graph",
        "graph.allocate( graph.free(",
        "test_graph_nodes::test_memory_that_lives_in_a_graph",
        "memory_of_a_graph_is_taken_by_its_launch",
    ),
    "conditional nodes": Row(
        "graphs.md#conditions",
        "graph.while_loop( graph.switch( graph.if_else(",
        "test_graph_updates::test_a_while_loop test_graph_updates::test_if test_graph_updates::test_switch",
        "a_loop_of_a_graph_runs_without_the_cpu a_branch_of_a_graph_is_chosen_on_the_device",
    ),
    "edges": Row(
        "graphs.md#add-nodes",
        "graph.edges graph.add_edge(",
        "test_graph_nodes::test_edges test_graph_updates::test_a_missing_edge_shows",
        "branches_of_a_graph_run_at_the_same_time",
    ),
    "update of an executable graph, whole and by node": Row(
        "graphs.md#change-a-graph",
        "executable.update( executable[first].update(",
        "test_graph_updates::test_a_node_of_an_executable_graph "
        "test_graph_updates::test_an_executable_graph_takes_over_another",
        "an_executable_graph_is_updated_where_it_is",
    ),
    "upload of a graph": Row(
        "graphs.md#change-a-graph",
        "executable.upload(",
        "test_graph_updates::test_upload",
        "an_executable_graph_is_updated_where_it_is",
    ),
    "clone of a graph": Row(
        "graphs.md#change-a-graph",
        "graph.clone( clone.find(",
        "test_graph_updates::test_clones",
        "graphs_in_graphs_and_copies_of_graphs_run",
    ),
    "debug_dot and a picture": Row(
        "graphs.md#add-nodes",
        "graph.debug_dot(",
        "test_graph_nodes::test_debug_dot test_graph_nodes::test_a_picture",
        "graphs_in_graphs_and_copies_of_graphs_run",
    ),
    "capture into an existing graph": Row(
        "graphs.md#capture-into-a-graph",
        "stream.capture(into=graph",
        "test_graph_updates::test_capture_into_a_graph",
        "graphs_in_graphs_and_copies_of_graphs_run",
    ),
    # memory
    "pools: properties, threshold, attributes, trim": Row(
        "memory.md#pools",
        "device.memory_pool( pool.release_threshold pool.attributes pool.trim(",
        "test_pool::test_memory_from_a_pool_is_memory test_pool::test_the_attributes_tell_what_is_used_and_kept",
        "a_pool_keeps_as_much_as_its_threshold_says test_memory_gpu::test_a_pool_keeps_physical_memory",
    ),
    "the pool of a device": Row(
        "memory.md#pools",
        "device.pool pool=pool",
        "test_pool::test_the_current_pool_of_a_device",
        "a_pool_keeps_as_much_as_its_threshold_says",
    ),
    "peer access of a pool": Row(
        "memory.md#pools",
        "pool.peer_accessible_by",
        "test_pool::test_access_of_another_device",
        "a_pool_lets_another_device_in",
    ),
    "managed memory: advice, prefetches, range attributes": Row(
        "memory.md#managed-memory",
        "managed.advise( managed.prefetch( managed.preferred_location managed.last_prefetch_location",
        "test_memory_managed::test_advice_is_remembered test_memory_managed::test_the_attributes_of_a_part",
        "managed_memory_goes_where_it_is_sent test_memory_gpu::test_managed_memory_is_on_the_device_after_a_prefetch",
    ),
    "page-locked arrays": Row(
        "memory.md#page-lock-an-array-in-place",
        "Memory.register(",
        "test_memory_registered::test_an_array_is_page_locked_where_it_is",
        "a_kernel_writes_a_page_locked_array_in_place test_memory_gpu::test_a_copy_of_page_locked_memory_does_not_wait",
    ),
    "batched copies": Row(
        "memory.md#several-copies-in-one-call",
        "copy_batch(",
        "test_copy_batch::test_runs_of_bytes_are_copied_together",
        "a_batch_is_copied_in_the_order_of_its_stream test_memory_gpu::test_a_batch_is_not_slower_than_its_copies",
    ),
    "virtual memory": Row(
        "memory.md#memory-that-grows-in-place",
        "device.virtual_memory( growing.grow( growing.set_access( growing.map( growing.shrink(",
        "test_memory_virtual::test_it_grows_in_place test_memory_virtual::test_across_devices",
        "a_kernel_sees_all_parts_of_virtual_memory test_memory_gpu::test_only_what_is_mapped_takes_memory",
    ),
    "peers": Row(
        "devices.md#access-to-the-memory-of-another-device",
        "device.can_reach( device.peer_access( device.enable_peer_access( device.disable_peer_access(",
        "test_peers::test_can_reach test_peers::test_a_kernel_with_another_devices_memory",
        "a_kernel_reads_the_memory_of_another_device",
    ),
    "peer copies": Row(
        "devices.md#access-to-the-memory-of-another-device",
        "here.copy_from(there)",
        "test_peers::test_copies_between_devices",
        "test_memory_gpu::test_a_copy_between_two_gpus_does_not_wait",
    ),
    # textures
    "arrays": Row(
        "textures.md#cuda-arrays",
        "device.array(",
        "test_array::test_what_goes_in_comes_out",
        "boxes_are_copied_through_pitched_memory",
    ),
    "pitched copies in 2-D and 3-D": Row(
        "textures.md#textures-over-memory",
        "device.empty_pitched(",
        "test_array::test_rows_are_aligned test_array::test_copies_from_and_to_memory_of_each_kind_and_layout",
        "boxes_are_copied_through_pitched_memory",
    ),
    "mipmapped arrays": Row(
        "textures.md#cuda-arrays",
        "device.mipmapped_array(",
        "test_texture::test_levels_of_detail",
        "the_hardware_blends_two_levels",
    ),
    "textures with filtering": Row(
        "textures.md#sample-an-image",
        "device.texture( filter_mode=",
        "test_texture::test_floats",
        "the_hardware_filters_with_eight_bits test_texture::test_the_hardware_rounds_as_the_model",
    ),
    "border modes": Row(
        "textures.md#how-a-texture-is-read",
        "address_mode= border_color=",
        "test_texture::test_an_address_mode_for_each_dimension_is_in_the_order_of_the_shape",
        "the_hardware_filters_with_eight_bits",
    ),
    "surfaces": Row(
        "textures.md#surfaces",
        "device.surface(",
        "test_texture_surface::test_a_kernel_writes_what_a_texture_reads",
        "a_texture_reads_what_a_surface_wrote",
    ),
    "tensor maps": Row(
        "textures.md#tensor-maps",
        "TensorMap.tiled( TensorMap.im2col(",
        "test_tensor_map::test_a_kernel_gets_its_bytes test_tensor_map::test_images",
        "a_tensor_map_describes_a_bulk_copy",
    ),
    # streams and events
    "priorities of streams": Row(
        "streams.md#priorities",
        "device.stream_priorities stream(priority=",
        "test_stream::test_priority test_limits::test_priorities",
        "work_of_a_higher_priority_overtakes",
    ),
    "attributes and numbers of streams": Row(
        "streams.md#attributes",
        "stream.attributes.synchronization_policy attributes.copy_from(",
        "test_values::test_attributes test_stream::test_every_stream_has_its_own_id",
        "a_stream_has_the_attributes_that_were_set",
    ),
    "waiting for values": Row(
        "streams.md#values-in-memory",
        "stream.wait_value( stream.write_value( stream.batch(",
        "test_values::test_a_stream_waits_for_a_value_that_another_one_writes test_values::test_batch",
        "a_stream_waits_for_what_the_cpu_writes",
    ),
    "host functions": Row(
        "streams.md#functions-on-the-cpu",
        "stream.call(",
        "test_host_functions::test_functions_run_in_stream_order",
        "a_function_is_called_between_two_kernels",
    ),
    "capture modes": Row(
        "streams.md#events",
        'stream.capture("relaxed")',
        "test_stream::test_capture_modes",
        "a_capture_forbids_calls_as_its_mode_says",
    ),
    "default streams of threads": Row(
        "streams.md#default-streams",
        "Stream.per_thread",
        "test_stream::test_the_default_stream_of_each_thread_is_its_own",
        "default_streams_of_two_threads_run_at_the_same_time",
    ),
    "events with timing": Row(
        "streams.md#events",
        "event(timing=True) .elapsed_ms(",
        "test_stream::test_events test_stream::test_elapsed_needs_timing_and_records",
        "an_event_tells_the_time_of_a_kernel",
    ),
    "blocking events": Row(
        "streams.md#events",
        "blocking=True",
        "test_stream::test_blocking_events",
        "the_cpu_sleeps_while_it_waits_for_a_blocking_event",
    ),
    # devices
    "limits and cache settings": Row(
        "devices.md#limits",
        "device.limits.stack_size device.limits.cache_config",
        "test_limits::test_limits test_limits::test_preferences",
        "a_kernel_has_the_stack_that_was_set",
    ),
    "green contexts": Row(
        "devices.md#green-contexts",
        "device.split(",
        "test_green::test_work_in_green_contexts",
        "a_green_context_has_only_its_multiprocessors",
    ),
    "occupancy": Row(
        "launching.md#choose-a-block-and-a-grid",
        ".suggest_block( .max_active_blocks(",
        "test_occupancy::test_the_suggested_block_fills_the_device",
        "as_many_blocks_as_are_told_run_at_the_same_time",
    ),
    # launches
    "clusters": Row(
        "launching.md#clusters",
        "cluster=4 .max_active_clusters(",
        "test_cluster::test_a_block_reads_the_shared_memory_of_another",
        "the_blocks_of_a_cluster_run_at_the_same_time",
    ),
    "programmatic dependent launch": Row(
        "launching.md#options-of-a-launch",
        "programmatic_stream_serialization programmatic_event=",
        "test_launch_options::test_each_option_is_taken_by_configure_and_by_launch "
        "test_cluster::test_dependent_launches_see_what_came_before",
        "a_dependent_kernel_begins_early an_event_of_a_launch_comes_before_its_end",
    ),
    "priority of a launch": Row(
        "launching.md#options-of-a-launch",
        "priority=",
        "test_launch_options::test_each_option_is_taken_by_configure_and_by_launch",
        "work_of_a_higher_priority_overtakes",
    ),
    "memory synchronization domains": Row(
        "launching.md#options-of-a-launch",
        "mem_sync_domain",
        "test_launch_options::test_each_option_is_taken_by_configure_and_by_launch",
        "a_launch_has_a_domain_and_a_policy_for_the_cache",
    ),
    "attributes of kernels": Row(
        "launching.md#attributes-of-a-kernel",
        "attributes.max_dynamic_shared_bytes attributes.preferred_shared_carveout",
        "test_occupancy::test_more_dynamic_shared_memory test_occupancy::test_attributes_of_clusters",
        "a_kernel_gets_the_shared_memory_that_was_set",
    ),
    # modules
    "lazy loading": Row(
        "linking.md#load-code-once-for-several-devices",
        "kernel.is_loaded kernel.load(",
        "test_modules::test_lazy_loading",
        "a_kernel_is_loaded_when_it_is_used",
    ),
    "libraries": Row(
        "linking.md#load-code-once-for-several-devices",
        "rawcuda.Library( library.module(",
        "test_modules::test_a_library_is_loaded_once_for_several_devices",
        "a_library_runs_on_every_device",
    ),
    "managed and other variables": Row(
        "linking.md#variables",
        "module.global_( .kind",
        "test_modules::test_managed_variables test_modules::test_variables_have_the_type_that_the_ptx_gives",
        "a_managed_variable_is_seen_by_both_sides",
    ),
    "cubins": Row(
        "linking.md#without-a-device",
        "rawcuda.link(",
        "test_modules::test_the_parameters_of_a_cubin",
        "test_modules::test_a_launch_of_a_cubin_checks_its_arguments",
    ),
    # profilers
    "profiler": Row(
        "devices.md#profilers",
        "rawcuda.profile(",
        "test_ranges::test_profile",
        "a_profiler_does_not_change_what_runs",
    ),
    "ranges": Row(
        "devices.md#profilers",
        "rawcuda.range(",
        "test_ranges::test_a_profiler_sees_the_ranges",
        "a_profiler_does_not_change_what_runs",
    ),
}


def examples(section: str) -> str:
    """Return the Python that runs in a section of a page, subsections included."""
    page, _, anchor = section.partition("#")
    found, inside, level, running = [], False, 0, False
    for line in (CHECKOUT / "docs" / page).read_text("utf-8").splitlines():
        if line.startswith("```"):
            running = line == "```python"
        elif running:
            found.append(line if inside else "")
        elif line.startswith("#") and " " in line:
            depth = len(line.split()[0])
            if re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") == anchor:
                inside, level = True, depth
            elif depth <= level:
                inside = False
    return "\n".join(found)


@functools.cache
def marks(file: str) -> dict[str, set[str]]:
    """Return the tests of a file, each with the names of its marks; the functions of BODIES have the mark "body"."""
    path, out = DRIVER / f"{file}.py", {}
    if file.startswith("test_") and path.is_file():
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.FunctionDef):
                names = [ast.unparse(each).partition("(")[0] for each in node.decorator_list]
                out[node.name] = {name.rpartition(".")[2] for name in names}
    return out


def faults(row: Row) -> Iterator[str]:
    """Say what a row lacks."""
    text = examples(row.section)
    for word in row.used.split():
        if word not in text:
            yield f"no block in docs/{row.section} uses {word}"
    if not (row.used and row.emulator and row.gpu):
        yield "a column is empty"
    for place in row.emulator.split():
        file, _, name = place.partition("::")
        found = marks(file).get(name)
        if found is None:
            yield f"there is no {place}"
        elif found & {"gpu_only", "skip", "heavy"}:
            yield f"{place} does not run on the emulator"
    for place in row.gpu.split():
        file, _, name = place.rpartition("::")
        found = marks(file or "test_gpu").get(name, set())
        if ("gpu_only" if file else "body") not in found:
            yield f"{place} is no test for a GPU"


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_feature_has_an_example_and_tests(row: Row) -> None:
    assert not list(faults(row))


def test_what_a_row_lacks_is_said() -> None:
    good = next(iter(ROWS.values()))
    assert not list(faults(good))
    for lacking in (
        good._replace(section="graphs.md#no-such-section"),
        good._replace(used="graph.no_such_method("),
        good._replace(emulator="test_graph_nodes::test_nothing"),
        good._replace(emulator="test_memory_gpu::test_a_pool_keeps_physical_memory"),
        good._replace(gpu="no_such_body"),
        good._replace(gpu="test_graph_nodes::test_fills"),
        good._replace(gpu=""),
    ):
        assert list(faults(lacking)), lacking


def test_every_body_belongs_to_a_row() -> None:
    used = {place for row in ROWS.values() for place in row.gpu.split()}
    bodies = {name for name, found in marks("test_gpu").items() if "body" in found}
    assert bodies <= used and len(bodies) > 30
    assert {"gpu_only"} <= marks("test_gpu")["test_on_a_gpu"]


def test_the_blocks_of_the_pages_run() -> None:
    """A page of the table is one of those whose blocks tests/docs/test_blocks.py runs."""
    run = {path.name for path in pages.pages() if path.parent.name == "docs"}
    assert {row.section.partition("#")[0] for row in ROWS.values()} <= run
