// Fills the columns of a batch from serialized tf.Examples. It passes over the bytes once and
// copies each number once, into the caller's memory. Thread safety: an ExamplePlan is immutable; an
// ExampleBatch belongs to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/result.h"
#include "muster/formats/example.h"

namespace muster::inline v0_1::formats {

// How many values of a feature an example has.
enum class FeatureForm {
  kFixed,     // always those of one shape
  kVariable,  // any number; none when the feature is missing
  kSequence,  // any number of steps of one shape
};

// How one feature is read.
struct FeaturePlan {
  std::string key{};
  FeatureKind kind = FeatureKind::kFloat;
  FeatureForm form = FeatureForm::kFixed;
  std::vector<int64_t> shape{};  // kFixed: of the feature; kSequence: of a step; a scalar is {}
  // For kFixed: the values of examples that lack the feature, one for all or as many as the shape
  // has. Without a default a missing feature is an error.
  Feature default_value{};
  // For kSequence: whether an example that lacks the feature has 0 steps, instead of being an
  // error.
  bool allow_missing = false;
};

// The memory that receives the values of one feature, row after row.
struct FeatureColumn {
  // Numbers of kFixed features go into memory of the caller: rows of ExamplePlan::width() numbers.
  // One of the two pointers is set.
  float* floats = nullptr;
  int64_t* integers = nullptr;

  // All other values are appended here, to the vector of their kind. String i is bytes[ends[i],
  // ends[i + 1]).
  std::vector<float> float_values{};
  std::vector<int64_t> integer_values{};
  std::string bytes{};
  std::vector<int64_t> ends{0};
  // For kVariable and kSequence: how many values (not steps) each row has.
  std::vector<int64_t> row_lengths{};
};

// The features to read, once they have been checked.
class ExamplePlan {
 public:
  // Returns InvalidArgument, naming the key, for a key that is there twice, the kind kNone, a
  // negative size, a step without values, and a default of another kind or count than its feature.
  static Result<ExamplePlan> compile(std::vector<FeaturePlan> features);

  const std::vector<FeaturePlan>& features() const { return features_; }
  // How many values feature `i` has in a row (kFixed) or in a step (kSequence); 1 for kVariable.
  int64_t width(size_t i) const { return widths_[i]; }
  // The index of the feature with that name, or -1.
  int32_t find(std::string_view key) const;

 private:
  ExamplePlan() = default;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::vector<FeaturePlan> features_;
  std::vector<int64_t> widths_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> places_;
};

// Reads example after example into the columns of one batch.
class ExampleBatch {
 public:
  // `columns` holds a column for each feature of the plan, in its order, with room for all rows
  // that will be added. Both must outlive this object.
  ExampleBatch(const ExamplePlan& plan, std::span<FeatureColumn> columns);

  // Adds `example` as the next row. Lists may be packed or not, and features may come in any order;
  // when a key occurs twice, the later value counts. Features and fields that were not asked for
  // are skipped. Returns Corrupt, with the byte, when it is not a tf.Example. Returns
  // InvalidArgument for a missing feature (and lists those there are), for one of another kind, and
  // for another number of values than its shape has. After an error the state of the columns is
  // undefined.
  Status add(Bytes example);

 private:
  // What the current row holds for one feature.
  struct Cell {
    int64_t row = -1;  // in which it was last seen
    FeatureKind kind = FeatureKind::kNone;
    int64_t count = 0;  // values
    size_t begin = 0;   // of the row, in what is appended
  };
  // The key of the i-th feature of the last example, and its index in the plan. Most files keep one
  // order of features, so the guess is usually right.
  struct Guess {
    std::string key{};
    int32_t feature = -1;
  };

  class Parser;

  void begin_cell(size_t feature);
  // Gives a feature that the row lacks its default, or returns the error.
  Status fill_missing(size_t feature, Bytes example);

  const ExamplePlan& plan_;
  std::span<FeatureColumn> columns_;
  std::vector<Cell> cells_;
  std::vector<Guess> guesses_;
  int64_t row_ = 0;
};

}  // namespace muster::inline v0_1::formats
