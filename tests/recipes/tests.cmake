# Scripts under recipes/. Each has a test script with the same stem.
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.sh)
list(FILTER scripts EXCLUDE REGEX "/(first_command|package|package_deb)\\.sh$")
foreach(script ${scripts})
  get_filename_component(stem ${script} NAME_WE)
  add_test(NAME "recipes: ${stem}" COMMAND bash ${script})
  set_tests_properties("recipes: ${stem}" PROPERTIES
    ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera" SKIP_RETURN_CODE 77)
endforeach()
# README's first command on a machine without dependencies. Started early, because it mostly waits for packages.
add_test(NAME "recipes: README's first command on a bare machine"
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/first_command.sh ${CMAKE_BINARY_DIR})
set_tests_properties("recipes: README's first command on a bare machine" PROPERTIES
  SKIP_RETURN_CODE 77 TIMEOUT 3000 COST 2000)
add_test(NAME "recipes: Debian package" COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/package_deb.sh ${CMAKE_BINARY_DIR})
set_tests_properties("recipes: Debian package" PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME "recipes: package" COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/package.sh ${CMAKE_BINARY_DIR})
add_test(NAME "recipes: gpu report" COMMAND ${CMAKE_CURRENT_LIST_DIR}/gpu_report_test.py)
