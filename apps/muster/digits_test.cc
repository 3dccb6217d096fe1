#include "apps/muster/digits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/idx.h"

namespace muster::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DigitImage, IsAFunctionOfSeedSetAndIndex) {
  const DigitImage image = digit_image(1, DigitSet::kTrain, 17);
  EXPECT_EQ(image, digit_image(1, DigitSet::kTrain, 17));
  EXPECT_NE(image, digit_image(2, DigitSet::kTrain, 17));
  EXPECT_NE(image, digit_image(1, DigitSet::kTest, 17));
  EXPECT_NE(image, digit_image(1, DigitSet::kTrain, 18));
}

TEST(DigitImage, ImagesAreDistinctAndInkStandsOnBackground) {
  std::set<DigitImage> seen;
  for (uint64_t i = 0; i < 3000; ++i) {
    const DigitImage image = digit_image(1, DigitSet::kTrain, i);
    EXPECT_TRUE(seen.insert(image).second) << i;
    const auto ink = std::count_if(image.begin(), image.end(), [](int v) { return v > 127; });
    const auto background = std::count_if(image.begin(), image.end(), [](int v) { return v < 40; });
    EXPECT_GE(ink, 5) << i;
    EXPECT_LE(ink, 350) << i;
    EXPECT_GE(background, 350) << i;
  }
}

TEST(DigitImage, DigitsStayInsideTheImage) {
  double border = 0;
  double all = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const DigitImage image = digit_image(3, DigitSet::kTrain, i);
    for (int row = 0; row < kDigitSide; ++row) {
      for (int column = 0; column < kDigitSide; ++column) {
        const double value = image[row * kDigitSide + column];
        all += value;
        if (std::min({row, column, 27 - row, 27 - column}) == 0) border += value;
      }
    }
  }
  // The outermost ring is 14 % of the pixels; only dust and a few long strokes reach it.
  EXPECT_LT(border, 0.02 * all);
}

TEST(DigitLabel, EachTenHoldEachDigitOnceInVaryingOrder) {
  std::set<std::vector<int>> orders;
  for (uint64_t block = 0; block < 50; ++block) {
    std::vector<int> labels;
    for (uint64_t i = 0; i < 10; ++i) {
      labels.push_back(digit_label(1, DigitSet::kTest, block * 10 + i));
    }
    orders.insert(labels);
    std::sort(labels.begin(), labels.end());
    std::vector<int> each(10);
    std::iota(each.begin(), each.end(), 0);
    EXPECT_EQ(labels, each);
  }
  EXPECT_GT(orders.size(), 45u);
}

class WriteDigitsTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) { return join_path(options_.out, name); }
  std::string read(const std::string& name) {
    return local_file_system().read_file(path(name)).value();
  }

  TempDirectory folder_;
  DigitOptions options_{.out = join_path(folder_.path(), "a/digits"), .train = 130, .test = 20};
};

TEST_F(WriteDigitsTest, FilesAreIdx) {
  ASSERT_TRUE(write_digits(options_));
  FileSystem& files = local_file_system();
  const auto images = formats::read_idx(files, path("train-images-idx3-ubyte")).value();
  const auto labels = formats::read_idx(files, path("train-labels-idx1-ubyte")).value();
  EXPECT_THAT(images.shape, ElementsAre(130, 28, 28));
  EXPECT_THAT(labels.shape, ElementsAre(130));
  EXPECT_EQ(images.type, formats::IdxType::kUint8);
  const DigitImage image = digit_image(1, DigitSet::kTrain, 129);
  EXPECT_EQ(images.data.substr(129 * 784), std::string(image.begin(), image.end()));
  for (int i = 0; i < 130; ++i) EXPECT_EQ(labels.data[i], digit_label(1, DigitSet::kTrain, i));
  const auto test_images = formats::read_idx(files, path("t10k-images-idx3-ubyte")).value();
  EXPECT_THAT(test_images.shape, ElementsAre(20, 28, 28));
  const auto test_labels = formats::read_idx(files, path("t10k-labels-idx1-ubyte")).value();
  EXPECT_THAT(test_labels.shape, ElementsAre(20));
}

// Computed once on x86-64 with GCC 12; another machine must write the same bytes.
TEST_F(WriteDigitsTest, SameBytesEverywhere) {
  ASSERT_TRUE(write_digits(options_));
  EXPECT_EQ(crc32c(bytes_of(read("train-images-idx3-ubyte"))), 1082197983u);
  EXPECT_EQ(crc32c(bytes_of(read("train-labels-idx1-ubyte"))), 665844255u);
}

TEST_F(WriteDigitsTest, SecondTimeDoesNothingUnlessDataIsDamaged) {
  EXPECT_TRUE(write_digits(options_));
  EXPECT_FALSE(write_digits(options_));
  const std::string whole = read("t10k-images-idx3-ubyte");
  local_file_system()
      .write_atomically(path("t10k-images-idx3-ubyte"), whole.substr(0, 100))
      .value();
  EXPECT_TRUE(write_digits(options_));
  EXPECT_EQ(read("t10k-images-idx3-ubyte"), whole);
}

TEST_F(WriteDigitsTest, InterruptedRunIsFinished) {
  EXPECT_TRUE(write_digits(options_));
  const std::string whole = read("train-images-idx3-ubyte");
  std::string manifest = read("digits.json");
  manifest.replace(manifest.find("true"), 4, "false");
  local_file_system().write_atomically(path("digits.json"), manifest).value();
  local_file_system().remove(path("t10k-labels-idx1-ubyte")).value();
  EXPECT_TRUE(write_digits(options_));
  EXPECT_FALSE(write_digits(options_));
  EXPECT_EQ(read("train-images-idx3-ubyte"), whole);
}

TEST_F(WriteDigitsTest, OtherDataIsReplacedOnlyByForce) {
  EXPECT_TRUE(write_digits(options_));
  options_.seed = 2;
  try {
    write_digits(options_);
    FAIL() << "replaced";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("digits of other options"));
    EXPECT_THAT(error.what(), HasSubstr("--force"));
  }
  options_.force = true;
  EXPECT_TRUE(write_digits(options_));

  local_file_system().remove(path("digits.json")).value();
  options_.force = false;
  EXPECT_THROW(write_digits(options_), Error);  // possibly the user's own MNIST
}

// --force replaces files of these names, but no others that would be read along with them.
TEST_F(WriteDigitsTest, CompressedFilesOfTheSameNamesAreInTheWay) {
  local_file_system().make_directories(options_.out).value();
  local_file_system()
      .write_atomically(path("t10k-labels-idx1-ubyte.gz"), std::string_view("mine"))
      .value();
  for (const bool force : {false, true}) {
    options_.force = force;
    const Error error = error_of([&] { write_digits(options_); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("t10k-labels-idx1-ubyte.gz is there already"));
    EXPECT_THAT(error.hint(), HasSubstr("another folder"));
    EXPECT_THAT(local_file_system().list_directory(options_.out).value(),
                ElementsAre("t10k-labels-idx1-ubyte.gz"));
  }
}

TEST_F(WriteDigitsTest, RefusesEmptySets) {
  options_.test = 0;
  EXPECT_THROW(write_digits(options_), Error);
}

}  // namespace
}  // namespace muster::app
