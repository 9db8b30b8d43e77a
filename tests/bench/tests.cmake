# Not tests: programs that time kernels. cmake --build build --target bench_kernels && build/bench_kernels
add_executable(bench_kernels EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_kernels.cpp)
target_link_libraries(bench_kernels PRIVATE comera_kernels)
add_executable(bench_memory EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_memory.cpp)
target_link_libraries(bench_memory PRIVATE comera_kernels)
add_executable(bench_low_rank EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_low_rank.cpp)
target_link_libraries(bench_low_rank PRIVATE comera_tt)
add_executable(bench_bf16 EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_bf16.cpp)
target_link_libraries(bench_bf16 PRIVATE comera_kernels xsmm openblas)
