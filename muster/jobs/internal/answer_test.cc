#include "muster/jobs/internal/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(AnswerTest, MissingFieldsAreNamedWithTheToolAndItsOutput) {
  const std::string whole = R"({"metadata": {"name": "a", "uid": 7}, "items": []})";
  const Answer answer("cannot do it", "kubectl get pods", whole);
  EXPECT_EQ(answer.text("/metadata/name"), "a");
  EXPECT_TRUE(answer.list("/items").empty());
  for (const char* place : {"/metadata/namespace", "/metadata/uid", "/items", "/items/0", "/a/b"}) {
    const Error error = error_of([&] { (void)answer.text(place); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("cannot do it: kubectl get pods answered"),
                                       HasSubstr(std::string(place).substr(1) + " is not text")));
    EXPECT_THAT(error.hint(), HasSubstr("run the command yourself (kubectl get pods)"));
  }
  EXPECT_THAT(error_of([&] { (void)answer.list("/metadata"); }).message(),
              HasSubstr("is not a list"));
}

// However an answer is cut, it is an Error, and never an exception of the parser's.
TEST(AnswerTest, EveryCutAnswerIsAnError) {
  const std::string whole = R"({"metadata": {"name": "a\n", "uid": 7}, "items": [null, 1.5]})";
  for (size_t end = 0; end < whole.size(); ++end) {
    const Error error =
        error_of([&] { Answer("cannot do it", "kubectl get pods", whole.substr(0, end)); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << end;
    EXPECT_THAT(error.message(), HasSubstr("kubectl get pods answered")) << end;
  }
  const Error page = error_of(
      [] { Answer("cannot do it", "kubectl get pods", "<html>\n  " + std::string(5000, 'x')); });
  EXPECT_THAT(page.message(), HasSubstr("'<html> xxx"));
  EXPECT_LT(page.message().size(), 500u);
}

TEST(AnswerTest, ATokenIsNotShown) {
  const std::string token(64, 'a');
  EXPECT_THAT(error_of([&] { Answer("w", "gcloud", "{\"value\": \"" + token + "\""); }).message(),
              AllOf(Not(HasSubstr(token.substr(0, 32))), HasSubstr("[not shown]")));
}

TEST(AnswerTest, PartsThatAreMissingAreNothing) {
  const auto list =
      nlohmann::json::parse(R"([{"name": "a"}, {"name": 7}, 3, null, {"name": "b"}])");
  EXPECT_THAT(names_in(list), ElementsAre("a", "b"));
  EXPECT_EQ(text_or_nothing(list, "/0/name"), "a");
  EXPECT_EQ(text_or_nothing(list, "/1/name"), "");
  EXPECT_EQ(text_or_nothing(list, "/name/x"), "");
}

}  // namespace
}  // namespace muster::inline v0_1::jobs::internal
