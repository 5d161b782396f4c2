"""Open every page of a built site in Chromium, wide and narrow, light and dark, and print what is wrong as JSON.

axe-core reads the text of every page in each form, and on six pages also what is around it: nothing that it calls
serious or critical may be left, such as a weak contrast.

    python browser.py CHROMIUM SITE [SCREENSHOTS]

A server on the loopback address serves the site, and every other address is refused. This runs in the environment of
the site's packages, so it imports nothing of the tests. With a third argument, it writes a screenshot of each of six
pages in each form to this folder.
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

FORMS = {
    "wide": (1280, 900, "light"),
    "dark": (1280, 900, "dark"),
    "narrow": (500, 900, "light"),
    "phone": (390, 800, "dark"),
}
SHOWN = ("index", "course/04-strides", "reference/Device", "systems", "howto/coming-from", "playground")
# Tables that are wider than the text and do not scroll, names in tables that are broken, pictures that are too small to
# read, and whether the page itself can be scrolled to the side.
LOOK = """() => {
  const found = [];
  const column = document.querySelector('.md-content__inner').getBoundingClientRect();
  for (const table of document.querySelectorAll('.md-content table:not(.highlighttable)')) {
    const box = table.getBoundingClientRect();
    const inner = table.parentElement;
    const scrolls = ['auto', 'scroll'].includes(getComputedStyle(inner).overflowX)
      || ['auto', 'scroll'].includes(getComputedStyle(inner.parentElement).overflowX);
    const clipped = box.right > column.right + 1 || table.scrollWidth > table.clientWidth + 1;
    if (clipped && !scrolls) found.push('a table is wider than its column: ' + table.innerText.slice(0, 60));
  }
  for (const code of document.querySelectorAll('.md-content td code')) {
    if (code.getClientRects().length < 2 || code.firstElementChild || !code.firstChild) continue;
    for (const word of code.textContent.matchAll(/\\w+/g)) {
      const range = new Range();
      range.setStart(code.firstChild, word.index);
      range.setEnd(code.firstChild, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push('a name in a table is broken: ' + word[0]);
    }
  }
  for (const picture of document.querySelectorAll('.md-content img')) {
    if (!picture.complete || !picture.naturalWidth) found.push('no picture: ' + picture.src);
    const box = picture.getBoundingClientRect();
    if (box.right > column.right + 1) found.push('a picture is too wide: ' + picture.src);
    if (window.innerWidth >= 500 && box.width < 0.8 * picture.naturalWidth)
      found.push('a picture is too small to read: ' + picture.src);
  }
  if (document.documentElement.scrollWidth > window.innerWidth + 1) found.push('the page scrolls to the side');
  if (!document.querySelector('a.headerlink')) found.push('headings have no links');
  return found;
}"""
# Of elements that have the same tags and classes up to the body, two stay: axe-core takes seconds for 600 equal rows.
THIN = """() => {
  const forms = new Map(), seen = new Map();
  for (const element of document.body.querySelectorAll('*')) {
    const form = `${forms.get(element.parentElement)}/${element.tagName}.${element.getAttribute('class')}`;
    forms.set(element, form);
    seen.set(form, (seen.get(form) ?? 0) + 1);
    if (seen.get(form) > 2 && !element.querySelector('input')) element.remove();
  }
}"""

LONGEST = 120_000  # milliseconds that a block may take
# Whether a block has ended: no button that runs something is disabled.
IDLE = "() => [...document.querySelectorAll('.run-start')].every((each) => !each.disabled)"
TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?: [^\n]*\n)+(?:[\w.]+\.)?(\w+: .*)\Z", re.S)


class Quiet(SimpleHTTPRequestHandler):
    """A server that logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def foreign(url: str, root: str, heard: list[str]) -> None:
    """Note a request to another host."""
    if not url.startswith((root, "data:", "blob:")):
        heard.append(f"asked for {url}")


def outputs(page: Page) -> list[str]:
    """Return what is shown below each block: of stderr, only the last line of a traceback."""
    found = []
    for output in page.locator(".run-output").all():
        parts = output.evaluate(
            "(each) => [...each.childNodes].map((part) => [part.className ?? '', part.textContent])"
        )
        raised = TRACEBACK.search("".join(text for kind, text in parts if kind))
        found.append("".join(text for kind, text in parts if not kind) + (raised[1] if raised else ""))
    return found


def main() -> None:
    """Open the pages."""
    chromium, site = sys.argv[1], Path(sys.argv[2])
    wrong: dict[str, list[str]] = {}
    pages = sorted(site.rglob("*.html"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_address[1]}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for form, (width, height, scheme) in FORMS.items():
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            context.route(lambda url: not url.startswith(root), lambda route: route.abort())
            page = context.new_page()
            heard: list[str] = []
            page.on("console", lambda said: heard.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: heard.append(str(error)))
            page.on("response", lambda got: heard.append(f"not loaded: {got.url}") if got.status >= 400 else None)
            page.on("request", lambda asked: foreign(asked.url, root, heard))
            for path in pages:
                name = path.relative_to(site).with_suffix("").as_posix()
                if name == "404":
                    continue
                heard.clear()
                page.goto(f"{root}/{name}.html", wait_until="load")
                problems = [*heard, *page.evaluate(LOOK)]
                shown = page.evaluate("getComputedStyle(document.body).backgroundColor")
                numbers = [int(part) for part in shown[shown.index("(") + 1 : -1].split(",")[:3]]
                if (sum(numbers) < 384) != (scheme == "dark"):
                    problems.append(f"in the {scheme} scheme, the page is {shown}")
                if len(sys.argv) > 3 and name in SHOWN:
                    page.screenshot(path=f"{sys.argv[3]}/{name.replace('/', '-')}-{form}.png")
                problems += barriers(page, None if name in SHOWN else ".md-content")
                if problems:
                    wrong[f"{name}, {form}"] = problems
            context.close()
        wrong.update(search(browser, root))
        browser.close()
    json.dump({"pages": len(pages), "wrong": wrong}, sys.stdout)


def barriers(page: object, part: str | None) -> list[str]:
    """Ask axe-core what keeps people from reading a page, or a part of it; this changes the page."""
    page.evaluate(THIN)  # type: ignore[attr-defined]
    said = Axe().run(page, part, {"resultTypes": ["violations"], "preload": False}).response["violations"]
    return [
        f"{each['id']}: {node['html'][:100]}: {' '.join(node['failureSummary'].split())}"
        for each in said
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:5]
    ]


def search(browser: object, root: str) -> dict[str, list[str]]:
    """Type a word into the search, and look for a result; copy a block of code."""
    page = browser.new_page()  # type: ignore[attr-defined]
    page.goto(f"{root}/index.html", wait_until="load")
    wrong = []
    try:
        page.keyboard.press("s")  # opens the search
        page.keyboard.type("occupancy")
        page.wait_for_selector(".md-search-result__item", timeout=10000)
    except Exception as error:
        wrong.append(f"the search finds nothing: {str(error)[:200]}")
    if not page.query_selector(".md-code__button, button.md-clipboard, .md-code__nav"):
        wrong.append("blocks of code have no button that copies them")
    return {"search": wrong} if wrong else {}


if __name__ == "__main__":
    main()
