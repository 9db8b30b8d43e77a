#include "lib/compress/refine/block_outcome.h"

#include "lib/core/error.h"

namespace comera::compress {

io::Json to_json(const BlockOutcome& outcome) {
  return {{"block", outcome.block},
          {"error_before", outcome.before},
          {"error_after", outcome.after},
          {"judged_error_before", outcome.judged_before},
          {"judged_error_after", outcome.judged_after},
          {"kept", outcome.kept},
          {"seconds", outcome.seconds}};
}

BlockOutcome block_outcome_from(const io::Json& json, const std::string& file) {
  try {
    return {json.at("block").get<std::size_t>(),
            json.at("error_before").get<double>(),
            json.at("error_after").get<double>(),
            json.at("judged_error_before").get<double>(),
            json.at("judged_error_after").get<double>(),
            json.at("kept").get<bool>(),
            json.at("seconds").get<double>()};
  } catch (const io::JsonError& error) {
    fail_input("{}: is no refined block of this program: {}; remove the folder and start again", file, error.what());
  }
}

}  // namespace comera::compress
