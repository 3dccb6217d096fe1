// An elastic run: its groups of workers change while it goes on. Holds what a process of it keeps
// from one group to the next: how many workers a group needs, on the chief the coordinator's
// server, and what ended the last group. StartOptions has one; without it a run is not elastic.
// Thread safety: all calls from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/data/dataset.h"
#include "muster/distribute/strategy.h"
#include "muster/plan/failure.h"

namespace muster::inline v0_1::control {
class CoordinatorServer;
}

namespace muster::inline v0_1::distribute {

class ReplicaInput;

class MUSTER_PART_EXPORT ElasticRun {
 public:
  // A group has `min_workers` of the cluster's workers or more, at least 1, and always `leader`,
  // the task that serves the coordinator, "worker:0".
  ElasticRun(int min_workers, std::string leader);
  // The run of a cluster of which `least` workers suffice; nullptr where it is not elastic: `least`
  // is 0, there are no other workers, or they do not train in step. Throws InvalidArgument if
  // `least` is more than the cluster has.
  static std::shared_ptr<ElasticRun> of(const cluster::ResolvedCluster& cluster,
                                        const Strategy& strategy, int least);
  // On the chief: ends the server, once all others have left or are lost.
  ~ElasticRun();
  ElasticRun(const ElasticRun&) = delete;
  ElasticRun& operator=(const ElasticRun&) = delete;

  int min_workers() const { return min_workers_; }

  // --- for the strategy ---
  // On the chief: the server of the groups so far; nullptr before the first.
  std::shared_ptr<control::CoordinatorServer> server() const;
  void set_server(std::shared_ptr<control::CoordinatorServer> server);
  // This task waits for the next group. What ended the last one says nothing of how this one ends.
  void begin_joining();
  // A group has formed: its epoch, and its tasks in rank order.
  void begin_group(int64_t epoch, std::vector<std::string> tasks);
  // Whether this task has made a step with a group.
  bool has_made_steps() const;
  // For each task of it, in rank order, whether it has made steps with a group before; `rank` is
  // this task's. A chief that has made none begins the run anew: nobody is a newcomer to it.
  void meet(const std::vector<bool>& was_here, int rank);
  // Whether the group has members that are new while others were in a group before; and whether
  // this task is one of the new members.
  bool tries_newcomers() const;
  bool is_newcomer() const;
  // Whether `error` may end the group because a newcomer differs from the others, which continue
  // without it.
  bool may_refuse_newcomers(const Error& error) const;
  // What ended it.
  void note_failure(const plan::Failure& failure);
  // It has ended well: the last one did, when the run ends.
  void note_end();

  // --- for the run ---
  // The epoch of the present group; -1 before the first.
  int64_t epoch() const;
  // The tasks of the present group, "worker 0, worker 2".
  std::string describe_group() const;
  // On the chief: whether workers wait to join the run.
  bool has_newcomers() const;
  // Whether the run can go on with another group although the present one ended with `error`:
  // another worker than the chief was lost, or was asked to stop; or the group had newcomers, and
  // the others made no step with them.
  bool goes_on_after(const Error& error) const;
  // The group has made a step: what is wrong from now on is not due to newcomers.
  void keep_newcomers();
  // What follows after the loss of one, for messages: "the run continues, from the memory of its
  // workers", or that it waits.
  std::string describe_next() const;
  // Whether as many workers are left when `leaving` of the present group go.
  bool can_spare(int leaving) const;

 private:
  const int min_workers_;
  const std::string leader_;
  mutable std::mutex mutex_;
  std::shared_ptr<control::CoordinatorServer> server_;
  std::vector<std::string> tasks_;
  std::optional<plan::Failure> failure_;
  int64_t epoch_ = -1;
  bool ended_ = false;
  bool tries_newcomers_ = false, is_newcomer_ = false;
  bool has_made_steps_ = false;
};

// In an elastic run rows are divided, not files: then each example has its place in one order, for
// any number of workers.
Dataset divide_rows(const Dataset& dataset);
// Throws InvalidArgument for data that each worker reads by itself.
void check_divided(const ReplicaInput& input);

}  // namespace muster::inline v0_1::distribute
