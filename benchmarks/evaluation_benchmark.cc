// The cost of an evaluation compared with the forward passes that it makes: Estimator::evaluate
// over 10,000 small examples, and the same layers called on batches that lie ready in memory, in
// turns in one process. The former also makes the batches, computes loss and accuracy, merges them,
// and writes an event. The checkpoint is the same each time, as in a program that evaluates again
// and again.
#include <fmt/format.h>
#include <muster/muster.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/scratch.h"
#include "muster/distribute/variable_table.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int64_t kExamples = 10'000, kBatch = 100;

struct Network {
  const char* name;
  Shape row;  // of an example
  std::function<Layer()> make;
};

double seconds_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Wall clock and CPU time, over all threads, of one call.
struct Seconds {
  double wall, cpu;
};
Seconds timed(const std::function<void()>& work) {
  const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  work();
  return {seconds_of(CLOCK_MONOTONIC) - wall, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

// The forward passes alone.
class Forward {
 public:
  Forward(const Network& network, const Tensor& rows) : model_(network.make()) {
    for (int64_t begin = 0; begin < rows.size(0); begin += kBatch)
      batches_.push_back(rows.narrow(0, begin, kBatch).clone());
    pass();
  }
  void pass() {
    const torch::NoGradGuard no_grad;
    for (const Tensor& batch : batches_) {
      context_.begin_step(false, 0, 0);
      const CallContext::Scope scope(context_, name_);
      sink_ = model_(batch, context_);
    }
  }

 private:
  distribute::VariableTable table_{0};
  StepContext context_{table_, 0};
  std::string name_ = "net";
  Layer model_;
  std::vector<Tensor> batches_;
  Tensor sink_;
};

void measure(const Network& network, int pairs) {
  const Scratch scratch;
  Shape shape{kExamples};
  shape.insert(shape.end(), network.row.begin(), network.row.end());
  const Tensor rows = torch::rand(shape), labels = torch::randint(10, {kExamples}, at::kLong);
  const InputFn input = [&] {
    return Dataset::from_tensor_slices(Element::tuple({rows, labels})).batch(kBatch);
  };
  const ModelFn model_fn = [&](const Features& features, const Labels& truth, Mode mode,
                               ModelContext& context) {
    const Tensor logits = context.model("net", network.make)(features.tensor());
    const Tensor loss =
        losses::sparse_categorical_crossentropy(truth, logits, {.from_logits = true});
    if (mode == Mode::kEval)
      return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(truth, logits.argmax(-1))}});
    return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss));
  };
  Estimator estimator(
      model_fn,
      {.model_dir = scratch.path + "/model", .save_checkpoints_steps = 1, .progress_line = false});
  estimator.train(input, {.steps = 1});
  estimator.evaluate(input);
  set_threads(0);
  Forward forward(network, rows);
  std::vector<double> wall_all, wall_bare, cpu_all, cpu_bare;
  for (int pair = 0; pair < pairs; ++pair) {
    const Seconds bare = timed([&] { forward.pass(); });
    const Seconds all = timed([&] { estimator.evaluate(input); });
    wall_bare.push_back(bare.wall);
    wall_all.push_back(all.wall);
    cpu_bare.push_back(bare.cpu);
    cpu_all.push_back(all.cpu);
  }
  const auto show = [&](const char* clock, const std::vector<double>& all,
                        const std::vector<double>& bare) {
    const Estimate ratio = estimate_ratio(all, bare);
    fmt::print("{:<30}{:<12}{:>10.1f}{:>10.1f}{:>9.3f}   ({:.3f} to {:.3f})\n", network.name, clock,
               1e3 * estimate(all).median, 1e3 * estimate(bare).median, ratio.median, ratio.low,
               ratio.high);
  };
  show("wall clock", wall_all, wall_bare);
  show("CPU time", cpu_all, cpu_bare);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  bool quick = false;
  CLI::App app("What an evaluation costs; ./dev bench runs all benchmarks.");
  app.add_flag("--quick", quick, "Few samples, to see that it works");
  CLI11_PARSE(app, argc, argv);
  fmt::print("{:<30}{:<12}{:>10}{:>10}{:>9}   95 % interval\n", "10,000 examples, ms", "",
             "evaluate", "forward", "ratio");
  const int pairs = quick ? 7 : 41;
  measure(
      {"digits 28x28, convolution",
       {28, 28, 1},
       [] {
         return Sequential({Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(),
                            Flatten(), Dense(64, {.activation = activations::relu}), Dense(10)});
       }},
      pairs);
  measure({"digits 28x28, 512-512-10",
           {28, 28, 1},
           [] {
             return Sequential({Flatten(), Dense(512, {.activation = activations::relu}),
                                Dense(512, {.activation = activations::relu}), Dense(10)});
           }},
          pairs);
  measure({"table 13, 64-64-10",
           {13},
           [] {
             return Sequential({Dense(64, {.activation = activations::relu}),
                                Dense(64, {.activation = activations::relu}), Dense(10)});
           }},
          pairs);
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::run(argc, argv); }
