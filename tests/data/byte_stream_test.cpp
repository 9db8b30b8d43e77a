#include "lib/data/files/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/data/files/line_reader.h"
#include "tests/data/scratch.h"

using namespace comera::data;

namespace {

std::string gzip(const std::string& text) {
  z_stream state{};
  REQUIRE(deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(text.size() + 100, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&state, Z_FINISH) == Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string read_all(const std::string& path) {
  const auto stream = ByteStream::open(path);
  std::string text, part(1 << 16, '\0');
  while (const std::size_t got = stream->read(part.data(), part.size())) text.append(part, 0, got);
  return text;
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "line " + std::to_string(i * 7919 % 100003) + "\n";
  return text;
}

}  // namespace

TEST_CASE("byte stream: plain, gzip and zstd files give the same bytes, recognised by content and not by name") {
  const Scratch scratch;
  const std::string text = long_text();
  CHECK(read_all(scratch.write("a", text)) == text);
  CHECK(read_all(scratch.write("b", gzip(text))) == text);
  CHECK(read_all(scratch.write("c", zstd(text))) == text);
  CHECK(read_all(scratch.write("d", gzip("one\n") + gzip(text))) == "one\n" + text);  // several members
  CHECK(read_all(scratch.write("e", zstd("one\n") + zstd(text))) == "one\n" + text);  // several frames
  CHECK(read_all(scratch.write("f", "")) == "");
  CHECK(read_all(scratch.write("g", "ab")) == "ab");
}

TEST_CASE("byte stream: reading can start anywhere in the unpacked bytes") {
  const Scratch scratch;
  const std::string text = long_text();
  for (const std::string& packed : {text, gzip(text), zstd(text)}) {
    const std::string path = scratch.write("x", packed);
    std::vector<std::pair<std::uint64_t, std::string>> lines;
    LineReader reader(path);
    std::string_view line;
    for (std::uint64_t at = 0; reader.next(line); at = reader.offset()) lines.emplace_back(at, line);
    REQUIRE(lines.size() == 100000);
    for (std::size_t i : {0, 1, 17, 54321, 99999}) {
      LineReader again(path, lines[i].first, static_cast<std::int64_t>(i));
      REQUIRE(again.next(line));
      CHECK(line == lines[i].second);
      CHECK(again.line() == static_cast<std::int64_t>(i) + 1);
    }
    CHECK_THROWS_WITH(LineReader(path, text.size() + 1, 0), Catch::Contains("the file has changed"));
  }
}

TEST_CASE("line reader: line ends and a byte order mark are removed, and nothing else") {
  const Scratch scratch;
  LineReader reader(scratch.write("x", "\xEF\xBB\xBFone\r\n\n two \nlast"));
  std::string_view line;
  for (const char* wanted : {"one", "", " two ", "last"}) {
    REQUIRE(reader.next(line));
    CHECK(line == wanted);
  }
  CHECK(reader.line() == 4);
  CHECK_FALSE(reader.next(line));
}

TEST_CASE("line reader: a long line comes in parts, and reading can start at each") {
  const Scratch scratch;
  std::string line, text = "short\r\n";
  for (int i = 0; i < 1000; ++i)
    line += (i ? " " : "") + std::string(i % 3 == 0 ? "\xC3\xA9t\xC3\xA9" : "word") + std::to_string(i);
  text += line + "\r\n" + line + "\nlast";
  const std::string path = scratch.write("x.txt", text);
  struct Part {
    std::uint64_t offset;
    std::int64_t lines;
    std::string text;
    bool ended;
  };
  std::vector<Part> parts;
  LineReader reader(path);
  std::string_view part;
  for (Part at{0, 0, "", true}; reader.next(part, 100, cut_at_blank);
       at = {reader.offset(), reader.lines_before(), "", true})
    parts.push_back({at.offset, at.lines, std::string(part), reader.line_ended()});
  std::vector<std::string> lines(1);
  for (const Part& one : parts) {
    CHECK(one.text.size() <= 100);
    lines.back() += one.text;
    one.ended ? lines.emplace_back() : lines.back() += " ";
  }
  CHECK(lines == std::vector<std::string>{"short", line, line, "last", ""});
  for (std::size_t i = 0; i < parts.size(); i += 7) {
    LineReader again(path, parts[i].offset, parts[i].lines);
    REQUIRE(again.next(part, 100, cut_at_blank));
    CHECK(part == parts[i].text);
    CHECK(again.lines_before() == (parts[i].ended ? parts[i].lines + 1 : parts[i].lines));
  }
  LineReader whole(path);
  REQUIRE(whole.next(part, 100, nullptr));
  CHECK_THROWS_WITH(whole.next(part, 100, nullptr), Catch::Contains("x.txt: line 2: is longer than"));
  // No blank: the cut is at any character.
  LineReader letters(scratch.write("y.txt", std::string(1000, 'x') + "\xC3\xA9\xFF"));
  std::string all;
  const auto read = [&] {
    for (std::string_view next; letters.next(next, 64, cut_at_blank);) all += next;
  };
  CHECK_THROWS_WITH(read(), Catch::Contains("y.txt: line 1: byte 1003 (0xFF) is not UTF-8"));
  CHECK(all.size() >= 940);
}

TEST_CASE("a packed file that unpacks to far more than text does is refused before it fills the memory") {
  const Scratch scratch;
  const std::string rows(std::size_t{100} << 20, 'x');
  for (const std::string& path : {scratch.write("a.gz", gzip(rows)), scratch.write("a.zst", zstd(rows))}) {
    const auto stream = ByteStream::open(path);
    std::string part(1 << 20, '\0');
    std::uint64_t got = 0;
    const auto read = [&] {
      while (const std::size_t n = stream->read(part.data(), part.size())) got += n;
    };
    CHECK_THROWS_WITH(read(),
                      Catch::Contains("unpacks to more than 200 times its size") && Catch::Contains("unpack it first"));
    CHECK(got <= ByteStream::free_bytes + part.size());
  }
  CHECK(read_all(scratch.write("b.gz", gzip(std::string(std::size_t{60} << 20, 'x')))).size() == std::size_t{60} << 20);
}

TEST_CASE("byte stream: errors for damaged, truncated, missing and foreign files name the file") {
  const Scratch scratch;
  const std::string text = long_text(), gz = gzip(text), zst = zstd(text);
  CHECK_THROWS_WITH(read_all(scratch.write("a.gz", gz.substr(0, gz.size() / 2))),
                    Catch::Contains("a.gz: ends in the middle"));
  CHECK_THROWS_WITH(read_all(scratch.write("a.zst", zst.substr(0, zst.size() / 2))),
                    Catch::Contains("a.zst: ends in the middle"));
  std::string bad = gz;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 0x5A);
  CHECK_THROWS_WITH(read_all(scratch.write("b.gz", bad)), Catch::Contains("b.gz: its gzip data is damaged"));
  bad = zst;
  for (std::size_t i = bad.size() / 2; i < bad.size() / 2 + 64; ++i) bad[i] = static_cast<char>(0xFF);
  CHECK_THROWS_WITH(read_all(scratch.write("b.zst", bad)), Catch::Contains("b.zst: its zstd data is damaged"));
  CHECK_THROWS_WITH(read_all(scratch.path("none")), Catch::Contains("none: cannot be read: No such file"));
  CHECK_THROWS_WITH(read_all(scratch.path("")), Catch::Contains("is a folder"));
  LineReader reader(scratch.write("latin1", "fine\nna\xEFve\n"));
  std::string_view line;
  REQUIRE(reader.next(line));
  CHECK_THROWS_WITH(reader.next(line), Catch::Contains("latin1: line 2: byte 3 (0xEF) is not UTF-8"));
}
