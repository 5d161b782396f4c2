"""`vendor`: the whole package and each part are copied, checked, replaced and refused; each part works alone."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from types import FrameType
from typing import Callable

import pytest

from tests.conftest import Python
from tests.shared import sampled
from tests.subject import CHECKOUT, FOLDER, NAME, ROOT, module, rawcuda

main = module("__main__").main
vendor, Refusal = module("tools.commands.vendor"), module("tools.commands.console").Refusal
parts = module("tools.commands.parts")
PARTS = sorted(vendor.PARTS)
Told = Callable[..., str]


cut: dict[tuple[str | None, str, bytes], dict[str, bytes]] = {}
cut_now = vendor.part


def part(name: str | None, origin: str) -> dict[str, bytes]:
    """Return a part as the command does, and keep it: cutting parses the package, for seconds."""
    digest = hashlib.sha256(repr(sorted(parts.everything().items())).encode()).digest()
    if (name, origin, digest) not in cut:
        cut[name, origin, digest] = cut_now(name, origin)
    return dict(cut[name, origin, digest])


@pytest.fixture(autouse=True)
def parts_are_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the parts: each test gets the same files of the same sources."""
    monkeypatch.setattr(vendor, "part", part)


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Run a command line and return its output; check its exit status."""

    def run(*words: str | Path, status: int = 0) -> str:
        capsys.readouterr()
        assert main(["vendor", *map(str, words)]) == status
        out, err = capsys.readouterr()
        return str(err or out)

    return run


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def original() -> dict[str, bytes]:
    return {name: data for name, data in files_of(FOLDER).items() if name != "VENDORED.txt"}


def test_the_whole_is_copied_byte_for_byte(told: Told, tmp_path: Path) -> None:
    made = told(tmp_path / "taken")
    assert "all of" in made
    copied = files_of(tmp_path / "taken")
    manifest = copied.pop("VENDORED.txt").decode()
    assert copied == original()
    assert (FOLDER / "LICENSE").read_text("utf-8") in manifest and module("").__version__ in manifest.splitlines()[0]
    assert not [name for name in os.listdir(tmp_path) if name != "taken"], "something was left beside it"
    said = told("--check", tmp_path / "taken")
    assert "It is unchanged" in said and "today" in said and "the running package" in said
    assert re.findall(r"\d+ files", said) == re.findall(r"\d+ files", made) == [f"{len(copied)} files"]  # counted alike


def test_the_licence_is_the_checkouts() -> None:
    assert (FOLDER / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()


TABLE = re.compile(r"headers/(functions\w*|structures|enumerations|behaviour|calls)\.pyi?")
NOTE = "/* this copy is the part 'gpu' only: what it does not use was left out, and the whole package has it */"


def statements(source: bytes) -> str:
    """Return a file without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    return ast.unparse(tree)


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_its_own_files_unchanged(told: Told, tmp_path: Path, name: str) -> None:
    told(tmp_path / "taken", "--only", name)
    copied, whole = files_of(tmp_path / "taken"), original()
    manifest, changed = copied.pop("VENDORED.txt").decode(), set[str]()
    made = {path for path in copied if copied[path] != whole.get(path)}
    if name == "dlpack":
        assert made == {"__init__.py"} and copied["__init__.py"] == whole["dlpack.py"] and len(copied) <= 7
    else:
        stand_ins = {path for path in copied if b"was left out of this copy" in copied[path] and path in made}
        changed = made - stand_ins - {"__init__.py"}
        assert not changed or vendor.PARTS[name].is_cut
        for path in changed:  # comments, docstrings and rows of cuda.h are gone, and nothing else
            if TABLE.fullmatch(path):
                lines = copied[path].decode().splitlines()
                assert {*lines[1:]} - {*whole[path].decode().splitlines()} <= {NOTE}
            else:
                assert statements(copied[path]) == statements(whole[path]), path
        out = tuple(f"{folder}." for folder in vendor.PARTS[name].left_out)
        homes = {home for home in rawcuda._HOMES.values() if not f"{home}.".startswith(out)}
        roots = {root.replace(".", "/") + ".py" for root in homes | {*vendor.PARTS[name].more}}
        assert roots <= set(copied) - stand_ins
    assert "headers/cuda_h.py" in copied or name not in ("driver", "gpu")
    assert ("this part has no comments" in manifest) == bool(changed)
    assert "It is unchanged" in told("--check", tmp_path / "taken")
    assert "is not compared" not in told("--check", tmp_path / "taken")
    (tmp_path / "taken" / "__pycache__").mkdir()
    assert "remove the folders __pycache__" in told("--check", tmp_path / "taken")


def test_sha256sum_reads_the_manifest(told: Told, tmp_path: Path) -> None:
    told(tmp_path / "taken", "--only", "dlpack")
    lines = (tmp_path / "taken" / "VENDORED.txt").read_text().splitlines()
    hashes = dict(reversed(line.split("  ")) for line in lines if len(line.split("  ")[0]) == 64)
    assert hashes == {
        name: hashlib.sha256(data).hexdigest()
        for name, data in files_of(tmp_path / "taken").items()
        if name != "VENDORED.txt"
    }
    if shutil.which("sha256sum"):
        result = subprocess.run(
            ["sha256sum", "--quiet", "-c", "VENDORED.txt"], cwd=tmp_path / "taken", stderr=subprocess.PIPE
        )
        assert result.returncode == 0, result.stderr


AT_WORK = {
    "dlpack": """
        import ctypes, taken as ours
        memory = ctypes.create_string_buffer(16)
        template = ours.Template((1, 0), (2, 32, 1), (4,), (1,), versioned=True)
        capsule = ours.export(template, ctypes.addressof(memory), memory)
        owner = ours.consume(capsule)
        try:
            ours.consume(capsule)
        except BufferError as error:
            assert "consumed already" in str(error)
        else:
            raise AssertionError("twice")
        assert len(ours.outstanding) == 1
        del owner
        assert not ours.outstanding
    """,
    "view": """
        import array, taken as ours
        values = array.array("f", range(6))
        view = ours.view(values).reshape(2, 3)
        assert ours.view(view.T.__dlpack__(max_version=(1, 0))).tolist() == [[0, 3], [1, 4], [2, 5]]
        view[1].fill(7)
        assert ours.copy(bytearray(2), b"ab") is None and values.tolist() == [0, 1, 2, 7, 7, 7]
        assert view.download().tolist() == view.tolist() and ours.view(view.memoryview()).shape == (2, 3)
        class OnDevice:
            __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}
        for kind, reach in (
            (NotImplementedError, lambda: ours.view(OnDevice())),
            (AttributeError, lambda: ours.cu),
            (AttributeError, lambda: ours.use("emulator")),
            (AttributeError, lambda: ours.Device(0)),
        ):
            try:
                reach()
            except kind as error:
                assert "the part 'view' only" in str(error), error
            else:
                raise AssertionError(reach)
        assert not hasattr(ours, "Device") and ours.view(b"").__class__._repr_svg_(view) is None
        heard = []
        with ours.trace(heard):
            ours.view(ours.view(values))
        assert [step.protocol for step in heard]
        with ours.trace([]) as traced:
            ours.view(values)
        assert "buffer" in str(traced) and "buffer" in traced._repr_html_() and traced._repr_svg_() is None
        from taken import *
        assert StridedView is ours.StridedView
    """,
    "gpu": """
        import taken as ours
        class Column:  # of a table; without Arrow, its elements can be copied all the same
            __arrow_c_stream__ = None.__init__
            __array__ = b"abc".__add__
        target = bytearray(3)
        ours.copy(target, type("Copied", (Column,), {"__array__": lambda self: b"abc"})())
        assert target == b"abc"
        for kind, text, reach in (
            (NotImplementedError, "taken.emulator was left out", lambda: ours.use("emulator")),
            (NotImplementedError, "taken.images.zstd was left out", lambda: __import__("taken.images.zstd")),
            (AttributeError, "'trace': it was left out", lambda: ours.trace()),
            (AttributeError, "cuGraphAddNode_v2: not in the table", lambda: ours.cu.cuGraphAddNode_v2),
            (AttributeError, "CUgraphNodeType: not in the table", lambda: ours.cu.CUgraphNodeType),
            (AttributeError, "CU_GRAPH_COND_ASSIGN_DEFAULT", lambda: ours.cu.CU_GRAPH_COND_ASSIGN_DEFAULT),
            (AttributeError, "'explain': it was left out", lambda: ours.explain(3)),
            (BufferError, "taken.protocols.arrow was left out", lambda: ours.view(Column())),
        ):
            try:
                reach()
            except kind as error:
                assert text in str(error) and "the part 'gpu' only" in str(error), error
            else:
                raise AssertionError(reach)
        view = ours.view(b"abc")
        assert view.tolist() == [97, 98, 99] and view._repr_svg_() is None
        assert not hasattr(view, "__arrow_c_array__") and not hasattr(view, "__dlpack_c_exchange_api__")
        assert ours.cu.CUresult(2).name == "CUDA_ERROR_OUT_OF_MEMORY" and "cuGraphAddNode_v2" not in dir(ours.cu)
        from taken import *
        assert Device is ours.Device
    """,
    "compiler": """
        import taken as ours
        for kind, reach in ((AttributeError, lambda: ours.Device(0)), (AttributeError, lambda: ours.cu)):
            try:
                reach()
            except kind as error:
                assert "the part 'compiler' only" in str(error), error
            else:
                raise AssertionError(reach)
        from taken import locate
        locate.nvrtc = locate.nvcc = lambda: []
        try:
            ours.compile("__global__ void k() {}")
        except OSError as error:
            assert isinstance(error, ours.CompilerNotFound) and "pip install nvidia-cuda-nvrtc" in str(error), error
        else:
            raise AssertionError("there is no compiler")
        from taken import *
        assert compile is ours.compile
    """,
    "driver": """
        import taken as ours, ctypes
        class Library:
            def address(self, symbol):
                return None
        try:
            ours.use("emulator")
        except NotImplementedError as error:
            assert "the part 'driver' only" in str(error), error
        else:
            raise AssertionError("there is no emulator")
        ours.use(Library())
        try:
            ours.cu.cuInit(0)
        except OSError as error:
            assert isinstance(error, ours.DriverNotFound) and "does not export cuInit" in str(error), error
        else:
            raise AssertionError("it has nothing")
        from taken import *
        assert use is ours.use
    """,
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_works_alone_in_a_bare_interpreter(told: Told, python: Python, tmp_path: Path, name: str) -> None:
    told(tmp_path / "taken", "--only", name)
    result = python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        + textwrap.dedent(AT_WORK[name])
        + f"\nassert not [name for name in sys.modules if name.partition('.')[0] == {NAME.partition('.')[0]!r}]",
        flags=("-I", "-S"),
    )
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_the_part_gpu_runs_a_kernel_on_a_library_that_it_is_given(told: Told, python: Python, tmp_path: Path) -> None:
    """The library is the emulator of another copy; any object with address() would do."""
    told(tmp_path / "taken", "--only", "gpu")
    told(tmp_path / "whole")
    result = python(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import array, taken as ours
        from whole.emulator import Emulator
        from whole.tools.commands.kernels import VECTOR_ADD
        ours.use(Emulator())
        device = ours.Device(0)
        values = array.array("f", range(100))
        a, c = device.upload(values), device.empty(100, "float32")
        with device.load(VECTOR_ADD) as module, device.stream() as stream:
            module["vector_add"].launch(a, a, c, 100, grid=1, block=128, stream=stream)
            stream.synchronize()
        assert c.tolist() == [2 * x for x in values]
        with device.stream() as stream, device.allocate(400, stream=stream) as memory:
            memory.copy_from(values, stream=stream)
            assert bytes(ours.view(memory, stream=stream).download().memoryview()) == values.tobytes()
            start, end = device.event(timing=True), device.event(timing=True)
            start.record(stream)
            end.record(stream).synchronize()
            assert end.elapsed_ms(start) >= 0
        with device.allocate(64, kind="pinned") as pinned, device.allocate(64, kind="managed") as managed:
            managed.fill(7)
            pinned.copy_from(managed)
            device.synchronize()
            assert bytes(pinned.view().memoryview()) == bytes([7]) * 64
        box = device.empty((4, 6), "float32")
        box.fill(1.0)
        box[1:3, ::2].fill(2.0)
        box[:, 5].copy_from(device.upload(array.array("f", [3, 4, 5, 6])))
        assert box.download().tolist()[1] == [2, 1, 2, 1, 2, 4]
        assert device.attributes["WARP_SIZE"] == 32 and device.name and device.compute_capability >= (5, 0)
        for lacking in (device.graph, device.stream().capture, lambda: device.limits):
            try:
                lacking()
            except ours.Unsupported as error:
                assert "the part 'gpu' only" in str(error), error
            else:
                raise AssertionError(lacking)
        try:
            ours.cu["cuGraphAddNode_v2"]
        except KeyError as error:
            assert "the part 'gpu' only" in str(error), error
        else:
            raise AssertionError("it is there")
        assert not any(name.startswith("whole.gpu") for name in sys.modules)
    """,
        flags=("-I", "-S"),
    )
    assert result.returncode == 0, result.stderr


def test_the_part_gpu_has_each_name_of_cuda_h_that_it_uses(told: Told, python: Python, tmp_path: Path) -> None:
    """Its rows are those of the whole; each function can be bound, and each type made."""
    told(tmp_path / "taken", "--only", "gpu")
    result = python(
        f"""
        import json, sys
        sys.path.insert(0, {str(tmp_path)!r})
        from taken.headers import cuda_h as ours
        functions = ours.prototypes()
        for each in functions.values():
            each.parameters
        types = ours.HEADER.names()
        enums = {{name: ours.enum(name) for name in ours.HEADER.enums()}}
        assert all(getattr(ours, name) for name in [*types, *enums])
        print(json.dumps([{{name: repr(each) for name, each in functions.items()}}, types, enums, ours.defines()]))
        """,
        flags=("-I", "-S"),
    )
    assert result.returncode == 0, result.stderr
    functions, types, enums, constants = json.loads(result.stdout)
    whole = module("headers.cuda_h")
    assert functions == {name: repr(whole.prototypes()[name]) for name in functions} and len(functions) < 150
    assert set(types) < set(whole.HEADER.names())
    assert enums == {name: whole.enum(name) for name in enums} and "CUgraphNodeType" not in enums
    assert constants.items() <= whole.defines().items() and "CU_STREAM_LEGACY" in constants
    code = [
        statements(data)
        for path, data in files_of(tmp_path / "taken").items()
        if path.endswith(".py") and not TABLE.fullmatch(path)
    ]
    words = set(re.findall(r"\bcu[A-Z]\w+", "".join(code)))
    assert words & set(whole.prototypes()) <= set(functions)
    named = {*whole.HEADER.names(), *whole.HEADER.enums()}
    assert set(re.findall(r"\bCU\w+", "".join(code))) & named <= {*types, *enums}


def test_help_in_the_part_gpu_is_that_of_the_whole(told: Told, python: Python, tmp_path: Path) -> None:
    told(tmp_path / "taken", "--only", "gpu")
    result = python(
        f"""
        import inspect, sys
        sys.path[:0] = {str(tmp_path)!r}, {str(ROOT)!r}
        import taken, {NAME} as whole
        count = 0
        for name in dir(taken):
            one, other = getattr(taken, name), getattr(whole, name)
            members = [""] + [each for each in dir(one) if inspect.isclass(one) and not each.startswith("_")]
            for member in members:
                mine, theirs = [getattr(each, member) if member else each for each in (one, other)]
                if not (inspect.isclass(mine) or inspect.isroutine(mine) or isinstance(mine, property)):
                    continue
                assert inspect.getdoc(mine) == inspect.getdoc(theirs), (name, member)
                count += bool(inspect.getdoc(mine))
        assert count > 150, count
        """,
        env={"RAWCUDA_DRIVER": None},
    )
    assert result.returncode == 0, result.stderr


# the largest size of each part as a zip, in bytes, so that a large increase is noticed; 56,000 bytes of "driver" are
# the text of the whole of cuda.h with its reader, 7,000 the types of its functions; docs/performance.md has "gpu"
MOST_ZIPPED = {"gpu": 316_000, "view": 172_500, "driver": 119_000, "compiler": 95_500, "dlpack": 27_500}


@pytest.mark.parametrize("name", PARTS)
def test_how_much_a_part_weighs(
    told: Told, tmp_path: Path, record_property: Callable[[str, object], None], name: str
) -> None:
    told(tmp_path / "taken", "--only", name)
    with zipfile.ZipFile(tmp_path / "taken.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files_of(tmp_path / "taken").items():
            archive.writestr(path, data)
    size = (tmp_path / "taken.zip").stat().st_size
    record_property("told", f"the part {name!r} is {size:,} bytes, zipped")
    assert size <= MOST_ZIPPED[name]


def test_parts_exchange_arrays_and_catch_each_others_errors(told: Told, python: Python, tmp_path: Path) -> None:
    for name in ("view", "dlpack"):
        told(tmp_path / f"part_{name}", "--only", name)
    told(tmp_path / "whole")
    result = python(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import array, part_dlpack, part_view, whole
        values = array.array("f", [1, 2, 3])
        for one, other in ((part_view, whole), (whole, part_view)):
            assert other.view(one.view(values)).tolist() == [1, 2, 3]
        capsule = whole.view(values).__dlpack__(max_version=(1, 3))
        owner = part_dlpack.consume(capsule)              # one takes what another has made
        for refusing in (part_dlpack.consume, part_view.view, whole.view):
            try:
                refusing(capsule)
            except BufferError as error:
                assert "consumed already" in str(error)
                assert type(error).__module__.partition(".")[0] == refusing.__module__.partition(".")[0]
            else:
                raise AssertionError(refusing)
        assert len(whole.dlpack.outstanding) == 1
        del owner
        assert not whole.dlpack.outstanding
    """,
        flags=("-I", "-S"),
    )
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_from_a_zip_and_again_from_the_copy(python: Python, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        for name, data in files_of(FOLDER).items():
            archive.writestr((FOLDER / name).relative_to(ROOT).as_posix(), data)
        for parent in list(FOLDER.relative_to(ROOT).parents)[:-1]:
            archive.writestr(f"{parent.as_posix()}/__init__.py", "")
    result = python(
        ["-m", NAME, "vendor", str(tmp_path / "taken")], flags=("-S",), env={"PYTHONPATH": str(tmp_path / "packed.zip")}
    )
    assert result.returncode == 0, result.stderr
    again = python(
        ["-m", "taken", "vendor", str(tmp_path / "again")],
        flags=("-S",),
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
    )
    assert again.returncode == 0 and "all of " in again.stdout, again.stderr
    assert files_of(tmp_path / "again") == files_of(tmp_path / "taken"), "a copy of a copy tells another origin"


def test_what_was_changed_is_told(told: Told, tmp_path: Path) -> None:
    copy = tmp_path / "taken"
    told(copy, "--only", "dlpack")
    (copy / "errors.py").write_text("# mended\n")
    (copy / "interpreter" / "cpython.py").unlink()
    (copy / "more.py").touch()
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "more.pyc").touch()
    said = told("--check", copy, status=1)
    assert [line.strip() for line in said.splitlines() if line.startswith("  ")] == [
        "errors.py was changed",
        "interpreter/cpython.py is gone",
        "more.py was added",
    ]
    assert "edited: errors.py was changed" in told(copy, status=2)
    assert (copy / "errors.py").read_text() == "# mended\n"


def test_how_old_a_copy_is(told: Told, tmp_path: Path) -> None:
    copy = tmp_path / "taken"
    told(copy, "--only", "dlpack")
    manifest = copy / "VENDORED.txt"
    text = manifest.read_text("utf-8")
    first = text.splitlines()[0]
    version, date = first.split()[1].strip(","), first.split()[-1].strip(".")
    for then, expected in (("0.0.9", "older than"), ("999.0", "newer than")):
        manifest.write_text(text.replace(version, then, 1).replace(date, "2020-01-01", 1), "utf-8")
        said = told("--check", copy)
        assert expected in said and " days ago" in said and "2020-01-01" in said and then in said
    manifest.write_text(text.replace(date, "2999-01-01", 1), "utf-8")  # in a time zone further east
    assert "copied on 2999-01-01, today" in told("--check", copy)
    manifest.write_text(text.replace("  errors.py", "  errors2.py"), "utf-8")
    assert "files differ" in told("--check", copy, status=1)


def test_an_unchanged_copy_is_replaced(told: Told, tmp_path: Path) -> None:
    copy = tmp_path / "taken"
    told(copy)
    told(copy, "--only", "dlpack")
    assert len(files_of(copy)) <= 8
    assert os.listdir(tmp_path) == ["taken"]


def test_what_is_not_ours_is_left_alone(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "module.py").write_text("x = 1\n")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    assert "not a copy of this package" in told(tmp_path / "theirs", status=2)
    assert "not a folder" in told(tmp_path / "file", status=2)
    assert "not a folder" in told(tmp_path / "link", status=2)
    assert "does not exist" in told(tmp_path / "nowhere" / "taken", status=2)
    assert all("cannot be imported" in told(tmp_path / name, status=2) for name in ("my-copy", "3d", "class"))
    assert "'class' is a keyword of Python" in told(tmp_path / "class", status=2)
    assert "becomes 'fi' when Python reads it" in told(tmp_path / "\ufb01", status=2)
    assert "being copied" in told(FOLDER, status=2)
    assert "being copied" in told(FOLDER / "inside", status=2)
    assert "not a copy of a package" in told("--check", tmp_path / "theirs", status=2)
    assert "omit --only" in told("--check", tmp_path / "theirs", "--only", "view", status=2)
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "theirs"] and os.listdir(tmp_path / "theirs") == [
        "module.py"
    ]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "current folder" in told(".", status=2) and not os.listdir(".")


def test_what_the_user_put_into_a_copy_is_never_deleted(told: Told, tmp_path: Path) -> None:
    """This is true for links, empty folders, files that look like Python's cache, and pipes."""
    copy, outside = tmp_path / "taken", tmp_path / "outside"
    outside.mkdir()
    (outside / "data").write_text("mine")
    pipe = getattr(os, "mkfifo", lambda path: Path(path).write_text("none here"))
    put: dict[str, Callable[[Path], object]] = {
        "link": lambda path: path.symlink_to(outside),
        "dangling": lambda path: path.symlink_to(tmp_path / "nowhere"),
        "empty": lambda path: path.mkdir(),
        "extension.pyc": lambda path: path.write_text("mine"),
        "deep/er/still": lambda path: path.mkdir(parents=True),
        "__pycache__/notes.txt": lambda path: (path.parent.mkdir(exist_ok=True), path.write_text("mine")),
        "__pycache__/link.pyc": lambda path: (path.parent.mkdir(exist_ok=True), path.symlink_to(outside / "data")),
        "pipe": pipe,
    }
    for name, make in put.items():
        told(copy, "--only", "dlpack")
        make(copy / name)
        assert f"{name} was added" in told("--check", copy, status=1)
        assert f"{name} was added" in told(copy, "--only", "dlpack", status=2)
        assert os.path.lexists(copy / name)
        shutil.rmtree(copy)
    told(copy, "--only", "dlpack")
    shutil.move(copy / "errors.py", outside / "errors.py")
    (copy / "errors.py").symlink_to(outside / "errors.py")
    assert "errors.py was changed" in told(copy, "--only", "dlpack", status=2)
    assert (outside / "data").read_text() == "mine"


ADDED: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("mine"),
    "an empty folder": lambda path: path.mkdir(),
    "a link": lambda path: path.symlink_to(path.parent.parent),
    "a .pyc file": lambda path: path.with_name("extension.pyc").write_text("mine"),
}


@pytest.mark.parametrize("kind", ADDED)
def test_whatever_was_added_to_a_copy_stops_its_replacement(tmp_path: Path, kind: str) -> None:
    place, content = tmp_path / "taken", {"__init__.py": b"", "inner/__init__.py": b"x = 1\n"}
    vendor.write(str(place), content, "all")
    ADDED[kind](place / "inner" / "added")
    before = sorted(place.rglob("*"))
    with pytest.raises(Refusal, match="was added"):
        vendor.write(str(place), content, "all")
    assert sorted(place.rglob("*")) == before


def test_a_copy_that_an_interrupt_left_beside_its_place_is_found(tmp_path: Path) -> None:
    place, content = tmp_path / "taken", {"__init__.py": b""}
    vendor.write(str(place), content, "all")
    (place / "mine.txt").write_text("mine")
    (tmp_path / ".taken.abc").mkdir()
    place.rename(tmp_path / ".taken.abc" / "old")
    with pytest.raises(Refusal, match="mine.txt was added"):
        vendor.write(str(place), content, "all")
    assert (place / "mine.txt").read_text() == "mine"


def test_an_update_finds_what_an_interrupt_left_beside_its_place(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "taken"
    told(place, "--only", "dlpack")
    (tmp_path / ".taken.abc").mkdir()
    place.rename(tmp_path / ".taken.abc" / "old")
    told(place, "--update")
    manifest = vendor._read(str(place))
    assert manifest is not None and manifest.part == "dlpack"


@pytest.mark.parametrize("kind", ["another folder", "half of a copy"])
def test_a_folder_that_is_no_copy_is_not_brought_back(tmp_path: Path, kind: str) -> None:
    place, old = tmp_path / "taken", tmp_path / ".taken.abc" / "old"
    if kind == "another folder":
        old.mkdir(parents=True)
    else:
        vendor.write(str(place), {"__init__.py": b"", "a.py": b"1"}, "all")
        old.parent.mkdir()
        place.rename(old)
        (old / "a.py").unlink()
    vendor.write(str(place), {"__init__.py": b""}, "all")
    assert old.is_dir() and files_of(place)["__init__.py"] == b""


def test_a_link_beside_the_place_is_not_brought_back(tmp_path: Path) -> None:
    other, content = tmp_path / "other", {"__init__.py": b"", "a.py": b"1"}
    vendor.write(str(other), content, "all")
    before = files_of(other)
    (tmp_path / ".taken.a").mkdir()
    (tmp_path / ".taken.a" / "old").symlink_to(other)
    (tmp_path / "holder").mkdir()
    (tmp_path / "holder" / "old").mkdir()
    (tmp_path / ".taken.b").symlink_to(tmp_path / "holder")
    vendor.write(str(tmp_path / "taken"), content, "all")
    assert files_of(other) == before and (tmp_path / "holder" / "old").is_dir()
    vendor._remove(str(tmp_path / ".taken.a" / "old"), [*content])  # a link that came after the checks
    assert files_of(other) == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner on this system")
def test_a_folder_of_another_user_is_not_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, content = tmp_path / "taken", {"__init__.py": b""}
    vendor.write(str(place), content, "all")
    (tmp_path / ".taken.abc").mkdir()
    place.rename(tmp_path / ".taken.abc" / "old")
    user = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: user + 1)
        vendor._bring_back(str(place))
    assert not place.exists()
    vendor._bring_back(str(place))
    assert place.exists()


def test_what_comes_into_a_copy_while_it_is_replaced_is_kept(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, exchange = tmp_path / "taken", vendor._exchange
    told(copy, "--only", "dlpack")

    def late(new: str, place: str, old: str) -> None:
        (copy / "late.txt").write_text("mine")
        exchange(new, place, old)

    monkeypatch.setattr(vendor, "_exchange", late)
    said = told(copy, "--only", "dlpack")
    kept = Path(said.strip().rpartition(" kept in ")[2])
    assert files_of(kept) == {"late.txt": b"mine"} and "late.txt" not in files_of(copy)


@pytest.mark.skipif(os.name != "posix", reason="a user without rights makes no links on Windows")
@pytest.mark.parametrize("kind", ["a link", "links in it"])
def test_no_file_below_a_link_is_removed(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Another user may exchange a copy after it was checked, if he may write to the folder that contains it."""
    copy, mine, exchange = tmp_path / "shared" / "taken", tmp_path / "mine", vendor._exchange
    copy.parent.mkdir()
    for place in (copy, mine):
        told(place, "--only", "dlpack")
    before = files_of(mine)

    def late(new: str, place: str, old: str) -> None:
        copy.rename(tmp_path / "shared" / "was")
        if kind == "a link":
            copy.symlink_to(mine)
        else:
            copy.mkdir()
            for each in mine.iterdir():
                if each.is_dir():
                    (copy / each.name).symlink_to(each)
        exchange(new, place, old)

    monkeypatch.setattr(vendor, "_exchange", late)
    told(copy, "--only", "dlpack")
    assert files_of(mine) == before and set(files_of(copy)) == set(before)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no user ids")
def test_a_copy_of_another_user_is_replaced_and_removed(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container, where root replaces a copy in the checkout of a user."""
    copy, lstat = tmp_path / "taken", os.lstat
    told(copy, "--only", "dlpack")

    def others(path: str, **options: int) -> os.stat_result:
        found = lstat(path, **options)
        return os.stat_result([*found[:4], found.st_uid + ("/old" in str(path)), *found[5:]])

    monkeypatch.setattr(os, "lstat", others)
    told(copy, "--only", "view")
    assert os.listdir(tmp_path) == ["taken"]


def test_a_manifest_cannot_name_files_outside_of_its_copy(told: Told, tmp_path: Path) -> None:
    told(tmp_path / "taken", "--only", "dlpack")
    (tmp_path / "precious").write_text("mine")
    digest = hashlib.sha256(b"mine").hexdigest()
    for path in ("../precious", str(tmp_path / "precious"), "a/../../precious"):
        with (tmp_path / "taken" / "VENDORED.txt").open("a") as manifest:
            manifest.write(f"{digest}  {path}\n")
        assert "not a copy of this package" in told(tmp_path / "taken", "--only", "dlpack", status=2)
        assert (tmp_path / "precious").read_text() == "mine"


def test_a_manifest_cannot_name_files_in_deep_folders(told: Told, tmp_path: Path) -> None:
    """Each folder above each file is looked at, which takes time in the cube of the depth."""
    told(tmp_path / "taken", "--only", "dlpack")
    with (tmp_path / "taken" / "VENDORED.txt").open("a") as manifest:
        manifest.write(f"{'0' * 64}  {'a/' * 1000}b\n")
    assert "not a copy of a package" in told(tmp_path / "taken", "--update", status=2)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no paths of this length")
def test_folders_of_any_depth_are_removed(tmp_path: Path) -> None:
    made = [f"{tmp_path / 'old'}{'/a' * depth}" for depth in range(1500)]
    try:
        for each in made:
            os.mkdir(each)
        vendor._remove(made[0], [])
        assert not os.path.exists(made[0])
    finally:
        for each in reversed(made):
            if os.path.exists(each):
                os.rmdir(each)


class Interrupting:
    """A trace function that raises KeyboardInterrupt before given lines of vendor.py, counted from 1 as they run."""

    def __init__(self, *at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> Interrupting | None:
        if frame.f_code.co_filename != vendor.__file__:
            return None
        if event == "line":
            self.count += 1
            if self.count in self.at:
                raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # of open()
@pytest.mark.parametrize("times", sampled([1, 2]))
def test_an_interrupt_at_any_line_leaves_a_whole_copy(tmp_path: Path, times: int) -> None:
    """After one interrupt, the old or the new copy is in place; after two, the next call finds the old one."""
    place, content = tmp_path / "taken", {"__init__.py": b"", "inner/__init__.py": b"x = 1\n"}
    vendor.write(str(place), content, "all")

    def is_whole() -> bool:
        manifest = vendor._read(str(place))
        return manifest is not None and not vendor._changes(str(place), manifest)

    at, was, left_beside = 0, sys.gettrace(), 0
    while True:
        at += 1
        watch = Interrupting(*(at + 2 * turn for turn in range(times)))
        sys.settrace(watch)
        try:
            vendor.write(str(place), content, "all")
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(was)
        if watch.count < at:
            break
        if times == 1:
            assert is_whole(), f"interrupted before line {at}"
        vendor._bring_back(str(place))
        assert is_whole(), f"interrupted before line {at}"
        for left in tmp_path.glob(".taken.*"):
            left_beside += 1
            shutil.rmtree(left)
    assert at > 100
    assert times == 2 or left_beside <= 2  # before the first line of _clean()


def test_nothing_is_half_written(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "taken"
    told(copy, "--only", "dlpack")
    before, rename = files_of(copy), os.rename

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def only_out_of_the_way(source: str, target: str) -> None:
        return full() if os.path.basename(source) == "new" else rename(source, target)

    for name, failing in (("rename", only_out_of_the_way), ("makedirs", full)):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, failing)
            assert "No space" in told(copy, status=1)
        assert files_of(copy) == before and os.listdir(tmp_path) == ["taken"]


def test_a_name_that_a_part_lacks_was_left_out(told: Told, python: Python, tmp_path: Path) -> None:
    """The error says so for each public name; a misspelled one gets a suggestion, or no remark."""
    for name in PARTS:
        if name == "dlpack":  # one module, which has no public names
            continue
        told(tmp_path / f"part_{name}", "--only", name)
        result = python(
            f"""
            import sys
            sys.path.insert(0, {str(tmp_path)!r})
            import part_{name} as part
            lacking = 0
            for public in sys.argv[1:]:
                try:
                    getattr(part, public)
                except AttributeError as error:
                    assert "it was left out, because this copy is the part '{name}' only" in str(error), error
                    lacking += 1
                except ImportError:
                    raise
                assert hasattr(part, public) == (public in dir(part))
            assert lacking > 5
            try:
                part.no_such_name
            except AttributeError as error:
                assert "left out" not in str(error)
            """,
            *rawcuda.__all__,
        )
        assert result.returncode == 0, result.stderr


def test_the_commit_is_recorded(told: Told, tmp_path: Path) -> None:
    told(tmp_path / "taken", "--only", "dlpack")
    second = (tmp_path / "taken" / "VENDORED.txt").read_text("utf-8").splitlines()[1]
    assert re.fullmatch(r"Commit ([0-9a-f]{40,64}(, with changes)?|unknown: .*)\.", second), second


def test_in_a_hook_the_commit_is_that_of_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a hook of git, GIT_DIR names the repository in which a commit is made."""
    vendor = module("tools.commands.vendor")
    before = vendor._commit()
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "other"))
    assert vendor._commit() == before


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make a checkout of a package with one file, and let vendor.py be of that package."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "checkout"
    (folder / "package").mkdir(parents=True)
    (folder / "setup.cfg").write_text("")
    (folder / "package" / "__init__.py").write_text("")
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "--no-verify", "-m", "first"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    monkeypatch.setattr(vendor, "PACKAGE", "package")
    monkeypatch.setattr(vendor, "files", lambda package: folder / package)
    return folder


def test_a_commit_is_not_recorded_if_git_cannot_tell_whether_there_are_changes(checkout: Path) -> None:
    commit = vendor._commit()
    assert re.fullmatch("[0-9a-f]{40,64}", commit)
    (checkout / "package" / "__init__.py").write_text("changed")
    assert vendor._commit() == f"{commit}, with changes"
    (checkout / ".git" / "index").write_bytes(b"damaged")
    assert vendor._commit() == "unknown: git could not tell"


def test_the_index_of_the_checkout_is_not_written(checkout: Path) -> None:
    """git status writes it anew if the time of a file has changed, and a git that runs meanwhile finds it locked."""
    os.utime(checkout / "package" / "__init__.py", (1, 1))
    before = (checkout / ".git" / "index").read_bytes()
    assert re.fullmatch("[0-9a-f]{40,64}", vendor._commit())
    assert (checkout / ".git" / "index").read_bytes() == before


def test_line_ends_of_windows_are_not_copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Git on Windows may write them into a checkout."""
    parts = module("tools.commands.parts")
    before = parts.part("gpu", NAME)
    for path in FOLDER.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            there, content = tmp_path / path.relative_to(FOLDER), path.read_bytes()
            there.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in (".py", ".pyi"):
                content = content.replace(b"\n", b"\r\n")
            there.write_bytes(content)
    monkeypatch.setattr(parts, "files", lambda package: tmp_path)
    assert parts.part("gpu", NAME) == before


@pytest.mark.skipif(os.name != "posix", reason="a planted program is a shell script")
@pytest.mark.parametrize("planted", ["", ".", "../here", "{}/here", "{}/open", "nowhere"])
def test_no_planted_git_is_run(python: Python, tmp_path: Path, planted: str) -> None:
    """One in the current folder, however PATH names it, or where every user can write."""
    for name in ("here", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (tmp_path / name / "git").chmod(0o755)
    (tmp_path / "open").chmod(0o777)
    path = planted.format(tmp_path)
    if planted != "nowhere":
        path += os.pathsep + os.environ["PATH"]
    code = "from tests.subject import module; print(module('tools.commands.vendor')._commit())"
    said = python(code, cwd=tmp_path / "here", env={"PATH": path}, check=True).stdout
    assert not (tmp_path / "ran").exists(), said
    if planted in ("{}/open", "nowhere") and not (FOLDER / "VENDORED.txt").exists():  # a copy has its commit from there
        assert "unknown: " in said


def test_an_update_keeps_the_part(told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(tmp_path / "taken", "--only", "dlpack")
    manifest = tmp_path / "taken" / "VENDORED.txt"
    now = rawcuda.__version__
    manifest.write_text(manifest.read_text("utf-8").replace(f" {now}, ", " 0.0.1, ", 1), "utf-8")
    assert "It is older" in told("--check", tmp_path / "taken")
    said = told("--update", tmp_path / "taken")
    assert f"0.0.1 was replaced by {now}" in said and "the part 'dlpack'" in said
    assert "It has the version of the running package" in told("--check", tmp_path / "taken")
    (tmp_path / "taken" / "added.py").write_text("")
    (tmp_path / "taken" / "dlpack.py").write_text("")
    assert main(["vendor", "--update", str(tmp_path / "taken")]) == 2
    assert capsys.readouterr().out == ""  # nothing was replaced, so nothing says so
    with pytest.raises(AssertionError):
        told("--update", tmp_path / "nothing")
    with pytest.raises(AssertionError):
        told("--update", tmp_path / "taken", "--only", "view")


@pytest.mark.parametrize("version, date", [
    ("1.0", "0000-99-99"), ("1.0", "2025-02-30"), ("1" * 6000, "2025-01-01"),
])  # fmt: skip
def test_a_damaged_manifest_is_refused(tmp_path, version, date):
    (tmp_path / "VENDORED.txt").write_text(f"rawcuda {version}, all, copied on {date}.\n{'0' * 64}  a.py\n")
    vendor = module("tools.commands.vendor")
    with pytest.raises(vendor.Refusal, match="it is not a copy of a package"):
        vendor.check(str(tmp_path))


def test_control_characters_of_a_copy_do_not_reach_the_terminal(tmp_path, capsys):
    """They would change its title, its colours, or what was printed before."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "VENDORED.txt").write_text(
        f"rawcuda 1.0\x1b[31m, all, copied on 2024-01-01.\n{'0' * 64}  a\x1b[2Jfile.py\n", encoding="utf-8"
    )
    (copy / "b\x1b[2J\n\x07.py").touch()
    assert module("tools.commands.vendor").main(["--check", str(copy)]) == 1
    said = capsys.readouterr().out
    assert "a\\x1b[2Jfile.py is gone" in said and "1.0\\x1b[31m" in said and "b\\x1b[2J\\n\\x07.py" in said
    assert all(each.isprintable() or each == "\n" for each in said)
