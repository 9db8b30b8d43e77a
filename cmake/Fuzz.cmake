# -DCOMERA_FUZZ=ON with clang: only the readers of untrusted files and one libFuzzer program per reader, under ASan and UBSan.
# tests/fuzz/run.sh configures, builds and runs it; CI runs it for seconds.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "COMERA_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_C_COMPILER=clang-19")
endif()
set(COMERA_FUZZ_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -gline-tables-only -O1)
add_compile_options(${COMERA_FUZZ_FLAGS} -fsanitize=fuzzer-no-link)
add_link_options(${COMERA_FUZZ_FLAGS})

file(GLOB readers CONFIGURE_DEPENDS lib/core/*.cpp lib/tt/*.cpp lib/io/*.cpp)
foreach(stem byte_stream files table unicode wordpiece)
  list(APPEND readers lib/data/${stem}.cpp)
endforeach()
add_library(comera_readers STATIC ${readers} third_party/fmt.cpp)
target_include_directories(comera_readers PUBLIC ${CMAKE_SOURCE_DIR})
target_include_directories(comera_readers SYSTEM PUBLIC ${XXHASH_INCLUDE_DIR} ${RANDOM123_INCLUDE_DIR})
target_link_libraries(comera_readers PUBLIC CLI11::CLI11 nlohmann_json::nlohmann_json ZLIB::ZLIB PkgConfig::ZSTD PkgConfig::UTF8PROC Threads::Threads)

file(GLOB targets CONFIGURE_DEPENDS tests/fuzz/fuzz_*.cpp)
foreach(source ${targets})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE comera_readers -fsanitize=fuzzer)
endforeach()
