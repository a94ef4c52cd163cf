/*
 * What the two halves of the stub share: the machine described by the configuration file
 * (config.c reads it) and the answers given about it (nvml.c).
 */
#ifndef GPUCDI_LAB_NVML_STUB_H
#define GPUCDI_LAB_NVML_STUB_H

#include <stdbool.h>

enum {
    MAX_GPUS = 16,
    MAX_MIGS_PER_GPU = 7, /* nvmlDeviceGetMaxMigDeviceCount of every MIG capable GPU so far */
    UUID_SIZE = 96,       /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
    NAME_SIZE = 96,       /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */
    VERSION_SIZE = 80,    /* NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE */
};

/* nvmlReturn_t, as far as the stub answers with it. */
typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_UNKNOWN = 999,
} result;

/*
 * A device handle: a whole GPU, or one MIG instance of `parent`. Handles are addresses of these
 * records, so a handle that a caller kept across a shutdown is recognised as stale or answers about
 * the record that took its place, never about freed memory.
 */
typedef struct device {
    struct device *parent; /* NULL for a whole GPU */
    unsigned index;        /* NVML index, or slot of the MIG instance on its parent */
    char uuid[UUID_SIZE];
    char name[NAME_SIZE];
    unsigned long long memory_mib;

    /* whole GPUs only */
    unsigned minor;
    unsigned pci_domain, pci_bus, pci_device;
    bool lost;
    bool mig_capable;
    bool mig_enabled;
    unsigned mig_count;

    /* MIG instances only; the GPU instance and compute instance handles are this address too */
    unsigned gpu_instance, compute_instance;
    unsigned slices;
} device;

typedef struct {
    char driver_version[VERSION_SIZE];
    char nvml_version[VERSION_SIZE];
    int cuda_version; /* 1000 * major + 10 * minor */
    result init_result;
    unsigned init_delay_seconds;
    unsigned gpu_count;
    device gpus[MAX_GPUS];
    device migs[MAX_GPUS][MAX_MIGS_PER_GPU];
} machine;

/* Read the file named by NVML_STUB_CONFIG (default /etc/nvml-stub.conf); none: no driver. */
void read_machine(machine *into);

#endif
