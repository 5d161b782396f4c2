"""vendor: copy this package, or a part of it, into another project; and say later whether a copy is still what was copied.

What it is   `--only` takes a part: its root module with all that it imports, late imports too, as `ast` sees them. What a part
             leaves out for good, it says: a module of one line stands there, which raises Unsupported when it is needed.
The copy     VENDORED.txt in it has version, part, date, licence and the SHA-256 of each file, as `sha256sum -c` reads them.
             Files are read through the loader, so it works from a checkout, a wheel or a zip. A new copy is written beside its
             place and then renamed, so that there is never half of one.
What not     no file is rewritten: imports are relative, and a copy works under any name, in any package. Only a part's
             __init__.py is made for it.
Read next    the table PARTS
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import os
import re
import shutil
import tempfile
from importlib.resources import files
from keyword import iskeyword
from pprint import pformat
from typing import NamedTuple

from ... import __version__
from .console import PACKAGE, PROGRAM, Parser, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Files = dict[str, bytes]  # path in the package, with "/": content

__all__ = ["main", "PARTS", "part", "write", "check"]

MANIFEST = "VENDORED.txt"
PARTS = {
    # name: (root, what is left out with a clear error where it is reached, what it is good for)
    "view": (
        "arrays.making",
        "driver emulator gpu tools",
        "view() and copy() over host memory by every protocol, without CUDA",
    ),
    "driver": ("driver", "emulator tools", "cu, the driver's functions by their C names, and use()"),
    "dlpack": ("dlpack", "", "DLPack's structs and capsules, in a small package without CUDA"),
}
_FIRST_LINE = re.compile(r"(\S+) (\S+), (all|" + "|".join(PARTS) + r"), copied on (\d{4}-\d\d-\d\d)\.")
_HASH_LINE = re.compile(r"^([0-9a-f]{64})  (.+)$", re.M)


class Manifest(NamedTuple):
    """What a VENDORED.txt says; hashes: path -> SHA-256."""

    origin: str
    version: str
    part: str
    date: str
    hashes: dict[str, str]


def main(arguments: list[str]) -> int:
    """Make or check a copy; return 1 for one that was changed."""
    parts = "\n".join(f"  {name:8} {good_for}" for name, (_, _, good_for) in PARTS.items())
    parser = Parser(
        "vendor",
        "Copy this package into another project, under any name.",
        f"parts:\n{parts}\n\nexamples:\n  {PROGRAM} vendor src/thing/_vendor/cuda\n  {PROGRAM} vendor src/thing/_dlpack --only dlpack\n"
        f"  {PROGRAM} vendor --check src/thing/_dlpack",
    )
    parser.add_argument(
        "dest", metavar="DEST", help="the folder that the copy is to be; its last part is the copy's name"
    )
    parser.add_argument("--only", choices=tuple(PARTS), help="a part of it, with what that part imports")
    parser.add_argument(
        "--check", action="store_true", help="say whether the copy at DEST is unchanged, and how old it is"
    )
    options = parser.read(arguments)
    if options.check:
        if options.only:
            raise Refusal("--check reads in the copy what part it is: leave --only out")
        return check(options.dest)
    made = part(options.only)
    write(options.dest, made, options.only or "all")
    name = os.path.basename(os.path.abspath(options.dest))
    print(
        f"{options.dest}: {_what(options.only or 'all')} of {_origin()} {__version__}, {len(made) + 1} files, {sum(map(len, made.values())):,} bytes.\n"
        f"Import it as {name}, or from the package that it lies in: from . import {name}\n"
        f"{PROGRAM} vendor --check {options.dest} will tell whether it was changed."
    )
    return 0


# -- what is copied


def everything() -> Files:
    """Read every file of the running package, wherever it was imported from."""
    found: Files = {}

    def walk(folder: Any, prefix: str) -> None:
        for entry in sorted(folder.iterdir(), key=lambda entry: str(entry.name)):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    walk(entry, f"{prefix}{entry.name}/")
            elif prefix + entry.name != MANIFEST and not entry.name.endswith((".pyc", ".pyo")):
                found[prefix + entry.name] = entry.read_bytes()

    walk(files(PACKAGE), "")
    return found


def part(name: str | None) -> Files:
    """Return what a part is made of, or the whole for None."""
    sources = everything()
    if name is None:
        return sources
    root, left_out, good_for = PARTS[name]
    modules = {_module(path): path for path in sources if path.endswith(".py")}
    kept, missing = _closure(root, modules, sources, set(left_out.split()), late=name != "dlpack")
    chosen = {modules[module]: sources[modules[module]] for module in sorted(kept)}
    if name == "dlpack":  # six files at most: the module is the package
        chosen["__init__.py"] = chosen.pop("dlpack.py")
        return chosen
    for module in missing | {"driver", "emulator"} - kept:
        chosen[f"{module}.py"] = _stand_in(module, name)
    chosen["py.typed"] = b""
    chosen["__init__.py"] = _facade(sources["__init__.py"].decode(), kept, name, good_for).encode()
    return dict(sorted(chosen.items()))


def _module(path: str) -> str:
    """Return a path's module: "protocols.buffer", "" for the façade."""
    return path[:-3].replace("/", ".").replace(".__init__", "") if path != "__init__.py" else ""


def _closure(
    root: str, modules: dict[str, str], sources: Files, left_out: set[str], late: bool
) -> tuple[set[str], set[str]]:
    """Return the modules that a root imports, and those of the left out that it would."""
    kept: set[str] = set()
    missing: set[str] = set()
    waiting = [root]
    while waiting:
        module = waiting.pop()
        if module.partition(".")[0] in left_out:
            missing.add(module.partition(".")[0])
        elif module and module not in kept:
            kept.add(module)
            waiting.append(module.rpartition(".")[0])  # the package it is in
            waiting.extend(_imports(module, modules, ast.parse(sources[modules[module]]), late))
    return kept, missing


def _imports(module: str, modules: dict[str, str], tree: ast.AST, late: bool) -> Iterator[str]:
    """Yield the modules of ours that a module imports, without those for type checkers."""
    home = module.split(".") if modules[module].endswith("/__init__.py") else module.split(".")[:-1]
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
        elif isinstance(node, ast.ImportFrom) and node.level:
            origin = ".".join(home[: len(home) + 1 - node.level] + ([node.module] if node.module else []))
            for alias in node.names:  # a module of that package, or a name in it
                inner = f"{origin}.{alias.name}".lstrip(".")
                yield inner if inner in modules else origin
        elif late or not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _stand_in(module: str, name: str) -> bytes:
    return (
        f'"""Left out of this copy, which is the part "{name}" only; see {MANIFEST}."""\n'
        "from .errors import Unsupported\n\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n    from typing import Any\n\n"
        "    def __getattr__(name: str) -> Any: ...\n\n"
        f'raise Unsupported(f"{{__name__}} was left out: this copy is the part {name!r} only. '
        'Vendor the whole, without --only, for what lies on a device.")\n'
    ).encode()


def _facade(source: str, kept: set[str], name: str, good_for: str) -> str:
    """Make a part's __init__.py of the whole's: fewer public names, the same functions."""
    lines = [f'"""Part {name!r} of {_origin()}, see {MANIFEST}: {good_for}."""']
    for node in ast.parse(source).body[1:]:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            homes = {public: home for public, home in ast.literal_eval(node.value).items() if home in kept}
            lines.append(f"_HOMES = {pformat(homes, width=120, compact=True, sort_dicts=False)}")
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            more = '"cu", "use", "trace"' if name == "driver" else '"trace"'
            lines.append(f"__all__ = [*_HOMES, {more}]")
        elif isinstance(node, ast.If):
            names = [
                inner
                for inner in node.body
                if not (isinstance(inner, ast.ImportFrom) and inner.level and inner.module not in kept)
                and not (isinstance(inner, ast.AnnAssign) and "driver" not in kept)
            ]
            lines.append("\n    ".join(["if TYPE_CHECKING:", *map(ast.unparse, names)]))
        else:
            lines.append(
                ("\n\n" if isinstance(node, ast.FunctionDef) else "") + str(ast.get_source_segment(source, node))
            )
    return "\n".join(lines) + "\n"


# -- the copy


def _manifest(content: Files, name: str) -> bytes:
    """Word the file that says what a copy is."""
    licence = files(PACKAGE).joinpath("LICENSE").read_text(encoding="utf-8")
    hashes = "".join(f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in content.items())
    return (
        f"{_origin()} {__version__}, {name}, copied on {datetime.date.today().isoformat()}.\n\n"
        f"This folder was copied by `python3 -m {_origin()} vendor`; it is not edited here. Whether it still is as it was copied, and\n"
        f"how old it is, `python3 -m {_origin()} vendor --check` says, or, without the package, `sha256sum -c {MANIFEST}`.\n\n"
        f"{licence}\n{hashes}"
    ).encode()


def _read(folder: str) -> Manifest | None:
    """Read a copy's manifest; None where there is none of ours."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
            text = file.read(1_000_000)
    except (OSError, ValueError):
        return None
    first = _FIRST_LINE.match(text)
    return (
        Manifest(first[1], first[2], first[3], first[4], {path: digest for digest, path in _HASH_LINE.findall(text)})
        if first
        else None
    )


def _origin() -> str:
    """Return the name of the package that this one was copied from, or is."""
    try:
        first = _FIRST_LINE.match(files(PACKAGE).joinpath(MANIFEST).read_text(encoding="utf-8"))
    except (OSError, KeyError):  # KeyError: not in the zip, before Python 3.10
        first = None
    return first[1] if first else PACKAGE


def _changes(folder: str, manifest: Manifest) -> list[str]:
    """List what is not as it was copied."""
    there = {}
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        for name in sorted(names):
            path = os.path.join(root, name)
            relative = os.path.relpath(path, folder).replace(os.sep, "/")
            if relative != MANIFEST and not name.endswith((".pyc", ".pyo")):
                with open(path, "rb") as file:
                    there[relative] = hashlib.sha256(file.read()).hexdigest()
    was = manifest.hashes
    return (
        [f"{path} was changed" for path in was if path in there and there[path] != was[path]]
        + [f"{path} is gone" for path in was if path not in there]
        + [f"{path} was added" for path in there if path not in was]
    )


def write(dest: str, content: Files, name: str) -> None:
    """Put a copy in its place; one that was there before, and is unchanged, is replaced.

    raises  Refusal   the place is taken by something else, or no package can have its name
    """
    place = os.path.abspath(dest)
    parent, last = os.path.split(place)
    if not last.isidentifier() or iskeyword(last):
        raise Refusal(f"{dest}: {last!r} cannot be imported; choose a name of letters, digits and _")
    if not os.path.isdir(parent):
        raise Refusal(f"{dest}: there is no folder {parent} to put it in")
    if place == os.getcwd():  # it is replaced as a whole
        raise Refusal(f"{dest} is the folder that you are in: go up, and name it")
    running = os.path.realpath(str(files(PACKAGE)))
    if os.path.realpath(place) == running or os.path.realpath(place).startswith(running + os.sep):
        raise Refusal(f"{dest} is the package that is being copied")
    if os.path.islink(place) or os.path.exists(place) and not os.path.isdir(place):
        raise Refusal(f"{dest} is there already, and no folder")
    if os.path.isdir(place) and os.listdir(place):
        manifest = _read(place)
        if manifest is None or manifest.origin != _origin():
            raise Refusal(f"{dest} is there already, and no copy of this package: choose another name")
        changes = _changes(place, manifest)
        if changes:
            raise Refusal(
                f"{dest} is a copy that was edited: {'; '.join(changes)}. Move your changes away, or remove the folder, first"
            )
    fresh = tempfile.mkdtemp(prefix=f".{last}.", dir=parent)
    try:
        for path, data in {**content, MANIFEST: _manifest(content, name)}.items():
            target = os.path.join(fresh, "new", *path.split("/"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(data)
        _exchange(os.path.join(fresh, "new"), place, os.path.join(fresh, "old"))
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _exchange(new: str, place: str, old: str) -> None:
    """Rename the new folder into its place, and what was there out of the way; if that fails, put it back."""
    had = os.path.isdir(place)
    if had:
        os.rename(place, old)
    try:
        os.rename(new, place)
    except OSError:
        if had:
            os.rename(old, place)
        raise


# -- how it is now


def check(dest: str) -> int:
    """Say whether a copy is unchanged, how old it is, and whether this package is newer; return 1 where it was changed."""
    manifest = _read(dest)
    if manifest is None:
        raise Refusal(f"{dest} has no {MANIFEST} of ours: it is no copy that `vendor` made")
    days = (datetime.date.today() - datetime.date.fromisoformat(manifest.date)).days
    age = {0: "today", 1: "yesterday"}.get(days, f"{days} days ago")
    print(f"{dest}: {_what(manifest.part)} of {manifest.origin} {manifest.version}, copied on {manifest.date}, {age}.")
    changes = _changes(dest, manifest)
    print(
        "It was changed:\n  " + "\n  ".join(changes)
        if changes
        else f"It is unchanged: {len(manifest.hashes)} files are as they were copied."
    )
    theirs, ours = _numbers(manifest.version), _numbers(__version__)
    if theirs != ours:
        print(f"It is {'older' if theirs < ours else 'newer'} than what is running, {__version__}.")
    else:
        now = {
            path: hashlib.sha256(data).hexdigest()
            for path, data in part(None if manifest.part == "all" else manifest.part).items()
        }
        differ = sum(now.get(path) != manifest.hashes.get(path) for path in {*now, *manifest.hashes})
        print(
            f"It is of the version that is running, {__version__}"
            + (f", but {differ} files were another then." if differ else ".")
        )
    return 1 if changes else 0


def _what(name: str) -> str:
    return "all" if name == "all" else f"the part {name!r}"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
