"""`await stream`, `await event`, and waits with a time limit."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.driver import kernels
from tests.subject import rawcuda


def busy(stream):
    """Return an array that a stream fills after other work."""
    array = stream.device.empty(1000, "float32")
    for value in range(20):
        array.fill(value, stream=stream)
    return array


def test_a_stream_and_an_event_are_awaited(device):
    async def work():
        stream, event = device.stream(), device.event()
        array = busy(stream)
        event.record(stream)
        ticks = []

        async def others():
            for _ in range(3):
                ticks.append(await asyncio.sleep(0))

        await asyncio.gather(work_of(stream), work_of(event), others())
        assert stream.query() and event.query() and len(ticks) == 3
        return array.tolist()[0]

    async def work_of(thing):
        assert await thing is None

    assert asyncio.run(work()) == 19.0


def test_what_a_host_function_raised_is_raised_by_await(device):
    async def work():
        stream = device.stream()
        stream.call(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await stream
        await stream  # only once

    asyncio.run(work())


def test_a_wait_can_be_cancelled(device):
    stream, gate = device.stream(), device.allocate(4, kind="pinned")
    gate.fill(0)
    flag = gate.view("uint32")
    stream.wait_value(flag, 1)
    if stream.query():
        pytest.skip("this mode of the emulator runs a wait at once")

    async def work():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_until(stream), 0.05)

    async def _until(thing):
        await thing

    begin = time.monotonic()
    asyncio.run(work())
    with pytest.raises(TimeoutError, match=r"still has work after 0\.05 seconds"):
        stream.synchronize(timeout=0.05)
    assert time.monotonic() - begin < 60  # it does not wait for the flag
    flag[0] = 1
    stream.synchronize(timeout=60)
    assert stream.query()
    gate.close()


def test_a_wait_with_a_time_limit(device):
    stream = device.stream()
    array = busy(stream)
    event = stream.record()
    event.synchronize(timeout=60)
    stream.synchronize(timeout=60.0)
    stream.synchronize(timeout=None)
    assert array.tolist()[0] == 19.0
    for thing in (stream, event):
        for wrong in (-1, float("nan")):
            with pytest.raises(ValueError, match="timeout"):
                thing.synchronize(timeout=wrong)
        for wrong in ("soon", "5", True, [], object()):
            with pytest.raises(TypeError, match="timeout"):
                thing.synchronize(timeout=wrong)
    stream.close()
    with pytest.raises(rawcuda.Closed):
        stream.synchronize(timeout=1)
    with pytest.raises(rawcuda.Closed):
        asyncio.run(_await(stream))


@pytest.mark.parametrize("kind", ["stream", "event"])
@pytest.mark.parametrize("way", ["timeout", "await"])
def test_nothing_waits_after_the_query_that_says_that_all_is_done(device, kind, way):
    """Another thread may have queued work since, for which a wait would have no limit and block the event loop."""
    stream = device.stream()
    busy(stream)
    thing = stream if kind == "stream" else stream.record()
    heard = []
    with rawcuda.trace(heard):
        if way == "timeout":
            thing.synchronize(timeout=60)
        else:
            asyncio.run(_await(thing))
    names = {event.name for event in heard}
    assert f"cu{kind.title()}Query" in names and f"cu{kind.title()}Synchronize" not in names


async def _await(thing):
    await thing


def test_a_pipeline_of_two_streams(device):
    """Copies of one part while the kernel of the other runs."""
    module = device.load(kernels.ADD)
    assert module.names

    async def part(number):
        stream = device.stream()
        array = device.empty(100, "float32")
        array.fill(number, stream=stream)
        await stream
        return array.tolist()[0]

    async def work():
        return await asyncio.gather(*[part(number) for number in range(4)])

    assert asyncio.run(work()) == [0.0, 1.0, 2.0, 3.0]
