// Moves the files of a finished graph to their destination: "<path>.onnx", and "<path>.onnx.data" if the graph is too
// large for one file.
#pragma once

#include <string>
#include <vector>

namespace comera::io {

// Paths of the files beside the graph that contain its weights.
std::vector<std::string> onnx_data_files(const std::string& path);
// InputError that starts with `[verb]` if the graph's data file would replace an existing one.
void require_free_data(const std::string& verb, const std::string& path);
// Removes the data file that a killed process left without its graph, and no other file.
void remove_half_onnx(const std::string& path);
// `files`: as returned by write_onnx(), on the same file system. InputError if a target exists and `replace` is not
// set.
void move_onnx(const std::vector<std::string>& files, const std::string& path, bool replace);

}  // namespace comera::io
