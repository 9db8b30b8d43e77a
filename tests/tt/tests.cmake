if(TARGET test_tt_races)
  add_test(NAME "tt: no races between the threads of fits"
    COMMAND ${CMAKE_SOURCE_DIR}/tests/tt/races.sh ${CMAKE_BINARY_DIR})
  set_tests_properties("tt: no races between the threads of fits" PROPERTIES SKIP_RETURN_CODE 77
    RESOURCE_LOCK build-folder TIMEOUT 1800 COST 1500)
endif()
