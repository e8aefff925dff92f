#include "text/yaml_scalar.h"

static bool digits(struct sv *s)
{
    size_t n = 0;
    while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
        n++;
    s->p += n;
    s->n -= n;
    return n > 0;
}

static bool pass(struct sv *s, char a, char b)
{
    if (s->n == 0 || (s->p[0] != a && s->p[0] != b))
        return false;
    s->p++;
    s->n--;
    return true;
}

enum number { NOT_A_NUMBER, INTEGER, DECIMAL };

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static enum number number_form(struct sv s)
{
    pass(&s, '-', '+');
    bool whole = digits(&s), point = pass(&s, '.', '.');
    bool fraction = point && digits(&s);
    if (!whole && !fraction)
        return NOT_A_NUMBER;
    bool exponent = pass(&s, 'e', 'E');
    if (exponent) {
        pass(&s, '-', '+');
        if (!digits(&s))
            return NOT_A_NUMBER;
    }
    if (s.n)
        return NOT_A_NUMBER;
    return point || exponent ? DECIMAL : INTEGER;
}

static bool one_of(struct sv s, const char *const *words)
{
    for (; *words; words++)
        if (sv_eq(s, *words))
            return true;
    return false;
}

const char *yaml_type_scalar(struct sv text, struct node *n)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    enum number form = number_form(text);
    if (form == INTEGER) {
        struct sv s = text;
        pass(&s, '+', '+');
        while (s.n > 1 && s.p[0] == '0')
            s.p++, s.n--;
        if (!str_int64(s, &n->i))
            return "an integer that does not fit 64 bits";
        n->kind = NODE_INT;
    } else if (form == DECIMAL) {
        if (!str_double(text, &n->f))
            return "a number that does not fit a double";
        n->kind = NODE_FLOAT;
    } else if (one_of(text, nulls)) {
        n->kind = NODE_NULL;
    } else if (one_of(text, trues) || one_of(text, falses)) {
        n->kind = NODE_BOOL;
        n->b = one_of(text, trues);
    }
    return NULL;
}
