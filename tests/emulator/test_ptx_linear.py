"""Loading is linear in the length of the PTX, in steps and in memory, for every kind of text that may repeat something.

Steps are lines of the package that run, which are the same on every machine; memory is what Python allocates at most.
Ten times the text may take at most 12 times of each.
"""

from __future__ import annotations

import dis
import gc
import sys
import tracemalloc
from typing import Any, Callable

import pytest

from tests.subject import FOLDER, module

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
ptx = module("emulator.ptx")
program = module("emulator.ptx.ptx_program")


def kernel(body: str, n: int, before: str = "") -> str:
    declared = f".reg .pred %p<4>; .reg .b32 %r<{n + 2}>; .reg .b64 %d<9>;\nsetp.eq.u32 %p1, 1, 1; mov.u32 %r0, 0;"
    return f"{HEAD}{before}.entry k(){{ {declared}\n{body}\nret;}}\n"


def many(n: int, form: str, joined: str = "\n") -> str:
    """Return a form n times: # is the number, + is the next one, ~ is a number anywhere."""
    words = (form.replace("#", str(i)).replace("+", str(i + 1)).replace("~", str(i * 7919 % n)) for i in range(n))
    return joined.join(words)


KINDS: dict[str, Callable[[int], str]] = {
    "a line": lambda n: kernel(many(n, "mov.u32 %r#, #;"), n),
    "a chain of moves": lambda n: kernel(many(n, "mov.u32 %r+, %r#;") + f"add.u32 %r{n}, %r{n}, 1;", n),
    "jumps": lambda n: kernel(many(n, "L#: bra L+;") + f"\nL{n}:", n),
    "labels": lambda n: kernel(many(n, "L#:"), n),
    "branches": lambda n: kernel(
        many(n, "@%p1 bra A#; add.u32 %r0,%r0,1; bra B#; A#: add.u32 %r0,%r0,2; B#: add.u32 %r0,%r0,3;"), n
    ),
    "registers and blocks": lambda n: kernel(many(n, "@%p1 bra L#; mov.u32 %r#, #; L#:"), n),
    "loops": lambda n: kernel(many(n, "A#: add.u32 %r0,%r0,1; @%p1 bra A#;"), n),
    "waits in a loop": lambda n: kernel(
        "H:" + many(n, "A#: ld.volatile.global.u32 %r0,[%d1]; setp.eq.u32 %p2,%r0,#; @%p2 bra A#;") + "@%p1 bra H;", n
    ),
    "crossing jumps": lambda n: kernel(many(n, "@%p1 bra L~; L#: add.u32 %r0,%r0,1;"), n),
    "cases": lambda n: kernel(
        f"T: .branchtargets {many(n, 'L#', ',')};\nbrx.idx %r0, T;\n"
        + many(n, "L#: add.u32 %r0, %r0, #; bra E;")
        + "E:",
        n,
    ),
    "functions": lambda n: kernel(
        "call f0;", n, many(n + 1, ".func f#;") + many(n, ".func f#{ call f+; ret; }") + f".func f{n}{{ ret; }}\n"
    ),
    "calls in a function of many parameters": lambda n: (
        HEAD
        + ".func f(.param .b32 x) { ret; }"
        + f".func g({many(n, '.param .b32 p#', ',')}) {{ .param .b32 a; st.param.b32 [a], 0;"
        + f"{many(n, 'call f, (a);')} ret; }}"
        + ".entry k() { ret; }"
    ),
    "kernels that reach the same functions": lambda n: (
        HEAD
        + ".func f0{ .shared .b32 s; .reg .b32 %r; mov.b32 %r, s; ret; }"
        + many(n, ".func f+{ call f#; ret; }")
        + many(n, f".entry k#(){{ call f{n}; ret; }}")
    ),
    "kernels": lambda n: HEAD + many(n, ".entry k#(.param .u32 a){ .reg .b32 %r; ld.param.u32 %r, [a]; ret; }"),
    "prototypes": lambda n: kernel(
        "mov.u64 %d1, f;" + many(n, "{ P: .callprototype _ (.param .b32 a); .param .b32 x; call %d1, (x), P; }"),
        n,
        ".func f(.param .b32 a){ret;}\n",
    ),
    "arguments": lambda n: kernel(
        f"call f,({many(n, '1', ',')});", n, f".func f({many(n, '.reg .b32 a#', ',')}){{ret;}}\n"
    ),
    "parameters": lambda n: HEAD + f".entry k({many(n, '.param .b8 a#', ',')}){{ret;}}",
    "variables": lambda n: kernel("", n, many(n, ".global .b8 g#[1];")),
    "large variables": lambda n: kernel("", n, many(n, ".global .b8 g#[4096];")),
    "values": lambda n: kernel("", n, f".global .b8 g[] = {{{many(n, '1', ',')}}};\n"),
    "rows of values": lambda n: kernel("", n, f".global .b8 g[][64] = {{{many(n, '{1}', ',')}}};\n"),
    "declarations": lambda n: kernel("", n, many(n, ".extern .global .b8 x[];")),
    "shared variables": lambda n: kernel(many(n, "mov.u32 %r0, s#;"), n, many(n, ".extern .shared .b8 s#[];")),
    "shared variables of functions": lambda n: kernel(
        many(n, "call f#;"), n, many(n, ".func f#{ .shared .b8 s[4]; .reg .b32 %r; mov.u32 %r, s; ret; }")
    ),
    "checks and guards": lambda n: kernel(
        ".shared .b32 a[9];" + many(n, "mov.u32 %r#, 0; st.shared.u32 [%r#], 1;") + "@%p1 add.u32 %r0,%r0,1;" * 2 * n, n
    ),
    "sums": lambda n: kernel("", n, f".global .b32 x = 1{'+1' * n};\n"),
    "comparisons": lambda n: kernel("", n, f".global .b32 x = 1{'<1' * n};\n"),
    "locations": lambda n: kernel(".loc 1 5 0\n" * n, n, '.file 1 "x.cu"\n'),
    "a string": lambda n: kernel("", n, '.file 1 "' + r"\a" * n + '"\n'),
    "spaces": lambda n: HEAD + " \t" * n + kernel("", n)[len(HEAD) :],
    "comments": lambda n: HEAD + "/*" + "x " * n + "*/" + kernel("", n)[len(HEAD) :],
    # what is refused
    "sections": lambda n: HEAD + ".section\n" * n,
    "an open comment": lambda n: HEAD + "/*" * n,
    "digits": lambda n: HEAD + "1" * n + "g",
    "dots": lambda n: kernel(f"a{'.a' * n};", n),
    "braces": lambda n: kernel("{" * n + "}" * n, n),
    "parentheses": lambda n: kernel("", n, f".global .b32 x = {'(' * n}1{')' * n};\n"),
}


def lines_of(code: Any) -> list[tuple[int, int]]:
    return [(offset, line) for offset, line in dis.findlinestarts(code) if line]


def load(text: str) -> None:
    try:
        ptx.load(text.encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
    except ptx.Rejected:
        pass


def steps(given: Any, run: Callable[[Any], None] = load) -> int:
    """Count the lines of the package that run."""
    count, folder = 0, str(FOLDER)

    def line(frame: Any, event: str, _: object) -> Any:
        nonlocal count
        count += 1
        return line

    was = sys.gettrace()
    sys.settrace(lambda frame, *_: line if frame.f_code.co_filename.startswith(folder) else None)
    try:
        run(given)
    finally:
        sys.settrace(was)
    return count


def memory(text: str) -> int:
    """Return the most memory that loading needs at once."""
    gc.collect()
    tracemalloc.start()
    try:
        load(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("measure", "n"), [(steps, 20), (memory, 50)], ids=["steps", "memory"])
@pytest.mark.parametrize("kind", KINDS)
def test_ten_times_the_text_takes_at_most_12_times(kind: str, measure: Callable[[str], int], n: int) -> None:
    n *= 5 if kind == "cases" else 1  # the branches of a short table are nested
    small, large = KINDS[kind](n), KINDS[kind](10 * n)
    load(large)  # what is made once
    more = max(12, 1.2 * len(large) / len(small))  # the numbers in the text get longer, too
    one, ten = measure(small), measure(large)
    if measure is memory and ten > more * one:  # what other threads of the process allocate meanwhile counts, too
        ten = min(measure(large) for _ in range(3))
    assert ten <= more * one, (one, ten, more)


LINKED: dict[str, Callable[[int], list[str]]] = {
    "texts": lambda n: [f"{HEAD}.visible .func f{i}{{ ret; }}\n" for i in range(n)],
    "texts with names of their own": lambda n: [
        f"{HEAD}.func f{{ ret; }} .visible .func g{i}{{ ret; }}" for i in range(n)
    ],
    "weak variables, of which half are replaced": lambda n: [
        f"{HEAD}.weak .global .b32 {many(2 * n, 'x#', ', ')};\n",
        f"{HEAD}.visible .global .b32 {many(n, 'x#', ', ')};\n",
    ],
    "labels with the names of functions": lambda n: [
        HEAD + many(n, ".visible .func f# { ret; }"),
        f"{HEAD}.visible .entry k() {{ {many(n, 'bra f#; f#:')} ret; }}",
    ],
    "functions that nothing defines": lambda n: [
        HEAD + many(n, ".extern .func f#;") + f".visible .func g{{ {many(n, 'call f#;')} ret; }}"
    ],
    "variables that nothing defines": lambda n: [
        f"{HEAD}.extern .global .b32 {many(n, 'x#', ', ')};\n"
        f".visible .global .u64 y[{n}] = {{ {many(n, 'x#', ', ')} }};"
    ],
    "declarations": lambda n: [
        f"{HEAD}.visible .func f({many(n, '.param .u32 p#', ', ')}) {{ ret; }}",
        HEAD + f".extern .func f({many(n, '.param .u32 p#', ', ')});" + many(n, ".extern .func f;"),
    ],
}


def link(texts: list[str]) -> None:
    linking = module("emulator.ptx.reading.ptx_linking")
    merger = linking.Merger()
    try:
        for number, text in enumerate(texts):
            merger.add(linking.Unit(text, f"text {number}", (9, 0)))
        merger.complete()
    except ptx.Rejected:
        pass


@pytest.mark.parametrize("kind", LINKED)
def test_ten_times_the_texts_to_link_take_at_most_12_times(kind: str) -> None:
    small, large = LINKED[kind](20), LINKED[kind](200)
    link(small)
    more = max(12, 1.2 * sum(map(len, large)) / sum(map(len, small)))
    assert steps(large, link) <= more * steps(small, link)


def test_cells_of_many_accesses_are_not_in_a_block_with_other_instructions() -> None:
    """CPython moves the first block of a function once for each of its cells, so that block must not grow."""

    def first_block(n: int) -> int:
        text = kernel(many(n, "ld.global.u32 %r0,[%d1]; st.global.u32 [%d1],%r0;"), n)
        code = ptx.load(text.encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
        before: list[str] = []
        for instruction in dis.get_instructions(code.functions[code.entries["k"]._translated.prepared.function.python]):
            before.append(instruction.opname)
            if instruction.opname == "FOR_ITER":
                break
        assert before[-1] == "FOR_ITER"
        return len([name for name in before if name not in ("MAKE_CELL", "EXTENDED_ARG")])

    assert first_block(200) == first_block(300)  # both are so long that they look at the clock


def test_too_many_live_registers_are_not_for_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists of a run are as long as the live registers of all nodes, and must not grow with their product."""
    graph, running = module("emulator.ptx.vectors.writing.value_graph"), module("emulator.ptx.vectors.running.running")
    text = kernel(
        "ld.global.u32 %r0,[%d1];"
        + many(19, "add.u32 %r+,%r#,1;")
        + many(20, "@%p1 bra L#; add.u32 %r#,%r#,1; L#:")
        + many(20, "st.global.u32 [%d1],%r#;"),
        20,
    )
    code = ptx.load(text.encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
    made = code._unit, code.entries["k"]._translated.prepared
    program = graph.program_of(*made)
    numbers = [running.places_in(node.live) for node in program.nodes]
    assert [sum(1 << place for place in found) for found in numbers] == [node.live for node in program.nodes]
    monkeypatch.setattr(graph, "MOST_LIVE", sum(map(len, numbers)))
    graph.program_of(*made)
    monkeypatch.setattr(graph, "MOST_LIVE", sum(map(len, numbers)) - 1)
    with pytest.raises(graph.Unsuited, match="too many registers are live"):
        graph.program_of(*made)


def test_a_function_that_is_inlined_too_often_is_not_for_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """n instructions that are inlined n times take quadratic time and memory."""
    graph = module("emulator.ptx.vectors.writing.value_graph")
    text = kernel("call f; call f;", 0, ".func f { .reg .b32 %r; mov.u32 %r, 1; add.u32 %r, %r, 1; ret; }\n")
    code = ptx.load(text.encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
    made = code._unit, code.entries["k"]._translated.prepared
    monkeypatch.setattr(graph, "MOST_INLINED", 6)
    graph.program_of(*made)
    monkeypatch.setattr(graph, "MOST_INLINED", 5)
    with pytest.raises(graph.Unsuited, match="too many inlined instructions"):
        graph.program_of(*made)


TWO_ENTRIES = "@%p1 bra A; bra B; A: mov.u32 %r1, 1; L0: add.u32 %r0,%r1,1;{} ret; B: bra L{};"


def test_registers_of_loops_with_two_entries_are_found_in_linear_time() -> None:
    registers = module("emulator.ptx.translating.registers")

    def measured(n: int) -> int:
        text = kernel(TWO_ENTRIES.format(many(n, "L+: @%p1 bra L#;"), n), n)
        code = ptx.load(text.encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
        made = code.entries["k"]._translated.prepared
        return steps(made, lambda given: registers.defined_late(given.function, given.blocks, given.shapes))

    assert measured(400) <= 12 * measured(40)


def test_many_loops_in_loops_are_not_for_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """n loops around each other contain n * n / 2 blocks."""
    graph = module("emulator.ptx.vectors.writing.value_graph")
    text = kernel(TWO_ENTRIES.format(many(20, "L+: @%p1 bra L#;"), 20), 20)
    code = ptx.load(text.encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
    made = code._unit, code.entries["k"]._translated.prepared
    monkeypatch.setattr(graph, "MOST_IN_LOOPS", 1000)
    graph.program_of(*made)
    monkeypatch.setattr(graph, "MOST_IN_LOOPS", 100)
    with pytest.raises(graph.Unsuited, match="too many loops in loops"):
        graph.program_of(*made)


def test_forms_that_track_undefined_values_are_made_in_linear_time(capfd: pytest.CaptureFixture[str]) -> None:
    """Each is made on first use, one function after another."""

    def measured(n: int) -> int:
        memory = module("emulator.machine.space").Space(watch=True)
        memory.executor = "scalar"
        read = "ld.param.u64 %d, [p]; ld.global.u32 %r, [%d]; add.u32 %r, %r, 1; st.global.u32 [%d], %r; ret;"
        functions = many(n, f".func f#(.param .u64 p) {{ .reg .b32 %r; .reg .b64 %d; {read} }}")
        calls = many(n, "add.u64 %d1, %d1, 4; { .param .u64 q; st.param.u64 [q], %d1; call f#, (q); }")
        text = f"{HEAD}{functions}.entry k(.param .u64 a){{ .reg .b64 %d<2>; ld.param.u64 %d1, [a]; {calls} ret; }}"
        code, where = ptx.load(text.encode(), memory, architecture=(9, 0)), memory.allocate(2048).base
        return steps(code.entries["k"], lambda entry: entry.run((1, 1, 1), (1, 1, 1), 0, where.to_bytes(8, "little")))

    measured(5)
    assert measured(200) <= 12 * measured(20)


RELEASES = {
    "a fence before an atomic": "st.global.u32 [%d2+4], %r0; fence.sc.gpu; atom.global.add.u32 %r1, [%d1], 1;",
    "an atomic that releases": "st.global.u32 [%d2+4], %r0; atom.acq_rel.gpu.global.add.u32 %r1, [%d1], 1;",
    "a lock": """
W:  atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra W;
    fence.sc.gpu; ld.global.u32 %r1, [%d1+4]; st.global.u32 [%d1+4], %r1; fence.sc.gpu;
    atom.global.exch.b32 %r1, [%d1], 0;""",
}


@pytest.mark.parametrize("kind", RELEASES)
def test_what_many_threads_publish_at_one_place_takes_linear_time(kind: str) -> None:
    """To copy for each thread what the others have published would take the square of the threads."""
    body = f"""ld.param.u64 %d1, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r1, %r0, 32, %r1;
    mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2; mov.u32 %r0, 0;
L:  {RELEASES[kind]} add.u32 %r0, %r0, 1; setp.lt.u32 %p1, %r0, 3; @%p1 bra L;"""
    text = kernel(body, 2).replace("k()", "k(.param .u64 out)")

    def measured(blocks: int) -> int:
        memory = module("emulator.machine.space").Space(watch=True)
        memory.executor, memory.races = "scalar", True
        code, where = ptx.load(text.encode(), memory, architecture=(9, 0)), memory.allocate(128 * blocks + 4)
        where.data[:] = bytes(where.size)
        where.wrote(0, where.size)
        given = where.base.to_bytes(8, "little")
        return steps(code.entries["k"], lambda entry: entry.run((blocks, 1, 1), (32, 1, 1), 0, given))

    measured(1)
    assert measured(40) <= 12 * measured(4)


def test_strong_accesses_look_at_the_late_stores_of_their_place_only_and_once() -> None:
    """Those of other places, such as the next word, stay late."""
    Delays = module("emulator.ptx.checking.delays").Delays

    class Always:
        def random(self) -> float:
            return 1.0

    class Block:
        number = 0

    def run(n: int) -> None:
        delays, view = Delays(Always()), memoryview(bytearray(4 * n + 64)).cast("I")
        delays.store(0, 32, view, 0, 8)
        for at in (*[8] * n, *range(9, n + 9)):
            delays.store(4 * at, 4, view, at, 1)
            view[at] = 7
        view[0] = view[7] = 7
        for _ in range(n):
            delays.touch(32, 4)
        delays.touch(28, 4)
        delays.suspend(Block)
        assert view.tolist() == [7] + [0] * 6 + [7, 7] + [0] * (n + 7)
        delays.resume(Block)
        delays.touch(36, 8)
        delays.suspend(Block)
        delays.end()
        assert view.tolist() == [7] + [0] * 6 + [7] * (n + 2) + [0] * 7

    assert steps(400, run) <= 12 * steps(40, run)


WAITS = {
    "of a block": ("mbarrier.arrive.shared.b64 %d1, [bar];", 1),
    "of a block, after fences": ("fence.acq_rel.gpu; mbarrier.arrive.shared.b64 %d1, [bar];", 1),
    "of a cluster": (
        "mapa.shared::cluster.u32 %r2, %r2, %r1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];",
        2,
    ),
}


@pytest.mark.parametrize("kind", WAITS)
def test_threads_that_wait_for_an_mbarrier_take_linear_time(kind: str) -> None:
    """To tell for each wait all threads of the block what they know would take the square of the threads."""
    arrive, blocks = WAITS[kind]
    text = kernel(
        f"""mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, bar; setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [bar], %r1; barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1; {arrive}
W:  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W; barrier.cluster.arrive; barrier.cluster.wait;""",
        3,
        ".shared .align 8 .b64 bar;\n",
    ).replace("sm_80", "sm_90")

    def measured(threads: int) -> int:
        memory = module("emulator.machine.space").Space(watch=True)
        memory.executor, memory.races = "scalar", True
        entry = ptx.load(text.encode(), memory, architecture=(9, 0)).entries["k"]
        return steps(entry, lambda entry: entry.run((blocks, 1, 1), (threads, 1, 1), 0, b"", cluster=(blocks, 1, 1)))

    measured(1)
    assert measured(200) <= 12 * measured(20)


def test_the_report_of_an_instruction_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that store the same value without a barrier between them may do that in each iteration."""
    races, made = module("emulator.ptx.running.races").Watch, []
    race_of = races._race
    monkeypatch.setattr(races, "_race", lambda *given: made.append(given) or race_of(*given))
    body = "L: st.shared.u32 [s], 1; bar.sync 0; add.u32 %r0, %r0, 1; setp.lt.u32 %p1, %r0, 20; @%p1 bra L;"
    memory = module("emulator.machine.space").Space(watch=True)
    memory.executor = "scalar"
    text = kernel(f".shared .b32 s; {body}", 2)
    ptx.load(text.encode(), memory, architecture=(9, 0)).entries["k"].run((1, 1, 1), (64, 1, 1), 0, b"")
    assert len(memory.warnings) == len(made) == 1


def test_reports_of_a_launch_take_linear_time(capfd: pytest.CaptureFixture[str]) -> None:
    def measured(n: int) -> int:
        memory = module("emulator.machine.space").Space(watch=True)
        memory.executor = "scalar"
        form = "ld.global.u8 %r1, [%d1+{}]; add.u32 %r1, %r1, 1; st.global.u32 [%d1+1024], %r1;\n"
        body = "".join(form.format(at) for at in range(n))
        text = f"{HEAD}.entry k(.param .u64 a){{ .reg .b32 %r1; .reg .b64 %d<2>; ld.param.u64 %d1, [a]; {body} ret; }}"
        code, where = ptx.load(text.encode(), memory, architecture=(9, 0)), memory.allocate(2048).base
        given = where.to_bytes(8, "little")
        count = steps(code.entries["k"], lambda entry: entry.run((1, 1, 1), (1, 1, 1), 0, given))
        assert len(memory.warnings) == n
        return count

    measured(10)
    assert measured(800) <= 12 * measured(80)


def test_a_parameter_is_not_compared_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[None] = []

    def equal(one: object, other: object) -> bool:
        compared.append(None)
        return one is other

    monkeypatch.setattr(module("emulator.ptx.reading.syntax").Variable, "__eq__", equal)
    text = KINDS["calls in a function of many parameters"](100)
    ptx.load(text.encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
    assert len(compared) < 100


def test_python_compiles_functions_in_linear_time() -> None:
    """For each inner function, Python copies the names of the outer one, so their number must not grow."""

    def names(n: int) -> int:
        code = ptx.load(KINDS["functions"](n).encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
        outer = code.functions["functions"].__code__
        return len(outer.co_varnames) + len(outer.co_cellvars)

    assert names(3) == names(300)


@pytest.mark.parametrize("limit,most", [("_AT_ONCE", 3), ("_SIZE_AT_ONCE", 1500)])
def test_the_kernels_of_a_module_are_compiled_a_few_at_once(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """compile() takes the square of the number of functions, and much memory. The lines stay what they are."""
    parts: list[str] = []

    def compiled(source: str, *arguments: Any, **options: Any) -> Any:
        parts.append(source)
        return compile(source, *arguments, **options)

    monkeypatch.setattr(program, "compile", compiled, raising=False)
    monkeypatch.setattr(program, limit, most)
    for kernels in (0, 1, 3, 4, 7):
        parts.clear()
        text = HEAD + ".func f { ret; }" + many(kernels, ".entry k#() { .reg .b32 %r; mov.b32 %r, #; call f; ret; }")
        made = ptx.load(text.encode(), module("emulator.machine.space").Space(), architecture=(9, 0))
        counts = [part.count("def k") for part in parts]
        if limit == "_AT_ONCE":  # the functions count as one, the last
            assert counts == [3] * (kernels // 3) + [kernels % 3]
        else:
            assert sum(counts) == kernels and all(len(part) <= most for part in parts)
            assert all(len(part) + len(more) > most for part, more in zip(parts, parts[1:]))
        assert "".join(parts) == made.source
        whole = made.source.splitlines()
        codes = [each.__code__ for name, each in made.functions.items() if name == "functions" or name[0] == "k"]
        codes += [each for each in codes[-1].co_consts if hasattr(each, "co_firstlineno")]  # the functions in it
        assert len(codes) >= kernels + 2
        for code in codes:
            assert whole[code.co_firstlineno - 1].lstrip().startswith(f"def {code.co_name}(")
            assert all(line is None or line <= len(whole) for *_, line in lines_of(code))


@pytest.mark.parametrize("text", ['.file 1 "{}"', '.pragma "{}";', "//{}\n"])
def test_texts_in_texts_take_little_memory(text: str) -> None:
    """Memory outside of Python's own, such as that of regular expressions, counts here, too."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    load(kernel("", 1, text.format("x" * 3_000_000) + "\n"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB
