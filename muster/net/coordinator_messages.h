// The coordinator's messages: the data between CoordinatorChannel and CoordinatorHandler, in the
// terms of plan. A change that adds, removes or moves a field raises kProtocolVersion. Values:
// thread safety does not matter.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/net/message_fields.h"
#include "muster/plan/phase.h"
#include "muster/plan/verdict.h"

namespace muster::inline v0_1::net {

template <>
inline constexpr plan::Verdict::State kLastOf<plan::Verdict::State> =
    plan::Verdict::State::kRefused;

// A task is here and wants to be in the group.
struct JoinRequest {
  plan::Caller who{};
  int rank = -1;
  int world_size = 0;
  std::vector<std::string> addresses = {};  // of the group in rank order, if the task knows them
  double wait_seconds = 0;                  // hold the call for at most this long
  static auto fields(auto& m) {
    return std::tie(m.who, m.rank, m.world_size, m.addresses, m.wait_seconds);
  }
};

// A heartbeat: where the task is.
struct BeatRequest {
  plan::Caller who{};
  plan::Phase phase = plan::Phase::kJoining;
  int64_t step = -1;
  static auto fields(auto& m) { return std::tie(m.who, m.phase, m.step); }
};

// The variables a task has built.
struct ModelRequest {
  plan::Caller who{};
  std::vector<std::string> signature{};  // one line per variable
  static auto fields(auto& m) { return std::tie(m.who, m.signature); }
};

// A task has reached a barrier.
struct BarrierRequest {
  plan::Caller who{};
  std::string name{};
  int64_t generation = 0;
  double wait_seconds = 0;
  static auto fields(auto& m) { return std::tie(m.who, m.name, m.generation, m.wait_seconds); }
};

// The operation of a StoreRequest.
enum class StoreOperation { kSet, kAdd, kErase, kCheck, kWait };
template <>
inline constexpr StoreOperation kLastOf<StoreOperation> = StoreOperation::kWait;

// One operation on the key-value store.
struct StoreRequest {
  plan::Caller who{};
  StoreOperation operation = StoreOperation::kSet;
  std::vector<std::string> keys{};
  std::string value{};  // bytes
  int64_t amount = 0;
  double wait_seconds = 0;  // of kWait
  static auto fields(auto& m) {
    return std::tie(m.who, m.operation, m.keys, m.value, m.amount, m.wait_seconds);
  }
};

// A task ends the group: something of its own went wrong.
struct FailRequest {
  plan::Caller who{};
  ErrorKind kind = ErrorKind::kInternal;
  std::string reason{};
  // For a task that has not joined: its place, as in a JoinRequest, so that tasks of another
  // cluster are refused. A member leaves them empty.
  int rank = -1;
  int world_size = 0;
  std::vector<std::string> addresses{};
  static auto fields(auto& m) {
    return std::tie(m.who, m.kind, m.reason, m.rank, m.world_size, m.addresses);
  }
};

// A task has no more to do.
struct GoodbyeRequest {
  plan::Caller who{};
  bool leaving = false;  // false: done, but still there
  static auto fields(auto& m) { return std::tie(m.who, m.leaving); }
};

// A task asks for the group's failures and epochs, in any number of replies.
struct WatchRequest {
  plan::Caller who{};
  static auto fields(auto& m) { return std::tie(m.who); }
};

// A request of a task to the coordinator.
using CoordinatorRequest = std::variant<JoinRequest, WatchRequest, BeatRequest, ModelRequest,
                                        BarrierRequest, StoreRequest, FailRequest, GoodbyeRequest>;

// The answer to every call; only the fields its answer needs are filled.
struct Reply {
  plan::Verdict verdict{.state = plan::Verdict::State::kReady};
  int64_t epoch = 0;
  bool all_done = false;
  std::vector<std::string> values{};  // of store requests
  int64_t number = 0;
  static auto fields(auto& m) {
    return std::tie(m.verdict, m.epoch, m.all_done, m.values, m.number);
  }
};

}  // namespace muster::inline v0_1::net
