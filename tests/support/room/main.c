/* Runs one test file of the room: one for each process, as every test of ctest is one. */
#include <stdio.h>
#include <string.h>

#include "support/room/room.h"

int main(int argc, char **argv)
{
    for (const struct room_test *t = room_tests; argc == 2 && t->name; t++)
        if (strcmp(t->name, argv[1]) == 0)
            return t->run();
    fprintf(stderr, "usage: %s TEST, which is one of\n", argc > 0 ? argv[0] : "room");
    for (const struct room_test *t = room_tests; t->name; t++)
        fprintf(stderr, "  %s\n", t->name);
    return 2;
}
