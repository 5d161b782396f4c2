import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["transpose"]

rows, columns = 3, 5
matrix = device.upload(array.array("i", range(rows * columns)))
transposed = device.empty((columns, rows), "int32")
try:
    # Blocks of 4 x 4 threads, of which 2 x 1 cover the matrix.
    kernel.launch(matrix, transposed, rows, columns, grid=(2, 1), block=(4, 4))
    result = transposed.download()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

print(*result.tolist(), sep="\n")
expected = [[row * columns + column for row in range(rows)] for column in range(columns)]
print("as in Python:", result.tolist() == expected)
result
