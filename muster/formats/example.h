// tf.Example and tf.SequenceExample, the usual messages in TFRecord files: named features, each a
// list of byte strings, float32 or int64. Here they are values, in the order of the message, for
// printing and writing; example_parser.h parses batches directly, without this step.
// Thread safety: values and free functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// The kinds of values of a feature, with the numbers of the format.
enum class FeatureKind { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

// Returns "none", "bytes", "float" or "int64".
constexpr std::string_view to_string(FeatureKind kind) {
  constexpr std::string_view kNames[] = {"none", "bytes", "float", "int64"};
  return kNames[static_cast<int>(kind)];
}

// The values of one feature; nothing if the message names the feature without a kind.
using Feature = std::variant<std::monostate, std::vector<std::string>, std::vector<float>,
                             std::vector<int64_t>>;

// The kind of the values.
inline FeatureKind kind_of(const Feature& feature) {
  return static_cast<FeatureKind>(feature.index());
}
// The number of values.
MUSTER_EXPORT size_t size_of(const Feature& feature);

// Features by name, in the order of the message.
using FeatureMap = std::vector<std::pair<std::string, Feature>>;

struct Example {
  FeatureMap features{};
};

// Lists of features by name, one feature per step; and a context for all steps.
struct SequenceExample {
  FeatureMap context{};
  std::vector<std::pair<std::string, std::vector<Feature>>> feature_lists{};
};

// Parses the message. If a name occurs twice, the later value counts, at the position of the first.
// Unknown fields are skipped. Returns Corrupt, with the byte offset, if the bytes are not such a
// message.
MUSTER_EXPORT Result<Example> decode_example(Bytes bytes);
// Parses a SequenceExample in the same way.
MUSTER_EXPORT Result<SequenceExample> decode_sequence_example(Bytes bytes);

// The most likely kind of a message; its first field does not distinguish the kinds.
enum class MessageKind { kExample, kSequenceExample, kOther };
// Parses a message of either kind into `content`; the features of an Example become the context.
// Returns kOther when it is neither, or has an unknown field; `content` is then undefined.
MUSTER_EXPORT MessageKind decode_message(Bytes bytes, SequenceExample* content);

// Returns the bytes of the message, without framing. Lists of numbers are packed; the order is
// kept.
MUSTER_EXPORT std::string encode_example(const Example& example);
MUSTER_EXPORT std::string encode_sequence_example(const SequenceExample& example);

}  // namespace muster::inline v0_1::formats
