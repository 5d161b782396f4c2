"""headers/nvrtc_h.py and headers/nvjitlink_h.py agree with the real headers and libraries on this machine."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from tests.null import header_reader
from tests.null.test_cuda_h import number, type_versions, versions
from tests.subject import module

nvrtc_h, nvjitlink_h = module("headers.nvrtc_h"), module("headers.nvjitlink_h")
TABLES = {"nvrtc.h": nvrtc_h, "nvJitLink.h": nvjitlink_h}
LIBRARIES = {"nvrtc.h": "libnvrtc.so.*", "nvJitLink.h": "libnvJitLink.so.*"}
PAIRS = [(name, path) for name in TABLES for path in header_reader.find_headers(name)]
every_header = pytest.mark.parametrize(
    "name, path", PAIRS or [pytest.param("", None, marks=pytest.mark.skip(reason="no nvrtc.h, no nvJitLink.h"))]
)
NEWEST = 13050


def version_of(path: Path) -> int:
    """Return the version of CUDA that a header belongs to: from the cuda.h beside it, from its package, its folder."""
    beside = path.with_name("cuda.h")
    if beside.is_file():
        return header_reader.read(beside).version
    found = re.search(r"_1\d_\d\b", path.read_text("utf-8", "replace")) or re.search(r"(\d+)\.(\d+)$", str(path.parent))
    if found is None:
        pytest.skip(f"{path} does not tell its version")
    major, minor = re.findall(r"\d+", found[0])
    return number((int(major), int(minor)))


@every_header
def test_every_function_is_the_headers(name: str, path: Path) -> None:
    version, table = version_of(path), TABLES[name].prototypes()
    real, *_ = header_reader.small_header(path)
    wrong = []
    for function, prototype in table.items():
        gone = "gone" in prototype.marks and version >= 13000
        if function not in real:
            if number(prototype.since) <= version <= NEWEST and not gone:
                wrong.append(f"{function}: not in {path}")
            continue
        ours = header_reader.normal(prototype.line[prototype.line.index("(") + 1 : -2])
        ours = ours.replace("nvrtcFlowCallback callback", "int ( *callback)(void *, void *)")
        if ours.replace(" ", "").replace("*const", "*") != real[function].replace(" ", "").replace("*const", "*"):
            wrong.append(f"{function}: {ours} is really {real[function]}")
        if number(prototype.since) > version:
            wrong.append(f"{function}: in {path} before {prototype.since}")
    if version <= NEWEST:
        wrong += [f"lacks {function}" for function in real if function not in table]
    assert not wrong and real


@every_header
def test_every_constant_is_the_headers(name: str, path: Path) -> None:
    version, table = version_of(path), TABLES[name]
    _, enums, defines, _ = header_reader.small_header(path)
    since, _ = versions(table.ENUMS)
    for enum, real in {**enums, "#define": defines}.items():
        ours = {each: value for each, value in table.enum(enum).items() if since.get(each, 0) <= version}
        assert ours == real or version > NEWEST and ours.items() <= real.items()
    assert set(enums) == set(table.HEADER.enums())


@every_header
def test_every_type_is_the_headers(name: str, path: Path) -> None:
    version, table = version_of(path), TABLES[name]
    *_, types = header_reader.small_header(path)
    structs, _ = type_versions(table.TYPES)
    for struct, since in structs.items():
        if since <= version:
            real = [header_reader.normal(line) for line in types[struct].split(";") if line.strip()]
            text = table.TYPES.partition(f"struct {struct} {{")[2].partition("};")[0].partition("\n")[2]
            assert real == [header_reader.normal(line) for line in text.split(";") if line.strip()]
    assert {"nvrtc.h": {"nvrtcBundledHeadersInfo"}, "nvJitLink.h": set()}[name] == set(structs)


@every_header
def test_the_library_exports_what_the_table_says(name: str, path: Path) -> None:
    """Every function of its version, and nothing else; nvJitLink's also by the names with a version."""
    found = [*path.parents[1].glob(f"lib*/{LIBRARIES[name]}")]
    if not found:
        pytest.skip(f"no library beside {path}")
    version, library = version_of(path), ctypes.CDLL(str(found[0]))
    for function, prototype in TABLES[name].prototypes().items():
        gone = "gone" in prototype.marks and version >= 13000
        assert hasattr(library, function) == (number(prototype.since) <= version and not gone), function
        if "versioned" in prototype.marks:
            assert hasattr(library, f"__{function}_{version // 1000}_{version % 1000 // 10}"), function


def test_every_name_is_there() -> None:
    for table in TABLES.values():
        for name in dir(table):
            assert getattr(table, name) is getattr(table, name), name
        for prototype in table.prototypes().values():
            assert len(prototype.parameters) == len(prototype.machine_types)
        for name in ("nothing", "_nothing", "NVRTC_NOTHING"):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
                getattr(table, name)
    assert nvrtc_h.nvrtcResult.NVRTC_ERROR_COMPILATION == 6 and nvjitlink_h.NVJITLINK_INPUT_ANY == 10
    assert nvrtc_h.prototypes()["nvrtcGetErrorString"].returns is ctypes.c_char_p
    assert nvrtc_h.prototypes()["nvrtcVersion"].returns is ctypes.c_int
