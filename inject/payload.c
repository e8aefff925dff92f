#include "inject/payload.h"

#include <stdbool.h>
#include <string.h>

#include "inject/guest.h"
#include "inject/names.h"

enum { SCHEMAS = 512, FIELDS = PAYLOAD_VALUES + 1 /* the message */ };

enum payload_kind { UNKNOWN, UNSIGNED, SIGNED, REAL, TEXT, REGISTERED, CHARACTERS };

struct payload_field {
    uint8_t kind, bytes;
    uint32_t name;
    size_t offset, length; /* of CHARACTERS */
    bool is_message;
};

/* A struct's fields, or an enumeration: one field. */
struct schema {
    uint64_t id;
    uint16_t domain;
    bool is_enum;
    int n;
    struct payload_field fields[FIELDS];
};

static const uint64_t FIRST_OWN_ID = UINT64_C(1) << 32; /* as in NVTX */
static struct schema schemas[SCHEMAS];
static _Atomic uint32_t n_schemas;

/* ---- types ---- */

struct type {
    uint8_t kind, bytes;
};

static const struct type types[] = {
    [NVTX_PAYLOAD_ENTRY_TYPE_CHAR] = {SIGNED, sizeof(char)},
    [NVTX_PAYLOAD_ENTRY_TYPE_UCHAR] = {UNSIGNED, sizeof(unsigned char)},
    [NVTX_PAYLOAD_ENTRY_TYPE_SHORT] = {SIGNED, sizeof(short)},
    [NVTX_PAYLOAD_ENTRY_TYPE_USHORT] = {UNSIGNED, sizeof(unsigned short)},
    [NVTX_PAYLOAD_ENTRY_TYPE_INT] = {SIGNED, sizeof(int)},
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT] = {UNSIGNED, sizeof(unsigned)},
    [NVTX_PAYLOAD_ENTRY_TYPE_LONG] = {SIGNED, sizeof(long)},
    [NVTX_PAYLOAD_ENTRY_TYPE_ULONG] = {UNSIGNED, sizeof(unsigned long)},
    [NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG] = {SIGNED, sizeof(long long)},
    [NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG] = {UNSIGNED, sizeof(unsigned long long)},
    [NVTX_PAYLOAD_ENTRY_TYPE_INT8] = {SIGNED, 1},
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT8] = {UNSIGNED, 1},
    [NVTX_PAYLOAD_ENTRY_TYPE_INT16] = {SIGNED, 2},
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT16] = {UNSIGNED, 2},
    [NVTX_PAYLOAD_ENTRY_TYPE_INT32] = {SIGNED, 4},
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT32] = {UNSIGNED, 4},
    [NVTX_PAYLOAD_ENTRY_TYPE_INT64] = {SIGNED, 8},
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT64] = {UNSIGNED, 8},
    [NVTX_PAYLOAD_ENTRY_TYPE_FLOAT] = {REAL, sizeof(float)},
    [NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE] = {REAL, sizeof(double)},
    [NVTX_PAYLOAD_ENTRY_TYPE_SIZE] = {UNSIGNED, sizeof(size_t)},
    [NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS] = {UNSIGNED, sizeof(void *)},
    [NVTX_PAYLOAD_ENTRY_TYPE_BYTE] = {UNSIGNED, 1},
    [NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32] = {REAL, 4},
    [NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64] = {REAL, 8},
    [NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY] = {UNSIGNED, 4},
    [NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB] = {UNSIGNED, 4},
    [NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID] = {UNSIGNED, 8},
    [NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32] = {UNSIGNED, 4},
    [NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64] = {UNSIGNED, 8},
    [NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32] = {UNSIGNED, 4},
    [NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64] = {UNSIGNED, 8},
    [NVTX_PAYLOAD_ENTRY_TYPE_CSTRING] = {TEXT, sizeof(char *)},
    [NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8] = {TEXT, sizeof(char *)},
    [NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE] = {REGISTERED, sizeof(void *)},
};

static const struct schema *schema_of(uint16_t domain, uint64_t id)
{
    for (uint32_t n = atomic_load_explicit(&n_schemas, memory_order_acquire); n > 0; n--)
        if (schemas[n - 1].id == id && schemas[n - 1].domain == domain)
            return &schemas[n - 1];
    return NULL;
}

/* A predefined type, or an enumeration of this domain. */
static struct type type_of(uint16_t domain, uint64_t id)
{
    if (id < sizeof types / sizeof *types)
        return types[id];
    const struct schema *s = schema_of(domain, id);
    bool is_enum = s && s->is_enum;
    return is_enum ? (struct type){s->fields[0].kind, s->fields[0].bytes} : (struct type){0};
}

/* ---- registering ---- */

/* Stores `s` in the next slot once its id is known; lock `windows` held. */
static uint64_t keep(struct schema *s)
{
    uint32_t n = atomic_load(&n_schemas);
    if (n == SCHEMAS)
        return 0;
    if (s->id == 0)
        s->id = FIRST_OWN_ID + n;
    schemas[n] = *s;
    atomic_store_explicit(&n_schemas, n + 1, memory_order_release);
    return s->id;
}

/* Stores a static id once: a library loaded twice registers it again. */
static uint64_t keep_once(struct schema *s)
{
    pthread_mutex_lock(&guest.windows); /* rare; any lock held across fork will do */
    uint64_t id = s->id && schema_of(s->domain, s->id) ? s->id : keep(s);
    pthread_mutex_unlock(&guest.windows);
    return id;
}

static size_t aligned(size_t at, size_t bytes, size_t pack)
{
    size_t to = pack && pack < bytes ? pack : bytes;
    return (at + to - 1) / to * to;
}

static uint32_t name_of(const char *text)
{
    return text && *text ? inject_names_intern(text, strlen(text))
                         : inject_names_intern("value", 5);
}

/* Reads fields in order, while offsets are known: one of unknown size hides later ones without an
 * explicit offset. */
static void read_fields(struct schema *s, const nvtxPayloadSchemaAttr_t *a)
{
    enum {
        ARRAY = 7 << 4,
        PURPOSE = 3 << 10,
        POINTER = NVTX_PAYLOAD_ENTRY_FLAG_POINTER,
        FAR = NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE | NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE,
    };
    size_t pack = a->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT ? a->packAlign : 0;
    size_t at = 0;
    bool known = true;
    for (size_t i = 0; i < a->numEntries && s->n < FIELDS; i++) {
        const nvtxPayloadSchemaEntry_t *e = &a->entries[i];
        struct type type = type_of(s->domain, e->type);
        uint64_t array = e->flags & ARRAY;
        bool characters = type.bytes == 1 && array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE;
        size_t bytes = e->flags & POINTER ? sizeof(void *) : type.bytes;
        if (e->offset || i == 0)
            at = e->offset, known = true;
        else if (known && bytes)
            at = aligned(at, bytes, pack);
        if (!known || !bytes || (array && !characters)) {
            known = false;
            continue;
        }
        bool message = (e->flags & PURPOSE) == NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE;
        bool text = type.kind == TEXT || type.kind == REGISTERED || characters;
        if (!(e->flags & (POINTER | FAR)) && text == message)
            s->fields[s->n++] = (struct payload_field){
                .kind = characters ? CHARACTERS : type.kind,
                .bytes = type.bytes,
                .name = message ? 0 : name_of(e->name),
                .offset = at,
                .length = characters ? e->arrayOrUnionDetail : 1,
                .is_message = message,
            };
        at += characters ? e->arrayOrUnionDetail : bytes;
    }
}

uint64_t inject_payload_schema(uint16_t domain, const nvtxPayloadSchemaAttr_t *a)
{
    enum {
        NEEDED = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES
    };
    if (!a || (a->fieldMask & NEEDED) != NEEDED || !a->entries)
        return 0;
    struct schema s = {.domain = domain};
    if (a->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID)
        s.id = a->schemaId;
    bool is_struct = !(a->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE) ||
                     a->type == NVTX_PAYLOAD_SCHEMA_TYPE_STATIC ||
                     a->type == NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC;
    if (is_struct)
        read_fields(&s, a);
    return keep_once(&s);
}

uint64_t inject_payload_enum(uint16_t domain, const nvtxPayloadEnumAttr_t *a)
{
    if (!a)
        return 0;
    struct schema s = {.domain = domain, .is_enum = true, .n = 1};
    if (a->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID)
        s.id = a->schemaId;
    size_t bytes = a->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE ? a->sizeOfEnum : sizeof(int);
    bool fits = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    s.fields[0] =
        (struct payload_field){.kind = fits ? UNSIGNED : UNKNOWN, .bytes = (uint8_t)bytes};
    return keep_once(&s);
}

/* ---- reading ---- */

static uint64_t unsigned_at(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, (size_t)bytes); /* little endian */
    return v;
}

static uint64_t number_at(const unsigned char *p, const struct payload_field *f)
{
    uint64_t v = unsigned_at(p, f->bytes);
    if (f->kind == SIGNED && f->bytes < 8 && v >> (f->bytes * 8 - 1))
        v |= ~UINT64_C(0) << f->bytes * 8;
    if (f->kind == REAL && f->bytes == sizeof(float)) {
        float narrow;
        memcpy(&narrow, p, sizeof narrow);
        double wide = (double)narrow;
        memcpy(&v, &wide, sizeof v);
    }
    return v;
}

static uint32_t text_at(const unsigned char *p, const struct payload_field *f)
{
    const char *s = (const char *)p;
    if (f->kind == CHARACTERS)
        return inject_names_intern(s, strnlen(s, f->length));
    if (f->kind == REGISTERED) {
        uint64_t id = unsigned_at(p, sizeof(void *));
        return id <= inject_names_count() ? (uint32_t)id : 0;
    }
    memcpy(&s, p, sizeof s);
    return s ? inject_names_intern(s, strlen(s)) : 0;
}

static void take(const struct payload_field *f, const unsigned char *p, struct payload *out)
{
    static const uint8_t as[] = {[UNSIGNED] = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                 [SIGNED] = NVTX_PAYLOAD_TYPE_INT64,
                                 [REAL] = NVTX_PAYLOAD_TYPE_DOUBLE};
    if (f->is_message)
        out->message = text_at(p, f);
    else if (f->kind >= UNSIGNED && f->kind <= REAL && out->n < PAYLOAD_VALUES)
        out->values[out->n++] = (struct payload_value){number_at(p, f), f->name, as[f->kind]};
}

/* One value of a predefined type needs no schema. */
static void take_plain(const nvtxPayloadData_t *d, struct payload *out)
{
    struct type type = type_of(0, d->schemaId);
    struct payload_field f = {.kind = type.kind, .bytes = type.bytes};
    if (type.kind >= UNSIGNED && type.kind <= REAL && d->size >= type.bytes) {
        f.name = name_of(NULL);
        take(&f, d->payload, out);
    }
}

void inject_payload_read(uint16_t domain, const nvtxPayloadData_t *data, size_t count,
                         struct payload *out)
{
    out->n = 0;
    out->message = 0;
    for (size_t i = 0; data && i < count; i++) {
        const nvtxPayloadData_t *d = &data[i];
        if (!d->payload)
            continue;
        if (d->schemaId < sizeof types / sizeof *types) {
            take_plain(d, out);
            continue;
        }
        const struct schema *s = schema_of(domain, d->schemaId);
        for (int k = 0; s && k < s->n; k++) {
            const struct payload_field *f = &s->fields[k];
            size_t bytes = f->kind == CHARACTERS ? f->length : f->bytes;
            if (d->size == SIZE_MAX || (f->offset <= d->size && bytes <= d->size - f->offset))
                take(f, (const unsigned char *)d->payload + f->offset, out);
        }
    }
}
