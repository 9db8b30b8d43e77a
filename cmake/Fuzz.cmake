# -DCOMERA_FUZZ=ON with clang: only the readers of untrusted files and one libFuzzer program per reader, under ASan and
# UBSan. tests/fuzz/run.sh configures, builds and runs it; CI runs it for a few seconds.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR
    "COMERA_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_C_COMPILER=clang-19")
endif()
# Without vptr: it needs the type information, and so the sources, of every class whose header a reader includes.
set(COMERA_FUZZ_FLAGS -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all
  -fno-omit-frame-pointer -gline-tables-only -O1)
add_compile_options(${COMERA_FUZZ_FLAGS} -fsanitize=fuzzer-no-link)
add_link_options(${COMERA_FUZZ_FLAGS})

include(Onnx)
include(SentencePiece)
file(GLOB_RECURSE readers CONFIGURE_DEPENDS lib/core/*.cpp lib/io/*.cpp)
list(APPEND readers lib/tt/layout.cpp lib/tt/modes.cpp lib/quant/grid.cpp lib/compress/plan/plan.cpp
  lib/compress/plan/plan_file.cpp lib/export/rewrite/onnx_graphs.cpp lib/export/rewrite/onnx_uses.cpp)
list(APPEND readers lib/layers/training/weight_form.cpp lib/layers/training/parameter.cpp lib/plan/slab.cpp
  lib/data/loader_state.cpp lib/train/rank_progress.cpp lib/train/click_state.cpp lib/train/train_state.cpp)
file(GLOB configs CONFIGURE_DEPENDS models/*/*_config.cpp models/*/*_spec.cpp)
list(APPEND readers ${configs} models/decoder/rope.cpp models/config_reader.cpp models/forms.cpp models/model_spec.cpp
  models/spec.cpp)
foreach(stem clean_cut piece_trie sentencepiece sentencepiece_check tokenizer unicode wordpiece)
  list(APPEND readers lib/data/tokenizer/${stem}.cpp)
endforeach()
file(GLOB rooms CONFIGURE_DEPENDS lib/data/files/*.cpp lib/data/tokenizer/pipeline/*.cpp lib/data/template/*.cpp)
list(APPEND readers ${rooms} lib/data/clicks/click_reader.cpp lib/data/clicks/schema.cpp
  lib/data/images/idx.cpp lib/data/images/image_frame.cpp lib/data/images/orientation.cpp
  lib/data/images/picture.cpp lib/data/images/png_reader.cpp lib/data/batch.cpp)
list(APPEND readers lib/data/label_kind.cpp lib/data/task.cpp)
# Files of these folders that no target reaches.
list(FILTER readers EXCLUDE REGEX "lib/core/(tensor|thread|memory)[.]cpp$")
list(FILTER readers EXCLUDE REGEX "lib/core/(files/(scratch_file|outputs)|options/options(_help|_completion|_pages)?)[.]cpp$")
list(FILTER readers EXCLUDE REGEX "lib/io/(side_files|onnx_files|read_chain|gguf/gguf_write|adapter/write_lora)[.]cpp$")
list(FILTER readers EXCLUDE REGEX "(data/files/questions|dlrm/dlrm_config|vit/vit_config)[.]cpp$")
add_library(comera_readers STATIC ${readers} third_party/fmt.cpp)
precompile(comera_readers readers)
target_include_directories(comera_readers PUBLIC ${CMAKE_SOURCE_DIR})
target_include_directories(comera_readers SYSTEM PUBLIC ${XXHASH_INCLUDE_DIR} ${RANDOM123_INCLUDE_DIR})
target_link_libraries(comera_readers PUBLIC CLI11::CLI11 nlohmann_json::nlohmann_json ${PNG_ARCHIVE}
  ${TURBOJPEG_ARCHIVE} ZLIB::ZLIB ${ZSTD_ARCHIVE} ${UTF8PROC_ARCHIVE} ${PCRE2_ARCHIVE} onnx_messages sentencepiece
  Threads::Threads)

file(GLOB targets CONFIGURE_DEPENDS tests/fuzz/fuzz_*.cpp)
foreach(source ${targets})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE comera_readers -fsanitize=fuzzer)
endforeach()
