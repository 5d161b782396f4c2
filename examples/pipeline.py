"""Copy data to the device, compute, and copy back, all at the same time: three streams, pinned memory, and events.

From the checkout:            PYTHONPATH=. python3 examples/pipeline.py [trace.svg or trace.json]
on a machine without a GPU:   PYTHONPATH=. RAWCUDA_DRIVER=emulator python3 examples/pipeline.py

The data is divided into pieces. While the device computes one piece, it copies the next piece in and the previous
piece out. Each piece must be copied in before it is computed, and computed before it is copied out. Events ensure
this order: streams wait for them, and Python does not. There is memory for two pieces, and Python waits only before
it uses the same memory again.
"""

import sys
from contextlib import nullcontext

import rawcuda

PIECE, PIECES, SLOTS = 256, 6, 2

PTX = """
.version 6.3
.target sm_50
.address_size 64

.visible .entry square(.param .u64 data, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32  %r<6>;
    .reg .f32  %f<2>;
    .reg .b64  %rd<4>;

    mov.u32             %r1, %ctaid.x;
    mov.u32             %r2, %ntid.x;
    mov.u32             %r3, %tid.x;
    mad.lo.u32          %r4, %r1, %r2, %r3;
    ld.param.u32        %r5, [n];
    setp.ge.u32         %p1, %r4, %r5;
    @%p1 ret;
    ld.param.u64        %rd1, [data];
    mul.wide.u32        %rd2, %r4, 4;
    add.s64             %rd3, %rd1, %rd2;
    ld.f32              %f1, [%rd3];
    mul.f32             %f1, %f1, %f1;
    st.f32              [%rd3], %f1;
    ret;
}
"""

device = rawcuda.Device(0)
square = device.load(PTX)["square"]
incoming, computing, outgoing = (device.stream() for _ in range(3))


class Slot:
    """Memory for one piece (pinned memory for input and output, and device memory), and an event for each step."""

    def __init__(self):
        self.source, self.target = (device.allocate(4 * PIECE, kind="pinned").view("float32") for _ in range(2))
        self.there = device.allocate(4 * PIECE).view("float32")
        self.copied, self.computed, self.returned = (device.event() for _ in range(3))
        self.number = None  # the number of the piece in this slot

    def start(self, number):
        """Start to process a piece. Python does not wait here; the streams wait for each other."""
        self.number = number
        rawcuda.copy(self.there, self.source, stream=incoming)
        incoming.record(self.copied)
        computing.wait(self.copied)
        square.launch(self.there, PIECE, grid=-(-PIECE // 128), block=128, stream=computing)
        computing.record(self.computed)
        outgoing.wait(self.computed)
        rawcuda.copy(self.target, self.there, stream=outgoing)
        outgoing.record(self.returned)

    def collect(self, results):
        """Wait until the piece in this slot has been copied back, and store its result."""
        if self.number is not None:
            self.returned.synchronize()
            results[self.number] = self.target.tolist()
            self.number = None


slots, results = [Slot() for _ in range(SLOTS)], {}
with rawcuda.trace(sys.argv[1]) if len(sys.argv) > 1 else nullcontext():
    for number in range(PIECES):
        slot = slots[number % SLOTS]
        slot.collect(results)  # after this, the pinned memory may be filled again
        slot.source.fill(number + 1)
        slot.start(number)
    for slot in slots:
        slot.collect(results)

assert all(results[number] == [(number + 1.0) ** 2] * PIECE for number in range(PIECES))
print(f"{device.name}: {PIECES} pieces of {PIECE} squares went through three streams, and the results are right")
