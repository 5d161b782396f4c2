"""Code of libraries: products that Triton has compiled (cp.async, swizzled ldmatrix, mma), and Thrust's algorithms.

tests/data/triton/dot.py has made the PTX of Triton; tests/reruns/test_triton.py makes it again. The PTX of Thrust is
that of `nvcc -ptx -arch=sm_80 thrust.cu` without its comments, as NVRTC cannot compile Thrust's headers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.ptx_client import Machine
from tests.subject import CHECKOUT

pytestmark = pytest.mark.once  # with other Pythons and modes, they would show the same

np = pytest.importorskip("numpy")
small_types = pytest.importorskip("ml_dtypes")

KINDS = {"fp16": np.float16, "bf16": small_types.bfloat16, "fp32": np.float32, "i8": np.int8,
         "fp8e4nv": small_types.float8_e4m3fn}  # fmt: skip


def check(path: Path) -> None:
    """Compare a product of 64 by 96 by 64 with NumPy's."""
    name = path.stem.rpartition("_")[2]
    pick = np.random.default_rng(0)
    exact = name != "fp32"  # small integers have exact sums
    a, b = (
        (pick.integers(-4, 5, shape) if exact else pick.normal(size=shape)).astype(KINDS[name])
        for shape in ((64, 96), (96, 64))
    )
    machine = Machine(path.read_text(), architecture=(12, 0))
    out = machine.buffer("f", [0.0] * 64 * 64)
    more = len(machine.code.entries["matmul"].parameters) - 6
    given = [machine.buffer("B", each.tobytes()) for each in (a, b)]
    machine.run("matmul", *given, out, 64, 64, 96, *[0] * more, grid=(2, 2), block=128, shared=16384)
    found = np.array(out.values()).reshape(64, 64)
    wanted = a.astype(float) @ b.astype(float)
    bound = 0.0 if exact else 2.0**-9 * (np.abs(a.astype(float)) @ np.abs(b.astype(float)))  # TF32 has 10 bits
    assert (np.abs(found - wanted) <= bound).all(), path.name


@pytest.mark.parametrize("build", ["sm80_fp16", "sm80_fp32", "sm89_fp8e4nv"])
def test_products(build: str) -> None:
    check(CHECKOUT / "tests" / "data" / "triton" / f"dot.{build}.ptx")


def test_the_algorithms_of_thrust() -> None:
    machine = Machine((CHECKOUT / "tests" / "data" / "thrust" / "thrust.ptx").read_text())
    pick = np.random.default_rng(0)
    a, f = pick.integers(0, 99, (8, 32)).astype("i4"), pick.normal(size=(8, 32)).astype("f4")
    out, floats = machine.buffer("i", [0] * 36 * 8), machine.buffer("B", f.tobytes())
    machine.run("thrust_each", machine.buffer("B", a.tobytes()), out, floats, block=8)
    found, ordered = np.array(out.values()).reshape(8, 36), np.sort(a, 1)
    assert (found[:, :32] == ordered.cumsum(1)).all() and (found[:, 32] == a.max(1)).all()
    assert (found[:, 33] == (ordered < 50).sum(1)).all()
    assert (found[:, 34] == [len(set(row)) for row in a.tolist()]).all()
    assert (np.frombuffer(floats.raw(), "f4").reshape(8, 32) == -np.sort(-f, 1)).all()
