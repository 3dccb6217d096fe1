// `muster train` as a user meets it: a table in, a report, files and answers out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/muster/run_muster.h"
#include "apps/train/table_file.h"
#include "apps/train/test_file.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"
#include "muster/export/servable.h"
#include "muster/launch/child_process.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// People who buy when they are old or live in Rome, with missing values, an identifier, and a
// column without information.
std::string people(int rows, const std::function<std::string(bool buys, int town)>& label) {
  Random random(derive_key(5, {id_of("people")}));
  std::string text = "number,\"home, town\",age,rooms,noise,label\n";
  for (int i = 0; i < rows; ++i) {
    const auto town = static_cast<int>(random.uniform_below(4));
    const auto age = static_cast<int>(random.uniform_below(60)) + 20;
    const bool buys = (town == 0 ? 1.2 : -0.8) + (age - 50) / 10.0 + 0.5 * random.normal() > 0;
    const char* towns[] = {"Rome", "Oslo", "K\xc3\xb6ln", ""};
    text += std::to_string(i) + "," + towns[town] + ",";
    text += (random.uniform() < 0.05 ? "NA" : std::to_string(age)) + ",";
    text += std::to_string(random.uniform_below(4)) + ",";
    text += std::to_string(random.uniform()) + "," + label(buys, town) + "\n";
  }
  return text;
}
std::string yes_no(bool buys, int) { return buys ? "yes" : "no"; }

class TrainProgramTest : public ::testing::Test {
 protected:
  // Runs in the folder.
  ShellOutput run(const std::string& arguments) const {
    return run_shell("cd " + folder_.path() + " && " + muster_line("train " + arguments));
  }
  std::string read(const std::string& path) const {
    return local_file_system().read_file(folder_ / path).value();
  }
  // A number of metrics.csv.
  double metric(const std::string& model, const std::string& name) const {
    for (const std::string& line : split(read(model + "/report/metrics.csv"), '\n')) {
      const std::vector<std::string> cells = split(line, ',');
      if (cells.front() == name) return parse_double(cells[1]).value();
    }
    ADD_FAILURE() << "no metric " << name;
    return 0;
  }
  // The column of a CSV file.
  std::vector<std::string> column(const std::string& path, const std::string& name) const {
    TableFile table(folder_ / path, {});
    std::vector<std::string> values;
    while (table.next()) values.emplace_back(table.field(table.find(name).value()));
    return values;
  }

  const TempDirectory folder_;
};

TEST_F(TrainProgramTest, ATableBecomesAModelThatAnswers) {
  written(folder_ / "people.csv", people(1200, yes_no));
  const ShellOutput ran = run("people.csv --label=label --trees=20");
  ASSERT_EQ(ran.code, 0) << ran.text;
  for (const char* part :
       {"people.csv: which of 2 classes is 'label'?", "left out: 'number' identifies a row",
        "3 texts: ", "boosted trees: 20 trees", "area under the ROC curve", "0.9 to 1.0",
        "Calibration: how often 'yes' is true", "Most important columns",
        "muster serve people_model/export --name=people_model",
        "muster train --model-dir=people_model --predict=NEW.csv"}) {
    EXPECT_THAT(ran.text, HasSubstr(part));
  }
  EXPECT_THAT(ran.text, Not(HasSubstr("warning: '")));
  EXPECT_GT(metric("people_model", "accuracy"), 0.85);
  EXPECT_GT(metric("people_model", "auc"), 0.93);
  const std::vector<std::string> order = column("people_model/report/importance.csv", "column");
  ASSERT_EQ(order.size(), 4u);
  EXPECT_EQ(order[0], "age");
  EXPECT_EQ(order[1], "home, town");
  for (const char* file : {"report.md", "columns.csv", "calibration.csv", "confusion.csv",
                           "gain.csv", "held_out_predictions.csv", "partial_dependence.csv"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / (std::string("people_model/report/") + file)))
        << file;

  // Again: nothing is trained twice, and the export stays.
  const std::vector<int64_t> versions = model_versions(folder_ / "people_model/export");
  ASSERT_EQ(versions.size(), 1u);
  const ShellOutput again = run("people.csv --label=label --trees=20");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_THAT(again.text, HasSubstr("nothing was left to do"));
  EXPECT_EQ(model_versions(folder_ / "people_model/export"), versions);
  // More trees: the run continues.
  const ShellOutput more = run("people.csv --label=label --trees=22");
  EXPECT_THAT(more.text, HasSubstr("trained to step"));
  EXPECT_EQ(model_versions(folder_ / "people_model/export").size(), 2u);
  // Other columns: another model.
  const ShellOutput other = run("people.csv --label=label --exclude=age");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.text, AllOf(HasSubstr("people_model holds a model of another table"),
                                HasSubstr("give another --model-dir")));
}

// New rows in another order of columns, without a label, and the exported model's predictions for
// them.
TEST_F(TrainProgramTest, PredictsAsItServes) {
  for (const std::string model : {"boosted_trees", "wide_and_deep"}) {
    written(folder_ / "people.csv", people(800, yes_no));
    const std::string dir = "m_" + model;
    const ShellOutput ran =
        run("people.csv --label=label --positive=no --trees=10 --epochs=12 "
            "--model=" +
            model + " --model_dir=" + dir);
    ASSERT_EQ(ran.code, 0) << ran.text;
    EXPECT_GT(metric(dir, "accuracy"), 0.85) << model;
    EXPECT_THAT(ran.text, HasSubstr("Calibration: how often 'no' is true"));
    written(
        folder_ / "new.csv",
        "rooms,age,\"home, town\",noise\n1,70,Rome,0.5\n2,,Atlantis,0.25\n0,21,K\xc3\xb6ln,1\n");
    const ShellOutput predicted = run("--predict=new.csv --out=p.csv --model-dir=" + dir);
    ASSERT_EQ(predicted.code, 0) << predicted.text;
    EXPECT_THAT(predicted.text, HasSubstr("3 rows of new.csv: p.csv"));
    const auto said = column("p.csv", "probability of no");
    ASSERT_EQ(said.size(), 3u);
    EXPECT_EQ(column("p.csv", "prediction")[0], "yes") << model;
    EXPECT_EQ(column("p.csv", "prediction")[2], "no") << model;
    const std::string exports = folder_ / (dir + "/export");
    const Servable served(join_path(exports, std::to_string(newest_version(exports).value())));
    const auto outputs = served.run(
        "classification",
        {{"rooms", torch::tensor({1.0F, 2.0F, 0.0F})},
         {"age", torch::tensor({70.0F, std::nanf(""), 21.0F})},
         {"home, town", served.text_ids("home, town", Strings(std::vector<std::string>{
                                                          "Rome", "Atlantis", "K\xc3\xb6ln"}))},
         {"noise", torch::tensor({0.5F, 0.25F, 1.0F})}});
    EXPECT_EQ(served.signature("classification").classes, (std::vector<std::string>{"yes", "no"}));
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(outputs.at("scores")[i][1].item<double>(),
                  parse_double(said[static_cast<size_t>(i)]).value(), 1e-5)
          << model << " " << i;
    }
    if (model != "boosted_trees") {
      EXPECT_THAT(ran.text, HasSubstr("The largest weights of the linear part"));
      const auto values = column(dir + "/report/weights.csv", "value");
      EXPECT_THAT(values, ::testing::IsSupersetOf({"Rome", "(missing)", "(other)", "0", "3"}));
    }
  }
}

TEST_F(TrainProgramTest, SeveralClassesAndWeights) {
  written(folder_ / "t.csv", people(800, [](bool buys, int town) {
            return buys ? "a" : town < 2 ? "b" : "c";
          }));
  const ShellOutput ran = run("t.csv --label=label --weight=rooms --trees=15 --seed=3");
  ASSERT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, AllOf(HasSubstr("which of 3 classes"), HasSubstr("said b"),
                              HasSubstr("15 trees for each class"), Not(HasSubstr("ROC"))));
  EXPECT_GT(metric("t_model", "accuracy"), 0.8);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t_model/report/calibration.csv"));
}

// A table with semicolons, as spreadsheets of half the world write it, and rows to measure on.
TEST_F(TrainProgramTest, NumbersArePredicted) {
  const auto rows = [](int count, uint64_t seed) {
    Random random(derive_key(seed, {}));
    std::string text = "x;kind;price\n";
    for (int i = 0; i < count; ++i) {
      const double x = 10 * random.uniform();
      const auto kind = random.uniform_below(3);
      std::string price = fmt::format(
          "{:.3f}", 1000 + 50 * x + 200.0 * static_cast<double>(kind) + 5 * random.normal());
      std::string number = fmt::format("{:.4f}", x);
      for (std::string* each : {&price, &number}) (*each)[each->find('.')] = ',';
      text += number + ";kind " + std::to_string(kind) + ";" + (i % 50 == 7 ? "" : price) + "\n";
    }
    return text;
  };
  written(folder_ / "t.csv", rows(600, 1));
  written(folder_ / "test.csv", rows(100, 2));
  for (const std::string model : {"boosted_trees", "wide_and_deep"}) {
    const std::string dir = "m_" + model;
    const ShellOutput ran = run("t.csv --label=price --eval=test.csv --epochs=40 --model=" + model +
                                " --model-dir=" + dir);
    ASSERT_EQ(ran.code, 0) << ran.text;
    EXPECT_THAT(ran.text, AllOf(HasSubstr("how large is 'price'?"), HasSubstr("R squared"),
                                HasSubstr("ignored 12 rows without 'price'"), HasSubstr(":regress"),
                                HasSubstr("Label minus prediction")));
    EXPECT_GT(metric(dir, "r2"), model == "boosted_trees" ? 0.98 : 0.9) << model;
    EXPECT_TRUE(std::filesystem::exists(folder_ / (dir + "/report/residuals.csv")));
  }
}

// The contents of foreign spreadsheets: tabs and a decimal comma, days that no float32 holds, and a
// class called "none". New rows are read in the same way.
TEST_F(TrainProgramTest, ATableIsReadAsItsPeopleWriteIt) {
  Random random(derive_key(4, {}));
  std::string text = "tag\tbreite\tschaden\n";
  for (int i = 0; i < 900; ++i) {
    const int day = 20180101 + static_cast<int>(random.uniform_below(28));
    std::string width = fmt::format("{:.3f}", 10 * random.uniform());
    const char* label = day % 2 == 1 ? "none" : width < "5" ? "mild" : "severe";
    width[width.find('.')] = ',';
    text += fmt::format("{}\t{}\t{}\n", day, width, label);
  }
  written(folder_ / "t.tsv", text);
  const ShellOutput ran = run("t.tsv --label=schaden --trees=40");
  ASSERT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text,
              AllOf(HasSubstr("which of 3 classes is 'schaden'?"),
                    HasSubstr("note: 'none' is a class of 'schaden'"),
                    HasSubstr("note: a comma is the mark of fractions in 'breite'"),
                    HasSubstr("number      20180101 to 20180128"), HasSubstr("\"tag\":201801")));
  EXPECT_GT(metric("t_model", "accuracy"), 0.97);
  written(folder_ / "new.tsv", "breite\ttag\n7,5\t20180111\n7,5\t20180112\n2,5\t20180110\n");
  const ShellOutput predicted = run("--model-dir=t_model --predict=new.tsv");
  ASSERT_EQ(predicted.code, 0) << predicted.text;
  EXPECT_THAT(column("t_model/predictions.csv", "prediction"),
              ::testing::ElementsAre("none", "severe", "mild"));
}

TEST_F(TrainProgramTest, AColumnThatIsTheLabelIsWarnedOf) {
  std::string text = people(300, yes_no);
  std::string leaky;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    leaky += line + (leaky.empty() ? ",bought" : line.ends_with("yes") ? ",1" : ",0") + "\n";
  }
  written(folder_ / "t.csv", leaky);
  EXPECT_THAT(run("t.csv --label=label --model=linear --epochs=2").text,
              HasSubstr("warning: 'bought' alone predicts the label in 100 % of the rows"));
}

TEST_F(TrainProgramTest, SaysWhatIsWrong) {
  written(folder_ / "t.csv", people(100, yes_no));
  written(folder_ / "few.csv", "age,label\n20,yes\n");
  const auto fails = [&](const std::string& arguments) {
    const ShellOutput ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << ran.text;
    return ran.text;
  };
  EXPECT_THAT(fails("t.csv --label=lebel"), HasSubstr("did you mean 'label'?"));
  EXPECT_THAT(fails("t.csv --label=label --eval=few.csv --trees=1"),
              HasSubstr("few.csv has no column 'home, town'"));
  EXPECT_THAT(fails("--model-dir=none --predict=t.csv"), HasSubstr("holds no model of a table"));
  EXPECT_THAT(fails("t.csv --label=label --eval=./t.csv"),
              HasSubstr("--eval: ./t.csv is the table that is learned from"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t_model/table.json"));
  // Predictions do not replace their input.
  const std::string before = read("t.csv");
  ASSERT_EQ(run("t.csv --label=label --trees=1").code, 0);
  EXPECT_THAT(fails("--model-dir=t_model --predict=t.csv --out=./t.csv"),
              HasSubstr("--out: ./t.csv is the table with the rows to predict"));
  EXPECT_EQ(read("t.csv"), before);
}

TEST_F(TrainProgramTest, ALabelThatIsNoClassIsLeftOutAndTold) {
  std::string table = "size,label\n";
  for (int i = 0; i < 80; ++i) table += fmt::format("{},{}\n", i % 10, i % 10 < 4 ? 0 : 1);
  written(folder_ / "t.csv", table + "3,oops\n");
  for (const char* model : {"boosted_trees", "linear"}) {
    const ShellOutput ran =
        run(fmt::format("t.csv --label=label --model={0} --model-dir={0}", model));
    EXPECT_EQ(ran.code, 0) << ran.text;
    EXPECT_THAT(ran.text, HasSubstr("ignored 1 rows whose 'label' is not one of '0', '1'"));
  }
}

TEST_F(TrainProgramTest, AModelOfAnotherProgramIsLeftAlone) {
  written(folder_ / "t.csv", people(100, yes_no));
  EXPECT_EQ(run("t.csv --label=label --trees=1").code, 0);
  std::filesystem::remove(folder_ / "t_model/table.json");
  const ShellOutput ran = run("t.csv --label=label --trees=1");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("t_model holds a model that muster train did not make"));
  // The files of a run that learned nothing block no later run.
  std::filesystem::remove_all(folder_ / "t_model");
  std::filesystem::create_directories(folder_ / "t_model");
  written(folder_ / "t_model/table.json", "{}");
  const ShellOutput anew = run("t.csv --label=label --trees=1");
  EXPECT_EQ(anew.code, 0) << anew.text;
}

TEST_F(TrainProgramTest, CtrlCSavesAndTheSameCommandContinues) {
  written(folder_ / "t.csv", people(3000, yes_no));
  launch::ChildSpec spec;
  spec.argv = {std::string(std::getenv("MUSTER_BIN_DIR")) + "/muster",
               "train",
               folder_ / "t.csv",
               "--label=label",
               "--trees=100000",
               "--model-dir=" + folder_ / "m"};
  spec.dies_with_parent = true;
  launch::ChildProcess child(spec);
  // Only this file shows when it has begun to train; looking for it is bounded.
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!child.status() && !std::filesystem::exists(folder_ / "m/table.json")) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "muster train did not begin";
    std::this_thread::sleep_for(5ms);
  }
  child.signal(SIGINT);
  EXPECT_EQ(child.wait_for(60s)->code, 130);
  const ShellOutput again = run("t.csv --label=label --trees=3 --model-dir=m");
  EXPECT_EQ(again.code, 0) << again.text;
}

// --- tables of others ---

class RealTableTest : public TrainProgramTest {
 protected:
  void SetUp() override {
    const char* data = std::getenv("MUSTER_TEST_DATA");
    if (data == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
    data_ = std::string(data) + "/tabular/";
  }
  // Trains, and gives a metric of the report.
  double trained(const std::string& arguments, const std::string& name) const {
    const ShellOutput ran = run(arguments + " --model-dir=m");
    EXPECT_EQ(ran.code, 0) << ran.text;
    const double value = metric("m", name);
    std::filesystem::remove_all(folder_ / "m");
    return value;
  }
  std::string data_;
};

TEST_F(RealTableTest, Census) {
  const std::string census =
      data_ + "census/adult_train.csv --label=income --eval=" + data_ + "census/adult_test.csv";
  EXPECT_GE(trained(census, "accuracy"), 0.865);
  EXPECT_GE(trained(census + " --model=wide_and_deep --epochs=4", "accuracy"), 0.845);
}

TEST_F(RealTableTest, SmallTables) {
  EXPECT_GE(
      trained(data_ + "titanic/train.csv --label=survived --eval=" + data_ + "titanic/eval.csv",
              "accuracy"),
      0.76);
  EXPECT_GE(trained(data_ + "auto-mpg/mpg.csv --label=mpg", "r2"), 0.8);
  EXPECT_GE(trained(data_ + "iris/iris.csv --label=virginica", "accuracy"), 0.88);
}

TEST_F(RealTableTest, LargerTables) {
  EXPECT_GE(trained(data_ + "california/housing.csv --label=median_house_value --trees=100", "r2"),
            0.79);
  EXPECT_GE(trained(data_ + "covertype/covertype.csv --label=Cover_Type --trees=50", "accuracy"),
            0.85);
}

}  // namespace
}  // namespace muster::app
