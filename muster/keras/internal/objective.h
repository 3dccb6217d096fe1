// The loss and the metrics of a batch, made by compile() from its options. Thread safety:
// immutable; calls are safe from several threads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/keras/compile_options.h"
#include "muster/losses/reduction.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/batch.h"

namespace muster::inline v0_1::keras::internal {

// The measurements of a batch.
struct Measured {
  Tensor loss{};                  // scalar, with its graph in training
  std::vector<Metric> metrics{};  // in the order of Objective::metric_names()
};

class Objective {
 public:
  // Throws InvalidArgument for an unknown output, a missing loss, losses of several reductions, and
  // two metrics of one name.
  Objective(const CompileOptions& options, std::vector<std::string> output_names);

  // The loss of all outputs, and the metrics, whose states are computed. `class_weight` may be
  // empty. Throws InvalidArgument for another number of outputs and for labels that do not fit, and
  // the errors of losses and metrics, with the name of the output.
  Measured measure(const Batch& batch, const std::vector<Tensor>& outputs,
                   const std::vector<double>& class_weight) const;

  const std::vector<std::string>& metric_names() const { return metric_names_; }
  // Which values of each of them are better, as the program declared it; for losses the lower ones.
  const std::vector<Better>& better() const { return better_; }
  ReduceOp reduction() const { return reduction_; }
  // The objective and metrics in words, by which two of them are distinguished.
  std::string describe() const;

 private:
  struct Choice {
    MetricChoice metric;
    bool weighted;
  };
  // The objective of one output.
  struct Part {
    std::string name{};
    Loss loss{};
    double weight = 1;
    std::vector<Choice> metrics{};
  };
  // Adds the metrics that are called so in Logs.
  void add(Part& part, const std::vector<MetricChoice>& metrics, bool weighted);
  void measure_part(size_t index, const Batch& batch, const Tensor& output,
                    const std::vector<double>& class_weight, Measured& measured) const;

  std::vector<std::string> output_names_;
  std::vector<Part> parts_;
  std::vector<std::string> metric_names_;
  std::vector<Better> better_;
  ReduceOp reduction_ = ReduceOp::kMean;
};

}  // namespace muster::inline v0_1::keras::internal
