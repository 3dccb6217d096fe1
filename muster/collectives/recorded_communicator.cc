#include <fmt/format.h>

#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/collectives/device_communicator.h"
#include "muster/collectives/internal/tensor_communicator.h"
#include "muster/collectives/internal/work_state.h"
#include "muster/tensor/device_library.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class RecordedCommunicator final : public Communicator {
 public:
  RecordedCommunicator(std::unique_ptr<Communicator> host, Device device)
      : host_(std::move(host)),
        device_(device),
        name_(fmt::format("{}, through the CPU", host_->name())) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string_view name() const override { return name_; }

  Tensor allocate(int64_t bytes) override { return internal::allocate_on(device_, bytes); }

  Work all_reduce(const Tensor& buffer) override {
    return through_host(buffer, buffer, true,
                        [&](const Tensor&, const Tensor& sums) { return host_->all_reduce(sums); });
  }
  Work reduce_scatter(const Tensor& in, const Tensor& out) override {
    return through_host(in, out, true, [&](const Tensor& all, const Tensor& mine) {
      return host_->reduce_scatter(all, mine);
    });
  }
  Work broadcast(const Tensor& buffer, int root) override {
    return through_host(buffer, buffer, root == rank(), [&](const Tensor&, const Tensor& values) {
      return host_->broadcast(values, root);
    });
  }
  Work all_gather(const Tensor& in, const Tensor& out) override {
    return through_host(in, out, true, [&](const Tensor& mine, const Tensor& all) {
      return host_->all_gather(mine, all);
    });
  }
  Work barrier() override { return host_->barrier(); }
  std::optional<int64_t> tune(const plan::CommunicationCost& cost) override {
    return host_->tune(cost);
  }

  void abort(ErrorKind kind, const std::string& reason) override { host_->abort(kind, reason); }
  using Communicator::abort;

 private:
  // `brings`: this rank's `in` is read.
  template <typename Call>
  Work through_host(const Tensor& in, const Tensor& out, bool brings, const Call& call) {
    check(in);
    check(out);
    if (in.is_cpu()) return call(in, out);
    const torch::NoGradGuard no_grad;
    if (size() == 1) {
      if (!in.is_same(out)) Tensor(out).copy_(in);
      return {};
    }
    try {
      // All that is recorded, as one program; a copy alone would run only what it needs.
      run_recorded(device_);
      const Tensor here = brings ? in.cpu() : torch::empty(in.sizes(), in.scalar_type());
      const Tensor result = in.is_same(out) ? here : torch::empty(out.sizes(), out.scalar_type());
      call(here, result).wait();
      Tensor(out).copy_(result);
      return {};
    } catch (...) {
      // The group is over: the other ranks would wait for what failed here.
      const Error failure = current_error();
      host_->abort(failure.kind(), failure.message());
      return internal::failed_work(failure);
    }
  }

  void check(const Tensor& tensor) const {
    if (tensor.is_cpu() || (tensor.device() == device_ && tensor.dim() == 1)) return;
    throw invalid_argument(fmt::format("the communicator of {} was given {} on {}", device_.str(),
                                       describe(tensor), tensor.device().str()),
                           "give it tensors of one axis, on its device or on the CPU");
  }

  const std::unique_ptr<Communicator> host_;
  const Device device_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Communicator> make_recorded_communicator(std::unique_ptr<Communicator> host,
                                                         Device device) {
  return std::make_unique<RecordedCommunicator>(std::move(host), device);
}

}  // namespace muster::inline v0_1
