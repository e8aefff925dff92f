/* The image of a module, before it is given to the driver: that takes a bare pointer, and believes
 * the lengths that the image says of itself.
 *
 * ST_INPUT: machine code (an ELF file) whose headers, segments or sections lie outside of it, a fat
 * binary that says to be longer than it is. Sections of types that only NVIDIA knows may have a
 * size without bytes and are not looked at; what is in an image is the driver's to judge. Anything
 * else is text to the driver (PTX), which ends with NUL: the caller's to add. */
#ifndef REPLAY_IMAGE_H
#define REPLAY_IMAGE_H

#include "base/str.h"

enum st image_check(struct sv image, const char *name, struct err *e);

#endif
