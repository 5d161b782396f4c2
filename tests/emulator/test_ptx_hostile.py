"""Hostile PTX: what grows faster than the text is limited, each limit has its error, and endless kernels end."""

from __future__ import annotations

import ast
import ctypes
import linecache
import mmap
import sys
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.emulator.emulator_client import Client
from tests.subject import module

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
program = module("emulator.ptx.ptx_program")
flow = module("emulator.ptx.translating.flow")


def kernel(body: str, before: str = "") -> str:
    return f"{HEAD}{before}.entry k(){{ .reg .pred %p<4>; .reg .b32 %r<40000>; .reg .b64 %d<9>;\n{body}\nret;}}\n"


def seconds_to_load(text: str) -> float:
    client, started = Client(), time.process_time()
    client.load(text)
    return time.process_time() - started


def movers(n: int) -> str:
    lines = "".join(f"mov.u32 %r{i + 1}, %r{i};\n" for i in range(n))
    return kernel(f"mov.u32 %r0, 1;\n{lines}add.u32 %r{n}, %r{n}, 1;")


def jumps(n: int) -> str:
    return kernel("".join(f"L{i}: bra L{i + 1};\n" for i in range(n)) + f"L{n}:")


def calls(n: int) -> str:
    functions = "".join(f".func f{i}{{ {f'call f{i + 1};' if i + 1 < n else ''} ret; }}\n" for i in range(n))
    return kernel("call f0;", "".join(f".func f{i};\n" for i in range(n)) + functions)


def cases(n: int) -> str:
    table = f"mov.u32 %r1, 3;\nT: .branchtargets {','.join(f'L{i}' for i in range(n))};\nbrx.idx %r1, T;\n"
    return kernel(table + "".join(f"L{i}: add.u32 %r1, %r1, {i};\nbra E;\n" for i in range(n)) + "E:")


def branches(n: int) -> str:
    arms = (f"@%p1 bra A{i};\nadd.u32 %r1,%r1,1; bra B{i};\nA{i}: add.u32 %r1,%r1,2;\nB{i}:\n" for i in range(n))
    return kernel("mov.u32 %r1, 0; setp.eq.u32 %p1, 1, 1;\n" + "".join(arms))


@pytest.mark.parametrize("make", [movers, jumps, calls, cases, branches], ids=lambda make: make.__name__)
def test_loading_takes_time_in_proportion_to_the_text(make: Any) -> None:
    """Eight times the text takes at most 24 times the time; what is quadratic would take 64 times."""
    small, large = min(seconds_to_load(make(250)) for _ in range(3)), seconds_to_load(make(2000))
    assert large < 24 * small + 0.2, (small, large)


def repeated(line: str, before: str = "") -> Any:
    """Return a function that makes a kernel with n lines, of which each has its number for #."""
    return lambda n: kernel(before + "".join(line.replace("#", str(i)) for i in range(n)))


def declared(line: str) -> Any:
    return lambda n: kernel("", "".join(line.replace("#", str(i)) for i in range(n)))


PREDICATE = "mov.u32 %r1, 0; setp.eq.u32 %p1, 1, 1;\n"
TEXTS = {
    **{make.__name__: make for make in (movers, jumps, calls, cases, branches)},
    "movers of floats": lambda n: kernel(
        "".join(f"mov.f32 %f{i}, %f{i + 1};\n" for i in range(n)) + f"mov.b32 %f{n}, %r1; add.f32 %f0, %f0, %f0;",
        "",
    ).replace(".reg .pred", f".reg .f32 %f<{n + 1}>; .reg .pred", 1),
    "movers in a waiter": lambda n: kernel(
        f"mov.u64 %d1, g; L: ld.volatile.global.u32 %r{n}, [%d1];\n"
        + "".join(f"mov.u32 %r{i}, %r{i + 1};\n" for i in reversed(range(n)))
        + "setp.eq.u32 %p1, %r0, 1; @%p1 bra L;",
        ".global .u32 g;\n",
    ),
    "blocks in reverse": lambda n: kernel(
        f"bra L{n};\n"
        + "".join(f"L{i}: mov.u32 %r{i}, %r{i + 1}; bra L{i - 1};\n" for i in range(1, n))
        + f"L{n}: mov.u32 %r{n}, 1; bra L{n - 1};\nL0:",
    ),
    "skips": repeated("@%p1 bra L#;\nmov.u32 %r#, #;\nL#:\n", PREDICATE),
    "loops": repeated("A#: add.u32 %r1, %r1, 1; @%p1 bra A#;\n", PREDICATE),
    "tangle": lambda n: kernel(
        PREDICATE + "".join(f"@%p1 bra L{(i * 7919 + 13) % n};\nL{i}: add.u32 %r1, %r1, 1;\n" for i in range(n))
    ),
    "early exits": lambda n: kernel(PREDICATE + "@%p1 bra E; add.u32 %r1, %r1, 1;\n" * n + "E:"),
    "exits from joins": lambda n: kernel(
        PREDICATE + "".join(f"@%p1 bra J{i}; @%p2 bra E; J{i}: add.u32 %r1, %r1, 1;\n" for i in range(n)) + "E:"
    ),
    "branches over one table": lambda n: shared_table(n + 20),  # refused, and soon
    "labels": repeated("L#:\n"),
    "sections": lambda n: kernel("", ".section .x { }\n" * n),
    "globals": declared(".global .b8 g#[1];\n"),
    "declarations": declared(".extern .global .b8 x[];\n"),
    "shared": lambda n: kernel(
        "".join(f"mov.u32 %r1, s{i};\n" for i in range(n)),
        "".join(f".extern .shared .b8 s{i}[];\n" for i in range(n)),
    ),
    "parameters": lambda n: f"{HEAD}.entry k({', '.join(f'.param .b8 a{i}' for i in range(n))}) {{ ret; }}",
    "arguments": lambda n: kernel(
        f"call f, ({', '.join('1' * n)});", f".func f({', '.join(f'.reg .b32 a{i}' for i in range(n))}) {{ ret; }}\n"
    ),
    "initializers": lambda n: kernel("", f".global .b8 x[] = {{{', '.join('1' * n)}}};\n"),
    "sums": lambda n: kernel("", f".global .b32 x = 1{'+1' * n};\n"),
    "lines": lambda n: kernel(".loc 1 5 0\n" * n, '.file 1 "x.cu"\n'),
    "modifiers": lambda n: kernel(f"add{'.s32' * n} %r1, %r1, 1;"),
    "kernels": lambda n: HEAD + "".join(f".entry k{i}() {{ ret; }}\n.const .b8 c{i}[1];\n" for i in range(n)),
    "comments": lambda n: kernel("/* */ // x\n" * n),
    "kernels over one chain": lambda n: (
        HEAD
        + ".func f0() { .shared .b32 s; .reg .b32 %r; bar.sync 0; ld.shared.u32 %r, [s]; ret; }\n"
        + "".join(f".func f{i}() {{ call f{i - 1}; ret; }}\n" for i in range(1, n))
        + "".join(f".entry k{i}() {{ call f{n - 1}; ret; }}\n" for i in range(n))
    ),
    "calls through pointers": lambda n: (
        HEAD
        + ".shared .b32 s;\n"
        + "".join(f".func f{i}() {{ bar.sync 0; st.shared.u32 [s], 1; ret; }}\n" for i in range(n))
        + "".join(
            f".entry k{i}() {{ .reg .b64 %d; mov.u64 %d, f0; P: .callprototype _ (); call %d, (), P; ret; }}\n"
            for i in range(n)
        )
    ),
}


def steps_to_load(text: str) -> int:
    """Return how many lines of the emulator run; errors count, too."""
    steps = 0

    def line(frame: Any, event: str, argument: object) -> Any:
        nonlocal steps
        steps += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: line if "emulator" in frame.f_code.co_filename else None)
    try:
        module("emulator.ptx").load(text.encode(), module("emulator.machine.space").Space(watch=True))
    except module("emulator.ptx").Rejected:
        pass
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize("kind", TEXTS)
def test_loading_takes_steps_in_proportion_to_the_text(kind: str) -> None:
    """Ten times the text takes at most 12 times the steps, on any machine."""
    few, many = (steps_to_load(TEXTS[kind](n)) for n in (60, 600))
    assert 0 < many <= 12 * few, (few, many)


def test_a_table_of_many_targets_runs() -> None:
    client = Client()
    function = client.get("cuModuleGetFunction", client.load(cases(3000)), b"k")
    assert client.launch(function, []) == 0 and client.code("cuCtxSynchronize") == 0


def shared_table(n: int, of: int = 1) -> str:
    """Return a kernel with n brx.idx for each of some tables of n labels."""
    tables = "".join(
        f"T{t}: .branchtargets {','.join(f'L{t}_{i}' for i in range(n))};\n"
        + "".join(f"L{t}_{i}: brx.idx %r1, T{t};\n" for i in range(n))
        for t in range(of)
    )
    return kernel(f"mov.u32 %r1, 0;\n{tables}")


def test_a_table_that_many_branches_share_is_refused() -> None:
    """The targets are written for each branch: 200 that share a table took 13 seconds, and 800 more than 200."""
    started = time.process_time()
    for text in (shared_table(13), shared_table(800), shared_table(10, of=4)):
        with pytest.raises(module("emulator.ptx").Rejected) as caught:
            module("emulator.ptx").load(text.encode(), module("emulator.machine.space").Space())
        assert "targets in one function, whose tables have" in str(caught.value.log), caught.value.log
    assert time.process_time() - started < 30
    for text in (shared_table(12), shared_table(4, of=40)):
        module("emulator.ptx").load(text.encode(), module("emulator.machine.space").Space())


def test_shared_variables_that_too_many_functions_reach_are_refused() -> None:
    """Each kernel has a table of all the shared variables that it reaches, also in the functions that it calls."""

    def chain(n: int) -> str:
        functions = (
            f".func f{i}() {{ .shared .b8 s[1]; .reg .b32 %r; mov.b32 %r, s; {f'call f{i - 1};' * (i > 0)} ret; }}\n"
            for i in range(n)
        )
        return kernel(f"call f{n - 1};", "".join(functions))

    load, started = module("emulator.ptx").load, time.process_time()
    with pytest.raises(module("emulator.ptx").Rejected) as caught:
        load(chain(2000).encode(), module("emulator.machine.space").Space())
    assert "pairs of a shared variable and a function that reaches it are not emulated" in caught.value.log
    assert time.process_time() - started < 20
    code = load(chain(600).encode(), module("emulator.machine.space").Space())
    assert code.entries["k"].static_shared == 600 and len(set(code.translated[-1].shared.values())) == 600


def test_sections_that_nobody_closes_are_refused_soon() -> None:
    client, started = Client(), time.process_time()
    for text in (HEAD + ".section\n" * 100_000, HEAD + ".section .x {\n" * 100_000):
        handle = ctypes.c_uint64()
        assert client.code("cuModuleLoadData", ctypes.addressof(handle), text.encode()) in (200, 218)
    assert time.process_time() - started < 20


class Counted(str):
    """A text that counts the characters that are searched."""

    searched = 0

    def find(self, what: str, start: int = 0, end: int = 1 << 62) -> int:  # type: ignore[override]
        found = str.find(self, what, start, end)
        self.searched += (min(end, len(self)) if found < 0 else found) - start
        return found


@pytest.mark.parametrize("line", [".section\n", ".section .x {\n", ".section .x { }\n"])
def test_a_section_is_searched_once(line: str) -> None:
    text = Counted(HEAD + line * 1000)
    tokens = module("emulator.ptx.reading.lexer").Tokens(text)
    assert len(tokens.kinds) > 1000 and tokens.source is text
    assert text.searched <= 1000 * 257 + 2 * len(text)  # 257: from its name to its brace


class Long(str):
    def split(self, *arguments: Any) -> Any:
        raise AssertionError("all of a line is read for its quote")

    strip = split


def test_a_quote_reads_only_the_beginning_of_a_line() -> None:
    made = module("emulator.ptx").load(kernel("").encode(), module("emulator.machine.space").Space()).module
    sources = module("emulator.ptx.checking.sources")
    quoting = sources.Sources(made)
    quoting._known[sources.PTX] = [Long("mov.u32  %r1, 1; " * 1000)]
    quote = quoting._quote(sources.PTX, 1, 0)
    assert str(quote.text).startswith("mov.u32 %r1, 1; mov") and len(quote.text) <= 160


LIMITS = {
    "MOST_TEXT": (kernel(""), "characters, 10 max"),
    "MOST_REGISTERS": (kernel("".join(f"mov.u32 %r{n}, 1;\n" for n in range(20))), "registers, 10 max"),
    "MOST_SOURCE": (kernel("mov.u32 %r1, 1;"), "code generated from this module would have"),
    "MOST_OF_ONE": (kernel("mov.u32 %r1, 1;"), "code generated from one kernel or the functions of this module"),
    "MOST_SHARED": (kernel(".shared .b8 s[11]; mov.u32 %r1, s;"), "uses too much shared data (0xb bytes, 0xa max)"),
    "MOST_CONSTANT": (kernel("", ".const .b8 c[11];\n"), "too much global constant data (0xb bytes, 0xa max)"),
    "MOST_GLOBAL": (kernel("", ".global .b8 g[11];\n"), "Variables of more than 0xa bytes do not fit"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_has_its_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, words = LIMITS[name]
    assert seconds_to_load(text) < 60  # allowed as it is
    monkeypatch.setattr(program, name, 10)
    with pytest.raises(module("emulator.ptx").Rejected) as caught:
        module("emulator.ptx").load(text.encode(), module("emulator.machine.space").Space())
    assert words in str(caught.value.log), caught.value.log


DEEP = {
    "scopes": (kernel("{" * 100 + "}" * 100), "nested"),
    "expressions": (HEAD + ".global .b32 x = " + "(" * 100 + "1" + ")" * 100 + ";\n.entry k(){ret;}\n", "nested"),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_refused(name: str) -> None:
    text, words = DEEP[name]
    with pytest.raises(module("emulator.ptx").Rejected) as caught:
        module("emulator.ptx").load(text.encode(), module("emulator.machine.space").Space())
    assert words in str(caught.value.log), caught.value.log


ENDLESS = {
    "alone": "L: bra L;",
    "with a barrier": "L: bar.sync 0; bra L;",
    "with a shuffle": "mov.u32 %r1, 1; L: shfl.sync.idx.b32 %r1, %r1, 0, 31, 0xffffffff; bra L;",
    "with a pause": "L: nanosleep.u32 10; bra L;",
}


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize("threads", [1, 33, 96])
@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_kernel_ends_after_the_time_that_was_set(name: str, threads: int, executor: str) -> None:
    client, started = Client(executor=executor, timeout=0.1), time.monotonic()
    function = client.get("cuModuleGetFunction", client.load(kernel(ENDLESS[name])), b"k")
    code = client.launch(function, [], block=(threads, 1, 1)) or client.code("cuCtxSynchronize")
    assert code == 702 and client.emulator.reports[-1].startswith("endless loop in "), client.emulator.reports
    assert time.monotonic() - started < 60


def test_slow_instructions_end_after_the_time_that_was_set() -> None:
    """Each printf writes two million characters."""
    client, started = Client(timeout=0.2), time.monotonic()
    text = kernel(
        "L: mov.u64 %d1, format; mov.u64 %d2, arguments;"
        "{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %d1; st.param.b64 [a], %d2;"
        "call (r), vprintf, (f, a); }\nbra L;",
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        f".global .align 8 .b8 format[65] = {{{', '.join(['37, 115'] * 32)}, 0}};\n"
        f".global .align 1 .b8 long[65536] = {{{', '.join(['65'] * 65535)}, 0}};\n"
        f".global .align 8 .u64 arguments[32] = {{{', '.join(['generic(long)'] * 32)}}};\n",
    )
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    code = client.launch(function, []) or client.code("cuCtxSynchronize")
    assert code == 702 and "more than 0.2 seconds" in client.emulator.reports[-1], client.emulator.reports
    assert time.monotonic() - started < 60


def test_the_clock_is_looked_at_more_often_while_iterations_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = module("emulator.ptx.running.lookups")
    clock = [0]
    monkeypatch.setattr(lookups.time, "perf_counter_ns", lambda: clock[0])
    client = Client()
    launch = lookups.Launch(
        "k", (1, 1, 1), (1, 1, 1), b"", 0, 0, client.emulator._machine.space, module("emulator.ptx").Limits()
    )
    portions = launch._refill()

    def portion(milliseconds: int) -> int:
        clock[0] += milliseconds * 1_000_000
        return len(list(next(portions)))

    assert [portion(1) for _ in range(10)] == [128, 256, 512, 1024, 2048, 4096, 4096, 4096, 4096, 4096]
    assert [portion(1000) for _ in range(6)] == [512, 64, 8, 1, 1, 1]
    assert portion(1) == 2

    def progress() -> None:
        clock[0] += 1_000_000_000  # which is not the kernel's time

    launch.after_refill = progress
    assert [portion(1) for _ in range(4)] == [4, 8, 16, 32]


def doubling(barrier: str) -> str:
    """Return functions without loops, each of which calls the one before twice."""
    functions = "".join(f".func f{i} {{ {barrier} call f{i - 1}; call f{i - 1}; ret; }}\n" for i in range(1, 60))
    return kernel("call f59;", f".func f0 {{ ret; }}\n{functions}")


def recursion(barrier: str) -> str:
    """Return a function that calls itself twice, to a depth of 60."""
    before = "setp.eq.u32 %p, n, 0; @%p ret; .reg .b32 %m; sub.u32 %m, n, 1;"
    function = f"{{ .reg .pred %p; {barrier} {before} call f, (%m); call f, (%m); ret; }}\n"
    return kernel("call f, (60);", f".func f(.reg .b32 n);\n.func f(.reg .b32 n) {function}")


WITHOUT_LOOPS = {
    "a chain of calls": (doubling(""), 1, 1),
    "a chain of calls with a barrier": (doubling("bar.sync 0;"), 1, 1),
    "a recursion": (recursion(""), 1, 1),
    "a recursion with a barrier": (recursion("bar.sync 0;"), 1, 1),
    "many blocks": (kernel(""), 1 << 28, 64),
    "many blocks with a barrier": (kernel("bar.sync 0;"), 1 << 28, 64),
}


@pytest.mark.parametrize("executor", ["scalar", "numpy", "auto"])
@pytest.mark.parametrize("name", WITHOUT_LOOPS)
def test_a_kernel_without_loops_ends_after_the_time_that_was_set(name: str, executor: str) -> None:
    text, blocks, threads = WITHOUT_LOOPS[name]
    client, started = Client(executor=executor, timeout=0.2), time.monotonic()
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    code = client.launch(function, [], grid=(blocks, 1, 1), block=(threads, 1, 1))
    code = code or client.code("cuCtxSynchronize")
    assert code == 702 and "more than 0.2 seconds" in client.emulator.reports[-1], client.emulator.reports
    assert time.monotonic() - started < 60


FMA = "fma.rz.f32 x, x, x, x;\n"
FLOAT = ".reg .f32 x; mov.f32 x, 0f3F800000;\n"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [from], 32768, [done];\n"
BLOCKS = "".join(f"{FMA * 100}@p bra L{i}; mov.f32 x, 0f00000000; L{i}:\n" for i in range(40))
STRAIGHT = {  # text, blocks, threads of each, executor
    "a long text": (kernel(FLOAT + FMA * 4000), 1, 32, "scalar"),
    "a long text with a barrier": (kernel(f"{FLOAT}{FMA * 4000}bar.sync 0;"), 1, 32, "scalar"),
    "a long text as arrays": (kernel(FLOAT + FMA * 4000), 16, 512, "numpy"),
    "many short blocks": (kernel(f"{FLOAT}.reg .pred p; setp.eq.u32 p, 0, 0;\n{BLOCKS}"), 1, 32, "scalar"),
    "many threads": (kernel(FLOAT + FMA * 100), 1, 1024, "scalar"),
    "many threads with a barrier": (kernel(f"{FLOAT}{FMA * 100}bar.sync 0;"), 1, 512, "scalar"),
    "large copies": (
        kernel(
            f".reg .b64 from; mov.b64 from, source; mbarrier.init.shared.b64 [done], 1;\n{BULK * 30}",
            ".global .align 16 .b8 source[32768]; .shared .align 16 .b8 to[32768]; .shared .b64 done;\n",
        ).replace(HEAD, HEAD.replace("8.0", "8.6").replace("80", "90")),
        1,
        32,
        "scalar",
    ),
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_straight_line_code_ends_in_time(name: str) -> None:
    text, blocks, threads, executor = STRAIGHT[name]
    client = Client(executor=executor)
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    assert not client.launch(function, [])  # which translates for arrays
    client.emulator._machine.space.timeout, started = 0.03, time.monotonic()
    code = client.launch(function, [], grid=(blocks, 1, 1), block=(threads, 1, 1)) or client.code("cuCtxSynchronize")
    assert code == 702 and "more than 0.03 seconds" in client.emulator.reports[-1], client.emulator.reports
    assert time.monotonic() - started < 2


def test_the_clock_is_looked_at_before_each_large_copy_is_made() -> None:
    looks: list[int] = []
    launch = SimpleNamespace(look_at_clock=lambda: looks.append(1))
    block = SimpleNamespace(shared=bytearray(), launch=launch, running=0, _watch=None)
    late = module("emulator.ptx.running.units.late_units").Late(block)
    late.promised[0] = [(1, lambda: None)] * 3
    late.settle(0)
    assert len(looks) == 3
    late.start_store(lambda: lambda waited: looks.append(waited))
    late.commit("bulk")
    late.wait("bulk", 0)
    assert looks[3:] == [1, 1, True]


@pytest.mark.parametrize("text", [doubling(""), recursion("")], ids=["a chain", "a recursion"])
def test_calls_are_counted_as_iterations(text: str) -> None:
    space = module("emulator.machine.space").Space()
    space.timeout = 5.0  # in case they are not counted
    code = module("emulator.ptx").load(text.encode(), space)
    with pytest.raises(module("emulator.machine.space").Fault, match="more than 1000 loop iterations or calls"):
        code.entries["k"].run((1, 1, 1), (1, 1, 1), 0, b"", limits=module("emulator.ptx").Limits(turns=1000))


@pytest.mark.parametrize("file", ["/dev/zero", "/dev/stdin", "/nowhere/x.cu", "/etc", "", "\\0", "\x1b[31m.cu"])
def test_a_report_reads_only_plain_files(file: str) -> None:
    client = Client()
    body = ".entry k(){ .reg .b64 %d;\n.loc 1 1 1\nmov.u64 %d, 16; st.global.u32 [%d], 1; ret; }\n"
    text = f'{HEAD}.file 1 "{file}"\n{body}'
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    assert (client.launch(function, []) or client.code("cuCtxSynchronize")) == 700
    assert "ptx line 7 | mov.u64 %d, 16; st.global.u32 [%d], 1; ret; }" in client.emulator.reports[-1]


@pytest.mark.parametrize("name, quoted", [("k.cu", True), ("K.PY", True), ("id_rsa", False), ("link.c", False)])
def test_a_report_quotes_only_files_whose_names_are_those_of_sources(tmp_path: Path, name: str, quoted: bool) -> None:
    if name == "link.c":
        (tmp_path / "id_rsa").write_text("a secret\n")
        (tmp_path / name).symlink_to(tmp_path / "id_rsa")
    else:
        (tmp_path / name).write_text("a secret\n")
    client = Client()
    body = ".entry k(){ .reg .b64 %d;\n.loc 1 1 1\nmov.u64 %d, 16; st.global.u32 [%d], 1; ret; }\n"
    text = f'{HEAD}.file 1 "{tmp_path / name}"\n{body}'
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    assert (client.launch(function, []) or client.code("cuCtxSynchronize")) == 700
    assert ("a secret" in client.emulator.reports[-1]) == quoted


def test_a_report_reads_only_the_file_that_it_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, opened = module("emulator.ptx.checking.sources"), []
    for name, word in ("k.cu", "quoted"), ("other.cu", "another"):
        (tmp_path / name).write_text(f'extern "C" __global__ void k(int *{word}) {{ }}\n')
    monkeypatch.setattr(
        sources, "open", lambda file, **given: opened.append(file) or open(file, **given), raising=False
    )
    before, client = set(linecache.cache), Client()
    spelled = [f"{tmp_path}/{'./' * number}other.cu" for number in range(20)]
    files = "".join(f'.file {number} "{file}"\n' for number, file in enumerate([tmp_path / "k.cu", *spelled], 1))
    body = ".entry k(.param .u64 p){ .reg .b64 %d;\n.loc 1 1 1\nmov.u64 %d, 16; st.global.u32 [%d], 1; ret; }\n"
    function = client.get("cuModuleGetFunction", client.load(HEAD + files + body), b"k")
    assert (client.launch(function, [bytes(8)]) or client.code("cuCtxSynchronize")) == 700
    assert "k.cu:1:1 | extern" in client.emulator.reports[-1] and "k(int *quoted = null)" in client.emulator.reports[-1]
    assert set(opened) == {str(tmp_path / "k.cu")}
    assert not any("k.cu" in file or "other.cu" in file for file in set(linecache.cache) - before)


def test_a_report_reads_a_file_only_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = module("emulator.ptx.checking.sources")
    monkeypatch.setattr(sources, "_LARGEST", 8)
    (tmp_path / "k.cu").write_text("first\nsecond\nthird\n")
    code = module("emulator.ptx").load(kernel("").encode(), module("emulator.machine.space").Space())
    assert sources.Sources(code.module)._lines(str(tmp_path / "k.cu")) == ["first\n", "se\n"]


def test_iterations_of_different_threads_are_not_added_up() -> None:
    body = "mov.u32 %r1, 0; L: bar.sync 0; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 400; @%p1 bra L;"
    code = module("emulator.ptx").load(kernel(body).encode(), module("emulator.machine.space").Space())
    limits = module("emulator.ptx").Limits(turns=50_000)
    code.entries["k"].run((1, 1, 1), (512, 1, 1), 0, b"", limits=limits)  # 204,800 in all


@pytest.mark.parametrize("threads", [1, 33, 96])
def test_iterations_of_threads_that_take_turns_are_counted(threads: int) -> None:
    """At each barrier another thread goes on, so no thread uses up a portion of iterations."""
    space = module("emulator.machine.space").Space()
    space.timeout = 5.0  # in case they are not counted
    code = module("emulator.ptx").load(kernel("L: bar.sync 0; bra L;").encode(), space)
    with pytest.raises(module("emulator.machine.space").Fault, match="more than 1000 loop iterations"):
        code.entries["k"].run((1, 1, 1), (threads, 1, 1), 0, b"", limits=module("emulator.ptx").Limits(turns=1000))


RECURSIVE = {
    "direct": ".func f;\n.func f { call f; ret; }\n",
    "with a barrier": ".func f;\n.func f { bar.sync 0; call f; ret; }\n",
    "through another": ".func g;\n.func f { call g; ret; }\n.func g { bar.sync 0; call f; ret; }\n",
    "through a pointer": ".func f;\n.func f { .reg .b64 %d; mov.u64 %d, f; { P: .callprototype _ (); call %d, (), P; } "
    "ret; }\n",
}


@pytest.mark.parametrize("name", RECURSIVE)
def test_endless_recursion_ends_whatever_the_recursion_limit_of_python(name: str, python: Any) -> None:
    """Waiting functions are generators inside generators: without a limit of ours, C's stack overflows."""
    python(
        f"""
        import sys
        from tests.emulator.emulator_client import Client
        sys.setrecursionlimit(10**6)
        client = Client()
        function = client.get("cuModuleGetFunction", client.load({kernel("call f;", RECURSIVE[name])!r}), b"k")
        code = client.launch(function, [], block=(2, 1, 1)) or client.code("cuCtxSynchronize")
        assert code == 719, code
        assert "calls of device functions are nested" in client.emulator.reports[-1], client.emulator.reports
        """,
        check=True,
    )


def test_functions_that_call_each_other_without_an_end_are_found_in_any_module() -> None:
    text = (
        ".func last { ret; }\n.func twice { call last; call last; ret; }\n"
        ".func first;\n.func second { call first; ret; }\n.func first { call second; ret; }\n"
        ".func above { call first; ret; }\n"
    )
    code = module("emulator.ptx").load(
        kernel("call twice; call above;", text).encode(), module("emulator.machine.space").Space()
    )
    nests = {name: made.nests for name, made in code._unit.prepared.items()}
    assert nests == {"last": False, "twice": False, "first": True, "second": True, "above": True, "k": False}


@pytest.mark.parametrize("body", ["bar.sync %r1", "bar.arrive %r1, 32", "bar.red.popc.u32 %r2, %r1, %p1"])
def test_a_barrier_that_a_register_names_must_exist(body: str) -> None:
    client = Client()
    text = kernel(f"mov.u32 %r1, 77; setp.eq.u32 %p1, %r1, 77; {body};")
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    assert (client.launch(function, []) or client.code("cuCtxSynchronize")) == 719
    report = client.emulator.reports[-1]
    assert report.checker == "synccheck" and "barrier 77 does not exist" in report


@pytest.mark.parametrize(
    "text",
    [
        "ptx line " + "9" * 5000,
        "generated line 99999 generated line 0 ptx line 0",
        "address 0x7: " + "9" * 5000 + " bytes into a " + "9" * 5000 + "-byte allocation",
    ],
    ids=["a number of a line", "lines that are not there", "an address"],
)
def test_an_assertion_may_have_the_words_of_a_report(text: str) -> None:
    client = Client()
    numbers = ", ".join(map(str, text.encode() + b"\0"))
    made = client.load(
        f"{HEAD}.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
        f".param .b64 e);\n.global .b8 s[] = {{{numbers}}};\n"
        ".entry k() { .reg .b64 %d; { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; "
        "mov.u64 %d, s; st.param.b64 [a], %d; st.param.b64 [b], %d; st.param.b32 [c], 1; st.param.b64 [d], %d; "
        "st.param.b64 [e], 1; call __assertfail, (a, b, c, d, e); } ret; }\n"
    )
    function = client.get("cuModuleGetFunction", made, b"k")
    assert (client.launch(function, []) or client.code("cuCtxSynchronize")) == 710
    assert f"Assertion `{text}` failed" in client.emulator.reports[-1]


@pytest.mark.parametrize(
    "conversion",
    ["%" + "9" * 5000 + "d", "%." + "9" * 5000 + "d", "%." + "0" * 5000 + "5d"],
    ids=["a width", "a precision", "zeros"],
)
def test_printf_limits_a_width_of_any_length(conversion: str, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client()
    numbers = ", ".join(str(byte) for byte in conversion.encode() + b"\0")
    made = client.load(
        f"{HEAD}.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        f".global .b8 s[] = {{{numbers}}};\n"
        ".entry k() { .reg .b64 %d; { .param .b32 r; .param .b64 a; .param .b64 b; mov.u64 %d, s; "
        "st.param.b64 [a], %d; st.param.b64 [b], %d; call (r), vprintf, (a, b); } ret; }\n"
    )
    function = client.get("cuModuleGetFunction", made, b"k")
    assert (client.launch(function, []) or client.code("cuCtxSynchronize")) == 0, client.emulator.reports
    assert len(capsys.readouterr().out) <= 4096


def test_printf_reads_a_format_of_zeros_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Zeros are flags: as a width, too, 8,000 of them took 14 seconds."""
    client, started = Client(), time.process_time()
    text = "%" + "0" * 8000
    assert (client.launch(_printing(client, text + "!"), [1]) or client.code("cuCtxSynchronize")) == 0
    assert time.process_time() - started < 4
    assert capsys.readouterr().out == text + "!"
    assert (client.launch(_printing(client, text + "5d %-05d|"), [1]) or client.code("cuCtxSynchronize")) == 0
    assert capsys.readouterr().out == "00001 0    |"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%.d %.d.", "1 ."),  # a point without digits is a precision of 0
        ("%#o %+u %+d %#x", "01 0 +0 0"),
        ("%05.2d|%-5.2d|", "   01|00   |"),
        ("%d %.f %#.f %a %.2A", "1 0 0. 0x0p+0 0X0.00P+0"),
    ],
)
def test_printf_writes_as_c_does(text: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client()
    assert (client.launch(_printing(client, text), [1]) or client.code("cuCtxSynchronize")) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("text", "printed"),
    [(b"\xff|", b"\xff|"), ("\u00e9|".encode(), b"\xc3\xa9|"), (b"%c\xa9|", b"\1\xa9|"), (b"%5d\xc3|", b"    1\xc3|")],
)
def test_printf_writes_bytes_as_they_are(text: bytes, printed: bytes, capfdbinary: Any) -> None:
    client = Client()
    assert (client.launch(_printing(client, text), [1]) or client.code("cuCtxSynchronize")) == 0
    assert capfdbinary.readouterr().out == printed


def test_an_assertion_is_printed_in_any_language(capfd: Any) -> None:
    """The compiler writes its text in UTF-8."""
    text, texts = "\u043f\u0440\u043e\u0432\u0435\u0440\u043a\u0430 \u00e9", ""
    for name in "mfn":
        texts += f".global .b8 {name}[] = {{{', '.join(map(str, text.encode() + bytes(1)))}}};\n"
    client = Client()
    made = client.load(
        f"{HEAD}.extern .func __assertfail (.param .b64 a,.param .b64 b,.param .b32 c,.param .b64 d,.param .b64 e);\n"
        f"{texts}.entry k() {{ .reg .b64 %d<4>; mov.u64 %d1, m; mov.u64 %d2, f; mov.u64 %d3, n; {{ .param .b64 a; "
        ".param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %d1; st.param.b64 [b], %d2; "
        "st.param.b32 [c], 7; st.param.b64 [d], %d3; st.param.b64 [e], 1; call __assertfail, (a,b,c,d,e); } ret; }\n"
    )
    function = client.get("cuModuleGetFunction", made, b"k")
    assert (client.launch(function, []) or client.code("cuCtxSynchronize")) == 710
    assert f"{text}:7: {text}: block: [0,0,0]" in capfd.readouterr().out


def _printing(client: Client, format: str | bytes) -> int:
    """Return a kernel that prints a text as often as its argument says, with 32 bytes of zeros as arguments."""
    given = format.encode() if isinstance(format, str) else format
    numbers = ", ".join(str(byte) for byte in given + b"\0")
    made = client.load(
        f"{HEAD}.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        f".global .b8 s[] = {{{numbers}}};\n.global .align 8 .b8 z[512];\n"
        ".entry k(.param .u64 n) { .reg .b64 %d<4>; .reg .pred %p; ld.param.u64 %d3, [n]; mov.u64 %d1, s; "
        "mov.u64 %d2, z; L: st.global.u64 [%d2], %d3; { .param .b32 r; .param .b64 a; .param .b64 b; "
        "st.param.b64 [a], %d1; st.param.b64 [b], %d2; call (r), vprintf, (a, b); } "
        "sub.u64 %d3, %d3, 1; setp.ne.u64 %p, %d3, 0; @%p bra L; ret; }\n"
    )
    return client.get("cuModuleGetFunction", made, b"k")


def test_the_buffer_of_printf_loses_the_oldest_output(capsys: pytest.CaptureFixture[str]) -> None:
    """The limit of the context counts; a launch with less output loses nothing, and one text is never cut."""
    for size, times, kept in ((None, 256, 256), (None, 257, 256), (10_000, 9, 2), (0, 3, 1), (1 << 20, 5, 5)):
        client = Client()
        function = _printing(client, "%4095d\n")
        if size is not None:
            client.do("cuCtxSetLimit", 1, size)
        assert (client.launch(function, [times]) or client.code("cuCtxSynchronize")) == 0, client.emulator.reports
        written = capsys.readouterr()
        assert written.out == "".join(f"{number:4095d}\n" for number in range(kept, 0, -1))
        lost = 4096 * (times - kept)
        assert (f"the oldest {lost} are lost" in written.err) == bool(lost)
        assert not client.emulator.reports


def test_printf_takes_32_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """So what one call makes is limited, too. Conversions of further arguments are printed as they are."""
    client = Client()
    assert client.launch(_printing(client, "%d," * 34 + "%%\n"), [7]) == 0, client.emulator.reports
    client.do("cuCtxSynchronize")
    assert capsys.readouterr().out.splitlines()[0] == "7," + "0," * 31 + "%d,%d,%"


def test_output_takes_no_more_memory_than_its_buffer() -> None:
    client = Client()
    client.do("cuCtxSetLimit", 1, 100_000)
    function = _printing(client, "%4096d" * 50)  # 6 MB in all
    client.emulator._machine.space.write_output = str
    tracemalloc.start()
    try:
        assert (client.launch(function, [50]) or client.code("cuCtxSynchronize")) == 0, client.emulator.reports
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


COPIES_OF_FREED = {
    "in a group": ("cp.async.cg.shared.global [s], [%d1], 16;", "cp.async.wait_all;"),
    "to a barrier": (
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1], 16, [bar];",
        "mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;",
    ),
    "out of shared memory": (
        "st.shared.v4.u32 [s], {%r1, %r1, %r1, %r1}; fence.proxy.async;"
        "cp.async.bulk.global.shared::cta.bulk_group [%d1], [s], 16; cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group 0;",
    ),
}


@pytest.mark.parametrize("kind", COPIES_OF_FREED)
def test_memory_that_is_freed_under_an_asynchronous_copy_is_reported(kind: str) -> None:
    copy, wait = COPIES_OF_FREED[kind]
    text = kernel(
        ".shared .align 16 .b8 s[16]; .shared .b64 bar; mbarrier.init.shared.b64 [bar], 1; mov.u32 %r1, 7; "
        "{ .param .b64 a; .param .b64 r; st.param.b64 [a], 16; call (r), malloc, (a); ld.param.b64 %d1, [r]; } "
        f"st.global.v4.u32 [%d1], {{%r1, %r1, %r1, %r1}}; {copy} "
        f"{{ .param .b64 a; st.param.b64 [a], %d1; call free, (a); }}\n{wait}",
        ".extern .func (.param .b64 r) malloc(.param .b64 a);\n.extern .func free(.param .b64 a);\n",
    )
    client = Client(sm=90)
    made = client.load(text.replace("sm_80", "sm_90"))
    function = client.get("cuModuleGetFunction", made, b"k")
    assert (client.launch(function, []) or client.code("cuCtxSynchronize")) == 700, client.emulator.reports
    report = client.emulator.reports[-1]
    assert report.startswith("use-after-free access"), report
    assert "an asynchronous copy has begun in memory that was freed" in report


ENDLESS_COPIES = {
    "groups": "cp.async.ca.shared.global [s], [%d1], 4; cp.async.commit_group;",
    "an open group": "cp.async.ca.shared.global [s], [%d1], 4;",
    "groups without copies": "cp.async.commit_group;",
    "bulk copies out of shared memory": "cp.async.bulk.global.shared::cta.bulk_group [%d1], [s], 16;",
    "arrivals": "cp.async.ca.shared.global [s], [%d1], 4; cp.async.mbarrier.arrive.shared.b64 [bar];",
    "stores": "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [s], %r1, [bar];"
    "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 4;",
}


@pytest.mark.parametrize("kind", ENDLESS_COPIES)
def test_copies_that_nobody_waits_for_are_completed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late = module("emulator.ptx.running.units.late_units")
    most: list[int] = []
    monkeypatch.setattr(late, "MOST_PENDING", 1000)
    count = late.Late._count
    monkeypatch.setattr(late.Late, "_count", lambda self, more: (count(self, more), most.append(self.pending)))
    text = kernel(
        ".shared .align 16 .b8 s[16]; .shared .b64 bar; mbarrier.init.shared.b64 [bar], 1; ld.param.u64 %d1, [p];"
        "mov.u32 %r1, 0; mov.u32 %r2, 5000; st.shared.v4.u32 [s], {%r1, %r1, %r1, %r1}; fence.proxy.async;\n"
        f"L: {ENDLESS_COPIES[kind]} sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;"
    )
    client = Client(sm=90)
    made = client.load(text.replace("sm_80", "sm_90").replace("8.0", "8.1").replace("k()", "k(.param .u64 p)"))
    function = client.get("cuModuleGetFunction", made, b"k")
    assert (client.launch(function, [client.upload(bytes(16))]) or client.code("cuCtxSynchronize")) == 0
    assert len(most) >= 5000 and max(most) <= 1000


@pytest.mark.parametrize(
    "copy, wait",
    [
        ("shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1, {%r1, %r1}], [bar]", ""),
        ("global.shared::cta.bulk_group [%d1, {%r1, %r1}], [s]", ""),
        (
            "global.shared::cta.bulk_group [%d1, {%r1, %r1}], [s]",
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        ),
    ],
    ids=["in", "out", "out and waited for"],
)
def test_a_copy_of_a_tensor_counts_as_many_rows_as_it_keeps(copy: str, wait: str) -> None:
    """A box of a width of 1 may have many thousand rows, each of which takes memory until the copy is waited for."""
    late, tensor_maps = module("emulator.ptx.running.units.late_units"), module("emulator.machine.tensor_map_layout")
    rows, client = 160, Client(sm=90)
    seen: list[int] = []
    pending: list[int] = []
    at = client.upload(bytes(16))
    numbers = (0, 2, 0, 0, 0, 0, 1, at, 1, 1 << 20, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, rows, 0, 0, 0)
    forged = tensor_maps.LAYOUT.pack(tensor_maps.MAGIC, *numbers).ljust(128, b"\0")
    text = kernel(
        f".shared .align 128 .b8 s[{rows}]; .shared .align 8 .b64 bar; mbarrier.init.shared.b64 [bar], 1;"
        "mov.u64 %d1, map; cvta.global.u64 %d1, %d1; mov.u32 %r1, 0; mov.u32 %r2, 20;\n"
        f"L: cp.async.bulk.tensor.2d.{copy}; {wait} sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;",
        f".global .align 64 .b8 map[128] = {{{', '.join(map(str, forged))}}};\n",
    )
    made = client.load(text.replace("sm_80", "sm_90").replace("8.0", "8.1"))
    function = client.get("cuModuleGetFunction", made, b"k")
    with pytest.MonkeyPatch.context() as patch:
        count = late.Late._count
        patch.setattr(
            late.Late, "_count", lambda self, more: (seen.append(more), count(self, more), pending.append(self.pending))
        )
        client.launch(function, [])
        client.code("cuCtxSynchronize")
    whole = [more for more in seen if more > 1]
    assert len(whole) == 20 and set(whole) == {1 + rows} and max(pending) < (200 if wait else 4000)


def test_copies_that_are_completed_are_not_counted() -> None:
    """A loop that waits in each turn never reaches the limit, after which a copy need not be waited for."""
    late = module("emulator.ptx.running.units.late_units")
    text = kernel(
        ".shared .align 16 .b8 s[16]; ld.param.u64 %d1, [p]; mov.u32 %r2, 20;\n"
        "L: cp.async.ca.shared.global [s], [%d1], 4; cp.async.commit_group; cp.async.wait_group 0;"
        "cp.async.ca.shared.global [s], [%d1], 4; cp.async.wait_all;"
        "sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;"
    )
    client, seen = Client(), []
    function = client.get("cuModuleGetFunction", client.load(text.replace("k()", "k(.param .u64 p)")), b"k")
    with pytest.MonkeyPatch.context() as patch:
        notice = late.Late._notice
        patch.setattr(late.Late, "_notice", lambda self: (notice(self), seen.append(self.pending)))
        assert (client.launch(function, [client.upload(bytes(16))]) or client.code("cuCtxSynchronize")) == 0
    assert seen == [0] * 40


def test_copies_that_barriers_wait_for_are_not_counted_for_ever() -> None:
    """A program that waits by barriers alone ends no group of copies."""
    late = module("emulator.ptx.running.units.late_units")
    text = kernel(
        ".shared .align 16 .b8 s[16]; .shared .b64 bar; mbarrier.init.shared.b64 [bar], 1; ld.param.u64 %d1, [p];"
        "mov.u32 %r2, 20; mov.u32 %r3, 0;\n"
        "L: cp.async.ca.shared.global [s], [%d1], 4; cp.async.ca.shared.global [s+4], [%d1], 4;"
        "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];\n"
        "W: mbarrier.test_wait.parity.shared.b64 %p2, [bar], %r3; @!%p2 bra W; xor.b32 %r3, %r3, 1;"
        "sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;"
    )
    client, seen = Client(), []
    function = client.get("cuModuleGetFunction", client.load(text.replace("k()", "k(.param .u64 p)")), b"k")
    with pytest.MonkeyPatch.context() as patch:
        count = late.Late._count
        patch.setattr(late.Late, "_count", lambda self, more: (count(self, more), seen.append(self.pending)))
        assert (client.launch(function, [client.upload(bytes(16))]) or client.code("cuCtxSynchronize")) == 0
    assert max(seen) <= 8 and len(seen) == 60


@pytest.mark.parametrize("blocks, refused", [(4, False), (5, True)])
def test_local_memory_of_blocks_that_wait_for_each_other_is_limited(
    blocks: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module("emulator.ptx.running.lookups"), "MOST_LOCAL", 4 * 32 * 1024)
    text = (
        kernel(
            ".local .align 16 .b8 l[1024]; ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n];\n"
            "st.local.u32 [l], %r1; atom.global.add.u32 %r2, [%d1], 1;"
            "W: ld.volatile.global.u32 %r2, [%d1]; setp.lt.u32 %p1, %r2, %r1; @%p1 bra W;"
        )
        .replace("k()", "k(.param .u64 p, .param .u32 n)")
        .replace("sm_80", "sm_90")
    )
    client = Client(sm=90)
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    at = client.upload(bytes(4))
    code = client.launch(function, [at, blocks * 32], grid=(blocks, 1, 1), block=(32, 1, 1))
    code = code or client.code("cuCtxSynchronize")
    assert code == (719 if refused else 0), client.emulator.reports
    assert not refused or "more than 131072 bytes of local memory" in client.emulator.reports[-1]


def test_blocks_that_ended_have_no_local_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("emulator.ptx.running.lookups"), "MOST_LOCAL", 32 * 1024)
    text = kernel(".local .align 16 .b8 l[1024]; mov.u32 %r1, %tid.x; st.local.u32 [l], %r1; bar.sync 0; exit;")
    client = Client()
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    code = client.launch(function, [], grid=(50, 1, 1), block=(32, 1, 1)) or client.code("cuCtxSynchronize")
    assert code == 0, client.emulator.reports


def test_video_instructions_that_differ_in_their_lanes_take_little_memory() -> None:
    video = module("emulator.ptx.running.units.video").Video()
    values = [each * 0x01010101 for each in range(256)]
    tracemalloc.start()
    try:
        for selected in ("0123", "2222", "7654", "3331"):
            for mask in ("3210", "21"):
                call = video[f"vavrg4|u32,u32,u32|sat||{mask}|{selected}|7654"]
                for a in values[::16]:
                    for b in values:
                        call(a, b, 0)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


HEAP = (
    HEAD
    + """.extern .func (.param .b64 r) malloc(.param .b64 a);
.extern .func free(.param .b64 a);
.entry take(.param .u64 out, .param .u64 size, .param .u64 times)
{
    .reg .b64 %d<9>; .reg .pred %p;
    ld.param.u64 %d1, [out]; ld.param.u64 %d2, [size]; ld.param.u64 %d3, [times];
L:  { .param .b64 a; .param .b64 r; st.param.b64 [a], %d2; call (r), malloc, (a); ld.param.b64 %d4, [r]; }
    st.global.u64 [%d1], %d4; add.u64 %d1, %d1, 8;
    sub.u64 %d3, %d3, 1; setp.ne.u64 %p, %d3, 0; @%p bra L;
    ret;
}
.entry give(.param .u64 at)
{
    .reg .b64 %d;
    ld.param.u64 %d, [at];
    { .param .b64 a; st.param.b64 [a], %d; call free, (a); }
    ret;
}
"""
)


def test_malloc_returns_0_when_the_heap_is_full() -> None:
    """The limit is the context's, for all launches; free gives memory back, and so does the end of the context."""
    client = Client()

    def kernels() -> list:
        loaded = client.load(HEAP)
        return [client.get("cuModuleGetFunction", loaded, name) for name in (b"take", b"give")]

    def take(size: int, times: int) -> list[int]:
        out = client.upload(bytes(8 * times))
        assert client.launch(run, [out, size, times]) == 0
        return list(memoryview(client.download(out, 8 * times)).cast("Q"))

    def give(address: int) -> int:
        return client.launch(free, [address]) or client.code("cuCtxSynchronize")

    run, free = kernels()
    made = take(3 << 20, 3)
    assert [bool(each) for each in made] == [True, True, False]
    assert take((2 << 20) + 1, 1) == [0] == take(1 << 63, 1)
    assert take(2 << 20, 2)[0] and take(1, 1) == [0]
    assert give(made[0]) == 0 and give(0) == 0
    assert [bool(each) for each in take(3 << 20, 2)] == [True, False]
    assert client.code("cuCtxSetLimit", 2, 16 << 20) == 1  # too late
    before = client.emulator._machine.space.find(made[1])
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    assert before is not None and not before.alive
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    client.do("cuDevicePrimaryCtxRetain", ctypes.c_uint64(), 0)
    client.do("cuCtxSetLimit", 2, (8 << 20) + 100)
    run, free = kernels()
    assert all(take(4 << 20, 2))
    assert [bool(each) for each in take(1, 2)] == [True, False]  # each takes 80 bytes, of which 100 are left


def test_free_takes_only_what_malloc_returned() -> None:
    client = Client()
    loaded = client.load(HEAP)
    run, free = (client.get("cuModuleGetFunction", loaded, name) for name in (b"take", b"give"))
    out = client.upload(bytes(8))
    assert client.launch(run, [out, 64, 1]) == 0
    (address,) = memoryview(client.download(out, 8)).cast("Q")
    for wrong, before in ((out, False), (address + 16, False), (address, True)):
        if before:
            assert (client.launch(free, [address]) or client.code("cuCtxSynchronize")) == 0
        assert (client.launch(free, [wrong]) or client.code("cuCtxSynchronize")) == 700
        assert "free in a kernel of address" in client.emulator.reports[-1]
        client.emulator._machine.devices[0].primary.revive()


@pytest.mark.parametrize("target, most", [("sm_90", 48 << 10), ("sm_90a", 227 << 10)])
def test_a_module_for_one_architecture_may_have_more_shared_memory(target: str, most: int) -> None:
    """The last word of the most that ptxas permits can be written and read; one more byte is refused."""
    client = Client()
    text = (
        ".version 8.0\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p)"
        "{{ .reg .b64 %d; .reg .b32 %r; .shared .align 4 .b8 s[{size}]; ld.param.u64 %d, [p]; mov.u32 %r, 7; "
        "st.shared.u32 [s+{last}], %r; ld.shared.u32 %r, [s+{last}]; st.global.u32 [%d], %r; ret; }}\n"
    )
    loaded = client.load(text.format(target=target, size=most, last=most - 4))
    memory = client.upload(bytes(4))
    assert client.launch(client.get("cuModuleGetFunction", loaded, b"k"), [memory]) == 0
    assert client.number(memory) == 7
    wrong = text.format(target=target, size=most + 1, last=most - 4).encode()
    assert client.code("cuModuleLoadData", ctypes.c_uint64(), wrong) == 218
    assert f"uses too much shared data ({most + 1:#x} bytes, {most:#x} max)" in client.emulator.reports[-1]


WORDS = ("eval", "exec", "__import__", "open", "os", "getattr", "breakpoint")


@pytest.mark.parametrize("word", WORDS)
def test_nothing_of_a_text_is_python(word: str) -> None:
    """Whatever names and strings a text contains, the source has none of them as a name, an attribute or code."""
    quoted = f"'\\n{word}(1)#"
    text = f"""{HEAD}.file 1 "{quoted}"
.global .b32 {word};
.func {word}_f(.param .b32 {word}_p) {{ ret; }}
.visible .entry {word}_k(.param .u64 {word}_p)
{{
    .reg .b64 %{word}; .reg .pred %{word}_q; .reg .b32 {word}$; .shared .b32 {word}_s[4];
    .loc 1 1 0
    setp.eq.u32 %{word}_q, 1, 1;
{word}_l: ld.param.u64 %{word}, [{word}_p];
    mov.u32 {word}$, {word}_s; // {quoted}
    st.global.u32 [{word}], {word}$;
    @!%{word}_q bra {word}_l;
    ret;
}}
"""
    code = module("emulator.ptx").load(text.encode(), module("emulator.machine.space").Space())
    assert code.entries.keys() == {f"{word}_k"} and "def " in code.source
    for node in ast.walk(ast.parse(code.source)):
        assert not isinstance(node, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Lambda))
        if isinstance(node, ast.Name):
            assert node.id != word
        elif isinstance(node, ast.Attribute):
            assert node.attr != word and not node.attr.startswith("__")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert quoted not in node.value


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads the size of the process in /proc")
@pytest.mark.parametrize("attribute", ["", ".attribute(.managed) "])
def test_large_variables_take_no_memory_until_they_are_used(attribute: str) -> None:
    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE

    declared = "".join(f".global {attribute}.b8 g{number}[{32 << 20}];\n" for number in range(20))
    before, space = resident(), module("emulator.machine.space")
    code = module("emulator.ptx").load(f"{HEAD}{declared}.entry k(){{ ret; }}".encode(), space.Space())
    assert resident() - before < 100 << 20
    variable = code.variables["g7"]
    assert bytes(variable.data[:3]) == b"\0\0\0" and len(variable.data) == 32 << 20


# -- memory for each character


def words(text: str) -> object:
    return module("emulator.ptx.reading.lexer").Tokens(text)


def outline(text: str) -> object:
    return module("images.outline").declarations(text)


def declared(text: str) -> object:
    return module("compiler.declarations").Declarations([text]).names


MANY = 1 << 17
PIECES = {  # by a name: the reader, what is repeated, and what stands before and after it
    "comments of lines": (words, "//\n", "", ""),
    "comments": (words, "/**/", "", ""),
    "comments and blanks": (words, "/**/\n", "", ""),
    "parts of a word": (words, "::a", "a", ""),
    "escapes": (words, "\\a", '"', '"'),
    "comments of an outline": (outline, "//\n", "", ""),
    "escapes of an outline": (outline, "\\a", '.pragma "', '";'),
    "an attribute": (outline, "()", ".func .attribute(", ") f() {}"),
    "an attribute of a variable": (outline, "()", ".global .attribute(", ") .b32 x;"),
    "words of a variable": (outline, ".x ", ".global ", " y;"),
    "extents": (outline, "[1]", ".global .b8 x", ";"),
    "lines of a comment": (declared, "\\\n", "//", "\n"),
    "escapes in CUDA C": (declared, "\\a", 'const char *s = "', '";'),
    "comments in CUDA C": (declared, "//\n", "", ""),
}


@pytest.mark.parametrize("name", PIECES)
def test_no_reader_takes_a_hundred_times_the_memory_of_its_text(name: str) -> None:
    """A pattern in which a group may match any number of times did: a fatbin of 3 kB took 6 GB."""
    read, piece, before, after = PIECES[name]
    text = before + piece * (MANY // len(piece)) + after
    with suppress(module("emulator.ptx.reading.syntax").Rejected):
        read("")
    tracemalloc.start()
    try:
        with suppress(module("emulator.ptx.reading.syntax").Rejected):
            read(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 * MANY, f"{peak / MANY:.0f} bytes for each character"


HOLDS = "{{ .param .b8 to[{size}]; st.param.b8 [to], 1; call f, (to); }}"
NESTED = ".func f(.param .b8 from[{size}]) {{ " + HOLDS + " ret; }}\n"


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
@pytest.mark.parametrize("watch", [True, False], ids=["checked", "unchecked"])
def test_arrays_of_parameters_are_on_the_stack(executor: str, watch: bool) -> None:
    """A function that calls itself overflows its stack after 512 KiB of them."""
    client = Client(executor=executor, checked=watch)
    text = kernel(HOLDS.format(size=40000), NESTED.format(size=40000))
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    tracemalloc.start()
    code = client.launch(function, []) or client.code("cuCtxSynchronize")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code == 719 and "more than 524288 bytes" in client.emulator.reports[-1]
    assert most < 4 << 20


@pytest.mark.parametrize("executor", ["scalar", "numpy"])
def test_arrays_of_parameters_leave_the_stack_when_their_function_ends(executor: str) -> None:
    client = Client(executor=executor)
    functions = ".func f(.param .b8 from[4096]) { ret; }\n" + NESTED.format(size=4096).replace("func f", "func g")
    calls = HOLDS.format(size=4096).replace("call f", "call g") * 4
    text = kernel(f"mov.u32 %r1, 0; L: {calls} add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 100; @%p1 bra L;", functions)
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    assert client.launch(function, [], block=(64, 1, 1)) == 0 == client.code("cuCtxSynchronize")


def test_arrays_of_parameters_count_as_memory_of_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("emulator.ptx.running.lookups"), "MOST_LOCAL", 1 << 20)
    client = Client(executor="scalar")
    function = client.get("cuModuleGetFunction", client.load(kernel(".param .b8 a[20000]; bar.sync 0;")), b"k")
    assert client.launch(function, [], block=(50, 1, 1)) == 0 == client.code("cuCtxSynchronize")
    code = client.launch(function, [], block=(60, 1, 1)) or client.code("cuCtxSynchronize")
    assert code == 719 and "more than 1048576 bytes of local memory" in client.emulator.reports[-1]


def test_no_thread_has_more_local_memory_as_arrays() -> None:
    """The frames of two functions are larger than the stack."""
    client = Client(executor="numpy")
    text = kernel(
        ".local .b8 a[300000]; mov.u64 %d1, a; st.local.b8 [%d1], 1; call f;",
        ".func f() { .local .b8 b[300000]; .reg .b64 d; mov.u64 d, b; st.local.b8 [d], 1; ret; }\n",
    )
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    code = client.launch(function, []) or client.code("cuCtxSynchronize")
    assert code == 719 and "stack overflow" in client.emulator.reports[-1]


@pytest.mark.parametrize("type, refused", [(0, True), (3, True), (6, False), (9, False)])
def test_a_tensor_map_of_integers_is_not_filled_with_nan(type: int, refused: bool) -> None:
    """tensormap.replace can ask for it; cuTensorMapEncodeTiled refuses it."""
    layout, tensors = module("emulator.machine.tensor_map_layout"), module("emulator.ptx.running.units.tensors")
    fields = type, 1, 0, 0, 0, 1, 1, 4096, *[64] * 5, *[64] * 4, *[1] * 5, *[16] * 5
    data = layout.LAYOUT.pack(layout.MAGIC, *fields)
    if refused:
        with pytest.raises(module("emulator.machine.space").Fault, match="it fills with NaN"):
            tensors.TensorMap(data)
    else:
        assert tensors.TensorMap(data).fill == 1
