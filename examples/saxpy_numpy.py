"""Run a kernel that nvcc compiled on NumPy arrays.

`nvcc -ptx -arch=sm_75` compiled saxpy.cu to saxpy.ptx. nvcc wrote `.version 9.0` into the first line, which only
the newest drivers accept. The kernel needs no feature that is newer than version 6.3, so the line was changed to
`.version 6.3`.

From the checkout:            PYTHONPATH=. python3 examples/saxpy_numpy.py
on a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/saxpy_numpy.py
"""

from pathlib import Path

import numpy

import rawcuda

device = rawcuda.Device(0)
module = device.load(Path(__file__).with_name("saxpy.ptx"))
saxpy = module["saxpy"].configure(grid=16, block=256)  # checked once, and launched many times

x = numpy.linspace(0, 1, 4096, dtype=numpy.float32)
y = numpy.ones(4096, dtype=numpy.float32)

x_there, y_there = device.upload(x), device.upload(y)
for _ in range(3):
    saxpy(len(x), 0.5, x_there, y_there)  # y = 0.5 * x + y, on the device
result = numpy.empty_like(y)
y_there.copy_to(result)

assert numpy.allclose(result, 1.5 * x + y)
print(f"{device.name}: y[-1] is {result[-1]}")
