#include "muster/base/missing_file.h"

#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1 {
namespace {

TEST(OpenNamedFile, AMissingFileIsReportedWithTheFilesOfItsFolder) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  const auto hint = [&](const std::string& name) {
    return open_named_file(files, temp / name).error().hint();
  };
  EXPECT_EQ(hint("none/x"), "there is no folder '" + temp / "none" + "'");
  EXPECT_EQ(hint("x"), "the folder '" + temp.path() + "' is empty");
  for (const char* name : {"train.csv", "b", "c", "d", "e", "f"})
    files.write_atomically(temp / name, "1").value();
  EXPECT_EQ(hint("trian.csv"),
            "the folder '" + temp.path() +
                "' holds 'b', 'c', 'd', 'e', 'f' ... and 1 more; did you mean 'train.csv'?");
  files.make_directories(temp / "data").value();
  EXPECT_EQ(hint("dta/train.csv"),
            "there is no folder '" + temp / "dta" + "'; did you mean 'data'?");
  files.remove(temp / "data").value();
  EXPECT_EQ(hint("eval.csv"),
            "the folder '" + temp.path() + "' holds 'b', 'c', 'd', 'e', 'f' ... and 1 more");
  EXPECT_EQ(what_stands_beside(files, "http://127.0.0.1/a.csv"), "check the address");
  EXPECT_EQ(open_named_file(files, temp / "b").value()->size().value(), 1u);
}

}  // namespace
}  // namespace muster::inline v0_1
