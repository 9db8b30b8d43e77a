// The filter tojson, declared in filters.h.
#include <algorithm>
#include <cmath>

#include "lib/data/template/filters.h"
#include "lib/data/template/operations.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const Arguments& arguments, Meter& meter) : meter_(meter) {
    const auto bound = arguments.bound({"ensure_ascii", "indent", "separators", "sort_keys"});
    ascii_ = bound[0] && is_true(*bound[0]);
    if (bound[1] && !bound[1]->is(Type::none)) {
      indented_ = true;
      indent_ = bound[1]->is(Type::text) ? bound[1]->text() : std::string(blanks(*bound[1]), ' ');
      between_ = ",";
    }
    if (bound[2] && !bound[2]->is(Type::none)) {
      if (!bound[2]->is(Type::list) || bound[2]->list().items.size() != 2)
        fail_template("the separators of tojson must be two texts");
      between_ = text_required(bound[2]->list().items[0], "a separator of tojson");
      colon_ = text_required(bound[2]->list().items[1], "a separator of tojson");
    }
    sorts_ = bound[3] && is_true(*bound[3]);
  }

  std::string write(const Value& value) {
    append(value, 0);
    return std::move(out_);
  }

 private:
  static std::size_t blanks(const Value& value) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(whole_of(value, "the indentation of tojson"), 0, 1000));
  }

  void append(const Value& value, std::size_t level) {
    meter_.step();
    meter_.append(out_.size(), 0);
    switch (value.type()) {
      case Type::none: out_ += "null"; break;
      case Type::boolean: out_ += value.flag() ? "true" : "false"; break;
      case Type::integer: out_ += fmt::format("{}", value.whole()); break;
      case Type::real: append_real(value); break;
      case Type::text: append_text(value.text()); break;
      case Type::list: append_list(value.list().items, level); break;
      case Type::dict: append_dict(value.dict().members, level); break;
      default: require_defined(value); fail_template("a {} cannot be written as JSON", type_name(value));
    }
  }

  void append_real(const Value& value) {
    const double number = value.real();
    out_ += std::isnan(number)   ? "NaN"
            : std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity")
                                 : repr_of(value, meter_);
  }

  void append_text(const std::string& text) {
    meter_.append(out_.size(), text.size());
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const std::uint32_t point = next_code_point(text, at);
      constexpr std::string_view plain = "\"\\\n\r\t\b\f", written = "\"\\nrtbf";
      if (const std::size_t place = point < 0x80 ? plain.find(static_cast<char>(point)) : plain.npos;
          place != plain.npos)
        (out_ += '\\') += written[place];
      else if (point < 0x20 || (ascii_ && point >= 0x7F))
        append_escape(point);
      else
        out_.append(text, begin, at - begin);
    }
    out_ += '"';
  }

  void append_escape(std::uint32_t point) {
    if (point == 0x7F) {
      out_ += '\x7F';
    } else if (point < 0x10000) {
      out_ += fmt::format("\\u{:04x}", point);
    } else {
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF));
    }
  }

  void new_line(std::size_t level) {
    if (!indented_) return;
    meter_.append(out_.size(), level * indent_.size());
    out_ += '\n';
    for (std::size_t i = 0; i < level; ++i) out_ += indent_;
  }

  void append_list(const std::vector<Value>& items, std::size_t level) {
    if (items.empty()) return void(out_ += "[]");
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += between_;
      new_line(level + 1);
      append(items[i], level + 1);
    }
    new_line(level);
    out_ += ']';
  }

  void append_dict(const Members& given, std::size_t level) {
    if (given.empty()) return void(out_ += "{}");
    Members members = given;
    if (sorts_)
      std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    out_ += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out_ += between_;
      new_line(level + 1);
      append_text(members[i].first);
      out_ += colon_;
      append(members[i].second, level + 1);
    }
    new_line(level);
    out_ += '}';
  }

  Meter& meter_;
  bool ascii_ = false, indented_ = false, sorts_ = false;
  std::string indent_, between_ = ", ", colon_ = ": ", out_;
};

}  // namespace

Value to_json(const Value& value, const Arguments& arguments, Context& context) {
  return JsonWriter(arguments, context.meter).write(value);
}

}  // namespace comera::data::jinja
