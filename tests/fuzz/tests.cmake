# Fuzzes every reader of untrusted files for a few seconds. Without clang the test is skipped with a message.
add_test(NAME "fuzz: readers" COMMAND ${CMAKE_SOURCE_DIR}/tests/fuzz/run.sh ${CMAKE_BINARY_DIR}/fuzz 2)
set_tests_properties("fuzz: readers" PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77)
