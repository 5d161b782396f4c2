import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["saxpy"]

count = 100
x = device.upload(array.array("f", range(count)))
y = device.upload(array.array("f", [1.0] * count))
try:
    kernel.launch(count, 2.0, x, y, grid=2, block=16)  # 32 threads for 100 elements
    result = y.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print(result[:5], "...", result[-5:])
print("as in Python:", result == [2.0 * i + 1.0 for i in range(count)])
