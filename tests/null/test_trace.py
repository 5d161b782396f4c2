"""Traces: the log, JSON lines, the Chrome trace; and without a listener, no events are made."""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import threading
import time

import pytest

from tests.null.producers import Tensor
from tests.subject import module, rawcuda

tracing, trace_forms = module("tracing"), module("tools.trace_forms")
trace_effects = module("tools.trace_effects")
Call, Step, emit = tracing.Call, tracing.Step, tracing.emit
LONG, OTHER = "CUstream(0x5a00000000000200)", "CUstream(0x5a00000000000280)"


def some_work():
    """Emit the events of a small program: two streams, one waiting for the other, and a capsule."""
    emit(Call("cuMemAlloc_v2", {"dptr": "&0x2000000000100", "bytesize": "400"}, "CUDA_SUCCESS", 12_345))
    emit(
        Call(
            "cuMemcpyHtoDAsync_v2",
            {"dstDevice": "0x2000000000100", "ByteCount": "400", "hStream": "CUstream(0x1)"},
            "CUDA_SUCCESS",
            80_000,
        )
    )
    emit(
        Call(
            "cuLaunchKernelEx",
            {"f": "<Kernel saxpy>", "gridDim": "(4, 1, 1)", "hStream": LONG},
            "CUDA_SUCCESS",
            900_000,
        )
    )
    emit(Call("cuEventRecord", {"hEvent": "CUevent(0x77)", "hStream": LONG}, "CUDA_SUCCESS", 5_000))
    emit(Call("cuStreamWaitEvent", {"hStream": OTHER, "hEvent": "CUevent(0x77)", "Flags": "0"}, "CUDA_SUCCESS", 5_000))
    emit(Call("cuStreamWaitEvent", {"hStream": OTHER, "hEvent": "CUevent(0x99)", "Flags": "0"}, "CUDA_SUCCESS", 5_000))
    emit(Call("cuStreamQuery", {"hStream": OTHER}, "CUDA_ERROR_NOT_READY", 700))
    emit(Call("cuMemFree_v2", {"dptr": "6"}, "CUDA_ERROR_INVALID_VALUE", 700))
    emit(Step("dlpack", "export", "dltensor, device (1, 0)", 0x7F0000001000))
    emit(Step("dlpack", "deleter(0x7f0000001000)", "called by the consumer", 0x7F0000001000))


class Terminal(io.StringIO):
    """A text file that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("WT_SESSION", "1")
    yield
    assert tracing.listeners == []


# -- the log


def test_the_list_of_calls_is_aligned():
    file = io.StringIO()
    with rawcuda.trace(file, form="calls"):
        some_work()
    header, *lines = file.getvalue().splitlines()
    assert header == f"{'at ms':>10}{'took us':>10}  what" and len(lines) == 10
    assert all(line[20:22] == "  " and line[22] != " " and line == line.rstrip() for line in lines)
    assert lines[0] == f"{'0.000':>10}{'12.3':>10}  cuMemAlloc_v2                 dptr=&0x2000000000100, bytesize=400"
    assert {
        line.index(line[22:].split(maxsplit=1)[1], 23)
        for line in lines
        if len(line[22:].split()[0]) < 30 and "dlpack" not in line
    } == {52}
    assert lines[6].endswith("-> CUDA_ERROR_NOT_READY") and lines[7].endswith("-> CUDA_ERROR_INVALID_VALUE")
    assert "SUCCESS" not in file.getvalue() and "\033" not in file.getvalue()
    assert "dlpack: export" in lines[8] and "tensor 0x7f0000001000, dltensor" in lines[8]
    assert lines[9].count("0x7f0000001000") == 1  # not reported twice


def colours_in(file):
    with rawcuda.trace(file, form="calls"):
        some_work()
    return "\033[" in file.getvalue()


def test_a_terminal_gets_colours_and_nothing_else_does(monkeypatch):
    assert colours_in(Terminal()) and not colours_in(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")  # empty counts as unset
    assert colours_in(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours_in(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not colours_in(Terminal())


def test_colours_leave_the_alignment_alone():
    import re

    coloured, plain = Terminal(), io.StringIO()
    events = []
    with rawcuda.trace(events):
        some_work()
    for file in (coloured, plain):
        writer = trace_forms.writer(file, "calls")
        for event in events:
            writer.event(event)
    assert re.sub("\033\\[[0-9;]*m", "", coloured.getvalue()) == plain.getvalue()
    failed = [line for line in coloured.getvalue().splitlines() if "INVALID_VALUE" in line]
    assert "\033[31;1m" in failed[0] and coloured.getvalue().count("\033[31;1m") == 1


def test_other_threads_are_numbered():
    file = io.StringIO()
    with rawcuda.trace(file, form="calls"):
        emit(Step("p", "here"))
        for _ in range(2):
            thread = threading.Thread(target=lambda: emit(Step("p", "there")))
            thread.start()
            thread.join()
    lines = file.getvalue().splitlines()[1:]
    assert "thread" not in lines[0] and lines[1].endswith("[thread 2]")


@pytest.mark.parametrize("form", ["log", "calls", "jsonl", "chrome"])
def test_threads_write_one_after_the_other(form):
    """Before CPython 3.13, a text file to which threads write at once loses text, and gets other memory's bytes."""

    class File(io.TextIOWrapper):
        inside = most = 0

        def write(self, text):
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.001)
            self.inside -= 1
            return super().write(text)

    def work():
        begin.wait()
        for _ in range(5):
            emit(Step("p", "what", "x" * 5))

    file, begin = File(io.BytesIO(), "utf-8"), threading.Barrier(4)
    with rawcuda.trace(file, form=form):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    file.flush()
    assert file.most == 1 and file.buffer.getvalue().count(b"xxxxx") == 20


def test_no_lock_is_held_while_an_object_of_the_user_writes():
    """Its write() may wait for a lock, such as that of a logging handler, whose holder makes a call that is traced."""

    class File(io.StringIO):
        def write(self, text):
            if threading.current_thread() is first:
                other.start()
                other.join(10)
                waited.append(other.is_alive())
            return super().write(text)

    def work():
        emit(Step("p", "what", "x"))

    waited, first, other = [], threading.Thread(target=work), threading.Thread(target=work)
    with rawcuda.trace(File(), form="jsonl"):
        first.start()
        first.join(20)
        other.join(20)
    assert waited == [False]


def test_what_a_thread_would_write_after_the_end_is_left_out(tmp_path):
    writer = trace_forms.writer(tmp_path / "t.json", "chrome")
    writer.event(Step("p", "before"))
    writer.end()
    writer.event(Step("p", "after"))
    assert [each["name"] for each in json.loads((tmp_path / "t.json").read_text())][-1] == "p: before"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork()")
@pytest.mark.filterwarnings("ignore:.*fork")  # in a process with threads
@pytest.mark.parametrize("form", ["jsonl", "chrome"])
def test_a_child_of_a_fork_neither_repeats_nor_ends_a_trace(tmp_path, form):
    with rawcuda.trace(tmp_path / "trace", form=form) as trace:
        emit(Step("p", "before"))
        child = os.fork()
        if not child:
            try:
                trace.__exit__(None, None, None)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        emit(Step("p", "after"))
    text = (tmp_path / "trace").read_text()
    assert text.count("before") == text.count("after") == 1
    if form == "chrome":
        assert json.loads(text)


def test_the_log_is_folded_by_statement():
    """Each statement is shown once, with its calls; those that every operation makes are counted, unless they fail."""
    file = io.StringIO()
    usual = Call("cuCtxGetCurrent", {"pctx": "&CUcontext(0x0)"}, "CUDA_SUCCESS", 700)
    asked = Call("cuPointerGetAttribute", {"ptr": "5"}, "CUDA_ERROR_INVALID_VALUE", 700)
    with rawcuda.trace(file):
        some_work()
        emit(usual)
        emit(asked)
        emit(Call("cuCtxGetCurrent", {}, "CUDA_ERROR_UNKNOWN", 700))
    lines = file.getvalue().splitlines()
    assert [line.split("  ", 1)[1] for line in lines if line.startswith("test_trace.py:")][-1] == (
        'emit(Call("cuCtxGetCurrent", {}, "CUDA_ERROR_UNKNOWN", 700))'
    )
    assert lines[-2].endswith("-> CUDA_ERROR_UNKNOWN") and "cuPointerGetAttribute" not in file.getvalue()
    assert lines[-1] == '2 calls about contexts and addresses are not shown: form="calls" shows every call'
    every = io.StringIO()
    with rawcuda.trace(every, form="calls"):
        emit(usual)
        emit(asked)
    assert len(every.getvalue().splitlines()) == 3


def test_a_trace_without_a_block_says_so():
    trace = rawcuda.trace()
    assert "write `with trace():`" in repr(trace)
    with pytest.warns(RuntimeWarning, match="no block began it: write `with trace"):
        del trace
        gc.collect()


def test_a_trace_shows_what_it_recorded():
    with rawcuda.trace([]) as trace:
        assert repr(trace) == "<trace, running: 0 driver calls and 0 protocol steps; print() lists them>" == str(trace)
        some_work()
    assert repr(trace) == "<trace, ended: 8 driver calls and 2 protocol steps; print() lists them>"
    assert len(str(trace).splitlines()) == 11 and "cuMemFree_v2" in str(trace)
    with rawcuda.trace(io.StringIO()) as trace:
        some_work()
    assert repr(trace) == str(trace) == "<trace, ended; it keeps no events: trace([]) keeps them>"


# -- for programs


def test_json_lines():
    file = io.StringIO()
    with rawcuda.trace(file, form="jsonl"):
        some_work()
    said = [json.loads(line) for line in file.getvalue().splitlines()]
    assert said[0] == {
        "kind": "call",
        "at_ns": 0,
        "thread": 1,
        "name": "cuMemAlloc_v2",
        "arguments": {"dptr": "&0x2000000000100", "bytesize": "400"},
        "result": "CUDA_SUCCESS",
        "elapsed_ns": 12345,
    }
    assert {key: said[8][key] for key in ("kind", "protocol", "what", "tensor")} == {
        "kind": "step",
        "protocol": "dlpack",
        "what": "export",
        "tensor": 0x7F0000001000,
    }
    assert len(said) == 10 and all(isinstance(each["at_ns"], int) for each in said)


def chrome(tmp_path):
    with rawcuda.trace(tmp_path / "t.json"):
        some_work()
    return (tmp_path / "t.json").read_text()


def test_a_chrome_trace_keeps_the_rules_of_its_format(tmp_path):
    events = json.loads(chrome(tmp_path))
    assert {event["ph"] for event in events} == {"M", "X", "i", "s", "f"}
    assert all({"ph", "name", "pid", "tid"} <= set(event) for event in events)
    assert all("ts" in event for event in events if event["ph"] != "M") and all(
        event["dur"] > 0 for event in events if event["ph"] == "X"
    )
    assert all(event["s"] == "t" for event in events if event["ph"] == "i")
    calls = [event for event in events if event["ph"] == "X" and event["pid"] == 1]
    assert calls[0]["dur"] == pytest.approx(12.345) and calls[0]["args"]["result"] == "CUDA_SUCCESS"  # microseconds
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {names[event["pid"], event["tid"]] for event in events if event["ph"] == "X"} == {
        "thread 1",
        "legacy default stream",
        "stream 0x5a00000000000200",
        "stream 0x5a00000000000280",
    }


def test_in_a_chrome_trace_an_arrow_leads_from_a_record_to_its_wait(tmp_path):
    events = json.loads(chrome(tmp_path))
    (start,), (end,) = [[event for event in events if event["ph"] == kind] for kind in "sf"]
    assert start["id"] == end["id"] and start["cat"] == end["cat"] and end["bp"] == "e" and start["tid"] != end["tid"]
    for point, name in (
        (start, "EventRecord"),
        (end, "StreamWaitEvent"),
    ):  # each is inside the slice to which it belongs
        inside = [
            event
            for event in events
            if event["ph"] == "X"
            and event["tid"] == point["tid"]
            and event["pid"] == point["pid"]
            and event["ts"] <= point["ts"] <= event["ts"] + event["dur"]
        ]
        assert name in [event["name"] for event in inside]


def test_in_a_chrome_trace_slices_of_a_row_do_not_cross_and_no_time_is_negative(tmp_path):
    """Two threads submit work to one stream at the same time, and the call that began first ends last."""
    now, calls = 10**9, []
    for began, ended, thread in ((1000, 1500, 1), (1200, 1800, 2), (1600, 1700, 1), (500, 5000, 3), (5000, 6000, 1)):
        call = Call("cuMemsetD8Async", {"N": "7", "hStream": LONG}, "CUDA_SUCCESS", (ended - began) * 1000)
        call.began_ns, call.thread = now + began * 1000, thread
        calls.append((ended, call))
    with rawcuda.trace(tmp_path / "t.json"):
        for _, call in sorted(calls, key=lambda pair: pair[0]):  # a call is reported when it ends
            emit(call)
    events = json.loads((tmp_path / "t.json").read_text())
    assert len(events) == 2 + 4 + 2 * 5 and all(
        event["ts"] >= 0 and event["dur"] >= 0 for event in events if event["ph"] == "X"
    )
    rows = {}
    for event in sorted(
        (event for event in events if event["ph"] == "X"), key=lambda event: (event["ts"], -event["dur"])
    ):
        open_ = rows.setdefault((event["pid"], event["tid"]), [])
        while open_ and open_[-1] <= event["ts"] + 1e-6:
            open_.pop()
        assert not open_ or event["ts"] + event["dur"] <= open_[-1] + 1e-6, (
            "it begins inside another slice, and ends outside"
        )
        open_.append(event["ts"] + event["dur"])


def test_a_chrome_trace_that_was_cut_short_can_be_mended(tmp_path):
    text = chrome(tmp_path)
    cut = text[: text.rindex(",\n{")]
    assert len(json.loads(cut + "]")) == len(json.loads(text)) - 1


@pytest.mark.parametrize(
    "name, arguments, kind, stream, label",
    [
        ("cuLaunchKernelEx", {"f": "<Kernel add>", "hStream": LONG}, "kernel", "0x5a00000000000200", "add"),
        ("cuLaunchKernel", {"f": "CUfunction(0x1)", "hStream": "CUstream(0x0)"}, "kernel", "0x1", "CUfunction(0x1)"),
        ("cuMemcpyDtoH_v2", {"ByteCount": "8"}, "copy", "0x1", "DtoH 8"),
        ("cuMemcpy2DAsync_v2", {"pCopy": "CUDA_MEMCPY2D", "hStream": "CUstream(0x2)"}, "copy", "0x2", "copy"),
        ("cuMemsetD32Async", {"N": "7", "hStream": LONG}, "fill", "0x5a00000000000200", "fill 7"),
        (
            "cuGraphLaunch",
            {"hGraphExec": "CUgraphExec(0x5)", "hStream": LONG},
            "graph",
            "0x5a00000000000200",
            "GraphLaunch",
        ),
        ("cuStreamSynchronize", {"hStream": LONG}, "sync", "0x5a00000000000200", "waits"),
        ("cuCtxSynchronize", {}, "sync", "", "waits for all"),
    ],
)
def test_what_a_call_does_in_a_stream(name, arguments, kind, stream, label):
    work = trace_effects.placed(Call(name, arguments, "CUDA_SUCCESS", 1))
    assert (work.kind, work.stream, work.label) == (kind, stream, label)
    assert trace_effects.placed(Call(name, arguments, "CUDA_ERROR_INVALID_VALUE", 1)) is None


@pytest.mark.parametrize(
    "name", ["cuInit", "cuMemAlloc_v2", "cuStreamCreateWithPriority", "cuCtxGetCurrent", "cuModuleLoadDataEx"]
)
def test_what_does_nothing_in_a_stream(name):
    assert trace_effects.placed(Call(name, {"phStream": "&CUstream(0x5)"}, "CUDA_SUCCESS", 1)) is None


# -- the destination


@pytest.mark.parametrize(
    "name, form",
    [
        ("a.log", "log"),
        ("a", "log"),
        ("a.jsonl", "jsonl"),
        ("a.json", "chrome"),
        ("a.JSON", "chrome"),
        ("a.svg", "svg"),
    ],
)
def test_the_suffix_says_the_form(tmp_path, name, form):
    with rawcuda.trace(str(tmp_path / name)) as trace:
        some_work()
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert text.startswith({"log": "     at ms", "jsonl": "{", "chrome": "[\n", "svg": "<svg "}[form])
    assert trace.events == []  # nothing is kept unless it is requested
    with rawcuda.trace(tmp_path / name, form="jsonl"):  # the argument has precedence over the suffix
        some_work()
    assert (tmp_path / name).read_text(encoding="utf-8").startswith('{"')


def test_a_list_and_a_function_get_the_events():
    events, heard = [], []
    with rawcuda.trace(events) as trace, rawcuda.trace(heard.append) as function:
        some_work()
    assert trace.events is events and events == heard and len(events) == 10 and function.events == []


def test_what_cannot_be_is_refused_at_once(tmp_path):
    for to, form, error, text in (
        (5, None, TypeError, "a path, a list or None, not int"),
        (b"path", None, TypeError, "not bytes"),
        (None, "xml", ValueError, "'log', 'calls', 'jsonl', 'chrome', 'svg'"),
        (print, "log", ValueError, "receives the events themselves"),
        ([], "svg", ValueError, "receives the events themselves"),
    ):
        with pytest.raises(error, match=text):
            rawcuda.trace(to, form=form)
    with pytest.raises(FileNotFoundError):
        with rawcuda.trace(tmp_path / "nowhere" / "t.json"):
            pytest.fail("it should not have begun")
    assert tracing.listeners == []


def test_the_file_is_whole_though_the_block_raises(tmp_path):
    with pytest.raises(ZeroDivisionError), rawcuda.trace(tmp_path / "t.json"):
        some_work()
        1 / 0
    assert len(json.loads((tmp_path / "t.json").read_text())) > 10 and tracing.listeners == []
    file = io.StringIO()
    with rawcuda.trace(file):
        some_work()
    assert not file.closed  # a file that the trace did not open is not closed


def test_a_trace_can_run_again_but_not_twice_at_once():
    events = []
    trace = rawcuda.trace(events)
    with trace:
        some_work()
        with pytest.raises(RuntimeError, match="running already"), trace:
            pass
    with trace:
        some_work()
    assert len(events) == 20


# -- off


@pytest.mark.filterwarnings("ignore:a trace that hears nothing")  # where the exception comes before the block begins
@pytest.mark.parametrize("to", [list, lambda: print, io.StringIO], ids=["a list", "a function", "a file"])
def test_an_exception_at_any_line_leaves_no_listener(to):
    """Nor one after __enter__() or before __exit__() has done anything, when the block itself can do nothing."""
    tracing, traces = module("tracing"), module("tools.traces")
    before = list(tracing.listeners), list(tracing.careful)
    place, was = 0, sys.gettrace()

    def line(frame, event, argument):
        nonlocal passed
        if frame.f_code.co_filename != traces.__file__ or frame.f_code.co_name == "__del__":
            return None
        if event == "line":
            passed += 1
            if passed == place:
                raise KeyboardInterrupt
        return line

    def run():
        with rawcuda.trace(to()):
            pass

    while True:
        place, passed = place + 1, 0
        sys.settrace(line)
        try:
            run()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(was)
        gc.collect()
        assert (tracing.listeners, tracing.careful) == before, place
        if passed < place:
            break
    assert place > 20


def test_nothing_is_made_while_nobody_listens(monkeypatch):
    def never(*_):
        raise AssertionError("an event was made without a listener")

    monkeypatch.setattr(tracing, "Step", never)
    monkeypatch.setattr(tracing, "Call", never)
    view = rawcuda.view(bytearray(16))
    again = rawcuda.view(view.__dlpack__(max_version=(1, 0)))
    rawcuda.view(rawcuda.view(b"abc"), protocol="buffer" if sys.version_info >= (3, 12) else "array_interface")
    again.__array_interface__
    del again, view
    gc.collect()


def test_what_a_trace_needs_is_loaded_when_one_is_made(python):
    result = python("""
        import sys
        from tests.subject import NAME, rawcuda
        rawcuda.view(bytearray(8))
        tools = "traces", "trace_forms", "trace_effects", "pictures", "explaining"
        modules = {f"{NAME}.tools.{name}" for name in tools}
        assert not modules & set(sys.modules) and "json" not in sys.modules, modules & set(sys.modules)
        with rawcuda.trace([]):
            rawcuda.view(bytearray(8))
        assert f"{NAME}.tools.pictures" not in sys.modules and "json" not in sys.modules
    """)
    assert result.returncode == 0, result.stderr


def test_what_listening_costs_when_nobody_does(record_property):
    """The times of a view and of an export, without a trace and after a trace, are printed."""
    from timeit import repeat

    view, array, tracing = rawcuda.view, bytearray(64), module("tracing")
    ours, careful = view(array), list(tracing.careful)

    def best(what):
        return min(repeat(what, number=2000, repeat=5)) / 2000 * 1e9

    before = best(lambda: view(array)), best(lambda: ours.__dlpack__(max_version=(1, 0)))
    with rawcuda.trace([]):
        on = best(lambda: view(array)), best(lambda: ours.__dlpack__(max_version=(1, 0)))
    after = best(lambda: view(array)), best(lambda: ours.__dlpack__(max_version=(1, 0)))
    record_property(
        "told",
        f"a view of a bytearray, and an export: {before[0]:.0f} and {before[1]:.0f} ns; "
        f"traced {on[0]:.0f} and {on[1]:.0f}; after a trace {after[0]:.0f} and {after[1]:.0f}",
    )
    assert not tracing.listeners and tracing.careful == careful  # so that everything takes the fast paths again


@pytest.mark.parametrize("missing", ["raise ImportError", "raise NotImplementedError"])
def test_a_part_without_forms_and_pictures_still_hears(tmp_path, python, missing):
    """The command `vendor --only` makes such parts."""
    import shutil

    from tests.subject import FOLDER

    shutil.copytree(FOLDER, tmp_path / "part", ignore=shutil.ignore_patterns("pictures", "trace_forms.py"))
    for name in ("tools/pictures", "tools/trace_forms"):
        (tmp_path / "part" / f"{name}.py").write_text(missing)
    result = python(
        """
        import part
        events = []
        with part.trace(events), part.trace(lambda event: None):
            view = part.view(b"abc")
            view.__array_interface__
        assert events and view._repr_svg_() is None and view._repr_html_() is None
    """,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr


def test_each_step_in_the_life_of_a_capsule_is_told():
    def told(trace):
        return [(step.protocol, step.what.partition("(")[0], step.details.partition(":")[0]) for step in trace.events]

    tensor = Tensor()
    with rawcuda.trace([]) as trace:
        made = rawcuda.view(tensor.capsule())
        del made
        gc.collect()
    assert told(trace)[-1] == ("dlpack", "deleter", "called by us") and trace.events[-1].tensor
    ours = rawcuda.view(bytearray(16))
    with rawcuda.trace([]) as trace:
        taken = rawcuda.view(ours.__dlpack__())
        del taken
        gc.collect()
    assert [what for _, what, _ in told(trace)] == ["export", "consume", "deleter", "deleter"]
    assert {protocol for protocol, _, _ in told(trace)} == {"dlpack"}
    assert len({step.tensor for step in trace.events}) == 1
