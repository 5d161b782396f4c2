"""Make a release: python3 -m tests.release [FOLDER]

It checks that there is one version and that CHANGELOG.md has a section for it, builds the
wheel and the source distribution twice and compares them byte by byte, checks them with twine, and installs each in an
empty environment of every Python of this machine from 3.9 on, where a kernel runs. The files are written to dist/, with
a bill of materials (CycloneDX) and SHA256SUMS, the checksums of all of them. Nothing is uploaded.

    --draft     the changelog may still say "Unreleased"
    --here      install only with this Python
"""

from __future__ import annotations

import argparse
import configparser
import email
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
import zipfile
from pathlib import Path

from tests.__main__ import environment

CHECKOUT = Path(__file__).resolve().parent.parent
TOOLS = ["build", "setuptools >= 77", "twine"]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", "build", "dist", "*.egg-info", ".*_cache")


def main() -> int:
    """Build, compare, check and install; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser("python3 -m tests.release", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("folder", nargs="?", type=Path, default=CHECKOUT / "dist", help="dist/ in the checkout")
    parser.add_argument("--draft", action="store_true", help='the changelog may still say "Unreleased"')
    parser.add_argument("--here", action="store_true", help="install only with this Python")
    options = parser.parse_args()
    wrong = problems(CHECKOUT, options.draft)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    tools = environment(TOOLS)
    with tempfile.TemporaryDirectory() as name:
        one, other = (built(tools, Path(name) / each) for each in ("one", "other"))
        for first, second in zip(one, other):
            if first.name != second.name or first.read_bytes() != second.read_bytes():
                print(f"{first.name} differs between two builds", file=sys.stderr)
                return 1
        subprocess.run([tools, "-m", "twine", "check", "--strict", *map(str, one)], check=True)
        for python in [sys.executable] if options.here else pythons():
            for archive in one:
                install(python, archive, tools)
        written(one, options.folder)
    return 0


def problems(checkout: Path, draft: bool = False) -> list[str]:
    """Return what must be mended before a release."""
    setup = configparser.ConfigParser()
    setup.read(checkout / "setup.cfg", encoding="utf-8")
    stated = setup["metadata"]["version"].strip()
    package = (checkout / "rawcuda" / "__init__.py").read_text("utf-8")
    [version] = re.findall(r'^__version__ = "(.*)"$', package, re.M)
    wrong = (
        [] if stated == "attr: rawcuda.__version__" else ["setup.cfg must take the version from rawcuda/__init__.py"]
    )
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        wrong.append(f"rawcuda/__init__.py: __version__ = {version!r} is not a version such as 1.2.3")
    changes = (checkout / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## (.*)$", changes, re.M)
    if not draft and (not sections or not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", sections[0])):
        wrong.append(f"CHANGELOG.md: its first section must be '## {version} (YEAR-MONTH-DAY)', and not {sections[:1]}")
    if len(sections) != len(set(sections)):
        wrong.append("CHANGELOG.md: two sections have the same title")
    cited = re.findall(r"^version: (.*)$", (checkout / "CITATION.cff").read_text("utf-8"), re.M)
    if cited != [version]:
        wrong.append(f"CITATION.cff: its version is {', '.join(cited)}, and not {version}")
    return wrong


def built(tools: str, folder: Path) -> list[Path]:
    """Build the source distribution and the wheel from a copy of the checkout; return them."""
    copy = folder / "copy"
    shutil.copytree(CHECKOUT, copy, ignore=LEFT_OUT)
    epoch = "1577836800"  # 2020-01-01: the time of every file in the archives
    env = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    command = [tools, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(copy)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    for archive in (folder / "dist").glob("*.tar.gz"):
        settle_tar(archive, int(epoch))
    for archive in (folder / "dist").glob("*.whl"):
        settle_wheel(archive)
    return sorted((folder / "dist").iterdir())


def written(archives: list[Path], folder: Path) -> None:
    """Write the archives, the bill of materials of each wheel, and the checksums of all these files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {archive.name: archive.read_bytes() for archive in archives}
    for archive in archives:
        if archive.suffix == ".whl":
            text = json.dumps(materials(archive), indent=1, sort_keys=True) + "\n"
            files["-".join(archive.name.split("-")[:2]) + ".cdx.json"] = text.encode()
    sums = "".join(f"{checksum(content)}  {name}\n" for name, content in sorted(files.items()))
    for name, content in [*files.items(), ("SHA256SUMS", sums.encode())]:
        (folder / name).write_bytes(content)
    print(sums + f"written to {folder}")


def checksum(content: bytes) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def materials(wheel: Path) -> dict[str, object]:
    """Return the bill of materials of a wheel: its files, and what it needs; CycloneDX 1.5.

    Requirements of extras are left out: nothing of them is in the wheel, or is installed with it.
    """
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    [about] = (content for name, content in contents.items() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(about)
    name = f"pkg:pypi/{metadata['Name']}@{metadata['Version']}"
    needed = [each for each in metadata.get_all("Requires-Dist", []) if "extra" not in each.partition(";")[2]]
    digest = checksum(wheel.read_bytes())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name + digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": name,
                "purl": name,
                "name": metadata["Name"],
                "version": metadata["Version"],
                "licenses": [{"expression": metadata["License-Expression"] or metadata["License"]}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": [
            *({"type": "library", "bom-ref": each, "name": each} for each in needed),
            *(
                {"type": "file", "name": path, "hashes": [{"alg": "SHA-256", "content": checksum(content)}]}
                for path, content in sorted(contents.items())
            ),
        ],
        "dependencies": [{"ref": name, "dependsOn": needed}],
    }


def settle_tar(archive: Path, epoch: int) -> None:
    """Write a tar file again with sorted names, one time, and no users."""
    with tarfile.open(archive) as old:
        members = sorted(old.getmembers(), key=lambda member: member.name)
        files = [old.extractfile(member) for member in members]  # None for a folder
        contents = [b"" if file is None else file.read() for file in files]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member, content in zip(members, contents):
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, len(content), epoch
            clean.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(clean, io.BytesIO(content))
    with archive.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=epoch) as file:
        file.write(packed.getvalue())


def settle_wheel(archive: Path) -> None:
    """Write a wheel again with sorted names, one time, one mode, and the best compression."""
    with zipfile.ZipFile(archive) as old:
        contents = {name: old.read(name) for name in sorted(old.namelist())}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type, entry.create_system = 0o644 << 16, zipfile.ZIP_DEFLATED, 3
            new.writestr(entry, content)


def pythons() -> list[str]:
    """Return one interpreter of each version from 3.9 on that this machine has."""
    found: dict[str, str] = {"{}.{}".format(*sys.version_info[:2]): sys.executable}
    places = [*map(str, (Path.home() / ".pyenv" / "versions").glob("*/bin")), *os.get_exec_path()]
    for minor in range(9, 16):
        path = shutil.which(f"python3.{minor}", path=os.pathsep.join(places))
        if path:
            found.setdefault(f"3.{minor}", path)
    return list(found.values())


def install(python: str, archive: Path, tools: str) -> None:
    """Install an archive in an empty environment, without a network, and run a kernel with it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", "--without-pip", f"{folder}/new"], check=True)
        inside = f"{folder}/new/" + ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        wheel = archive
        if archive.suffix != ".whl":
            made = [
                tools,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "--no-build-isolation",
                "-w",
                folder,
                str(archive),
            ]
            subprocess.run(made, check=True)
            [wheel] = Path(folder).glob("*.whl")
        subprocess.run(
            [tools, "-m", "pip", "--python", inside, "install", "--quiet", "--no-deps", "--no-index", str(wheel)],
            check=True,
        )
        env = {**os.environ, "PYTHONPATH": ""}
        for words in (["-m", "rawcuda", "--version"], ["-m", "rawcuda", "doctor", "--driver", "emulator"]):
            done = subprocess.run([inside, *words], cwd=folder, env=env, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{archive.name} with {python}: {done.stdout}{done.stderr}")
        print(f"{archive.name} runs with {python}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
