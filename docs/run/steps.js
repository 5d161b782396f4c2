// The steps of a warp: one instruction after the other, with its lanes, registers and memory. The data are those of
// Steps.as_dict(); told(step) is called whenever another step is shown.
"use strict";
function stepView(data, told) {
  const steps = data.steps;
  const used = Array.from({ length: 32 }, (_, lane) => lane).filter((lane) => steps.some((each) => each.reached[lane]));
  const view = make("section", "steps");
  view.setAttribute("aria-label", `Steps of ${data.kernel}()`);
  const more = data.complete ? "" : ", the first ones";
  view.append(make("p", "steps-head", `${data.kernel}(), warp ${data.warp} of block (${data.block.join(", ")}): `
    + `${steps.length} steps${more}`));
  if (data.error) view.append(make("pre", "run-error", data.error));
  if (!steps.length) return view;

  const moves = [
    ["First", () => 0], ["Back", (at) => at - 1], ["Forward", (at) => at + 1], ["Last", () => steps.length - 1],
  ].map(([label, to]) => {
    const button = make("button", "run-button", label);
    button.type = "button";
    button.addEventListener("click", () => go(to(Number(slider.value))));
    return button;
  });
  const slider = make("input", "");
  Object.assign(slider, { type: "range", min: 0, max: steps.length - 1, value: 0 });
  slider.setAttribute("aria-label", "Step");
  slider.addEventListener("input", () => go(Number(slider.value)));
  const bar = make("div", "run-bar");
  bar.append(moves[0], moves[1], slider, moves[2], moves[3]);
  const said = make("p", "steps-said");
  said.setAttribute("role", "status");
  const lanes = make("div", "steps-lanes");
  lanes.setAttribute("role", "img");
  const tables = make("div", "steps-tables");
  tables.tabIndex = 0;
  tables.setAttribute("role", "region");
  tables.setAttribute("aria-label", "Registers and memory");
  view.append(bar, said, lanes, tables);
  go(data.error ? steps.length - 1 : 0);
  return view;

  function go(to) {
    const at = Math.max(0, Math.min(to, steps.length - 1));
    const step = steps[at];
    slider.value = at;
    moves[0].disabled = moves[1].disabled = at === 0;
    moves[2].disabled = moves[3].disabled = at === steps.length - 1;
    const depth = step.depth ? ` in ${step.function}()` : "";
    const source = step.source ? ` (${step.source})` : "";
    said.textContent = `Step ${at + 1} of ${steps.length}, line ${step.line}${depth}${source}: ${step.text}`;
    slider.setAttribute("aria-valuetext", said.textContent);
    drawLanes(step);
    tables.replaceChildren(...[memory(step), registers(at)].filter((each) => each !== null));
    told(step);
  }

  function drawLanes(step) {
    const acting = step.active.filter(Boolean).length, here = step.reached.filter(Boolean).length;
    const idle = here - acting ? `, ${here - acting} came here and did not act, since their predicate is false` : "";
    lanes.setAttribute("aria-label", `${acting} of 32 lanes executed it${idle}`);
    lanes.title = lanes.getAttribute("aria-label");
    lanes.replaceChildren(...step.active.map((acts, lane) =>
      make("span", acts ? "acts" : step.reached[lane] ? "here" : "", String(lane))));
  }

  // The values after this step: those that changed in it, or in a step of the same function and depth before it.
  function registers(at) {
    const same = (each) => each.function === steps[at].function && each.depth === steps[at].depth;
    const known = Object.assign({}, ...steps.slice(0, at + 1).filter(same).map((each) => each.registers));
    const rows = Object.entries(known).filter(([, values]) => values.some((value) => value !== null));
    if (!rows.length) return null;
    const table = grid("Registers", ["register", ...used.map((lane) => `lane ${lane}`)]);
    for (const [name, values] of rows) {
      const row = table.tBodies[0].insertRow();
      if (steps[at].written.includes(name)) row.className = "changed";
      row.append(head(name, "row"));
      const texts = used.map((lane) => shown(values[lane]));
      if (texts.length > 1 && texts.every((text) => text === texts[0])) {
        const cell = row.insertCell();
        cell.colSpan = texts.length;
        cell.textContent = `${texts[0]} in all lanes`;
      } else texts.forEach((text) => { row.insertCell().textContent = text; });
    }
    return table;
  }

  function memory(step) {
    if (!step.memory.length) return null;
    const table = grid("Memory", ["lane", "what", "where", "bytes", "value"]);
    for (const each of step.memory) {
      const row = table.tBodies[0].insertRow();
      row.append(head(each.lane, "row"));
      const where = each.space === "param" ? `+${each.address}` : hex(each.address);
      for (const text of [each.kind, `${each.space} ${where}`, each.nbytes, shown(each.value)])
        row.insertCell().textContent = text;
    }
    return table;
  }

  function grid(caption, names) {
    const table = make("table", "steps-table");
    table.createCaption().textContent = caption;
    table.createTHead().insertRow().append(...names.map((name) => head(name, "col")));
    table.createTBody();
    return table;
  }

  function head(text, scope) {
    const cell = make("th", "", text);
    cell.scope = scope;
    return cell;
  }

  function hex(value) {
    return typeof value === "number" ? `0x${value.toString(16)}` : value;
  }

  function shown(value) {
    if (value === null || value === undefined) return "";
    if (Array.isArray(value)) return `(${value.map(shown).join(", ")})`;
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) ? (value >= 2 ** 32 ? hex(value) : String(value)) : String(Number(value.toPrecision(9)));
  }

  function make(tag, kind, text = "") {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    made.textContent = text;
    return made;
  }
}
