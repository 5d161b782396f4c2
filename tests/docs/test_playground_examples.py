"""The examples of the playground: what docs/make_examples.py has written is current, runs, and names its lines."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from docs import make_examples
from tests.conftest import Python
from tests.subject import NAME, module

from . import pages

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the examples are the original's")

EXAMPLES: dict[str, dict[str, str]] = {
    each["name"]: each for each in json.loads(make_examples.PLACE.read_text("utf-8"))
}
MISTAKE = "missing_barrier"
EMULATOR = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": None}
every_example = pytest.mark.parametrize("name", EXAMPLES)


def run(python: Python, folder: Path, example: dict[str, str]) -> Any:
    """Run an example in a folder, as the page does it, and return the process that has ended."""
    (folder / "kernel.ptx").write_text(example["ptx"], "utf-8")
    (folder / "program.py").write_text(example["python"], "utf-8")
    return python(["program.py"], cwd=folder, env=EMULATOR)


# -- the file


def test_each_pair_of_files_is_an_example() -> None:
    there = sorted(path.name for path in make_examples.FOLDER.iterdir() if path.name != "__pycache__")
    assert there == sorted(f"{name}.{suffix}" for name in EXAMPLES for suffix in ("cu", "py"))
    assert tuple(EXAMPLES) == make_examples.NAMES and len(EXAMPLES) == 12


def test_the_file_has_the_form_that_the_command_writes() -> None:
    assert make_examples.PLACE.read_text("utf-8") == make_examples.as_text(list(EXAMPLES.values()))


@every_example
def test_the_file_has_the_texts_of_the_pair(name: str) -> None:
    example = EXAMPLES[name]
    assert list(example) == ["name", "title", "cuda", "ptx", "python", "output"]
    again = "make it again: python3 -m docs.make_examples"
    for field, suffix in (("cuda", "cu"), ("python", "py")):
        assert example[field] == (make_examples.FOLDER / f"{name}.{suffix}").read_text("utf-8"), again
    assert example["cuda"].startswith(f"// {example['title']}\n")


@every_example
def test_the_ptx_is_what_nvrtc_makes(name: str) -> None:
    """All of it but the comments, in which NVRTC names its own build."""
    ptx = EXAMPLES[name]["ptx"]
    release = re.search(r"^// Cuda compilation tools, release (\d+)\.(\d+), ", ptx, re.M)
    assert release is not None
    try:
        compiler = module("compiler.program").compiler()
    except module("errors").CompilerNotFound:
        pytest.skip("NVRTC is not installed")
    if (compiler.kind, compiler.version) != ("NVRTC", (int(release[1]), int(release[2]))):
        pytest.skip(f"the file was made with NVRTC {release[1]}.{release[2]}, and not with {compiler}")
    instructions, now = (re.sub(r"^//.*\n", "", text, flags=re.M) for text in (ptx, make_examples.compiled(name)))
    assert instructions == now, "make it again: python3 -m docs.make_examples"


@every_example
def test_an_example_is_short_and_needs_only_the_package(name: str) -> None:
    """The kernel is in CUDA C without headers, and the program has no import that a browser lacks."""
    cuda, python = EXAMPLES[name]["cuda"], EXAMPLES[name]["python"]
    assert len(cuda.splitlines()) <= 30 and 8 <= len(python.splitlines()) <= 26
    assert cuda.count('extern "C" __global__ void ') == 1 and "#include" not in cuda
    imported = {
        each.name for node in ast.walk(ast.parse(python)) if isinstance(node, ast.Import) for each in node.names
    }
    assert "from " not in python.partition("rawcuda.use")[0]
    assert imported - {"rawcuda"} <= {"array", "itertools", "pathlib"} and "rawcuda" in imported


# -- what it prints


@every_example
def test_the_program_prints_what_the_file_says(python: Python, tmp_path: Path, name: str) -> None:
    done, output = run(python, tmp_path, EXAMPLES[name]), EXAMPLES[name]["output"]
    if name == MISTAKE:
        assert done.returncode and pages.agrees(output, done.stdout + done.stderr[done.stderr.index("ContextLost: ") :])
    else:
        assert (done.stdout, done.stderr, done.returncode) == (output, "", 0)


@every_example
def test_the_output_says_that_the_result_is_right(name: str) -> None:
    output = EXAMPLES[name]["output"]
    if name == MISTAKE:
        assert output.startswith("ContextLost: racecheck: write after read in reverse(), missing_barrier.cu:7, thread ")
    elif name == "mandelbrot":
        shown, last = output.splitlines()[:-1], output.splitlines()[-1]
        points = sum(line.count("@") for line in shown)
        assert len(shown) == 32 and max(map(len, shown)) <= 48
        assert re.fullmatch(r"(\d+) of 1536 points stay small for 25 steps", last) and int(last.split()[0]) <= points
    else:
        assert output.endswith("\nas in Python: True\n") and "False" not in output


def test_the_report_of_the_mistake_names_both_lines(python: Python, tmp_path: Path) -> None:
    """Those between which the barrier is missing, in the CUDA C and in the PTX."""
    lines = [number for number, line in enumerate(EXAMPLES[MISTAKE]["cuda"].splitlines(), 1) if "values[" in line][1:]
    ptx = EXAMPLES[MISTAKE]["ptx"].splitlines()
    store, load = (next(n for n, line in enumerate(ptx, 1) if f"\t{word}.shared." in line) for word in ("st", "ld"))
    said = run(python, tmp_path, EXAMPLES[MISTAKE]).stderr
    assert f"at ptx line {store} ({MISTAKE}.cu:{lines[0]}), kernel reverse" in said
    assert f"read at ptx line {load} ({MISTAKE}.cu:{lines[1]})" in said
    assert "a barrier is missing between them, __syncthreads()" in said


def test_the_barrier_that_is_missing_repairs_the_mistake(python: Python, tmp_path: Path) -> None:
    """As the program tells the reader, between the store to shared memory and the load."""
    example = dict(EXAMPLES[MISTAKE])
    store = re.search(r"^\tst\.shared.*\n", example["ptx"], re.M)
    assert store is not None
    example["ptx"] = example["ptx"].replace(store[0], f"{store[0]}\tbar.sync 0;\n")
    done = run(python, tmp_path, example)
    assert done.stdout == "[63, 62, 61, 60] ... [3, 2, 1, 0]\nas in Python: True\n" and not done.stderr


def test_a_kernel_that_fails_leaves_the_next_program_a_context(python: Python, tmp_path: Path) -> None:
    """All of them run in one process, as in the page, in which a failed one may come before any other."""
    done = python(
        """
        import json, os, sys
        from pathlib import Path

        examples = {each["name"]: each for each in json.loads(Path(sys.argv[1]).read_text("utf-8"))}
        mistake = examples.pop(sys.argv[2])
        os.chdir(sys.argv[3])
        namespace = {"__name__": "__main__"}
        for example in [mistake, *examples.values(), mistake]:
            Path("kernel.ptx").write_text(example["ptx"], "utf-8")
            print(f"-- {example['name']}")
            try:
                exec(compile(example["python"], "program.py", "exec"), namespace)
            except Exception as error:
                print(f"{type(error).__name__}: {str(error).splitlines()[0]}\\n...")
        """,
        str(make_examples.PLACE),
        MISTAKE,
        str(tmp_path),
        env=EMULATOR,
    )
    names = [MISTAKE, *[name for name in EXAMPLES if name != MISTAKE], MISTAKE]
    assert done.stdout == "".join(f"-- {name}\n{EXAMPLES[name]['output']}" for name in names), done.stderr


# -- the lines


def unnamed(cuda: str, ptx: str) -> list[str]:
    """Return the lines of the kernel's body that compute something, and that no .loc of the PTX names.

    A line computes if it has an operator, an element, a branch on a condition, or a call. The head of a loop below
    `#pragma unroll` does not: the compiler has computed its conditions.
    """
    named = {int(line) for line in re.findall(r"^\t\.loc\t1 (\d+) \d+", ptx, re.M)}
    lines = cuda.splitlines()
    found = []
    for number in range(lines.index("{") + 2, len(lines) + 1):
        code, above = lines[number - 1].partition("//")[0].strip(), lines[number - 2].strip()
        is_computed = re.search(r"[-+*/%<>?&\[(]|\.\w", re.sub(r"\d\.\d+f", "0", code))
        if code.startswith(("__shared__", "#pragma")) or above == "#pragma unroll" or not is_computed:
            continue
        if number not in named:
            found.append(f"{number}: {code}")
    return found


@every_example
def test_the_ptx_names_each_line_that_computes(name: str) -> None:
    cuda, ptx = EXAMPLES[name]["cuda"], EXAMPLES[name]["ptx"]
    assert unnamed(cuda, ptx) == []
    numbers = {int(line) for line in re.findall(r"\.loc\t1 (\d+) ", ptx)}
    assert all(number <= len(cuda.splitlines()) for number in numbers)
    last = max(numbers - {len(cuda.splitlines())})  # the last line is the brace
    without = re.sub(rf"^\t\.loc\t1 {last} .*\n", "", ptx, flags=re.M)
    assert [each.partition(":")[0] for each in unnamed(cuda, without)] == [str(last)]


@every_example
def test_the_ptx_names_the_source_and_no_folder(name: str) -> None:
    ptx = EXAMPLES[name]["ptx"]
    assert re.findall(r"^\t\.file\t(.*)$", ptx, re.M) == [f'1 "{name}.cu"']
    assert ".section" not in ptx and str(make_examples.CHECKOUT) not in ptx and sys.prefix not in ptx


# -- the command


def test_the_command_keeps_the_first_line_of_an_error(tmp_path: Path) -> None:
    program = "import warnings\nprint(1)\nraise UserWarning('first 0x1234\\nsecond')\n"
    assert make_examples.printed(program, "") == "1\nUserWarning: first 0x1234\n...\n"
    assert make_examples.printed("print(open('kernel.ptx').read())", "// ptx") == "// ptx\n"
