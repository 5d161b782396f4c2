"""Docstrings have the right form, and the driver functions, exceptions and examples in them are right.

The first line is a sentence, for a function with an imperative verb.

label   text; further lines have the same indentation; a label is one of LABELS, or a name of the definition
"""

from __future__ import annotations

import ast
import functools
import pydoc
import re
from collections.abc import Iterator
from typing import NamedTuple, Union

from tests.conftest import Python
from tests.null.test_layers import PATHS, is_type_checking, trees
from tests.shared import together
from tests.subject import CHECKOUT, FOLDER, module, rawcuda

LABELS = {"shape", "units", "calls", "order", "raises", "returns", "source", "Why long"}
LABEL = re.compile(r"(\w[\w ]*?) {2,}(?=\S)")
NOT_IMPERATIVE = re.compile(r"[A-Z]\w*[^s\W]s|[A-Z]\w*ing|This|The|A|An", re.A)  # Returns, Returning; not Pass, Process
DefinitionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef]


class Definition(NamedTuple):
    """A public function, method or class, with its place and docstring."""

    place: str
    node: DefinitionNode
    text: str

    @property
    def own_names(self) -> set[str]:
        """Return the names of its parameters; for a class, those of its methods, and the names that it defines."""
        names = set()
        for node in ast.walk(self.node):
            if isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(self.node, ast.ClassDef) and isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(self.node, ast.ClassDef) and isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(self.node, ast.ClassDef) and isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)  # __slots__
            elif isinstance(self.node, ast.ClassDef) and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names.add(node.name)
        return names

    def labelled(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each label with its lines, without the indentation of the first line."""
        label, lines, column = "", [], 0
        for line in self.text.splitlines()[1:] + ["end"]:
            if line.startswith(" ") or not line:
                lines.append(line[column:] if not line[:column].strip() else line)
                continue
            if label:
                yield label, lines
            found = LABEL.match(line)
            label, column, lines = (found[1], found.end(), [line[found.end() :]]) if found else ("", 0, [])


@functools.cache
def definitions() -> list[Definition]:
    """Return every public definition in modules and classes; definitions inside a function are private.

    do_OPCODE functions are looked up by name, and the PTX ISA describes them.
    """

    def walk(name: str, body: list[ast.stmt]) -> Iterator[Definition]:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                is_setter = any(
                    ast.unparse(decorator).endswith((".setter", ".deleter")) for decorator in node.decorator_list
                )
                if not node.name.startswith(("_", "do_")) and not is_setter:
                    yield Definition(f"{PATHS[name]}:{node.lineno} {node.name}", node, ast.get_docstring(node) or "")
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield from walk(name, node.body)
            elif isinstance(node, ast.If) and not is_type_checking(node):
                yield from walk(name, node.body + node.orelse)

    return [each for name, tree in trees().items() for each in walk(name, tree.body)]


def fail_with(wrong: list[str]) -> None:
    """Fail if there are problems, and print a line for each."""
    assert not wrong, "\n".join(wrong)


def test_there_are_definitions() -> None:
    assert len(definitions()) > 200 and any(label == "calls" for each in definitions() for label, _ in each.labelled())


@together("name", PATHS)
def test_a_module_says_what_it_is_and_what_to_read_next(name: str) -> None:
    text = ast.get_docstring(trees()[name]) or ""
    assert text, f"{PATHS[name]} has no docstring"
    first, *rest = text.splitlines()
    assert first.endswith((".", "?", "!")), f"{PATHS[name]}: the first line is a sentence: {first}"
    is_small = len(trees()[name].body) < 5
    assert is_small or any(line.startswith("Read next ") for line in rest), (
        f"{PATHS[name]} does not say what to read next"
    )


A_PATH = re.compile(r"(?<![\w/.<-])((?:\.\./)*[a-z_]\w*(?:/\w+)*(?:/|\.py))(?![\w/])")
ELSEWHERE = ("numpy/", "numba/")  # files of other projects, as sources


def paths_in(text: str) -> list[str]:
    """Return the files and folders that a text names: driver.py, protocols/dlpack_capsule.py, ../locate.py, ptx/."""
    return [path for path in A_PATH.findall(text) if not path.startswith(ELSEWHERE)]


def test_paths_are_found_in_a_text() -> None:
    text = "x.py, then a/b.py; ../c.py (d/): 1.py e.pyc http://f/ and/or g/h __init__.py."
    assert paths_in(text) == ["x.py", "a/b.py", "../c.py", "d/", "__init__.py"]


def test_files_that_a_module_header_names_exist() -> None:
    """A path starts at the module's own folder, at a folder above it, or at the checkout."""
    wrong = []
    for name, tree in trees().items():
        text = ast.get_docstring(tree) or ""
        for path in paths_in(text):
            above = [folder for folder in PATHS[name].parents if folder == FOLDER or FOLDER in folder.parents]
            if not any((folder / path).exists() for folder in (*above, CHECKOUT)):
                wrong.append(f"{PATHS[name]}: there is no {path}")
    fail_with(wrong)


NO_FILES_OF_OURS = {"conftest.py", "runpy.py", "saxpy.py", "numpy/_core/_internal.py"}


def test_files_that_any_line_names_exist() -> None:
    """Also in the docstrings of functions and in comments, where a path may start at any folder."""
    files = [path.as_posix() for path in [*PATHS.values(), *CHECKOUT.glob("tests/*/*.py")]]
    wrong = []
    for path in PATHS.values():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for name in re.findall(r"(?<![\w/.])(?:\.\./)*((?:\w+/)*\w+\.py)\b", line):
                if name not in NO_FILES_OF_OURS and not any(file.endswith(f"/{name}") for file in files):
                    wrong.append(f"{path}:{number}: there is no {name}")
    fail_with(wrong)


def test_read_next_names_something() -> None:
    """A file or a folder, or a table of the module itself."""
    wrong = []
    for name, tree in trees().items():
        text = ast.get_docstring(tree) or ""
        for said in re.findall(r"^Read next +(.*(?:\n +.*)*)", text, re.M):
            tables = [word for word in re.findall(r"\b[A-Z][A-Z_]+\b", said) if hasattr(module(name), word)]
            if not paths_in(said) and not tables and "README" not in said:
                wrong.append(f"{PATHS[name]}: Read next names neither a file nor a table: {said}")
    fail_with(wrong)


def test_every_public_definition_has_a_first_line() -> None:
    fail_with(
        [
            f"{each.place}: the first line is a sentence: {each.text.splitlines()[:1]}"
            for each in definitions()
            if not re.match(r"\S.*[.;:?!]$", (each.text.splitlines() or [""])[0])
        ]
    )


def test_a_function_says_what_to_do() -> None:
    fail_with(
        [
            f"{each.place}: not imperative: {each.text.splitlines()[0]}"
            for each in definitions()
            if each.text and not isinstance(each.node, ast.ClassDef) and NOT_IMPERATIVE.fullmatch(each.text.split()[0])
        ]
    )


def test_labels_are_known() -> None:
    fail_with(
        [
            f"{each.place}: {word!r} is no label and none of its own names"
            for each in definitions()
            for label, _ in each.labelled()
            if label not in LABELS
            for word in label.split()
            if word not in each.own_names
        ]
    )


def test_what_is_called_is_in_the_table_of_prototypes() -> None:
    table = {
        name for header in ("cuda_h", "nvrtc_h", "nvjitlink_h") for name in module(f"headers.{header}").prototypes()
    }
    wrong = []
    for each in definitions():
        for label, lines in each.labelled():
            if label == "calls":
                names = re.findall(r"\b(?:cu|nvrtc|nvJitLink)[A-Z]\w*", " ".join(lines))
                wrong += [
                    f"{each.place}: calls {name}, which is not in PROTOTYPES" for name in names if name not in table
                ]
                wrong += [] if names else [f"{each.place}: calls nothing that is a driver function: {lines}"]
    fail_with(wrong)


def is_exception(name: str) -> bool:
    """Tell whether a name is an exception of this package, built in, or, with a dot, of the standard library."""
    ours = (getattr(module(path) if path else rawcuda, name, None) for path in PATHS)
    return any(isinstance(found, type) and issubclass(found, BaseException) for found in (pydoc.locate(name), *ours))


def test_what_is_raised_exists() -> None:
    wrong = []
    for each in definitions():
        for label, lines in each.labelled():
            if label == "raises":
                for line in lines:
                    name = re.match(r"[\w.]+", line)  # None in a continuation line, which is indented further
                    if name and not is_exception(name[0]):
                        wrong.append(f"{each.place}: raises {name[0]}, which is no exception")
    fail_with(wrong)


def test_examples_run(python: Python) -> None:
    """Examples run on the emulator, with all public names; a module that cannot be imported is a failure."""
    names = [
        name
        for name, tree in trees().items()
        if ">>>" in PATHS[name].read_text("utf-8") and not name.endswith("__main__")
    ]
    result = python(
        """
        import doctest, sys
        from tests.subject import module, rawcuda
        public = {name: getattr(rawcuda, name) for name in rawcuda.__all__}
        failed = 0
        for name in sys.argv[1:]:
            each = module(name) if name else rawcuda
            outcome = doctest.testmod(each, extraglobs=public, optionflags=doctest.ELLIPSIS)
            failed += outcome.failed
        sys.exit(bool(failed))
    """,
        *names,
        env={"RAWCUDA_DRIVER": "emulator"},
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_public_class_says_how_one_gets_an_object() -> None:
    """With an example; not errors, and not what is called like a function."""
    classes = [getattr(rawcuda, name) for name in rawcuda.__all__ if isinstance(getattr(rawcuda, name), type)]
    shown = [each for each in classes if not issubclass(each, BaseException) and not each.__name__.islower()]
    assert len(shown) > 15
    fail_with([f"{each.__name__} has no example" for each in shown if ">>> " not in (each.__doc__ or "")])
