// The declarations of 50 kernels, after those of public programs (samples, linear algebra, simulation, learning,
// images, hashing), with bodies that do nothing. They are compiled as C++, so that their names contain their types.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuComplex.h>
typedef unsigned int uint32_t;
typedef long int64_t;
typedef float real;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned long long int u64;
typedef long long int i64;
typedef const float *__restrict__ input;
typedef double4 body_t, *body_p;
using index_t = int;
using Color = uchar4;
#define BLOCK 16
#define REAL double
#define KERNEL __global__ void
#define RESTRICT __restrict__
struct Particle { float3 position; float mass; };
struct __align__(16) Sphere { float4 centre; int material; };
typedef struct { int rows, columns; float *elements; } Matrix;
enum Mode { NEAREST, LINEAR };
enum class Border : int { WRAP, CLAMP };
union Word { float f; int i; };
namespace lattice { struct Site { double density; }; typedef unsigned short label; }
__device__ __forceinline__ float half_of(float x) { return x / 2; }

__global__ void vectorAdd(const float *A, const float *B, float *C, int numElements) {}
__global__ void saxpy(int n, float a, float *x, float *y) {}
__global__ void MatrixMulCUDA(float *C, float *A, float *B, int wA, int wB) {}
__global__ void transposeNaive(float *odata, float const *idata, int width, int height) {}
__global__ void reduce0(int *g_idata, int *g_odata, unsigned int n) {}
__global__ void histogram64Kernel(uint *d_PartialHistograms, uint4 *d_Data, uint dataCount) {}
__global__ void __launch_bounds__(256) scanExclusiveShared(uint4 *d_Dst, uint4 *d_Src, uint size) {}
__global__ void integrateBodies(float4 *__restrict__ newPos, float4 *__restrict__ oldPos, float4 *vel, float deltaTime, float damping) {}
__global__ void BlackScholesGPU(float2 *__restrict d_CallResult, float2 *__restrict d_PutResult, const float2 *__restrict d_StockPrice, float Riskfree, int optN) {}
__global__ void bitonicSortShared(uint *d_DstKey, uint *d_DstVal, uint *d_SrcKey, uint *d_SrcVal, uint arrayLength, uint dir) {}
__global__ void mandelbrot(uchar4 *dst, const int imageW, const int imageH, const int crunch, const double xOff, const double yOff, const REAL scale, const Color colors) {}
__global__ void convolutionRows(float *d_Dst, float *d_Src, int imageW, int imageH, int pitch) {}
__global__ void
softmax_forward_kernel(float* out, const float* inp, int N, int C)
{}
__global__ void layernorm_forward(float* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd, const float* __restrict__ inp, const float* __restrict__ weight, const float* __restrict__ bias, int N, int C) {}
__global__ void encoder_backward(__nv_bfloat16 *dwte, const __nv_bfloat16* dout, const int* inp, int B, int T, int C, unsigned int seed) {}
__global__ void adamw(float* params_memory, float* grads_memory, float* m_memory, float* v_memory, long num_parameters, float learning_rate, float beta1, float beta2, float eps) {}
__global__ void dequantize_q4(const void * __restrict__ vx, half * __restrict__ y, const int64_t k) {}
__global__ void mul_mat_vec(const void * vx, const half2 * y, float * dst, const int ncols_x, const int nrows_dst) {}
__global__ void rope(const float * x, float * dst, const int ne0, const int s1, const int * pos, const float freq_scale, const float2 corr_dims, const bool forward) {}
__global__ void argsort(const float * x, int * dst, const int ncols, int ncols_pad, bool ascending = true) {}
__global__ void hgemm(const __half *A, const __half *B, __half *C, size_t M, size_t N, size_t K) {}
__global__ void gather(const i64 *__restrict__ indices, const double *src, double *dst, const i64 count) {}
__global__ void sha256(const unsigned char *messages, size_t length, uint32_t *digests, unsigned long long first) {}
__global__ void search_nonce(volatile unsigned int *result, u64 target, unsigned long long int *found, const unsigned char prefix[64]) {}
__global__ void md5(char *words, char **hashes, int *lengths) {}
__global__ void spmv_csr(const int rows, const int * __restrict__ ptr, const int * __restrict__ cols, const REAL * __restrict__ vals, const REAL *x, REAL *y) {}
__global__ void jacobi(const REAL *const __restrict__ a, REAL *const __restrict__ a_new, REAL *const l2_norm, const index_t iy_start, const int nx) {}
__global__ void bfs(const unsigned *offsets, const unsigned *edges, unsigned char *visited, unsigned *frontier, bool *done) {}
__global__ void sssp(int const n, long unsigned int const * weights, unsigned long int * distances) {}
__global__ void fft_radix2(cuFloatComplex *data, const cuDoubleComplex *twiddles, int stage) {}
__global__ void collide(lattice::Site *sites, const lattice::label *labels, ::uint width) {}
__global__ void trace(const Sphere *spheres, int count, Color *image, struct Particle *lights, Matrix view) {}
__global__ void resize(const uchar3 *in, uchar3 *out, enum Mode mode, Border border, Word fill) {}
__global__ void advance(Particle *particles, int n, float3 gravity, float dt) {}
KERNEL step(real *u, real *RESTRICT next, input old, int width) {}
KERNEL sum_rows(const short *samples, unsigned short *levels, signed char *flags, long long *totals) {}
__global__ void __launch_bounds__(BLOCK * BLOCK, 2) tiled(const float (*tile)[BLOCK], float out[BLOCK][BLOCK], int x[BLOCK]) {}
__global__ void set_all(float *p, float value /* , int unused */, // the number
                        int n) {}
__global__ void unnamed(const int *, float, unsigned, unsigned char *) {}
__global__ void nbody(body_t *positions, body_t const *velocities, double softening) {}
__global__ void kmeans(const float *const points, int *__restrict__ const membership, float *const *clusters) {}
__global__ void lookup(cudaTextureObject_t table, cudaSurfaceObject_t out, int2 size, dim3 grid) {}
__global__ void functional(float (*f)(float), float *x, int n) {}
__global__ void mixed(long double *a, ulonglong2 b, int long unsigned c, short int d, char signed e, double2 *f) {}
__global__ void grid_constant(const __grid_constant__ Matrix m, float4 *out) {}
template <typename T> __global__ void fill(T *x, const T value, int n) {}
template <typename T, int N> __global__ void window(const T *__restrict__ in, T *out, unsigned n) {}
template <class T, class U> __global__ void cast(const T *from, U *to, size_t n) {}
template <typename scalar> __global__ void scale(scalar *x, scalar by) {}
template __global__ void fill<float>(float *, const float, int);
template __global__ void window<int, 3>(const int *, int *, unsigned);
template __global__ void cast<double, __half>(const double *, __half *, size_t);
template __global__ void scale<double>(double *, double);
namespace physics { __global__ void kick(float3 *velocities, float const *__restrict__ forces, float dt) {} }
