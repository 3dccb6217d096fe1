// Keys and values that the tasks of a group share; values are bytes. Thread safety: none, the owner
// locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::inline v0_1::plan {

class KeyValueStore {
 public:
  // The most keys that a group may keep at once. A run needs a few keys for each task.
  static constexpr size_t kMostKeys = 100'000;
  static constexpr size_t kMostBytes = size_t{256} << 20;

  // Replaces an existing value. Throws Unavailable if the store would hold more than allowed.
  void set(const std::string& key, std::string value);
  // Nothing if the key does not exist.
  std::optional<std::string> get(const std::string& key) const;
  // A missing key counts as 0; the sum is stored as decimal text. Throws InvalidArgument when the
  // value is not a number, or the sum leaves 64 bits.
  int64_t add(const std::string& key, int64_t amount);
  // True when there was something to erase.
  bool erase(const std::string& key);
  bool has_all(const std::vector<std::string>& keys) const;
  // Forgets all keys.
  void clear() {
    values_.clear();
    bytes_ = 0;
  }

 private:
  std::map<std::string, std::string> values_;
  size_t bytes_ = 0;  // of keys and values
};

}  // namespace muster::inline v0_1::plan
