// Where the members of a group leave each other the few bytes they need to meet: a key-value store
// all can reach. Thread safety: every method of every store may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace muster::inline v0_1 {

// Texts by key, seen by all members of a group.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  // Replaces an existing value.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until the key exists; throws Timeout naming the key if it does not within `timeout`.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  // Adds to a decimal counter (absent counts as 0) in one step and returns the new value. Throws
  // InvalidArgument when the key holds something else.
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
  // Whether the key exists now.
  virtual bool check(const std::string& key) = 0;
  // True when there was something to erase.
  virtual bool erase(const std::string& key) = 0;
};

// For ranks that are threads of one process.
class MemoryStore : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;
  bool check(const std::string& key) override;
  bool erase(const std::string& key) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace muster::inline v0_1
