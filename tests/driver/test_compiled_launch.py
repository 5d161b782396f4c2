"""Launches written out for their signature: they refuse, and are refused, as the plain ones."""

import re

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

compiled_launch, errors = module("gpu.kernels.compiled_launch"), module("errors")


@pytest.fixture
def add(device):
    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        yield loaded["add"], stream


def arrays(device, *numbers):
    made = [device.empty((4,), "float32") for _ in range(3)]
    for array, number in zip(made, numbers):
        array.fill(number)
    return made


def test_a_launch_is_written_out_and_computes_the_same(device, add, monkeypatch):
    kernel, stream = add
    a, b, c = arrays(device, 1.0, 2.0)
    device.synchronize()
    results = []
    for enabled in (True, False):
        monkeypatch.setattr(compiled_launch, "enabled", enabled)
        launch = kernel.configure(grid=1, block=32, stream=stream)
        assert isinstance(launch, rawcuda.Launch) and (launch.__name__ == "launch") == enabled
        for _ in range(3):
            launch(a, b, c, 4)
        stream.synchronize()
        results.append(c.tolist())
    assert results == [[3.0] * 4] * 2


def test_every_kind_of_argument_is_taken_after_any_other(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=1, block=32, stream=stream)
    a, b, c = arrays(device, 1.0, 2.0)
    device.synchronize()
    for given in (a, a.ptr, rawcuda.view(a), a.owner, a, rawcuda.In(a), a.ptr, a):
        c.fill(0.0, stream=stream)
        launch(given, b, c, 4)
        stream.synchronize()
        assert c.tolist() == [3.0] * 4, given
        assert 1 <= len(launch._plan._pool) <= 2


def test_what_is_refused_is_refused_also_later(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=1, block=32, stream=stream)
    a, b, c = arrays(device, 1.0, 2.0)
    for _ in range(3):
        launch(a, b, c, 4)
    for wrong, error in (
        ((a, b, c), TypeError),
        ((a, b, c, 4, 4), TypeError),
        ((a, b, c, 4.0), TypeError),
        ((a, b, c, 2**32), ValueError),
        ((a, b, b"x", 4), ValueError),
        ((a, b, bytearray(16), 4), ValueError),
        ((a, b, c.broadcast_to((2, 4)), 4), ValueError),
    ):
        with pytest.raises(error):
            launch(*wrong)
    with pytest.raises(TypeError):
        launch(a, b, c, n=4)
    stream.synchronize()


def test_what_is_closed_meanwhile_is_seen(device, add):
    kernel, stream = add
    a, b, c = arrays(device, 1.0, 2.0)
    launch = kernel.configure(grid=1, block=32, stream=stream)
    launch(a, b, c, 4)
    c.owner.close()
    with pytest.raises(errors.Closed):
        launch(a, b, c, 4)
    stream.close()
    with pytest.raises(errors.Closed):
        launch(a, b, a, 4)


def test_numbers_that_are_only_equal_to_those_configured_before_are_refused(device, add):
    kernel, stream = add
    a, b, c = arrays(device, 1.0, 2.0)
    device.synchronize()
    for _ in range(2):
        kernel.launch(a, b, c, 4, grid=1, block=(32, 1, 1), stream=stream)
    for grid, block in ((1.0, (32, 1, 1)), (True, (32, 1, 1)), (1, (32.0, 1, 1)), (1, (32, True, 1))):
        with pytest.raises(TypeError):
            kernel.launch(a, b, c, 4, grid=grid, block=block, stream=stream)
    kernel.launch(a, b, c, 4, grid=[1], block=[32], stream=stream)
    stream.synchronize()
    assert c.tolist() == [3.0] * 4


def test_kept_launches_hold_neither_stream_nor_module(device):
    with device.load(kernels.ADD) as loaded:
        kernel = loaded["add"]
        a, b, c = arrays(device, 1.0, 2.0)
        with device.stream() as stream:
            kernel.launch(a, b, c, 4, grid=1, block=32, stream=stream)
        with pytest.raises(errors.Closed):
            kernel.launch(a, b, c, 4, grid=1, block=32, stream=stream)
    with device.stream() as stream, pytest.raises(errors.Closed):
        kernel.launch(a, b, c, 4, grid=1, block=32, stream=stream)


def test_a_copy_done_again_is_the_same_copy(device):
    a, b = device.empty((4,), "float32"), device.allocate(16, kind="pinned").view().reinterpret("float32")
    with device.stream() as stream:
        for number in (1.0, 2.0, 3.0, 4.0, 5.0):
            a.fill(number, stream=stream)
            rawcuda.copy(b, a, stream=stream)
            stream.synchronize()
            assert b.tolist() == [number] * 4
        b.owner.close()
        with pytest.raises(errors.Closed):
            rawcuda.copy(b, a, stream=stream)


def test_new_arrays_at_each_launch_and_one_that_is_closed(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=1, block=32, stream=stream)
    a, b, c = arrays(device, 1.0, 2.0)
    device.synchronize()
    for _ in range(12):
        x = a[:]
        launch(x, b, c, 4)
    stream.synchronize()
    assert c.tolist() == [3.0] * 4
    for _ in range(2):
        launch(a, b, c, 4)
    x = a[:]
    a.owner.close()
    for closed in (a, x):
        with pytest.raises(errors.Closed):
            launch(closed, b, c, 4)


def test_the_function_outlives_its_launch_and_sees_what_is_closed(device):
    a, b, c = arrays(device, 1.0, 2.0)
    for closing in ("stream", "module", "array"):
        loaded, stream = device.load(kernels.ADD), device.stream()
        with loaded, stream:
            launch = loaded["add"].configure(grid=1, block=32, stream=stream)
            x = device.upload(bytearray(16)).reinterpret("float32")
            for _ in range(3):
                launch(a, b, x, 4)
            stream.synchronize()
            {"stream": stream, "module": loaded, "array": x.owner}[closing].close()
            for _ in range(2):
                with pytest.raises(errors.Closed):
                    launch(a, b, x, 4)
            other = device.stream()  # what closes here is no business of the launch's
            other.close()
            with pytest.raises(errors.Closed):
                launch(a, b, x, 4)


def test_an_event_recorded_again_is_refused_once_either_is_closed(device):
    for first in (True, False):
        stream, event = device.stream(), device.event()
        for _ in range(3):
            assert stream.record(event) is event
        (stream if first else event).close()
        for _ in range(2):
            with pytest.raises(errors.Closed):
                stream.record(event)
        stream.close()
        event.close()


def test_a_token_is_true_until_something_is_closed_or_a_trace_begins(device):
    owned = module("owned")

    def trace():
        with rawcuda.trace([]):
            pass

    stream, loaded, other = device.stream(), device.load(kernels.GLOBALS), rawcuda.Device(0)
    with stream.capture() as graph:
        pass
    for end in (owned.invalidate, trace, graph.close, stream.close, loaded.close, other.close):
        before = owned.token()
        assert before and owned.token() is before
        end()
        end()
        assert not before and owned.token() and len(owned._tokens) == 1


def test_generated_source_has_nothing_of_the_input():
    known = set(
        """make plan pool pack seen None def launch MISSING nonlocal try if sound is not and _ready start ptr _place _ours
        owner _handle _theirs type int float entry pop storage call _run arguments code return failed append except UNFIT pass long_way""".split()
    )
    for kinds in ("", "m", "vifo", "mmmi" * 16):
        for in_context in (False, True):
            for alone in (False, True):
                words = set(re.findall(r"[A-Za-z_]\w*", compiled_launch._source(kinds, in_context, alone)))
                assert all(word in known or word.lstrip("a").isdigit() for word in words), words - known
