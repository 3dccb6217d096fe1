#include "muster/estimator/train_and_evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/estimator/exporter.h"
#include "muster/estimator/internal/evaluation_input.h"
#include "muster/estimator/internal/evaluator_link.h"
#include "muster/estimator/internal/evaluator_task.h"
#include "muster/estimator/internal/exporter_name.h"
#include "muster/estimator/internal/train_and_evaluate_schedule.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

// "EvalSpec.steps", or "EvalSpec \"test\": steps" if several specs must be distinguished.
std::string field_of(const EvalSpec& spec, bool several, const char* field) {
  return several ? fmt::format("EvalSpec \"{}\": {}", spec.name, field)
                 : fmt::format("EvalSpec.{}", field);
}

void check_positive(const std::string& field, const std::optional<int64_t>& value) {
  if (value && *value <= 0) {
    throw invalid_argument(fmt::format("{} is {}; it must be more than 0", field, *value),
                           "std::nullopt is not a limit");
  }
}

Error no_input(const std::string& field) {
  return invalid_argument(field + " is empty", "give it a function that returns a Dataset");
}

void check_exporters(const EvalSpec& spec, bool several, std::set<std::string>& names) {
  const std::string field = field_of(spec, several, "exporters");
  for (const auto& exporter : spec.exporters) {
    if (!exporter) throw invalid_argument(field + " holds an empty one");
    const std::string& name = exporter->name();
    if (!internal::names_a_folder(name)) {
      throw invalid_argument(
          fmt::format("{}: the name of an exporter is \"{}\"; it must be a word without a slash",
                      field, name),
          "it names a folder of model_dir/export");
    }
    if (!names.insert(name).second) {
      throw invalid_argument(fmt::format("{}: two exporters have the name \"{}\"", field, name),
                             "give each a different name: it names a folder of model_dir/export");
    }
  }
}

void check_names(const std::vector<EvalSpec>& specs) {
  std::set<std::string> names;
  for (const EvalSpec& spec : specs) {
    check_evaluation_name("EvalSpec.name", spec.name);
    if (specs.size() > 1 && spec.name.empty()) {
      throw invalid_argument(
          fmt::format("EvalSpec.name is \"\", and there are {} EvalSpecs", specs.size()),
          "give each a different name: it names the results and the events");
    }
    if (!names.insert(spec.name).second) {
      throw invalid_argument(fmt::format("two EvalSpecs have the name \"{}\"", spec.name),
                             "give each a different name: it names the results and the events");
    }
  }
}

void validate(const Estimator& estimator, const TrainSpec& train_spec,
              const std::vector<EvalSpec>& specs) {
  if (!train_spec.input_fn) throw no_input("TrainSpec.input_fn");
  check_positive("TrainSpec.max_steps", train_spec.max_steps);
  check_hooks(train_spec.hooks, "TrainSpec.hooks");
  if (specs.empty()) {
    throw invalid_argument("train_and_evaluate got no EvalSpec",
                           "give one, or call Estimator::train()");
  }
  const bool several = specs.size() > 1;
  check_names(specs);
  std::set<std::string> exporters;
  for (const EvalSpec& spec : specs) {
    if (!spec.input_fn) throw no_input(field_of(spec, several, "input_fn"));
    check_positive(field_of(spec, several, "steps"), spec.steps);
    check_hooks(spec.hooks, field_of(spec, several, "hooks").c_str());
    for (const auto& [field, value] : {std::pair{"throttle_secs", spec.throttle_secs},
                                       std::pair{"start_delay_secs", spec.start_delay_secs}}) {
      if (value.count() >= 0) continue;
      throw invalid_argument(fmt::format("{} is {}; it must be 0 or more",
                                         field_of(spec, several, field), value.count()));
    }
    check_exporters(spec, several, exporters);
  }
  const RunConfig& config = estimator.config();
  if (config.keep_best && std::ranges::none_of(specs, [&](const EvalSpec& spec) {
        return spec.name == config.keep_best->evaluation;
      })) {
    throw invalid_argument(fmt::format("RunConfig.keep_best.evaluation is \"{}\", and no EvalSpec "
                                       "has that name",
                                       config.keep_best->evaluation),
                           "set it to the name of the EvalSpec that decides");
  }
  if (config.save_checkpoints_steps.value_or(1) == 0 ||
      config.save_checkpoints_secs == Seconds(0)) {
    throw invalid_argument("train_and_evaluate evaluates checkpoints, and RunConfig disables them",
                           "set save_checkpoints_steps or save_checkpoints_secs to more than 0");
  }
}

bool evaluates_together(const internal::EstimatorAccess::Impl& impl) {
  const auto& strategy = impl.config.eval_distribute;
  return strategy && strategy->multi_worker();
}

// Whether this task evaluates, as far as it can know before training: an evaluator that the
// launcher starts, or that works already, does it in its place.
bool evaluates_here(const internal::EstimatorAccess::Impl& impl, internal::EvaluatorLink* link) {
  if (evaluates_together(impl)) return true;
  return link != nullptr && impl.run_id().empty() && !link->evaluator_works();
}

}  // namespace

TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const std::vector<EvalSpec>& eval_specs) {
  validate(estimator, train_spec, eval_specs);
  Estimator::Impl& impl = *estimator.impl_;
  const Estimator::Impl::UnderWay under_way(impl);
  const cluster::ResolvedCluster& task = impl.resolve();
  if (task.is_evaluator) {
    try {
      return internal::EvaluatorTask(estimator, eval_specs, train_spec.max_steps).run();
    } catch (const Error& error) {
      if (!impl.was_asked_to_stop(error)) throw;
      log::info(fmt::format("stopped by its program: {}", error.message()));
      return {};
    }
  }
  std::optional<internal::EvaluatorLink> link;
  if (task.is_chief) {
    link.emplace(internal::EvaluatorLink::Options{.model_dir = impl.directory(),
                                                  .task = task.task,
                                                  .run = impl.run_id(),
                                                  .fs = &impl.fs(),
                                                  .clock = &impl.clock(),
                                                  .cancelled = [&impl] { return impl.stops(); }});
  }
  internal::TrainAndEvaluateSchedule evaluations(
      estimator, eval_specs, train_spec.max_steps,
      {.alone = [&](const InputFn& input_fn,
                    const EvaluateOptions& options) { return impl.evaluate(input_fn, options); },
       .together =
           [&](const InputFn& input_fn, const EvaluateOptions& options,
               distribute::Replica& replica) {
             return impl.evaluate_on(input_fn, options, replica);
           }},
      link ? &*link : nullptr);
  TrainCallbacks callbacks;
  callbacks.after_save = [&](int64_t step, const Saved& saved, distribute::Replica& replica) {
    evaluations.after_save(step, saved, replica);
  };
  callbacks.at_end = [&](int64_t step, bool trained, distribute::Replica& replica) {
    evaluations.at_end(step, trained, replica);
  };
  const auto look = [&] {
    if (!evaluates_here(impl, link ? &*link : nullptr)) return;
    try {
      internal::look_at_inputs(eval_specs);
    } catch (const Error& error) {
      // An evaluator, which this environment does not mention, may have the missing data.
      if (task.source.empty() || evaluates_together(impl)) throw;
      log::warning(fmt::format(
          "{}; the run ends with this error unless an evaluator task evaluates", error.message()));
    }
  };
  if (link) callbacks.other_evaluations = [&] { return link->take_evaluations(); };
  try {
    return evaluations.result(
        impl.train(internal::preceded_by(train_spec.input_fn, look),
                   {.max_steps = train_spec.max_steps, .hooks = train_spec.hooks}, callbacks));
  } catch (...) {
    if (link) link->failed(current_error());
    throw;
  }
}

std::optional<EvalResult> train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                             const EvalSpec& eval_spec) {
  const auto last = train_and_evaluate(estimator, train_spec, std::vector<EvalSpec>{eval_spec});
  const auto found = last.evaluations.find(eval_spec.name);
  if (found == last.evaluations.end()) return std::nullopt;
  return found->second;
}

}  // namespace muster::inline v0_1
