#include "muster/plan/key_value_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {

void KeyValueStore::set(const std::string& key, std::string value) {
  const auto old = values_.find(key);
  const size_t before = old == values_.end() ? 0 : key.size() + old->second.size();
  const size_t bytes = bytes_ - before + key.size() + value.size();
  if (bytes > kMostBytes || (old == values_.end() && values_.size() >= kMostKeys)) {
    throw Error(ErrorKind::kUnavailable,
                fmt::format("the keys that the tasks share would be {} of {} bytes; {} of {} bytes "
                            "are allowed",
                            values_.size() + 1, bytes, kMostKeys, kMostBytes));
  }
  bytes_ = bytes;
  values_[key] = std::move(value);
}

bool KeyValueStore::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= key.size() + found->second.size();
  values_.erase(found);
  return true;
}

std::optional<std::string> KeyValueStore::get(const std::string& key) const {
  auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

int64_t KeyValueStore::add(const std::string& key, int64_t amount) {
  int64_t value = 0;
  if (auto it = values_.find(key); it != values_.end()) {
    const std::string& text = it->second;
    auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size()) {
      throw invalid_argument(
          fmt::format("key \"{}\" holds {} bytes that are not numbers; cannot add {}", key,
                      text.size(), amount));
    }
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(value, amount, &sum)) {
    throw invalid_argument(fmt::format("key \"{}\" holds {}; adding {} leaves the range of 64 bits",
                                       key, value, amount));
  }
  set(key, std::to_string(sum));
  return sum;
}

bool KeyValueStore::has_all(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return values_.contains(key); });
}

}  // namespace muster::inline v0_1::plan
