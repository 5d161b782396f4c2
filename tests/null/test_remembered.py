"""The table of remembered answers, and the list of all of them in docs/remembered.md."""

from __future__ import annotations

import ast
import functools
import re
import threading
from collections.abc import Iterator

import pytest

from tests.subject import CHECKOUT, FOLDER, module

Remembered = module("remembered").Remembered
cannot_change = module("remembered").cannot_change

# What is empty at first, and is not an answer that could be worked out again: what exists, what waits, what is to be
# used again, and modules that are imported late. The reasons stand beside the code.
REGISTERS = {
    "__init__": "_LEFT_OUT",
    "arrays.arrow_export": "_kept _structs _callbacks",
    "arrays.exchange_table": "_kept",
    "compiler.declarations": "Declarations._types Declarations._kernels Declarations._plain",
    "compiler.linking": "_loaded",
    "compiler.nvjitlink": "_queues",
    "compiler.program": "_remembered _loaded",
    "dlpack": "outstanding _exports _Form.spare _forms _undeleted",
    "driver": "_answers _chosen _current Driver._raw Driver._names Driver._exact",
    "elements.dtypes": "_BY_NAME _BY_TYPESTR _BY_DLPACK DType._c_format",
    "elements.scalars": "_tables",
    "gpu.core.context": "_contexts peers PrimaryContext.users PrimaryContext.kept PrimaryContext.pool "
    "PrimaryContext.events PrimaryContext.destroyed PrimaryContext.shared",
    "gpu.for_arrays": "_askers",
    "gpu.devices.device": "_known",
    "gpu.devices.peers": "_links _Link.users",
    "gpu.devices.ranges": "_found",
    "gpu.graphs.graph": "Graph._kept Graph._given Graph._nodes Graph._borrowers",
    "gpu.graphs.executable": "Executable._kept Executable._given Executable._elsewhere",
    "gpu.graphs.node_parameters": "Given.options",
    "gpu.kernels.launch": "Prepared.pool",
    "gpu.kernels.libraries": "Library._modules Library._written Library._borrowers",
    "gpu.kernels.module": "Module._functions Module._written Module._limits",
    "gpu.kernels.options": "Reading.uses",
    "gpu.memory.pool": "_current",
    "gpu.memory.registered": "still_locked",
    "gpu.core.reservation": "Reservation.pieces Reservation.rights",
    "gpu.memory.ordering": "_told _unfinished",
    "gpu.processes.shared_handles": "_processes",
    "gpu.processes.opening": "_open_here Opened.parts",
    "gpu.processes.server": "_running _asked Answer.descriptors Offer.users Server.offers Server._new Server._used",
    "gpu.core.stream_arguments": "failed",
    "gpu.core.points": "capturing waiting retained _newest _skipped Capture.before Capture.allocated Capture.legacy "
    "Point.things Point.recording",
    "gpu.streams.stream": "_keepers",
    "gpu.core.host_functions": "_calls _graph_calls _forever _origins _thunk _addresses",
    "interpreter.callback": "_kinds",
    "ownership": "calling serving tokens dropped forked",
    "interpreter.cpython": "_in_children _locks watched",
    "protocols.choosing": "_types",
    "protocols.dlpack_c_exchange": "_spare",
    "remembered": "Remembered.answers",
    "tracing": "listeners careful in_use observers",
}
EMPTY = {"dict", "list", "set", "deque", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "defaultdict"}


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    """Return the name and the tree of each module."""
    made = []
    for path in sorted(FOLDER.rglob("*.py")):
        name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        if not name.startswith(("tools.", "integrations.")) and name not in ("emulate", "names"):
            made.append((name, ast.parse(path.read_bytes())))
    return made


def is_empty(value: ast.expr | None) -> bool:
    """Tell whether an expression makes an empty container."""
    if isinstance(value, (ast.Dict, ast.List, ast.Set)):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    return (
        isinstance(value, ast.Call)
        and ast.unparse(value.func).rpartition(".")[2] in EMPTY
        and not (value.args and ast.unparse(value.func) in ("dict", "list", "set"))
    )


def assigned(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield what is assigned: names of the module, `Class.attribute`, and `function: variable`."""

    def walk(node: ast.AST, kind: str, function: str) -> Iterator[tuple[str, ast.expr]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.Assign, ast.AnnAssign)) and child.value is not None:
                for target in child.targets if isinstance(child, ast.Assign) else [child.target]:
                    if isinstance(target, ast.Name):
                        yield f"{function}: {target.id}" if function else f"{kind}{target.id}", child.value
                    elif isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                        yield f"{kind}{target.attr}", child.value
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{child.name}.", "")
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from walk(child, kind, child.name)
            else:
                yield from walk(child, kind, function)

    return walk(tree, "", "")


def set_inside(outer: ast.FunctionDef) -> Iterator[str]:
    """Yield the variables of a function that functions inside it set: what they keep from call to call."""
    for inner in outer.body:
        if isinstance(inner, ast.FunctionDef):
            for node in ast.walk(inner):
                if isinstance(node, ast.Nonlocal):
                    yield from node.names


def found() -> dict[str, set[str]]:
    """Find every place of the package that remembers an answer."""
    made: dict[str, set[str]] = {}
    for name, tree in modules():
        here = made.setdefault(name, set())
        for target, value in assigned(tree):
            if "Remembered(" in ast.unparse(value):
                here.add(target)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                if any(
                    re.search(r"\b(lru_)?cache\b|cached_property", ast.unparse(each)) for each in node.decorator_list
                ):
                    here.add(node.name)
                here.update(
                    f"{node.name}: {variable}" for variable in set_inside(node) if not name.startswith("emulator.")
                )
    return {name: names for name, names in made.items() if names}


def listed() -> dict[str, set[str]]:
    """Read the list in docs/remembered.md."""
    text = (CHECKOUT / "docs" / "remembered.md").read_text("utf-8")
    made: dict[str, set[str]] = {}
    for path, names in re.findall(r"^\| `([\w/]+)\.py`: ([^|]*) \|", text, re.M):
        made.setdefault(path.replace("/", "."), set()).update(re.findall(r"`([^`]+)`", names))
    return made


def test_every_remembered_answer_is_listed() -> None:
    code, page = found(), listed()
    assert sum(map(len, code.values())) > 30, "this test searches the wrong files"
    for name, names in code.items():
        assert names <= page.get(name, set()), (
            f"docs/remembered.md does not list {names - page.get(name, set())} of {name}"
        )
    for name, names in page.items():
        for each in names - code.get(name, set()):  # an attribute that is set when it is first needed
            attribute = each.rpartition(".")[2]
            text = FOLDER.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")
            assert re.search(rf"(\.|^|\"){attribute}\b", text, re.M), f"{name} has no {each}"


def test_what_is_empty_at_first_is_a_remembered_answer_or_a_register() -> None:
    page = listed()
    for name, tree in modules():
        registers = set(REGISTERS.get(name, "").split())
        made = {target for target, value in assigned(tree) if is_empty(value) and ": " not in target}
        made = {
            each
            for each in made
            if not each.startswith("__") and (each.isidentifier() or not name.startswith("emulator"))
        }
        made |= {variable for node in ast.walk(tree) if isinstance(node, ast.Global) for variable in node.names}
        if name.startswith("emulator"):
            continue  # its containers are the state of the machine; what its functions remember is listed
        if name.startswith(("headers.", "images.")):
            continue  # of texts that never change
        made -= page.get(name, set())
        assert made == registers, f"{name}: {made ^ registers}: use Remembered, or say why it is a register"


def test_no_table_is_bounded_by_hand() -> None:
    wrong = []
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and name != "remembered" and re.search(r"\blen\(", ast.unparse(node.test)):
                first = ast.unparse(node.body[0])
                if re.search(r"\.clear\(\)$", first) and not name.startswith("emulator."):
                    wrong.append(f"{name}:{node.lineno}: {first}")
    assert not wrong, wrong


def test_a_full_table_is_emptied() -> None:
    table = Remembered(3)
    assert (table.keep("a", "one"), table.keep("a", "another"), len(table)) == ("one", "one", 1)
    for n in range(8):
        table.keep(n, n)
        assert len(table) <= 3 and table.answers[n] == n
    answers = table.answers
    table.clear()
    assert len(table) == 0 and table.answers is answers


def test_threads_agree_on_an_answer() -> None:
    table, seen = Remembered(50), []

    def work() -> None:
        for n in range(2000):
            seen.append((n % 100, table.keep(n % 100, object())))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8000 and len(table) <= 54  # (each of the threads may be between the test and the addition)


def test_types_that_cannot_change() -> None:
    class Mine(int):
        pass

    for kind in (int, str, dict, type(None), object):
        assert cannot_change(kind)
        with pytest.raises(TypeError):
            kind.attribute = 1  # type: ignore[attr-defined]
    assert not cannot_change(Mine) and not cannot_change(type("Other", (), {}))
    Mine.attribute = 1  # type: ignore[attr-defined]
