# The CUDA backend compiled for the host, linked into tests only (kernels/cuda/on_host).
file(GLOB kernel_sources CONFIGURE_DEPENDS kernels/cuda/*.cu)
file(GLOB double_sources CONFIGURE_DEPENDS kernels/cuda/on_host/*.cpp)
set_source_files_properties(${kernel_sources} PROPERTIES LANGUAGE CXX)
add_library(comera_cuda_on_host STATIC ${kernel_sources} ${double_sources})
target_include_directories(comera_cuda_on_host PUBLIC ${CMAKE_SOURCE_DIR})
# Access to a vector at a place that is no multiple of its size ends a test, as it ends a kernel on a card.
target_compile_options(comera_cuda_on_host PRIVATE -O2 -Wno-unknown-pragmas -fsanitize=alignment -fsanitize-undefined-trap-on-error)
