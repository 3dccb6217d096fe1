// Compares two models by the numbers that they compute. Thread safety: free functions.
#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/export/servable.h"

namespace muster::app {

// One output of both models.
struct OutputComparison {
  std::string name{};
  std::string form{};  // "float32[8, 10]"
  // Both forms, if they differ: "float32[8, 2] and float32[8, 3]"; else empty.
  std::string other_form{};
  double absolute = 0;  // the largest |a - b|
  double largest = 0;   // |a|
  // The largest |a - b| / max(|a|, |b|); infinite if only one of them is NaN or infinite.
  double relative = 0;
  bool equal = true;  // |a - b| <= tolerance (1 + |a|) for each number
};

struct ModelComparison {
  int64_t rows = 0;
  double tolerance = 0;
  std::vector<OutputComparison> outputs{};

  bool equal() const;
};

// Runs the signature serving_default of both models on one batch. Outputs with one name are
// compared; if each model has one output, these are compared, whatever their names are. If `inputs`
// belong to a model with other names, and each has one input, it is given under the other's name.
// Throws InvalidArgument if the models do not have the same inputs and outputs, and what
// Servable::run() throws.
ModelComparison compare_models(const Servable& a, const Servable& b,
                               const Servable::Tensors& inputs, double tolerance);

// Throws InvalidArgument, with both, if the inputs of the models differ in names, dtypes or shapes.
void check_same_inputs(const Servable& a, const Servable& b);

// For people, and for programs.
std::string text_of(const ModelComparison& comparison);
std::string json_of(const ModelComparison& comparison);

// A line for each output: "scores: differs by at most 0.0012, which is 0.2% of its largest number".
std::string text_of_differences(const ModelComparison& comparison);

// A line for each output that has a row for each label: the accuracy of the largest of several
// numbers against labels of integers, and the mean absolute error of one number.
std::string text_of_accuracy(const Servable::Tensors& before, const Servable::Tensors& after,
                             const Tensor& labels);

}  // namespace muster::app
