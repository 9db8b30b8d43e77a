# Writes build/version.cpp, the facts of `comera --version`. Written when CMake runs, and only if a fact changed, so
# that a commit alone recompiles nothing.
execute_process(
  COMMAND git -c safe.directory=* rev-parse --short=12 HEAD
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE COMERA_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT COMERA_COMMIT)
  set(COMERA_COMMIT unknown)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.cpp.in ${CMAKE_BINARY_DIR}/version.cpp @ONLY)
