add_executable(tokenize_lines ${CMAKE_CURRENT_LIST_DIR}/interop/tokenize_lines.cpp)
target_link_libraries(tokenize_lines PRIVATE comera_data)
add_executable(render_templates ${CMAKE_CURRENT_LIST_DIR}/interop/render_templates.cpp)
target_link_libraries(render_templates PRIVATE comera_data)
add_executable(read_images ${CMAKE_CURRENT_LIST_DIR}/interop/read_images.cpp)
target_link_libraries(read_images PRIVATE comera_data)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/template_test.cpp PROPERTIES
  COMPILE_DEFINITIONS "TEMPLATES=\"${CMAKE_CURRENT_LIST_DIR}/templates\"")
