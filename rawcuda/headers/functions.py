"""Functions of cuda.h: what most programs call: devices, contexts, streams, events, memory, modules, kernels.

What it is   `PROTOTYPES`, the C text of each function, as cuda_h.py explains it.
Source       cuda.h of CUDA 11.7 to 13.5; CUDA Driver API, the chapters from "Error Handling" to "Execution Control"
Read next    functions_graphs.py
"""

from __future__ import annotations

__all__ = ["PROTOTYPES"]

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
        CUdriverProcAddressQueryResult *symbolStatus);
        // 12.0  get the address of a function by its plain name and a version, and the reason if there is none

/* Devices */
CUresult cuDeviceGet(CUdevice *device, int ordinal);   // 2.0  get the device with this ordinal
CUresult cuDeviceGetCount(int *count);   // 2.0  get the number of devices that CUDA_VISIBLE_DEVICES allows
CUresult cuDeviceGetName(char *name, int len, CUdevice dev);
        // 2.0  get the name, such as "NVIDIA H200", in at most len bytes with the final zero
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev);   // 9.2  get the 16 bytes that identify a device
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev);
        // 11.4  get the 16 bytes that identify a device or, in a MIG instance, the instance
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
CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev);
        // 10.0  get the identifier of a device on Windows: 8 bytes, and a mask of its nodes
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format, unsigned numChannels,
        CUdevice dev);   // 11.1  get how many elements of a format a 1-D texture over memory can have
CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
        unsigned int count, CUdevice dev);   // 13.0  get which atomic operations the device can perform on host memory
CUresult cuDeviceGetNvSciSyncAttributes(void *nvSciSyncAttrList, CUdevice dev, int flags);
        // 10.2  get what the device's semaphores need from NvSciSync
CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev);
        // 11.4  get whether a device supports a kind of execution affinity
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope);
        // 11.3  make what other devices wrote by GPUDirect RDMA visible
CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev);
        // 2.0  get 10 properties at once; deprecated: cuDeviceGetAttribute has all
CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev);
        // 2.0  get the compute capability; deprecated: it is two attributes of the device
CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc, void *userData,
        CUasyncCallbackHandle *callback);   // 12.4  register a function that the driver calls when something happens
CUresult cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback);
        // 12.4  undo cuDeviceRegisterAsyncNotification
CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice);
        // 8.0  get what srcDevice can do with the memory of dstDevice, see CUdevice_P2PAttribute
CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
        unsigned int count, CUdevice srcDevice, CUdevice dstDevice);
        // 13.0  get which atomic operations srcDevice can perform on dstDevice's memory

/* Primary contexts: one for each device, with a reference count, shared by the whole process */
CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
        // 7.0  increment the count of the device's primary context; create it if the count was 0
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev);
        // 11.0  decrement the count of the device's primary context; destroy it if the count reaches 0
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags);
        // 11.0  set how threads wait, see CUctx_flags
CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active);
        // 7.0  get the flags of the primary context, and whether it exists, without creating it
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev);
        // 11.0  destroy the device's primary context, even if its count is not 0

/* Contexts. Each thread has a stack of contexts, whose top is the current one */
CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);
        // 3.2  create a context, and make it current
CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
        CUdevice dev);   // 11.4  create a context with execution affinities, and make it current
CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev);
        // 12.5  create a context with parameters (NULL: none), and make it current
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
CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig);
        // 3.2  get the preferred division between L1 cache and shared memory
CUresult cuCtxSetCacheConfig(CUfunc_cache config);
        // 3.2  set the preferred division between L1 cache and shared memory
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version);
        // 3.2  get the version of the functions that the context was created for: 3020 or 3010
CUresult cuCtxResetPersistingL2Cache(void);   // 11.0  make all lines that persist in the L2 cache normal ones
CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type);
        // 11.4  get the execution affinity, such as the number of multiprocessors
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent);
        // 12.5  record an event after all work that is in the context now
CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent);
        // 12.5  make all work that comes later in the context wait for an event
CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags);   // 2.0  increment a context's use count; deprecated
CUresult cuCtxDetach(CUcontext ctx);   // 2.0  decrement a context's use count; deprecated
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig);
        // 4.2  get the width of the banks of shared memory; deprecated
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config);
        // 4.2  set the width of the banks of shared memory; deprecated

/* Streams: queues of work. CU_STREAM_LEGACY and CU_STREAM_PER_THREAD always exist */
CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags);   // 2.0  create a stream, see CUstream_flags
CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority);
        // 5.5  create a stream; a smaller number is a higher priority
CUresult cuStreamDestroy_v2(CUstream hStream);
        // 4.0  destroy a stream; returns at once, and enqueued work is still completed
CUresult cuStreamQuery(CUstream hStream);
        // 2.0 ptsz  return CUDA_SUCCESS if all work is complete, else CUDA_ERROR_NOT_READY
CUresult cuStreamSynchronize(CUstream hStream);   // 2.0 ptsz  wait until all work in the stream is complete
CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags);
        // 3.2 ptsz  make work that is enqueued later wait for hEvent
CUresult cuStreamGetPriority(CUstream hStream, int *priority);
        // 5.5 ptsz  get the priority, as limited to the valid range
CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags);
        // 5.5 ptsz  get the flags that the stream was created with
CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId);
        // 12.0 ptsz  get the stream's number, which is never reused
CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx);   // 9.2 ptsz  get the context that the stream belongs to
CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx);
        // 12.5 ptsz  get the context, or the green context, that the stream belongs to
CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device);
        // 12.8 ptsz  get the device that the stream belongs to
CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags);
        // 6.0 ptsz  attach managed memory to one stream
CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData);
        // 10.0 ptsz  call fn in a host thread, in stream order; fn must not call CUDA
CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode);
        // 13.2 abi=13.1 ptsz  call fn in a host thread, with a choice of how the stream waits, see CUhostTaskSyncMode
CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags);
        // 5.0 ptsz  call a function in a host thread, in stream order; cuLaunchHostFunc replaces it
CUresult cuStreamCopyAttributes(CUstream dst, CUstream src);
        // 11.0 ptsz  copy the attributes of one stream to another
CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out);
        // 11.0 ptsz  get an attribute, see CUlaunchAttributeID
CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value);
        // 11.0 ptsz  set an attribute, see CUlaunchAttributeID

/* Waits for a value in memory, and writes of a value, in stream order */
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags);
        // 8.0 ptsz  write 4 bytes, in stream order; must be enabled in the driver
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags);
        // 11.7 ptsz  write 4 bytes, in stream order, see CUstreamWriteValue_flags
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags);
        // 8.0 ptsz  wait until 4 bytes fulfil a condition; must be enabled in the driver
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags);
        // 11.7 ptsz  wait until 4 bytes fulfil a condition, see CUstreamWaitValue_flags
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags);
        // 9.0 ptsz  write 8 bytes, in stream order; must be enabled in the driver
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags);
        // 11.7 ptsz  write 8 bytes, in stream order, see CUstreamWriteValue_flags
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags);
        // 9.0 ptsz  wait until 8 bytes fulfil a condition; must be enabled in the driver
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags);
        // 11.7 ptsz  wait until 8 bytes fulfil a condition, see CUstreamWaitValue_flags
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
        unsigned int flags);   // 8.0 ptsz  perform many waits and writes; must be enabled in the driver
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
        unsigned int flags);   // 11.7 ptsz  perform many waits for values and writes of values

/* Events: markers in a stream */
CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags);   // 2.0  create an event, see CUevent_flags
CUresult cuEventRecord(CUevent hEvent, CUstream hStream);   // 2.0 ptsz  record the event at the end of the stream
CUresult cuEventQuery(CUevent hEvent);   // 2.0  return CUDA_SUCCESS if the event is complete, else CUDA_ERROR_NOT_READY
CUresult cuEventSynchronize(CUevent hEvent);   // 2.0  wait until the event is complete
CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd);
        // 2.0  get the time between two recorded events
CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd);
        // 12.8  get the time between two recorded events
CUresult cuEventDestroy_v2(CUevent hEvent);   // 4.0  destroy an event; returns at once
CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags);
        // 11.1 ptsz  record the event at the end of the stream, see CUevent_record_flags

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
        // 11.2 ptsz  allocate memory that work later in the stream can use
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream);
        // 11.2 ptsz  allocate memory from a given pool that work later in the stream can use
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream);   // 11.2 ptsz  free memory in stream order
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
CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type);
        // 13.0  get the default pool for a location and a type
CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type);
        // 13.0  get the current pool for a location and a type
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool);
        // 13.0  set the current pool for a location and a type

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
        // 12.2  tell the driver how memory will be used; a location may be a NUMA node of the host
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream);
        // 8.0 ptsz  move pages before they are used; dstDevice may be CU_DEVICE_CPU
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
        CUstream hStream);   // 12.2 ptsz  move pages before they are used; a location may be a NUMA node of the host
CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
        size_t count);   // 8.0  get an attribute of a range, see CUmem_range_attribute
CUresult cuMemGetLocationInfo(CUdeviceptr ptr, size_t size, size_t summaryGranularity, size_t samplingGranularity,
        CUmemLocation *location_out);   // 13.4  get where the pages of a range are
CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
        size_t numAttributes, CUdeviceptr devPtr, size_t count);
        // 8.0  get several attributes of a range, see CUmem_range_attribute
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
        size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream);
        // 13.0 ptsz  move the pages of many ranges before they are used
CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags,
        CUstream hStream);   // 13.0 ptsz  tell the driver that the contents of ranges are not needed any more
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
        size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream);
        // 13.0 ptsz  give up the contents of ranges, and move their pages

/* Attributes of addresses */
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
        // 4.0  get one attribute at data, see CUpointer_attribute
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
        CUdeviceptr ptr);   // 7.0  get several attributes; one that does not apply is 0, and no error
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr);
        // 6.0  set an attribute, see CUpointer_attribute

/* Copies. If source or destination is pageable host memory, even the Async functions may block */
CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount);
        // 4.0 ptds  copy; the driver finds out from the addresses where the memory is
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream);
        // 4.0 ptsz  copy in stream order; the driver finds out from the addresses where the memory is
CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount);
        // 3.2 ptds  copy from host to device
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream);
        // 3.2 ptsz  copy from host to device, in stream order
CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount);
        // 3.2 ptds  copy from device to host
CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream);
        // 3.2 ptsz  copy from device to host, in stream order
CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount);
        // 3.2 ptds  copy within a device
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream);
        // 3.2 ptsz  copy within a device, in stream order
CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
        size_t ByteCount);   // 4.0 ptds  copy from one context to another
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
        size_t ByteCount, CUstream hStream);   // 4.0 ptsz  copy from one context to another, in stream order
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy);   // 3.2 ptds  copy a rectangle of bytes
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy);   // 3.2 ptds  copy a rectangle with any pitches
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream);
        // 3.2 ptsz  copy a rectangle, in stream order
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy);   // 3.2 ptds  copy a box of bytes
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream);   // 3.2 ptsz  copy a box, in stream order
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy);   // 4.0 ptds  copy a box from one context to another
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream);
        // 4.0 ptsz  copy a box from one context to another, in stream order
CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount);
        // 3.2 ptds  copy from device to a 1-D array
CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount);
        // 3.2 ptds  copy from a 1-D array to device
CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount);
        // 3.2 ptds  copy from host to a 1-D array
CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount);
        // 3.2 ptds  copy from a 1-D array to host
CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount);
        // 3.2 ptds  copy from a 1-D array to another
CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount,
        CUstream hStream);   // 3.2 ptsz  copy from host to a 1-D array, in stream order
CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream);
        // 3.2 ptsz  copy from a 1-D array to host, in stream order
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
        CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream);
        // 12.8 ptsz  perform many copies; tells the index of the first that failed
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
        CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream);
        // 13.0 ptsz  perform many copies, in stream order, in any order among themselves
CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
        CUstream hStream);   // 12.8 ptsz  perform many copies of boxes; tells the index of the first that failed
CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
        CUstream hStream);   // 13.0 ptsz  perform many copies of boxes, in stream order
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr,
        CUstream hStream);   // 13.2 ptsz  perform a copy with attributes, in stream order
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream hStream);
        // 13.2 ptsz  perform a copy of a box with attributes, in stream order
CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count, unsigned int flags,
        size_t *errorIndex, CUstream stream);   // 12.8 abi=12.6 ptsz  decompress many buffers, in stream order

/* Fills. N and Width are numbers of elements, Height is a number of rows, and a pitch is in bytes */
CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N);   // 3.2 ptds  set N bytes
CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N);   // 3.2 ptds  set N 16-bit values
CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N);   // 3.2 ptds  set N 32-bit values
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream);
        // 3.2 ptsz  set N bytes, in stream order
CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream);
        // 3.2 ptsz  set N 16-bit values, in stream order
CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream);
        // 3.2 ptsz  set N 32-bit values, in stream order
CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height);
        // 3.2 ptds  set rows of bytes
CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height);
        // 3.2 ptds  set rows of 16-bit values
CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height);
        // 3.2 ptds  set rows of 32-bit values
CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
        CUstream hStream);   // 3.2 ptsz  set rows of bytes, in stream order
CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
        CUstream hStream);   // 3.2 ptsz  set rows of 16-bit values, in stream order
CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
        CUstream hStream);   // 3.2 ptsz  set rows of 32-bit values, in stream order

/* Modules: code and variables that are loaded into a context */
CUresult cuModuleLoad(CUmodule *module, const char *fname);   // 2.0  load a file
CUresult cuModuleLoadData(CUmodule *module, const void *image);
        // 2.0  load PTX that ends in a zero byte, a cubin or a fatbin
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
        void **optionValues);   // 2.1  load an image with options for the compiler, see CUjit_option
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin);
        // 2.0  load the image in a fatbin that fits this device best
CUresult cuModuleUnload(CUmodule hmod);   // 2.0  unload a module; its functions and variables become invalid
CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name);   // 2.0  get a kernel by name
CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name);
        // 3.2  get the address and the size of a variable by name
CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod);   // 12.4  get the number of kernels
CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod);
        // 12.4  get all kernels
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode);
        // 11.7  get whether kernels are loaded on first use, or with their module

/* Libraries: code that is loaded for every context; its kernels are CUkernels */
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
        unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
        unsigned int numLibraryOptions);   // 12.0  load code for every context: PTX, a cubin or a fatbin in memory
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
        void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
        void **libraryOptionValues, unsigned int numLibraryOptions);
        // 12.0  load code for every context: PTX, a cubin or a fatbin in a file
CUresult cuLibraryUnload(CUlibrary library);   // 12.0  unload a library; its kernels become invalid
CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name);   // 12.0  get a kernel by name
CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib);   // 12.4  get the number of kernels
CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib);
        // 12.4  get all kernels
CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library);
        // 12.0  get the library's module in the current context
CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel);
        // 12.0  get the kernel's function in the current context
CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel);   // 12.5  get the library that contains the kernel
CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name);
        // 12.0  get the address and the size of a variable in the current context
CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name);
        // 12.0  get the address and the size of a managed variable
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol);
        // 12.0  get a pointer to a function that host and device can call
CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev);
        // 12.0  get an attribute on a device, see CUfunction_attribute
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev);
        // 12.0  set an attribute on a device, see CUfunction_attribute
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev);
        // 12.0  set the preferred division between L1 cache and shared memory on a device
CUresult cuKernelGetName(const char **name, CUkernel hfunc);   // 12.3  get the name as in the PTX, mangled
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize);
        // 12.4  get a parameter's place in the argument buffer
CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount);   // 13.2  get the number of parameters

/* The linker of the driver */
CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut);
        // 6.5  begin a link; the options must stay valid until it is destroyed
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
        unsigned int numOptions, CUjit_option *options, void **optionValues);
        // 6.5  add PTX, a cubin, a fatbin, an object or a library from memory
CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
        CUjit_option *options, void **optionValues);
        // 6.5  add PTX, a cubin, a fatbin, an object or a library from a file
CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut);
        // 5.5  link, and get the cubin, which belongs to the link
CUresult cuLinkDestroy(CUlinkState state);   // 5.5  destroy a link and its cubin

/* Functions: the kernels of a module */
CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc);
        // 2.2  get an attribute, see CUfunction_attribute
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value);
        // 9.0  set an attribute, for example to allow more than 48 KiB of dynamic shared memory
CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc);   // 11.0  get the module that contains the function
CUresult cuFuncGetName(const char **name, CUfunction hfunc);   // 12.3  get the name as in the PTX, mangled
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize);
        // 12.4  get a parameter's place in the argument buffer; CUDA_ERROR_INVALID_VALUE after the last
CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config);
        // 3.0  set the preferred division between L1 cache and shared memory
CUresult cuFuncGetParamCount(CUfunction func, size_t *paramCount);   // 13.2  get the number of parameters
CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function);
        // 12.4  get whether a function is loaded already, see CUfunctionLoadingState
CUresult cuFuncLoad(CUfunction function);   // 12.4  load a function now, if it was to be loaded on first use
CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config);
        // 4.2  set the width of the banks of shared memory; deprecated

/* Occupancy: how many blocks fit on a multiprocessor */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
        size_t dynamicSMemSize);   // 6.5  get how many blocks of blockSize threads fit on one multiprocessor
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
        size_t dynamicSMemSize, unsigned int flags);
        // 7.0  get how many blocks fit on one multiprocessor, see CUoccupancy_flags
CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
        CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit);
        // 6.5  get a block size with which the kernel can use the whole device
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
        CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags);
        // 7.0  get a block size with which the kernel can use the whole device, see CUoccupancy_flags
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks,
        int blockSize);   // 10.2  get the dynamic shared memory that is left for each of numBlocks
CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config);
        // 11.8 abi=11.7  get the largest cluster size
CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config);
        // 11.8 abi=11.7  get how many clusters can run at the same time

/* Launches */
CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
        CUstream hStream, void **kernelParams, void **extra);
        // 4.0 ptsz  launch a kernel; its arguments are in kernelParams, or packed in a buffer in extra
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra);
        // 11.8 abi=11.6 ptsz  launch a kernel with attributes: clusters, cooperation, priority
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
        CUstream hStream, void **kernelParams);
        // 9.0 ptsz  launch a kernel whose blocks all run at the same time, so that the grid can synchronize
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices,
        unsigned int flags);   // 9.0  launch a grid on several devices that can synchronize; deprecated

/* Launches as before CUDA 4.0: arguments are set one by one */
CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z);   // 2.0  set the block for cuLaunch; deprecated
CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes);
        // 2.0  set the dynamic shared memory for cuLaunch; deprecated
CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes);
        // 2.0  set the size of the arguments for cuLaunch; deprecated
CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value);
        // 2.0  set an integer argument for cuLaunch; deprecated
CUresult cuParamSetf(CUfunction hfunc, int offset, float value);   // 2.0  set a float argument for cuLaunch; deprecated
CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes);
        // 2.0  set any argument for cuLaunch; deprecated
CUresult cuLaunch(CUfunction f);   // 2.0  launch one block with what cuParamSet* and cuFuncSet* set; deprecated
CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height);
        // 2.0  launch a 2-D grid with what cuParamSet* and cuFuncSet* set; deprecated
CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream);
        // 2.0  launch a 2-D grid in a stream; deprecated
"""
