"""The pictures are current and well-formed. The site builds without a warning, its links work, a browser shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from tests.__main__ import environment
from tests.shared import browser_command
from tests.subject import CHECKOUT, NAME

pytestmark = pytest.mark.skipif(NAME != "rawcuda", reason="the site is about the original")

PICTURES = CHECKOUT / "docs" / "pictures"
NEEDED = ["mkdocs == 1.6.*", "pygments == 2.*"]


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
    built = subprocess.run(
        [environment(NEEDED), "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
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
def test_the_site_needs_no_network(site: Path) -> None:
    """A page loads nothing from another host."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(r"""<(?:script|img|iframe)[^>]*\bsrc=["'](https?:[^"']+)""", text) + re.findall(
            r"""<link[^>]*\brel=["']stylesheet["'][^>]*href=["'](https?:[^"']+)""", text
        )
        assert not loaded, (page, loaded)


@pytest.mark.heavy
@pytest.mark.skipif(browser_command(Path()) is None, reason="Chromium is not installed (Debian: apt install chromium)")
@pytest.mark.parametrize("page", ["index", "course/04-strides", "course/08-capsules-and-lifetimes"])
def test_a_browser_shows_it(site: Path, tmp_path: Path, page: str) -> None:
    shot = tmp_path / "shot.png"
    target = (site / f"{page}.html").as_uri()
    done = subprocess.run(
        browser_command(tmp_path / "profile", "--window-size=1000,1400", f"--screenshot={shot}", target),
        timeout=120,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0 and shot.exists(), done.stdout
    data = shot.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 30_000, "the page is nearly empty"
