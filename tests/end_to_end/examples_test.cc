// The examples that read your own data: trained on two workers, they predict, also for new data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/end_to_end/photo.h"
#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

int64_t lines_of(const std::string& path) {
  const std::string text = read_file(path);
  return std::count(text.begin(), text.end(), '\n');
}

TEST(Tabular, TrainsOnTwoWorkersAndPredictsForNewRows) {
  const TempDirectory directory;
  std::filesystem::create_directory(directory / "pets");
  write_file(directory / "pets/train.csv", pets(200, true));
  write_file(directory / "pets/eval.csv", pets(40, true));
  write_file(directory / "new.csv", pets(6, false));
  const std::string model = directory / "model";
  const Words tabular = {binary("tabular"),     "--data_dir=" + directory / "pets",
                         "--label=kind",        "--positive=dog",
                         "--max_steps=200",     "--learning_rate=0.01",
                         "--model_dir=" + model};
  const auto with = [&](const std::string& flag) {
    Words words = tabular;
    words.push_back(flag);
    return words;
  };
  // Nothing is trained yet.
  const Ran early = run(with("--predict=" + directory / "new.csv"));
  EXPECT_EQ(early.code, 2) << early.output;
  EXPECT_THAT(early.output, HasSubstr("could not find a trained model in model_dir: " + model));

  const Ran trained = run(muster_run({"--workers=2"}, tabular));
  EXPECT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, AllOf(HasSubstr("[worker 0] result: {\"global_step\":200"),
                                    HasSubstr("training is over at step 200: this worker is done"),
                                    Not(HasSubstr("[worker 1] result: "))));
  EXPECT_EQ(lines_of(model + "/predictions.csv"), 41);
  EXPECT_THAT(read_file(model + "/predictions.csv"), StartsWith("class,probability\n"));

  const Ran predicted = run(with("--predict=" + directory / "new.csv"));
  EXPECT_EQ(predicted.code, 0) << predicted.output;
  EXPECT_THAT(read_file(model + "/new_predictions.csv"),
              MatchesRegex("class,probability\n(0,[^\n]*\n1,[^\n]*\n){3}"));
  for (const char* strategy : {"one_device", "mirrored:2"}) {
    const Ran other = run(with("--strategy=" + std::string(strategy)));
    EXPECT_EQ(other.code, 0) << other.output;
    EXPECT_THAT(other.output, HasSubstr("nothing to train"));
  }
}

TEST(WarmStart, KnowsTheWordsItShares) {
  const TempDirectory directory;
  const Ran ran = run({binary("warm_start"), "--model_dir=" + directory / "judge"});
  EXPECT_EQ(ran.code, 0) << ran.output;
  const double warm = number_behind(ran.output, "new vocabulary, warm start: ");
  EXPECT_GT(warm, 0.85);
  EXPECT_GT(warm, number_behind(ran.output, "new vocabulary, from initial values: "));
  EXPECT_THAT(ran.output, HasSubstr("taken: words/embedding/embeddings, 200 of 220 words found"));
}

// The program of docs/coming_from_tf_estimator.md.
TEST(Flowers, StopsEarlyExportsTheBestAndPredicts) {
  const TempDirectory directory;
  const std::string model = directory / "iris";
  const Ran ran = run({binary("flowers"), "--model_dir=" + model});
  EXPECT_EQ(ran.code, 0) << ran.output;
  const size_t steps = ran.output.find("accuracy after ");
  ASSERT_NE(steps, std::string::npos) << ran.output;
  EXPECT_LT(std::stoi(ran.output.substr(steps + 15)), 3000);
  EXPECT_GT(number_behind(ran.output.substr(steps), " steps: "), 0.9);
  EXPECT_THAT(ran.output, HasSubstr("the best model: " + model + "/export/best/"));
  for (const std::string species : {"setosa", "versicolor", "virginica"})
    EXPECT_THAT(ran.output, ContainsRegex(species + " \\([0-9]+ %\\), expected " + species));
}

// The requests with curl of docs/serving.md.
TEST(ExportAndServe, TrainsExportsAndAnswersOverHttp) {
  const TempDirectory directory;
  const std::string model = directory / "ring";
  const Ran ran = run({binary("export_and_serve"), "--model_dir=" + model});
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output,
              AllOf(HasSubstr("(0.7, 0.2) is inside"), HasSubstr("(0.1, 0.1) is outside")));

  Program server({binary("muster"), "serve", model + "/export", "--name=ring", "--port=0"});
  server.wait_for("/v1/models/ring\n");
  const std::string at = "listening at http://127.0.0.1:";
  httplib::Client client("127.0.0.1", static_cast<int>(number_behind(server.output(), at)));
  client.set_read_timeout(std::chrono::seconds(60));  // the answer of a busy machine
  const auto ask = [&](const std::string& verb, const std::string& body) {
    const auto answer = client.Post("/v1/models/ring:" + verb, body, "application/json");
    return answer ? nlohmann::json::parse(answer->body) : nlohmann::json();
  };
  const auto predictions =
      ask("predict", R"({"instances": [{"point": [0.7, 0.2]}, {"point": [0.1, 0.1]}]})");
  EXPECT_EQ(predictions["predictions"][0]["inside"], 1) << predictions;
  EXPECT_EQ(predictions["predictions"][1]["inside"], 0) << predictions;
  const auto classes = ask("classify", R"({"examples": [{"point": [0.7, 0.2]}]})");
  EXPECT_EQ(classes["results"][0][1][0], "inside") << classes;
  EXPECT_GT(classes["results"][0][1][1], 0.5) << classes;
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.output();
}

TEST(EarlyStopping, EndsTheRunAndARestartMakesNoStep) {
  const TempDirectory directory;
  const Words program = {binary("early_stopping"), "--model_dir=" + directory / "model",
                         "--patience=100", "--max_steps=3000"};
  const Ran first = run(program);
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output,
              AllOf(HasSubstr("early stopping at step "), HasSubstr(": loss did not decrease in "),
                    HasSubstr("the best evaluation: step "),
                    Not(HasSubstr("training is over at step 3000"))));
  const Ran second = run(program);
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output,
              AllOf(HasSubstr("early stopping at step "), Not(HasSubstr(" saved "))));
}

TEST(Photos, TrainsOnTwoWorkersAndPredictsForNewPhotos) {
  const TempDirectory directory;
  uint64_t seed = 0;
  for (const char* name : {"train/ants/", "train/bees/", "val/ants/", "val/bees/", "new/"}) {
    for (const char* photo : {"a.jpg", "b.jpg", "c.jpg"})
      end_to_end::write_photo(directory.path() + "/photos/" + name + photo, ++seed);
  }
  const std::string data = directory / "photos", model = directory / "model";
  const Words photos = {binary("photos"), "--data_dir=" + data, "--max_steps=4", "--batch_size=4",
                        "--model_dir=" + model};
  const Ran trained = run(muster_run({"--workers=2"}, photos));
  EXPECT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("[worker 0] result: {\"global_step\":4"));
  const std::string predictions = read_file(model + "/predictions.csv");
  EXPECT_EQ(lines_of(model + "/predictions.csv"), 7) << predictions;
  EXPECT_THAT(predictions,
              AllOf(StartsWith("class,photo,probability\n"), HasSubstr(data + "/val/bees/c.jpg,")));
  Words predict = photos;
  predict.push_back("--predict=" + data + "/new");
  const Ran predicted = run(predict);
  EXPECT_EQ(predicted.code, 0) << predicted.output;
  EXPECT_EQ(lines_of(model + "/new_predictions.csv"), 4);
  predict.back() = "--predict=" + data + "/nowhere";
  const Ran missing = run(predict);
  EXPECT_EQ(missing.code, 2) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("the image folder '" + data + "/nowhere' does not exist"));

  // Before anything is trained.
  std::filesystem::remove_all(data + "/val");
  Words untrained = photos;
  untrained.back() = "--model_dir=" + directory / "none";
  const Ran without_val = run(untrained);
  EXPECT_EQ(without_val.code, 2) << without_val.output;
  EXPECT_THAT(without_val.output, HasSubstr("'" + data + "/val' does not exist"));
  EXPECT_FALSE(std::filesystem::exists(directory / "none"));
}

}  // namespace
}  // namespace muster::testing
