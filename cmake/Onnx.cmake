# ONNX messages: protoc on the definitions that Debian's libonnx-dev ships (they ask for protobuf's lite runtime), linked with the same
# static protobuf as SentencePiece. libonnx itself is not linked: it would bring a second protobuf into the process.
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
target_compile_options(onnx_messages PRIVATE -w)
target_include_directories(onnx_messages SYSTEM PUBLIC ${generated})
target_link_libraries(onnx_messages PUBLIC ${PROTOBUF_ARCHIVE} Threads::Threads)
