// Helpers of tests in which a chief and an evaluator, each in a thread of this process, stand
// next to one model_dir.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/file_system.h"
#include "muster/estimator/exporter.h"
#include "muster/estimator/internal/evaluation_journal.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1::testing {

inline FileSystem& disk() { return file_systems(); }

inline Environment evaluator_environment(int index = 0) {
  return Environment{{"TF_CONFIG", fmt::format(R"({{"cluster":{{"chief":["host0:2222"]}},)"
                                               R"("task":{{"type":"evaluator","index":{}}}}})",
                                               index)}};
}

inline RunConfig evaluator_config(const std::string& model_dir, int index = 0) {
  return quiet_config(model_dir, nullptr, evaluator_environment(index));
}

// The steps in the journal of a model_dir, once for each evaluation.
inline std::vector<int64_t> evaluated_steps(const std::string& model_dir,
                                            const std::string& name = {}) {
  internal::EvaluationJournal journal(model_dir, disk(), system_clock());
  std::vector<int64_t> steps;
  for (const internal::JournalEntry& entry : journal.read_new()) {
    // The final one may be noted once more.
    if (entry.name == name && (steps.empty() || steps.back() != entry.step() || !entry.is_final))
      steps.push_back(entry.step());
  }
  return steps;
}

// The step that was evaluated and of which exporters were told last; below 0: as the final one.
class NotesExports : public Exporter {
 public:
  const std::string& name() const override { return name_; }
  std::optional<std::string> export_model(Estimator&, const std::string&,
                                          const std::string& checkpoint_path, const EvalResult&,
                                          bool is_the_final_export) override {
    const int64_t step = checkpoint_step(checkpoint_path);
    steps.push_back(is_the_final_export ? -step : step);
    if (step == fails_at) throw invalid_argument("this exporter fails");
    return std::nullopt;
  }
  std::vector<int64_t> steps;
  int64_t fails_at = -1;

 private:
  std::string name_ = "notes";
};

// What evaluates in one task, and what came of it.
struct Evaluating {
  std::atomic<int> inputs{0};
  std::function<void()> at_input = [] {};
  std::shared_ptr<NotesExports> exporter = std::make_shared<NotesExports>();

  EvalSpec spec() {
    return {.input_fn =
                [this] {
                  ++inputs;
                  at_input();
                  return examples(20).batch(10);
                },
            .exporters = {exporter}};
  }
};

// An evaluator in a thread of its own.
class Beside {
 public:
  Beside(RunConfig config, TrainSpec training, EvalSpec spec, ModelFn model = two_layers)
      : result_(std::async(std::launch::async,
                           [config = std::move(config), training = std::move(training),
                            spec = std::move(spec), model = std::move(model)] {
                             Estimator estimator(model, config);
                             return train_and_evaluate(estimator, training, spec);
                           })) {}
  std::optional<EvalResult> get() { return result_.get(); }
  bool ended() { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

 private:
  std::future<std::optional<EvalResult>> result_;
};

// Trains on only when what was saved has been evaluated, so that a test knows who comes first.
class KeepsPace : public Hook {
 public:
  explicit KeepsPace(std::string name = {}) : name_(std::move(name)) {}
  void begin(const RunInfo& info) override {
    model_dir_ = info.model_dir;
    await([&] { return disk().exists(join_path(model_dir_, "evaluator.lease")).value(); });
  }
  // Not after_save(): a thread writes the file, and the next steps could be over before.
  void before_save(int64_t step) override { saved_ = step; }
  void before_step(int64_t) override {
    if (saved_ <= 0) return;
    await([&] {
      const std::vector<int64_t> steps = evaluated_steps(model_dir_, name_);
      return !steps.empty() && steps.back() == saved_;
    });
  }
  void after_evaluate(int64_t step, const std::string&,
                      const std::map<std::string, double>&) override {
    heard.push_back(step);
  }
  std::vector<int64_t> heard;

 private:
  const std::string name_;
  std::string model_dir_;
  int64_t saved_ = 0;
};

inline TrainSpec training_to(int64_t max_steps, std::vector<std::shared_ptr<Hook>> hooks = {}) {
  return {.input_fn = shuffled_batches(64, 8), .max_steps = max_steps, .hooks = std::move(hooks)};
}

}  // namespace muster::inline v0_1::testing
