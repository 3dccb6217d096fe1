// The source tree keeps its rules, and the checker finds each kind of violation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "muster/base/temp_directory.h"
#include "tests/house/rules.h"

namespace muster::house {
namespace {

using ::testing::HasSubstr;

TEST(House, KeepsItsRules) {
  const char* root = std::getenv("MUSTER_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run this test through ctest";
  const Report report = check_house(root);
  EXPECT_EQ(to_string(report.violations), "");
  if (!report.warnings.empty()) std::cout << "warnings:\n" << to_string(report.warnings);
}

// A small source tree in order, with one file planted in it.
class PlantedTest : public ::testing::Test {
 protected:
  PlantedTest() {
    write("FLOORS",
          "# a comment\n0 base ground core\n1 plan ground core\n1 net ground wires\n"
          "3 tensor tensor core\n4 data tensor core\npart core\npart wires core\n");
    write("CMakeLists.txt", "project(muster VERSION 1.2.3)\n");
    write("muster/base/error.h", "// An error.\n#pragma once\n#include <string>\n");
    write("muster/plan/plan.h", "// A plan.\n#pragma once\n#include \"muster/base/error.h\"\n");
    write("muster/net/net.cc", "#include <gloo/gloo.h>\n#include \"muster/base/error.h\"\n");
    write("muster/tensor/tensor.h", "// A tensor.\n#pragma once\n#include <ATen/core/Tensor.h>\n");
    write("muster/data/data.cc",
          "#include <torch/torch.h>\n\n#include \"muster/data/internal/own.h\"\n"
          "#include \"muster/plan/plan.h\"\n");
    write("muster/data/internal/own.h", "// Own.\n#pragma once\n#include <torch/torch.h>\n");
    write("muster/torch.h", "// Adapts modules.\n#pragma once\n#include <torch/nn/module.h>\n");
    write("apps/a.cc", "#include \"muster/plan/plan.h\"\n#include \"muster/torch.h\"\n");
    // The nouns after which the files below are named.
    for (const std::string noun :
         {"muster/base/testing/a", "muster/plan/testing/a", "muster/net/testing/a",
          "muster/net/testing/net", "muster/data/testing/a", "muster/data/testing/data",
          "apps/testing/a", "apps/testing/b", "apps/muster/testing/a"})
      write(noun + ".h", "// Nothing.\n#pragma once\n");
  }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::string violations() { return to_string(check_house(folder_.path()).violations); }

  // The violations when `text` is the file `name`.
  std::string planted(const std::string& name, const std::string& text) {
    write(name, text);
    const std::string said = violations();
    std::filesystem::remove(std::filesystem::path(folder_.path()) / name);
    return said;
  }

  TempDirectory folder_;
};

TEST_F(PlantedTest, AHouseInOrderIsNotBlamed) { EXPECT_EQ(violations(), ""); }

TEST_F(PlantedTest, FloorsAreKept) {
  EXPECT_EQ(planted("muster/base/a.cc", "\n#include \"muster/plan/plan.h\"\n"),
            "muster/base/a.cc:2: base (floor 0) includes plan (floor 1)\n");
  EXPECT_EQ(planted("muster/net/a.cc", "#include <muster/plan/plan.h>\n"),
            "muster/net/a.cc:1: net and plan share floor 1: they do not know each other\n");
  EXPECT_THAT(planted("muster/net/a_test.cc", "#  include \"muster/plan/plan.h\"\n"),
              HasSubstr("share floor 1"));
  EXPECT_THAT(planted("muster/net/a.cc", "#include \"muster/gone/plan.h\"\n"),
              HasSubstr("muster/gone, which is on no floor"));
  EXPECT_THAT(planted("muster/net/a.cc", "#include \"muster/torch.h\"\n"),
              HasSubstr("do not include the headers above them"));
  EXPECT_THAT(planted("muster/net/a.cc", "#include \"apps/a.h\"\n"),
              HasSubstr("does not know the roof"));
  EXPECT_THAT(planted("muster/net/a.cc", "#include \"tests/a.h\"\n"),
              HasSubstr("does not know the roof"));
  EXPECT_EQ(planted("muster/net/a_test.cc", "#include \"tests/a.h\"\n"), "");
}

TEST_F(PlantedTest, FoldersAndTableAgree) {
  write("muster/extra/CMakeLists.txt", "");
  EXPECT_EQ(violations(), "muster/extra: stands on no floor: add it to FLOORS\n");
  write("FLOORS",
        "0 base ground core\n1 plan ground core\n1 net ground core\n2 extra ground core\n"
        "2 gone ground core\n3 tensor tensor core\n4 data tensor core\npart core\n");
  EXPECT_EQ(violations(), "FLOORS: names muster/gone, which is not there\n");
  for (const std::string wrong :
       {"0 base cellar core\npart core\n", "0 base ground\npart core\n", "0 base ground core\n",
        "0 base ground core\npart core attic\n"}) {
    write("FLOORS", wrong);
    EXPECT_THROW(violations(), std::runtime_error) << wrong;
  }
}

TEST_F(PlantedTest, PartsKnowThoseOfTheTableAlone) {
  const std::string net = "\n#include \"muster/net/net.h\"\n";
  EXPECT_EQ(planted("muster/data/a.cc", net),
            "muster/data/a.cc:2: data (part core) includes net (part wires), which the part core "
            "does not know\n");
  EXPECT_THAT(planted("muster/data/internal/a.h", "// A.\n#pragma once\n" + net),
              HasSubstr("(part wires)"));
  EXPECT_THAT(planted("muster/data/a_test.cc", net), HasSubstr("(part wires)"));
  EXPECT_EQ(planted("apps/b.cc", net), "");
  const std::string umbrella = "// A part.\n#pragma once" + net;
  EXPECT_EQ(planted("muster/wires.h", umbrella), "");
  EXPECT_EQ(planted("muster/core.h", umbrella),
            "muster/core.h:3: net is of the part wires, and this header of core\n");
  EXPECT_EQ(planted("muster/muster.h", umbrella), "");
}

TEST_F(PlantedTest, FilesAreNamedAfterHeaders) {
  const std::string blame = ": no header of its folder gives it its name";
  for (const std::string name :
       {"plan/plan.cc", "plan/plan_test.cc", "plan/plan_of_two_test.cc", "plan/plan_part.cc",
        "plan/quick_plan.cc", "plan/plan_fuzz.cc", "plan/sums_law_test.cc", "plan/without_plan.cc",
        "data/own.cc", "data/internal/own.cc", "data/data_and_more_test.cc"}) {
    EXPECT_EQ(planted("muster/" + name, ""), "") << name;
  }
  for (const std::string name :
       {"plan/other.cc", "plan/planner.cc", "plan/replan.cc", "plan/quick_plan_test.cc",
        "plan/other_test.cc", "plan/internal/other.cc", "data/plan.cc"}) {
    EXPECT_THAT(planted("muster/" + name, ""), HasSubstr("muster/" + name + blame));
  }
  write("muster/plan/quick_plan.cc", "");
  EXPECT_EQ(planted("muster/plan/quick_plan_test.cc", ""), "") << "the test of a source";
  write("tests/house/file_names.txt", "# a comment\nmuster/plan/other.cc  it must be\n");
  EXPECT_EQ(planted("muster/plan/other.cc", ""), "");
  EXPECT_EQ(violations(),
            "tests/house/file_names.txt: names muster/plan/other.cc, which is not there\n");
}

TEST_F(PlantedTest, HeadersStayLight) {
  const std::string start = "// A.\n#pragma once\n";
  EXPECT_EQ(planted("muster/plan/a.cc", "#include <ATen/core/Tensor.h>\n"),
            "muster/plan/a.cc:1: ATen/core/Tensor.h: the ground storey has no LibTorch\n");
  EXPECT_THAT(planted("muster/plan/a.h", start + "#include <c10/core/Device.h>\n"),
              HasSubstr("a.h:3: c10/core/Device.h: the ground storey"));
  EXPECT_THAT(planted("muster/data/a.h", start + "#include <torch/torch.h>\n"),
              HasSubstr("no more of LibTorch than"));
  EXPECT_THAT(planted("muster/data/a.h", start + "#include <c10d/Store.hpp>\n"),
              HasSubstr("no more of LibTorch than"));
  EXPECT_THAT(planted("muster/net/a.h", start + "#include <gloo/context.h>\n"), HasSubstr("heavy"));
  EXPECT_THAT(planted("muster/net/a.h", start + "#include \"muster/net/wire.pb.h\"\n"),
              HasSubstr("heavy"));
  EXPECT_THAT(planted("muster/net/a.h", start + "#include <nlohmann/json.hpp>\n"),
              HasSubstr("json_fwd"));
}

TEST_F(PlantedTest, FieldsOfOptionsHaveInitializers) {
  const auto with = [](const std::string& field) {
    return "// A.\n#pragma once\nstruct RunOptions {\n  int steps = 1;\n" + field +
           "\n  void check() const;\n};\nstruct Place {\n  int row;\n};\n";
  };
  for (const std::string field : {"  std::string name;", "  int64_t* steps;  // so many",
                                  "  std::function<int(const int&)> of;"}) {
    EXPECT_THAT(planted("muster/plan/a.h", with(field)),
                HasSubstr("muster/plan/a.h:5: give this field an initializer"))
        << field;
    // Headers that programs do not see may break the rule.
    EXPECT_EQ(planted("muster/plan/internal/a.h", with(field)), "");
    EXPECT_EQ(planted("muster/plan/testing/a.h", with(field)), "");
  }
  for (const std::string field : {"  std::string name{};", "  using Name = std::string;",
                                  "  std::string said() const;", "  // a comment;"}) {
    EXPECT_EQ(planted("muster/plan/a.h", with(field)), "") << field;
  }
}

TEST_F(PlantedTest, NoFileKnowsVersionsOfLibTorch) {
  const std::string store = "#include <torch/csrc/distributed/c10d/Store.hpp>\n";
  EXPECT_THAT(planted("muster/data/a.cc", store), HasSubstr("c10d moves between versions"));
  EXPECT_THAT(planted("apps/b.cc", store), HasSubstr("c10d moves between versions"));
  const std::string version = "#  if TORCH_VERSION_MAJOR >= 2\n";
  EXPECT_THAT(planted("muster/data/a.cc", version), HasSubstr("asks for the version"));
  EXPECT_EQ(planted("muster/data/a.cc", "const char* version = TORCH_VERSION;\n"), "");
}

TEST_F(PlantedTest, TestsAndFuzzTargetsMayUseTheSupportOfTests) {
  const std::string support = "#include \"tests/fuzz/target.h\"\n";
  EXPECT_THAT(planted("muster/plan/a.cc", support), HasSubstr("does not know the roof"));
  EXPECT_EQ(planted("muster/plan/a_test.cc", support), "");
  EXPECT_EQ(planted("muster/plan/a_fuzz.cc", support), "");
}

TEST_F(PlantedTest, FormIsKept) {
  EXPECT_THAT(planted("muster/plan/a.h", "// A.\nint a();\n"), HasSubstr("no #pragma once"));
  EXPECT_THAT(planted("muster/plan/a.h", "#pragma once\n"), HasSubstr("begins with a comment"));
  EXPECT_THAT(planted("muster/plan/a.cc", "#include \"plan.h\"\n"), HasSubstr("full path"));
  EXPECT_THAT(planted("apps/muster/a.cc", "#include \"plan.h\"\n"), HasSubstr("full path"));
  EXPECT_EQ(planted("apps/muster/new_project/src/a.cc", "#include \"plan.h\"\n"), "");
  EXPECT_THAT(planted("muster/plan/a.cc", "#include \"muster/data/internal/own.h\"\n"),
              HasSubstr("private to its folder"));
  EXPECT_THAT(planted("apps/b.cc", "#include \"muster/data/internal/own.h\"\n"),
              HasSubstr("private to its folder"));
  EXPECT_THAT(planted("muster/plan/a.cc",
                      "// TO"
                      "DO: later\n"),
              HasSubstr("a.cc:1: unfinished"));
  EXPECT_THAT(planted("apps/CMakeLists.txt",
                      "# FIX"
                      "ME\n"),
              HasSubstr("unfinished"));
}

TEST_F(PlantedTest, SymbolsCarryTheVersion) {
  EXPECT_EQ(planted("muster/plan/a.cc", "namespace muster::inline v1_2::plan {\n"), "");
  EXPECT_EQ(planted("muster/plan/a.cc", "namespace muster::inline v1_2 {\n"), "");
  EXPECT_EQ(planted("apps/b.cc", "namespace muster::app {\n"), "");
  EXPECT_EQ(
      planted("muster/plan/a.cc", "\nnamespace muster::plan {\n"),
      "muster/plan/a.cc:2: open it as namespace muster::inline v1_2, so that symbols carry the "
      "version\n");
  EXPECT_THAT(planted("muster/plan/a.cc", "namespace muster::inline v1_20 {\n"),
              HasSubstr("v1_2, so"));
}

TEST_F(PlantedTest, LongFilesAreOnlyWarnedOf) {
  std::string text;
  for (int i = 0; i < 601; ++i) text += "\n";
  write("muster/plan/plan_long.cc", text);
  const Report report = check_house(folder_.path());
  EXPECT_EQ(to_string(report.violations), "");
  EXPECT_EQ(to_string(report.warnings),
            "muster/plan/plan_long.cc: 601 lines: what two things is it?\n");
}

}  // namespace
}  // namespace muster::house
