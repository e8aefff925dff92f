# tw_module(name [DIR folder] [DEPS modules] [LIBS targets]): the static library of src/<folder>.
# Sources are globbed: adding a file needs no edit here.
function(tw_module name)
  cmake_parse_arguments(M "" "DIR" "DEPS;LIBS" ${ARGN})
  if(NOT M_DIR)
    set(M_DIR ${name})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${M_DIR}/*.c)
  if(name STREQUAL "profile") # its reader is a module of its own: the simulator needs no harness
    list(FILTER sources EXCLUDE REGEX "/profile/read/")
  endif()
  if(name STREQUAL "engine") # foreign engines need no kernels, nor do the fuzz targets
    list(FILTER sources EXCLUDE REGEX "/engine/worker/")
  endif()
  list(FILTER sources EXCLUDE REGEX "/engine/cpu/isa_") # built per instruction set
  list(FILTER sources EXCLUDE REGEX "/search/launch_mpi") # one of two, tw_mpi picks it
  if(NOT sources)
    set(sources ${CMAKE_SOURCE_DIR}/cmake/empty.c)
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${M_DEPS} ${M_LIBS})
endfunction()

# src/engine/cpu/isa_<set>.c holds the same kernels compiled for one instruction set each; the
# engine picks one at run time. Fused multiply-adds are wanted here: every kernel's sums then round
# the same way for any number of rows. -O3 unrolls the tiles into registers.
function(tw_engine_kernels)
  set(flags_portable)
  set(flags_avx2 -mavx2 -mfma)
  set(flags_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma)
  set(sets portable)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND sets avx2 avx512)
  endif()
  foreach(isa ${sets})
    set(file ${CMAKE_SOURCE_DIR}/src/engine/cpu/isa_${isa}.c)
    target_sources(engine PRIVATE ${file})
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
      "${flags_${isa}};-O3;-ffp-contract=fast")
  endforeach()
endfunction()

# tw_embed(module folder): every file of the folder becomes bytes inside the module, found by its
# path through base/embed.h.
function(tw_embed module folder)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/${folder}
       ${CMAKE_SOURCE_DIR}/${folder}/*)
  set(out ${CMAKE_BINARY_DIR}/embed_${module}.c)
  set(paths)
  foreach(f ${files})
    list(APPEND paths ${CMAKE_SOURCE_DIR}/${folder}/${f})
  endforeach()
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DNAME=${module} -DROOT=${CMAKE_SOURCE_DIR}/${folder}
            "-DFILES=${files}" -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${paths} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${module} PRIVATE ${out})
endfunction()

# tw_mpi(module): launcher=mpi, or in its place the file that refuses it by name. TW_MPI: OFF (the
# default: a program that is carried to other machines should not want libmpi), AUTO, ON.
set(TW_MPI OFF CACHE STRING "launcher=mpi: OFF, ON, or AUTO where MPI is found")
function(tw_mpi module)
  set(file ${CMAKE_SOURCE_DIR}/src/search/launch_mpi_absent.c)
  if(TW_MPI STREQUAL "AUTO")
    find_package(MPI QUIET COMPONENTS C)
  elseif(TW_MPI)
    find_package(MPI REQUIRED COMPONENTS C)
  endif()
  if(TW_MPI AND MPI_C_FOUND)
    set(file ${CMAKE_SOURCE_DIR}/src/search/launch_mpi.c)
    target_link_libraries(${module} PUBLIC MPI::MPI_C)
    message(STATUS "launcher=mpi: MPI ${MPI_C_VERSION} found")
  elseif(TW_MPI)
    message(STATUS "launcher=mpi: MPI not found (libopenmpi-dev, openmpi-bin)")
  else()
    message(STATUS "launcher=mpi: not asked for (TW_MPI=ON)")
  endif()
  target_sources(${module} PRIVATE ${file})
endfunction()

# tw_commit(file): the target `commit`, which keeps the file, the definition of build_commit, up to
# date. TW_COMMIT: what it says instead of asking git, for source packages.
set(TW_COMMIT "" CACHE STRING "commit of the sources, where git cannot tell")
function(tw_commit file)
  add_custom_target(commit
    COMMAND ${CMAKE_COMMAND} -DOUT=${file} -DSOURCE=${CMAKE_SOURCE_DIR} -DCOMMIT=${TW_COMMIT}
            -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake
    BYPRODUCTS ${file} COMMENT "commit of the sources" VERBATIM)
endfunction()
