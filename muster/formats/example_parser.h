// Fills the columns of a batch from serialized tf.Examples, straight off the wire: one pass over
// the bytes, numbers copied once, into the caller's memory. Thread safety: an ExamplePlan is
// immutable; an ExampleBatch belongs to one thread.
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

// What is to be read of one feature.
struct FeaturePlan {
  std::string key;
  FeatureKind kind = FeatureKind::kFloat;
  FeatureForm form = FeatureForm::kFixed;
  std::vector<int64_t> shape;  // kFixed: of the feature; kSequence: of a step; a scalar is {}
  // Of kFixed, for examples without the feature: one value for all, or as many as the shape has.
  // Without one a missing feature is an error.
  Feature default_value;
  // Of kSequence: whether a missing feature is one without steps rather than an error.
  bool allow_missing = false;
};

// Where the values of one feature go, row behind row.
struct FeatureColumn {
  // kFixed numbers: memory of the caller, rows of ExamplePlan::width() numbers. One of them is set.
  float* floats = nullptr;
  int64_t* integers = nullptr;

  // All others are appended here, to the vector of their kind. String i of all is
  // bytes[ends[i], ends[i + 1]).
  std::vector<float> float_values;
  std::vector<int64_t> integer_values;
  std::string bytes;
  std::vector<int64_t> ends{0};
  // kVariable and kSequence: how many values (not steps) each row has.
  std::vector<int64_t> row_lengths;
};

// Features to read, checked.
class ExamplePlan {
 public:
  // InvalidArgument, naming the key, for one that is there twice, a kind kNone, a negative
  // size, a step without values, and a default of another kind or count than its feature.
  static Result<ExamplePlan> compile(std::vector<FeaturePlan> features);

  const std::vector<FeaturePlan>& features() const { return features_; }
  // The values of feature `i`: of a row (kFixed) or of a step (kSequence); 1 for kVariable.
  int64_t width(size_t i) const { return widths_[i]; }
  // The feature of that name, or -1.
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
  // A column for each feature of the plan, in its order; with room for all rows that will be added.
  // Both must outlive this.
  ExampleBatch(const ExamplePlan& plan, std::span<FeatureColumn> columns);

  // Adds `example` as the next row. Packed and unpacked lists, any order of features; of a key that
  // occurs twice the later counts; features and fields that nobody asked for are passed over.
  // Corrupt, with the byte, when it is no tf.Example. InvalidArgument for a missing feature
  // (listing those there are), one of another kind, and another number of values than its shape
  // has. After an error the columns are in no defined state.
  Status add(Bytes example);

 private:
  // What the current row has of a feature.
  struct Cell {
    int64_t row = -1;  // in which it was last seen
    FeatureKind kind = FeatureKind::kNone;
    int64_t count = 0;  // values
    size_t begin = 0;   // of the row, in what is appended
  };
  // The key of the i-th feature of the last example, and what it is in the plan: most files have
  // all features in one order.
  struct Guess {
    std::string key;
    int32_t feature = -1;
  };

  class Parser;

  void begin_cell(size_t feature);
  // For a feature the row does not have: its default, or the error.
  Status fill_missing(size_t feature, Bytes example);

  const ExamplePlan& plan_;
  std::span<FeatureColumn> columns_;
  std::vector<Cell> cells_;
  std::vector<Guess> guesses_;
  int64_t row_ = 0;
};

}  // namespace muster::inline v0_1::formats
