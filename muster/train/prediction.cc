#include "muster/train/prediction.h"

#include <vector>

#include "muster/base/unknown_name.h"

namespace muster::inline v0_1 {

const Tensor& Prediction::at(const std::string& name) const {
  const auto found = outputs_.find(name);
  if (found != outputs_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : outputs_) names.push_back(known);
  throw unknown_name(
      "the prediction", "output", name, names,
      names.empty() ? "set EstimatorSpec::predictions in the model function, in this mode too"
                    : "the model function names them, and PredictOptions.predict_keys chooses");
}

}  // namespace muster::inline v0_1
