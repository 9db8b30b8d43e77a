# The scripts under recipes/ that prepare data; each is tested by a script of its stem.
add_test(NAME "recipes: wordnet" COMMAND bash ${CMAKE_SOURCE_DIR}/tests/recipes/wordnet.sh)
set_tests_properties("recipes: wordnet" PROPERTIES ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera")
