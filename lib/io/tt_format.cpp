#include "lib/io/tt_format.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/log.h"
#include "lib/io/chain_parts.h"

namespace comera::io {
namespace {

constexpr std::size_t most_modes = 64;
constexpr std::int64_t largest_size = std::int64_t{1} << 40;  // limit for a mode, a rank and a whole dense weight

void check_keys(const Json& json, const std::vector<std::string>& known, const std::string& where) {
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail_input("{}: unknown key \"{}\"{}", where, printable(key), did_you_mean(key, known));
}

const Json& member(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end()) fail_input("{}: \"{}\" is missing", where, key);
  return *found;
}

FileShape sizes_from(const Json& json, const char* key, std::int64_t least, const std::string& where) {
  const Json& list = member(json, key, where);
  FileShape sizes;
  bool good = list.is_array() && !list.empty() && list.size() <= most_modes;
  for (std::size_t i = 0; good && i < list.size(); ++i) {
    good = list[i].is_number_integer() && list[i] >= least && list[i] <= largest_size;
    if (good) sizes.push_back(list[i].get<std::int64_t>());
  }
  if (!good) fail_input("{}: \"{}\" is not a list of whole numbers from {}", where, key, least);
  return sizes;
}

std::string text_from(const Json& json, const char* key, const std::vector<const char*>& choices,
                      const std::string& where) {
  const Json& value = member(json, key, where);
  for (const char* choice : choices)
    if (value == choice) return choice;
  fail_input("{}: \"{}\" is {}, which this program does not know", where, key, printable(value.dump().substr(0, 64)));
}

std::vector<const char*> grid_names() {
  std::vector<const char*> names;
  for (const quant::Grid grid : quant::all_grids) names.push_back(quant::name_of(grid));
  return names;
}

// Stops above the largest size, so that it cannot overflow for any file.
std::int64_t bounded_product(std::span<const std::int64_t> sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product = product > largest_size / size ? largest_size + 1 : product * size;
  return product;
}

void check_ranks(const ChainSpec& chain, const FileShape& ranks, const char* key, const std::string& where) {
  const std::size_t cores = chain.layout.cores();
  if (ranks.size() != cores + 1 || ranks.front() != 1 || ranks.back() != 1)
    fail_input("{}: \"{}\" {} must be {} numbers, the first and the last of them 1", where, key, to_string(ranks),
               cores + 1);
  const auto zeros = std::count(ranks.begin(), ranks.end(), 0);
  if (zeros != 0 && zeros != static_cast<std::ptrdiff_t>(ranks.size()) - 2)
    fail_input("{}: \"{}\" {}: where one inner rank is 0 all must be", where, key, to_string(ranks));
}

bool flag_from(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end()) return false;
  if (!found->is_boolean()) fail_input("{}: \"{}\" is neither true nor false", where, key);
  return found->get<bool>();
}

// Keys that are valid for a TT but not for a TTM.
void read_extras(ChainSpec& chain, const Json& json, const std::string& where) {
  chain.layout.sorted = flag_from(json, "sorted", where);
  chain.layout.gauge = flag_from(json, "gauge", where);
  chain.conv1d = flag_from(json, "conv1d", where);
}

std::int64_t exact_from(const Json& json, const std::string& where) {
  const auto found = json.find("exact");
  if (found == json.end()) return 0;
  if (!found->is_number_integer() || *found < 1 || *found > largest_size)
    fail_input("{}: \"exact\" is not a number of rows from 1", where);
  return found->get<std::int64_t>();
}

ChainSpec chain_from(const std::string& name, const Json& json, const std::string& file_name) {
  const std::string where = fmt::format("{}: comera.tensors.{}", file_name, printable(name));
  if (!json.is_object()) fail_input("{}: is not an object", where);
  ChainSpec chain;
  chain.name = name;
  const bool is_tt = text_from(json, "kind", {"tt", "ttm"}, where) == "tt";
  tt::Layout& layout = chain.layout;
  layout.kind = is_tt ? tt::Kind::tt : tt::Kind::ttm;
  const char* const first = is_tt ? "in_modes" : "row_modes";
  const char* const second = is_tt ? "out_modes" : "column_modes";
  std::vector<std::string> known{"kind",      "shape", first,  second,  "ranks",     "initial_ranks",
                                 "diagonals", "bare",  "base", "cores", "dense_type"};
  if (is_tt) known.insert(known.end(), {"orientation", "sorted", "gauge", "conv1d", "between"});
  if (!is_tt) known.emplace_back("exact");
  check_keys(json, known, where);
  if (is_tt) text_from(json, "orientation", {"in_out"}, where), read_extras(chain, json, where);
  if (!is_tt) layout.exact_rows = exact_from(json, where);
  if (json.contains("between")) chain.between = text_from(json, "between", {"silu", "gelu", "tanh"}, where);
  if (json.contains("base")) chain.base = quant::grid_named(text_from(json, "base", grid_names(), where));
  if (json.contains("cores")) chain.cores = quant::grid_named(text_from(json, "cores", grid_names(), where));
  if (chain.base || chain.cores) {
    const std::string type = text_from(json, "dense_type", {"F32", "F16", "BF16", "F64"}, where);
    for (const StoredType one : {StoredType::F32, StoredType::F16, StoredType::BF16, StoredType::F64})
      if (type == name_of(one)) chain.dense_type = one;
  }
  chain.bare = flag_from(json, "bare", where);
  chain.folded = text_from(json, "diagonals", {"beside", "folded"}, where) == "folded";
  chain.shape = sizes_from(json, "shape", 1, where);
  layout.modes = sizes_from(json, first, 1, where);
  const FileShape rest = sizes_from(json, second, 1, where);
  if (!is_tt && rest.size() != layout.modes.size())
    fail_input("{}: {} and {} must be equally many", where, first, second);
  layout.in_count = layout.modes.size();
  layout.modes.insert(layout.modes.end(), rest.begin(), rest.end());
  layout.ranks = sizes_from(json, "ranks", 0, where);
  chain.initial_ranks = sizes_from(json, "initial_ranks", 1, where);
  check_chain(chain, where);
  return chain;
}

}  // namespace

Metadata weights_metadata() { return {{"format", "pt"}, {"comera_format", "1"}}; }

std::string ChainSpec::core_name(std::size_t k) const { return fmt::format("{}.tt.{}", name, k); }
std::string ChainSpec::diagonal_name(std::size_t k) const { return fmt::format("{}.rank.{}", name, k); }

std::vector<ChainPart> parts_of(const ChainSpec& chain) {
  const tt::Layout& layout = chain.layout;
  using Role = ChainPart::Role;
  std::vector<ChainPart> parts;
  if (chain.base)
    parts.push_back(
        {Role::codes, chain.base_name(), {chain.base_lines(), quant::line_bytes(*chain.base, chain.base_numbers())}});
  if (layout.exact_rows > 0) {
    parts.push_back({Role::indices, chain.exact_ids_name(), {layout.exact_rows}});
    parts.push_back({Role::rows, chain.exact_rows_name(), {layout.exact_rows, chain.shape[1]}});
  }
  if (layout.empty()) return parts;
  for (std::size_t k = 0; k < layout.cores(); ++k)
    if (const FileShape shape = layout.core_shape(k); chain.cores)
      parts.push_back({Role::codes, chain.core_name(k), {quant::line_bytes(*chain.cores, elements_of(shape))}});
    else
      parts.push_back({Role::core, chain.core_name(k), shape});
  for (std::size_t k = 0; k + 1 < layout.cores() && !chain.folded; ++k)
    parts.push_back({Role::diagonal, chain.diagonal_name(k), {layout.ranks[k + 1]}});
  if (layout.sorted) parts.push_back({Role::indices, chain.order_name(), {chain.rows()}});
  if (layout.gauge) parts.push_back({Role::indices, chain.gauge_name(), {layout.ranks[layout.middle()]}});
  return parts;
}

namespace {

// Rejects cores above the limit. Every size computed from ranks and modes then stays below 2^63.
void check_core_sizes(const ChainSpec& chain, const std::string& where) {
  const tt::Layout& layout = chain.layout;
  for (const FileShape* ranks : {&layout.ranks, &chain.initial_ranks})
    for (std::size_t k = 0; k < layout.cores(); ++k) {
      const std::int64_t second = layout.kind == tt::Kind::ttm ? layout.modes[layout.cores() + k] : 1;
      const std::array<std::int64_t, 4> sizes{std::max<std::int64_t>((*ranks)[k], 1), layout.modes[k], second,
                                              std::max<std::int64_t>((*ranks)[k + 1], 1)};
      if (bounded_product(sizes) > largest_size)
        fail_input("{}: ranks {} and {} around core {} make it larger than 2^40 elements", where, sizes[0], sizes[3],
                   k);
    }
}

void check_gauge(const ChainSpec& chain, const std::string& where) {
  const tt::Layout& layout = chain.layout;
  if (!layout.gauge) return;
  if (layout.kind != tt::Kind::tt || layout.cores() != layout.inputs() + 1 || !chain.folded)
    fail_input("{}: \"gauge\" needs one out mode and folded diagonals", where);
  const std::int64_t rank = layout.ranks[layout.middle()];
  if (rank > layout.modes.back())
    fail_input("{}: rank {} is above the {} outputs, so no identity block fits in", where, rank, layout.modes.back());
}

}  // namespace

void check_chain(const ChainSpec& chain, const std::string& where) {
  const tt::Layout& layout = chain.layout;
  if (chain.shape.size() != 2 || bounded_product(chain.shape) > largest_size)
    fail_input("{}: shape {} is not that of a matrix of at most 2^40 elements", where, to_string(chain.shape));
  const std::span<const std::int64_t> modes(layout.modes);
  const std::int64_t first = bounded_product(modes.first(layout.inputs())),
                     second = bounded_product(modes.subspan(layout.inputs()));
  if (layout.kind == tt::Kind::tt && (first != chain.rows() || second != chain.columns()))
    fail_input("{}: in_modes and out_modes {} multiply to {} and {}, not to the {} inputs and {} outputs", where,
               to_string(layout.modes), first, second, chain.rows(), chain.columns());
  if (layout.kind == tt::Kind::ttm && (first < chain.shape[0] || first > largest_size || second != chain.shape[1]))
    fail_input(
        "{}: row_modes and column_modes {} multiply to {} and {}; {} rows or a few more and {} columns are wanted",
        where, to_string(layout.modes), first, second, chain.shape[0], chain.shape[1]);
  if (layout.cores() == 0) fail_input("{}: has no modes", where);
  check_ranks(chain, layout.ranks, "ranks", where);
  check_ranks(chain, chain.initial_ranks, "initial_ranks", where);
  for (std::size_t k = 0; k < layout.ranks.size(); ++k)
    if (layout.ranks[k] > chain.initial_ranks[k])
      fail_input("{}: rank {} at bond {} is above the initial rank {}", where, layout.ranks[k], k,
                 chain.initial_ranks[k]);
  if (!chain.between.empty() && (!layout.pair() || layout.gauge || layout.sorted))
    fail_input("{}: \"between\" needs one in mode and one out mode, without \"sorted\" and \"gauge\"", where);
  if (chain.base && !chain.between.empty()) fail_input("{}: \"base\" is not for a weight with \"between\"", where);
  if (chain.cores && (!chain.between.empty() || !chain.folded || layout.gauge))
    fail_input("{}: \"cores\" needs folded diagonals, without \"between\" and \"gauge\"", where);
  check_core_sizes(chain, where);
  check_gauge(chain, where);
  if (layout.exact_rows > chain.shape[0])
    fail_input("{}: {} exact rows are more than the {} rows of the table", where, layout.exact_rows, chain.shape[0]);
}

namespace {

Reading reading_from(const Json& json, const std::string& where) {
  if (!json.is_object()) fail_input("{}.reading: is not an object", where);
  Reading reading;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string()) fail_input("{}.reading: {} is no string", where, printable(name));
    reading[name] = value.get<std::string>();
  }
  return reading;
}

// The least version that can hold these weights.
int version_of(const std::vector<ChainSpec>& chains) {
  const auto of_3_bits = [](const std::optional<quant::Grid>& grid) { return grid && quant::bits_of(*grid) == 3; };
  return std::ranges::any_of(chains, [&](const auto& chain) { return of_3_bits(chain.base) || of_3_bits(chain.cores); })
             ? 2
             : 1;
}

}  // namespace

Json to_json(const ComeraBlock& block) {
  Json json{{"version", version_of(block.chains)}};
  if (block.threshold) json["threshold"] = *block.threshold;
  if (!block.model.empty()) json["model"] = Json::parse(block.model);
  if (!block.reading.empty()) json["reading"] = block.reading;
  Json& tensors = json["tensors"] = Json::object();
  for (const ChainSpec& chain : block.chains) {
    const tt::Layout& layout = chain.layout;
    const bool is_tt = !chain.table();
    Json entry{{"kind", is_tt ? "tt" : "ttm"}, {"shape", chain.shape}};
    if (is_tt) entry["orientation"] = "in_out";
    entry[is_tt ? "in_modes" : "row_modes"] = layout.in_modes();
    entry[is_tt ? "out_modes" : "column_modes"] = layout.out_modes();
    entry["ranks"] = layout.ranks;
    entry["initial_ranks"] = chain.initial_ranks;
    entry["diagonals"] = chain.folded ? "folded" : "beside";
    if (chain.bare) entry["bare"] = true;
    if (layout.sorted) entry["sorted"] = true;
    if (layout.gauge) entry["gauge"] = true;
    if (chain.conv1d) entry["conv1d"] = true;
    if (!chain.between.empty()) entry["between"] = chain.between;
    if (layout.exact_rows > 0) entry["exact"] = layout.exact_rows;
    if (chain.base) entry["base"] = quant::name_of(*chain.base);
    if (chain.cores) entry["cores"] = quant::name_of(*chain.cores);
    if (chain.base || chain.cores) entry["dense_type"] = name_of(chain.dense_type);
    tensors.append_member(chain.name, std::move(entry));
  }
  return json;
}

std::optional<ComeraBlock> parse_comera_block(const Json& config, const std::string& file_name) {
  if (!config.is_object() || !config.contains("comera")) return std::nullopt;
  const Json& json = config["comera"];
  const std::string where = file_name + ": comera";
  if (!json.is_object()) fail_input("{}: is not an object", where);
  const Json& version = member(json, "version", where);
  if (!version.is_number_integer() || version < 1 || version > format_version)
    fail_input("{}: version {} is not one this program reads (1 to {}); use a newer comera", where,
               printable(version.dump().substr(0, 64)), format_version);
  check_keys(json, {"version", "threshold", "model", "reading", "tensors"}, where);
  ComeraBlock block;
  if (const auto found = json.find("threshold"); found != json.end()) {
    if (!found->is_number()) fail_input("{}.threshold: expected a number", where);
    block.threshold = found->get<double>();
    if (!(*block.threshold >= 0 && *block.threshold <= 1))
      fail_input("{}.threshold: {} is no number from 0 to 1", where, *block.threshold);
  }
  if (const auto found = json.find("model"); found != json.end()) {
    if (!found->is_object()) fail_input("{}.model: is not an object", where);
    block.model = found->dump();
  }
  if (const auto found = json.find("reading"); found != json.end()) block.reading = reading_from(*found, where);
  const Json& tensors = member(json, "tensors", where);
  if (!tensors.is_object()) fail_input("{}.tensors: is not an object", where);
  for (const auto& [name, entry] : tensors.items()) block.chains.push_back(chain_from(name, entry, file_name));
  if (const int needed = version_of(block.chains); version < needed)
    fail_input(
        "{}: weights of 3 bits are stored in another order since version {}, and this folder has version {}; "
        "compress the dense model again",
        where, needed, version.dump());
  return block;
}

void check_diagonals(const ModelFolder& folder, const ComeraBlock& block) {
  for (const ChainSpec& chain : block.chains) {
    if (chain.layout.empty() || chain.folded) continue;
    for (std::size_t k = 0; k + 1 < chain.layout.cores(); ++k) {
      const std::vector<float> diagonal = folder.read_floats(chain.diagonal_name(k), {chain.layout.ranks[k + 1]});
      if (!std::all_of(diagonal.begin(), diagonal.end(), [](float value) { return std::isfinite(value); }))
        fail_input(
            "{}: tensor {}: holds a value that is not finite; the run diverged or the file is damaged, take an earlier "
            "checkpoint",
            folder.path(), chain.diagonal_name(k));
    }
  }
}

void transpose(const float* in, std::int64_t rows, std::int64_t columns, float* out) {
  constexpr std::int64_t tile = 32;  // a tile of input and output fits into the first-level cache
  for (std::int64_t row = 0; row < rows; row += tile)
    for (std::int64_t column = 0; column < columns; column += tile)
      for (std::int64_t i = row; i < std::min(row + tile, rows); ++i)
        for (std::int64_t j = column; j < std::min(column + tile, columns); ++j)
          out[j * rows + i] = in[i * columns + j];
}

}  // namespace comera::io
