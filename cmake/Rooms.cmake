# One library per room. A room may use only the rooms before it; scripts/check_layering.py enforces the same order.
set(COMERA_ROOMS lib/core lib/tt lib/quant lib/io lib/data lib/plan lib/tuning lib/layers lib/engine models lib/compress
  lib/export lib/train lib/report)

# kernels/reference/all.h of the build folder includes every reference op, for the table of kernels/ops.def.
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} kernels/reference/*.h)
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n")
list(JOIN headers "" headers)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/kernels/reference/all.h CONTENT "#pragma once\n\n${headers}" @ONLY)

file(GLOB sources CONFIGURE_DEPENDS kernels/host/*.cpp kernels/reference/*.cpp)
add_library(comera_kernels STATIC ${sources})
target_include_directories(comera_kernels PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(comera_kernels PUBLIC Threads::Threads PRIVATE xsmm openblas)
precompile(comera_kernels library)

file(GLOB sources CONFIGURE_DEPENDS kernels/cpu/*.cpp)
foreach(isa ${COMERA_ISAS})
  add_library(comera_kernels_${isa} OBJECT ${sources})
  target_compile_options(comera_kernels_${isa} PRIVATE
    ${COMERA_ISA_FLAGS_${isa}} -ffp-contract=fast -O3 ${COMERA_ISA_WARNINGS})
  target_compile_definitions(comera_kernels_${isa} PRIVATE COMERA_ISA=${isa})
  target_include_directories(comera_kernels_${isa} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(comera_kernels_${isa} PRIVATE openblas xsmm)
  precompile(comera_kernels_${isa} ${isa} <immintrin.h>)
  # Baseline objects first: an inline function that several objects contain must resolve to the baseline copy.
  target_sources(comera_kernels PRIVATE $<TARGET_OBJECTS:comera_kernels_${isa}>)
endforeach()

# bf16 calls, for processors with AVX512-BF16. Files of kernels/cpu/bf16 replace those of the same name; files that have
# ops without activations alone are left out.
file(GLOB bf16_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/kernels/cpu/bf16 kernels/cpu/bf16/*.cpp)
list(TRANSFORM bf16_sources PREPEND ${CMAKE_SOURCE_DIR}/kernels/cpu/ OUTPUT_VARIABLE replaced)
list(TRANSFORM bf16_sources PREPEND ${CMAKE_SOURCE_DIR}/kernels/cpu/bf16/)
list(REMOVE_ITEM sources ${replaced})
list(FILTER sources EXCLUDE REGEX
  "/(adagrad|adamw8|apollo|chain_decay|galore|host_copy|lomo|muon|optimizer|rank_objective)[.]cpp$")
# The ops with large products are built once more for AMX.
file(GLOB amx_sources CONFIGURE_DEPENDS kernels/cpu/amx/*.cpp)
list(APPEND amx_sources kernels/cpu/attention.cpp kernels/cpu/code_product.cpp kernels/cpu/tt_output_product.cpp
     kernels/cpu/bf16/linear.cpp kernels/cpu/bf16/tt_linear.cpp)
set(COMERA_BF16_SOURCES_v4bf16 ${sources} ${bf16_sources})
set(COMERA_BF16_FLAGS_v4bf16 -mavx512bf16)
set(COMERA_BF16_SOURCES_v4amx ${amx_sources})
set(COMERA_BF16_FLAGS_v4amx -mavx512bf16 -mamx-tile -mamx-bf16)
foreach(isa v4bf16 v4amx)
  add_library(comera_kernels_${isa} OBJECT ${COMERA_BF16_SOURCES_${isa}})
  target_compile_options(comera_kernels_${isa} PRIVATE
    ${COMERA_ISA_FLAGS_v4} ${COMERA_BF16_FLAGS_${isa}} -ffp-contract=fast -O3 ${COMERA_ISA_WARNINGS})
  target_compile_definitions(comera_kernels_${isa} PRIVATE COMERA_ISA=${isa} COMERA_BF16_CALLS)
  target_include_directories(comera_kernels_${isa} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(comera_kernels_${isa} PRIVATE openblas xsmm)
  precompile(comera_kernels_${isa} ${isa} <immintrin.h>)
  target_sources(comera_kernels PRIVATE $<TARGET_OBJECTS:comera_kernels_${isa}>)
endforeach()

# Rooms without loops over numbers, which are in kernels, lib/tt and lib/quant: higher optimisation costs a third of the
# build time there. Those that read text keep -O1: the tokenizers take 1.5 times the time with -Og.
set(COMERA_TEXT_ROOMS lib/core lib/io lib/data)
set(COMERA_LIGHT_ROOMS lib/plan lib/tuning lib/layers lib/engine models lib/compress lib/export lib/train lib/report)
set(COMERA_HEADERS_export <onnx.pb.h>)  # precompiled for this room besides those of all
# GCC gives false -Wmaybe-uninitialized warnings below -O2.
set(COMERA_MODERATE_OPTIMISATION "$<$<CONFIG:Release>:-O1;-Wno-maybe-uninitialized>")
set(COMERA_LIGHT_OPTIMISATION "$<$<CONFIG:Release>:-Og;-Wno-maybe-uninitialized>")

target_compile_options(fmt_static PRIVATE ${COMERA_MODERATE_OPTIMISATION})

set(below comera_kernels)
foreach(room ${COMERA_ROOMS})
  get_filename_component(name ${room} NAME)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${room}/*.cpp)
  if(sources)
    add_library(comera_${name} STATIC ${sources})
    target_link_libraries(comera_${name} PUBLIC ${below} fmt_static)
    if(room IN_LIST COMERA_TEXT_ROOMS)
      target_compile_options(comera_${name} PRIVATE ${COMERA_MODERATE_OPTIMISATION})
      precompile(comera_${name} text_library ${COMERA_HEADERS_${name}})
    elseif(room IN_LIST COMERA_LIGHT_ROOMS)
      target_compile_options(comera_${name} PRIVATE ${COMERA_LIGHT_OPTIMISATION})
      precompile(comera_${name} light_library ${COMERA_HEADERS_${name}})
    else()
      precompile(comera_${name} library)
    endif()
    set(below comera_${name})
  endif()
  if(TARGET comera_${name} AND EXISTS ${CMAKE_SOURCE_DIR}/${room}/room.cmake)
    include(${room}/room.cmake)  # external libraries of the room
  endif()
endforeach()
set(COMERA_TOP ${below})

file(GLOB_RECURSE sources CONFIGURE_DEPENDS tools/*.cpp)
if(sources)
  add_executable(comera ${sources})
  target_compile_options(comera PRIVATE ${COMERA_LIGHT_OPTIMISATION})
  precompile(comera program)
  target_link_libraries(comera PRIVATE ${COMERA_TOP} CLI11::CLI11)
  target_link_options(comera PRIVATE -static-libgcc -static-libstdc++ LINKER:--exclude-libs,ALL)
  set_target_properties(comera PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  include(Install)
endif()
