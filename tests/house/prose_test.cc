// Documents, help texts and the comments of installed headers are free of the words that
// docs/style.md replaces, and the checker finds each of them.
#include "tests/house/prose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "muster/base/temp_directory.h"

namespace muster::house {
namespace {

using ::testing::HasSubstr;

TEST(Prose, OfThisTreeIsPlain) {
  const char* root = std::getenv("MUSTER_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run this test through ctest";
  EXPECT_EQ(to_string(check_prose(root)), "");
}

class PlantedProseTest : public ::testing::Test {
 protected:
  PlantedProseTest() {
    write("cmake/face/headers.txt", "muster/base/a.h\n");
    write("muster/base/a.h", "// A header.\n#pragma once\n");
  }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::string found() { return to_string(check_prose(folder_.path())); }
  std::string folder_path() const { return folder_.path(); }

 private:
  TempDirectory folder_;
};

TEST_F(PlantedProseTest, AWordInADocument) {
  write("README.md", "# A\n\nIt ends behind the last step.\n");
  EXPECT_THAT(found(), HasSubstr("README.md:3: 'behind': write 'after'"));
  write("README.md", "# A\n\nNo file is left behind. Put it behind a proxy.\n");
  EXPECT_EQ(found(), "");
  write("README.md", "# A\n\nWhoever asks waits.\n");
  EXPECT_THAT(found(), HasSubstr("README.md:3: 'Whoever'"));
}

TEST_F(PlantedProseTest, CodeAndQuotationsAreNotProse) {
  write("docs/a.md", "A `word behind it`.\n\n```text\nbehind\n```\n[a](behind.md)\n");
  write("docs/style.md", "behind\n");
  write("CHANGELOG.md", "behind\n");
  EXPECT_EQ(found(), "");
}

TEST_F(PlantedProseTest, AFragmentInAHeader) {
  write("muster/base/a.h",
        "// A header.\n#pragma once\nstruct A {\n  // Of the classes.\n  int a;\n};\n");
  EXPECT_THAT(found(), HasSubstr("muster/base/a.h:4: 'Of the '"));
  // A line that continues a sentence may begin so.
  write("muster/base/a.h",
        "// The number\n// of the classes. Those who read it, read\n// Of the rest.\n");
  EXPECT_EQ(found(), "");
  write("muster/base/a.h", "int a;  // Who reads it waits\n");
  EXPECT_THAT(found(), HasSubstr("muster/base/a.h:1: 'Who reads it waits'"));
  // Headers that are not installed are not compared.
  write("muster/base/b.h", "// Of the classes.\n");
  write("muster/base/a.h", "// A header.\n");
  EXPECT_EQ(found(), "");
}

TEST_F(PlantedProseTest, AHelpText) {
  write("apps/a.cc", "// behind\nFlag f{\"a\", &a,\n       \"Of the optimizer\"};\n");
  EXPECT_THAT(found(), HasSubstr("apps/a.cc:3: 'Of the '"));
  write("apps/a.cc", "Flag f{\"a\", &a, \"The number \"\n       \"of steps, no more than 5\"};\n");
  EXPECT_THAT(found(), HasSubstr("apps/a.cc:2: 'no more than': write 'at most'"));
  write("apps/a.cc", "Flag f{\"a\", &a, \"The rate \"\n       \"Of the optimizer\"};\n");
  EXPECT_EQ(found(), "");
}

TEST_F(PlantedProseTest, NeedsTheListOfHeaders) {
  std::filesystem::remove_all(std::filesystem::path(folder_path()) / "cmake");
  EXPECT_THROW(found(), std::runtime_error);
}

}  // namespace
}  // namespace muster::house
