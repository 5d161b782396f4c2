import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["reverse"]

# The kernel should reverse the array. The report names the two lines that need a barrier between them. In the PTX,
# __syncthreads() is the instruction "bar.sync 0;". Put it where it is missing, and run the program again.
data = device.upload(array.array("i", range(64)))
try:
    kernel.launch(data, grid=1, block=64)
    result = data.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print(result[:4], "...", result[-4:])
print("as in Python:", result == list(range(64))[::-1])
