"""One step of training a small network with tinygrad, compared with the same step in NumPy."""

import os

import numpy

os.environ["DEV"] = "CUDA"
from tinygrad import Tensor, nn  # noqa: E402
random = numpy.random.default_rng(3)
x = random.standard_normal((16, 20)).astype(numpy.float32)
labels = random.standard_normal((16, 4)).astype(numpy.float32)
w1, w2 = (random.standard_normal(shape).astype(numpy.float32) * 0.2 for shape in ((20, 8), (8, 4)))

first, second = Tensor(w1), Tensor(w2)
optimizer = nn.optim.SGD([first, second], lr=0.1)
with Tensor.train():
    loss = (((Tensor(x) @ first).relu() @ second) - Tensor(labels)).square().mean()
    optimizer.zero_grad()
    value = loss.item()
    loss.backward()
    optimizer.step()

hidden = numpy.maximum(x @ w1, 0)
error = hidden @ w2 - labels
step = 2 * error / error.size
inner = (step @ w2.T) * (hidden > 0)
numpy.testing.assert_allclose(value, (error**2).mean(), rtol=1e-5)
numpy.testing.assert_allclose(second.numpy(), w2 - 0.1 * hidden.T @ step, rtol=1e-4, atol=1e-6)
numpy.testing.assert_allclose(first.numpy(), w1 - 0.1 * x.T @ inner, rtol=1e-4, atol=1e-6)
print("a step of training: as NumPy")
