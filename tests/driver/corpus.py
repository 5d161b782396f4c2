"""The corpus of compiled kernels: loading a build, running its kernels, and exact arithmetic for the results.

tests/data/corpus/ has the sources, the PTX, and the script that compiles the sources to PTX. TESTED_CORPUS names
another folder of PTX to test, such as the one that tests/reruns/test_corpus.py fills. A build for an architecture or a
PTX version that the device does not accept is skipped by name; the emulator becomes a device of each build's
architecture.
"""

from __future__ import annotations

import math
import os
import random
import re
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from tests.subject import NAME, rawcuda  # noqa: E402

COMMITTED = Path(__file__).resolve().parent.parent / "data" / "corpus"
CORPUS = Path(os.environ.get("TESTED_CORPUS") or COMMITTED)
# the name of the package does not matter for kernels
under_its_own_name = pytest.mark.skipif(
    NAME != "rawcuda", reason="compiled kernels do not depend on the name of the package"
)
_HEADER = re.compile(r"\.version\s+(\d+)\.(\d+)\s+\.target\s+sm_(\d+)(\d)(a?)")
# the .version that each driver accepts, newest first
VERSIONS = (
    (13000, (9, 0)),
    (12090, (8, 8)),
    (12080, (8, 7)),
    (12070, (8, 6)),
    (12050, (8, 5)),
    (12040, (8, 4)),
    (12030, (8, 3)),
    (12020, (8, 2)),
    (12010, (8, 1)),
    (12000, (8, 0)),
    (11080, (7, 8)),
    (11070, (7, 7)),
    (11060, (7, 6)),
    (11050, (7, 5)),
    (11040, (7, 4)),
)


class Build:
    """One file of PTX, loaded."""

    def __init__(self, device: Any, path: Path) -> None:
        self.device, self.path, self.source = device, path, path.stem.partition(".")[0]
        self.name = path.stem.partition(".")[2]
        self.fast = "fast" in self.name
        self.loaded = device.load(path)
        self.kernels = set(self.loaded.names)

    def flushed(self, value: float) -> float:
        """Return a float32, or zero if it is subnormal, as fast arithmetic does."""
        return math.copysign(0.0, value) if self.fast and abs(value) < 2.0**-126 else value

    def run(
        self, kernel: str, *arguments: Any, grid: Any = 1, block: Any = 1, shared: int = 0, cooperative: bool = False
    ) -> Any:
        """Launch with copies of the arrays on the device; return the array afterwards, or a list of them."""
        given = [self.device.upload(np.ascontiguousarray(a)) if isinstance(a, np.ndarray) else a for a in arguments]
        self.loaded[kernel].launch(*given, grid=grid, block=block, shared_bytes=shared, cooperative=cooperative)
        back = [np.asarray(g.download()) for a, g in zip(arguments, given) if isinstance(a, np.ndarray)]
        self.device.synchronize()
        return back[0] if len(back) == 1 else back

    def map(self, kernel: str, out: Any, *columns: Any) -> Any:
        """Run out[i] = f(a[i], b[i], c[i]); the first column replaces missing ones."""
        n = len(columns[0])
        made = np.zeros(n, out) if not isinstance(out, np.ndarray) else out
        return self.run(kernel, made, *(columns + columns[:1] * 2)[:3], n, grid=(n + 63) // 64, block=64)[0]


def load(path: Path, emulated: bool) -> Build:
    """Load one build; skip it if the device does not accept it."""
    device = rawcuda.Device(0)
    found = _HEADER.search(path.read_text(errors="replace"))
    assert found, path
    version, target = (int(found[1]), int(found[2])), (int(found[3]), int(found[4]))
    able = tuple(device.compute_capability)
    machine: Any = rawcuda.cu.libcuda._machine if emulated else None
    if emulated:
        kept, machine.architecture, able = machine.architecture, 10 * target[0] + target[1], target
    try:
        if target > able or (found[5] and target != able):
            pytest.skip(f"{path.name} is for sm_{found[3]}{found[4]}{found[5]}")
        if version > next((v for least, v in VERSIONS if rawcuda.cu.version >= least), (7, 3)):
            pytest.skip(f"{path.name} is PTX {found[1]}.{found[2]}, newer than the driver")
        return Build(device, path)
    finally:
        if emulated:
            machine.architecture = kept


@pytest.fixture(scope="module")
def built(request: Any, library: Any) -> Iterator[Build]:
    """Load one build, and close it after the last test that uses it."""
    build = load(request.param, library is not None)
    yield build
    build.loaded.close()


def builds(source: str, only: str = "") -> Any:
    """Return the committed builds of one source, or those whose name matches."""
    paths = sorted(path for path in CORPUS.glob(f"{source}.*.ptx") if re.search(only, path.name))
    if not paths and CORPUS != COMMITTED:
        return pytest.mark.skip(f"no {source} in {CORPUS}")
    assert paths, source
    return pytest.mark.parametrize("built", [pytest.param(path, id=path.stem) for path in paths], indirect=True)


def rng(seed: object) -> random.Random:
    """Return a random generator whose numbers depend only on a name."""
    return random.Random(str(seed))


# -- exact arithmetic

FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}


def rounded(value: Fraction | int, format: str, mode: str = "rn") -> float:
    """Round a rational number to a format; the result fits a Python float."""
    precision, least, most = FORMATS[format]
    value = Fraction(value)
    size = abs(value)
    if not size:
        return 0.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    count, rest = divmod(size, unit)
    up = {
        "rn": 2 * rest > unit or (2 * rest == unit and count % 2 == 1),
        "rz": False,
        "ru": rest > 0 and value > 0,
        "rd": rest > 0 and value < 0,
    }[mode]
    size = (count + up) * unit
    if size >= Fraction(2) ** (most + 1):
        away = mode == "rn" or mode == ("ru" if value > 0 else "rd")
        size_out = math.inf if away else float((2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** most)
        return size_out if value > 0 else -size_out
    return float(size) if value > 0 else -float(size)


def root(value: Fraction) -> Fraction:
    """Return a square root with 300 bits, of which the last is sticky."""
    scale = 1 << 600
    top = value.numerator * value.denominator * scale
    found = math.isqrt(top)
    return Fraction(2 * found + (found * found != top), 2 * value.denominator * math.isqrt(scale))


def same(got: Any, want: Any, note: object = "") -> None:
    """Compare numbers one by one; NaN equals NaN, and +0 differs from -0."""
    got, want = np.asarray(got).ravel().tolist(), list(want)
    assert len(got) == len(want)
    for at, (g, w) in enumerate(zip(got, want)):
        if w != w:
            assert g != g, (note, at, g, w)
        else:
            assert g == w and (not isinstance(w, float) or math.copysign(1, g) == math.copysign(1, w)), (note, at, g, w)


def within(ulps: float, got: Any, want: Sequence[float], format: str, note: object, absolute: float = 0.0) -> None:
    """Compare with a bound in units of the last place."""
    precision, least, most = FORMATS[format]
    largest = (2 - 2.0 ** (1 - precision)) * 2.0**most
    for at, (g, w) in enumerate(zip(np.asarray(got).ravel().tolist(), want)):
        if w != w or g != g:
            assert w != w and g != g, (note, at, g, w)
            continue
        if math.isinf(g) or abs(w) > largest:
            assert abs(w) >= largest * (1 - ulps * 2.0**-precision) and math.copysign(1, g) == math.copysign(1, w), (
                note,
                at,
                g,
                w,
            )
            continue
        exponent = max(math.frexp(float(w))[1] - 1, least) if w else least
        unit = 2.0 ** (exponent - precision + 1)
        error = abs(Fraction(g) - Fraction(*w.as_integer_ratio()))
        assert error <= Fraction(ulps + 1e-6) * Fraction(unit) + Fraction(absolute), (
            note,
            at,
            g,
            w,
            float(error / Fraction(unit)),
        )


def number(format: str, bits: int) -> float:
    """Return the number that 16 bits represent."""
    if format == "f16":
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
