// How the predictions of a model change with one column, while the others are as they are in the
// rows: partial dependence (Friedman, Greedy Function Approximation, 2001, section 8.2).
// Thread safety: a pure function, as far as `predict` is one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/train/encoded_table.h"
#include "apps/train/report.h"
#include "apps/train/table_plan.h"

namespace muster::app {

// Of each column, at most 12 values: of numbers those at equal distances in the order of the rows'
// values, of categories the most frequent ones. The table has "column", "value", "class" (empty for
// numbers) and "prediction": the mean prediction when all rows have this value, by their weights.
// Of two classes only the second one is shown. A column without a value is left out.
Report::Table partial_dependence(const TablePlan& plan, const EncodedTable& rows,
                                 const std::vector<std::string>& columns,
                                 const std::function<Tensor(const EncodedTable&)>& predict);

}  // namespace muster::app
