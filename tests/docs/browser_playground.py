"""Use the playground of a built site in Chromium: links, examples, the steps of a warp, and reports at their lines."""

from __future__ import annotations

from browser import IDLE, LONGEST, outputs
from playwright.sync_api import Browser, Page

# The text that is marked: name of the mark -> lines.
MARKED = (
    "() => Object.fromEntries([...CSS.highlights].map(([name, ranges]) => [name, [...ranges].map((each) => "
    "each.toString().trim())]))"
)
# Put the caret at the beginning of the line of a code element that has the word.
CARET = """(code, word) => {
  const number = code.textContent.split("\\n").findIndex((line) => line.includes(word)) + 1;
  lines.choose(code, number);
}"""


def use(browser: Browser, root: str) -> dict[str, object]:
    """Return what was seen."""
    return {**links(browser, root), **examples(browser, root)}


def opened(browser: Browser, root: str, more: str = "") -> Page:
    """Open the playground anew."""
    page = browser.new_page()
    page.goto(f"{root}/playground.html{more}", wait_until="load")
    return page


def run(page: Page, button: str = "Run block 1") -> str:
    """Press a button, and return the text of the output."""
    page.locator(f'button[aria-label="{button}"]').click()
    page.wait_for_function(IDLE, timeout=LONGEST)
    return page.locator(".run-output").first.inner_text()


def links(browser: Browser, root: str) -> dict[str, object]:
    """Change the kernel of the playground, open the link to it elsewhere, and one that is damaged."""
    found: dict[str, object] = {}
    page = opened(browser, root)
    text = page.locator(".run-file code").inner_text().replace("mul.f32 ", "add.f32 ") + "// <b>text</b>"
    page.locator(".run-file code").evaluate("(each, text) => { each.textContent = text; }", text)
    page.get_by_role("button", name="Put it into the address").click()
    address = page.url
    page.close()
    page = browser.new_page()
    page.goto(address, wait_until="load")
    found["link"] = page.locator(".run-take [role=status]").inner_text()
    same = page.locator(".run-file code").inner_text() == text and not page.locator(".run-file b").count()
    found["link shown"] = same and not page.locator(".run-output").first.is_visible()
    found["link run"] = run(page)
    page.close()
    for name, more in (("link damaged", "#program=%5B%22"), ("link to nothing", "#example=none")):
        page = opened(browser, root, more)
        found[name] = page.locator(".run-take [role=status]").inner_text()
        page.close()
    return found


def examples(browser: Browser, root: str) -> dict[str, object]:
    """Run each example, step through some, and look at what is marked."""
    found: dict[str, object] = {}
    page = opened(browser, root)
    names = page.locator(".run-take option").evaluate_all("(each) => each.map(({ value }) => value)")
    printed = {}
    for name in filter(None, names):
        page.locator(".run-take select").select_option(name)
        run(page)
        printed[name] = outputs(page)[0], page.locator(".run ~ .highlight").last.inner_text()
        if page.locator(".run-error").count():
            found["report"] = {**page.evaluate(MARKED), "places": page.locator(".run-places").inner_text()}
    found["examples"] = printed
    page.close()

    page = opened(browser, root, f"#example={names[1]}")
    ptx, cuda = page.locator(".run-file code"), page.locator(".run-cuda code")
    ptx.evaluate(CARET, "st.global")
    found["from PTX"] = page.evaluate(MARKED)
    cuda.evaluate(CARET, "blockIdx")
    found["from CUDA C"] = page.evaluate(MARKED)
    run(page, "Run block 1 and show the steps of a warp")
    said = page.locator(".steps-said")
    found["first"] = said.inner_text()
    page.get_by_role("button", name="Last", exact=True).click()
    found["last"] = said.inner_text()
    page.get_by_role("button", name="Back", exact=True).click()
    found["back"] = said.inner_text(), page.evaluate(MARKED)
    page.get_by_label("Step", exact=True).fill("4")
    found["slider"] = said.inner_text(), page.locator(".steps-lanes").get_attribute("aria-label")
    found["registers"] = page.locator(".steps-table").last.inner_text()
    page.get_by_role("textbox", name="warp").fill("7000")
    found["no warp"] = run(page, "Run block 1 and show the steps of a warp")
    page.get_by_role("textbox", name="warp").fill("-1")
    page.locator('button[aria-label="Run block 1 and show the steps of a warp"]').click()
    found["bad warp"] = page.locator(".run-bar [role=status]").first.inner_text()
    page.get_by_role("textbox", name="warp").fill("0")
    ptx.evaluate("(each) => { each.textContent = each.textContent.replace('mad.lo', 'mad.low'); }")
    run(page)
    found["syntax"] = {**page.evaluate(MARKED), "places": page.locator(".run-places").inner_text()}
    page.locator(".run-places button").last.click()
    found["led"] = page.evaluate("() => getSelection().focusNode.textContent.includes('mad.low')")
    page.get_by_text("Reset", exact=True).click()
    found["reset"] = "mad.low" not in ptx.inner_text() and cuda.is_visible() and not page.locator(".steps").count()
    page.close()
    return found
