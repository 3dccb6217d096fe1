#include "muster/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error_of.h"
#include "muster/base/internal/starts_itself.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ExitedWithCode;

// Formats and terminals are looked at once in a process: each case is a process of its own.
class LogDeathTest : public ::testing::Test {
 protected:
  LogDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
    // A death test starts this program again, which an emulator of another machine may not be able
    // to.
    if (!muster::testing::starts_itself()) GTEST_SKIP() << muster::testing::kNotStarted;
  }
};

TEST_F(LogDeathTest, ALineHasALevelAndATime) {
  EXPECT_EXIT(
      {
        log::warning("one");
        log::warning_once("two");
        log::warning_once("two");
        log::debug("not this");
        std::exit(0);
      },
      ExitedWithCode(0), "^W [0-9:]{8} one\nW [0-9:]{8} two\n$");
}

TEST_F(LogDeathTest, AMessageOfSeveralLinesIsIndentedAfterTheFirst) {
  EXPECT_EXIT(
      {
        log::error("InvalidArgument: two do not fit\nmissing a\n\nextra b\n  hint: take another");
        std::exit(0);
      },
      ExitedWithCode(0),
      "^E [0-9:]{8} InvalidArgument: two do not fit\n  missing a\n  \n  extra b\n  hint: take "
      "another\n$");
}

TEST_F(LogDeathTest, AMessageDoesNotSteerATerminal) {
  EXPECT_EXIT(
      {
        log::error("there is no column '\x1b[31mred\r'\n  hint: a");
        std::exit(0);
      },
      ExitedWithCode(0), "^E [0-9:]{8} there is no column '.x1b.31mred.x0d'\n  hint: a\n$");
}

TEST_F(LogDeathTest, LinesLoggedOnceAreRememberedForAThousandTexts) {
  EXPECT_EXIT(
      {
        for (int i = 0; i < 1500; ++i) log::warning_once("text " + std::to_string(i));
        std::exit(0);
      },
      ExitedWithCode(0), "W [0-9:]{8} text 999\n$");
}

TEST_F(LogDeathTest, AStatusIsForThoseWhoSeeIt) {
  EXPECT_EXIT(
      {
        log::status("nobody");
        log::info("line");
        std::exit(log::shows_status() ? 1 : 0);
      },
      ExitedWithCode(0), "^I [0-9:]{8} line\n$");
  EXPECT_EXIT(
      {
        setenv("MUSTER_PROGRESS", "bar", 1);
        setenv("COLUMNS", "6", 1);
        log::status("─────────");
        log::status("b");
        log::info("line");
        log::status("");
        std::exit(0);
      },
      ExitedWithCode(0), "^─────\rb\r \rI [0-9:]{8} line\n$");
}

TEST_F(LogDeathTest, JsonIsForMachines) {
  EXPECT_EXIT(
      {
        setenv("MUSTER_LOG_FORMAT", "json", 1);
        setenv("MUSTER_PROGRESS", "bar", 1);
        log::warning("a \"quote\" and \xff");
        log::event("saved", {{"global_step", 7}}, "saved it");
        log::status("not this");
        std::exit(0);
      },
      ExitedWithCode(0),
      "^\\{\"time\":\"20[0-9-]{8}T[0-9:.]{12}Z\",\"level\":\"warning\",\"message\":\"a "
      "\\\\\"quote\\\\\" and \xEF\xBF\xBD\"\\}\n"
      "\\{\"time\":\"[^\"]+\",\"level\":\"info\",\"event\":\"saved\",\"global_step\":7,"
      "\"message\":\"saved it\"\\}\n$");
}

TEST_F(LogDeathTest, UnknownSettingsAreSaidAndIgnored) {
  EXPECT_EXIT(
      {
        setenv("MUSTER_LOG_LEVEL", "loud", 1);
        setenv("MUSTER_LOG_FORMAT", "xml", 1);
        log::info("line");
        std::exit(0);
      },
      ExitedWithCode(0),
      "MUSTER_LOG_LEVEL is 'loud'.*\n.*MUSTER_LOG_FORMAT is 'xml'.*\nI [0-9:]{8} line\n$");
  EXPECT_EXIT(
      {
        setenv("MUSTER_LOG_LEVEL", "WARNING", 1);
        log::info("not this");
        log::error("this");
        std::exit(0);
      },
      ExitedWithCode(0), "^E [0-9:]{8} this\n$");
}

TEST(LogTest, FormatsHaveNames) {
  EXPECT_EQ(log::parse_format("json"), log::Format::kJson);
  EXPECT_EQ(log::parse_format("text"), log::Format::kText);
  EXPECT_EQ(error_of([] { log::parse_format("xml"); }).kind(), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1
