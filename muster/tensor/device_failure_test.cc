#include "muster/tensor/device_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

#include "muster/base/error_of.h"
#include "muster/tensor/device_library.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

const Device kChip(at::kXLA, 1);

// As torch_xla writes what its runtime reports.
TEST(DeviceFailure, NamesTheDeviceAndWhatToDo) {
  const auto lost = device_failure(
      kChip, std::runtime_error("Bad StatusOr access: UNAVAILABLE: the TPU is gone"));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(lost->message(), "xla:1 failed: UNAVAILABLE: the TPU is gone");
  EXPECT_THAT(lost->hint(), HasSubstr("continue from the last checkpoint"));
}

// Only another attempt that may help ends a program with the exit code that asks for one.
TEST(DeviceFailure, AWrongEnvironmentIsInvalid) {
  struct Broken final : DeviceLibrary {
    int count() override {
      if (wrong) throw std::invalid_argument("CPU_NUM_DEVICES is 'x'\nset it to a number");
      throw std::runtime_error("the chips are in use");
    }
    int join() override { return 1; }
    void run_recorded(int) override {}
    int64_t compilations() override { return 0; }
    int64_t runs() override { return 0; }
    void seed(int, uint64_t) override {}
    std::optional<DeviceMemory> memory(int) override { return std::nullopt; }
    bool wrong = true;
  } library;
  const Error error = error_of([&] { count_devices(library); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(), "devices of XLA: CPU_NUM_DEVICES is 'x'");
  EXPECT_EQ(error.hint(), "set it to a number");
  library.wrong = false;
  EXPECT_EQ(error_of([&] { count_devices(library); }).kind(), ErrorKind::kUnavailable);
}

TEST(DeviceFailure, MemoryThatRunsOutIsNoReasonToStartAgain) {
  const auto full =
      device_failure(kChip, std::runtime_error("RESOURCE_EXHAUSTED: 3G more are needed"));
  ASSERT_TRUE(full);
  EXPECT_EQ(full->kind(), ErrorKind::kInternal);
  EXPECT_THAT(full->hint(), HasSubstr("use a smaller batch"));
}

TEST(DeviceFailure, AnErrorOfItsOwnStaysAsItIs) {
  const auto made = device_failure(kChip, std::runtime_error("ABORTED: x"));
  EXPECT_EQ(device_failure(kChip, made->with_detail("after step 3"))->message(),
            "xla:1 failed: ABORTED: x; after step 3");
}

TEST(DeviceFailure, OtherExceptionsAreNoFailures) {
  EXPECT_FALSE(device_failure(kChip, std::runtime_error("INVALID_ARGUMENT: [2,3] and [4,5]")));
  EXPECT_FALSE(device_failure(kChip, invalid_argument("UNAVAILABLE: written by a user")));
  EXPECT_FALSE(device_failure(at::kCPU, std::runtime_error("UNAVAILABLE: x")));
}

}  // namespace
}  // namespace muster::inline v0_1
