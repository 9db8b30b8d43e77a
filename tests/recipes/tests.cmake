# Scripts under recipes/ that prepare data. Each has a test script with the same stem.
add_test(NAME "recipes: wordnet" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/wordnet.sh)
set_tests_properties("recipes: wordnet" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
# README's first command on a machine without dependencies. Started early, because it mostly waits for packages.
add_test(NAME "recipes: README's first command on a bare machine"
  COMMAND ${CMAKE_SOURCE_DIR}/tests/recipes/first_command.sh ${CMAKE_BINARY_DIR})
set_tests_properties("recipes: README's first command on a bare machine" PROPERTIES
  SKIP_RETURN_CODE 77 TIMEOUT 3000 COST 2000)
add_test(NAME "recipes: Debian package"
  COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/package_deb.sh ${CMAKE_BINARY_DIR})
set_tests_properties("recipes: Debian package" PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME "recipes: package" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/package.sh ${CMAKE_BINARY_DIR})
# The steps of make check-gpu, on a machine without a GPU.
add_test(NAME "recipes: gpu report" COMMAND ${CMAKE_SOURCE_DIR}/tests/recipes/gpu_report_test.py)
add_test(NAME "recipes: check_gpu" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/check_gpu.sh)
set_tests_properties("recipes: check_gpu" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
add_test(NAME "recipes: mnli" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/mnli.sh)
set_tests_properties("recipes: mnli" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
add_test(NAME "recipes: books" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/books.sh)
set_tests_properties("recipes: books" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
add_test(NAME "recipes: longest_sequence" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/longest_sequence.sh)
set_tests_properties("recipes: longest_sequence" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
add_test(NAME "recipes: minilm" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/minilm.sh)
set_tests_properties("recipes: minilm" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
add_test(NAME "recipes: bits" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/bits.sh)
set_tests_properties("recipes: bits" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
add_test(NAME "recipes: smollm2" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/smollm2.sh)
set_tests_properties("recipes: smollm2" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera" SKIP_RETURN_CODE 77)
add_test(NAME "recipes: dlrm" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/dlrm.sh)
set_tests_properties("recipes: dlrm" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
add_test(NAME "recipes: vision" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/vision.sh)
set_tests_properties("recipes: vision" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
