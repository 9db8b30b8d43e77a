// Texts that are generated from an option table: help for a terminal, pages for the web and for man, completion
// scripts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/core/options/options.h"

namespace comera {

enum class HelpDepth : std::uint8_t { common, all };  // --help, --help-all

// No line is longer than `columns` (at least 40), except for longer words.
std::string help_text(const OptionTable& table, HelpDepth depth, int columns);
// An example, indented; a continued line ends with a backslash, as the shell requires.
std::string command_lines(const std::string& command, int columns);
// Returns "comera VERB MODEL [options]".
std::string usage_of(const OptionTable& table);

// A page of docs/options, and a page of section 1 of the manual.
std::string markdown_page(const OptionTable& table);
std::string man_page(const OptionTable& table, std::string_view version);
// The index pages of the whole program. They explain once what all verbs have in common.
std::string markdown_index(std::span<const OptionTable> tables);
std::string man_index(std::span<const OptionTable> tables, std::string_view version);
// File name of a page: "tokenizer train" -> "tokenizer-train".
std::string page_name(const OptionTable& table);

// `shell` is bash, zsh or fish.
std::string completion_script(std::string_view shell, std::span<const OptionTable> tables);

// Spelling of an option in help and pages ("--[no-]gauge", "--rank N", "--resume [RUN]"), and its default, "" if it
// has none.
std::string spelling_of(const Option& option);
std::string default_of(const Option& option);
// True for a flag that is on by default or whose default depends on other options. --no-NAME switches it off.
bool is_negatable(const Option& option);
// Groups in the order of the table. The group "General" comes last.
std::vector<std::string> groups_of(const OptionTable& table);

}  // namespace comera
