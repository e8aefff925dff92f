#include "inject/notes.h"

#include <stdio.h>

#include "base/clock.h"
#include "inject/guest.h"
#include "inject/names.h"
#include "inject/writer.h"

enum { NOTES = 64 };
static struct {
    struct spool_note note;
    _Atomic bool ready;
} notes[NOTES];
static _Atomic uint32_t n_notes;
static uint32_t n_written; /* owned by the writer */

static size_t add(char *to, size_t n, size_t room, const char *s)
{
    for (; *s && n + 1 < room; s++)
        to[n++] = *s;
    to[n] = 0;
    return n;
}

void inject_notes_add(enum spool_level level, const char *what, const char *s, int64_t value)
{
    char text[240] = "", number[24];
    size_t n = 0;
    snprintf(number, sizeof number, "%lld", (long long)value);
    for (const char *p = what; *p; p++) {
        bool is_text = p[0] == '%' && p[1] == 's', is_number = p[0] == '%' && p[1] == 'd';
        if (is_text || is_number) {
            n = add(text, n, sizeof text, is_text ? s : number);
            p++;
        } else {
            n = add(text, n, sizeof text, (char[]){*p, 0});
        }
    }
    uint32_t i = atomic_fetch_add(&n_notes, 1);
    if (i >= NOTES)
        return;
    notes[i].note = (struct spool_note){
        .at_ns = clock_mono_ns(), .level = (uint32_t)level, .text = inject_names_intern(text, n)};
    atomic_store_explicit(&notes[i].ready, true, memory_order_release);
}

void inject_notes_write(void)
{
    while (n_written < NOTES &&
           atomic_load_explicit(&notes[n_written].ready, memory_order_acquire)) {
        inject_writer_string(notes[n_written].note.text);
        trace_spool_add(&guest.spool, SPOOL_NOTES, &notes[n_written++].note);
    }
}

void inject_notes_forget(void)
{
    for (int i = 0; i < NOTES; i++)
        atomic_store(&notes[i].ready, false);
    atomic_store(&n_notes, 0);
    n_written = 0;
}
