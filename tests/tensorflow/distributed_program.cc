// The program of tools/peers/distributed.py, in Muster: a DNNClassifier that continues TensorFlow's
// checkpoint of step 0 in --model_dir, on the rows of --data_dir, with any strategy.
// tools/peers/distributed_compare.py runs and compares both.
#include <fmt/format.h>
#include <muster/muster.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

using namespace muster;
using namespace feature_column;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kBatch = 16;  // rows of a batch of a replica

// "worker-1"
std::string own_task() {
  const char* text = std::getenv("TF_CONFIG");
  const auto config = nlohmann::json::parse(text == nullptr ? "" : text, nullptr, false);
  if (config.is_discarded() || !config.contains("task")) return "worker-0";
  return fmt::format("{}-{}", config["task"]["type"].get<std::string>(),
                     config["task"]["index"].get<int>());
}

// The number of batches that `few` ("worker-1=20,worker-0=30") has for this task.
std::optional<int64_t> few_batches(const std::string& few) {
  std::istringstream parts(few);
  for (std::string part; std::getline(parts, part, ',');) {
    if (part.starts_with(own_task() + "=")) return std::stoll(part.substr(part.find('=') + 1));
  }
  return std::nullopt;
}

// Writes step and loss of each step of this task. A pause after each step makes the run last, so
// that a signal can strike a task at a step that was read from this file.
class Steps : public Hook {
 public:
  Steps(const std::string& path, Seconds pause) : file_(path, std::ios::app), pause_(pause) {}
  void after_step(const StepInfo& step) override {
    file_ << fmt::format("{} {:.9g}", step.global_step, step.loss) << std::endl;  // it is read now
    std::this_thread::sleep_for(pause_);
  }

 private:
  std::ofstream file_;
  Seconds pause_;
};

Dataset rows_of(const Flags& flags) {
  return data::csv({flags.data_dir + "/rows.csv"},
                   {.columns = {{.name = "size"},
                                {.name = "age"},
                                {.name = "city", .kind = data::CsvKind::kString},
                                {.name = "label", .kind = data::CsvKind::kInt64}},
                    .label = "label"});
}

}  // namespace

int main(int argc, char** argv) {
  std::string strategy = "one_device", few;
  double pause = 0;
  return run_main(
      argc, argv,
      [&](const Flags& flags) {
        const auto city = categorical_column_with_vocabulary_list("city", {"Oslo", "Rome", "Lima"});
        Estimator classifier =
            DNNClassifier({.hidden_units = {16, 8},
                           .feature_columns = {numeric_column("age"), numeric_column("size"),
                                               embedding_column(city, 2)},
                           .optimizer = optim::adagrad({.learning_rate = 0.05})},
                          {.model_dir = flags.model_dir,
                           .save_summary_steps = 1,
                           .save_checkpoints_steps = flags.save_checkpoints_steps.value_or(50),
                           .keep_checkpoint_max = 0,
                           .log_step_count_steps = 50,
                           .train_distribute = distribute::strategy_by_name(strategy)});
        const InputFn train_input = [&](const InputContext& context) {
          const Dataset rows = rows_of(flags)
                                   .shard(context.num_input_pipelines, context.input_pipeline_id)
                                   .repeat()
                                   .batch(kBatch);
          const auto count = few_batches(few);
          return count ? rows.take(*count) : rows;
        };
        const auto steps =
            std::make_shared<Steps>(flags.model_dir + "/steps." + own_task(), Seconds(pause));
        const auto result = train_and_evaluate(
            classifier,
            {.input_fn = train_input, .max_steps = flags.max_steps.value_or(100), .hooks = {steps}},
            {.input_fn = [&] { return rows_of(flags).batch(64); }, .steps = std::nullopt});
        if (result) print_result(*result);
      },
      {.description = "Continues a checkpoint of TensorFlow as the task that TF_CONFIG names.",
       .uses = {"data_dir", "model_dir", "max_steps", "save_checkpoints_steps"},
       .flags = {{"strategy", &strategy, "one_device, mirrored:N, multi_worker, parameter_server"},
                 {"pause", &pause, "seconds after each step"},
                 {"few", &few, "TASK=BATCHES,…: that task's data end so early"}}});
}
