# A test reads a published checkpoint.
target_link_libraries(test_tt PRIVATE comera_io)

# Built by tests/tt/races.sh. The threads of lib/tt under ThreadSanitizer. The libraries below lib/tt are not
# instrumented, except for the pool.
if(NOT COMERA_SANITIZE MATCHES "address")  # the two sanitizers exclude each other
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/tt/*.cpp)
  add_executable(test_tt_races EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/tt/parallel_test.cpp
    ${CMAKE_SOURCE_DIR}/tests/tt/races/known_race.cpp ${CMAKE_SOURCE_DIR}/kernels/host/thread_pool.cpp ${sources})
  target_compile_options(test_tt_races PRIVATE -O1 -g1 -fsanitize=thread)
  target_link_options(test_tt_races PRIVATE -fsanitize=thread)
  target_include_directories(test_tt_races SYSTEM PRIVATE ${OPENBLAS_INCLUDE_DIR})
  target_link_libraries(test_tt_races PRIVATE comera_core Catch2::Catch2WithMain)
endif()
