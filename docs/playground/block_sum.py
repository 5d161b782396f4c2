import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["block_sum"]

numbers = [each * each % 10 for each in range(150)]
data = device.upload(array.array("i", numbers))
sums = device.empty(3, "int32")  # one for each block
try:
    kernel.launch(data, len(numbers), sums, grid=3, block=64)
    result = sums.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print("the sums of the blocks:", result)
print("the sum:", sum(result))
print("as in Python:", sum(result) == sum(numbers))
