#include "lib/data/images/picture.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <memory>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

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

// libpng's simplified interface, which reports errors as texts.
class Png {
 public:
  static constexpr std::string_view end = "IEND";

  Png(Bytes bytes, const std::string& name) : name_(name) {
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()) == 0) fail();
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    colours_ = (image_.format & PNG_FORMAT_FLAG_COLOR) != 0;
    alpha_ = (image_.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  ~Png() { png_image_free(&image_); }

  Image header() const { return {image_.width, image_.height, colours_ ? 3 : 1, {}}; }

  Image read() {
    Image image = header();
    const std::int64_t stored = image.channels + (alpha_ ? 1 : 0), count = image.width * image.height;
    image_.format = (colours_ ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) | (alpha_ ? PNG_FORMAT_FLAG_ALPHA : 0);
    image.pixels.resize(static_cast<std::size_t>(count * stored));
    if (png_image_finish_read(&image_, nullptr, image.pixels.data(), 0, nullptr) == 0) fail();
    if (PNG_IMAGE_FAILED(image_)) fail();
    if (!alpha_) return image;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t c = 0; c < image.channels; ++c)
        image.pixels[static_cast<std::size_t>(i * image.channels + c)] =
            image.pixels[static_cast<std::size_t>(i * stored + c)];
    image.pixels.resize(static_cast<std::size_t>(count * image.channels));
    return image;
  }

 private:
  [[noreturn]] void fail() const { fail_input("[data] {}: is a damaged PNG: {}", name_, printable(image_.message)); }

  const std::string& name_;
  png_image image_{};
  bool colours_ = false, alpha_ = false;
};

class Jpeg {
 public:
  static constexpr std::string_view end = "\xff\xd9";

  Jpeg(Bytes bytes, const std::string& name)
      : bytes_(bytes), name_(name), decoder_(tjInitDecompress(), [](tjhandle handle) { tjDestroy(handle); }) {
    if (!decoder_) fail_run("[data] {}: libjpeg-turbo does not start", name);
    int chroma = 0, colours = 0, width = 0, height = 0;
    if (tjDecompressHeader3(decoder_.get(), data(), bytes.size(), &width, &height, &chroma, &colours) != 0) fail();
    if (colours == TJCS_CMYK || colours == TJCS_YCCK)
      fail_input("[data] {}: is a JPEG in the four colours of printing; gray or red, green and blue are wanted", name);
    header_ = {width, height, colours == TJCS_GRAY ? 1 : 3, {}};
  }

  const Image& header() const { return header_; }

  Image read() {
    Image image = header_;
    image.pixels.resize(static_cast<std::size_t>(image.width * image.height * image.channels));
    constexpr int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    if (tjDecompress2(decoder_.get(), data(), bytes_.size(), image.pixels.data(), static_cast<int>(image.width), 0,
                      static_cast<int>(image.height), image.channels == 1 ? TJPF_GRAY : TJPF_RGB, flags) != 0)
      fail();
    return image;
  }

 private:
  const unsigned char* data() const { return reinterpret_cast<const unsigned char*>(bytes_.data()); }
  [[noreturn]] void fail() {
    fail_input("[data] {}: is a damaged JPEG: {}", name_, printable(tjGetErrorStr2(decoder_.get())));
  }

  Bytes bytes_;
  const std::string& name_;
  std::unique_ptr<void, void (*)(tjhandle)> decoder_;
  Image header_;
};

template <class Use>
Image with_reader(Bytes bytes, const std::string& name, const Use& use) {
  if (begins(bytes, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'})) {
    Png png(bytes, name);
    check_size(png.header(), name);
    return use(png);
  }
  if (begins(bytes, {0xff, 0xd8, 0xff})) {
    Jpeg jpeg(bytes, name);
    check_size(jpeg.header(), name);
    return use(jpeg);
  }
  fail_input("[data] {}: is no PNG and no JPEG; convert it or remove it", name);
}

}  // namespace

Image picture_header(Bytes bytes, const std::string& name) {
  return with_reader(bytes, name, [&](auto& reader) {
    check_end(bytes, reader.end, name);
    return Image(reader.header());
  });
}

Image decode_picture(Bytes bytes, const std::string& name) {
  return with_reader(bytes, name, [](auto& reader) { return reader.read(); });
}

}  // namespace comera::data
