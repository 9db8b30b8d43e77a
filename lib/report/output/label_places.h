// Places for the names of points in a chart, so that no name covers another name or a point.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace comera::report {

class LabelPlaces {
 public:
  struct Box {
    double left, top, width, height;
  };
  struct Point {
    double x, y;  // of the left end of the text's base line
  };

  explicit LabelPlaces(Box picture) : picture_(picture) {}
  // A point that no name may cover.
  void keep_free(double x, double y);
  // A place beside the point for a text of so many characters; none if there is no room.
  std::optional<Point> place(double x, double y, std::size_t characters);

 private:
  Box picture_;
  std::vector<Box> taken_;
};

}  // namespace comera::report
