#include "muster/distribute/internal/mirrored_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/replica_threads.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using internal::describe_mirrored;
using internal::mirrored_devices;
using ::testing::ElementsAre;

const Device kCpu{at::kCPU}, kFirst{at::kCUDA, 0}, kSecond{at::kCUDA, 1};

std::vector<Device> two_gpus() { return {kFirst, kSecond}; }
std::vector<Device> no_gpus() { return {}; }

TEST(MirroredDevices, AreAllGpusByDefault) {
  EXPECT_THAT(mirrored_devices({}, {}, two_gpus), ElementsAre(kFirst, kSecond));
  EXPECT_THAT(mirrored_devices({}, {}, no_gpus), ElementsAre(kCpu));
}

TEST(MirroredDevices, AreThoseThatWereAskedFor) {
  EXPECT_THAT(mirrored_devices({}, 3, two_gpus), ElementsAre(kCpu, kCpu, kCpu));
  EXPECT_THAT(mirrored_devices({"cpu"}, {}, two_gpus), ElementsAre(kCpu));
  EXPECT_EQ(error_of([] { mirrored_devices({"nothing"}, {}, two_gpus); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([] { mirrored({.replicas = 0}); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(MirroredDevices, AreDescribed) {
  EXPECT_EQ(describe_mirrored({kFirst, kSecond}), "mirrored: 2 replicas on cuda:0, cuda:1");
  EXPECT_EQ(describe_mirrored({kFirst}), "mirrored: 1 replica on cuda:0");
  EXPECT_EQ(describe_mirrored({kCpu, kCpu}), "mirrored: 2 replicas on the CPU");
  EXPECT_EQ(describe_mirrored({kCpu}),
            "mirrored: 1 replica on the CPU; for several, mirrored({.replicas = n})");
}

// So a program says that there is no limit.
TEST(MirroredDevices, AnInfiniteTimeOutNeverComes) {
  const Seconds never(std::numeric_limits<double>::infinity());
  const auto replicas =
      mirrored({.replicas = 2, .timeout = never, .progress_timeout = never, .save_timeout = never})
          ->start_replicas({});
  ReplicaThreads(2).run([&](size_t replica, const std::function<void()>&) {
    Replica& here = *replicas[replica];
    EXPECT_EQ(here.group().gather_text("name", "a").size(), 2u);
    // The other one comes late.
    if (replica == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(here.exchange().gather(torch::ones({1}), 0).size(), 2u);
    here.finish();
  });
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
