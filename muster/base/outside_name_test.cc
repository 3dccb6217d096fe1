#include "muster/base/outside_name.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1 {
namespace {

using namespace std::string_literals;

TEST(OutsideName, NamesStayInTheirFolder) {
  for (const std::string good :
       {"a", "a/b.csv", "..a", "a..", "...", "a b/\xc3\xbc", "s3:", "~", "C:\\x", ".hidden/x"}) {
    EXPECT_EQ(fault_of_path(good), "") << good;
    EXPECT_EQ(path_inside("s3://bucket/dir", good, "a list").value(), "s3://bucket/dir/" + good);
  }
  const std::pair<std::string, std::string> bad[] = {
      {"", "is empty"},
      {"/etc/passwd", "is absolute"},
      {"//etc/passwd", "is absolute"},
      {"..", "leads out of its folder"},
      {".", "leads out of its folder"},
      {"../x", "leads out of its folder"},
      {"a/../../x", "leads out of its folder"},
      {"a/..", "leads out of its folder"},
      {"a/./b", "leads out of its folder"},
      {"a//b", "has an empty part"},
      {"a/", "has an empty part"},
      {"http://host/x", "has the scheme 'http'"},
      {"s3://bucket/x", "has the scheme 's3'"},
      {"file:///etc/passwd", "has the scheme 'file'"},
      {"a\0b"s, "holds a zero byte"},
  };
  for (const auto& [path, fault] : bad) {
    EXPECT_EQ(fault_of_path(path), fault) << path;
    const auto joined = path_inside("/models/a", path, "the list of 'x'");
    ASSERT_FALSE(joined.ok()) << path;
    EXPECT_EQ(joined.error().kind(), ErrorKind::kCorrupt);
    EXPECT_NE(joined.error().message().find("the list of 'x' names '"), std::string::npos);
  }
}

TEST(OutsideName, ANameHasNoSlash) {
  EXPECT_EQ(fault_of_name("part-0.csv"), "");
  EXPECT_EQ(fault_of_name("a/b"), "holds a slash");
  EXPECT_EQ(fault_of_name("http://host"), "holds a slash");
  EXPECT_EQ(fault_of_name(".."), "leads out of its folder");
  EXPECT_EQ(fault_of_name(""), "is empty");
}

}  // namespace
}  // namespace muster::inline v0_1
