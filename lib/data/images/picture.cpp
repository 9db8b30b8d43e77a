#include "lib/data/images/picture.h"

#include <turbojpeg.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/data/images/orientation.h"
#include "lib/data/images/png_reader.h"

namespace comera::data {
namespace {

using Bytes = std::span<const std::byte>;

bool begins(Bytes bytes, std::initializer_list<int> with) {
  return bytes.size() >= with.size() && std::equal(with.begin(), with.end(), bytes.begin(), [](int want, std::byte is) {
           return static_cast<std::byte>(want) == is;
         });
}

// A file that was cut off lacks its end marker. Some programs write other bytes behind it.
void check_end(Bytes bytes, std::string_view marker, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.rfind(marker) == std::string_view::npos)
    fail_input("[data] {}: ends within the image; the file is truncated", name);
}

void check_size(const Image& image, const std::string& name) {
  if (image.width < 1 || image.height < 1) fail_input("[data] {}: has no pixels", name);
  if (image.width > most_pixels / image.height)
    fail_input("[data] {}: has {} x {} pixels; at most {} are read, make the image smaller", name, image.width,
               image.height, most_pixels);
}

class Jpeg {
 public:
  static constexpr std::string_view end = "\xff\xd9";

  Jpeg(Bytes bytes, const std::string& name)
      : bytes_(bytes), name_(name), decoder_(tjInitDecompress(), [](tjhandle handle) { tjDestroy(handle); }) {
    if (!decoder_) fail_run("[data] {}: libjpeg-turbo does not start", name);
    int chroma = 0, colours = 0, width = 0, height = 0;
    if (tjDecompressHeader3(decoder_.get(), data(), bytes.size(), &width, &height, &chroma, &colours) != 0) fail();
    inks_ = colours == TJCS_CMYK || colours == TJCS_YCCK;
    header_ = {width, height, colours == TJCS_GRAY ? 1 : 3, {}};
  }

  const Image& header() const { return header_; }

  Image read() {
    Image image = header_;
    const std::int64_t stored = inks_ ? 4 : image.channels, count = image.width * image.height;
    image.pixels.resize(static_cast<std::size_t>(count * stored));
    constexpr int flags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
    const int format = inks_ ? TJPF_CMYK : image.channels == 1 ? TJPF_GRAY : TJPF_RGB;
    if (tjDecompress2(decoder_.get(), data(), bytes_.size(), image.pixels.data(), static_cast<int>(image.width), 0,
                      static_cast<int>(image.height), format, flags) != 0 &&
        !harmless())
      fail();
    if (inks_) make_colours(image.pixels);
    return image;
  }

 private:
  // From cyan, magenta, yellow and black to red, green and blue. Files hold 255 less each, as Adobe's programs write.
  static void make_colours(std::vector<std::uint8_t>& pixels) {
    const std::size_t count = pixels.size() / 4;
    for (std::size_t i = 0; i < count; ++i) {
      const int black = pixels[4 * i + 3];
      for (std::size_t c = 0; c < 3; ++c) {
        const int product = (255 - pixels[4 * i + c]) * black + 128;
        pixels[3 * i + c] = static_cast<std::uint8_t>(std::max(0, black - (((product >> 8) + product) >> 8)));
      }
    }
    pixels.resize(3 * count);
  }

  // True if the decoder warned of what costs no pixel: surplus bytes before a marker, or parameters of progressive
  // files in the header of a sequential one. It tells its first warning alone.
  bool harmless() const {
    if (tjGetErrorCode(decoder_.get()) != TJERR_WARNING) return false;
    const std::string_view text = tjGetErrorStr2(decoder_.get());
    return text.find("extraneous bytes") != std::string_view::npos || text.starts_with("Invalid SOS parameters");
  }

  const unsigned char* data() const { return reinterpret_cast<const unsigned char*>(bytes_.data()); }
  [[noreturn]] void fail() {
    fail_input("[data] {}: is a damaged JPEG: {}", name_, printable(tjGetErrorStr2(decoder_.get())));
  }

  Bytes bytes_;
  const std::string& name_;
  std::unique_ptr<void, void (*)(tjhandle)> decoder_;
  Image header_;
  bool inks_ = false;  // the four colours of printing
};

template <class Use>
Image with_reader(Bytes bytes, const std::string& name, const Use& use) {
  if (begins(bytes, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'})) {
    PngReader png(bytes, name);
    check_size(png.header(), name);
    return use(png, png_orientation(bytes));
  }
  if (begins(bytes, {0xff, 0xd8, 0xff})) {
    Jpeg jpeg(bytes, name);
    check_size(jpeg.header(), name);
    return use(jpeg, jpeg_orientation(bytes));
  }
  fail_input("[data] {}: is no PNG and no JPEG; convert it or remove it", name);
}

}  // namespace

Image picture_header(Bytes bytes, const std::string& name) {
  return with_reader(bytes, name, [&](auto& reader, int orientation) {
    check_end(bytes, reader.end, name);
    Image header = reader.header();
    if (turns_sideways(orientation)) std::swap(header.width, header.height);
    return header;
  });
}

Image decode_picture(Bytes bytes, const std::string& name) {
  return with_reader(bytes, name, [](auto& reader, int orientation) { return upright(reader.read(), orientation); });
}

}  // namespace comera::data
