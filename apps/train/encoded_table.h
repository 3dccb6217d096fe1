// The rows of a table as a model takes them: numbers as float32, or float64 where that does not
// tell them apart, NaN where they are missing, and categories as ids. Thread safety: values and
// pure functions.
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

  // (features, labels), or features alone where there are no labels. Weights are a feature.
  Dataset dataset(const TablePlan& plan) const;
  // So many rows, at equal distances; all of them where there are not so many.
  EncodedTable sample(int64_t count) const;
};

// The rows that are learned from, and those that are held out.
struct EncodedSplit {
  EncodedTable train{}, eval{};
};

// Reads a file again, as the plan has it. Throws InvalidArgument for weights that are negative or
// no numbers, and a label that is not a class of the plan, naming the row.
EncodedSplit encode_split(const std::string& path, const TableFormat& format, const TablePlan& plan,
                          const HeldOut& held_out);
// Reads all rows of another file, in any order of its columns; with `labelled` those that have a
// label, and else without a look at it. Throws InvalidArgument also for a column it lacks, naming
// the nearest it has.
EncodedTable encode_file(const std::string& path, const TableFormat& format, const TablePlan& plan,
                         bool labelled);

// Adds to the plan what the numbers of the rows that are learned from are like.
void add_statistics(const EncodedTable& table, TablePlan& plan);

// Columns that tell the label by themselves, and how: "'paid' alone tells the label in every row".
// Such columns are usually unknown before the label is.
std::vector<std::string> leaks_of(const EncodedTable& table, const TablePlan& plan);

}  // namespace muster::app
