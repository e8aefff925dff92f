# Compiler dialect and warnings, one per line with its reason.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(TW_WERROR "warnings are errors" OFF)
set(TW_SANITIZE "" CACHE STRING "value of -fsanitize= for everything")
option(TW_FUZZ "link libFuzzer into the fuzz targets (clang)" OFF)

add_compile_options(
  -Wall -Wextra
  -Wconversion          # silent narrowing corrupts counts and nanoseconds
  -Wshadow              # two variables of one name are one bug waiting
  -Wstrict-prototypes   # f() is not f(void)
  -Wmissing-prototypes  # every extern function has a header
  -Wcast-qual           # borrowed const stays const
  -Wformat=2            # format strings are literals
  -Wundef               # a mistyped feature macro is not 0
  -Wvla                 # stack use is known at compile time
  -Wswitch-enum         # a new enum member is handled everywhere
  -Wwrite-strings       # literals are const
  -ffp-contract=off     # same doubles from every compiler: simulated runs are compared byte for byte
  -fno-strict-aliasing  # file formats are read in place
  -fstack-protector-strong)
add_compile_definitions(_POSIX_C_SOURCE=200809L _DEFAULT_SOURCE TW_VERSION="${PROJECT_VERSION}")
add_link_options(-Wl,-z,relro -Wl,-z,now)

set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-gdwarf-4) # what the valgrind of stable distributions reads
endif()
if(TW_WERROR)
  add_compile_options(-Werror)
endif()
if(TW_SANITIZE)
  add_compile_options(-fsanitize=${TW_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # What gcc finds by following values is unreliable in instrumented code, as its manual says; the
  # presets test and clang build with these as errors.
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-error=maybe-uninitialized -Wno-error=format-truncation)
  endif()
  add_link_options(-fsanitize=${TW_SANITIZE})
endif()
if(TW_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link) # coverage feedback in everything under test
endif()
