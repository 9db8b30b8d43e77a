# The CUDA backend compiled for the host, linked into tests only (kernels/cuda/emulator).
file(GLOB kernel_sources CONFIGURE_DEPENDS kernels/cuda/*.cu)
file(GLOB emulator_sources CONFIGURE_DEPENDS kernels/cuda/emulator/*.cpp)
set_source_files_properties(${kernel_sources} PROPERTIES LANGUAGE CXX)
add_library(comera_cuda_emulator STATIC ${kernel_sources} ${emulator_sources})
target_include_directories(comera_cuda_emulator PUBLIC ${CMAKE_SOURCE_DIR})
# Unaligned access to a vector ends a test, as it ends a kernel on a GPU.
target_compile_options(comera_cuda_emulator PUBLIC -Wno-unknown-pragmas
  PRIVATE -O2 -fsanitize=alignment -fsanitize-undefined-trap-on-error)
precompile(comera_cuda_emulator emulator)

# The same under ThreadSanitizer, with every thread of a block as a thread of its own (emulator/races.h). Accesses that
# only the emulator's thread order separates are races there. With the preset tsan, all of the build is instrumented.
add_library(comera_cuda_races STATIC EXCLUDE_FROM_ALL ${kernel_sources} ${emulator_sources})
target_include_directories(comera_cuda_races PUBLIC ${CMAKE_SOURCE_DIR})
target_compile_options(comera_cuda_races PUBLIC -O1 -g1 -Wno-unknown-pragmas -fsanitize=thread)
target_compile_definitions(comera_cuda_races PUBLIC COMERA_RACES=1)
target_link_options(comera_cuda_races PUBLIC -fsanitize=thread)
precompile(comera_cuda_races races)
# The fiber scheduler itself is not instrumented.
set_source_files_properties(kernels/cuda/emulator/threads.cpp kernels/cuda/emulator/runtime.cpp
  PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread SKIP_PRECOMPILE_HEADERS ON)
if(COMERA_SANITIZE MATCHES "thread")
  target_compile_definitions(comera_cuda_emulator PUBLIC COMERA_RACES=1)
endif()
