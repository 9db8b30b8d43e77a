include(Onnx)
# A target that includes lib/io/onnx.h must also link onnx_messages.
target_link_libraries(comera_io PUBLIC nlohmann_json::nlohmann_json PRIVATE onnx_messages)
