add_executable(rewrite_safetensors ${CMAKE_CURRENT_LIST_DIR}/interop/rewrite_safetensors.cpp)
target_link_libraries(rewrite_safetensors PRIVATE comera_io)
target_link_libraries(test_io PRIVATE onnx_messages)
target_link_libraries(test_io PRIVATE nlohmann_json::nlohmann_json)  # json_test compares with it
