/* A CUDA driver that does nothing, to measure what wrappers of it cost on a machine without a GPU.
 *
 * "Device memory" comes from malloc and copies are memcpy; a launch counts itself and, where stub_capture is set, keeps its
 * arguments, so that a benchmark can see that what it timed handed over the right values. A module's PTX is searched for
 * ".entry" lines, for the sizes of a kernel's parameters; a kernel that is not found there has N of 8 bytes, by its name argsN.
 * Every other entry point answers success and does nothing: generic.c, written by stub.py, has them as weak symbols.
 *
 * It does not pass for NVIDIA's driver: the CUDA runtime asks for private tables to check that, and is told that there are
 * none. What goes through the runtime (CuPy's RawKernel, Warp's allocations) therefore does not start on this.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *H;                             /* any handle */
typedef uint64_t P;                          /* CUdeviceptr */
#define ENTRY __attribute__((visibility("default"))) int
#define AT(address) ((void *)(uintptr_t)(address))

__attribute__((visibility("default"))) uint64_t stub_launches, stub_arguments[64];
__attribute__((visibility("default"))) int stub_capture;      /* how many arguments to keep */
__attribute__((visibility("default"))) unsigned stub_extents[7];


struct kernel { char name[128]; int count; int sizes[80]; };
static char context[256], pool[64];
static __thread H current, stack[64];
static __thread int depth;

/* -- what the driver says of itself */

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
ENTRY cuDeviceGetDefaultMemPool(H *p, int d) { *p = pool; return 0; }
ENTRY cuDeviceGetMemPool(H *p, int d) { *p = pool; return 0; }
ENTRY cuMemPoolCreate(H *p, const void *props) { *p = pool; return 0; }
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

ENTRY cuStreamCreate(H *s, unsigned f) { *s = malloc(16); return 0; }
ENTRY cuStreamCreateWithPriority(H *s, unsigned f, int p) { *s = malloc(16); return 0; }
ENTRY cuStreamDestroy_v2(H s) { if ((uintptr_t)s > 2) free(s); return 0; }
ENTRY cuStreamGetCtx(H s, H *c) { *c = context; return 0; }
ENTRY cuStreamGetCtx_v2(H s, H *c, H *green) { *c = context; *green = NULL; return 0; }
ENTRY cuStreamGetDevice(H s, int *d) { *d = 0; return 0; }
ENTRY cuStreamGetFlags(H s, unsigned *f) { *f = 1; return 0; }
ENTRY cuStreamGetPriority(H s, int *p) { *p = 0; return 0; }
ENTRY cuStreamIsCapturing(H s, int *state) { *state = 0; return 0; }
ENTRY cuStreamGetCaptureInfo_v2(H s, int *state, uint64_t *id, H *g, void *d, size_t *n) {
  *state = 0; if (id) *id = 0; if (g) *g = NULL; if (n) *n = 0; return 0; }
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
    while ((at = strstr(at, ".param .")) && at < end && k->count < 80) {
      at += 8;
      k->sizes[k->count++] = strstr(at, "64") == at + 1 ? 8 : 4;
    }
  else if (!strncmp(name, "args", 4))
    for (k->count = atoi(name + 4); k->count > 80; ) k->count = 80;
  for (int i = 0; i < k->count; i++) if (!k->sizes[i]) k->sizes[i] = 8;
  *f = k;
  return 0;
}
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
    at = (at + k->sizes[i] - 1) / k->sizes[i] * k->sizes[i];
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
ENTRY cuMemAlloc_v2(P *p, size_t n) { *p = (uintptr_t)malloc(n); return 0; }
ENTRY cuMemAllocAsync(P *p, size_t n, H s) { return cuMemAlloc_v2(p, n); }
ENTRY cuMemAllocFromPoolAsync(P *p, size_t n, H q, H s) { return cuMemAlloc_v2(p, n); }
ENTRY cuMemAllocManaged(P *p, size_t n, unsigned f) { return cuMemAlloc_v2(p, n); }
ENTRY cuMemAllocHost_v2(void **p, size_t n) { *p = malloc(n); return 0; }
ENTRY cuMemHostAlloc(void **p, size_t n, unsigned f) { *p = malloc(n); return 0; }
ENTRY cuMemHostGetDevicePointer_v2(P *p, void *h, unsigned f) { *p = (uintptr_t)h; return 0; }
ENTRY cuMemFree_v2(P p) { free(AT(p)); return 0; }
ENTRY cuMemFreeAsync(P p, H s) { free(AT(p)); return 0; }
ENTRY cuMemFreeHost(void *p) { free(p); return 0; }
ENTRY cuMemGetAddressRange_v2(P *b, size_t *n, P p) { if (b) *b = p; if (n) *n = 64; return 0; }
ENTRY cuPointerGetAttribute(void *v, int which, P p) {
  switch (which) {                           /* context, memory type 2 (device), device, host, buffer id, managed, ordinal ... */
  case 1: *(H *)v = context; break;
  case 2: *(unsigned *)v = 2; break;
  case 3: case 4: case 11: *(P *)v = p; break;
  case 7: *(uint64_t *)v = 7; break;
  case 12: *(size_t *)v = 64; break;
  case 13: *(unsigned *)v = 1; break;
  case 17: *(H *)v = pool; break;
  default: *(unsigned *)v = 0;
  }
  return 0;
}
ENTRY cuPointerGetAttributes(unsigned n, int *which, void **v, P p) {
  for (unsigned i = 0; i < n; i++) cuPointerGetAttribute(v[i], which[i], p);
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

static int note(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H f, void **params, void **extra) {
  stub_launches++;
  if (__builtin_expect(stub_capture, 0)) {
    unsigned extents[7] = {gx, gy, gz, bx, by, bz, shared};
    struct kernel *k = f;
    memcpy(stub_extents, extents, sizeof extents);
    memset(stub_arguments, 0, sizeof stub_arguments);
    for (int i = 0; params && i < stub_capture && i < 64 && i < k->count; i++) memcpy(&stub_arguments[i], params[i], k->sizes[i]);
  }
  return 0;
}
ENTRY cuLaunchKernel(H f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H s, void **params, void **extra) {
  return note(gx, gy, gz, bx, by, bz, shared, f, params, extra);
}
ENTRY cuLaunchCooperativeKernel(H f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, H s, void **params) {
  return note(gx, gy, gz, bx, by, bz, shared, f, params, NULL);
}
struct config { unsigned gx, gy, gz, bx, by, bz, shared; H stream; void *attributes; unsigned count; };
ENTRY cuLaunchKernelEx(const struct config *c, H f, void **params, void **extra) {
  return note(c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, f, params, extra);
}
