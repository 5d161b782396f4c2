import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


n = 5000
x = np.arange(n, dtype=np.float32)
y = np.ones(n, np.float32)
out = np.zeros(n, np.float32)
saxpy[(n + 255) // 256, 256](np.float32(2), x, y, out)
assert (out == 2 * x + y).all()
print("ok", cuda.get_current_device().name)
