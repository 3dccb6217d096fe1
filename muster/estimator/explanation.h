// What a model learned, as rows of numbers: the weights of a linear model by feature value, the
// gain of a tree's features, how much a feature is needed. explain(), BoostedTrees::explain() and
// permutation_importance() make it. Thread safety: a value.
//
//   std::cout << explain(model, columns).to_table();
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

struct MUSTER_EXPORT Explanation {
  // One line of it.
  struct Row {
    std::string column{};  // a feature, or a feature column
    std::string value{};   // which of its values: "Private", "25 to 35"; "" for all of them
    std::string output{};  // the class; "" where a model has one logit
    std::vector<double> numbers{};  // one for each of the measures
    bool operator==(const Row&) const = default;
  };

  std::vector<std::string> measures{};  // what the numbers are: "weight"
  std::vector<Row> rows{};
  std::string note = {};  // a line that stands above a table; may be empty

  // Sorts the rows by the size of one of the numbers, with its sign left out, the largest first;
  // rows of one size stay in their order, and NaN goes to the end. REQUIRES: there is such a
  // measure.
  void sort_by_size(size_t measure = 0);

  // Text in columns, of the first `max_rows`, and a line that says how many are left out. Parts
  // that are "" in all rows have no column, and long texts are cut.
  std::string to_table(size_t max_rows = 20) const;
  // All rows as CSV, under the header column,value,output and the measures. Numbers are the
  // shortest texts that are read as the same.
  std::string to_csv() const;

  bool operator==(const Explanation&) const = default;
};

}  // namespace muster::inline v0_1
