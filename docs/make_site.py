"""Make what the site needs besides the pages: the navigation, the reference, and the pages of the checkout's root.

MkDocs calls the functions named on_... of this file. A new page in docs/ is taken in by rule: pages in docs/course/ and
docs/howto/ get their own tabs, in the order of their names, pages in PLACES get the tab that is written there, and all
other pages are guides. The reference has a page for each public class, and one each for functions, errors, and the
driver's functions by their C names; it is read from the sources with griffe, and nothing is imported.
"""

from __future__ import annotations

import ast
import html
import re
import sys
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File

CHECKOUT = Path(__file__).resolve().parent.parent
TABS = ("Home", "Course", "How-to", "Guides", "Reference", "Protocols", "Emulator", "Performance", "Project")
PLACES = {
    "index.md": "Home",
    "protocols.md": "Protocols",
    "systems.md": "Protocols",
    "emulator.md": "Emulator",
    "performance.md": "Performance",
    "features.md": "Project",
    "architecture.md": "Project",
}
OF_THE_ROOT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
LABELS = ("shape", "units", "calls", "order", "raises", "source", "returns")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made, and the navigation."""
    for name, text in reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for source, target in OF_THE_ROOT.items():
        text = (CHECKOUT / source).read_text("utf-8")
        text = text.replace("](docs/", "](").replace("](LICENSE)", "](https://opensource.org/license/mit)")
        for other, page in OF_THE_ROOT.items():
            text = text.replace(f"]({other}", f"]({page}")
        files.append(File.generated(config, target, content=text))
    config.nav = navigation([file.src_uri for file in files.documentation_pages()])
    return files


def navigation(pages: list[str]) -> list[dict[str, Any]]:
    """Return the navigation: a tab for each kind of page."""
    found: dict[str, list[str]] = {tab: [] for tab in TABS}
    for page in sorted(pages, key=lambda page: (not page.endswith("index.md"), page)):
        folder = page.partition("/")[0]
        tab = {"course": "Course", "howto": "How-to", "reference": "Reference"}.get(folder)
        found[tab or PLACES.get(page) or ("Project" if page in OF_THE_ROOT.values() else "Guides")].append(page)
    return [{tab: each[0] if len(each) == 1 else each} for tab, each in found.items() if each]


# -- the reference


def reference() -> dict[str, str]:
    """Return the pages of the reference: name -> text."""
    package = griffe.load("rawcuda", search_paths=[str(CHECKOUT)], allow_inspection=False)
    homes = public_names()
    classes, functions, errors, rows = {}, [], [], []
    for name, home in homes.items():
        found = package[home][name] if home else None
        first = summary(found)
        if found is not None and found.is_class and home == "errors":
            errors.append(describe_class(name, found, package))
            rows.append((name, f"errors.md#{name.lower()}", first))
        elif found is not None and found.is_class and not name.islower():
            classes[name] = f"# {name}\n\n{describe_class(name, found, package, '')}"
            rows.append((name, f"{name}.md", first))
        elif found is not None:
            functions.append(describe(name, found))
            rows.append((name, f"functions.md#{name.lower()}", first))
    rows.append(("cu", "cu.md", "The driver: every function of cuda.h by its C name."))
    table = [f"| [`{name}`]({link}) | {first} |" for name, link, first in sorted(rows, key=lambda row: row[0].lower())]
    index = "# Reference\n\nEvery public name of `rawcuda`.\n\n| name | what it is |\n|---|---|\n" + "\n".join(table)
    return {
        "index": index + "\n",
        "functions": "# Functions\n\n" + "\n".join(functions),
        "errors": "# Errors\n\n" + "\n".join(errors),
        "cu": driver_functions(),
        **classes,
    }


def public_names() -> dict[str, str]:
    """Return the public names and the modules that define them, from the façade's table."""
    tree = ast.parse((CHECKOUT / "rawcuda" / "__init__.py").read_text("utf-8"))
    tables = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES"
    ]
    return ast.literal_eval(tables[0])


def summary(found: Any) -> str:
    """Return the first paragraph of a docstring, for a table."""
    text = found.docstring.value if found is not None and found.docstring else "A constant."
    return cell(" ".join(text.split("\n\n")[0].split()))


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return html.escape(text, quote=False).replace("|", "\\|").replace("*", "\\*").replace("__", "\\_\\_")


def signature(name: str, found: Any) -> str:
    """Return a function's signature in Python, without `self`."""
    parts, star = [], False
    for parameter in found.parameters:
        kind = parameter.kind.value if parameter.kind else ""
        if parameter.name in ("self", "cls"):
            continue
        if kind == "variadic positional":
            star = True
        elif kind == "keyword-only" and not star:
            parts.append("*")
            star = True
        text = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "") + parameter.name
        if parameter.annotation is not None:
            text += f": {plain(parameter.annotation)}"
        if parameter.default is not None and not kind.startswith("variadic"):
            text += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        parts.append(text)
    line = f"{name}({', '.join(parts)})"
    if len(line) > 88:
        line = f"{name}(\n    " + ",\n    ".join(parts) + ",\n)"
    returned = getattr(found, "returns", None)
    return line + (f" -> {plain(returned)}" if returned is not None and found.name != "__init__" else "")


def plain(annotation: Any) -> str:
    """Return an annotation without the name of the module that the sources take names from."""
    return re.sub(r"\b(names|hints|t)\.(?=[A-Z])", "", str(annotation)).strip("'\"")


def prose(text: str) -> str:
    """Return a docstring as Markdown: its labels become a list, and indented examples stay as they are."""
    made: list[str] = []
    inside = False
    for line in text.splitlines():
        label = re.match(r"(\w+(?:, \w+)*) {2,}(\S.*)", line)
        if label:
            made += [""] * (not inside) + [f"- **{label[1]}** – {cases(label[2])}"]
            inside = True
        elif inside and line.startswith("  ") and line.strip():
            made.append(f"    {cases(line.strip())}")
        else:
            inside = inside and not line.strip()
            made.append(line if line.startswith("    ") else escape(line))
    return "\n".join(made).strip() + "\n"


def cases(text: str) -> str:
    """Return a line of a label: the name of an error, and when it is raised."""
    name, gap, when = text.partition("  ")
    return f"`{name}`: {escape(when.strip())};" if gap and name.isidentifier() else escape(text)


def escape(text: str) -> str:
    """Return a line in which Markdown sees no emphasis or HTML."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        [part if part.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", part).replace(">", "&gt;") for part in parts]
    )


def describe(name: str, found: Any, level: str = "## ", owner: str = "") -> str:
    """Return the text about a function, a property or a constant."""
    dotted = f"{owner}.{name}" if owner else name
    head = f"{level}{dotted}\n\n" if level else ""
    doc = prose(found.docstring.value) if found.docstring else ""
    if found.is_function:
        return f"{head}```python\n{signature(name, found)}\n```\n\n{doc}\n"
    if found.is_class:  # a context manager or an iterable with a small name
        return describe_class(name, found, None, level)
    kind = plain(found.annotation) if getattr(found, "annotation", None) is not None else ""
    return f"{head}" + (f"*{escape(kind)}*\n\n" if kind else "") + f"{doc}\n"


def members(found: Any, package: Any) -> dict[str, Any]:
    """Return the public members of a class, with those of its bases in the package."""
    made: dict[str, Any] = {}
    for base in getattr(found, "bases", []):
        path = getattr(base, "canonical_path", "")
        if package is not None and path.startswith("rawcuda."):
            try:
                made.update(members(package[path.removeprefix("rawcuda.")], package))
            except KeyError:
                pass
    for name, member in found.members.items():
        if not name.startswith("_") and not member.is_alias and member.docstring:
            made[name] = member
    return made


def describe_class(name: str, found: Any, package: Any, level: str = "## ") -> str:
    """Return the text about a class: its docstring, how it is made, and its members."""
    text = f"{level}{name}\n\n" if level else ""
    made = found.members.get("__init__")
    if made is not None and made.is_function and len(list(made.parameters)) > 1:
        text += f"```python\n{signature(name, made)}\n```\n\n"
    text += (prose(found.docstring.value) if found.docstring else "") + "\n"
    inner = members(found, package)
    if name.endswith("Error") and level or not inner:
        return text
    below = "## " if not level else "### "
    for wanted in (False, True):  # attributes, then methods
        these = {each: member for each, member in sorted(inner.items()) if member.is_function == wanted}
        if these:
            text += "".join(describe(each, member, below, name) for each, member in these.items())
    return text


def driver_functions() -> str:
    """Return the page of the driver's functions: the C line of each, and what it does."""
    sys.path.insert(0, str(CHECKOUT))
    try:
        from rawcuda.headers import cuda_h
    finally:
        sys.path.pop(0)
    lines = [
        "# The driver by its C names",
        "",
        "`rawcuda.cu` has every function of `cuda.h` under the name that the driver exports. [Call the driver by its C",
        "names](../driver.md) shows how to call them. A function raises a `CudaError` unless it succeeds.",
        "",
        "| function | since | what it does |",
        "|---|---|---|",
    ]
    for each in cuda_h.prototypes().values():
        if not each.old:
            since = ".".join(map(str, each.since))
            lines.append(f"| `{each.line.rstrip(';').partition(' ')[2]}` | {since} | {cell(each.doc)} |")
    return "\n".join(lines) + "\n"
