import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["tiled_product"]

size = 8  # a multiple of the size of a tile, which is 4
a = array.array("f", [i % 7 for i in range(size * size)])
b = array.array("f", [i % 5 for i in range(size * size)])
product = device.empty((size, size), "float32")
try:
    kernel.launch(device.upload(a), device.upload(b), product, size, grid=(2, 2), block=(4, 4))
    result = product.download()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print(*result.tolist(), sep="\n")
indices = range(size)
expected = [[sum(a[i * size + k] * b[k * size + j] for k in indices) for j in indices] for i in indices]
print("as in Python:", result.tolist() == expected)
result
