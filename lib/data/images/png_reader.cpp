#include "lib/data/images/png_reader.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::data {

// libpng ends a call that fails by longjmp to guarded(). Functions that it may leave this way have only trivial locals.
struct PngReader::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { png_destroy_read_struct(&png, &info, nullptr); }

  static void on_error(png_structp png, png_const_charp message) {
    auto& state = *static_cast<State*>(png_get_error_ptr(png));
    const std::string_view text(message);
    std::copy_n(text.begin(), std::min(text.size(), state.message.size() - 1), state.message.begin());
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}
  static void on_read(png_structp png, png_bytep out, std::size_t count) {
    auto& state = *static_cast<State*>(png_get_io_ptr(png));
    if (count > state.rest.size()) png_error(png, "the file ends within the image");
    std::copy_n(reinterpret_cast<const png_byte*>(state.rest.data()), count, out);
    state.rest = state.rest.subspan(count);
  }

  std::span<const std::byte> rest;
  std::array<char, 200> message{};
  png_structp png = nullptr;
  png_infop info = nullptr;
};

template <class Call>
void PngReader::guarded(const Call& call) {
  if (setjmp(png_jmpbuf(state_->png)) == 0)
    call();
  else
    fail_input("[data] {}: is a damaged PNG: {}", name_, printable(state_->message.data()));
}

PngReader::PngReader(std::span<const std::byte> bytes, const std::string& name)
    : name_(name), state_(std::make_shared<State>()) {
  state_->rest = bytes;
  state_->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, state_.get(), State::on_error, State::on_warning);
  if (state_->png) state_->info = png_create_info_struct(state_->png);
  if (!state_->info) fail_run("[data] {}: libpng does not start; memory may be short", name);
  guarded([&] { read_header(); });
}

void PngReader::read_header() {
  png_structp png = state_->png;
  png_infop info = state_->info;
  png_set_read_fn(png, state_.get(), State::on_read);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);             // the caller checks the size
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // gAMA, iCCP and all that is like them
  png_read_info(png, info);
  const int colours = png_get_color_type(png, info);
  header_.width = png_get_image_width(png, info), header_.height = png_get_image_height(png, info);
  header_.channels = (colours & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
  indexed_ = colours == PNG_COLOR_TYPE_PALETTE;
  if (indexed_) png_set_packing(png);
  if (colours == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
}

Image PngReader::read() {
  Image image = header_;
  if (indexed_) image.channels = 1;
  image.pixels.resize(static_cast<std::size_t>(image.width * image.height * image.channels));
  guarded([&] { read_lines(image); });
  return indexed_ ? with_palette(image) : image;
}

Image PngReader::with_palette(const Image& indices) const {
  png_colorp palette = nullptr;
  int colours = 0;
  png_get_PLTE(state_->png, state_->info, &palette, &colours);
  Image image = header_;
  image.pixels.reserve(3 * indices.pixels.size());
  for (const std::uint8_t index : indices.pixels) {
    if (index >= colours)
      fail_input("[data] {}: is a damaged PNG: a pixel has colour {} of a palette of {}", name_, index, colours);
    for (const png_byte value : {palette[index].red, palette[index].green, palette[index].blue})
      image.pixels.push_back(value);
  }
  return image;
}

// An interlaced file gives some pixels of a line per pass, and keeps the others.
void PngReader::read_lines(Image& image) {
  png_structp png = state_->png;
  png_infop info = state_->info;
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const std::int64_t line = image.width * image.channels;
  COMERA_CHECK(static_cast<std::int64_t>(png_get_rowbytes(png, info)) == line);
  for (int pass = 0; pass < passes; ++pass)
    for (std::int64_t y = 0; y < image.height; ++y) png_read_row(png, image.pixels.data() + y * line, nullptr);
}

}  // namespace comera::data
