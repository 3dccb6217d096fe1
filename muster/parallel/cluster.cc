#include "muster/parallel/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/distribute/start_options.h"
#include "muster/parallel/internal/cluster_impl.h"
#include "muster/parallel/internal/worker_data_impl.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/late_error.h"
#include "muster/train/merge_metrics.h"
#include "muster/train/stop_request.h"

namespace muster::inline v0_1 {
namespace {

using internal::CallMeeting;
using internal::GradientSync;
using Kind = CallMeeting::Kind;

std::unique_ptr<distribute::Replica> start(const ClusterOptions& options,
                                           const std::function<bool()>& cancelled) {
  if (options.communication.local_replicas != 1 || !options.communication.devices.empty()) {
    throw invalid_argument(
        "not supported: several replicas in one process of a Cluster",
        "leave ClusterOptions.communication.local_replicas and devices as they are, and start a "
        "worker for each device: muster run --workers=N");
  }
  const cluster::ResolvedCluster resolved =
      cluster::resolve_cluster(options.environment ? *options.environment : Environment::process(),
                               {.worker_zero_may_be_chief = true});
  cluster::announce(resolved);
  distribute::check_worker(resolved, "train");
  const distribute::StartOptions here{.cluster = resolved,
                                      .call = "Cluster",
                                      .join_timeout = options.join_timeout.count(),
                                      .cancelled = cancelled};
  if (resolved.num_workers <= 1) return distribute::one_device(options.device)->start(here);
  set_threads(0);
  distribute::CommunicationOptions communication = options.communication;
  if (options.device != "cpu") communication.devices = {parse_device(options.device).str()};
  return distribute::multi_worker_mirrored(communication)->start(here);
}

// What a DataParallel holds. It may outlive the Cluster.
class Handle final : public DataParallelModule {
 public:
  Handle(std::shared_ptr<Cluster::Impl> impl, Cluster::Impl::Wrapped wrapped)
      : impl_(std::move(impl)), wrapped_(std::move(wrapped)) {}
  void prepare() override {
    impl_->check_ready();
    wrapped_.sync->prepare();
  }
  void count_forward() override { wrapped_.sync->count_forward(); }
  void pause() override { wrapped_.sync->pause(); }
  void resume() override { wrapped_.sync->resume(); }
  void sync_buffers() override {
    impl_->call({.text = fmt::format("sync_buffers() of \"{}\"", wrapped_.sync->name())},
                [&] { impl_->make_buffers_one(wrapped_); });
  }

 private:
  const std::shared_ptr<Cluster::Impl> impl_;
  const Cluster::Impl::Wrapped wrapped_;
};

}  // namespace

Cluster::Impl::Impl(const ClusterOptions& options)
    : options_(options),
      cancelled_([asked = std::make_shared<StopRequest>(options.cancelled)] {
        return asked->asked_or_signalled();
      }),
      exceptions_(std::uncaught_exceptions()),
      replica_(start(options_, cancelled_)),
      view_(replica_->place()),
      meeting_(*replica_, cancelled_),
      norms_(std::make_shared<internal::NormSync>(*replica_, meeting_, [this] { check_ready(); })) {
}

void Cluster::Impl::check_ready() const {
  if (ended_)
    throw Error(ended_->kind(), "the Cluster is over: " + ended_->message(), ended_->hint());
}

void Cluster::Impl::fail(const Error& error) {
  if (ended_) return;
  ended_ = error;
  view_.end(&error);
  replica_->group().fail(error);
}

void Cluster::Impl::check_new(const torch::nn::Module& module) const {
  for (const Wrapped& wrapped : modules_) {
    if (&wrapped.sync->module() != &module) continue;
    throw invalid_argument(fmt::format("data_parallel() was given the module \"{}\" a second time",
                                       wrapped.sync->name()),
                           "wrap a module once, and keep what data_parallel() returned");
  }
  if (modules_.size() == CallMeeting::kMostNumbers) {
    throw invalid_argument(fmt::format("not supported: more than {} modules in one Cluster",
                                       CallMeeting::kMostNumbers),
                           "put them into one module, and wrap that");
  }
}

Cluster::Impl::Wrapped Cluster::Impl::wrap(std::shared_ptr<torch::nn::Module> module,
                                           const DataParallelOptions& options) {
  check_ready();
  if (module == nullptr) {
    throw invalid_argument("data_parallel() was given no module",
                           "make it before: auto net = std::make_shared<Net>()");
  }
  const auto number = static_cast<int>(modules_.size());
  check_new(*module);
  try {
    auto sync = std::make_shared<GradientSync>(
        *replica_, meeting_, *norms_, std::move(module),
        GradientSync::Options{
            .name = options.name.empty() ? fmt::format("module {}", number) : options.name,
            .number = number,
            .device = replica_->device(),
            .bytes_per_pack = options_.communication.bytes_per_pack,
            .wire_dtype = options_.communication.wire_dtype,
            .broadcast_buffers = options.buffers == DataParallelOptions::Buffers::kBroadcast,
            .view = &view_});
    return modules_.emplace_back(Wrapped{.sync = std::move(sync), .buffers = options.buffers});
  } catch (const Error& error) {
    fail(error);
    throw;
  }
}

void Cluster::Impl::make_buffers_one(const Wrapped& wrapped) const {
  if (!alone() && wrapped.buffers == DataParallelOptions::Buffers::kAverage)
    wrapped.sync->average_buffers();
}

void Cluster::Impl::sync_buffers() const {
  for (const Wrapped& wrapped : modules_) make_buffers_one(wrapped);
}

void Cluster::Impl::join() {
  check_ready();
  if (alone()) return;
  const plan::OnActivity on(view_.record());
  const plan::InActivity waits(plan::Activity::kWaiting);
  int64_t forwards = 0;
  for (const Wrapped& wrapped : modules_) forwards += wrapped.sync->forwards();
  try {
    for (;;) {
      const CallMeeting::Met met = meeting_.meet_joined(forwards);
      if (met.active == 0) break;
      if (met.kind == Kind::kBackward) {
        modules_.at(static_cast<size_t>(met.number)).sync->join_backward();
      } else if (met.kind == Kind::kNormForward || met.kind == Kind::kNormBackward) {
        norms_->join(met);
      } else if (met.kind == Kind::kSave) {
        const auto saver = savers_.at(static_cast<size_t>(met.number)).lock();
        if (saver == nullptr) {
          throw invalid_argument(
              fmt::format("{} has no more data and has dropped its checkpoint, and others save",
                          replica_->place().name()),
              "call cluster.join() after the loop, where the checkpoint still is");
        }
        share_newest();
        saver->save_with_others();
      } else if (met.kind != Kind::kBarrier) {
        throw invalid_argument(
            fmt::format("not supported: {} has no more data and has joined, and {} of {} workers "
                        "make a call in which it cannot take part: all_reduce(), say, "
                        "restore(), or a forward with Buffers::kBroadcast",
                        replica_->place().name(), met.active, replica_->place().replicas()),
            "make such calls after join(), where all workers are again, or give each worker "
            "equally many batches");
      }
    }
    share_newest();
    sync_buffers();
    for (const Wrapped& wrapped : modules_) wrapped.sync->forget_forwards();
  } catch (const Error& error) {
    fail(error);
    throw;
  }
}

void Cluster::Impl::share_newest() {
  int64_t backwards = 0;
  for (const Wrapped& wrapped : modules_) backwards += wrapped.sync->backwards();
  const std::vector<Tensor> all =
      replica_->exchange().gather(torch::full({1}, backwards, at::kLong), 0);
  const auto newest =
      std::ranges::max_element(all, {}, [](const Tensor& count) { return count.item<int64_t>(); });
  if (std::ranges::all_of(all, [&](const Tensor& count) { return count.equal(*newest); })) return;
  const auto root = static_cast<int>(newest - all.begin());
  for (const Wrapped& wrapped : modules_) wrapped.sync->share(root);
  for (const auto& saver : savers_) {
    if (const auto known = saver.lock()) known->share(root);
  }
}

void Cluster::Impl::end() noexcept {
  try {
    if (ended_) return;
    if (std::uncaught_exceptions() > exceptions_) {
      fail(Error(ErrorKind::kInternal, "an exception left the scope of its Cluster"));
      return;
    }
    join();
    replica_->finish();
    view_.end(nullptr);
    ended_ = invalid_argument("the program has left its scope", "use net.module()");
  } catch (const std::exception& error) {
    log::warning(fmt::format("at the end of the Cluster: {}", error.what()));
    // The chief's exit code is that of the run, of which something may be lost.
    if (replica_->is_chief()) note_late_error(current_error());
  }
}

Cluster::Cluster(const ClusterOptions& options) : impl_(std::make_shared<Impl>(options)) {}
Cluster::~Cluster() { impl_->end(); }

int Cluster::rank() const { return impl_->replica().replica_id(); }
int Cluster::size() const { return impl_->replica().place().replicas(); }
bool Cluster::is_chief() const { return rank() == 0; }
Device Cluster::device() const { return impl_->replica().device(); }
std::string Cluster::describe() const { return impl_->replica().describe(); }
bool Cluster::should_stop() const { return impl_->stop(); }
void Cluster::join() { impl_->join(); }

std::shared_ptr<DataParallelModule> Cluster::wrap(std::shared_ptr<torch::nn::Module> module,
                                                  const DataParallelOptions& options) {
  return std::make_shared<Handle>(impl_, impl_->wrap(std::move(module), options));
}

Tensor Cluster::all_reduce(const Tensor& value, ReduceOp op) {
  return impl_->call({.text = "all_reduce()"},
                     [&] { return impl_->replica().exchange().reduce(op, value); });
}

Metric Cluster::all_reduce(const Metric& value) {
  return impl_->call({.text = "all_reduce() of a metric"}, [&] {
    return merge_over_replicas(impl_->replica().exchange(), {value}).front();
  });
}

Tensor Cluster::broadcast(const Tensor& value) {
  return impl_->call({.text = "broadcast()"}, [&] {
    const torch::NoGradGuard no_grad;
    Tensor given = value.detach().clone().contiguous();
    impl_->replica().exchange().broadcast({given});
    return given;
  });
}

std::vector<Tensor> Cluster::gather(const Tensor& value, int64_t axis) {
  if (value.dim() == 0 || axis < -value.dim() || axis >= value.dim()) {
    throw invalid_argument(
        fmt::format("gather() of {} along axis {}", muster::describe(value), axis),
        "the value needs that axis; unsqueeze(0) gives a scalar one");
  }
  return impl_->call({.text = "gather()"}, [&] {
    return impl_->replica().exchange().gather(value, axis < 0 ? axis + value.dim() : axis);
  });
}

WorkerData Cluster::distribute(const Dataset& dataset) {
  return impl_->call({.text = "distribute()"}, [&] {
    return WorkerData(std::make_shared<WorkerData::Impl>(impl_, dataset));
  });
}

void Cluster::barrier() {
  impl_->call({.kind = Kind::kBarrier, .text = "barrier()"}, [] {});
}

}  // namespace muster::inline v0_1
