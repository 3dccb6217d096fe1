// Messages as bytes: the fields of a struct one after another. A message names its fields once,
// next to their declarations:
//   struct Beat {
//     int64_t step = -1;
//     plan::Phase phase{};
//     static auto fields(auto& m) { return std::tie(m.step, m.phase); }
//   };
// Numbers are little-endian, texts and lists begin with their length, an optional value with a flag
// whether it is there, a variant with the number of its alternative. Both ends run the same version
// of the protocol (kProtocolVersion), so nothing else is between the fields. Pure functions;
// thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/plan/phase.h"

namespace muster::inline v0_1::net {

// Specialise it for each enumeration that travels, with its last enumerator.
template <typename Enumeration>
inline constexpr std::nullptr_t kLastOf = nullptr;

template <typename Message>
concept HasFields = requires(Message& message) {
  Message::fields(message);
};

// Appends fields to a text.
class FieldWriter {
 public:
  std::string text{};

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void put(Number value) { append_little_endian(text, value); }
  template <typename Enumeration>
  requires std::is_enum_v<Enumeration>
  void put(Enumeration value) { put(static_cast<uint8_t>(value)); }
  void put(const std::string& value) {
    put_size(value.size());
    text += value;
  }
  void put(const Error& value) {
    put(value.kind());
    put(value.message());
    put(value.hint());
  }
  template <typename Value>
  void put(const std::optional<Value>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename Value>
  void put(const std::vector<Value>& values) {
    put_size(values.size());
    for (const Value& value : values) put(value);
  }
  template <typename Value>
  void put(const std::map<std::string, Value>& values) {
    put_size(values.size());
    for (const auto& [key, value] : values) {
      put(key);
      put(value);
    }
  }
  template <typename... Choices>
  void put(const std::variant<Choices...>& value) {
    put(static_cast<uint8_t>(value.index()));
    std::visit([this](const auto& held) { this->put(held); }, value);
  }
  template <HasFields Message>
  void put(const Message& message) {
    std::apply([this](const auto&... field) { (this->put(field), ...); }, Message::fields(message));
  }
  // A message without fields.
  template <typename Message>
  requires std::is_empty_v<Message>
  void put(const Message&) {}

 private:
  void put_size(size_t size) { put(static_cast<uint32_t>(size)); }
};

template <>
inline constexpr ErrorKind kLastOf<ErrorKind> = ErrorKind::kInternal;
template <>
inline constexpr plan::Phase kLastOf<plan::Phase> = plan::Phase::kDone;

// Takes fields from the beginning of a text. All throw Corrupt if it holds something else.
class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : rest_(text) {}

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void take(Number& value) {
    const std::string_view bytes = take_bytes(sizeof(Number));
    if constexpr (std::same_as<Number, bool>) {
      if (bytes[0] != 0 && bytes[0] != 1) throw corrupt("a message has a truth value that is none");
      value = bytes[0] == 1;
    } else {
      value = load_little_endian<Number>(bytes.data());
    }
  }
  template <typename Enumeration>
  requires std::is_enum_v<Enumeration>
  void take(Enumeration& value) {
    uint8_t number = 0;
    take(number);
    if (number > static_cast<uint8_t>(kLastOf<Enumeration>))
      throw corrupt("a message has a number that names nothing");
    value = static_cast<Enumeration>(number);
  }
  void take(std::string& value) { value = take_bytes(take_size()); }
  void take(Error& value) {
    ErrorKind kind{};
    std::string message, hint;
    take(kind);
    take(message);
    take(hint);
    value = Error(kind, std::move(message), std::move(hint));
  }
  template <typename Value>
  void take(std::optional<Value>& value) {
    bool is_there = false;
    take(is_there);
    value.reset();
    if (!is_there) return;
    if constexpr (std::same_as<Value, Error>) {
      take(value.emplace(ErrorKind::kInternal, ""));
    } else {
      take(value.emplace());
    }
  }
  template <typename Value>
  void take(std::vector<Value>& values) {
    values.clear();
    // The text holds at least a byte of each, so it ends before memory does.
    for (uint32_t left = take_size(); left > 0; --left) {
      Value value{};
      take(value);
      values.push_back(std::move(value));
    }
  }
  template <typename Value>
  void take(std::map<std::string, Value>& values) {
    values.clear();
    for (uint32_t left = take_size(); left > 0; --left) {
      std::string key;
      take(key);
      if (!values.empty() && key <= values.rbegin()->first)
        throw corrupt("a message has names that are not in order");
      take(values[std::move(key)]);
    }
  }
  template <typename... Choices>
  void take(std::variant<Choices...>& value) {
    uint8_t number = 0;
    take(number);
    if (number >= sizeof...(Choices)) throw corrupt("a message has a number that names nothing");
    uint8_t choice = 0;
    ((choice++ == number ? take(value.template emplace<Choices>()) : void()), ...);
  }
  template <HasFields Message>
  void take(Message& message) {
    std::apply([this](auto&... field) { (this->take(field), ...); }, Message::fields(message));
  }
  template <typename Message>
  requires std::is_empty_v<Message>
  void take(Message&) {}

  // Throws Corrupt if something is left.
  void finish() const {
    if (!rest_.empty()) throw corrupt("a message is longer than what it says");
  }

 private:
  std::string_view take_bytes(size_t bytes) {
    if (bytes > rest_.size()) throw corrupt("a message ends too early");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  uint32_t take_size() {
    uint32_t size = 0;
    take(size);
    return size;
  }

  std::string_view rest_;
};

template <typename Message>
std::string encode(const Message& message) {
  FieldWriter writer;
  writer.put(message);
  return std::move(writer.text);
}

// Throws Corrupt for a text that encode() does not write.
template <typename Message>
Message decode(std::string_view text) {
  Message message{};
  FieldReader reader(text);
  reader.take(message);
  reader.finish();
  return message;
}

// An answer: an error, or a flag that there is none and the fields of a message.
inline std::string encode_error(const Error& error) { return encode(std::optional(error)); }
template <typename Message>
std::string encode_answer(const Message& message) {
  return encode(std::optional<Error>()) + encode(message);
}
// The error in an answer; nothing if it has a message.
inline std::optional<Error> error_in(std::string_view answer) {
  std::optional<Error> error;
  FieldReader reader(answer);
  reader.take(error);
  if (error) reader.finish();
  return error;
}
// REQUIRES: error_in() gives nothing.
template <typename Message>
Message decode_answer(std::string_view answer) {
  return decode<Message>(answer.substr(1));
}

}  // namespace muster::inline v0_1::net
