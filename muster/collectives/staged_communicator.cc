#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/collectives/device_communicator.h"
#include "muster/collectives/internal/tensor_communicator.h"
#include "muster/collectives/internal/work_state.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Calls one operation of the communicator of the CPU, with the host copies of `in` and `out`.
using Call = std::function<Work(Communicator& host, const Tensor& in, const Tensor& out)>;

struct Job : Work::State {
  explicit Job(Call call) : call(std::move(call)) {}

  const Call call;
  Tensor in, out;                    // on the CPU
  Tensor target;                     // on the device, for `out`; undefined when there is none
  Tensor source;                     // on the device, kept while it is copied
  std::optional<c10::Event> copied;  // `in` holds this rank's values
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> host, Device device,
                     std::chrono::milliseconds timeout)
      : host_(std::move(host)),
        device_(device),
        timeout_(timeout),
        guard_(c10::impl::getDeviceGuardImpl(device.type())),
        down_(guard_->getStreamFromGlobalPool(device)),
        up_(guard_->getStreamFromGlobalPool(device)),
        name_(fmt::format("{}, through the CPU", host_->name())) {
    if (host_->size() > 1) thread_ = std::thread([this] { run(); });
  }

  ~StagedCommunicator() override {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      if (busy_ || !queue_.empty()) host_->abort("the communicator was closed");
      stop_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string_view name() const override { return name_; }

  Tensor allocate(int64_t bytes) override { return internal::allocate_on(device_, bytes); }

  Work all_reduce(const Tensor& buffer) override {
    return submit(buffer, buffer, true, [](Communicator& host, const Tensor&, const Tensor& sums) {
      return host.all_reduce(sums);
    });
  }
  Work reduce_scatter(const Tensor& in, const Tensor& out) override {
    return submit(in, out, true, [](Communicator& host, const Tensor& all, const Tensor& mine) {
      return host.reduce_scatter(all, mine);
    });
  }
  Work broadcast(const Tensor& buffer, int root) override {
    return submit(buffer, buffer, root == rank(),
                  [root](Communicator& host, const Tensor&, const Tensor& values) {
                    return host.broadcast(values, root);
                  });
  }
  Work all_gather(const Tensor& in, const Tensor& out) override {
    return submit(in, out, true, [](Communicator& host, const Tensor& mine, const Tensor& all) {
      return host.all_gather(mine, all);
    });
  }
  Work barrier() override {
    return submit({}, {}, false,
                  [](Communicator& host, const Tensor&, const Tensor&) { return host.barrier(); });
  }
  std::optional<int64_t> tune(const plan::CommunicationCost& cost) override {
    return host_->tune(cost);
  }

  void abort(ErrorKind kind, const std::string& reason) override { host_->abort(kind, reason); }
  using Communicator::abort;

 private:
  // `brings`: this rank's `in` is read.
  Work submit(const Tensor& in, const Tensor& out, bool brings, Call call) {
    check(in);
    check(out);
    const bool staged = in.defined() && !in.is_cpu();
    if (staged && size() == 1) {
      if (!in.is_same(out)) Tensor(out).copy_(in);
      return {};
    }
    if (!staged) {
      const std::lock_guard lock(mutex_);
      // No other thread uses `host`: no need to hand the call over.
      if (queue_.empty() && !busy_) return call(*host_, in, out);
    }
    auto job = std::make_shared<Job>(std::move(call));
    if (staged) {
      try {
        stage(*job, in, out, brings);
      } catch (...) {
        const Error failure = current_error();
        fail(failure);
        return internal::failed_work(failure);
      }
    } else {
      job->in = in;
      job->out = out;
    }
    const std::lock_guard lock(mutex_);
    if (failure_)
      return internal::failed_work(failure_->with_context("the operation was not started"));
    queue_.push_back(job);
    changed_.notify_one();
    return Work(std::move(job));
  }

  // The group is over: the other ranks would wait for this failed operation.
  void fail(const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
      failure_ = error;
    }
    host_->abort(error.kind(), error.message());
  }

  void check(const Tensor& tensor) const {
    if (!tensor.defined() || tensor.is_cpu()) return;
    if (tensor.device() == device_ && tensor.dim() == 1 && tensor.is_contiguous()) return;
    throw invalid_argument(fmt::format("the communicator of {} was given {}{} on {}", device_.str(),
                                       tensor.is_contiguous() ? "" : "a strided ", describe(tensor),
                                       tensor.device().str()),
                           "give it contiguous tensors of one axis, on its device or on the CPU");
  }

  Tensor memory_for(const Tensor& tensor) const {
    return torch::empty(tensor.sizes(),
                        at::dtype(tensor.scalar_type()).pinned_memory(device_.is_cuda()));
  }

  // Begins to copy this rank's values.
  void stage(Job& job, const Tensor& in, const Tensor& out, bool brings) {
    const torch::NoGradGuard no_grad;
    job.in = memory_for(in);
    job.out = in.is_same(out) ? job.in : memory_for(out);
    job.target = out;
    c10::Event computed(device_.type());
    computed.record(guard_->getStream(device_));
    // The device must first finish the writes that this thread has started there.
    computed.block(up_);
    if (!brings) return;
    job.source = in;
    computed.block(down_);
    const c10::StreamGuard here(down_);
    job.in.copy_(in, /*non_blocking=*/true);
    job.copied.emplace(device_.type());
    job.copied->record(down_);
  }

  void run() {
    pthread_setname_np(pthread_self(), "staging");
    const DeviceScope here(device_);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::shared_ptr<Job> job = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      std::optional<Error> failure;
      try {
        execute(*job);
      } catch (...) {
        failure = current_error();
        fail(*failure);
      }
      job->source.reset();
      lock.lock();
      busy_ = false;
      job->finish(std::move(failure));
    }
  }

  void execute(Job& job) {
    const torch::NoGradGuard no_grad;
    if (job.copied) await(*job.copied);
    job.call(*host_, job.in, job.out).wait();
    if (!job.target.defined()) return;
    c10::Event back(device_.type());
    {
      const c10::StreamGuard here(up_);
      job.target.copy_(job.out, /*non_blocking=*/true);
      back.record(up_);
    }
    await(back);
  }

  // It happens whatever other ranks do, because earlier work is this device's own; unless the
  // device hangs.
  void await(const c10::Event& event) const {
    for (const auto deadline = std::chrono::steady_clock::now() + timeout_; !event.query();) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw Error(ErrorKind::kTimeout,
                    fmt::format("{} was not through with its own work after {} s", device_.str(),
                                static_cast<double>(timeout_.count()) * 1e-3),
                    "look whether it hangs, or give collectives a longer time-out");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  const std::unique_ptr<Communicator> host_;
  const Device device_;
  const std::chrono::milliseconds timeout_;
  const c10::impl::DeviceGuardImplInterface* const guard_;
  // Copies back do not wait for later computations.
  const c10::Stream down_, up_;
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  bool busy_ = false;  // the thread executes one
  bool stop_ = false;
  std::optional<Error> failure_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       Device device,
                                                       std::chrono::milliseconds timeout) {
  return std::make_unique<StagedCommunicator>(std::move(host), device, timeout);
}

}  // namespace muster::inline v0_1
