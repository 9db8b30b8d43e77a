// Writes and reads the position of a loader as JSON, for checkpoints.

#include "lib/core/error.h"
#include "lib/data/loader.h"
#include "lib/io/json.h"

namespace comera::data {
namespace {

struct Field {
  const char* name;
  std::int64_t LoaderState::*value;
};
constexpr Field fields[] = {{"epoch", &LoaderState::epoch},   {"step", &LoaderState::step},
                            {"window", &LoaderState::window}, {"samples", &LoaderState::samples},
                            {"file", &LoaderState::file},     {"offset", &LoaderState::offset},
                            {"line", &LoaderState::line},     {"token", &LoaderState::token},
                            {"inside", &LoaderState::inside}, {"parts", &LoaderState::parts}};

}  // namespace

std::string LoaderState::to_json() const {
  io::Json json;
  for (const Field& field : fields) json[field.name] = this->*field.value;
  return json.dump();
}

LoaderState LoaderState::from_json(std::string_view text) {
  const io::Json json = io::parse_json(text, "[data] the position in the data");
  LoaderState state;
  for (const Field& field : fields) {
    if (field.value == &LoaderState::parts && json.is_object() && !json.contains(field.name)) {
      state.parts = 0;
      continue;
    }
    if (!json.is_object() || !json.contains(field.name) || !json[field.name].is_number_integer() ||
        json[field.name].get<std::int64_t>() < 0)
      fail_input("[data] the position in the data is malformed: '{}' must be a whole number, 0 or more", field.name);
    state.*field.value = json[field.name].get<std::int64_t>();
  }
  return state;
}

}  // namespace comera::data
