"""The layers: which module may import which, what a module may import from outside, and the name of a module.

A module imports modules of its own folder that stand before it in the folder's order, and modules of the folders before
its own; imports inside functions included. So no folder lies in an import cycle with another.
The modules are read with `ast`, so nothing is imported. Imports for type checking do not count, as they do not run.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.shared import together
from tests.subject import FOLDER, NAME, module, rawcuda

# The modules and folders of the package, in order: each imports only those before it. The order inside a folder stands
# in the docstring of the folder's __init__, under "Order".
PACKAGE = (
    "remembered late errors hints arguments tracing interpreter images ownership headers locate dlpack driver elements "
    "protocols arrays compiler gpu integrations emulator emulate tools __main__"
).split()

# The two kinds of import that point upwards, each inside a function, and its reason.
_THE_PACKAGE = "the package itself alone knows"
UPWARDS = {
    "protocols.device_memory": {"gpu.for_arrays": "memory on a device is met only sometimes, and needs a driver"},
    "driver": {"": f"{_THE_PACKAGE} the emulator"},
    "arrays.strided": {"": f"{_THE_PACKAGE} the pictures for notebooks"},
    "arrays.pickling": {"": f"{_THE_PACKAGE} the class of views, if a pickle is read first"},
    "gpu.graphs.graph": {"": f"{_THE_PACKAGE} the pictures for notebooks"},
}
OPTIONAL = {
    "integrations.plugins": "dask",
    "integrations.dask": "distributed",
    "emulate": "pytest",
    "emulator.ptx.vectors.late_numpy": "numpy",
    "tools.magic": "IPython",
}  # imported late, and done without where it is missing
NOT_YET_STANDARD = {"compression": "Python 3.14; done without where it is missing"}
MAY_SEE_THE_EMULATOR = ("tools.commands.doctor", "tools.commands.emulate_command")  # late
UNSAYING_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}


class Import(NamedTuple):
    """An import: "" is the package itself, a name with a leading "/" is from outside the package."""

    target: str
    late: bool
    line: int


def name_of(path: Path) -> str:
    """Return a module's name inside the package: "protocols.buffer", "" for the package itself."""
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted(FOLDER.rglob("*.py"))}
every_module = together("name", PATHS)


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each module. A process that runs none of these tests reads none of them."""
    return {name: ast.parse(path.read_bytes()) for name, path in PATHS.items()}


def is_type_checking(node: ast.AST) -> bool:
    """Tell whether a node is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(name: str) -> Iterator[Import]:
    """Yield the imports of a module, with relative names made absolute inside the package."""
    home = name.split(".") if PATHS[name].name == "__init__.py" else name.split(".")[:-1]

    def walk(node: ast.AST, late: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import("/" + alias.name, late, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node).startswith("import_module(__package__"):
            yield Import("", late, node.lineno)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield Import("/" + str(node.module), late, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            folder = [part for part in home if part][: len([part for part in home if part]) - node.level + 1]
            origin = ".".join(folder + ([node.module] if node.module else []))
            for alias in node.names:  # "from . import x" is the module x, or the name x of the package itself
                inner = f"{origin}.{alias.name}".lstrip(".")
                yield Import(inner if inner in PATHS else origin, late, node.lineno)
        for child in ast.iter_child_nodes(node):
            if is_type_checking(node) and child in node.body:
                continue
            yield from walk(child, late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    return walk(trees()[name], False)


def side(name: str) -> str:
    """Return "emulator", "emulate", "tools" or "__main__" if a module is there: nothing else imports these."""
    first = name.partition(".")[0]
    return first if first in ("emulator", "tools", "__main__", "emulate") else ""


def order_of(folder: str) -> list[str]:
    """Return the modules and folders in a folder, in the order that its __init__ gives; "" is the package."""
    if not folder:
        return PACKAGE
    text = ast.get_docstring(trees()[folder]) or ""
    found = re.search(r"^Order +(.*(?:\n +.*)*)", text, re.M)
    return re.split(r",\s+", found[1].strip()) if found else []


@functools.cache
def place(name: str) -> tuple[float, ...]:
    """Return a module's place: its number in its folder, after the number of the folder, and so on."""
    parts = name.split(".")
    numbers: list[float] = []
    for depth, part in enumerate(parts):
        order = order_of(".".join(parts[:depth]))
        numbers.append(order.index(part) if part in order else -1)
    if PATHS[name].name == "__init__.py":
        numbers.append(inf)  # a folder itself stands after what is in it
    return tuple(numbers)


def refusal(name: str, entered: Import) -> str:
    """Return the reason why a module must not import another, or "" if it may."""
    target = entered.target
    if name == "":
        return "" if entered.late else "the package itself imports only late, when a name of it is used"
    if target in UPWARDS.get(name, {}) and entered.late:
        return ""
    if target == "":  # the tools are users of the package, and show its version
        return "" if side(name) in ("tools", "__main__") else "a module does not import the package that contains it"
    if side(name) == "emulator" and side(target) != "emulator":
        allowed = ["headers.behaviour", "headers.cuda_h", "errors", "images.containers", "interpreter.covering"]
        allowed += ["images.mangled", "compiler.declarations"]  # its reports name parameters as the source does
        if name.startswith("emulator.impersonating."):  # it passes calls on to the real compilers
            allowed += ["locate", "compiler.nvrtc", "headers.nvrtc_h", "headers.nvjitlink_h"]
        return "" if target in allowed else "the emulator stands on its own"
    if side(name) == "emulate":
        allowed = target == "errors" or side(target) == "emulator"
        return "" if entered.late and allowed else "the plugin needs the errors and the emulator only, and late"
    if side(name) in ("tools", "__main__") and side(target) == "emulator":
        allowed_here = name in MAY_SEE_THE_EMULATOR and entered.late
        return "" if allowed_here else "the emulator is chosen through the package"
    if side(target) and not side(name):
        return "only people and programs start these"
    return "" if place(target) < place(name) else f"{name} may not import {target}, which does not stand before it"


@every_module
def test_a_module_imports_only_from_below(name: str) -> None:
    wrong = [
        f"{PATHS[name]}:{entered.line}: {entered.target or 'the package'}: {why}"
        for entered in imports(name)
        if not entered.target.startswith("/")
        for why in [refusal(name, entered)]
        if why
    ]
    assert not wrong, "\n".join(wrong)


def test_every_permission_is_used() -> None:
    used = {(name, entered.target) for name in PATHS for entered in imports(name)}
    stale = [
        f"{name} -> {target}" for name, targets in UPWARDS.items() for target in targets if (name, target) not in used
    ]
    assert not stale, stale


def test_only_two_modules_are_imported_from_below() -> None:
    assert {target for targets in UPWARDS.values() for target in targets} == {"gpu.for_arrays", ""}


@pytest.mark.parametrize("folder", sorted({name.rpartition(".")[0] for name in PATHS if name}))
def test_each_folder_has_an_order(folder: str) -> None:
    there = {name.rpartition(".")[2] for name in PATHS if name and name.rpartition(".")[0] == folder}
    listed = order_of(folder)
    where = f'"Order" in {PATHS[folder]}' if folder else "PACKAGE in this file"
    assert not there - {*listed}, f"add to {where}, after what they import: {sorted(there - {*listed})}"
    assert not {*listed} - there, f"remove from {where}: {sorted({*listed} - there)}"
    assert len(listed) == len({*listed})


def test_a_module_that_stands_before_may_not_import_a_later_one() -> None:
    late = Import("gpu.copies.batch", True, 1)
    assert refusal("gpu.core.calls", late) and refusal("emulator.machine.space", Import("emulator.ptx", True, 1))
    assert refusal("gpu.core.context", Import("gpu.core", False, 1))  # its own folder
    assert not refusal("gpu.for_arrays", late) and refusal("gpu.core.calls", Import("tools.traces", True, 1))


def calls(name: str) -> Iterator[tuple[str, int]]:
    """Yield the text of each call in a module, and its line."""
    for node in ast.walk(trees()[name]):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


# Modules that import another by a computed name: from the package's table, from the table of commands.
MAY_IMPORT_BY_NAME = {
    "",
    "tools.commands.command_table",
    "tools.commands.inspect",
    "tools.checking.groups.check_exchange",
}


def test_nothing_is_imported_past_the_table() -> None:
    """Imports with computed names, and look-ups in sys.modules, would not be found by `imports`."""
    wrong = [
        f"{PATHS[name]}:{line}: {function}"
        for name in PATHS
        if name not in MAY_IMPORT_BY_NAME
        for function, line in calls(name)
        if function.rpartition(".")[2] in ("import_module", "__import__")
    ]
    for path in PATHS.values():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if re.search(r"sys\.modules(\.get\(|\[)[^)\]]*__(package|name)__", line):
                wrong.append(f"{path}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


def test_source_is_executed_in_one_place_outside_the_emulator() -> None:
    places = [
        f"{PATHS[name]}:{line}"
        for name in PATHS
        if not name.startswith("emulator")
        for function, line in calls(name)
        if function == "exec" or function == "eval" and name != "tools.commands.inspect"  # the user's expression
    ]
    assert len(places) <= 1, places


def test_no_function_is_made_from_parts_outside_the_emulator() -> None:
    """Except for those that C code calls: nothing else keeps a signal handler from ending them without a result."""
    wrong = [
        f"{PATHS[name]}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in trees().items()
        if not name.startswith("emulator") and name != "interpreter.covering"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            ast.unparse(node.func).rpartition(".")[2] in ("FunctionType", "CodeType", "LambdaType")
            or any((keyword.arg or "").startswith("co_") for keyword in node.keywords)
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_no_function_is_changed_while_it_can_be_called() -> None:
    wrong = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            targets = (
                node.targets
                if isinstance(node, (ast.Assign, ast.Delete))
                else [node.target]
                if isinstance(node, (ast.AugAssign, ast.AnnAssign))
                else []
            )
            changed = [ast.unparse(target) for each in targets for target in ast.walk(each)]
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__"):
                changed += [ast.unparse(argument) for argument in node.args]
            text = " ".join(changed)
            if re.search(r"__(code|closure|globals)__|cell_contents", text):
                wrong.append(f"{PATHS[name]}:{node.lineno}: {text}")
    assert not wrong, "\n".join(wrong)


def test_every_layer_says_what_it_is() -> None:
    folders = {name for name, path in PATHS.items() if path.name == "__init__.py"}
    folders = {name for name in folders if name.count(".") <= name.startswith("gpu")}
    for folder in folders | {"tools.commands"}:
        text = ast.get_docstring(trees()[folder]) or ""
        assert "What it is" in text, f"the __init__ of {folder or 'the package'} does not describe it"


def test_imports_are_relative_or_of_the_standard_library() -> None:
    if sys.version_info < (3, 10):
        pytest.skip("sys.stdlib_module_names is new in 3.10; newer Pythons run this test")
    allowed = {*sys.stdlib_module_names, *NOT_YET_STANDARD}
    wrong = [
        f"{PATHS[name]}:{entered.line}: {entered.target[1:]}"
        for name in PATHS
        for entered in imports(name)
        if entered.target.startswith("/")
        and entered.target[1:].partition(".")[0] not in allowed
        and not (entered.late and OPTIONAL.get(name) == entered.target[1:])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("word", sorted({"rawcuda", NAME, NAME.rpartition(".")[2]} - {"gpu"}))
def test_the_package_does_not_know_its_own_name(word: str) -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in FOLDER.rglob("*")
        if path.suffix in (".py", ".ptx")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if word in line
    ]
    assert not found, "\n".join(found)


@every_module
def test_a_module_does_nothing_when_it_is_imported(name: str) -> None:
    """It only makes definitions, and fills its own tables; test_import.py checks for other effects."""
    tree = trees()[name]
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    own |= {ast.unparse(target) for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
    own |= {ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)}
    wrong = [
        f"{PATHS[name]}:{node.lineno}: {ast.unparse(node)}"
        for node in tree.body
        if isinstance(node, (ast.With, ast.While))
        or isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).partition(".")[0] not in own
        and not ast.unparse(node.value.func).endswith(".observers.append")  # a module adds an observer
    ]
    assert not wrong, "\n".join(wrong)


@every_module
def test_a_public_module_says_what_is_public(name: str) -> None:
    if name.rpartition(".")[2].startswith("_") or side(name) and "." in name:  # private, or inside one of these
        return
    listed = [
        node
        for node in trees()[name].body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "__all__"
        or isinstance(node, ast.AnnAssign)
        and ast.unparse(node.target) == "__all__"
    ]
    is_empty = all(isinstance(node, (ast.Expr, ast.ImportFrom)) for node in trees()[name].body)
    assert listed or is_empty, f"{PATHS[name]} has no __all__"


@every_module
def test_names_say_something(name: str) -> None:
    parts = set(name.split("."))
    assert not parts & UNSAYING_NAMES, f"{name}: describe its content"
    assert not parts & set(rawcuda.__all__) or "." in name, f"{name}: the module would hide the public name"


VERSION, TARGET = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.M), re.compile(r"^\s*\.target\s+(\S+)", re.M)


def shipped_ptx() -> Iterator[tuple[str, str]]:
    """Yield every PTX text of the package, in files and in strings, with its place."""
    for path in FOLDER.rglob("*.ptx"):
        yield str(path), path.read_text("utf-8")
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and VERSION.search(node.value):
                yield f"{PATHS[name]}:{node.lineno}", node.value


def test_every_driver_since_11_4_takes_the_ptx() -> None:
    texts = list(shipped_ptx())
    assert texts, "no PTX was found in the package: this test searches the wrong files"
    newer = module("tools.checking.check_kernels").NEWER  # of rows that need clusters or tensor maps, and CUDA 12.0
    assert VERSION.findall(newer) == [("8", "0")] and TARGET.findall(newer) == ["sm_90"]
    for place, text in texts:
        if text == newer:
            continue
        assert all((int(major), int(minor)) <= (6, 3) for major, minor in VERSION.findall(text)), (
            f"{place}: .version above 6.3"
        )
        assert set(TARGET.findall(text)) == {"sm_50"}, f"{place}: .target is not sm_50"
