"""The rows about failures: what is refused, and what a failed kernel leaves behind.

What it is   the group "failures". The row that makes the context unusable has a process of its own.
What not     the texts of the errors.
Read next    ../workers.py
"""

from __future__ import annotations

from ....driver import current
from ....errors import Closed, ContextLost, CudaError, InvalidUse, RawCudaError
from ....gpu.kernels.libraries import Library
from .. import check_kernels
from ..rows import Given, expect, row

__all__: list[str] = []


@row("failures", "a wrong call is refused")
def _refused(given: Given) -> None:
    given.device.context  # noqa: B018  (the call below needs one)
    try:
        with given.device.current():
            current().cuMemFree_v2(3)
    except InvalidUse as error:
        expect("the error's call", error.call, "cuMemFree_v2")
    else:
        raise AssertionError("the driver freed the address 3")


@row("failures", "a wrong launch is refused")
def _launch(given: Given) -> None:
    at = given.device.empty(1, "uint32").fill(0)
    most = given.device.attribute("MAX_THREADS_PER_BLOCK")
    try:
        given.kernel("count").launch(at, grid=1, block=most + 1)
    except (ValueError, RawCudaError):
        expect("the threads that ran", at.tolist(), [0])
    else:
        raise AssertionError(f"a block of {most + 1} threads was launched")


@row("failures", "a closed object is refused")
def _closed(given: Given) -> None:
    memory = given.device.allocate(16)
    memory.close()
    try:
        given.kernel("count").launch(memory, grid=1, block=1)
    except Closed:
        return
    raise AssertionError("closed memory was passed to a kernel")


@row("failures", "a library of wrong PTX is refused", since=12000)
def _library(given: Given) -> str:
    """The driver may compile the text when it is loaded, or only when it is used."""
    wrong = check_kernels.SOURCE.replace("bar.sync 0;", "not.an.instruction 0;")
    where = "loaded"
    try:
        with Library(wrong) as library:
            where = "used on a device"
            library.module(given.device)["turn"].launch(0, grid=1, block=1)
            where = "launched"
            given.device.synchronize()
    except CudaError as error:
        at = given.device.empty(1, "uint32").fill(0)
        given.kernel("count").launch(at, grid=1, block=3)
        expect("the threads that ran afterwards", at.tolist(), [3])
        return f"when it is {where}: {error.name}"
    raise AssertionError("PTX with an instruction that does not exist was loaded and launched")


@row("failures", "a failed kernel is reported; reset", alone=True)
def _failed(given: Given) -> str:
    with given.device.stream() as stream:
        given.kernel("count").launch(0x10, grid=1, block=1, stream=stream)
        try:
            stream.synchronize()
        except (ContextLost, CudaError) as error:
            name = str(getattr(error, "name", type(error).__name__))
        else:
            raise AssertionError("a kernel wrote to the address 16, and no call reported it")
    given.forget()
    try:
        given.device.reset(force=True)
        at = given.device.empty(1, "uint32").fill(0)
        given.kernel("count").launch(at, grid=1, block=3)
        found = at.tolist()
    except CudaError as error:  # cuda.h says that the process must end after such an error
        return f"{name}; not usable after a reset: {error.name}"
    expect("the threads that ran after the reset", found, [3])
    return f"{name}; usable after a reset"
