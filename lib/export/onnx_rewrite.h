// An ONNX file there and back: its weights as a folder that can be tensorized, and the graph again with the chains that
// became of them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/export/onnx_left_out.h"
#include "lib/io/tt_format.h"

namespace comera::exporting {

struct RewrittenOnnx {
  std::int64_t weights = 0;  // that became chains
  std::uint64_t bytes = 0, bytes_source = 0;
  std::vector<std::string> files;  // one, or two with external data
};

class OnnxSource {
 public:
  // Writes the matrices that products and lookups read (lib/export/onnx_weights.h) as a model folder, unless they lie
  // there already from a file of the same contents. InputError: the file is damaged, of an opset that is not known,
  // holds no such matrix, or holds chains already and it is not `again` that it is compressed.
  OnnxSource(std::string source, const std::string& folder, bool again);

  const std::string& folder() const { return folder_.path(); }
  const std::set<std::string>& tables() const { return tables_; }  // weights that are looked up, not multiplied with
  // Weights that stay as they are under every option, the largest first.
  const std::vector<OnnxLeftOut>& left_out() const { return left_out_; }
  // Bytes of all files of the graph in which these weights are chains.
  std::uint64_t bytes_with(const std::vector<io::ChainSpec>& chains) const;
  // The graph with the chains of that folder in the place of their weights, everything else untouched.
  RewrittenOnnx write(const std::string& chains, const std::string& output) const;

 private:
  std::string source_;
  struct Shapes;
  std::shared_ptr<const Shapes> shapes_;  // the graph without large data
  std::set<std::string> tables_;
  std::vector<OnnxLeftOut> left_out_;
  io::ModelFolder folder_;
};

}  // namespace comera::exporting
