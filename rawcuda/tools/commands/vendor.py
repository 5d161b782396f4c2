"""`vendor`: copy this package, or a part of it, into another project; and check later whether a copy was changed.

What it is   the command. VENDORED.txt in a copy describes it: version, part, date, commit, licence, and the SHA-256 of
             each file, in the format of `sha256sum -c`. A new copy is written beside its destination and then renamed.
What not     it deletes only files that it has written, and never replaces a copy that was edited. Files are read
             through the loader, so the command works from a checkout, a wheel or a zip.
Read next    parts.py: what a copy is made of
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import stat
import subprocess
import tempfile
from importlib.resources import files
from keyword import iskeyword
from typing import NamedTuple
from unicodedata import normalize

from ... import __version__, locate
from ..terminal import say
from .console import PACKAGE, PROGRAM, Parser, Refusal, speaking_of
from .parts import MANIFEST, PARTS, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Callable

    from .parts import Files

__all__ = ["main", "make_parser", "write", "check"]

_FIRST_LINE = re.compile(r"(\S+) (\S{1,100}), (all|" + "|".join(PARTS) + r"), copied on (\d{4}-\d\d-\d\d)\.")
_HASH_LINE = re.compile(r"^([0-9a-f]{64})  (.+)$", re.M)
_MOST_NAMES = 20  # in a path; those of this package have at most five
_CACHED = (".pyc", ".pyo")  # what Python itself puts into __pycache__


class Manifest(NamedTuple):
    """The contents of a VENDORED.txt; hashes: path -> SHA-256."""

    origin: str
    version: str
    part: str
    date: str
    hashes: dict[str, str]


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parts = "\n".join(f"  {name:8} {each.good_for}" for name, each in PARTS.items())
    parser = Parser(
        "vendor",
        "Copy this package into another project, under any name.",
        f"parts:\n{parts}\n\nexamples:\n"
        f"  {PROGRAM} vendor src/thing/_vendor/cuda\n"
        f"  {PROGRAM} vendor src/thing/_dlpack --only dlpack\n"
        f"  {PROGRAM} vendor --check src/thing/_dlpack",
    )
    parser.add_argument("dest", metavar="DEST", help="the folder to create; its last part is the name of the copy")
    parser.add_argument("--only", choices=tuple(PARTS), help="copy this part, with the modules that it imports")
    parser.add_argument(
        "--check", action="store_true", help="say whether the copy at DEST is unchanged, and how old it is"
    )
    parser.add_argument(
        "--update", action="store_true", help="replace the unchanged copy at DEST by one of this version, the same part"
    )
    return parser


def main(arguments: list[str]) -> int:
    """Make, update or check a copy; return 1 if a checked copy was changed."""
    options = make_parser().read(arguments)
    if options.check:
        if options.only:
            raise Refusal("--check finds in the copy which part it is: omit --only")
        return check(options.dest)
    before = None
    if options.update:
        _bring_back(os.path.abspath(options.dest))
        before = _read(options.dest)
        if options.only or before is None:
            raise Refusal(
                "--update finds in the copy which part it is: omit --only"
                if options.only
                else f"{options.dest} has no {MANIFEST} that `vendor` wrote: it is not a copy of a package"
            )
        if before.part == "all":
            options.only = None
        else:
            options.only = before.part
    made = part(options.only, _origin())
    left = write(options.dest, made, options.only or "all")
    if before is not None:
        say(f"{options.dest}: {before.version} was replaced by {__version__}.")
    name = os.path.basename(os.path.abspath(options.dest))
    say(
        f"{options.dest}: {_what(options.only or 'all')} of {_origin()} {__version__}, {len(made)} files, "
        f"{sum(map(len, made.values())):,} bytes.\n"
        f"Import it as {name}, or from the package that contains it: from . import {name}\n"
        f"{PROGRAM} vendor --check {options.dest} tells whether it was changed."
        + (f"\nThe rest of the old copy, such as files that were added to it, is kept in {left}" if left else "")
    )
    return 0


# -- the copy


def _manifest(content: Files, name: str) -> bytes:
    """Return the text of the file that describes a copy."""
    licence = files(PACKAGE).joinpath("LICENSE").read_text(encoding="utf-8")
    is_cut = name in PARTS and PARTS[name].is_cut
    cut = (
        "To save space, this part has no comments, no docstrings of private names, only the first line of each\n"
        "module's docstring, and only the rows of cuda.h that it uses. The whole package has all of them.\n\n"
    )
    hashes = "".join(f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in content.items())
    return (
        f"{_origin()} {__version__}, {name}, copied on {datetime.date.today().isoformat()}.\n"
        f"Commit {_commit()}.\n\n"
        f"This folder was copied by `python3 -m {_origin()} vendor`. Do not edit it. To find out whether it was\n"
        f"changed, and how old it is, run `python3 -m {_origin()} vendor --check` or, without the package,\n"
        f"`sha256sum -c {MANIFEST}`.\n\n"
        f"{cut if is_cut else ''}"
        f"{licence}\n{hashes}"
    ).encode()


def _commit() -> str:
    """Return the commit of the checkout that is copied, or of the copy that is copied again, as far as it is known."""
    try:
        above = files(PACKAGE).joinpath(MANIFEST).read_text(encoding="utf-8")
    except (OSError, KeyError):
        above = ""
    known = re.search(r"^Commit (.+)\.$", above, re.M)
    if known:
        return known[1]
    checkout = os.path.dirname(str(files(PACKAGE)))
    if "." in PACKAGE or not all(os.path.exists(os.path.join(checkout, name)) for name in (".git", "setup.cfg")):
        return "unknown: this was not copied from a checkout"
    git = locate.on_path("git")
    if not git:
        return "unknown: there is no git"
    try:
        locate.refuse_planted(git[0])
        # in a hook of git, its variables name the repository of the commit
        env = {name: value for name, value in locate.environment().items() if not name.startswith("GIT_")}
        env["GIT_OPTIONAL_LOCKS"] = "0"  # or else git status locks the index and writes it anew
        said = [
            subprocess.run(
                [git[0], "-C", checkout, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
                env=env,
            ).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", PACKAGE))
        ]
    except subprocess.CalledProcessError:  # no commit yet, a damaged index, the checkout of another user
        return "unknown: git could not tell"
    except (OSError, subprocess.SubprocessError):
        return "unknown: git could not be run"
    if not re.fullmatch("[0-9a-f]{40,64}", said[0]):
        return "unknown: git could not tell"
    return said[0] + (", with changes" if said[1] else "")


def _read(folder: str) -> Manifest | None:
    """Return a copy's manifest, or None if it has none that this command wrote."""
    path = os.path.join(folder, MANIFEST)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its writer
            return None
        with open(path, encoding="utf-8") as file:
            text = file.read(1_000_000)
    except (OSError, ValueError):
        return None
    first = _FIRST_LINE.match(text)
    try:
        datetime.date.fromisoformat(first[4] if first else "")
    except ValueError:
        return None
    hashes = {path: digest for digest, path in _HASH_LINE.findall(text)}
    if first is None or not all([_is_possible(path) for path in hashes]):
        return None
    return Manifest(first[1], first[2], first[3], first[4], hashes)


def _is_possible(path: str) -> bool:
    """Tell whether a path can be that of a file of a copy: it stays in the copy, and is not deep."""
    names = path.split("/")
    return not os.path.isabs(path) and ".." not in names and "\\" not in path and len(names) <= _MOST_NAMES


def _origin() -> str:
    """Return the name of the package that this one was copied from, or else its own name."""
    try:
        first = _FIRST_LINE.match(files(PACKAGE).joinpath(MANIFEST).read_text(encoding="utf-8"))
    except (OSError, KeyError):  # KeyError: not in the zip, before Python 3.10
        first = None
    if first:
        return first[1]
    return PACKAGE


def _entries(folder: str) -> Iterator[tuple[str, str]]:
    """Yield (path in the copy, kind) for the contents of a folder, except files that Python caches there.

    The kind is "file", "folder" for an empty folder, "link", or "special". Links are not followed.
    """
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        names = sorted(os.listdir(os.path.join(folder, inside)))
        if not names and inside:
            yield inside, "folder"
        for name in names:
            if inside:
                path = f"{inside}/{name}"
            else:
                path = name
            mode = os.lstat(os.path.join(folder, path)).st_mode
            if stat.S_ISDIR(mode):
                waiting.append(path)
            elif not (_is_in_cache(path) and name.endswith(_CACHED) and stat.S_ISREG(mode)):
                yield path, "link" if stat.S_ISLNK(mode) else "file" if stat.S_ISREG(mode) else "special"


def _is_in_cache(path: str) -> bool:
    return os.path.basename(os.path.dirname(path)) == "__pycache__"


def _changes(folder: str, manifest: Manifest) -> list[str]:
    """List the differences from the original copy."""
    was, there = manifest.hashes, {}
    for path, kind in _entries(folder):
        if os.path.basename(path) == "__pycache__" and kind == "folder":
            continue
        digest = kind
        if kind == "file" and path in was:
            digest = _digest(os.path.join(folder, path))
        if path != MANIFEST or kind != "file":
            there[path] = digest
    return (
        [f"{path} was changed" for path in was if path in there and there[path] != was[path]]
        + [f"{path} is gone" for path in was if path not in there]
        + [f"{path} was added" for path in sorted(there) if path not in was]
    )


def _digest(path: str) -> str:
    """Return the SHA-256 of a file, which may be larger than the memory."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def write(dest: str, content: Files, name: str) -> str:
    """Move a new copy to its destination; an unchanged old copy there is replaced.

    returns  a folder with files that did not belong to the old copy, or ""
    raises   Refusal   another object has the path, or the name is not possible for a package
    """
    place = os.path.abspath(dest)
    parent, last = os.path.split(place)
    if not last.isidentifier() or iskeyword(last) or normalize("NFKC", last) != last:
        why = "is not an identifier of Python"
        if iskeyword(last):
            why = "is a keyword of Python"
        elif last.isidentifier():
            why = f"becomes {normalize('NFKC', last)!r} when Python reads it"
        raise Refusal(f"{dest}: {last!r} {why}, so it cannot be imported; choose another name")
    if not os.path.isdir(parent):
        raise Refusal(f"{dest}: the folder {parent} does not exist: create it first")
    if place == os.getcwd():  # the whole folder is replaced
        raise Refusal(f"{dest} is the current folder: change to the folder above, and give the name")
    running = os.path.realpath(str(files(PACKAGE)))
    if os.path.realpath(place) == running or os.path.realpath(place).startswith(running + os.sep):
        raise Refusal(f"{dest} is the package that is being copied: choose another name")
    _bring_back(place)
    if os.path.islink(place) or os.path.exists(place) and not os.path.isdir(place):
        raise Refusal(f"{dest} exists, and is not a folder: choose another name")
    before = None
    if os.path.isdir(place) and os.listdir(place):
        before = _read(place)
        if before is None or before.origin != _origin():
            raise Refusal(f"{dest} exists, and is not a copy of this package: choose another name")
        changes = _changes(place, before)
        if changes:
            raise Refusal(
                f"{dest} is a copy that was edited: {'; '.join(changes)}. "
                "Move your changes away, or remove the folder, first"
            )
    files_of_new = {**content, MANIFEST: _manifest(content, name)}
    files_of_old = []
    if before is not None:
        files_of_old = [*before.hashes, MANIFEST]
    with speaking_of(dest):
        old = _place(place, files_of_new, files_of_old)
    if os.path.isdir(old):
        return old
    return ""


def _place(place: str, files_of_new: dict[str, bytes], files_of_old: list[str]) -> str:
    """Write the new copy beside the old one, and exchange the two; return the folder with the rest of the old one."""
    beside, (parent, last) = "", os.path.split(place)
    try:
        beside = tempfile.mkdtemp(prefix=f".{last}.", dir=parent)
        new, old = os.path.join(beside, "new"), os.path.join(beside, "old")
        _write(new, files_of_new)
        _exchange(new, place, old)
    finally:
        _clean(beside, [*files_of_new], files_of_old, place)
    return old


def _clean(beside: str, files_of_new: list[str], files_of_old: list[str], place: str) -> None:
    """Remove our files from the folder beside the destination, even if one interrupt comes meanwhile."""
    try:
        _clean_once(beside, files_of_new, files_of_old, place)
    except BaseException:
        _clean_once(beside, files_of_new, files_of_old, place)
        raise


def _clean_once(beside: str, files_of_new: list[str], files_of_old: list[str], place: str) -> None:
    if beside and _is_own_folder(beside):
        _remove(os.path.join(beside, "new"), files_of_new)
        _remove(os.path.join(beside, "old"), files_of_old if os.path.lexists(place) else [])
        _remove(beside, [])


def _write(folder: str, files: dict[str, bytes]) -> None:
    """Write files into a new folder."""
    for path, data in files.items():
        target = os.path.join(folder, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)


def _exchange(new: str, place: str, old: str) -> None:
    """Move the old copy away and the new folder to its destination; if that is interrupted, move the old copy back.

    If that is interrupted, too, the old copy stays in a folder beside the destination, where _bring_back() finds it.
    """
    try:
        if os.path.isdir(place):
            os.rename(place, old)
        os.rename(new, place)
    except BaseException:
        if os.path.isdir(old) and not os.path.lexists(place):
            os.rename(old, place)
        raise


def _bring_back(place: str) -> None:
    """Move back a copy that an interrupted call has left beside its destination.

    Only this user's own folders, not links, are taken: others may be able to write to the folder of the destination.
    """
    parent, last = os.path.split(place)
    if os.path.lexists(place) or not os.path.isdir(parent):
        return
    for name in sorted(os.listdir(parent)):
        beside = os.path.join(parent, name)
        old = os.path.join(beside, "old")
        if name.startswith(f".{last}.") and _is_own_folder(beside) and _is_own_folder(old):
            kept = _read(old)
            if kept is not None and kept.origin == _origin() and _is_whole(old, kept):
                os.rename(old, place)
                return


def _is_whole(folder: str, manifest: Manifest) -> bool:
    """Tell whether a copy has all its files; others may have been added."""
    return all([each.endswith(" was added") for each in _changes(folder, manifest)])


def _is_own_folder(path: str) -> bool:
    """Tell whether a path is a folder of this user, and not a link to one."""
    return _is_folder(path) and (not hasattr(os, "geteuid") or os.lstat(path).st_uid == os.geteuid())


def _is_folder(path: str) -> bool:
    """Tell whether a path is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _remove(folder: str, paths: list[str]) -> None:
    """Remove these files, their cached bytecode, and folders that are empty then, and nothing else.

    Another user who may write to the folder of the destination may have exchanged the copy since it was checked. So
    nothing below a link is removed: it may be elsewhere.
    """
    if not _is_folder(folder):
        return
    for path in paths:
        above = path.split("/")[:-1]
        if all([_is_folder(os.path.join(folder, *above[: number + 1])) for number in range(len(above))]):
            _quietly(os.unlink, os.path.join(folder, path))
    for inside in reversed(_folders(folder)):
        if os.path.basename(inside) == "__pycache__":
            for name in _names(inside):
                if name.endswith(_CACHED):
                    _quietly(os.unlink, os.path.join(inside, name))
        _quietly(os.rmdir, inside)


def _folders(folder: str) -> list[str]:
    """List a folder and all folders below it, each before those in it; os.walk() is recursive before Python 3.12."""
    found = [folder]
    for inside in found:  # which grows
        found += [path for name in _names(inside) if _is_folder(path := os.path.join(inside, name))]
    return found


def _names(folder: str) -> list[str]:
    """List the names in a folder; none if it is missing, or cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _quietly(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:  # missing, or not empty
        pass


# -- checking a copy


def check(dest: str) -> int:
    """Print whether a copy is unchanged, how old it is, and whether it is up to date; return 1 if it was changed."""
    manifest = _read(dest)
    if manifest is None:
        raise Refusal(f"{dest} has no {MANIFEST} that `vendor` wrote: it is not a copy of a package")
    days = (datetime.date.today() - datetime.date.fromisoformat(manifest.date)).days
    if days < 1:  # (less than 0: copied in a time zone further east)
        age = "today"
    else:
        age = "yesterday" if days == 1 else f"{days} days ago"
    whole = f"{_what(manifest.part)} of {manifest.origin} {manifest.version}"
    say(f"{dest}: {whole}, copied on {manifest.date}, {age}.")
    changes = _changes(dest, manifest)
    say(
        "It was changed:\n  " + "\n  ".join(each.replace("\n", "\\n") for each in changes)
        if changes
        else f"It is unchanged: {len(manifest.hashes)} files are the same as when they were copied."
    )
    if any([os.path.basename(path) == "__pycache__" for path, _ in _entries(dest)]):
        say("What Python has compiled is not compared: remove the folders __pycache__ if others could write to them.")
    theirs, ours = _numbers(manifest.version), _numbers(__version__)
    if theirs != ours:
        say(f"It is {'older' if theirs < ours else 'newer'} than the running package, {__version__}.")
    else:
        now = {
            path: hashlib.sha256(data).hexdigest()
            for path, data in part(None if manifest.part == "all" else manifest.part, _origin()).items()
        }
        differ = sum(now.get(path) != manifest.hashes.get(path) for path in {*now, *manifest.hashes})
        say(
            f"It has the version of the running package, {__version__}"
            + (f", but {differ} files differ." if differ else ".")
        )
    if changes:
        return 1
    return 0


def _what(name: str) -> str:
    if name == "all":
        return "all"
    return f"the part {name!r}"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
