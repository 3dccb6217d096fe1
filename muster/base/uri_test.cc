#include "muster/base/uri.h"

#include <gtest/gtest.h>

#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1 {
namespace {

TEST(Uri, SchemeStandsBeforeEverySlash) {
  EXPECT_EQ(scheme_of("s3://bucket/a"), "s3");
  EXPECT_EQ(scheme_of("file:///a"), "file");
  for (const char* plain : {"a", "/a", "a/b://c", "", "://a", "c:/a"})
    EXPECT_EQ(scheme_of(plain), "") << plain;
  EXPECT_TRUE(is_remote("gs://bucket"));
  EXPECT_FALSE(is_remote("file:///a"));
  EXPECT_FALSE(is_remote("/a"));
}

TEST(Uri, JoiningLeavesWhatIsAbsolute) {
  EXPECT_EQ(join_path("s3://b", "x"), "s3://b/x");
  EXPECT_EQ(join_path("s3://b/", "x"), "s3://b/x");
  EXPECT_EQ(join_path("runs", "s3://b/x"), "s3://b/x");
  EXPECT_EQ(join_path("s3://b/x", "/tmp/y"), "/tmp/y");
  EXPECT_EQ(join_path("file:///", "x"), "file:///x");
}

TEST(Uri, BucketHasNoParent) {
  EXPECT_EQ(directory_of("gs://b/x/y"), "gs://b/x");
  EXPECT_EQ(directory_of("gs://b/x"), "gs://b");
  EXPECT_EQ(directory_of("gs://b/"), "gs://b");
  EXPECT_EQ(directory_of("gs://b"), "gs://b");
  EXPECT_EQ(directory_of("file:///x"), "file:///");
  EXPECT_EQ(directory_of("/"), "/");
  EXPECT_EQ(base_name("gs://b/x"), "x");
  EXPECT_EQ(base_name("gs://b"), "");
  EXPECT_EQ(base_name("file:///x"), "x");
}

// A path below a root can be split and joined again without a change.
TEST(Uri, PartsMakeThePathAgain) {
  for (const std::string path : {"s3://b/x", "s3://b/x/y.z", "gs://b/x/", "file:///x", "/x", "/x/y",
                                 "a/b", "http://host:80/a/b"})
    EXPECT_EQ(join_path(directory_of(path), base_name(path)), path);
}

TEST(Uri, SlashesAtTheEndGoButNotARoot) {
  EXPECT_EQ(without_trailing_slashes("gs://b/model//"), "gs://b/model");
  EXPECT_EQ(without_trailing_slashes("gs://b/"), "gs://b");
  EXPECT_EQ(without_trailing_slashes("runs/"), "runs");
  EXPECT_EQ(without_trailing_slashes("/"), "/");
  EXPECT_EQ(without_trailing_slashes("file:///"), "file:///");
  EXPECT_EQ(without_trailing_slashes(""), "");
}

}  // namespace
}  // namespace muster::inline v0_1
