# The engine is tested with the optimiser of lib/train.
target_link_libraries(test_engine PRIVATE comera_train comera_cuda_emulator)
