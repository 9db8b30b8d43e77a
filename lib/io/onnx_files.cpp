#include "lib/io/onnx_files.h"

#include <ranges>
#include <set>

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "lib/io/onnx.h"

namespace comera::io {

std::vector<std::string> onnx_data_files(const std::string& path) {
  OnnxFile file(path);
  std::set<std::string> files;
  for (const onnx::TensorProto* tensor : onnx_tensors(*file.model().mutable_graph()))
    if (tensor->data_location() == onnx::TensorProto::EXTERNAL) files.insert(join_path(parent_path(path), onnx_external(*tensor, path).location));
  return {files.begin(), files.end()};
}

void require_free_data(const std::string& verb, const std::string& path) {
  const std::string data = path + ".data";
  if (path_exists(data))
    fail_input("[{}] {}: exists already, and is where the weights of a large graph go; use another name, or remove it first", verb, data);
}

// Data first: a graph without its data is no graph.
void move_onnx(const std::vector<std::string>& files, const std::string& path, bool replace) {
  const Folder target(parent_path(path));
  for (const std::string& file : files | std::views::reverse) {
    const Folder from(parent_path(file));
    const std::string name = base_name(path) + base_name(file).substr(base_name(files.front()).size());
    if (!replace && target.kind(name) != EntryKind::none)
      fail_input("{}: was made by somebody else meanwhile; use another name, or remove it first", target.path_of(name));
    if (target.kind(name) == EntryKind::folder) fail_input("{}: is a folder; use another name", target.path_of(name));
    from.rename(base_name(file), target, name);
  }
  target.sync();
}

}  // namespace comera::io
