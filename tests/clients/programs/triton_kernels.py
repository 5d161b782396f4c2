"""A softmax and a matrix product in Triton, compared with NumPy: two of the kernels of suite_triton.py."""

import numpy
import suite_triton

suite_triton.start()
suite_triton.test_softmax(100)
print("softmax: as NumPy")
for dtype in (numpy.float16, numpy.float32):
    suite_triton.test_product(32, dtype)
    print(f"product of {dtype.__name__}: as NumPy")
