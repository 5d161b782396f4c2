// Python in a worker: it gets the code of one block after the other, and sends what they print and show.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const ALL = 17_900_000; // bytes that are loaded, about
let got = 0;
const load = self.fetch;
const fail = (why) => postMessage({ kind: "failed", text: `Python could not be loaded (${why}): load the page again.` });
self.fetch = async (...asked) => {
  let answer;
  try {
    answer = await load(...asked);
  } catch (error) {
    fail(error.message); // Pyodide would wait for ever for a file that did not come
    throw error;
  }
  if (!answer.ok) fail(`${answer.status} for ${answer.url}`);
  if (!answer.ok || !answer.body) return answer;
  const counting = new TransformStream({
    transform(part, to) {
      got += part.byteLength;
      postMessage({ kind: "loading", got, all: Math.max(ALL, got) });
      to.enqueue(part);
    },
  });
  return new Response(answer.body.pipeThrough(counting), { status: answer.status, headers: answer.headers });
};

const MOST = 200_000; // characters of output that a block shows
let shown = 0;
const decoder = { out: new TextDecoder(), error: new TextDecoder() };
const write = (error) => ({
  write(bytes) {
    const text = decoder[error ? "error" : "out"].decode(bytes, { stream: true });
    if (shown <= MOST) postMessage({ kind: "text", text: text.slice(0, MOST - shown), error });
    if (shown <= MOST && shown + text.length > MOST)
      postMessage({ kind: "text", text: "\n... the rest of the output is not shown\n", error: true });
    shown += text.length;
    return bytes.length;
  },
  isatty: false,
});

async function begin() {
  const python = await loadPyodide();
  python.setStdout(write(false));
  python.setStderr(write(true));
  const bundle = await self.fetch(new URL("rawcuda.zip", import.meta.url));
  if (!bundle.ok) throw new Error("rawcuda.zip of this site could not be loaded");
  python.unpackArchive(await bundle.arrayBuffer(), "zip", { extractDir: "/package" });
  python.globals.set("tell", (kind, text) => postMessage({ kind, text }));
  python.runPython(`
import sys
sys.path.insert(0, "/package")
import page_blocks
page_blocks.begin(tell)
`);
  return python.pyimport("page_blocks");
}

const ready = begin();
ready.then(
  () => postMessage({ kind: "loaded" }),
  (error) => fail(error.message),
);

self.addEventListener("message", async ({ data }) => {
  const blocks = await ready;
  shown = 0;
  try {
    const failed = blocks.run(data.number, data.code, JSON.stringify(data.files), data.place);
    postMessage({ kind: "done", error: failed });
  } catch (error) {
    postMessage({ kind: "failed", text: `Python has ended: ${String(error.message).trim().split("\n").at(-1)}` });
  }
});
