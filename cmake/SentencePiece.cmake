# A static SentencePiece against the system's protobuf, built once per build folder by third_party/sentencepiece.sh. To share one among
# build folders, set COMERA_SENTENCEPIECE (cache or environment) to where it lies or shall lie.
set(prefix "$ENV{COMERA_SENTENCEPIECE}")
if(NOT prefix)
  set(prefix ${CMAKE_BINARY_DIR}/third_party/sentencepiece)
endif()
set(COMERA_SENTENCEPIECE ${prefix} CACHE PATH "prefix of the static SentencePiece")
if(NOT EXISTS ${COMERA_SENTENCEPIECE}/complete)
  message(NOTICE "Building SentencePiece in ${COMERA_SENTENCEPIECE} (a minute, once)")
endif()
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/third_party/sentencepiece.sh ${COMERA_SENTENCEPIECE} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "third_party/sentencepiece.sh failed; see above")
endif()
find_library(PROTOBUF_ARCHIVE libprotobuf.a REQUIRED)

add_library(sentencepiece INTERFACE)
target_include_directories(sentencepiece SYSTEM INTERFACE ${COMERA_SENTENCEPIECE}/include)
target_link_libraries(sentencepiece INTERFACE ${COMERA_SENTENCEPIECE}/lib/libsentencepiece_train.a
  ${COMERA_SENTENCEPIECE}/lib/libsentencepiece.a ${PROTOBUF_ARCHIVE} Threads::Threads)
