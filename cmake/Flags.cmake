# Warnings, sanitizers and the instruction-set flags of kernels/cpu.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffp-contract=off)
# -O3 is for kernels/cpu and lib/quant.
add_compile_options($<$<CONFIG:Release>:-O2>)
if(COMERA_SANITIZE)
  add_compile_options(-fsanitize=${COMERA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${COMERA_SANITIZE})
endif()
if(COMERA_POISON OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_definitions(COMERA_POISON=1)
endif()

# One build of kernels/cpu per instruction set; the program picks one at start (kernels/host/cpu_backend.h).
set(COMERA_ISAS v3 v4)
set(COMERA_ISA_FLAGS_v3 -march=x86-64-v3)
set(COMERA_ISA_FLAGS_v4 -march=x86-64-v4 -mprefer-vector-width=512)
# GCC's AVX-512 headers read a variable that they never initialise.
set(COMERA_ISA_WARNINGS -Wno-uninitialized -Wno-maybe-uninitialized)
