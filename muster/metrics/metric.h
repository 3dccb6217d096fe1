// A Metric is the mergeable state of a measurement: made from a batch, merged over batches and
// replicas, read at the end. Thread safety: a value; concurrent reads are safe.
//
// kind() and state() describe it completely, so a metric can be sent to another task as numbers and
// rebuilt there by Metric::make or with_state. States are double: sums of counts are exact below
// 2^53, and other sums depend on the order of merging only by rounding.
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
  // Makes a metric without data and without a kind: it takes the kind of the first metric merged
  // into it. Until then only definition() and defined() may be called; other calls throw
  // InvalidArgument.
  Metric() = default;
  // Whether it has a kind.
  bool defined() const { return kind_ != nullptr; }

  // Makes a metric of the kind with that name: one of `own`, or else one of Muster's. Throws
  // InvalidArgument for an unknown kind (the error lists the known ones) and for a state of another
  // length.
  static Metric make(const std::string& kind, std::vector<double> state,
                     const std::vector<std::shared_ptr<const MetricKind>>& own = {});
  // Makes a metric of the given kind. Also throws InvalidArgument for a kind with a missing part.
  static Metric make(std::shared_ptr<const MetricKind> kind, std::vector<double> state);
  // Makes a metric whose state `compute` returns when it is first needed.
  static Metric deferred(const std::string& kind, std::function<std::vector<double>()> compute);
  static Metric deferred(std::shared_ptr<const MetricKind> kind,
                         std::function<std::vector<double>()> compute);

  // Makes a metric of the same kind with a state from another task. Throws InvalidArgument for a
  // state of another length.
  Metric with_state(std::vector<double> state) const;

  // Returns the name of the kind.
  const std::string& kind() const { return known_kind().name; }
  // Returns the kind, or nullptr without one.
  const std::shared_ptr<const MetricKind>& definition() const { return kind_; }
  // Returns the state, in the form of the kind. Throws InvalidArgument if a deferred state has
  // another length.
  const std::vector<double>& state() const;
  // Adds the data of `other`. Throws InvalidArgument when the kinds differ, or `other` has none.
  void merge(const Metric& other);
  // Returns the number that the kind computes from the state. If it may mislead, such as a 0 for an
  // undefined value, logs a warning, once for each text.
  double result() const;
  // The same without the warning, for use before all data is merged.
  double result_so_far() const;
  // Returns the further numbers of the kind, in the order of definition()->part_names; empty if it
  // has none. Throws InvalidArgument when the kind computes another number of them.
  std::vector<double> parts() const;

 private:
  struct Pending;
  explicit Metric(std::shared_ptr<const MetricKind> kind) : kind_(std::move(kind)) {}
  const MetricKind& known_kind() const;

  std::shared_ptr<const MetricKind> kind_;
  std::vector<double> state_;
  std::shared_ptr<Pending> pending_;  // replaces state_ until the first merge
};

}  // namespace muster::inline v0_1
