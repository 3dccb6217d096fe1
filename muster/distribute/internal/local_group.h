// Where replicas that are threads of one process meet outside of collectives: texts, barriers, and
// which of them failed first. Thread safety: all calls from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {

class LocalGroup {
 public:
  explicit LocalGroup(int size) : texts_(static_cast<size_t>(size)) {}

  // Returns everybody's text by replica, when all have come. Waits as long as the others are
  // running: they are threads of this process, which end with fail() or leave(). Throws what the
  // first to fail failed with; InvalidArgument when replicas come for different things.
  std::vector<std::string> exchange(int replica, const std::string& what, std::string text);

  // The replica cannot go on; only the first failure counts, and ends the wait of the others.
  void fail(int replica, const Error& error);
  // The replica will not come again.
  void leave(int replica);
  // "replica 1: the loss is nan", of the kind the failure has, for the other replicas to throw.
  std::optional<Error> failure() const;
  // Called by fail(), once, without any lock held.
  void on_failure(std::function<void(const Error& error)> callback);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;  // of the meeting under way
  std::string what_;                // they meet for
  int first_ = -1;                  // who came first
  size_t arrived_ = 0;
  uint64_t meeting_ = 0;             // completed
  std::vector<std::string> result_;  // of the last one
  std::optional<Error> failure_;
  std::vector<std::function<void(const Error&)>> callbacks_;
};

}  // namespace muster::inline v0_1::distribute
