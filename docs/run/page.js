// Run buttons below the blocks of code that can run in a browser. docs/make_site.py marks those blocks; worker.js runs
// them. The blocks of a page share one state, in the order of the page. A block that tests the one above it, a task, runs
// together with it, and only if it is asked for; the solution of a task can be put into it.
"use strict";
(() => {
  const here = document.currentScript.src;
  const blocks = [...document.querySelectorAll(".md-content .run > pre > code")];
  if (!blocks.length) return;
  let worker = null; // null until a block is run, and after a stop
  let running = null; // the block that runs now
  let done = 0; // how many blocks have run in this state
  let loaded = false;
  const bars = blocks.map(bar);
  document.querySelectorAll(".md-content .solution > pre > code").forEach(solve);
  // The files of the playground, which can be edited, and the links that keep them and the blocks.
  const texts = [...document.querySelectorAll(".md-content .run-file > pre > code")];
  const kept = texts.map((code) => code.textContent);
  texts.forEach((code) => editable(code, `The file ${nameOf(code)}, which can be edited`));
  if (texts.length) link();

  function bar(code, number) {
    const box = document.createElement("div");
    box.className = "run-bar";
    const run = button("Run", () => start(number));
    const stop = button("Stop", () => end("Stopped. The next run begins anew, with the blocks above it."));
    const reset = button("Reset", () => end("", true));
    const progress = document.createElement("progress");
    const said = document.createElement("span");
    const output = document.createElement("div");
    run.setAttribute("aria-label", `Run block ${number + 1}`);
    progress.setAttribute("aria-label", "Loading Python");
    said.setAttribute("role", "status");
    output.className = "run-output";
    output.setAttribute("role", "log");
    output.tabIndex = 0;
    output.setAttribute("aria-label", `Output of block ${number + 1}`);
    stop.hidden = progress.hidden = output.hidden = reset.hidden = true;
    box.append(run, stop, reset, progress, said);
    code.closest(".run").after(box, output);
    editable(code, `Code of block ${number + 1}, which can be edited`);
    code.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        start(number);
      }
    });
    const isTest = code.closest(".run").classList.contains("test");
    return { run, stop, reset, progress, said, output, code, box, isTest, original: code.textContent };
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

  // The program in the address: it is shown as text, and runs only when the reader presses Run.
  function link() {
    const box = document.createElement("div");
    box.className = "run-take";
    const said = document.createElement("span");
    said.setAttribute("role", "status");
    const every = [...texts, ...blocks];
    const make = button("Put it into the address", () => {
      const program = encodeURIComponent(JSON.stringify(every.map((code) => code.textContent)));
      history.replaceState(null, "", `#program=${program}`);
      said.textContent = program.length > 30000
        ? "The address now has the program. It is long, and some programs cut such a link: send the text instead."
        : "The address now has the program: copy it from there.";
    });
    const take = () => {
      if (!location.hash.startsWith("#program=")) return;
      try {
        const found = JSON.parse(decodeURIComponent(location.hash.slice("#program=".length)));
        if (!Array.isArray(found) || found.length !== every.length || found.some((each) => typeof each !== "string"))
          throw new Error("it has other parts than this page");
        if (worker !== null) end("", true);
        every.forEach((code, at) => { code.textContent = found[at]; });
        said.textContent = "This program came with the link. Read it before you press Run.";
      } catch (error) {
        said.textContent = "The link is damaged, so the page shows its own program: ask for the link again, or for the "
          + `text of the program (${error.message}).`;
      }
    };
    box.append(make, said);
    bars[0].box.before(box);
    addEventListener("hashchange", take);
    take();
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

  function start(number) {
    if (running !== null) return;
    const missing = why();
    if (missing) return say(number, missing);
    if (worker === null) begin();
    done = Math.min(done, bars[number].isTest ? number - 1 : number); // once more, in the state that there is
    for (let at = done; at <= number; at += 1) clear(at);
    go(next(done, number), number);
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

  function go(at, last) {
    running = { at, last };
    for (const each of bars) each.run.disabled = true;
    bars[last].stop.hidden = false;
    bars[last].progress.hidden = loaded;
    bars[last].said.textContent = loaded ? "" : "Loading Python, about 18 MB, once";
    const files = JSON.parse(decodeURIComponent(bars[at].code.closest(".run").dataset.files || "%7B%7D"));
    for (const code of texts) files[nameOf(code)] = code.textContent;
    worker.postMessage({ number: at, code: bars[at].code.textContent, files });
  }

  function hear(said) {
    if (running === null) return;
    const { at, last } = running;
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
      draw(at, said.markup);
    } else if (said.kind === "failed") {
      end(said.text);
    } else if (said.kind === "done") {
      done = at + 1;
      const more = at < last && !said.error;
      finish();
      if (more) go(next(at + 1, last), last);
      else if (said.error && at < last) say(last, `Block ${at + 1} above has failed, so this one was not run.`);
    }
  }

  function finish() {
    running = null;
    for (const each of bars) {
      each.run.disabled = false;
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
    if (original) texts.forEach((code, at) => { code.textContent = kept[at]; });
    bars.forEach((each, number) => {
      each.said.textContent = "";
      each.reset.hidden = true;
      if (original) {
        clear(number);
        if (each.code.textContent !== each.original) each.code.textContent = each.original;
      }
    });
    if (text && last !== null) say(last, text);
  }

  function clear(number) {
    const each = bars[number];
    each.output.replaceChildren();
    each.output.hidden = true;
    each.said.textContent = "";
  }

  function say(number, text) {
    bars[number].said.textContent = text;
  }

  function write(number, text, error) {
    const part = document.createElement("span");
    if (error) part.className = "run-error";
    part.textContent = text;
    bars[number].output.append(part);
    bars[number].output.hidden = false;
  }

  // The markup is what the package itself draws; it is shown as a picture, in which nothing runs.
  function draw(number, markup) {
    const picture = document.createElement("img");
    picture.alt = "The picture that the block has drawn";
    picture.src = URL.createObjectURL(new Blob([markup], { type: "image/svg+xml" }));
    bars[number].output.append(picture);
    bars[number].output.hidden = false;
  }
})();
