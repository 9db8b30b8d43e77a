#include "lib/compress/check/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "lib/compress/check/output_errors.h"
#include "lib/compress/fit/row_errors.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/io/tied_words.h"
#include "lib/tt/data_aware.h"

namespace comera::compress {
namespace {

using tt::Matrix;

constexpr const char* other_numbers = "its numbers are not the dense model's";

// Certificates store six digits. The moments come from a forward in float, whose rounding depends on the instruction
// set.
constexpr double weight_tolerance = 1e-5, output_tolerance = 1e-2;

bool agrees(double stored, double found, double tolerance) {
  return std::abs(stored - found) <= tolerance * std::max(stored, found) + 1e-9;
}

// Direction errors are roots of eigenvalues, whose rounding is that of moments in float, whatever their size.
bool directions_agree(double stored, double found, double tolerance) {
  const double least = std::min(stored, found), most = std::max(stored, found);
  return most - least <= tolerance * most || most * most - least * least <= 1e-6;
}

Certificate certificate_in(const io::ModelFolder& compressed) {
  const auto found = compressed.metadata().find(certificate_key);
  if (found == compressed.metadata().end())
    fail_input("{}: carries no certificate; it was not written by `comera tensorize`", compressed.path());
  return parse_certificate(found->second, compressed.files().front()->path());
}

class Verifier {
 public:
  Verifier(const std::string& compressed, const std::string& dense, const std::string& adapter, InputMoments* moments)
      : compressed_(compressed), dense_(dense, adapter), moments_(moments) {
    const auto block = io::parse_comera_block(compressed_.config(), compressed_.config_path());
    certificate_ = certificate_in(compressed_);
    if (!block) fail_input("{}: its config.json has no comera block; the folder is damaged", compressed_.path());
    threshold_ = block->threshold;
    for (const io::ChainSpec& chain : block->chains) chains_[chain.name] = chain;
    check_text();
  }

  Verification run() {
    Verification verification;
    std::map<std::string, tt::OutputErrors> outputs;
    find_refined();
    if (moments_) measure_outputs(outputs);
    TaskProgress task("checking layers", std::ssize(certificate_.layers));
    for (const Certificate::Layer& layer : certificate_.layers) {
      check_stop();
      verification.layers.push_back(check(layer, outputs));
      task.advance();
    }
    check_others(verification);
    return verification;
  }

 private:
  void check_text() const {
    if (!moments_ || !certificate_.calibration) return;
    const MomentsInfo info = moments_->info();
    const MomentsInfo& then = *certificate_.calibration;
    if (info.hash != then.hash || info.tokens != then.tokens || info.held_tokens != then.held_tokens ||
        info.judged_tokens != then.judged_tokens)
      fail_input(
          "{}: was calibrated with {} + {} + {} tokens, fitted, choosing and judging, of a text of hash {}, but these "
          "are {} + {} + {} of {}; give "
          "the same --calibrate, --calibrate-length and --tokenizer, and leave out --calibrate-tokens (without tokens "
          "that judge it was made by an "
          "earlier version, whose output errors cannot be computed again)",
          compressed_.path(), then.tokens, then.held_tokens, then.judged_tokens, then.hash, info.tokens,
          info.held_tokens, info.judged_tokens, info.hash);
    if (info.clips_tokens != then.clips_tokens)
      fail_input("{}: was calibrated {} --clip-tokens, but the text is measured {} it; measure it as certified",
                 compressed_.path(), then.clips_tokens ? "with" : "without", info.clips_tokens ? "with" : "without");
  }

  const io::ChainSpec& chain_of(const std::string& name) const {
    const auto found = chains_.find(name);
    if (found == chains_.end())
      fail_input("{}: the certificate names {}, which config.json does not describe", compressed_.path(),
                 printable(name));
    return found->second;
  }

  const io::ModelFolder::Entry& dense_entry(const io::ChainSpec& chain) const {
    const io::ModelFolder::Entry* entry = dense_.find(chain.weight_name());
    if (!entry || entry->tensor.shape != chain.shape)
      fail_input("{}: has no weight {} of shape {}; it is not the model that {} was made from", dense_.path(),
                 printable(chain.name), io::to_string(chain.shape), compressed_.path());
    return *entry;
  }

  Candidate candidate_of(const io::ChainSpec& chain) const {
    const io::ModelFolder::Entry& entry = dense_entry(chain);
    // `decodes` is read where a layer has inputs; of the tables, only the decoder of words has them.
    return {.name = chain.name,
            .tensor = entry.tensor.name,
            .table = chain.table(),
            .conv1d = chain.conv1d,
            .type = entry.tensor.type,
            .shape = entry.tensor.shape,
            .decodes = chain.table()};
  }

  tt::Chain stored(const io::ChainSpec& chain) const {
    return tt::to_double(io::read_chain(compressed_, chain, threshold_));
  }

  Matrix expanded(const io::ChainSpec& chain) const {
    return tt::to_double(io::read_matrix(compressed_, chain, threshold_));
  }

  // Runs in the order of the model. If the certificate is sequential, later layers see the compressed layers before
  // them, and all layers the refined biases and norms.
  void measure_outputs(std::map<std::string, tt::OutputErrors>& outputs) {
    const bool sequential = certificate_.calibration && certificate_.calibration->sequential;
    // A decoder of words on a grid is replaced after its inputs are measured, as linear layers are.
    for (const auto& [name, chain] : chains_)
      if (sequential && chain.table() && !(chain.base && io::is_head_of_words(name)))
        moments_->replace(name, expanded(chain));
    for (const io::ModelFolder::Entry* vector : refined_)
      moments_->replace_vector(vector->tensor.name, compressed_.read_floats(vector->tensor.name, vector->tensor.shape));
    const auto dense = [&](const std::string& name) { return read_weight(dense_, candidate_of(chains_.at(name))); };
    const auto follow = [&](const std::string& name, const Matrix& fitted) {
      if (chains_.at(name).base)
        moments_->replace(name, fitted);
      else
        moments_->replace(name, tt::factors(stored(chains_.at(name))));
    };
    outputs = output_errors(*moments_, sequential,
                            {.has =
                                 [&](const std::string& name) {
                                   const auto found = chains_.find(name);
                                   return found != chains_.end() && (!found->second.table() || found->second.base);
                                 },
                             .candidate = [&](const std::string& name) { return candidate_of(chains_.at(name)); },
                             .dense = dense,
                             .fitted = [&](const std::string& name) { return expanded(chains_.at(name)); },
                             .follow = follow});
  }

  LayerCheck check(const Certificate::Layer& layer, const std::map<std::string, tt::OutputErrors>& outputs) const {
    const io::ChainSpec& chain = chain_of(layer.name);
    const io::ModelFolder::Entry& entry = dense_entry(chain);
    LayerCheck check;
    check.name = chain.weight_name();
    check.stored_rel_error = layer.rel_error;
    check.stored_output_error = layer.output_error;
    check.stored_direction_error = layer.direction_error;
    const Matrix weight = read_weight(dense_, candidate_of(chain));
    check.rel_error = !chain.base ? tt::chain_error(weight, stored(chain))
                                  : std::sqrt(tt::squared_norm(tt::difference(weight, expanded(chain))) /
                                              std::max(tt::squared_norm(weight), 1e-300));
    double tolerance = output_tolerance;
    if (const auto found = outputs.find(layer.name); found != outputs.end())
      check.output_error = found->second.share, check.direction_error = found->second.direction;
    else if (moments_ && chain.table())
      check.output_error = error_of_rows(chain, weight), tolerance = weight_tolerance;  // look-ups need no forward
    const io::ModelFolder::Entry* core = compressed_.find(chain.base ? chain.base_name() : chain.core_name(0));
    if (hash_bytes(dense_.file_of(entry).bytes(entry.tensor).span()) != layer.weight_hash)
      check.fault = "the dense weight is not the one that it was made from";
    else if (!core || hash_chain(compressed_, chain, io::dense_type_of(compressed_, chain)) != layer.chain_hash)
      check.fault = chain.layout.exact_rows > 0 ? "the cores or exact rows are not the ones that were written"
                                                : "the cores are not the ones that were written";
    else if (!agrees(layer.rel_error, check.rel_error, weight_tolerance))
      check.fault = "its error is not the one that was certified";
    else
      check.fault = fault_of_output(check, tolerance);
    return check;
  }

  // The error of a table's rows by their look-ups in judging text. Nothing if the text does not count its look-ups.
  std::optional<double> error_of_rows(const io::ChainSpec& chain, const Matrix& table) const {
    const std::vector<double> weights = moments_->judged_row_weights(chain.name);
    if (weights.empty()) return std::nullopt;
    const Matrix fitted = expanded(chain);
    return root_of_ratio(rows_lost(table, rows_of(fitted), weights), rows_lost(table, nullptr, weights));
  }

  // Without a text in the certificate, output errors are of any text and are not compared. Nor are those of a model
  // that was compressed in two runs: the inputs of the second one came from the layers of the first.
  std::string fault_of_output(const LayerCheck& check, double tolerance) const {
    if (!moments_ || !certificate_.calibration ||
        std::ranges::any_of(certificate_.layers, &Certificate::Layer::earlier))
      return "";
    if (check.output_error && !check.stored_output_error)
      return "the text gives it an output error, but none was certified";
    if (!check.output_error && check.stored_output_error)
      return "an output error was certified, but the text gives it none";
    if (check.output_error && !agrees(*check.stored_output_error, *check.output_error, tolerance))
      return "its output error is not the one that was certified";
    if (!check.stored_direction_error) return "";  // of an earlier version
    if (!check.direction_error) return "a direction error was certified, but the text gives it none";
    if (!directions_agree(*check.stored_direction_error, *check.direction_error, tolerance))
      return "its direction error is not the one that was certified";
    return "";
  }

  // A core that no certificate lists is not a tensor of the dense model either, so it is reported here.
  void check_others(Verification& verification) const {
    std::set<std::string> certified, weights, hashes;
    for (const Certificate::Layer& layer : certificate_.layers) {
      for (const io::TensorToWrite& tensor : tensors_of(chain_of(layer.name), io::StoredType::F32))
        certified.insert(tensor.name);
      weights.insert(chain_of(layer.name).weight_name());
      hashes.insert(layer.weight_hash);
    }
    // Also finds a certified weight under another name, as for tied tensors.
    const auto is_certified = [&](const io::ModelFolder::Entry& dense) {
      return weights.contains(dense.tensor.name) ||
             hashes.contains(hash_bytes(dense_.file_of(dense).bytes(dense.tensor).span()));
    };
    for (const io::ModelFolder::Entry& entry : compressed_.entries()) {
      if (certified.contains(entry.tensor.name) || std::ranges::find(refined_, &entry) != refined_.end()) continue;
      check_stop();
      ++verification.others;
      if (std::string fault = fault_of(entry); !fault.empty())
        verification.other_faults.push_back({entry.tensor.name, std::move(fault)});
    }
    for (const io::ModelFolder::Entry& entry : dense_.entries())
      if (!compressed_.find(entry.tensor.name) && !is_certified(entry))
        verification.other_faults.push_back(
            {entry.tensor.name, "the dense model has this tensor, and here it is missing"});
  }

  // The vectors that differ from the dense ones, if together they are those that were certified.
  void find_refined() {
    std::map<std::string, std::span<const std::byte>> bytes;
    std::vector<const io::ModelFolder::Entry*> found;
    for (const io::ModelFolder::Entry& entry : compressed_.entries()) {
      if (entry.tensor.shape.size() != 1 || !io::is_floating(entry.tensor.type)) continue;
      if (!dense_.find(entry.tensor.name) || fault_of(entry) != other_numbers) continue;
      bytes[entry.tensor.name] = compressed_.file_of(entry).bytes(entry.tensor);
      found.push_back(&entry);
    }
    if (!certificate_.refined.empty() && hash_vectors(bytes) == certificate_.refined) refined_ = std::move(found);
  }

  // The files are mapped, and compared pages are released, so no whole file is ever in memory.
  std::string fault_of(const io::ModelFolder::Entry& entry) const {
    const io::ModelFolder::Entry* dense = dense_.find(entry.tensor.name);
    if (!dense) return "the dense model has no such tensor, and no certificate lists it";
    if (dense->tensor.type != entry.tensor.type || dense->tensor.shape != entry.tensor.shape)
      return fmt::format("it is {} of {}, the dense model's {} of {}", io::to_string(entry.tensor.shape),
                         io::name_of(entry.tensor.type), io::to_string(dense->tensor.shape),
                         io::name_of(dense->tensor.type));
    const io::WeightFile &own = compressed_.file_of(entry), &other = dense_.file_of(*dense);
    const auto ours = own.bytes(entry.tensor), theirs = other.bytes(dense->tensor);
    const bool same = ours.empty() || std::memcmp(ours.data(), theirs.data(), ours.size()) == 0;
    own.forget(entry.tensor);
    other.forget(dense->tensor);
    return same ? "" : other_numbers;
  }

  io::ModelFolder compressed_, dense_;
  InputMoments* moments_;
  std::optional<double> threshold_;
  Certificate certificate_;
  std::map<std::string, io::ChainSpec> chains_;
  std::vector<const io::ModelFolder::Entry*> refined_;  // vectors
};

}  // namespace

bool Verification::holds() const {
  return other_faults.empty() &&
         std::all_of(layers.begin(), layers.end(), [](const LayerCheck& layer) { return layer.fault.empty(); });
}

std::optional<MomentsInfo> certified_calibration(const std::string& compressed) {
  return certificate_in(io::ModelFolder(compressed)).calibration;
}

Verification verify(const std::string& compressed, const std::string& dense, InputMoments* moments,
                    kernels::ThreadPool& pool, const std::string& adapter) {
  const tt::UsePool use(pool);
  return Verifier(compressed, dense, adapter, moments).run();
}

}  // namespace comera::compress
