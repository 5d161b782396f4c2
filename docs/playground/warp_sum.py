import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["warp_sum"]

warps = 4
numbers = [float(each) for each in range(32 * warps)]
data = device.upload(array.array("f", numbers))
sums = device.empty(warps, "float32")
try:
    kernel.launch(data, sums, grid=2, block=64)  # two warps in each block
    result = sums.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print("the sums of the warps:", result)
expected = [sum(numbers[32 * warp : 32 * warp + 32]) for warp in range(warps)]
print("as in Python:", result == expected)
