#include "muster/layers/call_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/call_tape.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1 {
namespace {

// An initializer that refuses a shape does not know the variable's name.
Initializer told_apart(Initializer initializer, const std::string& variable) {
  if (!initializer) return initializer;
  return [initializer = std::move(initializer), variable](const Shape& shape, DType dtype,
                                                          RandomKey key) {
    try {
      return initializer(shape, dtype, key);
    } catch (const Error& error) {
      throw error.with_detail(fmt::format("it is for the variable {}", variable));
    }
  };
}

uint64_t next_layer_id() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

LayerIdentity::LayerIdentity(std::string class_name, std::string given_name)
    : id(next_layer_id()), class_name(std::move(class_name)), given_name(std::move(given_name)) {
  if (this->given_name.find('/') != std::string::npos) {
    throw invalid_argument(
        fmt::format("a {} layer is named \"{}\"", this->class_name, this->given_name),
        "names of layers contain no '/': it separates scopes");
  }
}

CallContext::CallContext(VariableStore& variables, uint64_t seed)
    : variables_(variables), seed_(seed) {}

namespace {
thread_local CallContext* current_context = nullptr;
}  // namespace

CallContext* CallContext::current() { return current_context; }
CallContext* CallContext::exchange_current(CallContext* context) {
  return std::exchange(current_context, context);
}

CallContext::Scope::Scope(CallContext& context, const std::string& name)
    : context_(context), outer_(context.scope_) {
  context.scope_ = &name;
}

CallContext::Scope::~Scope() { context_.scope_ = outer_; }

std::string CallContext::choose_name(const LayerIdentity& layer) {
  const std::string prefix = scope_ && !scope_->empty() ? *scope_ + "/" : std::string();
  if (!layer.given_name.empty()) {
    std::string name = prefix + layer.given_name;
    if (!taken_.insert(name).second) {
      throw invalid_argument(fmt::format("two layers are named \"{}\"", name),
                             "give each layer of a model its own name, or none");
    }
    return name;
  }
  int64_t& count = counts_[prefix + layer.class_name];
  for (;;) {
    const int64_t number = count++;
    std::string name = prefix + layer.class_name;
    if (number > 0) name += "_" + std::to_string(number);
    if (taken_.insert(name).second) return name;
  }
}

CallContext::State& CallContext::state_of(const LayerIdentity& layer) {
  if (recent_id_ == layer.id) return *recent_;
  auto found = states_.find(layer.id);
  if (found == states_.end()) {
    State state;
    state.name = choose_name(layer);
    state.key = derive_key(seed_, {id_of("layer"), id_of(state.name)});
    found = states_.emplace(layer.id, std::move(state)).first;
  }
  recent_id_ = layer.id;
  recent_ = &found->second;  // stable: the map is node-based
  return *recent_;
}

const std::string& CallContext::name_of(const LayerIdentity& layer) { return state_of(layer).name; }

bool CallContext::trains(const LayerIdentity& layer) {
  return training_ && !(frozen_ && frozen_(name_of(layer)));
}

void CallContext::reset_states() {
  torch::NoGradGuard no_grad;
  for (const auto& variable : variables_.variables()) {
    if (variable->spec().aggregation == VariableAggregation::kConcat) variable->value().zero_();
  }
}

Tensor CallContext::sum_over_replicas(const Tensor& value) const {
  return num_replicas_ == 1 ? value : sum_over_replicas_(value);
}

const Tensor& CallContext::variable(const LayerIdentity& layer, int slot,
                                    const std::function<VariableSpec()>& describe) {
  if (replayed_ != nullptr) {
    const internal::CallTape::Value& value = replayed_->next_value();
    if (recorded_ != nullptr) recorded_->note(value.tensor, value.is_state);
    return value.tensor;
  }
  const Variable& found = find_or_create(layer, slot, describe);
  if (recorded_ != nullptr) {
    // Layers write such variables, for example moving statistics.
    const bool is_state = found.spec().synchronization == VariableSynchronization::kOnRead;
    recorded_->note(found.value(), is_state);
  }
  return found.value();
}

Tensor CallContext::rows(const LayerIdentity& layer, int slot,
                         const std::function<VariableSpec()>& describe, const Tensor& ids) {
  Variable& found = find_or_create(layer, slot, describe);
  if (replayed_ != nullptr) {
    const Variable::RowUse& use = replayed_->next_row_use();
    if (recorded_ != nullptr) recorded_->row_uses.push_back(use);
    return use.ids.defined() ? internal::rows_of(use, ids) : found.rows(ids);
  }
  const size_t uses = found.row_uses().size();
  Tensor rows = found.rows(ids);
  note_rows(found, uses);
  return rows;
}

Variable::PlacedRows CallContext::placed_rows(const LayerIdentity& layer, int slot,
                                              const std::function<VariableSpec()>& describe,
                                              const Tensor& ids) {
  Variable& found = find_or_create(layer, slot, describe);
  if (replayed_ != nullptr) {
    const Variable::RowUse& use = replayed_->next_row_use();
    if (recorded_ != nullptr) recorded_->row_uses.push_back(use);
    return use.ids.defined() ? internal::placed_rows_of(use, ids) : found.placed_rows(ids);
  }
  const size_t uses = found.row_uses().size();
  Variable::PlacedRows rows = found.placed_rows(ids);
  note_rows(found, uses);
  return rows;
}

void CallContext::note_rows(const Variable& variable, size_t uses_before) {
  if (recorded_ == nullptr) return;
  recorded_->row_uses.push_back(variable.row_uses().size() > uses_before
                                    ? variable.row_uses().back()
                                    : Variable::RowUse{.ids = {}, .rows = variable.value()});
}

Variable& CallContext::find_or_create(const LayerIdentity& layer, int slot,
                                      const std::function<VariableSpec()>& describe) {
  State& state = state_of(layer);
  const auto place = static_cast<size_t>(slot);
  if (place < state.variables.size() && state.variables[place]) {
    return *state.variables[place];
  }
  VariableSpec spec = describe();
  spec.name = state.name + "/" + spec.name;
  spec.initializer = told_apart(std::move(spec.initializer), spec.name);
  Variable& created = variables_.get_or_create(spec);
  if (state.variables.size() <= place) state.variables.resize(place + 1, nullptr);
  state.variables[place] = &created;
  return created;
}

RandomKey CallContext::random_key(const LayerIdentity& layer) {
  return noted_key(layer, static_cast<uint64_t>(replica_));
}

RandomKey CallContext::common_random_key(const LayerIdentity& layer) {
  constexpr uint64_t kAllReplicas = ~uint64_t{0};
  return noted_key(layer, kAllReplicas);
}

RandomKey CallContext::noted_key(const LayerIdentity& layer, uint64_t drawer) {
  const RandomKey key = replayed_ != nullptr ? replayed_->next_key() : draw_key(layer, drawer);
  if (recorded_ != nullptr) recorded_->keys.push_back(key);
  return key;
}

RandomKey CallContext::draw_key(const LayerIdentity& layer, uint64_t drawer) {
  State& state = state_of(layer);
  if (is_tracing()) refuse_tracing("the layer " + state.name, "it draws random numbers");
  if (state.last_step != steps_begun_) {
    state.last_step = steps_begun_;
    state.draws = 0;
  }
  return state.key.derive(static_cast<uint64_t>(step_))
      .derive(drawer)
      .derive(static_cast<uint64_t>(batch_) << 32 | state.draws++);
}

int64_t CallContext::first_row(int64_t rows) const {
  if (num_replicas_ == 1) return 0;
  Tensor counts = at::zeros({num_replicas_}, at::TensorOptions(kInt64).device(variables_.device()));
  counts[replica_] = rows;
  return sum_over_replicas_(counts).slice(0, 0, replica_).sum().item<int64_t>();
}

void CallContext::add_loss(const Tensor& loss) {
  if (!loss.defined() || loss.dim() != 0 || !loss.is_floating_point()) {
    throw invalid_argument(fmt::format("add_loss: the loss is {}", describe(loss)),
                           "it is a floating scalar: the mean over the examples of the batch");
  }
  losses_.push_back(loss);
}

void CallContext::add_activity_loss(const Regularizer& regularizer, const Tensor& output) {
  if (!regularizer) return;
  // 16 bits hold no sum of many numbers.
  const bool narrow = output.element_size() < 4;
  const auto rows = static_cast<double>(std::max<int64_t>(output.size(0), 1));
  add_loss(regularizer(narrow ? output.to(kFloat32) : output) / rows);
}

std::vector<Tensor> CallContext::take_losses() { return std::exchange(losses_, {}); }

}  // namespace muster::inline v0_1
