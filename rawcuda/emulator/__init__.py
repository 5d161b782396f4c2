"""A libcuda written in Python: the cu* entry points as C function pointers, and an executor of PTX behind them.

What it is   Emulator, a library object that behaves like a loaded libcuda: `address(symbol)` returns the address of a C
             function. A client binds and calls these functions as it would NVIDIA's, so everything above the interface
             of the driver can be tested without a GPU.
What not     a model of speed, of real asynchrony or of weak memory ordering; GAPS lists what it lacks, and why. The
             emulator imports no client, and a client uses it only through addresses.
How          interface/thunks.py turns Python functions into C functions. machine/machine.py holds devices, contexts and
             handles. machine/queues.py decides when work runs. machine/space.py is the memory. entries/ has one module
             for each family of cu* functions. ptx/ compiles kernels to Python and runs them. machine/recovery.py
             handles interrupts.
Source       CUDA Driver API; PTX ISA
Order        machine, ptx, interface, entries, runtime, ending, emulated_library, impersonating
Read next    interface/thunks.py, machine/machine.py, machine/queues.py, then entries/tasks/stream_entries.py as the
             simplest family, or ptx/ for kernels
"""

from __future__ import annotations

from .emulated_library import CHECKS, PEERS, Emulator, shared
from .interface.gaps import GAPS

__all__ = ["CHECKS", "Emulator", "GAPS", "PEERS", "impersonate", "shared"]


def impersonate() -> Emulator:
    """Make the emulator the libcuda.so.1 of this process and of its children, and return it.

    From now on, other libraries in this process run on the emulator. Its settings are those of RAWCUDA_EMULATOR.
    raises  RuntimeError         a real libcuda is loaded already, or another copy of this package has taken its place
            NotImplementedError  the emulator cannot do this on this system, processor or interpreter
    """
    from .impersonating.loading import take

    take()
    return shared()
