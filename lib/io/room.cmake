include(Onnx)
# A target that includes lib/io/onnx.h must also link onnx_messages.
target_link_libraries(comera_io PRIVATE nlohmann_json::nlohmann_json onnx_messages)
