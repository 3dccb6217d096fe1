#include "muster/distribute/flat_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/distribute/internal/flat_memory.h"
#include "muster/distribute/internal/loss_leaves.h"
#include "muster/distribute/internal/new_slot.h"
#include "muster/distribute/internal/padded_elements.h"
#include "muster/tensor/cache_colored.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::distribute {

using internal::padded_elements;
FlatParameters::FlatParameters(VariableTable& table, const optim::TrainOp& train_op,
                               const Allocate& allocate) {
  assign(table, train_op);
  lay_out(allocate);
}

GradientLayout FlatParameters::layout() const {
  GradientLayout layout;
  for (const Parameter& parameter : parameters_) {
    layout.parameters.push_back({.name = parameter.variable->name(),
                                 .weight = parameter.variable->value(),
                                 .buffer = parameter.buffer,
                                 .offset = parameter.offset,
                                 .elements = parameter.elements,
                                 .padded = parameter.padded});
  }
  for (const Buffer& buffer : buffers_)
    layout.buffers.push_back({.dtype = buffer.dtype, .elements = buffer.elements});
  return layout;
}

void FlatParameters::name_optimizers(const optim::TrainOp& train_op) {
  std::vector<size_t> first_entry;  // [optimizer]
  for (size_t e = 0; e < train_op.entries.size(); ++e) {
    const optim::Optimizer& optimizer = train_op.entries[e].optimizer;
    const auto known =
        std::find_if(optimizers_.begin(), optimizers_.end(),
                     [&](const OptimizerState& state) { return state.name == optimizer.name(); });
    const auto index = known - optimizers_.begin();
    optimizer_of_entry_.push_back(static_cast<int>(index));
    if (known == optimizers_.end()) {
      first_entry.push_back(e);
      loss_scales_.add(optimizer);
      plateaus_.add(optimizer);
      optimizers_.push_back({.name = optimizer.name(),
                             .iterations = torch::zeros({}, at::kLong),
                             .slot_specs = optimizer.rule().slots_differ()
                                               ? std::vector<optim::SlotSpec>()
                                               : optimizer.rule().slots()});
      continue;
    }
    const optim::Optimizer& first =
        train_op.entries[first_entry[static_cast<size_t>(index)]].optimizer;
    if (&first.rule() == &optimizer.rule() &&
        first.transformations() == optimizer.transformations() &&
        first.loss_scaling() == optimizer.loss_scaling() &&
        first.reduction() == optimizer.reduction())
      continue;
    throw invalid_argument(
        "two optimizers of the train_op are called \"" + optimizer.name() + "\"",
        "give one another name: optimizer.named(\"" + optimizer.name() + "_2\")");
  }
}

std::optional<size_t> FlatParameters::owner_of(const Variable& variable,
                                               const optim::TrainOp& train_op) {
  std::optional<size_t> owner;
  for (size_t e = 0; e < train_op.entries.size(); ++e) {
    const auto& filter = train_op.entries[e].filter;
    if (filter && !filter(variable.spec())) continue;
    if (owner) {
      throw invalid_argument(
          fmt::format("the variable {} is claimed by two entries of the train_op ({} and {})",
                      variable.name(), train_op.entries[*owner].optimizer.name(),
                      train_op.entries[e].optimizer.name()),
          "give each minimize() a filter, so that every variable has one optimizer");
    }
    owner = e;
  }
  if (owner && !is_weight_dtype(variable.spec().dtype)) {
    throw invalid_argument(
        fmt::format("not supported: training the variable {}", variable.spec().describe()),
        "keep weights in " + weight_dtype_names() + ", and convert where they are used");
  }
  return owner;
}

void FlatParameters::assign(VariableTable& table, const optim::TrainOp& train_op) {
  name_optimizers(train_op);
  struct Claim {
    Variable* variable{};
    size_t entry{};
  };
  std::vector<Claim> claims;
  entry_tables_.resize(train_op.entries.size());
  for (const auto& created : table.variables()) {
    Variable& variable = *created;
    if (!variable.value().requires_grad()) continue;
    const std::optional<size_t> owner = owner_of(variable, train_op);
    if (!owner) {
      variable.value().set_requires_grad(false);
    } else if (!variable.spec().row_sparse) {
      claims.push_back({&variable, *owner});
    } else {
      entry_tables_[*owner].push_back(static_cast<int>(tables_.size()));
      tables_.add(variable, optimizer_of_entry_[*owner],
                  train_op.entries[*owner].optimizer.rule().slots_of(variable.spec()));
    }
  }
  // Without entries there are updates alone, which know what they change.
  if (claims.empty() && tables_.size() == 0 && !train_op.entries.empty()) {
    std::vector<std::string> others;
    for (const auto& entry : train_op.entries) {
      for (const std::string& other : internal::leaves_of(entry.loss, table).others) {
        if (std::ranges::find(others, other) == others.end()) others.push_back(other);
      }
    }
    if (!others.empty()) {
      throw invalid_argument(
          fmt::format("the train_op has no variable to train; its loss depends on {}, which {}",
                      join(others, ", "), others.size() == 1 ? "is none" : "are none"),
          internal::kTensorsMadeElsewhere);
    }
    throw invalid_argument(
        "the train_op has no variable to train",
        "create trainable variables (layers do), and let neither a filter of minimize() nor "
        "optim::freeze() leave out all of them");
  }
  const auto place = [&](const Claim& claim) {
    return std::pair(weight_dtype_order(claim.variable->spec().dtype),
                     optimizer_of_entry_[claim.entry]);
  };
  std::stable_sort(claims.begin(), claims.end(),
                   [&](const Claim& a, const Claim& b) { return place(a) < place(b); });
  entry_parameters_.resize(train_op.entries.size());
  for (const Claim& claim : claims) {
    entry_parameters_[claim.entry].push_back(static_cast<int>(parameters_.size()));
    parameters_.push_back(
        {.variable = claim.variable, .optimizer = optimizer_of_entry_[claim.entry]});
    regularized_ |= static_cast<bool>(claim.variable->spec().regularizer);
    constrained_ |= static_cast<bool>(claim.variable->spec().constraint);
    auto& own = own_slots_.emplace_back();
    const optim::UpdateRule& rule = train_op.entries[claim.entry].optimizer.rule();
    if (!rule.slots_differ()) continue;
    for (const optim::SlotSpec& slot : rule.slots_of(claim.variable->spec()))
      own.push_back({slot.name, internal::new_slot(*claim.variable, slot), slot.begins_as_weights});
  }
}

void FlatParameters::lay_out(const Allocate& allocate) {
  torch::NoGradGuard no_grad;
  for (Parameter& parameter : parameters_) {
    const DType dtype = parameter.variable->spec().dtype;
    if (buffers_.empty() || buffers_.back().dtype != dtype) buffers_.push_back({.dtype = dtype});
    parameter.buffer = static_cast<int>(buffers_.size()) - 1;
    parameter.offset = buffers_.back().elements;
    parameter.elements = parameter.variable->value().numel();
    parameter.padded = padded_elements(parameter.elements, dtype);
    buffers_.back().elements += parameter.padded;
  }
  // The numbers that travel next to the weights need a buffer, also where all weights are in
  // tables.
  if (buffers_.empty()) buffers_.push_back({.weights = torch::zeros({0}, at::kFloat)});
  for (Buffer& buffer : buffers_) {
    if (buffer.elements == 0) continue;
    const auto element = static_cast<int64_t>(c10::elementSize(buffer.dtype));
    buffer.weights = internal::as_numbers(allocate(buffer.elements * element), buffer.dtype);
  }
  for (const Parameter& parameter : parameters_) move_into_buffer(parameter);
  lay_out_slots();
}

void FlatParameters::move_into_buffer(const Parameter& parameter) {
  // The leaf stays the same object, so that a module which holds it sees the flat memory too. No
  // graph refers to its old memory, for the build pass records none.
  Tensor view = buffers_[static_cast<size_t>(parameter.buffer)]
                    .weights.slice(0, parameter.offset, parameter.offset + parameter.elements)
                    .view(parameter.variable->spec().shape)
                    .detach();
  view.copy_(parameter.variable->value());
  parameter.variable->value().set_data(view);
  // With the buffer's counter of changes, a backward through weights that were updated meanwhile
  // throws, as it does for a parameter of its own memory.
  torch::autograd::impl::set_version_counter(parameter.variable->value(),
                                             torch::autograd::impl::version_counter(view));
}

void FlatParameters::lay_out_slots() {
  for (OptimizerState& state : optimizers_) state.ranges.assign(buffers_.size(), {0, 0});
  for (const Parameter& parameter : parameters_) {
    auto& range = optimizers_[static_cast<size_t>(parameter.optimizer)]
                      .ranges[static_cast<size_t>(parameter.buffer)];
    if (range.second == 0) range.first = parameter.offset;
    range.second = parameter.offset + parameter.padded;
  }
  for (OptimizerState& state : optimizers_) {
    int64_t place = 1;  // weights and gradients stand at the first
    for (const optim::SlotSpec& spec : state.slot_specs) {
      auto& per_buffer = state.slots.emplace_back();
      for (size_t b = 0; b < buffers_.size(); ++b) {
        const auto [begin, end] = state.ranges[b];
        const Tensor& weights = buffers_[b].weights;
        per_buffer.push_back(cache_colored(end - begin, spec.initial_value, weights, place));
        if (spec.begins_as_weights) per_buffer.back().copy_(weights.slice(0, begin, end));
      }
      ++place;
    }
  }
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const Parameter& parameter = parameters_[p];
    segments_.push_back(segment(optimizers_[static_cast<size_t>(parameter.optimizer)],
                                parameter.buffer, parameter.offset,
                                parameter.offset + parameter.elements));
    add_own_slots(p, segments_.back());
  }
}

namespace {

// What optimizers that take turns do.
std::string in_turns() {
  return "if an optimizer makes no step this time, describe it as optimizer.no_step(filter), with "
         "the filter of its minimize(): its weights and moments are then unchanged";
}

}  // namespace

void FlatParameters::check_entries(const optim::TrainOp& train_op) const {
  const auto optimizer_at = [&](size_t e) -> const std::string& {
    return optimizers_[static_cast<size_t>(optimizer_of_entry_[e])].name;
  };
  bool same = train_op.entries.size() == optimizer_of_entry_.size();
  for (size_t e = 0; same && e < optimizer_of_entry_.size(); ++e) {
    same = train_op.entries[e].optimizer.name() == optimizer_at(e);
  }
  for (size_t e = 0; same && e < train_op.entries.size(); ++e) {
    const auto& filter = train_op.entries[e].filter;
    if (!filter) continue;
    for (int p : entry_parameters_[e]) {
      const Variable& variable = *parameters_[static_cast<size_t>(p)].variable;
      if (filter(variable.spec())) continue;
      throw invalid_argument(
          fmt::format("the filter of optimizer {} leaves out the variable {} now, which it trained "
                      "when the model was built",
                      optimizer_at(e), variable.name()),
          "keep the filters of minimize() for the whole run; " + in_turns());
    }
  }
  if (same) return;
  const auto names = [](size_t count, const auto& name_of) {
    std::string text;
    for (size_t e = 0; e < count; ++e) text += (text.empty() ? "" : ", ") + name_of(e);
    return text;
  };
  throw invalid_argument(
      fmt::format("the optimizers of the train_op are now: {}; when the model was built: {}",
                  names(train_op.entries.size(),
                        [&](size_t e) { return train_op.entries[e].optimizer.name(); }),
                  names(optimizer_of_entry_.size(), optimizer_at)),
      "name the same optimizers in every step; " + in_turns());
}

const optim::Optimizer& FlatParameters::rule_of(const optim::TrainOp& train_op,
                                                int optimizer) const {
  for (size_t e = 0; e < optimizer_of_entry_.size(); ++e) {
    if (optimizer_of_entry_[e] == optimizer) return train_op.entries[e].optimizer;
  }
  throw internal_error("an optimizer without an entry");
}

optim::Segment FlatParameters::segment(const OptimizerState& state, int buffer, int64_t begin,
                                       int64_t end) const {
  const auto b = static_cast<size_t>(buffer);
  optim::Segment segment{.weights = buffers_[b].weights.slice(0, begin, end)};
  const int64_t origin = state.ranges[b].first;
  for (const auto& slot : state.slots)
    segment.slots.push_back(slot[b].slice(0, begin - origin, end - origin));
  return segment;
}

void FlatParameters::add_own_slots(size_t parameter, optim::Segment& segment) const {
  for (const OwnSlot& slot : own_slots_[parameter]) segment.slots.push_back(slot.values.view({-1}));
}

std::map<std::string, double> FlatParameters::learning_rates() const {
  std::map<std::string, double> rates;
  for (const OptimizerState& state : optimizers_) {
    const std::string prefix = optimizers_.size() == 1 ? "" : state.name + "/";
    if (state.scheduled_rate) rates[prefix + "learning_rate"] = *state.scheduled_rate;
  }
  return rates;
}

std::map<std::string, Tensor> FlatParameters::slots() const {
  std::map<std::string, Tensor> named = loss_scales_.tensors();
  named.merge(plateaus_.tensors());
  for (const OptimizerState& state : optimizers_)
    named[state.name + "/iterations"] = state.iterations;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const Parameter& parameter = parameters_[p];
    const OptimizerState& state = optimizers_[static_cast<size_t>(parameter.optimizer)];
    for (const OwnSlot& slot : own_slots_[p])
      named[state.name + "/" + slot.name + "/" + parameter.variable->name()] = slot.values;
    const auto b = static_cast<size_t>(parameter.buffer);
    const int64_t begin = parameter.offset - state.ranges[b].first;
    for (size_t s = 0; s < state.slots.size(); ++s) {
      named[state.name + "/" + state.slot_specs[s].name + "/" + parameter.variable->name()] =
          state.slots[s][b]
              .slice(0, begin, begin + parameter.elements)
              .view(parameter.variable->spec().shape);
    }
  }
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    for (const auto& [name, slot] : tables_.slots(static_cast<int>(o)))
      named[optimizers_[o].name + "/" + name] = slot;
  }
  return named;
}

void FlatParameters::begin_slots() {
  torch::NoGradGuard no_grad;
  for (const OptimizerState& state : optimizers_) {
    for (size_t s = 0; s < state.slot_specs.size(); ++s) {
      if (!state.slot_specs[s].begins_as_weights) continue;
      for (size_t b = 0; b < buffers_.size(); ++b) {
        const auto [begin, end] = state.ranges[b];
        Tensor(state.slots[s][b]).copy_(buffers_[b].weights.slice(0, begin, end));
      }
    }
  }
  for (size_t p = 0; p < parameters_.size(); ++p) {
    for (const OwnSlot& slot : own_slots_[p]) {
      if (slot.begins_as_weights) Tensor(slot.values).copy_(parameters_[p].variable->value());
    }
  }
  tables_.begin_slots();
}

std::vector<Tensor> FlatParameters::pieces() const {
  std::vector<Tensor> pieces;
  for (const Buffer& buffer : buffers_) {
    if (buffer.elements > 0) pieces.push_back(buffer.weights);
  }
  for (const OptimizerState& state : optimizers_) {
    pieces.push_back(state.iterations.view({1}));
    for (const auto& slot : state.slots) {
      for (const Tensor& piece : slot) {
        if (piece.numel() > 0) pieces.push_back(piece);
      }
    }
  }
  for (const auto& slots : own_slots_) {
    for (const OwnSlot& slot : slots) {
      if (slot.values.numel() > 0) pieces.push_back(slot.values.view({-1}));
    }
  }
  for (const Tensor& piece : tables_.pieces()) pieces.push_back(piece);
  for (const Tensor& piece : loss_scales_.pieces()) pieces.push_back(piece);
  for (const auto& [name, piece] : plateaus_.tensors()) pieces.push_back(piece);
  return pieces;
}

}  // namespace muster::inline v0_1::distribute
