"""The parameters of kernels, as the CUDA C source declares them: their names and types.

What it is   `Declarations`, a tolerant reader of the heads of __global__ functions, of typedefs and of simple macros.
What not     a compiler. It does not read included files, choose a branch of #if or evaluate an expression. What it does
             not understand stays unknown, and so does a name with two meanings.
Source       ISO C++17, [dcl.dcl] and [cpp]; CUDA C++ Programming Guide, "C++ Language Extensions"
Read next    program.py
"""

from __future__ import annotations

import re

from ..images.mangled import CType, base_name, elements, parameters
from ..images.outline import replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Declared = tuple[str, CType]

__all__ = ["Declarations"]

_UNKNOWN = CType("")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\.?\d[\w.']*|\"[^\"]*\"|::|\[\[|\]\]|\S")
_BLANKED = re.compile(r"//|/\*|R\"([^()\\\s]{0,16})\(|\"|'(?:\\.|[^'\\\n]){1,16}'", re.DOTALL)  # how it begins
_IN_COMMENT, _IN_STRING = re.compile(r"\\\r?\n|\n"), re.compile(r"\\.|[\"\n]", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_WORDS = frozenset("void bool char short int long float double signed unsigned wchar_t __int64".split())
_IGNORED = frozenset(
    "volatile __volatile__ __restrict__ __restrict restrict __grid_constant__ register typename struct class enum "
    "union constexpr __const__".split()
)
_WITH_ARGUMENTS = frozenset(
    "__launch_bounds__ __cluster_dims__ __maxnreg__ __block_size__ __attribute__ __attribute __declspec alignas "
    "__align__ decltype requires noexcept".split()
)
# Types that CUDA C or the headers of C declare, by other names of the same types.
_KNOWN = {
    "int8_t": "signed char", "uint8_t": "unsigned char", "int16_t": "short", "uint16_t": "unsigned short",
    "int32_t": "int", "uint32_t": "unsigned int", "int64_t": "long long", "uint64_t": "unsigned long long",
    "size_t": "unsigned long long", "ssize_t": "long long", "ptrdiff_t": "long long", "intptr_t": "long long",
    "uintptr_t": "unsigned long long", "uint": "unsigned int", "ushort": "unsigned short", "ulong": "unsigned long",
    "half": "__half", "half2": "__half2", "__half": "__half", "__half2": "__half2", "nv_bfloat16": "__nv_bfloat16",
    "__nv_bfloat16": "__nv_bfloat16", "nv_bfloat162": "__nv_bfloat162", "__nv_bfloat162": "__nv_bfloat162",
    "cuFloatComplex": "float2", "cuComplex": "float2", "cuDoubleComplex": "double2",
    "cufftComplex": "float2", "cufftDoubleComplex": "double2", "cufftReal": "float", "cufftDoubleReal": "double",
    "CUdeviceptr": "unsigned long long", "cudaTextureObject_t": "unsigned long long",
    "cudaSurfaceObject_t": "unsigned long long",
    "__nv_fp8_e4m3": "__nv_fp8_e4m3", "__nv_fp8_e5m2": "__nv_fp8_e5m2",
}  # fmt: skip
_VECTOR = re.compile(r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]\Z")
_DOUBTFUL, _CERTAIN = "\x02", "\x03"  # tokens: what follows is under a condition, or no longer
_DEEPEST, _LONGEST = 20, 200_000  # of macros in macros; tokens, counting each macro and those that replace it


class Declarations:
    """The kernels that a source declares.

    texts    the source, and the headers that were given with it
    options  of the compiler: macros may be defined there
    """

    def __init__(self, texts: Iterable[str], options: Sequence[str] = ()) -> None:
        macros: dict[str, list[list[str]]] = {}
        for name, value in _options(options):
            macros.setdefault(name, []).append(_TOKEN.findall(value))
        blanked = [_blanked(text) for text in texts]
        complete = not any(map(_INCLUDES.search, blanked)) and not any("-include" in each for each in options)
        plain = [_without_directives(text, macros, complete) for text in blanked]
        self._macros = {name: found[0] if all(each == found[0] for each in found) else None
                        for name, found in macros.items()}  # fmt: skip
        self._complete, self._left = complete, _LONGEST
        self._tokens = list(self._replaced(_TOKEN.findall("\n".join(plain)), 0))
        self._types: dict[str, CType] = {}
        self._read_types()
        self._kernels: dict[str, list[list[Declared]]] = {}
        self._plain: dict[str, list[list[Declared]]] = {}  # those whose names in the code may not be mangled
        self._read_kernels()

    def parameters(self, kernel: str, sizes: Sequence[int]) -> list[Declared] | None:
        """Return the names and types of a kernel's parameters; None if the source does not say them with certainty.

        kernel  its name in the code, mangled or not
        sizes   the sizes of its parameters in bytes
        """
        types = parameters(kernel)
        found = self._plain.get(kernel, []) if types is None else self._kernels.get(base_name(kernel), [])
        fitting = [each for each in found if len(each) == len(sizes) and all(map(_fits, each, sizes))]
        if types is not None:
            fitting = [each for each in fitting if all(map(_agree, (type for _, type in each), types))]
        if not fitting or any(each != fitting[0] for each in fitting):
            return None
        if types is None:
            return fitting[0]
        return [(name, type) for (name, _), type in zip(fitting[0], types)]

    @property
    def names(self) -> list[str]:
        """Return the names of the kernels, without namespaces."""
        return list(self._kernels)

    def has_device_function(self, name: str) -> bool:
        """Tell whether there is a function of this name that only device code can call."""
        is_device = False  # in the declaration that is being read
        for token, after in zip(self._tokens, self._tokens[1:]):
            if is_device and token == name and after == "(":
                return True
            if token in ("__device__", ";", "{", "}", "(", ")"):
                is_device = token == "__device__"
        return False

    # -- macros

    def _replaced(self, tokens: list[str], depth: int) -> Iterator[str]:
        """Replace macros without arguments; one with several meanings becomes a name that nothing knows.

        limit  what comes after _LONGEST tokens is left out, and so stays unknown
        """
        for token in tokens:
            self._left -= 1
            if self._left < 0:
                return
            if token not in self._macros:
                yield token
            elif self._macros[token] is None or depth > _DEEPEST:
                yield "?"
            else:
                yield from self._replaced(self._macros[token] or [], depth + 1)

    # -- types

    def _read_types(self) -> None:
        """Read typedefs and using, and note which names the source gives a meaning of its own.

        Beside a header that is not read, what stands in braces or under a condition may be another meaning of a name.
        """
        tokens, at, known = self._tokens, 0, 0
        scopes = 0  # that are open
        braces: list[bool] = []  # for each that is open, whether a scope begins there
        doubtful = False
        while at < len(tokens):
            token = tokens[at]
            if token == "{":
                braces.append(tokens[max(at - 2, 0) : at] != ["extern", '"C"'])
                scopes += braces[-1]
            elif token == "}" and braces:
                scopes -= braces.pop()
            elif token in (_DOUBTFUL, _CERTAIN):
                doubtful = token == _DOUBTFUL
            self._certain = self._complete or not scopes and not doubtful
            if token in ("struct", "class", "union", "enum", "typename"):
                names = [each for each in tokens[at + 1 : at + 4] if _NAME.match(each) and each != "class"]
                if names and (token == "typename" or self._is_defined(at)):
                    self._set(names[0], _UNKNOWN)
            elif token == "using" and tokens[at + 2 : at + 3] == ["="]:
                end = self._end(at, ";")
                self._set(tokens[at + 1], self._type(tokens[at + 3 : end]))
                at = end
            elif token == "typedef" and at >= known:  # one inside another declares no name that is used outside
                known = self._end(at, ";")
                if known == len(tokens):
                    del tokens[:]  # it has no end, so nothing is certain
                    return
                self._read_typedef(tokens[at + 1 : known])
                if tokens[at + 1 : at + 2] not in (["struct"], ["class"], ["union"], ["enum"]):
                    at = known  # (else it may have a name, which is read next)
            at += 1

    def _is_defined(self, at: int) -> bool:
        """Tell whether a struct or a parameter of a template begins here, and not only a use of its name."""
        return any(each in ("{", ":", ">", ",", "=") for each in self._tokens[at + 2 : at + 5])

    def _read_typedef(self, tokens: list[str]) -> None:
        if "{" in tokens:
            end = 0
            if "}" in tokens:
                end = len(tokens) - 1 - tokens[::-1].index("}")
            for name in tokens[end + 1 :]:
                if _NAME.match(name):
                    self._set(name, _UNKNOWN)
            return
        first, *others = _split(tokens)
        if not first:
            return
        name, type = self._declared(first)
        self._set(name, _UNKNOWN if first[-1] == "]" else type)  # an array is a pointer only as a parameter itself
        for other in others:  # typedef float real, *reals: rarely written, so these stay unknown
            for name in other:
                if _NAME.match(name):
                    self._set(name, _UNKNOWN)

    def _set(self, name: str, type: CType) -> None:
        if not self._certain:
            type = _UNKNOWN
        if name and self._types.setdefault(name, type) != type:
            self._types[name] = _UNKNOWN

    def _end(self, at: int, closing: str) -> int:
        """Return where a statement ends, beyond all braces in it."""
        depth = 0
        for end in range(at, len(self._tokens)):
            token = self._tokens[end]
            depth += (token in "{([") - (token in "})]")
            if token == closing and depth <= 0 or depth < 0:
                return end
        return len(self._tokens)

    # -- kernels

    def _read_kernels(self) -> None:
        starts = [at for at, token in enumerate(self._tokens) if token == "__global__"]
        for start, end, is_plain in zip(starts, [*starts[1:], len(self._tokens)], self._linkage()):
            self._read_kernel(self._tokens[start:end], is_plain)

    def _linkage(self) -> Iterator[bool]:
        """Yield for each __global__ whether the name may stay unmangled: with extern "C", or outside of all scopes."""
        scopes = [""]  # the linkage of what is declared in each that is open; "": not said, and in none
        linkage = last = ""  # that of the declaration that is being read, if it has its own
        for token in self._tokens:
            if token == "__global__":
                yield (linkage or scopes[-1]) in ("", '"C"')
            elif token in ('"C"', '"C++"') and last == "extern":
                linkage = token
            elif token == "{":
                scopes.append(linkage or scopes[-1] or '"C++"')
            elif token == "}" and len(scopes) > 1:
                scopes.pop()
            if token in ("{", "}", ";"):
                linkage = ""
            last = token

    def _read_kernel(self, tokens: list[str], is_plain: bool) -> None:
        """Read the head of a kernel; shape: tokens: from its __global__ to the next one."""
        at = 1
        while at < len(tokens) and tokens[at] not in (";", "{", "}"):
            if tokens[at] == "(":
                before, end = tokens[at - 1], _closing(tokens, at)
                if before in _WITH_ARGUMENTS:
                    at = end
                elif _NAME.match(before) and end < len(tokens):
                    given = _split(tokens[at + 1 : end])
                    if given in ([[]], [["void"]]):
                        read = []
                    else:
                        read = [self._declared(each) for each in given]
                    for known in (self._kernels, self._plain) if is_plain else (self._kernels,):
                        known.setdefault(before, []).append(read)
                    return
                else:
                    return
            at += 1

    def _declared(self, tokens: list[str]) -> Declared:
        """Read a declaration, and return its name and type; unknown if it has more than words and stars."""
        if "=" in tokens:
            tokens = tokens[: tokens.index("=")]
        tokens = _without_attributes(tokens)
        arrays = 0
        if tokens[-1:] == ["]"] and "[" in tokens:
            start = tokens.index("[")
            tokens, arrays = tokens[:start], tokens.count("[")
        name = ""
        if len(tokens) > 1 and _NAME.match(tokens[-1]) and not self._ends_type(tokens):
            name, tokens = tokens[-1], tokens[:-1]
        type = self._type(tokens)
        if arrays > 1 and type.stars:
            return name, _UNKNOWN
        return name, type.pointer() if arrays and type.name else type

    def _ends_type(self, tokens: list[str]) -> bool:
        """Tell whether the last word belongs to the type, so that there is no name: "unsigned int", "a::b"."""
        last = tokens[-1]
        return last in _WORDS or last in _IGNORED or last == "const" or tokens[-2] == "::" or tokens[-2] in ("struct",)

    def _type(self, tokens: list[str]) -> CType:
        """Read a type without a name: "const unsigned int *const"."""
        tokens = [token for token in _without_attributes(tokens) if token not in _IGNORED]
        at = next((at for at, token in enumerate(tokens) if token in ("*", "&")), len(tokens))
        made = self._base([token for token in tokens[:at] if token != "const"])
        if not made.name:
            return _UNKNOWN
        if "const" in tokens[:at]:
            made = made._replace(const=True)
        for token in tokens[at:]:
            if token in ("*", "&"):
                made = made.pointer()
            elif token == "const":
                made = made._replace(const=True)
            else:
                return _UNKNOWN
        return made

    def _base(self, tokens: list[str]) -> CType:
        if tokens[:1] == ["::"]:
            tokens = tokens[1:]
        if tokens and all(token in _WORDS for token in tokens):
            return CType(_built_in(tokens))
        text = "".join(tokens)
        if re.match(r"(?:\w+::)*complex<(?:float|double)>\Z", text) and "complex" not in self._types:
            return CType(text)
        text = re.sub(r"\A(?:cuda::)?std::(?=\w+_t\Z)", "", text)
        if text in self._types:
            return self._types[text]
        known = _KNOWN.get(text, text if _VECTOR.match(text) else "")
        return CType(known)


def _built_in(words: list[str]) -> str:
    """Return the usual name of a type of C by its words, in any order; "" if they are none."""
    counted = sorted(word for word in words if word not in ("int", "signed"))
    text = " ".join(counted)
    if text in ("long long", "__int64"):
        return "long long"
    if text in ("long long unsigned", "__int64 unsigned"):
        return "unsigned long long"
    if text == "char":
        if "signed" in words:
            return "signed char"
        return "char"
    if text in ("", "long", "short"):
        return text or "int"
    if text in ("unsigned", "char unsigned", "short unsigned", "long unsigned"):
        return ("unsigned " + text.replace("unsigned", "").strip()).strip() + (" int" if text == "unsigned" else "")
    if text in ("void", "bool", "float", "double", "wchar_t"):
        return text
    return ""


def _fits(declared: Declared, size: int) -> bool:
    """Tell whether a parameter may have a size; a pointer has 8 bytes."""
    if declared[1].stars:
        return size == 8
    return True


def _agree(ours: CType, mangled: CType) -> bool:
    """Tell whether a type of the source may be that of the mangled name; unknown types may be any."""
    if not ours.name or not mangled.name:
        return True
    same = True
    if ours.stars and elements(mangled):
        same = elements(ours) == elements(mangled)
    return ours.stars == mangled.stars and same


# -- texts


def _options(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the macros that options define."""
    waiting = iter(options)
    for option in waiting:
        for prefix in ("--define-macro", "-D"):
            if option.startswith(prefix):
                text = option[len(prefix) :].lstrip("=") or next(waiting, "")
                name, equals, value = text.partition("=")
                yield name.strip(), value if equals else "1"
                break


def _blanked(text: str) -> str:
    """Remove comments, and what is in strings, except for the "C" of extern "C"."""

    def end_of(begins: re.Match[str]) -> int:
        return _end_of(text, begins)

    return replaced(text, _BLANKED, end_of, _instead)


def _instead(part: str) -> str:
    """Return what replaces a comment, a string or a character."""
    if part[0] == "'":
        return "0"
    if part[0] == "/":
        return " "
    return part if part in ('"C"', '"C++"') else '""'


def _end_of(text: str, begins: re.Match[str]) -> int:
    """Return where a comment, a string or a character ends that begins so; a string ends with its line at the latest.

    A pattern of the whole would take a hundred bytes for each backslash.
    """
    mark, inside = begins[0], begins.end()
    if mark[0] == "'":
        return inside
    if mark == "//":
        return next((each.start() for each in _IN_COMMENT.finditer(text, inside) if each[0] == "\n"), len(text))
    if mark == '"':
        for each in _IN_STRING.finditer(text, inside):
            if each[0] == '"':
                return each.end()
            if each[0] == "\n":
                return each.start()
        return len(text)
    end = "*/" if mark == "/*" else f'){begins[1]}"'
    at = text.find(end, inside)
    return len(text) if at < 0 else at + len(end)


_INCLUDES = re.compile(r"^[ \t\f\v]*#[ \t\f\v]*(include|import)\b", re.MULTILINE)


def _without_directives(text: str, macros: dict[str, list[list[str]]], complete: bool) -> str:
    """Remove the directives of the preprocessor and what #if 0 leaves out, and add the macros without arguments.

    A macro that is removed, or defined only under a condition other than #ifndef, gets a second meaning: its own name.
    So does one with a value under an #ifndef of its name, unless the texts are complete: a header that is not read may
    define it. The tokens _DOUBTFUL and _CERTAIN stand where such a condition begins and ends.
    """
    lines, skipped, is_marked = [], 0, False
    doubts = [False]  # for each open condition, the outermost first: whether what is defined there may stay undefined
    asked = ""  # the name of the newest #ifndef
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if directive is None:
            if not skipped:
                if doubts[-1] != is_marked:
                    is_marked = doubts[-1]
                    lines.append(_DOUBTFUL if is_marked else _CERTAIN)
                lines.append(line)
            continue
        word, rest = directive.groups()
        if skipped:
            if word.startswith("if"):
                skipped += 1
            elif word == "endif" or skipped == 1 and word in ("else", "elif"):
                skipped -= 1
                if word == "endif" and not skipped:
                    doubts.pop()
                elif word == "elif":
                    doubts[-1] = True
        elif word == "if" and rest.strip() == "0":
            skipped = 1
            doubts.append(doubts[-1])  # what #else has is as certain as what stands around it
        elif word == "define":
            defined = re.match(r"(\w+)(\()?\s*(.*)", rest)
            if defined is not None and not defined[2]:
                found = macros.setdefault(defined[1], [])
                found.append(_TOKEN.findall(defined[3]))
                if doubts[-1] or defined[1] == asked and defined[3] and not complete:
                    found.append([defined[1]])
        elif word == "undef":
            macros.setdefault(rest.strip(), []).append([rest.strip()])
        elif word.startswith("if"):
            doubts.append(doubts[-1] or word != "ifndef")
            asked = rest.strip() if word == "ifndef" else asked
        elif word.startswith("el") and len(doubts) > 1:
            doubts[-1] = True
        elif word == "endif" and len(doubts) > 1:
            doubts.pop()
    return "\n".join(lines)


def _closing(tokens: list[str], at: int) -> int:
    """Return where the parenthesis that opens here is closed."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] == "(") - (tokens[end] == ")")
        if not depth:
            return end
    return len(tokens)


def _split(tokens: list[str]) -> list[list[str]]:
    """Split at the commas outside of all brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "([{<") - (token in ")]}>")
        if token == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _without_attributes(tokens: list[str]) -> list[str]:
    """Remove [[...]] and __attribute__((...)), and what is like it."""
    kept: list[str] = []
    at = 0
    while at < len(tokens):
        if tokens[at] == "[[":
            while at < len(tokens) and tokens[at] != "]]":
                at += 1
        elif tokens[at] in _WITH_ARGUMENTS and tokens[at + 1 : at + 2] == ["("]:
            at = _closing(tokens, at + 1)
        else:
            kept.append(tokens[at])
        at += 1
    return kept
