/* The commit this program was built from. */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

/* Of the sources the program is made of (CMakeLists.txt, cmake/, configs/, inject/, src/): the
 * commit in hex, with "-dirty" behind it when they differed from it; "" = unknown (a source tree
 * without git that no `git archive` wrote, and -DTW_COMMIT was not given).
 *
 * twinfer is linked with a file that the build writes anew when the commit changed
 * (cmake/commit.cmake), so that nothing but this text is compiled again. A program without such a
 * file, as the tests are, gets base/build.c: unknown. */
extern const char build_commit[];

#endif
