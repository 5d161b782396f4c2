"""The object model against a model of it: what must be alive, what it must contain, and what must be refused.

Hypothesis chooses the steps, and shortens a program that fails. The model knows the numbers in each memory, and who may
still read them. After each program everything is dropped, and no handle may remain.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections import Counter
from typing import Any

import pytest

from tests.attack.conftest import Campaign
from tests.driver.test_interrupts import GONE
from tests.subject import module, rawcuda

hypothesis = pytest.importorskip("hypothesis")
np = pytest.importorskip("numpy")
from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from hypothesis import strategies as some  # noqa: E402
from hypothesis.stateful import (  # noqa: E402
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

ADD = """.version 7.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 out, .param .u32 n, .param .u32 k) {
  .reg .b64 %d<3>; .reg .b32 %r<6>; .reg .pred %p;
  ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n]; ld.param.u32 %r1, [k];
  mov.u32 %r2, %tid.x; setp.ge.u32 %p, %r2, %r0; @%p ret;
  mul.wide.u32 %d1, %r2, 4; add.u64 %d0, %d0, %d1;
  ld.global.u32 %r3, [%d0]; add.u32 %r3, %r3, %r1; st.global.u32 [%d0], %r3; ret;
}"""
COUNT = 16  # elements of each memory
DONE: Counter[str] = Counter()
KINDS = ("device", "pinned", "managed")


class Held:
    """A memory of the program, and what the model knows of it."""

    def __init__(self, memory: Any, kind: str) -> None:
        self.memory, self.kind, self.closed = memory, kind, False
        self.numbers = [0] * COUNT

    @property
    def view(self) -> Any:
        return self.memory.view("uint32")


class Export:
    """Something that reads a memory by way of another library or a protocol, and the memory that it reads."""

    def __init__(self, read: Any, held: Held) -> None:
        self.read, self.held = read, held


class Objects(RuleBasedStateMachine):
    interrupts = True
    memories, streams, exports, graphs = Bundle("memories"), Bundle("streams"), Bundle("exports"), Bundle("graphs")

    def __init__(self) -> None:
        super().__init__()
        self.device = rawcuda.Device(0)
        self.module: Any = self.device.load(ADD)
        self.kernel: Any = self.module["add"]
        self.all: list[Held] = []
        self.made: list[Any] = []
        DONE["programs"] += 1

    def settle(self) -> None:
        self.device.synchronize()

    # -- make

    @initialize(target=streams)
    def first_stream(self) -> Any:
        made = self.device.stream()
        self.made.append(made)
        return made

    @rule(target=streams)
    def stream(self) -> Any:
        return self.first_stream()

    @initialize(target=memories)
    def first(self) -> Held:
        return self.memory("pinned", None)

    @rule(target=memories, kind=some.sampled_from(KINDS), stream=some.none() | streams)
    def memory(self, kind: str, stream: Any) -> Held:
        in_order = stream is not None and kind == "device" and not stream.closed
        if in_order:
            memory = self.device.allocate(4 * COUNT, stream=stream)
            memory.fill(0, stream=stream)
        else:
            memory = self.device.allocate(4 * COUNT, kind=kind)
            memory.fill(0)
        self.settle()
        held = Held(memory, kind)
        self.all.append(held)
        return held

    # -- change

    @rule(held=memories, byte=some.integers(0, 255))
    def fill(self, held: Held, byte: int) -> None:
        DONE["fills"] += 1
        if held.closed:
            with pytest.raises(rawcuda.Closed):
                held.memory.fill(byte)
            return
        held.memory.fill(byte)
        self.settle()
        held.numbers = [byte * 0x01010101] * COUNT

    @rule(target_=memories, source=memories, part=some.booleans())
    def copy(self, target_: Held, source: Held, part: bool) -> None:
        DONE["copies"] += 1
        if target_.closed or source.closed:
            with pytest.raises(rawcuda.Closed):
                rawcuda.copy(target_.view, source.view)
            return
        at = slice(1, COUNT, 3) if part else slice(None)
        if target_ is source and part:
            return
        rawcuda.copy(target_.view[at], source.view[at])
        self.settle()
        target_.numbers[at] = source.numbers[at]

    @rule(held=memories, stream=streams, k=some.integers(0, 2**32 - 1), bound=some.booleans(), way=some.integers(0, 2))
    def launch(self, held: Held, stream: Any, k: int, bound: bool, way: int) -> None:
        DONE["launches"] += 1
        if held.closed:
            with pytest.raises(rawcuda.Closed):
                self.kernel.launch(held.memory, COUNT, k, grid=1, block=32)
            return
        argument = (held.memory, held.view, held.view[:])[way]
        if stream.closed:
            with pytest.raises(rawcuda.Closed):
                self.kernel.launch(argument, COUNT, k, grid=1, block=32, stream=stream)
            return
        if bound:
            self.kernel.configure(grid=1, block=32, stream=stream)(argument, np.int32(COUNT), np.uint32(k))
        else:
            self.kernel.launch(argument, COUNT, k, grid=1, block=32, stream=stream)
        stream.synchronize()
        held.numbers = [number + k & 0xFFFFFFFF for number in held.numbers]

    @rule(target=graphs, held=memories, stream=streams, k=some.integers(0, 9), fails=some.booleans())
    def capture(self, held: Held, stream: Any, k: int, fails: bool) -> Any:
        DONE["captures"] += 1
        if held.closed or stream.closed:
            return multiple()
        try:
            with stream.capture() as graph:
                self.kernel.launch(held.memory, COUNT, k, grid=1, block=32, stream=stream)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert not stream.closed and stream.query()
            return multiple()
        self.made.append(graph)
        return graph, held, k

    @rule(graph=graphs, stream=streams)
    def replay(self, graph: Any, stream: Any) -> None:
        graph, held, k = graph
        if graph.closed or stream.closed:
            with pytest.raises(rawcuda.Closed):
                graph.launch(stream)
            return
        if held.closed:  # a launch would use freed memory, as in C
            return
        graph.launch(stream)
        stream.synchronize()
        held.numbers = [number + k & 0xFFFFFFFF for number in held.numbers]

    # -- export

    @rule(target=exports, held=memories, way=some.integers(0, 4))
    def export(self, held: Held, way: int) -> Any:
        DONE["exports"] += 1
        if held.closed:
            with pytest.raises(rawcuda.Closed):
                held.view.__dlpack__()
            return multiple()
        if held.kind == "device" and way < 3:
            way = 3
        view = held.view
        if way == 0:
            array = np.from_dlpack(view) if hasattr(np, "from_dlpack") else np.asarray(view)
            return Export(array.tolist, held)
        if way == 1:
            return Export(np.asarray(view).tolist, held)
        if way == 2:
            return Export(view.memoryview().tolist, held)
        if way == 3:
            again = rawcuda.view(view.__dlpack__(max_version=(1, 0)))
            return Export(lambda: again.tolist(), held)
        sliced = view[:]
        return Export(lambda: sliced.tolist(), held)

    @rule(export=exports)
    def read(self, export: Export) -> None:
        DONE["reads"] += 1
        held = export.held
        try:
            assert export.read() == held.numbers
        except rawcuda.Closed:
            assert held.closed

    @rule(export=consumes(exports))
    def drop_export(self, export: Export) -> None:
        export.read = export.held = None  # type: ignore[assignment]

    # -- close, drop, collect

    @rule(held=memories)
    def close_memory(self, held: Held) -> None:
        DONE["closes"] += 1
        held.memory.close()
        held.closed = True
        assert held.memory.closed
        held.memory.close()

    @rule(stream=streams)
    def close_stream(self, stream: Any) -> None:
        if sum(not each.closed for each in self.made if type(each) is rawcuda.Stream) > 1:
            stream.close()
            assert stream.closed

    @rule(graph=graphs)
    def close_graph(self, graph: Any) -> None:
        graph[0].close()

    @rule()
    def collect(self) -> None:
        gc.collect()

    # -- threads, forks, interrupts

    @rule(held=memories, k=some.integers(0, 9))
    def in_a_thread(self, held: Held, k: int) -> None:
        DONE["threads"] += 1
        if held.closed:
            return

        def work() -> None:
            self.kernel.launch(held.memory, COUNT, k, grid=1, block=32)
            self.device.synchronize()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        held.numbers = [number + k & 0xFFFFFFFF for number in held.numbers]

    @rule(often=some.integers(0, 19))
    def fork(self, often: int) -> None:
        if often or not hasattr(os, "fork"):
            return
        DONE["forks"] += 1
        child = os.fork()
        if not child:
            try:
                self.device.allocate(4)
            except rawcuda.ForkedAfterInit:
                os._exit(0)
            except BaseException:
                os._exit(2)
            os._exit(3)
        end = time.monotonic() + 60
        while not (done := os.waitpid(child, os.WNOHANG))[0]:
            assert time.monotonic() < end or os.kill(child, signal.SIGKILL), "the child hangs"
            time.sleep(0.001)
        assert os.WEXITSTATUS(done[1]) == 0

    @rule(held=memories, after=some.floats(1e-6, 3e-4), byte=some.integers(0, 255))
    def interrupt(self, held: Held, after: float, byte: int) -> None:
        """An interrupt comes somewhere in a fill: it is done, or it is not, and the next calls work."""
        DONE["interrupts"] += 1
        if held.closed or not self.interrupts:
            return
        fired = caught = False

        def interrupted(*_: object) -> None:
            nonlocal fired
            if armed:
                fired = True
                raise KeyboardInterrupt

        armed = True  # the system may give a signal to another thread, which runs later on a busy machine
        signal.signal(signal.SIGALRM, interrupted)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, after)
                held.memory.fill(byte)
                self.device.allocate(64).close()
                self.kernel.launch(held.memory, 0, 1, grid=1, block=32)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            caught = True
        armed = False
        if fired and not caught:  # what could not pass through C is raised by the next call, or a moment later
            try:
                self.settle()
                time.sleep(0.2)
            except KeyboardInterrupt:
                caught = True
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        DONE["interrupts in time"] += fired
        DONE["interrupts that came"] += caught  # others came in a finalizer, where Python ignores them
        self.settle()
        found = held.view.tolist()
        assert found in (held.numbers, [byte * 0x01010101] * COUNT)
        held.numbers = found

    @invariant()
    def contents(self) -> None:
        DONE["steps"] += 1
        held = self.all[-1] if self.all else None
        if held is not None and not held.closed:
            assert held.view.tolist() == held.numbers

    def teardown(self) -> None:
        for each in [*self.made, *(held.memory for held in self.all)]:
            if id(each) >> 4 & 3:
                each.close()
        for kept in (self.made, self.all, self.bundles, self.names_to_values, self.names_list):
            kept.clear()  # hypothesis keeps the machine
        self.module = self.kernel = None


# What a call of the emulator returns that an interrupt ends; the interrupt is raised, and not an error for the code.
ENDED = [f"{name} returned 999" for name in module("headers.cuda_h").prototypes()]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt in a finalizer
@pytest.mark.parametrize("interrupts", [False, pytest.param(True, marks=pytest.mark.codes(*GONE, *ENDED))])
def test_objects(campaign: Campaign, library: Any, interrupts: bool) -> None:
    """Nothing is left; with interrupts, at most one object for each of them."""

    def live() -> int:
        gc.collect()
        for each in rawcuda.devices():
            each.synchronize()
        gc.collect()
        rawcuda.Device(0).allocate(1).close()
        return sum(count for kind, count in library.live_handles().items() if kind not in ("context", "event"))

    def attack(chance: Any) -> None:
        steps = settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            database=None,
            derandomize=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        before, came = live(), DONE["interrupts in time"]
        machine = hypothesis.seed(chance.randrange(2**32))(type("Seeded", (Objects,), {"interrupts": interrupts}))
        run_state_machine_as_test(machine, settings=steps)
        left = live() - before
        assert left <= DONE["interrupts in time"] - came, library.live_handles()

    campaign.done = DONE
    DONE.clear()
    campaign.each(attack)
