// Exchanges the statistics of SyncBatchNorm layers between the workers of a Cluster.
// Thread safety: belongs to the loop's thread; backward() runs on it.
//
// Each exchange is a call that all workers meet in (internal/call_meeting.h), in forward and in
// backward. A worker that has joined takes part with a count of zero. Exchanges of a backward()
// must have one order with buckets of gradients on all workers, also where a worker does not use a
// parameter: if there are such layers, the buckets of all modules leave after the backward().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/distribute/replica.h"
#include "muster/parallel/internal/call_meeting.h"
#include "muster/tensor/tensor.h"

namespace torch::nn {
class Module;
}

namespace muster::inline v0_1::internal {

class NormSync : public std::enable_shared_from_this<NormSync> {
 public:
  // Both outlive it. `check_ready` throws where the run is over.
  NormSync(distribute::Replica& replica, CallMeeting& meeting, std::function<void()> check_ready)
      : replica_(replica), meeting_(meeting), check_ready_(std::move(check_ready)) {}

  // Connects the SyncBatchNorm layers of the module that no Cluster has; `name` is the module's.
  // All workers call it together, with modules that have the same layers.
  void connect(const torch::nn::Module& module, const std::string& name);
  // How many layers it exchanges statistics for.
  size_t size() const { return norms_.size(); }

  // The numbers of each worker, one row each: float64 [workers, n] of float64 [n]. `norm` is the
  // number of the layer. All workers call it together. Zeros for a worker that has joined.
  Tensor gather(int norm, const Tensor& numbers);
  // The sum of the numbers of all workers, in the order of the workers, in place.
  void sum(int norm, const Tensor& numbers);
  // Its part in an exchange of the others on a worker that has joined.
  void join(const CallMeeting::Met& met);
  // Throws InvalidArgument, which all workers that have not joined do here, after an exchange.
  [[noreturn]] void refuse_together(const std::string& message, const std::string& hint);

 private:
  struct Norm {
    std::string name{};
    int64_t channels = 0;
  };
  CallMeeting::Call call(int norm, bool forward) const;
  // Starts the operation, and returns its result when all workers are in the same call.
  template <typename Start>
  void exchange(const CallMeeting::Call& call, Start start);

  distribute::Replica& replica_;
  CallMeeting& meeting_;
  const std::function<void()> check_ready_;
  std::vector<Norm> norms_;
  int active_ = 0;  // workers of the last exchange that had not joined
};

}  // namespace muster::inline v0_1::internal
