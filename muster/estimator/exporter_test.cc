#include "muster/estimator/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/export/servable.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using Versions = std::vector<int64_t>;

ServingInputReceiver point_receiver() {
  return raw_serving_input_receiver({{"x", {kFloat32, {testing::kFeatures}}}});
}

class ExporterTest : public ::testing::Test {
 protected:
  ExporterTest() : estimator_(testing::two_layers, config(), {{"optimizer", "sgd"}}) {
    estimator_.train(testing::shuffled_batches(64, 8), {.max_steps = 1});
  }
  RunConfig config() {
    RunConfig made = testing::quiet_config(directory_ / "m");
    made.clock = &clock_;
    return made;
  }
  // Whether it exported.
  bool evaluated(Exporter& exporter, const EvalResult& result, bool is_final = false) {
    return exporter
        .export_model(estimator_, dir(), *estimator_.latest_checkpoint(), result, is_final)
        .has_value();
  }
  std::string dir() const { return directory_ / "export"; }
  // Counted from the first one.
  Versions versions() const {
    Versions all = model_versions(dir());
    for (int64_t& each : all) each -= 1'700'000'000;
    return all;
  }

  const TempDirectory directory_;
  ManualClock clock_;  // does not move, so versions are numbered one after another
  Estimator estimator_;
};

EvalResult with_loss(double value) { return {{"loss", value}, {"global_step", 1}}; }

TEST_F(ExporterTest, FinalExportsAtTheEnd) {
  const ExporterPtr exporter = final_exporter("last", point_receiver());
  EXPECT_EQ(exporter->name(), "last");
  EXPECT_FALSE(evaluated(*exporter, with_loss(1)));
  EXPECT_FALSE(local_file_system().exists(dir()).value());
  EXPECT_TRUE(evaluated(*exporter, with_loss(2), true));
  EXPECT_EQ(versions(), (Versions{0}));
}

TEST_F(ExporterTest, LatestKeepsTheNewest) {
  const ExporterPtr exporter = latest_exporter("latest", point_receiver(), {.exports_to_keep = 2});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(evaluated(*exporter, with_loss(i)));
  EXPECT_EQ(versions(), (Versions{2, 3}));
  const ExporterPtr all =
      latest_exporter("all", point_receiver(), {.exports_to_keep = std::nullopt});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(evaluated(*all, with_loss(i)));
  EXPECT_EQ(versions().size(), 6u);
}

TEST_F(ExporterTest, BestExportsWhatIsBetterAlsoAfterARestart) {
  const auto make = [] { return best_exporter("best", point_receiver()); };
  const ExporterPtr exporter = make();
  EXPECT_TRUE(evaluated(*exporter, with_loss(3)));
  EXPECT_FALSE(evaluated(*exporter, with_loss(4)));
  EXPECT_FALSE(evaluated(*exporter, with_loss(3)));
  EXPECT_TRUE(evaluated(*exporter, with_loss(2)));
  const ExporterPtr restarted = make();
  EXPECT_FALSE(evaluated(*restarted, with_loss(2.5)));
  EXPECT_TRUE(evaluated(*restarted, with_loss(1)));
  EXPECT_EQ(versions(), (Versions{0, 1, 2}));
  EXPECT_TRUE(local_file_system().exists(dir() + "/best.json").value());
}

TEST_F(ExporterTest, BestIsNoNumberOnlyWhereNothingIs) {
  const ExporterPtr exporter = best_exporter("best", point_receiver());
  EXPECT_TRUE(evaluated(*exporter, with_loss(std::nan(""))));
  EXPECT_FALSE(evaluated(*exporter, with_loss(std::nan(""))));
  EXPECT_TRUE(evaluated(*exporter, with_loss(std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(evaluated(*best_exporter("best", point_receiver()), with_loss(5)));
  EXPECT_FALSE(evaluated(*exporter, with_loss(std::nan(""))));
}

TEST_F(ExporterTest, BestKeepsTheBest) {
  // "Newer is better" exports each; the worst by accuracy is removed.
  const ExporterPtr exporter = best_exporter(
      "best", point_receiver(), {.compare = metric_higher("accuracy"), .exports_to_keep = 2});
  const auto accuracy = [](double value) { return EvalResult{{"loss", 0}, {"accuracy", value}}; };
  EXPECT_TRUE(evaluated(*exporter, accuracy(0.5)));
  EXPECT_FALSE(evaluated(*exporter, accuracy(0.4)));
  EXPECT_TRUE(evaluated(*exporter, accuracy(0.6)));
  EXPECT_TRUE(evaluated(*exporter, accuracy(0.7)));
  EXPECT_EQ(versions(), (Versions{1, 2}));
  // A version that a person removed is not missed.
  local_file_system().remove_tree(dir() + "/1700000002").value();
  EXPECT_FALSE(evaluated(*exporter, accuracy(0.65)));
  EXPECT_TRUE(evaluated(*exporter, accuracy(0.8)));
  EXPECT_EQ(versions(), (Versions{1, 2}));
}

TEST_F(ExporterTest, BadArgumentsAreNamed) {
  const auto said = [](const auto& make) { return error_of([&] { make(); }).message(); };
  EXPECT_THAT(said([] { final_exporter("", point_receiver()); }), HasSubstr("name is \"\""));
  EXPECT_THAT(said([] { final_exporter("a/b", point_receiver()); }), HasSubstr("\"a/b\""));
  EXPECT_THAT(said([] { latest_exporter("..", point_receiver()); }), HasSubstr("\"..\""));
  EXPECT_THAT(said([] { latest_exporter("a", point_receiver(), {.exports_to_keep = 0}); }),
              HasSubstr("exports_to_keep is 0"));
  EXPECT_THAT(said([] { best_exporter("a", point_receiver(), {.exports_to_keep = -1}); }),
              HasSubstr("exports_to_keep is -1"));
  EXPECT_THAT(said([] { best_exporter("a", point_receiver(), {.compare = nullptr}); }),
              HasSubstr("compare is empty"));
  EXPECT_THAT(said([] { final_exporter("a", {}); }), HasSubstr("no features"));
}

TEST_F(ExporterTest, AMetricThatIsMissingIsNamedAtOnce) {
  const ExporterPtr exporter =
      best_exporter("best", point_receiver(), {.compare = metric_lower("error")});
  const Error error = error_of([&] { evaluated(*exporter, with_loss(1)); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("no metric \"error\""));
  EXPECT_THAT(error.message(), HasSubstr("'loss'"));
  EXPECT_TRUE(versions().empty());
}

TEST_F(ExporterTest, ADamagedFileIsNamed) {
  const ExporterPtr exporter = best_exporter("best", point_receiver());
  EXPECT_TRUE(evaluated(*exporter, with_loss(1)));
  local_file_system().write_atomically(dir() + "/best.json", std::string_view("{}")).value();
  const Error error = error_of([&] { evaluated(*exporter, with_loss(0)); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("best.json"));
}

}  // namespace
}  // namespace muster::inline v0_1
