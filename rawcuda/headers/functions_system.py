"""Functions of cuda.h: virtual and shared memory, green contexts, tools, and old ABIs.

What it is   `PROTOTYPES`, the C text of each function, as cuda_h.py explains it.
Source       cuda.h of CUDA 11.7 to 13.5, cudaProfiler.h; CUDA Driver API, "Virtual Memory Management",
             "Multicast Object Management", "Green Contexts", "Coredump Attributes Control API",
             "CUDA Checkpointing"
Read next    structures.py
"""

from __future__ import annotations

__all__ = ["PROTOTYPES"]

PROTOTYPES = r"""
/* Virtual memory: addresses and physical memory, separately */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType,
        unsigned long long flags);   // 11.7  get a file descriptor (dma_buf) for a range of addresses
CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
        unsigned long long flags);   // 10.2  reserve a range of addresses, without memory
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size);   // 10.2  free a whole reservation
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
        unsigned long long flags);   // 10.2  create physical memory, without an address
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
        // 10.2  release physical memory; it is freed when it is not mapped any more
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags);   // 10.2  map physical memory into a reservation; it cannot be accessed yet
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size);   // 10.2  unmap a whole mapping
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count);
        // 10.2  set which devices can access mapped memory
CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr);
        // 10.2  get how a device can access memory, see CUmemAccess_flags
CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
        CUmemAllocationHandleType handleType, unsigned long long flags);
        // 10.2  get a handle for another process, such as a file descriptor
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
        CUmemAllocationHandleType shHandleType);   // 10.2  get physical memory of another process
CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
        CUmemAllocationGranularity_flags option);
        // 10.2  get the unit of sizes for cuMemCreate, cuMemAddressReserve and cuMemMap
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle);
        // 10.2  get the properties that physical memory was created with
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr);
        // 11.0  get the physical memory that is mapped at an address; must be released

/* Memory that other processes share */
CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event);
        // 4.1  get 64 bytes by which another process can open an event
CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle);   // 4.1  open an event of another process
CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr);
        // 4.1  get 64 bytes by which another process can open an allocation
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags);
        // 11.0  map an allocation of another process
CUresult cuIpcCloseMemHandle(CUdeviceptr dptr);   // 4.1  unmap an allocation of another process
CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
        unsigned long long flags);   // 11.2  get a handle of a pool for another process
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType,
        unsigned long long flags);   // 11.2  get a pool of another process
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr);
        // 11.2  get 64 bytes by which another process finds an allocation of a shared pool
CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData);
        // 11.2  get the address of an allocation of a shared pool

/* Multicast: one address for the memory of several devices */
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop);
        // 12.1  create an object whose memory is on several devices; a write reaches all of them
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev);
        // 12.1  add a device; all must be added before memory is bound
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
        CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size, unsigned long long flags);
        // 12.1  bind physical memory
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
        CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size, unsigned long long flags);
        // 13.1  bind physical memory for a given device
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size,
        unsigned long long flags);   // 12.1  bind the memory that is mapped at an address
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
        CUdeviceptr memptr, size_t size, unsigned long long flags);
        // 13.1  bind the memory that is mapped at an address for a given device
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size);
        // 12.1  unbind a device's memory
CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
        CUmulticastGranularity_flags option);   // 12.1  get the unit of sizes and offsets

/* Fabrics: devices of several machines */
CUresult cuDeviceGetFabricClusterUuid(CUuuid *uuid, CUdevice dev);
        // 13.4  get the identifier of the fabric that the device is connected to
CUresult cuDeviceGetCliqueCount(size_t *count, CUdevice dev);
        // 13.4  get the number of groups of devices that can reach each other
CUresult cuDeviceGetCliqueInfo(CUcliqueInfo *cliqueInfo, size_t *count, CUdevice dev);
        // 13.4  get the groups of devices that can reach each other
CUresult cuLogicalEndpointIdReserve(CUlogicalEndpointId *baseLeId, cuuint32_t count);
        // 13.3  reserve numbers of logical endpoints
CUresult cuLogicalEndpointIdRelease(CUlogicalEndpointId baseLeId, cuuint32_t count);
        // 13.3  release numbers of logical endpoints
CUresult cuLogicalEndpointCreate(CUlogicalEndpointId leId, const CUlogicalEndpointProp *prop);
        // 13.3  create a logical endpoint, by which memory is reached over the fabric
CUresult cuLogicalEndpointAddDevice(CUlogicalEndpointId leId, CUdevice dev);
        // 13.3  add a device to a logical endpoint
CUresult cuLogicalEndpointDestroy(CUlogicalEndpointId leId);   // 13.3  destroy a logical endpoint
CUresult cuLogicalEndpointBindAddr(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset, void *ptr,
        cuuint64_t size, unsigned long long flags);   // 13.3  bind the memory at an address
CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset,
        CUmemGenericAllocationHandle memHandle, cuuint64_t memOffset, cuuint64_t size, unsigned long long flags);
        // 13.3  bind physical memory
CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset, cuuint64_t size);
        // 13.3  unbind a device's memory
CUresult cuLogicalEndpointExport(void *handle, CUlogicalEndpointId leId, CUlogicalEndpointIpcHandleType handleType);
        // 13.3  get a handle for another process
CUresult cuLogicalEndpointImport(CUlogicalEndpointId leId, const void *handle,
        CUlogicalEndpointIpcHandleType handleType);   // 13.3  open a logical endpoint of another process
CUresult cuLogicalEndpointGetLimits(cuuint64_t *bindAlignment, cuuint64_t *maxSize, const CUlogicalEndpointProp *prop);
        // 13.3  get the alignment and the largest size of what can be bound
CUresult cuLogicalEndpointQuery(CUlogicalEndpointId leId, cuuint32_t count, int *queryStatus);
        // 13.3  get whether endpoints are ready
CUresult cuFabricCpyBatchAsync(size_t numOps, CUDA_FABRIC_COPY_BATCH_OP *opList, unsigned long long flags,
        CUstream hStream);   // 13.5 ptsz  perform many copies over the fabric, in stream order

/* Green contexts: contexts that use a part of a device */
CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags);
        // 12.4  create a context that uses a part of the device
CUresult cuGreenCtxDestroy(CUgreenCtx hCtx);   // 12.4  destroy a green context
CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx);
        // 12.4  get the context of a green context, for functions that take a CUcontext
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type);
        // 12.4  get the resources of a type that a device has
CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type);
        // 12.4  get the resources of a type that a context has
CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type);
        // 12.4  get the resources of a type that a green context has
CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
        CUdevResource *remainder, unsigned int flags, unsigned int minCount);
        // 12.4  split multiprocessors into groups of one size
CUresult cuDevSmResourceSplit(CUdevResource *result, unsigned int nbGroups, const CUdevResource *input,
        CUdevResource *remainder, unsigned int flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS *groupParams);
        // 13.1  split multiprocessors into groups of given sizes
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources);
        // 12.4  put resources together for cuGreenCtxCreate
CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent);
        // 12.4  record an event after all work that is in the green context now
CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent);
        // 12.4  make all work that comes later in the green context wait for an event
CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx);
        // 12.4  get the green context that a stream belongs to, or NULL
CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority);
        // 12.5  create a stream in a green context
CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId);
        // 13.0 abi=12.9  get the number of a green context, which is never reused
CUresult cuStreamGetDevResource(CUstream hStream, CUdevResource *resource, CUdevResourceType type);
        // 13.1 ptsz  get the resources of a type that a stream uses

/* Core dumps, logs and profilers */
CUresult cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size);
        // 12.1  get a setting of this context's core dumps, see CUcoredumpSettings
CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size);
        // 12.1  get a setting of all core dumps, see CUcoredumpSettings
CUresult cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size);
        // 12.1  set a setting of this context's core dumps, see CUcoredumpSettings
CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size);
        // 12.1  set a setting of all core dumps, see CUcoredumpSettings
CUresult cuCoredumpRegisterStartCallback(CUcoredumpStatusCallback callback, void *userData,
        CUcoredumpCallbackHandle *callbackOut);   // 13.2  register a function to call before a core dump is written
CUresult cuCoredumpRegisterCompleteCallback(CUcoredumpStatusCallback callback, void *userData,
        CUcoredumpCallbackHandle *callbackOut);   // 13.2  register a function to call after a core dump was written
CUresult cuCoredumpDeregisterStartCallback(CUcoredumpCallbackHandle callback);
        // 13.2  undo cuCoredumpRegisterStartCallback
CUresult cuCoredumpDeregisterCompleteCallback(CUcoredumpCallbackHandle callback);
        // 13.2  undo cuCoredumpRegisterCompleteCallback
CUresult cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData, CUlogsCallbackHandle *callback_out);
        // 12.9  register a function that the driver calls with each message of its log
CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback);   // 12.9  undo cuLogsRegisterCallback
CUresult cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags);   // 12.9  get the present end of the log
CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile, unsigned int flags);
        // 12.9  append the log from an iterator on to a file
CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags);
        // 12.9  copy the log from an iterator on to a buffer
CUresult cuProfilerInitialize(const char *configFile, const char *outputFile, CUoutput_mode outputMode);
        // 4.0  initialize the profiler; deprecated: it does nothing
CUresult cuProfilerStart(void);   // 4.0  let a profiler that waits for it begin to record
CUresult cuProfilerStop(void);   // 4.0  let a profiler that waits for it stop

/* Checkpoints: processes that are stopped and restored */
CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid);
        // 12.8  get the thread of a process that must be there to restore it
CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state);
        // 12.8  get the state of a process, see CUprocessState
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args);   // 12.8  stop a process from making CUDA calls
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args);
        // 12.8  copy a process's device memory to the host, and release its devices
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args);
        // 12.8  undo cuCheckpointProcessCheckpoint
CUresult cuCheckpointOperationComplete(CUcheckpointOperationHandle handle);
        // 13.4  complete an operation on storage of one's own
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args);   // 12.8  undo cuCheckpointProcessLock

/* Tables of functions */
CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId);
        // 3.0  get a table of functions that only NVIDIA's own libraries know

/* Old ABIs: what programs that were built with older headers call */
CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags);   // 4.0 old  now cuMemHostRegister_v2
CUresult cuGraphicsResourceSetMapFlags(CUgraphicsResource resource, unsigned int flags);
        // 3.0 old  now cuGraphicsResourceSetMapFlags_v2
CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut);
        // 5.5 old  now cuLinkCreate_v2
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
        unsigned int numOptions, CUjit_option *options, void **optionValues);   // 5.5 old  now cuLinkAddData_v2
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int numOptions,
        CUjit_option *options, void **optionValues);   // 5.5 old  now cuLinkAddFile_v2
CUresult cuTexRefSetAddress2D(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR_v1 *desc, CUdeviceptr_v1 dptr,
        unsigned int Pitch);   // 2.2 old  now cuTexRefSetAddress2D_v3; with 32-bit addresses and sizes
CUresult cuTexRefSetAddress2D_v2(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr, size_t Pitch);
        // 3.2 old  now cuTexRefSetAddress2D_v3
CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev);
        // 2.0 old  now cuDeviceTotalMem_v2; with 32-bit addresses and sizes
CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev);   // 2.0 old  now cuCtxCreate_v2
CUresult cuModuleGetGlobal(CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod, const char *name);
        // 2.0 old  now cuModuleGetGlobal_v2; with 32-bit addresses and sizes
CUresult cuMemGetInfo(unsigned int *free, unsigned int *total);
        // 2.0 old  now cuMemGetInfo_v2; with 32-bit addresses and sizes
CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize);
        // 2.0 old  now cuMemAlloc_v2; with 32-bit addresses and sizes
CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes, unsigned int Height,
        unsigned int ElementSizeBytes);   // 2.0 old  now cuMemAllocPitch_v2; with 32-bit addresses and sizes
CUresult cuMemFree(CUdeviceptr_v1 dptr);   // 2.0 old  now cuMemFree_v2; with 32-bit addresses and sizes
CUresult cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr);
        // 2.0 old  now cuMemGetAddressRange_v2; with 32-bit addresses and sizes
CUresult cuMemAllocHost(void **pp, unsigned int bytesize);
        // 2.0 old  now cuMemAllocHost_v2; with 32-bit addresses and sizes
CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags);
        // 2.2 old  now cuMemHostGetDevicePointer_v2; with 32-bit addresses and sizes
CUresult cuMemcpyHtoD(CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount);
        // 2.0 old  now cuMemcpyHtoD_v2; with 32-bit addresses and sizes
CUresult cuMemcpyDtoH(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount);
        // 2.0 old  now cuMemcpyDtoH_v2; with 32-bit addresses and sizes
CUresult cuMemcpyDtoD(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount);
        // 2.0 old  now cuMemcpyDtoD_v2; with 32-bit addresses and sizes
CUresult cuMemcpyDtoA(CUarray dstArray, unsigned int dstOffset, CUdeviceptr_v1 srcDevice, unsigned int ByteCount);
        // 2.0 old  now cuMemcpyDtoA_v2; with 32-bit addresses and sizes
CUresult cuMemcpyAtoD(CUdeviceptr_v1 dstDevice, CUarray srcArray, unsigned int srcOffset, unsigned int ByteCount);
        // 2.0 old  now cuMemcpyAtoD_v2; with 32-bit addresses and sizes
CUresult cuMemcpyHtoA(CUarray dstArray, unsigned int dstOffset, const void *srcHost, unsigned int ByteCount);
        // 2.0 old  now cuMemcpyHtoA_v2; with 32-bit addresses and sizes
CUresult cuMemcpyAtoH(void *dstHost, CUarray srcArray, unsigned int srcOffset, unsigned int ByteCount);
        // 2.0 old  now cuMemcpyAtoH_v2; with 32-bit addresses and sizes
CUresult cuMemcpyAtoA(CUarray dstArray, unsigned int dstOffset, CUarray srcArray, unsigned int srcOffset,
        unsigned int ByteCount);   // 2.0 old  now cuMemcpyAtoA_v2; with 32-bit addresses and sizes
CUresult cuMemcpyHtoAAsync(CUarray dstArray, unsigned int dstOffset, const void *srcHost, unsigned int ByteCount,
        CUstream hStream);   // 2.0 old  now cuMemcpyHtoAAsync_v2; with 32-bit addresses and sizes
CUresult cuMemcpyAtoHAsync(void *dstHost, CUarray srcArray, unsigned int srcOffset, unsigned int ByteCount,
        CUstream hStream);   // 2.0 old  now cuMemcpyAtoHAsync_v2; with 32-bit addresses and sizes
CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *pCopy);   // 2.0 old  now cuMemcpy2D_v2; with 32-bit addresses and sizes
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *pCopy);
        // 2.0 old  now cuMemcpy2DUnaligned_v2; with 32-bit addresses and sizes
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *pCopy);   // 2.0 old  now cuMemcpy3D_v2; with 32-bit addresses and sizes
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount, CUstream hStream);
        // 2.0 old  now cuMemcpyHtoDAsync_v2; with 32-bit addresses and sizes
CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount, CUstream hStream);
        // 2.0 old  now cuMemcpyDtoHAsync_v2; with 32-bit addresses and sizes
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
        CUstream hStream);   // 3.0 old  now cuMemcpyDtoDAsync_v2; with 32-bit addresses and sizes
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream);
        // 2.0 old  now cuMemcpy2DAsync_v2; with 32-bit addresses and sizes
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream);
        // 2.0 old  now cuMemcpy3DAsync_v2; with 32-bit addresses and sizes
CUresult cuMemsetD8(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N);
        // 2.0 old  now cuMemsetD8_v2; with 32-bit addresses and sizes
CUresult cuMemsetD16(CUdeviceptr_v1 dstDevice, unsigned short us, unsigned int N);
        // 2.0 old  now cuMemsetD16_v2; with 32-bit addresses and sizes
CUresult cuMemsetD32(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N);
        // 2.0 old  now cuMemsetD32_v2; with 32-bit addresses and sizes
CUresult cuMemsetD2D8(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned char uc, unsigned int Width,
        unsigned int Height);   // 2.0 old  now cuMemsetD2D8_v2; with 32-bit addresses and sizes
CUresult cuMemsetD2D16(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned short us, unsigned int Width,
        unsigned int Height);   // 2.0 old  now cuMemsetD2D16_v2; with 32-bit addresses and sizes
CUresult cuMemsetD2D32(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned int ui, unsigned int Width,
        unsigned int Height);   // 2.0 old  now cuMemsetD2D32_v2; with 32-bit addresses and sizes
CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray);
        // 2.0 old  now cuArrayCreate_v2; with 32-bit addresses and sizes
CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray);
        // 2.0 old  now cuArrayGetDescriptor_v2; with 32-bit addresses and sizes
CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray);
        // 2.0 old  now cuArray3DCreate_v2; with 32-bit addresses and sizes
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray);
        // 2.0 old  now cuArray3DGetDescriptor_v2; with 32-bit addresses and sizes
CUresult cuTexRefSetAddress(unsigned int *ByteOffset, CUtexref hTexRef, CUdeviceptr_v1 dptr, unsigned int bytes);
        // 2.0 old  now cuTexRefSetAddress_v2; with 32-bit addresses and sizes
CUresult cuTexRefGetAddress(CUdeviceptr_v1 *pdptr, CUtexref hTexRef);
        // 2.0 old  now cuTexRefGetAddress_v2; with 32-bit addresses and sizes
CUresult cuGraphicsResourceGetMappedPointer(CUdeviceptr_v1 *pDevPtr, unsigned int *pSize, CUgraphicsResource resource);
        // 3.0 old  now cuGraphicsResourceGetMappedPointer_v2; with 32-bit addresses and sizes
CUresult cuCtxDestroy(CUcontext ctx);   // 2.0 old  now cuCtxDestroy_v2
CUresult cuCtxPopCurrent(CUcontext *pctx);   // 2.0 old  now cuCtxPopCurrent_v2
CUresult cuCtxPushCurrent(CUcontext ctx);   // 2.0 old  now cuCtxPushCurrent_v2
CUresult cuStreamDestroy(CUstream hStream);   // 2.0 old  now cuStreamDestroy_v2
CUresult cuEventDestroy(CUevent hEvent);   // 2.0 old  now cuEventDestroy_v2
CUresult cuDevicePrimaryCtxRelease(CUdevice dev);   // 7.0 old  now cuDevicePrimaryCtxRelease_v2
CUresult cuDevicePrimaryCtxReset(CUdevice dev);   // 7.0 old  now cuDevicePrimaryCtxReset_v2
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags);   // 7.0 old  now cuDevicePrimaryCtxSetFlags_v2
CUresult cuStreamBeginCapture(CUstream hStream);
        // 10.0 ptsz old  now cuStreamBeginCapture_v2, whose parameters differ
CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags);
        // 4.1 old  now cuIpcOpenMemHandle_v2
CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
        size_t bufferSize);   // 10.0 old  now cuGraphInstantiateWithFlags, whose parameters differ
"""
