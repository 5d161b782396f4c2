"""The house: which room may import which, what a room may import from outside, and the name of a room.

The modules are read with `ast`, so nothing is imported. Imports for type checking do not count, as they do not run.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.shared import together
from tests.subject import FOLDER, NAME, rawcuda

# The floors, from the ground up, each with its rooms in order: a room may import those before it on its own floor, and
# all of the floors below.
FLOORS = (
    ("", "remembered loadable errors given doors names tracing owned locate"),
    ("images", "zstd containers outline"),
    ("interpreter", "cpython callback"),
    (
        "headers",
        "c_types functions functions_graphs functions_arrays functions_system enumerations structures reader cuda_h "
        "nvrtc_h nvjitlink_h",
    ),
    ("", "dlpack driver"),
    ("elements", "dtypes ctypes_types layout scalars npy"),
    (
        "protocols",
        "refusals description pep3118 buffer array_interface cuda_array_interface cuda_stream tensor dlpack "
        "dlpack_c_exchange arrow choosing",
    ),
    ("interpreter", "buffer_type"),
    (
        "arrays",
        "host_copy copying conversion flags exporting arrow_export exchange_table pickling number reshaping strided "
        "making",
    ),
    ("compiler", "request nvrtc nvcc messages cache program nvjitlink linking"),
    ("gpu", "calls context handles retention queue"),
    ("gpu.streams", "host_functions"),
    ("gpu.graphs", "conditions parameters updates nodes edges executable recording"),
    ("gpu", "graph"),
    ("gpu.streams", "settings values attributes waiting"),
    ("gpu.memories", "locations reservation"),
    ("gpu.processes", "server handles opening events memories"),
    ("gpu", "stream"),
    ("gpu.memories", "managed registered"),
    ("gpu", "memory ordering spans"),
    ("gpu.kernels", "signature image arguments kinds packing source configuration"),
    ("gpu.launches", "options attributes occupancy"),
    ("gpu.kernels", "launch kernel module linking libraries"),
    ("gpu.memories", "pool virtual"),
    ("gpu.devices", "peers limits facts green ranges profiling resetting"),
    ("gpu.textures", "formats transfers arrays mipmapped textures surfaces tensor_map pitched"),
    ("gpu", "device"),
    ("gpu.copies", "transfer strided_kernel peer_copy device_copy batch"),
    ("gpu", "cuda_side"),
    ("integrations", "plugins dask mpi"),
)
ORDER = {
    f"{folder}.{room}".lstrip("."): (floor, place)
    for floor, (folder, rooms) in enumerate(FLOORS)
    for place, room in enumerate(rooms.split())
}

# Imports inside a function that point upwards, each with its reason: the two of doors.py, which every room may use.
UPWARDS = {
    "doors": {
        "gpu.cuda_side": "memory on a device is met only sometimes, and needs a driver",
        "": "the emulator and the pictures of a view are asked for at the façade, which alone knows them",
    },
}
OPTIONAL = {
    "integrations.plugins": "dask",
    "integrations.dask": "distributed",
    "emulate": "pytest",
    "emulator.ptx.vectors.late": "numpy",
    "tools.magic": "IPython",
}  # imported late, and done without where it is missing
NOT_YET_STANDARD = {"compression": "Python 3.14; done without where it is missing"}
MAY_SEE_THE_EMULATOR = ("tools.commands.doctor", "tools.commands.emulate")  # late
UNSAYING_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}


class Import(NamedTuple):
    """An import: "" is the façade, a name with a leading "/" is from outside the package."""

    target: str
    late: bool
    line: int


def name_of(path: Path) -> str:
    """Return a module's name inside the package: "protocols.buffer", "" for the façade."""
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted(FOLDER.rglob("*.py"))}
TREES = {name: ast.parse(path.read_bytes()) for name, path in PATHS.items()}
every_module = together("name", PATHS)


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

    return walk(TREES[name], False)


def side_room(name: str) -> str:
    """Return the side room that a module is in, or ""."""
    first = name.partition(".")[0]
    return first if first in ("emulator", "tools", "__main__", "emulate") else ""


def is_folder(name: str) -> bool:
    """Tell whether a module is the __init__ of a folder, which only describes the folder."""
    return PATHS[name].name == "__init__.py"


def refusal(name: str, entered: Import) -> str:
    """Return the reason why a module must not import another, or "" if it may."""
    target = entered.target
    room, entered_room = side_room(name), side_room(target)
    if entered.late and target in UPWARDS.get(name, {}):
        return ""
    if name == "":
        return "" if entered.late else "the façade imports only late, when a name of it is used"
    if room == "emulator":
        if target in ("headers.cuda_h", "errors", "images.zstd"):
            return ""
        compilers = ("locate", "headers.nvrtc_h", "headers.nvjitlink_h")
        if name.startswith("emulator.impersonating.") and target in compilers:
            return ""  # it passes calls on to the real compilers
        return "" if entered_room == "emulator" else "the emulator stands on its own"
    if room == "emulate":
        return "" if entered.late and entered_room == "emulator" else "the plugin needs the emulator only, and late"
    if room:  # the command line and its parts use everything except the emulator
        allowed = entered_room != "emulator" or (name in MAY_SEE_THE_EMULATOR and entered.late)
        return "" if allowed else "the emulator is chosen through the façade"
    if name not in ORDER:
        return "this module is on no floor: give it one in FLOORS"
    if entered_room:
        return "nothing imports a side room"
    if target in ORDER and ORDER[target] < ORDER[name]:
        return ""
    return f"{name} may not import {target or 'the façade'}, which is not below it"


@every_module
def test_a_module_imports_only_from_below(name: str) -> None:
    wrong = [
        f"{PATHS[name]}:{entered.line}: {entered.target or 'façade'}: {why}"
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
    stale += [f"{room} is on a floor, and is not there" for room in ORDER if room not in PATHS]
    assert not stale, stale


def test_only_the_two_doors_lead_upwards() -> None:
    upwards = [f"{name} -> {target or 'the façade'}" for name, targets in UPWARDS.items() for target in targets]
    assert len(upwards) <= 2, f"at most two imports may point upwards: {upwards}"


def calls(name: str) -> Iterator[tuple[str, int]]:
    """Yield the text of each call in a module, and its line."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


# Rooms that import a module by a computed name: from the façade's table, from the command line.
MAY_IMPORT_BY_NAME = {"", "doors", "names", "__main__", "tools.commands.inspect", "tools.checking.groups.exchange"}


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
    wrong = [
        f"{PATHS[name]}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in TREES.items()
        if not name.startswith("emulator")
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
    for name, tree in TREES.items():
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


def test_every_floor_says_what_it_is() -> None:
    for folder in {folder for folder, _ in FLOORS} | {"emulator", "tools", "tools.commands"}:
        text = ast.get_docstring(TREES[folder]) or ""
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
    tree = TREES[name]
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
        and not ast.unparse(node.value.func).endswith(".observers.append")  # a room adds an observer
    ]
    assert not wrong, "\n".join(wrong)


@every_module
def test_a_public_module_says_what_is_public(name: str) -> None:
    if name.rpartition(".")[2].startswith("_") or side_room(name) and "." in name:  # private, or inside a side room
        return
    listed = [
        node
        for node in TREES[name].body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "__all__"
        or isinstance(node, ast.AnnAssign)
        and ast.unparse(node.target) == "__all__"
    ]
    is_empty = all(isinstance(node, (ast.Expr, ast.ImportFrom)) for node in TREES[name].body)
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
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and VERSION.search(node.value):
                yield f"{PATHS[name]}:{node.lineno}", node.value


def test_every_driver_since_11_4_takes_the_ptx() -> None:
    texts = list(shipped_ptx())
    assert texts, "no PTX was found in the package: this test searches the wrong files"
    for place, text in texts:
        assert all((int(major), int(minor)) <= (6, 3) for major, minor in VERSION.findall(text)), (
            f"{place}: .version above 6.3"
        )
        assert set(TARGET.findall(text)) == {"sm_50"}, f"{place}: .target is not sm_50"
