// The playground: a program in the address, examples with their CUDA C, and lines that belong together. The PTX is in
// `ptx`; program() returns the texts of the page, and replace(texts, isOwn) puts others in, which run on demand alone;
// isOwn: Reset returns to them. The result is told what the page has run: begun(), ended(errors), which returns buttons, told(step).
"use strict";
function playground({ ptx, program, replace }) {
  const data = document.getElementById("examples"); // docs/make_site.py puts it there
  const examples = data ? JSON.parse(data.textContent) : [];
  const own = program();
  const output = [...document.querySelectorAll(".md-content .run ~ .highlight > pre > code")].at(-1); // as stated
  const printed = output.textContent;
  const cuda = document.createElement("code");
  const pane = document.createElement("div"), about = document.createElement("p");
  const places = document.createElement("div"); // buttons that lead to the lines of reports
  let toCuda = new Map(), toPtx = new Map();
  const select = document.createElement("select");
  const said = document.createElement("span");
  build();
  take();
  relate();
  addEventListener("hashchange", take);
  ptx.addEventListener("input", relate);
  document.addEventListener("selectionchange", follow);
  return { begun, ended, told };

  function build() {
    cuda.tabIndex = 0;
    cuda.setAttribute("role", "textbox");
    cuda.setAttribute("aria-readonly", "true");
    cuda.setAttribute("aria-multiline", "true");
    cuda.setAttribute("aria-label", "The CUDA C of the example; the arrow keys go from line to line");
    cuda.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      lines.choose(cuda, Math.max(1, lines.caret(cuda) + by));
    });
    const frame = document.createElement("pre");
    frame.append(cuda);
    pane.className = "run-cuda highlight";
    pane.append(frame);
    places.className = "run-take run-places";
    const block = ptx.closest(".run-file");
    const pair = document.createElement("div");
    pair.className = "run-pair";
    block.before(pair);
    pair.append(pane, block);

    const bar = document.createElement("div");
    bar.className = "run-take";
    const label = document.createElement("label");
    label.append("Example ", select);
    select.append(new Option("this page's program", ""), ...examples.map(({ title, name }) => new Option(title, name)));
    select.addEventListener("change", () => {
      history.replaceState(null, "", select.value ? `#example=${select.value}` : "#");
      put(select.value);
    });
    const make = document.createElement("button");
    make.type = "button";
    make.className = "run-button";
    make.textContent = "Put it into the address";
    make.addEventListener("click", link);
    said.setAttribute("role", "status");
    if (examples.length) bar.append(label);
    bar.append(make, said);
    about.className = "run-about";
    about.textContent = "The CUDA C, and the PTX that NVIDIA's compiler made from it. Go to a line in one of them, and its lines in "
      + "the other are marked.";
    pair.before(bar, about);
  }

  function put(name) {
    const example = examples.find((each) => each.name === name);
    replace(example ? [example.ptx, example.python] : own, true);
    ptx.scrollTop = cuda.scrollTop = 0;
    state(example ? example.output : printed);
    select.value = example ? name : "";
    said.textContent = "";
    relate();
  }

  // Show what the program prints, if that is known.
  function state(text) {
    output.textContent = text;
    output.closest(".highlight").hidden = !text;
  }

  function link() {
    const text = encodeURIComponent(JSON.stringify(program()));
    history.replaceState(null, "", `#program=${text}`);
    said.textContent = text.length > 30000
      ? "The address now has the program. It is long, and some programs cut such a link: send the text instead."
      : "The address now has the program: copy it from there.";
  }

  // The program that the address names or contains: it is shown as text, and runs only when the reader presses Run.
  function take() {
    const [, kind, text] = location.hash.match(/^#(program|example)=(.*)$/s) ?? [];
    if (!kind) return;
    try {
      if (kind === "example") {
        if (!examples.some((each) => each.name === text)) throw new Error(`there is no example ${text.slice(0, 40)}`);
        return put(text);
      }
      const found = JSON.parse(decodeURIComponent(text));
      if (!Array.isArray(found) || found.length !== own.length || found.some((each) => typeof each !== "string"))
        throw new Error("it has other parts than this page");
      replace(found, false);
      state("");
      relate();
      said.textContent = "This program came with the link. Read it before you press Run.";
    } catch (error) {
      said.textContent = "The link is damaged, so the page shows its own program: ask for the link again, or for the "
        + `text of the program (${error.message}).`;
    }
  }

  // Read from .file and .loc which line of the CUDA C each instruction belongs to. The pane shows the example's source.
  function relate() {
    const text = ptx.textContent;
    const [, number, file] = text.match(/^\s*\.file\s+(\d+)\s+"([^"]*)"/m) ?? [];
    const example = examples.find((each) => `${each.name}.cu` === file);
    pane.hidden = about.hidden = !example;
    if (cuda.textContent !== (example?.cuda ?? "")) cuda.textContent = example?.cuda ?? "";
    [toCuda, toPtx] = [new Map(), new Map()];
    let at = 0;
    text.split("\n").forEach((line, index) => {
      const loc = line.match(/^\s*\.loc\s+(\d+)\s+(\d+)/);
      if (loc) at = loc[1] === number ? Number(loc[2]) : 0;
      else if (/^[{}]/.test(line)) at = 0;
      if (!example || !at || !(loc || /^\s*(@!?%\w+\s+)?[a-z][\w.:]*\s/.test(line))) return;
      toCuda.set(index + 1, at);
      toPtx.set(at, [...(toPtx.get(at) ?? []), index + 1]);
    });
    for (const name of ["run-linked", "run-step", "run-report"]) mark(name, []);
  }

  function mark(name, inPtx, inCuda = []) {
    lines.mark(name, ptx, inPtx);
    lines.mark(name, cuda, inCuda);
  }

  // The caret is in one of the texts: mark the lines of both that belong together.
  function follow() {
    const inPtx = lines.caret(ptx), inCuda = inPtx ? toCuda.get(inPtx) : lines.caret(cuda);
    if (!inPtx && !inCuda) return;
    const others = toPtx.get(inCuda) ?? [];
    mark("run-linked", others, inCuda ? [inCuda] : []);
    if (inPtx && inCuda) lines.show(cuda, inCuda);
    else if (others.length) lines.show(ptx, others[0]);
  }

  function told(step) {
    const line = sourceLine(step.source);
    mark("run-step", [step.line], line ? [line] : []);
    lines.show(ptx, step.line);
    if (line) lines.show(cuda, line);
  }

  function sourceLine(source) {
    const [, file, line] = (source ?? "").match(/^(.*):(\d+)$/) ?? [];
    return !pane.hidden && examples.some((each) => `${each.name}.cu` === file) ? Number(line) : 0;
  }

  function begun() {
    mark("run-report", []);
    mark("run-step", []);
    places.replaceChildren();
  }

  // Reports, warnings and errors of the PTX's syntax name their lines in the text: mark them, and lead there.
  function ended(text) {
    const inPtx = [...new Set([...text.matchAll(/\bptx (?:input, )?line (\d+)/g)].map((each) => Number(each[1])))];
    const inCuda = [...new Set([...text.matchAll(/\b[\w-]+\.cu:\d+/g)].map((each) => sourceLine(each[0])))].filter(Boolean);
    mark("run-report", inPtx, inCuda);
    for (const [name, code, numbers] of [["CUDA C", cuda, inCuda], ["kernel.ptx", ptx, inPtx]])
      for (const number of numbers.slice(0, 5)) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "run-button";
        button.textContent = `${name}, line ${number}`;
        button.addEventListener("click", () => lines.choose(code, number));
        places.append(button);
      }
    if (places.childElementCount) places.prepend("The report names: ");
    return places;
  }
}
