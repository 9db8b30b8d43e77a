// The files of a graph on their way to where they belong: "<path>.onnx", and "<path>.onnx.data" of a graph that is too
// large for one.
#pragma once

#include <string>
#include <vector>

namespace comera::io {

// Paths of the files beside the graph that hold weights of its.
std::vector<std::string> onnx_data_files(const std::string& path);
// InputError that opens with `[verb]`: the graph's data file would replace one that is there.
void require_free_data(const std::string& verb, const std::string& path);
// Removes the data file that a killed process left without its graph. Nothing else, whatever its name.
void remove_half_onnx(const std::string& path);
// `files` as write_onnx() gave them, written elsewhere on the same file system. InputError where something is there and
// `replace` is not set.
void move_onnx(const std::vector<std::string>& files, const std::string& path, bool replace);

}  // namespace comera::io
