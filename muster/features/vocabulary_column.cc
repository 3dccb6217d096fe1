#include <fmt/format.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/features/categorical_column.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/feature_specs.h"
#include "muster/files/file_systems.h"
#include "muster/formats/vocabulary_file.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::CategoryValues;
using internal::Cells;
using internal::FeatureReader;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// The common part of both kinds of vocabulary columns. Integers are looked up as their digits.
struct VocabularyRules {
  const char* function{};
  std::string key{};
  std::vector<std::string> values{};
  data::FeatureDType dtype;
  int64_t default_value{};
  int64_t num_oov_buckets{};

  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    throw invalid_argument(fmt::format("{} of '{}': {}", function, key, what), hint);
  }
};

class VocabularyColumn final : public CategoricalColumn {
 public:
  explicit VocabularyColumn(const VocabularyRules& rules)
      : CategoricalColumn(rules.key),
        size_(static_cast<int64_t>(rules.values.size())),
        values_(rules.values),
        dtype_(rules.dtype),
        default_value_(rules.default_value),
        num_oov_buckets_(rules.num_oov_buckets) {
    std::string all;
    for (size_t i = 0; i < rules.values.size(); ++i) {
      const auto [known, is_new] = places_.emplace(rules.values[i], static_cast<int64_t>(i));
      if (!is_new) {
        rules.refuse(fmt::format("the vocabulary has '{}' twice, as {} and {}",
                                 printable(rules.values[i]), known->second, i),
                     "each value has one id");
      }
      all += fmt::format("{}:{}", rules.values[i].size(), rules.values[i]);
    }
    definition_ = fmt::format("a vocabulary of {} {} ({:016x}), {} for others, {} buckets of them",
                              size_, internal::dtype_name(dtype_), fingerprint64(all),
                              default_value_, num_oov_buckets_);
  }

  int64_t num_buckets() const override { return size_ + num_oov_buckets_; }
  std::string value_name(int64_t place) const override {
    return place < size_ ? values_[static_cast<size_t>(place)]
                         : fmt::format("unknown {}", place - size_);
  }
  std::string definition() const override { return definition_; }
  nlohmann::json recipe() const override {
    nlohmann::json values = values_;
    if (!internal::is_string(dtype_)) {
      for (nlohmann::json& value : values) value = parse_int(value.get<std::string>()).value();
    }
    return {{"kind", "vocabulary"},
            {"key", name()},
            {"values", std::move(values)},
            {"dtype", internal::dtype_name(dtype_)},
            {"default_value", default_value_},
            {"num_oov_buckets", num_oov_buckets_}};
  }
  void add_features(data::FeatureSpec& spec) const override {
    internal::add_feature(spec, fmt::format("the column '{}'", name()), name(),
                          data::VarLenFeature{dtype_});
  }

  Cells ids(const FeatureReader& features) const override {
    const CategoryValues values = features.categories(name(), name(), dtype_);
    Cells cells(values.rows(), values.width());
    for (int64_t i = 0; i < values.size(); ++i) {
      if (!values.present(i)) continue;
      if (values.is_strings()) {
        cells.set(i, id_of(values.text(i)));
      } else {
        const fmt::format_int digits(values.number(i));
        cells.set(i, id_of({digits.data(), digits.size()}));
      }
    }
    return cells;
  }

 private:
  int64_t id_of(std::string_view value) const {
    const auto found = places_.find(value);
    if (found != places_.end()) return found->second;
    if (num_oov_buckets_ == 0) return default_value_;
    return size_ +
           static_cast<int64_t>(fingerprint64(value) % static_cast<uint64_t>(num_oov_buckets_));
  }

  const int64_t size_;
  const std::vector<std::string> values_;  // by id
  const data::FeatureDType dtype_;
  const int64_t default_value_;
  const int64_t num_oov_buckets_;
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> places_;
  std::string definition_;
};

FeatureColumn vocabulary_column(const VocabularyRules& rules) {
  if (rules.values.empty()) rules.refuse("the vocabulary is empty", "it has at least one value");
  internal::check_at_least(rules.function, rules.key, "num_oov_buckets", rules.num_oov_buckets, 0);
  if (rules.num_oov_buckets > 0 && rules.default_value != -1) {
    rules.refuse(fmt::format("num_oov_buckets is {}, and default_value is {}",
                             rules.num_oov_buckets, rules.default_value),
                 "give one of them: unknown values are in buckets of their own, or have one id");
  }
  const auto size = static_cast<int64_t>(rules.values.size());
  if (rules.default_value >= size) {
    rules.refuse(fmt::format("default_value is {}", rules.default_value),
                 fmt::format("it is an id, from 0 to {}, or below 0 for none", size - 1));
  }
  if (rules.num_oov_buckets > std::numeric_limits<int64_t>::max() - size) {
    rules.refuse(fmt::format("num_oov_buckets is {}", rules.num_oov_buckets),
                 "the vocabulary and its buckets have more ids than int64 holds");
  }
  return FeatureColumn(std::make_shared<const VocabularyColumn>(rules));
}

// Reads at most `size` lines. Integers come as their shortest digits.
void read_values(const std::string& file, std::optional<int64_t> size, VocabularyRules& rules) {
  auto read = formats::read_vocabulary_file(file_systems(), file, size);
  if (!read.ok()) {
    const Error& error = read.error();
    throw Error(error.kind(),
                fmt::format("{} of '{}': {}", rules.function, rules.key, error.message()),
                error.hint());
  }
  rules.values = std::move(read).value();
  if (internal::is_string(rules.dtype)) return;
  for (size_t line = 0; line < rules.values.size(); ++line) {
    const std::optional<int64_t> number = parse_int(rules.values[line]);
    if (!number) {
      rules.refuse(fmt::format("line {} of {} is '{}', and dtype is {}", line + 1, file,
                               printable(rules.values[line]), internal::dtype_name(rules.dtype)),
                   "each line is an integer; take dtype = kString for texts");
    }
    rules.values[line] = std::to_string(*number);
  }
}

template <typename Integers>
std::vector<std::string> digits_of(const Integers& integers) {
  std::vector<std::string> texts;
  for (const auto each : integers) texts.push_back(std::to_string(each));
  return texts;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> texts)
    : is_strings_(true), values_(std::move(texts)) {}
Vocabulary::Vocabulary(std::vector<int64_t> integers)
    : is_strings_(false), values_(digits_of(integers)) {}
Vocabulary::Vocabulary(std::initializer_list<const char*> texts)
    : is_strings_(true), values_(texts.begin(), texts.end()) {}
Vocabulary::Vocabulary(std::initializer_list<std::string> texts)
    : is_strings_(true), values_(texts) {}
Vocabulary::Vocabulary(std::initializer_list<int> integers)
    : is_strings_(false), values_(digits_of(integers)) {}
Vocabulary::Vocabulary(std::initializer_list<int64_t> integers)
    : is_strings_(false), values_(digits_of(integers)) {}

FeatureColumn categorical_column_with_vocabulary_list(const std::string& key,
                                                      const Vocabulary& vocabulary_list,
                                                      const VocabularyListOptions& options) {
  VocabularyRules rules{.function = "categorical_column_with_vocabulary_list",
                        .key = key,
                        .values = vocabulary_list.values(),
                        .dtype = data::kString,
                        .default_value = options.default_value,
                        .num_oov_buckets = options.num_oov_buckets};
  internal::check_key(rules.function, key);
  if (!vocabulary_list.is_strings()) rules.dtype = kInt64;
  if (options.dtype) {
    internal::check_category_dtype(rules.function, key, *options.dtype);
    if (internal::is_string(*options.dtype) != vocabulary_list.is_strings()) {
      rules.refuse(fmt::format("dtype is {}, and the vocabulary_list has {}",
                               internal::dtype_name(*options.dtype),
                               vocabulary_list.is_strings() ? "strings" : "integers"),
                   "leave dtype out, and it is that of the list");
    }
    rules.dtype = *options.dtype;
  }
  return vocabulary_column(rules);
}

FeatureColumn categorical_column_with_vocabulary_file(const std::string& key,
                                                      const std::string& vocabulary_file,
                                                      const VocabularyFileOptions& options) {
  VocabularyRules rules{.function = "categorical_column_with_vocabulary_file",
                        .key = key,
                        .values = {},
                        .dtype = options.dtype,
                        .default_value = options.default_value.value_or(-1),
                        .num_oov_buckets = options.num_oov_buckets};
  internal::check_key(rules.function, key);
  internal::check_category_dtype(rules.function, key, options.dtype);
  if (vocabulary_file.empty()) {
    rules.refuse("vocabulary_file is empty", "give the path of a file with a value on each line");
  }
  if (options.vocabulary_size) {
    internal::check_at_least(rules.function, key, "vocabulary_size", *options.vocabulary_size, 1);
  }
  if (options.num_oov_buckets > 0 && options.default_value) {
    rules.refuse(fmt::format("num_oov_buckets is {}, and default_value is {}",
                             options.num_oov_buckets, *options.default_value),
                 "give one of them: unknown values are in buckets of their own, or have one id");
  }
  read_values(vocabulary_file, options.vocabulary_size, rules);
  const auto size = static_cast<int64_t>(rules.values.size());
  if (size == 0) {
    rules.refuse(fmt::format("vocabulary_file {} is empty", vocabulary_file),
                 "it has a value on each line");
  }
  if (options.vocabulary_size && *options.vocabulary_size > size) {
    rules.refuse(fmt::format("vocabulary_size is {}, and {} has {} lines", *options.vocabulary_size,
                             vocabulary_file, size),
                 "leave vocabulary_size out, and all lines are read");
  }
  return vocabulary_column(rules);
}

}  // namespace muster::inline v0_1::feature_column
