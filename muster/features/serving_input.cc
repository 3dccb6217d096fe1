#include "muster/features/serving_input.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/column.h"

namespace muster::inline v0_1::feature_column {

ServingInputReceiver serving_input_receiver(const std::vector<FeatureColumn>& columns) {
  std::map<std::string, ServingFeature> features;
  data::FeatureSpec numbers;  // what models find out by themselves: numbers, and their buckets
  for (const FeatureColumn& column : columns) {
    const internal::Source& source = column.impl().source();
    if (source.gives_sequences()) {
      throw invalid_argument(
          fmt::format("serving_input_receiver: the column '{}' is one of sequences", column.name()),
          "the lengths of sequences differ; write the features of a request by hand, with the "
          "number of steps that it has");
    }
    if (source.is_dense()) {
      source.add_features(numbers);
      continue;
    }
    for (const internal::Entry& entry : source.entries()) {
      const bool is_ids = entry.tensor == &internal::ColumnValues::values;
      features[entry.key] = {.dtype = is_ids ? kInt64 : kFloat32, .shape = {1}};
    }
  }
  for (const auto& [key, feature] : numbers) {
    const auto& number = std::get<data::FixedLenFeature>(feature);
    features[key] = {.dtype = std::get<DType>(number.dtype), .shape = number.shape};
  }
  return raw_serving_input_receiver(std::move(features));
}

}  // namespace muster::inline v0_1::feature_column
