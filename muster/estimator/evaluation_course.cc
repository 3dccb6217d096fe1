#include "muster/estimator/internal/evaluation_course.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/log.h"
#include "muster/estimator/exporter.h"
#include "muster/plan/activity.h"
#include "muster/train/user_call.h"

namespace muster::inline v0_1::internal {

InputFn SharedInput::at(int64_t step) {
  const std::lock_guard lock(mutex_);
  if (!shared_ || step_ != step) shared_ = called_once(input_fn_);
  step_ = step;
  return shared_;
}

std::string EvaluationCourse::in_brackets() const {
  return spec_.name.empty() ? std::string() : fmt::format(" ({})", spec_.name);
}

EvaluateOptions EvaluationCourse::options(const std::string& checkpoint_path) const {
  EvaluateOptions options{
      .steps = spec_.steps, .hooks = spec_.hooks, .name = spec_.name, .use_ema = spec_.use_ema};
  if (!checkpoint_path.empty()) options.checkpoint_path = checkpoint_path;
  return options;
}

void EvaluationCourse::note(int64_t step, TimePoint begun, Evaluated evaluated) {
  EstimatorAccess::Impl& impl = EstimatorAccess::impl(estimator_);
  step_ = step;
  begun_ = begun;
  last_ = std::move(evaluated);
  file_ = checkpoint_file_of(last_.checkpoint, impl.fs());
  exported_.clear();
  told_final_ = false;
  if (impl.best) impl.best->note(spec_.name, last_.checkpoint, last_.result);
}

void EvaluationCourse::restore(const JournalEntry& entry, const std::string& prefix) {
  step_ = entry.step();
  last_ = {entry.metrics, prefix};
  file_ = {.name = entry.checkpoint, .version = entry.version, .step = entry.step()};
  exported_ = entry.exports;
  told_final_ = entry.is_final;
}

void EvaluationCourse::call_exporters(bool is_final, Exports* exports) {
  if (told_final_) return;
  told_final_ = is_final;
  const plan::InActivity exports_here(plan::Activity::kExporting);
  for (const ExporterPtr& exporter : spec_.exporters) {
    if (exported_.contains(exporter->name())) continue;
    const std::string folder =
        join_path(join_path(estimator_.model_dir(), "export"), exporter->name());
    std::optional<std::string> written;
    try {
      written =
          exporter->export_model(estimator_, folder, last_.checkpoint, last_.result, is_final);
    } catch (...) {
      rethrow_with_place("an exporter",
                         fmt::format("in exporter \"{}\" at step {}", exporter->name(), *step_),
                         [](const std::string&) { return std::string(); });
    }
    if (!written) continue;
    exported_[exporter->name()] = *written;
    (*exports)[exporter->name()].push_back(*written);
    log::event(
        "exported",
        {{"exporter", exporter->name()},
         {"folder", *written},
         {"global_step", *step_},
         {"final", is_final}},
        fmt::format("exporter \"{}\" exported step {} to {}", exporter->name(), *step_, *written));
  }
}

JournalEntry EvaluationCourse::entry() const {
  const cluster::ResolvedCluster& task = estimator_.cluster();
  return {.name = spec_.name,
          .checkpoint = file_.name,
          .version = file_.version,
          .metrics = last_.result,
          .exports = exported_,
          .is_final = told_final_,
          .task = task.task.name(),
          .run = EstimatorAccess::impl(estimator_).run_id()};
}

}  // namespace muster::inline v0_1::internal
