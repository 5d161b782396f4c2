"""The other process of test_sharing.py: it opens what it is sent, and does with it what it is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

from tests.subject import module, rawcuda

OPEN = {}  # what this process has opened, by the name that the test gave it

EMULATOR = []


def serve(connection, settings):
    """Do what arrives until the connection is closed."""
    if settings is None:
        rawcuda.use("nvidia")
    else:
        EMULATOR.append(module("emulator").Emulator(**settings))
        rawcuda.use(EMULATOR[0])
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, globals()[name](*arguments)))
        except Exception as error:
            connection.send(
                (False, (type(error).__name__, [kind.__name__ for kind in type(error).__mro__], str(error)))
            )


def open_memory(name, handle, timeout=30.0):
    memory = OPEN[name] = rawcuda.Memory.from_handle(handle, timeout=timeout)
    return memory.nbytes, memory.kind, memory.device.ordinal


def open_event(name, handle):
    OPEN[name] = rawcuda.Event.from_handle(handle)


def read(name, first=0, count=4):
    return OPEN[name].view()[first : first + count].tolist()


def fill(name, value, first=0, count=4):
    OPEN[name].view()[first : first + count].fill(value)
    rawcuda.synchronize()


def wait_and_read(event, name):
    """Wait in the order of a stream, without the CPU, and then read."""
    memory = OPEN[name]
    stream, host = memory.device.stream(), memory.device.allocate(4, kind="pinned")
    stream.wait(OPEN[event])
    rawcuda.copy(host, memory.view()[:4], stream=stream)
    stream.synchronize(timeout=60)
    return host.view().tolist()


def run_kernel(name, ptx, kernel):
    memory = OPEN[name]
    memory.device.load(ptx)[kernel].launch(memory.view("int32"), memory.nbytes // 4, grid=1, block=64)
    rawcuda.synchronize()


def fill_and_record(name, value, event):
    memory = OPEN[name]
    stream = memory.device.stream()
    memory.view().fill(value, stream=stream)
    stream.record(OPEN[event])
    OPEN["stream"] = stream


def record_behind_a_wait(event):
    stream, flag = OPEN[event].device.stream(), OPEN[event].device.allocate(4, kind="pinned")
    flag.fill(0)
    stream.wait_value(flag.view("uint32"), 1)
    stream.record(OPEN[event])
    OPEN["stream"], OPEN["flag"] = stream, flag


def close_before_it_is_reached(event):
    """Close an event while the stream on which it was recorded waits, and then let the stream go on."""
    record_behind_a_wait(event)
    stream, flag = OPEN.pop("stream"), OPEN.pop("flag")
    OPEN.pop(event).close()
    flag.view("uint32").fill(1)
    stream.synchronize(timeout=60)


def synchronize(event, timeout=None):
    OPEN[event].synchronize(timeout=timeout)
    return OPEN[event].query()


def share_again(name):
    OPEN[name].share()


def lend(kind):
    """Share something of this process, and return the handle as bytes."""
    device = rawcuda.Device(0)
    if kind == "event":
        handle = device.event().share()
    elif kind == "plain":
        handle = device.allocate(64).share()
    elif kind == "pool":
        pool = device.memory_pool(shareable=True)
        handle = pool.allocate(64).share()
    else:
        handle = device.virtual_memory(64, shareable=True).share()
    OPEN["lent"] = handle
    return bytes(handle)


def take_back(timeout):
    OPEN.pop("lent").close(timeout)


def close(*names):
    for name in names:
        OPEN.pop(name).close()
    rawcuda.synchronize()


def left():
    """Return the number of descriptors that are open here, and the live handles of the emulator."""
    rawcuda.synchronize()
    module("ownership").drain()
    return len(os.listdir("/proc/self/fd")), EMULATOR[0].live_handles() if EMULATOR else {}


def sleep(seconds):
    time.sleep(seconds)


def forks(name):
    """Fork a child that lives on when this process closes its memory."""
    pid = os.fork()
    if not pid:
        time.sleep(60)
        os._exit(0)
    OPEN.pop(name).close()
    return pid


class Worker:
    """A process with its own driver."""

    def __init__(self, settings):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, settings), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, name, *arguments):
        self.connection.send((name, arguments))

    def end(self):
        assert self.connection.poll(120), "the other process does not answer"
        went, result = self.connection.recv()
        if not went:
            raise Failed(*result)
        return result

    def do(self, name, *arguments):
        self.begin(name, *arguments)
        return self.end()

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def stop(self):
        self.connection.close()
        self.process.join(30)
        if self.process.is_alive():
            self.kill()


class Failed(Exception):
    """What an exception in the other process was: its type, the names of its bases, and its text."""

    def __init__(self, kind, bases, text):
        super().__init__(f"{kind}: {text}")
        self.kind, self.bases, self.text = kind, bases, text
