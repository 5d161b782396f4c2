"""The source generated from PTX contains nothing of the text except integers and checked names, for any text.

The syntax tree is searched for anything else, for all PTX of this repository, and for the same PTX with hostile names.
"""

from __future__ import annotations

import ast
import gc
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.ptx_client import Machine, Rejected, kernel, ptx, space
from tests.subject import NAME, module

DATA = Path(__file__).resolve().parent.parent / "data"
FILES = sorted(DATA.rglob("*.ptx"))
program = module("emulator.ptx.ptx_program")

OF_THE_TEXT = re.compile(
    r"(u_)?[rkfp](\d*_\w*)\Z", re.ASCII
)  # registers, kernels, functions, parameters: with a prefix
OF_OURS = re.compile(r"(v|lo|n|m|x)\d+\Z|q\d*_\w*\Z|(s|frame|mark)_[BHIQbhiqfd]\Z", re.ASCII)
LOCALS = set(
    """
    L B F T t tx ty tz at fuel i j k m u w x y z cf frame frame_lo keep make made functions thread _ old
    found redo state u g U
    watch watch_read_one watch_read watch_reads watch_write_one watch_write watch_mark watch_want watch_update
    watch_order watch_mine mine
""".split()
)
# Words of the package: 'rn', 'ftz,sat', 'min.NaN', 'fma f16x2 relu', 'vadd4|u32,u32,u32|||3210|3210|7654'
STRINGS = re.compile(r"[A-Za-z0-9]{0,10}([,. |][A-Za-z0-9]{0,10}){0,16}\Z")
NODES = {
    getattr(ast, name)
    for name in """
    Module FunctionDef arguments arg Return Assign For If Expr Continue Break Pass Nonlocal Raise Yield YieldFrom
    Delete While Name Load Store Del Constant Tuple List Dict Subscript Slice Index Attribute Call keyword Starred
    BinOp UnaryOp BoolOp Compare IfExp Add Sub Mult Div FloorDiv Mod Pow LShift RShift BitAnd BitOr BitXor
    Try ExceptHandler USub Not Invert And Or Eq NotEq Lt LtE Gt GtE In Is IsNot NotIn AugAssign
""".split()
    if hasattr(ast, name)
}


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what ast.walk() yields except contexts, such as ast.Load, in a third of its time."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                waiting.extend(each for each in value if isinstance(each, ast.AST))
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                waiting.append(value)


def examined(source: str) -> tuple[set[str], set[str]]:
    """Check the content of generated source; return its strings, and the attributes that it looks up."""
    kinds: set[type] = set()
    names: set[str] = set()
    values: set[tuple[type, Any]] = set()
    attributes: set[str] = set()
    gc.disable()  # collections while the tree grows take twice as long as making it
    try:
        tree = ast.parse(source)
    finally:
        gc.enable()
    for node in nodes(tree):
        kinds.add(type(node))
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Constant):
            values.add((type(node.value), node.value))
        elif isinstance(node, ast.Attribute):
            attributes.add(node.attr)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Nonlocal):
            names.update(node.names)
        else:
            assert not isinstance(node, ast.Dict) or not node.keys  # only `made = {}`
    assert kinds <= NODES, kinds - NODES
    known = {*LOCALS, *program._NAMES, *program._BUILTINS, *module("emulator.ptx.running.units.call_units").__all__}
    for name in names - known:
        assert OF_THE_TEXT.match(name) or OF_OURS.match(name), name
    strings = set()
    for kind, value in values:
        assert value in (None, b"") or kind in (int, float, bool, str), value
        if kind is str and not OF_THE_TEXT.match(value):
            strings.add(value)
    for line in source.splitlines():
        assert re.fullmatch(r"[^#]*  # \d+", line), line  # the comments are line numbers
    return strings, attributes


def load(text: str, tracked: bool = True) -> str:
    """Return the source that is generated from a text; `tracked`: with the form that tracks undefined values."""
    found = re.search(r"\.target\s+sm_(\d+)(\d)", text)
    assert found
    code = ptx.load(text.encode(), space.Space(watch=True), architecture=(int(found[1]), int(found[2])))
    for made in code._unit.prepared.values():
        if tracked and any(each.prepared is made for each in code.translated):
            code.tracked(made.function.index)
    source = str(code.source)
    code.unload()
    return source


@pytest.mark.skipif(NAME != "rawcuda", reason="this depends on the texts, not on the name of the package")
@pytest.mark.parametrize(
    "files",
    [
        pytest.param(FILES[::3], id="a third"),
        pytest.param(FILES, id="all", marks=[pytest.mark.heavy, pytest.mark.every_change]),
    ],
)
def test_only_integers_and_checked_names(files: list[Path]) -> None:
    strings, attributes = set(), set()
    for number, path in enumerate(files):
        found = examined(load(path.read_text(), tracked=number % 12 == 0))  # that form takes four times as long
        strings |= found[0]
        attributes |= found[1]
    assert all(STRINGS.match(each) for each in strings), strings
    assert len(strings) < 120 and len(attributes) < 80  # words of the package: their number does not depend on the text
    assert not [name for name in attributes if name[0] == "_"]


def test_names_that_look_like_those_made_of_others() -> None:
    """%r1 read as a signed number has its own name, and so has a register with the same name."""
    text = kernel(
        """
    ld.param.u32 %r1, [n]; .reg .b32 %r1_signed, %r_signed, q_r_r1, %q_r_r1;
    mov.u32 %r1_signed, 7; mov.u32 q_r_r1, 8; mov.u32 %q_r_r1, 9;
    mov.u32 %r2, %tid.x; setp.gt.s32 %p1, %r2, %r1; selp.u32 %r3, 1, 0, %p1;
    add.u32 %r4, %r1_signed, q_r_r1; add.u32 %r4, %r4, %q_r_r1;
    st.global.v2.u32 [%out], {%r3, %r4};
""",
        ".param .u64 out, .param .u32 n",
    )
    here = Machine(text)
    out = here.buffer("I", 2)
    here.run("k", out, -5)
    assert out.values() == [1, 24]


WORDS = [
    "import",
    "class",
    "None",
    "True",
    "lambda",
    "__import__",
    "__class__",
    "__builtins__",
    "eval",
    "exec",
    "print",
    "L",
    "B",
    "T",
    "T4",
    "F",
    "thread",
    "fuel",
    "x",
    "x0",
    "v0",
    "lo0",
    "frame_lo",
    "s_f",
    "make_k0_k",
    "float_of_32",
    "_",
    "__",
    "a$b",
    "$",
    "at",
    "yield",
    "self",
    "INF",
    "r1_",
    "k0_",
    "z" * 500,
]


@pytest.mark.parametrize("seed", range(4))
def test_names_are_renamed_to_hostile_ones(seed: int) -> None:
    """Every register, label, kernel and variable of the module has a name with a meaning in Python."""
    pick = random.Random(seed)
    text = (
        DATA / "ptx" / ("memory.sm75.ptx", "together.sm90.ptx", "memory.sm90_O0.ptx", "half.sm75.ptx")[seed]
    ).read_text()
    source = load(text)
    names = sorted(set(re.findall(r"(?<=\.entry )[\w$]+|(?<=\.reg \.)(?:\w+ %?[a-z]+)", text)))
    for number, name in enumerate(names):
        kind, _, stem = name.rpartition(" ")
        word = pick.choice(WORDS) + str(number) * (number % 2) if pick.random() < 0.9 else f"n{number}"
        if kind:  # registers %r1, %r2: the stem is changed if the new one is free
            if not re.search(rf"%{re.escape(word)}\d", text) and word not in ("_", "__", "$"):
                text = re.sub(rf"{re.escape(stem)}(?=\d+\b|<)", lambda found: f"%{word}_", text)
        elif not re.search(rf"(?<![\w$%]){re.escape(word)}(?![\w$])", text) and word != "_":
            text = re.sub(rf"(?<![\w$%]){re.escape(name)}(?![\w$])", lambda found: word, text)
    made = load(text)
    strings, attributes = examined(made)
    assert (strings, attributes) == examined(source)
    assert len(made.splitlines()) == len(source.splitlines())
    assert made != source


@pytest.mark.parametrize(
    "hostile",
    [
        "\n",
        "\r\nimport os\n",
        '"',
        "'",
        "\\",
        "#",
        "\x0c",
        "\u2028",
        "\x1b",
        "{a}",
        "{0}",
        "%s",
        "%(x)s",
        "; import os",
        "\x7f",
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        '.file 1 "{}"\n',
        '.pragma "{}";\n',
        "// {}\n",
        "/* {} */\n",
        ".section .debug_{} {{ .b8 1 }}\n",
        ".global .u32 {};\n",
        ".func {}() {{ ret; }}\n",
        ".visible .entry {}() {{ ret; }}\n",
        ".visible .entry k() {{ {}: ret; }}\n",
        ".visible .entry k() {{ .reg .b32 {}; ret; }}\n",
        ".visible .entry k() {{ .loc 1 1 1, function_name {}, inlined_at 1 1 1\nret; }}\n",
    ],
)
def test_hostile_characters_anywhere(place: str, hostile: str) -> None:
    text = ".version 7.8\n.target sm_75\n.address_size 64\n" + place.replace("{{", "{").replace("}}", "}").replace(
        "{}", "a" + hostile + "b", 1
    )
    try:
        source = load(text)
    except Rejected as reason:
        assert reason.code == 218 and "\n" not in reason.log.split("\n", 1)[0] and len(reason.log) < 500
        return
    examined(source)
