"""Real traces: streams, events and copies in the order of the driver calls, in each form."""

from __future__ import annotations

import base64
import ctypes
import io
import json
import time
import xml.etree.ElementTree as ElementTree
from array import array
from collections import Counter

import pytest

from tests.driver.kernels import ADD
from tests.subject import module, rawcuda

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def heard(device):
    """Trace two streams, of which one waits for the other."""
    with device.load(ADD) as module, device.stream() as first, device.stream() as second:
        kernel, x, out = module["add"], device.upload(array("f", range(64))), device.empty(64, "float32")
        with rawcuda.trace([]) as trace:
            kernel.launch(x, x, out, 64, grid=1, block=64, stream=first)
            event = first.record()
            second.wait(event)
            kernel.launch(out, x, out, 64, grid=1, block=64, stream=second)
            second.synchronize()
            assert out.tolist() == [3.0 * n for n in range(64)]
        event.close()
    return trace, f"{first!r} {second!r}"


def write(trace, to, form):
    writing = module("tools.trace_forms").writer(to, form)
    for event in trace.events:
        writing.event(event)
    writing.end()


def test_lanes_of_real_streams(heard):
    trace, _ = heard
    root = ElementTree.fromstring(trace._repr_svg_())
    texts = Counter(text.text for text in root.iter(SVG + "text"))
    assert texts["add"] == 2 and texts["1"] == 2 and texts["waits"] >= 1 and texts["this program"] == 1
    assert len([name for name in texts if name.startswith("stream 0x")]) == 2
    heights = [float(text.get("y")) for text in root.iter(SVG + "text") if text.text == "add"]
    assert heights[0] != heights[1]
    dashes = [path.get("stroke-dasharray") for path in root.iter(SVG + "path") if path.get("marker-end")]
    assert (
        dashes.count("none") == 1 and dashes.count("4 2") == texts["waits"]
    )  # one wait for an event, and each wait of the program


def test_what_telling_takes_is_not_the_calls(device, monkeypatch):
    shown, heard = module("driver").show, []
    monkeypatch.setattr(module("driver"), "show", lambda value: time.sleep(0.01) or shown(value))
    with rawcuda.trace(lambda call: heard.append((call.began_ns + call.elapsed_ns, time.perf_counter_ns()))):
        began = time.perf_counter_ns()
        rawcuda.cu.cuDriverGetVersion(ctypes.byref(ctypes.c_int()))
    ((ended, told),) = heard
    assert began < ended <= told - 10_000_000


def test_a_real_chrome_trace(heard, tmp_path):
    write(heard[0], tmp_path / "t.json", "chrome")
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    kinds = Counter(event["ph"] for event in events)
    assert kinds["s"] == kinds["f"] == 1 and kinds["X"] > 8
    for process in (1, 2):  # slices of one row are next to each other or nested, and never overlap partly
        for row in {event["tid"] for event in events if event["pid"] == process}:
            ends = []
            for slice_ in sorted(
                (event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == (process, row)),
                key=lambda event: (event["ts"], -event["dur"]),
            ):
                ends = [end for end in ends if end > slice_["ts"]]
                assert all(slice_["ts"] + slice_["dur"] <= end + 0.002 for end in ends), slice_
                ends.append(slice_["ts"] + slice_["dur"])
    launches = [event for event in events if event["name"] == "add"]
    assert len(launches) == 2 and launches[0]["tid"] != launches[1]["tid"]


def test_the_log_tells_each_call(heard):
    file = io.StringIO()
    write(heard[0], file, "calls")
    lines = file.getvalue().splitlines()
    launches = [line for line in lines if line[22:].startswith("cuLaunchKernel") and "INVALID_CONTEXT" not in line]
    assert len(launches) == 2 and len(lines) == len(heard[0].events) + 1
    assert sum(line[22:].startswith("cuStreamWaitEvent ") for line in lines) == 1
    (wait,) = [event for event in heard[0].events if event.name == "cuStreamWaitEvent"]
    assert wait.arguments["hStream"].startswith("CUstream(0x") and wait.arguments["hEvent"].startswith("CUevent(0x")
    times = [float(line[:10]) for line in lines[1:]]
    assert (
        times == sorted(times) or max(earlier - later for earlier, later in zip(times, times[1:])) < 5
    )  # outer calls end later


def test_a_view_of_device_memory_shows_its_layout_and_asks_nothing(device):
    view = device.empty((3, 4), "float32")[:, ::2]
    with rawcuda.trace([]) as trace:
        picture, html = view._repr_svg_(), view._repr_html_()
    assert trace.events == [] and "shape (3, 2)  strides (16, 8) bytes" in picture
    assert base64.b64encode(picture.encode()).decode() in html


def test_the_html_of_a_trace_has_no_control_characters(device):
    x = device.empty(4, "uint8")
    with rawcuda.trace([]) as trace, rawcuda.range("\x1b]0;title\x07<b>"):
        x.fill(1)
    assert "\x1b" not in trace._repr_html_() and r"\x1b]0;title\x07&lt;b&gt;" in trace._repr_html_()


def test_memory_of_the_device_is_explained(device):
    view = device.empty((3, 4), "float32")
    said = str(rawcuda.explain(view))
    assert "__cuda_array_interface__    yes" in said and "kDLCUDA" in said and "stream=-1" in said
    assert "the memory is, or may be, a device's" in said and said.count(f"{view.ptr:#x}") >= 3
    stream = str(rawcuda.explain(rawcuda.Stream.legacy))
    assert "the legacy default stream" in stream and "view() accepts this object as stream=" in stream


def test_the_question_for_the_context_is_a_call_too(device):
    events, driver = [], module("driver").current()
    with device.current():
        before = driver.current_context()
        with rawcuda.trace(events.append):
            assert driver.current_context() == before == device._primary.handle
    assert [event.name for event in events] == ["cuCtxGetCurrent"]


@pytest.mark.parametrize("form", ["log", "chrome"])
def test_a_trace_without_stderr_goes_nowhere(device, monkeypatch, form):
    """As in pythonw, or where stderr was closed: the end of the block raised AttributeError."""
    monkeypatch.setattr("sys.stderr", None)
    with rawcuda.trace(form=form):
        device.empty(4, "int32").fill(1)
