// Files that keep elements belong to the pipeline that wrote them: cache(path) and snapshot(path).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Element doubled(const Element& element) { return Element(element.value().tensor() * 2); }

std::string refusal(const Dataset& dataset) {
  const auto iterator = dataset.iterator();
  const Error error = error_of([&] { iterator->next(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  return error.what();
}

TEST(FileCache, RefusesTheFileOfAPipelineWithAnotherStage) {
  const TempDirectory folder;
  const std::string path = folder / "kept";
  const Dataset numbers = Dataset::range(4);
  EXPECT_EQ(read(numbers.cache(path)), (Lists{{0}, {1}, {2}, {3}}));
  EXPECT_THAT(refusal(numbers.map(doubled).cache(path)),
              AllOf(HasSubstr(path), HasSubstr("its stage 1 was missing, here it is map"),
                    HasSubstr("remove the file"), HasSubstr("its own path")));
  EXPECT_EQ(read(numbers.cache(path)), (Lists{{0}, {1}, {2}, {3}}));  // it is left alone
}

TEST(FileCache, RefusesOtherParametersAndOtherOrder) {
  const Dataset numbers = Dataset::range(6);
  const auto named = [](const char* name) { return MapOptions{.name = name}; };
  const std::vector<std::pair<Dataset, Dataset>> unequal{
      {numbers.take(3), numbers.take(4)},
      {numbers, Dataset::range(0, 12, 2)},
      {numbers.shuffle(6, {.seed = 1}), numbers.shuffle(6, {.seed = 2})},
      {numbers.batch(2), numbers.batch(2, {.drop_remainder = true})},
      {numbers.batch(2), numbers.batch(3)},
      {numbers.map(doubled, named("scale")), numbers.map(doubled, named("scale, 2nd"))},
      {numbers.map(same).take(2), numbers.take(2).map(same)},
      {numbers.enumerate(1), numbers.enumerate(2)},
      {Dataset::zip({numbers, numbers.take(3)}), Dataset::zip({numbers, numbers.take(2)})},
      {numbers.window(2), numbers.window(2, {.shift = 1})},
      {number_files({"0-3", "10-13"}), number_files({"10-13", "0-3"})},
      {Dataset::from_tensor_slices(torch::arange(6, at::kLong)),
       Dataset::from_tensor_slices(torch::arange(1, 7, at::kLong))},
  };
  const TempDirectory folder;
  for (size_t i = 0; i < unequal.size(); ++i) {
    const auto& [one, other] = unequal[i];
    SCOPED_TRACE(one.describe() + " and " + other.describe());
    const std::string path = folder / fmt::format("{}", i);
    const Lists kept = read(one.cache(path));
    EXPECT_THAT(refusal(other.cache(path)), HasSubstr("another pipeline"));
    EXPECT_EQ(read(one.cache(path)), kept);
  }
}

TEST(FileCache, IsThatOfTheSamePipelineHoweverItIsRun) {
  const TempDirectory folder;
  const std::string path = folder / "kept";
  const Lists kept = read(number_files({"0-3", "10-13"}).map(doubled).cache(path));
  EXPECT_EQ(read(number_files({"0-3", "10-13"})
                     .prefetch(2)
                     .map(doubled, {.num_parallel_calls = 2})
                     .assert_cardinality(6)
                     .cache(path)),
            kept);
}

TEST(FileCache, RefusesWhatIsNoCacheAtAll) {
  const TempDirectory folder;
  const std::string path = folder / "kept";
  (void)read(Dataset::range(2).cache(path));
  const std::string other = folder / "other";
  std::ofstream(other) << "these are not records";
  EXPECT_EQ(read(Dataset::range(2).cache(other)), (Lists{{-1}}));
}

TEST(Snapshot, IsWrittenOnceByEachPipeline) {
  const TempDirectory folder;
  const std::string path = folder / "a/b";
  int calls = 0;
  const auto counted = [&](const Element& x) {
    ++calls;
    return x;
  };
  for (const auto compression : {formats::Compression::kNone, formats::Compression::kGzip}) {
    const std::string here = path + std::string(to_string(compression));
    const auto of = [&](int64_t n) {
      return Dataset::range(n).map(counted).snapshot(here, {.compression = compression});
    };
    calls = 0;
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(read(of(3).repeat(2)), (Lists{{0}, {1}, {2}, {0}, {1}, {2}}));
      EXPECT_EQ(read(of(2)), (Lists{{0}, {1}}));
      EXPECT_EQ(calls, 5);
    }
    EXPECT_EQ(local_file_system().list_directory(here).value().size(), 2u);
  }
  EXPECT_EQ(error_of([] { (void)Dataset::range(3).snapshot(""); }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST(Snapshot, SaysThatTheDataChanged) {
  const TempDirectory folder;
  const auto of = [&](int64_t first) {
    return Dataset::from_tensor_slices(torch::arange(first, first + 3, at::kLong))
        .snapshot(folder / "kept");
  };
  (void)read(of(0));
  EXPECT_THAT(refusal(of(5)), HasSubstr("held other data"));
}

TEST(Snapshot, APositionContinues) {
  const TempDirectory folder;
  const Dataset dataset = Dataset::range(4).snapshot(folder / "kept").repeat(2);
  const Lists whole{{0}, {1}, {2}, {3}, {0}, {1}, {2}, {3}};
  for (int64_t stop = 0; stop <= 8; ++stop) {
    const auto first = dataset.iterator();
    for (int64_t i = 0; i < stop; ++i) first->next();
    const auto second = dataset.iterator();
    second->restore(first->save());
    EXPECT_EQ(rest_of(*second), Lists(whole.begin() + stop, whole.end()));
  }
}

}  // namespace
}  // namespace muster::inline v0_1
