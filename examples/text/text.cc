// A small GPT learns a text byte by byte, and then continues the text of `--prompt`. It runs on one
// process or, unchanged, on the workers of a cluster:
//
//   text --text=README.md
//   muster run --workers=2 -- text --text=README.md
//
// Expected: on some hundred kilobytes of text the loss falls from 5.5 to about 2.5 within 500 steps
// and to about 1.6 within 1500. Its output then has words and lines like the text.
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/types.h>

#include <iterator>

using namespace muster;

constexpr int64_t kContext = 64;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("gpt", [] {
    return applications::GPT({.context = kContext, .layers = 2, .heads = 4, .width = 128});
  });
  Tensor logits = model(features["tokens"]);  // [batch, time, 256]
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  auto adam = context.optimizer(optim::adam({.learning_rate = 1e-3}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

// Pieces of the text in random order, with the next byte for each of their bytes. Pieces begin
// anywhere, so that the model sees each byte in all positions.
Dataset pieces_of(const std::string& text) {
  const Tensor tokens = torch::tensor(applications::ByteTokenizer().encode(text), torch::kLong);
  const int64_t pieces = tokens.size(0) - kContext;
  return Dataset::range(pieces).shuffle(pieces).map([tokens](Tensor at) {
    const auto begin = at.item<int64_t>(), end = begin + kContext;
    return Element::tuple({Element::dict({{"tokens", tokens.slice(0, begin, end)}}),
                           tokens.slice(0, begin + 1, end + 1)});
  });
}

int main(int argc, char** argv) {
  std::string file = "README.md", prompt = "The ";
  return run_main(
      argc, argv,
      [&](const Flags& flags) {
        if (!file_systems().exists(file).value()) {
          throw Error(ErrorKind::kNotFound, "there is no file " + file, "name a text: --text");
        }
        const std::string text = file_systems().read_file(file).value();
        if (text.size() <= kContext) {
          throw Error(
              ErrorKind::kInvalidArgument,
              fmt::format("{} has {} bytes; more than {} are needed", file, text.size(), kContext),
              "name a longer text: --text");
        }
        Estimator writer(model_fn, {.model_dir = flags.model_dir,
                                    .random_seed = flags.seed,
                                    .train_distribute = distribute::multi_worker_mirrored()});
        writer.train([&] { return pieces_of(text).repeat().global_batch(flags.batch_size); },
                     {.max_steps = flags.max_steps.value_or(1500)});

        if (!writer.is_chief()) return;
        const Predictor predictor(writer);
        const applications::ByteTokenizer tokenizer;
        const std::vector<int64_t> written = applications::generate(
            [&](const Tensor& tokens) {
              return predictor.predict_batch({{"tokens", tokens}}).at("logits");
            },
            tokenizer.encode(prompt),
            {.max_new_tokens = 200, .context = kContext, .temperature = 0.8, .top_k = 40});
        fmt::print("{}\n", tokenizer.decode(written));
      },
      {.description = "Trains a small GPT on the bytes of a text, and continues a prompt.",
       .defaults = {.model_dir = "text_model", .batch_size = 16},
       .uses = {"model_dir", "max_steps", "batch_size", "seed"},
       .flags = {{"text", &file, "the file to learn from"},
                 {"prompt", &prompt, "the text that it continues"}}});
}
