# Rooms that include a header with ONNX messages must also link onnx_messages.
target_link_libraries(comera_export PRIVATE onnx_messages openblas)
