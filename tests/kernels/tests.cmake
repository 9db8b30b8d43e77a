# The toolkit may have to be fetched, so this test starts early.
add_test(NAME "kernels: CUDA library for one GPU, and its registers"
  COMMAND ${CMAKE_SOURCE_DIR}/tests/kernels/cuda_build.sh ${CMAKE_BINARY_DIR})
set_tests_properties("kernels: CUDA library for one GPU, and its registers" PROPERTIES
  SKIP_RETURN_CODE 77 TIMEOUT 1800 LABELS cuda COST 1900)
add_test(NAME "kernels: no races between the threads of a CUDA block"
  COMMAND ${CMAKE_SOURCE_DIR}/tests/kernels/races.sh ${CMAKE_BINARY_DIR})
set_tests_properties("kernels: no races between the threads of a CUDA block" PROPERTIES
  SKIP_RETURN_CODE 77 TIMEOUT 1800 LABELS cuda COST 1600
  RESOURCE_LOCK build-folder)
add_test(NAME "kernels: the cost model of a step on a GPU"
  COMMAND ${CMAKE_SOURCE_DIR}/tests/kernels/cuda_cost.py ${CMAKE_BINARY_DIR})
set_tests_properties("kernels: the cost model of a step on a GPU" PROPERTIES TIMEOUT 1800 LABELS cuda COST 1400
  RESOURCE_LOCK build-folder)
