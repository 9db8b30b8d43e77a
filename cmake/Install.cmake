# Installs the program, its manual pages and its shell completion. The installed program generates the pages and
# scripts.
install(TARGETS comera RUNTIME DESTINATION bin)
set(pages ${CMAKE_BINARY_DIR}/pages)
install(CODE "
  file(REMOVE_RECURSE \"${pages}\")
  file(MAKE_DIRECTORY \"${pages}\")
  execute_process(COMMAND \"${CMAKE_BINARY_DIR}/comera\" manual man -o \"${pages}/man1\" COMMAND_ERROR_IS_FATAL ANY)
  foreach(shell bash zsh fish)
    execute_process(COMMAND \"${CMAKE_BINARY_DIR}/comera\" completion \${shell} OUTPUT_FILE \"${pages}/\${shell}\"
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")
install(DIRECTORY ${pages}/man1 DESTINATION share/man)
install(FILES ${pages}/bash DESTINATION share/bash-completion/completions RENAME comera)
install(FILES ${pages}/zsh DESTINATION share/zsh/site-functions RENAME _comera)
install(FILES ${pages}/fish DESTINATION share/fish/vendor_completions.d RENAME comera.fish)
