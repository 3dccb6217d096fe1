// The devices of torch_xla, as a program sees them. MUSTER_PYTHON names the Python with the
// packages; without it the tests of devices are skipped.
#include "muster/xla/xla_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/tensor/async_scalar.h"
#include "muster/tensor/device.h"
#include "muster/tensor/device_copier.h"
#include "muster/tensor/libtorch.h"
#include "muster/xla/own_functions.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPython = "MUSTER_PYTHON";

// This one comes first: a process loads the packages once.
TEST(XlaDevicesLoading, SaysWhatIsNotThere) {
  const char* const given = std::getenv(kPython);
  const std::string before = given != nullptr ? given : "";
  setenv(kPython, "/none/python3", 1);
  const Error error = error_of([] { parse_device("xla:0"); });
  given != nullptr ? setenv(kPython, before.c_str(), 1) : unsetenv(kPython);
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  const char* const programs = std::getenv("MUSTER_BIN_DIR");
  ASSERT_NE(programs, nullptr) << "run this test through ctest";
  if (std::filesystem::exists(std::filesystem::path(programs).parent_path() /
                              "lib/libmuster-xla.so")) {
    EXPECT_EQ(error.message(),
              "there are no devices of XLA: /none/python3 is not a Python that runs");
    EXPECT_THAT(error.hint(), HasSubstr("set MUSTER_PYTHON"));
  } else {
    EXPECT_THAT(error.message(), HasSubstr("devices of XLA need libmuster-xla.so"));
    EXPECT_THAT(error.hint(), HasSubstr("-DMUSTER_XLA=ON"));
  }
}

class XlaDevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv(kPython) == nullptr)
      GTEST_SKIP() << "MUSTER_PYTHON is not set: ./dev check xla runs this with the packages";
    setenv("PJRT_DEVICE", "CPU", /*overwrite=*/0);
    device_ = parse_device("xla:0");
  }

  Device device_{at::kCPU};
};

TEST_F(XlaDevicesTest, CopyInAndOut) {
  const Tensor here = torch::arange(6, kFloat32).reshape({2, 3});
  const Element there = DeviceCopier(device_)(Element(here));
  const Tensor& copied = there.values().front().tensor();
  EXPECT_EQ(copied.device(), device_);
  EXPECT_TRUE(torch::equal(copied.cpu(), here));
}

TEST_F(XlaDevicesTest, TheSameOperationsAreCompiledOnce) {
  DeviceLibrary* const library = device_library(at::kXLA);
  ASSERT_NE(library, nullptr);
  const auto step = [&](int64_t rows) {
    const Tensor x = torch::full({rows, 3}, 2.0f).to(device_);
    const Tensor y = (x * x).sum();
    run_recorded(device_);
    return y.item<float>();
  };
  EXPECT_EQ(step(4), 48);
  const int64_t before = library->compilations();
  EXPECT_EQ(step(4), 48);
  EXPECT_EQ(library->compilations(), before);
  EXPECT_EQ(step(5), 60);
  EXPECT_GT(library->compilations(), before);
}

TEST_F(XlaDevicesTest, AnAsyncScalarIsReadLate) {
  const Tensor sum = torch::ones({7}).to(device_).sum();
  const AsyncScalar late(sum);
  EXPECT_EQ(late.value(), 7);
}

// Otherwise XLA's CPU device computes matrix products in plain loops.
TEST_F(XlaDevicesTest, OneDnnOfXlaUsesItsOwnFunctions) {
  EXPECT_EQ(xla::bind_own_functions("_XLAC", "4dnnl4impl"), 0) << "references were bound elsewhere";
  EXPECT_THROW(xla::bind_own_functions("_NONE", "4dnnl4impl"), std::runtime_error);
}

TEST_F(XlaDevicesTest, OtherThreadsMayUseThem) {
  double sum = 0;
  std::thread other([&] { sum = torch::ones({3}).to(device_).sum().item<double>(); });
  other.join();
  EXPECT_EQ(sum, 3);
}

TEST_F(XlaDevicesTest, ADeviceThatIsNotThereIsRefused) {
  const Error error = error_of([] { parse_device("xla:99"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("the device \"xla:99\" does not exist"));
}

}  // namespace
}  // namespace muster::inline v0_1
