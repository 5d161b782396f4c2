"""Kernels that fetch from textures, one for each function of CUDA C; and a model of fetches in NumPy."""

from __future__ import annotations

import functools
import itertools
import sys
from typing import Any

import pytest

from tests.subject import rawcuda

np = pytest.importorskip("numpy")
needs_compiler = pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")

# name, element type of the result, expression: X, Y, Z, W are four floats of each thread
FETCHES = [
    ("fetch_1d", "float4", "tex1D<float4>(t, X)"),
    ("fetch_2d", "float4", "tex2D<float4>(t, X, Y)"),
    ("fetch_3d", "float4", "tex3D<float4>(t, X, Y, Z)"),
    ("fetch_a1d", "float4", "tex1DLayered<float4>(t, X, (int)W)"),
    ("fetch_a2d", "float4", "tex2DLayered<float4>(t, X, Y, (int)W)"),
    ("fetch_cube", "float4", "texCubemap<float4>(t, X, Y, Z)"),
    ("fetch_acube", "float4", "texCubemapLayered<float4>(t, X, Y, Z, (int)W)"),
    ("fetch_linear", "float4", "tex1Dfetch<float4>(t, (int)X)"),
    ("fetch_linear_u", "uint4", "tex1Dfetch<uint4>(t, (int)X)"),
    ("whole_1d", "uint4", "tex1D<uint4>(t, X)"),
    ("whole_2d", "uint4", "tex2D<uint4>(t, X, Y)"),
    ("whole_3d", "uint4", "tex3D<uint4>(t, X, Y, Z)"),
    ("signed_2d", "int4", "tex2D<int4>(t, X, Y)"),
    ("level_1d", "float4", "tex1DLod<float4>(t, X, W)"),
    ("level_2d", "float4", "tex2DLod<float4>(t, X, Y, W)"),
    ("level_3d", "float4", "tex3DLod<float4>(t, X, Y, Z, W)"),
    ("level_a2d", "float4", "tex2DLayeredLod<float4>(t, X, Y, (int)Z, W)"),
    ("grad_2d", "float4", "tex2DGrad<float4>(t, X, Y, make_float2(Z, 0), make_float2(0, W))"),
    ("gather_r", "float4", "tex2Dgather<float4>(t, X, Y, 0)"),
    ("gather_g", "float4", "tex2Dgather<float4>(t, X, Y, 1)"),
    ("resident", "float4", "resident(t, X, Y)"),
]
SOURCE = """
#define X at[4 * i]
#define Y at[4 * i + 1]
#define Z at[4 * i + 2]
#define W at[4 * i + 3]
static __device__ float4 resident(cudaTextureObject_t t, float x, float y) {
    bool there = false;
    float4 found = tex2D<float4>(t, x, y, &there);
    return there ? found : make_float4(-1, -1, -1, -1);
}
""" + "".join(
    f"""
extern "C" __global__ void {name}(cudaTextureObject_t t, const float *at, {kind} *out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = {call};
}}
"""
    for name, kind, call in FETCHES
)


@functools.cache
def ptx(source: str, target: str) -> bytes:
    """Compile once for each test run."""
    return rawcuda.compile(source, target=target)


def load(device: Any, source: str = SOURCE) -> Any:
    """Load kernels; skip where the driver of a GPU is older than the compiler."""
    major, minor = device.compute_capability
    try:
        return device.load(ptx(source, f"sm_{major}{minor}"))
    except rawcuda.CudaError as error:
        if error.code == 222:
            pytest.skip(str(error))
        raise


def fetch(module: Any, name: str, texture: Any, at: Any, *, kind: str = "float32", stream: Any = None) -> Any:
    """Fetch at rows of coordinates (x, y, z, w), and return an array of four components for each."""
    device = texture.device
    given = np.zeros((len(at), 4), np.float32)
    given[:, : at.shape[1]] = at
    with device.allocate(given.nbytes) as places, device.allocate(given.nbytes) as out:
        places.copy_from(given)
        blocks = -(-len(at) // 64)
        module[name].launch(texture, places, out, len(at), grid=blocks, block=64, stream=stream)
        device.synchronize()
        return np.asarray(out.view(kind).download()).reshape(-1, 4)


# -- the model: every formula of "Texture Fetching" in the programming guide, over whole arrays


def index(i: Any, extent: int, mode: str) -> Any:
    """Apply an address mode to indices; -1 is the border."""
    if mode == "clamp":
        return np.clip(i, 0, extent - 1)
    if mode == "border":
        return np.where((i >= 0) & (i < extent), i, -1)
    if mode == "wrap":
        return i % extent
    i = i % (2 * extent)
    return np.minimum(i, 2 * extent - 1 - i)


def taps(u: Any, extent: int, mode: str, linear: bool) -> list[tuple[Any, Any]]:
    """Return the indices that a coordinate reads, with their weights."""
    if not linear:
        return [(index(np.floor(u).astype(int), extent, mode), np.ones(len(u)))]
    fixed = np.floor((u - 0.5) * 256 + 0.5).astype(int)
    whole, part = fixed >> 8, (fixed & 255) / 256
    return [(index(whole, extent, mode), 1 - part), (index(whole + 1, extent, mode), part)]


def model(data: Any, at: Any, modes: tuple[str, ...], linear: bool, normalized: bool, border: Any = 0.0) -> Any:
    """Fetch from data of shape (..., height, width, channels) at rows of coordinates (x, y, z)."""
    extents = data.shape[-2::-1]
    border = np.broadcast_to(np.asarray(border, float), data.shape[-1:])
    axes = []
    for axis, (extent, mode) in enumerate(zip(extents, modes)):
        u = (at[:, axis].astype(np.float32) * np.float32(extent if normalized else 1)).astype(float)
        axes.append(taps(u, extent, mode, linear))
    result = np.zeros((len(at), data.shape[-1]))
    for chosen in itertools.product(*axes):
        weight = np.ones(len(at))
        inside = np.ones(len(at), bool)
        for i, part in chosen:
            weight = weight * part
            inside &= i >= 0
        found = data[tuple(np.maximum(i, 0) for i, _ in reversed(chosen))].astype(float)
        result += weight[:, None] * np.where(inside[:, None], found, border)
    return result


def fractions(data: Any) -> Any:
    """Return integers as fractions, as a texture with read_mode="normalized_float" reads them."""
    most = np.iinfo(data.dtype).max
    return np.maximum(data / most, -1.0)
