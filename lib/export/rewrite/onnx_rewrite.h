// Converts an ONNX file to a folder of weights that can be tensorized, and writes the graph again with the resulting
// chains.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/export/rewrite/onnx_left_out.h"
#include "lib/io/tt_format.h"

namespace comera::exporting {

struct RewrittenOnnx {
  std::int64_t weights = 0;  // weights that became chains
  std::uint64_t bytes = 0, bytes_source = 0;
  std::vector<std::string> files;  // one, or two with external data
};

class OnnxSource {
 public:
  // Writes the matrices of products and lookups (lib/export/rewrite/onnx_weights.h) as a model folder. Skipped if the
  // folder already holds those of a file with the same contents. InputError: the file is damaged, has an unknown opset,
  // holds no such matrix, or already holds chains and `again` is false.
  OnnxSource(std::string source, const std::string& folder, bool again);

  const std::string& folder() const { return folder_.path(); }
  const std::set<std::string>& tables() const { return tables_; }  // weights that are looked up, not multiplied
  // Weights that stay as they are with every option, the largest first.
  const std::vector<OnnxLeftOut>& left_out() const { return left_out_; }
  // Bytes of all files of the graph if these weights are chains.
  std::uint64_t bytes_with(const std::vector<io::ChainSpec>& chains) const;
  // Writes the graph with the chains of that folder in place of their weights. Everything else is unchanged.
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
