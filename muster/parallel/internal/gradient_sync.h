// Averages the gradients of one module over all workers while backward() runs.
// Thread safety: belongs to the loop's thread; backward() runs on it.
//
// The first gradient of a backward() announces it to the other workers; buckets leave as they fill
// (distribute/reducer.h). When backward() is done, and before it returns, LibTorch's engine calls
// back: this waits for the sums, divides them by the number of workers that have data, and puts
// them where gradients are. Where a backward() goes through several modules, the buckets of one of
// them leave meanwhile, and those of the others afterwards, so that all workers have one order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/distribute/reducer.h"
#include "muster/parallel/internal/call_meeting.h"
#include "muster/parallel/internal/loop_view.h"
#include "muster/parallel/internal/step_watch.h"

namespace torch::nn {
class Module;
}

namespace muster::inline v0_1::internal {

class NormSync;

class GradientSync : public std::enable_shared_from_this<GradientSync> {
 public:
  struct Options {
    std::string name{};  // as messages call the module
    int number = 0;      // among the modules of the Cluster
    Device device = at::kCPU;
    std::optional<int64_t> bytes_per_pack{};
    DType wire_dtype = kFloat32;
    bool broadcast_buffers = false;  // the chief's, before each forward in training
    LoopView* view = nullptr;        // of the Cluster
  };
  // All outlive it. Throws InvalidArgument for a module without parameters, for parameters of
  // dtypes that cannot train or on another device, and where workers have different modules.
  GradientSync(distribute::Replica& replica, CallMeeting& meeting, NormSync& norms,
               std::shared_ptr<torch::nn::Module> module, Options options);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // Gives all workers the parameters and buffers of the worker `root`. All call it together.
  void share(int root);
  // Floating-point buffers become their mean over the workers, others those of the chief.
  void average_buffers();

  // Call before a forward: takes notice of parameters that the program added, froze or moved.
  void prepare();
  // Call before a forward that a backward() may follow.
  void count_forward();
  // While it is above 0 gradients stay with their worker.
  void pause() { ++pauses_; }
  void resume() { --pauses_; }
  // On a worker without data: its part of a backward() of the others.
  void join_backward();

  int64_t backwards() const { return backwards_; }
  // In training and outside of no_sync(), since the last backward().
  int64_t forwards() const { return forwards_; }
  void forget_forwards() { forwards_ = 0; }
  const std::string& name() const { return options_.name; }
  const torch::nn::Module& module() const { return *module_; }

 private:
  struct Hook;
  struct Hooks;
  using Weights = std::vector<std::pair<std::string, Tensor>>;
  // The parameters that train, in the order in which the module registered them.
  Weights trained() const;
  // Whether the module's are still those of the reducer.
  bool unchanged() const;
  void check(const Weights& weights) const;
  void compare_with_others(const Weights& weights) const;
  void build(Weights weights);
  // Connects SyncBatchNorm layers that the module has got.
  void connect_norms();
  CallMeeting::Call call(CallMeeting::Kind kind) const;
  // The same of a backward(), with what it compares between workers.
  CallMeeting::Call backward_call() const;
  // Throws where an optimizer's step used gradients that were not averaged.
  void check_no_step() const;
  // A gradient of a backward(), and its end.
  void on_gradient(size_t parameter);
  void finish_backward();
  void spread_gradients();

  distribute::Replica& replica_;
  CallMeeting& meeting_;
  NormSync& norms_;
  int64_t norms_made_ = 0;  // SyncBatchNormImpl::made() when layers were looked for
  const std::shared_ptr<torch::nn::Module> module_;
  const Options options_;
  Weights weights_;
  // By parameter of the module: nullptr if it does not train; and its dtype.
  std::vector<std::pair<const void*, DType>> registered_;
  StepWatch watch_;  // the weights whose gradients are not averaged yet
  std::unique_ptr<distribute::Reducer> reducer_;
  std::unique_ptr<Hooks> hooks_;
  int pauses_ = 0;
  enum class Doing { kNothing, kLeads, kFollows };
  Doing doing_ = Doing::kNothing;
  int64_t backwards_ = 0;
  int64_t joined_backwards_ = 0;
  int64_t forwards_ = 0;
};

}  // namespace muster::inline v0_1::internal
