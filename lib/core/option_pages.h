// Text made from an option table: help for a terminal, pages for the web and for man, completion scripts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/core/options.h"

namespace comera {

enum class HelpDepth : std::uint8_t { common, all };  // --help, --help-all

// No line is longer than `columns` (least 60), words that are longer excepted.
std::string help_text(const OptionTable& table, HelpDepth depth, int columns);
// "usage: comera VERB MODEL [options]", without the first word.
std::string usage_of(const OptionTable& table);

// A page of docs/options, and one of section 1 of the manual.
std::string markdown_page(const OptionTable& table);
std::string man_page(const OptionTable& table, std::string_view version);
// The same of the whole program: what stands in all verbs is told once.
std::string markdown_index(std::span<const OptionTable> tables);
std::string man_index(std::span<const OptionTable> tables, std::string_view version);
// "tokenizer train" -> "tokenizer-train": of files.
std::string page_name(const OptionTable& table);

// `shell` is bash, zsh or fish.
std::string completion_script(std::string_view shell, std::span<const OptionTable> tables);

// An option as help and pages spell it: "--[no-]gauge", "--rank N", "--resume [RUN]"; and its default, "" where it has
// none.
std::string spelling_of(const Option& option);
std::string default_of(const Option& option);
// A flag that is on, or whose default depends on other options, is switched off by --no-NAME.
bool is_negatable(const Option& option);
// Groups in the order of the table, that of every verb last.
std::vector<std::string> groups_of(const OptionTable& table);

}  // namespace comera
