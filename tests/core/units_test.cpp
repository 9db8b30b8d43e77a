#include "lib/core/units.h"

#include <catch2/catch.hpp>

#include "lib/core/reals.h"

using namespace comera;

TEST_CASE("units: a number must be valid as a whole") {
  CHECK(parse_integer("42") == 42);
  CHECK(parse_integer("-7") == -7);
  CHECK(parse_integer("1_000_000") == 1000000);
  for (const char* text : {"", "4.5", "4x", " 4", "_4", "99999999999999999999"}) CHECK_FALSE(parse_integer(text));
  CHECK(parse_real("2.9e-4") == 2.9e-4);
  for (const char* text : {"", "inf", "nan", "1e999", "0x10", "1,5"}) CHECK_FALSE(parse_real(text));
}

TEST_CASE("units: the name of a unit decides between decimal and binary") {
  CHECK(parse_size("4096") == 4096u);
  CHECK(parse_size("1.5MB") == 1500000u);
  CHECK(parse_size("2GiB") == 2147483648u);
  CHECK(parse_size("1 KiB") == 1024u);
  for (const char* text : {"", "1.5", "-1", "MB", "3XB", "1e3MB", "99999999TiB"}) CHECK_FALSE(parse_size(text));
}

TEST_CASE("units: periods") {
  using Unit = Period::Unit;
  CHECK(parse_period("500") == Period{Unit::steps, 500});
  CHECK(parse_period("2e") == Period{Unit::epochs, 2});
  CHECK(parse_period("0.5e") == Period{Unit::epochs, 0.5});
  CHECK(parse_period("20m") == Period{Unit::seconds, 1200});
  CHECK(parse_period("8h") == Period{Unit::seconds, 28800});
  CHECK(parse_period("90s") == Period{Unit::seconds, 90});
  for (const char* text : {"", "1.5", "-3", "4x", "h"}) CHECK_FALSE(parse_period(text));
  for (const char* text : {"500", "2e", "20m", "8h", "90s", "1d", "0.25e", "1.5h", "7.5s"})
    CHECK(parse_period(to_string(*parse_period(text))) == parse_period(text));
}

TEST_CASE("units: numbers for readers") {
  CHECK(format_bytes(812) == "812 B");
  CHECK(format_bytes(851443712) == "812 MiB");
  CHECK(format_bytes(1503238554) == "1.40 GiB");
  CHECK(format_count(97123) == "97.1k");
  CHECK(format_count(1485795) == "1.49M");
  CHECK(format_count(12) == "12");
  CHECK(format_seconds(200) == "3m20s");
  CHECK(format_seconds(0.42) == "0.42s");
  CHECK(format_seconds(3900) == "1h05m");
  CHECK(parse_real(format_real(0.1)) == 0.1);
  CHECK(format_real(16) == "16");
}

TEST_CASE("units: real numbers have one spelling, whole or rounded, that reads back") {
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{{5e-5, "5e-5"},
                                                                               {0.00005, "5e-5"},
                                                                               {2.9e-4, "2.9e-4"},
                                                                               {0.001, "0.001"},
                                                                               {0.0123, "0.0123"},
                                                                               {-1e-6, "-1e-6"},
                                                                               {1e-12, "1e-12"},
                                                                               {0, "0"},
                                                                               {1.5, "1.5"},
                                                                               {1e6, "1000000"},
                                                                               {1.5e20, "1.5e20"}}) {
    CHECK(format_real(value) == text);
    CHECK(parse_real(format_real(value)) == value);
  }
  CHECK(format_digits(2.9437e-4, 2) == "2.9e-4");
  CHECK(format_digits(0.0020001, 2) == "0.002");
  CHECK(format_digits(3.14159, 3) == "3.14");
  CHECK(format_digits(99999.4, 4) == "100000");
  CHECK(format_digits(1.5e7, 3) == "1.5e7");
  CHECK(format_digits(0, 2) == "0");
  CHECK(format_digits(std::numeric_limits<double>::infinity(), 2) == "inf");
}
