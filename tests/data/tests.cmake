# Compares one line in 200. Without --quick the scripts compare every line of the text data, and 100,000 random lines.
function(compare_with_pypi name script)
  add_test(NAME "data: ${name} equal those of PyPI's tokenizers" COMMAND bash
    ${CMAKE_CURRENT_LIST_DIR}/interop/against_pypi.sh ${script} $<TARGET_FILE:tokenize_lines> ${CMAKE_BINARY_DIR} --quick)
  set_tests_properties("data: ${name} equal those of PyPI's tokenizers" PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900
    RESOURCE_LOCK venv-tokenizers)
endfunction()
compare_with_pypi("ids and texts" tokens_against_pypi.py)
compare_with_pypi("ids, offsets and texts of tokenizer.json" tokenizer_json_against_pypi.py)
compare_with_pypi("ids of learned tokenizers" trained_against_pypi.py)
add_test(NAME "data: chat templates equal those of PyPI's Jinja and transformers" COMMAND bash
  ${CMAKE_CURRENT_LIST_DIR}/interop/templates_against_pypi.sh $<TARGET_FILE:render_templates> ${CMAKE_BINARY_DIR})
set_tests_properties("data: chat templates equal those of PyPI's Jinja and transformers" PROPERTIES SKIP_RETURN_CODE 77
  TIMEOUT 900 RESOURCE_LOCK venv-templates)
add_test(NAME "data: pictures and values equal those of PyPI's Pillow and transformers" COMMAND bash
  ${CMAKE_CURRENT_LIST_DIR}/interop/images_against_pypi.sh $<TARGET_FILE:read_images> ${CMAKE_BINARY_DIR})
set_tests_properties("data: pictures and values equal those of PyPI's Pillow and transformers" PROPERTIES
  SKIP_RETURN_CODE 77 TIMEOUT 900 RESOURCE_LOCK venv-images)
