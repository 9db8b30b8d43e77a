# Compares our reader and writer with the official safetensors package from PyPI.
add_test(NAME "io: safetensors of PyPI"
         COMMAND ${CMAKE_SOURCE_DIR}/tests/io/interop/run.sh ${CMAKE_BINARY_DIR}/interop-venv "numpy safetensors"
                 ${CMAKE_SOURCE_DIR}/tests/io/interop/against_pypi.py $<TARGET_FILE:rewrite_safetensors>)
set_tests_properties("io: safetensors of PyPI" PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
