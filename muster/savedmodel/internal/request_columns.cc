#include "muster/savedmodel/internal/request_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/savedmodel/internal/example_features.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

using nlohmann::json;

std::string kind_of(const json& recipe) { return recipe.at("kind").get<std::string>(); }

std::string name_of(const json& recipe) {
  const std::string kind = kind_of(recipe);
  if (kind == "buckets") return recipe.at("numbers").at("key").get<std::string>() + "_bucketized";
  if (kind == "weighted") {
    return name_of(recipe.at("categorical")) + "_weighted_by_" +
           recipe.at("weights").get<std::string>();
  }
  if (kind != "cross") return recipe.at("key").get<std::string>();
  std::vector<std::string> names;
  for (const json& key : recipe.at("keys"))
    names.push_back(key.is_string() ? key.get<std::string>() : name_of(key));
  std::ranges::sort(names);
  return join(names, "_X_");
}

bool is_text(const json& recipe) {
  return recipe.contains("dtype") && recipe.at("dtype").get<std::string>() == "string";
}

}  // namespace

bool crosses_in_two_orders(const json& recipe) {
  return std::ranges::any_of(recipe, [](const json& any) {
    const json& column = kind_of(any) == "weighted" ? any.at("categorical") : any;
    if (kind_of(column) != "cross") return false;
    return !std::ranges::is_partitioned(column.at("keys"),
                                        [](const json& key) { return !key.is_string(); });
  });
}

std::map<std::string, std::string> ColumnNodes::add(
    const json& recipe, const std::map<std::string, TensorInfo>& inputs) {
  const std::string name = name_of(recipe);
  const auto found = inputs.find(name + "/ids");
  if (found == inputs.end()) return {};
  graph_.set_label(name);
  const int64_t width = found->second.shape.at(1);
  const bool weighted = kind_of(recipe) == "weighted";
  const json& column = weighted ? recipe.at("categorical") : recipe;
  std::map<std::string, std::string> made;
  if (kind_of(column) == "cross") {
    made[name + "/ids"] = crossed_ids(column, width);
  } else {
    const Cells cells = ids(column);
    const std::string known =
        nodes_.both(cells.present, nodes_.test("GreaterEqual", {cells.values, nodes_.int64(0)}));
    made[name + "/ids"] = widened(nodes_.where(known, cells.values, nodes_.int64(-1)), width);
  }
  if (!weighted) return made;
  const std::string weights = widened(
      nodes_.cast(feature_(recipe.at("weights").get<std::string>()), BundleDtype::kFloat), width);
  made[name + "/weights"] = weights;
  if (dense_) {
    // A dense weight of 0 says that there is no value.
    std::string& ids = made.at(name + "/ids");
    ids = nodes_.where(nodes_.test("Equal", {weights, graph_.scalar(0, BundleDtype::kFloat)}),
                       nodes_.int64(-1), ids);
  }
  return made;
}

ColumnNodes::Cells ColumnNodes::texts(const std::string& key) {
  const std::string given = feature_(key);
  const std::string present =
      nodes_.both(nodes_.test("NotEqual", {given, nodes_.text("")}),
                  nodes_.test("NotEqual", {given, nodes_.text(kMissingText)}));
  return {
      nodes_.where(nodes_.test("Equal", {given, nodes_.text(kEmptyText)}), nodes_.text(""), given),
      present};
}

ColumnNodes::Cells ColumnNodes::integers(const std::string& key) {
  const std::string given = nodes_.cast(feature_(key), kId);
  const std::string minus_one = nodes_.int64(-1);
  return {nodes_.where(nodes_.test("Equal", {given, nodes_.int64(kMinusOne)}), minus_one, given),
          nodes_.test("NotEqual", {given, minus_one})};
}

ColumnNodes::Cells ColumnNodes::words(const json& recipe) {
  const auto key = recipe.at("key").get<std::string>();
  if (is_text(recipe)) return texts(key);
  Cells cells = integers(key);
  cells.values = graph_.add("AsString", {cells.values}, {{"T", type_value(kId)}}, kText);
  return cells;
}

ColumnNodes::Cells ColumnNodes::ids(const json& recipe) {
  const std::string kind = kind_of(recipe);
  if (kind == "vocabulary") return vocabulary_ids(recipe);
  if (kind == "identity") return identity_ids(recipe);
  if (kind == "buckets") return buckets(recipe);
  if (kind != "hash") {
    throw invalid_argument(
        fmt::format("not supported: SavedModel: the column '{}' of the kind '{}'", name_of(recipe),
                    kind),
        "export it without this column");
  }
  Cells cells = words(recipe);
  cells.values =
      graph_.add("StringToHashBucketFast", {cells.values},
                 {{"num_buckets", integer_value(recipe.at("buckets").get<int64_t>())}}, kId);
  return cells;
}

ColumnNodes::Cells ColumnNodes::vocabulary_ids(const json& recipe) {
  std::vector<std::string> values;
  for (const json& value : recipe.at("values"))
    values.push_back(value.is_string() ? value.get<std::string>()
                                       : std::to_string(value.get<int64_t>()));
  const auto buckets = recipe.at("num_oov_buckets").get<int64_t>();
  const std::string table = tables_.add(recipe.at("key").get<std::string>(), values);
  graph_.set_label(name_of(recipe));
  Cells cells = words(recipe);
  const std::string given = cells.values;
  cells.values = tables_.find(table, given, recipe.at("default_value").get<int64_t>());
  if (buckets == 0) return cells;
  const std::string hash =
      graph_.add("StringToHashBucketFast", {given}, {{"num_buckets", integer_value(buckets)}}, kId);
  const std::string others =
      nodes_.of_same("AddV2", {hash, nodes_.int64(static_cast<int64_t>(values.size()))});
  cells.values =
      nodes_.where(nodes_.test("Less", {cells.values, nodes_.int64(0)}), others, cells.values);
  return cells;
}

ColumnNodes::Cells ColumnNodes::identity_ids(const json& recipe) {
  const auto key = recipe.at("key").get<std::string>();
  const auto count = recipe.at("buckets").get<int64_t>();
  Cells cells = integers(key);
  const std::string below = nodes_.test("Less", {cells.values, nodes_.int64(count)});
  if (recipe.contains("default_value")) {
    const std::string inside =
        nodes_.both(below, nodes_.test("GreaterEqual", {cells.values, nodes_.int64(0)}));
    cells.values =
        nodes_.where(inside, cells.values, nodes_.int64(recipe.at("default_value").get<int64_t>()));
  } else {
    cells.values =
        nodes_.checked(cells.values, nodes_.all(below, 2),
                       fmt::format("values of the feature '{}' are 0 to {}", key, count - 1));
  }
  return cells;
}

// How many boundaries are at most as large as each number, as bucketize() counts them: NaN is above
// all. Each number of an example has buckets of its own.
ColumnNodes::Cells ColumnNodes::buckets(const json& recipe) {
  const json& numbers = recipe.at("numbers");
  const auto boundaries = recipe.at("boundaries").get<std::vector<double>>();
  const auto count = static_cast<int64_t>(boundaries.size());
  const auto size = numbers.at("shape").get<Shape>().at(0);
  const std::string given = feature_(numbers.at("key").get<std::string>());
  const BundleDtype from = graph_.dtype(given);
  const BundleDtype dtype =
      from == BundleDtype::kDouble || from == kId || from == BundleDtype::kInt32
          ? BundleDtype::kDouble
          : BundleDtype::kFloat;
  std::string cuts;
  for (const double boundary : boundaries) {
    if (dtype == BundleDtype::kDouble) {
      append_little_endian(cuts, boundary);
    } else {
      append_little_endian(cuts, static_cast<float>(boundary));
    }
  }
  const std::string each =
      graph_.add("ExpandDims", {nodes_.cast(given, dtype), graph_.int32(2)},
                 {{"T", type_value(dtype)}, {"Tdim", type_value(BundleDtype::kInt32)}}, dtype);
  const std::string below =
      nodes_.cast(nodes_.test("Less", {each, graph_.constant(dtype, {count}, cuts)}), kId);
  const std::string above = graph_.add("Sum", {below, graph_.int32s({2})},
                                       {{"T", type_value(kId)},
                                        {"Tidx", type_value(BundleDtype::kInt32)},
                                        {"keep_dims", flag_value(false)}},
                                       kId);
  std::vector<int64_t> first;
  for (int64_t i = 0; i < size; ++i) first.push_back(count + i * (count + 1));
  const std::string places = nodes_.of_same("Sub", {graph_.int64s(first), above});
  return {places, nodes_.test("GreaterEqual", {places, nodes_.int64(0)})};
}

std::string ColumnNodes::crossed_ids(const json& recipe, int64_t width) {
  std::vector<Cells> leaves;
  for (const bool keys : {false, true}) {
    for (const json& key : recipe.at("keys")) {
      if (dense_ && key.is_string() != keys) continue;
      if (!dense_ && keys) continue;
      if (!key.is_string()) {
        leaves.push_back(ids(key));
        graph_.set_label(name_of(recipe));
        continue;
      }
      // A dense feature has all of its values, "" among them.
      Cells cells = texts(key.get<std::string>());
      cells.present =
          nodes_.test("NotEqual", {feature_(key.get<std::string>()), nodes_.text(kMissingText)});
      leaves.push_back(std::move(cells));
    }
  }
  std::vector<std::string> indices, values, sizes;
  std::vector<BundleDtype> dtypes;
  for (const Cells& leaf : leaves) {
    dtypes.push_back(graph_.dtype(leaf.values));
    indices.push_back(
        graph_.add("Where", {leaf.present}, {{"T", type_value(BundleDtype::kBool)}}, kId));
    values.push_back(graph_.add(
        "GatherNd", {leaf.values, indices.back()},
        {{"Tparams", type_value(dtypes.back())}, {"Tindices", type_value(kId)}}, dtypes.back()));
    sizes.push_back(nodes_.sizes(leaf.values));
  }
  const std::string rows = nodes_.element(sizes.front(), 0);
  std::vector<std::string> inputs = indices;
  inputs.insert(inputs.end(), values.begin(), values.end());
  inputs.insert(inputs.end(), sizes.begin(), sizes.end());
  const auto crossed = graph_.add_with_outputs(
      "SparseCross", inputs,
      {{"N", integer_value(static_cast<int64_t>(leaves.size()))},
       {"hashed_output", flag_value(true)},
       {"num_buckets", integer_value(recipe.at("buckets").get<int64_t>())},
       {"hash_key", integer_value(static_cast<int64_t>(recipe.at("hash_key").get<uint64_t>()))},
       {"sparse_types", type_values(dtypes)},
       {"dense_types", type_values({})},
       {"out_type", type_value(kId)},
       {"internal_type", type_value(kId)}},
      {kId, kId, kId});
  return nodes_.dense(crossed[0], nodes_.pack({rows, nodes_.int64(width)}), crossed[1],
                      nodes_.int64(-1));
}

// Rows as wide as the model takes them, filled up with id -1 or weight 0. TensorFlow refuses to
// make them narrower.
std::string ColumnNodes::widened(const std::string& rows, int64_t width) {
  const BundleDtype dtype = graph_.dtype(rows);
  const std::string sizes =
      graph_.add("ExpandDims", {nodes_.sizes(rows), graph_.int32(1)},
                 {{"T", type_value(kId)}, {"Tdim", type_value(BundleDtype::kInt32)}}, kId);
  // [[0, 0], [0, width - values]]
  const std::string places = graph_.constant(kId, {2, 2}, [] {
    std::string bytes;
    for (const int64_t number : {0, 0, 0, 1}) append_little_endian(bytes, number);
    return bytes;
  }());
  std::string all;
  for (const int64_t number : {int64_t{0}, int64_t{0}, int64_t{0}, width})
    append_little_endian(all, number);
  const std::string paddings = nodes_.of_same(
      "Sub", {graph_.constant(kId, {2, 2}, all), nodes_.of_same("Mul", {sizes, places})});
  return graph_.add("PadV2",
                    {rows, paddings, dtype == kId ? nodes_.int64(-1) : graph_.scalar(0, dtype)},
                    {{"T", type_value(dtype)}, {"Tpaddings", type_value(kId)}}, dtype);
}

}  // namespace muster::inline v0_1::saved_model::internal
