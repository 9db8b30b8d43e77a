#include "lib/report/output/label_places.h"

#include <algorithm>

#include "lib/report/output/svg.h"

namespace comera::report {
namespace {

constexpr double line = 12, mark = 4, gap = 3;

bool overlap(const LabelPlaces::Box& a, const LabelPlaces::Box& b) {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height;
}

bool inside(const LabelPlaces::Box& a, const LabelPlaces::Box& picture) {
  return a.left >= picture.left && a.left + a.width <= picture.left + picture.width && a.top >= picture.top &&
         a.top + a.height <= picture.top + picture.height;
}

}  // namespace

void LabelPlaces::keep_free(double x, double y) { taken_.push_back({x - mark, y - mark, 2 * mark, 2 * mark}); }

std::optional<LabelPlaces::Point> LabelPlaces::place(double x, double y, std::size_t characters) {
  const double width = character_width * static_cast<double>(characters), beside = mark + gap;
  const double right = x + beside, left = x - beside - width, middle = x - width / 2, above = -line, below = line;
  const Point moves[] = {{right, 0},     {left, 0},      {middle, above}, {middle, below},
                         {right, above}, {right, below}, {left, above},   {left, below}};
  for (const Point& move : moves) {
    const Box box{move.x, y - line / 2 + move.y, width, line};
    if (!inside(box, picture_)) continue;
    if (std::any_of(taken_.begin(), taken_.end(), [&](const Box& other) { return overlap(box, other); })) continue;
    taken_.push_back(box);
    return Point{box.left, box.top + line - gap};
  }
  return std::nullopt;
}

}  // namespace comera::report
