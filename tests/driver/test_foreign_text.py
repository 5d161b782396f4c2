"""Foreign text with control characters: no command, report or trace sends them to a terminal.

The text comes from file names, files, the environment, the driver, and compilers. What a program or a kernel prints
itself is its own, and is not changed.
"""

from __future__ import annotations

import ast
import io
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import watches
from tests.subject import FOLDER, NAME, ROOT, module, rawcuda

ESCAPE = "\x1b]0;taken\x07\x1b[2J\x9b31m\u202e\x7f"
NAMED = f"a{ESCAPE}b"
IN_PTX = NAMED.encode("ascii", "ignore").decode()  # ptxas refuses other characters in a string
KERNEL = ".version 6.3\n.target sm_50\n.address_size 64\n"


@pytest.fixture
def cli(capfd, tmp_path, monkeypatch):
    """Run the command line in an empty folder; return what it printed, in which no control character may be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAWCUDA_DRIVER", raising=False)
    monkeypatch.setenv("RAWCUDA_EMULATOR", os.environ.get("RAWCUDA_EMULATOR", ""))  # `emulate --set` changes it

    def run(*words: object) -> str:
        status = module("__main__").main([str(word) for word in words])
        out, err = capfd.readouterr()
        for watch in watches:  # a command tells what failed by its message
            watch.take()
        return f"{status}: {harmless(out + err)}"

    return run


def harmless(text: str) -> str:
    assert all(each.isprintable() or each in "\n\t" for each in text), ascii(text)
    return text


SHOWN = r"a\x1b]0;taken\x07\x1b[2J\x9b31m\u202e\x7fb"


def cubin(*names: str) -> bytes:
    """Make a cubin whose kernels have these names."""
    strings, sections, symbols = b"\0", b"\0.strtab\0.symtab\0", bytes(24)
    for name in names:
        symbols += struct.pack("<IBBHQQ", len(strings), 18, 16, 1, 0, 16)
        strings += name.encode() + b"\0"
    at = 64
    rows = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    for name, kind, data, link in ((1, 3, strings, 0), (9, 2, symbols, 1), (1, 3, sections, 0)):
        rows += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, at, len(data), link, 0, 1, 24)
        at += len(data)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, at, 0x500050, 64, 0, 0, 64, 4, 3)
    return head + strings + symbols + sections + rows


@pytest.mark.parametrize(
    "words",
    [
        (NAMED,),
        *[(command, NAMED) for command in ("demo", "inspect", "doctor", "check", "bench", "manual", "completion")],
        *[(command, f"--{NAMED}") for command in ("demo", "run", "compile", "vendor", "emulate", "check")],
        *[(command, "--driver", f"/{NAMED}") for command in ("demo", "check", "bench")],
        ("run", f"{NAMED}.ptx", "k", "--grid", 1, "--block", 1),
        ("run", f"{NAMED}.cubin"),
        ("run", "fine.ptx", NAMED, "--grid", 1, "--block", 1),
        ("run", "fine.ptx", "k", "--grid", NAMED, "--block", 1),
        ("run", "fine.ptx", "k", f"{NAMED}.npy", "--grid", 1, "--block", 1),
        ("compile", f"{NAMED}.cu"),
        ("compile", "fine.ptx", "-o", f"{NAMED}/x"),
        ("vendor", f"{NAMED}/x"),
        ("vendor", "--check", NAMED),
        ("emulate", "--crashed", NAMED),
        ("emulate", "--set", NAMED, "true"),
        ("emulate", f"./{NAMED}"),
        ("check", "--group", NAMED),
        ("check", "--device", NAMED),
        ("inspect", f"{NAMED}.npy"),
        ("inspect", f"1 / 0 # {NAMED}"),
        ("inspect", "--debug", f"[].index({NAMED!r})"),
    ],
    ids=lambda words: " ".join(map(str, words)).replace(ESCAPE, "_"),
)
def test_words(cli, words):
    Path("fine.ptx").write_text(f"{KERNEL}.entry k(.param .u64 p) {{ ret; }}\n")
    assert not cli(*words).startswith("0:")


def test_names_in_files(cli):
    Path("names.cubin").write_bytes(cubin(f"k{ESCAPE}", "fine"))
    assert r"k\x1b]0;taken" in cli("run", "names.cubin")
    for name in ("wrong.ptx", f"{NAMED}.ptx"):
        Path(name).write_text(f'{KERNEL}.file 1 "{IN_PTX}"\n.entry k() {{ .loc 1 1 0\n {ESCAPE} bogus; }}\n')
        assert r"\x1b" in cli("run", name, "k", "--grid", 1, "--block", 1)


def test_a_report_names_a_source_file(cli):
    """A kernel that stores to address 0; the driver's report, or the emulator's, names its line."""
    store = ".reg .b64 %d; ld.param.u64 %d, [p]; st.global.u32 [%d], 1; ret;"
    text = f'{KERNEL}.file 1 "{IN_PTX}.cu"\n.entry k(.param .u64 p) {{ .loc 1 7 0\n {store} }}\n'
    Path("wrong.ptx").write_text(text)
    words = [sys.executable, "-m", NAME, "run", "wrong.ptx", "k", "null", "--grid", "1", "--block", "1"]
    words += ["--driver", "emulator"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    shown = SHOWN.replace(r"\x9b", "").replace(r"\u202e", "")
    assert ran.returncode == 1 and shown in harmless(ran.stdout.decode("utf-8", "surrogateescape"))


def test_arrays(cli):
    head = f"{{'descr': '<f4{ESCAPE}', 'fortran_order': False, 'shape': (3,), }}\n".encode()
    Path("a.npy").write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(head)) + head)
    assert r"\x1b]0;taken" in cli("inspect", "a.npy")


def test_what_an_object_says_of_itself(cli, monkeypatch):
    class Exporter:
        __array_interface__ = {"shape": (1,), "typestr": NAMED, "version": 3, NAMED: NAMED, "data": (0, False)}

        def __dlpack_device__(self):
            raise RuntimeError(NAMED)

        __dlpack__ = __dlpack_device__

        def __repr__(self):
            return NAMED

    Exporter.__name__ = Exporter.__qualname__ = NAMED
    monkeypatch.setitem(sys.modules, "exporters", type(sys)("exporters"))
    sys.modules["exporters"].made = Exporter()
    assert r"\x1b]0;taken" in cli("inspect", "exporters.made")


def test_a_vendored_copy(cli):
    copy = Path(NAMED)
    copy.mkdir()
    (copy / "VENDORED.txt").write_text(
        f"rawcuda 1.0{NAMED}, all, copied on 2024-01-01.\n{'0' * 64}  {NAMED}\n", "utf-8"
    )
    (copy / f"b{ESCAPE}\n.py").touch()
    assert cli("vendor", "--check", NAMED).count(SHOWN) >= 2


def test_journals_of_a_crash(cli):
    journal = module("emulator.impersonating.journal")
    Path("crashed").mkdir()
    made = journal.create("crashed", "libcuda", len(journal.LIBRARIES["libcuda"].names()))
    made.write(f"cuDoesNotExist{NAMED}")
    made.refused(NAMED)
    Path("crashed/calls-2-damaged").write_bytes(b"journal1" + b"\xff" * 9000)
    os.mkfifo("crashed/calls-3-pipe")
    assert SHOWN in cli("emulate", "--crashed", "crashed")


def test_the_environment(cli, monkeypatch):
    for name in ("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "RAWCUDA_CACHE"):
        monkeypatch.setenv(name, f"/{NAMED}")
    assert SHOWN in cli("doctor")


def test_the_driver(cli, monkeypatch):
    monkeypatch.setattr(rawcuda.Device, "name", NAMED)
    assert SHOWN in cli("doctor")
    cli("bench", "launch", "--rounds", 1)


def test_logs_of_compilers(cli):
    """The compiler's own words contain the source's."""
    Path("a.cu").write_text(f'#line 1 "{NAMED}"\n#warning "{NAMED}"\nextern "C" __global__ void k() {{ {ESCAPE} }}\n')
    cli("compile", "a.cu")
    cli("compile", "a.cu", "--debug")


def test_warnings_and_explanations():
    """They reach a terminal although no command prints them."""
    program = module("compiler.program")
    with pytest.warns(UserWarning, match="unused variable") as said:
        program._warn("unused variable \x1b[2J\n    int \x07a;")
    assert str(said[0].message) == "unused variable \\x1b[2J\n    int \\x07a;"
    kind = type("T\x1b[2J", (), {"__array_interface__": {"version": 3, "typestr": "\x1b[31m", "shape": (3,)}})
    explained = rawcuda.explain(kind())
    for text in (str(explained), repr(explained), explained._repr_html_()):
        assert "\x1b" not in text and "\\x1b[2J" in text


@pytest.mark.parametrize("colours", ["", "1"])
def test_traces(monkeypatch, colours):
    """Traces show the names that a program gives; their colours are sent only to a terminal."""
    monkeypatch.setenv("NO_COLOR", colours)
    forms = module("tools.trace_forms")
    tracing = module("tracing")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    to = Terminal()
    log = forms.writer(to, "log")
    step = tracing.Step(NAMED, NAMED, NAMED, 0)
    call = tracing.Call(NAMED, {NAMED: NAMED}, NAMED, 1, 1)
    for each in (step, call):
        log.event(each)
    plain = to.getvalue()
    for code in ("0", "1", "2", "32", "36", "31;1"):
        assert (f"\033[{code}m" in plain) is (not colours)
        plain = plain.replace(f"\033[{code}m", "")
    assert harmless(plain).count(SHOWN) == 7


def test_progress_and_leaks(capfd):
    assert list(rawcuda.progress([1, 2], label=NAMED)) == [1, 2]
    module("emulator.machine.space").say(NAMED)
    assert harmless(capfd.readouterr().err).count(SHOWN) >= 2


def test_colours_are_kept(monkeypatch):
    terminal = module("tools.terminal")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    to = io.StringIO()
    terminal.say("\tx\n", (NAMED, "bad"), NAMED, stream=to)
    assert to.getvalue() == f"\tx\n\033[31;1m{SHOWN}\033[0m{SHOWN}\n"


# The places that write to a stream themselves: say() for the commands, and those that call errors.shown().
WRITERS = {
    "tools/terminal.py": {"say"},
    "tools/progress.py": {"_write"},
    "tools/commands/console.py": {"_put"},
    "tools/trace_forms.py": {"_write", "_put", "_finish", "writer"},
    "emulator/machine/space.py": {"say"},
    "emulator/machine/machine.py": {"_report_leaks"},
    "emulator/impersonating/programs.py": {"_say", "_ptxas"},
    "emulator/impersonating/loading.py": {"_finish"},
    "emulator/ptx/ptx_program.py": {"_print"},  # what a kernel prints is its own
}


def test_nothing_else_prints():
    """Each call of print(), and each method write() of a standard stream, stands in one of the functions above."""
    found: dict[str, set[str]] = {}
    for path in FOLDER.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(function, (ast.FunctionDef, ast.Lambda)):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call):
                        called = ast.unparse(node.func)
                        if called in ("print", "traceback.print_exc", "sys.stdout.write", "sys.stderr.write"):
                            name = getattr(function, "name", "lambda")
                            found.setdefault(path.relative_to(FOLDER).as_posix(), set()).add(name)
    for path, names in found.items():
        assert names <= WRITERS.get(path, set()), path
    assert "say" in found["tools/terminal.py"]
