// Parses serialized tf.Examples into tensors, whole batches at a time, as tf.io.parse_example does.
// It is fastest after batch():
//
//   auto parse = data::ExampleParser({{"image", data::FixedLenFeature{{28, 28}, kFloat32}},
//                                     {"label", data::FixedLenFeature{{}, kInt64}}});
//   Dataset::from_files(paths, data::tfrecord_format()).shuffle(10000).batch(64).map(parse);
//
// Thread safety: values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "muster/base/export.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// The dtype of strings, which LibTorch does not have: FixedLenFeature{{}, kString}.
struct StringDType {
  bool operator==(const StringDType&) const = default;
};
inline constexpr StringDType kString;
// The dtype of a feature: kFloat32, kInt64 or kString, the types of tf.Examples. For others call
// Tensor::to() in a map().
using FeatureDType = std::variant<DType, StringDType>;

// A feature that has the same number of values in every example.
struct FixedLenFeature {
  Shape shape{};  // the shape in one example; {}: a scalar
  FeatureDType dtype = kFloat32;
  // The values for examples without the feature: a value of the feature's shape, or a single value
  // for all of it. Without a default a missing feature is an error.
  std::optional<Value> default_value{};
};

// A feature with any number of values; a missing feature has none.
struct VarLenFeature {
  FeatureDType dtype = kFloat32;
};

// A feature with any number of steps of one shape.
struct FixedLenSequenceFeature {
  Shape shape{};  // the shape of a step; not of size 0
  FeatureDType dtype = kFloat32;
  // Whether an example without the feature has no steps; otherwise it is an error.
  bool allow_missing = false;
  // The value that pads the shorter examples of a batch; unset: 0 or "".
  std::optional<Value> padding_value{};
};

// The features to read, by key.
using FeatureSpec =
    std::map<std::string, std::variant<FixedLenFeature, VarLenFeature, FixedLenSequenceFeature>>;

// The suffix that makes the key of the lengths of a VarLenFeature.
inline constexpr const char* kRowLengths = "/row_lengths";

// Parses examples by a specification. Thread safety: a value; calls may come from several threads
// at once.
class MUSTER_EXPORT ExampleParser {
 public:
  // Throws InvalidArgument with the key for a dtype that tf.Examples do not have, a negative size,
  // a default of another dtype or shape, and a key that equals another key followed by kRowLengths.
  explicit ExampleParser(const FeatureSpec& spec);

  // Strings [n], of n serialized examples, become a dict of values with n rows each:
  //   FixedLenFeature          "key": [n, shape...]
  //   FixedLenSequenceFeature  "key": [n, steps, shape...], steps of the longest example
  //   VarLenFeature            "key": [n, values], values of the longest example, filled up with 0
  //                            or ""; "key/row_lengths": int64[n], how many each has
  // A scalar string becomes the same without the axis of n. (Features of varying length are dense
  // tensors with their lengths, not one long list: every entry has a row per example, so slicing,
  // sharding and batches of zero rows work on them as on all others.)
  //
  // Throws InvalidArgument if the element is not strings of such a shape. Errors in an example name
  // its row: Corrupt if it is not a tf.Example; InvalidArgument for a missing feature (the error
  // lists the present ones), values of another kind, or another number of values than the shape
  // has.
  Element operator()(const Element& serialized) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace muster::inline v0_1::data
