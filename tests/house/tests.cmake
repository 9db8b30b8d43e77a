# The rules of CONTRIBUTING.md as tests.
set(scripts ${CMAKE_SOURCE_DIR}/scripts)
foreach(rule layering size stems words promises links)
  add_test(NAME "house: ${rule}" COMMAND ${scripts}/check_${rule}.py)
  list(APPEND rules "house: ${rule}")
endforeach()
foreach(rule format scripts)
  add_test(NAME "house: ${rule}" COMMAND ${scripts}/check_${rule}.sh)
  list(APPEND rules "house: ${rule}")
endforeach()
add_test(NAME "house: rules find what they forbid" COMMAND ${CMAKE_SOURCE_DIR}/tests/house/rules_test.py)
add_test(NAME "house: recent changes are found" COMMAND ${CMAKE_SOURCE_DIR}/tests/house/recent_test.py)
set_tests_properties(${rules} "house: recent changes are found" "house: rules find what they forbid" PROPERTIES LABELS house)
# clang-tidy takes minutes, the rest seconds: ctest -L house leaves it out.
add_test(NAME "house: tidy, files of the last 20 commits"
  COMMAND ${scripts}/tidy.py --recent 20 --most 16 ${CMAKE_BINARY_DIR})
set_tests_properties("house: tidy, files of the last 20 commits" PROPERTIES
  LABELS tidy TIMEOUT 1500 COST 1000)
# The program configures without packages that only tests need.
add_test(NAME "house: the program configures without Catch2" COMMAND ${CMAKE_COMMAND} --fresh -S ${CMAKE_SOURCE_DIR}
  -B ${CMAKE_BINARY_DIR}/without_tests -G Ninja
  -DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON -DCOMERA_SENTENCEPIECE=${COMERA_SENTENCEPIECE})
set_tests_properties("house: the program configures without Catch2" PROPERTIES LABELS house)
