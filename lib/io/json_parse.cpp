#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json.h"
#include "lib/io/json_events.h"

namespace comera::io {
namespace {

class Builder final : public JsonEvents {
 public:
  Builder(const std::string& file_name, int max_depth)
      : file_name_(file_name), max_depth_(static_cast<std::size_t>(max_depth)) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool integer(std::int64_t value) override { return put(value); }
  bool natural(std::uint64_t value) override { return put(value); }
  bool real(double value, const std::string& /*written*/) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool begin_object() override { return open(Json::object()); }
  bool begin_array() override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (open_.back().value.contains(name)) fail_input("{}: key \"{}\" stands there twice", file_name_, printable(name));
    open_.back().key = std::move(name);
    return true;
  }
  void failure(std::size_t byte, bool number_too_large) override {
    if (number_too_large)
      fail_input("{}: not valid JSON at byte {}: a number is too large for the format; the file is damaged", file_name_,
                 byte);
    fail_input("{}: not valid JSON at byte {}; the file is damaged or not what its name says", file_name_, byte);
  }

 private:
  struct Open {
    Json value;
    std::string key;  // key of the next member
  };

  bool put(Json&& value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().value.is_array())
      open_.back().value.push_back(std::move(value));
    else
      open_.back().value.append_member(std::move(open_.back().key), std::move(value));
    return true;
  }

  bool open(Json&& value) {
    if (open_.size() >= max_depth_) fail_input("{}: the JSON nests deeper than {} levels", file_name_, max_depth_);
    open_.push_back({std::move(value), {}});
    return true;
  }

  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }

  const std::string& file_name_;
  std::size_t max_depth_;
  std::vector<Open> open_;
  Json root_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& file_name, int max_depth) {
  Builder builder(file_name, max_depth);
  read_json_events(text, builder);
  return builder.take();
}

Json Json::parse(std::string_view text) { return parse_json(text, "the JSON text"); }

}  // namespace comera::io
