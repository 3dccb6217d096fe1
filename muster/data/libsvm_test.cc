#include "muster/data/libsvm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::HasSubstr;

class LibsvmTest : public ::testing::Test {
 protected:
  std::unique_ptr<ElementReader> open(const std::string& text, const LibsvmOptions& options) {
    local_file_system().write_atomically(dir_ / "a.svm", text).value();
    return libsvm_format(options)->open(local_file_system(), dir_ / "a.svm");
  }

  const TempDirectory dir_;
};

TEST_F(LibsvmTest, DenseRows) {
  const auto reader = open("+1 1:0.5 3:2\n\n-1\t2:1e2 # why\r\n0\n", {.num_features = 3});
  Element rows;
  ASSERT_EQ(reader->read(10, &rows), 3);
  EXPECT_EQ(rows.describe(), "({features: float32[3, 3]}, float32[3])");
  EXPECT_TRUE(
      torch::equal(rows.values()[0].tensor(),
                   torch::tensor({0.5f, 0.f, 2.f, 0.f, 100.f, 0.f, 0.f, 0.f, 0.f}).view({3, 3})));
  EXPECT_TRUE(torch::equal(rows.values()[1].tensor(), torch::tensor({1.f, -1.f, 0.f})));
  EXPECT_EQ(reader->read(10, &rows), 0);
  const auto from_zero =
      open("2 0:1\n", {.num_features = 1, .zero_based = true, .label_dtype = kInt64});
  ASSERT_EQ(from_zero->read(10, &rows), 1);
  EXPECT_EQ(rows.describe(), "({features: float32[1, 1]}, int64[1])");
}

TEST_F(LibsvmTest, SparseRowsComeOneByOne) {
  const auto reader =
      open("1 2:0.5 1000000000000:2\n-1\n", {.num_features = 1'000'000'000'000, .dense = false});
  Element rows;
  ASSERT_EQ(reader->read(10, &rows), 1);
  EXPECT_EQ(rows.describe(), "({indices: int64[1, 2], values: float32[1, 2]}, float32[1])");
  EXPECT_EQ(rows.values()[0].tensor()[0][1].item<int64_t>(), 999'999'999'999);
  EXPECT_EQ(rows.values()[1].tensor()[0][0].item<float>(), 0.5f);
  ASSERT_EQ(reader->read(10, &rows), 1);
  EXPECT_EQ(rows.values()[0].describe(), "int64[1, 0]");
  EXPECT_EQ(reader->read(10, &rows), 0);
}

TEST_F(LibsvmTest, BadLinesAreNamedAndReadingContinues) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"x 1:1", "'x' is not a float32 label"},
      {"1,2 1:1", "'1,2' is not a float32 label"},
      {"1 1", "'1' is not an index:value pair"},
      {"1 1:", "'1:' is not an index:value pair"},
      {"1 a:1", "'a:1' is not an index:value pair"},
      {"1 qid:3 1:1", "'qid:3' is a query id, which is not supported"},
      {"1 0:1", "'0:1' has an index outside of [1, 3]"},
      {"1 4:1", "'4:1' has an index outside of [1, 3]"},
      {"1 -9223372036854775808:1", "has an index outside of [1, 3]"},
      {"1 2:1 2:1", "'2:1' follows an index that is not smaller"},
      {"1 3:1 2:1", "'2:1' follows an index that is not smaller"}};
  std::string text;
  for (const auto& [line, _] : bad) text += "1 1:1\n" + line + "\n";
  text += "5 2:2\n";
  const auto reader = open(text, {.num_features = 3});
  Element rows;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(reader->read(100, &rows), 1);
    const int64_t place = *reader->tell();
    const Error error = error_of([&] { reader->read(100, &rows); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_NE(error.hint(), "");
    EXPECT_THAT(error.message(), HasSubstr("a.svm:" + std::to_string(2 * i + 2) + ": "));
    EXPECT_THAT(error.message(), HasSubstr(bad[i].second));
    // A position before an error leads to it, with the same message.
    const int64_t behind = *reader->tell();
    reader->seek(place);
    EXPECT_EQ(error_of([&] { reader->read(100, &rows); }).message(), error.message());
    EXPECT_EQ(reader->tell(), behind);
  }
  EXPECT_EQ(reader->read(100, &rows), 1);
  EXPECT_EQ(rows.values()[0].tensor()[0][1].item<float>(), 2.f);
  reader->seek(0);
  EXPECT_EQ(reader->skip(1000), static_cast<int64_t>(2 * bad.size() + 1));
}

TEST_F(LibsvmTest, OptionsAreChecked) {
  EXPECT_THAT(error_of([] { libsvm_format({}); }).message(), HasSubstr("num_features = 0"));
  EXPECT_THAT(error_of([] { libsvm_format({.num_features = int64_t{1} << 40}); }).hint(),
              HasSubstr("dense = false"));
  EXPECT_THAT(error_of([] { libsvm_format({.num_features = 3, .label_dtype = kUInt8}); }).message(),
              HasSubstr("label_dtype = uint8"));
}

TEST_F(LibsvmTest, ReadsA9a) {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (data == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  const auto format = libsvm_format({.num_features = 123, .label_dtype = kInt64});
  // Rows, ones and positive labels, counted by awk.
  const std::vector<std::tuple<std::string, int64_t, int64_t, int64_t>> files = {
      {"a9a", 32560, 451578, 7841}, {"a9a.t", 16281, 225731, 3846}};
  for (const auto& [name, count, ones, positive] : files) {
    const auto reader = format->open(local_file_system(), join_path(data, "sparse/" + name));
    Element rows;
    int64_t seen = 0, sum = 0, labels = 0;
    while (const int64_t got = reader->read(1000, &rows)) {
      EXPECT_EQ(rows.values()[0].tensor().size(1), 123);
      seen += got;
      sum += rows.values()[0].tensor().sum().item<int64_t>();
      labels += rows.values()[1].tensor().sum().item<int64_t>();
    }
    EXPECT_EQ(seen, count);
    EXPECT_EQ(sum, ones);
    EXPECT_EQ(labels, positive);
  }
}

}  // namespace
}  // namespace muster::inline v0_1::data
