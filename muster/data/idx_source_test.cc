#include "muster/data/idx_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/idx.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void write(const std::string& path, const std::vector<int64_t>& shape, bool gzip = false) {
  formats::IdxArray array{.shape = shape};
  for (int64_t i = 0; i < array.size(); ++i) array.data.push_back(static_cast<char>(i % 251));
  formats::write_idx(local_file_system(), path, array, {.gzip = gzip}).value();
}

TEST(Idx, GivesImagesWithAChannelAndInt64Labels) {
  const TempDirectory dir;
  write(dir / "images", {3, 2, 4});
  write(dir / "labels", {3}, true);
  const Dataset dataset = from_idx(dir / "images", dir / "labels");
  EXPECT_EQ(dataset.cardinality(), 3);
  const auto iterator = dataset.batch(2).iterator();
  std::optional<Element> batch;
  ASSERT_TRUE(batch = iterator->next());
  EXPECT_EQ(batch->describe(), "(uint8[2, 2, 4, 1], int64[2])");
  EXPECT_TRUE(torch::equal(batch->values()[0].tensor().flatten(), torch::arange(16).to(at::kByte)));
  ASSERT_TRUE(batch = iterator->next());
  EXPECT_EQ(batch->describe(), "(uint8[1, 2, 4, 1], int64[1])");
  EXPECT_EQ(batch->values()[1].tensor().item<int64_t>(), 2);
}

TEST(Idx, ErrorsNameTheFiles) {
  const TempDirectory dir;
  write(dir / "images", {3, 2, 2});
  write(dir / "labels", {2});
  const Error counts = error_of([&] { from_idx(dir / "images", dir / "labels"); });
  EXPECT_EQ(counts.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(counts.message(), AllOf(HasSubstr("3 images"), HasSubstr("2 labels"),
                                      HasSubstr(dir / "images"), HasSubstr(dir / "labels")));
  EXPECT_EQ(error_of([&] { from_idx(dir / "labels", dir / "images"); }).kind(),
            ErrorKind::kInvalidArgument);

  const Error missing = error_of([&] { mnist(dir.path(), "train"); });
  EXPECT_EQ(missing.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("train-images-idx3-ubyte[.gz]"),
                                       HasSubstr("train-labels-idx1-ubyte[.gz]")));
  EXPECT_EQ(missing.hint(), "make a data set with: muster data digits --out digits");
  local_file_system().make_directories(dir / "empty").value();
  EXPECT_EQ(error_of([&] { mnist(dir / "empty", "train"); }).hint(),
            "make a data set with: muster data digits --out " + dir / "empty");
  EXPECT_EQ(error_of([&] { mnist(dir.path(), "validation"); }).kind(), ErrorKind::kInvalidArgument);

  const Error nowhere = error_of([&] { mnist(dir / "gone", "train"); });
  EXPECT_EQ(nowhere.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(nowhere.message(), "the data directory " + dir / "gone" + " does not exist");
  EXPECT_THAT(nowhere.hint(), HasSubstr("muster data digits --out " + dir / "gone"));
  const Error file = error_of([&] { mnist(dir / "images", "train"); });
  EXPECT_EQ(file.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(file.message(), "the data directory " + dir / "images" + " is a file");
  EXPECT_THAT(file.hint(), HasSubstr("the folder that holds train-images-idx3-ubyte[.gz] and"));
}

TEST(Idx, WithoutRowsIsNoDataSet) {
  const TempDirectory dir;
  write(dir / "images", {0, 2, 2});
  write(dir / "labels", {0});
  EXPECT_EQ(error_of([&] { from_idx(dir / "images", dir / "labels"); }).message(),
            "the data set " + dir / "images" + " is empty (0 rows)");
}

TEST(Idx, MnistReadsAFileBesideItsGzWhenTheyAreTheSame) {
  const TempDirectory dir;
  write(dir / "t10k-images-idx3-ubyte", {5, 3, 3});
  write(dir / "t10k-labels-idx1-ubyte", {5});
  write(dir / "t10k-labels-idx1-ubyte.gz", {5}, true);
  EXPECT_EQ(mnist(dir.path(), "test").cardinality(), 5);
  write(dir / "t10k-labels-idx1-ubyte.gz", {6}, true);
  const Error both = error_of([&] { mnist(dir.path(), "test"); });
  EXPECT_EQ(both.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(both.message(), dir.path() +
                                ": both t10k-labels-idx1-ubyte and t10k-labels-idx1-ubyte.gz "
                                "exist, but their data differs");
  EXPECT_THAT(both.hint(), HasSubstr("remove one"));
}

// The names of Kaggle's archives, which also have a folder of each name, of EMNIST, and of files
// that users have unpacked.
TEST(Idx, MnistIsFoundUnderItsOtherNames) {
  const std::vector<std::pair<std::string, std::string>> kNames = {
      {"t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"},
      {"t10k-images-idx3-ubyte.gz", "t10k-labels.idx1-ubyte"},
      {"emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte"},
      {"test_images_idx3_ubyte", "test_labels_idx1_ubyte.gz"},
      {"T10K-IMAGES.IDX3-UBYTE", "T10K-LABELS.IDX1-UBYTE"}};
  for (const auto& [images, labels] : kNames) {
    const TempDirectory dir;
    local_file_system().make_directories(dir / "t10k-images-idx3-ubyte").value();
    write(dir / images, {5, 3, 3}, images.ends_with(".gz"));
    write(dir / labels, {5}, labels.ends_with(".gz"));
    EXPECT_EQ(mnist(dir.path(), "test").cardinality(), 5) << images;
    const Error other = error_of([&] { mnist(dir.path(), "train"); });
    EXPECT_EQ(other.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(other.message(), HasSubstr("its files are '"));
    EXPECT_THAT(other.message(), HasSubstr("'" + images + "'"));
  }
}

TEST(Idx, MnistOfSeveralDataSetsIsRefused) {
  const TempDirectory dir;
  for (const char* set : {"emnist-letters-", "emnist-digits-"}) {
    write(dir.path() + "/" + set + "train-images-idx3-ubyte", {5, 3, 3});
    write(dir.path() + "/" + set + "train-labels-idx1-ubyte", {5});
  }
  const Error several = error_of([&] { mnist(dir.path(), "train"); });
  EXPECT_EQ(several.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(several.message(), AllOf(HasSubstr("holds several data sets"),
                                       HasSubstr("emnist-digits-train-images-idx3-ubyte")));
  // MNIST's own names are not mistaken for theirs.
  write(dir / "train-images-idx3-ubyte", {7, 3, 3});
  write(dir / "train-labels-idx1-ubyte", {7});
  EXPECT_EQ(mnist(dir.path(), "train").cardinality(), 7);
}

TEST(Idx, MnistNamesTheFolderOfTorchvision) {
  const TempDirectory dir;
  local_file_system().make_directories(dir / "MNIST/raw").value();
  EXPECT_THAT(error_of([&] { mnist(dir.path(), "train"); }).hint(), HasSubstr(dir / "MNIST/raw"));
}

TEST(Idx, MnistFindsPlainAndCompressedFiles) {
  const TempDirectory dir;
  write(dir / "t10k-images-idx3-ubyte.gz", {5, 3, 3}, true);
  write(dir / "t10k-labels-idx1-ubyte", {5});
  EXPECT_EQ(mnist(dir.path(), "test").cardinality(), 5);
}

TEST(Idx, ReadsFashionMnist) {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (data == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  const Dataset train = mnist(join_path(data, "fashion-mnist"), "train");
  EXPECT_EQ(train.cardinality(), 60000);
  EXPECT_EQ(mnist(join_path(data, "fashion-mnist"), "test").cardinality(), 10000);
  Tensor counts = torch::zeros({10}, at::kLong);
  const auto iterator = train.shuffle(60000).batch(1000).iterator();
  while (const auto batch = iterator->next())
    counts += batch->values()[1].tensor().bincount({}, 10);
  // The data set is balanced: 6,000 images of each of its ten classes.
  EXPECT_TRUE(torch::equal(counts, torch::full({10}, 6000, at::kLong)));
}

}  // namespace
}  // namespace muster::inline v0_1::data
