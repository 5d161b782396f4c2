"""The outline of a PTX text: the functions and variables that it declares, with the types of the variables.

What it is   a reader of the declarations outside of all braces, for errors of the linker and for the types of a
             module's variables.
What not     it does not validate PTX, and reads no parameters: ../gpu/kernels/signature.py does.
Source       PTX ISA, "Linking Directives", "Kernel and Function Directives", "Variables"
Read next    ../gpu/kernels/signature.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

__all__ = ["Declaration", "blanked", "declarations", "replaced"]

_DTYPES = {
    "u8": "uint8", "s8": "int8", "b8": "uint8", "u16": "uint16", "s16": "int16", "b16": "uint16", "u32": "uint32",
    "s32": "int32", "b32": "uint32", "u64": "uint64", "s64": "int64", "b64": "uint64", "f16": "float16",
    "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip
_PAIRS = {"f16x2": "float16", "bf16x2": "bfloat16"}
# (a group that may match any number of times takes a hundred bytes for each time)
_ATTRIBUTE = r"\.attribute\s*\([^()]*(?:\([^()]*\)[^()]*){0,99}\)"
_FUNCTION = rf"\.(?:entry|func)\b(?:\s*{_ATTRIBUTE})?\s*(?:\([^()]*\)\s*)?([A-Za-z_$%][\w$.]*)"
_DECLARED = r"\.(entry|func|global|const|shared|texref|samplerref|surfref)\b"
_LINKAGE = r"\.(visible|extern|weak|common)\b"


class Declaration:
    """A function or variable at the outermost level of a PTX text.

    kind     "entry", "func", "global", "const" or "shared"
    linkage  "visible", "extern", "weak", "common", or "" if only its own text knows it
    defined  whether this is the definition: a function with a body, or a variable that is not .extern
    dtype    of a variable: the name of its element type, "" if there is no such type
    shape    of a variable; () for a single element
    managed  whether the variable is in managed memory
    """

    __slots__ = ("kind", "name", "linkage", "defined", "dtype", "shape", "managed")

    def __init__(
        self, kind: str, name: str, linkage: str, defined: bool, dtype: str = "", shape: tuple[int, ...] = ()
    ) -> None:
        self.kind, self.name, self.linkage, self.defined = kind, name, linkage, defined
        self.dtype, self.shape = dtype, shape
        self.managed = False

    def __repr__(self) -> str:
        return f"<Declaration {self.linkage or 'static'} {self.kind} {self.name}>"


def blanked(text: str) -> str:
    """Replace each comment of a PTX text by a space and each string by ""; line breaks in them are kept."""
    import re

    in_string = re.compile(r'"|\\.', re.DOTALL)

    def end_of(begins: re.Match[str]) -> int:
        if begins[0] == '"':
            return next((each.end() for each in in_string.finditer(text, begins.end()) if each[0] == '"'), len(text))
        end = "\n" if begins[0] == "//" else "*/"
        at = text.find(end, begins.end())
        return len(text) if at < 0 else at + len(end.strip())

    def instead(part: str) -> str:
        return ('""' if part[0] == '"' else " ") + "\n" * part.count("\n")

    return replaced(text, re.compile('"|//|/[*]'), end_of, instead)


def replaced(
    text: str, begins: re.Pattern[str], end_of: Callable[[re.Match[str]], int], instead: Callable[[str], str]
) -> str:
    """Replace each part of a text that begins so, up to `end_of(match)`, by `instead(part)`.

    A part without an end goes on to the end of the text: else each of many would be searched for its end to there.
    """
    made: list[str] = []
    at = 0
    while (found := begins.search(text, at)) is not None:
        made.append(text[at : found.start()])
        at = end_of(found)
        made.append(instead(text[found.start() : at]))
    return "".join(made) + text[at:]


def declarations(text: str) -> list[Declaration]:
    """Return the declarations of a PTX text, in their order; those that cannot be read are left out."""
    import re

    declared, linked, function = re.compile(_DECLARED), re.compile(_LINKAGE), re.compile(_FUNCTION)
    found: list[Declaration] = []
    for piece, has_body in _pieces(blanked(text)):
        match = declared.search(piece)
        if match is None:
            continue
        before = linked.search(piece, 0, match.start())
        if before is not None:
            linkage = before[1]
        else:
            linkage = ""
        if match[1] in ("entry", "func"):
            named = function.search(piece, match.start())
            if named is not None:
                found.append(Declaration(match[1], named[1], linkage, has_body))
        else:
            found += _variables(piece[match.end() :], match[1], linkage)
    return found


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text of each declaration without the parts in braces, and whether it has the body of a function."""
    import re

    depth, start, parts, initial = 0, 0, "", False
    for match in re.finditer("[{};]", text):
        at, mark = match.start(), match.group()
        if mark == "{":
            if depth == 0:
                parts += text[start:at]
                initial = initial or "=" in text[start:at]
            depth += 1
        elif mark == "}":
            depth = max(0, depth - 1)
            if depth == 0:
                start = at + 1
                if not initial:
                    yield parts, True
                    parts = ""
        elif depth == 0:
            yield parts + text[start:at], False
            parts, start, initial = "", at + 1, False


def _variables(text: str, space: str, linkage: str) -> Iterator[Declaration]:
    import re

    managed = ".managed" in text
    text = re.sub(rf"{_ATTRIBUTE}|\.align\s+\w+", " ", text)
    kind = ""
    lanes: tuple[int, ...] = ()
    halves: tuple[int, ...] = ()  # of a pair
    words = re.match(r"(?:\s*\.\w+){0,99}", text)
    assert words is not None
    for word in words.group().replace(".", " ").split():
        if word in ("v2", "v4", "v8"):
            lanes = (int(word[1:]),)
        elif word in _PAIRS:
            kind, halves = _PAIRS[word], (2,)
        elif word == "b128":
            kind, halves = "uint64", (2,)
        else:
            kind = _DTYPES.get(word, kind)
    for piece in text[words.end() :].split(","):
        match = re.match(r"\s*([A-Za-z_$%][\w$]*)((?:\s*\[[^][]*\]){0,99})", piece)
        if match is None:
            continue
        extents = re.findall(r"\[([^][]*)\]", match[2])
        try:
            shape = tuple(_number(extent) for extent in extents)
            dtype = kind
        except ValueError:  # an expression, or an array whose initial value gives the extent
            shape, dtype = (), ""
        made = Declaration(space, match[1], linkage, linkage != "extern", dtype, (*shape, *lanes, *halves))
        made.managed = managed
        yield made


def _number(text: str) -> int:
    text = text.strip().rstrip("U")
    return int(text, 8 if text[:1] == "0" and text.isdigit() else 0)  # a leading 0 is octal, as in C
