/* In front of every test file that shares a program with the others of its room, by -include: its
 * main is called by its room's (main.c), under a name that is the test's with _ for each dot.
 * TEST_ENTRY is that name. */
#ifndef SUPPORT_ROOM_ENTRY_H
#define SUPPORT_ROOM_ENTRY_H

#define main TEST_ENTRY
int main(void);

#endif
