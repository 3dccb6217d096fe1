// What a model learned, as rows of numbers: the weights of a linear model by feature value, the
// gain of a tree's features, or the importance of each feature. explain(), BoostedTrees::explain()
// and permutation_importance() return it. Thread safety: a value.
//
//   std::cout << explain(model, columns).to_table();
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

struct MUSTER_EXPORT Explanation {
  // One row.
  struct Row {
    std::string column{};           // a feature, or a feature column
    std::string value{};            // one of its values: "Private", "25 to 35"; "" for all of them
    std::string output{};           // the class; "" for a model with one logit
    std::vector<double> numbers{};  // one for each measure
    bool operator==(const Row&) const = default;
  };

  std::vector<std::string> measures{};  // the names of the numbers: "weight"
  std::vector<Row> rows{};
  std::string note = {};  // a line above the table; may be empty

  // Sorts the rows by the absolute value of one measure, the largest first. Equal rows keep their
  // order, and NaN goes to the end. REQUIRES: there is such a measure.
  void sort_by_size(size_t measure = 0);

  // Returns the first `max_rows` as text in columns, and a line with the number of omitted rows.
  // Columns that are "" in all rows are omitted, and long texts are cut.
  std::string to_table(size_t max_rows = 20) const;
  // Returns all rows as CSV, with the header column,value,output and the measures. Each number is
  // the shortest text that reads back the same.
  std::string to_csv() const;

  bool operator==(const Explanation&) const = default;
};

}  // namespace muster::inline v0_1
