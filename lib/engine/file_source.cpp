#include "lib/engine/file_source.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/io/chain_parts.h"

namespace comera::engine {
namespace {

// Constants that older versions of transformers stored beside the weights.
bool is_buffer(const std::string& name) {
  for (const char* ending :
       {"position_ids", "token_type_ids", "rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"})
    if (name.ends_with(ending)) return true;
  return false;
}

}  // namespace

FileSource::FileSource(const std::string& path, const LoadOptions& options)
    : folder_(path, options.adapter), options_(options) {
  if (auto block = io::parse_comera_block(folder_.config(), folder_.config_path())) block_ = std::move(*block);
  for (const io::ChainSpec& chain : block_.chains) {
    for (std::size_t k = 0; chain.cores && k < chain.layout.cores(); ++k)
      codes_.emplace(chain.core_name(k), Codes{&chain, k});
    if (!chain.base) continue;
    on_grids_.emplace(chain.weight_name(), &chain);
    codes_.emplace(chain.base_name(), Codes{&chain});
  }
}

void FileSource::check_chains() const {
  if (folder_.has_config()) io::describe(folder_);
}

std::string FileSource::file_name(const std::string& name) const {
  const bool renamed = !options_.model_prefix.empty() && name.starts_with(options_.model_prefix);
  return renamed ? options_.file_prefix + name.substr(options_.model_prefix.size()) : name;
}

std::optional<FileSource::Codes> FileSource::codes(const Entry& entry) const {
  const auto found = codes_.find(entry.tensor.name);
  return found == codes_.end() ? std::nullopt : std::optional(found->second);
}

const FileSource::Entry* FileSource::stored(const std::string& name) const {
  const auto found = on_grids_.find(name);
  if (found == on_grids_.end()) return folder_.find(name);
  const io::ChainSpec& chain = *found->second;
  for (const io::ChainPart& part : io::parts_of(chain)) used_.insert(folder_.find(part.name));
  return folder_.find(chain.base_name());
}

const FileSource::Entry* FileSource::find(const std::string& name, const std::vector<std::string>& aliases) const {
  const Entry* found = stored(file_name(name));
  for (const std::string& alias : aliases) {
    const Entry* other = stored(file_name(alias));
    if (found && other &&
        !std::ranges::equal(folder_.file_of(*found).bytes(found->tensor), folder_.file_of(*other).bytes(other->tensor)))
      fail_input("{}: tensors {} and {} must be the same, but they differ; remove one of them", folder_.path(),
                 found->tensor.name, alias);
    if (other) used_.insert(other);
    if (!found) found = other;
  }
  if (found) used_.insert(found);
  return found;
}

const FileSource::Entry& FileSource::require(const std::string& name, const std::vector<std::string>& aliases) const {
  const Entry* found = find(name, aliases);
  if (!found)
    fail_input("{}: tensor {} is missing; the file belongs to another model", folder_.files().front()->path(),
               file_name(name));
  return *found;
}

std::vector<std::int32_t> FileSource::indices(const std::string& name, std::int64_t count, std::int64_t limit) const {
  used_.insert(folder_.find(file_name(name)));
  return io::distinct_indices(folder_, file_name(name), count, limit);
}

std::vector<std::int32_t> FileSource::rising(const std::string& name, std::int64_t count, std::int64_t limit) const {
  used_.insert(folder_.find(file_name(name)));
  return io::rising_indices(folder_, file_name(name), count, limit);
}

void FileSource::replace(const Parameter& parameter) const {
  used_.insert(stored(file_name(parameter.name)));
  for (const std::string& alias : parameter.aliases) used_.insert(stored(file_name(alias)));
}

void FileSource::pass(const std::string& name) const { used_.insert(folder_.find(file_name(name))); }

std::vector<std::string> FileSource::unused() const {
  std::vector<std::string> names;
  for (const Entry& entry : folder_.entries())
    if (!used_.contains(&entry) && !is_buffer(entry.tensor.name)) names.push_back(entry.tensor.name);
  return names;
}

}  // namespace comera::engine
