#include "model.h"

#include "input.h"

using namespace muster;

ModelFn make_model_fn(const ModelOptions& options) {
  // Muster calls this for every batch, on every worker. The context finds layers and optimizers by
  // name: the first call makes them, later calls return them.
  return
      [options](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
        auto model = context.model("classifier", [&] {
          return Sequential({Dense(options.hidden_units, {.activation = activations::relu}),
                             Dense(options.hidden_units, {.activation = activations::relu}),
                             Dense(kClasses)});
        });
        const Tensor logits = model(features["point"]);  // [batch, kClasses]
        const Tensor classes = logits.argmax(-1);
        if (mode == Mode::kPredict) {
          return EstimatorSpec::predict(
              {{"class", classes}, {"probability", std::get<0>(logits.softmax(-1).max(-1))}});
        }
        const Tensor loss =
            losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
        if (mode == Mode::kEval) {
          return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, classes)}});
        }
        auto adam = context.optimizer(optim::adam({.learning_rate = options.learning_rate}));
        return EstimatorSpec::train(loss, adam.minimize(loss));
      };
}
