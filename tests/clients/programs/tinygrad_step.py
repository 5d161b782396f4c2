"""A step of training in tinygrad: a matrix product, its gradient, and stochastic gradient descent."""

import numpy
from tinygrad import Context, Device, Tensor, nn

assert Device.DEFAULT == "CUDA", Device.DEFAULT
rng = numpy.random.default_rng(0)
x, weights, wanted = (rng.standard_normal(shape).astype(numpy.float32) for shape in ((8, 16), (16, 4), (8, 4)))
parameter = Tensor(weights)
with Context(TRAINING=1):
    optimizer = nn.optim.SGD([parameter], lr=0.1)
    loss = ((Tensor(x) @ parameter).relu() - Tensor(wanted)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
hidden = x @ weights
gradient = x.T @ (2 * (numpy.maximum(hidden, 0) - wanted) * (hidden > 0) / hidden.size)
numpy.testing.assert_allclose(parameter.numpy(), weights - 0.1 * gradient, atol=1e-5)
print("step: as NumPy")
