#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/data/image.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/test_images.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::encode_jpeg;
using testing::encode_png;
using ::testing::HasSubstr;
using testing::make_test_image;

class ImageFolder : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) {
    FileSystem& files = local_file_system();
    const std::string path = temp_ / name;
    files.make_directories(directory_of(path)).value();
    files.write_atomically(path, bytes).value();
  }
  // Two cats and a dog, all of one colour each: 10, 20, 30.
  void write_animals() {
    for (const auto& [name, value] :
         {std::pair("dogs/rex.PNG", 30), {"cats/tom.png", 20}, {"cats/kit.png", 10}}) {
      testing::TestImage image{6, 8, 3, std::vector<uint8_t>(6 * 8 * 3, value)};
      write(name, encode_png(image));
    }
  }
  std::string dir() const { return temp_.path(); }

  TempDirectory temp_;
};

Element next_of(Iterator& iterator) {
  const auto element = iterator.next();
  if (!element) throw internal_error("there is no next element");
  return *element;
}

// The label and the first pixel of every element.
std::vector<std::pair<int64_t, int>> contents(const Dataset& dataset) {
  std::vector<std::pair<int64_t, int>> seen;
  const auto iterator = dataset.iterator();
  while (const auto element = iterator->next()) {
    const Tensor image = element->part(0).value().tensor();
    seen.emplace_back(element->part(1).value().tensor().item<int64_t>(),
                      image[0][0][0].item<int>());
  }
  return seen;
}

TEST_F(ImageFolder, ClassesAndFilesAreSorted) {
  write_animals();
  write("cats/.hidden.png", "x");
  write("cats/notes.txt", "x");
  write("README", "x");
  ::testing::internal::CaptureStderr();
  const Dataset dataset = image_folder(dir(), {.height = 4, .width = 5, .dtype = kUInt8});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("README"), HasSubstr("cats/notes.txt"), HasSubstr(", 2:")));
  EXPECT_EQ(dataset.cardinality(), 3);
  EXPECT_THAT(contents(dataset), ElementsAre(std::pair(0, 10), std::pair(0, 20), std::pair(1, 30)));
  EXPECT_THAT(image_classes(dir()), ElementsAre("cats", "dogs"));
  const auto batches = dataset.batch(3).iterator();
  EXPECT_EQ(next_of(*batches).describe(), "(uint8[3, 4, 5, 3], int64[3])");
}

TEST_F(ImageFolder, ClassesMayBeGiven) {
  write_animals();
  const Dataset dataset =
      image_folder(dir(), {.dtype = kUInt8}, {.classes = {"dogs", "birds", "cats"}});
  EXPECT_THAT(contents(dataset), ElementsAre(std::pair(0, 30), std::pair(2, 10), std::pair(2, 20)));
  const Error error = error_of([&] { image_folder(dir(), {}, {.classes = {"dogs"}}); });
  EXPECT_THAT(error.message(), AllOf(HasSubstr("'cats'"), HasSubstr("dogs")));
}

// As image_dataset_from_directory: the first bytes determine the kind of a file.
TEST_F(ImageFolder, BmpAndGifAreReadUnderAnyEnding) {
  const testing::TestImage image{6, 8, 3, std::vector<uint8_t>(6 * 8 * 3, 40)};
  const testing::TestImage indices{6, 8, 1, std::vector<uint8_t>(6 * 8, 9)};
  uint8_t ninth[3];
  testing::palette_colour(9, ninth);
  write("a/1.bmp", testing::encode_bmp(image));
  write("a/2.gif", testing::encode_gif(indices));
  write("b/1.jpg", testing::encode_bmp(image));
  write("b/2.png", testing::encode_gif(indices));
  EXPECT_THAT(contents(image_folder(dir(), {.height = 6, .width = 8, .dtype = kUInt8})),
              ElementsAre(std::pair(0, 40), std::pair(0, int{ninth[0]}), std::pair(1, 40),
                          std::pair(1, int{ninth[0]})));
  EXPECT_EQ(image_files(dir()).size(), 4u);
}

// The random crop depends on the seed, the epoch and the image, not on the order of reading.
TEST_F(ImageFolder, RandomCropsRepeatWithTheSeed) {
  for (int i = 0; i < 6; ++i)
    write("a/" + std::to_string(i) + ".jpg",
          encode_jpeg(make_test_image(40, 50, 3, static_cast<uint64_t>(i))));
  const ImageOptions options{.height = 8, .width = 8, .fit = ImageFit::kRandomCrop};
  const auto read = [&](const Dataset& dataset, uint64_t seed) {
    const auto iterator = dataset.batch(6).iterator({.seed = seed});
    return next_of(*iterator).part(0).value().tensor();
  };
  const Dataset folder = image_folder(dir(), options);
  const Tensor once = read(folder, 1);
  EXPECT_TRUE(torch::equal(once, read(folder, 1)));
  EXPECT_TRUE(torch::equal(once, read(folder.prefetch(), 1)));
  EXPECT_FALSE(torch::equal(once, read(folder, 2)));
  EXPECT_TRUE(torch::equal(once.slice(0, 3, 6), read(folder.skip(3), 1)));
  const auto epochs = folder.repeat(2).batch(6).iterator({.seed = 1});
  const Tensor first = next_of(*epochs).part(0).value().tensor();
  EXPECT_FALSE(torch::equal(first, next_of(*epochs).part(0).value().tensor()));
}

TEST_F(ImageFolder, AnImageThatCannotBeDecodedIsNamed) {
  write_animals();
  const std::string whole = encode_jpeg(make_test_image(40, 50, 3));
  write("cats/broken.jpg", whole.substr(0, whole.size() - 100));
  const auto iterator = image_folder(dir()).iterator();
  const Error error = error_of([&] { next_of(*iterator); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("cats/broken.jpg"), HasSubstr("cut short")));
}

TEST_F(ImageFolder, FoldersThatAreNoImageFolderAreRefused) {
  const auto message = [&](const std::string& path) {
    return error_of([&] { image_folder(path); }).message();
  };
  EXPECT_EQ(error_of([&] { image_folder(temp_ / "none"); }).kind(), ErrorKind::kNotFound);
  EXPECT_THAT(message(dir()), HasSubstr("is empty"));
  write("a.png", "x");
  EXPECT_THAT(message(dir()), AllOf(HasSubstr("no sub-folders"), HasSubstr("a.png")));
  EXPECT_THAT(message(temp_ / "a.png"), HasSubstr("is a file"));
  write("cats/notes.txt", "x");
  EXPECT_THAT(message(dir()), AllOf(HasSubstr("/cats'"), HasSubstr(".jpg")));
  EXPECT_THAT(error_of([&] { image_folder(dir(), {.channels = 2}); }).message(),
              HasSubstr("channels"));
}

TEST(ImageFolderOfOthers, PhotosBecomeBatches) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  const std::string dir = join_path(folder, "images/val");
  EXPECT_THAT(image_classes(dir), ElementsAre("ants", "bees"));
  for (const ImageFit fit : {ImageFit::kStretch, ImageFit::kCenterCrop, ImageFit::kRandomCrop}) {
    const Dataset dataset = image_folder(dir, {.fit = fit}).batch(40);
    const Element batch = next_of(*dataset.iterator());
    EXPECT_EQ(batch.describe(), "(float32[40, 224, 224, 3], int64[40])");
    EXPECT_EQ(batch.part(1).value().tensor().sum().item<int64_t>(), 20);
    const Tensor images = batch.part(0).value().tensor();
    EXPECT_GE(images.min().item<float>(), 0);
    EXPECT_LE(images.max().item<float>(), 1.0001f);
    // Photos are neither black nor white.
    EXPECT_NEAR(images.mean().item<float>(), 0.45, 0.1);
  }
}

TEST_F(ImageFolder, ImagesWithoutLabelsAreReadInTheOrderOfTheirPaths) {
  write_animals();
  write("notes.txt", "no image");
  write("cats/.hidden.png", "no image");
  const std::vector<std::string> paths = image_files(dir());
  EXPECT_THAT(paths, ElementsAre(dir() + "/cats/kit.png", dir() + "/cats/tom.png",
                                 dir() + "/dogs/rex.PNG"));
  const auto iterator = images_at(paths, {.height = 2, .width = 2}).iterator();
  for (const int value : {10, 20, 30}) {
    const Tensor image = next_of(*iterator).value().tensor();
    EXPECT_EQ(image.sizes(), (std::vector<int64_t>{2, 2, 3}));
    EXPECT_EQ(std::lround(255 * image[0][0][0].item<float>()), value);
  }
  EXPECT_THAT(error_of([&] { image_files(dir() + "/birds"); }).what(),
              HasSubstr("birds' does not exist"));
  EXPECT_THAT(error_of([&] { image_files(dir(), {".gif"}); }).what(),
              HasSubstr("there is no image in"));
}

}  // namespace
}  // namespace muster::inline v0_1::data
