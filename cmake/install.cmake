# cmake --install, and ./do install [prefix]. The program finds the rest from its own place
# (<prefix>/bin), so the tree may be moved as a whole; hence no folder below the prefix is a setting.
#
#   bin/twinfer
#   lib/twinfer/libtwinfer_inject.so     what `twinfer trace` puts into other programs; nobody links it
#   share/twinfer/{configs,data,adapters}
#   share/twinfer/bench                  what measures on a GPU: scripts, and the programs that they measure
#   share/man/man1/twinfer*.1, share/bash-completion/completions/twinfer, share/zsh/site-functions/_twinfer
#   share/doc/twinfer/                   README, license, docs, measurements

# One manual page a command, from the program's own tables.
set(pages ${CMAKE_BINARY_DIR}/man)
add_custom_command(OUTPUT ${pages}/twinfer.1
  COMMAND sh ${CMAKE_SOURCE_DIR}/scripts/man.sh $<TARGET_FILE:twinfer> ${pages}
  DEPENDS twinfer ${CMAKE_SOURCE_DIR}/scripts/man.sh VERBATIM COMMENT "manual pages")
add_custom_target(man ALL DEPENDS ${pages}/twinfer.1)

install(TARGETS twinfer RUNTIME DESTINATION bin)
install(TARGETS twinfer_inject LIBRARY DESTINATION lib/twinfer)
install(DIRECTORY configs data adapters DESTINATION share/twinfer
        PATTERN __pycache__ EXCLUDE)
install(FILES bench/steps.sh DESTINATION share/twinfer/bench)
install(PROGRAMS bench/gpu/run.sh DESTINATION share/twinfer/bench/gpu)
install(PROGRAMS bench/accuracy/worker_h200.sh bench/accuracy/vllm.sh DESTINATION share/twinfer/bench/accuracy)
install(FILES bench/accuracy/vllm_server.sh bench/accuracy/vllm_predict.sh bench/accuracy/vllm_pieces.sh bench/accuracy/vllm_more.sh
        bench/accuracy/vllm_hold.sh bench/accuracy/all_reduce.py bench/accuracy/peers.py bench/accuracy/transformers_serve.py DESTINATION share/twinfer/bench/accuracy)
install(DIRECTORY bench/capture bench/replay bench/energy bench/deep bench/trace DESTINATION share/twinfer/bench
        USE_SOURCE_PERMISSIONS FILES_MATCHING PATTERN "*.sh" PATTERN "*.py" PATTERN "*.c" PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${pages}/ DESTINATION share/man/man1 FILES_MATCHING PATTERN "*.1")
install(FILES completion/twinfer.bash DESTINATION share/bash-completion/completions RENAME twinfer)
install(FILES completion/_twinfer DESTINATION share/zsh/site-functions)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION share/doc/twinfer)
# with the measurements that the README links to
install(DIRECTORY docs bench data DESTINATION share/doc/twinfer
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
