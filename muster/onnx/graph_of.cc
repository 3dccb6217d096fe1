#include "muster/onnx/graph_of.h"

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/onnx/internal/call.h"
#include "muster/onnx/internal/observed_graph.h"
#include "muster/onnx/internal/operations.h"
#include "muster/onnx/internal/recurrent_loops.h"
#include "muster/onnx/internal/tree_ensemble.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1::onnx {
namespace {

using internal::Call;
using internal::ObservedGraph;
using internal::ObservedValue;
using internal::onnx_dtype;
using torch::jit::Node;
using torch::jit::Value;
using AxisNames = std::vector<std::string>;

// A free axis: its name, and its size in both runs.
struct FreeAxis {
  std::string name;
  std::array<int64_t, 2> sizes;
};

class Conversion {
 public:
  Conversion(const ExportedModel& model, const ConvertOptions& options)
      : model_(model), options_(options) {}

  ConvertedGraph convert() {
    const ObservedGraph observed = observe();
    const auto& graph = observed.graph();
    for (size_t i = 0; i < model_.arguments.size(); ++i) {
      const std::string& name = model_.arguments[i];
      const TensorInfo& info = inputs().at(name);
      writer_.add_input(name, info.dtype, info.shape, axis_names(name, info.shape));
      names_[graph.inputs()[i + 1]] = {name};
    }
    const Node& last = *graph.outputs().at(0)->node();
    if (last.kind() != c10::prim::DictConstruct)
      throw corrupt("the module of the export does not return a dict of tensors");
    std::map<std::string, const Value*> results;
    for (size_t i = 0; i + 1 < last.inputs().size(); i += 2)
      results[observed.at(last.inputs()[i]).runs[0].toStringRef()] = last.inputs()[i + 1];
    ConvertedGraph converted;
    const auto outputs = name_outputs(converted.outputs);
    const auto trees = options_.tree_ensembles ? internal::find_trees(observed) : std::nullopt;
    if (options_.recurrent_operations) recurrent_ = internal::find_recurrent_loops(observed);
    for (const Node* node : graph.nodes()) {
      if (trees && node == trees->last) {
        writer_.set_label("boosted_trees");
        names_[node->output()] = {
            internal::add_trees(observed, names_.at(trees->matrix).at(0), writer_)};
      } else if (node != &last && !recurrent_.absorbed.contains(node)) {
        write(*node, observed);
      }
    }
    for (const auto& [name, key] : outputs) add_output(name, results.at(key), observed);
    converted.has_ml = writer_.has_ml();
    converted.weights = writer_.weights();
    converted.graph = writer_.take();
    return converted;
  }

 private:
  const std::map<std::string, TensorInfo>& inputs() const {
    return model_.signatures.at(kServingDefault).inputs;
  }

  // The outputs of the graph with their keys among the module's results. `by_signature` gets them
  // for each signature.
  std::vector<std::pair<std::string, std::string>> name_outputs(
      std::map<std::string, std::map<std::string, std::string>>& by_signature) {
    std::vector<std::pair<std::string, std::string>> all;
    const auto name_those_of = [&](const std::string& signature) {
      const bool first = signature == kServingDefault;
      for (const auto& [name, key] : model_.outputs.at(signature)) {
        const auto same = std::ranges::find_if(all, [&](const auto& each) {
          return each.second == key && (!first || each.first == name);
        });
        if (same != all.end()) {
          by_signature[signature][name] = same->first;
          continue;
        }
        const bool taken =
            std::ranges::any_of(all, [&](const auto& each) { return each.first == name; });
        all.emplace_back(taken ? signature + "/" + name : name, key);
        by_signature[signature][name] = all.back().first;
        reserve(all.back().first);
      }
    };
    name_those_of(kServingDefault);
    for (const auto& [signature, outputs] : model_.outputs) {
      if (signature != kServingDefault) name_those_of(signature);
    }
    return all;
  }

  void reserve(const std::string& output) {
    if (inputs().contains(output)) {
      throw invalid_argument(
          fmt::format("not supported: ONNX: \"{}\" is an input and an output", output),
          "give the output another name");
    }
    writer_.reserve(output);
  }

  AxisNames axis_names(const std::string& input, const Shape& shape) {
    AxisNames result;
    for (size_t axis = 0; axis < shape.size(); ++axis) result.push_back(axis_name(input, axis));
    return result;
  }

  // Runs the module at two sizes of each free axis. They are far apart and have no common divisor,
  // so that what a stride makes of them differs too; a model with a largest length gets short ones.
  ObservedGraph observe() {
    std::istringstream stream(model_.module);
    const torch::jit::Module module = torch::jit::load(stream);
    try {
      return {module, batches({64, 197})};
    } catch (const c10::Error&) {
      if (free_.size() == 1) throw;
      return {module, batches({5, 16})};
    }
  }

  // Batches of 2 and of 3 rows. The values of numbers do not matter, and every table has a row 0.
  std::array<std::vector<Tensor>, 2> batches(const std::array<int64_t, 2>& lengths) {
    std::array<std::vector<Tensor>, 2> result;
    free_ = {{axis_name("", 0), {2, 3}}};
    for (const std::string& name : model_.arguments) {
      const TensorInfo& info = inputs().at(name);
      std::array<Shape, 2> shapes{info.shape, info.shape};
      for (size_t axis = 0; axis < info.shape.size(); ++axis) {
        if (info.shape[axis] >= 0) continue;
        if (axis > 0) free_.push_back({axis_name(name, axis), lengths});
        for (size_t run = 0; run < 2; ++run)
          shapes[run][axis] = (axis == 0 ? free_.front() : free_.back()).sizes[run];
      }
      const double filling = at::isFloatingType(info.dtype) ? 0.5 : 0;
      for (size_t run = 0; run < 2; ++run)
        result[run].push_back(torch::full(shapes[run], filling, at::kDouble).to(info.dtype));
    }
    return result;
  }

  void write(const Node& node, const ObservedGraph& observed) {
    bool constant = true, is_integer = false;
    for (const Value* output : node.outputs()) {
      constant = constant && observed.at(output).constant;
      is_integer = is_integer || observed.at(output).runs[0].isInt();
    }
    if (constant && node.blocks().empty() && node.kind() != c10::aten::append)
      return;  // it is added where it is used
    Call call(node, observed, writer_, names_);
    switch (node.kind()) {
      case c10::prim::Loop:
        return write_loop(node, call, observed);
      case c10::aten::append:
        scan_ = node.inputs()[1];
        return;
      case c10::prim::ListConstruct:
        return;  // its users look at the elements
      case c10::prim::ListUnpack:
        return unpack(node);
      default:
        break;
    }
    if (write_scanned(node, call)) return;
    const internal::OperationMap& map = internal::operation_map();
    auto found = map.find(call.operation() + (is_integer ? internal::kOfIntegers : ""));
    if (found == map.end()) found = map.find(call.operation());
    if (found == map.end()) call.refuse("has no counterpart in ONNX here");
    found->second(call);
  }

  // A loop over steps whose body appends to one list. It is an LSTM or a GRU, or ONNX's Loop, which
  // stacks the appended tensors as its scan output.
  void write_loop(const Node& node, Call& call, const ObservedGraph& observed) {
    if (const auto known = recurrent_.loops.find(&node); known != recurrent_.loops.end()) {
      scanned_[known->second.outputs] = internal::write_recurrent_loop(known->second, call);
      return;
    }
    const torch::jit::Block& body = *node.blocks().at(0);
    const Value* outer_scan = std::exchange(scan_, nullptr);
    std::vector<std::string> inputs{
        call.add("Squeeze", {call.size_name(node.inputs()[0]), writer_.integers({0})}), ""};
    for (size_t i = 2; i < node.inputs().size(); ++i)
      inputs.push_back(call.name_of(node.inputs()[i]));
    writer_.begin_body();
    const std::string step = writer_.unused("step"), more = writer_.unused("more");
    names_[body.inputs()[0]] = {writer_.add("Unsqueeze", {step, writer_.integers({0})}), step};
    std::vector<std::pair<std::string, const Value*>> carried;
    for (size_t i = 1; i < body.inputs().size(); ++i) {
      carried.emplace_back(writer_.unused("state"), body.inputs()[i]);
      names_[body.inputs()[i]] = {carried.back().first};
    }
    for (const Node* inner : body.nodes()) write(*inner, observed);
    std::vector<const Value*> results(body.outputs().begin() + 1, body.outputs().end());
    const Value* list = list_of(body);
    if (scan_ != nullptr) results.push_back(scan_);
    Call inside(node, observed, writer_, names_);
    std::vector<std::pair<std::string, const Value*>> outputs;
    for (const Value* result : results)
      outputs.emplace_back(writer_.add("Identity", {inside.name_of(result)}), result);
    const std::string still = writer_.add("Identity", {more});
    ::onnx::GraphProto graph = writer_.end_body();
    set_scalar(*graph.add_input(), step, at::kLong);
    set_scalar(*graph.add_input(), more, at::kBool);
    for (const auto& [name, value] : carried)
      set_form(*graph.add_input(), name, observed.at(value));
    set_scalar(*graph.add_output(), still, at::kBool);
    for (const auto& [name, value] : outputs)
      set_form(*graph.add_output(), name, observed.at(value));
    const auto names = writer_.add_with_outputs("Loop", inputs, {{"body", graph}}, results.size());
    for (size_t i = 0; i < node.outputs().size(); ++i) call.give(names[i], i);
    if (scan_ != nullptr) scanned_[list] = names.back();
    scan_ = outer_scan;
  }

  static const Value* list_of(const torch::jit::Block& body) {
    for (const Node* node : body.nodes()) {
      if (node->kind() == c10::aten::append) return node->inputs()[0];
    }
    return nullptr;
  }

  static void set_scalar(::onnx::ValueInfoProto& info, const std::string& name, DType dtype) {
    info.set_name(name);
    auto* tensor = info.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(onnx_dtype(dtype));
    tensor->mutable_shape();
  }

  static void set_form(::onnx::ValueInfoProto& info, const std::string& name,
                       const ObservedValue& value) {
    set_scalar(info, name, value.tensor().scalar_type());
    const Tensor second = value.runs[1].toTensor();
    for (int64_t axis = 0; axis < second.dim(); ++axis) {
      auto* dim = info.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
      if (value.tensor().size(axis) == second.size(axis)) dim->set_dim_value(second.size(axis));
    }
  }

  // All that a loop has appended, stacked, and the last of it.
  bool write_scanned(const Node& node, Call& call) {
    if (node.inputs().empty()) return false;
    const auto found = scanned_.find(node.inputs()[0]);
    if (found == scanned_.end()) return false;
    if (node.kind() == c10::aten::stack && call.integer("dim") == 0) {
      call.give(found->second);
    } else if (node.kind() == c10::aten::__getitem__) {
      call.give(
          call.add("Gather", {found->second, call.in("idx", at::kLong)}, {{"axis", int64_t{0}}}));
    } else {
      call.refuse("uses the results of a loop in an unknown way");
    }
    return true;
  }

  void unpack(const Node& node) {
    const Value* list = node.input();
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      if (list->node()->kind() == c10::prim::ListConstruct) {
        const auto found = names_.find(list->node()->inputs()[i]);
        if (found != names_.end()) names_[node.outputs()[i]] = found->second;
      } else {
        names_[node.outputs()[i]] = {names_.at(list).at(i)};
      }
    }
  }

  void add_output(const std::string& name, const Value* value, const ObservedGraph& observed) {
    const ObservedValue& known = observed.at(value);
    const auto found = names_.find(value);
    const std::string source =
        found != names_.end() ? found->second.at(0) : writer_.constant(known.tensor());
    Shape shape = known.tensor().sizes().vec();
    AxisNames names;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::array<int64_t, 2> sizes{shape[axis],
                                         known.runs[1].toTensor().size(static_cast<int64_t>(axis))};
      names.push_back(output_axis(name, axis, sizes));
      if (sizes[0] != sizes[1]) shape[axis] = -1;
    }
    writer_.add_output(name, source, known.tensor().scalar_type(), shape, names);
  }

  std::string output_axis(const std::string& output, size_t axis,
                          const std::array<int64_t, 2>& sizes) const {
    for (const FreeAxis& free : free_) {
      if (free.sizes == sizes) return free.name;
    }
    return fmt::format("{}_axis{}", output, axis);
  }

  const ExportedModel& model_;
  const ConvertOptions options_;
  internal::GraphWriter writer_;
  internal::ValueNames names_;
  std::vector<FreeAxis> free_;
  internal::RecurrentLoops recurrent_;
  const Value* scan_ = nullptr;                  // what the body of the loop appends to a list
  std::map<const Value*, std::string> scanned_;  // such lists, after their loop
};

}  // namespace

std::string axis_name(const std::string& input, size_t axis) {
  return axis == 0 ? "batch" : fmt::format("{}_axis{}", input, axis);
}

ConvertedGraph graph_of(const ExportedModel& model, const ConvertOptions& options) {
  try {
    return Conversion(model, options).convert();
  } catch (const c10::Error& error) {
    throw invalid_argument("not supported: ONNX: the model cannot be converted: " + text_of(error));
  }
}

}  // namespace muster::inline v0_1::onnx
