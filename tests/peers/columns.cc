#include "tests/peers/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/data/example.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/parse_spec.h"
#include "muster/features/sequence_column.h"
#include "muster/formats/example.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::Combiner;
using feature_column::CrossedKey;
using feature_column::CrossedOptions;
using feature_column::EmbeddingColumnOptions;
using feature_column::HashBucketOptions;
using feature_column::IdentityOptions;
using feature_column::NumericColumnOptions;
using feature_column::SequenceNumericOptions;
using feature_column::SharedEmbeddingsOptions;
using feature_column::Vocabulary;
using feature_column::VocabularyFileOptions;
using feature_column::VocabularyListOptions;
using Json = nlohmann::json;
using Entries = std::vector<std::pair<std::string, Element>>;

double number_of(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "nan" ? std::numeric_limits<double>::quiet_NaN()
                       : (text == "inf" ? infinity : -infinity);
}

DType number_dtype(const std::string& name) {
  if (name == "float32") return kFloat32;
  if (name == "float64") return kFloat64;
  if (name == "int32") return kInt32;
  if (name == "int64") return kInt64;
  throw std::runtime_error(name + " is not a dtype of numbers");
}

data::FeatureDType category_dtype(const Json& spec) {
  const std::string name = spec.value("dtype", "string");
  if (name == "string") return data::kString;
  return number_dtype(name);
}

std::function<Tensor(const Tensor&)> normalizer(const Json& spec) {
  if (!spec.contains("normalizer_fn")) return {};
  if (spec.at("normalizer_fn") == "shift") return [](const Tensor& x) { return (x - 2) / 3; };
  if (spec.at("normalizer_fn") == "log1p") {
    // LibTorch's maximum keeps a NaN, as TensorFlow's does.
    return [](const Tensor& x) { return at::maximum(x, at::zeros_like(x)).log1p(); };
  }
  throw std::runtime_error("no normalizer_fn is called " + spec.at("normalizer_fn").dump());
}

FeatureColumn one_column(const Json& spec, const std::string& folder) {
  const std::vector<FeatureColumn> columns = peer_columns(Json::array({spec}), folder);
  if (columns.size() != 1) throw std::runtime_error("shared embeddings are not a single column");
  return columns.front();
}

FeatureColumn numbers_column(const Json& spec) {
  if (spec.at("type") == "sequence_numeric_column") {
    SequenceNumericOptions options;
    take_option<Shape>(spec, "shape", options.shape);
    take_option<double>(spec, "default_value", options.default_value);
    options.normalizer_fn = normalizer(spec);
    return feature_column::sequence_numeric_column(spec.at("key"), std::move(options));
  }
  NumericColumnOptions options;
  take_option<Shape>(spec, "shape", options.shape);
  if (spec.contains("default_value")) {
    const Json& given = spec.at("default_value");
    options.default_value = given.is_array() ? given.get<std::vector<double>>()
                                             : std::vector<double>{given.get<double>()};
  }
  if (spec.contains("dtype")) options.dtype = number_dtype(spec.at("dtype"));
  options.normalizer_fn = normalizer(spec);
  return feature_column::numeric_column(spec.at("key"), std::move(options));
}

Vocabulary vocabulary(const Json& spec) {
  const Json& values = spec.at("vocabulary_list");
  if (spec.value("dtype", "string") == "string") return values.get<std::vector<std::string>>();
  return values.get<std::vector<int64_t>>();
}

std::string vocabulary_file(const Json& spec, const std::string& folder) {
  std::string text;
  for (const Json& line : spec.at("lines")) {
    text += (line.is_string() ? line.get<std::string>() : line.dump()) + "\n";
  }
  FileSystem& files = local_file_system();
  const size_t others = files.list_directory(folder).value().size();
  const std::string path = join_path(folder, fmt::format("vocabulary_{}.txt", others));
  files.write_atomically(path, std::string_view(text)).value();
  return path;
}

// A column of categories, or of a sequence of them.
FeatureColumn categories_column(const std::string& type, const Json& spec,
                                const std::string& folder) {
  const std::string key = spec.at("key");
  const bool sequence = type.starts_with("sequence_");
  if (type.ends_with("_hash_bucket")) {
    const HashBucketOptions options{.dtype = category_dtype(spec)};
    const int64_t size = spec.at("hash_bucket_size");
    return sequence
               ? feature_column::sequence_categorical_column_with_hash_bucket(key, size, options)
               : feature_column::categorical_column_with_hash_bucket(key, size, options);
  }
  if (type.ends_with("_identity")) {
    IdentityOptions options;
    take_option<int64_t>(spec, "default_value", options.default_value);
    const int64_t buckets = spec.at("num_buckets");
    return sequence
               ? feature_column::sequence_categorical_column_with_identity(key, buckets, options)
               : feature_column::categorical_column_with_identity(key, buckets, options);
  }
  if (type.ends_with("_vocabulary_list")) {
    VocabularyListOptions options;
    take_option<int64_t>(spec, "default_value", options.default_value);
    take_option<int64_t>(spec, "num_oov_buckets", options.num_oov_buckets);
    return sequence ? feature_column::sequence_categorical_column_with_vocabulary_list(
                          key, vocabulary(spec), options)
                    : feature_column::categorical_column_with_vocabulary_list(key, vocabulary(spec),
                                                                              options);
  }
  if (type.ends_with("_vocabulary_file")) {
    VocabularyFileOptions options{.dtype = category_dtype(spec)};
    take_option<int64_t>(spec, "default_value", options.default_value);
    take_option<int64_t>(spec, "num_oov_buckets", options.num_oov_buckets);
    take_option<int64_t>(spec, "vocabulary_size", options.vocabulary_size);
    const std::string file = vocabulary_file(spec, folder);
    return sequence ? feature_column::sequence_categorical_column_with_vocabulary_file(key, file,
                                                                                       options)
                    : feature_column::categorical_column_with_vocabulary_file(key, file, options);
  }
  throw std::runtime_error("no column is a " + type);
}

FeatureColumn cross_of(const Json& spec, const std::string& folder) {
  std::vector<CrossedKey> keys;
  for (const Json& key : spec.at("keys")) {
    if (key.is_string()) {
      keys.emplace_back(key.get<std::string>());
    } else {
      keys.emplace_back(one_column(key, folder));
    }
  }
  CrossedOptions options;
  take_option<uint64_t>(spec, "hash_key", options.hash_key);
  return feature_column::crossed_column(keys, spec.at("hash_bucket_size"), options);
}

// The options that embeddings of one column and of several have.
template <typename Options>
Options embedding_options(const Json& spec) {
  Options options;
  if (spec.contains("combiner")) options.combiner = peer_combiner(spec.at("combiner"));
  take_option<double>(spec, "max_norm", options.max_norm);
  return options;
}

// The values of rows, padded to one length, and the shape of that.
struct Padded {
  Shape shape{};
  std::vector<std::string> texts{};
  std::vector<double> numbers{};
};

Padded padded(const Json& rows, bool texts) {
  const auto count = static_cast<int64_t>(rows.size());
  size_t width = 0, deep = 0;
  bool nested = false;
  for (const Json& row : rows) {
    width = std::max(width, row.size());
    for (const Json& value : row) {
      nested = nested || value.is_array();
      if (value.is_array()) deep = std::max(deep, value.size());
    }
  }
  Padded all{.shape = {count, static_cast<int64_t>(width)}};
  if (nested) all.shape.push_back(static_cast<int64_t>(deep));
  const auto add = [&](const Json* value, const double padding) {
    if (texts) {
      all.texts.push_back(value == nullptr ? "" : value->get<std::string>());
    } else {
      all.numbers.push_back(value == nullptr ? padding : number_of(*value));
    }
  };
  for (const Json& row : rows) {
    for (size_t i = 0; i < width; ++i) {
      if (!nested) {
        add(i < row.size() ? &row[i] : nullptr, 0);
        continue;
      }
      for (size_t j = 0; j < deep; ++j) {
        const bool there = i < row.size() && j < row[i].size();
        add(there ? &row[i][j] : nullptr, -1);
      }
    }
  }
  return all;
}

Strings strings_of(const std::vector<std::string>& texts, const Shape& shape) {
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const std::string& text : texts) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(shape, std::move(offsets), std::move(bytes));
}

void add_feature(const std::string& key, const Json& feature, Entries& entries) {
  const std::string dtype = feature.at("dtype");
  const Json& rows = feature.at("rows");
  Padded all = padded(rows, dtype == "string");
  if (dtype == "string") {
    entries.emplace_back(key, strings_of(all.texts, all.shape));
  } else {
    entries.emplace_back(
        key, torch::tensor(all.numbers, kFloat64).reshape(all.shape).to(number_dtype(dtype)));
  }
  // Lists in steps have no lengths: "" and -1 fill them up.
  if (feature.value("dense", false) || all.shape.size() == 3) return;
  std::vector<int64_t> lengths;
  for (const Json& row : rows) lengths.push_back(static_cast<int64_t>(row.size()));
  entries.emplace_back(key + data::kRowLengths, torch::tensor(lengths, kInt64));
}

Element parsed_features(const Json& features, const std::vector<FeatureColumn>& columns) {
  std::vector<std::string> serialized;
  for (size_t row = 0; row < features.begin()->at("rows").size(); ++row) {
    formats::Example example;
    for (const auto& [key, feature] : features.items()) {
      const Json& values = feature.at("rows").at(row);
      if (values.is_null()) continue;
      if (feature.at("dtype") == "string") {
        example.features.emplace_back(key, values.get<std::vector<std::string>>());
      } else if (feature.at("dtype") == "int64") {
        example.features.emplace_back(key, values.get<std::vector<int64_t>>());
      } else {
        std::vector<float> numbers;
        for (const Json& value : values) numbers.push_back(static_cast<float>(number_of(value)));
        example.features.emplace_back(key, std::move(numbers));
      }
    }
    serialized.push_back(formats::encode_example(example));
  }
  return data::ExampleParser(feature_column::make_parse_example_spec(columns))(Strings(serialized));
}

}  // namespace

feature_column::Combiner peer_combiner(const std::string& name) {
  if (name == "sum") return Combiner::kSum;
  if (name == "mean") return Combiner::kMean;
  if (name == "sqrtn") return Combiner::kSqrtn;
  throw std::runtime_error("no combiner is called " + name);
}

std::vector<FeatureColumn> peer_columns(const Json& specs, const std::string& folder) {
  std::vector<FeatureColumn> columns;
  for (const Json& spec : specs) {
    const std::string type = spec.at("type");
    if (type == "numeric_column" || type == "sequence_numeric_column") {
      columns.push_back(numbers_column(spec));
    } else if (type == "bucketized_column") {
      columns.push_back(feature_column::bucketized_column(one_column(spec.at("source"), folder),
                                                          spec.at("boundaries")));
    } else if (type == "crossed_column") {
      columns.push_back(cross_of(spec, folder));
    } else if (type == "weighted_categorical_column") {
      columns.push_back(feature_column::weighted_categorical_column(
          one_column(spec.at("categorical_column"), folder), spec.at("weight_feature_key")));
    } else if (type == "indicator_column") {
      columns.push_back(
          feature_column::indicator_column(one_column(spec.at("categorical_column"), folder)));
    } else if (type == "embedding_column") {
      columns.push_back(feature_column::embedding_column(
          one_column(spec.at("categorical_column"), folder), spec.at("dimension"),
          embedding_options<EmbeddingColumnOptions>(spec)));
    } else if (type == "shared_embeddings") {
      const std::vector<FeatureColumn> shared = feature_column::shared_embeddings(
          peer_columns(spec.at("categorical_columns"), folder), spec.at("dimension"),
          embedding_options<SharedEmbeddingsOptions>(spec));
      columns.insert(columns.end(), shared.begin(), shared.end());
    } else {
      columns.push_back(categories_column(type, spec, folder));
    }
  }
  return columns;
}

Element peer_features(const Json& features, const std::vector<FeatureColumn>& columns,
                      bool examples) {
  if (examples) return parsed_features(features, columns);
  Entries entries;
  for (const auto& [key, feature] : features.items()) add_feature(key, feature, entries);
  return Element::dict(std::move(entries));
}

}  // namespace muster::inline v0_1
