# ONNX messages: protoc on the definitions of Debian's libonnx-dev (they select protobuf's lite runtime), linked with
# the same static protobuf as SentencePiece. libonnx is not linked, because it would add a second protobuf to the
# process.
find_path(ONNX_PROTO_FOLDER onnx.proto PATH_SUFFIXES onnx REQUIRED)
find_program(PROTOC protoc REQUIRED)
find_library(PROTOBUF_ARCHIVE libprotobuf.a REQUIRED)
set(generated ${CMAKE_BINARY_DIR}/onnx_messages)
file(MAKE_DIRECTORY ${generated})
add_custom_command(
  OUTPUT ${generated}/onnx.pb.cc ${generated}/onnx.pb.h
  COMMAND ${PROTOC} --proto_path=${ONNX_PROTO_FOLDER} --cpp_out=${generated} onnx.proto
  DEPENDS ${ONNX_PROTO_FOLDER}/onnx.proto)
add_library(onnx_messages STATIC ${generated}/onnx.pb.cc)
target_compile_options(onnx_messages PRIVATE -w $<$<CONFIG:Release>:-O1>)
target_include_directories(onnx_messages SYSTEM PUBLIC ${generated})
target_link_libraries(onnx_messages PUBLIC ${PROTOBUF_ARCHIVE} Threads::Threads)
