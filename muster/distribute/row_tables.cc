#include "muster/distribute/row_tables.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/distribute/internal/constrained.h"
#include "muster/distribute/internal/new_slot.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/table_rows.h"

namespace muster::inline v0_1::distribute {
namespace {

RowGradient no_rows(const Variable& variable) {
  std::vector<int64_t> shape = variable.spec().shape;
  shape[0] = 0;
  const at::TensorOptions options = variable.value().options().requires_grad(false);
  return {torch::zeros({0}, options.dtype(at::kLong)), torch::zeros(shape, options)};
}

}  // namespace

RowGradient sum_rows(const std::vector<RowGradient>& parts) {
  if (parts.size() == 1) return parts[0];
  std::vector<Tensor> ids, values;
  for (const RowGradient& part : parts) {
    ids.push_back(part.ids);
    values.push_back(part.values);
  }
  const auto [unique, inverse, counts] =
      at::_unique2(torch::cat(ids), /*sorted=*/true, /*return_inverse=*/true);
  std::vector<int64_t> shape = values[0].sizes().vec();
  shape[0] = unique.size(0);
  Tensor sum = torch::zeros(shape, values[0].options());
  // It adds part by part, because within one part each row occurs once.
  for (size_t p = 0, begin = 0; p < parts.size(); begin += static_cast<size_t>(ids[p++].size(0))) {
    const Tensor rows = inverse.narrow(0, static_cast<int64_t>(begin), ids[p].size(0));
    sum.index_add_(0, rows, values[p]);
  }
  return {unique, sum};
}

std::vector<RowGradient> exchange_rows(Communicator& communicator,
                                       const std::vector<RowGradient>& mine) {
  if (mine.empty()) return {};
  torch::NoGradGuard no_grad;
  const int64_t replicas = communicator.size(), tables = static_cast<int64_t>(mine.size());
  Tensor counts = torch::empty({tables}, at::kLong);
  for (int64_t t = 0; t < tables; ++t) counts[t] = mine[static_cast<size_t>(t)].ids.size(0);
  Tensor all_counts = torch::empty({replicas, tables}, at::kLong);
  communicator.all_gather(counts, all_counts.view({-1})).wait();
  std::vector<RowGradient> sums;
  for (int64_t t = 0; t < tables; ++t) {
    const RowGradient& part = mine[static_cast<size_t>(t)];
    const Tensor here = all_counts.select(1, t);
    const int64_t most = here.max().item<int64_t>(), own = part.ids.size(0);
    if (most == 0) {
      sums.push_back(part);
      continue;
    }
    std::vector<int64_t> shape = part.values.sizes().vec();
    shape[0] = most;
    Tensor ids = torch::zeros({most}, part.ids.options());
    Tensor values = torch::zeros(shape, part.values.options());
    ids.narrow(0, 0, own).copy_(part.ids);
    values.narrow(0, 0, own).copy_(part.values);
    const Tensor all_ids = torch::empty({replicas, most}, ids.options());
    shape.insert(shape.begin(), replicas);
    const Tensor all_values = torch::empty(shape, values.options());
    const Work sent = communicator.all_gather(ids, all_ids.view({-1}));
    communicator.all_gather(values.view({-1}), all_values.view({-1})).wait();
    sent.wait();
    std::vector<RowGradient> parts;
    for (int64_t r = 0; r < replicas; ++r) {
      const int64_t count = here[r].item<int64_t>();
      parts.push_back({all_ids[r].narrow(0, 0, count), all_values[r].narrow(0, 0, count)});
    }
    sums.push_back(sum_rows(parts));
  }
  return sums;
}

void RowTables::add(Variable& variable, int optimizer, const std::vector<optim::SlotSpec>& slots) {
  if (variable.value().dim() < 2 || variable.value().size(0) == 0) {
    throw invalid_argument(
        fmt::format("the row-sparse variable {} has no rows", variable.spec().describe()),
        "a table is [rows, ...], with at least one row and one more axis");
  }
  Table table{.variable = &variable, .optimizer = optimizer};
  for (const optim::SlotSpec& slot : slots) {
    table.slot_names.push_back(slot.name);
    if (slot.begins_as_weights) table.as_weights.push_back(table.slots.size());
    table.slots.push_back(internal::new_slot(variable, slot));
  }
  tables_.push_back(std::move(table));
}

void RowTables::collect() {
  for (Table& table : tables_) {
    if (table.variable->value().grad().defined()) {
      table.variable->value().mutable_grad().reset();
      throw invalid_argument(
          fmt::format("not supported: the row-sparse variable {} was used as a whole",
                      table.variable->name()),
          "read it by rows, as Embedding does, or make it a variable that is not row-sparse");
    }
    for (const Variable::RowUse& use : table.variable->take_row_uses()) {
      if (use.rows.grad().defined()) table.collected.push_back({use.ids, use.rows.grad()});
    }
  }
}

std::vector<RowGradient> RowTables::take() {
  torch::NoGradGuard no_grad;
  std::vector<RowGradient> gradients;
  for (Table& table : tables_) {
    const std::vector<RowGradient> parts = std::exchange(table.collected, {});
    gradients.push_back(parts.empty() ? no_rows(*table.variable) : sum_rows(parts));
  }
  return gradients;
}

bool RowTables::finite(size_t table) const {
  return std::ranges::all_of(tables_[table].collected,
                             [](const RowGradient& part) { return all_finite(part.values); });
}

void RowTables::update(int optimizer, const optim::UpdateRule& rule,
                       const std::vector<RowGradient>& gradients, double scale,
                       double rate_multiplier, int64_t iterations) {
  torch::NoGradGuard no_grad;
  const bool together = !rule.per_variable();
  size_t t = 0;
  while (t < tables_.size()) {
    const size_t begin = t++;
    if (tables_[begin].optimizer != optimizer || gradients[begin].ids.numel() == 0) continue;
    const VariableSpec& spec = tables_[begin].variable->spec();
    while (together && t < tables_.size() && tables_[t].optimizer == optimizer &&
           tables_[t].variable->spec().dtype == spec.dtype) {
      ++t;
    }
    update_together(begin, t, rule, gradients,
                    {.gradient_scale = scale,
                     .learning_rate_multiplier = rate_multiplier,
                     .variable = together ? nullptr : &spec},
                    iterations);
  }
}

void RowTables::update_together(size_t begin, size_t end, const optim::UpdateRule& rule,
                                const std::vector<RowGradient>& gradients, optim::Segment segment,
                                int64_t iterations) {
  std::vector<Tensor> flat;
  std::vector<int64_t> at{0};  // where the rows of each table begin
  for (size_t t = begin; t < end; ++t) {
    flat.push_back(gradients[t].values.reshape({-1}));
    at.push_back(at.back() + flat.back().numel());
  }
  segment.gradient = flat.size() == 1 ? flat.front() : at::cat(flat);
  // Reads rows of the weights and of every slot.
  const auto read = [&](const auto& tensor_of) {
    Tensor joined = at::empty({at.back()}, segment.gradient.options());
    for (size_t t = begin; t < end; ++t)
      read_rows(tensor_of(tables_[t]), gradients[t].ids, joined, at[t - begin]);
    return joined;
  };
  const auto weights_of = [](const Table& table) { return table.variable->value(); };
  const auto slot_of = [](size_t s) { return [s](const Table& table) { return table.slots[s]; }; };
  segment.weights = read(weights_of);
  for (size_t s = 0; s < tables_[begin].slots.size(); ++s)
    segment.slots.push_back(read(slot_of(s)));
  rule.update(segment, iterations);
  for (size_t t = begin; t < end; ++t) {
    const Table& table = tables_[t];
    const Tensor& ids = gradients[t].ids;
    const VariableSpec& spec = table.variable->spec();
    if (spec.constraint && ids.numel() > 0) {
      const Tensor rows =
          segment.weights.narrow(0, at[t - begin], at[t - begin + 1] - at[t - begin])
              .view(gradients[t].values.sizes());
      rows.copy_(internal::constrained(spec, rows));
    }
    write_rows(segment.weights, at[t - begin], ids, table.variable->value());
    for (size_t s = 0; s < table.slots.size(); ++s)
      write_rows(segment.slots[s], at[t - begin], ids, table.slots[s]);
  }
}

std::map<std::string, Tensor> RowTables::slots(int optimizer) const {
  std::map<std::string, Tensor> named;
  for (const Table& table : tables_) {
    if (table.optimizer != optimizer) continue;
    for (size_t s = 0; s < table.slots.size(); ++s)
      named[table.slot_names[s] + "/" + table.variable->name()] = table.slots[s];
  }
  return named;
}

void RowTables::begin_slots() {
  torch::NoGradGuard no_grad;
  for (const Table& table : tables_) {
    for (const size_t s : table.as_weights) Tensor(table.slots[s]).copy_(table.variable->value());
  }
}

std::vector<Tensor> RowTables::pieces() const {
  std::vector<Tensor> pieces;
  for (const Table& table : tables_) {
    pieces.push_back(table.variable->value().detach().view({-1}));
    for (const Tensor& slot : table.slots) pieces.push_back(slot.view({-1}));
  }
  return pieces;
}

}  // namespace muster::inline v0_1::distribute
