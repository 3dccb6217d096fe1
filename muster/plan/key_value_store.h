// Keys and values that the tasks of a group share; values are bytes. Thread safety: none, the owner
// locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::inline v0_1::plan {

class KeyValueStore {
 public:
  // Replaces what was there.
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  // Nothing when the key is not there.
  std::optional<std::string> get(const std::string& key) const;
  // A missing key counts as 0; the sum is stored as decimal text. Throws InvalidArgument when the
  // value is no number.
  int64_t add(const std::string& key, int64_t amount);
  // True when there was something to erase.
  bool erase(const std::string& key) { return values_.erase(key) > 0; }
  bool has_all(const std::vector<std::string>& keys) const;
  // Forgets all keys.
  void clear() { values_.clear(); }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace muster::inline v0_1::plan
