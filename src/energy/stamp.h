/* Times of power logs and timing files: "2026-11-21 16:30:05.123", local time without a zone, as
 * monitors write them.
 *
 * The rule: a time without a zone is read as what the clock on the wall showed, never by the zone
 * of the machine that reads. Only differences between a log and its windows matter, so both must
 * have been written in the same zone; nothing depends on TZ. A time with a zone ("Z", "+02:00",
 * seconds since 1970) counts as it says, and is never held against one without.
 *
 * What twinfer writes has no zone either, and keeps the offset that was in force when the
 * measurement began, also where daylight saving ends meanwhile; run_meta.json says which
 * (`utc_offset_s`). */
#ifndef ENERGY_STAMP_H
#define ENERGY_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct stamp {
    int64_t ns; /* since 1970: in UTC when zoned, else as the wall's clock counts */
    bool zoned;
    int digits; /* decimals of a second in the text: 3 = milliseconds */
};

/* "YYYY-MM-DD HH:MM:SS" with a fraction of up to nine digits behind a point or a comma; also with
 * 'T', or with '/' as nvidia-smi writes dates; a zone may follow ("Z", "UTC", "+02:00", "+0200",
 * "+02"). Dates may also be "YYYYMMDD", "DD.MM.YYYY", and "M/D/YYYY" with AM or PM; without these
 * two, day and month with '/' must be told apart by a day over 12.
 *
 * Or a number: seconds, milliseconds, microseconds or nanoseconds since 1970. From 1973 to 2199
 * their ranges do not meet, so the magnitude tells which. Years 1970 to 2199. */
bool stamp_parse(struct sv text, struct stamp *out);
/* The same, where the unit of numbers is known: 1 = ns, NS_PER_S = s; 0 = by magnitude. A number
 * that is no time of 1973 to 2199 in that unit is refused. */
bool stamp_parse_unit(struct sv text, int64_t unit_ns, struct stamp *out);

enum { STAMP_MAX = 32 };
/* "2026-11-21 16:30:05.123" of a time in UTC, so many seconds east of it; down to the
 * whole ms. */
void stamp_text(int64_t wall_ns, int64_t utc_offset_s, char out[STAMP_MAX]);
/* Of local time here (TZ) at that moment. */
int64_t stamp_utc_offset_s(int64_t wall_ns);

#endif
