"""Read a real cuda.h and its cudaTypedefs.h, as far as a comparison needs.

What it is   a preprocessor for #if, #define and #undef, and readers for prototypes, enums, #defines and struct members.
What not     a C parser: it knows the style of these two headers of NVIDIA, and raises an error at anything else.
Source       the headers themselves
Read next    test_cuda_h.py
"""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from pathlib import Path

# The header declares old ABIs again after #undef, but only if a program requests its internals.
INTERNAL = "__CUDA_API_VERSION_INTERNAL"
COMPILER = {"__GNUC__", "__LP64__", "__linux__"}


def find_headers(name="cuda.h"):
    """Return the files of this name on this machine: those of a toolkit, and those of NVIDIA's packages from PyPI.

    The environment variable CUDA_HEADERS may name more folders, separated as in PATH.
    """
    toolkits = [Path(root) / "include" for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if root]
    toolkits += sorted(Path("/usr/local").glob("cuda*/include"), reverse=True)
    packages = {Path(folder) / "nvidia" for folder in [*sys.path, sysconfig.get_paths()["purelib"]] if folder}
    wheels = [found for root in sorted(packages) for found in sorted(root.glob("*/include"), reverse=True)]
    others = map(Path, filter(None, os.environ.get("CUDA_HEADERS", "").split(os.pathsep)))
    found = [folder / name for folder in [*others, *toolkits, *wheels] if (folder / name).is_file()]
    return list({path.resolve(): path for path in found}.values())


@functools.cache
def read(path):
    """Read a cuda.h; each file is read only once."""
    return Header(path)


def normal(text):
    """Return a C type or declaration with uniform spaces: 'const char **name'."""
    return re.sub(r"\s*\*\s*", " *", re.sub(r"\s+", " ", text)).replace("* *", "**").strip()


class Header:
    """The declarations of a cuda.h."""

    def __init__(self, path):
        self.path = Path(path)
        source = _without_comments(self.path.read_text(encoding="utf-8", errors="replace"))
        public, code, macros = _declarations(source, COMPILER)
        internal, all_code, _ = _declarations(source, COMPILER | {INTERNAL})
        self.prototypes = {**internal, **public}  # by exported symbol; the public declaration has precedence
        self.version = int(macros["CUDA_VERSION"])  # 13000 is CUDA 13.0
        self.enums, values = _enums(code, macros)
        self.defines = _values_of(macros, values)
        self.types = _types(all_code)  # name -> text of its members
        self.since = _since(self.path.with_name("cudaTypedefs.h"))

    def members(self, struct):
        """Return the names of the members of a struct, and of the structs inside it."""
        return set(re.findall(r"(\w+)\s*(?:\[[^]]*\]\s*)?;", self.types.get(struct, "")))


def _without_comments(source):
    source = re.sub(r"/\*.*?\*/|//[^\n]*", " ", source, flags=re.S)
    return source.replace("\\\n", " ")


def _is_true(condition, macros):
    condition = re.sub(r"defined\s*\(?\s*(\w+)\s*\)?", lambda m: str(int(m[1] in macros)), condition)
    condition = re.sub(r"(\d+)[lLuU]+\b", r"\1", condition)
    condition = re.sub(r"\b[A-Za-z_]\w*", "0", condition)
    condition = condition.replace("&&", " and ").replace("||", " or ")
    return bool(eval(re.sub(r"!(?!=)", " not ", condition), {"__builtins__": {}}))


def _declarations(source, defined):
    """Run the preprocessor: return prototypes by exported symbol, the remaining code, and the macros."""
    macros = dict.fromkeys(defined, "1")
    live, was_live = [True], [True]  # one entry for each #if that is open
    prototypes, code, pending = {}, [], []

    def flush():
        text = "\n".join(pending)
        for name, parameters in re.findall(r"\bCUresult\s+CUDAAPI\s+(\w+)\s*\(([^;{]*)\)\s*;", text):
            prototypes.setdefault(_renamed(name, macros), parameters_of(parameters))
        code.append(text)
        pending.clear()

    for line in source.split("\n"):
        if not line.lstrip().startswith("#"):
            if all(live):
                pending.append(line)
            continue
        word, _, rest = line.lstrip()[1:].lstrip().partition(" ")
        word, rest = word.strip(), rest.strip()
        if word in ("if", "ifdef", "ifndef"):
            test = {"if": rest, "ifdef": f"defined({rest})", "ifndef": f"!defined({rest})"}[word]
            live.append(all(live) and _is_true(test, macros))
            was_live.append(live[-1])
        elif word == "elif":
            live[-1] = not was_live[-1] and all(live[:-1]) and _is_true(rest, macros)
            was_live[-1] = was_live[-1] or live[-1]
        elif word == "else":
            live[-1] = not was_live[-1]
        elif word == "endif":
            live.pop(), was_live.pop()
        elif not all(live):
            continue
        elif word == "define":
            name, value = re.match(r"(\w+(?:\([^)]*\))?)\s*(.*)", rest).groups()
            flush()
            macros[name] = value.strip()
        elif word == "undef":
            flush()
            macros.pop(rest, None)
    flush()
    return prototypes, "\n".join(code), macros


def _renamed(name, macros):
    """Apply `#define cuX cuX_v2`, and the macros for per-thread streams that some of these go through."""
    seen = set()
    while name in macros and name not in seen:
        seen.add(name)
        value = macros[name]
        through = re.fullmatch(r"(__CUDA_API_PT[DS][SZ])\((\w+)\)", value)
        if through:
            pasted = macros.get(f"{through[1]}(api)", "api")
            value = through[2] + ("".join(pasted.split()).partition("##")[2])
        name = value
    return name


def parameters_of(text):
    """Return ((type, name), ...) of a parameter list."""
    if text.strip() in ("", "void"):
        return ()
    found = [re.fullmatch(r"(.*?[\s*])(\w+)", normal(part)) for part in text.split(",")]
    return tuple((normal(part[1]), part[2]) for part in found)


def _number(expression, known, macros):
    """Evaluate a constant expression: numbers, names of other constants and macros, casts, shifts."""
    if expression == "(~0u)":
        return 2**32 - 1
    text = re.sub(r"\(\s*(?:CU\w+|void\s*\*)\s*\)(?=\s*[\w(-])", "", expression)
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(
        r"\b[A-Za-z_]\w*\b", lambda m: str(known[m[0]] if m[0] in known else _number(macros[m[0]], known, macros)), text
    )
    return int(eval(f"({text})", {"__builtins__": {}}))


def small_header(path):
    """Return the functions, enums, #defines and types of a header without old ABIs: nvrtc.h, nvJitLink.h."""
    source = _without_comments(Path(path).read_text(encoding="utf-8", errors="replace"))
    _, code, macros = _declarations(source, COMPILER | {"NVJITLINK_NO_INLINE"})
    functions = {}
    declared = re.findall(r"\bnv\w+(?: |\*)+(_*nv\w+)\s*\(((?:[^();{]|\([^()]*\))*)\)\s*;", code)
    declared += re.findall(r"\bchar \*(nv\w+)\s*\(([^()]*)\)\s*;", code)
    for name, parameters in sorted(declared):  # __nvJitLinkCreate_12_4 counts if there is no plain declaration
        functions[re.sub(r"__(\w+)_\d+_\d+", r"\1", name)] = normal(" ".join(parameters.split()))
    enums, _ = _enums(code, macros)
    defines = {name: int(value, 0) for name, value in macros.items() if name.startswith("NV") and value[:2] == "0x"}
    return functions, enums, defines, _types(code)


def _enums(code, macros):
    """Return the enums by their typedef names, and all their enumerators in one dict."""
    enums, known = {}, {}
    for body, name in re.findall(r"\btypedef\s+enum\s*\w*\s*\{(.*?)\}\s*(\w+)\s*;", code, re.S):
        value, members = -1, {}
        for part in filter(None, (part.strip() for part in body.split(","))):
            word, _, expression = part.partition("=")
            value = _number(expression, known, macros) if expression.strip() else value + 1
            value -= 2**32 * (2**31 <= value and "<<" in expression)  # 1 << 31 is an int, and negative
            members[word.strip()] = known[word.strip()] = value
        enums[name] = members
    return enums, known


def _values_of(macros, known):
    """Return the #defines whose names begin with CU and whose value is an integer constant."""
    values = {}
    for name, text in macros.items():
        if name.startswith("CU") and text:
            try:
                values[name] = _number(text, known, macros)
            except (KeyError, SyntaxError, TypeError, NameError):
                pass  # a macro of another kind: a calling convention, a type
    return values


def _types(code):
    """Return the members' text of each struct and union by its tag and its typedef names."""
    bodies = {}
    code = re.sub(r"_CONCAT_OUTER\((\w+), RESOURCE_ABI_VERSION\)", r"\g<1>1", code)
    for start in re.finditer(r"^ *(?:typedef\s+)?(?:struct|union)\s*(\w*)\s*\{", code, re.M):
        depth, position = 1, start.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(code[position], 0)
            position += 1
        name = re.match(r"\s*(\w+)\s*;", code[position:])
        for each in (name[1] if name else "", start[1]):
            if each:
                bodies.setdefault(each, code[start.end() : position - 1])
    for original, alias in re.findall(r"\btypedef\s+(?:struct\s+|union\s+)?(\w+)\s+(\w+)\s*;", code):
        if original in bodies:
            bodies[alias] = bodies[original]
    return bodies


def _since(path):
    """Return exported symbol -> version (as in CUDA_VERSION), from names such as PFN_cuX_v12030 in cudaTypedefs.h.

    The header names an ABI by the version that introduced it; the n-th ABI of cuX is exported as cuX_vn.
    """
    if not path.is_file():
        return {}
    found = {}
    for name, version in re.findall(r"\bPFN_(cu\w+?)_v(\d+)\)", _without_comments(path.read_text(encoding="utf-8"))):
        found.setdefault(name, set()).add(int(version))
    return {
        name if place == 0 else f"{name}_v{place + 1}": version
        for name, versions in found.items()
        for place, version in enumerate(sorted(versions))
    }
