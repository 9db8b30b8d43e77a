#include "lib/io/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/log.h"

namespace comera::io {

Json parse_json(std::string_view text, const std::string& file_name, int max_depth) {
  using Event = Json::parse_event_t;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Event event, Json& parsed) {
    if (depth >= max_depth && (event == Event::object_start || event == Event::array_start))
      fail_input("{}: the JSON nests deeper than {} levels", file_name, max_depth);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      fail_input("{}: key \"{}\" stands there twice", file_name, printable(parsed.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    fail_input("{}: not valid JSON at byte {}; the file is damaged or not what its name says", file_name, error.byte);
  } catch (const Json::exception& error) {
    fail_input("{}: not valid JSON: {}", file_name, printable(error.what()));
  }
}

std::string json_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace comera::io
