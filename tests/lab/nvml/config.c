/*
 * Reads the description of the machine. One statement a line; `#` starts a comment line:
 *
 *   driver 570.86.15
 *   nvml 12.570.86.15
 *   cuda 12080
 *   fault driver-not-loaded | version-mismatch | unknown
 *   hang SECONDS                      nvmlInit sleeps first
 *   gpu uuid=GPU-... minor=0 pci=00000000:3b:00.0 name="NVIDIA A100" memory=40960 [mig=1] [lost=1]
 *   mig uuid=MIG-... gi=1 ci=0 slices=1 memory=4864     an instance of the gpu above it
 *
 * `mig=` says that the GPU can do MIG, and whether it does (1) or not (0).
 */
#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 1024, VALUE_SIZE = 128 };

/* Copy the value of ` key=value` or ` key="a value"` out of a line; false if it has no such key. */
static bool field(const char *line, const char *key, char *into, size_t size)
{
    char pattern[32];
    snprintf(pattern, sizeof pattern, " %s=", key);
    const char *start = strstr(line, pattern);
    if (start == NULL)
        return false;
    start += strlen(pattern);
    const char *ends = " \r\n";
    if (*start == '"') {
        start++;
        ends = "\"\r\n";
    }
    size_t length = strcspn(start, ends);
    if (length >= size)
        length = size - 1;
    memcpy(into, start, length);
    into[length] = '\0';
    return true;
}

static unsigned long number(const char *line, const char *key, unsigned long otherwise)
{
    char text[VALUE_SIZE];
    return field(line, key, text, sizeof text) ? strtoul(text, NULL, 0) : otherwise;
}

/* `statement rest`: the rest without the line end, or NULL when the line says something else. */
static char *argument(char *line, const char *statement)
{
    size_t length = strlen(statement);
    if (strncmp(line, statement, length) != 0 || line[length] != ' ')
        return NULL;
    char *rest = line + length + 1;
    rest[strcspn(rest, "\r\n")] = '\0';
    return rest;
}

static void read_gpu(machine *into, const char *line)
{
    if (into->gpu_count == MAX_GPUS)
        return;
    device *gpu = &into->gpus[into->gpu_count];
    gpu->index = into->gpu_count++;
    char pci[VALUE_SIZE] = "00000000:00:00.0";
    field(line, "uuid", gpu->uuid, sizeof gpu->uuid);
    field(line, "name", gpu->name, sizeof gpu->name);
    field(line, "pci", pci, sizeof pci);
    sscanf(pci, "%x:%x:%x", &gpu->pci_domain, &gpu->pci_bus, &gpu->pci_device);
    gpu->minor = (unsigned)number(line, "minor", gpu->index);
    gpu->memory_mib = number(line, "memory", 40960);
    gpu->lost = number(line, "lost", 0) != 0;
    char mig[VALUE_SIZE];
    gpu->mig_capable = field(line, "mig", mig, sizeof mig);
    gpu->mig_enabled = number(line, "mig", 0) != 0;
}

static void read_mig(machine *into, const char *line)
{
    if (into->gpu_count == 0)
        return;
    device *gpu = &into->gpus[into->gpu_count - 1];
    if (gpu->mig_count == MAX_MIGS_PER_GPU)
        return;
    device *mig = &into->migs[gpu->index][gpu->mig_count];
    mig->parent = gpu;
    mig->index = gpu->mig_count++;
    field(line, "uuid", mig->uuid, sizeof mig->uuid);
    mig->gpu_instance = (unsigned)number(line, "gi", mig->index + 1);
    mig->compute_instance = (unsigned)number(line, "ci", 0);
    mig->slices = (unsigned)number(line, "slices", 1);
    mig->memory_mib = number(line, "memory", 4864);
    char product[61];
    snprintf(product, sizeof product, "%.60s", gpu->name);
    snprintf(mig->name, sizeof mig->name, "%s MIG %ug.%llugb", product, mig->slices,
             (mig->memory_mib + 1023) / 1024);
}

static result fault(const char *name)
{
    if (strcmp(name, "driver-not-loaded") == 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (strcmp(name, "version-mismatch") == 0)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    return NVML_ERROR_UNKNOWN;
}

static void read_statement(machine *into, char *line)
{
    const char *rest;
    if ((rest = argument(line, "driver")) != NULL)
        snprintf(into->driver_version, sizeof into->driver_version, "%s", rest);
    else if ((rest = argument(line, "nvml")) != NULL)
        snprintf(into->nvml_version, sizeof into->nvml_version, "%s", rest);
    else if ((rest = argument(line, "cuda")) != NULL)
        into->cuda_version = atoi(rest);
    else if ((rest = argument(line, "fault")) != NULL)
        into->init_result = fault(rest);
    else if ((rest = argument(line, "hang")) != NULL)
        into->init_delay_seconds = (unsigned)strtoul(rest, NULL, 10);
    else if (argument(line, "gpu") != NULL)
        read_gpu(into, line);
    else if (argument(line, "mig") != NULL)
        read_mig(into, line);
}

void read_machine(machine *into)
{
    memset(into, 0, sizeof *into);
    const char *path = getenv("NVML_STUB_CONFIG");
    FILE *file = fopen(path != NULL && *path != '\0' ? path : "/etc/nvml-stub.conf", "re");
    if (file == NULL) {
        into->init_result = NVML_ERROR_DRIVER_NOT_LOADED;
        return;
    }
    char line[LINE_SIZE];
    while (fgets(line, sizeof line, file) != NULL)
        read_statement(into, line);
    fclose(file);
}
