import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["missing_barrier"]

# The kernel shall reverse the array. Its report says which two lines need a barrier between them. In the PTX, a
# barrier is the instruction bar.sync 0;
data = device.upload(array.array("i", range(64)))
try:
    kernel.launch(data, grid=1, block=64)
    result = data.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print(result)
print("as in Python:", result == list(range(64))[::-1])
