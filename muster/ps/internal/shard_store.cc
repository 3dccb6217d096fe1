#include "muster/ps/internal/shard_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/ps/internal/shared_weights.h"
#include "muster/ps/internal/staged_gradients.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/table_rows.h"

namespace muster::inline v0_1::ps {

using distribute::FlatParameters;
using distribute::RowGradient;
using distribute::VariableTable;

namespace {

// The optimizers of `train_op` as a server runs them: only the rule, for the shards of the
// variables that the entry trains, whose names are in `logical`.
optim::TrainOp rules_of(const optim::TrainOp& train_op,
                        const std::map<std::string, VariableSpec>& logical) {
  optim::TrainOp rules;
  for (const auto& entry : train_op.entries) {
    std::shared_ptr<const optim::UpdateRule> rule;
    (void)entry.optimizer.around([&](std::shared_ptr<const optim::UpdateRule> own) {
      rule = own;
      return own;
    });
    optim::Optimizer own(rule, entry.optimizer.name());
    if (const auto& reduction = entry.optimizer.reduction()) own = own.reduced(*reduction);
    rules.entries.push_back(
        {.optimizer = own, .filter = [filter = entry.filter, logical](const VariableSpec& shard) {
           const auto found = logical.find(shard.name);
           return found != logical.end() && (!filter || filter(found->second));
         }});
  }
  return rules;
}

// The shard as a variable of its own.
VariableSpec spec_of(const ShardOf& of, uint64_t seed) {
  VariableSpec spec = of.variable;
  spec.name = plan::shard_name(of.variable.name, of.shard);
  spec.regularizer = {};
  const int64_t begin = of.shard.begin, rows = of.shard.end - of.shard.begin;
  if (!spec.shape.empty()) spec.shape[0] = rows;
  // Values depend on the whole variable's name, so they do not depend on how it is cut.
  const auto part_of = [begin, rows, parts = of.shard.parts](const Tensor& whole) {
    return parts == 1 ? whole.clone() : whole.narrow(0, begin, rows).clone();
  };
  if (of.initial.defined()) {
    // It is released when the shard has it.
    spec.initializer = [once = std::make_shared<Tensor>(part_of(of.initial.detach()))](
                           const Shape&, DType, RandomKey) { return std::exchange(*once, {}); };
  } else {
    spec.initializer = [whole = of.variable, part_of, seed](const Shape&, DType, RandomKey) {
      return part_of(
          whole.initializer(whole.shape, whole.dtype, derive_key(seed, {id_of(whole.name)})));
    };
  }
  return spec;
}

int64_t bytes_of(const ShardOf& of) {
  int64_t elements = of.shard.end - of.shard.begin;
  for (size_t axis = 1; axis < of.variable.shape.size(); ++axis)
    elements *= of.variable.shape[axis];
  return elements * static_cast<int64_t>(c10::elementSize(of.variable.dtype));
}

int64_t bytes_of(const FlatParameters::Buffer& buffer) {
  return buffer.elements * static_cast<int64_t>(c10::elementSize(buffer.dtype));
}

}  // namespace

struct ShardStore::Group {
  explicit Group(uint64_t seed) : table(seed) {}
  VariableTable table;
  std::unique_ptr<FlatParameters> parameters{};
  std::shared_mutex mutex{};
};

ShardStore::ShardStore(const std::vector<ShardOf>& shards, const optim::TrainOp& train_op,
                       uint64_t seed, int groups, bool shared, bool leads)
    : leads_(leads) {
  torch::NoGradGuard no_grad;
  std::map<std::string, VariableSpec> logical;
  for (const ShardOf& of : shards) {
    logical[plan::shard_name(of.variable.name, of.shard)] = of.variable;
    bytes_ += bytes_of(of);
  }
  train_op_ = rules_of(train_op, logical);
  std::set<std::string> optimizers;
  for (const auto& entry : train_op_.entries) {
    if (!optimizers.insert(entry.optimizer.name()).second) continue;
    plateaus_.add(entry.optimizer);
    reduces_ = reduces_ || entry.optimizer.reduction();
  }
  if (shared) share(shards, static_cast<size_t>(groups));
  // Neighbours are together, each group with about as many bytes as the others.
  int64_t before = 0;
  std::vector<std::string> names;
  for (const ShardOf& of : shards) {
    const int64_t share = bytes_ > 0 ? before * groups / bytes_ : 0;
    if (groups_.empty() || static_cast<int64_t>(groups_.size()) <= share)
      groups_.push_back(std::make_unique<Group>(seed));
    before += bytes_of(of);
    const VariableSpec spec = spec_of(of, seed);
    Variable& variable = groups_.back()->table.get_or_create(spec);
    // The others go into flat buffers below.
    if (shared_ && spec.row_sparse) {
      const Tensor memory = allocate(bytes_of(of)).view(spec.dtype).view(spec.shape);
      memory.copy_(variable.value());
      variable.value().set_data(memory);
    }
    places_.push_back({.group = groups_.size() - 1});
    names.push_back(spec.name);
  }
  for (auto& group : groups_) {
    group->table.seal();
    group->parameters = std::make_unique<FlatParameters>(
        group->table, train_op_, [this](int64_t bytes) { return allocate(bytes); });
  }
  for (size_t s = 0; s < places_.size(); ++s) {
    Place& place = places_[s];
    const FlatParameters& parameters = *groups_[place.group]->parameters;
    for (size_t p = 0; p < parameters.parameters().size(); ++p) {
      if (parameters.parameters()[p].variable->name() == names[s])
        place.parameter = static_cast<int>(p);
    }
    for (size_t t = 0; t < parameters.tables().size(); ++t) {
      if (parameters.tables().variable(static_cast<int>(t)).name() == names[s])
        place.table = static_cast<int>(t);
    }
    if (place.parameter < 0 && place.table < 0)
      throw internal_error("no optimizer trains the shard " + names[s]);
  }
}

ShardStore::~ShardStore() = default;

void ShardStore::share(const std::vector<ShardOf>& shards, size_t groups) {
  int64_t bytes = 0;
  for (const ShardOf& of : shards) bytes += SharedWeights::rounded_up(bytes_of(of));
  try {
    shared_ = std::make_unique<SharedWeights>(groups, bytes);
  } catch (const Error& error) {
    log::debug(fmt::format("workers read weights over sockets: {}", error.message()));
  }
}

Tensor ShardStore::allocate(int64_t bytes) {
  return shared_ ? shared_->allocate(bytes) : torch::zeros({bytes}, at::kByte);
}

int64_t ShardStore::shared_place(size_t shard) const {
  const Place& place = places_.at(shard);
  const FlatParameters& parameters = *groups_[place.group]->parameters;
  if (place.table >= 0) return shared_->place_of(table(shard).value());
  return shared_->place_of(
      parameters.parameters()[static_cast<size_t>(place.parameter)].variable->value());
}

bool ShardStore::row_sparse(size_t shard) const { return places_[shard].table >= 0; }

std::vector<Tensor> ShardStore::read_dense(std::vector<Tensor>* memory) {
  torch::NoGradGuard no_grad;
  std::vector<Tensor> shards;
  size_t next = 0;  // in *memory
  size_t s = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const FlatParameters& parameters = *groups_[g]->parameters;
    const size_t first = next;
    {
      const std::shared_lock lock(groups_[g]->mutex);
      for (const auto& buffer : parameters.buffers()) {
        if (memory->size() == next) memory->push_back(at::empty_like(buffer.weights));
        (*memory)[next++].copy_(buffer.weights);
      }
    }
    for (; s < places_.size() && places_[s].group == g; ++s) {
      if (places_[s].parameter < 0) continue;
      const auto& parameter = parameters.parameters()[static_cast<size_t>(places_[s].parameter)];
      shards.push_back((*memory)[first + static_cast<size_t>(parameter.buffer)].narrow(
          0, parameter.offset, parameter.elements));
    }
  }
  return shards;
}

Tensor ShardStore::read_rows(size_t shard, const Tensor& ids) {
  torch::NoGradGuard no_grad;
  check_rows(shard, ids);
  Group& group = *groups_[places_[shard].group];
  const Variable& variable = table(shard);
  Tensor rows = rows_like(shard, ids.numel());
  const std::shared_lock lock(group.mutex);
  muster::read_rows(variable.value(), ids, rows, 0);
  return rows;
}

const Variable& ShardStore::table(size_t shard) const {
  const Place& place = places_.at(shard);
  if (place.table < 0)
    throw invalid_argument(fmt::format("the part {} on this server is not a table", shard));
  return groups_[place.group]->parameters->tables().variable(place.table);
}

void ShardStore::check_rows(size_t shard, const Tensor& ids) const {
  const VariableSpec& spec = table(shard).spec();
  const int64_t* numbers = ids.data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if (numbers[i] >= 0 && numbers[i] < spec.shape[0]) continue;
    throw invalid_argument(fmt::format("row {} was asked of {}", numbers[i], spec.describe()));
  }
}

TensorSpec ShardStore::rows_spec(size_t shard, int64_t rows) const {
  const VariableSpec& spec = table(shard).spec();
  TensorSpec of_rows{spec.shape, spec.dtype};
  of_rows.shape[0] = rows;
  return of_rows;
}

Tensor ShardStore::rows_like(size_t shard, int64_t rows) const {
  const TensorSpec spec = rows_spec(shard, rows);
  return at::empty(spec.shape, at::dtype(spec.dtype));
}

int64_t ShardStore::dense_bytes() const {
  int64_t bytes = 0;
  for (const auto& group : groups_) {
    for (const auto& buffer : group->parameters->buffers())
      bytes += SharedWeights::rounded_up(bytes_of(buffer));
  }
  return bytes;
}

int64_t ShardStore::dense_place(size_t shard) const {
  const Place& place = places_.at(shard);
  const FlatParameters& own = *groups_[place.group]->parameters;
  const auto& parameter = own.parameters()[static_cast<size_t>(place.parameter)];
  int64_t before = 0;
  for (size_t g = 0; g <= place.group; ++g) {
    const auto& buffers = groups_[g]->parameters->buffers();
    const size_t end = g < place.group ? buffers.size() : static_cast<size_t>(parameter.buffer);
    for (size_t b = 0; b < end; ++b) before += SharedWeights::rounded_up(bytes_of(buffers[b]));
  }
  const DType dtype = own.buffers()[static_cast<size_t>(parameter.buffer)].dtype;
  return before + parameter.offset * static_cast<int64_t>(c10::elementSize(dtype));
}

std::unique_ptr<StagedGradients> ShardStore::stage() { return stage(nullptr); }

std::unique_ptr<StagedGradients> ShardStore::stage(std::shared_ptr<const SharedMemory> area) {
  torch::NoGradGuard no_grad;
  auto staged = std::make_unique<StagedGradients>();
  int64_t used = 0;  // of the area
  const auto allocate = [&](const FlatParameters::Buffer& buffer) {
    if (!area) return torch::zeros({buffer.elements}, at::dtype(buffer.dtype));
    std::byte* const begin = area->data() + used;
    used += SharedWeights::rounded_up(bytes_of(buffer));
    return torch::from_blob(
        begin, {buffer.elements}, [area](void*) {}, at::dtype(buffer.dtype));
  };
  staged->area = area;
  for (const auto& group : groups_) {
    StagedGradients::Part& part = staged->parts.emplace_back();
    for (const auto& buffer : group->parameters->buffers())
      part.buffers.push_back(allocate(buffer));
    part.used.assign(group->parameters->parameters().size(), false);
    for (size_t t = 0; t < group->parameters->tables().size(); ++t) {
      const VariableSpec& spec = group->parameters->tables().variable(static_cast<int>(t)).spec();
      Shape none = spec.shape;
      none[0] = 0;
      part.rows.push_back(
          {torch::empty({0}, at::kLong), torch::empty(none, at::dtype(spec.dtype))});
    }
  }
  return staged;
}

Tensor ShardStore::destination(StagedGradients& staged, size_t shard) {
  const Place& place = places_.at(shard);
  if (place.parameter < 0)
    throw invalid_argument(fmt::format("the part {} on this server is a table", shard));
  const auto p = static_cast<size_t>(place.parameter);
  const auto& parameter = groups_[place.group]->parameters->parameters()[p];
  StagedGradients::Part& part = staged.parts[place.group];
  part.used[p] = true;
  return part.buffers[static_cast<size_t>(parameter.buffer)].narrow(0, parameter.offset,
                                                                    parameter.elements);
}

void ShardStore::set_rows(StagedGradients& staged, size_t shard, RowGradient gradient) {
  const Place& place = places_[shard];
  staged.parts[place.group].rows[static_cast<size_t>(place.table)] = std::move(gradient);
}

void ShardStore::merge(const std::vector<std::unique_ptr<StagedGradients>>& staged) {
  torch::NoGradGuard no_grad;
  double sum = 0;
  for (const auto& one : staged) sum += one->mean ? one->weight : 1;
  const auto share = [&](const StagedGradients& one) {
    if (!one.mean) return 1.0;
    return sum > 0 ? one.weight / sum : 0.0;
  };
  StagedGradients& all = *staged.front();
  double loss = 0;
  for (const auto& one : staged) {
    loss += share(*one) * one->loss;
    // Where one worker's gradients are not finite, none of the update are.
    if (all.updates.empty()) all.updates = one->updates;
    for (size_t o = 0; o < one->updates.size(); ++o)
      all.updates[o] = all.updates[o] && one->updates[o];
  }
  all.loss = loss;
  for (size_t g = 0; g < groups_.size(); ++g) {
    StagedGradients::Part& into = all.parts[g];
    const auto& parameters = groups_[g]->parameters->parameters();
    for (size_t p = 0; p < parameters.size(); ++p) {
      const auto gradient_of = [&](const StagedGradients& one) {
        return one.parts[g].buffers[static_cast<size_t>(parameters[p].buffer)].narrow(
            0, parameters[p].offset, parameters[p].elements);
      };
      // The gradient of an unused shard holds old numbers.
      const Tensor gradient = gradient_of(all);
      if (into.used[p]) {
        Tensor(gradient).mul_(share(all));
      } else {
        Tensor(gradient).zero_();
      }
      for (size_t i = 1; i < staged.size(); ++i) {
        if (!staged[i]->parts[g].used[p]) continue;
        into.used[p] = true;
        Tensor(gradient).add_(gradient_of(*staged[i]), share(*staged[i]));
      }
    }
    for (size_t t = 0; t < into.rows.size(); ++t) {
      std::vector<RowGradient> rows;
      for (const auto& one : staged) {
        const RowGradient& its = one->parts[g].rows[t];
        if (its.ids.numel() > 0) rows.push_back({its.ids, its.values * share(*one)});
      }
      if (!rows.empty()) into.rows[t] = distribute::sum_rows(rows);
    }
  }
  for (size_t i = 1; i < staged.size(); ++i) forget(*staged[i]);
}

void ShardStore::forget(StagedGradients& staged) {
  for (StagedGradients::Part& part : staged.parts) {
    part.used.assign(part.used.size(), false);
    for (RowGradient& rows : part.rows)
      rows = {rows.ids.narrow(0, 0, 0), rows.values.narrow(0, 0, 0)};
  }
}

std::vector<double> ShardStore::factors() {
  if (!reduces_ || groups_.empty()) return {};
  const std::shared_lock lock(groups_.front()->mutex);
  std::vector<double> factors;
  for (size_t o = 0; o < plateaus_.size(); ++o) factors.push_back(plateaus_.factor(o));
  return factors;
}

std::vector<double> ShardStore::follow(const StagedGradients& staged) {
  std::vector<double> factors;
  const std::unique_lock lock(groups_.front()->mutex);
  for (size_t o = 0; o < plateaus_.size(); ++o) {
    factors.push_back(plateaus_.factor(o));
    if (staged.updates.empty() || staged.updates[o]) plateaus_.update(o, staged.loss);
  }
  return factors;
}

std::vector<double> ShardStore::apply(StagedGradients& staged, size_t turn,
                                      std::vector<double> factors) {
  torch::NoGradGuard no_grad;
  if (reduces_ && leads_ && !groups_.empty()) factors = follow(staged);
  const FlatParameters::Decided decided{.updates = staged.updates, .factors = factors};
  for (size_t i = 0; i < groups_.size(); ++i) {
    const size_t g = (i + turn) % groups_.size();
    StagedGradients::Part& part = staged.parts[g];
    const std::unique_lock lock(groups_[g]->mutex);
    const SharedWeights::Change change(shared_.get(), g);
    groups_[g]->parameters->update_flat(train_op_, part.buffers, part.used, part.rows, 1.0,
                                        decided);
  }
  forget(staged);
  return factors;
}

std::map<std::string, Tensor> ShardStore::tensors(Group& group) const {
  std::map<std::string, Tensor> named = group.parameters->slots();
  // The plateaus of a group have only the factor.
  for (const auto& [name, numbers] : plateaus_.tensors()) {
    named.erase(name);
    if (leads_ && &group == groups_.front().get()) named[name] = numbers;
  }
  for (const auto& variable : group.table.variables())
    named[variable->name()] = variable->value().detach();
  return named;
}

std::map<std::string, TensorSpec> ShardStore::specs() {
  std::map<std::string, TensorSpec> all;
  for (const auto& group : groups_) {
    for (const auto& [name, tensor] : tensors(*group))
      all[name] = {tensor.sizes().vec(), tensor.scalar_type()};
  }
  return all;
}

std::map<std::string, Tensor> ShardStore::copy() {
  torch::NoGradGuard no_grad;
  std::map<std::string, Tensor> all;
  for (const auto& group : groups_) {
    const std::shared_lock lock(group->mutex);
    for (const auto& [name, tensor] : tensors(*group))
      all[name] = tensor.clone(at::MemoryFormat::Contiguous);
  }
  return all;
}

std::optional<std::string> ShardStore::find_non_finite(
    const std::map<std::string, Tensor>& copy) const {
  for (const auto& group : groups_) {
    if (auto bad = muster::find_non_finite(group->table, copy)) return bad;
  }
  return std::nullopt;
}

void ShardStore::write(const std::map<std::string, Tensor>& given) {
  torch::NoGradGuard no_grad;
  const std::map<std::string, TensorSpec> known = specs();
  for (const auto& [name, tensor] : given) {
    const auto found = known.find(name);
    const TensorSpec spec{tensor.sizes().vec(), tensor.scalar_type()};
    if (found != known.end() && found->second == spec) continue;
    throw invalid_argument(
        fmt::format("{} {} is not on this server{}", name, spec.describe(),
                    found == known.end() ? "" : ", which has it as " + found->second.describe()));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::unique_lock lock(groups_[g]->mutex);
    const SharedWeights::Change change(shared_.get(), g);
    for (const auto& [name, tensor] : tensors(*groups_[g])) {
      const auto found = given.find(name);
      if (found != given.end()) Tensor(tensor).copy_(found->second);
    }
  }
}

void ShardStore::write_rows(const std::string& name, int64_t begin, const Tensor& rows) {
  torch::NoGradGuard no_grad;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::unique_lock lock(groups_[g]->mutex);
    const std::map<std::string, Tensor> held = tensors(*groups_[g]);
    const auto found = held.find(name);
    if (found == held.end()) continue;
    const Tensor& all = found->second;
    if (rows.dim() > 0 && rows.dim() == all.dim() && rows.scalar_type() == all.scalar_type() &&
        rows.sizes().slice(1) == all.sizes().slice(1) && begin >= 0 &&
        begin <= all.size(0) - rows.size(0)) {
      const SharedWeights::Change change(shared_.get(), g);
      all.narrow(0, begin, rows.size(0)).copy_(rows);
      return;
    }
    throw invalid_argument(fmt::format("{} cannot be the rows from {} on of {} {}", describe(rows),
                                       begin, name, describe(all)));
  }
  throw invalid_argument(fmt::format("{} is not on this server", name));
}

void ShardStore::begin_slots() {
  for (const auto& group : groups_) {
    const std::unique_lock lock(group->mutex);
    group->parameters->begin_slots();
  }
}

std::map<std::string, double> ShardStore::learning_rates() {
  if (groups_.empty()) return {};
  const std::shared_lock lock(groups_.front()->mutex);
  return groups_.front()->parameters->learning_rates();
}

}  // namespace muster::inline v0_1::ps
