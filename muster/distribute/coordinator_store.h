// The coordinator's keys as the place where the ranks of a communicator meet.
// Thread safety: as CoordinatorClient. The client outlives the store.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "muster/collectives/rendezvous.h"
#include "muster/control/coordinator_client.h"

namespace muster::inline v0_1::distribute {

class CoordinatorStore : public KeyValueStore {
 public:
  // Every key begins with `prefix`.
  CoordinatorStore(control::CoordinatorClient& client, std::string prefix)
      : client_(client), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value) override {
    client_.set(prefix_ + key, value);
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    return client_.get(prefix_ + key, std::chrono::duration<double>(timeout).count());
  }
  int64_t add(const std::string& key, int64_t amount) override {
    return client_.add(prefix_ + key, amount);
  }
  bool check(const std::string& key) override { return client_.check({prefix_ + key}); }
  bool erase(const std::string& key) override { return client_.erase(prefix_ + key); }

 private:
  control::CoordinatorClient& client_;
  std::string prefix_;
};

}  // namespace muster::inline v0_1::distribute
