"""The steps of a warp: rawcuda.step()."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import tracemalloc

import numpy
import pytest

from tests.subject import module, rawcuda

HEAD = ".version 6.3\n.target sm_50\n.address_size 64\n"
SCALE = (
    HEAD
    + """.visible .entry scale(.param .u64 x, .param .f32 a, .param .u32 n)
{
  .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x];
  ld.param.f32 %f1, [a]; ld.param.u32 %r2, [n];
  mov.u32 %r1, %tid.x;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra DONE;
  mul.wide.s32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f2, [%rd4];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd4], %f3;
DONE:
  ret;
}
"""
)


pytestmark = [
    pytest.mark.emulator_only("a GPU does not show its instructions"),
    pytest.mark.once,
    pytest.mark.usefixtures("only_new_objects"),
]


def kernel_of(device, text, name="k"):
    return device.load(text)[name]


def body(text, parameters=".param .u64 x"):
    registers = ".reg .pred %p<9>; .reg .f32 %f<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>;"
    return f"{HEAD}.visible .entry k({parameters})\n{{ {registers}\n{text}\n}}\n"


def test_a_kernel_is_shown_from_its_first_instruction_to_its_last(device):
    kernel, x = kernel_of(device, SCALE, "scale"), device.zeros(32, "float32")
    x.fill(3)
    steps = rawcuda.step(kernel, x, 2.0, 20, grid=1, block=32)
    assert x.download().tolist() == [6.0] * 20 + [3.0] * 12
    assert [each.number for each in steps] == list(range(len(steps)))
    assert [each.text.split(" ")[0] for each in steps][:3] == ["ld.param.u64", "ld.param.f32", "ld.param.u32"]
    assert [each.line for each in steps][:4] == [7, 8, 8, 9]
    load = next(each for each in steps if each.text == "ld.global.f32 %f2, [%rd4];")
    assert load.active == (True,) * 20 + (False,) * 12 and load.written == ("%f2",)
    assert load.registers["%f2"] == (3.0,) * 20 + (None,) * 12
    assert [(m.kind, m.space, m.lane, m.nbytes, m.values) for m in load.memory][:1] == [
        ("read", "global", 0, 4, (3.0,))
    ]
    assert load.memory[1].address - load.memory[0].address == 4 and load.memory[0].value == 0x40400000
    branch = next(each for each in steps if "bra" in each.text)
    assert branch.reached == (True,) * 32 and branch.active == (False,) * 20 + (True,) * 12
    assert steps[-1].text == "ret;" and all(steps[-1].active)
    assert (steps.kernel, steps.warp, steps.block, steps.error) == ("scale", 0, (0, 0, 0), None)
    assert "####################............ ld.global.f32" in str(steps)
    assert "write global" in str(steps) and "-> 3" in str(steps)


def test_the_data_is_json_and_the_table_is_html(device):
    x = device.zeros(4, "float32")
    x.fill(math.inf)
    steps = rawcuda.step(kernel_of(device, SCALE, "scale"), x, 2.0, 4, grid=1, block=4)
    made = steps.as_dict()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made["kernel"] == "scale" and made["steps"][-1]["text"] == "ret;"
    assert any(access["value"] == "inf" for each in made["steps"] for access in each["memory"])
    assert "<table" in steps._repr_html_() and "<script" not in steps._repr_html_()


def test_lanes_that_diverge_meet_again(device):
    text = body(
        """mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;
        @%p1 bra EVEN;
        add.u32 %r3, %r1, 100;
        bra MEET;
        EVEN: mul.lo.u32 %r3, %r1, 2;
        MEET: mov.u32 %r4, %r3;
        ret;""",
        "",
    )
    steps = rawcuda.step(kernel_of(device, text), grid=1, block=4)
    meet = next(each for each in steps if each.text == "mov.u32 %r4, %r3;")
    assert meet.active[:4] == (True,) * 4 and meet.registers["%r4"][:5] == (0, 101, 4, 103, None)
    assert next(each for each in steps if each.text.startswith("add.u32")).active[:4] == (False, True, False, True)


def test_a_loop_runs_as_often_as_each_lane_needs(device):
    text = body(
        """mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
        AGAIN: add.s32 %r2, %r2, 1; setp.le.s32 %p1, %r2, %r1;
        @%p1 bra AGAIN;
        @!%p1 add.s32 %r3, %r2, -9;
        ret;""",
        "",
    )
    steps = rawcuda.step(kernel_of(device, text), grid=1, block=3)
    rounds = [each.active[:3] for each in steps if each.text.startswith("add.s32 %r2")]
    assert rounds == [(True, True, True), (False, True, True), (False, False, True)]
    assert steps[-2].registers["%r3"][:3] == (-8, -7, -6) and steps[-2].text == "@!%p1 add.s32 %r3, %r2, -9;"


def test_other_warps_run_and_barriers_hold(device):
    text = body(
        """.shared .align 4 .b8 s[256];
        ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.u32 %r3, %r3, %r2;
        st.shared.u32 [%r3], %r1;
        bar.sync 0;
        xor.b32 %r4, %r2, 128; mov.u32 %r5, s; add.u32 %r5, %r5, %r4;
        ld.shared.u32 %r6, [%r5];
        cvt.u64.u32 %rd2, %r2; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r6;
        ret;"""
    )
    x = device.zeros(64, "int32")
    steps = rawcuda.step(kernel_of(device, text), x, grid=1, block=64, warp=1)
    assert x.download().tolist() == [*range(32, 64), *range(32)]
    load = next(each for each in steps if each.text.startswith("ld.shared"))
    assert [m.value for m in load.memory] == list(range(32)) and load.memory[0].space == "shared"


def test_vectors_atomics_and_shuffles(device):
    text = body(
        """ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x;
        ld.global.v2.u32 {%r2, %r3}, [%rd1];
        shfl.sync.bfly.b32 %r4, %r1, 1, 31, 0xffffffff;
        atom.global.add.u32 %r5, [%rd1+8], 1;
        ret;"""
    )
    x = device.zeros(4, "int32")
    steps = rawcuda.step(kernel_of(device, text), x, grid=1, block=32)
    wide = next(each for each in steps if ".v2" in each.text)
    assert wide.memory[0].nbytes == 8 and wide.memory[0].value == bytes(8) and wide.memory[0].values == (0, 0)
    shuffle = next(each for each in steps if each.text.startswith("shfl"))
    assert all(shuffle.active) and shuffle.registers["%r4"][:4] == (1, 0, 3, 2)
    atomic = next(each for each in steps if each.text.startswith("atom"))
    assert [(m.kind, m.before, m.value) for m in atomic.memory][:2] == [("atomic", 0, 1), ("atomic", 1, 2)]


def test_calls_are_followed_into_the_function(device):
    text = (
        HEAD
        + """.func (.param .b32 out) twice(.param .b32 in)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [in]; add.u32 %r2, %r1, %r1; st.param.u32 [out], %r2; ret; }
.visible .entry k()
{ .reg .b32 %r<3>; mov.u32 %r1, %tid.x;
  { .param .b32 a; .param .b32 b; st.param.u32 [a], %r1; call (b), twice, (a);
  ld.param.u32 %r2, [b]; }
  ret; }
"""
    )
    steps = rawcuda.step(kernel_of(device, text), grid=1, block=2)
    inside = next(each for each in steps if each.text == "add.u32 %r2, %r1, %r1;")
    assert (inside.function, inside.depth, inside.registers["%r2"][:2]) == ("twice", 1, (0, 2))
    assert steps[-1].function == "k" and steps[-1].registers["%r2"][:2] == (0, 2) and steps[-1].depth == 0


@pytest.mark.tells_freed
def test_a_kernel_that_fails_is_shown_to_the_failure(device):
    text = body(
        """ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
        st.global.u32 [%rd3], %r1;
        mov.u32 %r2, 5;
        ret;"""
    )
    steps = rawcuda.step(kernel_of(device, text), device.zeros(2, "int32"), grid=1, block=4)
    assert steps[-1].text == "st.global.u32 [%rd3], %r1;" and steps[-1].active[:4] == (True,) * 4
    assert [m.value for m in steps[-1].memory][:3] == [0, 1, None]
    assert "out-of-bounds write of 4 bytes in k()" in steps.error and "failed: out-of-bounds" in str(steps)
    device.reset()


def test_an_undefined_value_does_not_end_the_record(device):
    text = body(
        """ld.param.u64 %rd1, [x]; ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 1; st.global.u32 [%rd1], %r2;
        ret;"""
    )
    steps = rawcuda.step(kernel_of(device, text), device.empty(1, "int32"), grid=1, block=1)
    assert [each.text.split(" ")[0] for each in steps] == [
        "ld.param.u64", "ld.global.u32", "add.u32", "st.global.u32", "ret;"
    ]  # fmt: skip


def test_the_chosen_block_is_recorded(device):
    text = body("mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; ret;", "")
    steps = rawcuda.step(kernel_of(device, text), grid=(3, 2), block=1, block_index=(2, 1))
    assert steps[-1].registers["%r1"][0] == 2 and steps[-1].registers["%r2"][0] == 1 and steps.block == (2, 1, 0)


def test_the_limit_stops_the_record_and_not_the_kernel(device):
    kernel, x = kernel_of(device, SCALE, "scale"), device.zeros(4, "float32")
    x.fill(1)
    steps = rawcuda.step(kernel, x, 2.0, 4, grid=1, block=4, limit=3)
    assert len(steps) == 3 and not steps.is_complete and x.download().tolist() == [2.0] * 4
    assert "the first 3 steps; the kernel ran to its end: limit= keeps more" in str(steps)


def test_a_kernel_without_instructions(device):
    steps = rawcuda.step(kernel_of(device, f"{HEAD}.visible .entry k() {{ }}"), grid=1, block=1)
    assert len(steps) == 0 and "no instruction was executed" in str(steps) and steps.as_dict()["steps"] == []


def test_a_gpu_is_refused(device, monkeypatch):
    kernel = kernel_of(device, SCALE, "scale")
    monkeypatch.setattr(module("tools.steps"), "is_emulator", lambda driver: False)
    with pytest.raises(rawcuda.Unsupported, match=r"step\(scale\): a GPU does not show its instructions"):
        rawcuda.step(kernel, device.zeros(4, "float32"), 2.0, 4, grid=1, block=4)


def test_data_and_registers_after_a_second_call(device):
    """A register of a function has no value when the function is called again; as_dict() says so."""
    text = """.func f(.param .u32 a) { .reg .u32 %q<3>; .reg .pred %p; ld.param.u32 %q1, [a];
      setp.eq.u32 %p, %q1, 0;
      @%p bra END;
      mov.u32 %q2, 7;
    END: ret; }
    """
    calls = "".join(f"{{ .param .u32 a; st.param.u32 [a], {number}; call f, (a); }}\n" for number in (1, 0))
    kernel = kernel_of(device, body(calls).replace(".visible", f"{text}.visible"))
    made = rawcuda.step(kernel, device.zeros(4, "float32"), grid=1, block=1)
    known = {}
    for each, step in zip(made, made.as_dict()["steps"]):
        frame = known.setdefault((step["function"], step["depth"]), {})
        frame.update(step["registers"])
        assert {name: tuple(values) for name, values in frame.items() if any(v is not None for v in values)} == {
            name: values for name, values in each.registers.items() if any(v is not None for v in values)
        }
    ends = [each for each in made if each.text == "ret;" and each.depth]
    assert [each.registers.get("%q2", (None,))[0] for each in ends] == [7, None]


@pytest.mark.tells_freed
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["scale", "x.npy", 2.0, 4, "--grid", 1, "--block", 4], 0, "scale(), warp 0 of block (0, 0, 0): "),
        (["scale", "x.npy", 2.0, 4, "--grid", 2, "--block", 32, "--at", 1], 0, "warp 0 of block (1, 0, 0)"),
        (["scale", "x.npy", 2.0, 40, "--grid", 1, "--block", 32], 1, "failed: out-of-bounds read of 4 bytes"),
        (["scale", "x.npy", 2.0, 4, "--grid", 1, "--block", 4, "--limit", 3], 0, "the first 3 steps; the kernel ran"),
        (["scale", "x.npy", 2.0, 4, "--grid", 1], 2, "--block is missing: how many threads per block"),
        (["scale", "x.npy", "--grid", 1, "--block", 4], 2, "has 3 parameters, and 1 arguments were given"),
        (["scal", "x.npy", 2.0, 4, "--grid", 1, "--block", 4], 1, "has no kernel 'scal': did you mean scale?"),
        (["scale", "x.npy", 2.0, 4, "--grid", 1, "--block", 4, "--option", "G"], 2, "--option is for the compiler"),
    ],
)
def test_the_command(device, tmp_path, monkeypatch, capsys, words, status, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAWCUDA_DRIVER", raising=False)
    monkeypatch.setattr(module("tools.commands.step"), "connect", lambda driver: None)  # the emulator is in use already
    (tmp_path / "scale.ptx").write_text(SCALE)
    numpy.save("x.npy", numpy.ones(8, "float32"))
    got = module("__main__").main(["step", "scale.ptx", *map(str, words)])
    out, err = capsys.readouterr()
    if "failed" in out:
        device.reset(force=True)
    assert got == status and said in out + err, (got, out, err)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="Linux's places")
def test_the_command_refuses_a_file_without_an_end(device, monkeypatch, capsys):
    monkeypatch.delenv("RAWCUDA_DRIVER", raising=False)
    monkeypatch.setattr(module("tools.commands.step"), "connect", lambda driver: None)
    assert module("__main__").main(["step", "/dev/zero", "k", "--grid", "1", "--block", "1"]) == 1
    assert "/dev/zero has more than 256 MiB" in capsys.readouterr().err


def test_the_command_reads_a_pipe(device, tmp_path, monkeypatch, capsys):
    """Such a file can be read once."""
    monkeypatch.delenv("RAWCUDA_DRIVER", raising=False)
    monkeypatch.setattr(module("tools.commands.step"), "connect", lambda driver: None)  # the emulator is in use already
    numpy.save(tmp_path / "x.npy", numpy.ones(8, "float32"))
    end, start = os.pipe()
    try:
        with open(start, "w") as file:
            file.write(SCALE)
        words = ["step", f"/dev/fd/{end}", "scale", str(tmp_path / "x.npy"), "2.0", "4", "--grid", "1", "--block", "4"]
        assert module("__main__").main(words) == 0
    finally:
        os.close(end)
    assert "scale(), warp 0 of block (0, 0, 0): " in capsys.readouterr().out


def test_what_is_refused(device):
    kernel, x = kernel_of(device, SCALE, "scale"), device.zeros(4, "float32")
    with pytest.raises(TypeError, match=r"step\(\) takes a Kernel, such as module\['name'\], not"):
        rawcuda.step(5, grid=1, block=1)
    with pytest.raises(TypeError, match="give its kernel, and the grid and block by name"):
        rawcuda.step(kernel.configure(grid=1, block=1), x, 2.0, 4)
    with pytest.raises(ValueError, match="warp=1: a block of 4 threads has 1 warps: give 0 to 0"):
        rawcuda.step(kernel, x, 2.0, 4, grid=1, block=4, warp=1)
    with pytest.raises(ValueError, match=r"block_index=\(1, 0, 0\): the grid is \(1, 1, 1\) blocks"):
        rawcuda.step(kernel, x, 2.0, 4, grid=1, block=4, block_index=1)
    with pytest.raises(TypeError, match="block_index='a': give up to three numbers"):
        rawcuda.step(kernel, x, 2.0, 4, grid=1, block=4, block_index="a")
    with pytest.raises(ValueError, match="limit=0: give the number of steps to keep, 1 or more"):
        rawcuda.step(kernel, x, 2.0, 4, grid=1, block=4, limit=0)
    with pytest.raises(TypeError, match="needs grid= and block="):
        rawcuda.step(kernel, x, 2.0, 4)
    with pytest.raises(TypeError, match="argument"):
        rawcuda.step(kernel, x, grid=1, block=4)


def test_foreign_control_characters_are_shown_escaped(device):
    text = body(".loc 1 2 1\nst.global.u32 [%rd1+4096], 1;\nret;\n")
    text = text.replace("st.global", "ld.param.u64 %rd1, [x];\nst.global") + '.file 1 "/tmp/ev\x1b[31mil.cu"\n'
    steps = rawcuda.step(kernel_of(device, text), device.zeros(4, "int32"), grid=1, block=32)
    assert steps.error
    for shown in (str(steps), steps._repr_html_()):
        assert "\x1b" not in shown and "ev\\x1b[31mil.cu:2" in shown
    device.reset(force=True)


def adds(number, separator="\n"):
    """Return a kernel that writes `number` registers, one after another."""
    lines = [f"add.u32 %q{each + 1}, %q{each}, 1;" for each in range(number)]
    return body(f".reg .b32 %q<{number + 1}>;\nmov.u32 %q0, 1;\n" + separator.join(lines) + "\nret;")


def test_the_memory_of_a_record_is_in_proportion_to_its_steps(device):
    taken = []
    x = device.zeros(4, "int32")
    for number in (100, 400):
        kernel = kernel_of(device, adds(number))
        rawcuda.step(kernel, x, grid=1, block=32)  # what is kept with the module
        tracemalloc.start()
        try:
            steps = rawcuda.step(kernel, x, grid=1, block=32)
            taken.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert steps[-2].registers[f"%q{number}"] == (number + 1,) * 32 and len(steps[-2].registers) == number + 1
    assert taken[1] < 6 * taken[0]


def test_the_statements_are_found_in_time_in_proportion_to_the_text(device):
    calls = []
    x = device.zeros(4, "int32")
    for number in (100, 400):
        text = adds(2 * number).replace("\nadd", "add").replace("1;add", "1; add").replace("mov", "bra.uni END;\nmov")
        lines = text.replace("ret;", "END: ret;").replace("; add", ";\nadd").split("\nadd")
        pairs = [" add".join(lines[at : at + 2]) for at in range(0, len(lines), 2)]  # two statements in a line
        kernel = kernel_of(device, "\nadd".join(pairs))
        count = [0]

        def note(*_, count=count):
            count[0] += 1

        sys.setprofile(note)
        try:
            steps = rawcuda.step(kernel, x, grid=1, block=32)
        finally:
            sys.setprofile(None)
        assert [each.text for each in steps] == ["bra.uni END;", "ret;"]
        calls.append(count[0])
    assert calls[1] < 6 * calls[0]


def test_a_source_is_read_once_for_all_steps(device, tmp_path, monkeypatch):
    sources, read = module("emulator.ptx.checking.sources").Sources, []
    read_one = sources._read
    monkeypatch.setattr(sources, "_read", lambda *given: read.append(given[1]) or read_one(*given))
    path = tmp_path / "kernel.cu"
    path.write_text("".join(f"line {number};\n" for number in range(1, 100)))
    added = "".join(f".loc 1 {number} 1\nadd.u32 %r1, %r1, 1;\n" for number in range(1, 100))
    text = body("mov.u32 %r1, 0;\n" + added + "ret;") + f'.file 1 "{path}"\n'
    steps = rawcuda.step(kernel_of(device, text), device.zeros(4, "int32"), grid=1, block=32)
    assert [each.source_text for each in steps[1:-1]] == [f"line {number};" for number in range(1, 100)]
    assert read == [str(path)]


def test_a_long_comment_takes_time_in_proportion_to_its_length(device):
    text = body("mov.u32 %r1, 1; /* " + "/* " * 20_000 + "\n" * 45 + "*/\nret;")
    kernel, x = kernel_of(device, text), device.zeros(4, "int32")
    began = time.process_time()
    steps = rawcuda.step(kernel, x, grid=1, block=32)
    assert time.process_time() - began < 5
    assert [each.text for each in steps] == ["mov.u32 %r1, 1;", "ret;"]
