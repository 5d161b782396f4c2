/* A CUDA driver that does nothing, to measure the cost of wrappers on a machine without a GPU.
 *
 * Device, pinned and managed memory come from three reserved ranges of addresses, so that the driver can tell for any address what
 * it is; copies are memcpy, fills do nothing, a launch counts itself. A module is the text that it was loaded from: its PTX is
 * searched for the sizes of a kernel's parameters. Every other entry point returns success and does nothing: stub.py writes
 * generic.c, which has them as weak symbols. Allocations are not thread-safe: the matrix runs in one thread.
 *
 * The CUDA runtime does not accept it as NVIDIA's driver: it requests private tables, which do not exist here. So programs that
 * use the runtime (CuPy's RawKernel, Warp's allocations, torch's CUDA tensors) do not start on this driver.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef void *H;                             /* any handle */
typedef uint64_t P;                          /* CUdeviceptr */
#define ENTRY __attribute__((visibility("default"))) int
#define AT(address) ((void *)(uintptr_t)(address))

__attribute__((visibility("default"))) uint64_t stub_launches;   /* the number of launches */

/* -- memory: blocks of powers of two from a range per kind, with a free list per size */

enum { DEVICE, PINNED, MANAGED, KINDS };
#define RANGE ((uint64_t)4 << 30)
#define HEADER 256
struct block { struct block *next; int size_class, kind; };
static struct { char *base; uint64_t used; struct block *free[32]; } ranges[KINDS];

static int allocate(P *p, size_t n, int kind) {
  int c = 8;                                 /* at least 256 bytes */
  while (c < 31 && ((size_t)1 << c) < n) c++;
  struct block *b = ranges[kind].free[c];
  if (b) ranges[kind].free[c] = b->next;
  else {
    if (!ranges[kind].base) {
      void *made = mmap(NULL, RANGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (made == MAP_FAILED) return 2;
      ranges[kind].base = made;
    }
    if (n > ((size_t)1 << c) || ranges[kind].used + HEADER + ((uint64_t)1 << c) > RANGE) return 2;
    b = (struct block *)(ranges[kind].base + ranges[kind].used);
    ranges[kind].used += HEADER + ((uint64_t)1 << c);
    b->size_class = c;
    b->kind = kind;
  }
  *p = (uintptr_t)b + HEADER;
  return 0;
}
static int release(P p) {
  if (!p) return 0;
  struct block *b = AT(p - HEADER);
  b->next = ranges[b->kind].free[b->size_class];
  ranges[b->kind].free[b->size_class] = b;
  return 0;
}
static int kind_of(P p) {                    /* -1 is memory that the driver does not know */
  for (int kind = 0; kind < KINDS; kind++)
    if (ranges[kind].base && p - (uintptr_t)ranges[kind].base < RANGE) return kind;
  return -1;
}

struct kernel { char name[128]; int count; int sizes[80]; };
static char context[256], pools[KINDS];
static __thread H current, stack[64];
static __thread int depth;

/* -- versions, errors and addresses of functions */

ENTRY cuDriverGetVersion(int *v) { *v = 13000; return 0; }
ENTRY cuGetErrorName(int e, const char **s) { *s = e ? "CUDA_ERROR_UNKNOWN" : "CUDA_SUCCESS"; return 0; }
ENTRY cuGetErrorString(int e, const char **s) { *s = e ? "error of the stub" : "no error"; return 0; }
ENTRY cuGetExportTable(const void **t, const void *id) { *t = NULL; return 500; }

static int nothing(void) { return 0; }
static void *find(const char *name, int version) {
  static void *self;
  char versioned[200];
  if (!self) { Dl_info info; dladdr((void *)find, &info); self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD); }
  for (int v = 4; v > 1 && version >= 3020; v--) {           /* cuX means the newest cuX_vN that writes its result alike */
    snprintf(versioned, sizeof versioned, "%s_v%d", name, v);
    void *p = strcmp(versioned, "cuCtxGetDevice_v2") ? dlsym(self, versioned) : NULL;
    if (p) return p;
  }
  return dlsym(self, name);
}
ENTRY cuGetProcAddress_v2(const char *name, void **f, int version, uint64_t flags, int *status) {
  void *p = *name ? find(name, version) : (void *)cuGetProcAddress_v2;
  *f = p ? p : (void *)nothing;
  if (status) *status = 0;
  return 0;
}
ENTRY cuGetProcAddress(const char *name, void **f, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, f, version, flags, NULL);
}

/* -- one device */

ENTRY cuDeviceGetCount(int *n) { *n = 1; return 0; }
ENTRY cuDeviceGet(int *d, int i) { *d = i; return i ? 101 : 0; }
ENTRY cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "stub"); return 0; }
ENTRY cuDeviceTotalMem_v2(size_t *n, int d) { *n = (size_t)80 << 30; return 0; }
ENTRY cuDeviceGetUuid_v2(char *u, int d) { for (int i = 0; i < 16; i++) u[i] = i + 1; return 0; }
ENTRY cuDeviceGetUuid(char *u, int d) { return cuDeviceGetUuid_v2(u, d); }
ENTRY cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:01:00.0"); return 0; }
ENTRY cuDeviceComputeCapability(int *a, int *b, int d) { *a = 9; *b = 0; return 0; }
ENTRY cuDeviceGetAttribute(int *v, int which, int d) {
  static const int known[][2] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152},
    {9, 65536}, {10, 32}, {11, 2147483647}, {12, 65536}, {13, 1980000}, {14, 512}, {16, 132}, {17, 0}, {18, 0}, {19, 0}, {20, 0},
    {39, 2048}, {75, 9}, {76, 0}, {81, 233472}, {82, 65536}, {88, 0}, {97, 232448}};
  *v = 1;
  for (unsigned i = 0; i < sizeof known / sizeof *known; i++) if (known[i][0] == which) *v = known[i][1];
  return 0;
}
ENTRY cuDeviceGetDefaultMemPool(H *p, int d) { *p = &pools[DEVICE]; return 0; }
ENTRY cuDeviceGetMemPool(H *p, int d) { *p = &pools[DEVICE]; return 0; }
static int pool_for(H *p, int allocation, int location) {  /* allocation 2 is managed; location 1 is a device */
  *p = &pools[allocation == 2 ? MANAGED : location == 1 ? DEVICE : PINNED];
  return 0;
}
ENTRY cuMemPoolCreate(H *p, const int *properties) { return pool_for(p, properties[0], properties[2]); }
ENTRY cuMemGetDefaultMemPool(H *p, const int *location, int allocation) { return pool_for(p, allocation, *location); }
ENTRY cuMemGetMemPool(H *p, const int *location, int allocation) { return pool_for(p, allocation, *location); }
ENTRY cuMemPoolGetAttribute(H p, int which, void *v) { *(uint64_t *)v = 0; return 0; }
ENTRY cuDeviceCanAccessPeer(int *v, int a, int b) { *v = 0; return 0; }

/* -- one context */

ENTRY cuDevicePrimaryCtxRetain(H *c, int d) { *c = context; return 0; }
ENTRY cuDevicePrimaryCtxGetState(int d, unsigned *f, int *a) { *f = 0; *a = 1; return 0; }
ENTRY cuCtxCreate_v2(H *c, unsigned f, int d) { *c = current = context; return 0; }
ENTRY cuCtxGetCurrent(H *c) { *c = current; return 0; }
ENTRY cuCtxSetCurrent(H c) { current = c; return 0; }
ENTRY cuCtxPushCurrent_v2(H c) { if (depth < 64) stack[depth++] = current; current = c; return 0; }
ENTRY cuCtxPopCurrent_v2(H *c) { if (c) *c = current; current = depth ? stack[--depth] : NULL; return 0; }
ENTRY cuCtxGetDevice(int *d) { *d = 0; return 0; }
ENTRY cuCtxGetDevice_v2(int *d, H c) { *d = 0; return 0; }
ENTRY cuCtxGetApiVersion(H c, unsigned *v) { *v = 3020; return 0; }
ENTRY cuCtxGetId(H c, uint64_t *id) { *id = 1; return 0; }
ENTRY cuCtxGetFlags(unsigned *f) { *f = 0; return 0; }
ENTRY cuCtxGetLimit(size_t *v, int which) { *v = 1024; return 0; }
ENTRY cuCtxGetStreamPriorityRange(int *low, int *high) { *low = 0; *high = -5; return 0; }

/* -- streams and events */

static int *recording(H s) { static int never; return (uintptr_t)s > 2 ? s : &never; }    /* a stream is one int: 1 while it is captured */
ENTRY cuStreamCreate(H *s, unsigned f) { *s = calloc(1, 16); return 0; }
ENTRY cuStreamCreateWithPriority(H *s, unsigned f, int p) { return cuStreamCreate(s, f); }
ENTRY cuStreamBeginCapture_v2(H s, int mode) { *recording(s) = (uintptr_t)s > 2; return 0; }
ENTRY cuStreamDestroy_v2(H s) { if ((uintptr_t)s > 2) free(s); return 0; }
ENTRY cuStreamGetCtx(H s, H *c) { *c = context; return 0; }
ENTRY cuStreamGetCtx_v2(H s, H *c, H *green) { *c = context; *green = NULL; return 0; }
ENTRY cuStreamGetDevice(H s, int *d) { *d = 0; return 0; }
ENTRY cuStreamGetFlags(H s, unsigned *f) { *f = 1; return 0; }
ENTRY cuStreamGetPriority(H s, int *p) { *p = 0; return 0; }
ENTRY cuStreamIsCapturing(H s, int *state) { *state = *recording(s); return 0; }
ENTRY cuStreamGetCaptureInfo_v2(H s, int *state, uint64_t *id, H *g, void *d, size_t *n) {
  *state = *recording(s); if (id) *id = *state; if (g) *g = NULL; if (n) *n = 0; return 0; }
ENTRY cuStreamGetCaptureInfo(H s, int *state, uint64_t *id) {
  return cuStreamGetCaptureInfo_v2(s, state, id, NULL, NULL, NULL); }
ENTRY cuStreamGetCaptureInfo_v3(H s, int *state, uint64_t *id, H *g, void *d, void *e, size_t *n) {
  return cuStreamGetCaptureInfo_v2(s, state, id, g, d, n); }
ENTRY cuEventCreate(H *e, unsigned f) { *e = malloc(16); return 0; }
ENTRY cuEventDestroy_v2(H e) { free(e); return 0; }
ENTRY cuEventElapsedTime(float *t, H a, H b) { *t = 1; return 0; }
ENTRY cuEventElapsedTime_v2(float *t, H a, H b) { *t = 1; return 0; }

/* -- code: a module is the text that it was loaded from */

ENTRY cuModuleLoadData(H *m, const void *image) {
  *m = memchr(image, '.', 1) ? strdup(image) : calloc(1, 64);          /* PTX of these benchmarks begins with .version */
  return 0;
}
ENTRY cuModuleLoadDataEx(H *m, const void *image, unsigned n, void *o, void *v) { return cuModuleLoadData(m, image); }
ENTRY cuModuleLoadFatBinary(H *m, const void *image) { return cuModuleLoadData(m, image); }
ENTRY cuLibraryLoadData(H *l, const void *image, void *a, void *b, unsigned n, void *d, void *e, unsigned m) { return cuModuleLoadData(l, image); }
ENTRY cuLibraryGetModule(H *m, H l) { *m = l; return 0; }
ENTRY cuModuleGetFunction(H *f, H m, const char *name) {
  struct kernel *k = calloc(1, sizeof *k);
  char entry[160];
  snprintf(k->name, sizeof k->name, "%s", name);
  snprintf(entry, sizeof entry, ".entry %s(", name);
  const char *at = strstr(m, entry), *end = at ? strchr(at, ')') : NULL;
  if (at)
    while ((at = strstr(at, ".param .")) && at < end && k->count < 80) {       /* .param .u64 a   .param .align 8 .b8 t[24] */
      at += 8;
      const char *last = strpbrk(at, ",)"), *array = strchr(at, '[');
      k->sizes[k->count++] = array && array < last ? atoi(array + 1) : strncmp(at, "align", 5) ? atoi(at + 1) / 8 : 8;
    }
  else if (!strncmp(name, "args", 4))
    for (k->count = atoi(name + 4); k->count > 80; ) k->count = 80;
  for (int i = 0; i < k->count; i++) if (!k->sizes[i]) k->sizes[i] = 8;
  *f = k;
  return 0;
}
ENTRY cuModuleGetGlobal_v2(P *p, size_t *n, H m, const char *name) { if (n) *n = 256; return allocate(p, 256, DEVICE); }
ENTRY cuLibraryGetKernel(H *f, H l, const char *name) { return cuModuleGetFunction(f, l, name); }
ENTRY cuKernelGetFunction(H *f, H k) { *f = k; return 0; }
ENTRY cuKernelGetLibrary(H *l, H k) { *l = calloc(1, 64); return 0; }
ENTRY cuFuncGetModule(H *m, H f) { *m = calloc(1, 64); return 0; }
ENTRY cuKernelGetName(const char **n, H k) { *n = ((struct kernel *)k)->name; return 0; }
ENTRY cuFuncGetName(const char **n, H k) { return cuKernelGetName(n, k); }
ENTRY cuFuncGetAttribute(int *v, int which, H f) {
  *v = which == 0 ? 1024 : which == 4 ? 32 : which == 5 || which == 6 ? 90 : which == 8 ? 232448 : 0;
  return 0;
}
ENTRY cuKernelGetAttribute(int *v, int which, H f, int d) { return cuFuncGetAttribute(v, which, f); }
ENTRY cuFuncGetParamInfo(H f, size_t which, size_t *offset, size_t *size) {
  struct kernel *k = f;
  size_t at = 0;
  if ((int)which >= k->count) return 1;
  for (size_t i = 0; i <= which; i++) {
    size_t alignment = k->sizes[i] > 8 ? 8 : k->sizes[i];
    at = (at + alignment - 1) / alignment * alignment;
    *offset = at;
    at += k->sizes[i];
  }
  if (size) *size = k->sizes[which];
  return 0;
}
ENTRY cuKernelGetParamInfo(H f, size_t which, size_t *offset, size_t *size) { return cuFuncGetParamInfo(f, which, offset, size); }
ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, H f, int b, size_t s) { *n = 8; return 0; }
ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, H f, int b, size_t s, unsigned g) { *n = 8; return 0; }
ENTRY cuOccupancyMaxPotentialBlockSize(int *g, int *b, H f, H c, size_t s, int limit) { *g = 132; *b = 256; return 0; }

/* -- memory */

ENTRY cuMemGetInfo_v2(size_t *f, size_t *t) { *f = (size_t)79 << 30; *t = (size_t)80 << 30; return 0; }
ENTRY cuMemAlloc_v2(P *p, size_t n) { return allocate(p, n, DEVICE); }
ENTRY cuMemAllocAsync(P *p, size_t n, H s) { return allocate(p, n, DEVICE); }
ENTRY cuMemAllocFromPoolAsync(P *p, size_t n, H pool, H s) { return allocate(p, n, (char *)pool - pools); }
ENTRY cuMemAllocManaged(P *p, size_t n, unsigned f) { return allocate(p, n, MANAGED); }
ENTRY cuMemAllocHost_v2(P *p, size_t n) { return allocate(p, n, PINNED); }
ENTRY cuMemHostAlloc(P *p, size_t n, unsigned f) { return allocate(p, n, PINNED); }
ENTRY cuMemHostGetDevicePointer_v2(P *p, void *h, unsigned f) { *p = (uintptr_t)h; return 0; }
ENTRY cuMemFree_v2(P p) { return release(p); }
ENTRY cuMemFreeAsync(P p, H s) { return release(p); }
ENTRY cuMemFreeHost(void *p) { return release((uintptr_t)p); }
ENTRY cuMemGetAddressRange_v2(P *b, size_t *n, P p) {
  int kind = kind_of(p);                     /* a whole range is treated as one allocation */
  if (kind < 0) return 1;
  if (b) *b = (uintptr_t)ranges[kind].base;
  if (n) *n = RANGE;
  return 0;
}
static int fact(void *v, int which, P p, int kind) {
  switch (which) {           /* context, memory type (1 host, 2 device), device and host address, id, managed, ordinal, range, mapped, pool */
  case 1: *(H *)v = kind < 0 ? NULL : context; break;
  case 2: *(unsigned *)v = kind < 0 ? 0 : kind == PINNED ? 1 : 2; break;
  case 3: *(P *)v = kind < 0 ? 0 : p; break;
  case 4: *(P *)v = kind == PINNED || kind == MANAGED ? p : 0; break;
  case 7: *(uint64_t *)v = kind < 0 ? 0 : 7; break;
  case 8: *(unsigned *)v = kind == MANAGED; break;
  case 9: *(int *)v = kind < 0 ? -2 : 0; break;
  case 11: *(P *)v = kind < 0 ? 0 : (uintptr_t)ranges[kind].base; break;
  case 12: *(size_t *)v = kind < 0 ? 0 : RANGE; break;
  case 13: *(unsigned *)v = kind >= 0; break;
  case 17: *(H *)v = kind < 0 ? NULL : &pools[kind]; break;
  default: *(unsigned *)v = 0;
  }
  return 0;
}
ENTRY cuPointerGetAttribute(void *v, int which, P p) { return kind_of(p) < 0 ? 1 : fact(v, which, p, kind_of(p)); }
ENTRY cuPointerGetAttributes(unsigned n, int *which, void **v, P p) {
  int kind = kind_of(p);
  for (unsigned i = 0; i < n; i++) fact(v[i], which[i], p, kind);
  return 0;
}
static int copy(P d, P s, size_t n) { memcpy(AT(d), AT(s), n); return 0; }
ENTRY cuMemcpy(P d, P s, size_t n) { return copy(d, s, n); }
ENTRY cuMemcpyAsync(P d, P s, size_t n, H q) { return copy(d, s, n); }
ENTRY cuMemcpyHtoD_v2(P d, P s, size_t n) { return copy(d, s, n); }
ENTRY cuMemcpyDtoH_v2(P d, P s, size_t n) { return copy(d, s, n); }
ENTRY cuMemcpyDtoD_v2(P d, P s, size_t n) { return copy(d, s, n); }
ENTRY cuMemcpyHtoDAsync_v2(P d, P s, size_t n, H q) { return copy(d, s, n); }
ENTRY cuMemcpyDtoHAsync_v2(P d, P s, size_t n, H q) { return copy(d, s, n); }
ENTRY cuMemcpyDtoDAsync_v2(P d, P s, size_t n, H q) { return copy(d, s, n); }

/* -- launches */

ENTRY cuLaunchKernel(H f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H s, void **params, void **extra) {
  stub_launches++;
  return 0;
}
ENTRY cuLaunchCooperativeKernel(H f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H s, void **params) {
  stub_launches++;
  return 0;
}
ENTRY cuLaunchKernelEx(const void *config, H f, void **params, void **extra) { stub_launches++; return 0; }

/* -- graphs */

ENTRY cuGraphCreate(H *g, unsigned f) { *g = malloc(16); return 0; }
ENTRY cuGraphDestroy(H g) { free(g); return 0; }
ENTRY cuStreamEndCapture(H s, H *g) { *recording(s) = 0; return cuGraphCreate(g, 0); }
ENTRY cuGraphInstantiateWithFlags(H *x, H g, uint64_t f) { return cuGraphCreate(x, 0); }
ENTRY cuGraphInstantiateWithParams(H *x, H g, void *p) { return cuGraphCreate(x, 0); }
ENTRY cuGraphExecDestroy(H x) { free(x); return 0; }
