"""The table of cuda.h and the driver in use agree: what it exports, and what cuGetProcAddress finds.

tests/null/test_real_libcuda.py compares the table with drivers of CUDA 12 on machines without a GPU; these tests
compare it with the driver of a machine that has one, which may be newer.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.subject import module, rawcuda

cuda_h, abis = module("headers.cuda_h"), module("emulator.interface.abis")


def number(version: tuple[int, int]) -> int:
    """Return a version as in CUDA_VERSION."""
    return version[0] * 1000 + version[1] * 10


@pytest.fixture
def loaded() -> Any:
    """The driver in use."""
    return module("driver").current()


@pytest.mark.gpu_only("the emulator lacks functions, and its list of gaps says which")
def test_the_driver_exports_every_function_of_its_version(loaded: Any) -> None:
    version = loaded.version
    known = {name: number(prototype.since) <= version for name, prototype in cuda_h.prototypes().items()}
    assert {name: loaded.has(name) for name in known} == known


def test_what_is_found_by_name_is_what_is_exported(loaded: Any) -> None:
    """For each name, the newest ABI of the driver's own version, with both kinds of default stream."""
    version, place, status = min(loaded.version, abis.VERSION), ctypes.c_void_p(), ctypes.c_uint()
    names = {name for name in cuda_h.prototypes() if not name.endswith(("_ptsz", "_ptds")) and name[-3:-1] != "_v"}
    found = 0
    for name in sorted(names):
        for flags in (0, 2):
            symbol, reason = abis.symbol_of(name, version, flags)
            loaded.cuGetProcAddress_v2(name.encode(), ctypes.byref(place), version, flags, ctypes.byref(status))
            if symbol and loaded.has(symbol):
                assert (place.value, status.value) == (loaded.libcuda.address(symbol), 0), symbol
                found += 1
            else:
                assert place.value is None and status.value in (1, reason), name
    assert found > 400


@pytest.mark.parametrize("code", [0, 1, 2, 36, 100, 200, 218, 226, 400, 700, 719, 721, 801, 900, 912, 915, 916, 999])
def test_codes_have_the_same_names_and_texts_on_every_driver(loaded: Any, code: int) -> None:
    codes = module("emulator.machine.codes")
    name, text = loaded.describe(code)
    assert name == codes.NAMES[code].decode() == cuda_h.results()[code]
    assert text in (codes.TEXTS[code].decode(), "no text")  # a driver that is older than the code has none


def test_every_function_of_the_header_is_offered(loaded: Any) -> None:
    offered = set(dir(rawcuda.cu))
    for name, prototype in cuda_h.prototypes().items():
        assert (name in offered) == (not prototype.old)
        if not prototype.old:
            assert hasattr(rawcuda.cu, name) == loaded.has(name), name
