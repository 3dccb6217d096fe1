#include "muster/metrics/metric.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

using Kind = std::shared_ptr<const MetricKind>;

Kind kind_named(const std::string& name, const std::vector<Kind>& own) {
  for (const Kind& kind : own) {
    if (kind && kind->name == name) return kind;
  }
  if (Kind kind = find_metric_kind(name)) return kind;
  std::vector<std::string> names = metric_kind_names();
  for (const Kind& kind : own) {
    if (kind) names.push_back(kind->name);
  }
  throw invalid_argument(fmt::format("there is no metric of kind \"{}\"", name),
                         nearest_hint(name, names, "the kinds are " + join(names, ", ")));
}

Kind whole(Kind kind) {
  if (!kind) throw invalid_argument("a metric was made without a kind");
  if (kind->name.empty() || kind->empty.empty() || !kind->merge || !kind->result) {
    throw invalid_argument(
        fmt::format("the metric kind \"{}\" lacks a part", kind->name),
        "a kind has a name, the state that has seen nothing, a merge and a result");
  }
  if (kind->part_names.empty() == static_cast<bool>(kind->parts)) {
    throw invalid_argument(fmt::format("the metric kind \"{}\" has {}", kind->name,
                                       kind->parts ? "parts without names" : "names without parts"),
                           "give part_names and parts, or neither");
  }
  return kind;
}

void check_length(const MetricKind& kind, const std::vector<double>& state) {
  if (state.size() == kind.empty.size()) return;
  throw invalid_argument(fmt::format("the state of a {} metric has {} number{}, not {}", kind.name,
                                     kind.empty.size(), kind.empty.size() == 1 ? "" : "s",
                                     state.size()));
}

}  // namespace

struct Metric::Pending {
  std::once_flag once;
  std::function<std::vector<double>()> compute;
  std::vector<double> state;
};

Metric Metric::make(const std::string& kind, std::vector<double> state,
                    const std::vector<Kind>& own) {
  return make(kind_named(kind, own), std::move(state));
}

Metric Metric::make(Kind kind, std::vector<double> state) {
  return Metric(whole(std::move(kind))).with_state(std::move(state));
}

Metric Metric::deferred(const std::string& kind, std::function<std::vector<double>()> compute) {
  return deferred(kind_named(kind, {}), std::move(compute));
}

Metric Metric::deferred(Kind kind, std::function<std::vector<double>()> compute) {
  Metric metric(whole(std::move(kind)));
  metric.pending_ = std::make_shared<Pending>();
  metric.pending_->compute = std::move(compute);
  return metric;
}

const MetricKind& Metric::known_kind() const {
  if (kind_) return *kind_;
  throw invalid_argument("a metric that was default constructed has neither kind nor state",
                         "merge one into it first, or assign one: metric = metrics::mean(...)");
}

Metric Metric::with_state(std::vector<double> state) const {
  check_length(known_kind(), state);
  Metric metric(kind_);
  metric.state_ = std::move(state);
  return metric;
}

const std::vector<double>& Metric::state() const {
  (void)known_kind();
  if (!pending_) return state_;
  std::call_once(pending_->once, [this, &pending = *pending_] {
    std::vector<double> computed = pending.compute();
    check_length(*kind_, computed);
    pending.state = std::move(computed);
    pending.compute = nullptr;  // The tensors are no longer needed.
  });
  return pending_->state;
}

void Metric::merge(const Metric& other) {
  if (!defined()) {
    (void)other.known_kind();
    *this = other;
    return;
  }
  if (kind() != other.kind()) {
    throw invalid_argument(
        fmt::format("cannot merge a metric of kind {} into one of kind {}", other.kind(), kind()),
        "every replica must return the same metrics under the same names");
  }
  std::vector<double> merged = state();
  check_length(*kind_, other.state());
  kind_->merge(merged, other.state());
  state_ = std::move(merged);
  pending_.reset();
}

double Metric::result() const {
  const MetricKind& kind = known_kind();
  if (kind.caution) {
    if (const std::string said = kind.caution(state()); !said.empty()) {
      log::warning_once(
          fmt::format("the metric {}: {}", kind.name.substr(0, kind.name.find('(')), said));
    }
  }
  return kind.result(state());
}

double Metric::result_so_far() const { return known_kind().result(state()); }

std::vector<double> Metric::parts() const {
  const MetricKind& kind = known_kind();
  if (!kind.parts) return {};
  std::vector<double> parts = kind.parts(state());
  if (parts.size() != kind.part_names.size()) {
    throw invalid_argument(fmt::format("the metric kind \"{}\" read {} parts and names {}",
                                       kind.name, parts.size(), kind.part_names.size()));
  }
  return parts;
}

}  // namespace muster::inline v0_1
