"""Functions of cuda.h: arrays, textures, surfaces and tensor maps, and objects of other interfaces.

What it is   `PROTOTYPES`, the C text of each function, as cuda_h.py explains it.
Source       cuda.h of CUDA 11.7 to 13.5; CUDA Driver API, "Memory Management", "Texture Object Management",
             "Tensor Map Object Management", "External Resource Interoperability", "Graphics Interoperability"
Read next    functions_system.py
"""

from __future__ import annotations

__all__ = ["PROTOTYPES"]

PROTOTYPES = r"""
/* Arrays: memory that is laid out for textures */
CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray);
        // 3.2  create a 1-D or 2-D array
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray);
        // 3.2  get the extents and the format of an array
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray array);
        // 11.1  get the size of the tiles of a sparse array, and where the mip tail begins
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUmipmappedArray mipmap);
        // 11.1  get the size of the tiles of a sparse array, and where the mip tail begins
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUarray array,
        CUdevice device);   // 11.6  get the size and the alignment of the memory that an array needs
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
        CUmipmappedArray mipmap, CUdevice device);   // 11.6  get the size and the alignment of the memory that it needs
CUresult cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx);
        // 11.2  get one plane of an array with a planar format
CUresult cuArrayDestroy(CUarray hArray);   // 2.0  destroy an array
CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray);
        // 3.2  create an array of 1 to 3 dimensions, of layers or of a cube's faces
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray);
        // 3.2  get the extents, the format and the flags of an array
CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
        unsigned int numMipmapLevels);   // 5.0  create an array with smaller copies of itself
CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level);
        // 5.0  get one level, which belongs to the mipmapped array
CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray);   // 5.0  destroy a mipmapped array and its levels
CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream);
        // 11.1 ptsz  map memory to tiles of sparse arrays, or unmap it

/* Textures and surfaces: how a kernel reads and writes an array */
CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
        const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc);
        // 5.0  create a texture: an array or memory, and how it is read
CUresult cuTexObjectDestroy(CUtexObject texObject);   // 5.0  destroy a texture; what it reads stays
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject);
        // 5.0  get what a texture reads
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject);
        // 5.0  get how a texture is read
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject);
        // 5.0  get the part and the format that a texture reads
CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc);
        // 5.0  create a surface: an array that kernels read and write
CUresult cuSurfObjectDestroy(CUsurfObject surfObject);   // 5.0  destroy a surface; its array stays
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject);
        // 5.0  get the array of a surface

/* Tensor maps: descriptions of tensors for bulk copies */
CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const cuuint32_t *boxDim,
        const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
        CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill);
        // 12.0  describe a tensor, and boxes of it, for bulk copies
CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
        const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
        cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill);
        // 12.0  describe a tensor of images, and the pixels around each pixel, for bulk copies
CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
        void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth,
        int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
        const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill);
        // 12.8  describe a tensor of images, and pixels in one row, for bulk copies
CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress);
        // 12.0  change the address in a tensor map
CUresult cuTensorMapSetAllocationClass(CUtensorMap *tensorMap, CUtensorMapAllocClass allocClass,
        CUtensorMapAllocClass *outAllocClass);   // 13.5  set the class of the memory that a tensor map is used with

/* Texture and surface references, which texture and surface objects have replaced */
CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name);
        // 2.0  get a texture reference by name; deprecated
CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name);
        // 3.0  get a surface reference by name; deprecated
CUresult cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef);
        // 2.0  make a texture reference available to cuLaunch; deprecated
CUresult cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags);
        // 2.0  set the array that a texture reference reads; deprecated
CUresult cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray, unsigned int Flags);
        // 5.0  set the mipmapped array that a texture reference reads; deprecated
CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes);
        // 3.2  set the memory that a 1-D texture reference reads; deprecated
CUresult cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr, size_t Pitch);
        // 4.1  set the pitched memory that a 2-D texture reference reads; deprecated
CUresult cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents);
        // 2.0  set the format of an element; deprecated
CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am);
        // 2.0  set what a coordinate outside of the texture reads; deprecated
CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm);
        // 2.0  set how values are interpolated; deprecated
CUresult cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm);
        // 5.0  set how levels are interpolated; deprecated
CUresult cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias);   // 5.0  set what is added to the level; deprecated
CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp, float maxMipmapLevelClamp);
        // 5.0  set the smallest and the largest level; deprecated
CUresult cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso);
        // 5.0  set the largest anisotropy; deprecated
CUresult cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor);
        // 8.0  set the 4 values outside of the texture; deprecated
CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags);   // 2.0  set the flags, see CU_TRSF_*; deprecated
CUresult cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef);
        // 3.2  get the memory that a texture reference reads; deprecated
CUresult cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef);
        // 2.0  get the array that a texture reference reads; deprecated
CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef);
        // 5.0  get the mipmapped array that a texture reference reads; deprecated
CUresult cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim);
        // 2.0  get what a coordinate outside of the texture reads; deprecated
CUresult cuTexRefGetFilterMode(CUfilter_mode *pfm, CUtexref hTexRef);
        // 2.0  get how values are interpolated; deprecated
CUresult cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef);
        // 2.0  get the format of an element; deprecated
CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode *pfm, CUtexref hTexRef);
        // 5.0  get how levels are interpolated; deprecated
CUresult cuTexRefGetMipmapLevelBias(float *pbias, CUtexref hTexRef);
        // 5.0  get what is added to the level; deprecated
CUresult cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp, CUtexref hTexRef);
        // 5.0  get the smallest and the largest level; deprecated
CUresult cuTexRefGetMaxAnisotropy(int *pmaxAniso, CUtexref hTexRef);   // 5.0  get the largest anisotropy; deprecated
CUresult cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef);
        // 8.0  get the 4 values outside of the texture; deprecated
CUresult cuTexRefGetFlags(unsigned int *pFlags, CUtexref hTexRef);   // 2.0  get the flags, see CU_TRSF_*; deprecated
CUresult cuTexRefCreate(CUtexref *pTexRef);   // 2.0  create a texture reference; deprecated
CUresult cuTexRefDestroy(CUtexref hTexRef);   // 2.0  destroy a texture reference; deprecated
CUresult cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags);
        // 3.0  set the array that a surface reference writes; deprecated
CUresult cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef);
        // 3.0  get the array that a surface reference writes; deprecated

/* Memory and semaphores of other interfaces */
CUresult cuImportExternalMemory(CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc);
        // 10.0  import memory of a graphics driver
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
        const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc);   // 10.0  map a part of imported memory as a buffer
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *mipmap, CUexternalMemory extMem,
        const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc);
        // 10.0  map a part of imported memory as a mipmapped array
CUresult cuDestroyExternalMemory(CUexternalMemory extMem);   // 10.0  release imported memory
CUresult cuImportExternalSemaphore(CUexternalSemaphore *extSem_out,
        const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *semHandleDesc);   // 10.0  import a semaphore of a graphics driver
CUresult cuDestroyExternalSemaphore(CUexternalSemaphore extSem);   // 10.0  release an imported semaphore
CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *extSemArray,
        const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray, unsigned int numExtSems, CUstream stream);
        // 10.0 ptsz  signal imported semaphores, in stream order
CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *extSemArray,
        const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray, unsigned int numExtSems, CUstream stream);
        // 10.0 ptsz  wait for imported semaphores, in stream order

/* Objects of graphics drivers */
CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource);   // 3.0  release an object of a graphics driver
CUresult cuGraphicsSubResourceGetMappedArray(CUarray *pArray, CUgraphicsResource resource, unsigned int arrayIndex,
        unsigned int mipLevel);   // 3.0  get the array of a mapped object, at an index and a level
CUresult cuGraphicsResourceGetMappedMipmappedArray(CUmipmappedArray *pMipmappedArray, CUgraphicsResource resource);
        // 5.0  get the mipmapped array of a mapped object
CUresult cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *pDevPtr, size_t *pSize, CUgraphicsResource resource);
        // 3.2  get the address and the size of a mapped object
CUresult cuGraphicsResourceSetMapFlags_v2(CUgraphicsResource resource, unsigned int flags);
        // 6.5  set how an object will be used, see CUgraphicsMapResourceFlags
CUresult cuGraphicsMapResources(unsigned int count, CUgraphicsResource *resources, CUstream hStream);
        // 3.0 ptsz  let kernels use objects of a graphics driver
CUresult cuGraphicsUnmapResources(unsigned int count, CUgraphicsResource *resources, CUstream hStream);
        // 3.0 ptsz  give objects back to the graphics driver
"""
