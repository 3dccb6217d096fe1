#include "muster/formats/tensorflow_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

TEST(TensorflowCheckpoint, FilesNameTheirPrefix) {
  EXPECT_EQ(tensorflow_checkpoint_of("m/model.ckpt-9.index"), "m/model.ckpt-9");
  EXPECT_EQ(tensorflow_checkpoint_of("model.ckpt-9.data-00000-of-00001"), "model.ckpt-9");
  for (const char* other :
       {"model.ckpt-9", "model.ckpt-9.safetensors", ".index", "model.ckpt-9.data-0-of-1"}) {
    EXPECT_EQ(tensorflow_checkpoint_of(other), std::nullopt) << other;
  }
}

TEST(TensorflowCheckpoint, IsToldWithWhatToDo) {
  TempDirectory folder;
  EXPECT_FALSE(
      tensorflow_checkpoint_error(local_file_system(), folder / "model.ckpt-9").has_value());
  local_file_system().write_atomically(folder / "model.ckpt-9.index", "x").value();
  const auto error = tensorflow_checkpoint_error(local_file_system(), folder / "model.ckpt-9");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error->message(), HasSubstr("TensorFlow's own format ('model.ckpt-9.index' exists)"));
  EXPECT_THAT(error->hint(), HasSubstr("muster::tensorflow"));
}

}  // namespace
}  // namespace muster::inline v0_1::formats
