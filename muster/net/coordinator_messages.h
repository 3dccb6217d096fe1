// The coordinator's messages as plain structs: what travels between CoordinatorChannel and
// CoordinatorHandler. Values; no thread has to care. Phases and error kinds travel as integers:
// this floor does not know their meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::inline v0_1::net {

// Who speaks: a task, and which of its lives.
struct MemberId {
  std::string task;  // "worker:1"
  uint64_t incarnation = 0;
};

// A task is here and wants to be in the group.
struct JoinRequest {
  MemberId who;
  int rank = -1;
  int world_size = 0;
  double wait_seconds = 0;  // hold the call for at most so long
};

// A heartbeat: where the task is.
struct BeatRequest {
  MemberId who;
  int phase = 0;
  int64_t step = -1;
};

// The variables a task has built.
struct ModelRequest {
  MemberId who;
  std::vector<std::string> signature;  // one line per variable
};

// A task has come to a barrier.
struct BarrierRequest {
  MemberId who;
  std::string name;
  int64_t generation = 0;
  int count = 0;  // 0: the whole group
  double wait_seconds = 0;
};

// What a StoreRequest asks for.
enum class StoreOperation { kSet, kAdd, kCompareSet, kErase, kCheck, kNumKeys, kWait };

// One operation on the key-value store.
struct StoreRequest {
  MemberId who;
  StoreOperation operation = StoreOperation::kSet;
  std::vector<std::string> keys;
  std::string value;  // bytes
  std::string expected;
  int64_t amount = 0;
  double wait_seconds = 0;  // of kWait
};

// A task ends the group: something of its own went wrong.
struct FailRequest {
  MemberId who;
  int kind = 0;
  std::string reason;
};

// A task has no more to do.
struct GoodbyeRequest {
  MemberId who;
  bool leaving = false;  // false: done, but still there
};

// Who ended the group, and why.
struct FailureNote {
  std::string task;
  int rank = -1;
  int kind = 0;
  std::string reason;
  int64_t step = -1;
  int phase = 0;
};

// Whom a call waits for, for how long.
struct MissingNote {
  std::string task;
  std::string address;
  double seconds = 0;
  std::string where;
};

// How a call was answered.
enum class Answer { kReady, kWaiting, kFailed, kRefused };

// What every call answers; only the fields its answer needs are filled.
struct Reply {
  Answer answer = Answer::kReady;
  std::optional<FailureNote> failure;  // kFailed
  int kind = 0;                        // kRefused: kind, message, hint
  std::string message;
  std::string hint;
  int64_t epoch = 0;
  bool all_done = false;
  std::vector<MissingNote> missing;  // kWaiting
  std::vector<std::string> values;   // of store requests
  int64_t number = 0;
};

}  // namespace muster::inline v0_1::net
