"""Types of cuda.h: integers with a meaning, handles, functions that the driver calls, structures and unions.

What it is   `TYPES`, the C text of each type, as cuda_h.py explains it.
Source       cuda.h of CUDA 11.7 to 13.5; CUDA Driver API, "Data types used by CUDA driver"
Read next    enumerations.py
"""

from __future__ import annotations

__all__ = ["TYPES"]

TYPES = r"""
/* Integers with a meaning */
typedef unsigned long long CUdeviceptr;   // an address that a kernel can use: an integer, not a pointer
typedef int CUdevice;   // a device. CU_DEVICE_CPU and CU_DEVICE_INVALID are below 0
typedef unsigned long long CUtexObject;   // a texture, as kernels take it
typedef unsigned long long CUsurfObject;   // a surface, as kernels take it
typedef cuuint64_t CUgraphConditionalHandle;   // 12.3  the value that a conditional node tests
typedef unsigned long long CUmemGenericAllocationHandle;   // physical memory
typedef cuuint32_t CUlogicalEndpointId;   // 13.3  the number of a logical endpoint
typedef unsigned int CUlogIterator;   // 12.9  a place in the log
typedef unsigned int CUdeviceptr_v1;   // an address of 32 bits, as before CUDA 3.2

/* Handles: pointers to objects of the driver */
typedef struct CUctx_st *CUcontext;   // the state of a process on a device: its address space, modules and streams
typedef struct CUmod_st *CUmodule;   // code and variables loaded into a context
typedef struct CUfunc_st *CUfunction;   // a kernel in a module
typedef struct CUlib_st *CUlibrary;   // 12.0  code that is loaded for every context
typedef struct CUkern_st *CUkernel;   // 12.0  a kernel of a library
typedef struct CUarray_st *CUarray;   // memory laid out for textures
typedef struct CUmipmappedArray_st *CUmipmappedArray;   // an array and smaller copies of it
typedef struct CUtexref_st *CUtexref;   // a texture reference of a module
typedef struct CUsurfref_st *CUsurfref;   // a surface reference of a module
typedef struct CUevent_st *CUevent;   // a marker in a stream: it is reached when all work before it is done
typedef struct CUstream_st *CUstream;   // a queue of work; CU_STREAM_LEGACY, CU_STREAM_PER_THREAD and NULL always exist
typedef struct CUgraphicsResource_st *CUgraphicsResource;   // an object of a graphics driver
typedef struct CUextMemory_st *CUexternalMemory;   // memory of another interface
typedef struct CUextSemaphore_st *CUexternalSemaphore;   // a semaphore of another interface
typedef struct CUgraph_st *CUgraph;   // work and its dependencies; it must be instantiated before it can be launched
typedef struct CUgraphNode_st *CUgraphNode;   // a node of a graph
typedef struct CUgraphExec_st *CUgraphExec;   // an executable graph
typedef struct CUmemPoolHandle_st *CUmemoryPool;   // a pool from which stream-ordered memory is allocated
typedef struct CUuserObject_st *CUuserObject;   // an object that graphs keep alive
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;   // 12.4  a graph node that a kernel may change
typedef struct CUasyncCallbackEntry_st *CUasyncCallbackHandle;   // 12.4  a registered function for notifications
typedef struct CUgreenCtx_st *CUgreenCtx;   // 12.4  a context that uses a part of a device
typedef struct CUlinkState_st *CUlinkState;   // a link in progress
typedef struct CUIcheckpointOperation_st *CUcheckpointOperationHandle;   // 13.4  a checkpoint or restore in progress
typedef struct CUcoredumpCallbackEntry_st *CUcoredumpCallbackHandle;   // 13.2  a registered function for core dumps
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;   // 12.4  resources for a green context
typedef struct CUlogsCallbackEntry_st *CUlogsCallbackHandle;   // 12.9  a registered function for the log

/* Functions that the driver calls */
typedef void (*CUasyncCallback)(CUasyncNotificationInfo *info, void *userData, CUasyncCallbackHandle callback);
        // 12.4  for cuDeviceRegisterAsyncNotification
typedef void (*CUhostFn)(void *userData);   // for cuLaunchHostFunc; it must not call CUDA
typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);   // for cuStreamAddCallback
typedef size_t (*CUoccupancyB2DSize)(int blockSize);   // the dynamic shared memory for a block size
typedef CUresult (*CUgraphRecaptureCallback)(void *data, CUgraphNode node, const CUgraphNodeParams *originalParams,
        const CUgraphNodeParams *recaptureParams, CUgraphRecaptureStatus status);
        // 13.3  for cuStreamBeginRecaptureToGraph
typedef void (*CUcoredumpStatusCallback)(void *userData, int pid, CUdevice dev);
        // 13.2  for cuCoredumpRegister*Callback
typedef void (*CUlogsCallback)(void *data, CUlogLevel logLevel, char *message, size_t length);
        // 12.9  for cuLogsRegisterCallback

/* Structures and unions */
struct CUuuid {   // 16 bytes that identify a device
    char bytes[16];
};
struct CUmemFabricHandle {   // 12.3  memory that another machine can open
    unsigned char data[64];
};
struct CUipcEventHandle {   // an event that another process can open
    char reserved[64];
};
struct CUipcMemHandle {   // memory that another process can open
    char reserved[64];
};
union CUstreamBatchMemOpParams {   // one operation for cuStreamBatchMemOp; operation selects the member
    CUstreamBatchMemOpType operation;
    struct {
        CUstreamBatchMemOpType operation;
        CUdeviceptr address;
        union {
            cuuint32_t value;
            cuuint64_t value64;
        };
        unsigned int flags;
        CUdeviceptr alias;
    } waitValue;
    struct {
        CUstreamBatchMemOpType operation;
        CUdeviceptr address;
        union {
            cuuint32_t value;
            cuuint64_t value64;
        };
        unsigned int flags;
        CUdeviceptr alias;
    } writeValue;
    struct {
        CUstreamBatchMemOpType operation;
        unsigned int flags;
    } flushRemoteWrites;
    struct {
        CUstreamBatchMemOpType operation;
        unsigned int flags;
    } memoryBarrier;
    struct {
        CUstreamBatchMemOpType operation;
        unsigned int flags;
        CUstreamAtomicReductionOpType reductionOp;   // 13.1
        CUstreamAtomicReductionDataType dataType;   // 13.1
        CUdeviceptr address;
        cuuint64_t value;
        CUdeviceptr alias;
    } atomicReduction;   // 13.1
    cuuint64_t pad[6];
};
struct CUDA_BATCH_MEM_OP_NODE_PARAMS {   // operations on memory
    CUcontext ctx;   // 12.2
    unsigned int count;   // 12.2
    CUstreamBatchMemOpParams *paramArray;   // 12.2
    unsigned int flags;   // 12.2
};
struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 {   // 12.2  operations on memory, for cuGraphAddNode
    CUcontext ctx;
    unsigned int count;
    CUstreamBatchMemOpParams *paramArray;
    unsigned int flags;
};
struct CUasyncNotificationInfo {   // 12.4  what happened
    CUasyncNotificationType type;
    union {
        struct {
            unsigned long long bytesOverBudget;
        } overBudget;
    } info;
};
struct CUdevprop {   // properties for cuDeviceGetProperties
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int sharedMemPerBlock;
    int totalConstantMemory;
    int SIMDWidth;
    int memPitch;
    int regsPerBlock;
    int clockRate;
    int textureAlign;
};
struct CUaccessPolicyWindow {   // a range of addresses, and its treatment by the L2 cache: hitProp for hitRatio of it
    void *base_ptr;
    size_t num_bytes;
    float hitRatio;
    CUaccessProperty hitProp;
    CUaccessProperty missProp;
};
struct CUDA_KERNEL_NODE_PARAMS_v1 {   // a CUfunction and its arguments
    CUfunction func;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
};
struct CUDA_KERNEL_NODE_PARAMS {   // 12.0  a kernel and its arguments: func, or kern and ctx
    CUfunction func;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
};
struct CUDA_KERNEL_NODE_PARAMS_v3 {   // 12.2  a kernel and its arguments, for cuGraphAddNode
    CUfunction func;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
};
struct CUDA_MEMSET_NODE_PARAMS {   // a fill of elements of 1, 2 or 4 bytes
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width;
    size_t height;
};
struct CUDA_MEMSET_NODE_PARAMS_v2 {   // 12.2  a fill, for cuGraphAddNode
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width;
    size_t height;
    CUcontext ctx;
};
struct CUDA_HOST_NODE_PARAMS {   // a host function and its argument
    CUhostFn fn;
    void *userData;
};
struct CUDA_HOST_NODE_PARAMS_v2 {   // 12.2  a host function and its argument, for cuGraphAddNode
    CUhostFn fn;
    void *userData;
    unsigned int syncMode;   // 13.2
    union {
        CUcontext ctx;   // 13.4
        CUgreenCtx gCtx;   // 13.4
    };
};
struct CUDA_CONDITIONAL_NODE_PARAMS {   // 12.3  a handle, a condition, and the graphs inside, which the driver makes
    CUgraphConditionalHandle handle;
    CUgraphConditionalNodeType type;
    unsigned int size;
    CUgraph *phGraph_out;
    CUcontext ctx;
};
struct CUgraphEdgeData {   // 12.3  how a dependency begins and ends
    unsigned char from_port;
    unsigned char to_port;
    unsigned char type;
    unsigned char reserved[5];
};
struct CUDA_GRAPH_INSTANTIATE_PARAMS {   // 12.0  flags and stream in, result and node out
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    CUgraphInstantiateResult result_out;
};
struct CUlaunchMemSyncDomainMap {   // 12.0  the memory synchronization domains for ..._DOMAIN_DEFAULT and _REMOTE
    unsigned char default_;
    unsigned char remote;
};
union CUlaunchAttributeValue {   // 11.8  the value of a launch attribute; ENUMS names the member for each id
    char pad[64];
    CUaccessPolicyWindow accessPolicyWindow;
    int cooperative;
    CUsynchronizationPolicy syncPolicy;   // a CUsynchronizationPolicy
    struct {
        unsigned int x;
        unsigned int y;
        unsigned int z;
    } clusterDim;
    CUclusterSchedulingPolicy clusterSchedulingPolicyPreference;
    int programmaticStreamSerializationAllowed;
    struct {
        CUevent event;
        int flags;
        int triggerAtBlockStart;
    } programmaticEvent;
    struct {
        CUevent event;
        int flags;
    } launchCompletionEvent;   // 12.3
    int priority;
    CUlaunchMemSyncDomainMap memSyncDomainMap;   // 12.0
    CUlaunchMemSyncDomain memSyncDomain;   // 12.0
    struct {
        unsigned int x;
        unsigned int y;
        unsigned int z;
    } preferredClusterDim;   // 12.8
    struct {
        int deviceUpdatable;   // 12.4
        CUgraphDeviceNode devNode;   // 12.4
    } deviceUpdatableKernelNode;   // 12.4
    unsigned int sharedMemCarveout;   // 12.5
    unsigned int nvlinkUtilCentricScheduling;   // 13.0
    CUlaunchAttributePortableClusterMode portableClusterSizeMode;   // 13.2
    CUsharedMemoryMode sharedMemoryMode;   // 13.2
};
struct CUlaunchAttribute {   // 11.8  a launch attribute: a CUlaunchAttributeID and its value
    CUlaunchAttributeID id;
    char pad[4];
    CUlaunchAttributeValue value;
};
struct CUlaunchConfig {   // 11.8  the configuration for cuLaunchKernelEx: grid in blocks, block in threads
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
};
struct CUexecAffinitySmCount {   // a number of multiprocessors
    unsigned int val;
};
struct CUexecAffinityParam {   // an execution affinity
    CUexecAffinityType type;
    union {
        CUexecAffinitySmCount smCount;
    } param;
};
struct CUctxCigParam {   // 12.5  what to share with a graphics driver
    CUcigDataType sharedDataType;
    void *sharedData;
};
struct CUctxCreateParams {   // 12.5  parameters of a context
    CUexecAffinityParam *execAffinityParams;
    int numExecAffinityParams;
    CUctxCigParam *cigParams;
};
struct CUstreamCigParam {   // 13.2  what to share with a graphics driver
    CUstreamCigDataType streamSharedDataType;
    void *streamSharedData;
};
struct CUstreamCigCaptureParams {   // 13.2  what to capture for a graphics driver
    CUstreamCigParam *streamCigParams;
};
struct CUlibraryHostUniversalFunctionAndDataTable {   // 12.0  pointers of the host to functions and data
    void *functionTable;
    size_t functionWindowSize;
    void *dataTable;
    size_t dataWindowSize;
};
struct CUDA_MEMCPY2D {   // a rectangle to copy; MemoryType, a CUmemorytype, selects Host, Device or Array
    size_t srcXInBytes;
    size_t srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes;
    size_t dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes;
    size_t Height;
};
struct CUDA_MEMCPY3D {   // a box to copy. Pitch is from row to row in bytes, Height from plane to plane in rows
    size_t srcXInBytes;
    size_t srcY;
    size_t srcZ;
    size_t srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch;
    size_t srcHeight;
    size_t dstXInBytes;
    size_t dstY;
    size_t dstZ;
    size_t dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch;
    size_t dstHeight;
    size_t WidthInBytes;
    size_t Height;
    size_t Depth;
};
struct CUDA_MEMCPY3D_PEER {   // a box to copy between two contexts
    size_t srcXInBytes;
    size_t srcY;
    size_t srcZ;
    size_t srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    CUcontext srcContext;
    size_t srcPitch;
    size_t srcHeight;
    size_t dstXInBytes;
    size_t dstY;
    size_t dstZ;
    size_t dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    CUcontext dstContext;
    size_t dstPitch;
    size_t dstHeight;
    size_t WidthInBytes;
    size_t Height;
    size_t Depth;
};
struct CUDA_MEMCPY_NODE_PARAMS {   // 12.2  a copy, for cuGraphAddNode
    int flags;
    int reserved;
    CUcontext copyCtx;
    CUDA_MEMCPY3D copyParams;
};
struct CUDA_ARRAY_DESCRIPTOR {   // the extents and the format of a 1-D or 2-D array
    size_t Width;
    size_t Height;
    CUarray_format Format;
    unsigned int NumChannels;
};
struct CUDA_ARRAY3D_DESCRIPTOR {   // the extents, the format and the flags of an array
    size_t Width;
    size_t Height;
    size_t Depth;
    CUarray_format Format;
    unsigned int NumChannels;
    unsigned int Flags;
};
struct CUDA_ARRAY_SPARSE_PROPERTIES {   // the tiles and the mip tail of a sparse array
    struct {
        unsigned int width;
        unsigned int height;
        unsigned int depth;
    } tileExtent;
    unsigned int miptailFirstLevel;
    unsigned long long miptailSize;
    unsigned int flags;
    unsigned int reserved[4];
};
struct CUDA_ARRAY_MEMORY_REQUIREMENTS {   // the size and the alignment of memory
    size_t size;
    size_t alignment;
    unsigned int reserved[4];
};
struct CUDA_RESOURCE_DESC {   // what a texture or surface reads; resType selects the member
    CUresourcetype resType;
    union {
        struct {
            CUarray hArray;
        } array;
        struct {
            CUmipmappedArray hMipmappedArray;
        } mipmap;
        struct {
            CUdeviceptr devPtr;
            CUarray_format format;
            unsigned int numChannels;
            size_t sizeInBytes;
        } linear;
        struct {
            CUdeviceptr devPtr;
            CUarray_format format;
            unsigned int numChannels;
            size_t width;
            size_t height;
            size_t pitchInBytes;
        } pitch2D;
        struct {
            int reserved[32];
        } reserved;
    } res;
    unsigned int flags;
};
struct CUDA_TEXTURE_DESC {   // how a texture is read
    CUaddress_mode addressMode[3];
    CUfilter_mode filterMode;
    unsigned int flags;
    unsigned int maxAnisotropy;
    CUfilter_mode mipmapFilterMode;
    float mipmapLevelBias;
    float minMipmapLevelClamp;
    float maxMipmapLevelClamp;
    float borderColor[4];
    int reserved[12];
};
struct CUDA_RESOURCE_VIEW_DESC {   // the part and the format of an array that a texture reads
    CUresourceViewFormat format;
    size_t width;
    size_t height;
    size_t depth;
    unsigned int firstMipmapLevel;
    unsigned int lastMipmapLevel;
    unsigned int firstLayer;
    unsigned int lastLayer;
    unsigned int reserved[16];
};
struct CUtensorMap {   // 12.0  a description of a tensor, aligned to 128 bytes; only the driver knows its form
    _Alignas(128) cuuint64_t opaque[16];
};
struct CUDA_POINTER_ATTRIBUTE_P2P_TOKENS {   // the names of memory in Linux's own peer-to-peer interface
    unsigned long long p2pToken;
    unsigned int vaSpaceToken;
};
struct CUDA_LAUNCH_PARAMS {   // a launch, for cuLaunchCooperativeKernelMultiDevice
    CUfunction function;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
};
struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC {   // memory to import; type selects the handle
    CUexternalMemoryHandleType type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
};
struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC {   // a part of imported memory
    unsigned long long offset;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
};
struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {   // a part of imported memory, as an array
    unsigned long long offset;
    CUDA_ARRAY3D_DESCRIPTOR arrayDesc;
    unsigned int numLevels;
    unsigned int reserved[16];
};
struct CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC {   // a semaphore to import; type selects the handle
    CUexternalSemaphoreHandleType type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciSyncObj;
    } handle;
    unsigned int flags;
    unsigned int reserved[16];
};
struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS {   // the value or key to signal with
    struct {
        struct {
            unsigned long long value;
        } fence;
        union {
            void *fence;
            unsigned long long reserved;
        } nvSciSync;
        struct {
            unsigned long long key;
        } keyedMutex;
        unsigned int reserved[12];
    } params;
    unsigned int flags;
    unsigned int reserved[16];
};
struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS {   // the value or key to wait for
    struct {
        struct {
            unsigned long long value;
        } fence;
        union {
            void *fence;
            unsigned long long reserved;
        } nvSciSync;
        struct {
            unsigned long long key;
            unsigned int timeoutMs;
        } keyedMutex;
        unsigned int reserved[10];
    } params;
    unsigned int flags;
    unsigned int reserved[16];
};
struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {   // semaphores to signal
    CUexternalSemaphore *extSemArray;
    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray;
    unsigned int numExtSems;
};
struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {   // 12.2  semaphores to signal, for cuGraphAddNode
    CUexternalSemaphore *extSemArray;
    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray;
    unsigned int numExtSems;
    union {
        CUcontext ctx;   // 13.4
        CUgreenCtx gCtx;   // 13.4
    };
};
struct CUDA_EXT_SEM_WAIT_NODE_PARAMS {   // semaphores to wait for
    CUexternalSemaphore *extSemArray;
    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray;
    unsigned int numExtSems;
};
struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {   // 12.2  semaphores to wait for, for cuGraphAddNode
    CUexternalSemaphore *extSemArray;
    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray;
    unsigned int numExtSems;
    union {
        CUcontext ctx;   // 13.4
        CUgreenCtx gCtx;   // 13.4
    };
};
struct CUarrayMapInfo {   // memory to map to a part of a sparse array
    CUresourcetype resourceType;
    union {
        CUmipmappedArray mipmap;
        CUarray array;
    } resource;
    CUarraySparseSubresourceType subresourceType;
    union {
        struct {
            unsigned int level;
            unsigned int layer;
            unsigned int offsetX;
            unsigned int offsetY;
            unsigned int offsetZ;
            unsigned int extentWidth;
            unsigned int extentHeight;
            unsigned int extentDepth;
        } sparseLevel;
        struct {
            unsigned int layer;
            unsigned long long offset;
            unsigned long long size;
        } miptail;
    } subresource;
    CUmemOperationType memOperationType;
    CUmemHandleType memHandleType;
    union {
        CUmemGenericAllocationHandle memHandle;
    } memHandle;
    unsigned long long offset;
    unsigned int deviceBitMask;
    unsigned int flags;
    unsigned int reserved[2];
};
struct CUmemLocation {   // a device, the host, or a NUMA node: a type and its number
    CUmemLocationType type;
    union {
        int id;
        struct {
            unsigned char deviceId;   // 13.4
            unsigned char localityDomainId;   // 13.4
        } localized;   // 13.4
    };
};
struct CUmemAllocationProp {   // the properties of physical memory
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
};
struct CUmulticastObjectProp {   // 12.1  the properties of a multicast object
    unsigned int numDevices;
    size_t size;
    unsigned long long handleTypes;
    unsigned long long flags;
};
struct CUmemAccessDesc {   // the access from a location to a pool or mapped memory: a CUmemAccess_flags
    CUmemLocation location;
    CUmemAccess_flags flags;
};
struct CUgraphExecUpdateResultInfo {   // 12.0  whether an update succeeded, else why and at which nodes
    CUgraphExecUpdateResult result;
    CUgraphNode errorNode;
    CUgraphNode errorFromNode;
};
struct CUmemPoolProps {   // the properties of a pool. Members that a header lacks were reserved, and 0
    CUmemAllocationType allocType;   // a CUmemAllocationType
    CUmemAllocationHandleType handleTypes;   // bits of CUmemAllocationHandleType
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;   // 12.2  bytes; 0: the driver decides
    unsigned short usage;   // 12.6  CU_MEM_POOL_CREATE_USAGE_*
    unsigned char gpuDirectRDMACapable;   // 13.4
    unsigned char reserved[53];
};
struct CUmemPoolPtrExportData {   // an allocation that another process can find in a shared pool
    unsigned char reserved[64];
};
struct CUmemcpyAttributes {   // 12.8  how a copy reads its source, and where both sides are
    CUmemcpySrcAccessOrder srcAccessOrder;
    CUmemLocation srcLocHint;
    CUmemLocation dstLocHint;
    unsigned int flags;
};
struct CUoffset3D {   // 12.8  a place in elements
    size_t x;
    size_t y;
    size_t z;
};
struct CUextent3D {   // 12.8  extents in elements
    size_t width;
    size_t height;
    size_t depth;
};
struct CUmemcpy3DOperand {   // 12.8  one side of a copy; type selects the member
    CUmemcpy3DOperandType type;
    union {
        struct {
            CUdeviceptr ptr;
            size_t rowLength;
            size_t layerHeight;
            CUmemLocation locHint;
        } ptr;
        struct {
            CUarray array;
            CUoffset3D offset;
        } array;
    } op;
};
struct CUDA_MEMCPY3D_BATCH_OP {   // 12.8  one copy of a batch
    CUmemcpy3DOperand src;
    CUmemcpy3DOperand dst;
    CUextent3D extent;
    CUmemcpySrcAccessOrder srcAccessOrder;
    unsigned int flags;
};
struct CUDA_MEM_ALLOC_NODE_PARAMS {   // an allocation; dptr is its address, out
    CUmemPoolProps poolProps;   // 12.2
    const CUmemAccessDesc *accessDescs;   // 12.2
    size_t accessDescCount;   // 12.2
    size_t bytesize;   // 12.2
    CUdeviceptr dptr;   // 12.2
};
struct CUDA_MEM_ALLOC_NODE_PARAMS_v2 {   // 12.2  an allocation, for cuGraphAddNode; dptr is its address, out
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
};
struct CUDA_MEM_FREE_NODE_PARAMS {   // 12.2  the address to free, for cuGraphAddNode
    CUdeviceptr dptr;
};
struct CUDA_CHILD_GRAPH_NODE_PARAMS {   // 12.2  a graph as a node, for cuGraphAddNode
    CUgraph graph;
    CUgraphChildGraphNodeOwnership ownership;   // 12.9
};
struct CUDA_EVENT_RECORD_NODE_PARAMS {   // 12.2  an event to record, for cuGraphAddNode
    CUevent event;
    union {
        CUcontext ctx;   // 13.4
        CUgreenCtx gCtx;   // 13.4
    };
};
struct CUDA_EVENT_WAIT_NODE_PARAMS {   // 12.2  an event to wait for, for cuGraphAddNode
    CUevent event;
};
struct CUDA_MEMCPY_BATCH_NODE_PARAMS {   // 13.5  many copies, for cuGraphAddNode
    size_t count;
    CUdeviceptr *dsts;
    CUdeviceptr *srcs;
    size_t *sizes;
    CUmemcpyAttributes *attrs;
    size_t *attrsIdxs;
    size_t numAttrs;
    union {
        CUcontext ctx;
        CUgreenCtx gCtx;
    };
};
struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS {   // 13.5  many copies over the fabric, for cuGraphAddNode
    size_t numOps;
    CUDA_FABRIC_COPY_BATCH_OP *opList;
    unsigned long long flags;
    union {
        CUcontext ctx;
        CUgreenCtx gCtx;
    };
};
struct CUgraphNodeParams {   // 12.2  a node of any type; type selects the member
    CUgraphNodeType type;
    int reserved0[3];
    union {
        long long reserved1[29];
        CUDA_KERNEL_NODE_PARAMS_v3 kernel;
        CUDA_MEMCPY_NODE_PARAMS memcpy;
        CUDA_MEMSET_NODE_PARAMS_v2 memset;
        CUDA_HOST_NODE_PARAMS_v2 host;
        CUDA_CHILD_GRAPH_NODE_PARAMS graph;
        CUDA_EVENT_WAIT_NODE_PARAMS eventWait;
        CUDA_EVENT_RECORD_NODE_PARAMS eventRecord;
        CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 extSemSignal;
        CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 extSemWait;
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 alloc;
        CUDA_MEM_FREE_NODE_PARAMS free;
        CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 memOp;
        CUDA_CONDITIONAL_NODE_PARAMS conditional;   // 12.3
        CUDA_MEMCPY_BATCH_NODE_PARAMS_V1 memcpyBatch;   // 13.5
        CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1 fabricCpyBatch;   // 13.5
        char asBytes[232];   // 13.3
    };
    long long reserved2;
};
struct CUcheckpointCustomStoragePerDeviceData {   // 13.4  the memory of one device, to be copied by the caller
    CUdeviceptr devPtr;
    size_t size;
    CUstream stream;
};
struct CUcheckpointCustomStorageInfo {   // 13.4  the memory of all devices, to be copied by the caller
    CUcheckpointOperationHandle handle;
    CUcheckpointCustomStoragePerDeviceData *perDeviceData;
    unsigned int deviceCount;
};
struct CUcheckpointLockArgs {   // 12.8  a timeout
    unsigned int timeoutMs;
    unsigned int reserved0;
    cuuint64_t reserved1[7];
};
struct CUcheckpointCheckpointArgs {   // 12.8  options of a checkpoint
    CUcheckpointCustomStorageInfo **customStorageInfo_out;   // 13.4
    char reserved[56];
};
struct CUcheckpointGpuPair {   // 13.0  a device, and the one that replaces it
    CUuuid oldUuid;
    CUuuid newUuid;
};
struct CUcheckpointRestoreArgs {   // 12.8  options of a restore
    CUcheckpointGpuPair *gpuPairs;   // 13.0
    unsigned int gpuPairsCount;   // 13.0
    unsigned int padding0;   // 13.4
    CUcheckpointCustomStorageInfo **customStorageInfo_out;   // 13.4
    char reserved[40];
};
struct CUcheckpointUnlockArgs {   // 12.8  no options yet
    cuuint64_t reserved[8];
};
struct CUmemDecompressParams {   // 12.8  one buffer to decompress
    size_t srcNumBytes;
    size_t dstNumBytes;
    cuuint32_t *dstActBytes;
    const void *src;
    void *dst;
    CUmemDecompressAlgorithm algo;
    unsigned char padding[20];
};
struct CUcliqueInfo {   // 13.4  a group of devices
    CUcliqueType type;
    unsigned int id;
};
struct CUlogicalEndpointFabricHandle {   // 13.3  a logical endpoint that another machine can open
    unsigned char data[64];
};
struct CUlogicalEndpointProp {   // 13.3  the properties of a logical endpoint
    CUlogicalEndpointType type;
    union {
        struct {
            CUdevice device;
        } unicast;
        struct {
            unsigned int numDevices;
        } multicast;
    };
    unsigned long long size;
    unsigned int ipcHandleTypes;
    unsigned int flags;
};
struct CUfabricCpyOperand {   // 13.5  one side of a copy; type selects the member
    CUfabricCpyOperandType type;
    union {
        struct {
            CUdeviceptr ptr;
            CUmemLocation locHint;
        } ptr;
        struct {
            CUlogicalEndpointId id;
            cuuint64_t offset;
        } le;
    } op;
};
struct CUDA_FABRIC_COPY_BATCH_OP {   // 13.5  one copy of a batch
    CUfabricCpyOperand src;
    CUfabricCpyOperand dst;
    size_t size;
    unsigned int flags;
};
struct CUdevSmResource {   // 12.4  multiprocessors
    unsigned int smCount;
    unsigned int minSmPartitionSize;   // 13.0
    unsigned int smCoscheduledAlignment;   // 13.0
    unsigned int flags;   // 13.1
    unsigned int localityDomainId;   // 13.4
};
struct CUdevWorkqueueConfigResource {   // 13.1  how work queues are shared
    CUdevice device;
    unsigned int wqConcurrencyLimit;
    CUdevWorkqueueConfigScope sharingScope;
};
struct CUdevWorkqueueResource {   // 13.1  work queues
    unsigned char reserved[40];
};
struct CU_DEV_SM_RESOURCE_GROUP_PARAMS {   // 13.1  a group of multiprocessors to make
    unsigned int smCount;
    unsigned int coscheduledSmCount;
    unsigned int preferredCoscheduledSmCount;
    unsigned int flags;
    unsigned int localityDomainId;   // 13.4
    unsigned int reserved[11];
};
struct CUdevResource {   // 12.4  a resource; type selects the member
    CUdevResourceType type;
    unsigned char _internal_padding[92];
    union {
        CUdevSmResource sm;
        CUdevWorkqueueConfigResource wqConfig;   // 13.1
        CUdevWorkqueueResource wq;   // 13.1
        unsigned char _oversize[40];
    };
    CUdevResource *nextResource;   // 13.1
};
struct CUDA_MEMCPY2D_v1 {   // a rectangle to copy, as before CUDA 3.2
    unsigned int srcXInBytes;
    unsigned int srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr_v1 srcDevice;
    CUarray srcArray;
    unsigned int srcPitch;
    unsigned int dstXInBytes;
    unsigned int dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr_v1 dstDevice;
    CUarray dstArray;
    unsigned int dstPitch;
    unsigned int WidthInBytes;
    unsigned int Height;
};
struct CUDA_MEMCPY3D_v1 {   // a box to copy, as before CUDA 3.2
    unsigned int srcXInBytes;
    unsigned int srcY;
    unsigned int srcZ;
    unsigned int srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr_v1 srcDevice;
    CUarray srcArray;
    void *reserved0;
    unsigned int srcPitch;
    unsigned int srcHeight;
    unsigned int dstXInBytes;
    unsigned int dstY;
    unsigned int dstZ;
    unsigned int dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr_v1 dstDevice;
    CUarray dstArray;
    void *reserved1;
    unsigned int dstPitch;
    unsigned int dstHeight;
    unsigned int WidthInBytes;
    unsigned int Height;
    unsigned int Depth;
};
struct CUDA_ARRAY_DESCRIPTOR_v1 {   // extents and format, as before CUDA 3.2
    unsigned int Width;
    unsigned int Height;
    CUarray_format Format;
    unsigned int NumChannels;
};
struct CUDA_ARRAY3D_DESCRIPTOR_v1 {   // extents, format and flags, as before CUDA 3.2
    unsigned int Width;
    unsigned int Height;
    unsigned int Depth;
    CUarray_format Format;
    unsigned int NumChannels;
    unsigned int Flags;
};

/* Other names of the same types */
typedef CUdeviceptr CUdeviceptr_v2;
typedef CUdevice CUdevice_v1;
typedef CUtexObject CUtexObject_v1;
typedef CUsurfObject CUsurfObject_v1;
typedef CUmemFabricHandle CUmemFabricHandle_v1;
typedef CUipcEventHandle CUipcEventHandle_v1;
typedef CUipcMemHandle CUipcMemHandle_v1;
typedef CUstreamBatchMemOpParams CUstreamBatchMemOpParams_v1;
typedef CUDA_BATCH_MEM_OP_NODE_PARAMS CUDA_BATCH_MEM_OP_NODE_PARAMS_v1;
typedef CUdevprop CUdevprop_v1;
typedef CUaccessPolicyWindow CUaccessPolicyWindow_v1;
typedef CUDA_KERNEL_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS_v2;
typedef CUDA_MEMSET_NODE_PARAMS CUDA_MEMSET_NODE_PARAMS_v1;
typedef CUDA_HOST_NODE_PARAMS CUDA_HOST_NODE_PARAMS_v1;
typedef CUlaunchAttributeID CUkernelNodeAttrID;
typedef CUlaunchAttributeValue CUkernelNodeAttrValue_v1;
typedef CUkernelNodeAttrValue_v1 CUkernelNodeAttrValue;
typedef CUlaunchAttributeID CUstreamAttrID;
typedef CUlaunchAttributeValue CUstreamAttrValue_v1;
typedef CUstreamAttrValue_v1 CUstreamAttrValue;
typedef CUexecAffinitySmCount CUexecAffinitySmCount_v1;
typedef CUexecAffinityParam CUexecAffinityParam_v1;
typedef CUDA_MEMCPY2D CUDA_MEMCPY2D_v2;
typedef CUDA_MEMCPY3D CUDA_MEMCPY3D_v2;
typedef CUDA_MEMCPY3D_PEER CUDA_MEMCPY3D_PEER_v1;
typedef CUDA_ARRAY_DESCRIPTOR CUDA_ARRAY_DESCRIPTOR_v2;
typedef CUDA_ARRAY3D_DESCRIPTOR CUDA_ARRAY3D_DESCRIPTOR_v2;
typedef CUDA_ARRAY_SPARSE_PROPERTIES CUDA_ARRAY_SPARSE_PROPERTIES_v1;
typedef CUDA_ARRAY_MEMORY_REQUIREMENTS CUDA_ARRAY_MEMORY_REQUIREMENTS_v1;
typedef CUDA_RESOURCE_DESC CUDA_RESOURCE_DESC_v1;
typedef CUDA_TEXTURE_DESC CUDA_TEXTURE_DESC_v1;
typedef CUDA_RESOURCE_VIEW_DESC CUDA_RESOURCE_VIEW_DESC_v1;
typedef CUDA_POINTER_ATTRIBUTE_P2P_TOKENS CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_v1;
typedef CUDA_LAUNCH_PARAMS CUDA_LAUNCH_PARAMS_v1;
typedef CUDA_EXTERNAL_MEMORY_HANDLE_DESC CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1;
typedef CUDA_EXTERNAL_MEMORY_BUFFER_DESC CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1;
typedef CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_v1;
typedef CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_v1;
typedef CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_v1;
typedef CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1;
typedef CUDA_EXT_SEM_SIGNAL_NODE_PARAMS CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1;
typedef CUDA_EXT_SEM_WAIT_NODE_PARAMS CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1;
typedef CUmemGenericAllocationHandle CUmemGenericAllocationHandle_v1;
typedef CUarrayMapInfo CUarrayMapInfo_v1;
typedef CUmemLocation CUmemLocation_v1;
typedef CUmemAllocationProp CUmemAllocationProp_v1;
typedef CUmulticastObjectProp CUmulticastObjectProp_v1;
typedef CUmemAccessDesc CUmemAccessDesc_v1;
typedef CUgraphExecUpdateResultInfo CUgraphExecUpdateResultInfo_v1;
typedef CUmemPoolProps CUmemPoolProps_v1;
typedef CUmemPoolPtrExportData CUmemPoolPtrExportData_v1;
typedef CUmemcpyAttributes CUmemcpyAttributes_v1;
typedef CUoffset3D CUoffset3D_v1;
typedef CUextent3D CUextent3D_v1;
typedef CUmemcpy3DOperand CUmemcpy3DOperand_v1;
typedef CUDA_MEMCPY3D_BATCH_OP CUDA_MEMCPY3D_BATCH_OP_v1;
typedef CUDA_MEM_ALLOC_NODE_PARAMS CUDA_MEM_ALLOC_NODE_PARAMS_v1;
typedef CUDA_MEMCPY_BATCH_NODE_PARAMS CUDA_MEMCPY_BATCH_NODE_PARAMS_V1;
typedef CUDA_FABRIC_COPY_BATCH_OP CUDA_FABRIC_COPY_BATCH_OP_v1;
typedef CUDA_FABRIC_CPY_BATCH_NODE_PARAMS CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1;
typedef CUdevResource CUdevResource_v1;
typedef CUdevSmResourceSplitByCount_flags CUdevSmResourceSplit_flags;   // 13.0  only there
"""
