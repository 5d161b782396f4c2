"""NVIDIA's own drivers, unpacked from packages, and what they answer on a machine without a GPU.

What it is   `drivers()`, which unpacks libcuda of several generations; `unpack()`, which does that with any package;
             and, run as a program, the questions to one of them, whose answers it prints as JSON.
What not     an installation: nothing outside of the folder .venv/libcuda of the checkout is written, but cuInit of a
             real driver makes /dev/nvidiactl if root calls it; `Nodes` removes it again.
Source       the packages libcuda1, libnvidia-tesla-cuda1 and libnvidia-tesla-470-cuda1 of Debian (non-free)
Read next    test_real_libcuda.py
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

# The suite of Debian, and what its packages have in their names behind "nvidia-". The drivers are of CUDA 11.4, 12.0,
# 12.2, 12.4 and 12.5; no suite has a newer one.
DRIVERS = {
    "tesla-470": ("bookworm", "tesla-470-"),
    "tesla": ("bookworm", "tesla-"),
    "bookworm": ("bookworm", ""),
    "trixie": ("trixie", ""),
    "experimental": ("experimental", ""),
}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
VARIABLE = "CUDA_DRIVERS"  # more files libcuda.so.1, separated as in PATH


@functools.cache
def drivers(cache):
    """Return the real libcuda.so.1 files, and the reason why there are not more."""
    found = [Path(path) for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]
    reason = ""
    for name, (suite, kind) in DRIVERS.items():
        folder = cache / name
        if not folder.exists() and not reason:  # after a failure, the next one would only take time
            packages = [f"libnvidia-{kind}{what}" for what in ("cuda1", "ptxjitcompiler1")]
            reason = unpack(folder, suite, [name.replace("nvidia-cuda1", "cuda1") for name in packages])
        found += sorted(folder.glob("root/**/libcuda.so.1"))
    return found, reason


def _mirror():
    """Return the archive of Debian that this machine's apt uses, or None."""
    places = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(path.read_text("utf-8", "replace") for path in places if path.is_file())
    found = re.search(r"https?://\S+/debian/?(?=\s|$)", text)
    return found[0] if found else None


def unpack(target, suite, packages, *, source=False):
    """Download packages of a suite and unpack them below target/root; return "" or the reason why it was not possible.

    source  whether to unpack their source, each into target/root/PACKAGE, without Debian's changes
    """
    mirror, programs = _mirror(), ("apt-get", "dpkg-source" if source else "dpkg-deb")
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        return f"there is no {missing[0]} here to unpack packages with"
    if mirror is None or not KEYRING.is_file():
        return "apt's sources name no archive of Debian"
    folder = target.with_name(f"{target.name}.{os.getpid()}")  # renamed when it is complete
    for name in ("lists/partial", "cache/archives/partial", "deb", "root"):
        (folder / name).mkdir(parents=True)
    sources, kind = folder / "list.sources", "deb-src" if source else "deb"
    sources.write_text(
        f"Types: {kind}\nURIs: {mirror}\nSuites: {suite}\nComponents: main non-free\nSigned-By: {KEYRING}\n", "utf-8"
    )
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::http::Timeout": 20,
        "Acquire::Retries": 1,
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    download = ["source", "--download-only"] if source else ["download", "-t", suite]
    try:
        for command in ([*apt, "update"], [*apt, *download, *packages]):
            subprocess.run(command, cwd=folder / "deb", check=True, capture_output=True, timeout=300)
        for package in (folder / "deb").glob("*.dsc" if source else "*.deb"):
            command = ["dpkg-deb", "-x", package, folder / "root"]
            if source:
                place = folder / "root" / package.name.partition("_")[0]
                command = ["dpkg-source", "--no-check", "--skip-patches", "-x", package, place]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", b"") or b"").decode("utf-8", "replace").strip().splitlines()
        shutil.rmtree(folder)
        return f"{suite}: {said[-1] if said else error}"
    for name in ("lists", "cache", "deb"):
        shutil.rmtree(folder / name)
    try:
        folder.rename(target)
    except OSError:  # another process was faster
        shutil.rmtree(folder)
    return ""


class Nodes:
    """The device nodes of NVIDIA's driver; those that were not there before are removed afterwards."""

    def __enter__(self):
        self._before = set(Path("/dev").glob("nvidia*"))

    def __exit__(self, *exception):
        for path in set(Path("/dev").glob("nvidia*")) - self._before:
            path.unlink(missing_ok=True)  # a test in another process may have been faster


# -- the questions


def exported(path):
    """Return the symbols that a 64-bit ELF library exports."""
    data = Path(path).read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01", path
    offset, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + size * n) for n in range(count)]
    [symbols] = [section for section in sections if section[1] == 11]  # SHT_DYNSYM
    names = sections[symbols[6]][4]
    found = set()
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, section = struct.unpack_from("<IBBH", data, at)
        if section:  # defined here
            start = names + name
            found.add(data[start : data.index(b"\0", start)].decode())
    return found


def ask(library, path, questions, calls):
    """Return the answers of a loaded driver before cuInit.

    questions  (name, version, flags) for cuGetProcAddress
    calls      (symbol, "p" for a pointer and "i" for an integer for each parameter)
    """
    symbols = sorted(name for name in exported(path) if name.startswith("cu")) if path else []
    version, text = ctypes.c_int(), ctypes.c_char_p()
    answers = {"symbols": symbols, "driver version": [library.cuDriverGetVersion(ctypes.byref(version)), version.value]}
    codes = {}
    for code in [*range(-2, 1100), 2**31 - 1, -(2**31)]:
        row = []
        for function in (library.cuGetErrorName, library.cuGetErrorString):
            text.value = b"untouched"
            row += [function(code, ctypes.byref(text)), None if text.value is None else text.value.decode()]
        if row != [1, None, 1, None]:
            codes[code] = row
    answers["codes"] = codes
    places = {ctypes.cast(library[name], ctypes.c_void_p).value: name for name in symbols}
    answers["addresses"] = [resolve(library, name, asked, flags, places) for name, asked, flags in questions]
    answers["refusals"] = {symbol: call(library[symbol], form) for symbol, form in calls if symbol in symbols}
    return answers


def call(function, form):
    """Call a function with 0 for each integer and 1 KiB of zeros for each pointer; return the code."""
    kept = [(ctypes.c_uint64 * 128)() for _ in form]
    words = [ctypes.addressof(buffer) if letter == "p" else 0 for letter, buffer in zip(form, kept)]
    return function(*map(ctypes.c_uint64, words))


def resolve(library, name, version, flags, places):
    """Return [code, symbol] of cuGetProcAddress, and [code, symbol, status] of cuGetProcAddress_v2 if it is there."""
    found = []
    for number in (1, 2) if hasattr(library, "cuGetProcAddress_v2") else (1,):
        place, status = ctypes.c_void_p(1), ctypes.c_int(-1)
        arguments = [name.encode(), ctypes.byref(place), ctypes.c_int(version), ctypes.c_uint64(flags)]
        if number == 1:
            code = library.cuGetProcAddress(*arguments)
        else:
            code = library.cuGetProcAddress_v2(*arguments, ctypes.byref(status))
        symbol = {1: "untouched", None: ""}.get(place.value) or places.get(place.value, "")
        found += [code, symbol] if number == 1 else [code, symbol, status.value]
    return found


if __name__ == "__main__":
    json.dump(ask(ctypes.CDLL(sys.argv[1]), sys.argv[1], *json.load(sys.stdin)), sys.stdout)
