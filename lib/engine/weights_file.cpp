#include "lib/engine/weights_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/temporary.h"
#include "lib/core/reals.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/core/units.h"
#include "lib/engine/file_source.h"
#include "lib/engine/unused_tensors.h"
#include "lib/io/model_folder.h"
#include "lib/io/tt_format.h"

namespace comera::engine {
namespace {

io::StoredType stored_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return io::StoredType::F32;
    case DType::f64: return io::StoredType::F64;
    case DType::f16: return io::StoredType::F16;
    case DType::u8: return io::StoredType::U8;
    default: COMERA_CHECK(dtype == DType::bf16); return io::StoredType::BF16;
  }
}

io::FileShape file_shape(const Shape& shape, bool transposed) {
  io::FileShape sizes(shape.sizes().begin(), shape.sizes().end());
  if (transposed) std::swap(sizes.at(0), sizes.at(1));
  return sizes;
}

io::FileShape file_shape(const Parameter& parameter) {
  return parameter.file_shape.dims() > 0 ? file_shape(parameter.file_shape, false)
                                         : file_shape(parameter.shape, parameter.transposed_in_file);
}

const io::Metadata& metadata() {
  static const io::Metadata metadata = io::weights_metadata();
  return metadata;
}

DType file_type(const Parameter& parameter, FileTypes types) {
  return types == FileTypes::stored ? parameter.stored.value_or(parameter.value.dtype) : parameter.value.dtype;
}

std::vector<io::TensorToWrite> tensors_of(const Model& model, FileTypes types) {
  std::vector<io::TensorToWrite> tensors;
  for (const Parameter& parameter : model.parameters().all())
    tensors.push_back({parameter.name, stored_type(file_type(parameter, types)), file_shape(parameter)});
  for (const layers::ChainParameters& chain : model.chains()) {
    if (chain.exact_rows)
      tensors.push_back(
          {chain.name + ".exact.ids", io::StoredType::I32, {static_cast<std::int64_t>(chain.exact_ids.size())}});
    if (chain.cores.empty()) continue;
    if (chain.layout.sorted)
      tensors.push_back({chain.name + ".order", io::StoredType::I32, {static_cast<std::int64_t>(chain.order.size())}});
    if (chain.layout.gauge)
      tensors.push_back({chain.name + ".gauge", io::StoredType::I32, {static_cast<std::int64_t>(chain.gauge.size())}});
  }
  return tensors;
}

// Passes the rows of the transpose of `bytes`, a [rows, columns] matrix, to `take`, one at a time.
template <class Row>
void transpose(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t columns, std::size_t element,
               Row&& take) {
  std::vector<std::byte> row(static_cast<std::size_t>(rows) * element);
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(row.data() + static_cast<std::size_t>(r) * element,
                  bytes.data() + static_cast<std::size_t>(r * columns + c) * element, element);
    take(std::span<const std::byte>(row));
  }
}

void put(const Machine& machine, const Tensor& tensor, bool transposed, io::TensorSink& sink) {
  const HostBytes host(machine, tensor);
  if (!transposed) return sink.bytes(host.bytes().data(), host.bytes().size());
  transpose(host.bytes(), tensor.shape[0], tensor.shape[1], size_of(tensor.dtype),
            [&](std::span<const std::byte> row) { sink.bytes(row.data(), row.size()); });
}

constexpr double too_large_for_half = 65520;  // larger numbers round to infinity

// Converts numbers of type `from` to another tensor's type, in small blocks.
void convert(std::span<const std::byte> bytes, DType from, const io::TensorToWrite& into, io::TensorSink& sink) {
  constexpr std::size_t most = 4096;
  const std::size_t count = bytes.size() / size_of(from);
  const Tensor host{const_cast<std::byte*>(bytes.data()), from, {static_cast<std::int64_t>(count)}, -1};
  std::vector<float> floats;
  std::vector<double> numbers;
  for (std::size_t at = 0; at < count; at += floats.size()) {
    floats.resize(std::min(most, count - at));
    numbers.resize(floats.size());
    layers::load(host, static_cast<std::int64_t>(at), numbers);
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const double value = numbers[i];
      if (into.type == io::StoredType::F16 && std::abs(value) >= too_large_for_half)
        fail_run("[weights] tensor {}: {} is too large for fp16; go on with --resume and --save-dtype fp32", into.name,
                 format_digits(value, 6));
      floats[i] = static_cast<float>(value);
    }
    sink.floats(floats);
  }
}

void put(const Machine& machine, const Parameter& parameter, const io::TensorToWrite& into, io::TensorSink& sink) {
  const DType from = parameter.value.dtype;
  if (into.type == stored_type(from)) return put(machine, parameter.value, parameter.transposed_in_file, sink);
  const HostBytes host(machine, parameter.value);
  if (!parameter.transposed_in_file) return convert(host.bytes(), from, into, sink);
  transpose(host.bytes(), parameter.shape[0], parameter.shape[1], size_of(from),
            [&](std::span<const std::byte> row) { convert(row, from, into, sink); });
}

// Returns a tensor's bytes in the orientation of the file, as element type `dtype`.
std::vector<std::byte> bytes_as(const io::WeightFile& file, const io::StoredTensor& stored, DType dtype) {
  if (stored.type == stored_type(dtype)) {
    const io::StoredBytes raw = file.bytes(stored);
    return {raw.begin(), raw.end()};
  }
  std::vector<float> floats(static_cast<std::size_t>(stored.elements()));
  file.read_floats(stored, floats);
  std::vector<std::byte> bytes(floats.size() * size_of(dtype));
  const Tensor host{bytes.data(), dtype, {stored.elements()}, -1};
  for (std::size_t i = 0; i < floats.size(); ++i) layers::store(host, static_cast<std::int64_t>(i), floats[i]);
  return bytes;
}

void check_finite(const Tensor& host, const std::string& file, const std::string& name) {
  std::array<double, 4096> numbers;
  const auto finite = [](double number) { return std::isfinite(number); };
  for (std::int64_t at = 0; at < host.shape.elements(); at += std::ssize(numbers)) {
    const std::span<double> values = std::span(numbers).first(
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(numbers), host.shape.elements() - at)));
    layers::load(host, at, values);
    if (const auto bad = std::find_if_not(values.begin(), values.end(), finite); bad != values.end())
      fail_input("{}: tensor {}: its element {} is {}; the file is damaged or its training diverged, use another one",
                 file, name, at + (bad - values.begin()), *bad);
  }
}

// Warns about tensors without a place in the model: an adapter, a layer, a head. A folder that is being written is read
// to compare it with the model that it is made from, of which the same was told.
void tell_unused(const FileSource& source) {
  if (!is_temporary(base_name(source.folder().path()))) warn_of_unused(source.folder().path(), source.unused());
}

// The codes that become the numbers of a tensor; nothing for codes that stay codes and for other entries.
std::optional<FileSource::Codes> expanded(const FileSource& source, const io::ModelFolder::Entry& entry, DType into) {
  return into == DType::u8 ? std::nullopt : source.codes(entry);
}

void require_shape(const FileSource& source, const io::ModelFolder::Entry& entry, DType into,
                   const io::FileShape& wanted) {
  const auto codes = expanded(source, entry, into);
  if ((codes ? codes->shape() : entry.tensor.shape) != wanted)
    fail_input("{}: tensor {} has shape {}, but {} was wanted; the file belongs to another model",
               source.folder().file_of(entry).path(), entry.tensor.name, io::to_string(entry.tensor.shape),
               io::to_string(wanted));
}

void read_numbers(const FileSource& source, const io::ModelFolder::Entry& entry, bool transposed,
                  std::span<float> numbers) {
  if (const auto codes = source.codes(entry)) {
    const std::vector<float> all = codes->core ? io::read_core(source.folder(), *codes->chain, *codes->core)
                                               : io::read_matrix(source.folder(), *codes->chain, {}).values;
    return void(std::ranges::copy(all, numbers.begin()));
  }
  const std::int64_t rows = entry.tensor.shape.empty() ? 1 : entry.tensor.shape[0],
                     columns = rows == 0 ? 0 : entry.tensor.elements() / rows;
  source.folder().file_of(entry).read_rows(entry.tensor, [&](std::int64_t first, std::span<const float> part) {
    if (!transposed) return void(std::copy(part.begin(), part.end(), numbers.begin() + first * columns));
    const std::int64_t count = std::ssize(part) / columns;
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = 0; r < count; ++r)
        numbers[static_cast<std::size_t>(c * rows + first + r)] = part[static_cast<std::size_t>(r * columns + c)];
  });
}

// `wanted`: the tensor's sizes in the file.
void get(const Machine& machine, const FileSource& source, const io::ModelFolder::Entry& entry, const Tensor& tensor,
         bool transposed, const io::FileShape& wanted) {
  const io::StoredTensor* stored = &entry.tensor;
  const io::WeightFile& file = source.folder().file_of(entry);
  require_shape(source, entry, tensor.dtype, wanted);
  if (tensor.dtype == DType::f32 || expanded(source, entry, tensor.dtype)) {
    std::vector<float> numbers(static_cast<std::size_t>(tensor.shape.elements()));
    read_numbers(source, entry, transposed, numbers);
    if (tensor.dtype == DType::f32) return write(machine, tensor, std::as_bytes(std::span(numbers)));
    std::vector<std::byte> bytes(tensor.bytes());
    const Tensor host{bytes.data(), tensor.dtype, tensor.shape, -1};
    for (std::size_t i = 0; i < numbers.size(); ++i) layers::store(host, static_cast<std::int64_t>(i), numbers[i]);
    return write(machine, tensor, bytes);
  }
  if (tensor.dtype == DType::u8 && stored->type != io::StoredType::U8)
    fail_input("{}: tensor {} has type {}, but U8 was wanted", file.path(), stored->name, io::name_of(stored->type));
  std::vector<std::byte> bytes = bytes_as(file, *stored, tensor.dtype);
  if (tensor.dtype != DType::u8)
    check_finite({bytes.data(), tensor.dtype, {stored->elements()}, -1}, file.path(), stored->name);
  if (!transposed) return write(machine, tensor, bytes);
  std::vector<std::byte> turned;
  turned.reserve(bytes.size());
  transpose(bytes, tensor.shape[1], tensor.shape[0], size_of(tensor.dtype),
            [&](std::span<const std::byte> row) { turned.insert(turned.end(), row.begin(), row.end()); });
  write(machine, tensor, turned);
}

// Reads the right factor [R, N] of a chain that is stored with a gauge into a core without one.
void get_without_gauge(const Machine& machine, const FileSource& source, const layers::ChainParameters& chain) {
  const Parameter& core = *chain.cores.back();
  const std::int64_t rank = core.shape[0], columns = core.shape[1];
  const io::ModelFolder::Entry& entry = source.require(core.name);
  if (entry.tensor.shape != io::FileShape{rank, columns - rank, 1})
    fail_input("{}: tensor {} has shape {}, but {} was wanted beside its gauge", source.folder().path(),
               entry.tensor.name, io::to_string(entry.tensor.shape), io::to_string({rank, columns - rank, 1}));
  std::vector<float> stored(static_cast<std::size_t>(entry.tensor.elements()));
  source.folder().file_of(entry).read_floats(entry.tensor, stored);
  const std::vector<float> full = tt::with_gauge(tt::FloatMatrix(rank, columns - rank, std::move(stored)),
                                                 source.indices(chain.name + ".gauge", rank, columns))
                                      .values;
  std::vector<std::byte> bytes(core.value.bytes());
  const Tensor host{bytes.data(), core.value.dtype, core.shape, -1};
  for (std::size_t i = 0; i < full.size(); ++i) layers::store(host, static_cast<std::int64_t>(i), full[i]);
  check_finite(host, source.folder().path(), entry.tensor.name);
  write(machine, core.value, bytes);
}

// Reads orders, gauges and ids of exact rows. Returns the cores that are loaded with them.
std::set<const Parameter*> get_chains(const FileSource& source, Weights& weights) {
  std::set<const Parameter*> done;
  for (layers::ChainParameters& chain : weights.model().chains()) {
    if (chain.exact_rows)
      chain.exact_ids = source.rising(chain.name + ".exact.ids", chain.layout.exact_rows, chain.rows);
    if (chain.cores.empty()) continue;
    if (chain.layout.sorted) chain.order = source.indices(chain.name + ".order", chain.columns, chain.columns);
    if (chain.layout.gauge)
      chain.gauge = source.indices(chain.name + ".gauge", chain.layout.ranks[chain.layout.middle()], chain.rows);
    if (chain.layout.gauge || !source.find(chain.name + ".gauge")) continue;
    get_without_gauge(weights.machine(), source, chain);
    done.insert(chain.cores.back());
  }
  return done;
}

std::map<std::string, const std::vector<std::int32_t>*> indices_of(const Model& model) {
  std::map<std::string, const std::vector<std::int32_t>*> indices;
  for (const layers::ChainParameters& chain : model.chains()) {
    indices[chain.name + ".order"] = &chain.order;
    indices[chain.name + ".gauge"] = &chain.gauge;
    indices[chain.name + ".exact.ids"] = &chain.exact_ids;
  }
  return indices;
}

// The cores that the file stores with a gauge and the model without.
std::set<const Parameter*> cores_without_gauge(const FileSource& source, const Model& model) {
  std::set<const Parameter*> cores;
  for (const layers::ChainParameters& chain : model.chains())
    if (!chain.cores.empty() && !chain.layout.gauge && source.find(chain.name + ".gauge"))
      cores.insert(chain.cores.back());
  return cores;
}

void write_weights(AtomicFile file, const Weights& weights, FileTypes types) {
  std::map<std::string, const Parameter*> parameters;
  for (const Parameter& parameter : weights.model().parameters().all()) parameters[parameter.name] = &parameter;
  const auto indices = indices_of(weights.model());
  std::vector<io::TensorToWrite> tensors = tensors_of(weights.model(), types);
  TaskProgress task("writing weights", std::ssize(tensors));
  io::write_safetensors(file, std::move(tensors), metadata(),
                        [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
                          task.advance();
                          if (const auto found = indices.find(tensor.name); found != indices.end())
                            return sink.bytes(found->second->data(), found->second->size() * sizeof(std::int32_t));
                          put(weights.machine(), *parameters.at(tensor.name), tensor, sink);
                        });
}

}  // namespace

std::uint64_t weights_file_bytes(const Model& model, FileTypes types) {
  return io::safetensors_bytes(tensors_of(model, types), metadata());
}

void save_weights(const std::string& path, const Weights& weights, FileTypes types) {
  write_weights(AtomicFile(path), weights, types);
}

void save_weights(const Folder& folder, const std::string& name, const Weights& weights, FileTypes types) {
  write_weights(AtomicFile(folder, name), weights, types);
}

std::vector<std::string> load_weights(const std::string& path, Weights& weights, const LoadOptions& options) {
  const FileSource source(path, options);
  source.check_chains();
  const std::set<const Parameter*> done = get_chains(source, weights);
  std::vector<std::string> kept;
  TaskProgress task("loading weights", std::ssize(weights.model().parameters().all()));
  for (const Parameter& parameter : weights.model().parameters().all()) {
    check_stop();
    task.advance();
    if (done.contains(&parameter)) continue;
    const bool fresh = options.fresh && options.fresh(parameter);
    if (fresh) source.replace(parameter);
    if (fresh || (options.may_miss && options.may_miss(parameter) && !source.find(parameter.name, parameter.aliases)))
      kept.push_back(parameter.name);
    else
      get(weights.machine(), source, source.require(parameter.name, parameter.aliases), parameter.value,
          parameter.transposed_in_file, file_shape(parameter));
  }
  tell_unused(source);
  return kept;
}

struct StoredWeights::Opened {
  LoadOptions options;
  FileSource source;
  Opened(const std::string& path, const std::string& adapter)
      : options{.fresh = {}, .may_miss = {}, .adapter = adapter}, source(path, options) {}
};

StoredWeights::StoredWeights(const std::string& path, const std::string& adapter)
    : opened_(std::make_unique<Opened>(path, adapter)) {}
StoredWeights::~StoredWeights() = default;

void StoredWeights::read(const Parameter& parameter, std::span<float> numbers) const {
  const FileSource& source = opened_->source;
  const io::ModelFolder::Entry& entry = source.require(parameter.name, parameter.aliases);
  require_shape(source, entry, DType::f32, file_shape(parameter));
  read_numbers(source, entry, parameter.transposed_in_file, numbers);
  source.folder().file_of(entry).forget(entry.tensor);
}

std::string StoredWeights::tensor_of(const Parameter& parameter) const {
  return opened_->source.require(parameter.name, parameter.aliases).tensor.name;
}

void check_weights(const std::string& path, const Model& model, const LoadOptions& options) {
  const FileSource source(path, options);
  source.check_chains();
  const std::set<const Parameter*> without_gauge = cores_without_gauge(source, model);
  const auto claim = [&](const Parameter& parameter) {
    std::uint64_t all = 0;
    for (const Parameter& one : model.parameters().all()) all += one.value.bytes();
    return fmt::format("config.json makes it {}, {}, of a model of {}", io::to_string(file_shape(parameter)),
                       format_bytes(parameter.value.bytes()), format_bytes(all));
  };
  for (const Parameter& parameter : model.parameters().all()) {
    if (options.fresh && options.fresh(parameter)) continue;
    const io::ModelFolder::Entry* found = source.find(parameter.name, parameter.aliases);
    if (!found && options.may_miss && options.may_miss(parameter)) continue;
    if (!found)
      fail_input("{}: tensor {} is missing; the file belongs to another model ({})",
                 source.folder().files().front()->path(), source.file_name(parameter.name), claim(parameter));
    const io::FileShape wanted = file_shape(parameter);
    const auto codes = expanded(source, *found, parameter.value.dtype);
    if (codes && codes->shape() == wanted) continue;
    if (found->tensor.shape != wanted && !without_gauge.contains(&parameter))
      fail_input("{}: tensor {} has shape {}, but {} was wanted; the file belongs to another model ({})",
                 source.folder().file_of(*found).path(), found->tensor.name, io::to_string(found->tensor.shape),
                 io::to_string(wanted), claim(parameter));
    if (parameter.value.dtype != DType::u8 && !io::is_floating(found->tensor.type))
      fail_input(
          "{}: tensor {} holds {}; weights are floating-point numbers: convert the model, or take one that is not "
          "quantised",
          source.folder().file_of(*found).path(), found->tensor.name, io::name_of(found->tensor.type));
  }
}

StoredTypes stored_types(const std::string& path) {
  const io::ModelFolder folder(path);
  StoredTypes types;
  std::map<DType, std::uint64_t> bytes;
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    if (!io::is_floating(entry.tensor.type)) continue;
    const DType type = entry.tensor.type == io::StoredType::F16    ? DType::f16
                       : entry.tensor.type == io::StoredType::BF16 ? DType::bf16
                                                                   : DType::f32;
    types.by_name[entry.tensor.name] = type;
    bytes[type] += entry.tensor.bytes();
  }
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  if (!bytes.empty()) types.others = std::max_element(bytes.begin(), bytes.end(), less)->first;
  return types;
}

layers::ModelFactory storing(layers::ModelFactory base, StoredTypes types, const LoadOptions& naming) {
  const auto type_of = [types = std::move(types), model = naming.model_prefix,
                        file = naming.file_prefix](const Parameter& parameter) {
    std::vector<std::string> names = parameter.aliases;
    names.insert(names.begin(), parameter.name);
    for (const std::string& name : names) {
      const auto found =
          types.by_name.find(!model.empty() && name.starts_with(model) ? file + name.substr(model.size()) : name);
      if (found != types.by_name.end()) return found->second;
    }
    return types.others;
  };
  return [base = std::move(base), type_of](const layers::RankTable& ranks) {
    auto model = base(ranks);
    for (Parameter& parameter : model->parameters().all())
      if (const DType type = type_of(parameter);
          size_of(type) < size_of(parameter.value.dtype) && parameter.role != layers::Role::diagonal)
        parameter.stored = type;
    return model;
  };
}

void save_state(const Folder& folder, const std::string& name, const Weights& weights) {
  AtomicFile file(folder, name);
  std::map<std::string, Tensor> state;
  std::vector<io::TensorToWrite> tensors;
  const plan::Slab& slab = weights.state_slab();
  for (std::size_t i = 0; i < slab.items().size(); ++i) {
    const plan::Slab::Item& item = slab.items()[i];
    if (item.shape.elements() == 0) continue;
    state[item.name] = slab[static_cast<int>(i)];
    tensors.push_back({item.name, stored_type(item.dtype), file_shape(item.shape, false)});
  }
  TaskProgress task("writing the optimiser's state", std::ssize(tensors));
  io::write_safetensors(file, std::move(tensors), metadata(),
                        [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
                          task.advance();
                          put(weights.machine(), state.at(tensor.name), false, sink);
                        });
}

void load_state(const std::string& path, Weights& weights) {
  const LoadOptions plain;
  const FileSource source(path, plain);
  const plan::Slab& slab = weights.state_slab();
  TaskProgress task("loading the optimiser's state", std::ssize(slab.items()));
  for (std::size_t i = 0; i < slab.items().size(); ++i, task.advance()) {
    if (slab.items()[i].shape.elements() == 0) continue;
    const io::ModelFolder::Entry* found = source.find(slab.items()[i].name);
    const io::FileShape wanted = file_shape(slab.items()[i].shape, false);
    if (!found || found->tensor.shape != wanted)
      fail_input(
          "{}: {}, and this call needs {} with shape {}: the state is that of another --optimizer, or of other "
          "settings of --activations compact or velora; resume with those in recipe.toml, or begin a new run from the "
          "model",
          path,
          found ? fmt::format("{} has shape {}", found->tensor.name, io::to_string(found->tensor.shape))
                : fmt::format("has no {}", slab.items()[i].name),
          found ? "it" : "one", io::to_string(wanted));
    get(weights.machine(), source, *found, slab[static_cast<int>(i)], false, wanted);
  }
}

}  // namespace comera::engine
