#include "muster/features/column_receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/export/request_columns.h"
#include "muster/features/internal/raw_features.h"
#include "muster/features/parse_spec.h"
#include "muster/features/recipe.h"
#include "muster/features/resolve.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_tabular_linked;
const int muster_tabular_linked = 1;
}

namespace muster::inline v0_1::feature_column {
namespace {

bool is_parsed(const data::FeatureDType& dtype) {
  return dtype == data::FeatureDType(kFloat32) || dtype == data::FeatureDType(kInt64);
}

class ExportedColumns final : public RequestColumns {
 public:
  explicit ExportedColumns(std::vector<FeatureColumn> columns) : columns_(std::move(columns)) {}
  nlohmann::json recipe() const override { return recipe_of(columns_); }
  std::unique_ptr<const RequestReader> reader(
      const std::map<std::string, TensorInfo>& inputs,
      const std::optional<data::FeatureSpec>& numbers) const override {
    return std::make_unique<internal::RawFeatures>(columns_, inputs, numbers);
  }

 private:
  const std::vector<FeatureColumn> columns_;
};

[[maybe_unused]] const bool registered = [] {
  register_request_columns(
      [](const nlohmann::json& recipe) -> std::shared_ptr<const RequestColumns> {
        return std::make_shared<ExportedColumns>(columns_of(recipe));
      });
  return true;
}();

}  // namespace

ServingInputReceiver serving_input_receiver(const std::vector<FeatureColumn>& columns) {
  std::map<std::string, ServingFeature> features;
  std::vector<FeatureColumn> numbers, categories;
  for (const FeatureColumn& column : columns) {
    const ResolvedColumn resolved = resolved_column(column);
    if (resolved.gives_sequences) {
      throw invalid_argument(
          fmt::format("serving_input_receiver: the column '{}' is one of sequences", column.name()),
          "the lengths of sequences differ; write the features of a request by hand, with the "
          "number of steps that it has");
    }
    // Columns that models resolve by themselves: numbers, and their buckets.
    (resolved.is_dense ? numbers : categories).push_back(column);
    if (resolved.is_dense) continue;
    for (const ResolvedColumn::Entry& entry : resolved.entries)
      features[entry.key] = {.dtype = entry.dtype, .shape = {1}};
  }
  // Reports contradictions between columns, and columns that cannot be exported.
  (void)make_parse_example_spec(columns);
  (void)recipe_of(categories);
  const data::FeatureSpec spec = make_parse_example_spec(numbers);
  for (const auto& [key, feature] : spec) {
    const auto& number = std::get<data::FixedLenFeature>(feature);
    features[key] = {.dtype = std::get<DType>(number.dtype), .shape = number.shape};
  }
  ServingInputReceiver receiver = raw_serving_input_receiver(std::move(features));
  if (!categories.empty())
    receiver.columns = std::make_shared<ExportedColumns>(std::move(categories));
  if (std::ranges::all_of(spec, [](const auto& each) {
        return is_parsed(std::get<data::FixedLenFeature>(each.second).dtype);
      })) {
    receiver.parsing = spec;
  }
  return receiver;
}

}  // namespace muster::inline v0_1::feature_column
