"""Use a PTX kernel like a NumPy function: with any exporter, broadcasting, any strides, and `out=`.

From the checkout:            PYTHONPATH=. python3 examples/ufunc.py
on a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/ufunc.py

Broadcasting only needs strides of 0. Each thread of the kernel computes its index from its number, and then an
offset in each array from the index and the strides of the array. So no array is copied to repeat it, to transpose
it, or to skip elements.
"""

import array

import rawcuda

DIMENSIONS = 3


def kernel_text(name, inputs, body):
    """Return PTX for out[i, j, k] = f(x0[i, j, k], ...). The body reads %f0, %f1, ... and puts its result into %f0."""
    arrays = ["out", *(f"x{n}" for n in range(inputs))]
    parameters = [f".param .u64 {each}" for each in arrays]
    parameters += [f".param .s64 {each}_stride{axis}" for each in arrays for axis in range(DIMENSIONS)]
    parameters += [f".param .u32 extent{axis}" for axis in range(DIMENSIONS)] + [".param .u32 count"]
    lines = []
    for axis in reversed(range(DIMENSIONS)):  # the last index varies fastest
        lines += [f"ld.param.u32 %r2, [extent{axis}];", f"rem.u32 %i{axis}, %r1, %r2;", "div.u32 %r1, %r1, %r2;"]
    for number, each in enumerate(arrays):
        lines += [f"ld.param.u64 %a{number}, [{each}];"]
        for axis in range(DIMENSIONS):
            lines += [
                f"ld.param.s64 %d1, [{each}_stride{axis}];",
                f"cvt.u64.u32 %d2, %i{axis};",
                f"mad.lo.s64 %a{number}, %d1, %d2, %a{number};",
            ]
        if number:
            lines += [f"ld.f32 %f{number - 1}, [%a{number}];"]
    inner = "\n    ".join(lines)
    return f"""
.version 6.3
.target sm_50
.address_size 64

.visible .entry {name}({", ".join(parameters)})
{{
    .reg .pred %p;
    .reg .b32 %r<5>, %i<{DIMENSIONS}>;
    .reg .b64 %d<3>, %a<{inputs + 1}>;
    .reg .f32 %f<8>;

    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    ld.param.u32 %r4, [count];
    setp.ge.u32 %p, %r1, %r4;
    @%p ret;
    {inner}
    {body}
    st.f32 [%a0], %f0;
    ret;
}}
"""


def broadcast_shape(shapes):
    """Return the shape to which all the shapes can be broadcast."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    # This does not check the shapes: broadcast_to() raises an error if one does not fit.
    return tuple(max(extents) if 0 not in extents else 0 for extents in zip(*padded))


class Ufunc:
    """A function of one or more 32-bit floats that is applied element by element to arrays of any library."""

    def __init__(self, name, inputs, body):
        self.name, self.inputs, self.text, self.kernels = name, inputs, kernel_text(name, inputs, body), {}

    def __call__(self, *arrays, out=None, device=None):
        if len(arrays) != self.inputs:
            raise TypeError(f"{self.name} takes {self.inputs} arrays, not {len(arrays)}")
        device = device or rawcuda.Device(0)
        if device.ordinal not in self.kernels:  # the kernel is loaded once for each device
            self.kernels[device.ordinal] = device.load(self.text)[self.name]
        views = [self.there(each, device) for each in arrays]
        shape = broadcast_shape([view.shape for view in views])
        if len(shape) > DIMENSIONS:
            raise ValueError(f"{self.name} takes up to {DIMENSIONS} dimensions, not {len(shape)}")
        full = (1,) * (DIMENSIONS - len(shape)) + shape
        result = device.empty(shape, "float32")
        if result.size:
            operands = [result.reshape(full), *(view.broadcast_to(shape).reshape(full) for view in views)]
            strides = [stride for operand in operands for stride in operand.strides]
            self.kernels[device.ordinal].launch(
                operands[0],
                *map(rawcuda.In, operands[1:]),
                *strides,
                *full,
                result.size,
                grid=-(-result.size // 128),
                block=128,
            )
        if out is None:
            return result
        rawcuda.copy(out, result)  # out may be host memory, and may have any strides
        return out

    @staticmethod
    def there(given, device):
        """Return a view of `given`, or of a copy on the device. A number becomes an array without dimensions."""
        if isinstance(given, (int, float)):
            return device.empty((), "float32").fill(given)
        view = rawcuda.view(given)
        if str(view.dtype) != "float32":
            raise TypeError(
                f"this function accepts only float32, not {view.dtype}, and it does not convert an array silently"
            )
        return view if view.is_device_accessible else device.upload(view)


hypot = Ufunc("hypot", 2, "mul.f32 %f0, %f0, %f0; fma.rn.f32 %f0, %f1, %f1, %f0; sqrt.rn.f32 %f0, %f0;")

column = rawcuda.view(array.array("f", [3, 5, 8])).reshape(3, 1)
row = rawcuda.view(array.array("f", [4, 12, 15]))
table = hypot(column, row)  # (3, 1) with (3,): (3, 3)
assert table.shape == (3, 3) and table[0, 0].item() == 5 and table[1, 1].item() == 13 and table[2, 2].item() == 17

out = array.array("f", bytes(12))
assert hypot(table[::-1, 0], 0, out=out) is out and out.tolist() == table[::-1, 0].tolist()

for wrong in (
    lambda: hypot(row),
    lambda: hypot(row, array.array("f", [1, 2])),
    lambda: hypot(row, array.array("d", [1, 2, 3])),
):
    try:
        wrong()
    except (TypeError, ValueError) as error:
        print("error, as expected:", error)
    else:
        raise AssertionError("this call should have raised an error")

try:
    import numpy
except ImportError:
    print("NumPy is not installed, so the result was not compared with numpy.hypot")
else:
    x = numpy.linspace(-2, 2, 60, dtype=numpy.float32).reshape(3, 4, 5).transpose(2, 0, 1)
    y = numpy.linspace(0, 1, 4, dtype=numpy.float32)
    numpy.testing.assert_allclose(hypot(x, y).download(), numpy.hypot(x, y), rtol=1e-6)
print(f"{rawcuda.Device(0).name}: hypot of a column and a row is {table.tolist()}")
