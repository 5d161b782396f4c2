import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["scale"]

data = device.upload(array.array("f", range(12)))
try:
    kernel.launch(data, 10.0, 12, grid=2, block=8)
    result = data.download()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print(*result.reshape(3, 4).tolist(), sep="\n")
print("as in Python:", result.tolist() == [10.0 * each for each in range(12)])
result.reshape(3, 4)
