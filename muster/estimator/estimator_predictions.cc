#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/distribute/exchange.h"
#include "muster/estimator/internal/estimator_impl.h"
#include "muster/tensor/device_copier.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/row_padding.h"
#include "muster/tensor/threads.h"
#include "muster/train/hook_list.h"

namespace muster::inline v0_1 {

struct Predictions::Impl {
  explicit Impl(std::unique_ptr<ModelRunner> model)
      : runner(std::move(model)), copy(runner->device()), padding(runner->device()) {}

  const std::unique_ptr<ModelRunner> runner{};
  const DeviceCopier copy;
  RowPadding padding;
  std::function<std::unique_ptr<Iterator>()> open{};  // at the first call
  std::unique_ptr<Iterator> iterator{};
  PredictOptions options;
  Prediction::Outputs batch;
  int64_t batches = 0;
  int64_t row = 0;
  int64_t rows = 0;
  // Makes the writer of the summaries; unset if there are none.
  std::function<std::unique_ptr<summary::EventWriter>()> open_writer{};

  HookList hooks;
  std::string model_dir{};  // for hooks
  bool ended = false;

  ~Impl() {
    try {
      write_summaries();
      end();
    } catch (...) {
      const Error error = current_error();
      ended = true;
      hooks.on_error(error);
      log::warning("the end of predictions failed: " + error.message());
    }
  }

  // No batch follows.
  void end() {
    if (!std::exchange(ended, true)) hooks.end(runner->global_step());
  }

  // Runs the model, which is built, on a batch of `given` rows, and calls the hooks.
  EstimatorSpec run(const Batch& input, int64_t given) {
    if (batches == 0) {
      hooks.add(options.hooks);
      hooks.add(runner->hooks());
      hooks.begin(
          {.start_step = runner->global_step(), .model_dir = model_dir, .mode = Mode::kPredict});
    }
    hooks.before_step(runner->global_step());
    EstimatorSpec spec = runner->run(input, batches++);
    hooks.after_step({.global_step = runner->global_step(), .rows = given});
    return spec;
  }

  // Once, when no batch follows.
  void write_summaries() {
    const auto open = std::exchange(open_writer, nullptr);
    if (!open || batches == 0) return;
    const auto writer = open();
    const auto alone = distribute::make_lone_exchange();
    writer->add_values(runner->summaries().take(*alone), runner->global_step());
    writer->close();
  }

  bool next_batch() {
    try {
      return make_batch();
    } catch (...) {
      ended = true;
      hooks.on_error(current_error());
      throw;
    }
  }

  bool make_batch() {
    if (!iterator) iterator = open();
    std::optional<Element> element;
    if (!ended && !hooks.stop()) element = iterator->next();
    if (!element) {
      write_summaries();
      end();
      return false;
    }
    const DeviceScope here(runner->device());
    const Features features = to_batch(*element).features;
    const int64_t given = features.rows();
    // Summaries would count the added rows.
    const bool pads = given > 0 && !open_writer;
    const Batch input{
        Features(copy(pads ? padding(features.element(), given) : features.element())), Labels()};
    runner->build(input);  // a call of its own, which shows nothing
    runner->summaries().begin(
        {.due = static_cast<bool>(open_writer), .batch = batches, .rows = given});
    EstimatorSpec spec = run(input, given);
    batch.clear();
    for (auto& [name, tensor] : spec.predictions) {
      if (!options.predict_keys.empty() &&
          std::find(options.predict_keys.begin(), options.predict_keys.end(), name) ==
              options.predict_keys.end()) {
        continue;
      }
      batch[name] = pads ? padding.cut(tensor.cpu()) : tensor.cpu();
    }
    if (batch.empty()) {
      std::string known;
      for (const auto& [name, tensor] : spec.predictions)
        known += (known.empty() ? "" : ", ") + name;
      throw invalid_argument(
          fmt::format("none of the predict_keys ({}) is a prediction of this model",
                      muster::join(options.predict_keys, ", ")),
          "it gives: " + known);
    }
    rows = batch.begin()->second.size(0);
    row = 0;
    for (const auto& [name, tensor] : batch) {
      if (options.yield_single_examples && tensor.size(0) != rows) {
        rows = 0;
        throw invalid_argument(
            fmt::format("the predictions \"{}\" ({}) and \"{}\" ({}) have different batch sizes",
                        batch.begin()->first, describe(batch.begin()->second), name,
                        describe(tensor)),
            "set yield_single_examples = false to get whole batches");
      }
    }
    return true;
  }
};

Predictions::Predictions(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Predictions::~Predictions() = default;
Predictions::Predictions(Predictions&&) noexcept = default;

std::optional<Prediction> Predictions::next() {
  if (!impl_->options.yield_single_examples) {
    if (!impl_->next_batch()) return std::nullopt;
    return Prediction(impl_->batch);
  }
  while (impl_->row == impl_->rows) {
    if (!impl_->next_batch()) return std::nullopt;
  }
  Prediction::Outputs row;
  for (const auto& [name, tensor] : impl_->batch) row[name] = tensor[impl_->row];
  ++impl_->row;
  return Prediction(std::move(row));
}

Predictions Estimator::predict(const InputFn& input_fn, const PredictOptions& options) {
  if (!input_fn) throw invalid_argument("predict needs an input function");
  check_hooks(options.hooks, "PredictOptions.hooks");
  set_threads(0);
  auto impl = std::make_unique<Predictions::Impl>(
      std::make_unique<ModelRunner>(impl_->model_fn, Mode::kPredict, impl_->seed(), impl_->params,
                                    impl_->eval_strategy()->device()));
  impl->options = options;
  impl->model_dir = impl_->directory();
  Predictions::Impl* state = impl.get();
  // Not `this`: an Estimator may be moved.
  impl->open = [estimator = impl_.get(), input_fn, state] {
    estimator->load(*state->runner, Estimator::Impl::values_of(state->options), "predicting");
    return input_fn(InputContext{}).iterator({.seed = estimator->seed()});
  };
  if (!options.summary_dir.empty()) {
    impl->open_writer = [estimator = impl_.get(), directory = options.summary_dir] {
      return std::make_unique<summary::EventWriter>(directory, estimator->fs(), estimator->clock());
    };
  }
  return Predictions(std::move(impl));
}

}  // namespace muster::inline v0_1
