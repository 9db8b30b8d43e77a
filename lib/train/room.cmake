target_link_libraries(comera_train PUBLIC nlohmann_json::nlohmann_json PRIVATE PkgConfig::TOMLPLUSPLUS)
