#include "muster/formats/example.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "muster/formats/wire.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::append_field;
using internal::append_varint;
using internal::WireReader;
using internal::WireTag;
using internal::WireType;

// Reads one message. It notes where damage is, and whether there were fields that it does not know.
class Decoder {
 public:
  explicit Decoder(Bytes bytes) : begin_(bytes.data()), bytes_(bytes) {}

  bool unknown() const { return unknown_; }

  Error error(std::string_view message) const {
    return corrupt(std::to_string(bytes_.size()) + " bytes are no " + std::string(message) +
                       ": damage at byte " + std::to_string(damaged_at_ - begin_),
                   "was the record written as something else?");
  }

  // An Example has its features in field 1; a SequenceExample has its context in field 1 and its
  // lists in field 2.
  bool features_in(FeatureMap* features, SequenceExample* lists) {
    return each(WireReader(bytes_), [&](WireReader& reader, WireTag tag) {
      WireReader body;
      if (tag.is(1, WireType::kBytes)) {
        return reader.message(&body) &&
               map(body, features_seen_, features,
                   [this](WireReader value, Feature* to) { return feature(value, to); });
      }
      if (lists != nullptr && tag.is(2, WireType::kBytes)) {
        return reader.message(&body) && map(body, lists_seen_, &lists->feature_lists,
                                            [this](WireReader value, std::vector<Feature>* to) {
                                              return feature_list(value, to);
                                            });
      }
      return pass_over(reader, tag);
    });
  }

 private:
  // Calls field(reader, tag) for every field; it reads the value.
  template <typename Field>
  bool each(WireReader reader, const Field& field) {
    WireTag tag;
    while (!reader.done()) {
      const std::byte* const at = reader.position();
      if (reader.tag(&tag) && field(reader, tag)) continue;
      if (damaged_at_ == nullptr) damaged_at_ = at;
      return false;
    }
    return true;
  }

  bool pass_over(WireReader& reader, WireTag tag) {
    unknown_ = true;
    return reader.skip(tag);
  }

  // The place of the value of a key; keys are views of the message. It is kept from one part of a
  // map to the next, because a message may have any number of parts.
  using Places = std::map<std::string_view, size_t>;

  // A map is in field 1; each entry has its key in field 1 and its value in field 2.
  template <typename Value, typename Decode>
  bool map(WireReader body, Places& places, std::vector<std::pair<std::string, Value>>* to,
           const Decode& decode) {
    reserve(body, to);
    return each(body, [&](WireReader& reader, WireTag tag) {
      if (!tag.is(1, WireType::kBytes)) return pass_over(reader, tag);
      WireReader entry;
      if (!reader.message(&entry)) return false;
      Bytes key;
      Value value;
      if (!each(entry, [&](WireReader& part, WireTag part_tag) {
            WireReader inner;
            if (part_tag.is(1, WireType::kBytes)) return part.bytes(&key);
            if (part_tag.is(2, WireType::kBytes)) {
              return part.message(&inner) && decode(inner, &value);
            }
            return pass_over(part, part_tag);
          })) {
        return false;
      }
      const auto [place, fresh] = places.emplace(text_of(key), to->size());
      if (fresh) {
        to->emplace_back(text_of(key), std::move(value));
      } else {
        (*to)[place->second].second = std::move(value);
      }
      return true;
    });
  }

  // Allocates memory for the number of fields in the list, rather than for twice as many. If lists
  // are joined, only for the first: the others grow as vectors do.
  template <typename Value>
  static void reserve(WireReader list, std::vector<Value>* to) {
    if (!to->empty()) return;
    size_t count = 0;
    for (WireTag tag; !list.done() && list.tag(&tag) && list.skip(tag);) ++count;
    to->reserve(count);
  }

  bool feature_list(WireReader body, std::vector<Feature>* to) {
    reserve(body, to);
    return each(body, [&](WireReader& reader, WireTag tag) {
      if (!tag.is(1, WireType::kBytes)) return pass_over(reader, tag);
      WireReader step;
      return reader.message(&step) && feature(step, &to->emplace_back());
    });
  }

  // A feature holds one of three lists. When there are several, the last kind counts, and lists of
  // one kind are joined.
  bool feature(WireReader body, Feature* to) {
    return each(body, [&](WireReader& reader, WireTag tag) {
      WireReader list;
      if (tag.type != WireType::kBytes || tag.field > 3) return pass_over(reader, tag);
      if (!reader.message(&list)) return false;
      switch (static_cast<FeatureKind>(tag.field)) {
        case FeatureKind::kBytes:
          return byte_strings(list, &as<std::vector<std::string>>(to));
        case FeatureKind::kFloat:
          return floats(list, &as<std::vector<float>>(to));
        default:
          return integers(list, &as<std::vector<int64_t>>(to));
      }
    });
  }

  template <typename List>
  static List& as(Feature* feature) {
    if (!std::holds_alternative<List>(*feature)) *feature = List();
    return std::get<List>(*feature);
  }

  bool byte_strings(WireReader list, std::vector<std::string>* to) {
    reserve(list, to);
    return each(list, [&](WireReader& reader, WireTag tag) {
      Bytes value;
      if (!tag.is(1, WireType::kBytes)) return pass_over(reader, tag);
      if (!reader.bytes(&value)) return false;
      to->emplace_back(text_of(value));
      return true;
    });
  }

  bool floats(WireReader list, std::vector<float>* to) {
    return each(list, [&](WireReader& reader, WireTag tag) {
      Bytes packed;
      if (tag.is(1, WireType::kFixed32)) return reader.fixed(&to->emplace_back());
      if (!tag.is(1, WireType::kBytes)) return pass_over(reader, tag);
      if (!reader.bytes(&packed) || packed.size() % sizeof(float) != 0) return false;
      if (packed.empty()) return true;
      const size_t held = to->size();
      to->resize(held + packed.size() / sizeof(float));
      std::memcpy(to->data() + held, packed.data(), packed.size());
      return true;
    });
  }

  bool integers(WireReader list, std::vector<int64_t>* to) {
    const auto one = [&](WireReader& reader) {
      uint64_t value;
      if (!reader.varint(&value)) return false;
      to->push_back(static_cast<int64_t>(value));
      return true;
    };
    return each(list, [&](WireReader& reader, WireTag tag) {
      WireReader packed;
      if (tag.is(1, WireType::kVarint)) return one(reader);
      if (!tag.is(1, WireType::kBytes)) return pass_over(reader, tag);
      if (!reader.message(&packed)) return false;
      if (to->empty()) {
        // Every number ends with its only byte that is below 128.
        to->reserve(static_cast<size_t>(std::ranges::count_if(
            packed.rest(), [](std::byte byte) { return byte < std::byte{0x80}; })));
      }
      while (!packed.done()) {
        if (!one(packed)) return false;
      }
      return true;
    });
  }

  const std::byte* begin_;
  Bytes bytes_;
  Places features_seen_, lists_seen_;
  const std::byte* damaged_at_ = nullptr;
  bool unknown_ = false;
};

std::string encode_feature(const Feature& feature) {
  std::string list;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&feature)) {
    for (const std::string& text : *texts) append_field(list, 1, text);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&feature)) {
    if (!floats->empty()) {
      append_field(list, 1,
                   {reinterpret_cast<const char*>(floats->data()), floats->size() * sizeof(float)});
    }
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&feature)) {
    std::string packed;
    for (const int64_t value : *integers) append_varint(packed, static_cast<uint64_t>(value));
    if (!packed.empty()) append_field(list, 1, packed);
  } else {
    return {};
  }
  std::string bytes;
  append_field(bytes, static_cast<uint32_t>(feature.index()), list);
  return bytes;
}

std::string encode_feature_list(const std::vector<Feature>& steps) {
  std::string bytes;
  for (const Feature& step : steps) append_field(bytes, 1, encode_feature(step));
  return bytes;
}

template <typename Entries, typename Encode>
std::string encode_map(const Entries& entries, const Encode& encode) {
  std::string bytes;
  for (const auto& [key, value] : entries) {
    std::string entry;
    append_field(entry, 1, key);
    append_field(entry, 2, encode(value));
    append_field(bytes, 1, entry);
  }
  return bytes;
}

}  // namespace

size_t size_of(const Feature& feature) {
  return std::visit(
      [](const auto& list) -> size_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(list)>, std::monostate>) {
          return 0;
        } else {
          return list.size();
        }
      },
      feature);
}

Result<Example> decode_example(Bytes bytes) {
  Decoder decoder(bytes);
  Example example;
  if (!decoder.features_in(&example.features, nullptr)) return decoder.error("tf.Example");
  return example;
}

Result<SequenceExample> decode_sequence_example(Bytes bytes) {
  Decoder decoder(bytes);
  SequenceExample example;
  if (!decoder.features_in(&example.context, &example)) {
    return decoder.error("tf.SequenceExample");
  }
  return example;
}

MessageKind decode_message(Bytes bytes, SequenceExample* content) {
  *content = {};
  Decoder decoder(bytes);
  if (!decoder.features_in(&content->context, content) || decoder.unknown()) {
    return MessageKind::kOther;
  }
  return content->feature_lists.empty() ? MessageKind::kExample : MessageKind::kSequenceExample;
}

std::string encode_example(const Example& example) {
  std::string bytes;
  append_field(bytes, 1, encode_map(example.features, encode_feature));
  return bytes;
}

std::string encode_sequence_example(const SequenceExample& example) {
  std::string bytes;
  if (!example.context.empty()) append_field(bytes, 1, encode_map(example.context, encode_feature));
  if (!example.feature_lists.empty()) {
    append_field(bytes, 2, encode_map(example.feature_lists, encode_feature_list));
  }
  return bytes;
}

}  // namespace muster::inline v0_1::formats
