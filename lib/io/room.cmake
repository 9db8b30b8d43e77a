include(Onnx)
# Who includes lib/io/onnx.h links onnx_messages too.
target_link_libraries(comera_io PUBLIC nlohmann_json::nlohmann_json PRIVATE onnx_messages)
