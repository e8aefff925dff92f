/* Numbers in memory that is compared, by their type. */
#ifndef REPLAY_NUMBERS_H
#define REPLAY_NUMBERS_H

#include <stddef.h>

enum verify_dtype { VERIFY_BYTES, VERIFY_F32, VERIFY_F16, VERIFY_BF16, VERIFY_F64 };

size_t numbers_bytes(enum verify_dtype t);
/* Relative difference; 0 for the same number, infinite where only one of them is finite. */
double numbers_apart(const unsigned char *x, const unsigned char *y, enum verify_dtype t);

#endif
