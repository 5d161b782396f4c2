"""From CUDA C to a result with only nvidia-cuda-nvrtc of PyPI; neither NVRTC nor the emulator needs a GPU."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.subject import module, rawcuda

SOURCE = r"""
template <int N> __device__ float power(float x) { float r = 1; for (int k = 0; k < N; k++) r *= x; return r; }
struct Line { float slope, height; };
__constant__ int factors[4] = {2, 3, 5, 7};
extern "C" __global__ void line(float *out, const float *x, Line by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = by.slope * power<3>(x[i]) + by.height + factors[i & 3];
}
extern "C" __global__ void turned(float *out, const float *x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = sqrtf(x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
"""


class Compiler:
    """NVRTC, as the search of the package finds it."""

    def __init__(self) -> None:
        places = module("locate").nvrtc()
        if not places:
            pytest.skip("NVRTC is not installed (pip install nvidia-cuda-nvrtc)")
        path = Path(places[0][0])
        for needed in path.parent.glob(
            "libnvrtc-builtins.so.*"
        ):  # NVRTC loads this library by its name when it compiles
            ctypes.CDLL(str(needed))
        self.nvrtc = ctypes.CDLL(str(path))

    def _call(self, name: str, *arguments: Any) -> int:
        function = getattr(self.nvrtc, name)
        function.restype = ctypes.c_int
        return int(function(*arguments))

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        assert self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size)) == 0
        text = ctypes.create_string_buffer(size.value)
        assert self._call(f"nvrtcGet{what}", program, text) == 0
        return text.value

    def ptx(self, source: str, *options: str) -> bytes:
        """Compile, or fail with the compiler's log."""
        program = ctypes.c_void_p()
        assert self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"test.cu", 0, None, None) == 0
        try:
            given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            done = self._call("nvrtcCompileProgram", program, len(options), given)
            assert done == 0, self._text(program, "ProgramLog").decode()
            return self._text(program, "PTX")
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))


@pytest.mark.parametrize("options", [[], ["--use_fast_math"], ["-G"]], ids=["plain", "fast", "debug"])
def test_from_source_to_result(device: Any, options: list[str]) -> None:
    major, minor = device.compute_capability
    text = Compiler().ptx(SOURCE, f"--gpu-architecture=compute_{major}{minor}", *options)
    version = re.search(rb"\.version (\d+\.\d+)", text)
    assert version, text[:200]
    try:
        loaded = device.load(text)
    except rawcuda.CudaError as error:
        if error.code == 222:
            pytest.skip(f"NVRTC makes PTX {version[1].decode()}, newer than the driver accepts")
        raise
    with loaded:
        x = [float(k % 11) for k in range(128)]
        with device.allocate(512) as given, device.allocate(512) as out:
            given.copy_from(struct.pack("<128f", *x))

            def run(kernel: str, *more: Any) -> list[float]:
                loaded[kernel].launch(out, given, *more, grid=2, block=64)
                back = bytearray(512)
                out.copy_to(back)
                return list(struct.unpack("<128f", back))

            assert run("line", struct.pack("<2f", 0.5, -4), 128) == [
                0.5 * v**3 - 4 + (2, 3, 5, 7)[k & 3] for k, v in enumerate(x)
            ]
            roots = [v**0.5 for v in x]
            assert run("turned") == pytest.approx(roots[63::-1] + roots[:63:-1], rel=1e-6)
