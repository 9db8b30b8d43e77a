# Runs exported graphs in ONNX Runtime and ONNX's own checker (both from PyPI).
add_test(NAME "export: graphs in ONNX Runtime"
         COMMAND ${CMAKE_SOURCE_DIR}/tests/export/interop/onnxruntime.sh ${CMAKE_BINARY_DIR}/onnx-venv)
set_tests_properties("export: graphs in ONNX Runtime" PROPERTIES
                     ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera" TIMEOUT 900 SKIP_RETURN_CODE 77)
