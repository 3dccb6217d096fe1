// How clients of an exported model get its predictions: the export_outputs of an EstimatorSpec.
// Thread safety: values.
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

// Any tensors. Throws InvalidArgument for an empty map, or for an undefined tensor.
MUSTER_EXPORT ExportOutput PredictOutput(std::map<std::string, Tensor> outputs);
// A single tensor, named "output".
MUSTER_EXPORT ExportOutput PredictOutput(Tensor output);
// `scores`, [batch, classes], floating point, named "scores". `classes` are the names of the
// classes, in the order of the scores; default: "0", "1", ... Throws InvalidArgument for another
// dtype or shape, and another number of names.
MUSTER_EXPORT ExportOutput ClassificationOutput(Tensor scores,
                                                std::vector<std::string> classes = {});
// `value`, [batch] or [batch, n], numbers, named "outputs". Throws InvalidArgument for another
// shape.
MUSTER_EXPORT ExportOutput RegressionOutput(Tensor value);

}  // namespace muster::inline v0_1
