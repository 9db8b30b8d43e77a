# Not tests: programs that time kernels. cmake --build build --target bench_kernels && build/bench_kernels
add_executable(bench_kernels EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_kernels.cpp)
target_link_libraries(bench_kernels PRIVATE comera_kernels)
add_executable(bench_memory EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_memory.cpp)
target_link_libraries(bench_memory PRIVATE comera_kernels)
add_executable(bench_low_rank EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_low_rank.cpp)
target_link_libraries(bench_low_rank PRIVATE comera_tt)
add_executable(bench_bf16 EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_bf16.cpp)
target_link_libraries(bench_bf16 PRIVATE comera_kernels xsmm openblas)
# Not a bench: prints the launches of a step (scripts/cuda_cost.py). It replaces the functions of ThreadSanitizer, so it
# takes the archive without the link options of its target, and no other sanitizer. Clang calls more functions than GCC.
if(NOT COMERA_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_executable(record_step EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/record_step.cpp)
  target_compile_options(record_step PRIVATE ${COMERA_LIGHT_OPTIMISATION})
  target_link_libraries(record_step PRIVATE $<TARGET_FILE:comera_cuda_races> comera_report)
  add_dependencies(record_step comera_cuda_races)
endif()
