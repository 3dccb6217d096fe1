// Turns serialized tf.Examples into tensors, whole batches at a time, as tf.io.parse_example does.
// It is quickest behind batch():
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

// The dtype of strings, for which LibTorch has none: FixedLenFeature{{}, kString}.
struct StringDType {
  bool operator==(const StringDType&) const = default;
};
inline constexpr StringDType kString;
// The dtype of a feature: kFloat32, kInt64 or kString, as tf.Examples hold them. For others call
// Tensor::to() in a map().
using FeatureDType = std::variant<DType, StringDType>;

// A feature that has the same number of values in every example.
struct FixedLenFeature {
  Shape shape{};  // of one example's values; {}: a scalar
  FeatureDType dtype = kFloat32;
  // The values of examples that lack the feature, of the feature's shape, or one value for all of
  // it. Without a default a missing feature is an error.
  std::optional<Value> default_value{};
};

// A feature with any number of values; none where it is missing.
struct VarLenFeature {
  FeatureDType dtype = kFloat32;
};

// A feature with any number of steps of one shape.
struct FixedLenSequenceFeature {
  Shape shape{};  // of a step; not of size 0
  FeatureDType dtype = kFloat32;
  // Whether an example without the feature has no steps; otherwise it is an error.
  bool allow_missing = false;
  // The value that fills up the shorter examples of a batch; 0 or "" when it is unset.
  std::optional<Value> padding_value{};
};

// The features to read, by key.
using FeatureSpec =
    std::map<std::string, std::variant<FixedLenFeature, VarLenFeature, FixedLenSequenceFeature>>;

// Added to the key of a VarLenFeature, this is the key of its numbers of values.
inline constexpr const char* kRowLengths = "/row_lengths";

// Parses examples by a specification. Thread safety: a value; calls may come from several threads
// at once.
class MUSTER_EXPORT ExampleParser {
 public:
  // Throws InvalidArgument, naming the key, for a dtype tf.Examples do not have, a negative size, a
  // default of another dtype or shape, and a key that is another's with kRowLengths behind it.
  explicit ExampleParser(const FeatureSpec& spec);

  // Strings [n], of n serialized examples, give a dict of values with n rows each:
  //   FixedLenFeature          "key": [n, shape...]
  //   FixedLenSequenceFeature  "key": [n, steps, shape...], steps of the longest example
  //   VarLenFeature            "key": [n, values], values of the longest example, filled up with 0
  //                            or ""; "key/row_lengths": int64[n], how many each has
  // A scalar string gives the same without the axis of n. (Values that change in number are dense
  // with their lengths, rather than one long list: so every entry has a row per example, and
  // slicing, sharding and batches of zero rows work on them as on all others.)
  //
  // Throws InvalidArgument when the element is no strings of such a shape. Names the row for what
  // is wrong with an example: Corrupt when it is no tf.Example; InvalidArgument for a missing
  // feature (listing those there are), another kind of values, and another number of them than the
  // shape has.
  Element operator()(const Element& serialized) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace muster::inline v0_1::data
