#include "lib/io/onnx_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <set>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/file_changes.h"
#include "lib/io/onnx.h"

namespace comera::io {

std::vector<std::string> onnx_data_files(const std::string& path) {
  OnnxFile file(path);
  std::set<std::string> files;
  for (const onnx::TensorProto* tensor : onnx_tensors(*file.model().mutable_graph()))
    if (tensor->data_location() == onnx::TensorProto::EXTERNAL)
      files.insert(join_path(parent_path(path), onnx_external(*tensor, path).location));
  return {files.begin(), files.end()};
}

namespace {

constexpr const char* data_ending = ".data";

// One line with the properties of a file that a rename does not change.
std::string identity_of(const Folder& folder, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return "";
  return fmt::format("data file {}:{}, {} bytes, {}.{:09}\n", status.st_dev, status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

// True if the graph uses its own data file; none if it cannot be read.
std::optional<bool> has_data(const std::string& path) {
  try {
    for (const std::string& file : onnx_data_files(path))
      if (file == join_path(parent_path(path), base_name(path) + data_ending)) return true;
    return false;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Makes a marker beside the data file until its graph exists. The marker identifies the data file, so that a later
// process may remove the data that a killed process left.
Temporary mark(const Folder& target, const std::string& data, const std::string& identities) {
  Temporary marker(target, data, EntryKind::file);
  FileWriter writer(Descriptor(::fcntl(marker.descriptor().value(), F_DUPFD_CLOEXEC, 0)), marker.path());
  writer.write(identities);
  writer.sync();
  writer.close();
  target.sync();
  return marker;
}

void require_place(const Folder& target, const std::string& name, bool replace) {
  const EntryKind there = target.kind(name);
  if (!replace && there != EntryKind::none)
    fail_input("{}: was made by somebody else meanwhile; use another name, or remove it first", target.path_of(name));
  if (there == EntryKind::folder) fail_input("{}: is a folder; use another name", target.path_of(name));
}

}  // namespace

void remove_half_onnx(const std::string& path) {
  if (!is_folder(parent_path(path))) return;
  const Folder folder(parent_path(path));
  const std::string data = base_name(path) + data_ending;
  for (const std::string& text : read_leftovers(folder, data)) {
    const std::string identity = identity_of(folder, data);
    const bool ours = !identity.empty() && text.find(identity) != std::string::npos;
    if (ours && (folder.kind(base_name(path)) == EntryKind::none || has_data(path) == false)) folder.remove(data);
  }
  remove_leftovers(folder, data);
}

void require_free_data(const std::string& verb, const std::string& path) {
  const std::string data = path + data_ending;
  if (path_exists(data))
    fail_input(
        "[{}] {}: exists already, and is where the weights of a large graph go; use another name, or remove it first",
        verb, data);
}

// Two files cannot appear atomically. The data therefore comes first, with a marker beside it until the graph is
// there. A graph that is replaced is removed before its data.
void move_onnx(const std::vector<std::string>& files, const std::string& path, bool replace) {
  const Folder target(parent_path(path)), from(parent_path(files.front()));
  const std::string name = base_name(path), data = name + data_ending, made = base_name(files.front());
  require_place(target, name, replace);
  const bool pair = files.size() > 1;
  const bool replaces_pair =
      replace && target.kind(name) != EntryKind::none && target.kind(data) == EntryKind::file && has_data(path) == true;
  if (pair) require_place(target, data, replaces_pair);
  std::optional<Temporary> marker;
  if (pair || replaces_pair)
    marker.emplace(
        mark(target, data,
             (replaces_pair ? identity_of(target, data) : "") + (pair ? identity_of(from, made + data_ending) : "")));
  if (pair && replaces_pair) target.remove(name);
  if (pair) from.rename(made + data_ending, target, data);
  from.rename(made, target, name);
  if (!pair && replaces_pair) target.remove(data);
  target.sync();
}

}  // namespace comera::io
