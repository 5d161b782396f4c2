"""The files of a vendored copy: those of the whole package, or of a part of it.

What it is   a part is some modules with everything that they import, also in functions, as `ast` finds it. A stand-in
             replaces each left-out module that one of them imports: importing it raises Unsupported, and a type checker
             accepts any name from it.
What not     no code is rewritten: imports are relative, so a copy works under any name, in any package. Only the
             __init__.py of a part is generated, from that of the whole.
Read next    the table PARTS, then cutting.py, and vendor.py, which puts the files into a folder
"""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from typing import NamedTuple

from .console import PACKAGE
from .cutting import cut_notes, cut_tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Files = dict[str, bytes]  # path in the package, with "/": content

__all__ = ["MANIFEST", "PARTS", "Part", "everything", "part"]

MANIFEST = "VENDORED.txt"


class Part(NamedTuple):
    """A part that can be copied alone: the modules of the public names that are not left out, and some more.

    left_out  modules and folders that the part does not contain
    more      modules that it contains in addition
    good_for  its use, as text
    is_cut    whether it has only the rows of cuda.h that it uses, and no comments; see cutting.py
    """

    left_out: tuple[str, ...]
    more: tuple[str, ...]
    good_for: str
    is_cut: bool = False


PARTS = {
    "gpu": Part(
        (
            "arrays.arrow_export",
            "arrays.exchange_table",
            "arrays.pickling",
            "compiler",
            "emulator",
            "gpu.copies.batch",
            "gpu.core.host_functions",
            "gpu.core.locations",
            "gpu.core.reservation",
            "gpu.devices.green",
            "gpu.devices.limits",
            "gpu.devices.peers",
            "gpu.devices.profiling",
            "gpu.devices.ranges",
            "gpu.devices.resetting",
            "gpu.graphs",
            "gpu.kernels.driver_linking",
            "gpu.kernels.launch_attributes",
            "gpu.kernels.libraries",
            "gpu.kernels.occupancy",
            "gpu.kernels.options",
            "gpu.memory.managed",
            "gpu.memory.pool",
            "gpu.memory.registered",
            "gpu.memory.virtual",
            "gpu.processes",
            "gpu.streams.settings",
            "gpu.streams.stream_attributes",
            "gpu.streams.stream_values",
            "gpu.streams.waiting",
            "gpu.textures",
            "images.zstd",
            "protocols.arrow",
            "tools",
        ),
        ("gpu.devices.device_facts",),
        "devices, streams, memory, kernels and views, and the driver functions that these use; without graphs, "
        "textures, the compiler, the emulator and the tools",
        is_cut=True,
    ),
    "view": Part(
        ("compiler", "driver", "emulator", "gpu", "tools"),
        ("tools.traces", "tools.trace_effects", "tools.trace_forms"),
        "view() and copy() over host memory by every protocol, without CUDA",
    ),
    "driver": Part(
        ("arrays", "compiler", "elements", "emulator", "gpu", "protocols", "tools"),
        ("tools.traces", "tools.trace_effects", "tools.trace_forms"),
        "cu, the driver's functions by their C names, and use()",
    ),
    "compiler": Part(
        ("arrays", "driver", "elements", "emulator", "gpu", "interpreter", "protocols", "tools"),
        (),
        "compile(), from CUDA C to PTX, a cubin or LTO-IR, without a device",
    ),
    "dlpack": Part((), ("dlpack",), "DLPack's structs and capsules, in a small package without CUDA"),
}


def everything() -> Files:
    """Read every file of the running package, wherever it was imported from."""
    found: Files = {}

    def walk(folder: Any, prefix: str) -> None:
        for entry in sorted(folder.iterdir(), key=lambda entry: str(entry.name)):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    walk(entry, f"{prefix}{entry.name}/")
            elif prefix + entry.name != MANIFEST and not entry.name.endswith((".pyc", ".pyo")):
                content = entry.read_bytes()
                if entry.name.endswith((".py", ".pyi")):  # git on Windows may have added the CR
                    content = content.replace(b"\r\n", b"\n")
                found[prefix + entry.name] = content

    walk(files(PACKAGE), "")
    return found


def part(name: str | None, origin: str) -> Files:
    """Return the files of a part, or of the whole package for None; origin is the name of the copied package."""
    sources = everything()
    if name is None:
        return sources
    package, chosen = _Package(sources), PARTS[name]
    # The part "dlpack" is one module with the imports that it needs: its late imports are for other parts.
    if name != "dlpack":
        kept = package.closure(chosen)
    else:
        kept = package.closure(chosen, late=False, public=False)
    copied = {package.paths[module]: sources[package.paths[module]] for module in sorted(kept)}
    if name == "dlpack":
        copied["__init__.py"] = copied.pop("dlpack.py")
        return copied
    types = "headers/calls.pyi"  # of the driver's functions
    if "driver" in kept and types in sources:
        copied[types] = sources[types]
    if chosen.is_cut:
        copied.update(cut_tables(copied, name))
    for module in sorted(package.left_out(kept)):
        copied.update(package.stand_ins(module, kept, name))
    copied["py.typed"] = b""
    whole = sources["__init__.py"].decode()
    copied["__init__.py"] = _init_of_part(whole, kept, name, f"Part {name!r} of {origin}, see {MANIFEST}").encode()
    if chosen.is_cut:
        for path in copied:
            if path.endswith(".py"):
                copied[path] = cut_notes(copied[path].decode()).encode()
    return dict(sorted(copied.items()))


class _Package:
    """The modules of the package and their imports; `paths` is module -> path."""

    def __init__(self, sources: Files) -> None:
        self.paths = {_module(path): path for path in sources if path.endswith(".py")}
        self._sources = sources
        self._trees: dict[str, ast.Module] = {}

    def _tree(self, module: str) -> ast.Module:
        """Parse a module when it is first looked at: a small part looks at few."""
        found = self._trees.get(module)
        if found is None:
            found = self._trees[module] = ast.parse(self._sources[self.paths[module]])
        return found

    def imports(self, module: str, *, late: bool = True, for_types: bool = False) -> Iterator[str]:
        """Yield the modules of ours that a module imports.

        late       also inside functions
        for_types  also under `if TYPE_CHECKING`
        """
        if module:
            home = module.split(".")
        else:
            home = []
        if module and not self.paths[module].endswith("/__init__.py"):
            home.pop()
        waiting: list[ast.AST] = [self._tree(module)]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                waiting += node.orelse + (node.body if for_types else [])
            elif isinstance(node, ast.ImportFrom) and node.level:
                origin = ".".join(home[: len(home) + 1 - node.level] + ([node.module] if node.module else []))
                for alias in node.names:  # a module of that package, or a name in it
                    inner = f"{origin}.{alias.name}".lstrip(".")
                    yield inner if inner in self.paths else origin
            elif late or not isinstance(node, (ast.FunctionDef, ast.Lambda)):
                waiting += ast.iter_child_nodes(node)

    def homes(self) -> list[str]:
        """Return the modules that define the public names."""
        return list(_homes(self._tree("")).values())

    def closure(self, chosen: Part, *, late: bool = True, public: bool = True) -> set[str]:
        """Return the modules of a part: `public` ones and more, with what they import, also in functions if `late`."""
        kept: set[str] = set()
        waiting = [*(self.homes() if public else []), *chosen.more]
        while waiting:
            module = waiting.pop()
            parents = {module[:end] for end in range(len(module) + 1) if module[end : end + 1] in (".", "")}
            is_out = parents & {*chosen.left_out} and module not in chosen.more
            if module and module not in kept and not is_out:
                kept |= parents  # and the packages that contain it
                for each in parents:
                    waiting += self.imports(each, late=late)
        return kept

    def left_out(self, kept: set[str]) -> set[str]:
        """Return the modules that are not kept, but that a kept one or the package imports, even for types only."""
        return {
            found
            for module in {"", *kept}
            for found in self.imports(module, for_types=module != "")
            if found in self.paths and found not in kept and found  # (a stub alone is not a module)
        }

    def stand_ins(self, module: str, kept: set[str], name: str) -> Files:
        """Return the files that replace a left-out module.

        A folder without kept modules has one stand-in, and a stub in which type checkers find any module and name.
        """
        outer = module
        while "." in outer and outer.rpartition(".")[0] not in kept:
            outer = outer.rpartition(".")[0]
        path = self.paths[outer]
        made = {path: _stand_in(path.count("/"), name)}
        if path.endswith("/__init__.py"):
            made[path + "i"] = _stub(name)
        return made


def _homes(package: ast.Module) -> dict[str, str]:
    """Return the package's table: public name -> module."""
    [table] = [
        node.value for node in package.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES"
    ]
    homes: dict[str, str] = ast.literal_eval(table)
    return homes


def _module(path: str) -> str:
    """Return the module of a path, such as "protocols.buffer"; "" for the package itself."""
    if path != "__init__.py":
        return path[:-3].replace("/", ".").replace(".__init__", "")
    return ""


def _stand_in(depth: int, name: str) -> bytes:
    """Return the text of a module that raises; depth is the number of folders that contain it."""
    return (
        f'"""A stand-in: this module was left out of this copy, which is the part "{name}" only; see {MANIFEST}."""\n\n'
        f"from {'.' * (depth + 1)}errors import Unsupported\n\n"
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from typing import Any\n\n"
        "    def __getattr__(name: str) -> Any: ...\n\n\n"
        f"raise Unsupported(f\"{{__name__}} was left out: this copy is the part '{name}' only; "
        'vendor the whole package to use it")\n'
    ).encode()


def _stub(name: str) -> bytes:
    """Return the text of a stub in which a type checker finds any name."""
    return (
        f'# A stub: this module was left out of this copy, which is the part "{name}" only; see {MANIFEST}.\n\n'
        "from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n"
    ).encode()


def _init_of_part(source: str, kept: set[str], name: str, title: str) -> str:
    """Make a part's __init__.py from that of the whole: fewer public names, the same functions."""
    text = source
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    missing: set[str] = set()  # names that the part's __init__.py cannot import for its annotations
    for node in reversed(tree.body):  # from the end, so that earlier line numbers stay valid
        first = node.lineno - 1
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            homes = {public: home for public, home in ast.literal_eval(node.value).items() if home in kept}
            made = [f'    "{public}": "{home}",\n' for public, home in homes.items()]
            lines[first : node.end_lineno] = ["_HOMES = {\n", *made, "}\n"]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" and "driver" not in kept:
            lines[first : node.end_lineno] = ["__all__ = [*_HOMES]\n"]
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_LEFT_OUT":
            absent = [public for public, home in _homes(tree).items() if home not in kept]
            absent += ["cu"] * ("driver" not in kept)
            made = [f'        "{public}",\n' for public in absent]
            text = f": it was left out, because this copy is the part '{name}' only"
            lines[first : node.end_lineno] = [
                "_LEFT_OUT: dict[str, str] = dict.fromkeys(\n    (\n",
                *made,
                f'    ),\n    "{text}",\n)\n',
            ]
        elif isinstance(node, ast.If):
            for inner in reversed(node.body):
                is_ours = isinstance(inner, ast.ImportFrom) and inner.level
                if is_ours and getattr(inner, "module", "") not in kept:
                    missing |= {alias.asname or alias.name for alias in inner.names}  # type: ignore[attr-defined]
                elif not (isinstance(inner, ast.AnnAssign) and "driver" not in kept):
                    continue
                del lines[inner.lineno - 1 : inner.end_lineno]
    text = "".join(lines)
    lines = text.splitlines(keepends=True)
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.FunctionDef):
            annotations = [each.annotation for each in node.args.args if each.annotation] + [node.returns]
            named = {n.id for each in annotations if each for n in ast.walk(each) if isinstance(n, ast.Name)}
            if named & missing:
                end = node.end_lineno or 0
                while end < len(lines) and not lines[end].strip():
                    end += 1
                del lines[node.lineno - 1 : end]
    text = "".join(lines[tree.body[0].end_lineno or 0 :])
    return f'"""{title}."""\n' + re.sub(r"\n{4,}", "\n\n\n", text)
