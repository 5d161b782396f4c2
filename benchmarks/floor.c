/* The same calls made by C in a loop: what is left when nothing wraps them. */
#include <dlfcn.h>
#include <stdint.h>

static void *symbol(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name); }

int floor_launch(long n, int count, void *kernel, void *stream) {
  int (*volatile call)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) = symbol("cuLaunchKernel");
  uint64_t values[64];
  void *pointers[64];
  for (long i = 0; i < n; i++) {
    for (int k = 0; k < count; k++) { values[k] = i + k; pointers[k] = &values[k]; }
    if (call(kernel, 1, 1, 1, 32, 1, 1, 0, stream, pointers, 0)) return 1;
  }
  return 0;
}
