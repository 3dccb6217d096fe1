// How predictions are offered to those who ask an exported model; the export_outputs of an
// EstimatorSpec. Thread safety: values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/export/signature.h"

namespace muster::inline v0_1 {

// One signature of an exported model. PredictOutput, ClassificationOutput and RegressionOutput make
// it.
struct ExportOutput {
  SignatureMethod method = SignatureMethod::kPredict;
  std::map<std::string, Tensor> outputs{};
  std::vector<std::string> classes{};
};

// Any tensors. Throws InvalidArgument when there is none, or one is undefined.
MUSTER_EXPORT ExportOutput PredictOutput(std::map<std::string, Tensor> outputs);
// One tensor, called "output".
MUSTER_EXPORT ExportOutput PredictOutput(Tensor output);
// `scores`, [batch, classes], of floats, as "scores". `classes` are the names of the classes, in
// the order of the scores; "0", "1", ... when they are left out. Throws InvalidArgument for another
// dtype or shape, and another number of names.
MUSTER_EXPORT ExportOutput ClassificationOutput(Tensor scores,
                                                std::vector<std::string> classes = {});
// `value`, [batch] or [batch, n], of numbers, as "outputs". Throws InvalidArgument for another
// shape.
MUSTER_EXPORT ExportOutput RegressionOutput(Tensor value);

}  // namespace muster::inline v0_1
