# A test reads a published checkpoint.
target_link_libraries(test_tt PRIVATE comera_io)
