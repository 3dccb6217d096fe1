// A run that begins with the weights of another one. Sentences of eight words are good or bad, as
// the words in them are. A first model learns 200 words from many sentences. Then there are few
// sentences, in a vocabulary of another order and with 20 new words: a model that begins with
// initial values learns little from them; a model that takes the rows of the shared words from the
// first model knows nearly all.
//
// Expected: the model that begins with the first one's weights is right in more than 85 of 100
// sentences, and in more than the other one.
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

using namespace muster;

namespace {

constexpr int64_t kOldWords = 200, kNewWords = 220, kLength = 8;

// "word0", "word1", ...; the new vocabulary has them the other way round.
std::vector<std::string> words(int64_t count, bool reversed) {
  std::vector<std::string> all;
  for (int64_t w = 0; w < count; ++w)
    all.push_back(fmt::format("word{}", reversed ? count - 1 - w : w));
  return all;
}

// A word on each line, as VocabInfo reads it.
std::string write_words(const std::string& path, const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& word : all) text += word + "\n";
  file_systems().write_atomically(path, text).value();
  return path;
}

// How good a word is; the same in every vocabulary.
double worth(const std::string& word) { return Random(derive_key(7, {id_of(word)})).normal(); }

// Sentences as the numbers of their words, and whether they are good.
Dataset sentences(const std::vector<std::string>& vocabulary, int64_t count, uint64_t seed) {
  Tensor ids = torch::empty({count, kLength}, kInt64), good = torch::empty({count}, kInt64);
  Random random(derive_key(seed, {id_of("sentences")}));
  for (int64_t row = 0; row < count; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < kLength; ++i) {
      const auto word = static_cast<int64_t>(random.uniform_below(vocabulary.size()));
      ids[row][i] = word;
      sum += worth(vocabulary[static_cast<size_t>(word)]);
    }
    good[row] = sum > 0 ? 1 : 0;
  }
  return Dataset::from_tensor_slices(Element::tuple({ids, good}));
}

EstimatorSpec model_fn(const Features& ids, const Labels& labels, Mode mode,
                       ModelContext& context) {
  const auto embedding =
      context.model("words", [&] { return Embedding(context.param<int64_t>("words"), 8); });
  const auto dense = context.model("judge", [] { return Dense(2); });
  const Tensor logits = dense(embedding(ids.tensor()).mean(1));
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"good", logits.argmax(-1)}});
  const Tensor loss =
      losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval)
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
  return EstimatorSpec::train(
      loss, context.optimizer(optim::adam({.learning_rate = 0.02})).minimize(loss));
}

// Trains on `count` sentences for ten passes; returns the share of others it is right about.
double learn(const std::vector<std::string>& vocabulary, int64_t count, RunConfig config) {
  Estimator judge(model_fn, std::move(config), {{"words", vocabulary.size()}});
  judge.train([&] { return sentences(vocabulary, count, 1).shuffle(count).repeat(10).batch(32); });
  return judge.evaluate([&] { return sentences(vocabulary, 1000, 2).batch(100); }).at("accuracy");
}

void program(const Flags& flags) {
  const std::string& folder = flags.model_dir;
  file_systems().make_directories(folder).value();
  const auto before = words(kOldWords, false), now = words(kNewWords, true);
  const std::string base = folder + "/base";
  const double known = learn(before, 4000, {.model_dir = base});
  const double cold = learn(now, 64, {.model_dir = folder + "/cold"});

  const VocabInfo by_word{.new_vocab = write_words(folder + "/now.txt", now),
                          .old_vocab = write_words(folder + "/before.txt", before)};
  const WarmStartSettings settings{
      .ckpt_to_initialize_from = base,
      .var_name_to_vocab_info = {{"words/embedding/embeddings", by_word}}};
  const double warm = learn(now, 64, {.model_dir = folder + "/warm", .warm_start_from = settings});
  fmt::print("4000 sentences: {:.3f}\n", known);
  fmt::print("64 sentences, new vocabulary, from initial values: {:.3f}\n", cold);
  fmt::print("64 sentences, new vocabulary, warm start: {:.3f}\n", warm);
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Begins a run with the weights of another one, word by word.",
                   .examples = "Examples:\n  warm_start --model_dir=judge\n",
                   .defaults = {.model_dir = "judge"},
                   .uses = {"model_dir"}});
}
