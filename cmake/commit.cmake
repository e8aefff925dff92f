# Writes OUT, the definition of build_commit (src/base/build.h) for the source tree SOURCE; leaves OUT
# as it is while the text would be the same. Runs in every build, in some 20 ms.
#
# COMMIT, when not empty, is taken as it is (-DTW_COMMIT: packagers). Else git is asked, provided that
# SOURCE is the top of its repository: the commit of a repository that merely holds an unpacked
# tarball would be a lie. Else commit.txt counts, into which `git archive` writes.
set(inputs CMakeLists.txt cmake configs inject src) # what is compiled in; docs and tests change nothing
set(commit "${COMMIT}")
# The owner of a checkout in a container is often another user: building it runs its code anyway.
set(git git -c safe.directory=* -c core.fsmonitor=false -C ${SOURCE})
set(ENV{GIT_OPTIONAL_LOCKS} 0) # look, do not touch the index

if(commit STREQUAL "")
  execute_process(COMMAND ${git} rev-parse --show-prefix HEAD
    OUTPUT_VARIABLE out ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND out MATCHES "^\n([0-9a-f]+)\n$")
    set(commit ${CMAKE_MATCH_1})
    execute_process(COMMAND ${git} status --porcelain --untracked-files=normal -- ${inputs}
      OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND NOT changes STREQUAL "")
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()
if(commit STREQUAL "")
  file(STRINGS ${SOURCE}/cmake/commit.txt lines REGEX "^[0-9a-f]+$")
  set(commit "${lines}")
endif()

set(text "#include \"base/build.h\"\n\nconst char build_commit[] = \"${commit}\";\n")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${OUT} "${text}")
endif()
