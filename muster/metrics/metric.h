// A Metric is the mergeable state of a measurement: made from a batch, merged over batches and
// replicas, read at the end. Thread safety: a value; concurrent reads are safe.
//
// kind() and state() are all there is to it, so a metric can travel between tasks as numbers and be
// rebuilt there by Metric::make or with_state. States are kept in double: sums of counts are exact
// below 2^53, and other sums depend on the order of merging by rounding only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/metrics/metric_kind.h"

namespace muster::inline v0_1 {

class MUSTER_EXPORT Metric {
 public:
  // Makes a metric that nothing was seen with and that has no kind: it takes the kind of the first
  // one that is merged into it. Until then only definition() and defined() can be asked; all else
  // throws InvalidArgument.
  Metric() = default;
  // Whether it has a kind.
  bool defined() const { return kind_ != nullptr; }

  // Makes a metric of the kind of that name: one of `own`, or else one of Muster's. Throws
  // InvalidArgument for a kind that does not exist (the error lists those there are) and for a
  // state of another length.
  static Metric make(const std::string& kind, std::vector<double> state,
                     const std::vector<std::shared_ptr<const MetricKind>>& own = {});
  // Makes a metric of a kind that the caller holds. Throws InvalidArgument also for a kind that
  // lacks a part.
  static Metric make(std::shared_ptr<const MetricKind> kind, std::vector<double> state);
  // Makes a metric whose state `compute` gives when it is first needed.
  static Metric deferred(const std::string& kind, std::function<std::vector<double>()> compute);
  static Metric deferred(std::shared_ptr<const MetricKind> kind,
                         std::function<std::vector<double>()> compute);

  // Makes a metric of the same kind with a state that came from another task. Throws
  // InvalidArgument for a state of another length.
  Metric with_state(std::vector<double> state) const;

  // Gives the name of the kind.
  const std::string& kind() const { return known_kind().name; }
  // Gives the kind itself, nullptr when it has none.
  const std::shared_ptr<const MetricKind>& definition() const { return kind_; }
  // Gives what was seen, in the form of the kind. Throws InvalidArgument when a deferred state
  // turns out to have another length.
  const std::vector<double>& state() const;
  // Takes in what `other` has seen. Throws InvalidArgument when the kinds differ, or `other` has
  // none.
  void merge(const Metric& other);
  // Gives what the kind reads from the state. Where the number is not what it seems, as 0 for what
  // is not defined, a warning says so, once for each text.
  double result() const;
  // The same of what was seen so far, without the warning: more is to come.
  double result_so_far() const;
  // Gives the further numbers of a kind that has some, in the order of definition()->part_names;
  // empty for others. Throws InvalidArgument when the kind reads another number of them.
  std::vector<double> parts() const;

 private:
  struct Pending;
  explicit Metric(std::shared_ptr<const MetricKind> kind) : kind_(std::move(kind)) {}
  const MetricKind& known_kind() const;

  std::shared_ptr<const MetricKind> kind_;
  std::vector<double> state_;
  std::shared_ptr<Pending> pending_;  // stands for state_ until something is merged
};

}  // namespace muster::inline v0_1
