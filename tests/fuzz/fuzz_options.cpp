// Reads any bytes as a --config file. Either an error with a message, or values that survive --dump-config.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/core/options/options.h"

using namespace comera;

namespace {

OptionTable table() {
  OptionTable table("pretrain", "learn");
  table.add({{.name = "rank", .type = OptionType::integer, .default_text = "16", .help = "rank", .minimum = 1},
             {.name = "lr", .type = OptionType::real, .help = "rate"},
             {.name = "form", .type = OptionType::choice, .help = "form", .choices = {"dense", "tt"}},
             {.name = "data", .type = OptionType::list, .help = "files"},
             {.name = "target-size", .type = OptionType::size, .help = "size"},
             {.name = "save-every", .type = OptionType::period, .help = "period"},
             {.name = "label", .type = OptionType::string, .help = "column"},
             {.name = "shuffle", .type = OptionType::flag, .help = "shuffle"}});
  return table;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const OptionTable options = table();
  try {
    OptionValues values(options), again(options);
    apply_toml(values, {reinterpret_cast<const char*>(data), size}, "input");
    apply_toml(again, to_toml(values), "dump");
    for (const std::string& name : options.names())
      if (values.canonical(name) != again.canonical(name)) std::abort();
  } catch (const InputError& error) {
    if (std::string_view(error.what()).find("dump") != std::string_view::npos &&
        std::string_view(error.what()).starts_with("[pretrain] dump"))
      std::abort();
  }
  return 0;
}
