// The coordinator's messages as plain structs: what travels between CoordinatorChannel and
// CoordinatorHandler. Values; no thread has to care. Phases and error kinds travel as integers:
// this floor does not know their meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::net {

struct MemberId {
  std::string task;  // "worker:1"
  uint64_t incarnation = 0;
};

struct JoinRequest {
  MemberId who;
  int rank = -1;
  int world_size = 0;
  double wait_seconds = 0;  // hold the call for at most so long
};

struct BeatRequest {
  MemberId who;
  int phase = 0;
  int64_t step = -1;
};

struct ModelRequest {
  MemberId who;
  std::vector<std::string> signature;  // one line per variable
};

struct BarrierRequest {
  MemberId who;
  std::string name;
  int64_t generation = 0;
  int count = 0;  // 0: the whole group
  double wait_seconds = 0;
};

enum class StoreOperation { kSet, kAdd, kCompareSet, kErase, kCheck, kNumKeys, kWait };

struct StoreRequest {
  MemberId who;
  StoreOperation operation = StoreOperation::kSet;
  std::vector<std::string> keys;
  std::string value;  // bytes
  std::string expected;
  int64_t amount = 0;
  double wait_seconds = 0;  // of kWait
};

struct FailRequest {
  MemberId who;
  int kind = 0;
  std::string reason;
};

struct GoodbyeRequest {
  MemberId who;
  bool leaving = false;  // false: done, but still there
};

struct FailureNote {
  std::string task;
  int rank = -1;
  int kind = 0;
  std::string reason;
  int64_t step = -1;
  int phase = 0;
};

struct MissingNote {
  std::string task;
  std::string address;
  double seconds = 0;
};

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

}  // namespace muster::net
