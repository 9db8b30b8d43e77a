target_link_libraries(test_kernels PRIVATE comera_cuda_on_host)

# Probes of what kernels/cpu keeps inside one instruction set, compiled like it.
file(GLOB probes CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/kernels/simd/*.cpp)
foreach(isa v3 v4)
  add_library(test_simd_${isa} OBJECT ${probes})
  target_compile_options(test_simd_${isa} PRIVATE ${COMERA_ISA_FLAGS_${isa}} -ffp-contract=fast -O3 ${COMERA_ISA_WARNINGS})
  target_compile_definitions(test_simd_${isa} PRIVATE COMERA_ISA=${isa})
  target_include_directories(test_simd_${isa} PRIVATE ${CMAKE_SOURCE_DIR})
  target_sources(test_kernels PRIVATE $<TARGET_OBJECTS:test_simd_${isa}>)
endforeach()
set_source_files_properties(tests/kernels/tt_fused_test.cpp PROPERTIES COMPILE_OPTIONS -Wno-unknown-pragmas)  # it includes kernels
