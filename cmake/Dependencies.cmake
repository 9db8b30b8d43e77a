# All external libraries; third_party/install.sh installs them.
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
# Disables parts of the JSON library that comera does not use: they slow down the compilation of every file.
target_compile_definitions(nlohmann_json::nlohmann_json INTERFACE JSON_HAS_FILESYSTEM=0
  JSON_HAS_EXPERIMENTAL_FILESYSTEM=0 JSON_HAS_RANGES=0 JSON_HAS_THREE_WAY_COMPARISON=0)
find_package(CLI11 REQUIRED)
set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB REQUIRED)
find_library(ZSTD_ARCHIVE libzstd.a REQUIRED)
find_library(UTF8PROC_ARCHIVE libutf8proc.a REQUIRED)
find_library(PCRE2_ARCHIVE libpcre2-8.a REQUIRED)
find_library(PNG_ARCHIVE libpng16.a REQUIRED)
find_library(TURBOJPEG_ARCHIVE libturbojpeg.a REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)

# OpenBLAS (pthread build) and libxsmm, static: the program does not need them at run time.
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATHS /usr/include/x86_64-linux-gnu/openblas-pthread NO_DEFAULT_PATH REQUIRED)
find_library(OPENBLAS_ARCHIVE libopenblas.a PATHS /usr/lib/x86_64-linux-gnu/openblas-pthread NO_DEFAULT_PATH REQUIRED)
add_library(openblas INTERFACE)
target_include_directories(openblas SYSTEM INTERFACE ${OPENBLAS_INCLUDE_DIR})
target_link_libraries(openblas INTERFACE ${OPENBLAS_ARCHIVE} -Wl,-Bstatic -lgfortran -lquadmath -Wl,-Bdynamic
  Threads::Threads m)

find_path(LIBXSMM_INCLUDE_DIR libxsmm.h REQUIRED)
find_library(LIBXSMM_ARCHIVE libxsmm.a REQUIRED)
add_library(xsmm INTERFACE)
target_include_directories(xsmm SYSTEM INTERFACE ${LIBXSMM_INCLUDE_DIR})
# libxsmm calls BLAS, so it is linked before OpenBLAS. libxsmmnoblas would define names that LAPACK needs, with
# functions that abort the program.
target_link_libraries(xsmm INTERFACE ${LIBXSMM_ARCHIVE} openblas Threads::Threads rt ${CMAKE_DL_LIBS})

# fmt is compiled once from its headers (third_party/fmt.cpp), because Debian has no static library.
add_library(fmt_static STATIC third_party/fmt.cpp)
