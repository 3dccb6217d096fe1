#include "muster/layers/internal/graph_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// The C library gives large zeroed memory page by page when it is read. A model that is only looked
// at takes no memory for its weights then.
Tensor untouched_zeros(const Shape& shape, DType dtype) {
  constexpr size_t kAlignment = 64;
  size_t bytes = c10::elementSize(dtype);
  for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
  void* memory = std::calloc(bytes + kAlignment, 1);
  if (memory == nullptr) throw std::bad_alloc();
  void* aligned = memory;
  size_t space = bytes + kAlignment;
  std::align(kAlignment, bytes, aligned, space);
  return at::from_blob(
      aligned, shape, [memory](void*) { std::free(memory); }, at::TensorOptions().dtype(dtype));
}

Shape with_sizes(const SymbolicSpec& spec, int64_t rows, int64_t length) {
  Shape shape = spec.shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0) shape[axis] = axis == 0 ? rows : length;
  }
  return shape;
}

bool has_open_axes(const std::vector<SymbolicSpec>& specs) {
  return std::any_of(specs.begin(), specs.end(), [](const SymbolicSpec& spec) {
    return std::any_of(spec.shape.begin(), spec.shape.end(), [&spec](const int64_t& size) {
      return size < 0 && &size != spec.shape.data();
    });
  });
}

struct Call {
  int64_t rows = 0;
  LayerOutputs outputs;
  std::vector<VariableSpec> variables{};
};

Call call(const Layer& layer, const std::vector<SymbolicSpec>& tensors,
          const std::vector<SymbolicSpec>& state, int64_t length) {
  const at::NoGradGuard no_grad;
  Call call;
  probe_rows([&](int64_t rows) {
    ProbeStore store;
    StepContext context(store, /*seed=*/0);
    context.set_for_shapes_alone();
    call.rows = rows;
    call.outputs = layer(probe_inputs(tensors, state, rows, length), context);
    call.variables.clear();
    for (const auto& variable : store.variables()) call.variables.push_back(variable->spec());
  });
  return call;
}

// Returns the known facts of the `index`th tensor, or piece of state, of both calls.
SymbolicSpec spec_of(const Call& call, const Tensor& tensor, const Tensor& other, size_t index) {
  SymbolicSpec spec{.shape = tensor.sizes().vec(), .dtype = tensor.scalar_type()};
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    const auto place = static_cast<int64_t>(axis);
    const bool same = other.dim() == tensor.dim() && other.size(place) == tensor.size(place);
    if (axis == 0 ? tensor.size(0) == call.rows : !same) spec.shape[axis] = -1;
  }
  const std::vector<Tensor>& masks = call.outputs.masks;
  if (index < masks.size() && masks[index].defined()) spec.mask_axes = masks[index].dim();
  return spec;
}

void check_same_variables(const Call& first, const Call& second) {
  for (size_t i = 0; i < first.variables.size() && i < second.variables.size(); ++i) {
    if (first.variables[i].shape == second.variables[i].shape) continue;
    throw invalid_argument(
        fmt::format("the shape of its variable {} depends on an axis that may have any size",
                    first.variables[i].name),
        "give that axis of the Input a size");
  }
}

}  // namespace

Variable& ProbeStore::get_or_create(const VariableSpec& spec) {
  if (Variable* known = find(spec.name)) return *known;
  variables_.push_back(std::make_unique<Variable>(spec, untouched_zeros(spec.shape, spec.dtype)));
  return *variables_.back();
}

Variable* ProbeStore::find(const std::string& name) const {
  for (const auto& variable : variables_) {
    if (variable->name() == name) return variable.get();
  }
  return nullptr;
}

LayerInputs probe_inputs(const std::vector<SymbolicSpec>& tensors,
                         const std::vector<SymbolicSpec>& state, int64_t rows, int64_t length) {
  LayerInputs inputs;
  bool masked = false;
  for (const SymbolicSpec& spec : tensors) {
    const Shape shape = with_sizes(spec, rows, length);
    inputs.tensors.push_back(at::zeros(shape, spec.dtype));
    inputs.masks.emplace_back();
    if (spec.mask_axes == 0) continue;
    masked = true;
    inputs.masks.back() =
        at::ones(at::IntArrayRef(shape).slice(0, static_cast<size_t>(spec.mask_axes)), at::kBool);
  }
  if (!masked) inputs.masks.clear();
  for (const SymbolicSpec& spec : state)
    inputs.state.push_back(at::zeros(with_sizes(spec, rows, length), spec.dtype));
  return inputs;
}

void probe_rows(const std::function<void(int64_t rows)>& probe) {
  try {
    return probe(0);
  } catch (const std::exception&) {
    // It may be the missing rows, as for x.reshape({x.size(0), -1}); else it fails again.
  }
  probe(2);
}

Probed probe(const Layer& layer, const std::vector<SymbolicSpec>& tensors,
             const std::vector<SymbolicSpec>& state) {
  const Call first = call(layer, tensors, state, kProbeLength);
  Call second;
  const bool open = has_open_axes(tensors) || has_open_axes(state);
  if (open) {
    // A size that differs here is variable too.
    second = call(layer, tensors, state, 2 * kProbeLength);
    check_same_variables(first, second);
  }
  const LayerOutputs& outputs = first.outputs;
  const LayerOutputs& others = open ? second.outputs : outputs;
  if (others.tensors.size() != outputs.tensors.size() ||
      others.state.size() != outputs.state.size()) {
    throw invalid_argument("how many tensors it gives depends on an axis that may have any size",
                           "give that axis of the Input a size");
  }
  Probed probed{.tensors = outputs.tensors.size(), .variables = first.variables};
  const auto add = [&](const Tensor& tensor, const Tensor& other, size_t index) {
    if (!tensor.defined() || !other.defined())
      throw invalid_argument("it gives an undefined tensor");
    probed.outputs.push_back(spec_of(first, tensor, other, index));
  };
  for (size_t i = 0; i < outputs.tensors.size(); ++i) add(outputs.tensors[i], others.tensors[i], i);
  // State has no masks.
  for (size_t i = 0; i < outputs.state.size(); ++i)
    add(outputs.state[i], others.state[i], outputs.masks.size());
  return probed;
}

}  // namespace muster::inline v0_1::internal
