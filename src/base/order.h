/* Orders for qsort: ascending numbers. */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H

int order_double(const void *a, const void *b); /* without NAN */
int order_int64(const void *a, const void *b);

#endif
