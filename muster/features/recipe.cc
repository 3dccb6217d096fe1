#include "muster/features/recipe.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/internal/column.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

using nlohmann::json;

constexpr std::array kDTypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kByte,
                                at::kChar,  at::kShort,  at::kInt,  at::kLong,     at::kBool};

data::FeatureDType dtype_of(const json& recipe) {
  const std::string name = recipe.at("dtype").get<std::string>();
  if (name == internal::dtype_name(data::kString)) return data::kString;
  for (const DType dtype : kDTypes) {
    if (muster::dtype_name(dtype) == name) return dtype;
  }
  throw invalid_argument(fmt::format("a recipe of columns: there is no dtype '{}'", name));
}

DType number_dtype_of(const json& recipe) {
  const data::FeatureDType dtype = dtype_of(recipe);
  if (const DType* numbers = std::get_if<DType>(&dtype)) return *numbers;
  throw invalid_argument("a recipe of columns: there are strings where numbers must be");
}

FeatureColumn column_of(const json& recipe);

FeatureColumn numbers_of(const json& recipe) {
  return numeric_column(recipe.at("key").get<std::string>(),
                        {.shape = recipe.at("shape").get<Shape>(),
                         .default_value = recipe.at("default").get<std::vector<double>>(),
                         .dtype = number_dtype_of(recipe)});
}

FeatureColumn vocabulary_of(const json& recipe) {
  const auto key = recipe.at("key").get<std::string>();
  const VocabularyListOptions options{
      .dtype = dtype_of(recipe),
      .default_value = recipe.at("default_value").get<int64_t>(),
      .num_oov_buckets = recipe.at("num_oov_buckets").get<int64_t>()};
  const json& values = recipe.at("values");
  return categorical_column_with_vocabulary_list(
      key,
      internal::is_string(*options.dtype) ? Vocabulary(values.get<std::vector<std::string>>())
                                          : Vocabulary(values.get<std::vector<int64_t>>()),
      options);
}

FeatureColumn cross_of(const json& recipe) {
  std::vector<CrossedKey> keys;
  for (const json& key : recipe.at("keys")) {
    if (key.is_string()) {
      keys.emplace_back(key.get<std::string>());
    } else {
      keys.emplace_back(column_of(key));
    }
  }
  return crossed_column(keys, recipe.at("buckets").get<int64_t>(),
                        {.hash_key = recipe.at("hash_key").get<uint64_t>()});
}

FeatureColumn column_of(const json& recipe) {
  const auto kind = recipe.at("kind").get<std::string>();
  if (kind == "numbers") return numbers_of(recipe);
  if (kind == "buckets") {
    return bucketized_column(numbers_of(recipe.at("numbers")),
                             recipe.at("boundaries").get<std::vector<double>>());
  }
  if (kind == "vocabulary") return vocabulary_of(recipe);
  if (kind == "hash") {
    return categorical_column_with_hash_bucket(recipe.at("key").get<std::string>(),
                                               recipe.at("buckets").get<int64_t>(),
                                               {.dtype = dtype_of(recipe)});
  }
  if (kind == "identity") {
    IdentityOptions options;
    if (recipe.contains("default_value"))
      options.default_value = recipe.at("default_value").get<int64_t>();
    return categorical_column_with_identity(recipe.at("key").get<std::string>(),
                                            recipe.at("buckets").get<int64_t>(), options);
  }
  if (kind == "cross") return cross_of(recipe);
  if (kind == "weighted") {
    return weighted_categorical_column(column_of(recipe.at("categorical")),
                                       recipe.at("weights").get<std::string>(),
                                       {.dtype = number_dtype_of(recipe)});
  }
  throw invalid_argument(fmt::format("a recipe of columns: there is no kind '{}'", kind));
}

}  // namespace

json recipe_of(const std::vector<FeatureColumn>& columns) {
  json recipe = json::array();
  for (const FeatureColumn& column : columns) {
    recipe.push_back(column.impl().source().recipe());
    try {
      (void)recipe.back().dump();
    } catch (const json::exception&) {
      throw invalid_argument(
          fmt::format("not supported: exporting how the column '{}' reads its features, for one "
                      "of its values is not UTF-8",
                      column.name()),
          "write keys and vocabularies in UTF-8");
    }
  }
  return recipe;
}

std::vector<FeatureColumn> columns_of(const json& recipe) {
  std::vector<FeatureColumn> columns;
  for (const json& each : recipe) columns.push_back(column_of(each));
  return columns;
}

}  // namespace muster::inline v0_1::feature_column
