# Models are tested on devices, in training and with a teacher too.
target_link_libraries(test_models PRIVATE comera_train comera_cuda_emulator)
