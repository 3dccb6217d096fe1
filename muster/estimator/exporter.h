// Exporters write a model after an evaluation: the last one, each one, or the best so far.
// train_and_evaluate() calls those of an EvalSpec; a program may call them itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/export/serving_input_receiver.h"
#include "muster/train/results.h"

namespace muster::inline v0_1 {

class Estimator;

// Decides, after an evaluation, whether the model is exported.
// Thread safety: one thread.
class MUSTER_EXPORT Exporter {
 public:
  virtual ~Exporter() = default;
  // Distinguishes it from other exporters of an EvalSpec, and names its folder in
  // model_dir/export/.
  virtual const std::string& name() const = 0;
  // Exports the checkpoint with the prefix `checkpoint_path`, which gave `eval_result`, into a new
  // folder in `export_path`, or decides not to. Returns the written folder, or nothing.
  virtual std::optional<std::string> export_model(Estimator& estimator,
                                                  const std::string& export_path,
                                                  const std::string& checkpoint_path,
                                                  const EvalResult& eval_result,
                                                  bool is_the_final_export) = 0;
};

// An EvalSpec holds exporters in this form, so train_and_evaluate() and a program may share one.
using ExporterPtr = std::shared_ptr<Exporter>;

// Whether `current` is better than `best`.
using CompareFn = std::function<bool(const EvalResult& best, const EvalResult& current)>;

// Whether the "loss" of `current` is lower. Throws InvalidArgument, with the available metrics, if
// one has no loss.
MUSTER_EXPORT bool loss_smaller(const EvalResult& best, const EvalResult& current);
// Makes a comparison by another metric, such as "accuracy". The comparison throws as loss_smaller()
// does.
MUSTER_EXPORT CompareFn metric_higher(std::string metric);
MUSTER_EXPORT CompareFn metric_lower(std::string metric);

// Options of final_exporter().
struct FinalExporterOptions {
  bool use_ema = false;  // use the moving averages of the weights
  // Formats in addition to TorchScript: see ExportModelOptions.
  std::vector<std::string> formats{};
};

// Options of latest_exporter().
struct LatestExporterOptions {
  // The number of exports to keep; older ones are removed. nullopt keeps all.
  std::optional<int64_t> exports_to_keep = 5;
  bool use_ema = false;
  std::vector<std::string> formats{};
};

// Options of best_exporter().
struct BestExporterOptions {
  CompareFn compare = loss_smaller;
  // The number of exports to keep; the worst are removed. nullopt keeps all.
  std::optional<int64_t> exports_to_keep = 5;
  bool use_ema = false;
  std::vector<std::string> formats{};
};

// Exports once, when training has ended. All three functions throw InvalidArgument for an empty
// name, a name with a slash, and exports_to_keep < 1; their exporters throw the errors of
// Estimator::export_model().
MUSTER_EXPORT ExporterPtr final_exporter(std::string name, ServingInputReceiver receiver,
                                         FinalExporterOptions options = {});
// Exports after each evaluation.
MUSTER_EXPORT ExporterPtr latest_exporter(std::string name, ServingInputReceiver receiver,
                                          LatestExporterOptions options = {});
// Exports if the evaluation is better than all earlier ones for that `export_path`. The first
// always is; an equal one is not. The best evaluation and those of the existing exports are kept in
// best.json in `export_path`, so a restart loses nothing and the name of the evaluation does not
// matter. A NaN metric is never better.
MUSTER_EXPORT ExporterPtr best_exporter(std::string name, ServingInputReceiver receiver,
                                        BestExporterOptions options = {});

}  // namespace muster::inline v0_1
