// Run Python code in Pyodide under Node.js: node run.mjs PYODIDE FOLDER=PLACE... -- MODULE ARGUMENT...
// Each FOLDER of this machine is seen at PLACE; MODULE is run as a program, and its exit status is that of this one.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, ...rest] = process.argv.slice(2);
const end = rest.indexOf("--");
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
const write = (stream) => ({ write: (bytes) => (stream.write(Buffer.from(bytes)), bytes.length), isatty: false });
const python = await loadPyodide();
python.setStdout(write(process.stdout));
python.setStderr(write(process.stderr));
for (const each of rest.slice(0, end)) {
  const [root, place] = each.split("=");
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, place);
}
python.globals.set("PLACES", python.toPy(rest.slice(0, end).map((each) => each.split("=")[1])));
python.globals.set("ARGUMENTS", python.toPy(rest.slice(end + 1)));
try {
  process.exitCode = await python.runPythonAsync(`
import os, runpy, sys
sys.dont_write_bytecode = True
sys.path[:0] = PLACES
sys.argv = list(ARGUMENTS)
os.chdir(PLACES[0])
status = 0
try:
    runpy.run_module(ARGUMENTS[0], run_name="__main__", alter_sys=True)
except SystemExit as end:
    status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
status
`);
} catch (error) {
  console.log(String(error.message));
  process.exitCode = 1;
}
