// The coordinator's messages: what travels between CoordinatorChannel and CoordinatorHandler, in
// the words of plan. Values; no thread has to care.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/plan/phase.h"
#include "muster/plan/verdict.h"

namespace muster::inline v0_1::net {

// A task is here and wants to be in the group.
struct JoinRequest {
  plan::Caller who{};
  int rank = -1;
  int world_size = 0;
  std::vector<std::string> addresses = {};  // of the group in rank order, where the task knows them
  double wait_seconds = 0;                  // hold the call for at most so long
};

// A heartbeat: where the task is.
struct BeatRequest {
  plan::Caller who{};
  plan::Phase phase = plan::Phase::kJoining;
  int64_t step = -1;
};

// The variables a task has built.
struct ModelRequest {
  plan::Caller who{};
  std::vector<std::string> signature{};  // one line per variable
};

// A task has come to a barrier.
struct BarrierRequest {
  plan::Caller who{};
  std::string name{};
  int64_t generation = 0;
  double wait_seconds = 0;
};

// What a StoreRequest asks for.
enum class StoreOperation { kSet, kAdd, kErase, kCheck, kWait };

// One operation on the key-value store.
struct StoreRequest {
  plan::Caller who{};
  StoreOperation operation = StoreOperation::kSet;
  std::vector<std::string> keys{};
  std::string value{};  // bytes
  int64_t amount = 0;
  double wait_seconds = 0;  // of kWait
};

// A task ends the group: something of its own went wrong.
struct FailRequest {
  plan::Caller who{};
  ErrorKind kind = ErrorKind::kInternal;
  std::string reason{};
  // Of a task that has not joined: its place, as in a JoinRequest, so that tasks of another cluster
  // are not believed. A member leaves them empty.
  int rank = -1;
  int world_size = 0;
  std::vector<std::string> addresses{};
};

// A task has no more to do.
struct GoodbyeRequest {
  plan::Caller who{};
  bool leaving = false;  // false: done, but still there
};

// What every call answers; only the fields its answer needs are filled.
struct Reply {
  plan::Verdict verdict{.state = plan::Verdict::State::kReady};
  int64_t epoch = 0;
  bool all_done = false;
  std::vector<std::string> values{};  // of store requests
  int64_t number = 0;
};

}  // namespace muster::inline v0_1::net
