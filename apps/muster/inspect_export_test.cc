#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/muster/inspect.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/file_digests.h"

namespace muster::app {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class InspectExportTest : public ::testing::Test {
 protected:
  InspectExportTest() {
    write("7", "model.pt", "module");
    write("7", "model.safetensors", "weights");
    const json about = {
        {"format_version", 1},
        {"global_step", 938},
        {"checkpoint", "ring/model.ckpt-938"},
        {"arguments", {"point"}},
        {"signatures",
         {{"serving_default",
           {{"method", "predict"},
            {"classes", json::array()},
            {"inputs", {{"point", {{"dtype", "float32"}, {"shape", {-1, 2}}}}}},
            {"outputs", {{"scores", {{"dtype", "float32"}, {"shape", {-1}}, {"key", "s"}}}}}}}}}};
    formats::FileDigests digests;
    for (const char* name : {"model.pt", "model.safetensors"})
      digests[name] = formats::digest_of_file(files_, folder_ / "7/" + name).value();
    write("7", "signatures.json", formats::sealed_text(about, digests));
    json old = about;  // without digests
    old["lengths"] = json::parse(R"([{"axes": [["steps", 1], ["mask", 1]], "least": 3, "most": 30},
                                     {"axes": [["text", 1]], "least": 0}])");
    write("6", "signatures.json", old.dump());
    write("8", "model.pt", "not whole yet");
  }

  void write(const std::string& version, const std::string& name, const std::string& text) {
    files_.make_directories(folder_ / version).value();
    files_.write_atomically(folder_ / version + "/" + name, text).value();
  }

  const TempDirectory folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(InspectExportTest, ShowsTheNewestVersionThatIsWhole) {
  const Inspection shown = inspect_export(files_, folder_.path(), false);
  EXPECT_FALSE(shown.damage);
  EXPECT_THAT(shown.text, HasSubstr(folder_ / "7\n  global_step: 938\n"));
  EXPECT_THAT(shown.text, ContainsRegex("model.pt +6 +ok\n"));
  EXPECT_THAT(shown.text, ContainsRegex("model.safetensors +7 +ok\n"));
  EXPECT_THAT(shown.text, ContainsRegex("signatures.json +[0-9,]+ +ok\n"));
  EXPECT_THAT(shown.text, ContainsRegex("serving_default +predict +point float32.-1, 2. +scores "));
  const json document = json::parse(inspect_export(files_, folder_ / "7", true).text);
  EXPECT_EQ(document.at("global_step"), 938);
  EXPECT_EQ(document.at("files").at(0).at("digest"), "ok");
}

TEST_F(InspectExportTest, ShowsWhichLengthsTheModelTakes) {
  EXPECT_THAT(inspect_export(files_, folder_ / "6", false).text,
              HasSubstr("  lengths of axes:\n    steps axis 1 and mask axis 1: 3 to 30\n"
                        "    text axis 1: 0 or more\n"));
}

TEST_F(InspectExportTest, NamesEveryFileThatIsDamaged) {
  write("7", "model.pt", "modulf");
  const Inspection shown = inspect_export(files_, folder_ / "7", false);
  ASSERT_TRUE(shown.damage);
  EXPECT_EQ(shown.damage->kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(shown.damage->message(),
              HasSubstr("1 of 3 files do not match their digest: model.pt"));
  EXPECT_THAT(shown.text, ContainsRegex("model.pt +6 +DAMAGED\n"));
  files_.remove(folder_ / "7/model.safetensors").value();
  EXPECT_THAT(inspect_export(files_, folder_ / "7", false).damage->message(),
              HasSubstr("model.pt, model.safetensors"));
  std::string text = files_.read_file(folder_ / "7/signatures.json").value();
  text[text.find("938")] = '8';
  write("7", "signatures.json", text);
  const Error error = error_of([&] { inspect_export(files_, folder_ / "7", false); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("signatures.json' is damaged: its seal is"));
}

TEST_F(InspectExportTest, AnOlderExportHasNoDigests) {
  EXPECT_THAT(inspect_export(files_, folder_ / "6", false).text,
              ContainsRegex("signatures.json +[0-9,]+ +none\n"));
  EXPECT_EQ(error_of([&] { inspect_export(files_, folder_ / "8", false); }).kind(),
            ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::app
