add_executable(rewrite_safetensors ${CMAKE_CURRENT_LIST_DIR}/interop/rewrite_safetensors.cpp)
target_link_libraries(rewrite_safetensors PRIVATE ${COMERA_TOP})
target_link_libraries(test_io PRIVATE onnx_messages)
