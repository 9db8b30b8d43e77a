# Fuzzes every reader of untrusted files for a few seconds. Without clang the test is skipped with a message.
add_test(NAME "fuzz: readers" COMMAND ${CMAKE_SOURCE_DIR}/tests/fuzz/recent.sh ${CMAKE_BINARY_DIR}/fuzz)
set_tests_properties("fuzz: readers" PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77 COST 1800)
