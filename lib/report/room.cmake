target_link_libraries(comera_report PUBLIC nlohmann_json::nlohmann_json)
target_compile_options(comera_report PRIVATE ${COMERA_LIGHT_OPTIMISATION})
