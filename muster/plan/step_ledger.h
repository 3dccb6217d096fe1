// The course of a run in which workers train at their own pace: which worker may begin a step,
// which steps count, which worker holds up which, and when all is over. One parameter server keeps
// it. A state machine that does nothing by itself and never waits: `now` is in seconds, of one
// clock. Thread safety: one thread at a time.
//
// A worker claims a step before it reads the weights, and commits it when every server has its
// gradients. A step counts when it is committed, for all servers or for none. So the run makes
// exactly as many steps as it was asked for, and each worker's position in its data is exact to the
// example.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::plan {

// How the staleness of a worker's steps was distributed: updates of others between the reading of
// the weights and the step's own update.
struct StalenessSummary {
  int64_t steps = 0;
  double mean = 0;
  int64_t p99 = 0;
  int64_t max = 0;
  static auto fields(auto& m) { return std::tie(m.steps, m.mean, m.p99, m.max); }
};

class MUSTER_PART_EXPORT StepLedger {
 public:
  // The parameters of a run.
  struct Options {
    int workers = 1;  // the chief and the workers, by rank
    // The most steps that a worker may be ahead of the slowest one that takes part; unset: any
    // number.
    std::optional<int64_t> max_staleness{};
    // This many gradients make an update together, at most one of each worker; a later gradient of
    // the same update is dropped, and counted. 0: each makes its own. The number is less if fewer
    // workers are expected.
    int aggregate = 0;
    // Seconds a worker that is not there is waited for at the end, when all others have used up
    // their data.
    double rejoin_timeout = 60;
  };
  // How a run begins, or begins again.
  struct Start {
    int64_t generation = 1;  // higher than in the run before
    int64_t step = 0;        // updates made so far
    std::optional<int64_t> last_step{};
    std::vector<std::string> positions{};  // of each worker in its data; "" at the beginning
  };
  explicit StepLedger(Options options);

  // From now on claims are answered. The earlier state is forgotten, except for the workers that
  // are present.
  void begin(Start start, double now);
  bool begun() const { return generation_ > 0; }
  int64_t generation() const { return generation_; }
  int64_t step() const { return step_; }
  // The worker's iterator state after its last step that counts.
  const std::string& position(int worker) const { return at(worker).position; }
  // For each worker, whether its data is used up.
  std::vector<bool> ended() const;

  // --- present workers --- The worker has come, or has come again: the claim of its earlier
  // process is free.
  void join(int worker, double now);
  // The worker is gone, and holds up no other.
  void leave(int worker, double now);

  // --- steps --- The answer to a worker that wants to make a step.
  struct Claim {
    // kOver: there is nothing more to do for this worker.
    enum class State { kGranted, kWait, kOver };
    State state = State::kWait;
    int64_t ticket = 0;
    // kWait: for which worker; -1: for no particular one.
    int waits_for = -1;
  };
  // Asks for a step. A worker holds one claim at most: a second one replaces the first.
  Claim claim(int worker, double now);

  // The result of a step.
  struct Commit {
    // kWait: a checkpoint is being cut, or the update lacks gradients of others: ask again.
    // kDropped: the update was made without it. kLost: the claim is no longer this worker's, since
    // it was taken for lost; it has to join again.
    enum class State { kAccepted, kWait, kDropped, kLost };
    State state = State::kLost;
    int64_t step = 0;  // this step's number; kDropped: the number of the last one
    int64_t staleness = 0;
  };
  // Makes the claimed step count. `position` is the iterator state after it. `looked` is the number
  // of commits that the weights contained, if the worker says so; otherwise the commits at the time
  // of the claim.
  Commit commit(int worker, int64_t ticket, const std::string& position, double now,
                std::optional<int64_t> looked = {});
  // Makes the update that lacks only workers that do not come. commit() does it as well.
  void close_round(double now);
  // The gradients of an update that several workers make: which step of which worker.
  struct Round {
    int64_t generation = 0;
    int64_t number = 0;  // 1 for the first since begin(); 0: none was made yet
    // One worker's gradients.
    struct Part {
      int worker = 0;
      int64_t ticket = 0;
      static auto fields(auto& m) { return std::tie(m.worker, m.ticket); }
    };
    std::vector<Part> parts{};  // by worker
    static auto fields(auto& m) { return std::tie(m.generation, m.number, m.parts); }
  };
  // The last round. Each goes into the weights once, in order.
  const Round& last_round() const { return last_round_; }
  // Gradients that came too late, since begin().
  int64_t dropped() const { return dropped_; }
  // Whether this step of the worker is its last one that counts. A server asks this if it has the
  // step's gradients and the worker is gone. Gradients of an earlier step are on no server any
  // more, or came late from a process that is gone, and do not count.
  bool committed(int worker, int64_t ticket) const { return at(worker).committed == ticket; }
  // The worker gives its claim back; with a ticket, only if that is its claim.
  void abandon(int worker, int64_t ticket = 0);
  // Its data is used up.
  void end_input(int worker);
  // No worker gets a claim any more.
  void stop(std::string why);

  // --- the end ---
  // Whether no step will follow. It may become so with time alone.
  bool over(double now) const;
  // And no claim is under way.
  bool settled(double now) const;
  // The reason: "max_steps", "end of input", or the argument of stop(); "" before.
  std::string why(double now) const;
  // Workers that are absent and whose data is not used up.
  std::vector<int> unfinished() const;
  // Workers that are not finished: whose data is not used up, and when the run is over, those that
  // are making a step.
  std::vector<int> awaited(double now) const;

  // --- checkpoints ---
  // No step is committed until resume().
  void pause() { paused_ = true; }
  // Steps are committed again.
  void resume() { paused_ = false; }
  bool paused() const { return paused_; }
  // Steps that were committed since begin(): servers that have applied as many are alike.
  int64_t commits() const { return commits_; }
  std::vector<std::string> positions() const;

  // Summary of the worker's steps since begin().
  StalenessSummary staleness(int worker) const;
  // How many of them there are.
  int64_t steps_of(int worker) const { return at(worker).steps; }

 private:
  struct Worker {
    bool present = false;
    bool ended = false;  // its data is used up
    double absent_since = 0;
    int64_t ticket = 0;     // claimed; 0: none
    int64_t committed = 0;  // the last ticket that counted
    int64_t committed_step = 0;
    bool contributed = false;  // its claim's gradients wait for other workers' gradients
    int64_t round = 0;         // updates at its claim
    std::string pending{};     // its position then
    int64_t commits_at_look = 0;
    int64_t steps = 0;  // committed since begin()
    int64_t clock = 0;  // steps, as bounded staleness counts them
    std::string position{};
    std::vector<int64_t> staleness{};  // [updates in between] -> steps; the last one: or more
    int64_t staleness_sum = 0;
    int64_t staleness_max = 0;
  };
  Worker& at(int worker);
  const Worker& at(int worker) const;
  int64_t claims() const;
  // Whether it takes part: others may have to wait for it.
  static bool active(const Worker& worker) { return worker.present && !worker.ended; }
  // The slowest active worker; -1 without any. Whether it has data left, and is present or may come
  // back for that.
  bool has_more(const Worker& worker, double now) const;
  int slowest() const;
  Commit commit_to_round(Worker& worker, int64_t ticket, const std::string& position, double now);
  // How many gradients the update under way needs.
  int64_t needed(double now) const;
  void note_step(Worker& worker, int64_t ticket, const std::string& position);

  const Options options_;
  std::vector<Worker> workers_;
  int64_t generation_ = 0;
  int64_t step_ = 0;
  int64_t commits_ = 0;
  int64_t next_ticket_ = 1;
  std::optional<int64_t> last_step_;
  std::string stopped_;
  Round last_round_;
  int64_t dropped_ = 0;
  bool paused_ = false;
};

}  // namespace muster::inline v0_1::plan
