#include "muster/tensor/compilation_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// A device that compiles as many programs as it is set to.
class CountingLibrary final : public DeviceLibrary {
 public:
  int count() override { return 1; }
  int join() override { return 1; }
  void run_recorded(int) override {}
  int64_t compilations() override { return programs; }
  int64_t runs() override { return started; }
  void seed(int, uint64_t) override {}
  std::optional<DeviceMemory> memory(int) override { return bytes; }

  std::optional<DeviceMemory> bytes{};
  int64_t programs = 5;  // of what ran before
  int64_t started = 9;
};

Batch batch_of(int64_t rows, int64_t width) {
  return to_batch(Element::tuple(
      {Element::dict({{"ids", torch::zeros({rows, width})}, {"age", torch::zeros({rows, 1})}}),
       torch::zeros({rows})}));
}

class CompilationLogTest : public ::testing::Test {
 protected:
  std::string step(const Batch& batch, int64_t compiled, bool updated = true) {
    log_.begin();
    library_.programs += compiled;
    return log_.end(++step_, &batch, updated);
  }

  CountingLibrary library_;
  CompilationLog log_{&library_, Device(at::kXLA, 0)};
  int64_t step_ = 0;
};

TEST_F(CompilationLogTest, NamesTheTensorWhoseSizesDiffer) {
  EXPECT_EQ(step(batch_of(8, 4), 3), "");
  EXPECT_EQ(step(batch_of(8, 4), 2), "");
  EXPECT_EQ(step(batch_of(8, 4), 0), "");
  EXPECT_EQ(log_.late(), 0);
  EXPECT_EQ(step(batch_of(8, 6), 2),
            "step 4: 2 programs were compiled: features.ids has the sizes [8, 6], and had [8, 4] "
            "in the step before");
  EXPECT_EQ(step(batch_of(8, 4), 0), "");
  EXPECT_EQ(step(batch_of(3, 4), 1),
            "step 6: 1 program was compiled: features.age has the sizes [3, 1], and had [8, 1] in "
            "the step before; features.ids has the sizes [3, 4], and had [8, 4] in the step "
            "before; labels has the sizes [3], and had [8] in the step before");
  EXPECT_EQ(step(batch_of(3, 4), 1),
            "step 7: 1 program was compiled: the batch has the sizes of the step before, so the "
            "operations of the model differ");
  EXPECT_EQ(log_.late(), 4);
}

TEST_F(CompilationLogTest, CountsUpdatesAndNotBatches) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(batch_of(8, 4), 1, i % 2 == 1), "");
  EXPECT_NE(step(batch_of(8, 4), 1, false), "");
}

TEST_F(CompilationLogTest, TellsOnceThatEachStepReadsANumber) {
  const Batch batch = batch_of(8, 4);
  const auto step_with = [&](int64_t reads) {
    library_.started += reads;  // in the model function
    const std::string line = log_.begin();
    library_.started += 2;
    log_.end(++step_, &batch, true);
    return line;
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step_with(0), "");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step_with(1), "") << i;
  EXPECT_EQ(step_with(0), "");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step_with(1), "") << i;
  EXPECT_THAT(step_with(1), ::testing::HasSubstr("each step reads a number on the CPU"));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(step_with(1), "") << i;
}

// Data of ever new sizes would fill the log.
TEST_F(CompilationLogTest, LogsTenLines) {
  for (int i = 0; i < 2; ++i) step(batch_of(8, 4), 1);
  for (int i = 1; i <= 9; ++i) EXPECT_NE(step(batch_of(8, 4 + i), 1), "") << i;
  EXPECT_THAT(step(batch_of(8, 20), 1), ::testing::EndsWith("; later ones are not logged"));
  EXPECT_EQ(step(batch_of(8, 21), 1), "");
  EXPECT_EQ(log_.late(), 11);
}

TEST_F(CompilationLogTest, TellsOnceHowMuchMemoryIsUsed) {
  library_.bytes = {.used = 3 << 20, .most = 5 << 20, .limit = int64_t{16} << 30};
  EXPECT_EQ(step(batch_of(8, 4), 1), "");
  EXPECT_EQ(step(batch_of(8, 4), 1, false), "");
  EXPECT_EQ(step(batch_of(8, 4), 1),
            "xla:0 uses 3.0 MiB of its 16.0 GiB after two steps, and 5.0 MiB at most");
  EXPECT_EQ(step(batch_of(8, 4), 0), "");
}

TEST(CompilationLog, DoesNothingWithoutALibrary) {
  CompilationLog log(nullptr, at::kCPU);
  EXPECT_EQ(log.begin(), "");
  EXPECT_EQ(log.end(9, nullptr, true), "");
}

}  // namespace
}  // namespace muster::inline v0_1
