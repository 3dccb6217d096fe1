#include "muster/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Json, ParsesAValue) {
  EXPECT_EQ(parse_json(R"({"a": [1, {"a": 2}], "b": {"a": null}})", "x").value()["a"][1]["a"], 2);
  EXPECT_EQ(parse_json(" 3 ", "x").value(), 3);
}

TEST(Json, ErrorShowsThePlace) {
  const auto parsed =
      parse_json("{\n  \"a\": 1,\n  \"b\": oops\n}", "TF_CONFIG", ErrorKind::kInvalidArgument);
  ASSERT_FALSE(parsed.ok());
  const std::string message = parsed.error().message();
  EXPECT_THAT(message, HasSubstr("TF_CONFIG"));
  EXPECT_THAT(message, HasSubstr("line 3, column 8"));
  EXPECT_THAT(message, HasSubstr("<-- here --> oops"));
}

TEST(Json, RefusesEmptyTrailingAndRepeated) {
  EXPECT_THAT(parse_json(" \n", "the file").error().message(), HasSubstr("the file is empty"));
  EXPECT_THAT(parse_json("{} x", "x").error().message(), HasSubstr("column 4"));
  EXPECT_THAT(parse_json("{\"a\": 1", "x").error().message(), HasSubstr("<-- here"));
  EXPECT_THAT(parse_json(R"({"k": {"a": 1, "a": 2}})", "x").error().message(),
              HasSubstr("'a' twice"));
  EXPECT_FALSE(parse_json("\"\xff\"", "x").ok());
  EXPECT_EQ(parse_json("[", "x", ErrorKind::kCorrupt).error().kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(parse_json("[1, 1e999]", "x").error().message(),
              AllOf(HasSubstr("line 1, column 9"), HasSubstr("number overflow")));
}

TEST(Json, RefusesDeepNesting) {
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']'), "x").ok());
  EXPECT_THAT(parse_json(std::string(5000, '[') + std::string(5000, ']'), "x").error().message(),
              HasSubstr("nested deeper"));
  const std::string objects = std::string(300, '[') + R"({"a": {"b": 1}})" + std::string(300, ']');
  EXPECT_THAT(parse_json(objects, "x").error().message(), HasSubstr("nested deeper"));
}

// Each of them took time for all that are in front of it: minutes for these.
TEST(Json, ManyObjectsInOneList) {
  std::string text = "[{}";
  for (int i = 1; i < 400'000; ++i) text += ",{}";
  EXPECT_EQ(parse_json(text + "]", "x").value().size(), 400'000u);
}

TEST(Json, AnyPrefixOfADocumentIsAnErrorNotACrash) {
  const std::string text = R"({"a": [1.5e3, "xé\n", {"b": null}], "c": true})";
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_json(text.substr(0, length), "x").ok()) << length;
  }
}

}  // namespace
}  // namespace muster::inline v0_1
