#include "lib/data/files/byte_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/files/regular_file.h"
#include "lib/core/terminal/stop.h"
#include "lib/data/files/format.h"
#include "lib/io/file_kind.h"

namespace comera::data {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 18;
constexpr std::size_t longest_magic = 10;  // of those that are looked for

class Plain final : public ByteStream {
 public:
  explicit Plain(const std::string& path) : path_(path), fd_(open_regular(path)) {
    if (fd_ < 0) fail_input("[data] {}: cannot be read: {}", path, std::strerror(errno));
  }
  Plain(const char* name, int fd) : path_(name), fd_(fd), borrowed_(true) {}
  ~Plain() override {
    if (!borrowed_) ::close(fd_);
  }

  std::size_t read(char* out, std::size_t size) override {
    for (;;) {
      if (borrowed_) wait();
      const ssize_t n = ::read(fd_, out, size);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR) fail_input("[data] {}: cannot be read: {}", path_, std::strerror(errno));
    }
  }

  void skip(std::uint64_t bytes) override {
    struct stat info {};
    const bool known = ::fstat(fd_, &info) == 0;
    const off_t at = ::lseek(fd_, 0, SEEK_CUR);
    if (!known || static_cast<std::uint64_t>(info.st_size) < static_cast<std::uint64_t>(at) + bytes)
      fail_input("[data] {}: is shorter than it was; the file has changed", path_);
    ::lseek(fd_, static_cast<off_t>(bytes), SEEK_CUR);
  }

  bool seeks() const override { return !borrowed_; }

  bool would_wait() override {
    pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, 0) == 0;
  }

  const std::string& path() const { return path_; }

 private:
  // Waits until input is available. A blocking read would not notice a signal.
  void wait() {
    constexpr int look = 200;  // milliseconds
    pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
    do {
      check_stop();
    } while (::poll(&one, 1, look) <= 0);
  }

  std::string path_;
  int fd_;
  bool borrowed_ = false;
};

class Memory final : public ByteStream {
 public:
  explicit Memory(std::string_view bytes) : bytes_(bytes) {}
  std::size_t read(char* out, std::size_t size) override {
    const std::size_t n = std::min(size, bytes_.size());
    std::copy_n(bytes_.begin(), n, out);
    bytes_.remove_prefix(n);
    return n;
  }
  void skip(std::uint64_t bytes) override { bytes_.remove_prefix(std::min<std::size_t>(bytes, bytes_.size())); }

 private:
  std::string_view bytes_;
};

// Common base of gzip and zstd: reads packed bytes, decodes them, and returns unpacked bytes.
class Packed : public ByteStream {
 public:
  Packed(std::unique_ptr<Plain> file, std::string first)
      : file_(std::move(file)), input_(block_bytes), filled_(first.size()), packed_(first.size()) {
    std::copy(first.begin(), first.end(), input_.begin());
  }

  std::size_t read(char* out, std::size_t size) override {
    while (size > 0) {
      if (used_ == filled_ && !finished_) refill();
      const std::size_t produced = decode(out, size);
      if (produced > 0) return count(produced);
      if (finished_ && used_ == filled_) return at_end();
    }
    return 0;
  }

  void skip(std::uint64_t bytes) override {
    std::vector<char> sink(block_bytes);
    while (bytes > 0) {
      const std::size_t got = read(sink.data(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes, sink.size())));
      if (got == 0) fail_input("[data] {}: is shorter than it was; the file has changed", path());
      bytes -= got;
    }
  }

 protected:
  virtual std::size_t decode(char* out, std::size_t size) = 0;  // consumes input_[used_, filled_)
  virtual bool complete() const = 0;                            // the last member or frame has ended

  const std::string& path() const { return file_->path(); }

  std::unique_ptr<Plain> file_;
  std::vector<char> input_;
  std::size_t used_ = 0, filled_ = 0;

 private:
  void refill() {
    used_ = 0;
    filled_ = file_->read(input_.data(), input_.size());
    finished_ = filled_ == 0;
    packed_ += filled_;
  }
  std::size_t count(std::size_t produced) {
    unpacked_ += produced;
    if (unpacked_ > free_bytes && unpacked_ > largest_ratio * packed_)
      fail_input(
          "[data] {}: unpacks to more than {} times its size, which text does not; if it is what you mean, unpack it "
          "first and give the plain file",
          path(), largest_ratio);
    return produced;
  }
  std::size_t at_end() const {
    if (!complete()) fail_input("[data] {}: ends in the middle of its packed data; the file is truncated", path());
    return 0;
  }
  bool finished_ = false;
  std::uint64_t packed_ = 0, unpacked_ = 0;
};

class Gzip final : public Packed {
 public:
  Gzip(std::unique_ptr<Plain> file, std::string first) : Packed(std::move(file), std::move(first)) {
    if (inflateInit2(&state_, 15 + 16) != Z_OK) fail_run("[data] {}: no memory to unpack it", path());
  }
  ~Gzip() override { inflateEnd(&state_); }

 protected:
  std::size_t decode(char* out, std::size_t size) override {
    if (used_ == filled_) return 0;
    if (ended_ && (inflateReset(&state_), true)) ended_ = false;  // another gzip member follows
    state_.next_in = reinterpret_cast<Bytef*>(input_.data() + used_);
    state_.avail_in = static_cast<uInt>(filled_ - used_);
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1u << 30));
    const uInt room = state_.avail_out;
    const int status = inflate(&state_, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      fail_input("[data] {}: its gzip data is damaged: {}", path(), state_.msg ? state_.msg : "unknown error");
    used_ = filled_ - state_.avail_in;
    ended_ = status == Z_STREAM_END;
    return room - state_.avail_out;
  }
  bool complete() const override { return ended_; }

 private:
  z_stream state_{};
  bool ended_ = false;
};

class Zstd final : public Packed {
 public:
  Zstd(std::unique_ptr<Plain> file, std::string first)
      : Packed(std::move(file), std::move(first)), state_(ZSTD_createDStream()) {
    if (!state_) fail_run("[data] {}: no memory to unpack it", path());
  }
  ~Zstd() override { ZSTD_freeDStream(state_); }

 protected:
  std::size_t decode(char* out, std::size_t size) override {
    ZSTD_inBuffer in{input_.data(), filled_, used_};
    ZSTD_outBuffer to{out, size, 0};
    const bool nothing_new = used_ == filled_;
    const std::size_t wanted = ZSTD_decompressStream(state_, &to, &in);
    if (ZSTD_isError(wanted)) fail_input("[data] {}: its zstd data is damaged: {}", path(), ZSTD_getErrorName(wanted));
    used_ = in.pos;
    if (!nothing_new || to.pos > 0) ended_ = wanted == 0;
    return to.pos;
  }
  bool complete() const override { return ended_; }

 private:
  ZSTD_DStream* state_;
  bool ended_ = false;
};

class Replayed final : public ByteStream {  // a plain file whose first bytes were already read
 public:
  Replayed(std::unique_ptr<Plain> file, std::string first) : file_(std::move(file)), first_(std::move(first)) {}
  std::size_t read(char* out, std::size_t size) override {
    if (first_.empty()) return file_->read(out, size);
    const std::size_t n = std::min(size, first_.size());
    std::copy_n(first_.begin(), n, out);
    first_.erase(0, n);
    return n;
  }
  void skip(std::uint64_t bytes) override {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, first_.size()));
    first_.erase(0, n);
    if (bytes > n) file_->skip(bytes - n);
  }
  bool seeks() const override { return file_->seeks(); }

 private:
  std::unique_ptr<Plain> file_;
  std::string first_;
};

}  // namespace

std::unique_ptr<ByteStream> ByteStream::open(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) fail_input("[data] {}: is a folder, not a file", path);
  auto file = std::make_unique<Plain>(path);
  std::string first(longest_magic, '\0');
  std::size_t got = 0;
  for (std::size_t n = 1; n > 0 && got < first.size(); got += n) n = file->read(first.data() + got, first.size() - got);
  first.resize(got);
  if (first.starts_with("PAR1")) fail_parquet(path);
  if (first.starts_with("\x1F\x8B")) return std::make_unique<Gzip>(std::move(file), std::move(first));
  if (first.starts_with("\x28\xB5\x2F\xFD")) return std::make_unique<Zstd>(std::move(file), std::move(first));
  if (const io::FileKind* kind = io::kind_of(first); kind && kind->archive)
    fail_input("[data] {}: is {}, which is not read; unpack it, or pack what is in it with gzip or zstd", path,
               kind->name);
  return std::make_unique<Replayed>(std::move(file), std::move(first));
}

std::unique_ptr<ByteStream> ByteStream::standard_input() { return std::make_unique<Plain>("stdin", STDIN_FILENO); }

std::unique_ptr<ByteStream> ByteStream::of(std::string_view bytes) { return std::make_unique<Memory>(bytes); }

}  // namespace comera::data
