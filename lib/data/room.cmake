include(SentencePiece)
target_link_libraries(comera_data PRIVATE nlohmann_json::nlohmann_json ZLIB::ZLIB PkgConfig::ZSTD PkgConfig::UTF8PROC sentencepiece)
