import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["mandelbrot"]

width, height, limit = 48, 32, 25
steps = device.empty((height, width), "int32")
try:
    kernel.launch(steps, width, height, limit, grid=(6, 4), block=(8, 8))
    result = steps.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

for row in result:
    print("".join(" .:-=+*#%@"[9 * step // limit] for step in row).rstrip())
inside = sum(row.count(limit) for row in result)
print(f"{inside} of {width * height} points stay small for {limit} steps")
