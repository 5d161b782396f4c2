"""DLPack's C structs and numbers: sections 1.1 to 1.15 and 6.6 of docs/protocols.md.

The tests are named after its rules.
"""

from __future__ import annotations

import ctypes
import glob
import re
import site
import sys
from pathlib import Path

import pytest

from tests.subject import module

dlpack, buffer = module("dlpack"), module("protocols.buffer")


def offsets(kind):
    return {name: getattr(kind, name).offset for name, _ in kind._fields_}


@pytest.mark.parametrize(
    "name, size, align, fields",
    [
        pytest.param("DLPackVersion", 8, 4, {"major": 0, "minor": 4}, id="1_1"),
        pytest.param("DLDevice", 8, 4, {"device_type": 0, "device_id": 4}, id="1_2"),
        pytest.param("DLDataType", 4, 2, {"code": 0, "bits": 1, "lanes": 2}, id="1_3"),
        pytest.param(
            "DLTensor",
            48,
            8,
            {"data": 0, "device": 8, "ndim": 16, "dtype": 20, "shape": 24, "strides": 32, "byte_offset": 40},
            id="1_4",
        ),
        pytest.param("DLManagedTensor", 64, 8, {"dl_tensor": 0, "manager_ctx": 48, "deleter": 56}, id="1_5"),
        pytest.param(
            "DLManagedTensorVersioned",
            80,
            8,
            {"version": 0, "manager_ctx": 8, "deleter": 16, "flags": 24, "dl_tensor": 32},
            id="1_6",
        ),
        pytest.param("DLPackExchangeAPIHeader", 16, 8, {"version": 0, "prev_api": 8}, id="1_7"),
        pytest.param(
            "DLPackExchangeAPI",
            56,
            8,
            {
                "header": 0,
                "managed_tensor_allocator": 16,
                "managed_tensor_from_py_object_no_sync": 24,
                "managed_tensor_to_py_object_no_sync": 32,
                "dltensor_from_py_object_no_sync": 40,
                "current_work_stream": 48,
            },
            id="1_8_1_9",
        ),
    ],
)
def test_1_1_to_1_9_struct_layouts(name, size, align, fields):
    kind = getattr(dlpack, name)
    assert (ctypes.sizeof(kind), ctypes.alignment(kind), offsets(kind)) == (size, align, fields)


def test_6_6_py_buffer_layout():
    assert ctypes.sizeof(buffer.Py_buffer) == 80
    assert offsets(buffer.Py_buffer) == {
        "buf": 0,
        "obj": 8,
        "len": 16,
        "itemsize": 24,
        "readonly": 32,
        "ndim": 36,
        "format": 40,
        "shape": 48,
        "strides": 56,
        "suboffsets": 64,
        "internal": 72,
    }


def test_1_10_device_types():
    assert dlpack.DEVICE_TYPES == {
        "kDLCPU": 1,
        "kDLCUDA": 2,
        "kDLCUDAHost": 3,
        "kDLOpenCL": 4,
        "kDLVulkan": 7,
        "kDLMetal": 8,
        "kDLVPI": 9,
        "kDLROCM": 10,
        "kDLROCMHost": 11,
        "kDLExtDev": 12,
        "kDLCUDAManaged": 13,
        "kDLOneAPI": 14,
        "kDLWebGPU": 15,
        "kDLHexagon": 16,
        "kDLMAIA": 17,
        "kDLTrn": 18,
    }


def test_1_12_type_codes():
    assert list(dlpack.TYPE_CODES.values()) == list(range(18))
    assert (
        dlpack.TYPE_CODES["kDLBfloat"] == 4
        and dlpack.TYPE_CODES["kDLBool"] == 6
        and dlpack.TYPE_CODES["kDLFloat4_e2m1fn"] == 17
    )


def test_1_17_flags_and_version():
    assert (
        dlpack.DLPACK_FLAG_BITMASK_READ_ONLY,
        dlpack.DLPACK_FLAG_BITMASK_IS_COPIED,
        dlpack.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    ) == (1, 2, 4)
    assert dlpack.VERSION == (1, 3)


def test_an_installed_header_says_the_same():
    """Compare with each dlpack.h of an installed package (tvm_ffi, torch, cuda.core, pyarrow)."""
    headers = [
        path
        for folder in {*site.getsitepackages(), *sys.path}
        if folder.endswith("-packages")
        for path in glob.glob(folder + "/**/dlpack*.h", recursive=True)
    ]
    read = 0
    for path in headers:
        text = Path(path).read_text("utf-8", "replace")
        if "DLPACK_MAJOR_VERSION 1" not in text:
            continue
        read += 1
        ours = {**dlpack.DEVICE_TYPES, **dlpack.TYPE_CODES}
        for name, value in re.findall(r"^\s*(kDL\w+)\s*=\s*(\d+)U?,?", text, re.M):
            assert ours.get(name) == int(value), (path, name)
        for name, shift in re.findall(r"#define (DLPACK_FLAG_BITMASK_\w+) \(1UL << (\d)UL\)", text):
            assert getattr(dlpack, name) == 1 << int(shift), (path, name)
    if not read:
        pytest.skip("no dlpack.h of version 1 is installed")
