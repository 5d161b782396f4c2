import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["tiled_product"]

size = 8  # a multiple of the size of a tile
a = [float(each % 7) for each in range(size * size)]
b = [float(each % 5) for each in range(size * size)]
product = device.empty((size, size), "float32")
try:
    given = device.upload(array.array("f", a)), device.upload(array.array("f", b))
    kernel.launch(*given, product, size, grid=(2, 2), block=(4, 4))
    result = product.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print(*result, sep="\n")
every = range(size)
expected = [[sum(a[i * size + k] * b[k * size + j] for k in every) for j in every] for i in every]
print("as in Python:", result == expected)
