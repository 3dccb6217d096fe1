#include "muster/plan/key_value_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {

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
      throw invalid_argument(fmt::format(
          "key \"{}\" holds {} bytes that are no number; cannot add {}", key, text.size(), amount));
    }
  }
  value += amount;
  values_[key] = std::to_string(value);
  return value;
}

bool KeyValueStore::has_all(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return values_.contains(key); });
}

}  // namespace muster::inline v0_1::plan
