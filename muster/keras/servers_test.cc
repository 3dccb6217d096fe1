// A model on parameter servers trains as the Estimator that is made of it.
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"
#include "muster/keras/internal/test_models.h"
#include "muster/keras/model_to_estimator.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::keras {
namespace {

using testing::compiled;
using testing::rows_of;

TEST(ModelOnServers, AsAnEstimatorComputesWhatFitDoes) {
  constexpr int64_t epochs = 2;
  const Dataset data = rows_of(70).shuffle(70).batch(16);
  for (const char* optimizer : {"sgd", "adam"}) {
    Model trained = compiled(nullptr, optimizer);
    trained.fit(data, {.epochs = epochs});
    const muster::testing::LocalCluster cluster(1, /*chief=*/true, /*servers=*/1);
    const TempDirectory directory;
    muster::testing::run_ranks(2, [&](int task) {
      Model described = compiled(nullptr, optimizer);
      Estimator estimator = model_to_estimator(
          described,
          {.model_dir = directory.path(),
           .train_distribute = distribute::parameter_server(),
           .environment = task == 0 ? cluster.environment(0) : cluster.server_environment(0)});
      estimator.train([&] { return data.repeat(epochs); });
      if (task != 0) return;
      for (const auto& [name, value] : trained.get_weights())
        EXPECT_TRUE(estimator.get_variable_value(name).equal(value)) << name;
    });
  }
}

}  // namespace
}  // namespace muster::inline v0_1::keras
