# The guest library (inject/): C, libc and pthread only; what it uses of CUDA is declared in
# src/gpu/abi/, so it is built everywhere.
file(GLOB guest CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/inject/*.c)
add_library(twinfer_inject SHARED ${guest}
  ${CMAKE_SOURCE_DIR}/src/trace/spool.c ${CMAKE_SOURCE_DIR}/src/base/clock.c
  ${CMAKE_SOURCE_DIR}/src/gpu/cuda.c ${CMAKE_SOURCE_DIR}/src/gpu/folders.c ${CMAKE_SOURCE_DIR}/src/capsule/file.c)
target_include_directories(twinfer_inject PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)
target_compile_options(twinfer_inject PRIVATE -fvisibility=hidden -ffunction-sections -fdata-sections
  -include ${CMAKE_SOURCE_DIR}/inject/old_symbols.h)
target_link_options(twinfer_inject PRIVATE -Wl,--gc-sections -Wl,-z,nodelete)
if(NOT TW_SANITIZE)
  target_link_options(twinfer_inject PRIVATE -Wl,--no-undefined)
endif()
target_link_libraries(twinfer_inject PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
