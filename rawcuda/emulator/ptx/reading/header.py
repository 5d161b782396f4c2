"""The header of a module: .version, .target and .address_size, and their valid combinations.

Source       PTX ISA, "PTX Module Directives" and "Release Notes"; the table of targets follows ptxas 13.0
Read next    parser.py
"""

from __future__ import annotations

import re

from ...machine.codes import NO_BINARY_FOR_GPU, UNSUPPORTED_PTX_VERSION
from .lexer import NUMBER, WORD, Tokens
from .syntax import Rejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .syntax import Module

__all__ = ["NEWEST", "read_header", "version_of"]

_TARGET = re.compile(r"sm_([0-9]{1,3})([0-9])([af]?)\Z", re.ASCII)
# target, or the first of several: the .version that introduced it; a: for that architecture only, f: for its family
_SINCE = {
    "sm_20": (2, 0), "sm_30": (3, 0), "sm_35": (3, 1), "sm_32": (4, 0), "sm_50": (4, 0), "sm_37": (4, 1),
    "sm_52": (4, 1), "sm_53": (4, 2),
    "sm_60": (5, 0), "sm_61": (5, 0), "sm_62": (5, 0), "sm_70": (6, 0), "sm_72": (6, 1), "sm_75": (6, 3),
    "sm_80": (7, 0), "sm_86": (7, 1),
    "sm_87": (7, 4), "sm_89": (7, 8), "sm_90": (7, 8), "sm_90a": (8, 0), "sm_100": (8, 6), "sm_101": (8, 6),
    "sm_120": (8, 7),
    "sm_88": (8, 8), "sm_103": (8, 8), "sm_121": (8, 8), "sm_110": (9, 0),
}  # fmt: skip
_VERSIONS = frozenset(  # the minor numbers of each major .version
    (major, minor)
    for major, most in ((1, 5), (2, 3), (3, 2), (4, 3), (5, 0), (6, 5), (7, 8), (8, 8), (9, 5))
    for minor in range(most + 1)
)
NEWEST = max(_VERSIONS)  # that of CUDA 13.5
# CUDA version, as cuDriverGetVersion writes it -> the newest .version that its drivers know; each row holds until the
# next one. From 13.0 on, the minor numbers of both are the same.
_OF_CUDA = (
    (11000, (7, 0)), (11010, (7, 1)), (11020, (7, 2)), (11030, (7, 3)), (11040, (7, 4)), (11050, (7, 5)),
    (11060, (7, 6)), (11070, (7, 7)), (11080, (7, 8)),
    (12000, (8, 0)), (12010, (8, 1)), (12020, (8, 2)), (12030, (8, 3)), (12040, (8, 4)), (12050, (8, 5)),
    (12070, (8, 6)), (12080, (8, 7)), (12090, (8, 8)),
    (13000, (9, 0)), (13010, (9, 1)), (13020, (9, 2)), (13030, (9, 3)), (13040, (9, 4)), (13050, (9, 5)),
)  # fmt: skip
_OPTIONS = ("texmode_unified", "texmode_independent", "debug")
LONGEST_NUMBER = 400  # digits


def version_of(cuda: int) -> tuple[int, int]:
    """Return the newest .version that a driver of a CUDA version knows."""
    return max((version for since, version in _OF_CUDA if since <= cuda), default=(6, 5))


def read_header(tokens: Tokens, made: Module, architecture: tuple[int, int], newest: tuple[int, int] = NEWEST) -> None:
    """Read the directives from .version to .address_size into a module.

    shape   architecture: the newest .target that can run; newest: the newest .version
    raises  Rejected   a .version that does not exist or is newer (222), a newer .target (209), or a missing one
    """
    if not tokens.accept(".version"):
        raise tokens.fail("Missing .version directive at start of file")
    _read_version(tokens, made, newest)
    if tokens.text != ".target":
        raise tokens.fail("Missing .target directive")
    while tokens.accept(".target"):  # the last one is valid
        _read_target(tokens, made)
    suffix = made.target[-1]
    strange = (
        suffix == "a" and made.architecture != architecture or suffix == "f" and made.architecture[0] != architecture[0]
    )
    if made.architecture > architecture or strange:
        raise Rejected(
            NO_BINARY_FOR_GPU,
            f"ptxas fatal   : Program with .target '{made.target}' cannot be compiled to architecture "
            f"'sm_{architecture[0]}{architecture[1]}' "
            f"(RAWCUDA_EMULATOR=sm={made.architecture[0]}{made.architecture[1]} emulates such a device)",
        )
    if tokens.accept(".address_size"):
        if tokens.text != "64":
            raise tokens.fail("Only .address_size 64 is supported")
        tokens.advance()


def _read_version(tokens: Tokens, made: Module, newest: tuple[int, int]) -> None:
    """Read the number after .version; like a driver, refuse PTX that is newer than the driver."""
    number = tokens.text.split(".")
    if (
        tokens.kind != NUMBER
        or len(number) != 2
        or not all(part.isdecimal() and len(part) < LONGEST_NUMBER for part in number)
    ):
        raise tokens.unexpected("a version such as 6.3")
    major, minor = (int(part) & 0xFFFFFFFF for part in number)  # as in ptxas: 7.10 is 8.0, and 9.4294967296 is 9.0
    made.version = divmod(10 * major + minor, 10)
    if made.version > newest or made.version not in _VERSIONS:
        if len(tokens.text) < 60:
            shown = tokens.text
        else:
            shown = tokens.text[:57] + "..."
        raise Rejected.at(tokens.line(), f"Unsupported .version {shown}", UNSUPPORTED_PTX_VERSION)
    tokens.advance()


def _read_target(tokens: Tokens, made: Module) -> None:
    named = False
    while True:
        match = _TARGET.match(tokens.text)
        if match is not None:
            made.target, named = tokens.text, True
            made.architecture = (int(match.group(1)), int(match.group(2)))
            since = _SINCE.get(tokens.text)
            if since is None:  # features of one architecture came with it, those of a family with 8.8
                since = max(_SINCE.get(tokens.text.rstrip("af"), (0, 0)), (8, 8) if match.group(3) == "f" else (0, 0))
            if made.version < since:
                raise tokens.fail(
                    f"PTX .version {made.version[0]}.{made.version[1]} does not support .target {tokens.text}"
                )
        elif tokens.kind != WORD:
            raise tokens.unexpected("a target such as sm_50")
        elif tokens.text not in _OPTIONS:
            raise tokens.fail(f"Unsupported .target '{tokens.text[:60]}'")
        tokens.advance()
        if not tokens.accept(","):
            break
    if not named:
        raise tokens.fail("Target sm_NN expected")
