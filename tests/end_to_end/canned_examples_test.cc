// The examples of canned estimators: each reaches its promised result, and two workers compute the
// same as one. Real data is in MUSTER_TEST_DATA; without it tables are made here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A folder of real data; empty if it does not exist.
std::string real_data(const std::string& folder) {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  if (data == nullptr) return "";
  const std::string path = std::string(data) + "/" + folder;
  return std::filesystem::exists(path) ? path : "";
}

constexpr const char* kNoData = "set MUSTER_TEST_DATA to the folder of data sets";

// Runs an example on as many workers.
Ran run_example(const std::string& program, const Words& flags, const std::string& model_dir,
                int workers) {
  Words words = {binary(program), "--model_dir=" + model_dir};
  words.insert(words.end(), flags.begin(), flags.end());
  const Ran ran =
      run(workers == 1 ? words : muster_run({"--workers=" + std::to_string(workers)}, words));
  EXPECT_EQ(ran.code, 0) << ran.output;
  return ran;
}

json metrics_of(const std::string& program, const Words& flags, int workers = 1) {
  const TempDirectory directory;
  return json::parse(result_of(run_example(program, flags, directory / "model", workers)));
}

// Whether two results have the same metrics, up to `tolerance` relative to their size.
void expect_same(const json& two, const json& one, double tolerance) {
  ASSERT_EQ(two.size(), one.size()) << two << one;
  for (const auto& [name, value] : one.items()) {
    ASSERT_TRUE(two.contains(name)) << two;
    EXPECT_NEAR(two.at(name).get<double>(), value.get<double>(),
                tolerance * std::max(1.0, std::abs(value.get<double>())))
        << name << ": " << two << one;
  }
}

constexpr double kLaw = 1e-5;  // the largest effect of the order of sums

std::string write_table(const TempDirectory& directory, const std::string& name,
                        const std::string& rows) {
  std::filesystem::create_directories(directory / "data");
  write_file(directory / ("data/" + name), rows);
  return directory / "data";
}

TEST(LinearRegressor, FindsThePlaneOnOneWorkerAndOnTwo) {
  const TempDirectory directory;
  const Ran ran = run_example("linear_regressor", {}, directory / "model", 1);
  EXPECT_NEAR(number_behind(ran.output, "y = "), 3, 0.015) << ran.output;
  EXPECT_NEAR(number_behind(ran.output, " a "), -2, 0.015) << ran.output;
  EXPECT_NEAR(number_behind(ran.output, " b "), 1, 0.015) << ran.output;
  const json one = json::parse(result_of(ran));
  EXPECT_NEAR(one.at("average_loss"), 0.25, 0.01);
  expect_same(metrics_of("linear_regressor", {}, 2), one, kLaw);
}

// Only women are saved, in all classes.
std::string passengers(int count) {
  std::string rows = "survived,sex,age,n_siblings_spouses,parch,class\n";
  const std::string classes[] = {"First", "Second", "Third"};
  for (int i = 0; i < count; ++i) {
    rows += (i % 2 == 1 ? "1,female," : "0,male,") + std::to_string(10 + i * 7 % 50) + "," +
            std::to_string(i / 2 % 3) + "," + std::to_string(i / 5 % 2) + "," + classes[i % 3] +
            "\n";
  }
  return rows;
}

// The commands of docs/canned.md.
TEST(Titanic, FromCsvFilesToAServerOnOneWorkerAndOnTwo) {
  const TempDirectory directory;
  std::string data = real_data("tabular/titanic");
  if (data.empty()) {
    write_table(directory, "train.csv", passengers(120));
    data = write_table(directory, "eval.csv", passengers(40));
  }
  const Words flags = {"--data_dir=" + data};
  const std::string model = directory / "model";
  const json one = json::parse(result_of(run_example("titanic", flags, model, 1)));
  EXPECT_GT(one.at("accuracy"), 0.79) << one;
  expect_same(metrics_of("titanic", flags, 2), one, kLaw);

  Program server(
      {binary("muster"), "serve", model + "/export/titanic", "--name=titanic", "--port=0"});
  server.wait_for("/v1/models/titanic\n");
  const std::string at = "listening at http://127.0.0.1:";
  httplib::Client client("127.0.0.1", static_cast<int>(number_behind(server.output(), at)));
  client.set_read_timeout(std::chrono::seconds(60));  // the answer of a busy machine
  const auto saved = [&](const json& sex) {           // null: not known, to which nothing is added
    const json passenger = {
        {"sex", sex}, {"class", "First"}, {"age", 35}, {"n_siblings_spouses", 1}, {"parch", 0}};
    const auto answer = client.Post("/v1/models/titanic:classify",
                                    json{{"examples", {passenger}}}.dump(), "application/json");
    const json parsed = answer ? json::parse(answer->body) : json();
    EXPECT_TRUE(parsed.contains("results")) << parsed;
    return parsed["results"][0][1][1].get<double>();
  };
  EXPECT_LT(saved("male"), 0.5);
  EXPECT_GT(saved("female"), 0.5);
  EXPECT_GT(saved("female"), saved(nullptr));
  EXPECT_EQ(saved("mermaid"), saved(nullptr));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.output();
}

TEST(Census, ReachesWhatItPromisesOnOneWorkerAndOnTwo) {
  const std::string data = real_data("tabular/census");
  if (data.empty()) GTEST_SKIP() << kNoData;
  const Words flags = {"--data_dir=" + data, "--epochs=3"};
  const json one = metrics_of("census", flags);
  EXPECT_GT(one.at("accuracy"), 0.845);  // 0.852 after all epochs
  EXPECT_NEAR(metrics_of("census", flags, 2).at("accuracy"), one.at("accuracy"), 0.001);
}

TEST(BoostedTrees, TwoWorkersSayWhatOneSays) {
  const TempDirectory directory;
  write_table(directory, "train.csv", pets(200, true));
  const std::string data = write_table(directory, "eval.csv", pets(40, true));
  const Words flags = {"--data_dir=" + data, "--label=kind", "--n_trees=5"};
  const Ran one = run_example("boosted_trees", flags, directory / "one", 1);
  EXPECT_THAT(result_of(one), HasSubstr("\"accuracy\":1.0"));
  EXPECT_THAT(one.output, ContainsRegex("height +100.0 %"));
  const Ran two = run_example("boosted_trees", flags, directory / "two", 2);
  EXPECT_EQ(result_of(two), result_of(one));
}

TEST(BoostedTrees, LearnTheCensusOnOneWorkerAndOnTwo) {
  const std::string data = real_data("tabular/census");
  if (data.empty()) GTEST_SKIP() << kNoData;
  const Words flags = {"--data_dir=" + data, "--train=adult_train.csv", "--eval=adult_test.csv",
                       "--label=income"};
  const json one = metrics_of("boosted_trees", flags);
  EXPECT_GT(one.at("accuracy"), 0.87);
  EXPECT_GT(one.at("auc"), 0.928);
  EXPECT_EQ(metrics_of("boosted_trees", flags, 2), one);
}

// Heavy cars drink more, and some lack their horsepower.
std::string cars(int count) {
  std::string rows =
      "mpg,cylinders,displacement,horsepower,weight,acceleration,model_year,origin,name\n";
  const std::string origins[] = {"usa", "europe", "japan"};
  for (int i = 0; i < count; ++i) {
    const int weight = 1700 + i * 37 % 3000;
    rows += std::to_string(45 - weight / 125.0) + "," + std::to_string(4 + i % 3 * 2) + "," +
            std::to_string(80 + weight / 15) + "," +
            (i % 10 == 0 ? "" : std::to_string(50 + weight / 40)) + "," + std::to_string(weight) +
            ",15.5," + std::to_string(70 + i % 13) + "," + origins[i % 3] + ",\"car, no. " +
            std::to_string(i) + "\"\n";
  }
  return rows;
}

TEST(AutoMpg, ReachesWhatItPromisesOnOneWorkerAndOnTwo) {
  const TempDirectory directory;
  std::string data = real_data("tabular/auto-mpg");
  if (data.empty()) data = write_table(directory, "mpg.csv", cars(200));
  const json one = metrics_of("auto_mpg", {"--data_dir=" + data});
  EXPECT_LT(one.at("mean_absolute_error"), 1.9) << one;
  EXPECT_GT(one.at("label/mean"), 15) << one;
  const Words short_run = {"--data_dir=" + data, "--epochs=2"};  // 20 steps of the real cars
  expect_same(metrics_of("auto_mpg", short_run, 2), metrics_of("auto_mpg", short_run), kLaw);
}

// Three kinds whose petals differ, in a file whose first line does not name the columns.
std::string irises(int count) {
  std::string rows = std::to_string(count) + ",4,setosa,versicolor,virginica\n";
  for (int i = 0; i < count; ++i) {
    const int kind = i % 3;
    rows += "5." + std::to_string(i % 10) + ",3." + std::to_string(i / 3 % 10) + "," +
            std::to_string(1 + 2 * kind) + "." + std::to_string(i / 7 % 10) + "," +
            std::to_string(kind) + ".2," + std::to_string(kind) + "\n";
  }
  return rows;
}

TEST(Iris, ReachesWhatItPromisesOnOneWorkerAndOnTwo) {
  const TempDirectory directory;
  std::string data = real_data("tabular/iris");
  if (data.empty()) data = write_table(directory, "iris.csv", irises(150));
  const json one = metrics_of("iris", {"--data_dir=" + data});
  EXPECT_GT(one.at("accuracy"), 0.96) << one;  // 29 of 30
  expect_same(metrics_of("iris", {"--data_dir=" + data}, 2), one, 1e-4);
}

TEST(MnistCanned, SavesAndSpeaksAsOftenAsItSaysOnOneWorkerAndOnTwo) {
  const TempDirectory directory;
  const std::string model = directory / "model", data = real_data("mnist");
  const Words flags = {"--data_dir=" + (data.empty() ? digits() : data), "--max_steps=350"};
  const Ran ran = run_example("mnist_canned", flags, model, 1);
  const json one = json::parse(result_of(ran));
  EXPECT_GT(one.at("accuracy"), data.empty() ? 0.85 : 0.93) << one;  // 0.98 after all steps
  EXPECT_THAT(ran.output, HasSubstr("step 11/350 "));
  EXPECT_THAT(ran.output, HasSubstr("step 341/350 "));
  int checkpoints = 0;
  for (const auto& entry : std::filesystem::directory_iterator(model))
    if (entry.path().extension() == ".safetensors") ++checkpoints;
  EXPECT_EQ(checkpoints, 2);
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(model, 300)));
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(model, 350)));
  EXPECT_NEAR(metrics_of("mnist_canned", flags, 2).at("accuracy"), one.at("accuracy"), 0.003);
}

TEST(MovieRatings, ComesCloseToWhatCanBeKnownOnOneWorkerAndOnTwo) {
  const TempDirectory directory;
  const Ran ran = run_example("movie_ratings", {}, directory / "model", 1);
  const double least = number_behind(ran.output, "; of who knows all tastes: ");
  const double mean = number_behind(ran.output, "; of the mean of all ratings: ");
  const double error = number_behind(ran.output, "RMSE in stars: ");
  EXPECT_GT(least, 0.5);
  EXPECT_GT(error, least);
  EXPECT_LT(error, least + 0.08) << ran.output;
  EXPECT_GT(mean, least + 0.3) << ran.output;
  const Words short_run = {"--epochs=2", "--batch_size=3200"};  // 20 steps
  expect_same(metrics_of("movie_ratings", short_run, 2), metrics_of("movie_ratings", short_run),
              kLaw);
}

// MovieLens' files: blanks and quotes in titles, movies without genres or without a line.
TEST(MovieRatings, ReadsMovieLensFiles) {
  const TempDirectory directory;
  std::string ratings = "userId,movieId,rating,timestamp\n";
  for (int user = 1; user <= 40; ++user) {
    for (int movie = 0; movie < 20; ++movie) {
      // Half of the users like the even movies, the others the odd ones.
      const bool likes = (user + movie) % 2 == 0;
      ratings += std::to_string(user) + "," + std::to_string(1000 + 7 * movie) +
                 (likes ? ",5.0," : ",1.5,") +
                 std::to_string(964980000 + (movie + user * 7) % 20 * 100 + user) + "\n";
    }
  }
  std::string movies = "movieId,title,genres\n";
  for (int movie = 0; movie < 19; ++movie) {
    movies += std::to_string(1000 + 7 * movie) + ",\"Film, \"\"The\"\" (1995)\"," +
              (movie % 3 == 0 ? "(no genres listed)" : "Comedy|Drama") + "\n";
  }
  write_table(directory, "ratings.csv", ratings);
  const std::string data = write_table(directory, "movies.csv", movies + "99,Unseen (2001),War\n");
  const Ran ran =
      run_example("movie_ratings", {"--data_dir=" + data, "--epochs=40", "--learning_rate=0.01"},
                  directory / "model", 1);
  EXPECT_NEAR(number_behind(ran.output, "; of the mean of all ratings: "), 1.75, 0.01);
  EXPECT_LT(number_behind(ran.output, "RMSE in stars: "), 0.5) << ran.output;
  EXPECT_EQ(ran.output.find("knows all tastes"), std::string::npos) << ran.output;
}

}  // namespace
}  // namespace muster::testing
