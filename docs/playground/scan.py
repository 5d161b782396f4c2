import array
import itertools
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["scan"]

numbers = list(range(1, 65))
data = device.upload(array.array("i", numbers))
sums = device.empty(len(numbers), "int32")
try:
    kernel.launch(data, sums, grid=1, block=len(numbers))
    result = sums.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print(result[:8], "...", result[-3:])
print("as in Python:", result == list(itertools.accumulate(numbers)))
