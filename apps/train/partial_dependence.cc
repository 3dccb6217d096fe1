#include "apps/train/partial_dependence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

constexpr int64_t kMostValues = 12;

// The values of a column that are tried, of its type, rising; categories by their frequency.
Tensor grid_of(const PlannedColumn& column, const Tensor& values) {
  if (column.kind == ColumnKind::kCategory) {
    const auto [ids, inverse, counts] = at::_unique2(values, true, false, true);
    const Tensor order = counts.argsort(/*dim=*/0, /*descending=*/true);
    return ids.index_select(0, order.slice(0, 0, kMostValues));
  }
  const Tensor sorted = std::get<0>(values.masked_select(values.isfinite()).sort());
  if (sorted.numel() == 0) return sorted;
  const Tensor places =
      torch::linspace(0, static_cast<double>(sorted.numel() - 1), kMostValues).round();
  return std::get<0>(at::_unique2(sorted.index_select(0, places.to(at::kLong)), true));
}

std::string text_of(const PlannedColumn& column, const Tensor& value) {
  if (column.kind != ColumnKind::kCategory) return fmt::format("{:.6g}", value.item<double>());
  const auto id = static_cast<size_t>(value.item<int64_t>());
  return id < column.words.size() ? column.words[id] : "(other)";
}

// All rows with the first value, then all with the second one, and so on.
EncodedTable with_values(const EncodedTable& rows, const std::string& column, const Tensor& grid) {
  EncodedTable table{.rows = rows.rows * grid.numel()};
  for (const auto& [name, values] : rows.features) {
    table.features[name] =
        name == column ? grid.repeat_interleave(rows.rows) : values.repeat({grid.numel()});
  }
  table.labels = rows.labels.repeat({grid.numel()});
  if (rows.weights.defined()) table.weights = rows.weights.repeat({grid.numel()});
  return table;
}

}  // namespace

Report::Table partial_dependence(const TablePlan& plan, const EncodedTable& rows,
                                 const std::vector<std::string>& columns,
                                 const std::function<Tensor(const EncodedTable&)>& predict) {
  Report::Table table{.titles = {"column", "value", "class", "prediction"}};
  const auto classes = static_cast<int64_t>(plan.classes.size());
  Tensor shares =
      rows.weights.defined() ? rows.weights.to(at::kDouble) : torch::ones({rows.rows}, at::kDouble);
  shares = shares / shares.sum();
  for (const std::string& name : columns) {
    const auto column = std::ranges::find(plan.columns, name, &PlannedColumn::name);
    if (column == plan.columns.end()) continue;
    const Tensor grid = grid_of(*column, rows.features.at(name));
    if (grid.numel() == 0) continue;
    // [values, rows, classes], and the means [values, classes]
    const Tensor means = (predict(with_values(rows, name, grid))
                              .to(at::kDouble)
                              .view({grid.numel(), rows.rows, -1}) *
                          shares.view({1, -1, 1}))
                             .sum(1);
    for (int64_t value = 0; value < grid.numel(); ++value) {
      for (int64_t k = classes == 2 ? 1 : 0; k < means.size(1); ++k) {
        table.rows.push_back({name, text_of(*column, grid[value]),
                              classes == 0 ? "" : plan.classes[static_cast<size_t>(k)],
                              fmt::format("{:.6g}", means[value][k].item<double>())});
      }
    }
  }
  return table;
}

}  // namespace muster::app
