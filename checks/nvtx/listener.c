/* An NVTX injection library: writes one line for every range that is pushed or popped, to the file $NVTX_LISTENER_LOG.

     push <tab> domain <tab> message <tab> colour, hex <tab> payload, or -
     pop  <tab> domain

   NVTX loads it when NVTX_INJECTION64_PATH names it, as it loads Nsight Systems: the interface is that of
   nvtx3/nvtxDetail/nvtxTypes.h, written out here so that no CUDA header is needed to compile it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);
typedef struct { size_t struct_size; int (*module_table)(int module, Function ***table, unsigned *size); } Callbacks;
enum { EXPORT_CALLBACKS = 1, MODULE_CORE2 = 5 };
enum { RANGE_PUSH = 4, RANGE_POP = 5, REGISTER_STRING = 10, DOMAIN_CREATE = 12 };
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3, PAYLOAD_INT64 = 2 };

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t colour_type;
    uint32_t colour;
    int32_t payload_type, reserved;
    union { int64_t integer; double number; } payload;
    int32_t message_type;
    const char *message; /* a string, or the handle of a registered one: ours are the strings themselves */
} Attributes;

static FILE *log_file;

static void *domain_create(const char *name) { return strdup(name); }

static void *register_string(void *domain, const char *text)
{
    (void)domain;
    return strdup(text);
}

static int range_push(void *domain, const Attributes *it)
{
    int named = it->message_type == MESSAGE_ASCII || it->message_type == MESSAGE_REGISTERED;
    fprintf(log_file, "push\t%s\t%s\t%08x\t", domain ? (char *)domain : "-", named ? it->message : "-", it->colour);
    if (it->payload_type == PAYLOAD_INT64)
        fprintf(log_file, "%lld\n", (long long)it->payload.integer);
    else
        fprintf(log_file, "-\n");
    fflush(log_file);
    return 0;
}

static int range_pop(void *domain)
{
    fprintf(log_file, "pop\t%s\n", domain ? (char *)domain : "-");
    fflush(log_file);
    return 0;
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id))
{
    const Callbacks *callbacks = export_table(EXPORT_CALLBACKS);
    const char *path = getenv("NVTX_LISTENER_LOG");
    Function **table;
    unsigned size;
    if (!path || !callbacks || !callbacks->module_table(MODULE_CORE2, &table, &size) || size <= DOMAIN_CREATE)
        return 0;
    if (!log_file && !(log_file = fopen(path, "a")))
        return 0;
    *table[RANGE_PUSH] = (Function)range_push;
    *table[RANGE_POP] = (Function)range_pop;
    *table[REGISTER_STRING] = (Function)register_string;
    *table[DOMAIN_CREATE] = (Function)domain_create;
    return 1;
}
