"""Press Run below the blocks of a built site in Chromium, and print what each block printed, as JSON.

    python browser_runs.py CHROMIUM SITE PAGE ...

A server on the loopback address serves the site, and every other address is refused. This runs in the environment of
the site's packages. For each page: what each block that has a button printed, the seconds until the first block had
run, and those of the slowest later one.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from browser import IDLE, LONGEST, Quiet, foreign, outputs
from browser_playground import use
from playwright.sync_api import Browser, Page, sync_playwright


def run_all(page: Page) -> dict[str, object]:
    """Run the blocks of a page, one after the other."""
    times = []
    for number in range(page.locator(".run-bar").count()):
        began = time.monotonic()
        page.locator(f'button[aria-label="Run block {number + 1}"]').click()
        page.wait_for_function(IDLE, timeout=LONGEST)
        times.append(time.monotonic() - began)
    said = [each.inner_text() for each in page.locator(".run-bar [role=status]").all()]
    shown = outputs(page)
    later = max(times[1:], default=0)
    return {"outputs": shown, "solved": solved(page), "said": said, "first": times[0], "later": later}


def solved(page: Page) -> list[str]:
    """Put the solution of each task into it, and return what the test then prints."""
    for number in range(page.locator("details").count()):
        details = page.locator("details").nth(number)
        if details.locator(".solution").count():
            details.locator("summary").click()
            details.get_by_text("Put it into the task").click()
            page.keyboard.press("Enter")  # the focus is on the button of the test
            page.wait_for_function(IDLE, timeout=LONGEST)
    tests = [each.evaluate("(each) => each.classList.contains('test')") for each in page.locator(".run").all()]
    return [output for output, is_test in zip(outputs(page), tests) if is_test]


def controls(browser: Browser, root: str, site: Path) -> dict[str, str]:
    """Edit, stop and reset blocks, write too much, open pages where nothing can run; return what was said."""
    found: dict[str, str] = {}
    page = browser.new_page()
    page.goto(f"{root}/course/04-strides.html", wait_until="load")
    code, run = page.locator(".run code").nth(1), page.locator('button[aria-label="Run block 2"]')
    said, output = page.locator(".run-bar [role=status]").nth(1), page.locator(".run-output").nth(1)
    original = code.inner_text()

    def edit(text: str) -> None:
        code.evaluate("(each, text) => { each.textContent = text; }", text)
        run.click()

    edit("print('edited', array.array('h', [7])[0])")
    page.wait_for_function(IDLE, timeout=LONGEST)
    found["edited"] = output.inner_text()
    edit("print('x' * 300_000)")
    page.wait_for_function(IDLE, timeout=LONGEST)
    found["flood"] = f"{len(output.inner_text())} {output.inner_text()[-45:]}"
    edit("while True: pass")
    page.wait_for_timeout(500)
    page.locator(".run-bar").nth(1).get_by_text("Stop", exact=True).click()
    found["stopped"] = said.inner_text()
    code.evaluate("(each, text) => { each.textContent = text; }", original)
    run.click()
    page.wait_for_function(IDLE, timeout=LONGEST)
    found["after"] = output.inner_text()
    edit("1 / 0")
    page.wait_for_function(IDLE, timeout=LONGEST)
    found["failed"] = output.inner_text()
    page.locator(".run-bar").nth(1).get_by_text("Reset", exact=True).click()
    found["reset"] = str(code.inner_text() == original and not output.is_visible())
    page.close()
    for name, address, script in (
        ("file", (site / "course" / "04-strides.html").as_uri(), ""),
        ("no WebAssembly", f"{root}/course/04-strides.html", "delete window.WebAssembly"),
        ("no Worker", f"{root}/course/04-strides.html", "delete window.Worker"),
        ("broken", f"{root}/course/04-strides.html", ""),
    ):
        context = browser.new_context()
        if name == "broken":
            context.route("**/pyodide.asm.wasm", lambda route: route.abort())
        page = context.new_page()
        if script:
            page.add_init_script(script)
        page.goto(address, wait_until="load")
        page.locator('button[aria-label="Run block 1"]').click()
        status = page.locator(".run-bar [role=status]").first
        page.wait_for_function(
            "() => document.querySelector('.run-bar [role=status]').textContent.endsWith('.')", timeout=LONGEST
        )
        found[name] = status.inner_text()
        context.close()
    return found


def main() -> None:
    """Run the pages."""
    chromium, site, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_address[1]}"
    found: dict[str, object] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context()
        context.route(lambda url: not url.startswith((root, "blob:")), lambda route: route.abort())
        for name in names:
            page = context.new_page()
            heard: list[str] = []
            page.on("console", lambda said, heard=heard: heard.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error, heard=heard: heard.append(str(error)))
            page.on("request", lambda asked, heard=heard: foreign(asked.url, root, heard))
            page.goto(f"{root}/{name}.html", wait_until="load")
            loaded = page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
            heard += [f"loaded before a run: {each}" for each in loaded if "pyodide" in each or each.endswith(".zip")]
            found[name] = {**run_all(page), "heard": heard}
            page.close()
        said = controls(browser, root, site)
        play = use(browser, root)
        browser.close()
    json.dump({"pages": found, "controls": said, "playground": play}, sys.stdout)


if __name__ == "__main__":
    main()
