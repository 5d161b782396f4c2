"""Make what the site needs besides the pages: the navigation, the reference, and the pages of the checkout's root.

MkDocs calls the functions named on_... of this file. A new page in docs/ is taken in by rule: pages in docs/course/ and
docs/kernels/ get tabs of their own, in the order of their names, pages in docs/howto/ in the order of the links of its
index, pages in PLACES get the tab that is written there, and all other pages are guides. The reference has a page for
each public class, and one each for functions, errors, and the driver's functions by their C names; it is read from the
sources with griffe, and nothing is imported.
"""

from __future__ import annotations

import ast
import html
import io
import json
import os
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
from tests.docs import pages  # noqa: E402  (one reader of blocks for the tests and the site)
from tests.pyodide.command import start  # noqa: E402

TABS = ("Home", "Course", "Kernels", "How-to", "Guides", "Reference", "Protocols", "Emulator", "Performance", "Project")
PLACES = {
    "index.md": "Home",
    "playground.md": "Home",
    "your-gpu.md": "Home",
    "protocols.md": "Protocols",
    "systems.md": "Protocols",
    "emulator.md": "Emulator",
    "performance.md": "Performance",
    "features.md": "Project",
    "architecture.md": "Project",
    "modules.md": "Project",
    "remembered.md": "Project",
    "strictness.md": "Emulator",
}
OF_THE_ROOT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
LABELS = ("shape", "units", "calls", "order", "raises", "source", "returns")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made, and the navigation."""
    for name, text in reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    files.append(File.generated(config, "modules.md", content=modules()))
    for source, target in OF_THE_ROOT.items():
        text = (CHECKOUT / source).read_text("utf-8")
        text = text.replace("](docs/", "](").replace("](LICENSE)", "](https://opensource.org/license/mit)")
        for other, page in OF_THE_ROOT.items():
            text = text.replace(f"]({other}", f"]({page}")
        files.append(File.generated(config, target, content=text))
    if PYODIDE:
        for name in OF_PYODIDE:
            files.append(File.generated(config, f"run/pyodide/{name}", abs_src_path=str(Path(PYODIDE) / name)))
        files.append(File.generated(config, "run/rawcuda.zip", content=bundle()))
    config.nav = navigation([file.src_uri for file in files.documentation_pages()])
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name what the theme leaves without a name for readers who hear the page, and give the playground its examples."""
    search = 'data-md-component="search" role="dialog"'
    output = output.replace(search, f'{search} aria-label="Search"')
    if page.file.src_uri != PLAYGROUND:
        return output
    examples = (CHECKOUT / "docs" / "run" / "examples.json").read_text("utf-8").replace("<", "\\u003c")
    made = f'<script type="application/json" id="examples">{examples}</script>'
    return output.replace("</article>", f"</article>{made}", 1)


def navigation(pages: list[str]) -> list[dict[str, Any]]:
    """Return the navigation: a tab for each kind of page."""
    found: dict[str, list[str]] = {tab: [] for tab in TABS}
    tasks = re.findall(r"\]\(([\w-]+\.md)\)", (CHECKOUT / "docs" / "howto" / "index.md").read_text("utf-8"))
    order = {f"howto/{name}": f"howto/{number:03}" for number, name in enumerate(tasks)}
    for page in sorted(pages, key=lambda page: (not page.endswith("index.md"), order.get(page, page))):
        folder = page.partition("/")[0]
        tab = {"course": "Course", "kernels": "Kernels", "howto": "How-to", "reference": "Reference"}.get(folder)
        found[tab or PLACES.get(page) or ("Project" if page in OF_THE_ROOT.values() else "Guides")].append(page)
    return [{tab: each[0] if len(each) == 1 else each} for tab, each in found.items() if each]


# -- the list of modules


def modules() -> str:
    """Return the page that lists every module, with the first line of its docstring."""
    package = CHECKOUT / "rawcuda"
    text = "# Modules\n\nEvery module of the package, with the first line of its docstring.\n"
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        name = folder.relative_to(package.parent).as_posix()
        text += f"\n## {name}/\n\n{first_line(folder / '__init__.py')}\n\n"
        for path in sorted(folder.glob("*.py")):
            if path.name != "__init__.py":
                text += f"- `{path.name}`: {first_line(path)}\n"
    return text


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, as text of a page."""
    found = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    return cell(found.splitlines()[0]) if found else ""


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
    """Return the public names and the modules that define them, from the package's table."""
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
    return re.sub(r"\bt\.(?=[A-Z])", "", str(annotation)).strip("'\"")


def prose(text: str) -> str:
    """Return a docstring as Markdown: its labels become a list, and examples stay as they are."""
    made: list[str] = []
    said: list[str] = []  # the lines of the label that is being read
    is_example = False
    for line in [*text.splitlines(), "end"]:
        label = re.match(r"(\w+(?:, \w+)*) {2,}(\S.*)", line)
        if said and not (line.startswith("  ") and line.strip()):
            made.append(f"- **{said[0]}** – {cases(said[1:])}")
            made += [""] * (not label)
            said = []
        if line.startswith(">>> ") and not is_example:
            is_example = True
            made.append("```pycon")
        elif is_example and not line.strip():
            is_example = False
            made.append("```")
        if label and not is_example:
            made += [""] * (not made or not made[-1].startswith("- "))
            said = [label[1], label[2]]
        elif said:
            said.append(line.strip())
        else:
            made.append(line if is_example or line.startswith("    ") else escape(line))
    made.pop()  # "end"
    return "\n".join([*made, *["```"] * is_example]).strip() + "\n"


def cases(lines: list[str]) -> str:
    """Return the text of a label; if it names errors, each of them with the case in which it is raised."""
    found: list[str] = []
    for line in lines:
        name, gap, when = line.partition("  ")
        if gap and re.fullmatch(r"[\w.]+", name):
            found.append(f"`{name}`: {escape(when.strip())}")
        elif found:
            found[-1] += f" {escape(line)}"
        else:
            found.append(escape(line))
    return "; ".join(found) + "." * (len(found) > 1 or found[0].startswith("`"))


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
    return f"{head}" + (f"*{escape(kind)}*\n\n" if kind not in ("", "Any") else "") + f"{doc}\n"


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
    wanted = [each.name for each in made.parameters] if made is not None and made.is_function else []
    if len(wanted) > 1 and "_" not in wanted:  # with it, the class is not called: methods of others make its objects
        text += f"```python\n{signature(name, made)}\n```\n\n"
    text += (prose(found.docstring.value) if found.docstring else "") + "\n"
    inner = members(found, package)
    if name.endswith("Error") and level or not inner:
        return text
    for is_method, title in ((False, "Attributes"), (True, "Methods")):
        these = {each: member for each, member in sorted(inner.items()) if member.is_function == is_method}
        below = "### "
        if these:
            text += f"## {title}\n\n" if not level else ""
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


# -- blocks that run in the reader's browser


PLAYGROUND = "playground.md"
RUNS = ("index.md", PLAYGROUND, "course/", "kernels/", "howto/")  # the pages whose blocks get a Run button
PYODIDE = os.environ.get("RAWCUDA_PYODIDE", "")  # the folder of Pyodide; without it, the site has no Run buttons
WITHOUT = "!!! note\n\n    This copy of the site was built without Pyodide, so nothing can run here.\n\n"
OF_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Mark the blocks that run in a browser, for docs/run/page.js."""
    if not page.file.src_uri.startswith(RUNS):
        return markdown
    is_playground = page.file.src_uri == PLAYGROUND
    return marked(markdown, is_playground) if PYODIDE else WITHOUT * is_playground + markdown


def marked(text: str, edits_files: bool = False) -> str:
    """Return a page's text with the class `run` at each block that runs, and the files that the page has above it.

    edits_files   whether a reader can change the files, too
    """
    lines = text.splitlines()
    for block, files in pages.in_browser(text):
        given = quote(json.dumps(files), safe="")
        lines[block.line - 2] = lines[block.line - 2].replace(
            "```python", f'``` {{ .python .run .{block.role or "step"} data-files="{given}" }}'
        )
    for block in pages.blocks(text):
        if block.role == "solution":
            lines[block.line - 2] = "``` { .python .solution }"
        elif block.language == "file" and edits_files:
            lines[block.line - 2] = f'``` {{ .text .run-file data-name="{block.shown}" }}'
    return "\n".join(lines) + "\n"


def bundle() -> bytes:
    """Return the package, with its bytecode for Pyodide, and what runs blocks, as a ZIP file."""
    made, run = io.BytesIO(), CHECKOUT / "docs" / "run"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as folder:
        for path in sorted((CHECKOUT / "rawcuda").rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                archive.write(path, path.relative_to(CHECKOUT).as_posix())
        for name in ("page_blocks.py", "compiled.json"):
            archive.write(run / name, name)
        done = start("docs.run.bytecode", "/bytecode", places={folder: "/bytecode"})
        if done.returncode:
            raise PluginError(f"the bytecode for the browser could not be made: {done.stdout}")
        for path in sorted(Path(folder).rglob("*.pyc")):
            archive.write(path, path.relative_to(folder).as_posix())
    return made.getvalue()
