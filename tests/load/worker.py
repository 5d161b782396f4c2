"""One process of the load: threads that do mixed work, and a report as JSON at the end.

    python3 -m tests.load.worker SECONDS THREADS NUMBER

The first process (NUMBER 0) measures how long locks are held. In the others, a timer interrupts the main thread at
random moments, as Ctrl-C does. In all of them, objects are closed by other threads than those that made them, or only
dropped, and garbage is collected at random moments.
"""

from __future__ import annotations

import _thread
import array
import gc
import json
import os
import pickle
import random
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_RLock: Any = type(threading.RLock())


class Measured(_RLock):  # type: ignore[misc]
    """A lock that knows for how long it was held at most."""

    longest: dict[str, float] = {}  # the place where a lock was made -> seconds

    def __init__(self) -> None:
        super().__init__()
        frame = sys._getframe(1)
        self.place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        self.depth, self.since = 0, 0.0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken: bool = super().acquire(blocking, timeout)
        if taken:
            self._begin()
        return taken

    __enter__ = acquire

    def release(self) -> None:
        self._end()
        super().release()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _release_save(self) -> Any:  # a condition waits
        depth, self.depth = self.depth, 1
        self._end()
        return depth, super()._release_save()

    def _acquire_restore(self, state: Any) -> None:
        super()._acquire_restore(state[1])
        self._begin()
        self.depth = state[0]

    def _begin(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.since = time.perf_counter()

    def _end(self) -> None:
        if self.depth == 1:
            held = time.perf_counter() - self.since
            self.longest[self.place] = max(held, self.longest.get(self.place, 0))
        self.depth -= 1


SECONDS, THREADS, NUMBER = (
    (float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])) if __name__ == "__main__" else (0, 0, 0)
)
if __name__ == "__main__" and NUMBER == 0:
    threading.RLock = _thread.RLock = Measured  # type: ignore[misc, assignment]

from tests.driver.graph_kernels import STEP  # noqa: E402
from tests.subject import FOLDER, module, rawcuda  # noqa: E402

NO_INTERRUPT = str(FOLDER / "emulator") + os.sep, str(FOLDER / "interpreter") + os.sep, str(Path(threading.__file__))
PACKAGE_FILES = str(FOLDER) + os.sep


class Gate:
    """Lets many threads work, or one alone: while a stream is captured, the driver refuses others' synchronization."""

    def __init__(self) -> None:
        self.changed, self.working, self.alone = threading.Condition(), 0, False

    @contextmanager
    def through(self, alone: bool) -> Iterator[None]:
        with self.changed:
            while self.alone or alone and self.working:
                self.changed.wait()
            self.alone, self.working = alone, self.working + 1
        try:
            yield
        finally:
            with self.changed:
                self.alone, self.working = False, self.working - 1
                if not self.working:  # nobody waits for less
                    self.changed.notify_all()


class Load:
    """What the threads share."""

    def __init__(self, library: Any) -> None:
        self.emulator = library
        self.devices = rawcuda.devices()
        self.modules = [device.load(STEP) for device in self.devices]
        self.gate = Gate()
        self.handed: deque[Any] = deque()  # what other threads close or drop
        self.done: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        self.interrupts = 0
        self.errors: list[str] = []
        self.inside = False  # whether the main thread may be interrupted


class Worker:
    """The operations, each of which checks its own result."""

    def __init__(self, load: Load, seed: int) -> None:
        self.load, self.chance = load, random.Random(seed)
        self.names = [name for name in dir(self) if name.startswith("do_")]
        self.at = 0

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Measure the time of a call."""
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        if seconds > self.load.slowest.get(name, 0):
            self.load.slowest[name] = seconds

    def part_with(self, thing: Any) -> None:
        """Close an object, drop it, or give it to another thread."""
        way = self.chance.random()
        if way < 0.4:
            with self.call("close"):
                thing.close()
        elif way < 0.7 and len(self.load.handed) < 200:
            self.load.handed.append(thing)

    def round(self) -> None:
        """Do one operation."""
        self.at = self.chance.randrange(len(self.load.devices))
        name = self.chance.choice(self.names)
        with self.load.gate.through(alone=name == "do_capture_and_replay"):
            getattr(self, name)(self.load.devices[self.at])
            self.load.done[name[3:].replace("_", " ")] += 1
            self.close_and_collect()

    def close_and_collect(self) -> None:
        """Close what another thread has given away, or collect garbage, sometimes."""
        if self.chance.random() < 0.5:
            with suppress(IndexError):
                thing = self.load.handed.popleft()
                if self.chance.random() < 0.6:
                    thing.close()
        if self.chance.random() < 0.02:
            with self.call("gc.collect"):
                gc.collect()

    def numbers(self) -> Any:
        return array.array("I", [self.chance.randrange(1 << 20) for _ in range(self.chance.choice((1, 7, 64)))])

    def do_upload_and_copy(self, device: Any) -> None:
        given = self.numbers()
        with self.call("upload"):
            a = device.upload(given)
        b = device.empty(a.shape, "uint32")
        with self.call("copy"):
            rawcuda.copy(b, a)
        with self.call("tolist"):
            assert b.tolist() == given.tolist()
        with self.call("strided copy"):
            rawcuda.copy(b[::-1], a)
        assert b.tolist() == given.tolist()[::-1]
        self.part_with(a.owner)
        self.part_with(b.owner)

    def do_launch(self, device: Any) -> None:
        with device.stream() as stream:
            cell = device.empty(1, "uint32").fill(0, stream=stream)
            kernel, wanted = self.load.modules[self.at]["step"], 0
            launch = kernel.configure(grid=1, block=1, stream=stream)
            for _ in range(self.chance.randrange(1, 6)):
                digit = self.chance.randrange(10)
                wanted = wanted * 10 + digit
                with self.call("launch"):
                    launch(cell, digit)
            with self.call("synchronize"):
                stream.synchronize()
            assert cell.tolist() == [wanted]
            self.part_with(cell.owner)

    def do_load_a_module(self, device: Any) -> None:
        with self.call("load"):
            loaded = device.load(STEP)
        cell = device.upload(array.array("I", [1]))
        loaded["step"].launch(cell, 2, grid=1, block=1)
        assert cell.tolist() == [12]
        self.part_with(loaded)

    def do_capture_and_replay(self, device: Any) -> None:
        cell, stream = device.upload(array.array("I", [0])), device.stream()
        with self.call("capture"), stream.capture() as graph:
            cell.fill(1, stream=stream)
            self.load.modules[self.at]["step"].launch(cell, 2, grid=1, block=1, stream=stream)
        for _ in range(2):
            with self.call("launch a graph"):
                graph.launch(stream)
        stream.synchronize()
        assert cell.tolist() == [12]
        self.part_with(graph)
        self.part_with(stream)

    def do_events(self, device: Any) -> None:
        with device.stream() as one, device.stream() as other, device.event() as event:
            given = self.numbers()
            memory = device.allocate(len(given) * 4, stream=one)
            try:
                memory.copy_from(given, stream=one)
                other.wait(one.record(event))
                back = device.empty(len(given), "uint32")
                back.copy_from(memory.view("uint32"), stream=other)
                with self.call("wait for an event"):
                    other.record().synchronize()
                assert back.tolist() == given.tolist()
            except BaseException:
                other.synchronize()  # the memory is freed in the order of the first stream, which does not wait
                raise
            self.part_with(memory)

    def do_export(self, device: Any) -> None:
        given = self.numbers()
        memory = device.allocate(len(given) * 4, kind=self.chance.choice(("device", "pinned", "managed")))
        memory.copy_from(given)
        capsule = memory.view("uint32").__dlpack__(max_version=(1, 0))
        seen = rawcuda.view(capsule)
        with self.call("close under an export"):
            memory.close()
        assert memory.closed and seen.tolist() == given.tolist()

    def do_pools_and_virtual_memory(self, device: Any) -> None:
        with device.memory_pool() as pool:
            memory = pool.allocate(256)
            memory.fill(7)
            assert memory.view("uint8")[255].item() == 7
            self.part_with(memory)
        with device.virtual_memory(1, reserve=1 << 24) as grown:
            grown.view("uint8")[:64].fill(3)
            with self.call("grow"):
                grown.grow(1 << 22)
            assert grown.view("uint8")[63].item() == 3

    def do_texture(self, device: Any) -> None:
        given = array.array("f", range(16))
        made = device.array((4, 4), "float32")
        made.copy_from(device.upload(given).reshape(4, 4))
        texture = device.texture(made)
        assert made[1, 1:3].tolist() == [5.0, 6.0]
        self.part_with(texture)
        self.part_with(made)

    def do_pickle(self, device: Any) -> None:
        given = self.numbers()
        with self.call("pickle"):
            back = pickle.loads(pickle.dumps(device.upload(given)))
        assert back.tolist() == given.tolist()

    def do_call_a_function(self, device: Any) -> None:
        called: list[int] = []
        with device.stream() as stream:
            for number in range(3):
                stream.call(called.append, number)
            with self.call("wait for a function"):
                stream.synchronize()
        assert called == [0, 1, 2]


def run(worker: Worker, end: float, main: bool) -> None:
    """Do rounds until the time is up; an interrupt ends one round."""
    load = worker.load
    while time.monotonic() < end and not load.errors:
        try:
            if main and NUMBER:
                signal.setitimer(signal.ITIMER_REAL, worker.chance.uniform(1e-4, 1e-2), 3e-4)
                load.inside = True
            worker.round()
            load.inside = False
        except KeyboardInterrupt:
            load.inside = False
            load.interrupts += 1
        except BaseException as error:
            load.inside = False
            import traceback

            load.errors.append("".join(traceback.format_exception(type(error), error, error.__traceback__))[-3000:])
            return


def interrupt(load: Load) -> Callable[[int, Any], None]:
    """Return a signal handler that raises inside the package, but not inside functions that C calls."""

    def handler(_: int, frame: Any) -> None:
        if not load.inside or frame is None or not frame.f_code.co_filename.startswith(PACKAGE_FILES):
            return
        while frame is not None:
            if frame.f_code.co_filename.startswith(NO_INTERRUPT) or frame.f_code.co_name == "__del__":
                return
            frame = frame.f_back
        load.inside = False
        raise KeyboardInterrupt

    return handler


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def settle(load: Load) -> None:
    """Release everything that nobody uses."""
    for _ in range(2):
        for device in load.devices:
            device.synchronize()
        gc.collect()
        module("ownership").drain()


def main() -> None:
    """Run the threads, watch the memory, and print the report."""
    mode = ("eager", "lazy", "random")[NUMBER % 3]
    library = module("emulator").Emulator(mode=mode, seed=NUMBER, devices=2)
    rawcuda.use(library)
    load = Load(library)
    if NUMBER:
        signal.signal(signal.SIGALRM, interrupt(load))
    first = Worker(load, -1 - NUMBER)
    for first.at in range(len(load.devices)):
        for name in first.names:  # modules are imported here: an interrupted import fails in threads that wait for it
            getattr(first, name)(load.devices[first.at])
    load.slowest.clear()
    Measured.longest.clear()
    started = time.monotonic()
    end = started + SECONDS
    samples: list[tuple[float, int]] = []
    opened: list[int] = []

    def watch() -> None:
        while time.monotonic() < end:
            time.sleep(min(1.0, SECONDS / 40))
            samples.append((time.monotonic() - started, resident()))
            opened.append(len(os.listdir("/proc/self/fd")))

    workers = [Worker(load, 1000 * NUMBER + n) for n in range(THREADS)]
    threads = [threading.Thread(target=run, args=(worker, end, False), daemon=True) for worker in workers[1:]]
    threads.append(threading.Thread(target=watch, daemon=True))
    for thread in threads:
        thread.start()
    run(workers[0], end, True)
    if NUMBER:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for thread in threads:
        thread.join(120)
    hanging = [thread.name for thread in threads if thread.is_alive()]
    while load.handed:
        load.handed.popleft().close()
    for loaded in load.modules:
        loaded.close()
    if not hanging:
        settle(load)
        for primary in module("gpu.core.context")._contexts.values():
            primary.forget()
    left = {kind: count for kind, count in library.live_handles().items() if count and kind != "context"}
    report = {
        "mode": mode, "rounds": dict(load.done), "interrupts": load.interrupts, "errors": load.errors,
        "hanging": hanging, "left": left, "exports": len(module("dlpack").outstanding),
        "kept": [repr(each) for each in library.kept_exceptions], "slowest": load.slowest,
        "locks": Measured.longest, "samples": samples, "opened": opened,
    }  # fmt: skip
    print(json.dumps(report), flush=True)
    os._exit(0)  # a thread that hangs is in the report


if __name__ == "__main__":
    main()
