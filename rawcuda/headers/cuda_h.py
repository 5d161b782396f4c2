"""cuda.h as data: the functions, constants, handles and structures of the CUDA driver, as the header declares them.

What it is   `PROTOTYPES`, the C text of each function that libcuda exports and this package can call; `ENUMS`, that of
             each constant; ctypes types for the arguments: integers, handles, pointers, structures; and the small
             readers that turn the text into Python objects: `prototypes()` and `enum()`.
What not     it loads no library and calls nothing: driver.py does, by these declarations.
Source       cuda.h of CUDA 11.7 to 13.5, which agree wherever they declare the same symbol: the tests compare this file
             with every cuda.h that they find. The symbols that the drivers of CUDA 11.4, 12.2 and 12.4 export. CUDA
             Driver API, "Data types used by CUDA driver" and the chapters after it, for the text about each function.
Read next    the first lines of PROTOTYPES, below; then driver.py

How to read a line of PROTOTYPES:

    CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);   // 3.2  allocate uninitialized memory

The symbol is the one that libcuda exports. If NVIDIA changes a function, libcuda exports a second one, `_v2`, keeps
the first for programs that were built earlier, and cuda.h says `#define cuMemAlloc cuMemAlloc_v2`. So the suffix is
part of a name and is never guessed: cuCtxGetDevice_v2 is not a newer cuCtxGetDevice but takes one more argument.
After // comes the CUDA version of the first driver with the symbol (drivers from 11.4 on are supported), and then
what the function does. Every function returns a CUresult, and its other results through pointers. Sizes and
pitches are in bytes. In ENUMS a version is that of the first header that has the constant, if it is later than 11.7.
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "PROTOTYPES",
    "ENUMS",
    "Prototype",
    "prototypes",
    "enum",
    "defines",
    "results",
    "Integer",
    "CUdevice",
    "CUdeviceptr",
    "Handle",
    "CUcontext",
    "CUstream",
    "CUevent",
    "CUmodule",
    "CUfunction",
    "CUmemoryPool",
    "CUarray",
    "CUgraph",
    "CUgraphExec",
    "CUgraphDeviceNode",
    "CUhostFn",
    "CUoccupancyB2DSize",
    "CUuuid",
    "CUmemLocation",
    "CUmemAccessDesc",
    "CUmemPoolProps",
    "CUDA_POINTER_ATTRIBUTE_P2P_TOKENS",
    "CUDA_MEMCPY2D",
    "CUDA_MEMCPY3D",
    "CUDA_MEMCPY3D_PEER",
    "CUaccessPolicyWindow",
    "CUlaunchMemSyncDomainMap",
    "CUlaunchAttributeValue",
    "CUlaunchAttribute",
    "CUlaunchConfig",
]

PROTOTYPES = r"""
/* Errors, initialization, version */
CUresult cuGetErrorName(CUresult error, const char **pStr);
        // 6.0  get the name of a status, such as "CUDA_ERROR_INVALID_VALUE"
CUresult cuGetErrorString(CUresult error, const char **pStr);   // 6.0  get a sentence that describes a status
CUresult cuInit(unsigned int Flags);
        // 2.0  initialize the driver; must be called before any other function; Flags is 0
CUresult cuDriverGetVersion(int *driverVersion);   // 2.2  get the newest CUDA that this driver supports: 12040 is 12.4
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);
        // 11.3  get the address of a function by its plain name and a version
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
        CUdriverProcAddressQueryResult *symbolStatus);   // 12.0  the same, and the reason if there is none

/* Devices */
CUresult cuDeviceGet(CUdevice *device, int ordinal);   // 2.0  get the device with this ordinal
CUresult cuDeviceGetCount(int *count);   // 2.0  get the number of devices that CUDA_VISIBLE_DEVICES allows
CUresult cuDeviceGetName(char *name, int len, CUdevice dev);
        // 2.0  get the name, such as "NVIDIA H200", in at most len bytes with the final zero
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev);   // 9.2  get the 16 bytes that identify a device
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev);   // 11.4  the same; for a MIG instance, its own identifier
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev);   // 3.2  get the size of the device's memory
CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev);
        // 2.0  get an attribute, see CUdevice_attribute
CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId);
        // 4.1  get the device with this address on the PCI bus, such as "0000:3b:00.0"
CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev);   // 4.1  get the device's address on the PCI bus
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev);
        // 11.2  get the device's default memory pool
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev);
        // 11.2  get the pool that cuMemAllocAsync allocates from
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool);
        // 11.2  set the pool that cuMemAllocAsync allocates from
CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev);
        // 4.0  get whether dev can read and write the memory of peerDev

/* Primary contexts: one for each device, with a reference count, shared by the whole process */
CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
        // 7.0  increment its count; create it if the count was 0
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev);   // 11.0  decrement its count; destroy it if the count reaches 0
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags);
        // 11.0  set how threads wait, see CUctx_flags
CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active);
        // 7.0  get its flags, and whether it exists, without creating it
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev);   // 11.0  destroy it, even if its count is not 0

/* Contexts. Each thread has a stack of contexts, whose top is the current one */
CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);
        // 3.2  create a context, and make it current
CUresult cuCtxDestroy_v2(CUcontext ctx);   // 4.0  destroy a context and everything in it
CUresult cuCtxPushCurrent_v2(CUcontext ctx);   // 4.0  push a context onto the stack, which makes it current
CUresult cuCtxPopCurrent_v2(CUcontext *pctx);   // 4.0  remove the current context from the stack, and return it
CUresult cuCtxSetCurrent(CUcontext ctx);   // 4.0  replace the top of the stack
CUresult cuCtxGetCurrent(CUcontext *pctx);   // 4.0  get the current context; NULL if there is none
CUresult cuCtxGetDevice(CUdevice *device);   // 2.0  get the device of the current context
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx);
        // 13.0  get the device of a given context: another function, not a newer version of cuCtxGetDevice
CUresult cuCtxGetFlags(unsigned int *flags);   // 7.0  get the flags of the current context
CUresult cuCtxSetFlags(unsigned int flags);   // 12.1  set the flags of the current context
CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId);
        // 12.0  get the context's number, which is never reused
CUresult cuCtxSynchronize(void);   // 2.0  wait until all work in the current context is complete
CUresult cuCtxSynchronize_v2(CUcontext ctx);   // 13.0  wait until all work in a given context is complete
CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit);   // 3.1  get a limit of the current context, see CUlimit
CUresult cuCtxSetLimit(CUlimit limit, size_t value);
        // 3.1  set a limit of the current context; the driver may round value
CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority);
        // 5.5  get the range of priorities; a smaller number is a higher priority
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags);
        // 4.0  allow the current context to use the memory of peerContext
CUresult cuCtxDisablePeerAccess(CUcontext peerContext);   // 4.0  undo cuCtxEnablePeerAccess

/* Streams: queues of work. CU_STREAM_LEGACY and CU_STREAM_PER_THREAD always exist */
CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags);   // 2.0  create a stream, see CUstream_flags
CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority);
        // 5.5  create a stream; a smaller number is a higher priority
CUresult cuStreamDestroy_v2(CUstream hStream);
        // 4.0  destroy a stream; returns at once, and enqueued work is still completed
CUresult cuStreamQuery(CUstream hStream);
        // 2.0  return CUDA_SUCCESS if all work is complete, else CUDA_ERROR_NOT_READY
CUresult cuStreamSynchronize(CUstream hStream);   // 2.0  wait until all work in the stream is complete
CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags);
        // 3.2  make work that is enqueued later wait for hEvent
CUresult cuStreamGetPriority(CUstream hStream, int *priority);   // 5.5  get the priority, as limited to the valid range
CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags);
        // 5.5  get the flags that the stream was created with
CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId);
        // 12.0  get the stream's number, which is never reused
CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx);   // 9.2  get the context that the stream belongs to
CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device);   // 12.8  get the device that the stream belongs to
CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags);
        // 6.0  attach managed memory to one stream
CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData);
        // 10.0  call fn in a host thread, in stream order; fn must not call CUDA

/* Capture: enqueued work becomes part of a graph and is not executed */
CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode);
        // 10.1  begin a capture; CUstreamCaptureMode decides which other calls are refused until it ends
CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph);
        // 10.0  end a capture and get the graph; NULL if the capture was invalidated
CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus);
        // 10.0  get whether the stream is being captured, and whether the capture was invalidated
CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out);
        // 10.1  the same, and the number of the capture
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
        // 10.1  exchange the mode of this thread with *mode

/* Events: markers in a stream */
CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags);   // 2.0  create an event, see CUevent_flags
CUresult cuEventRecord(CUevent hEvent, CUstream hStream);   // 2.0  record the event at the end of the stream
CUresult cuEventQuery(CUevent hEvent);   // 2.0  return CUDA_SUCCESS if the event is complete, else CUDA_ERROR_NOT_READY
CUresult cuEventSynchronize(CUevent hEvent);   // 2.0  wait until the event is complete
CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd);
        // 2.0  get the time between two recorded events
CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd);   // 12.8  the same
CUresult cuEventDestroy_v2(CUevent hEvent);   // 4.0  destroy an event; returns at once

/* Device memory */
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);   // 3.2  get the free and the total bytes of the current device
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);
        // 3.2  allocate uninitialized memory, aligned to 256 bytes or more
CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
        unsigned int ElementSizeBytes);   // 3.2  allocate rows, padded to a pitch that makes accesses efficient
CUresult cuMemFree_v2(CUdeviceptr dptr);   // 3.2  free memory; waits for work that may use it
CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr);
        // 3.2  get the allocation that contains dptr

/* Stream-ordered memory, and the pools from which it is allocated */
CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);
        // 11.2  allocate memory that work later in the stream can use
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream);
        // 11.2  the same, from a given pool
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream);   // 11.2  free memory in stream order
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps);
        // 11.2  create a pool, see CUmemPoolProps
CUresult cuMemPoolDestroy(CUmemoryPool pool);
        // 11.2  destroy a pool; returns at once, and allocated memory stays valid until it is freed
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep);   // 11.2  return unused memory to the system
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value);
        // 11.2  get an int or a cuuint64_t at value, see CUmemPool_attribute
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value);
        // 11.2  set an int or a cuuint64_t from value, see CUmemPool_attribute
CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location);
        // 11.2  get whether a device can use the pool's memory
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count);
        // 11.2  set which devices can use the pool's memory

/* Pinned host memory: the device can read and write it, and copies need no staging buffer */
CUresult cuMemAllocHost_v2(void **pp, size_t bytesize);   // 3.2  allocate page-locked memory
CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags);
        // 2.2  allocate page-locked memory, see CU_MEMHOSTALLOC_*
CUresult cuMemFreeHost(void *p);   // 2.0  free memory of cuMemAllocHost or cuMemHostAlloc
CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags);
        // 6.5  page-lock existing memory, see CU_MEMHOSTREGISTER_*
CUresult cuMemHostUnregister(void *p);   // 4.0  undo cuMemHostRegister
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags);
        // 3.2  get the address for kernels; Flags is 0
CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p);   // 2.3  get the flags that the memory was allocated with

/* Managed memory: it has one address on the host and on every device, and its pages migrate */
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags);
        // 6.0  allocate managed memory, see CUmemAttach_flags
CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device);
        // 8.0  tell the driver how memory will be used; device may be CU_DEVICE_CPU
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location);
        // 12.2  the same, also for host NUMA nodes
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream);
        // 8.0  move pages before they are used; dstDevice may be CU_DEVICE_CPU
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
        CUstream hStream);   // 12.2  the same, also for host NUMA nodes; flags is 0
CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
        size_t count);   // 8.0  get an attribute of a range, see CUmem_range_attribute

/* Attributes of addresses */
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
        // 4.0  get one attribute at data, see CUpointer_attribute
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
        CUdeviceptr ptr);   // 7.0  get several attributes; one that does not apply is 0, and no error
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr);
        // 6.0  set an attribute, see CUpointer_attribute

/* Copies. If source or destination is pageable host memory, even the Async functions may block */
CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount);
        // 4.0  copy; the driver finds out from the addresses where the memory is
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream);
        // 4.0  the same, in stream order
CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount);
        // 3.2  copy from host to device
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream);
        // 3.2  copy from host to device, in stream order
CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount);   // 3.2  copy from device to host
CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream);
        // 3.2  copy from device to host, in stream order
CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount);   // 3.2  copy within a device
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream);
        // 3.2  copy within a device, in stream order
CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
        size_t ByteCount);   // 4.0  copy from one context to another
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
        size_t ByteCount, CUstream hStream);   // 4.0  copy from one context to another, in stream order
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy);   // 3.2  copy a rectangle of bytes
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy);   // 3.2  copy a rectangle with any pitches
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream);   // 3.2  copy a rectangle, in stream order
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy);   // 3.2  copy a box of bytes
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream);   // 3.2  copy a box, in stream order
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy);   // 4.0  copy a box from one context to another
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream);
        // 4.0  copy a box from one context to another, in stream order

/* Fills. N and Width are numbers of elements, Height is a number of rows, and a pitch is in bytes */
CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N);   // 3.2  set N bytes
CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N);   // 3.2  set N 16-bit values
CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N);   // 3.2  set N 32-bit values
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream);
        // 3.2  set N bytes, in stream order
CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream);
        // 3.2  set N 16-bit values, in stream order
CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream);
        // 3.2  set N 32-bit values, in stream order
CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height);
        // 3.2  set rows of bytes
CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height);
        // 3.2  set rows of 16-bit values
CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height);
        // 3.2  set rows of 32-bit values
CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
        CUstream hStream);   // 3.2  set rows of bytes, in stream order
CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
        CUstream hStream);   // 3.2  set rows of 16-bit values, in stream order
CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
        CUstream hStream);   // 3.2  set rows of 32-bit values, in stream order

/* Modules: code and variables that are loaded into a context */
CUresult cuModuleLoad(CUmodule *module, const char *fname);   // 2.0  load a file
CUresult cuModuleLoadData(CUmodule *module, const void *image);
        // 2.0  load PTX that ends in a zero byte, a cubin or a fatbin
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
        void **optionValues);   // 2.1  the same, with options for the compiler, see CUjit_option
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin);
        // 2.0  load the image in a fatbin that fits this device best
CUresult cuModuleUnload(CUmodule hmod);   // 2.0  unload a module; its functions and variables become invalid
CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name);   // 2.0  get a kernel by name
CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name);
        // 3.2  get the address and the size of a variable by name
CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod);   // 12.4  get the number of kernels
CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod);
        // 12.4  get all kernels

/* Functions: the kernels of a module */
CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc);
        // 2.2  get an attribute, see CUfunction_attribute
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value);
        // 9.0  set an attribute, for example to allow more than 48 KiB of dynamic shared memory
CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc);   // 11.0  get the module that contains the function
CUresult cuFuncGetName(const char **name, CUfunction hfunc);   // 12.3  get the name as in the PTX, mangled
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize);
        // 12.4  get a parameter's place in the argument buffer; CUDA_ERROR_INVALID_VALUE after the last

/* Occupancy: how many blocks fit on a multiprocessor */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
        size_t dynamicSMemSize);   // 6.5  get how many blocks of blockSize threads fit on one multiprocessor
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
        size_t dynamicSMemSize, unsigned int flags);   // 7.0  the same, see CUoccupancy_flags
CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
        CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit);
        // 6.5  get a block size with which the kernel can use the whole device
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
        CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags);
        // 7.0  the same, see CUoccupancy_flags
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks,
        int blockSize);   // 10.2  get the dynamic shared memory that is left for each of numBlocks
CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config);
        // 11.8  get the largest cluster size
CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config);
        // 11.8  get how many clusters can run at the same time

/* Launches */
CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
        CUstream hStream, void **kernelParams, void **extra);
        // 4.0  the arguments are in kernelParams, or packed in a buffer in extra
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra);
        // 11.8  the same with attributes: clusters, cooperation, priority
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
        CUstream hStream, void **kernelParams);
        // 9.0  run all blocks at the same time, so that the grid can synchronize

/* Graphs: work that is defined once and launched many times */
CUresult cuGraphDestroy(CUgraph hGraph);   // 10.0  destroy a graph; executable graphs made from it stay valid
CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags);
        // 11.4  make an executable graph, see CUgraphInstantiate_flags
CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream);   // 10.0  enqueue the work of the graph
CUresult cuGraphExecDestroy(CUgraphExec hGraphExec);
        // 10.0  destroy an executable graph; a launch in progress is completed first
"""

ENUMS = r"""
/* Status codes: what every function returns */
enum CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,   // a parameter is out of range
    CUDA_ERROR_OUT_OF_MEMORY = 2,   // device memory, or pinned host memory
    CUDA_ERROR_NOT_INITIALIZED = 3,   // cuInit was not called
    CUDA_ERROR_DEINITIALIZED = 4,   // the driver is shutting down, as at the end of the process
    CUDA_ERROR_PROFILER_DISABLED = 5,
    CUDA_ERROR_PROFILER_NOT_INITIALIZED = 6,
    CUDA_ERROR_PROFILER_ALREADY_STARTED = 7,
    CUDA_ERROR_PROFILER_ALREADY_STOPPED = 8,
    CUDA_ERROR_STUB_LIBRARY = 34,   // the library is the toolkit's libcuda for linking, not the driver's
    CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36,   // 13.0
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_MULTICAST_RESOURCE_FULL = 47,   // 13.4
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_DEVICE_NOT_LICENSED = 102,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,   // no context is current, or it was destroyed
    CUDA_ERROR_CONTEXT_ALREADY_CURRENT = 202,
    CUDA_ERROR_MAP_FAILED = 205,
    CUDA_ERROR_UNMAP_FAILED = 206,
    CUDA_ERROR_ARRAY_IS_MAPPED = 207,
    CUDA_ERROR_ALREADY_MAPPED = 208,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,   // a cubin for another architecture, without PTX
    CUDA_ERROR_ALREADY_ACQUIRED = 210,
    CUDA_ERROR_NOT_MAPPED = 211,
    CUDA_ERROR_NOT_MAPPED_AS_ARRAY = 212,
    CUDA_ERROR_NOT_MAPPED_AS_POINTER = 213,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
    CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216,
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_ERROR_INVALID_PTX = 218,   // the compiler's error log gives the reason
    CUDA_ERROR_INVALID_GRAPHICS_CONTEXT = 219,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,   // the PTX is newer than the driver
    CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
    CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224,
    CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225,   // 12.1
    CUDA_ERROR_CONTAINED = 226,   // 12.8
    CUDA_ERROR_INSUFFICIENT_LOADER_VERSION = 227,   // 13.4
    CUDA_ERROR_INVALID_SOURCE = 300,
    CUDA_ERROR_FILE_NOT_FOUND = 301,
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,   // the object was destroyed, or belongs to another context
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_LOSSY_QUERY = 402,   // 12.3
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,   // work is not complete: a result, not an error
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,   // an invalid address. The context is lost, as after 702, 710, and 714 to 719
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,   // a block needs too many registers, threads or bytes of shared memory
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_TOO_MANY_PEERS = 711,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,   // not all blocks fit at the same time
    CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,   // 12.8
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,   // the versions of libcuda and of the kernel's driver differ
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
    CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
    CUDA_ERROR_MPS_RPC_FAILURE = 806,
    CUDA_ERROR_MPS_SERVER_NOT_READY = 807,
    CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808,
    CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809,
    CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,   // 11.8
    CUDA_ERROR_CDP_NOT_SUPPORTED = 811,   // 12.0
    CUDA_ERROR_CDP_VERSION_MISMATCH = 812,   // 12.0
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
    CUDA_ERROR_TIMEOUT = 909,
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
    CUDA_ERROR_EXTERNAL_DEVICE = 911,
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912,   // 11.8
    CUDA_ERROR_FUNCTION_NOT_LOADED = 913,   // 12.4
    CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,   // 12.4
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,   // 12.4
    CUDA_ERROR_KEY_ROTATION = 916,   // 12.8
    CUDA_ERROR_STREAM_DETACHED = 917,   // 13.1
    CUDA_ERROR_GRAPH_RECAPTURE_FAILURE = 918,   // 13.3
    CUDA_ERROR_FABRIC_NOT_READY = 919,   // 13.4
    CUDA_ERROR_UNKNOWN = 999,
};

/* Devices */
enum CUdevice_attribute {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,   // bytes
    CU_DEVICE_ATTRIBUTE_SHARED_MEMORY_PER_BLOCK = 8,   // the old name
    CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,   // bytes
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,   // threads
    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,   // bytes
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,   // 32-bit ones
    CU_DEVICE_ATTRIBUTE_REGISTERS_PER_BLOCK = 12,   // the old name
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,   // kHz
    CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,   // bytes
    CU_DEVICE_ATTRIBUTE_GPU_OVERLAP = 15,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,   // whether a kernel that runs too long is ended
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,   // whether it shares the host's memory
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,   // see CUcomputemode
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH = 21,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH = 22,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT = 23,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH = 24,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT = 25,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH = 26,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH = 27,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_WIDTH = 27,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT = 28,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_HEIGHT = 28,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS = 29,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_NUMSLICES = 29,
    CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT = 30,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_TCC_DRIVER = 35,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,   // kHz
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,   // bits
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,   // bytes
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,   // the number of copies that can run at the same time
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,   // whether host and device share one address space
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH = 42,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS = 43,
    CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER = 44,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH = 45,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT = 46,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE = 47,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE = 48,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE = 49,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT = 51,   // bytes
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH = 52,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH = 53,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS = 54,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH = 55,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH = 56,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT = 57,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH = 58,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT = 59,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH = 60,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH = 61,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS = 62,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH = 63,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT = 64,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS = 65,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH = 66,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH = 67,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS = 68,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH = 69,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH = 70,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT = 71,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH = 72,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH = 73,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT = 74,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH = 77,
    CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
    CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED = 79,
    CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED = 80,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,   // bytes
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,   // 32-bit ones
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
    CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD = 84,
    CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID = 85,
    CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED = 86,
    CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 87,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,   // whether kernels can use memory of malloc
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,   // whether both can use managed memory at the same time
    CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,   // whether host and device use the same address
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1 = 92,   // 12.0  up to CUDA 11 without _V1
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1 = 93,   // 12.0  up to CUDA 11 without _V1
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1 = 94,   // 12.0  up to CUDA 11 without _V1
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH = 96,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,   // bytes, if cuFuncSetAttribute allows it
    CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES = 98,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED = 102,   // the old name
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED = 104,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED = 105,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED = 107,
    CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE = 108,   // bytes
    CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE = 109,   // bytes
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,   // bytes that the driver uses
    CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED = 112,
    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
    CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED = 114,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,   // whether cuMemAllocAsync works
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,   // bits, see CUflushGPUDirectRDMAWritesOptions
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,   // see CUGPUDirectRDMAWritesOrdering
    CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES = 119,   // bits, see CUmemAllocationHandleType
    CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,   // 11.8
    CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED = 121,
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,   // 12.0  up to CUDA 11 it was 93; 122 had a _V2
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR = 123,   // 12.0  up to CUDA 11 it was 94; 123 had a _V2
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124,
    CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED = 125,   // 12.0
    CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT = 126,   // 12.0
    CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127,   // 12.0
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,   // 12.3
    CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS = 129,   // 12.0
    CU_DEVICE_ATTRIBUTE_NUMA_CONFIG = 130,   // 12.2  see CUdeviceNumaConfig
    CU_DEVICE_ATTRIBUTE_NUMA_ID = 131,   // 12.2
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132,   // 12.1
    CU_DEVICE_ATTRIBUTE_MPS_ENABLED = 133,   // 12.3
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134,   // 12.2
    CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED = 135,   // 12.5
    CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK = 136,   // 12.8
    CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH = 137,   // 12.8
    CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED = 138,   // 12.9
    CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID = 139,   // 12.8
    CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID = 140,   // 12.8
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141,   // 12.9
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142,   // 12.9
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED = 143,   // 12.8
    CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED = 144,   // 13.0
    CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 145,   // 13.0
    CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED = 146,   // 13.0
    CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED = 147,   // 13.0
    CU_DEVICE_ATTRIBUTE_ATOMIC_REDUCTION_SUPPORTED = 148,   // 13.1
    CU_DEVICE_ATTRIBUTE_LOCALITY_DOMAIN_COUNT = 149,   // 13.4
    CU_DEVICE_ATTRIBUTE_MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK = 150,   // 13.4
    CU_DEVICE_ATTRIBUTE_D3D12_CIG_STREAMS_SUPPORTED = 151,   // 13.3
    CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED = 152,   // 13.3
    CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_SUPPORTED = 153,   // 13.3
    CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_MULTICAST_SUPPORTED = 154,   // 13.3
    CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED = 155,   // 13.3
    CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED = 156,   // 13.3
    CU_DEVICE_ATTRIBUTE_LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT = 157,   // 13.4
    CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES = 158,   // 13.4
    CU_DEVICE_ATTRIBUTE_VULKAN_CIG_STREAMS_SUPPORTED = 159,   // 13.5
    CU_DEVICE_ATTRIBUTE_TENSOR_MAP_LARGE_TENSOR_MIN_SIZE = 160,   // 13.5
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED = 161,   // 13.4
};
enum CUcomputemode {
    CU_COMPUTEMODE_DEFAULT = 0,   // any number of contexts
    CU_COMPUTEMODE_PROHIBITED = 2,   // no context
    CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,   // contexts of one process only
};
enum CUdeviceNumaConfig {
    CU_DEVICE_NUMA_CONFIG_NONE = 0,   // 12.2
    CU_DEVICE_NUMA_CONFIG_NUMA_NODE = 1,   // 12.2
};
enum CUflushGPUDirectRDMAWritesOptions {
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST = 1,
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS = 2,
};
enum CUGPUDirectRDMAWritesOrdering {
    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE = 0,
    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER = 100,
    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES = 200,
};

/* Contexts */
enum CUctx_flags {
    CU_CTX_SCHED_AUTO = 0,   // spin if there are more processors than contexts, else yield
    CU_CTX_SCHED_SPIN = 1,   // a waiting thread spins: lowest latency, but it uses a processor
    CU_CTX_SCHED_YIELD = 2,   // a waiting thread yields to other threads
    CU_CTX_SCHED_BLOCKING_SYNC = 4,   // a waiting thread sleeps
    CU_CTX_BLOCKING_SYNC = 4,   // the old name
    CU_CTX_SCHED_MASK = 7,
    CU_CTX_MAP_HOST = 8,   // always set since CUDA 11
    CU_CTX_LMEM_RESIZE_TO_MAX = 16,
    CU_CTX_COREDUMP_ENABLE = 32,   // 12.1
    CU_CTX_USER_COREDUMP_ENABLE = 64,   // 12.1
    CU_CTX_SYNC_MEMOPS = 128,   // 12.1
};
enum CUlimit {
    CU_LIMIT_STACK_SIZE = 0,   // bytes for each thread
    CU_LIMIT_PRINTF_FIFO_SIZE = 1,   // bytes
    CU_LIMIT_MALLOC_HEAP_SIZE = 2,   // bytes
    CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 3,
    CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4,
    CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 5,
    CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6,   // bytes
    CU_LIMIT_SHMEM_SIZE = 7,   // 12.5
    CU_LIMIT_CIG_ENABLED = 8,   // 12.5
    CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED = 9,   // 12.5
    CU_LIMIT_PER_BLOCK_MEMORY_SIZE = 10,   // 13.4
};
enum CUshared_carveout {
    CU_SHAREDMEM_CARVEOUT_DEFAULT = -1,   // other values are a percentage
    CU_SHAREDMEM_CARVEOUT_MAX_SHARED = 100,
    CU_SHAREDMEM_CARVEOUT_MAX_L1 = 0,
};

/* Streams, capture, events */
enum CUstream_flags {
    CU_STREAM_DEFAULT = 0,   // the stream and the legacy stream wait for each other
    CU_STREAM_NON_BLOCKING = 1,   // they do not
};
enum CUsynchronizationPolicy {
    CU_SYNC_POLICY_AUTO = 1,
    CU_SYNC_POLICY_SPIN = 2,
    CU_SYNC_POLICY_YIELD = 3,
    CU_SYNC_POLICY_BLOCKING_SYNC = 4,
};
enum CUstreamCaptureMode {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,   // calls that could invalidate a capture are refused in every thread
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,   // they are refused in the thread that began the capture
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,   // they are allowed
};
enum CUstreamCaptureStatus {
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,   // invalidated, but not ended
};
enum CUevent_flags {
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_BLOCKING_SYNC = 1,   // a waiting thread sleeps
    CU_EVENT_DISABLE_TIMING = 2,   // faster
    CU_EVENT_INTERPROCESS = 4,   // needs CU_EVENT_DISABLE_TIMING
};
enum CUevent_wait_flags {
    CU_EVENT_WAIT_DEFAULT = 0,
    CU_EVENT_WAIT_EXTERNAL = 1,   // likewise
};

/* Memory */
enum CUmemorytype {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4,   // the driver finds out from the address
};
enum CUpointer_attribute {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,   // a CUcontext; NULL for pool memory
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,   // an unsigned int, see CUmemorytype
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,   // the address that kernels use
    CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,   // the address that the host uses
    CU_POINTER_ATTRIBUTE_P2P_TOKENS = 5,   // a CUDA_POINTER_ATTRIBUTE_P2P_TOKENS
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,   // a boolean; can be set: copies of this memory are never asynchronous
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,   // an unsigned long long that is never used again in this process
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,   // a boolean: provide 4 zero bytes for it
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,   // an int
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,   // the address of the allocation
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,   // the size of the allocation, a size_t
    CU_POINTER_ATTRIBUTE_MAPPED = 13,   // a boolean: provide 4 zero bytes for it
    CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
    CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,   // see CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,   // a CUmemoryPool, or NULL
    CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
    CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
    CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
    CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21,   // 12.8
    CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL = 22,   // 13.4
};
enum CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS {
    CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE = 0,
    CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ = 1,
    CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE = 3,
};
enum CUmemAttach_flags {
    CU_MEM_ATTACH_GLOBAL = 1,   // usable in any stream on any device
    CU_MEM_ATTACH_HOST = 2,   // usable on the host only, until it is attached to a stream
    CU_MEM_ATTACH_SINGLE = 4,   // usable in one stream
};
enum CUmem_advise {
    CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
    CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
    CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
    CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
    CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
};
enum CUmem_range_attribute {
    CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,
    CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
    CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,
    CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 4,
    CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 5,   // 12.2
    CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 6,   // 12.2
    CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7,   // 12.2
    CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8,   // 12.2
};
enum CUmemLocationType {
    CU_MEM_LOCATION_TYPE_INVALID = 0,
    CU_MEM_LOCATION_TYPE_NONE = 0,   // 13.0
    CU_MEM_LOCATION_TYPE_DEVICE = 1,   // id is the ordinal
    CU_MEM_LOCATION_TYPE_HOST = 2,   // 12.2  id is ignored
    CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,   // 12.2  id is the node
    CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,   // 12.2  the calling thread's node; id is ignored
    CU_MEM_LOCATION_TYPE_INVISIBLE = 5,   // 13.2
    CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN = 6,   // 13.4
};
enum CUmemAllocationType {
    CU_MEM_ALLOCATION_TYPE_INVALID = 0,
    CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    CU_MEM_ALLOCATION_TYPE_MANAGED = 2,   // 13.0
};
enum CUmemAllocationHandleType {
    CU_MEM_HANDLE_TYPE_NONE = 0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
    CU_MEM_HANDLE_TYPE_WIN32 = 2,
    CU_MEM_HANDLE_TYPE_WIN32_KMT = 4,
    CU_MEM_HANDLE_TYPE_FABRIC = 8,   // 12.3
};
enum CUmemAccess_flags {
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
    CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
};
enum CUmemPool_attribute {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,   // an int, default 1
    CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,   // an int, default 1
    CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,   // an int, default 1
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,   // a cuuint64_t: bytes kept at a synchronization, default 0
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,   // a cuuint64_t: bytes
    CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,   // a cuuint64_t: maximum, in bytes; setting it to 0 resets it
    CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,   // a cuuint64_t: bytes
    CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,   // a cuuint64_t: maximum, in bytes; setting it to 0 resets it
    CU_MEMPOOL_ATTR_ALLOCATION_TYPE = 9,   // 13.2
    CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES = 10,   // 13.2
    CU_MEMPOOL_ATTR_LOCATION_ID = 11,   // 13.2
    CU_MEMPOOL_ATTR_LOCATION_TYPE = 12,   // 13.2
    CU_MEMPOOL_ATTR_MAX_POOL_SIZE = 13,   // 13.2
    CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED = 14,   // 13.2
    CU_MEMPOOL_ATTR_LOCALITY_DOMAIN_ID = 15,   // 13.4
};
/* Code */
enum CUjit_option {
    CU_JIT_MAX_REGISTERS = 0,   // an unsigned int. Small values are passed in the void * itself
    CU_JIT_THREADS_PER_BLOCK = 1,   // in: a minimum, out: the number that was chosen
    CU_JIT_WALL_TIME = 2,   // out: a float, milliseconds
    CU_JIT_INFO_LOG_BUFFER = 3,   // a char *
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,   // in: its size, out: bytes written
    CU_JIT_ERROR_LOG_BUFFER = 5,   // a char *
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,   // in: its size, out: bytes written
    CU_JIT_OPTIMIZATION_LEVEL = 7,   // 0 to 4
    CU_JIT_TARGET_FROM_CUCONTEXT = 8,   // no value: compile for the current context's device
    CU_JIT_TARGET = 9,   // 75 for sm_75, and so on
    CU_JIT_FALLBACK_STRATEGY = 10,   // see CUjit_fallback
    CU_JIT_GENERATE_DEBUG_INFO = 11,   // an int
    CU_JIT_LOG_VERBOSE = 12,   // an int
    CU_JIT_GENERATE_LINE_INFO = 13,   // an int
    CU_JIT_CACHE_MODE = 14,   // see CUjit_cacheMode
    CU_JIT_NEW_SM3X_OPT = 15,   // for the driver's own use
    CU_JIT_FAST_COMPILE = 16,   // for the driver's own use
    CU_JIT_GLOBAL_SYMBOL_NAMES = 17,
    CU_JIT_GLOBAL_SYMBOL_ADDRESSES = 18,
    CU_JIT_GLOBAL_SYMBOL_COUNT = 19,
    CU_JIT_LTO = 20,
    CU_JIT_FTZ = 21,
    CU_JIT_PREC_DIV = 22,
    CU_JIT_PREC_SQRT = 23,
    CU_JIT_FMA = 24,
    CU_JIT_REFERENCED_KERNEL_NAMES = 25,
    CU_JIT_REFERENCED_KERNEL_COUNT = 26,
    CU_JIT_REFERENCED_VARIABLE_NAMES = 27,
    CU_JIT_REFERENCED_VARIABLE_COUNT = 28,
    CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES = 29,
    CU_JIT_POSITION_INDEPENDENT_CODE = 30,   // 12.0
    CU_JIT_MIN_CTA_PER_SM = 31,   // 12.3
    CU_JIT_MAX_THREADS_PER_BLOCK = 32,   // 12.4
    CU_JIT_OVERRIDE_DIRECTIVE_VALUES = 33,   // 12.4
    CU_JIT_SPLIT_COMPILE = 34,   // 13.0
    CU_JIT_BINARY_LOADER_THREAD_COUNT = 35,   // 13.1
};
enum CUjit_fallback {
    CU_PREFER_PTX = 0,   // compile the PTX
    CU_PREFER_BINARY = 1,   // use a cubin that fits
};
enum CUjit_cacheMode {
    CU_JIT_CACHE_OPTION_NONE = 0,
    CU_JIT_CACHE_OPTION_CG = 1,
    CU_JIT_CACHE_OPTION_CA = 2,
};
enum CUfunction_attribute {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,   // static shared memory
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,   // declared by the user
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,   // for each thread
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,   // the .target of the PTX: 86 is 8.6
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,   // the architecture of the machine code: 86 is 8.6
    CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,   // can be set, up to the device's ..._PER_BLOCK_OPTIN
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,   // can be set: a percentage, or a CUshared_carveout
    CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,   // 11.8
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,   // 11.8  can be set, as the next four can
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12,   // 11.8
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,   // 11.8
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,   // 11.8
    CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,   // 11.8
    CU_FUNC_ATTRIBUTE_DEVICE_NODE_UPDATE_SUPPORTED = 16,   // 13.3
    CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE = 17,   // 13.4
};
enum CUoccupancy_flags {
    CU_OCCUPANCY_DEFAULT = 0,
    CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE = 1,
};
enum CUdriverProcAddress_flags {
    CU_GET_PROC_ADDRESS_DEFAULT = 0,
    CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,   // the _ptsz or _ptds variant
};
enum CUdriverProcAddressQueryResult {
    CU_GET_PROC_ADDRESS_SUCCESS = 0,   // 12.0
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,   // 12.0
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,   // 12.0
};

/* Launches */
enum CUlaunchAttributeID {
    CU_LAUNCH_ATTRIBUTE_IGNORE = 0,   // 11.8
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1,   // 11.8  accessPolicyWindow; of kernels and streams
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,   // 11.8  cooperative: if not 0, all blocks run at the same time
    CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3,   // 11.8  syncPolicy; of streams
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,   // 11.8  clusterDim: divides the grid in each dimension
    CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5,   // 11.8  clusterSchedulingPolicyPreference
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,   // 11.8  programmaticStreamSerializationAllowed
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,   // 11.8  programmaticEvent
    CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,   // 11.8  priority; of kernels and streams
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP = 9,   // 12.0  memSyncDomainMap
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN = 10,   // 12.0  memSyncDomain
    CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11,   // 12.8  preferredClusterDim
    CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = 12,   // 12.3  launchCompletionEvent
    CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE = 13,   // 12.4  deviceUpdatableKernelNode
    CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14,   // 12.5  sharedMemCarveout
    CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING = 16,   // 13.0  nvlinkUtilCentricScheduling
    CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE = 17,   // 13.2  portableClusterSizeMode
    CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE = 18,   // 13.2  sharedMemoryMode
};
enum CUaccessProperty {
    CU_ACCESS_PROPERTY_NORMAL = 0,
    CU_ACCESS_PROPERTY_STREAMING = 1,
    CU_ACCESS_PROPERTY_PERSISTING = 2,
};
enum CUclusterSchedulingPolicy {
    CU_CLUSTER_SCHEDULING_POLICY_DEFAULT = 0,   // 11.8
    CU_CLUSTER_SCHEDULING_POLICY_SPREAD = 1,   // 11.8
    CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING = 2,   // 11.8
    CU_CLUSTER_SCHEDULING_POLICY_RUBIN_DSMEM_LOCALITY = 3,   // 13.4
};
enum CUlaunchMemSyncDomain {
    CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT = 0,   // 12.0
    CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE = 1,   // 12.0
};

/* Graphs */
enum CUgraphInstantiate_flags {
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,   // free the memory that the previous launch left allocated
    CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,   // 12.0  with cuGraphInstantiateWithParams only
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4,   // 12.0
    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8,
};
/* Constants that are not enumerators */
#define CU_STREAM_LEGACY 1   // the default stream of a context: it and other streams wait for each other
#define CU_STREAM_PER_THREAD 2   // the default stream of each thread
#define CU_DEVICE_CPU -1   // for cuMemAdvise, cuMemPrefetchAsync
#define CU_DEVICE_INVALID -2
#define CU_MEMHOSTALLOC_PORTABLE 1   // pinned for every context
#define CU_MEMHOSTALLOC_DEVICEMAP 2   // mapped for kernels; always so on devices with UNIFIED_ADDRESSING
#define CU_MEMHOSTALLOC_WRITECOMBINED 4   // fast to transfer, very slow for the host to read
#define CU_MEMHOSTREGISTER_PORTABLE 1   // pinned for every context
#define CU_MEMHOSTREGISTER_DEVICEMAP 2   // mapped for kernels
#define CU_MEMHOSTREGISTER_IOMEMORY 4   // the memory of another device
#define CU_MEMHOSTREGISTER_READ_ONLY 8   // kernels can only read it
#define CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS 2   // 12.8
#define CU_LAUNCH_PARAM_END_AS_INT 0
#define CU_LAUNCH_PARAM_END 0   // ends the list in extra
#define CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT 1
#define CU_LAUNCH_PARAM_BUFFER_POINTER 1   // next in extra: the packed arguments
#define CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT 2
#define CU_LAUNCH_PARAM_BUFFER_SIZE 2   // next in extra: a size_t * to their size in bytes
#define CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM 1   // 12.9
#define CU_COMPUTE_ACCELERATED_TARGET_BASE 65536   // 12.0  added to a CU_JIT_TARGET: 90a
#define CU_COMPUTE_FAMILY_TARGET_BASE 131072   // 12.9  added to a CU_JIT_TARGET: 100f
"""

# ---------------------------------------------------------------------------------------------------------------------
# Types. ctypes calls a parameter type's from_param() on each argument, which refuses what does not fit.


_BOOLEANS = ("bool", "bool_")  # the names of Python's and NumPy's types; both have an __index__


class Integer:
    """An integer parameter: it refuses values that its C type cannot hold, which ctypes would silently truncate."""

    c_name = ""
    machine: Any = ctypes.c_int  # the plain ctypes type of the same width and sign
    low, high = 0, 0

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError   not an integer; True and False are not integers here
                ValueError  an integer that the C type cannot hold
        """
        if type(value) is not int:
            value = cls._number(value)
        if cls.low <= value <= cls.high:
            return cls.machine(value)
        raise ValueError(f"{_shown(value)} does not fit: {cls.c_name} holds {cls.low} to {cls.high}")

    @classmethod
    def _number(cls, value: Any) -> int:
        """Return the int value of another integer: of an object with __index__, or a ctypes integer of its width."""
        kind = type(value)
        if hasattr(kind, "__index__") and kind.__name__ not in _BOOLEANS:
            return int(kind.__index__(value))
        if (
            isinstance(value, ctypes._SimpleCData)
            and kind._type_ in "bBhHiIlLqQ"
            and ctypes.sizeof(value) == ctypes.sizeof(cls.machine)
        ):
            return int(value.value)
        raise TypeError(f"{cls.c_name} takes an integer, not {_article(value)}")


def _shown(value: int) -> str:
    """Return an integer as text for an error; Python refuses to print very long ones."""
    return str(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"


def _article(value: Any) -> str:
    """Return the text for an argument in an error."""
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        return _shown(value)
    return f"{'an' if type(value).__name__[0] in 'aeiouAEIO' else 'a'} {type(value).__name__}"


class _Int(Integer, ctypes.c_int):
    c_name, machine, low, high = "int", ctypes.c_int, -(2**31), 2**31 - 1


class _UnsignedInt(Integer, ctypes.c_uint):
    c_name, machine, high = "unsigned int", ctypes.c_uint, 2**32 - 1


class _UnsignedLongLong(Integer, ctypes.c_ulonglong):
    c_name, machine, high = "unsigned long long", ctypes.c_ulonglong, 2**64 - 1


class _Size(Integer, ctypes.c_size_t):
    c_name, machine, high = "size_t", ctypes.c_size_t, 2**64 - 1


class _UnsignedChar(Integer, ctypes.c_ubyte):
    c_name, machine, high = "unsigned char", ctypes.c_ubyte, 2**8 - 1


class _UnsignedShort(Integer, ctypes.c_ushort):
    c_name, machine, high = "unsigned short", ctypes.c_ushort, 2**16 - 1


class _Enumerator(Integer, ctypes.c_uint):
    c_name, machine, high = "an enum", ctypes.c_uint, 2**32 - 1  # values that only newer drivers know are allowed


class CUdevice(_Int):
    """A device. CU_DEVICE_CPU and CU_DEVICE_INVALID are below 0."""

    c_name = "CUdevice"


class CUdeviceptr(_UnsignedLongLong):
    """An address that a kernel can use. It is an integer, not a pointer: the host must not follow it."""

    c_name = "CUdeviceptr"


class Handle(ctypes.c_void_p):
    """A pointer to an object of the driver. Each kind is a type; a parameter takes its own kind, or None for NULL."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError  neither this kind of handle nor None
        """
        if value is None or type(value) is cls:
            return value
        remedy = f": if this is one, write {cls.__name__}({value:#x})" if type(value) is int else ""
        raise TypeError(f"this takes a {cls.__name__} or None, not {_article(value)}{remedy}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value or 0:#x})"


class CUcontext(Handle):
    """The state of a process on a device: its address space, modules and streams."""


class CUstream(Handle):
    """A queue of work. CUstream(CU_STREAM_LEGACY) and CUstream(CU_STREAM_PER_THREAD) always exist; so does NULL."""


class CUevent(Handle):
    """A marker in a stream: it is reached when all work before it is done."""


class CUmodule(Handle):
    """Code and variables loaded into a context."""


class CUfunction(Handle):
    """A kernel in a module."""


class CUmemoryPool(Handle):
    """A pool from which stream-ordered memory is allocated."""


class CUarray(Handle):
    """Memory laid out for textures."""


class CUgraph(Handle):
    """Work and its dependencies; it must be instantiated before it can be launched."""


class CUgraphExec(Handle):
    """An executable graph."""


class CUgraphDeviceNode(Handle):
    """A graph node that a kernel may change."""


class _VoidPointer(ctypes.c_void_p):
    """void *: an address, None, or a ctypes array, pointer or byref(...)."""

    wanted, takes_bytes = "an address, None, or a ctypes array, pointer or byref()", False

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError   a handle, or something that has no address
                ValueError  an integer that is not an address
        """
        if value is None:
            return None
        kind = type(value)
        if kind is int or (
            hasattr(kind, "__index__")
            and not hasattr(kind, "__len__")  # arrays have both
            and kind.__name__ not in _BOOLEANS
        ):
            address = kind.__index__(value)
            if 0 <= address < 2**64:
                return ctypes.c_void_p(address)
            raise ValueError(f"{_shown(address)} is not an address: it is below 0, or above 2**64 - 1")
        if isinstance(value, bytes) and not cls.takes_bytes:
            raise TypeError("bytes cannot be written to: give a bytearray by (ctypes.c_char * n).from_buffer(...)")
        if not isinstance(value, (str, bool, Handle)):
            try:
                return ctypes.c_void_p.from_param(value)
            except TypeError:
                pass
        raise TypeError(f"this takes {cls.wanted}, not {_article(value)}")


class _ConstVoidPointer(_VoidPointer):
    """const void *: the same, and bytes."""

    wanted, takes_bytes = "an address, None, bytes, or a ctypes array, pointer or byref()", True


class _String(ctypes.c_char_p):
    """const char *: bytes, None, or an array of char."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError   not bytes; a str must be encoded
                ValueError  bytes with a zero byte inside, at which C would stop reading
        """
        if type(value) is bytes and 0 in value.rstrip(b"\0"):
            raise ValueError(f"{value!r} has a zero byte inside, at which C stops reading")
        if isinstance(value, str):
            raise TypeError("this takes bytes, not a str: use its .encode()")
        return ctypes.c_char_p.from_param(value)


CUhostFn = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # void (*)(void *userData)
CUoccupancyB2DSize = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)  # size_t (*)(int blockSize): dynamic shared bytes


class _Callback(ctypes.c_void_p):
    """A pointer to a function: a ctypes function of its type, its address, or None."""

    c_name, function = "CUhostFn", CUhostFn

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Check one argument.

        raises  TypeError   another type of function, or a Python function, whose ctypes function nothing keeps alive
                ValueError  an integer that is not an address
        """
        if value is None or isinstance(value, cls.function):
            return ctypes.c_void_p.from_param(value)
        if type(value) is int:
            return _VoidPointer.from_param(value)
        raise TypeError(
            f"this takes a function made with {cls.c_name}(...), its address or None, not {_article(value)}"
        )


class _OccupancyCallback(_Callback):
    c_name, function = "CUoccupancyB2DSize", CUoccupancyB2DSize


# ---------------------------------------------------------------------------------------------------------------------
# Structures, with the header's members. Enums are unsigned int; bytes are c_ubyte, as ctypes ends c_char at a zero.


class CUuuid(ctypes.Structure):
    """16 bytes that identify a device."""

    _fields_ = [("bytes", ctypes.c_ubyte * 16)]


class CUmemLocation(ctypes.Structure):
    """A device, the host, or a NUMA node: a CUmemLocationType and its number.

    In CUDA 13.4 and later, two bytes of `id` can be a device and its locality domain. That union is left out, because
    ctypes cannot pass a union by value.
    """

    _fields_ = [("type", ctypes.c_uint), ("id", ctypes.c_int)]


class CUmemAccessDesc(ctypes.Structure):
    """The access to a pool's memory from a location: a CUmemAccess_flags."""

    _fields_ = [("location", CUmemLocation), ("flags", ctypes.c_uint)]


class CUmemPoolProps(ctypes.Structure):
    """The properties of a pool. Members that later headers added were reserved, and 0, in earlier ones."""

    _fields_ = [
        ("allocType", ctypes.c_uint),  # a CUmemAllocationType
        ("handleTypes", ctypes.c_uint),  # bits of CUmemAllocationHandleType
        ("location", CUmemLocation),
        ("win32SecurityAttributes", ctypes.c_void_p),
        ("maxSize", ctypes.c_size_t),  # 12.2  bytes; 0: the driver decides
        ("usage", ctypes.c_ushort),  # 12.6  CU_MEM_POOL_CREATE_USAGE_*
        ("gpuDirectRDMACapable", ctypes.c_ubyte),  # 13.4
        ("reserved", ctypes.c_ubyte * 53),
    ]


class CUDA_POINTER_ATTRIBUTE_P2P_TOKENS(ctypes.Structure):
    """The names of memory in Linux's own peer-to-peer interface."""

    _fields_ = [("p2pToken", ctypes.c_ulonglong), ("vaSpaceToken", ctypes.c_uint)]


class CUDA_MEMCPY2D(ctypes.Structure):
    """A rectangle to copy. Of Host, Device and Array only the one that MemoryType, a CUmemorytype, selects is used."""

    _fields_ = [
        ("srcXInBytes", ctypes.c_size_t),
        ("srcY", ctypes.c_size_t),
        ("srcMemoryType", ctypes.c_uint),
        ("srcHost", ctypes.c_void_p),
        ("srcDevice", ctypes.c_ulonglong),
        ("srcArray", CUarray),
        ("srcPitch", ctypes.c_size_t),
        ("dstXInBytes", ctypes.c_size_t),
        ("dstY", ctypes.c_size_t),
        ("dstMemoryType", ctypes.c_uint),
        ("dstHost", ctypes.c_void_p),
        ("dstDevice", ctypes.c_ulonglong),
        ("dstArray", CUarray),
        ("dstPitch", ctypes.c_size_t),
        ("WidthInBytes", ctypes.c_size_t),
        ("Height", ctypes.c_size_t),
    ]


class CUDA_MEMCPY3D(ctypes.Structure):
    """A box to copy. Pitch is from row to row in bytes, Height from plane to plane in rows."""

    _fields_ = [
        ("srcXInBytes", ctypes.c_size_t),
        ("srcY", ctypes.c_size_t),
        ("srcZ", ctypes.c_size_t),
        ("srcLOD", ctypes.c_size_t),
        ("srcMemoryType", ctypes.c_uint),
        ("srcHost", ctypes.c_void_p),
        ("srcDevice", ctypes.c_ulonglong),
        ("srcArray", CUarray),
        ("reserved0", ctypes.c_void_p),
        ("srcPitch", ctypes.c_size_t),
        ("srcHeight", ctypes.c_size_t),
        ("dstXInBytes", ctypes.c_size_t),
        ("dstY", ctypes.c_size_t),
        ("dstZ", ctypes.c_size_t),
        ("dstLOD", ctypes.c_size_t),
        ("dstMemoryType", ctypes.c_uint),
        ("dstHost", ctypes.c_void_p),
        ("dstDevice", ctypes.c_ulonglong),
        ("dstArray", CUarray),
        ("reserved1", ctypes.c_void_p),
        ("dstPitch", ctypes.c_size_t),
        ("dstHeight", ctypes.c_size_t),
        ("WidthInBytes", ctypes.c_size_t),
        ("Height", ctypes.c_size_t),
        ("Depth", ctypes.c_size_t),
    ]


class CUDA_MEMCPY3D_PEER(ctypes.Structure):
    """A box to copy between two contexts."""

    _fields_ = [
        ("srcXInBytes", ctypes.c_size_t),
        ("srcY", ctypes.c_size_t),
        ("srcZ", ctypes.c_size_t),
        ("srcLOD", ctypes.c_size_t),
        ("srcMemoryType", ctypes.c_uint),
        ("srcHost", ctypes.c_void_p),
        ("srcDevice", ctypes.c_ulonglong),
        ("srcArray", CUarray),
        ("srcContext", CUcontext),
        ("srcPitch", ctypes.c_size_t),
        ("srcHeight", ctypes.c_size_t),
        ("dstXInBytes", ctypes.c_size_t),
        ("dstY", ctypes.c_size_t),
        ("dstZ", ctypes.c_size_t),
        ("dstLOD", ctypes.c_size_t),
        ("dstMemoryType", ctypes.c_uint),
        ("dstHost", ctypes.c_void_p),
        ("dstDevice", ctypes.c_ulonglong),
        ("dstArray", CUarray),
        ("dstContext", CUcontext),
        ("dstPitch", ctypes.c_size_t),
        ("dstHeight", ctypes.c_size_t),
        ("WidthInBytes", ctypes.c_size_t),
        ("Height", ctypes.c_size_t),
        ("Depth", ctypes.c_size_t),
    ]


class CUaccessPolicyWindow(ctypes.Structure):
    """A range of addresses and its treatment by the L2 cache: hitProp for the part hitRatio, missProp for the rest."""

    _fields_ = [
        ("base_ptr", ctypes.c_void_p),
        ("num_bytes", ctypes.c_size_t),
        ("hitRatio", ctypes.c_float),
        ("hitProp", ctypes.c_uint),
        ("missProp", ctypes.c_uint),
    ]


class CUlaunchMemSyncDomainMap(ctypes.Structure):
    """The memory synchronization domains for CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT and _REMOTE."""

    _fields_ = [("default_", ctypes.c_ubyte), ("remote", ctypes.c_ubyte)]


class _Dimensions(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class _ProgrammaticEvent(ctypes.Structure):
    _fields_ = [("event", CUevent), ("flags", ctypes.c_int), ("triggerAtBlockStart", ctypes.c_int)]


class _LaunchCompletionEvent(ctypes.Structure):
    _fields_ = [("event", CUevent), ("flags", ctypes.c_int)]


class _DeviceUpdatableKernelNode(ctypes.Structure):
    _fields_ = [("deviceUpdatable", ctypes.c_int), ("devNode", CUgraphDeviceNode)]


class CUlaunchAttributeValue(ctypes.Union):
    """The value of a launch attribute, 64 bytes; ENUMS names the member for each CUlaunchAttributeID."""

    _fields_ = [
        ("pad", ctypes.c_ubyte * 64),
        ("accessPolicyWindow", CUaccessPolicyWindow),
        ("cooperative", ctypes.c_int),
        ("syncPolicy", ctypes.c_uint),  # a CUsynchronizationPolicy
        ("clusterDim", _Dimensions),
        ("clusterSchedulingPolicyPreference", ctypes.c_uint),
        ("programmaticStreamSerializationAllowed", ctypes.c_int),
        ("programmaticEvent", _ProgrammaticEvent),
        ("launchCompletionEvent", _LaunchCompletionEvent),  # 12.3
        ("priority", ctypes.c_int),
        ("memSyncDomainMap", CUlaunchMemSyncDomainMap),  # 12.0
        ("memSyncDomain", ctypes.c_uint),  # 12.0
        ("preferredClusterDim", _Dimensions),  # 12.8
        ("deviceUpdatableKernelNode", _DeviceUpdatableKernelNode),  # 12.4
        ("sharedMemCarveout", ctypes.c_uint),  # 12.5
        ("nvlinkUtilCentricScheduling", ctypes.c_uint),  # 13.0
        ("portableClusterSizeMode", ctypes.c_uint),  # 13.2
        ("sharedMemoryMode", ctypes.c_uint),  # 13.2
    ]


class CUlaunchAttribute(ctypes.Structure):
    """A launch attribute: a CUlaunchAttributeID and its value."""

    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_ubyte * 4), ("value", CUlaunchAttributeValue)]


class CUlaunchConfig(ctypes.Structure):
    """The configuration for cuLaunchKernelEx: grid in blocks, block in threads."""

    _fields_ = [
        ("gridDimX", ctypes.c_uint),
        ("gridDimY", ctypes.c_uint),
        ("gridDimZ", ctypes.c_uint),
        ("blockDimX", ctypes.c_uint),
        ("blockDimY", ctypes.c_uint),
        ("blockDimZ", ctypes.c_uint),
        ("sharedMemBytes", ctypes.c_uint),
        ("hStream", CUstream),
        ("attrs", ctypes.POINTER(CUlaunchAttribute)),
        ("numAttrs", ctypes.c_uint),
    ]


# ---------------------------------------------------------------------------------------------------------------------
# The readers. Two threads may read at once: they get the same result, and a table is published only when complete.

_TYPES: dict[str, Any] = {  # C type -> ctypes type; pointer types are added on first use
    "int": _Int,
    "unsigned int": _UnsignedInt,
    "size_t": _Size,
    "unsigned char": _UnsignedChar,
    "unsigned short": _UnsignedShort,
    "unsigned long long": _UnsignedLongLong,
    "cuuint64_t": _UnsignedLongLong,
    "void *": _VoidPointer,
    "const void *": _ConstVoidPointer,
    "const char *": _String,
    "CUhostFn": _Callback,
    "CUoccupancyB2DSize": _OccupancyCallback,
}
_POINTED: dict[str, Any] = {
    "char": ctypes.c_char,
    "float": ctypes.c_float,
    "void *": ctypes.c_void_p,
    "const char *": ctypes.c_char_p,
}


def _type_of(text: str) -> Any:
    """Return the ctypes type for a C type, such as `const CUlaunchConfig *`."""
    kind = _TYPES.get(text)
    if kind is None:
        if text.endswith("*"):
            inner = text[:-1].rstrip()
            kind = _POINTED.get(inner)
            if kind is None:
                kind = _type_of(inner[6:] if inner.startswith("const ") else inner)
                kind = kind.machine if issubclass(kind, Integer) else kind
            kind = ctypes.POINTER(kind)
        elif f"\nenum {text} {{" in ENUMS:
            kind = _Enumerator
        else:
            kind = globals()[text]  # a handle or a structure, under its own name
        _TYPES[text] = kind
    return kind


class Prototype:
    """A function of the driver, as its line in PROTOTYPES declares it."""

    __slots__ = ("line", "name", "since", "doc", "_parameters")

    def __init__(self, line: str, comment: str) -> None:
        version, _, self.doc = comment.partition("  ")
        major, _, minor = version.partition(".")
        self.line = line  # the C text
        self.name = line[len("CUresult ") : line.index("(")]
        self.since = int(major), int(minor)  # the CUDA version whose driver first had it
        self._parameters: tuple[tuple[str, Any], ...] | None = None

    @property
    def parameters(self) -> tuple[tuple[str, Any], ...]:
        """Return (name, ctypes type) of each parameter; the line is parsed on first access."""
        if self._parameters is None:
            inside = self.line[self.line.index("(") + 1 : -2]
            self._parameters = () if inside == "void" else tuple(map(_parameter, inside.split(", ")))
        return self._parameters

    @property
    def machine_types(self) -> tuple[Any, ...]:
        """Return the parameters' plain ctypes types, for a function of this type that is written in Python.

        Integers arrive there as int, every pointer and handle as an address or None, a structure as itself.
        """
        return tuple(
            kind.machine
            if issubclass(kind, Integer)
            else kind
            if issubclass(kind, ctypes.Structure)
            else ctypes.c_void_p
            for _, kind in self.parameters
        )

    def __repr__(self) -> str:
        return f"<{self.line}>"


def _parameter(text: str) -> tuple[str, Any]:
    """Split `unsigned int *count` into the name and the type."""
    start = max(text.rfind(" "), text.rfind("*")) + 1
    return text[start:], _type_of(text[:start].rstrip())


_prototypes: dict[str, Prototype] = {}
_enums: dict[str, dict[str, int]] = {}


def prototypes() -> dict[str, Prototype]:
    """Return every function of PROTOTYPES by its exported name."""
    global _prototypes
    if not _prototypes:
        found, text = {}, ""
        for line in PROTOTYPES.split("\n"):
            if line and not line.startswith("/*"):
                code, _, comment = line.partition("//")
                text += code.strip() if not text or not code.strip() else " " + code.strip()
                if comment:
                    prototype = Prototype(text, comment.strip())
                    found[prototype.name], text = prototype, ""
        _prototypes = found
    return _prototypes


def _constants() -> dict[str, dict[str, int]]:
    """Return every enum of ENUMS by its name, and the #defines under "#define"."""
    global _enums
    if not _enums:
        found: dict[str, dict[str, int]] = {"#define": {}}
        for line in ENUMS.split("\n"):
            word, _, rest = line.partition("//")[0].strip().partition(" ")
            if word == "enum":
                members = found[rest[:-2]] = {}
            elif rest.startswith("= "):
                members[word] = int(rest[2:-1])
            elif word == "#define":
                name, value = rest.split()
                found["#define"][name] = int(value)
        _enums = found
    return _enums


def enum(name: str) -> dict[str, int]:
    """Return the enumerators of one enum.

    raises  KeyError  no enum of that name in ENUMS
    """
    return _constants()[name]


def defines() -> dict[str, int]:
    """Return the constants that the header defines by #define."""
    return _constants()["#define"]


def results() -> dict[int, str]:
    """Return the name of each code that a function can return."""
    return {code: name for name, code in enum("CUresult").items()}


def __getattr__(name: str) -> int:
    """Return an enumerator or a #define; the table is parsed on first access."""
    if name.startswith("CU"):
        for members in _constants().values():
            if name in members:
                return globals().setdefault(name, members[name])  # type: ignore[no-any-return]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for members in _constants().values() for name in members)})
