// Makes the bytes of GGUF files for tests, sound ones and others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace comera::io {

class GgufBytes {
 public:
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;  // row major
    std::uint32_t type = 0;
    std::uint64_t offset = 0;  // from the start of the data
  };

  template <class T>
  static std::string raw(const T& value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string text(const std::string& value) { return raw(std::uint64_t{value.size()}) + value; }

  GgufBytes& key(const std::string& name, std::uint32_t type, const std::string& value) {
    keys_ += text(name) + raw(type) + value;
    ++key_count_;
    return *this;
  }
  GgufBytes& number_key(const std::string& name, std::int64_t value) { return key(name, 11, raw(value)); }
  GgufBytes& real_key(const std::string& name, float value) { return key(name, 6, raw(value)); }
  GgufBytes& flag_key(const std::string& name, bool value) { return key(name, 7, std::string(1, value ? 1 : 0)); }
  GgufBytes& text_key(const std::string& name, const std::string& value) { return key(name, 8, text(value)); }
  GgufBytes& texts_key(const std::string& name, const std::vector<std::string>& values) {
    std::string list = raw(std::uint32_t{8}) + raw(std::uint64_t{values.size()});
    for (const std::string& value : values) list += text(value);
    return key(name, 9, list);
  }
  GgufBytes& numbers_key(const std::string& name, const std::vector<std::int32_t>& values) {
    std::string list = raw(std::uint32_t{5}) + raw(std::uint64_t{values.size()});
    for (const std::int32_t value : values) list += raw(value);
    return key(name, 9, list);
  }

  GgufBytes& reals_key(const std::string& name, const std::vector<float>& values) {
    std::string list = raw(std::uint32_t{6}) + raw(std::uint64_t{values.size()});
    for (const float value : values) list += raw(value);
    return key(name, 9, list);
  }

  GgufBytes& tensor(const Tensor& tensor) {
    infos_ += text(tensor.name) + raw(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) infos_ += raw(*size);
    infos_ += raw(tensor.type) + raw(tensor.offset);
    ++tensor_count_;
    return *this;
  }
  // A tensor with its data behind that of the earlier ones.
  GgufBytes& floats(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    tensor({name, shape, 0, data_.size()});
    std::string data;
    for (const float value : values) data += raw(value);
    return append(data);
  }

  std::uint64_t data_bytes() const { return data_.size(); }
  GgufBytes& append(const std::string& data) {
    data_ += data;
    data_.resize((data_.size() + 31) / 32 * 32, '\0');
    return *this;
  }

  std::string file() const {
    std::string bytes("GGUF");
    bytes += raw(std::uint32_t{3}) + raw(tensor_count_) + raw(key_count_) + keys_ + infos_;
    bytes.resize((bytes.size() + 31) / 32 * 32, '\0');
    return bytes + data_;
  }

 private:
  std::string keys_, infos_, data_;
  std::uint64_t key_count_ = 0, tensor_count_ = 0;
};

}  // namespace comera::io
