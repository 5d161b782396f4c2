"""The functions of the CUDA runtime, as C text.

What it is   `PROTOTYPES`, one line for each function, as the headers declare it; and `OTHERS`, the names of functions
             that the library exports, of which nothing is emulated.
How          after // come, if they apply: the major versions of CUDA that have this function with these parameters
             (13, 12-13; without a version, all have it); `ptsz` or `ptds`, if the library also exports a form with this
             suffix, for which stream NULL is the default stream of the thread; and, after =, the function of the driver
             that does the same, if there is one. runtime_table.py converts the arguments for it by their types.
             A function without a function of the driver is in one of the other modules, or is not emulated: it is
             exported, and returns cudaErrorNotSupported.
Source       cuda_runtime_api.h and crt/host_runtime.h of CUDA 11.8, 12.9 and 13.0; the symbols that their libraries
             export
Read next    runtime_table.py
"""

from __future__ import annotations

__all__ = ["OTHERS", "PROTOTYPES"]

PROTOTYPES = r"""
void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun, const char *deviceName, int
        thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim, dim3 *gDim, int *wSize);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName, int ext,
        size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress, const char
        *deviceName, int ext, size_t size, int constant, int global);
char __cudaInitModule(void **fatCubinHandle);
unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr);   // 12-13
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
        cudaStream_t stream);   // 12-13 ptsz
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceSynchronize(void);   // = cuCtxSynchronize
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value);   // = cuCtxSetLimit
cudaError_t cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit);   // = cuCtxGetLimit
cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, const cudaChannelFormatDesc *fmtDesc, int
        device);
cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig);   // = cuCtxGetCacheConfig
cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority);
        // = cuCtxGetStreamPriorityRange
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig);   // = cuCtxSetCacheConfig
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId);   // = cuDeviceGetByPCIBusId
cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device);   // = cuDeviceGetPCIBusId
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event);   // = cuIpcGetEventHandle
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle);   // = cuIpcOpenEventHandle
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr);   // = cuIpcGetMemHandle
cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags);
        // = cuIpcOpenMemHandle_v2
cudaError_t cudaIpcCloseMemHandle(void *devPtr);   // = cuIpcCloseMemHandle
cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target, enum
        cudaFlushGPUDirectRDMAWritesScope scope);
cudaError_t cudaDeviceRegisterAsyncNotification(int device, cudaAsyncCallback callbackFunc, void *userData,
        cudaAsyncCallbackHandle_t *callback);   // 12-13
cudaError_t cudaDeviceUnregisterAsyncNotification(int device, cudaAsyncCallbackHandle_t callback);   // 12-13
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);   // = cuDeviceGetAttribute
cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned int *capabilities, const enum cudaAtomicOperation
        *operations, unsigned int count, int device);   // 13
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device);   // = cuDeviceGetDefaultMemPool
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool);   // = cuDeviceSetMemPool
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device);   // = cuDeviceGetMemPool
cudaError_t cudaDeviceGetNvSciSyncAttributes(void *nvSciSyncAttrList, int device, int flags);
cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice);
        // = cuDeviceGetP2PAttribute
cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned int *capabilities, const enum cudaAtomicOperation *operations,
        unsigned int count, int srcDevice, int dstDevice);   // 13
cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *prop);
cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags);   // 12-13
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetValidDevices(int *device_arr, int len);
cudaError_t cudaSetDeviceFlags(unsigned int flags);
cudaError_t cudaGetDeviceFlags(unsigned int *flags);
cudaError_t cudaStreamCreate(cudaStream_t *pStream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags);   // = cuStreamCreate
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority);
        // = cuStreamCreateWithPriority
cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority);   // ptsz = cuStreamGetPriority
cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags);   // ptsz = cuStreamGetFlags
cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId);   // 12-13 ptsz = cuStreamGetId
cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device);   // 12-13 ptsz = cuStreamGetDevice
cudaError_t cudaCtxResetPersistingL2Cache(void);   // = cuCtxResetPersistingL2Cache
cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src);   // ptsz = cuStreamCopyAttributes
cudaError_t cudaStreamGetAttribute(cudaStream_t hStream, cudaStreamAttrID attr, cudaStreamAttrValue *value_out);
        // ptsz = cuStreamGetAttribute
cudaError_t cudaStreamSetAttribute(cudaStream_t hStream, cudaStreamAttrID attr, const cudaStreamAttrValue *value);
        // ptsz = cuStreamSetAttribute
cudaError_t cudaStreamDestroy(cudaStream_t stream);   // = cuStreamDestroy_v2
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
        // ptsz = cuStreamWaitEvent
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int
        flags);   // ptsz = cuStreamAddCallback
cudaError_t cudaStreamSynchronize(cudaStream_t stream);   // ptsz = cuStreamSynchronize
cudaError_t cudaStreamQuery(cudaStream_t stream);   // ptsz = cuStreamQuery
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length, unsigned int flags);
        // ptsz = cuStreamAttachMemAsync
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
        // ptsz = cuStreamBeginCapture_v2
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
        const cudaGraphEdgeData *dependencyData, size_t numDependencies, enum cudaStreamCaptureMode mode);
        // 12-13 ptsz = cuStreamBeginCaptureToGraph
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
        // = cuThreadExchangeStreamCaptureMode
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph);   // ptsz
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus);
        // ptsz = cuStreamIsCapturing
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out, unsigned
        long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData
        **edgeData_out, size_t *numDependencies_out);   // 13 ptsz = cuStreamGetCaptureInfo_v3
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus, unsigned long
        long *pId);   // 11-12 ptsz = cuStreamGetCaptureInfo
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies, const
        cudaGraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags);
        // 13 ptsz = cuStreamUpdateCaptureDependencies_v2
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies, size_t
        numDependencies, unsigned int flags);   // 11-12 ptsz = cuStreamUpdateCaptureDependencies
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);   // = cuEventCreate
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);   // ptsz = cuEventRecord
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags);
        // ptsz = cuEventRecordWithFlags
cudaError_t cudaEventQuery(cudaEvent_t event);   // = cuEventQuery
cudaError_t cudaEventSynchronize(cudaEvent_t event);   // = cuEventSynchronize
cudaError_t cudaEventDestroy(cudaEvent_t event);   // = cuEventDestroy_v2
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);   // 13 = cuEventElapsedTime_v2
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);   // 11-12 = cuEventElapsedTime
cudaError_t cudaImportExternalMemory(cudaExternalMemory_t *extMem_out, const cudaExternalMemoryHandleDesc
        *memHandleDesc);
cudaError_t cudaExternalMemoryGetMappedBuffer(void **devPtr, cudaExternalMemory_t extMem, const
        cudaExternalMemoryBufferDesc *bufferDesc);
cudaError_t cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t *mipmap, cudaExternalMemory_t extMem, const
        cudaExternalMemoryMipmappedArrayDesc *mipmapDesc);
cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t extMem);
cudaError_t cudaImportExternalSemaphore(cudaExternalSemaphore_t *extSem_out, const cudaExternalSemaphoreHandleDesc
        *semHandleDesc);
cudaError_t cudaSignalExternalSemaphoresAsync(const cudaExternalSemaphore_t *extSemArray, const
        cudaExternalSemaphoreSignalParams *paramsArray, unsigned int numExtSems, cudaStream_t stream);   // 13 ptsz
cudaError_t cudaSignalExternalSemaphoresAsync(const cudaExternalSemaphore_t *extSemArray, const
        cudaExternalSemaphoreSignalParams_v1 *paramsArray, unsigned int numExtSems, cudaStream_t stream);
        // 11-12 ptsz
cudaError_t cudaWaitExternalSemaphoresAsync(const cudaExternalSemaphore_t *extSemArray, const
        cudaExternalSemaphoreWaitParams *paramsArray, unsigned int numExtSems, cudaStream_t stream);   // 13 ptsz
cudaError_t cudaWaitExternalSemaphoresAsync(const cudaExternalSemaphore_t *extSemArray, const
        cudaExternalSemaphoreWaitParams_v1 *paramsArray, unsigned int numExtSems, cudaStream_t stream);   // 11-12 ptsz
cudaError_t cudaDestroyExternalSemaphore(cudaExternalSemaphore_t extSem);
cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
        cudaStream_t stream);   // ptsz
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args);   // ptsz
cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
        cudaStream_t stream);   // ptsz
cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig);   // = cuFuncSetCacheConfig
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attr, const void *func);
cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value);   // = cuFuncSetAttribute
cudaError_t cudaFuncGetName(const char **name, const void *func);   // 12-13
cudaError_t cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize);
        // 12-13 = cuFuncGetParamInfo
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData);   // ptsz = cuLaunchHostFunc
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize, size_t
        dynamicSMemSize);   // = cuOccupancyMaxActiveBlocksPerMultiprocessor
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func, int numBlocks, int
        blockSize);   // = cuOccupancyAvailableDynamicSMemPerBlock
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func, int blockSize,
        size_t dynamicSMemSize, unsigned int flags);   // = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
cudaError_t cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func, const cudaLaunchConfig_t
        *launchConfig);   // = cuOccupancyMaxPotentialClusterSize
cudaError_t cudaOccupancyMaxActiveClusters(int *numClusters, const void *func, const cudaLaunchConfig_t
        *launchConfig);   // = cuOccupancyMaxActiveClusters
cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags);
cudaError_t cudaMalloc(void **devPtr, size_t size);
cudaError_t cudaMallocHost(void **ptr, size_t size);
cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height);
cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, size_t width, size_t height,
        unsigned int flags);
cudaError_t cudaFree(void *devPtr);
cudaError_t cudaFreeHost(void *ptr);
cudaError_t cudaFreeArray(cudaArray_t array);
cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray);
cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags);
cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags);
cudaError_t cudaHostUnregister(void *ptr);   // = cuMemHostUnregister
cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags);
        // = cuMemHostGetDevicePointer_v2
cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost);   // = cuMemHostGetFlags
cudaError_t cudaMalloc3D(cudaPitchedPtr *pitchedDevPtr, cudaExtent extent);
cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, cudaExtent extent, unsigned int
        flags);
cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray, const cudaChannelFormatDesc *desc,
        cudaExtent extent, unsigned int numLevels, unsigned int flags);
cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *levelArray, cudaMipmappedArray_const_t mipmappedArray, unsigned
        int level);   // = cuMipmappedArrayGetLevel
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *p);   // ptds = cuMemcpy3D_v2
cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *p);   // ptds = cuMemcpy3DPeer
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *p, cudaStream_t stream);   // ptsz = cuMemcpy3DAsync_v2
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *p, cudaStream_t stream);
        // ptsz = cuMemcpy3DPeerAsync
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);   // = cuMemGetInfo_v2
cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *extent, unsigned int *flags, cudaArray_t array);
cudaError_t cudaArrayGetPlane(cudaArray_t *pPlaneArray, cudaArray_t hArray, unsigned int planeIdx);
        // = cuArrayGetPlane
cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements *memoryRequirements, cudaArray_t array, int
        device);   // = cuArrayGetMemoryRequirements
cudaError_t cudaMipmappedArrayGetMemoryRequirements(cudaArrayMemoryRequirements *memoryRequirements,
        cudaMipmappedArray_t mipmap, int device);   // = cuMipmappedArrayGetMemoryRequirements
cudaError_t cudaArrayGetSparseProperties(cudaArraySparseProperties *sparseProperties, cudaArray_t array);
        // = cuArrayGetSparseProperties
cudaError_t cudaMipmappedArrayGetSparseProperties(cudaArraySparseProperties *sparseProperties, cudaMipmappedArray_t
        mipmap);   // = cuMipmappedArrayGetSparseProperties
cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);   // ptds
cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count);
cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, enum
        cudaMemcpyKind kind);   // ptds
cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
        size_t width, size_t height, enum cudaMemcpyKind kind);   // ptds
cudaError_t cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
        size_t width, size_t height, enum cudaMemcpyKind kind);   // ptds
cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
        size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height, enum cudaMemcpyKind kind);   // ptds
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind
        kind);   // ptds
cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind
        kind);   // ptds
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream);
        // ptsz
cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count, cudaStream_t
        stream);
cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
        cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream);
        // 13 ptsz = cuMemcpyBatchAsync_v2
cudaError_t cudaMemcpyBatchAsync(void **dsts, void **srcs, size_t *sizes, size_t count, cudaMemcpyAttributes *attrs,
        size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, cudaStream_t stream);   // 12 ptsz = cuMemcpyBatchAsync
cudaError_t cudaMemcpy3DBatchAsync(size_t numOps, cudaMemcpy3DBatchOp *opList, unsigned long long flags, cudaStream_t
        stream);   // 13 ptsz = cuMemcpy3DBatchAsync_v2
cudaError_t cudaMemcpy3DBatchAsync(size_t numOps, cudaMemcpy3DBatchOp *opList, size_t *failIdx, unsigned long long
        flags, cudaStream_t stream);   // 12 ptsz = cuMemcpy3DBatchAsync
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
        enum cudaMemcpyKind kind, cudaStream_t stream);   // ptsz
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
        size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);   // ptsz
cudaError_t cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t
        hOffset, size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);   // ptsz
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset, enum
        cudaMemcpyKind kind, cudaStream_t stream);   // ptsz
cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind
        kind, cudaStream_t stream);   // ptsz
cudaError_t cudaMemset(void *devPtr, int value, size_t count);   // ptds
cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height);   // ptds
cudaError_t cudaMemset3D(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent);   // ptds
cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream);   // ptsz
cudaError_t cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t
        stream);   // ptsz
cudaError_t cudaMemset3DAsync(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent, cudaStream_t stream);
        // ptsz
cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol);
cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol);
cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, cudaMemLocation location, unsigned int flags,
        cudaStream_t stream);   // 13 ptsz = cuMemPrefetchAsync_v2
cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, int dstDevice, cudaStream_t stream);
        // 11-12 ptsz = cuMemPrefetchAsync
cudaError_t cudaMemPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count, cudaMemLocation *prefetchLocs, size_t
        *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream);
        // 13 ptsz = cuMemPrefetchBatchAsync
cudaError_t cudaMemDiscardBatchAsync(void **dptrs, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t
        stream);   // 13 ptsz = cuMemDiscardBatchAsync
cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count, cudaMemLocation
        *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, cudaStream_t
        stream);   // 13 ptsz = cuMemDiscardAndPrefetchBatchAsync
cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice, cudaMemLocation location);
        // 13 = cuMemAdvise_v2
cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice, int device);
        // 11-12 = cuMemAdvise
cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize, enum cudaMemRangeAttribute attribute, const void
        *devPtr, size_t count);   // = cuMemRangeGetAttribute
cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes, enum cudaMemRangeAttribute *attributes, size_t
        numAttributes, const void *devPtr, size_t count);   // = cuMemRangeGetAttributes
cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream);   // ptsz = cuMemAllocAsync
cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream);   // ptsz = cuMemFreeAsync
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep);   // = cuMemPoolTrimTo
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value);
        // = cuMemPoolSetAttribute
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value);
        // = cuMemPoolGetAttribute
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const cudaMemAccessDesc *descList, size_t count);
        // = cuMemPoolSetAccess
cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool, cudaMemLocation *location);
        // = cuMemPoolGetAccess
cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const cudaMemPoolProps *poolProps);   // = cuMemPoolCreate
cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool);   // = cuMemPoolDestroy
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, cudaMemLocation *location, enum cudaMemAllocationType
        type);   // 13 = cuMemGetDefaultMemPool
cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, cudaMemLocation *location, enum cudaMemAllocationType type);
        // 13 = cuMemGetMemPool
cudaError_t cudaMemSetMemPool(cudaMemLocation *location, enum cudaMemAllocationType type, cudaMemPool_t memPool);
        // 13 = cuMemSetMemPool
cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream);
        // ptsz = cuMemAllocFromPoolAsync
cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool, enum
        cudaMemAllocationHandleType handleType, unsigned int flags);   // = cuMemPoolExportToShareableHandle
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle, enum
        cudaMemAllocationHandleType handleType, unsigned int flags);   // = cuMemPoolImportFromShareableHandle
cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData *exportData, void *ptr);   // = cuMemPoolExportPointer
cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool, cudaMemPoolPtrExportData *exportData);
        // = cuMemPoolImportPointer
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *ptr);
cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice);   // = cuDeviceCanAccessPeer
cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags);
cudaError_t cudaDeviceDisablePeerAccess(int peerDevice);
cudaError_t cudaGraphicsUnregisterResource(cudaGraphicsResource_t resource);
cudaError_t cudaGraphicsResourceSetMapFlags(cudaGraphicsResource_t resource, unsigned int flags);
cudaError_t cudaGraphicsMapResources(int count, cudaGraphicsResource_t *resources, cudaStream_t stream);
cudaError_t cudaGraphicsUnmapResources(int count, cudaGraphicsResource_t *resources, cudaStream_t stream);
cudaError_t cudaGraphicsResourceGetMappedPointer(void **devPtr, size_t *size, cudaGraphicsResource_t resource);
cudaError_t cudaGraphicsSubResourceGetMappedArray(cudaArray_t *array, cudaGraphicsResource_t resource, unsigned int
        arrayIndex, unsigned int mipLevel);
cudaError_t cudaGraphicsResourceGetMappedMipmappedArray(cudaMipmappedArray_t *mipmappedArray, cudaGraphicsResource_t
        resource);
cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_const_t array);
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f);
cudaError_t cudaCreateTextureObject(cudaTextureObject_t *pTexObject, const cudaResourceDesc *pResDesc, const
        cudaTextureDesc *pTexDesc, const cudaResourceViewDesc *pResViewDesc);
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texObject);   // = cuTexObjectDestroy
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc *pResDesc, cudaTextureObject_t texObject);
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc *pTexDesc, cudaTextureObject_t texObject);
cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc *pResViewDesc, cudaTextureObject_t texObject);
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject, const cudaResourceDesc *pResDesc);
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject);   // = cuSurfObjectDestroy
cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *pResDesc, cudaSurfaceObject_t surfObject);
cudaError_t cudaDriverGetVersion(int *driverVersion);
cudaError_t cudaRuntimeGetVersion(int *runtimeVersion);
cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t callbackFunc, void *userData, cudaLogsCallbackHandle
        *callback_out);   // 13
cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle callback);   // 13
cudaError_t cudaLogsCurrent(cudaLogIterator *iterator_out, unsigned int flags);   // 13
cudaError_t cudaLogsDumpToFile(cudaLogIterator *iterator, const char *pathToFile, unsigned int flags);   // 13
cudaError_t cudaLogsDumpToMemory(cudaLogIterator *iterator, char *buffer, size_t *size, unsigned int flags);   // 13
cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags);   // = cuGraphCreate
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, const cudaKernelNodeParams *pNodeParams);   // = cuGraphAddKernelNode
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *pNodeParams);
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *pNodeParams);
        // = cuGraphKernelNodeSetParams
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc);
        // = cuGraphKernelNodeCopyAttributes
cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t hNode, cudaKernelNodeAttrID attr, cudaKernelNodeAttrValue
        *value_out);   // = cuGraphKernelNodeGetAttribute
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t hNode, cudaKernelNodeAttrID attr, const
        cudaKernelNodeAttrValue *value);   // = cuGraphKernelNodeSetAttribute
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, const cudaMemcpy3DParms *pCopyParams);
cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, const void *symbol, const void *src, size_t count, size_t offset, enum
        cudaMemcpyKind kind);
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, void *dst, const void *symbol, size_t count, size_t offset, enum
        cudaMemcpyKind kind);
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms *pNodeParams);
cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms *pNodeParams);
cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *src, size_t
        count, size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst, const void *symbol, size_t count,
        size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src, size_t count, enum
        cudaMemcpyKind kind);
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, const cudaMemsetParams *pMemsetParams);
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams *pNodeParams);
        // = cuGraphMemsetNodeGetParams
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams *pNodeParams);
        // = cuGraphMemsetNodeSetParams
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const cudaHostNodeParams *pNodeParams);   // = cuGraphAddHostNode
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams *pNodeParams);
        // = cuGraphHostNodeGetParams
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams *pNodeParams);
        // = cuGraphHostNodeSetParams
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, cudaGraph_t childGraph);   // = cuGraphAddChildGraphNode
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph);
        // = cuGraphChildGraphNodeGetGraph
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies);   // = cuGraphAddEmptyNode
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, cudaEvent_t event);   // = cuGraphAddEventRecordNode
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out);
        // = cuGraphEventRecordNodeGetEvent
cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event);
        // = cuGraphEventRecordNodeSetEvent
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, cudaEvent_t event);   // = cuGraphAddEventWaitNode
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out);
        // = cuGraphEventWaitNodeGetEvent
cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event);
        // = cuGraphEventWaitNodeSetEvent
cudaError_t cudaGraphAddExternalSemaphoresSignalNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const
        cudaGraphNode_t *pDependencies, size_t numDependencies, const cudaExternalSemaphoreSignalNodeParams
        *nodeParams);
cudaError_t cudaGraphExternalSemaphoresSignalNodeGetParams(cudaGraphNode_t hNode,
        cudaExternalSemaphoreSignalNodeParams *params_out);
cudaError_t cudaGraphExternalSemaphoresSignalNodeSetParams(cudaGraphNode_t hNode, const
        cudaExternalSemaphoreSignalNodeParams *nodeParams);
cudaError_t cudaGraphAddExternalSemaphoresWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const
        cudaGraphNode_t *pDependencies, size_t numDependencies, const cudaExternalSemaphoreWaitNodeParams
        *nodeParams);
cudaError_t cudaGraphExternalSemaphoresWaitNodeGetParams(cudaGraphNode_t hNode, cudaExternalSemaphoreWaitNodeParams
        *params_out);
cudaError_t cudaGraphExternalSemaphoresWaitNodeSetParams(cudaGraphNode_t hNode, const
        cudaExternalSemaphoreWaitNodeParams *nodeParams);
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, cudaMemAllocNodeParams *nodeParams);   // = cuGraphAddMemAllocNode
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams *params_out);
        // = cuGraphMemAllocNodeGetParams
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t
        *pDependencies, size_t numDependencies, void *dptr);   // = cuGraphAddMemFreeNode
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr_out);   // = cuGraphMemFreeNodeGetParams
cudaError_t cudaDeviceGraphMemTrim(int device);   // = cuDeviceGraphMemTrim
cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value);
        // = cuDeviceGetGraphMemAttribute
cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value);
        // = cuDeviceSetGraphMemAttribute
cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph);   // = cuGraphClone
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph);
        // = cuGraphNodeFindInClone
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType);   // = cuGraphNodeGetType
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes);   // = cuGraphGetNodes
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes);
        // = cuGraphGetRootNodes
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData
        *edgeData, size_t *numEdges);   // 13 = cuGraphGetEdges_v2
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *numEdges);
        // 11-12 = cuGraphGetEdges
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData
        *edgeData, size_t *pNumDependencies);   // 13 = cuGraphNodeGetDependencies_v2
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies, size_t
        *pNumDependencies);   // 11-12 = cuGraphNodeGetDependencies
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, cudaGraphEdgeData
        *edgeData, size_t *pNumDependentNodes);   // 13 = cuGraphNodeGetDependentNodes_v2
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, size_t
        *pNumDependentNodes);   // 11-12 = cuGraphNodeGetDependentNodes
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const
        cudaGraphEdgeData *edgeData, size_t numDependencies);   // 13 = cuGraphAddDependencies_v2
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t
        numDependencies);   // 11-12 = cuGraphAddDependencies
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        const cudaGraphEdgeData *edgeData, size_t numDependencies);   // 13 = cuGraphRemoveDependencies_v2
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        size_t numDependencies);   // 11-12 = cuGraphRemoveDependencies
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node);   // = cuGraphDestroyNode
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags);
        // 12-13 = cuGraphInstantiateWithFlags
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, cudaGraphNode_t *pErrorNode, char
        *pLogBuffer, size_t bufferSize);   // 11 = cuGraphInstantiate_v2
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags);
        // = cuGraphInstantiateWithFlags
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams
        *instantiateParams);   // 12-13 ptsz = cuGraphInstantiateWithParams
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags);
        // 12-13 = cuGraphExecGetFlags
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const
        cudaKernelNodeParams *pNodeParams);   // = cuGraphExecKernelNodeSetParams
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaMemcpy3DParms
        *pNodeParams);
cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const void
        *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst,
        const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst, const void
        *src, size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaMemsetParams
        *pNodeParams);
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaHostNodeParams
        *pNodeParams);   // = cuGraphExecHostNodeSetParams
cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t
        childGraph);   // = cuGraphExecChildGraphNodeSetParams
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t
        event);   // = cuGraphExecEventRecordNodeSetEvent
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event);
        // = cuGraphExecEventWaitNodeSetEvent
cudaError_t cudaGraphExecExternalSemaphoresSignalNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
        const cudaExternalSemaphoreSignalNodeParams *nodeParams);
cudaError_t cudaGraphExecExternalSemaphoresWaitNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, const
        cudaExternalSemaphoreWaitNodeParams *nodeParams);
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled);
        // = cuGraphNodeSetEnabled
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int *isEnabled);
        // = cuGraphNodeGetEnabled
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo
        *resultInfo);   // 12-13 = cuGraphExecUpdate_v2
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphNode_t *hErrorNode_out, enum
        cudaGraphExecUpdateResult *updateResult_out);   // 11 = cuGraphExecUpdate
cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream);   // ptsz = cuGraphUpload
cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream);   // ptsz = cuGraphLaunch
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec);   // = cuGraphExecDestroy
cudaError_t cudaGraphDestroy(cudaGraph_t graph);   // = cuGraphDestroy
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags);
        // = cuGraphDebugDotPrint
cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy, unsigned int
        initialRefcount, unsigned int flags);   // = cuUserObjectCreate
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count);   // = cuUserObjectRetain
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count);   // = cuUserObjectRelease
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int
        flags);   // = cuGraphRetainUserObject
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count);
        // = cuGraphReleaseUserObject
cudaError_t cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        const cudaGraphEdgeData *dependencyData, size_t numDependencies, cudaGraphNodeParams *nodeParams);   // 13
cudaError_t cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, cudaGraphNodeParams *nodeParams);   // 12
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams *nodeParams);   // 12-13
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node, cudaGraphNodeParams
        *nodeParams);   // 12-13
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *pHandle_out, cudaGraph_t graph, unsigned int
        defaultLaunchValue, unsigned int flags);   // 12-13
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned
        long long flags, enum cudaDriverEntryPointQueryResult *driverStatus);   // 12-13 ptsz
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions, void
        **jitOptionsValues, unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions, void
        **libraryOptionValues, unsigned int numLibraryOptions);   // 12-13 = cuLibraryLoadData
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName, enum cudaJitOption *jitOptions, void
        **jitOptionsValues, unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions, void
        **libraryOptionValues, unsigned int numLibraryOptions);   // 12-13 = cuLibraryLoadFromFile
cudaError_t cudaLibraryUnload(cudaLibrary_t library);   // 12-13 = cuLibraryUnload
cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name);
        // 12-13 = cuLibraryGetKernel
cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name);
        // 12-13 = cuLibraryGetGlobal
cudaError_t cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name);
        // 12-13 = cuLibraryGetManaged
cudaError_t cudaLibraryGetUnifiedFunction(void **fptr, cudaLibrary_t library, const char *symbol);   // 12-13
cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib);   // 12-13 = cuLibraryGetKernelCount
cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels, cudaLibrary_t lib);
        // 12-13 = cuLibraryEnumerateKernels
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr, int value, int device);
        // 12-13
cudaError_t cudaGetExportTable(const void **ppExportTable, const cudaUUID_t *pExportTableId);
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr);
cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr);   // 12-13
cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count, enum
        cudaMemcpyKind kind);   // ptds
cudaError_t cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count, enum
        cudaMemcpyKind kind);   // ptds
cudaError_t cudaMemcpyArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
        size_t wOffsetSrc, size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind);   // ptds
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
        enum cudaMemcpyKind kind, cudaStream_t stream);   // ptsz
cudaError_t cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
        enum cudaMemcpyKind kind, cudaStream_t stream);   // ptsz
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags, enum
        cudaDriverEntryPointQueryResult *driverStatus);   // 12-13 ptsz
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags);   // 11 ptsz
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out, unsigned
        long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData
        **edgeData_out, size_t *numDependencies_out);   // 12 ptsz = cuStreamGetCaptureInfo_v3
cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *dependencies, const
        cudaGraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags);
        // 12 ptsz = cuStreamUpdateCaptureDependencies_v2
cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end);   // 12 = cuEventElapsedTime_v2
cudaError_t cudaMemPrefetchAsync_v2(const void *devPtr, size_t count, cudaMemLocation location, unsigned int flags,
        cudaStream_t stream);   // 12 ptsz = cuMemPrefetchAsync_v2
cudaError_t cudaMemAdvise_v2(const void *devPtr, size_t count, enum cudaMemoryAdvise advice, cudaMemLocation
        location);   // 12 = cuMemAdvise_v2
cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData
        *edgeData, size_t *numEdges);   // 12 = cuGraphGetEdges_v2
cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData
        *edgeData, size_t *pNumDependencies);   // 12 = cuGraphNodeGetDependencies_v2
cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes,
        cudaGraphEdgeData *edgeData, size_t *pNumDependentNodes);   // 12 = cuGraphNodeGetDependentNodes_v2
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        const cudaGraphEdgeData *edgeData, size_t numDependencies);   // 12 = cuGraphAddDependencies_v2
cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        const cudaGraphEdgeData *edgeData, size_t numDependencies);   // 12 = cuGraphRemoveDependencies_v2
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        const cudaGraphEdgeData *dependencyData, size_t numDependencies, cudaGraphNodeParams *nodeParams);   // 12
cudaError_t cudaSignalExternalSemaphoresAsync_v2(const cudaExternalSemaphore_t *extSemArray, const
        cudaExternalSemaphoreSignalParams *paramsArray, unsigned int numExtSems, cudaStream_t stream);   // 11-12 ptsz
cudaError_t cudaWaitExternalSemaphoresAsync_v2(const cudaExternalSemaphore_t *extSemArray, const
        cudaExternalSemaphoreWaitParams *paramsArray, unsigned int numExtSems, cudaStream_t stream);   // 11-12 ptsz
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out, unsigned
        long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out, size_t
        *numDependencies_out);   // 11-12 ptsz = cuStreamGetCaptureInfo_v2
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig);   // = cuCtxGetSharedMemConfig
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config);   // = cuCtxSetSharedMemConfig
cudaError_t cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config);
        // = cuFuncSetSharedMemConfig
cudaError_t cudaCreateTextureObject_v2(cudaTextureObject_t *pTexObject, const cudaResourceDesc *pResDesc, const
        cudaTextureDesc_v2 *pTexDesc, const cudaResourceViewDesc *pResViewDesc);   // 11
cudaError_t cudaGetTextureObjectTextureDesc_v2(cudaTextureDesc_v2 *pTexDesc, cudaTextureObject_t texObject);   // 11
cudaError_t cudaProfilerStart(void);   // = cuProfilerStart
cudaError_t cudaProfilerStop(void);   // = cuProfilerStop
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp *prop, int device);   // 12
cudaError_t cudaThreadExit(void);   // 11-12
cudaError_t cudaThreadSynchronize(void);   // 11-12 = cuCtxSynchronize
cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value);   // 11-12 = cuCtxSetLimit
cudaError_t cudaThreadGetLimit(size_t *pValue, enum cudaLimit limit);   // 11-12 = cuCtxGetLimit
cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *pCacheConfig);   // 11-12 = cuCtxGetCacheConfig
cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache cacheConfig);   // 11-12 = cuCtxSetCacheConfig
cudaError_t cudaSetDoubleForDevice(double *d);   // 11-12
cudaError_t cudaSetDoubleForHost(double *d);   // 11-12
"""

OTHERS = {
    "11-13": """
        __cudaRegisterHostVar cudaEGLStreamConsumerAcquireFrame cudaEGLStreamConsumerConnect
        cudaEGLStreamConsumerConnectWithFlags cudaEGLStreamConsumerDisconnect cudaEGLStreamConsumerReleaseFrame
        cudaEGLStreamProducerConnect cudaEGLStreamProducerDisconnect cudaEGLStreamProducerPresentFrame
        cudaEGLStreamProducerReturnFrame cudaEventCreateFromEGLSync cudaGLGetDevices cudaGLMapBufferObject
        cudaGLMapBufferObjectAsync cudaGLRegisterBufferObject cudaGLSetBufferObjectMapFlags cudaGLSetGLDevice
        cudaGLUnmapBufferObject cudaGLUnmapBufferObjectAsync cudaGLUnregisterBufferObject cudaGraphicsEGLRegisterImage
        cudaGraphicsGLRegisterBuffer cudaGraphicsGLRegisterImage cudaGraphicsResourceGetMappedEglFrame
        cudaGraphicsVDPAURegisterOutputSurface cudaGraphicsVDPAURegisterVideoSurface cudaVDPAUGetDevice
        cudaVDPAUSetVDPAUDevice
    """,
    "13": "__cudaGetProcAddress",
    "12-13": "__cudaRegisterUnifiedTable",
    "11-12": "cudaLaunchCooperativeKernelMultiDevice",
    "11": """
        __cudaRegisterSurface __cudaRegisterTexture cudaBindSurfaceToArray cudaBindTexture cudaBindTexture2D
        cudaBindTextureToArray cudaBindTextureToMipmappedArray cudaGetSurfaceReference cudaGetTextureAlignmentOffset
        cudaGetTextureReference cudaProfilerInitialize cudaUnbindTexture
    """,
}
