# A static SentencePiece against the system's protobuf, built once per build folder by third_party/sentencepiece.sh. Set
# COMERA_SENTENCEPIECE (cache or environment) to a folder that several build folders share.
set(prefix "$ENV{COMERA_SENTENCEPIECE}")
if(NOT prefix)
  set(prefix ${CMAKE_BINARY_DIR}/third_party/sentencepiece)
endif()
set(COMERA_SENTENCEPIECE ${prefix} CACHE PATH "prefix of the static SentencePiece")
set(archives ${COMERA_SENTENCEPIECE}/lib/libsentencepiece_train.a ${COMERA_SENTENCEPIECE}/lib/libsentencepiece.a)
file(MAKE_DIRECTORY ${COMERA_SENTENCEPIECE}/include)
add_custom_command(
  OUTPUT ${COMERA_SENTENCEPIECE}/complete ${archives}
  COMMAND ${CMAKE_SOURCE_DIR}/third_party/sentencepiece.sh ${COMERA_SENTENCEPIECE}
  COMMAND ${CMAKE_COMMAND} -E touch ${COMERA_SENTENCEPIECE}/complete ${archives}
  DEPENDS ${CMAKE_SOURCE_DIR}/third_party/sentencepiece.sh
  COMMENT "Building SentencePiece in ${COMERA_SENTENCEPIECE} (a minute, once)")
add_custom_target(sentencepiece_build DEPENDS ${COMERA_SENTENCEPIECE}/complete)
# These files include its headers. Everything else needs it only for the link, so it builds in parallel with the rooms.
set_source_files_properties(lib/data/tokenizer/sentencepiece.cpp lib/data/tokenizer/tokenizer_train.cpp
  tests/data/sentencepiece_test.cpp
  PROPERTIES OBJECT_DEPENDS ${COMERA_SENTENCEPIECE}/complete)
find_library(PROTOBUF_ARCHIVE libprotobuf.a REQUIRED)

add_library(sentencepiece INTERFACE)
target_include_directories(sentencepiece SYSTEM INTERFACE ${COMERA_SENTENCEPIECE}/include)
target_link_libraries(sentencepiece INTERFACE ${archives} ${PROTOBUF_ARCHIVE} Threads::Threads)
