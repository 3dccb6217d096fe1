// A data set by hand, without a model: sentences with stars are written as tf.Examples, some of
// them without stars, and read again in batches, by an iterator that is saved in the middle.
//
// Expected: the batches after the saved position are the same, and come in the same order, in an
// iterator that starts there.
#include <fmt/format.h>
#include <muster/formats/example.h>
#include <muster/formats/tfrecord.h>
#include <muster/muster.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

using namespace muster;

namespace {

void write_reviews(const std::string& path) {
  const std::vector<std::pair<std::vector<std::string>, std::optional<float>>> reviews = {
      {{"good"}, 4},
      {{"not", "my", "taste"}, 2},
      {{}, std::nullopt},
      {{"best", "of", "all"}, 5},
      {{"too", "long"}, std::nullopt},
      {{"again"}, 4}};
  auto file = formats::TfrecordWriter::open(file_systems(), path).value();
  for (const auto& [words, stars] : reviews) {
    formats::Example example{{{"words", words}}};
    if (stars) example.features.emplace_back("stars", std::vector<float>{*stars});
    file.write(bytes_of(formats::encode_example(example))).value();
  }
  file.close().value();
}

// Batches of ({stars, words, words/row_lengths}, number of the review).
Dataset reviews_of(const std::string& path) {
  const data::ExampleParser parse(
      {{"words", data::VarLenFeature{data::kString}},
       {"stars", data::FixedLenFeature{{}, kFloat32, torch::tensor(-1.0f)}}});
  const Dataset records = Dataset::from_files({path}, data::tfrecord_format());
  const Dataset numbers = Dataset::range(0, 1000);
  return Dataset::zip({records, numbers})
      .shuffle(4, {.seed = 1})
      .batch(2)
      .map([parse](const Element& batch) {
        return Element::tuple({parse(batch.part(0)), batch.part(1)});
      });
}

void show(const Element& batch) {
  const Element review = batch.part(0);
  const Tensor numbers = batch.part(1).value().tensor();
  const Tensor stars = review.at("stars").value().tensor();
  const Tensor lengths = review.at("words/row_lengths").value().tensor();
  const Strings words = review.at("words").value().strings();
  const int64_t width = words.shape()[1];  // the words of the longest
  fmt::print("  {}\n", batch.describe());
  for (int64_t row = 0; row < numbers.numel(); ++row) {
    fmt::print("    {}: {:g} stars,", numbers[row].item<int64_t>(), stars[row].item<float>());
    for (int64_t i = 0; i < lengths[row].item<int64_t>(); ++i) {
      fmt::print(" {}", words[row * width + i]);
    }
    fmt::print("\n");
  }
}

void program(const Flags& flags) {
  file_systems().make_directories(flags.data_dir).value();
  const std::string path = flags.data_dir + "/reviews.tfrecord";
  write_reviews(path);
  const Dataset dataset = reviews_of(path);

  const auto iterator = dataset.iterator();
  fmt::print("the first batch:\n");
  if (const auto batch = iterator->next()) show(*batch);
  const std::string position = iterator->save().dump();
  fmt::print("the rest:\n");
  while (const auto batch = iterator->next()) show(*batch);

  const auto again = dataset.iterator();
  again->restore(nlohmann::json::parse(position));
  fmt::print("the rest, from a position of {} bytes:\n", position.size());
  while (const auto batch = again->next()) show(*batch);
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Writes and reads a small data set by hand, without a model.",
                   .examples = "Examples:\n  pipeline --data_dir=reviews\n",
                   .defaults = {.data_dir = "reviews"},
                   .uses = {"data_dir"}});
}
