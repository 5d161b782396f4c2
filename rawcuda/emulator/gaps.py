"""What the emulator lacks, and why: one table, which `doctor` prints.

Read next    the README's word on what a green run on the emulator means
"""
from __future__ import annotations

__all__ = ["GAPS"]

GAPS: tuple[tuple[str, str], ...] = (
    # what no emulator shows
    ("real asynchrony",
     "work runs in the thread that makes a call, never between calls; lazy and random modes show what may run late, not at the same "
     "time. A program that waits for a kernel without any call, by reading pinned memory, waits for ever in lazy mode"),
    ("weak memory ordering", "threads run one after another and each store is seen at once: a missing fence goes unseen"),
    ("resource limits", "registers are estimated and heap, stack and launch queue are not bounded: a launch that a GPU refuses for want "
                        "of them runs here"),
    ("speed", "some 10 million thread-instructions a second; times of events and kernels say nothing of a GPU"),
    ("machine code", "a cubin is refused with 209: only PTX runs. A fatbin is searched for PTX; compressed with zstd (nvcc 13's default) it "
                     "can be unpacked from Python 3.14 on, compressed with LZ4 or plain always"),
    ("tensor-core, texture, surface, mbarrier and bulk-copy instructions", "refused when the module is loaded, with opcode and line"),
    # entry points that are not there: address() answers None
    ("arrays, textures, surfaces (cuArray*, cuMipmappedArray*, cuTex*, cuSurf*)", "memory without addresses; nothing here uses it, and the "
                                                                                  "attributes that describe it say 0"),
    ("virtual memory management (cuMemCreate, cuMemMap, cuMemAddressReserve, ...)", "attribute 102 says so; allocations need no mapping"),
    ("memory, pools and events shared with other processes (cuIpc*, cuMemPoolExport*, ...)",
     "refused with 801: emulated memory is this process's own objects"),
    ("entry points newer than CUDA 13.0", "that is the version which the emulator says it has"),
    ("graphics and external semaphores (cuGraphics*, cuExternal*, cuEGL*, ...)", "there is no graphics driver to share with"),
    ("linking (cuLink*)", "a module must be complete in one PTX text"),
    ("graphs made node by node, changed, nested, or with allocations (cuGraphAdd*, cuGraphExec*SetParams, ...)",
     "graphs come from capturing streams only; a captured wait for other work than the capture's own is refused as the driver does"),
    ("waiting for and writing values in stream order (cuStreamWaitValue*, cuStreamWriteValue*, cuStreamBatchMemOp)", "not needed so far"),
    ("batched copies and prefetches (cuMemcpyBatchAsync, ...)", "not needed so far"),
    ("checkpoints, green contexts, multicast, profiler, coredump, NvSciSync", "they control hardware or other processes"),
    ("entry points of old ABIs, and of the per-thread default stream (_ptsz, _ptds)", "cuGetProcAddress gives the newest ABI whatever "
     "version is asked for, if that version has one; handle 2 is the per-thread default stream"),
    # entry points that do less than the driver's
    ("cluster launches", "sizes are checked; the blocks of a cluster then run like others, without distributed shared memory"),
    ("limits, cache preferences, priorities, stream attributes, memory advice", "kept and given back; they change nothing"),
    ("programmatic dependent launch and memory synchronisation domains", "taken, and of no effect: each kernel runs to its end"),
    ("libraries (cuLibrary*)", "loaded at once into the context that is current, and of that one only; CUkernel and CUfunction are the same"),
    ("memory pools", "nothing is kept for reuse; the address of stream-ordered memory can be used before the stream has come to its "
                     "allocation, and no other stream's use of it is noticed"),
    ("peer access", "asked for, granted and counted; a kernel that reaches another device's memory without it is not found out"),
    ("managed memory", "never migrates; the host may touch it at any time"),
    ("cuMemHostRegister of input/output memory, contexts with CUctxCreateParams, events for other processes", "refused with 801"),
    # stricter than a GPU, on purpose
    ("leniency", "bounds are exact to the byte, freed memory and addresses are never used again, fresh memory is filled with a wild value, "
                 "handles are checked in every call: what is refused here a GPU may let pass"),
    ("answers that no GPU has confirmed",
     "the order of checks when two arguments are bad; cuMemFree(0) is 1; zero bytes may be copied between any pointers; waiting for "
     "an event needs a current context; a context reset after a sticky error can be used again"),
)
