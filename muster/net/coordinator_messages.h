// The coordinator's messages: what travels between CoordinatorChannel and CoordinatorHandler, in
// the words of plan. A change that adds, removes or moves a field raises kProtocolVersion. Values;
// no thread has to care.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/process_identity.h"
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
  std::vector<std::string> addresses = {};  // of the group in rank order, where the task knows them
  double wait_seconds = 0;                  // hold the call for at most so long
  ProcessIdentity process = {};             // of the task
  static auto fields(auto& m) {
    return std::tie(m.who, m.rank, m.world_size, m.addresses, m.wait_seconds, m.process.space,
                    m.process.process);
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

// A task has come to a barrier.
struct BarrierRequest {
  plan::Caller who{};
  std::string name{};
  int64_t generation = 0;
  double wait_seconds = 0;
  static auto fields(auto& m) { return std::tie(m.who, m.name, m.generation, m.wait_seconds); }
};

// What a StoreRequest asks for.
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
  // Nothing of its own: it lost its connection to another member.
  bool lost_connection = false;
  // For a task that has not joined: its place, as in a JoinRequest, so that tasks of another
  // cluster are not believed. A member leaves them empty.
  int rank = -1;
  int world_size = 0;
  std::vector<std::string> addresses{};
  static auto fields(auto& m) {
    return std::tie(m.who, m.kind, m.reason, m.lost_connection, m.rank, m.world_size, m.addresses);
  }
};

// A task has no more to do.
struct GoodbyeRequest {
  plan::Caller who{};
  bool leaving = false;   // false: done, but still there
  bool for_good = false;  // of one that leaves: it will not join again
  static auto fields(auto& m) { return std::tie(m.who, m.leaving, m.for_good); }
};

// A task wants to hear of the group's failures and epochs, in any number of replies.
struct WatchRequest {
  plan::Caller who{};
  ProcessIdentity process = {};  // of the task
  static auto fields(auto& m) { return std::tie(m.who, m.process.space, m.process.process); }
};

// What a task asks of the coordinator.
using CoordinatorRequest = std::variant<JoinRequest, WatchRequest, BeatRequest, ModelRequest,
                                        BarrierRequest, StoreRequest, FailRequest, GoodbyeRequest>;

// What every call answers; only the fields its answer needs are filled.
struct Reply {
  plan::Verdict verdict{.state = plan::Verdict::State::kReady};
  int64_t epoch = 0;
  bool all_done = false;
  std::vector<std::string> values{};  // of store requests
  int64_t number = 0;
  ProcessIdentity process{};  // of the coordinator, in the answer to a join
  static auto fields(auto& m) {
    return std::tie(m.verdict, m.epoch, m.all_done, m.values, m.number, m.process.space,
                    m.process.process);
  }
};

}  // namespace muster::inline v0_1::net
