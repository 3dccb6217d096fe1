// Handwritten digits with a Keras model: layers, compile() and fit(); no model function. On one
// process, or unchanged on the workers of a cluster:
//
//   muster data digits --out digits
//   keras_mnist --data_dir=digits
//   muster run --workers=2 -- keras_mnist --data_dir=digits
//   muster run --chief --workers=2 --ps=1 -- keras_mnist --data_dir=digits
//   --strategy=parameter_server
//
// Expected: an accuracy of about 99 % on the digits of `muster data digits`. Ctrl-C stops it; the
// same command continues.
#include <muster/muster.h>

using namespace muster;

// Images come as bytes; the model wants numbers from 0 to 1.
std::tuple<Tensor, Tensor> scale(Tensor images, Tensor labels) {
  return {images.to(kFloat32).div(255), labels};
}

void program(const Flags& flags, const distribute::StrategyPtr& strategy, int64_t patience) {
  const Dataset train = data::mnist(flags.data_dir, "train")
                            .shuffle(60000)
                            .batch(flags.batch_size)  // over all replicas
                            .map(scale);
  const Dataset test = data::mnist(flags.data_dir, "test").batch(1000).map(scale);

  const SymbolicTensor image = Input({28, 28, 1}, {.name = "image"});
  SymbolicTensor seen = Conv2D(16, 3, {.activation = activations::relu})(image);
  seen = Flatten()(MaxPooling2D()(seen));
  seen = Dropout(0.2)(Dense(64, {.activation = activations::relu})(seen));
  keras::Model model(Functional({image}, {Dense(10, {.name = "digit"})(seen)}),
                     {.name = "digits", .strategy = strategy, .seed = flags.seed});
  model.compile({.optimizer = optim::adam({.learning_rate = flags.learning_rate}),
                 .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const int64_t weights = model.count_params();  // every worker makes every call
  if (model.is_chief()) log::info(std::to_string(weights) + " weights");

  const keras::History history = model.fit(
      train,
      {.epochs = flags.epochs,
       .validation_data = test,
       .callbacks = {
           std::make_shared<keras::BackupAndRestore>(flags.model_dir + "/backup"),
           std::make_shared<keras::TensorBoard>(flags.model_dir + "/logs"),
           std::make_shared<keras::EarlyStopping>(keras::EarlyStoppingOptions{
               .monitor = "val_accuracy", .patience = patience, .restore_best_weights = true})}});
  const keras::Logs result = model.evaluate(test);
  model.save_weights(flags.model_dir + "/digits.safetensors");
  const std::string exported = model.export_model(flags.model_dir + "/export");
  if (!model.is_chief()) return;
  history.plot(flags.model_dir + "/history.svg");
  print_result({{"accuracy", result.at("accuracy")}, {"loss", result.at("loss")}});
  log::info("the model: " + exported + ", its curves: " + flags.model_dir + "/history.svg");
}

int main(int argc, char** argv) {
  std::string strategy = "multi_worker";
  int64_t patience = 2;
  return run_main(
      argc, argv,
      [&](const Flags& flags) { program(flags, distribute::strategy_by_name(strategy), patience); },
      {.description = "Trains a Keras model to tell digits apart.",
       .defaults = {.data_dir = "digits",
                    .model_dir = "keras_model",
                    .epochs = 3,
                    .batch_size = 64,
                    .learning_rate = 1e-3},
       .uses = {"data_dir", "model_dir", "epochs", "batch_size", "learning_rate", "seed"},
       .flags = {
           {"strategy", &strategy, "one_device, mirrored:N, multi_worker or parameter_server"},
           {"patience", &patience, "epochs without a better accuracy, before it ends"}}});
}
