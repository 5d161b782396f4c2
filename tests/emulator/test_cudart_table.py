"""The table of the emulated CUDA runtime, compared with NVIDIA's headers and libraries.

A C++ compiler decides: it accepts a declaration that agrees with that of the header, and knows sizes and offsets.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.null import header_reader
from tests.subject import module

table = module("emulator.runtime.runtime_table")
structures = module("emulator.runtime.runtime_structures")
serving = module("emulator.runtime.serving")
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
HEADERS = [path for path in header_reader.find_headers("cuda_runtime_api.h")]
VERSIONS = module("emulator.runtime.runtime_devices").RUNTIME_VERSIONS
every_header = pytest.mark.parametrize("path", HEADERS, ids=str)
REMOVED = re.compile(r"cudaThread(Exit|Synchronize|[GS]et)|cudaSetDoubleFor|cudaProfiler|_v2\Z|__cuda")


def version_of(path: Path) -> int:
    found = re.search(r"#define CUDART_VERSION +(\d+)", path.read_text("utf-8", "replace"))
    assert found is not None, path
    return int(found[1])


def declared_in(path: Path) -> dict[str, Any]:
    """Return the functions of the table that a header declares: one that is older than the table lacks some."""
    text, version = path.read_text("utf-8", "replace"), version_of(path)
    return {
        name: function
        for name, function in table.functions(version // 1000).items()
        if function is not None and (version >= VERSIONS[version // 1000] or f"{function.name}(" in text)
    }


def compile_text(path: Path, tmp_path: Path, lines: list[str]) -> str:
    """Compile C++ that includes a header, and return what the compiler says."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler, which knows what a header declares")
    source = tmp_path / "ask.cpp"
    text = ["#define __CUDA_API_VERSION_INTERNAL", "#include <cstddef>", "#include <cuda_runtime_api.h>", *lines]
    source.write_text("\n".join(text) + "\n")
    done = subprocess.run(
        [COMPILER, "-std=c++17", "-fsyntax-only", "-fmax-errors=9", "-I", str(path.parent), str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout if done.returncode else ""


def test_a_header_was_found() -> None:
    if not HEADERS:
        pytest.skip(
            "no cuda_runtime_api.h was found: pip install nvidia-cuda-runtime, or set CUDA_HOME or CUDA_HEADERS"
        )
    assert all(version_of(path) // 1000 in table.MAJORS for path in HEADERS)


@every_header
def test_the_declarations_are_those_of_the_header(path: Path, tmp_path: Path) -> None:
    lines = ['extern "C" {']
    for name, function in declared_in(path).items():
        if not name.startswith("__"):
            lines.append(
                function.line.replace(f" {function.name}(", f" {name}(").replace("*" + function.name, "*" + name) + ";"
            )
    assert len(lines) > 300
    assert compile_text(path, tmp_path, [*lines, "}"]) == ""
    # the compiler finds a declaration that differs
    assert "onflict" in compile_text(path, tmp_path, ['extern "C" cudaError_t cudaMalloc(void **p, int size);'])


@every_header
def test_each_function_of_the_header_is_in_the_table(path: Path) -> None:
    version = version_of(path)
    text = header_reader._without_comments(path.read_text("utf-8", "replace"))
    declared = {re.sub("_pt[ds][sz]$", "", name) for name in re.findall(r"\bCUDARTAPI\s+(cuda\w+)\(", text)}
    assert len(declared) > 250
    known = {re.sub("_pt[ds][sz]$", "", name) for name in table.functions(version // 1000)}
    if version <= VERSIONS[version // 1000]:
        assert declared - known == set()
    here = {name for name in known if not REMOVED.search(name)} - set(
        " ".join(module("emulator.runtime.prototypes").OTHERS.values()).split()
    )
    if version >= VERSIONS[version // 1000]:
        assert here - declared == set(), "not in this header"


@every_header
def test_the_widths_are_those_of_the_types(path: Path, tmp_path: Path) -> None:
    lines = []
    for name, function in declared_in(path).items():
        for parameter in function.parameters:
            c_type = parameter.c_type
            size = ctypes.sizeof(parameter.width)
            lines.append(f'static_assert(sizeof({c_type}) == {size}, "{name}: {parameter.name}");')
    assert len(lines) > 900
    assert compile_text(path, tmp_path, sorted(set(lines))) == ""
    assert "wrong size" in compile_text(path, tmp_path, ['static_assert(sizeof(cudaExtent) == 23, "wrong size");'])


# the names of C for members that have names of their own in Python
_COPY = {
    "source_array": "srcArray",
    "source_position": "srcPos",
    "source": "srcPtr",
    "source_device": "srcDevice",
    "target_array": "dstArray",
    "target_position": "dstPos",
    "target": "dstPtr",
    "target_device": "dstDevice",
    "extent": "extent",
    "kind": "kind",
}
_SAMPLING = dict(
    zip(
        [name for name, *_ in structures.Texture._fields_],
        "addressMode filterMode readMode sRGB borderColor normalizedCoords maxAnisotropy mipmapFilterMode "
        "mipmapLevelBias minMipmapLevelClamp maxMipmapLevelClamp disableTrilinearOptimization".split(),
    )
)


@every_header
def test_the_layouts_are_those_of_the_header(path: Path, tmp_path: Path) -> None:
    major = version_of(path) // 1000
    told: dict[str, tuple[object, dict[str, str]]] = {
        "cudaMemcpy3DParms": (structures.Copy, _COPY),
        "cudaMemcpy3DPeerParms": (structures.PeerCopy, _COPY),
        "cudaTextureDesc": (structures.Texture, _SAMPLING),
        "cudaPitchedPtr": (structures.PitchedPointer, {"pointer": "ptr"}),
        "cudaChannelFormatDesc": (structures.ChannelFormat, {"kind": "f"}),
        "cudaDeviceProp": (structures.device_properties(major).structure, {}),
        "cudaFuncAttributes": (structures.function_attributes(major).structure, {}),
        "cudaPointerAttributes": (structures.pointer_attributes(major).structure, {}),
    }
    lines = []
    for name, (kind, names) in told.items():
        if name != "cudaTextureDesc":
            lines.append(f'static_assert(sizeof({name}) == {ctypes.sizeof(kind)}, "{name}");')  # type: ignore[arg-type]
        for field, *_ in kind._fields_:  # type: ignore[attr-defined]
            if not field.startswith("reserved"):
                member, at = names.get(field, field), getattr(kind, field).offset
                lines.append(f'static_assert(offsetof({name}, {member}) == {at}, "{name}.{member}");')
    for member, at in (
        ("resType", 0),
        ("res.array.array", 8),
        ("res.linear.desc", structures.Resource.of.offset + structures.Resource._Linear.format.offset),
        ("res.linear.sizeInBytes", structures.Resource.of.offset + structures.Resource._Linear.size.offset),
        ("res.pitch2D.pitchInBytes", structures.Resource.of.offset + structures.Resource._Pitched.pitch.offset),
    ):
        lines.append(f'static_assert(offsetof(cudaResourceDesc, {member}) == {at}, "cudaResourceDesc.{member}");')
    if major > 11:
        at = ctypes.sizeof(structures.Texture)
        lines.append(f'static_assert(offsetof(cudaTextureDesc, seamlessCubemap) == {at}, "seamlessCubemap");')
    assert len(lines) > 130
    assert compile_text(path, tmp_path, lines) == ""


@every_header
def test_the_numbers_are_those_of_the_header(path: Path, tmp_path: Path) -> None:
    errors = module("emulator.runtime.runtime_errors").NAMES
    text = (path.parent / "driver_types.h").read_text("utf-8", "replace")
    known = {code: name for code, name in errors.items() if re.search(rf"\b{name.decode()}\b", text)}
    assert len(known) > 120
    lines = [f'static_assert({name.decode()} == {code}, "{name.decode()}");' for code, name in known.items()]
    for name, value in {
        "cudaMemcpyHostToHost": 0,
        "cudaMemcpyDefault": 4,
        "cudaReadModeNormalizedFloat": 1,
        "cudaResourceTypePitch2D": 3,
        "cudaChannelFormatKindFloat": 2,
        "cudaMemoryTypeManaged": 3,
        "cudaGraphNodeTypeMemset": 2,
        "cudaGraphNodeTypeMemAlloc": 10,
        "sizeof(cudaKernelNodeParams)": 64 - 8,
    }.items():
        lines.append(f'static_assert({name} == {value}, "{name}");')
    if version_of(path) >= 12030:
        for member, at in (
            ("kernel", 16),
            ("memcpy.copyParams", 32),
            ("conditional.phGraph_out", 32),
            ("memset.height", 48),
        ):
            lines.append(f'static_assert(offsetof(cudaGraphNodeParams, {member}) == {at}, "{member}");')
        lines.append('static_assert(sizeof(cudaGraphNodeParams) == 256, "cudaGraphNodeParams");')
    assert compile_text(path, tmp_path, lines) == ""


def libraries() -> list[Path]:
    """Return NVIDIA's libcudart.so.* on this machine: beside the headers, in a toolkit or a package."""
    found = {}
    for header in HEADERS:
        for folder in ("lib", "lib64", "../../lib", "../../../lib"):
            for path in (header.parent.parent / folder).glob("libcudart.so.*"):
                found[path.resolve()] = path
    return list(found.values())


@pytest.mark.parametrize("path", libraries(), ids=str)
def test_the_library_exports_the_same_names_with_the_same_version(path: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("there is no nm, which lists the symbols of a library")
    told = subprocess.run(["nm", "-D", "--with-symbol-versions", str(path)], capture_output=True, text=True, check=True)
    exported = dict(re.findall(r" T (\w+)@@(\S+)", told.stdout))
    version = path.name if path.name.count(".") <= 3 else ".".join(path.name.split(".")[:-1])
    major = int(re.search(r"so\.(\d+)", path.name)[1])  # type: ignore[index]
    ours = set(table.functions(major))
    library = module("emulator.impersonating.stand_in_libraries").LIBRARIES[f"libcudart{major}"]
    assert library.sonames[0] == library.version == version
    assert set(exported.values()) == {version}
    # minor versions add functions, and remove none
    assert not ours - set(exported) or not set(exported) - ours
    assert len(ours ^ set(exported)) < 60


@pytest.mark.parametrize("path", [path for path in libraries() if "so.13" in path.name], ids=str)
def test_the_texts_of_errors_are_those_of_the_library(path: Path, python) -> None:  # type: ignore[no-untyped-def]
    python(
        f"""
        import ctypes
        from tests.subject import module
        errors = module("emulator.runtime.runtime_errors")
        library = ctypes.CDLL({str(path)!r})
        for function, known in (library.cudaGetErrorName, errors.NAMES), (library.cudaGetErrorString, errors.TEXTS):
            function.restype = ctypes.c_char_p
            differ = {{code: (known[code], function(code)) for code in known if known[code] != function(code)}}
            assert not differ and len(known) > 120, differ
            assert function(5555) == b"unrecognized error code"
        """,
        check=True,
    )


def test_every_function_that_is_a_call_of_the_driver_has_as_many_arguments() -> None:
    entries = module("emulator").Emulator()._entries
    parse = module("emulator.interface.thunks").parse
    checked = 0
    for major in table.MAJORS:
        for name, function in table.functions(major).items():
            if function is None or not function.driver or function.name in serving.BODIES:
                continue
            assert function.driver in entries, f"{name}: {function.driver}"
            widths = [
                module("emulator.interface.thunks")._ctype(kind) for kind, _ in parse(entries[function.driver].line)[1]
            ]
            ours = [parameter.width for parameter in function.parameters]
            assert len(ours) == len(widths), name
            wider = [ctypes.sizeof(a) - ctypes.sizeof(b) for a, b in zip(widths, ours)]
            assert min([0, *wider]) == 0 and sum(wider) <= 4, f"{name}: {wider}"  # flags have 64 bits in the driver
            checked += 1
    assert checked > 400


def test_what_is_not_emulated() -> None:
    """The functions of a version that are exported and refused: a new one in the table needs a decision."""
    texts = module("emulator.impersonating.stand_in_libraries").LIBRARIES["libcudart13"].telling
    lacking = {name for name in table.functions(13) if serving.lacks(13, name) and name not in texts}
    families = (
        "EGL|GL[A-Z]|Graphics|VDPAU|External|NvSci|Logs|AsyncNotification|AtomicCapabilities|UnifiedFunction|"
        "FlushGPUDirect|ExportTable|SetValidDevices|Texture1DLinearMaxWidth|RegisterHostVar|__cudaGetProcAddress|"
        "RegisterUnifiedTable|ArrayToArray\\Z|ArrayToArray_ptds"
    )
    assert [name for name in sorted(lacking) if not re.search(families, name)] == []
    assert len(table.functions(13)) - len(lacking) > 340
