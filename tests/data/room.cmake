add_executable(tokenize_lines ${CMAKE_CURRENT_LIST_DIR}/interop/tokenize_lines.cpp)
target_link_libraries(tokenize_lines PRIVATE comera_data)
