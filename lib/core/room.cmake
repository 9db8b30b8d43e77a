# toml++ is used header-only (lib/core/options/options_toml.cpp): its shared library would bring a
# second C++ runtime into the program.
target_link_libraries(comera_core PUBLIC fmt_static PRIVATE CLI11::CLI11)
target_include_directories(comera_core SYSTEM PUBLIC ${XXHASH_INCLUDE_DIR})
include(Version)
target_sources(comera_core PRIVATE ${CMAKE_BINARY_DIR}/version.cpp)
