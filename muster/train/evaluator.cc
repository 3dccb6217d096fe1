#include "muster/train/evaluator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/data/stop_scope.h"
#include "muster/distribute/replica_threads.h"
#include "muster/plan/activity.h"
#include "muster/tensor/device_copier.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/engine.h"
#include "muster/train/hook_list.h"

namespace muster::inline v0_1 {
namespace {

using distribute::Replica;
using nlohmann::json;

// What the chief says, known to all.
json from_chief(Replica& replica, const std::string& name, const json& mine) {
  return json::parse(replica.group().gather_text(name, replica.is_chief() ? mine.dump() : "")[0]);
}

// Gives the chief's values to all. A replica without data may have built no model yet; it takes
// part anyway.
void share_values(ModelRunner& runner, Replica& replica) {
  if (replica.num_replicas_in_sync() == 1) return;
  json mine = json::array();
  for (const Variable* variable : runner.variables()) {
    mine.push_back({variable->name(), static_cast<int>(variable->spec().dtype),
                    variable->spec().shape, variable->spec().describe()});
  }
  const json chief = from_chief(replica, "evaluated_model", mine);
  if (!mine.empty() && mine != chief) {
    throw invalid_argument(
        fmt::format("replica {} built another model to evaluate than replica 0: {} instead of {}",
                    replica.replica_id(), mine.dump(), chief.dump()),
        "the model function must create the same variables on every replica");
  }
  std::vector<Tensor> values;
  for (const Variable* variable : runner.variables()) values.push_back(variable->value());
  for (size_t v = values.size(); v < chief.size(); ++v) {
    values.push_back(torch::empty(
        chief[v][2].get<Shape>(),
        at::device(replica.device()).dtype(static_cast<DType>(chief[v][1].get<int>()))));
  }
  replica.exchange().broadcast(values);
}

// What each batch of a replica measured.
class BatchMetrics {
 public:
  void add(const EstimatorSpec& spec) {
    batches_.push_back({spec.loss.item<double>(), {}});
    for (const auto& [name, metric] : spec.eval_metrics) {
      note(name, metric.kind(), metric.state().size(), metric.definition()->part_names);
      known_.emplace(name, metric);
      batches_.back().metrics.emplace(name, metric.state());
    }
  }

  // Over the batches of all replicas, in their order: batch i is the (i / n)-th of replica i mod n.
  // A replica that has seen no batch may not know kinds of the program's own, so each result is
  // that of the first replica which knows the kind.
  EvalResult merge(Replica& replica) {
    // Waits here, not in a collective, for a slower replica.
    for (const std::string& text :
         replica.group().gather_text("evaluated_metrics", kinds_.dump())) {
      const json kinds = json::parse(text);
      for (const auto& [name, kind] : kinds.items()) note(name, kind[0], kind[1], kind[2]);
    }
    const std::vector<Tensor> parts = replica.exchange().gather(rows(), 0);
    check_division(parts);
    const Merged mine = merged(parts);
    EvalResult result{{"loss", mine.loss}};
    const std::vector<Tensor> all = replica.exchange().gather(mine.results, 0);
    int64_t column = 0;
    for (const auto& [name, kind] : kinds_.items()) {
      const auto knows = [&](const Tensor& part) { return part[0][column].item<double>() > 0; };
      const auto first = std::ranges::find_if(all, knows);
      const double* numbers = first->data_ptr<double>() + column + 1;
      result[name] = *numbers++;
      for (const auto& part : kind[2]) result[name + "/" + part.get<std::string>()] = *numbers++;
      column += width_of_results(kind);
    }
    return result;
  }

 private:
  struct Measured {
    double loss{};
    std::map<std::string, std::vector<double>> metrics{};  // their states
  };

  void note(const std::string& name, const std::string& kind, size_t size,
            const std::vector<std::string>& parts) {
    const auto known = kinds_.find(name);
    if (known == kinds_.end()) {
      kinds_[name] = {kind, size, parts};
    } else if ((*known)[0] != kind || (*known)[1] != size) {
      throw invalid_argument(
          fmt::format("the metric \"{}\" is {} of {} numbers of one batch and {} of {} of another",
                      name, (*known)[0].get<std::string>(), (*known)[1].get<size_t>(), kind, size),
          "return the same metrics for every batch; a kind of another size needs another name");
    }
  }

  // Whether it is known, the result, and the parts.
  static int64_t width_of_results(const json& kind) {
    return 2 + static_cast<int64_t>(kind[2].size());
  }

  // Batches go to the replicas in turn, so the total says how many each replica gets.
  static void check_division(const std::vector<Tensor>& parts) {
    int64_t total = 0;
    for (const Tensor& part : parts) total += part.size(0);
    const auto replicas = static_cast<int64_t>(parts.size());
    for (int64_t r = 0; r < replicas; ++r) {
      const int64_t expected = (total - r + replicas - 1) / replicas;
      const int64_t evaluated = parts[static_cast<size_t>(r)].size(0);
      if (evaluated == expected) continue;
      throw invalid_argument(
          fmt::format("replica {} of {} evaluated {} batches; of {} in all it is dealt {}", r,
                      replicas, evaluated, total, expected),
          "the input function must describe the same data in every process: compare the files");
    }
  }

  // A row for each batch: its loss, then for each metric whether the batch has it, and its state.
  Tensor rows() const {
    int64_t width = 1;
    for (const auto& kind : kinds_) width += 1 + kind[1].get<int64_t>();
    Tensor all = torch::zeros({static_cast<int64_t>(batches_.size()), width}, at::kDouble);
    double* next = all.data_ptr<double>();
    for (const Measured& batch : batches_) {
      *next++ = batch.loss;
      for (const auto& [name, kind] : kinds_.items()) {
        const auto found = batch.metrics.find(name);
        *next++ = found != batch.metrics.end() ? 1 : 0;
        if (found != batch.metrics.end()) std::ranges::copy(found->second, next);
        next += kind[1].get<size_t>();
      }
    }
    return all;
  }

  // What this replica makes of the batches of all.
  struct Merged {
    double loss = 0;   // the mean
    Tensor results{};  // [1, numbers]: for each metric whether this replica knows its kind, its
                       // result, and its parts
  };

  // A metric of that name with `state`; nothing when this replica does not know its kind.
  std::optional<Metric> metric_of(const std::string& name, const std::string& kind,
                                  std::vector<double> state) const {
    const auto known = known_.find(name);
    if (known != known_.end()) return known->second.with_state(std::move(state));
    if (find_metric_kind(kind) == nullptr) return std::nullopt;
    return Metric::make(kind, std::move(state));
  }

  Merged merged(const std::vector<Tensor>& parts) const {
    const auto n = static_cast<int64_t>(parts.size());
    int64_t total = 0;
    for (const Tensor& part : parts) total += part.size(0);
    Merged merged;
    std::map<std::string, Metric> metrics;
    for (int64_t i = 0; i < total; ++i) {
      const Tensor& part = parts[static_cast<size_t>(i % n)];
      const double* next = part.data_ptr<double>() + (i / n) * part.size(1);
      merged.loss += *next++;
      for (const auto& [name, kind] : kinds_.items()) {
        const size_t size = kind[1];
        const bool there = *next++ > 0;
        const auto metric =
            there ? metric_of(name, kind[0], {next, next + size}) : std::optional<Metric>();
        if (metric) {
          const auto [sum, fresh] = metrics.emplace(name, *metric);
          if (!fresh) sum->second.merge(*metric);
        }
        next += size;
      }
    }
    merged.loss /= static_cast<double>(total);
    std::vector<double> results;
    for (const auto& [name, kind] : kinds_.items()) {
      const auto found = metrics.find(name);
      const size_t begin = results.size();
      results.resize(begin + static_cast<size_t>(width_of_results(kind)));
      if (found == metrics.end()) continue;
      results[begin] = 1;
      results[begin + 1] = found->second.result();
      std::ranges::copy(found->second.parts(), results.begin() + static_cast<int64_t>(begin) + 2);
    }
    merged.results = torch::tensor(results, at::kDouble).unsqueeze(0);
    return merged;
  }

  std::vector<Measured> batches_;
  std::map<std::string, Metric> known_;  // by name, of the first batch that has it
  json kinds_ = json::object();          // of metrics, by name: [kind, size of state, part names]
};

}  // namespace

namespace {

void begin_hooks(HookList& hooks, const ModelRunner& runner, const Replica& replica,
                 const EvaluateLoop& loop) {
  if (replica.place().local != 0) return;
  hooks.add(loop.hooks);
  hooks.add(runner.hooks());
  hooks.begin({.start_step = runner.global_step(),
               .num_replicas = replica.num_replicas_in_sync(),
               .is_chief = replica.is_chief(),
               .model_dir = loop.model_dir,
               .mode = Mode::kEval});
}

// Whether a hook ended the evaluation. Batches are dealt in turn, so none of several may.
bool ended_by_hook(const HookList& hooks, const Replica& replica) {
  if (!hooks.stop()) return false;
  if (replica.num_replicas_in_sync() == 1) return true;
  throw invalid_argument(
      fmt::format(
          "a hook requested the end of an evaluation on {} replicas, which share its batches",
          replica.num_replicas_in_sync()),
      "limit it with EvaluateOptions.steps, or evaluate on one replica");
}

// The model and the hooks, on batch number `index`.
void evaluate_batch(HookList& hooks, ModelRunner& runner, const Batch& batch, int64_t index,
                    BatchMetrics& measured) {
  hooks.before_step(runner.global_step());
  const EstimatorSpec spec = runner.run(batch, index);
  measured.add(spec);
  if (hooks.empty()) return;
  hooks.after_step({.global_step = runner.global_step(),
                    .loss = spec.loss.item<double>(),
                    .rows = batch.rows()});
}

// Logs a line for data that may never end; `made` batches were evaluated.
void tell_of_no_end(const Dataset& dataset, const EvaluateLoop& loop, int64_t made) {
  constexpr int64_t kMany = 10'000;
  const bool endless = dataset.cardinality() == kInfinite;
  if (loop.steps || made != (endless ? 0 : kMany)) return;
  const char* remedy =
      "set steps of EvaluateOptions or EvalSpec to a number of batches, or remove repeat() from "
      "the input function";
  if (endless) {
    log::warning(
        fmt::format("the evaluation will not end: its steps are not set, and its data repeats "
                    "without end: {}; {}",
                    dataset.describe(), remedy));
  } else {
    log::info(
        fmt::format("the evaluation has read {} batches and continues, because its steps are not "
                    "set; if its data never ends, {}",
                    made, remedy));
  }
}

EvalResult evaluate_with(HookList& hooks, ModelRunner& runner, Replica& replica,
                         const EvaluateLoop& loop) {
  const int64_t n = replica.num_replicas_in_sync();
  const DeviceScope here(replica.device());
  const DeviceCopier copy(replica.device());
  if (replica.is_chief() && loop.load) loop.load(runner);
  const data::StopScope stops_waits(loop.interrupted);
  const Dataset dataset = loop.input_fn(InputContext());
  const auto iterator =
      (n == 1 ? dataset : dataset.shard(n, replica.replica_id())).iterator({.seed = loop.seed});
  std::optional<Element> element;
  int64_t index = replica.replica_id();
  plan::ActivityRecord& activity = plan::this_activity();
  const auto next = [&] {
    std::optional<plan::InActivity> reads;
    if (activity.counts_batches()) reads.emplace(plan::Activity::kInput);
    element = !loop.steps || index < *loop.steps ? iterator->next() : std::nullopt;
    return element.has_value();
  };
  int64_t made = 0;
  const auto check_interrupted = [&] {
    if (!loop.interrupted || !loop.interrupted()) return;
    throw Error(ErrorKind::kCancelled, fmt::format("evaluation was stopped after {} batch{}", made,
                                                   made == 1 ? "" : "es"));
  };
  bool has_data = next();
  if (!has_data) check_interrupted();
  // The first batch is the chief's: if it has none, no task has one.
  const json start = from_chief(replica, "evaluate",
                                {{"has_data", has_data}, {"global_step", runner.global_step()}});
  if (!start.at("has_data").get<bool>()) {
    throw invalid_argument(
        "the evaluation input gave no data: " + dataset.describe(),
        "check the data directory and the transformations of the input function");
  }
  runner.set_global_step(start.at("global_step"));
  replica.group().report(distribute::Phase::kEvaluating, runner.global_step());
  if (has_data) runner.build(to_batch(copy(*element)));
  share_values(runner, replica);
  begin_hooks(hooks, runner, replica, loop);
  BatchMetrics measured;
  // An evaluation that failed may have left some.
  runner.summaries().clear();
  if (activity.counts_batches()) activity.forget_spent();
  for (; has_data; index += n, has_data = !ended_by_hook(hooks, replica) && next()) {
    if (replica.is_chief()) tell_of_no_end(dataset, loop, made);
    replica.group().check_failure();
    check_interrupted();
    const Batch batch = to_batch(copy(*element));
    runner.summaries().begin({.due = static_cast<bool>(loop.summarize),
                              .first = replica.is_chief(),
                              .batch = index,
                              .rows = batch.rows()});
    evaluate_batch(hooks, runner, batch, index, measured);
    ++made;
    if (activity.counts_batches()) activity.end_step(runner.global_step());
    if (loop.after_batch && replica.place().local == 0) loop.after_batch(index + 1);
  }
  check_interrupted();  // the data may have ended for it
  EvalResult result = measured.merge(replica);
  result["global_step"] = static_cast<double>(runner.global_step());
  if (loop.summarize) {
    std::vector<formats::SummaryValue> values = runner.summaries().take(replica.exchange());
    if (replica.is_chief()) loop.summarize(std::move(values));
  }
  if (replica.is_chief()) hooks.after_evaluate({runner.global_step(), loop.name, result});
  hooks.end(runner.global_step());
  return result;
}

}  // namespace

EvalResult evaluate(ModelRunner& runner, Replica& replica, const EvaluateLoop& loop) {
  HookList hooks;
  try {
    return evaluate_with(hooks, runner, replica, loop);
  } catch (...) {
    hooks.on_error(current_error());
    throw;
  }
}

ModelRunner& ModelRunners::get(size_t local_replica, Device device) {
  const std::lock_guard lock(mutex_);
  if (runners_.size() <= local_replica) runners_.resize(local_replica + 1);
  auto& runner = runners_[local_replica];
  if (!runner || runner->device() != device) runner = make_(device);
  return *runner;
}

EvalResult evaluate(ModelRunners& runners, const distribute::Strategy& strategy,
                    const distribute::StartOptions& start, const EvaluateLoop& loop) {
  const std::vector<std::unique_ptr<Replica>> replicas = strategy.start_replicas(start);
  EvaluateLoop shared = loop;
  shared.input_fn = called_once(loop.input_fn);
  EvalResult result;
  const auto work = [&](size_t local, const std::function<void()>& failing) {
    distribute::Replica& replica = *replicas[local];
    guarded(
        replica,
        [&] {
          distribute::check_in_step(replica, "an evaluation by all workers (eval_distribute)");
          EvalResult mine = evaluate(runners.get(local, replica.device()), replica, shared);
          replica.finish();
          if (local == 0) result = std::move(mine);
        },
        failing, [] { return std::string("in an evaluation"); });
  };
  if (replicas.size() == 1) {
    work(0, [] {});
  } else {
    distribute::ReplicaThreads(replicas.size()).run(work);
  }
  return result;
}

}  // namespace muster::inline v0_1
