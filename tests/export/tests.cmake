# Runs exported graphs in ONNX Runtime and ONNX's own checker (both from PyPI).
add_test(NAME "export: graphs in ONNX Runtime"
         COMMAND ${CMAKE_SOURCE_DIR}/tests/export/interop/onnxruntime.sh ${CMAKE_BINARY_DIR}/onnx-venv)
set_tests_properties("export: graphs in ONNX Runtime" PROPERTIES
                     ENVIRONMENT "COMERA=${CMAKE_BINARY_DIR}/comera" TIMEOUT 900 SKIP_RETURN_CODE 77)
# Makes folders of GGUF files that PyPI's gguf has written.
add_test(NAME "export: GGUF of PyPI"
         COMMAND ${CMAKE_SOURCE_DIR}/tests/io/interop/run.sh ${CMAKE_BINARY_DIR}/gguf-venv "numpy safetensors gguf"
                 ${CMAKE_SOURCE_DIR}/tests/export/interop/gguf_against_pypi.py ${CMAKE_BINARY_DIR}/comera)
set_tests_properties("export: GGUF of PyPI" PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
