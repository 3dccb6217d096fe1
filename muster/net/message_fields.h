// Messages as bytes: the fields of a struct one after another, as its list of fields names them.
// Numbers are little-endian, texts and lists begin with their length, an optional value with
// whether it is there. Both ends run the same version of the protocol (kProtocolVersion), so
// nothing else stands between the fields. Pure functions; thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/error.h"

namespace muster::inline v0_1::net {

// Specialise it for each message, with a std::tuple of pointers to its members, in their order.
template <typename Message>
inline constexpr std::nullptr_t kFieldsOf = nullptr;

// Specialise it for each enumeration that travels, with its last enumerator.
template <typename Enumeration>
inline constexpr std::nullptr_t kLastOf = nullptr;

template <typename Message>
concept HasFields = !std::is_null_pointer_v<std::remove_const_t<decltype(kFieldsOf<Message>)>>;

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
  template <HasFields Message>
  void put(const Message& message) {
    std::apply([&](auto... field) { (put(message.*field), ...); }, kFieldsOf<Message>);
  }

 private:
  void put_size(size_t size) { put(static_cast<uint32_t>(size)); }
};

template <>
inline constexpr ErrorKind kLastOf<ErrorKind> = ErrorKind::kInternal;

// Takes fields from the beginning of a text. All throw Corrupt where it holds something else.
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
  template <typename Value>
  void take(std::optional<Value>& value) {
    bool is_there = false;
    take(is_there);
    value.reset();
    if (!is_there) return;
    if constexpr (std::same_as<Value, Error>) {
      ErrorKind kind{};
      std::string message, hint;
      take(kind);
      take(message);
      take(hint);
      value.emplace(kind, std::move(message), std::move(hint));
    } else {
      take(value.emplace());
    }
  }
  template <typename Value>
  void take(std::vector<Value>& values) {
    values.clear();
    // The text holds at least a byte of each, so it ends before memory does.
    for (uint32_t left = take_size(); left > 0; --left) take(values.emplace_back());
  }
  template <HasFields Message>
  void take(Message& message) {
    std::apply([&](auto... field) { (take(message.*field), ...); }, kFieldsOf<Message>);
  }

  // Throws Corrupt where something is left.
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

template <HasFields Message>
std::string encode(const Message& message) {
  FieldWriter writer;
  writer.put(message);
  return std::move(writer.text);
}

// Throws Corrupt for a text that encode() does not write.
template <HasFields Message>
Message decode(std::string_view text) {
  Message message;
  FieldReader reader(text);
  reader.take(message);
  reader.finish();
  return message;
}

}  // namespace muster::inline v0_1::net
