#include "muster/metrics/metric.h"

#include <fmt/format.h>

#include <mutex>

#include "muster/base/error.h"

namespace muster::inline v0_1 {
namespace {

constexpr const char* kMean = "mean";
constexpr const char* kAccuracy = "accuracy";
constexpr size_t kStateSize = 2;  // total, weight

void check_kind(const std::string& kind) {
  if (kind == kMean || kind == kAccuracy) return;
  throw invalid_argument(fmt::format("there is no metric of kind \"{}\"", kind),
                         fmt::format("the kinds are {}, {}", kAccuracy, kMean));
}

}  // namespace

struct Metric::Pending {
  std::once_flag once;
  std::function<std::vector<double>()> compute;
  std::vector<double> state;
};

Metric::Metric(std::string kind, std::vector<double> state)
    : kind_(std::move(kind)), state_(std::move(state)) {}

Metric Metric::make(const std::string& kind, std::vector<double> state) {
  check_kind(kind);
  if (state.size() != kStateSize) {
    throw invalid_argument(fmt::format("the state of a {} metric has {} numbers, not {}", kind,
                                       kStateSize, state.size()));
  }
  return Metric(kind, std::move(state));
}

Metric Metric::deferred(const std::string& kind, std::function<std::vector<double>()> compute) {
  check_kind(kind);
  Metric metric(kind, {});
  metric.pending_ = std::make_shared<Pending>();
  metric.pending_->compute = std::move(compute);
  return metric;
}

const std::vector<double>& Metric::state() const {
  if (!pending_) return state_;
  std::call_once(pending_->once, [&pending = *pending_] {
    pending.state = pending.compute();
    pending.compute = nullptr;  // lets the tensors go
  });
  return pending_->state;
}

void Metric::merge(const Metric& other) {
  if (kind_ != other.kind_) {
    throw invalid_argument(
        fmt::format("cannot merge a metric of kind {} into one of kind {}", other.kind_, kind_),
        "every replica must return the same metrics under the same names");
  }
  if (pending_) {
    state_ = state();
    pending_.reset();
  }
  const std::vector<double>& more = other.state();
  for (size_t i = 0; i < state_.size(); ++i) state_[i] += more[i];
}

double Metric::result() const {
  const std::vector<double>& sums = state();
  return sums[1] == 0 ? 0.0 : sums[0] / sums[1];
}

}  // namespace muster::inline v0_1
