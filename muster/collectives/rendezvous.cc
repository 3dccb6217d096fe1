#include "muster/collectives/rendezvous.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {

void MemoryStore::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::string MemoryStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); })) {
    throw Error(ErrorKind::kTimeout,
                fmt::format("key '{}' was not set within {} ms", key, timeout.count()));
  }
  return values_.at(key);
}

int64_t MemoryStore::add(const std::string& key, int64_t amount) {
  const std::lock_guard lock(mutex_);
  std::string& text = values_.try_emplace(key, "0").first->second;
  const auto value = parse_int(text);
  if (!value) {
    throw invalid_argument(fmt::format("key '{}' holds '{}', which is not a counter", key, text));
  }
  text = std::to_string(*value + amount);
  changed_.notify_all();
  return *value + amount;
}

bool MemoryStore::check(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return values_.contains(key);
}

bool MemoryStore::erase(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return values_.erase(key) > 0;
}

}  // namespace muster::inline v0_1
