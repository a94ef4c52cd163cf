/*
 * libnvidia-ml.so.1 for a machine without a GPU: the part of NVML that nvidia-ctk (1.17 to 1.20),
 * the NVIDIA runtime and pynvml call to enumerate GPUs and MIG instances. Layouts and result codes
 * are those of nvml.h (NVIDIA/go-nvml pkg/nvml/nvml.h); every answer comes from the file that
 * config.c reads, anew at each first nvmlInit, so a MIG change is seen after a shutdown.
 */
#include "stub.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_info;

typedef struct {
    unsigned long long total, free, used;
} memory_info;

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_info_v2;

typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    unsigned gpu_instance_slices, compute_instance_slices;
    unsigned long long memory_mib;
} device_attributes;

typedef struct {
    unsigned start, size;
} placement;

typedef struct {
    device *gpu;
    unsigned id, profile;
    placement where;
} gpu_instance_info;

typedef struct {
    device *gpu;
    device *gpu_instance;
    unsigned id, profile;
    placement where;
} compute_instance_info;

typedef struct {
    unsigned id, p2p, slices, instances, multiprocessors;
    unsigned copy_engines, decoders, encoders, jpegs, ofas;
    unsigned long long memory_mib;
} gpu_instance_profile;

typedef struct {
    unsigned id, slices, instances, multiprocessors;
    unsigned copy_engines, decoders, encoders, jpegs, ofas;
} compute_instance_profile;

/* NVML_GPU_INSTANCE_PROFILE_{1,2,3,4,7}_SLICE of an A100 40GB. */
static const struct {
    unsigned slices;
    unsigned long long memory_mib;
} profiles[] = {{1, 4864}, {2, 9856}, {3, 19968}, {4, 19968}, {7, 40320}};
enum { PROFILES = sizeof profiles / sizeof profiles[0], MULTIPROCESSORS_PER_SLICE = 14 };

static machine here;
static unsigned users; /* nvmlInit counts its callers */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned profile_of(unsigned slices)
{
    for (unsigned i = 0; i < PROFILES; i++)
        if (profiles[i].slices >= slices)
            return i;
    return PROFILES - 1;
}

static result text(const char *value, char *into, unsigned size)
{
    if (into == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(value) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(into, value);
    return NVML_SUCCESS;
}

static bool is_gpu(const device *d)
{
    return d >= here.gpus && d < here.gpus + here.gpu_count;
}

static bool is_mig(const device *d)
{
    for (unsigned g = 0; g < here.gpu_count; g++)
        if (d >= here.migs[g] && d < here.migs[g] + here.gpus[g].mig_count)
            return true;
    return false;
}

static result usable(const device *d)
{
    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (!is_gpu(d) && !is_mig(d))
        return NVML_ERROR_INVALID_ARGUMENT;
    return (d->parent != NULL ? d->parent : d)->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

#define NEED_INIT                            \
    do {                                     \
        if (users == 0)                      \
            return NVML_ERROR_UNINITIALIZED; \
    } while (0)
#define NEED_DEVICE(d)                \
    do {                              \
        result state_ = usable(d);    \
        if (state_ != NVML_SUCCESS)   \
            return state_;            \
    } while (0)
#define NEED_GPU(d)                          \
    do {                                     \
        NEED_DEVICE(d);                      \
        if (!is_gpu(d))                      \
            return NVML_ERROR_NOT_SUPPORTED; \
    } while (0)
#define NEED_MIG(d)                          \
    do {                                     \
        NEED_DEVICE(d);                      \
        if (!is_mig(d))                      \
            return NVML_ERROR_NOT_SUPPORTED; \
    } while (0)

/* start and end */

result nvmlInit_v2(void)
{
    pthread_mutex_lock(&lock);
    result outcome = NVML_SUCCESS;
    if (users == 0) {
        read_machine(&here);
        if (here.init_delay_seconds > 0)
            sleep(here.init_delay_seconds);
        outcome = here.init_result;
    }
    if (outcome == NVML_SUCCESS)
        users++;
    pthread_mutex_unlock(&lock);
    return outcome;
}

result nvmlInit(void) { return nvmlInit_v2(); }

result nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

result nvmlShutdown(void)
{
    pthread_mutex_lock(&lock);
    result outcome = users == 0 ? NVML_ERROR_UNINITIALIZED : NVML_SUCCESS;
    if (users > 0)
        users--;
    pthread_mutex_unlock(&lock);
    return outcome;
}

const char *nvmlErrorString(result code)
{
    switch (code) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

/* the machine */

result nvmlSystemGetDriverVersion(char *into, unsigned size)
{
    NEED_INIT;
    return text(here.driver_version, into, size);
}

result nvmlSystemGetNVMLVersion(char *into, unsigned size)
{
    NEED_INIT;
    return text(here.nvml_version, into, size);
}

result nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    NEED_INIT;
    *version = here.cuda_version;
    return NVML_SUCCESS;
}

result nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

result nvmlDeviceGetCount_v2(unsigned *count)
{
    NEED_INIT;
    *count = here.gpu_count;
    return NVML_SUCCESS;
}

result nvmlDeviceGetHandleByIndex_v2(unsigned index, device **handle)
{
    NEED_INIT;
    if (index >= here.gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (here.gpus[index].lost)
        return NVML_ERROR_GPU_IS_LOST;
    *handle = &here.gpus[index];
    return NVML_SUCCESS;
}

result nvmlDeviceGetHandleByUUID(const char *uuid, device **handle)
{
    NEED_INIT;
    for (unsigned g = 0; g < here.gpu_count; g++) {
        *handle = &here.gpus[g];
        if (strcmp((*handle)->uuid, uuid) == 0)
            return usable(*handle);
        for (unsigned m = 0; m < here.gpus[g].mig_count; m++) {
            *handle = &here.migs[g][m];
            if (strcmp((*handle)->uuid, uuid) == 0)
                return usable(*handle);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

result nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device **handle)
{
    NEED_INIT;
    unsigned domain, bus, slot;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned g = 0; g < here.gpu_count; g++) {
        device *gpu = &here.gpus[g];
        if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == slot) {
            *handle = gpu;
            return usable(gpu);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

/* a device */

result nvmlDeviceGetUUID(device *d, char *into, unsigned size)
{
    NEED_DEVICE(d);
    return text(d->uuid, into, size);
}

result nvmlDeviceGetName(device *d, char *into, unsigned size)
{
    NEED_DEVICE(d);
    return text(d->name, into, size);
}

result nvmlDeviceGetIndex(device *d, unsigned *index)
{
    NEED_DEVICE(d);
    *index = d->index;
    return NVML_SUCCESS;
}

result nvmlDeviceGetMinorNumber(device *d, unsigned *minor)
{
    NEED_GPU(d);
    *minor = d->minor;
    return NVML_SUCCESS;
}

result nvmlDeviceGetPciInfo_v3(device *d, pci_info *info)
{
    NEED_DEVICE(d);
    const device *gpu = d->parent != NULL ? d->parent : d;
    memset(info, 0, sizeof *info);
    info->domain = gpu->pci_domain;
    info->bus = gpu->pci_bus;
    info->device = gpu->pci_device;
    info->pci_device_id = 0x20b010de; /* GA100, NVIDIA */
    info->pci_subsystem_id = 0x134f10de;
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0",
             gpu->pci_domain & 0xffff, gpu->pci_bus & 0xff, gpu->pci_device & 0x1f);
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", gpu->pci_domain, gpu->pci_bus,
             gpu->pci_device);
    return NVML_SUCCESS;
}

result nvmlDeviceGetMemoryInfo(device *d, memory_info *info)
{
    NEED_DEVICE(d);
    *info = (memory_info){.total = d->memory_mib << 20, .free = d->memory_mib << 20};
    return NVML_SUCCESS;
}

result nvmlDeviceGetMemoryInfo_v2(device *d, memory_info_v2 *info)
{
    NEED_DEVICE(d);
    info->total = info->free = d->memory_mib << 20;
    info->reserved = info->used = 0;
    return NVML_SUCCESS;
}

result nvmlDeviceGetBrand(device *d, int *brand)
{
    NEED_DEVICE(d);
    *brand = 14; /* NVML_BRAND_NVIDIA */
    return NVML_SUCCESS;
}

result nvmlDeviceGetArchitecture(device *d, unsigned *architecture)
{
    NEED_DEVICE(d);
    *architecture = 7; /* NVML_DEVICE_ARCH_AMPERE */
    return NVML_SUCCESS;
}

result nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor)
{
    NEED_DEVICE(d);
    *major = 8;
    *minor = 0;
    return NVML_SUCCESS;
}

/* MIG */

result nvmlDeviceGetMigMode(device *d, unsigned *current, unsigned *pending)
{
    NEED_GPU(d);
    if (!d->mig_capable)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = d->mig_enabled;
    return NVML_SUCCESS;
}

result nvmlDeviceIsMigDeviceHandle(device *d, unsigned *answer)
{
    NEED_DEVICE(d);
    *answer = is_mig(d);
    return NVML_SUCCESS;
}

result nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *count)
{
    NEED_DEVICE(d);
    *count = is_gpu(d) && d->mig_capable ? MAX_MIGS_PER_GPU : 0;
    return NVML_SUCCESS;
}

result nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **handle)
{
    NEED_GPU(d);
    if (!d->mig_enabled || index >= d->mig_count)
        return NVML_ERROR_NOT_FOUND;
    *handle = &here.migs[d->index][index];
    return NVML_SUCCESS;
}

result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device *d, device **handle)
{
    NEED_MIG(d);
    *handle = d->parent;
    return NVML_SUCCESS;
}

result nvmlDeviceGetGpuInstanceId(device *d, unsigned *id)
{
    NEED_MIG(d);
    *id = d->gpu_instance;
    return NVML_SUCCESS;
}

result nvmlDeviceGetComputeInstanceId(device *d, unsigned *id)
{
    NEED_MIG(d);
    *id = d->compute_instance;
    return NVML_SUCCESS;
}

result nvmlDeviceGetAttributes_v2(device *d, device_attributes *attributes)
{
    NEED_MIG(d);
    *attributes = (device_attributes){
        .multiprocessors = MULTIPROCESSORS_PER_SLICE * d->slices,
        .copy_engines = d->slices,
        .gpu_instance_slices = d->slices,
        .compute_instance_slices = d->slices,
        .memory_mib = d->memory_mib,
    };
    return NVML_SUCCESS;
}

result nvmlDeviceGetGpuInstanceById(device *d, unsigned id, device **instance)
{
    NEED_GPU(d);
    for (unsigned m = 0; m < d->mig_count; m++) {
        *instance = &here.migs[d->index][m];
        if ((*instance)->gpu_instance == id)
            return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

result nvmlGpuInstanceGetInfo(device *instance, gpu_instance_info *info)
{
    NEED_MIG(instance);
    *info = (gpu_instance_info){
        .gpu = instance->parent,
        .id = instance->gpu_instance,
        .profile = profile_of(instance->slices),
        .where = {instance->index, instance->slices},
    };
    return NVML_SUCCESS;
}

result nvmlGpuInstanceGetComputeInstanceById(device *instance, unsigned id, device **compute)
{
    NEED_MIG(instance);
    const device *gpu = instance->parent;
    for (unsigned m = 0; m < gpu->mig_count; m++) {
        *compute = &here.migs[gpu->index][m];
        if ((*compute)->gpu_instance == instance->gpu_instance && (*compute)->compute_instance == id)
            return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

result nvmlComputeInstanceGetInfo_v2(device *compute, compute_instance_info *info)
{
    NEED_MIG(compute);
    *info = (compute_instance_info){
        .gpu = compute->parent,
        .gpu_instance = compute,
        .id = compute->compute_instance,
        .profile = profile_of(compute->slices),
        .where = {0, compute->slices},
    };
    return NVML_SUCCESS;
}

result nvmlDeviceGetGpuInstanceProfileInfo(device *d, unsigned profile, gpu_instance_profile *info)
{
    NEED_GPU(d);
    if (!d->mig_capable || profile >= PROFILES)
        return NVML_ERROR_NOT_SUPPORTED;
    *info = (gpu_instance_profile){
        .id = profile,
        .slices = profiles[profile].slices,
        .instances = MAX_MIGS_PER_GPU / profiles[profile].slices,
        .multiprocessors = MULTIPROCESSORS_PER_SLICE * profiles[profile].slices,
        .memory_mib = profiles[profile].memory_mib,
    };
    return NVML_SUCCESS;
}

result nvmlGpuInstanceGetComputeInstanceProfileInfo(device *instance, unsigned profile,
                                                    unsigned engine, compute_instance_profile *info)
{
    NEED_MIG(instance);
    if (profile >= PROFILES || engine != 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *info = (compute_instance_profile){
        .id = profile,
        .slices = profiles[profile].slices,
        .instances = 1,
        .multiprocessors = MULTIPROCESSORS_PER_SLICE * profiles[profile].slices,
    };
    return NVML_SUCCESS;
}
