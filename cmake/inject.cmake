# The guest library (inject/): C, libc and pthread only, CUDA's headers at build time. Without the
# headers the build goes on and the commands that need the library say what is missing.
find_path(TW_CUDA_INCLUDE cupti.h
  HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
        $ENV{CUDA_HOME}/extras/CUPTI/include
  PATHS /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include /opt/cuda/include
  DOC "folder of cuda.h, cupti.h and nvtx3/ (a toolkit, or the pip wheels' include folder)")
if(TW_CUDA_INCLUDE AND NOT EXISTS ${TW_CUDA_INCLUDE}/nvtx3/nvToolsExt.h)
  message(STATUS "no nvtx3 beside ${TW_CUDA_INCLUDE}/cupti.h: the guest library is not built")
  set(TW_CUDA_INCLUDE TW_CUDA_INCLUDE-NOTFOUND)
endif()

if(TW_CUDA_INCLUDE)
  file(GLOB guest CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/inject/*.c)
  add_library(twinfer_inject SHARED ${guest}
    ${CMAKE_SOURCE_DIR}/src/trace/spool.c ${CMAKE_SOURCE_DIR}/src/base/clock.c
    ${CMAKE_SOURCE_DIR}/src/gpu/cuda.c)
  target_include_directories(twinfer_inject PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(twinfer_inject SYSTEM PRIVATE ${TW_CUDA_INCLUDE})
  target_compile_options(twinfer_inject PRIVATE -fvisibility=hidden -ffunction-sections -fdata-sections
    -include ${CMAKE_SOURCE_DIR}/inject/old_symbols.h)
  target_link_options(twinfer_inject PRIVATE -Wl,--gc-sections -Wl,-z,nodelete)
  if(NOT TW_SANITIZE)
    target_link_options(twinfer_inject PRIVATE -Wl,--no-undefined)
  endif()
  target_link_libraries(twinfer_inject PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
else()
  message(STATUS "no CUPTI headers (TW_CUDA_INCLUDE): the guest library is not built")
endif()
