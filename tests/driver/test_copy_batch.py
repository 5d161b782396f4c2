"""copy_batch(): several copies in one call, checked before the first, and as if they were made one by one."""

import array
import random

import pytest

from tests.subject import module, rawcuda

errors = module("errors")
BATCHES = ("cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", "cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync_v2")


@pytest.fixture
def calls():
    """List the driver calls of a test."""
    made = []
    with rawcuda.trace(lambda event: made.append(getattr(event, "name", ""))):
        yield made


def batches(calls):
    return sum(name in BATCHES for name in calls)


def has_batches():
    return any(rawcuda.cu.libcuda.address(name) for name in BATCHES[:2])


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_runs_of_bytes_are_copied_together(device, calls, kind):
    with device.stream() as stream:
        sources = [device.allocate(64 * n, kind=kind) for n in range(1, 6)]
        targets = [device.allocate(64 * n) for n in range(1, 6)]
        for number, source in enumerate(sources):
            source.fill(number + 1, stream=stream)
        rawcuda.copy_batch(zip(targets, sources), stream=stream)
        assert batches(calls) == has_batches()
        stream.synchronize()
        for number, target in enumerate(targets):
            assert set(target.view().tolist()) == {number + 1}
        for memory in (*sources, *targets):
            memory.close()


def test_with_host_memory_it_is_complete_on_return(device, calls):
    texts = [array.array("i", range(n, n + 10)) for n in range(4)]
    there = [device.empty((10,), "int32") for _ in texts]
    back = [array.array("i", [0] * 10) for _ in texts]
    with device.stream() as stream:
        rawcuda.copy_batch(list(zip(there, texts)), stream=stream)
        for text in texts:
            text[0] = -1  # it is free to change
        rawcuda.copy_batch(tuple(zip(back, there)), stream=stream)
        assert [each.tolist() for each in back] == [list(range(n, n + 10)) for n in range(4)]
        assert batches(calls) == 2 * has_batches()


@pytest.mark.parametrize("pageable", ["first", "last"])
@pytest.mark.parametrize("layout", ["runs", "strided target", "strided host memory"])
@pytest.mark.parametrize("given", ["default", "per thread", "own"])
def test_with_host_memory_the_copies_of_other_memory_are_complete_too(device, given, layout, pageable):
    target, there = device.zeros((4, 8), "uint8"), device.zeros((4, 8), "uint8")
    source = device.allocate(32, kind="pinned").view().reshape(4, 8)
    text = rawcuda.view(bytearray(b"a" * 32)).reshape(4, 8)
    with device.stream() as own, source.memoryview() as elements:
        stream = {"default": None, "per thread": 2, "own": own}[given]
        source.fill(5)
        device.synchronize()
        pairs = [(there, text), (target, source)]
        if layout == "strided target":
            pairs[1] = (target[:, :4], source[:, :4])
        elif layout == "strided host memory":
            pairs[0] = (there[:, ::2], text[:, ::2])
        if pageable == "last":
            pairs.reverse()
        rawcuda.copy_batch(pairs, stream=stream)
        elements[0, 0] = 9  # it is free to change
        device.synchronize()
        assert target[0, 0].tolist() == 5


def test_an_object_with_only_an_array_is_read(device):
    numpy = pytest.importorskip("numpy")

    class Series:
        def __array__(self, dtype=None, copy=None):
            return numpy.arange(4, dtype="float32")

    with device.stream() as stream:
        there = [device.empty(4, "float32") for _ in range(2)]
        rawcuda.copy_batch([(each, Series()) for each in there], stream=stream)
        assert [each.tolist() for each in there] == [[0, 1, 2, 3]] * 2


def test_pitched_boxes_are_copied_together(device, calls):
    with device.stream() as stream:
        grids = [device.empty((4, 5, 8), "int16") for _ in range(6)]
        for number, grid in enumerate(grids):
            grid.fill(number, stream=stream)
        pairs = [(grids[n][1:3, :, 2:5], grids[n + 3][1:3, :, 2:5]) for n in range(2)]
        pairs += [(grids[2][0, :, :2], grids[5][0, :, :2]), (grids[0][0], grids[3][0])]
        rawcuda.copy_batch(pairs, stream=stream)
        stream.synchronize()
        assert grids[0][2, 1].tolist() == [0, 0, 3, 3, 3, 0, 0, 0] and grids[0][0].tolist() == [[3] * 8] * 5
        assert grids[1][1, 4].tolist() == [1, 1, 4, 4, 4, 1, 1, 1] and grids[1][3, 0].tolist() == [1] * 8
        assert grids[2][0, 3].tolist() == [5, 5, 2, 2, 2, 2, 2, 2]
        assert not has_batches() or batches(calls) == 1


@pytest.mark.parametrize("seed", range(6))
def test_it_is_as_if_each_were_copied_in_turn(device, seed):
    """Also where one copy depends on another, and where layouts, kinds of memory and streams are mixed."""
    chance = random.Random(seed)
    with device.stream() as own:
        for _ in range(4):
            kinds = [chance.choice(("device", "pinned", "managed", "host")) for _ in range(4)]
            arrays = [
                rawcuda.view(bytearray(144))
                if kind == "host"
                else device.allocate(144, kind=kind).view()  # the view keeps it
                for kind in kinds
            ]
            models = [bytearray(chance.randbytes(144) if hasattr(chance, "randbytes") else 144) for _ in arrays]
            for each, model in zip(arrays, models):
                each.copy_from(model)
            pairs, wanted = [], []
            for _ in range(chance.randrange(1, 7)):
                (a, x), (b, y) = chance.sample(list(zip(arrays, models)), 2)
                picks = [chance.choice((slice(0, 72), slice(72, 144), slice(0, 144, 2), slice(143, None, -2)))] * 2
                if chance.random() < 0.5:
                    picks[1] = chance.choice((slice(0, 72), slice(72, 144), slice(1, 144, 2)))
                pairs.append((a[picks[0]], b[picks[1]]))
                wanted.append((x, picks[0], y, picks[1]))
            for x, to, y, of in wanted:
                x[to] = y[of]
            stream = chance.choice((None, own, 2))
            device.synchronize()
            rawcuda.copy_batch(pairs, stream=stream)
            device.synchronize()
            assert [bytes(each.download().memoryview()) for each in arrays] == [bytes(model) for model in models]


def test_nothing_is_copied_if_one_pair_is_wrong(device, calls):
    with device.allocate(8) as a, device.allocate(8) as b, device.allocate(9) as c, device.stream() as stream:
        a.fill(1)
        b.fill(2)
        device.synchronize()
        closed = device.allocate(8)
        closed.close()
        for wrong, error, words in (
            ((a, c), ValueError, "pair 1: 8 bytes cannot hold 9"),
            ((a.view("int32"), b.view("float32")), TypeError, "pair 1: a copy converts nothing"),
            ((b"12345678", b), errors.ProtocolError, "pair 1: .*must not be written"),
            ((a, closed), errors.Closed, "pair 1: "),
            ((closed, a), errors.Closed, "pair 1: "),
            ((a.view()[:3], b.view()[:2]), ValueError, "pair 1: could not broadcast"),
            ((a, 5), TypeError, "pair 1: "),
            ((a,), TypeError, r"pair 1 must be \(dst, src\)"),
            ((a, b, c), TypeError, "pair 1 must be"),
            (None, TypeError, "pair 1 must be"),
            ("ab", TypeError, "pair 1 must be"),
        ):
            for where in (None, stream):
                with pytest.raises(error, match=words):
                    rawcuda.copy_batch([(a, b), wrong, (b, a)], stream=where)
        stream.synchronize()
        assert a.view().tolist() == [1] * 8 and b.view().tolist() == [2] * 8
        for stream, error in ((0, ValueError), (-1, ValueError), ("x", TypeError)):
            with pytest.raises(error):
                rawcuda.copy_batch([(a, b)], stream=stream)
        for order in ("later", None, 1):
            with pytest.raises(ValueError, match="'stream', 'during_api_call', 'any'"):
                rawcuda.copy_batch([(a, b)], source_order=order)
        with pytest.raises(TypeError):
            rawcuda.copy_batch(5)
        assert a.view().tolist() == [1] * 8
        rawcuda.copy_batch([])
        rawcuda.copy_batch([(a.view()[:0], b.view()[:0])])
        assert not batches(calls)


def test_host_memory_alone_needs_no_driver(python):
    told = python(
        """
        from tests.subject import rawcuda
        a, b = bytearray(4), bytearray(4)
        rawcuda.copy_batch([(a, b"1234"), (b, a)])
        print(a == b == b"1234")
        """,
        env={"RAWCUDA_DRIVER": "/nowhere/libcuda.so"},
        check=True,
    ).stdout
    assert told.strip() == "True"


def test_when_sources_are_read(device):
    with device.stream() as stream, device.allocate(64) as first, device.allocate(64) as second:
        text = bytearray(b"a" * 64)
        for order in ("stream", "any", "during_api_call"):
            source = device.register(text)
            rawcuda.copy_batch([(first, source), (second, text)], stream=stream, source_order=order)
            if order == "during_api_call":
                source.view().fill(0)  # it has been read
            else:
                stream.synchronize()
            assert first.view().tolist() == second.view().tolist() == list(b"a" * 64)
            source.close()
        rawcuda.copy_batch([(first, second.view()), (text, text)], stream=stream, prefer_overlap=True)
        stream.synchronize()


def test_in_a_capture(device):
    with device.stream() as stream, device.allocate(8) as a, device.allocate(8) as b, device.allocate(8) as c:
        for number, memory in enumerate((a, b, c)):
            memory.fill(number, stream=stream)
        with stream.capture() as graph:
            rawcuda.copy_batch([(a, b), (c, b)], stream=stream)
            with pytest.raises(ValueError, match="during_api_call"):
                rawcuda.copy_batch([(a, b), (c, b)], stream=stream, source_order="during_api_call")
        graph.launch(stream)
        stream.synchronize()
        assert a.view().tolist() == c.view().tolist() == [1] * 8
        graph.close()


def test_a_capture_contains_the_copies_before_one_that_it_refuses(device):
    a, b, c = (device.full(8, number, "uint8") for number in range(3))
    device.synchronize()
    with device.stream() as stream:
        with stream.capture() as graph, pytest.raises(errors.InvalidUse, match="overlapping sides"):
            rawcuda.copy_batch([(a, b), (c[1:], c[:-1]), (b, c)], stream=stream)
        assert len(graph.nodes) == 1
        graph.launch(stream)
        stream.synchronize()
        assert (a.tolist(), b.tolist()) == ([1] * 8, [1] * 8)
        graph.close()


def test_it_waits_for_the_streams_of_its_arrays(device):
    with device.stream() as first, device.stream() as second:
        arrays = [device.empty((1000,), "uint8") for _ in range(4)]
        for number, each in enumerate(arrays):
            each.fill(number, stream=first)
        rawcuda.copy_batch([(arrays[0], arrays[2]), (arrays[1], arrays[3])], stream=second)
        assert arrays[0].stream is second and arrays[1].stream is second
        assert arrays[0].tolist() == [2] * 1000 and arrays[1].tolist() == [3] * 1000


def test_it_waits_for_page_locked_memory_of_others_beside_host_memory(device):
    """Host memory is ready when the call returns, so it notes no stream, and one that it names stands for no other."""
    with device.allocate(4, kind="pinned") as memory, device.stream() as first, device.stream() as second:

        class Interface:
            __cuda_array_interface__ = {"version": 3, "shape": (4,), "typestr": "|u1", "data": (memory.ptr, False)}

        there, theirs = [device.full(4, 1, "uint8") for _ in range(3)], rawcuda.view(Interface())
        source, hosts = device.full(4, 5, "uint8"), [rawcuda.view(bytearray(4)) for _ in range(2)]
        memory.fill(0)
        device.synchronize()
        rawcuda.copy_batch(zip(hosts, there), stream=first)
        assert [each.stream for each in hosts] == [None, None]
        hosts[0].stream = first
        theirs.copy_from(source, stream=first)
        rawcuda.copy_batch([(hosts[0], there[0]), (there[2], theirs), (hosts[1], there[1])], stream=second)
        second.synchronize()
        assert there[2].tolist() == [5] * 4


def test_another_library_s_arrays_live_until_they_are_copied(device):
    import gc

    with device.stream() as stream:
        targets = [device.empty((1000,), "uint8") for _ in range(3)]
        made = [device.allocate(1000) for _ in range(3)]
        for each in made:
            each.fill(7, stream=stream)
        stream.synchronize()
        sources = [rawcuda.view(each, protocol="dlpack") for each in made]
        rawcuda.copy_batch(zip(targets, sources), stream=stream)
        for each in made:
            each.close()
        del sources, made, each
        gc.collect()
        stream.synchronize()
        assert all(target.tolist() == [7] * 1000 for target in targets)


@pytest.mark.parametrize("version", [(), ("_v2",), ("_v2", "Async")])
def test_with_older_drivers(device, monkeypatch, calls, version):
    """Without the second version of the functions, and without any."""
    loaded = device._primary.driver
    missing = [name for name in BATCHES if version and ("Async" in version or name.endswith(version))]
    real = type(loaded).has
    monkeypatch.setattr(type(loaded), "has", lambda self, name: name not in missing and real(self, name))
    with device.stream() as stream:
        arrays = [device.empty((4, 4), "int32") for _ in range(8)]
        for number, each in enumerate(arrays):
            each.fill(number, stream=stream)
        rawcuda.copy_batch([(arrays[n], arrays[n + 4]) for n in range(2)], stream=stream)
        rawcuda.copy_batch([(arrays[n][:, :2], arrays[n + 4][:, :2]) for n in (2, 3)], stream=stream)
        stream.synchronize()
        assert [arrays[n][0, 0].tolist() for n in range(4)] == [4, 5, 6, 7]
        assert [arrays[n][0, 3].tolist() for n in range(4)] == [4, 5, 2, 3]
        assert not {*missing} & {*calls}
