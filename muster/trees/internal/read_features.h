// Batches as the trees want them: a matrix of numbers, labels and weights.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/features/weight_column.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/tensor.h"
#include "muster/trees/ensemble.h"
#include "muster/trees/internal/objective.h"

namespace muster::inline v0_1::trees {

// The form of an input.
struct InputForm {
  Loss loss = Loss::kLogistic;
  int64_t n_classes = 2;
  WeightColumn weight_column{};                 // empty: none
  std::vector<std::string> label_vocabulary{};  // empty: labels are numbers
  std::vector<std::string> feature_names{};     // empty: all there are, but the weight column
};

// The logits of a model for such an input.
int64_t outputs_of(const InputForm& form);
// Throws InvalidArgument for trees of another objective or another number of classes. `where` names
// the checkpoint they are from.
void check_trees(const Ensemble& ensemble, const InputForm& form, const std::string& where);

// The names of the columns of a batch, sorted as its dict is: a feature of width 1 is one column, a
// wider one is "x[0]", "x[1]", ... Throws InvalidArgument for features that are not a dict, without
// a column, of strings, or of more axes than [rows, width], and for two columns of one name.
std::vector<std::string> columns_of(const Features& features, const InputForm& form);
// The name of column `i` of a feature of that width.
std::string column_name(const std::string& feature, int64_t width, int64_t i);
// The feature that a column is of: "x" for "x[1]".
std::string feature_of(const std::string& column);

// The sum of the gains of each feature's splits, the largest first.
std::vector<std::pair<std::string, double>> gains_by_feature(const Ensemble& ensemble);

// Which of the columns hold integers or doubles, which float32 may not distinguish.
std::vector<bool> may_be_in_double(const Features& features,
                                   const std::vector<std::string>& columns, const InputForm& form);
// float64 [rows, columns], unrounded. Throws InvalidArgument naming a missing column, with the
// existing ones.
Tensor matrix_of(const Features& features, const std::vector<std::string>& columns,
                 const InputForm& form);
// The same for trees: rounded to float32 if they do not ask in double.
Tensor matrix_for(const Features& features, const Ensemble& ensemble, const InputForm& form);
// [rows]. `first_row` is how errors count the first of them. Throws InvalidArgument for a label
// that is missing, not finite or no class.
std::vector<float> labels_of(const Batch& batch, const InputForm& form, int64_t first_row);
// [rows], or empty without a weight column. Throws InvalidArgument for a weight that is negative or
// not finite.
std::vector<float> weights_of(const Features& features, const InputForm& form, int64_t first_row);

}  // namespace muster::inline v0_1::trees
