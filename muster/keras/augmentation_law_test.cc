// Layers that change images at random do the same to a row on any number of replicas.
#include <gtest/gtest.h>

#include <vector>

#include "muster/distribute/strategy.h"
#include "muster/layers/sequential.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/preprocessing/image_augmentation.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

Tensor augmented(const StrategyPtr& strategy, const Dataset& images) {
  const auto scope = strategy->scope(alone(7));
  const Layer augment =
      Sequential({RandomFlip(), RandomRotation(0.2), RandomZoom(0.3), RandomContrast(0.5)});
  std::vector<Tensor> batches;
  for (const auto& batch : strategy->distribute(images)) {
    batches.push_back(strategy->gather(
        strategy->run([&](const Features& x) { return augment(x.tensor()); }, batch), 0));
  }
  return torch::cat(batches);
}

// 17 images in batches of 6: in the last one three replicas have 2, 2 and 1 rows; of 13 images one
// has a row, and the others have none.
TEST(AugmentationLawTest, AnyNumberOfReplicasGivesTheSameBits) {
  for (const int64_t rows : {17, 13}) {
    const Tensor pixels = torch::sin(torch::arange(rows * 60, kFloat64) * 12.9898);
    const Tensor images = pixels.to(kFloat32).reshape({rows, 5, 4, 3});
    const Dataset batches = Dataset::from_tensor_slices(images).batch(6);
    const Tensor alone = augmented(one_device(), batches);
    ASSERT_EQ(alone.sizes(), images.sizes());
    EXPECT_FALSE(alone.equal(images));
    for (const int replicas : {2, 3})
      EXPECT_TRUE(augmented(mirrored({.replicas = replicas}), batches).equal(alone)) << replicas;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
