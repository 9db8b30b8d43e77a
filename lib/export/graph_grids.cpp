#include "lib/export/graph_grids.h"

#include "lib/core/error.h"
#include "lib/io/onnx.h"
#include "lib/quant/grid.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;
using quant::Grid;

// The numbers of a weight, line by line: outputs of a linear layer, or rows of a table. Codes of 2 and 3 bits become
// those of q4_0.
class Lines {
 public:
  Lines(const WeightReader& weights, const io::ChainSpec& spec)
      : grid_(*spec.base), lines_(spec.base_lines()), numbers_(spec.base_numbers()), bytes_(weights.base_bytes(spec)) {
    if (quant::bits_of(grid_) < 4) weights.note_widened(spec);
  }

  // In groups of 32, whatever those of the file are.
  Grid codes() const { return quant::bits_of(grid_) < 4 ? Grid::q4_0 : kernels::code_grid(grid_); }
  bool eight() const { return grid_ == Grid::q8_0; }
  std::int64_t lines() const { return lines_; }
  std::int64_t numbers() const { return numbers_; }
  std::int64_t group() const { return quant::group_of(grid_); }
  std::int64_t groups() const { return quant::groups_of(grid_, numbers_); }
  // Calls take(line, group, contents) with the codes of whole groups.
  template <class Take>
  void each(const Take& take) const {
    const std::byte* bytes = bytes_.data();
    for (std::int64_t line = 0; line < lines_; ++line)
      for (std::int64_t g = 0; g < groups(); ++g) {
        const std::int64_t count = std::min(group(), numbers_ - g * group());
        take(line, g, quant::widened(grid_, quant::read_group(grid_, bytes, count)));
        bytes += quant::line_bytes(grid_, count);
      }
  }

 private:
  Grid grid_;
  std::int64_t lines_, numbers_;
  std::span<const std::byte> bytes_;
};

// A constant that is half precision in the file and float in the graph.
Name half_constant(Graph& graph, const std::string& name, const std::vector<std::int64_t>& dims,
                   const std::vector<float>& values) {
  const WeightType usual = graph.weight_type();
  graph.set_weight_type(WeightType::f16);
  Name made = graph.weight(name, dims, values);
  graph.set_weight_type(usual);
  return made;
}

enum class Order : std::uint8_t { by_line, by_group };  // of scales: [lines, groups] or [groups, lines]

Name scales(Graph& graph, const Lines& lines, const std::string& name, Order order, float quant::Step::*part) {
  std::vector<float> values(static_cast<std::size_t>(lines.lines() * lines.groups()));
  lines.each([&](std::int64_t line, std::int64_t group, const quant::Group& contents) {
    const std::int64_t at = order == Order::by_line ? line * lines.groups() + group : group * lines.lines() + line;
    values[static_cast<std::size_t>(at)] = contents.step.*part;
  });
  return half_constant(
      graph, name,
      order == Order::by_line ? std::vector{lines.lines(), lines.groups()} : std::vector{lines.groups(), lines.lines()},
      values);
}

// The middle of the codes, which the number 0 has; q4_1 counts from its least number.
int middle_of(Grid grid) { return grid == Grid::q8_0 ? 127 : grid == Grid::q4_0 ? 8 : 0; }

// Packs numbers of 4 bits, the first of a byte in its low half.
class Nibbles {
 public:
  explicit Nibbles(std::int64_t count) : bytes_(static_cast<std::size_t>((count + 1) / 2)) {}
  void put(std::int64_t at, int code) {
    bytes_[static_cast<std::size_t>(at / 2)] |= static_cast<std::byte>((code & 15) << (at % 2 * 4));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// [in, out] by DequantizeLinear along the inputs: runtimes fuse it with the product that follows.
Name dequantised(Graph& graph, const Lines& lines, const std::string& name) {
  const std::int64_t in = lines.numbers(), out = lines.lines();
  Nibbles nibbles(lines.eight() ? 0 : in * out);
  std::vector<std::byte> bytes(static_cast<std::size_t>(lines.eight() ? in * out : 0));
  lines.each([&](std::int64_t line, std::int64_t group, const quant::Group& contents) {
    for (std::int64_t i = group * lines.group(); i < std::min((group + 1) * lines.group(), in); ++i) {
      const int code = contents.codes[static_cast<std::size_t>(i % lines.group())] - middle_of(lines.codes());
      if (lines.eight())
        bytes[static_cast<std::size_t>(i * out + line)] = static_cast<std::byte>(code);
      else
        nibbles.put(i * out + line, code);
    }
  });
  const std::int32_t type = lines.eight()                 ? static_cast<std::int32_t>(TensorProto::INT8)
                            : lines.codes() == Grid::q4_1 ? io::onnx_uint4
                                                          : io::onnx_int4;
  const Name codes = graph.codes(name + ".codes", type, {in, out}, lines.eight() ? bytes : nibbles.bytes());
  const Name scale = scales(graph, lines, name + ".scales", Order::by_group, &quant::Step::scale);
  return graph.node("DequantizeLinear", {codes, scale}, {{"axis", std::int64_t{0}}, {"block_size", lines.group()}});
}

// x W by MatMulNBits of ONNX Runtime: [out, groups, bytes], codes from the middle of their range.
Name times_n_bits(Graph& graph, const Lines& lines, const std::string& name, const Name& x) {
  const std::int64_t bytes_of_group = lines.eight() ? lines.group() : lines.group() / 2;
  std::vector<std::byte> bytes;
  lines.each([&](std::int64_t, std::int64_t, const quant::Group& contents) {
    Nibbles nibbles(lines.group());
    for (std::int64_t i = 0; i < lines.group(); ++i) {
      const int code = contents.codes[static_cast<std::size_t>(i)];
      if (lines.eight())
        bytes.push_back(static_cast<std::byte>(code + 1));
      else
        nibbles.put(i, code);
    }
    if (!lines.eight()) bytes.insert(bytes.end(), nibbles.bytes().begin(), nibbles.bytes().end());
  });
  const Name codes =
      graph.codes(name + ".codes", TensorProto::UINT8, {lines.lines(), lines.groups(), bytes_of_group}, bytes);
  const Name scale = scales(graph, lines, name + ".scales", Order::by_line, &quant::Step::scale);
  return graph.node("MatMulNBits", {x, codes, scale},
                    {{"K", lines.numbers()},
                     {"N", lines.lines()},
                     {"bits", std::int64_t{lines.eight() ? 8 : 4}},
                     {"block_size", lines.group()}},
                    "com.microsoft");
}

// Adds the least numbers of the groups of q4_1 to y: the sums of x over each group times these numbers. With
// `shift`, codes count from there in y.
Name with_least(Graph& graph, const Lines& lines, const std::string& name, const Name& x, const Name& y, int shift) {
  const std::int64_t in = lines.numbers();
  std::vector<float> members(static_cast<std::size_t>(in * lines.groups()));
  for (std::int64_t i = 0; i < in; ++i) members[static_cast<std::size_t>(i * lines.groups() + i / lines.group())] = 1;
  const Name sums =
      graph.node("MatMul", {x, graph.weight(fmt::format("groups_of_{}", in), {in, lines.groups()}, members)});
  Name least = scales(graph, lines, name + ".least", Order::by_group, &quant::Step::least);
  if (shift != 0) {
    const Name scale =
        graph.transpose(scales(graph, lines, name + ".scales", Order::by_line, &quant::Step::scale), {1, 0});
    least = graph.node("Add", {least, graph.node("Mul", {scale, graph.scalar(static_cast<float>(shift))})});
  }
  return graph.node("Add", {y, graph.node("MatMul", {sums, least})});
}

// The rows of a table: [rows, groups, bytes] and what belongs to groups. A byte of 4 bits has number i of its group in
// its low half, and number i of the group's second half in the other.
struct TableParts {
  Name codes, scale, least;  // least: q4_1 alone
};

TableParts table_parts(Graph& graph, const Lines& lines, const std::string& name) {
  const auto half = static_cast<std::size_t>(lines.group() / 2);
  std::vector<std::byte> bytes;
  lines.each([&](std::int64_t, std::int64_t, const quant::Group& contents) {
    const std::size_t count = lines.eight() ? 2 * half : half;
    for (std::size_t i = 0; i < count; ++i)
      bytes.push_back(lines.eight() ? static_cast<std::byte>(contents.codes[i])
                                    : static_cast<std::byte>(contents.codes[i] | contents.codes[i + half] << 4));
  });
  const std::int64_t width = lines.eight() ? lines.group() : lines.group() / 2;
  TableParts parts;
  parts.codes = graph.codes(name + ".codes", TensorProto::UINT8, {lines.lines(), lines.groups(), width}, bytes);
  parts.scale = scales(graph, lines, name + ".scales", Order::by_line, &quant::Step::scale);
  if (lines.codes() == Grid::q4_1)
    parts.least = scales(graph, lines, name + ".least", Order::by_line, &quant::Step::least);
  return parts;
}

// Numbers from codes [.., groups, bytes], scales [.., groups] and least numbers: [.., numbers]. `axes`: how many axes
// stand before the groups.
Name unpacked(Graph& graph, const Lines& lines, const TableParts& parts, std::int64_t axes) {
  Name codes = parts.codes;
  if (!lines.eight()) {
    const Name low = graph.node("BitwiseAnd", {codes, graph.byte(15)});
    const Name high = graph.node("BitShift", {codes, graph.byte(4)}, {{"direction", std::string("RIGHT")}});
    codes = graph.node("Concat", {low, high}, {{"axis", axes + 1}});
  }
  Name numbers = graph.node("Cast", {codes}, {{"to", std::int64_t{TensorProto::FLOAT}}});
  if (const int middle = middle_of(lines.codes()))
    numbers = graph.node("Sub", {numbers, graph.scalar(static_cast<float>(middle))});
  const auto of_groups = [&](const Name& value) {
    return graph.node("Unsqueeze", {value, graph.integers({axes + 1})});
  };
  numbers = graph.node("Mul", {numbers, of_groups(parts.scale)});
  if (!parts.least.empty()) numbers = graph.node("Add", {numbers, of_groups(parts.least)});
  std::vector<std::int64_t> shape(static_cast<std::size_t>(axes), 0);  // 0: as it is
  shape.push_back(lines.groups() * lines.group());
  numbers = graph.reshape(numbers, shape);
  if (shape.back() == lines.numbers()) return numbers;
  return graph.node("Slice", {numbers, graph.integers({0}), graph.integers({lines.numbers()}), graph.integers({axes})});
}

}  // namespace

const io::ChainSpec* grid_in_graph(const GraphBuild& build, const std::string& name) {
  if (build.grids == GridForm::dense) return nullptr;
  const io::ChainSpec* spec = build.weights.grid_spec(name);
  return spec && !(spec->table() && !spec->layout.empty()) ? spec : nullptr;
}

Name times_grid(GraphBuild& build, const io::ChainSpec& spec, const Name& x) {
  Graph& graph = build.graph;
  const Lines lines(build.weights, spec);
  const bool n_bits = build.grids == GridForm::nbits;
  Name y = n_bits ? times_n_bits(graph, lines, spec.name, x)
                  : graph.node("MatMul", {x, dequantised(graph, lines, spec.name)});
  if (lines.codes() == Grid::q4_1) y = with_least(graph, lines, spec.name, x, y, n_bits ? 8 : 0);
  if (spec.layout.empty()) return y;
  return graph.node("Add", {y, times_chain(build, build.weights.chain(spec), x)});
}

Name lookup_grid(GraphBuild& build, const io::ChainSpec& spec, const Name& ids) {
  Graph& graph = build.graph;
  const Lines lines(build.weights, spec);
  TableParts parts = table_parts(graph, lines, spec.name);
  for (Name* part : {&parts.codes, &parts.scale, &parts.least})
    if (!part->empty()) *part = graph.node("Gather", {*part, ids});
  Name rows = unpacked(graph, lines, parts, 2);
  if (spec.layout.exact_rows == 0) return rows;
  return with_exact_rows(graph, build.weights.chain(spec), ids, rows);
}

Name times_table_grid(GraphBuild& build, const io::ChainSpec& spec, const Name& x) {
  Graph& graph = build.graph;
  const Lines lines(build.weights, spec);
  Name table = unpacked(graph, lines, table_parts(graph, lines, spec.name), 1);
  if (spec.layout.exact_rows > 0) table = table_with_exact_rows(graph, build.weights.chain(spec), table);
  return graph.node("MatMul", {x, graph.transpose(table, {1, 0})});
}

}  // namespace comera::exporting
