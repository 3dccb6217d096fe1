#include "apps/muster/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/muster/run_muster.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;

class AuditTest : public ::testing::Test {
 protected:
  void write(const formats::AuditSegment& segment) {
    files_.make_directories(folder_ / "audit").value();
    files_
        .write_atomically(join_path(folder_ / "audit", formats::audit_file_name(segment)),
                          std::string_view(formats::encode_audit_segment(segment)))
        .value();
  }
  ShellOutput run(const std::string& flags = "") {
    return run_muster("audit " + flags + folder_.path());
  }

  TempDirectory folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(AuditTest, ACleanRun) {
  write({.first_step = 1, .last_step = 5, .used = {{0, 0, 20}}, .rows = 20});
  write({.attempt = 2,
         .from_step = 5,
         .first_step = 6,
         .last_step = 8,
         .used = {{0, 20, 30}, {1, 0, 2}},
         .epochs = {{0, 30}},
         .rows = 12});
  const ShellOutput ran = run();
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("steps 1 to 8, 2 starts of the run, 0 lost steps"));
  EXPECT_THAT(ran.text, HasSubstr("each example was used once"));
  const auto document = nlohmann::json::parse(run("--json ").text);
  EXPECT_TRUE(document.at("clean").get<bool>());
  EXPECT_EQ(document.at("epochs").at(0).at("size"), 30);
}

TEST_F(AuditTest, TwiceAndNeverAreNamed) {
  write({.first_step = 1, .last_step = 5, .used = {{0, 0, 20}}, .rows = 20});
  write({.attempt = 2,
         .from_step = 5,
         .first_step = 6,
         .last_step = 8,
         .used = {{0, 18, 30}, {0, 31, 33}},
         .rows = 14});
  const ShellOutput ran = run();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("epoch 0: used twice or more: places 18 to 19"));
  EXPECT_THAT(ran.text, HasSubstr("epoch 0: never used: places 30\n"));
}

TEST_F(AuditTest, WithoutARecord) {
  const ShellOutput ran = run();
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("has no record of used examples"));
  const ShellOutput none = run_muster("audit " + folder_ / "none");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.text, HasSubstr("/none does not exist"));
  files_.make_directories(folder_ / "audit").value();
  files_
      .write_atomically(join_path(folder_ / "audit", "000001-1-2-task-0-of-1.json"),
                        std::string_view("{}"))
      .value();
  EXPECT_EQ(run().code, 1);
}

}  // namespace
}  // namespace muster::app
