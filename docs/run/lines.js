// Lines of a block of code: where they are, marks on them, and the line of the caret. A mark is a highlight of the
// browser (CSS.highlights), so the text is not touched; a browser that has none shows no marks, and all else works.
"use strict";
const lines = (() => {
  const marks = new Map(); // name of a highlight -> code element -> ranges

  // The text nodes of a block, each with the place at which it begins.
  function parts(code) {
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let at = 0; walker.nextNode(); at += walker.currentNode.length) found.push([walker.currentNode, at]);
    return found;
  }

  function range(code, number) {
    const texts = code.textContent.split("\n");
    if (number < 1 || number > texts.length) return null;
    const start = texts.slice(0, number - 1).reduce((sum, text) => sum + text.length + 1, 0);
    const found = parts(code);
    const inside = (place) => found.findLast(([, at]) => at <= place);
    const made = new Range();
    for (const [place, set] of [[start, "setStart"], [start + texts[number - 1].length, "setEnd"]]) {
      const part = inside(place);
      if (!part) return null;
      made[set](part[0], Math.min(place - part[1], part[0].length));
    }
    return made;
  }

  function mark(name, code, numbers) {
    if (!CSS.highlights) return;
    const of = marks.get(name) ?? new Map();
    marks.set(name, of.set(code, numbers.map((number) => range(code, number)).filter((each) => each !== null)));
    CSS.highlights.set(name, new Highlight(...[...of.values()].flat()));
  }

  // Scroll a line into the middle of its block, which may be higher than its frame.
  function show(code, number) {
    const found = range(code, number);
    if (!found) return;
    const line = found.getBoundingClientRect(), frame = code.getBoundingClientRect();
    if (line.top < frame.top || line.bottom > frame.bottom)
      code.scrollTop += line.top - frame.top - frame.height / 2;
  }

  // The line of the caret, or 0 if it is elsewhere.
  function caret(code) {
    const chosen = getSelection();
    if (!chosen.rangeCount || !code.contains(chosen.focusNode)) return 0;
    const before = new Range();
    before.setStart(code, 0);
    before.setEnd(chosen.focusNode, chosen.focusOffset);
    return before.toString().split("\n").length;
  }

  // Put the caret at the beginning of a line.
  function choose(code, number) {
    const found = range(code, number);
    if (!found) return;
    code.focus();
    getSelection().collapse(found.startContainer, found.startOffset);
    code.scrollIntoView({ block: "nearest" });
    show(code, number);
  }

  return { mark, show, caret, choose };
})();
