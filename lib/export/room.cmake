# Who includes a header with ONNX's messages links onnx_messages too.
target_link_libraries(comera_export PRIVATE onnx_messages openblas)
