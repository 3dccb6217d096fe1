// K-means on points whose centers are known, and against Lloyd's steps written out, on one replica
// and on two.
#include "muster/canned/kmeans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/canned/internal/choose_centers.h"
#include "muster/canned/internal/test_run.h"
#include "muster/export/servable.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using testing::expect_values;
using testing::features_alone;
using testing::floats;
using ::testing::HasSubstr;
using testing::largest_distance;
using testing::one_batch;
using testing::RecordLosses;
using testing::rows_of;
using testing::run_config;
using ::testing::StartsWith;

// So many points around four corners, the same in each call, and not in the order of the corners.
Tensor points_around_corners(int64_t rows) {
  const Tensor number = torch::arange(rows).to(kFloat64);
  const Tensor corner = number * 3 % 4;
  const Tensor x = (corner % 2) * 10 + (number * 0.7).sin();
  const Tensor y = (corner / 2).floor() * 10 + (number * 1.3).cos();
  return torch::stack({x, y}, 1).to(kFloat32);
}
const Tensor kCorners = rows_of({{0, 0}, {10, 0}, {0, 10}, {10, 10}});

// Each center has a corner that is nearer than 1.
void expect_corners(const Tensor& centers) {
  ASSERT_EQ(centers.sizes(), kCorners.sizes());
  const Tensor distances = torch::cdist(kCorners, centers);
  EXPECT_LT(std::get<0>(distances.min(1)).max().item<double>(), 1) << centers;
  EXPECT_LT(std::get<0>(distances.min(0)).max().item<double>(), 1) << centers;
}

InputFn batches(const Tensor& points, int64_t size) {
  return [=] { return Dataset::from_tensor_slices(points).repeat().global_batch(size); };
}
InputFn once(const Tensor& points, int64_t size) {
  return [=] { return Dataset::from_tensor_slices(points).batch(size); };
}

// The mean of the points that are nearest to each center; the center itself if there is none.
Tensor lloyd(const Tensor& points, const Tensor& centers) {
  const Tensor nearest = torch::cdist(points.to(kFloat64), centers.to(kFloat64)).argmin(1);
  Tensor next = centers.to(kFloat64).clone();
  for (int64_t c = 0; c < centers.size(0); ++c) {
    const Tensor mine = points.index({nearest == c}).to(kFloat64);
    if (mine.size(0) > 0) next[c] = mine.mean(0);
  }
  return next;
}

class KMeansTest : public ::testing::TestWithParam<int> {
 protected:
  RunConfig config(const std::string& name = "m") const {
    return run_config(directory_ / name, GetParam());
  }
  const TempDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Replicas, KMeansTest, ::testing::Values(1, 2));

TEST_P(KMeansTest, FullBatchesAreLloydsSteps) {
  const Tensor points = points_around_corners(31);
  Tensor centers = rows_of({{1, 2}, {2, 9}, {8, 5}, {100, 100}});
  KMeansClustering kmeans({.initial_clusters = centers, .use_mini_batch = false}, config());
  for (int step = 1; step <= 4; ++step) {
    kmeans.train(batches(points, 31), {.steps = 1});
    centers = lloyd(points, centers);
    expect_values(kmeans.cluster_centers(), centers);
  }
  const Tensor distances = torch::cdist(points.to(kFloat64), centers).square();
  const double score = std::get<0>(distances.min(1)).sum().item<double>();
  EXPECT_NEAR(kmeans.score(once(points, 31)), score, 1e-4 * score);
  EXPECT_NEAR(kmeans.score(once(points, 7)), score, 1e-4 * score);
  EXPECT_TRUE(
      torch::allclose(kmeans.transform(once(points, 8)).to(kFloat64), distances, 1e-4, 1e-3));
  EXPECT_TRUE(kmeans.predict_cluster_index(once(points, 8)).equal(distances.argmin(1)));
}

// x += (sum of the new points - k x) / (n + k), beginning with n = 1.
TEST_P(KMeansTest, MiniBatchesMoveCentersByTheirCounts) {
  RunConfig own = config();
  own.restart_input = true;  // each call brings other points
  KMeansClustering kmeans({.initial_clusters = rows_of({{0, 0}, {10, 0}})}, own);
  const auto train = [&](const Tensor& points) {
    kmeans.train(one_batch(points, torch::zeros({points.size(0)})), {.steps = 1});
  };
  train(rows_of({{1, 1}, {3, 2}, {8, 6}}));
  expect_values(kmeans.cluster_centers(), rows_of({{4.0 / 3, 1}, {9, 3}}));
  train(rows_of({{9, 9}}));
  expect_values(kmeans.cluster_centers(), rows_of({{4.0 / 3, 1}, {9, 5}}));
}

TEST_P(KMeansTest, AnIterationMayHaveSeveralSteps) {
  const Tensor points = points_around_corners(24);
  const Tensor begin = rows_of({{1, 2}, {2, 9}, {8, 1}, {9, 8}});
  KMeansClustering kmeans({.initial_clusters = begin, .mini_batch_steps_per_iteration = 3},
                          config());
  kmeans.train(batches(points, 8), {.steps = 2});
  expect_values(kmeans.cluster_centers(), begin);
  kmeans.train(batches(points, 8), {.steps = 1});
  expect_values(kmeans.cluster_centers(), lloyd(points, begin));
  kmeans.train(batches(points, 8), {.steps = 3});
  expect_values(kmeans.cluster_centers(), lloyd(points, lloyd(points, begin)));
}

TEST_P(KMeansTest, EveryBeginningFindsTheCorners) {
  const Tensor points = points_around_corners(64);
  const auto trained = [&](KMeansOptions options, const std::string& name) {
    options.num_clusters = 4;
    KMeansClustering kmeans(options, config(name));
    kmeans.train(batches(points, 64), {.max_steps = 12});
    return kmeans.cluster_centers();
  };
  for (const bool mini : {false, true}) {
    expect_corners(trained({.initial_clusters = "kmeans_plus_plus", .use_mini_batch = mini},
                           mini ? "mini" : "full"));
  }
  expect_corners(trained(
      {.initial_clusters = "kmeans_plus_plus", .kmeans_plus_plus_num_retries = -1}, "heuristic"));
  // Returns one corner each time it is asked.
  std::atomic<int> calls = 0;
  const Tensor function = trained({.initial_clusters =
                                       [&](const Tensor& inputs, int64_t missing) {
                                         EXPECT_EQ(inputs.size(0), 64);
                                         ++calls;
                                         return kCorners.slice(0, 4 - missing, 5 - missing);
                                       },
                                   .use_mini_batch = false},
                                  "function");
  expect_corners(function);
  EXPECT_EQ(calls, 5 * GetParam());  // once while the model is built
  // Two of the points may be of one corner: only that they are points is sure.
  const Tensor random = trained({.use_mini_batch = false}, "random");
  EXPECT_EQ(random.sizes(), kCorners.sizes());
}

TEST_P(KMeansTest, FindsTheGroupOfEachPoint) {
  const Tensor points = points_around_corners(64);
  const auto each_step = [=] {
    return Dataset::from_tensor_slices(points).repeat().global_batch(64);
  };
  const auto once = [=] { return Dataset::from_tensor_slices(points).batch(16); };
  KMeansClustering kmeans({.num_clusters = 4,
                           .initial_clusters = "kmeans_plus_plus",
                           .use_mini_batch = false,
                           .relative_tolerance = 1e-4},
                          config());
  kmeans.train(each_step, {.max_steps = 50});
  const Tensor centers = kmeans.cluster_centers();          // [4, 2]
  const Tensor group = kmeans.predict_cluster_index(once);  // int64 [64]
  const double score = kmeans.score(once);
  expect_corners(centers);
  EXPECT_NEAR(score, (points - centers.index_select(0, group)).square().sum().item<double>(), 1e-2);
}

TEST_P(KMeansTest, RandomCentersAreDifferentPointsOfSeveralBatches) {
  const Tensor points = torch::arange(20).to(kFloat32).unsqueeze(1);
  KMeansClustering kmeans({.num_clusters = 10, .use_mini_batch = false}, config());
  kmeans.train(batches(points, 4), {.steps = 2});  // eight of ten: nothing is learned yet
  EXPECT_EQ(kmeans.get_variable_value("initialized").item<int64_t>(), 8);
  expect_values(kmeans.cluster_centers().slice(0, 0, 8), points.slice(0, 0, 8));
  const Tensor distances = kmeans.transform(once(points, 20));
  EXPECT_TRUE(distances.slice(1, 8, 10).isinf().all().item<bool>());
  EXPECT_TRUE(distances.slice(1, 0, 8).isfinite().all().item<bool>());
  EXPECT_TRUE(std::isfinite(kmeans.score(once(points, 20))));
  kmeans.train(batches(points, 4), {.steps = 1});
  EXPECT_EQ(kmeans.get_variable_value("initialized").item<int64_t>(), 10);
}

TEST_P(KMeansTest, CosineDistancesAreOfDirections) {
  const Tensor points = rows_of({{3, 4}, {6, 8.2}, {5, 0}, {.2, .01}});
  for (const bool mini : {true, false}) {
    KMeansClustering kmeans({.initial_clusters = rows_of({{2, 2}, {8, 0}}),
                             .distance_metric = "cosine",
                             .use_mini_batch = mini},
                            config(mini ? "mini" : "full"));
    kmeans.train(batches(points, 4), {.steps = 10});
    const Tensor units = points / points.norm(2, 1, true);
    const Tensor means = torch::stack({units.slice(0, 0, 2).mean(0), units.slice(0, 2, 4).mean(0)});
    const Tensor expected = 1 - units.matmul((means / means.norm(2, 1, true)).t());
    const double tolerance = mini ? 1e-2 : 1e-5;  // mini batches keep a part of the beginning
    EXPECT_TRUE(torch::allclose(kmeans.transform(once(points, 4)), expected, tolerance, tolerance));
    EXPECT_NEAR(kmeans.score(once(points, 4)), std::get<0>(expected.min(1)).sum().item<double>(),
                tolerance);
    EXPECT_TRUE(kmeans.predict_cluster_index(once(points, 4)).equal(torch::tensor({0, 0, 1, 1})));
  }
}

// The loss of a step is computed with the centers before it; the same step ends it on all replicas.
TEST_P(KMeansTest, StopsWhereTheLossChangesLittle) {
  const Tensor points = points_around_corners(32);
  const auto record = std::make_shared<RecordLosses>();
  KMeansClustering kmeans({.initial_clusters = rows_of({{1, 2}, {2, 9}, {8, 1}, {9, 8}}),
                           .use_mini_batch = false,
                           .relative_tolerance = 1e-4},
                          config());
  const TrainResult result =
      kmeans.train(batches(points, 32), {.max_steps = 50, .hooks = {record}});
  // The corners are found by the first step, so the third one has the loss of the second.
  EXPECT_EQ(result.global_step, 3);
  EXPECT_GT(record->losses.at(0), record->losses.at(1));
  EXPECT_NEAR(record->losses.at(1), record->losses.at(2), 1e-4);
}

// There is nothing left to change.
TEST_P(KMeansTest, StopsWhereTheLossIsZero) {
  KMeansClustering kmeans(
      {.initial_clusters = kCorners, .use_mini_batch = false, .relative_tolerance = 1e-6},
      config());
  EXPECT_EQ(kmeans.train(batches(kCorners, 4), {.max_steps = 9}).global_step, 2);
}

TEST_P(KMeansTest, AResumedRunIsTheSame) {
  const Tensor points = points_around_corners(40);
  const auto make = [&](const std::string& name) {
    return KMeansClustering({.num_clusters = 4,
                             .initial_clusters = "kmeans_plus_plus",
                             .mini_batch_steps_per_iteration = 3,
                             .relative_tolerance = 1e-9},
                            config(name));
  };
  const InputFn input = [=] {
    return Dataset::from_tensor_slices(points).shuffle(40).repeat().global_batch(7);
  };
  KMeansClustering whole = make("whole");
  whole.train(input, {.max_steps = 11});
  for (const int64_t steps : {4, 8, 11}) make("parts").train(input, {.max_steps = steps});
  EXPECT_EQ(largest_distance(make("parts"), whole), 0);
}

// Features are joined in the order of their names; columns choose, and an export answers alike.
TEST_P(KMeansTest, FeaturesAreADictOrColumns) {
  const Tensor points = points_around_corners(16);
  const Element dict = Element::dict({{"y", points.select(1, 1)}, {"x", points.slice(1, 0, 1)}});
  const InputFn input = [=] { return Dataset::from_tensor_slices(dict).repeat().global_batch(16); };
  KMeansClustering all({.initial_clusters = kCorners, .use_mini_batch = false}, config("all"));
  all.train(input, {.steps = 1});
  expect_values(all.cluster_centers(), lloyd(points, kCorners));
  const std::string exported =
      all.export_model(directory_ / "export",
                       raw_serving_input_receiver({{"x", {kFloat32, {1}}}, {"y", {kFloat32, {}}}}))
          .value();
  const auto answer = Servable(exported).run(
      "cluster_index", {{"x", points.slice(1, 0, 1)}, {"y", points.select(1, 1)}});
  EXPECT_TRUE(answer.at("output").equal(torch::cdist(points, kCorners).argmin(1)));

  KMeansClustering columns({.initial_clusters = rows_of({{0}, {1}}),
                            .use_mini_batch = false,
                            .feature_columns = {feature_column::numeric_column(
                                "y", {.normalizer_fn = [](const Tensor& y) { return y / 10; }})}},
                           config("columns"));
  columns.train(input, {.steps = 1});
  expect_values(columns.cluster_centers(), lloyd(points.slice(1, 1, 2) / 10, rows_of({{0}, {1}})));
}

TEST(ChooseCentersTest, PlusPlusTakesFarPoints) {
  // A thousand points in one place and one far away: both are taken, whatever is drawn.
  Tensor points = torch::zeros({1001, 2});
  points[617] = floats({50, 50});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Tensor two = internal::plus_plus_centers(points, 2, 0, derive_key(seed, {1}));
    EXPECT_EQ(two.sum().item<double>(), 100) << seed;
  }
  // More centers than different points.
  EXPECT_EQ(internal::plus_plus_centers(points, 5, 2, derive_key(1, {1})).size(0), 5);
  const Tensor some =
      internal::random_centers(torch::arange(9).unsqueeze(1), 5, derive_key(3, {1}));
  EXPECT_EQ(std::get<0>(at::_unique(some)).size(0), 5);
}

TEST(KMeansInputTest, SaysWhichOptionsAreWrong) {
  const auto kmeans = [](KMeansOptions options, RunConfig config = {}) {
    const Error error = error_of([&] { KMeansClustering(options, config); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), StartsWith("KMeansClustering: "));
    return error.message();
  };
  EXPECT_THAT(kmeans({}), HasSubstr("num_clusters is 0; it must be at least 1"));
  EXPECT_THAT(kmeans({.num_clusters = 2, .initial_clusters = "first"}),
              HasSubstr("has no name 'first'; it has 'random', 'kmeans_plus_plus'"));
  EXPECT_THAT(kmeans({.initial_clusters = floats({1, 2})}),
              HasSubstr("initial_clusters is float32[2]; it must be floats [clusters, numbers"));
  EXPECT_THAT(kmeans({.initial_clusters = rows_of({{1, std::nan("")}})}),
              HasSubstr("initial_clusters is not finite"));
  EXPECT_THAT(kmeans({.num_clusters = 2, .distance_metric = "l1"}),
              HasSubstr("no distance_metric 'l1'; it has 'squared_euclidean', 'cosine'"));
  EXPECT_THAT(kmeans({.num_clusters = 2, .mini_batch_steps_per_iteration = 0}),
              HasSubstr("mini_batch_steps_per_iteration is 0; it must be at least 1"));
  EXPECT_THAT(kmeans({.num_clusters = 2, .relative_tolerance = -1}),
              HasSubstr("relative_tolerance is -1; it must be more than 0"));
  EXPECT_THAT(
      kmeans({.num_clusters = 2,
              .feature_columns = {feature_column::categorical_column_with_hash_bucket("a", 5)}}),
      HasSubstr("DenseFeatures: the column 'a' is not dense"));
  EXPECT_THAT(kmeans({.num_clusters = 2}, {.accumulate_steps = 2}),
              HasSubstr("not supported: RunConfig.accumulate_steps = 2"));
}

TEST(KMeansInputTest, SaysWhatABatchLacks) {
  const TempDirectory directory;
  const auto trained = [&](const KMeansOptions& options, const Element& features) {
    return message_of([&] {
      KMeansClustering(options, run_config(directory / "m"))
          .train([=] { return Dataset::from_tensors(features); }, {.steps = 1});
    });
  };
  EXPECT_THAT(trained({.num_clusters = 5, .initial_clusters = "kmeans_plus_plus"}, kCorners),
              HasSubstr("KMeansClustering: the first batch has 4 points, and kmeans_plus_plus "
                        "chooses 5 of them"));
  EXPECT_THAT(trained({.num_clusters = 2}, torch::zeros({2, 3, 4})),
              HasSubstr("KMeansClustering: the features are float32[2, 3, 4]; points are numbers"));
  EXPECT_THAT(trained({.num_clusters = 2}, Element::dict({{"a", Strings({"x", "y"})}})),
              HasSubstr("the feature 'a' is string[2]"));
  EXPECT_THAT(trained({.initial_clusters = rows_of({{1, 2, 3}})}, kCorners),
              HasSubstr("initial_clusters is float32[1, 3], and points have 2 numbers"));
  EXPECT_THAT(
      trained({.num_clusters = 2,
               .initial_clusters =
                   [](const Tensor&, int64_t) {
                     return torch::zeros({3, 2});
                   }},
              kCorners),
      HasSubstr("the function initial_clusters gave float32[3, 2]; it must give [0 to 2, 2]"));
}

}  // namespace
}  // namespace muster::inline v0_1
