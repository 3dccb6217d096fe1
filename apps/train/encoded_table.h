// The rows of a table as a model takes them: numbers as float32, or float64 if float32 does not
// distinguish them, NaN for missing values, and categories as ids. Thread safety: values and pure
// functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/table_plan.h"
#include "muster/data/dataset.h"
#include "muster/tensor/tensor.h"

namespace muster::app {

struct EncodedTable {
  int64_t rows = 0;
  std::map<std::string, Tensor> features{};  // float32, float64 or int64 [rows]
  Tensor labels{};                           // int64 [rows] of classes, float32 of numbers
  Tensor weights{};                          // float32 [rows]; undefined: 1
  int64_t without_label = 0;                 // rows that are not among these
  int64_t strange = 0;                       // values of columns of numbers that are none

  // (features, labels), or only features if there are no labels. Weights are a feature.
  Dataset dataset(const TablePlan& plan) const;
  // Returns `count` rows, at equal distances; all of them if there are fewer.
  EncodedTable sample(int64_t count) const;
};

// The training rows, and the rows that are held out.
struct EncodedSplit {
  EncodedTable train{}, eval{};
};

// Reads a file again, according to the plan. Throws InvalidArgument for weights that are negative
// or no numbers, and a label that is no class of the plan, naming the row.
EncodedSplit encode_split(const std::string& path, const TableFormat& format, const TablePlan& plan,
                          const HeldOut& held_out);
// Reads all rows of another file, in any order of its columns; with `labelled` only rows that have
// a label, otherwise the label is ignored. Throws InvalidArgument also for a missing column, naming
// the nearest one.
EncodedTable encode_file(const std::string& path, const TableFormat& format, const TablePlan& plan,
                         bool labelled);

// Adds the statistics of the training rows' numbers to the plan.
void add_statistics(const EncodedTable& table, TablePlan& plan);

// Columns that determine the label by themselves, and how: "'paid' alone tells the label in every
// row". They may be unknown before the label is known.
std::vector<std::string> leaks_of(const EncodedTable& table, const TablePlan& plan);

}  // namespace muster::app
