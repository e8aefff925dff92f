/* Finding CUPTI inside the program: the setting cupti=; the copy that is loaded, for two in one
 * process do not work; what the loader finds; the wheels that the program has loaded libraries
 * from; the folders of gpu/folders.h, as the program itself looks in them. */
#ifndef INJECT_FIND_H
#define INJECT_FIND_H

void *inject_find_cupti(const char *setting); /* of dlopen; NULL = not found. "" = no setting */

#endif
