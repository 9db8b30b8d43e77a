include(SentencePiece)
target_link_libraries(comera_data
  PRIVATE ${PNG_ARCHIVE} ${TURBOJPEG_ARCHIVE} ZLIB::ZLIB ${ZSTD_ARCHIVE} ${UTF8PROC_ARCHIVE} ${PCRE2_ARCHIVE}
  sentencepiece)
