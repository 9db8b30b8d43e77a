// Converts the progress of rank adaptation to and from JSON, for checkpoints.

#include "lib/train/rank_adaptation.h"
#include "lib/train/whole_number.h"

namespace comera::train {

std::string RankProgress::to_json() const {
  return io::Json{{"cut", cut},
                  {"fallen", fallen},
                  {"first_loss", first_loss},
                  {"late", late},
                  {"late_deadline", late_deadline},
                  {"late_size", late_size},
                  {"late_step", late_step},
                  {"reached", reached},
                  {"recent", recent},
                  {"surrogate_start", surrogate_start},
                  {"target_loss", target_loss},
                  {"target_size", target_size}}
      .dump();
}

RankProgress RankProgress::from_json(const std::string& text) {
  const io::Json json = io::parse_json(text, "[run] the progress of ranks");
  RankProgress progress;
  json.at("late").get_to(progress.late);
  json.at("reached").get_to(progress.reached);
  json.at("target_loss").get_to(progress.target_loss);
  json.at("target_size").get_to(progress.target_size);
  json.at("surrogate_start").get_to(progress.surrogate_start);
  progress.late_step = whole_number(json.at("late_step"));
  json.at("late_size").get_to(progress.late_size);
  if (json.contains("late_deadline")) progress.late_deadline = whole_number(json["late_deadline"]);
  json.at("recent").get_to(progress.recent);
  if (json.contains("first_loss")) json["first_loss"].get_to(progress.first_loss);
  if (json.contains("fallen")) progress.fallen = whole_number(json["fallen"]);  // version 1 did not count them
  if (json.contains("cut")) progress.cut = whole_number(json["cut"]);
  return progress;
}

}  // namespace comera::train
