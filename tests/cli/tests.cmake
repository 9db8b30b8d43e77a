# tests/cli/*/*.sh run the built program as a user does. They share expect.sh, tiny_task.sh and interrupted.sh.
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cli/*/*.sh)
foreach(script ${scripts})
  get_filename_component(stem ${script} NAME_WE)
  add_test(NAME "cli: ${stem}" COMMAND bash ${script})
  set_tests_properties("cli: ${stem}" PROPERTIES
    ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera" TIMEOUT 600 SKIP_RETURN_CODE 77)
endforeach()
set_tests_properties("cli: instruction_sets" PROPERTIES RUN_SERIAL ON)  # it compares times
