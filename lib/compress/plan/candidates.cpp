#include "lib/compress/plan/candidates.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/terminal/log.h"
#include "lib/io/chain_parts.h"
#include "lib/io/tied_words.h"
#include "models/dlrm/dlrm_config.h"

namespace comera::compress {
namespace {

struct Architecture {
  const char* type;  // "model_type" of config.json
  std::vector<std::string> linear, tables;
  bool conv1d;
  std::vector<std::string> heads = {};  // decoders of words that may be untied
};

const std::vector<Architecture>& architectures() {
  static const std::vector<std::string> bert_linear{
      "*encoder.layer.*.attention.self.query", "*encoder.layer.*.attention.self.key",
      "*encoder.layer.*.attention.self.value", "*encoder.layer.*.dense", "*pooler.dense"};
  static const std::vector<std::string> bert_tables{"*embeddings.word_embeddings"};
  static const std::vector<Architecture> all{
      {"bert", bert_linear, bert_tables, false},
      {"roberta", bert_linear, bert_tables, false},
      {"roberta-prelayernorm", bert_linear, bert_tables, false},
      {"distilbert",
       {"*transformer.layer.*.attention.*_lin", "*transformer.layer.*.ffn.lin1", "*transformer.layer.*.ffn.lin2"},
       bert_tables,
       false},
      {"mpnet", {"*encoder.layer.*.attention.attn.*", "*encoder.layer.*.dense", "*pooler.dense"}, bert_tables, false},
      {"modernbert",
       {"*layers.*.attn.Wqkv", "*layers.*.attn.Wo", "*layers.*.mlp.Wi", "*layers.*.mlp.Wo", "*head.dense"},
       {"*embeddings.tok_embeddings"},
       false},
      {"vit",
       {"*encoder.layer.*.attention.attention.query", "*encoder.layer.*.attention.attention.key",
        "*encoder.layer.*.attention.attention.value", "*encoder.layer.*.dense"},
       {},
       false},
      {"llama", {"*layers.*_proj"}, {"*embed_tokens"}, false, {"lm_head"}},
      {"mistral", {"*layers.*_proj"}, {"*embed_tokens"}, false, {"lm_head"}},
      {"qwen2", {"*layers.*_proj"}, {"*embed_tokens"}, false, {"lm_head"}},
      {"qwen3", {"*layers.*_proj"}, {"*embed_tokens"}, false, {"lm_head"}},
      {"gpt2", {"*.c_attn", "*.c_proj", "*.c_fc"}, {"*wte"}, true},
  };
  return all;
}

const Architecture* architecture_of(const io::ModelFolder& folder) {
  const auto found = folder.config().find("model_type");
  if (found == folder.config().end() || !found->is_string()) return nullptr;
  for (const Architecture& architecture : architectures())
    if (*found == architecture.type) return &architecture;
  return nullptr;
}

std::string without_suffix(const std::string& tensor) {
  return tensor.ends_with(".weight") ? tensor.substr(0, tensor.size() - 7) : tensor;
}

bool looks_like_table(const std::string& name) { return matches({"*embed*", "*wte", "*wpe"}, name); }

bool is_matrix(const io::StoredTensor& tensor) {
  return tensor.shape.size() == 2 && tensor.shape[0] > 0 && tensor.shape[1] > 0 && io::is_floating(tensor.type);
}

Candidate candidate_of(const io::StoredTensor& tensor, bool table, bool conv1d) {
  return {without_suffix(tensor.name), tensor.name, table, conv1d && !table, tensor.type, tensor.shape};
}

// Without a config.json, GPT-2's Conv1D layers are recognised by their names.
bool is_conv1d(const Architecture* architecture, const std::string& name) {
  return architecture ? architecture->conv1d : matches({"*h.*.attn.c_attn", "*h.*.c_proj", "*h.*.mlp.c_fc"}, name);
}

void check_tied(const io::ModelFolder& folder, const io::ModelFolder::Entry& a, const io::ModelFolder::Entry& b) {
  const auto bytes_a = folder.file_of(a).bytes(a.tensor), bytes_b = folder.file_of(b).bytes(b.tensor);
  const bool same = a.tensor.type == b.tensor.type && a.tensor.shape == b.tensor.shape &&
                    std::memcmp(bytes_a.data(), bytes_b.data(), bytes_a.size()) == 0;
  if (!same)
    fail_input(
        "{}: {} and {} are tied by config.json, but their numbers differ; correct tie_word_embeddings or the weights",
        folder.path(), printable(a.tensor.name), printable(b.tensor.name));
}

// Finds the head that shares the table's numbers and adds it to the candidate's `tied`.
void find_ties(const io::ModelFolder& folder, Candidate& candidate) {
  if (!candidate.table || !io::says_tied(folder.config(), candidate.name)) return;
  for (const io::Tie& tie : io::known_ties()) {
    if (!glob_match(tie.table, candidate.name)) continue;
    candidate.also_decodes = true;
    for (const io::ModelFolder::Entry& entry : folder.entries()) {
      if (!glob_match(tie.head, without_suffix(entry.tensor.name)) || !is_matrix(entry.tensor)) continue;
      check_tied(folder, *folder.find(candidate.tensor), entry);
      candidate.tied.push_back(entry.tensor.name);
    }
  }
}

// A decoder of words that is a copy of a table of the folder. What becomes of the table stands for both.
bool is_tied_head(const io::ModelFolder& folder, const std::string& name) {
  return std::ranges::any_of(io::known_ties(), [&](const io::Tie& tie) {
    return glob_match(tie.head, name) &&
           std::ranges::any_of(folder.entries(), [&](const io::ModelFolder::Entry& entry) {
             const std::string table = without_suffix(entry.tensor.name);
             return glob_match(tie.table, table) && is_matrix(entry.tensor) && io::says_tied(folder.config(), table);
           });
  });
}

// Cores, grids, diagonals and exact rows of weights that are compressed already.
std::set<std::string> compressed_parts(const io::ModelFolder& folder) {
  std::set<std::string> parts;
  if (const auto block = io::parse_comera_block(folder.config(), folder.config_path()))
    for (const io::ChainSpec& chain : block->chains)
      for (const io::ChainPart& part : io::parts_of(chain)) parts.insert(part.name);
  return parts;
}

// `lister`: the command that lists the names of the weights.
void check_patterns(const io::ModelFolder& folder, const std::vector<std::string>& patterns, const char* option,
                    const char* lister) {
  for (const std::string& pattern : patterns) {
    const bool used =
        std::any_of(folder.entries().begin(), folder.entries().end(), [&](const io::ModelFolder::Entry& entry) {
          return is_matrix(entry.tensor) && matches({pattern}, without_suffix(entry.tensor.name));
        });
    const std::string& place = folder.files().size() == 1 ? folder.files().front()->path() : folder.path();
    if (!used)
      fail_input("[tensorize] {} '{}' matches no matrix of {}; {} lists their names", option, pattern, place, lister);
  }
}

[[noreturn]] void fail_unknown(const io::ModelFolder& folder) {
  constexpr const char* remedy = "name the weights with --include, for example --include '*proj*'";
  if (folder.config().value("model_type", io::Json()) == models::dlrm_type)
    fail_input(
        "[tensorize] {}: is a model of clicks, whose tables learn in tensor-train form; train it by `comera pretrain "
        "--form tt`, or name its weights with --include, for example --include 'top_l.*'",
        folder.path());
  if (!folder.is_weights_alone())
    fail_input("[tensorize] {}: this architecture is not known; {}", folder.path(), remedy);
  const std::string& file = folder.files().front()->path();
  if (path_exists(folder.config_path()))
    fail_input("[tensorize] {}: a file of weights alone does not say its architecture; give the folder {}, or {}", file,
               folder.path(), remedy);
  fail_input("[tensorize] {}: a file of weights without a config.json does not say its architecture; {}", file, remedy);
}

}  // namespace

bool matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return glob_match(pattern, name) || glob_match(pattern, name + ".weight");
  });
}

std::vector<Candidate> find_candidates(const io::ModelFolder& folder, const Choice& choice) {
  const Architecture* architecture = architecture_of(folder);
  if (!architecture && choice.include.empty()) fail_unknown(folder);
  // If another room found the tables, the folder is temporary, and users cannot open it.
  const char* lister = choice.tables ? "--dry-run without it" : "`comera inspect`";
  check_patterns(folder, choice.include, "--include", lister);
  check_patterns(folder, choice.exclude, "--exclude", lister);
  const std::set<std::string> parts = compressed_parts(folder);
  std::vector<Candidate> candidates;
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    const std::string name = without_suffix(entry.tensor.name);
    if (!is_matrix(entry.tensor) || matches(choice.exclude, name) || parts.contains(entry.tensor.name) ||
        is_tied_head(folder, name) || (choice.include.empty() && !entry.tensor.name.ends_with(".weight")))
      continue;
    const bool head = architecture && matches(architecture->heads, name);
    const bool known_table = architecture ? matches(architecture->tables, name) : looks_like_table(name);
    const bool wanted = choice.include.empty()
                            ? known_table || matches(architecture->linear, name) || (head && choice.heads)
                            : matches(choice.include, name);
    if (!wanted) continue;
    const bool table = choice.tables ? choice.tables->contains(name) : known_table || head || looks_like_table(name);
    candidates.push_back(candidate_of(entry.tensor, table, !choice.tables && is_conv1d(architecture, name)));
    candidates.back().decodes = head && table;
    find_ties(folder, candidates.back());
  }
  if (candidates.empty())
    fail_input(
        "[tensorize] {}: none of its weights is left to compress; look at --include and --exclude, and at the names by "
        "`comera inspect`",
        folder.path());
  return candidates;
}

}  // namespace comera::compress
