#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/collectives/communicator.h"
#include "muster/distribute/exchange.h"
#include "muster/distribute/group.h"
#include "muster/distribute/internal/check_reducible.h"
#include "muster/distribute/internal/different_calls.h"
#include "muster/distribute/internal/mismatch.h"
#include "muster/distribute/replica_place.h"
#include "muster/plan/activity.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using internal::meet_at;

std::string where_it_is(const ReplicaPlace& place, const std::string& call,
                        const std::string& operation) {
  return fmt::format("{} is in {}", place.name(),
                     call.empty() ? operation : fmt::format("{} ({})", call, operation));
}

// Exchanges what the replicas bring to a reduction or a gathering. Row r of the result describes
// the value of replica r: its dtype, the number of its axes, its kind of device, and its sizes; and
// says in words which call of the program it is in, which operation this is, and who it is.
class ShapeExchange {
 public:
  // Starts the exchange. `verb` names the operation that the value is for, `call` that of the
  // program.
  ShapeExchange(const ReplicaPlace& place, Communicator& communicator, const std::string& call,
                std::string verb, const Tensor& value)
      : place_(place), call_(cut(call, kMostOfCall)), verb_(std::move(verb)), value_(value) {
    if (value.dim() > kMostAxes) {
      throw invalid_argument(fmt::format("{} of {}", verb_, muster::describe(value)),
                             fmt::format("it takes up to {} axes", kMostAxes));
    }
    mine_ = torch::zeros({kWords + kBytesOfWords / 8}, at::kLong);
    auto* const words = reinterpret_cast<char*>(mine_.data_ptr<int64_t>() + kWords);
    const std::string text = call_ + '\0' + cut(verb_, kMostOfVerb) + '\0' + place.name();
    std::copy_n(text.data(), std::min<size_t>(text.size(), kBytesOfWords - 1), words);
    mine_[kType] = static_cast<int64_t>(value.scalar_type());
    mine_[kAxes] = value.dim();
    mine_[kDevice] = static_cast<int64_t>(value.device().type());
    for (int64_t a = 0; a < value.dim(); ++a) mine_[kSizes + a] = value.size(a);
    all_ = torch::empty({place.replicas(), mine_.numel()}, at::kLong);
    work_ = communicator.all_gather(mine_, all_.view({-1}));
  }

  // Throws InvalidArgument on every replica when they differ, in another axis than `free`.
  void check(std::optional<int64_t> free = {}) {
    meet_at(where_it_is(place_, call_, fmt::format("{} of {}", verb_, muster::describe(value_))),
            [&] { work_.wait(); });
    compare_calls();
    for (int64_t r = 0; r < all_.size(0); ++r) {
      Tensor other = all_[r].clone();
      // The task itself differs.
      other.slice(0, kWords) = mine_.slice(0, kWords);
      if (free) other[kSizes + *free] = mine_[kSizes + *free];
      if (other.equal(mine_)) continue;
      std::vector<int64_t> shape;
      for (int64_t a = 0; a < all_[r][kAxes].item<int64_t>(); ++a)
        shape.push_back(all_[r][kSizes + a].item<int64_t>());
      throw invalid_argument(
          fmt::format("{}{}: replica {} has {}{}, replica {} has {}[{}]{}",
                      call_.empty() ? "" : call_ + ": ", verb_, place_.replica(),
                      muster::describe(value_), place_of(mine_[kDevice].item<int64_t>()), r,
                      dtype_name(static_cast<DType>(all_[r][kType].item<int64_t>())),
                      fmt::join(shape, ", "), place_of(other[kDevice].item<int64_t>())),
          fmt::format("all replicas bring the same dtype and sizes{}, on devices of one kind",
                      free ? ", except along that axis" : ""));
    }
  }

  // Along an axis, by replica. REQUIRES: check() returned.
  Tensor sizes(int64_t axis) const { return all_.select(1, kSizes + axis).clone(); }

 private:
  struct Words {
    std::string call, verb, who;
  };
  Words words_of(int64_t replica) const {
    const auto* text = reinterpret_cast<const char*>(all_[replica].data_ptr<int64_t>() + kWords);
    const auto next = [&] {
      std::string word(text);
      text += word.size() + 1;
      return word;
    };
    Words words;
    words.call = next();
    words.verb = next();
    words.who = next();
    return words;
  }

  // Throws where another replica is in another call, or in another operation of the same.
  void compare_calls() const {
    for (int64_t r = 0; r < all_.size(0); ++r) {
      const Words theirs = words_of(r);
      const bool other_call = theirs.call != call_;
      if (!other_call && theirs.verb == cut(verb_, kMostOfVerb)) continue;
      const auto in = [&](const std::string& call, const std::string& verb) {
        return !other_call || call.empty() ? verb : call;
      };
      throw different_calls({place_.name(), in(call_, verb_)},
                            {theirs.who, in(theirs.call, theirs.verb)}, other_call ? "" : call_);
    }
  }

  static std::string cut(const std::string& text, size_t most) { return text.substr(0, most); }

  static std::string place_of(int64_t device) {
    const auto type = static_cast<at::DeviceType>(device);
    return type == at::kCPU ? "" : " on " + c10::DeviceTypeName(type, /*lower_case=*/true);
  }

  static constexpr int64_t kMostAxes = 61;
  enum Place : int64_t { kType, kAxes, kDevice, kSizes, kWords = kSizes + kMostAxes };
  static constexpr size_t kMostOfCall = 80, kMostOfVerb = 40;
  static constexpr int64_t kBytesOfWords = 160;

  const ReplicaPlace& place_;
  const std::string call_, verb_;
  const Tensor& value_;
  Tensor mine_, all_;
  Work work_;
};

class CommunicatorExchange final : public Exchange {
 public:
  CommunicatorExchange(const ReplicaPlace& place, Communicator& communicator, Group& group)
      : place_(place), communicator_(communicator), group_(group) {}

  Tensor reduce(ReduceOp op, const Tensor& value) override {
    internal::check_reducible(op, value);
    const plan::InCollective waits;
    return group_.explained([&] {
      // Both under way at once: to compare costs no round trip more.
      ShapeExchange shapes = exchange_shapes("reduce()", value);
      Tensor flat = value.detach().clone().contiguous().view({-1});
      const Work sum = communicator_.all_reduce(flat);
      shapes.check();
      sum.wait();
      if (op == ReduceOp::kMean) flat.div_(place_.replicas());
      return flat.view(value.sizes());
    });
  }

  std::vector<Tensor> gather(const Tensor& value, int64_t axis) override {
    const plan::InCollective waits;
    return group_.explained([&] {
      torch::NoGradGuard no_grad;
      const int64_t n = place_.replicas();
      ShapeExchange shapes = exchange_shapes(fmt::format("gather along axis {}", axis), value);
      shapes.check(axis);
      const Tensor sizes = shapes.sizes(axis);
      const int64_t most = sizes.max().item<int64_t>();
      const Tensor mine = value.detach().movedim(axis, 0).contiguous();
      std::vector<int64_t> padded_shape = mine.sizes().vec();
      padded_shape[0] = most;
      Tensor padded = torch::zeros(padded_shape, mine.options());
      padded.narrow(0, 0, mine.size(0)).copy_(mine);
      const Tensor all = torch::empty({n, padded.numel()}, padded.options());
      if (padded.numel() > 0) communicator_.all_gather(padded.view({-1}), all.view({-1})).wait();
      std::vector<Tensor> parts;
      for (int64_t r = 0; r < n; ++r) {
        parts.push_back(all[r]
                            .view(padded_shape)
                            .narrow(0, 0, sizes[r].item<int64_t>())
                            .movedim(0, axis)
                            .contiguous());
      }
      return parts;
    });
  }

  void broadcast(const std::vector<Tensor>& values) override {
    const plan::InCollective waits;
    group_.explained([&] {
      std::vector<Work> works;
      for (const Tensor& value : values)
        works.push_back(communicator_.broadcast(value.detach().view({-1}), 0));
      for (const Work& work : works) work.wait();
      // Autograd, and code that caches results of a value, count its changes.
      if (place_.replica() == 0) return;
      for (const Tensor& value : values) value.unsafeGetTensorImpl()->bump_version();
    });
  }

  void end_of_function() override {
    const plan::InCollective waits;
    group_.explained([&] {
      meet_at(fmt::format("the function{} has returned on {}", call_.empty() ? "" : " of " + call_,
                          place_.name()),
              [&] { communicator_.barrier().wait(); });
    });
  }

  void before_collective(std::function<void()> listener) override {
    listener_ = std::move(listener);
  }

  std::string set_call(std::string call) override { return std::exchange(call_, std::move(call)); }

 private:
  ShapeExchange exchange_shapes(std::string verb, const Tensor& value) {
    if (listener_) listener_();
    return ShapeExchange(place_, communicator_, call_, std::move(verb), value);
  }

  const ReplicaPlace place_;
  Communicator& communicator_;
  Group& group_;
  std::function<void()> listener_;
  std::string call_;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(const ReplicaPlace& place, Communicator& communicator,
                                        Group& group) {
  return std::make_unique<CommunicatorExchange>(place, communicator, group);
}

}  // namespace muster::inline v0_1::distribute
