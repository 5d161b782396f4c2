"""The pictures are current and well-formed. The site builds without a warning, its links work, a browser shows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from tests.__main__ import environment, requirements
from tests.conftest import in_third
from tests.docs import pages
from tests.shared import browser_command
from tests.site import build, runs
from tests.subject import CHECKOUT, NAME, module, rawcuda

pytestmark = [
    pytest.mark.skipif(NAME != "rawcuda", reason="the site is about the original"),
    pytest.mark.skipif(sys.version_info < (3, 10), reason="griffe needs Python 3.10"),
    pytest.mark.xdist_group("site"),  # which is built once
]

PICTURES = CHECKOUT / "docs" / "pictures"
NEEDED = requirements("site")
RUNS = ("index.md", "playground.md", "course/", "kernels/", "howto/")  # as in docs/make_site.py


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw the pictures again, in another folder."""
    folder = tmp_path_factory.mktemp("pictures")
    subprocess.run(
        [sys.executable, str(CHECKOUT / "docs" / "make_pictures.py"), str(folder)],
        check=True,
        cwd=CHECKOUT,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return folder


def texts(picture: Path) -> list[str]:
    """Return the words of a picture, without addresses and times, which differ between traces."""
    found = ElementTree.parse(picture).getroot().itertext()
    return [re.sub(r"0x[0-9a-f]+|\d+\.\d+|\d+ us", "#", " ".join(text.split())) for text in found if text.strip()]


@pytest.mark.heavy
@pytest.mark.every_change
def test_the_pictures_are_those_that_the_script_draws(drawn: Path) -> None:
    assert sorted(path.name for path in PICTURES.iterdir()) == sorted(path.name for path in drawn.iterdir())
    stale = [path.name for path in PICTURES.iterdir() if texts(path) != texts(drawn / path.name)]
    assert not stale, "draw them again: PYTHONPATH=. python3 docs/make_pictures.py"


@pytest.mark.parametrize("name", sorted(path.name for path in PICTURES.glob("*.svg")))
def test_a_picture_is_well_formed_alone_and_used(name: str) -> None:
    root = ElementTree.parse(PICTURES / name).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("viewBox")
    text = (PICTURES / name).read_text("utf-8")
    assert "<script" not in text and not re.search(r"(href|src)=", text)
    assert any(f"pictures/{name})" in page.read_text("utf-8") for page in (CHECKOUT / "docs").rglob("*.md"))


def test_a_picture_has_words_instead() -> None:
    """A picture has a text for readers who cannot see it."""
    for page in (CHECKOUT / "docs").rglob("*.md"):
        assert all(len(words) > 20 for words in re.findall(r"!\[([^\]]*)\]\(", page.read_text("utf-8"))), page


# -- the site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with its tool, in a separate environment; a warning is an error."""
    folder = tmp_path_factory.mktemp("site") / "built"
    built = build(folder, quiet=True)
    assert built.returncode == 0, built.stdout
    return folder


class Links(HTMLParser):
    """The links of a page, and the targets in it that links can point to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {""}
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.links += [named[name] for name in ("href", "src") if name in named]
        self.anchors |= {named[name] for name in ("id", "name") if name in named}


@pytest.mark.heavy
@pytest.mark.every_change
def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    found = {page: Links(page) for page in site.rglob("*.html")}
    assert len(found) >= 14
    wrong = []
    for page, links in found.items():
        for link in links.links:
            if link.startswith(("https://", "http://", "data:", "javascript:")):
                continue
            target, _, anchor = unquote(link).partition("#")
            start = site if target.startswith("/") else page.parent  # 404.html is served for every path
            to = (start / target.partition("?")[0].lstrip("/")).resolve() if target else page
            if not to.exists() or anchor and to in found and anchor not in found[to].anchors:
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert not wrong


@pytest.mark.heavy
@pytest.mark.every_change
def test_the_site_has_only_what_a_reader_opens(site: Path) -> None:
    sources = (".cu", ".md", ".py", ".pyc")
    left = [path for path in site.rglob("*") if path.suffix in sources or path.name == "__pycache__"]
    assert not left
    page = (site / "playground.html").read_text("utf-8")
    given = page.partition('<script type="application/json" id="examples">')[2].partition("</script>")[0]
    assert json.loads(given) == json.loads((CHECKOUT / "docs" / "run" / "examples.json").read_text("utf-8"))


@pytest.mark.heavy
@pytest.mark.every_change
def test_the_site_needs_no_network(site: Path) -> None:
    """A page loads nothing from another host."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(r"""<(?:script|img|iframe)[^>]*\bsrc=["'](https?:[^"']+)""", text) + re.findall(
            r"""<link[^>]*\brel=["']stylesheet["'][^>]*href=["'](https?:[^"']+)""", text
        )
        assert not loaded, (page, loaded)


@pytest.mark.heavy
@pytest.mark.every_change
@pytest.mark.skipif(browser_command(Path()) is None, reason="Chromium is not installed (Debian: apt install chromium)")
def test_a_browser_shows_every_page(site: Path, tmp_path: Path) -> None:
    """No errors on the console, nothing that is not found, no broken names, and nothing serious for axe-core.

    In four forms: wide and narrow, light and dark.
    """
    chromium = str((browser_command(Path()) or [""])[0])
    done = subprocess.run(
        [environment(NEEDED), str(CHECKOUT / "tests" / "docs" / "browser.py"), chromium, str(site), str(tmp_path)],
        timeout=1500,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pages"] > 50 and not found["wrong"], found["wrong"]
    shots = sorted(path.stat().st_size for path in tmp_path.glob("*.png"))
    assert len(shots) == 24 and shots[0] > 20_000, "a page is nearly empty"


@pytest.mark.heavy
@pytest.mark.every_change
@pytest.mark.skipif(browser_command(Path()) is None, reason="Chromium is not installed (Debian: apt install chromium)")
def test_the_blocks_of_the_pages_run_in_a_browser(site: Path, pytestconfig: pytest.Config) -> None:
    """Each block with a Run button prints what its page says; nothing is loaded before, nor from another host.

    A change runs the home page and a third of the others.
    """
    if not runs():
        pytest.skip("Pyodide could not be installed: this needs Node.js with npm, and a package index")
    chromium = str((browser_command(Path()) or [""])[0])
    sources = {
        page.relative_to(CHECKOUT / "docs").with_suffix("").as_posix(): page
        for page in (CHECKOUT / "docs").rglob("*.md")
    }
    wanted = {name: [block for block, _ in pages.in_browser(page.read_text("utf-8"))] for name, page in sources.items()}
    wanted = {name: blocks for name, blocks in wanted.items() if blocks and f"{name}.md".startswith(RUNS)}
    assert len(wanted) > 20
    if word := pytestconfig.getoption("change"):
        wanted = {name: blocks for name, blocks in wanted.items() if name == "index" or in_third(name, word)}
    done = subprocess.run(
        [environment(NEEDED), str(CHECKOUT / "tests" / "docs" / "browser_runs.py"), chromium, str(site), *wanted],
        timeout=1500,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said, wrong = json.loads(done.stdout), []
    found, controls, play = said["pages"], said["controls"], said["playground"]
    for name, blocks in wanted.items():
        assert not found[name]["heard"] and len(found[name]["outputs"]) == len(blocks), (name, found[name])
        for block, printed in zip(blocks, found[name]["outputs"]):
            shown = pages.said_by(block)
            if not pages.agrees(shown or "", printed):
                wrong.append(f"{name}, line {block.line}: it shows\n{shown}\nand it printed\n{printed}")
        tests = [block for block in blocks if block.role == "test"]
        assert [each.strip() for each in found[name]["solved"]] == ["right"] * len(tests), (name, found[name]["solved"])
    print(f"{sum(map(len, wanted.values()))} blocks; seconds: {[round(found[name]['first'], 1) for name in wanted]}")
    assert not wrong, "\n".join(wrong)
    assert controls["edited"].strip() == "edited 7" and controls["reset"] == "True", controls
    assert controls["flood"].endswith("the rest of the output is not shown\n"), controls
    assert "begins anew" in controls["stopped"] and "[[0, 1, 2], [3, 4, 5]]" in controls["after"], controls
    assert 'block 2", line 1' in controls["failed"] and "ZeroDivisionError" in controls["failed"], controls
    assert "http.server" in controls["file"] and "WebAssembly" in controls["no WebAssembly"], controls
    assert "workers" in controls["no Worker"] and "load the page again" in controls["broken"], controls
    check_playground(play)


def check_playground(play: dict[str, Any]) -> None:
    """Check what browser_playground.py has seen."""
    assert "[10.0, 11.0, 12.0, 13.0]" in play["link run"] and play["link shown"], play
    assert "before you press Run" in play["link"] and "damaged" in play["link damaged"], play
    assert "no example none" in play["link to nothing"], play
    examples = json.loads((CHECKOUT / "docs" / "run" / "examples.json").read_text("utf-8"))
    assert len(examples) >= 12 and list(play["examples"]) == [each["name"] for each in examples]
    for example in examples:
        printed, stated = play["examples"][example["name"]]
        assert pages.agrees(example["output"], printed) and stated.strip() == example["output"].strip(), example["name"]
    report = play["report"]
    assert "CUDA C, line" in report["places"] and "kernel.ptx, line" in report["places"], report
    assert len(report["run-report"]) >= 2, report
    # The first example scales a vector.
    assert any("st.global" in line for line in play["from PTX"]["run-linked"]), play["from PTX"]
    assert "*=" in play["from PTX"]["run-linked"][-1] and "blockIdx" in play["from CUDA C"]["run-linked"][-1], play
    assert any("%ctaid.x" in line for line in play["from CUDA C"]["run-linked"]), play["from CUDA C"]
    assert play["first"].startswith("Step 1 of ") and "ld.param" in play["first"] and "ret;" in play["last"], play
    said, marked = play["back"]
    assert "st.global" in said and "st.global" in marked["run-step"][0] and "*=" in marked["run-step"][1], play["back"]
    said, lanes = play["slider"]
    assert said.startswith("Step 5 of ") and "lanes executed it" in lanes and "%r" in play["registers"], play
    assert "no warp 7000" in play["no warp"] and "Give the index" in play["bad warp"], play
    assert "mad.low" in play["syntax"]["run-report"][0] and "kernel.ptx, line" in play["syntax"]["places"], play
    assert play["led"] and play["reset"], play


@pytest.mark.heavy
@pytest.mark.every_change
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    index = (site / "reference" / "index.html").read_text("utf-8")
    assert [name for name in {*rawcuda.__all__, "range"} if f">{name}</code>" not in index] == []
    functions = (site / "reference" / "cu.html").read_text("utf-8")
    names = [name for name, each in module("headers.cuda_h").prototypes().items() if not each.old]
    assert len(names) > 500 and [name for name in names if name not in functions] == []
    device = (site / "reference" / "Device.html").read_text("utf-8")
    hints, kept = module("hints").NotHere, vars(rawcuda.Device)  # the names that others have for something
    public = [name for name in dir(rawcuda.Device) if not name.startswith("_") and type(kept.get(name)) is not hints]
    public.remove("ordinal")  # a parameter
    assert [name for name in public if f'id="device{name}"' not in device.replace(".", "")] == []


@pytest.mark.heavy
@pytest.mark.every_change
def test_tasks_have_one_order(site: Path) -> None:
    """That of their index."""
    index = (CHECKOUT / "docs" / "howto" / "index.md").read_text("utf-8")
    tasks = [name.replace(".md", ".html") for name in re.findall(r"\]\(([\w-]+\.md)\)", index)]
    page = (site / "howto" / "index.html").read_text("utf-8")
    navigation = page[page.index('class="md-nav md-nav--primary') : page.index('class="md-content"')]
    shown = [name for name in re.findall(r'href="([\w-]+\.html)"', navigation) if name in tasks]
    assert len(tasks) > 9 and list(dict.fromkeys(shown)) == tasks


@pytest.mark.heavy
@pytest.mark.every_change
def test_new_pages_are_taken_in_by_rule(site: Path) -> None:
    """Every page is in the navigation, that of another page at the latest."""
    text = (site / "index.html").read_text("utf-8") + (site / "compiling.html").read_text("utf-8")
    for page in (CHECKOUT / "docs").glob("*.md"):
        assert f"{page.stem}.html" in text, page
