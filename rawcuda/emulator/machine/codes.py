"""Result codes: their names, and the driver's texts for them.

What it is   one line for each CUresult of CUDA 13.0: code, name without its CUDA_ERROR_ prefix, text. A line that
             begins with four spaces continues the one before it.
What not     the choice of a code, which each entry point makes. The table is not derived from the one that clients use,
             so that a mistake in either of them is found. Tests compare both with cuda.h and with NVIDIA's own drivers.
Source       names: cuda.h, enum CUresult, and its comments for which errors are sticky; texts: cuGetErrorString of the
             drivers of CUDA 12.2 to 12.5, and for 36, 226 and 721 cudaGetErrorString of CUDA 13.0, whose texts are the
             same wherever both have one
Read next    interface/thunks.py
"""

from __future__ import annotations

__all__ = ["Refused", "NAMES", "TEXTS", "STICKY"]

# the codes that are used in several places, without CUDA_ERROR_
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
DEINITIALIZED = 4
NO_DEVICE = 100
INVALID_IMAGE = 200
NO_BINARY_FOR_GPU = 209
INVALID_PTX = 218
UNSUPPORTED_PTX_VERSION = 222
OPERATING_SYSTEM = 304
LOSSY_QUERY = 402
NOT_FOUND = 500
NOT_READY = 600
ILLEGAL_ADDRESS = 700
LAUNCH_TIMEOUT = 702
CONTEXT_IS_DESTROYED = 709
ASSERT = 710
ILLEGAL_INSTRUCTION = 715
MISALIGNED_ADDRESS = 716
INVALID_PC = 718
LAUNCH_FAILED = 719  # also for races, for which the driver has no code
NOT_PERMITTED = 800
NOT_SUPPORTED = 801
GRAPH_EXEC_UPDATE_FAILURE = 910
UNKNOWN = 999


class Refused(Exception):
    """The refusal of a call: the entry point returns the code, and the report (if any) is kept for the user."""

    def __init__(self, code: int, report: str = "") -> None:
        super().__init__(code, report)
        self.code, self.report = code, report


# According to the header, after these codes "the process must be terminated and relaunched", or all memory is invalid
# (710). Every call in the context returns the code until the context is destroyed or reset.
STICKY = frozenset((226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911))

_TABLE = """
  0 SUCCESS                      no error
  1 INVALID_VALUE                invalid argument
  2 OUT_OF_MEMORY                out of memory
  3 NOT_INITIALIZED              initialization error
  4 DEINITIALIZED                driver shutting down
  5 PROFILER_DISABLED            profiler disabled while using external profiling tool
  6 PROFILER_NOT_INITIALIZED     profiler not initialized: call cudaProfilerInitialize()
  7 PROFILER_ALREADY_STARTED     profiler already started
  8 PROFILER_ALREADY_STOPPED     profiler already stopped
 34 STUB_LIBRARY                 CUDA driver is a stub library
 36 CALL_REQUIRES_NEWER_DRIVER   API call is not supported in the installed CUDA driver
 46 DEVICE_UNAVAILABLE           CUDA-capable device(s) is/are busy or unavailable
100 NO_DEVICE                    no CUDA-capable device is detected
101 INVALID_DEVICE               invalid device ordinal
102 DEVICE_NOT_LICENSED          device doesn't have valid Grid license
200 INVALID_IMAGE                device kernel image is invalid
201 INVALID_CONTEXT              invalid device context
202 CONTEXT_ALREADY_CURRENT      context already current
205 MAP_FAILED                   mapping of buffer object failed
206 UNMAP_FAILED                 unmapping of buffer object failed
207 ARRAY_IS_MAPPED              array is mapped
208 ALREADY_MAPPED               resource already mapped
209 NO_BINARY_FOR_GPU            no kernel image is available for execution on the device
210 ALREADY_ACQUIRED             resource already acquired
211 NOT_MAPPED                   resource not mapped
212 NOT_MAPPED_AS_ARRAY          resource not mapped as array
213 NOT_MAPPED_AS_POINTER        resource not mapped as pointer
214 ECC_UNCORRECTABLE            uncorrectable ECC error encountered
215 UNSUPPORTED_LIMIT            limit is not supported on this architecture
216 CONTEXT_ALREADY_IN_USE       exclusive-thread device already in use by a different thread
217 PEER_ACCESS_UNSUPPORTED      peer access is not supported between these two devices
218 INVALID_PTX                  a PTX JIT compilation failed
219 INVALID_GRAPHICS_CONTEXT     invalid OpenGL or DirectX context
220 NVLINK_UNCORRECTABLE         uncorrectable NVLink error detected during the execution
221 JIT_COMPILER_NOT_FOUND       PTX JIT compiler library not found
222 UNSUPPORTED_PTX_VERSION      the provided PTX was compiled with an unsupported toolchain.
223 JIT_COMPILATION_DISABLED     PTX JIT compilation was disabled
224 UNSUPPORTED_EXEC_AFFINITY    the provided execution affinity is not supported
225 UNSUPPORTED_DEVSIDE_SYNC     the provided PTX contains unsupported call to cudaDeviceSynchronize
226 CONTAINED                    Invalid access of peer GPU memory over nvlink or a hardware error
300 INVALID_SOURCE               device kernel image is invalid
301 FILE_NOT_FOUND               file not found
302 SHARED_OBJECT_SYMBOL_NOT_FOUND shared object symbol not found
303 SHARED_OBJECT_INIT_FAILED    shared object initialization failed
304 OPERATING_SYSTEM             OS call failed or operation not supported on this OS
400 INVALID_HANDLE               invalid resource handle
401 ILLEGAL_STATE                the operation cannot be performed in the present state
402 LOSSY_QUERY                  attempted introspection would be semantically lossy
500 NOT_FOUND                    named symbol not found
600 NOT_READY                    device not ready
700 ILLEGAL_ADDRESS              an illegal memory access was encountered
701 LAUNCH_OUT_OF_RESOURCES      too many resources requested for launch
702 LAUNCH_TIMEOUT               the launch timed out and was terminated
703 LAUNCH_INCOMPATIBLE_TEXTURING launch uses incompatible texturing mode
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
721 TENSOR_MEMORY_LEAK           tensor memory not completely freed
800 NOT_PERMITTED                operation not permitted
801 NOT_SUPPORTED                operation not supported
802 SYSTEM_NOT_READY             system not yet initialized
803 SYSTEM_DRIVER_MISMATCH       system has unsupported display driver / cuda driver combination
804 COMPAT_NOT_SUPPORTED_ON_DEVICE forward compatibility was attempted on non supported HW
805 MPS_CONNECTION_FAILED        MPS client failed to connect to the MPS control daemon or the MPS server
806 MPS_RPC_FAILURE              the remote procedural call between the MPS server and the MPS client failed
807 MPS_SERVER_NOT_READY         MPS server is not ready to accept new MPS client requests
808 MPS_MAX_CLIENTS_REACHED      the hardware resources required to create MPS client have been exhausted
809 MPS_MAX_CONNECTIONS_REACHED  the hardware resources required to support device connections have been exhausted
810 MPS_CLIENT_TERMINATED        the MPS client has been terminated by the server
811 CDP_NOT_SUPPORTED            is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not
    support it
812 CDP_VERSION_MISMATCH         unsupported interaction between different versions of CUDA Dynamic Parallelism
900 STREAM_CAPTURE_UNSUPPORTED   operation not permitted when stream is capturing
901 STREAM_CAPTURE_INVALIDATED   operation failed due to a previous error during capture
902 STREAM_CAPTURE_MERGE         operation would result in a merge of separate capture sequences
903 STREAM_CAPTURE_UNMATCHED     capture was not ended in the same stream as it began
904 STREAM_CAPTURE_UNJOINED      capturing stream has unjoined work
905 STREAM_CAPTURE_ISOLATION     dependency created on uncaptured work in another stream
906 STREAM_CAPTURE_IMPLICIT      operation would make the legacy stream depend on a capturing blocking stream
907 CAPTURED_EVENT               operation not permitted on an event last recorded in a capturing stream
908 STREAM_CAPTURE_WRONG_THREAD  attempt to terminate a thread-local capture sequence from another thread
909 TIMEOUT                      wait operation timed out
910 GRAPH_EXEC_UPDATE_FAILURE    the graph update was not performed because it included changes which violated
    constraints specific to instantiated graph update
911 EXTERNAL_DEVICE              an async error has occured in external entity outside of CUDA
912 INVALID_CLUSTER_SIZE         a kernel launch error has occurred due to cluster misconfiguration
913 FUNCTION_NOT_LOADED          the function handle is not loaded when calling an API that requires a loaded function
914 INVALID_RESOURCE_TYPE        one or more resources passed in are not valid resource types for the operation
915 INVALID_RESOURCE_CONFIGURATION one or more resources are insufficient or non-applicable for the operation
916 KEY_ROTATION                 an error happened during the key rotation sequence
999 UNKNOWN                      unknown error
"""

# These bytes are never freed, because cuGetErrorName returns their addresses.
NAMES: dict[int, bytes] = {}
TEXTS: dict[int, bytes] = {}
for _line in _TABLE.strip().replace("\n    ", " ").splitlines():
    _code, _name, _text = _line.split(None, 2)
    NAMES[int(_code)] = (("CUDA_" if _code == "0" else "CUDA_ERROR_") + _name).encode()
    TEXTS[int(_code)] = _text.encode()
