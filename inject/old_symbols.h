/* glibc 2.34 moved these into libc.so.6 under a new version; binding to the old one lets the
 * library load on older systems. The compiler's command line includes it in every file of the
 * library. A test reads the versions. */
#ifndef INJECT_OLD_SYMBOLS_H
#define INJECT_OLD_SYMBOLS_H

#if defined(__x86_64__)
#define OLD_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLD_VERSION "GLIBC_2.17"
#endif

#if defined(OLD_VERSION)
#define OLD(name) __asm__(".symver " #name "," #name "@" OLD_VERSION)
OLD(pthread_create);
OLD(pthread_join);
OLD(pthread_key_create);
OLD(pthread_once);
OLD(pthread_setspecific);
OLD(pthread_sigmask);
OLD(pthread_mutex_trylock);
OLD(dlopen);
OLD(dlsym);
OLD(dladdr);
#undef OLD
#endif

#endif
