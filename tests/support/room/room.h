/* The tests of a room, one program: tests/CMakeLists.txt. */
#ifndef SUPPORT_ROOM_ROOM_H
#define SUPPORT_ROOM_ROOM_H

struct room_test {
    const char *name; /* ctest's: unit.model.shard */
    int (*run)(void); /* the main of its file */
};

extern const struct room_test room_tests[]; /* written by CMake; the last has no name */

#endif
