#include "muster/train/state_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <limits>
#include <string>

#include "muster/base/crc32c.h"
#include "muster/base/direct_output.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint_memory.h"
#include "muster/formats/safetensors.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using Tensors = std::map<std::string, Tensor>;

// More than one block for each thread, and a block that is not full.
constexpr int64_t kMany = (int64_t{3} << 18) + 7;

TEST(StateCopyTest, HoldsTheValuesOfItsMoment) {
  const Tensor many = torch::arange(kMany, at::kFloat), square = torch::rand({5, 7});
  const Tensors tensors = {{"many", many},
                           {"turned", square.t()},
                           {"row", square[3]},
                           {"scalar", torch::full({}, 7, at::kLong)},
                           {"empty", torch::empty({0, 3})},
                           {"flags", torch::tensor({true, false})},
                           {"half", torch::ones({9}, at::kBFloat16)}};
  Tensors before;
  for (const auto& [name, tensor] : tensors) before[name] = tensor.clone();
  StateCopy copy;
  const Tensors copied = copy.of(tensors);
  EXPECT_TRUE(copy.all_finite());
  many.fill_(-1);
  square.zero_();
  ASSERT_EQ(copied.size(), tensors.size());
  for (const auto& [name, tensor] : copied) {
    EXPECT_TRUE(tensor.equal(before.at(name))) << name;
    EXPECT_EQ(tensor.scalar_type(), before.at(name).scalar_type()) << name;
    EXPECT_TRUE(tensor.is_contiguous()) << name;
  }
}

TEST(StateCopyTest, TakesItsMemoryAgainOnlyWhereNobodyHasIt) {
  const Tensors tensors = {{"w", torch::rand({100})}, {"v", torch::rand({100})}};
  StateCopy copy;
  Tensors first = copy.of(tensors);
  const void* const memory = first.at("w").data_ptr();
  const Tensor held = first.at("v");
  first.clear();
  const Tensors second = copy.of(tensors);
  EXPECT_EQ(second.at("w").data_ptr(), memory);
  EXPECT_NE(second.at("v").data_ptr(), held.data_ptr());
  // A view holds the memory too.
  const Tensor view = copy.of(tensors).at("w").slice(0, 0, 10);
  EXPECT_NE(copy.of(tensors).at("w").data_ptr(), view.data_ptr());
  EXPECT_EQ(copy.of({{"w", torch::rand({7})}}).at("w").numel(), 7);
}

// A megabyte from the system.
class Mapped {
 public:
  static constexpr size_t kBytes = size_t{1} << 20;
  Mapped()
      : bytes_(static_cast<char*>(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Mapped() { ::munmap(bytes_, kBytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  char* begin() const { return bytes_; }
  char* end() const { return bytes_ + kBytes; }

 private:
  char* bytes_;
};

// As a loop does that saves into a second folder, after it has made another optimizer.
TEST(StateCopyTest, TouchesNoMemoryBetweenItsOwnPieces) {
  // The system maps downwards, but where there is a gap: none is left for the pieces.
  const std::deque<Mapped> gaps(512);
  Tensors tensors = {{"w", torch::rand({kMany})}};
  StateCopy copy;
  copy.prepare(tensors);
  const Mapped between;
  std::fill(between.begin(), between.end(), 1);
  tensors["v"] = torch::rand({kMany});
  copy.prepare(tensors);
  (void)copy.of(tensors);  // waits for the thread
  EXPECT_EQ(std::count(between.begin(), between.end(), 1), Mapped::kBytes);
}

TEST(StateCopyTest, FindsWhatIsNotFinite) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const DType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const double bad : {std::nan(""), infinite, -infinite}) {
      for (const int64_t place : {int64_t{0}, kMany / 2, kMany - 1}) {
        Tensor tensor = torch::ones({kMany}, dtype);
        StateCopy copy;
        (void)copy.of({{"w", tensor}});
        EXPECT_TRUE(copy.all_finite());
        tensor[place] = bad;
        (void)copy.of({{"v", torch::ones({1})}, {"w", tensor}});
        EXPECT_FALSE(copy.all_finite()) << dtype << " " << bad << " at " << place;
      }
    }
  }
  StateCopy copy;
  (void)copy.of({{"largest", torch::full({3}, std::numeric_limits<float>::max())},
                 {"tiny", torch::full({3}, std::numeric_limits<float>::denorm_min())},
                 {"bits", torch::full({3}, 0x7f800000, at::kInt)}});
  EXPECT_TRUE(copy.all_finite());
}

// A checkpoint's file has the copies as they lie in memory, and the checksums of the copy.
TEST(StateCopyTest, IsLaidOutAsTheFileOfACheckpoint) {
  const TempDirectory directory;
  const Tensors tensors = {
      {"large", torch::rand({kMany})},        {"one", torch::full({}, 2, at::kFloat)},
      {"other", torch::rand({kMany / 3})},    {"rows", torch::rand({kMany / 5, 2}, at::kDouble)},
      {"small", torch::ones({5}, at::kHalf)}, {"counter", torch::full({}, 7, at::kLong)}};
  StateCopy copy;
  copy.prepare(tensors);
  const Tensors copied = copy.of(tensors);
  const std::string path = directory / "model.ckpt-3.safetensors";
  write_checkpoint(local_file_system(), path, {.tensors = copied, .global_step = 3});
  const Checkpoint read = read_checkpoint(local_file_system(), path);
  const auto file = formats::SafetensorsReader::open(local_file_system(), path).value();
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(read.tensors.at(name).equal(tensor)) << name;
    const Tensor& mine = copied.at(name);
    EXPECT_EQ(noted_crc32c(mine),
              crc32c({static_cast<const std::byte*>(mine.data_ptr()), mine.nbytes()}))
        << name;
    const auto address = reinterpret_cast<uintptr_t>(mine.data_ptr());
    EXPECT_EQ(address % DirectOutput::kBlock, file.find(name)->offset % DirectOutput::kBlock)
        << name;
  }
  // Another value has another checksum, which nobody has noted.
  copied.at("large").add_(1);
  EXPECT_EQ(noted_crc32c(copied.at("large")), std::nullopt);
  EXPECT_EQ(noted_crc32c(copied.at("other").slice(0, 0, 10)), std::nullopt);
  EXPECT_EQ(noted_crc32c(tensors.at("large")), std::nullopt);
  write_checkpoint(local_file_system(), path, {.tensors = copied, .global_step = 3});
  EXPECT_NO_THROW(read_checkpoint(local_file_system(), path));
}

// The system can hold a page for the disk in one go for 2 MiB, instead of 512 times.
TEST(StateCopyTest, LiesInHugePagesWhereTheSystemHasThem) {
  std::ifstream modes("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string mode;
  std::getline(modes, mode);
  if (mode.empty() || mode.find("[never]") != mode.npos)
    GTEST_SKIP() << "this system has no transparent huge pages";
  StateCopy copy;
  const Tensors copied = copy.of({{"large", torch::ones({kMany * 4})}});
  const auto address = reinterpret_cast<uintptr_t>(copied.at("large").data_ptr());
  std::ifstream maps("/proc/self/smaps");
  std::string flags;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2 && begin <= address &&
        address < end)
      flags = "its own";
    if (flags.empty() || !line.starts_with("VmFlags:")) continue;
    flags = line + " ";
    break;
  }
  EXPECT_THAT(flags, ::testing::HasSubstr(" hg "));
}

TEST(StateCopyTest, LeavesWhatACheckpointCannotHold) {
  StateCopy copy;
  const Tensor sparse = torch::eye(3).to_sparse();
  const Tensors copied = copy.of({{"none", Tensor()}, {"sparse", sparse}});
  EXPECT_FALSE(copied.at("none").defined());
  EXPECT_TRUE(copied.at("sparse").is_same(sparse));
}

}  // namespace
}  // namespace muster::inline v0_1
