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
  // Tells it from the other exporters of an EvalSpec, and names its folder in model_dir/export/.
  virtual const std::string& name() const = 0;
  // Exports the checkpoint with the prefix `checkpoint_path`, which gave `eval_result`, into a
  // folder of its own in `export_path`, or decides not to. Returns the folder that was written;
  // nothing where none was.
  virtual std::optional<std::string> export_model(Estimator& estimator,
                                                  const std::string& export_path,
                                                  const std::string& checkpoint_path,
                                                  const EvalResult& eval_result,
                                                  bool is_the_final_export) = 0;
};

// What an EvalSpec holds: train_and_evaluate() and a program may share one.
using ExporterPtr = std::shared_ptr<Exporter>;

// Whether `current` is better than `best`.
using CompareFn = std::function<bool(const EvalResult& best, const EvalResult& current)>;

// Whether the "loss" of `current` is lower. Throws InvalidArgument, listing the metrics there are,
// when one has no loss.
MUSTER_EXPORT bool loss_smaller(const EvalResult& best, const EvalResult& current);
// Makes a comparison by another metric, such as "accuracy". What it makes throws as loss_smaller()
// does.
MUSTER_EXPORT CompareFn metric_higher(std::string metric);
MUSTER_EXPORT CompareFn metric_lower(std::string metric);

// Options of final_exporter().
struct FinalExporterOptions {
  bool use_ema = false;  // whether the weights are their moving averages
};

// Options of latest_exporter().
struct LatestExporterOptions {
  // Older ones are removed; nullopt keeps all.
  std::optional<int64_t> exports_to_keep = 5;
  bool use_ema = false;
};

// Options of best_exporter().
struct BestExporterOptions {
  CompareFn compare = loss_smaller;
  // The worst ones are removed; nullopt keeps all.
  std::optional<int64_t> exports_to_keep = 5;
  bool use_ema = false;
};

// Exports once: when training has ended. All three throw InvalidArgument for an empty name, one
// with a slash, and exports_to_keep < 1; what they make throws what Estimator::export_model()
// throws.
MUSTER_EXPORT ExporterPtr final_exporter(std::string name, ServingInputReceiver receiver,
                                         FinalExporterOptions options = {});
// Exports each time.
MUSTER_EXPORT ExporterPtr latest_exporter(std::string name, ServingInputReceiver receiver,
                                          LatestExporterOptions options = {});
// Exports when the evaluation is better than all that it was told of for that `export_path`; the
// first one always is, one that is equal is not. The best evaluation is kept in best.json in
// `export_path`, with those of the exports that are there, so that a restart forgets nothing and
// the name of the evaluation does not matter. A metric that is no number is never better.
MUSTER_EXPORT ExporterPtr best_exporter(std::string name, ServingInputReceiver receiver,
                                        BestExporterOptions options = {});

}  // namespace muster::inline v0_1
