"""nvcc, NVIDIA's compiler as a program. It is used if NVRTC is not installed.

What it is   `Nvcc`, with the interface of nvrtc.py's `Nvrtc`: it compiles a `Request` in a temporary folder.
What not     it cannot find the names of templates, because nvcc does not report them.
Source       NVIDIA, "CUDA Compiler Driver NVCC", "NVCC Command Options"
Read next    messages.py
"""

from __future__ import annotations

import os
import re

from .. import locate
from ..images import outline
from .request import VARIABLES, Outcome, named, reported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .request import Request

__all__ = ["Nvcc"]

_FLAGS = {"ptx": ["-ptx"], "cubin": ["-cubin"], "ltoir": ["-dlto", "-ltoir"]}
_VARIABLES = (*VARIABLES, "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH")
_HOSTS = ("gcc", "g++", "cl")  # the compilers of the host, which nvcc looks for on the PATH
FAILED = 6  # the number of NVRTC_ERROR_COMPILATION: nvcc's exit status does not distinguish the kinds of failure
BAD_OPTION = 5


class Nvcc:
    """The program nvcc at a path.

    path           its file
    version        (major, minor)
    architectures  those that it compiles for, in ascending order: 90 is sm_90
    raises  OSError  it cannot be run, or is not nvcc
    """

    kind = "nvcc"

    def __init__(self, path: str) -> None:
        self.path = path
        locate.refuse_toolkit(path)
        status, told = _run([path, "--version"])
        found = re.search(r"release (\d+)\.(\d+)", told)
        if found is None:
            raise OSError(f"it is not nvcc: --version ends with status {status} and says {told.strip()[:200]!r}")
        self.version, self._told = (int(found[1]), int(found[2])), told
        self.architectures = sorted(map(int, re.findall(r"compute_(\d+)", _run([path, "--list-gpu-arch"])[1])))

    def identity(self) -> str:
        """Return a text that changes if this compiler could produce different code."""
        import shutil

        variables = [f"{name}={os.environ.get(name)}" for name in _VARIABLES]
        hosts = [shutil.which(name, path=locate.environment()["PATH"]) for name in _HOSTS]
        for path in map(os.path.realpath, [self.path, *(host for host in hosts if host)]):
            status = os.stat(path)
            variables.append(f"{path} {status.st_size} {status.st_mtime_ns}")
        return "\n".join([self.kind, self._told, *variables])

    def options(self, request: Request, folders: list[str]) -> list[str]:
        """Return the options for a request: the user's own, the target, and the folders of headers."""
        kind = {"ptx": "compute", "cubin": "sm", "ltoir": "lto"}[request.output]
        target = f"-arch={kind}_{request.target.number}{request.target.suffix}"
        near = []
        if request.is_file:
            near = [os.path.dirname(os.path.abspath(request.name))]
        return [*request.options, *_FLAGS[request.output], target, *(f"-I{folder}" for folder in near + folders)]

    def compile(self, request: Request, folders: list[str]) -> Outcome:
        """Compile, and return an Outcome, also after a failure.

        folders  where to look for headers, after the folders that the options name
        raises   ValueError       a header whose name leads out of its folder
                 PermissionError  other users can exchange the folder for temporary files, or a part of the toolkit
        """
        import tempfile

        locate.refuse_toolkit(self.path)
        with tempfile.TemporaryDirectory(dir=os.path.abspath(tempfile.gettempdir())) as folder:
            locate.refuse_planted(folder, private=True)
            source, made = os.path.join(folder, "source.cu"), os.path.join(folder, "made")
            with open(source, "wb") as file:  # a copy, so that what is compiled is what was read
                file.write(named(os.fsencode(request.name), request.source))
            include = os.path.join(folder, "include")
            for name, text in request.headers.items():
                path = os.path.normpath(os.path.join(include, name))
                if not path.startswith(include + os.sep):
                    raise ValueError(f"header {name!r}: nvcc needs a relative name without '..'")
                try:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as file:
                        file.write(text)
                except (FileExistsError, NotADirectoryError, IsADirectoryError):
                    raise ValueError(f"header {name!r}: for nvcc, no header's name is a folder of another's") from None
            options = [f"-I{include}", *self.options(request, folders)]
            status, log = _run([self.path, *options, "-o", made, "-x", "cu", source], folder)
            if status or not os.path.exists(made):
                kind = FAILED
                if "nvcc fatal" in log and ": error" not in log:
                    kind = BAD_OPTION
                return Outcome(b"", log, {}, kind, f"exit status {status}", "nvcc")
            with open(made, "rb") as file:
                code = file.read()
        if request.output != "ptx":
            names = {}
        else:
            names = _names(request.names, code.decode("utf-8", "replace"))
        return Outcome(code, log, names)

    def __repr__(self) -> str:
        return f"<nvcc {self.version[0]}.{self.version[1]} {self.path}>"


def _names(wanted: tuple[str, ...], text: str) -> dict[str, str]:
    """Find names among the kernels of a PTX text: as they are, or as C++ mangles them if that is unambiguous."""
    kernels = [each.name for each in outline.declarations(text) if each.kind == "entry" and each.defined]
    found = {}
    for name in wanted:
        *outer, last = name.split("::")
        nested = "".join(f"{len(part)}{part}" for part in (*outer, last))
        if outer:
            nested = f"N{nested}E"
        mangled = [kernel for kernel in kernels if kernel.startswith(f"_Z{nested}")]
        mangled = [kernel for kernel in mangled if kernel[len(nested) + 2 :][:1] != "I"]  # templates
        if name in kernels:
            found[name] = name
        elif len(mangled) == 1:
            found[name] = mangled[0]
    return found


def _run(command: list[str], folder: str = "") -> tuple[int, str]:
    """Run a program, and return its exit status and all that it wrote.

    folder  a private folder for its temporary files, which could be exchanged elsewhere; "": it writes none
    """
    import subprocess

    environment = locate.environment()  # it finds the host's compiler there
    for name in ("TMPDIR", "TMP", "TEMP") if folder else ():
        environment[name] = folder

    def run(path: str, options: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            [path, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            env=environment,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")

    return reported("nvcc", ("path", "options"), run, (command[0], command[1:]), lambda done: f"exit status {done[0]}")
