/* A card of which CUDA only says that it is there: kernels compile for it, and none ever runs.

   Loaded before the runtime (LD_PRELOAD), and found by Triton as libcuda.so.1. Every function says
   "success"; those below that fill in something say what an H100 would. benchmarks/fake_card.py
   builds it against the headers of the installed wheel. */
#include <stdlib.h>
#include <string.h>

#include "driver_types.h"

#define SAYS_YES(name) \
    int name() { return 0; }

enum { VERSION = 13000, THREADS = 1024, SHARED_OPTIN = 232448, SHARED_ALL = 233472,
       REGISTERS = 65536, PROCESSORS = 132, WARP = 32 };

/* The runtime, which torch asks. */
int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cudaRuntimeGetVersion(int *version) { *version = VERSION; return 0; }
int cudaMemGetInfo(size_t *left, size_t *all) { *left = *all = 80UL << 30; return 0; }
int cudaMalloc(void **where, size_t size) { *where = malloc(size ? size : 1); return 0; }
int cudaFree(void *where) { free(where); return 0; }
int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    memcpy(to, from, size);
    return 0;
}
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    memcpy(to, from, size);
    return 0;
}
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return 0;
}
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return 0; }
int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    *stream = malloc(1);
    return 0;
}
int cudaEventCreateWithFlags(void **event, unsigned flags) { *event = malloc(1); return 0; }
int cudaGetDeviceProperties(struct cudaDeviceProp *card, int device) {
    memset(card, 0, sizeof *card);
    strcpy(card->name, "sm_90 (fake, nothing computes)");
    card->major = 9;
    card->totalGlobalMem = 80UL << 30;
    card->multiProcessorCount = PROCESSORS;
    card->warpSize = WARP;
    card->maxThreadsPerBlock = THREADS;
    card->maxThreadsPerMultiProcessor = 2 * THREADS;
    card->regsPerBlock = card->regsPerMultiprocessor = REGISTERS;
    card->sharedMemPerBlock = 49152;
    card->sharedMemPerBlockOptin = SHARED_OPTIN;
    card->sharedMemPerMultiprocessor = SHARED_ALL;
    card->l2CacheSize = 50 << 20;
    return 0;
}
SAYS_YES(cudaSetDevice)
SAYS_YES(cudaGetLastError)
SAYS_YES(cudaPeekAtLastError)
SAYS_YES(cudaDeviceSynchronize)
SAYS_YES(cudaStreamSynchronize)
SAYS_YES(cudaStreamQuery)
SAYS_YES(cudaEventQuery)
SAYS_YES(cudaEventRecord)
SAYS_YES(cudaEventSynchronize)
SAYS_YES(cudaThreadExchangeStreamCaptureMode)

/* The driver, which Triton asks. Without its header, which differs from the runtime's in version. */
int cuGetErrorString(int error, const char **text) {
    *text = "the fake card knows no errors";
    return 0;
}
int cuDeviceGet(int *device, int number) { *device = 0; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    *flags = 0;
    *active = 1;
    return 0;
}
int cuCtxGetCurrent(void **context) { *context = (void *)1; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 10: *value = WARP; break;
    case 12: *value = REGISTERS; break;
    case 16: *value = PROCESSORS; break;
    case 75: *value = 9; break; /* compute capability, major */
    case 76: *value = 0; break; /* minor */
    case 81: *value = SHARED_ALL; break;
    case 97: *value = SHARED_OPTIN; break;
    default: *value = 1;
    }
    return 0;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    *value = attribute ? 32 : THREADS; /* registers and the like; 0 asks for threads of a block */
    return 0;
}
int cuModuleLoad(void **module, const char *path) { *module = (void *)1; return 0; }
int cuModuleLoadData(void **module, const void *image) { *module = (void *)1; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = (void *)1;
    return 0;
}
SAYS_YES(cuInit)
SAYS_YES(cuCtxGetLimit)
SAYS_YES(cuCtxGetDevice)
SAYS_YES(cuCtxSetCurrent)
SAYS_YES(cuCtxSetLimit)
SAYS_YES(cuDevicePrimaryCtxRetain)
SAYS_YES(cuFuncSetAttribute)
SAYS_YES(cuFuncSetCacheConfig)
SAYS_YES(cuLaunchKernel)
SAYS_YES(cuLaunchKernelEx)
SAYS_YES(cuModuleUnload)
SAYS_YES(cuOccupancyMaxActiveClusters)
SAYS_YES(cuPointerGetAttribute)
SAYS_YES(cuTensorMapEncodeTiled)
