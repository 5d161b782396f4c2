"""Waiting for values in memory and writing them in the order of a stream, and the attributes of a stream."""

import array
import threading

import pytest

from tests.subject import rawcuda


def pinned(device, dtype="uint32", value=0):
    view = device.allocate(8, kind="pinned").view(dtype)[:1]
    view.memoryview()[0] = value
    return view


def test_a_stream_waits_for_a_value_that_another_one_writes(device):
    seen = []
    with device.stream() as one, device.stream() as two:
        flag = device.upload(array.array("I", [0]))
        device.synchronize()
        one.wait_value(flag, 5)
        one.call(seen.append, "reached")
        assert one.query() is False and not seen
        two.write_value(flag, 4)
        two.synchronize()
        assert one.query() is False and not seen
        two.write_value(flag, 6)
        one.synchronize()
        assert seen == ["reached"] and flag.tolist() == [6]


def test_the_host_can_write_the_value(device):
    seen, flag = [], pinned(device)
    with device.stream() as stream:
        stream.wait_value(flag, 1, "==")
        stream.call(seen.append, "reached")
        assert stream.query() is False
        thread = threading.Timer(0.05, lambda: flag.memoryview().__setitem__(0, 1))
        thread.start()
        stream.synchronize()
        thread.join()
        assert seen == ["reached"]


def test_a_value_that_is_there_already(device):
    flag = pinned(device, value=9)
    with device.stream() as stream:
        stream.wait_value(flag, 9, "==")
        stream.synchronize()


HIGHEST = 2**32 - 1


@pytest.mark.parametrize(
    "how, value, meets, fails",
    [
        (">=", 5, (5, 6, 5 + 2**31 - 1), (4, 0, 5 + 2**31)),
        (">=", HIGHEST, (HIGHEST, 0, 7), (HIGHEST - 1, 2**31 - 1)),  # it is cyclic
        ("==", 5, (5,), (4, 6, 5 + 2**31)),
        ("&", 0b110, (0b010, 0b100, HIGHEST), (0, 0b1001)),
        ("nor", 0b110, (0, 1, HIGHEST - 8), (HIGHEST, HIGHEST - 0b110)),
        ("geq", 1, (1,), (0,)),
        ("eq", 1, (1,), (2,)),
        ("and", 1, (3,), (2,)),
    ],
)
def test_the_conditions(device, how, value, meets, fails):
    flag = pinned(device)
    with device.stream() as stream:
        for number in meets:
            flag.memoryview()[0] = number
            stream.wait_value(flag, value, how)
            stream.synchronize()
        for number in fails:
            flag.memoryview()[0] = number
            stream.wait_value(flag, value, how)
            assert not any(stream.query() for _ in range(3)), number
            flag.memoryview()[0] = meets[0]
            stream.synchronize()


@pytest.mark.parametrize(
    "dtype, value",
    [("uint32", HIGHEST), ("int32", -1), ("int32", -(2**31)), ("uint64", 2**64 - 1), ("int64", -(2**63))],
)
def test_all_widths_and_signs(device, dtype, value):
    flag = device.empty(1, dtype)
    flag.fill(0)
    with device.stream() as stream:
        device.synchronize()
        stream.write_value(flag, value)
        stream.wait_value(flag, value, "==")
        stream.wait_value(flag, value)
        stream.synchronize()
        assert flag.tolist() == [value]


def test_every_kind_of_place(device):
    memory = device.allocate(16)
    memory.fill(0)
    device.synchronize()
    with device.stream() as stream:
        stream.write_value(memory, 1)
        stream.write_value(memory.ptr + 4, 2)
        stream.write_value(memory.view("uint32")[2], 3)
        stream.write_value(memory.ptr + 8, 3 + (4 << 32), bits=64)
        stream.wait_value(memory, 1, "==")
        stream.wait_value(memory, 1 + (2 << 32), "==", bits=64)
        stream.wait_value(memory.ptr + 12, 4, "==")
        stream.synchronize()
    assert memory.view("uint32").tolist() == [1, 2, 3, 4]


def test_batch(device):
    values = device.upload(array.array("I", [0, 0, 0]))
    device.synchronize()
    with device.stream() as stream, device.stream() as other:
        stream.batch([("write", values[0], 1), ("wait", values[1], 2, "=="), ("barrier",), ("write", values[2], 3)])
        assert stream.query() is False
        other.batch(iter([("wait", values[0], 1), ("write", values[1], 2)]))
        stream.synchronize()
        stream.batch([])
        wide = device.empty(1, "int64")
        stream.batch([("write", wide, -7), ("wait", wide, -7, "==")])
        stream.synchronize()
    assert values.tolist() == [1, 2, 3] and wide.tolist() == [-7]


def test_an_operation_that_is_none_is_named(device):
    value = device.upload(array.array("I", [0]))
    with device.stream() as stream:
        for operation, words in (
            (("foo", value, 1), "'foo' with 2 more items"),
            (("write", value), "'write' with 1 more item"),
        ):
            with pytest.raises(ValueError, match=f"operation 1 of the batch is {words}: give "):
                stream.batch([("write", value, 1), operation])
        stream.synchronize()
    assert value.tolist() == [0]


def test_in_a_graph(device):
    values = device.upload(array.array("I", [0, 0]))
    device.synchronize()
    with device.stream() as stream, device.stream() as other:
        with stream.capture() as graph:
            stream.wait_value(values[0], 1)
            stream.write_value(values[1], 5)
        assert values.tolist() == [0, 0]
        graph.launch(stream)
        assert stream.query() is False
        other.write_value(values[0], 1)
        stream.synchronize()
        graph.close()
    assert values.tolist() == [1, 5]


@pytest.mark.parametrize(
    "where, value, error, words",
    [
        (lambda d: d.empty(1, "float32"), 1, TypeError, "elements of float32"),
        (lambda d: d.empty(1, "uint16"), 1, TypeError, "elements of uint16"),
        (lambda d: d.empty(2, "uint32"), 1, ValueError, "has 2 elements"),
        (lambda d: d.empty(0, "uint32"), 1, ValueError, "has 0 elements"),
        (lambda d: d.allocate(3), 1, ValueError, "does not fit into 3 bytes"),
        (lambda d: d.allocate(8).ptr + 2, 1, ValueError, "multiple of 4"),
        (lambda d: 0, 1, ValueError, "not an address"),
        (lambda d: 2**64, 1, ValueError, "not an address"),
        (lambda d: -4, 1, ValueError, "not an address"),
        (lambda d: True, 1, (TypeError, ValueError), None),
        (lambda d: None, 1, TypeError, None),
        (lambda d: array.array("I", [1]), 1, ValueError, "host memory"),
        (lambda d: d.allocate(4, kind="managed"), 1, ValueError, "managed"),
        (lambda d: d.empty(1, "uint32"), 2**32, ValueError, "does not fit into 32 bits"),
        (lambda d: d.empty(1, "int64"), 2**64, ValueError, "does not fit into 64 bits"),
        (lambda d: d.empty(1, "int32"), -(2**31) - 1, ValueError, "does not fit"),
        (lambda d: d.empty(1, "int32"), 1.0, TypeError, "must be an int"),
        (lambda d: d.empty(1, "int32"), True, TypeError, "must be an int"),
        (lambda d: 0x10, 1, rawcuda.InvalidUse, None),
    ],
)
def test_bad_places_and_values(device, where, value, error, words):
    with device.stream() as stream:
        place = where(device)
        for use in (stream.wait_value, stream.write_value):
            with pytest.raises(error, match=words):
                use(place, value)
        with pytest.raises(error, match="operation 1 of the batch" if error is not rawcuda.InvalidUse else None):
            stream.batch([("barrier",), ("write", place, value)])
        assert stream.query() is True, "something was queued"


def test_bits_may_be_an_int_of_numpy(device):
    """The width of a value was computed with it, and overflowed."""
    numpy = pytest.importorskip("numpy")
    with device.stream() as stream, device.allocate(16) as memory:
        memory.fill(0, stream=stream)
        stream.write_value(memory, -2, bits=numpy.int64(64))
        stream.write_value(memory.ptr + 8, 3, bits=numpy.uint8(32))
        stream.synchronize()
        assert memory.view("int64").tolist() == [-2, 3]


def test_other_bad_arguments(device):
    flag = device.empty(1, "uint32")
    with device.stream() as stream:
        for how in (">", "", None, 0, "EQ"):
            with pytest.raises(ValueError, match="a condition is one of"):
                stream.wait_value(flag, 1, how)
        for bits in (16, 64):
            with pytest.raises(ValueError, match="bits="):
                stream.wait_value(flag, 1, bits=bits)
        for place in (flag, flag.ptr):
            for bits in ("32", 32.0, True):
                with pytest.raises(TypeError, match="bits must be an int"):
                    stream.wait_value(place, 1, bits=bits)
        with pytest.raises(rawcuda.ProtocolError, match="read-only"):
            stream.write_value(rawcuda.view(flag, writable=False), 1)
        for batch in (
            [3],
            ["wait"],
            [()],
            [("wait",)],
            [("stop", flag, 1)],
            [("write", flag, 1, ">=")],
            [("barrier", 1)],
        ):
            with pytest.raises((TypeError, ValueError), match="operation 0 of the batch"):
                stream.batch(batch)
        with pytest.raises(ValueError, match="at most 256"):
            stream.batch([("barrier",)] * 257)
        with pytest.raises(TypeError):
            stream.batch(None)
        if not device.attribute("CAN_FLUSH_REMOTE_WRITES"):
            with pytest.raises(rawcuda.Unsupported, match="CAN_FLUSH_REMOTE_WRITES"):
                stream.wait_value(flag, 1, flush=True)
        assert stream.query() is True
    for use in (stream.wait_value, stream.write_value):
        with pytest.raises(rawcuda.Closed):
            use(flag, 1)
    with pytest.raises(rawcuda.Closed):
        stream.batch([("write", flag, 1)])


def test_memory_of_another_device(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    flag = rawcuda.Device(1).upload(array.array("I", [0]))
    rawcuda.synchronize()
    with device.stream() as stream:
        for use in (stream.wait_value, stream.write_value):
            with pytest.raises(ValueError, match="enable_peer_access"):
                use(flag, 1)
        if device.can_reach(1):
            far = rawcuda.Device(1)
            with device.peer_access(1), far.stream() as there, far.allocate(4, stream=there) as ordered:
                there.synchronize()
                with pytest.raises(ValueError, match="set_access"):  # its pool decides, not the access between devices
                    stream.write_value(ordered, 1)
            with device.peer_access(1):
                stream.write_value(flag, 3)
                stream.wait_value(flag, 3)
                stream.synchronize()
            assert flag.tolist() == [3]


def test_a_device_without_the_feature_names_the_attribute(device, monkeypatch):
    wide, narrow = device.empty(1, "int64"), device.empty(1, "int32")
    real = type(device).attribute
    monkeypatch.setattr(type(device), "attribute", lambda self, which: 0 if "CAN_USE" in which else real(self, which))
    with device.stream() as stream:
        with pytest.raises(rawcuda.Unsupported, match="CAN_USE_64_BIT_STREAM_MEM_OPS"):
            stream.write_value(wide, 1)
        with pytest.raises(rawcuda.Unsupported, match="CAN_USE_STREAM_WAIT_VALUE_NOR"):
            stream.wait_value(narrow, 1, "nor")


@pytest.mark.emulator_only("a GPU waits for ever")
def test_a_wait_that_nobody_can_end(python):
    result = python("""
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        flag = device.allocate(4)
        flag.fill(0)
        device.synchronize()
        stream = device.stream()
        stream.wait_value(flag, 1)
        try:
            stream.synchronize()
        except rawcuda.ContextLost as error:
            print(error)
    """)
    assert result.returncode == 0 and "nothing is left that could write this value" in result.stdout, result


# -- attributes


def test_attributes(device):
    with device.stream(priority=-1) as stream, device.stream() as other:
        attributes = stream.attributes
        assert attributes.synchronization_policy == "auto" and attributes.access_policy_window is None
        assert attributes.mem_sync_domain == "default" and attributes.priority == stream.priority
        for policy in ("spin", "yield", "blocking_sync", "auto"):
            attributes.synchronization_policy = policy
            assert stream.attributes.synchronization_policy == policy
        attributes.mem_sync_domain = "remote"
        assert attributes.mem_sync_domain == "remote"
        attributes.mem_sync_domain_map = (0, 0)
        assert attributes.mem_sync_domain_map == (0, 0)
        attributes.synchronization_policy = "yield"
        other.attributes.copy_from(stream)
        assert other.attributes.synchronization_policy == "yield" and other.attributes.mem_sync_domain == "remote"
        assert "attributes of <Stream" in repr(attributes)
    with pytest.raises(rawcuda.Closed):
        attributes.priority
    with pytest.raises(rawcuda.Closed):
        stream.attributes


def test_access_policy_window(device):
    if not device.attribute("MAX_ACCESS_POLICY_WINDOW_SIZE"):
        pytest.skip("the device has no access policy windows")
    array_ = device.empty((4, 8), "float32")
    with device.stream() as stream:
        attributes = stream.attributes
        attributes.set_access_policy_window(array_, hit_ratio=0.5)
        window = attributes.access_policy_window
        assert window == (array_.ptr, 128, 0.5, "persisting", "streaming") and window.hit_ratio == 0.5
        attributes.access_policy_window = None
        assert attributes.access_policy_window is None
        attributes.access_policy_window = window._replace(hit="normal", miss="normal")
        assert attributes.access_policy_window.hit == "normal"
        for wrong, error in (
            (lambda: attributes.set_access_policy_window(array_, hit_ratio=1.5), ValueError),
            (lambda: attributes.set_access_policy_window(array_, hit_ratio="1"), TypeError),
            (lambda: attributes.set_access_policy_window(array_, miss="persisting"), ValueError),
            (lambda: attributes.set_access_policy_window(array_, hit="always"), ValueError),
            (lambda: attributes.set_access_policy_window(array_[:, 1]), ValueError),
            (lambda: attributes.set_access_policy_window(array_[:0]), ValueError),
            (lambda: attributes.set_access_policy_window(b"host"), ValueError),
            (lambda: setattr(attributes, "access_policy_window", 7), TypeError),
            (lambda: setattr(attributes, "access_policy_window", {"memory": array_, "hits": 1}), TypeError),
            (lambda: setattr(attributes, "access_policy_window", window._replace(nbytes=0)), ValueError),
            (lambda: setattr(attributes, "access_policy_window", window._replace(nbytes=2**40)), ValueError),
        ):
            with pytest.raises(error):
                wrong()
        assert attributes.access_policy_window.hit == "normal"


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("synchronization_policy", "fast", ValueError),
        ("synchronization_policy", 2, ValueError),
        ("mem_sync_domain", "near", ValueError),
        ("mem_sync_domain_map", 3, TypeError),
        ("mem_sync_domain_map", (0, 256), ValueError),
        ("mem_sync_domain_map", (0, 255), ValueError),
        ("priority", 1, ValueError),
        ("priority", 2**40, ValueError),
        ("priority", "high", TypeError),
        ("priority", True, TypeError),
        ("synchronisation", "spin", AttributeError),
        ("handle", 3, AttributeError),
    ],
)
def test_bad_attributes(device, name, value, error):
    with device.stream() as stream, pytest.raises(error):
        setattr(stream.attributes, name, value)


def test_a_default_stream_takes_the_attributes_of_another_stream(device):
    with device.current(), device.stream() as stream, device.stream() as other:
        other.attributes.synchronization_policy = "yield"
        for target in (rawcuda.Stream.legacy, rawcuda.Stream.from_handle(stream.handle)):
            before = target.attributes.synchronization_policy
            target.attributes.copy_from(other)
            assert target.attributes.synchronization_policy == "yield"
            target.attributes.synchronization_policy = before


def test_attributes_of_another_devices_stream(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    with device.stream() as one, rawcuda.Device(1).stream() as two:
        with pytest.raises(rawcuda.InvalidUse):
            one.attributes.copy_from(two)
        with pytest.raises(TypeError, match="copied from a Stream"):
            one.attributes.copy_from(3)
