file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/kernels/backends/*.cpp
  ${CMAKE_SOURCE_DIR}/tests/kernels/harness/*.cpp)
target_sources(test_kernels PRIVATE ${sources})
target_link_libraries(test_kernels PRIVATE comera_cuda_emulator)

# Probes of functions that kernels/cpu compiles per instruction set, compiled with the same flags.
file(GLOB probes CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/kernels/simd/*.cpp)
foreach(isa v3 v4)
  add_library(test_simd_${isa} OBJECT ${probes})
  target_compile_options(test_simd_${isa} PRIVATE
    ${COMERA_ISA_FLAGS_${isa}} -ffp-contract=fast -O3 ${COMERA_ISA_WARNINGS})
  target_compile_definitions(test_simd_${isa} PRIVATE COMERA_ISA=${isa})
  target_include_directories(test_simd_${isa} PRIVATE ${CMAKE_SOURCE_DIR})
  target_sources(test_kernels PRIVATE $<TARGET_OBJECTS:test_simd_${isa}>)
endforeach()

# Built by tests/kernels/races.sh. Runs the cases of every op, and the tests with their own kernels, on an emulator that
# reports its threads to ThreadSanitizer.
set(with_kernels attention_tensor_test backends/cuda_emulator_test tt_fused_test)
list(TRANSFORM with_kernels REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/tests/kernels/\\1.cpp")
add_executable(test_kernels_races EXCLUDE_FROM_ALL ${with_kernels}
  $<FILTER:$<TARGET_OBJECTS:test_kernels>,EXCLUDE,attention_tensor_test|cuda_emulator_test|tt_fused_test>
  $<TARGET_OBJECTS:test_simd_v3> $<TARGET_OBJECTS:test_simd_v4>)
target_link_libraries(test_kernels_races PRIVATE comera_cuda_races comera_kernels Catch2::Catch2WithMain)
