"""What only a GPU can tell: latency, the first kernel, bandwidth, strided copies, allocation, graphs. Run by __main__.py.

Every rate is beside the card's own: that of the driver's plain device-to-device copy, measured here, which reads and writes each
byte once. Times are the wall clock round work and its synchronisation, each the median of some runs.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import rawcuda

from .__main__ import has_gpu
from .launches import BLOCK, GRID, Setup
from .timing import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MIB = 1 << 20

FIRST_KERNEL_C = r"""
#include <stdio.h>
#include <dlfcn.h>
typedef void *H;
int main(void) {
  void *lib = dlopen("libcuda.so.1", RTLD_NOW);
  #define F(name) int (*name)() = (int (*)())dlsym(lib, #name)
  F(cuInit); F(cuDeviceGet); F(cuDevicePrimaryCtxRetain); F(cuCtxSetCurrent); F(cuModuleLoadData); F(cuModuleGetFunction);
  F(cuLaunchKernel); F(cuCtxSynchronize);
  int device; H context, module, kernel; void *none[1];
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) return 1;
  if (cuModuleLoadData(&module, ".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n")) return 2;
  if (cuModuleGetFunction(&kernel, module, "k")) return 3;
  return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, (H)0, none, (H)0) || cuCtxSynchronize();
}
"""
FIRST_KERNEL = (
    "import rawcuda; d = rawcuda.Device(0); "
    "d.load('.version 6.3\\n.target sm_50\\n.address_size 64\\n.visible .entry k()\\n{\\n\\tret;\\n}\\n')['k'].launch(grid=1, block=1); "
    "d.synchronize()"
)


def seconds(work: Callable[[], object], finish: Callable[[], object], runs: int = 7) -> float:
    """Return the median time of some work and its end, in seconds; each run is long enough to be timed."""
    work(), finish()
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        work(), finish()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def launches(setup: Setup) -> None:
    launch = setup.module["args4"].configure(grid=GRID, block=BLOCK, stream=setup.stream)
    arguments = setup.arguments(4, setup.views)

    def many() -> None:
        for _ in range(10_000):
            launch(*arguments)

    took = seconds(many, setup.stream.synchronize)
    tell(
        {
            "section": "gpu: launch rate",
            "case": "rawcuda, 4 arguments",
            "value": 10_000 / took / 1e6,
            "unit": "million/s",
        }
    )
    took = seconds(lambda: [(launch(*arguments), setup.stream.synchronize()) for _ in range(1000)], lambda: None) / 1000
    tell({"section": "gpu: launch and wait", "case": "rawcuda, 4 arguments", "value": took * 1e6, "unit": "us"})


def first_kernel() -> None:
    """Time whole processes, in turn: start to the end of the first kernel."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "rawcuda": [sys.executable, "-c", FIRST_KERNEL],
            "a bare interpreter": [sys.executable, "-c", "pass"],
        }
        if compiler:
            (Path(folder) / "first.c").write_text(FIRST_KERNEL_C)
            subprocess.run([compiler, "-O2", "-w", f"{folder}/first.c", "-o", f"{folder}/first", "-ldl"], check=True)
            commands["a C program"] = [f"{folder}/first"]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(9):
            for name, command in commands.items():
                begun = time.perf_counter()
                subprocess.run(command, check=True)
                times[name].append(time.perf_counter() - begun)
    for name, taken in times.items():
        tell(
            {
                "section": "gpu: process start to the first finished kernel",
                "case": name,
                "value": statistics.median(taken) * 1e3,
                "unit": "ms",
            }
        )
    if "a C program" in times:
        ratio = statistics.median([a / b for a, b in zip(times["rawcuda"], times["a C program"])])
        tell({"section": "gpu: first kernel, to a C program", "case": "rawcuda", "value": ratio, "unit": "x"}, 1.1)


def bandwidth(setup: Setup) -> float:
    """Measure plain copies of 256 MiB; return the card's copy rate in GB/s, bytes read and written both counted."""
    device, stream, n = setup.device, setup.stream, 256 * MIB
    first, second = device.empty((n,), "uint8"), device.empty((n,), "uint8")
    pinned, pageable = device.allocate(n, kind="pinned").view(), bytearray(n)
    rate = 0.0
    for name, target, source, factor in (
        ("device to device", second, first, 2),
        ("pinned to device", first, pinned, 1),
        ("device to pinned", pinned, first, 1),
        ("pageable to device", first, pageable, 1),
    ):
        took = seconds(lambda: [rawcuda.copy(target, source, stream=stream) for _ in range(4)], stream.synchronize) / 4
        tell(
            {"section": "gpu: bandwidth", "case": f"rawcuda, {name}", "value": factor * n / took / 1e9, "unit": "GB/s"}
        )
        rate = rate or factor * n / took / 1e9
    for peer in (_torch_copies, _cupy_copies):
        try:
            peer(n)
        except Exception as error:
            tell(
                {
                    "section": "gpu: bandwidth",
                    "case": peer.__name__.strip("_"),
                    "left_out": f"{type(error).__name__}: {error}".splitlines()[0],
                }
            )
    return rate


def _torch_copies(n: int) -> None:
    torch = import_module("torch")
    first, second = torch.zeros(n, dtype=torch.uint8, device="cuda"), torch.zeros(n, dtype=torch.uint8, device="cuda")
    pinned = torch.zeros(n, dtype=torch.uint8).pin_memory()
    for name, target, source, factor in (
        ("device to device", second, first, 2),
        ("pinned to device", first, pinned, 1),
    ):
        took = seconds(lambda: [target.copy_(source, non_blocking=True) for _ in range(4)], torch.cuda.synchronize) / 4
        tell({"section": "gpu: bandwidth", "case": f"torch, {name}", "value": factor * n / took / 1e9, "unit": "GB/s"})


def _cupy_copies(n: int) -> None:
    cupy = import_module("cupy")
    first, second = cupy.zeros(n, cupy.uint8), cupy.zeros(n, cupy.uint8)
    took = seconds(lambda: [cupy.copyto(second, first) for _ in range(4)], cupy.cuda.Device().synchronize) / 4
    tell({"section": "gpu: bandwidth", "case": "cupy, device to device", "value": 2 * n / took / 1e9, "unit": "GB/s"})


def strided(setup: Setup, card: float) -> None:
    """Copy 256 MiB in layouts that no plain copy can do; the goal is 85 % of the card's rate from 4 bytes an element on."""
    for dtype, size in (("uint8", 1), ("uint16", 2), ("float32", 4), ("float64", 8), ("complex128", 16)):
        side = int((256 * MIB / size) ** 0.5) // 64 * 64
        edge = int((256 * MIB / size) ** (1 / 3)) // 16 * 16
        flat, cube = setup.device.empty((side, side), dtype), setup.device.empty((edge, edge, edge), dtype)
        wide, holes = setup.device.empty((side, side + 3), dtype), setup.device.empty((side, 2 * side), dtype)
        other, box = setup.device.empty((side, side), dtype), setup.device.empty((edge, edge, edge), dtype)
        for name, target, source in (
            ("transpose 2-D", other, flat.T),
            ("transpose 3-D (2, 0, 1)", box, cube.transpose(2, 0, 1)),
            ("transpose 3-D (2, 1, 0)", box, cube.T),
            ("odd pitch", other, wide[:, 1 : side + 1]),
            ("every second element", other, holes[:, ::2]),
            ("rows reversed", other, flat[::-1]),
        ):
            took = (
                seconds(
                    lambda: [rawcuda.copy(target, source, stream=setup.stream) for _ in range(4)],
                    setup.stream.synchronize,
                )
                / 4
            )
            rate = 2 * target.nbytes / took / 1e9
            row = {
                "section": "gpu: strided copy, of the card's rate",
                "case": f"rawcuda, {name}, {size} bytes",
                "value": rate / card,
                "unit": "of the card's rate",
                "rate": rate,
            }
            if size >= 4 and name != "every second element":  # (there the card reads twice as much)
                row["goal_at_least"] = 0.85
            tell(row)
            for peer in ("torch", "cupy"):
                _peer_strided(peer, name, target, source, size, card)


def _peer_strided(peer: str, name: str, target: Any, source: Any, size: int, card: float) -> None:
    """Have a peer copy between the very same memory, which it sees through DLPack."""
    try:
        module = import_module(peer)
        to, from_ = module.from_dlpack(target), module.from_dlpack(source)
        if peer == "torch":
            took = seconds(lambda: [to.copy_(from_) for _ in range(4)], module.cuda.synchronize) / 4
        else:
            took = seconds(lambda: [module.copyto(to, from_) for _ in range(4)], module.cuda.Device().synchronize) / 4
    except Exception as error:
        tell(
            {
                "section": "gpu: strided copy, of the card's rate",
                "case": f"{peer}, {name}, {size} bytes",
                "left_out": f"{type(error).__name__}: {error}".splitlines()[0],
            }
        )
        return
    rate = 2 * target.nbytes / took / 1e9
    tell(
        {
            "section": "gpu: strided copy, of the card's rate",
            "case": f"{peer}, {name}, {size} bytes",
            "value": rate / card,
            "unit": "of the card's rate",
            "rate": rate,
        }
    )


def allocation_and_graphs(setup: Setup) -> None:
    device, stream = setup.device, setup.stream
    took = (
        seconds(lambda: [device.allocate(MIB, stream=stream).close() for _ in range(1000)], stream.synchronize) / 1000
    )
    tell(
        {
            "section": "gpu: allocate and free 1 MiB in stream order",
            "case": "rawcuda",
            "value": took * 1e6,
            "unit": "us",
        }
    )
    launch = setup.module["args4"].configure(grid=GRID, block=BLOCK, stream=stream)
    arguments = setup.arguments(4, setup.views)
    with stream.capture() as graph:
        for _ in range(100):
            launch(*arguments)
    took = seconds(lambda: [graph.launch(stream) for _ in range(20)], stream.synchronize) / 2000
    tell(
        {
            "section": "gpu: replay of a graph of 100 launches, a launch",
            "case": "rawcuda",
            "value": took * 1e6,
            "unit": "us",
        }
    )


def main() -> None:
    if not has_gpu():
        sys.exit("no GPU: NVIDIA's driver is not here, or sees no device; what gpu.py measures, only a GPU can tell")
    setup = Setup()
    for work in (
        lambda: launches(setup),
        first_kernel,
        lambda: strided(setup, bandwidth(setup)),
        lambda: allocation_and_graphs(setup),
    ):
        try:
            work()
        except Exception as error:
            tell({"section": "gpu", "case": "a part", "left_out": f"{type(error).__name__}: {error}".splitlines()[0]})


if __name__ == "__main__":
    main()
