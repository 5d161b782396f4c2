"""An independent judge of graphs in the emulator: cuda.core, with the emulator as its libcuda."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

import pytest

from tests.emulator.test_clients import SHIM

PROGRAM = """
import array, ctypes, sys
from tests.driver import graph_kernels
from tests.subject import module

mode, path = sys.argv[1:]
shim = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
emulator = module("emulator").Emulator(mode)
ctypes.c_void_p.in_dll(shim, "answer").value = emulator.address("cuGetProcAddress_v2")
from cuda.bindings import driver as cu
from cuda.core import Device, LaunchConfig, ObjectCode, launch
from cuda.core.graph import GraphDefinition

device = Device(0)
device.set_current()
stream = device.create_stream()
step = ObjectCode.from_ptx(graph_kernels.STEP.encode()).get_kernel("step")
countdown = ObjectCode.from_ptx(graph_kernels.CONDITIONS.encode()).get_kernel("countdown")
config, digit = LaunchConfig(grid=1, block=1), ctypes.c_uint32
word, host = device.allocate(4, stream=stream), array.array("I", [0])

def read():
    stream.sync()
    assert cu.cuMemcpyDtoH(host.buffer_info()[0], int(word.handle), 4)[0] == 0
    return host[0]

graph, seen = GraphDefinition(), []
cleared = graph.memset(word, 0, 4)
first = cleared.launch(config, step, word, digit(1))
second = first.launch(config, step, word, digit(2))
recorded = second.callback(lambda: seen.append(1)).record(device.create_event())
allocated = recorded.allocate(64)
freed = allocated.deallocate(allocated.dptr)
assert len(graph.nodes()) == 7 and len(graph.edges()) == 6
assert (first.grid, first.block, allocated.bytesize) == ((1, 1, 1), (1, 1, 1), 64)
assert first.pred == {cleared} and first.succ == {second}
ready = graph.instantiate()
ready.upload(stream)
ready.launch(stream)
assert (read(), seen) == (12, [1])
ready[second].update(config=config, kernel=step, args=(word, digit(9)))
ready.launch(stream)
assert read() == 19
ready[second].disable()
assert not ready[second].is_enabled
ready.launch(stream)
assert read() == 1
ready[second].enable()
second.update(args=(word, digit(5)))
ready.update(graph)
ready.launch(stream)
assert read() == 15

count = device.allocate(4, stream=stream)
loops = GraphDefinition()
condition = loops.create_condition(default_value=1)
begin = loops.join(loops.memset(count, 3, 1), loops.memset(int(count.handle) + 1, 0, 3), loops.memset(word, 0, 4))
loop = begin.while_loop(condition)
loop.body.launch(config, countdown, condition, count).launch(config, step, word, digit(1))
choice = loop.if_else(loops.create_condition(default_value=0))
choice.then.launch(config, step, word, digit(7))
choice.else_.launch(config, step, word, digit(8))
loops.instantiate().launch(stream)
assert read() == 1118

inner, outer = GraphDefinition(), GraphDefinition()
inner.launch(config, step, word, digit(3))
outer.memset(word, 0, 4).embed(inner).embed(inner)
outer.instantiate().launch(stream)
assert read() == 33

builder = device.create_graph_builder().begin_building()
launch(builder, config, step, word, digit(4))
left, right = builder.split(2)
launch(left, config, step, word, digit(1))
type(builder).join(left, right).end_building().complete().launch(stream)
assert read() == 3341
assert not emulator.kept_exceptions, emulator.kept_exceptions
print("all is well")
"""


def is_there() -> bool:
    try:
        return importlib.util.find_spec("cuda.core.graph") is not None
    except ImportError:
        return False


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="no C compiler on this machine")
@pytest.mark.skipif(not is_there(), reason="a cuda.core with graphs is not installed")
@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
def test_cuda_core(python, tmp_path, mode):
    (tmp_path / "shim.c").write_text(SHIM)
    library = tmp_path / "libcuda.so.1"
    command = [shutil.which("cc"), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(tmp_path / "shim.c"), "-o"]
    subprocess.run([*command, str(library)], check=True)
    result = python(PROGRAM, mode, str(library))
    assert result.stdout == "all is well\n", result.stderr
