target_link_libraries(comera_core PUBLIC fmt_static PRIVATE CLI11::CLI11 PkgConfig::TOMLPLUSPLUS)
target_include_directories(comera_core SYSTEM PUBLIC ${XXHASH_INCLUDE_DIR})
include(Version)
target_sources(comera_core PRIVATE ${CMAKE_BINARY_DIR}/version.cpp)
