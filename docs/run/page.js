// Run buttons below the blocks of code that can run in a browser. docs/make_site.py marks those blocks; worker.js runs
// them, steps.js shows the steps of a warp. A page with files that can be edited is a playground: playground.js. The
// blocks of a page share one state, in the order of the page. A block that tests the one above it, a task, runs together
// with it, and only if it is asked for; the solution of a task can be put into it.
"use strict";
(() => {
  const here = document.currentScript.src;
  const blocks = [...document.querySelectorAll(".md-content .run > pre > code")];
  if (!blocks.length) return;
  let worker = null; // null until a block is run, and after a stop
  let running = null; // the block that runs now
  let done = 0; // how many blocks have run in this state
  let loaded = false;
  const texts = [...document.querySelectorAll(".md-content .run-file > pre > code")]; // the files of the playground
  const bars = blocks.map(bar);
  document.querySelectorAll(".md-content .solution > pre > code").forEach(solve);
  texts.forEach((code) => editable(code, `The file ${nameOf(code)}, which can be edited`));
  const every = [...texts, ...blocks];
  let kept = every.map((code) => code.textContent); // what Reset returns to
  let play = null;
  if (texts.length) play = playground({
    ptx: texts[0],
    program: () => every.map((code) => code.textContent),
    replace(program, isOwn) {
      if (isOwn) kept = program;
      end("", true);
      every.forEach((code, at) => { code.textContent = program[at]; });
    },
  });

  function bar(code, number) {
    const box = document.createElement("div");
    box.className = "run-bar";
    const run = button("Run", () => start(number));
    const stop = button("Stop", () => end("Stopped. The next run begins anew, with the blocks above it."));
    const reset = button("Reset", () => end("", true));
    const progress = document.createElement("progress");
    const said = document.createElement("span");
    const output = document.createElement("div");
    const views = document.createElement("div"); // the steps of a warp, and buttons of the playground
    run.setAttribute("aria-label", `Run block ${number + 1}`);
    run.classList.add("run-start");
    progress.setAttribute("aria-label", "Loading Python");
    said.setAttribute("role", "status");
    output.className = "run-output";
    output.setAttribute("role", "log");
    output.tabIndex = 0;
    output.setAttribute("aria-label", `Output of block ${number + 1}`);
    stop.hidden = progress.hidden = output.hidden = reset.hidden = true;
    box.append(run, ...(texts.length ? steps(number) : []), stop, reset, progress, said);
    code.closest(".run").after(box, output, views);
    editable(code, `Code of block ${number + 1}, which can be edited`);
    code.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        start(number);
      }
    });
    const isTest = code.closest(".run").classList.contains("test");
    return { run, stop, reset, progress, said, output, views, code, box, isTest };
  }

  // A button that runs a block and shows the steps of a warp, and the fields for which one.
  function steps(number) {
    const block = document.createElement("input"), warp = document.createElement("input");
    Object.assign(block, { value: "0, 0, 0", size: 8, inputMode: "numeric" });
    Object.assign(warp, { value: "0", size: 3, inputMode: "numeric" });
    const labels = [["of block ", block], ["warp ", warp]].map(([text, field]) => {
      const label = document.createElement("label");
      label.append(text, field);
      return label;
    });
    const go = button("Step", () => {
      const index = block.value.split(",").map((each) => Number(each.trim() || NaN)), which = Number(warp.value || NaN);
      if (index.length > 3 || ![...index, which].every((each) => Number.isInteger(each) && each >= 0))
        return say(number, "Give the index of a block as up to three numbers, such as 0, 0, 0, and a warp as one, such as 0.");
      start(number, JSON.stringify([[...index, 0, 0].slice(0, 3), which]));
    });
    go.classList.add("run-start");
    go.setAttribute("aria-label", `Run block ${number + 1} and show the steps of a warp`);
    return [go, ...labels];
  }

  function editable(code, label) {
    code.contentEditable = "true";
    code.spellcheck = false;
    code.setAttribute("role", "textbox");
    code.setAttribute("aria-multiline", "true");
    code.setAttribute("aria-label", label);
    code.addEventListener("paste", (event) => {
      event.preventDefault(); // text alone, without the formats of its source
      document.execCommand("insertText", false, event.clipboardData.getData("text/plain"));
    });
  }

  function nameOf(code) {
    return code.closest(".run-file").dataset.name;
  }

  // A button below a solution, for the task of the last test above it.
  function solve(code) {
    const above = bars.findLastIndex(
      (each) => each.isTest && each.code.compareDocumentPosition(code) & Node.DOCUMENT_POSITION_FOLLOWING,
    );
    const box = document.createElement("div");
    box.className = "run-take";
    box.append(
      button("Put it into the task", () => {
        bars[above - 1].code.textContent = code.textContent;
        say(above, "The task now has the solution: run the test.");
        bars[above].run.focus();
      }),
    );
    code.closest(".solution").after(box);
  }

  function button(label, action) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "run-button";
    made.textContent = label;
    made.addEventListener("click", action);
    return made;
  }

  function why() {
    if (location.protocol === "file:")
      return "Browsers run no code for a page that was opened as a file. Serve the folder of this site, for instance "
        + "with python3 -m http.server, and open it at the address that this prints.";
    if (typeof WebAssembly !== "object" || typeof Worker !== "function")
      return "This browser has no WebAssembly or no workers, so it cannot run Python. The page itself needs neither.";
    return "";
  }

  // Run a block; place: which warp of its first launch is shown step by step, if one is.
  function start(number, place = "") {
    if (running !== null) return;
    const missing = why();
    if (missing) return say(number, missing);
    if (worker === null) begin();
    done = Math.min(done, bars[number].isTest ? number - 1 : number); // once more, in the state that there is
    for (let at = done; at <= number; at += 1) clear(at);
    play?.begun();
    go(next(done, number), number, place);
  }

  // The next block to run, from this one on.
  function next(at, last) {
    while (at < last && bars[at].isTest) at += 1;
    return at;
  }

  function begin() {
    worker = new Worker(new URL("worker.js", here), { type: "module" });
    loaded = false;
    done = 0;
    worker.addEventListener("message", ({ data }) => hear(data));
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      end(`Python could not be started (${event.message || "a file of the site could not be loaded"}): load the page again.`);
    });
  }

  function go(at, last, place) {
    running = { at, last, place };
    busy(true);
    bars[last].stop.hidden = false;
    bars[last].progress.hidden = loaded;
    bars[last].said.textContent = loaded ? "" : "Loading Python, about 18 MB, once";
    const files = JSON.parse(decodeURIComponent(bars[at].code.closest(".run").dataset.files || "%7B%7D"));
    for (const code of texts) files[nameOf(code)] = code.textContent;
    worker.postMessage({ number: at, code: bars[at].code.textContent, files, place: at === last ? place : "" });
  }

  function busy(is) {
    for (const each of bars) for (const made of each.box.querySelectorAll(".run-start")) made.disabled = is;
  }

  function hear(said) {
    if (running === null) return;
    const { at, last, place } = running;
    if (said.kind === "loading") {
      bars[last].progress.max = said.all;
      bars[last].progress.value = said.got;
    } else if (said.kind === "loaded") {
      loaded = true;
      bars[last].progress.hidden = true;
      bars[last].said.textContent = "";
    } else if (said.kind === "text") {
      write(at, said.text, said.error);
    } else if (said.kind === "picture") {
      draw(at, said.text);
    } else if (said.kind === "steps") {
      bars[at].views.append(stepView(JSON.parse(said.text), play?.told ?? (() => {})));
    } else if (said.kind === "failed") {
      end(said.text);
    } else if (said.kind === "done") {
      done = at + 1;
      const more = at < last && !said.error;
      finish();
      if (play) bars[at].views.prepend(play.ended(errors(at)));
      if (more) go(next(at + 1, last), last, place);
      else if (said.error && at < last) say(last, `Block ${at + 1} above has failed, so this one was not run.`);
    }
  }

  function finish() {
    running = null;
    busy(false);
    for (const each of bars) {
      each.stop.hidden = each.progress.hidden = true;
      each.reset.hidden = false;
    }
  }

  // End the worker: with the state that it has, for a new beginning.
  function end(text, original = false) {
    const last = running === null ? null : running.last;
    if (worker !== null) worker.terminate();
    worker = null;
    done = 0;
    finish();
    bars.forEach((each, number) => {
      each.said.textContent = "";
      each.reset.hidden = true;
      if (original) clear(number);
    });
    if (original) {
      play?.begun();
      every.forEach((code, at) => { if (code.textContent !== kept[at]) code.textContent = kept[at]; });
    }
    if (text && last !== null) say(last, text);
  }

  function clear(number) {
    const each = bars[number];
    each.output.replaceChildren();
    each.output.hidden = true;
    each.views.replaceChildren();
    each.said.textContent = "";
  }

  function errors(number) {
    const parts = [bars[number].output, bars[number].views].flatMap((each) => [...each.querySelectorAll(".run-error")]);
    return parts.map((part) => part.textContent).join("");
  }

  function say(number, text) {
    bars[number].said.textContent = text;
  }

  function write(number, text, error) {
    const part = document.createElement("span");
    if (error) part.className = "run-error";
    part.textContent = text;
    add(number, part);
  }

  // The markup is what the package itself draws; it is shown as a picture, in which nothing runs.
  function draw(number, markup) {
    const picture = document.createElement("img");
    picture.alt = "The picture that the block has drawn";
    picture.src = URL.createObjectURL(new Blob([markup], { type: "image/svg+xml" }));
    add(number, picture);
  }

  function add(number, part) {
    bars[number].output.append(part);
    bars[number].output.hidden = false;
  }
})();
