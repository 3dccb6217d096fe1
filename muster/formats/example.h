// tf.Example and tf.SequenceExample, the messages that TFRecord files usually hold: named features,
// each a list of byte strings, float32 or int64. Here they are values, in the order of the wire, to
// print and to write; example_parser.h fills batches from them without that step.
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

// What the values of a feature are; the numbers are those of the format.
enum class FeatureKind { kNone = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

// Returns "none", "bytes", "float" or "int64".
constexpr std::string_view to_string(FeatureKind kind) {
  constexpr std::string_view kNames[] = {"none", "bytes", "float", "int64"};
  return kNames[static_cast<int>(kind)];
}

// The values of one feature; nothing when the message names the feature without giving it a kind.
using Feature = std::variant<std::monostate, std::vector<std::string>, std::vector<float>,
                             std::vector<int64_t>>;

// The kind of the values.
inline FeatureKind kind_of(const Feature& feature) {
  return static_cast<FeatureKind>(feature.index());
}
// The number of values.
MUSTER_EXPORT size_t size_of(const Feature& feature);

// Features by name, in the order of the wire.
using FeatureMap = std::vector<std::pair<std::string, Feature>>;

struct Example {
  FeatureMap features{};
};

// Lists of features by name, one feature per step; and a context that holds for all steps.
struct SequenceExample {
  FeatureMap context{};
  std::vector<std::pair<std::string, std::vector<Feature>>> feature_lists{};
};

// Reads the message. When a name occurs twice, the later value counts, at the place of the first.
// Fields that the format does not know are skipped. Returns Corrupt, with the byte, when the bytes
// are no such message.
MUSTER_EXPORT Result<Example> decode_example(Bytes bytes);
// Reads a SequenceExample in the same way.
MUSTER_EXPORT Result<SequenceExample> decode_sequence_example(Bytes bytes);

// The kind a message most likely has; the first field does not tell the two kinds apart.
enum class MessageKind { kExample, kSequenceExample, kOther };
// Reads a message of either kind into `content`; the features of an Example become the context.
// Returns kOther when it is neither, or holds a field that the format does not know; `content` is
// undefined then.
MUSTER_EXPORT MessageKind decode_message(Bytes bytes, SequenceExample* content);

// Returns the bytes of the message, without framing. Lists of numbers are packed; the order is
// kept.
MUSTER_EXPORT std::string encode_example(const Example& example);
MUSTER_EXPORT std::string encode_sequence_example(const SequenceExample& example);

}  // namespace muster::inline v0_1::formats
