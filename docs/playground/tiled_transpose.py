import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["tiled_transpose"]

rows, columns = 12, 20
matrix = device.upload(array.array("f", range(rows * columns)))
transposed = device.empty((columns, rows), "float32")
try:
    # Blocks of 8 x 8 threads, of which 3 x 2 cover the matrix.
    kernel.launch(matrix, transposed, rows, columns, grid=(3, 2), block=(8, 8))
    result = transposed.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print("the first row:", result[0])
expected = [[row * columns + column for row in range(rows)] for column in range(columns)]
print("as in Python:", result == expected)
