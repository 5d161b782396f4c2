"""Result codes: their names, and the driver's texts for them.

What it is   one line for each CUresult: code, name without its CUDA_ERROR_ prefix, text.
What not     the choice of a code, which each entry point makes. Codes that no entry point returns are left out. The
             table is not derived from the one that clients use, so that a mistake in either is found. A test compares
             both with cuda.h.
Source       names: cuda.h, enum CUresult, and its comments for which errors are sticky; texts: cuGetErrorString
Read next    thunks.py
"""

from __future__ import annotations

__all__ = ["Refused", "NAMES", "TEXTS", "STICKY"]


class Refused(Exception):
    """The refusal of a call: the entry point returns the code, and keeps the report, if there is one, for the user."""

    def __init__(self, code: int, report: str = "") -> None:
        super().__init__(code, report)
        self.code, self.report = code, report


# According to the header, after these codes "the process must be terminated and relaunched", or all memory is invalid
# (710). Every call in the context returns the code until the context is destroyed or reset.
STICKY = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719))

_TABLE = """
  0 SUCCESS                      no error
  1 INVALID_VALUE                invalid argument
  2 OUT_OF_MEMORY                out of memory
  3 NOT_INITIALIZED              initialization error
  4 DEINITIALIZED                driver shutting down
100 NO_DEVICE                    no CUDA-capable device is detected
101 INVALID_DEVICE               invalid device ordinal
200 INVALID_IMAGE                device kernel image is invalid
201 INVALID_CONTEXT              invalid device context
202 CONTEXT_ALREADY_CURRENT      context already current
209 NO_BINARY_FOR_GPU            no kernel image is available for execution on the device
215 UNSUPPORTED_LIMIT            limit is not supported on this architecture
217 PEER_ACCESS_UNSUPPORTED      peer access is not supported between these two devices
218 INVALID_PTX                  a PTX JIT compilation failed
222 UNSUPPORTED_PTX_VERSION      the provided PTX was compiled with an unsupported toolchain.
301 FILE_NOT_FOUND               file not found
304 OPERATING_SYSTEM             OS call failed or operation not supported on this OS
400 INVALID_HANDLE               invalid resource handle
401 ILLEGAL_STATE                the operation cannot be performed in the present state
500 NOT_FOUND                    named symbol not found
600 NOT_READY                    device not ready
700 ILLEGAL_ADDRESS              an illegal memory access was encountered
701 LAUNCH_OUT_OF_RESOURCES      too many resources requested for launch
702 LAUNCH_TIMEOUT               the launch timed out and was terminated
704 PEER_ACCESS_ALREADY_ENABLED  peer access is already enabled
705 PEER_ACCESS_NOT_ENABLED      peer access has not been enabled
708 PRIMARY_CONTEXT_ACTIVE       cannot set while device is active in this process
709 CONTEXT_IS_DESTROYED         context is destroyed
710 ASSERT                       device-side assert triggered
711 TOO_MANY_PEERS               peer mapping resources exhausted
712 HOST_MEMORY_ALREADY_REGISTERED part or all of the requested memory range is already mapped
713 HOST_MEMORY_NOT_REGISTERED   pointer does not correspond to a registered memory region
714 HARDWARE_STACK_ERROR         hardware stack error
715 ILLEGAL_INSTRUCTION          an illegal instruction was encountered
716 MISALIGNED_ADDRESS           misaligned address
717 INVALID_ADDRESS_SPACE        operation not supported on global/shared address space
718 INVALID_PC                   invalid program counter
719 LAUNCH_FAILED                unspecified launch failure
720 COOPERATIVE_LAUNCH_TOO_LARGE too many blocks in cooperative launch
800 NOT_PERMITTED                operation not permitted
801 NOT_SUPPORTED                operation not supported
900 STREAM_CAPTURE_UNSUPPORTED   operation not permitted when stream is capturing
901 STREAM_CAPTURE_INVALIDATED   operation failed due to a previous error during capture
902 STREAM_CAPTURE_MERGE         operation would result in a merge of separate capture sequences
903 STREAM_CAPTURE_UNMATCHED     capture was not ended in the same stream as it began
904 STREAM_CAPTURE_UNJOINED      capturing stream has unjoined work
905 STREAM_CAPTURE_ISOLATION     dependency created on uncaptured work in another stream
906 STREAM_CAPTURE_IMPLICIT      operation would make the legacy stream depend on a capturing blocking stream
907 CAPTURED_EVENT               operation not permitted on an event last recorded in a capturing stream
908 STREAM_CAPTURE_WRONG_THREAD  attempt to terminate a thread-local capture sequence from another thread
912 INVALID_CLUSTER_SIZE         invalid cluster size
914 INVALID_RESOURCE_TYPE        invalid resource type
915 INVALID_RESOURCE_CONFIGURATION invalid resource configuration
999 UNKNOWN                      unknown error
"""

# These bytes are never freed, because cuGetErrorName returns their addresses.
NAMES: dict[int, bytes] = {}
TEXTS: dict[int, bytes] = {}
for _line in _TABLE.strip().splitlines():
    _code, _name, _text = _line.split(None, 2)
    NAMES[int(_code)] = (("CUDA_" if _code == "0" else "CUDA_ERROR_") + _name).encode()
    TEXTS[int(_code)] = _text.encode()
