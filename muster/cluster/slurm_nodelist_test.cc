#include "muster/cluster/slurm_nodelist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "muster/base/error_of.h"

namespace muster::inline v0_1::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

TEST(SlurmNodelist, ReadsWhatSlurmWrites) {
  EXPECT_THAT(expand_nodelist("vm"), ElementsAre("vm"));
  EXPECT_THAT(expand_nodelist("a,b,c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(expand_nodelist("node[1-3]"), ElementsAre("node1", "node2", "node3"));
  EXPECT_THAT(expand_nodelist("gpu[01-03,7],login2"),
              ElementsAre("gpu01", "gpu02", "gpu03", "gpu7", "login2"));
  EXPECT_THAT(expand_nodelist("c[1-2]x"), ElementsAre("c1x", "c2x"));
  EXPECT_THAT(expand_nodelist("r[1-2]n[0-1]"), ElementsAre("r1n0", "r1n1", "r2n0", "r2n1"));
  EXPECT_THAT(expand_nodelist("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(expand_nodelist("n[9-10]"), ElementsAre("n9", "n10"));
  EXPECT_THAT(expand_nodelist(" a-b.example "), ElementsAre("a-b.example"));
}

TEST(SlurmNodelist, RefusesWhatIsNoList) {
  for (const auto& [list, says] :
       {std::pair{"", "an empty name"}, std::pair{"a,,b", "an empty name"},
        std::pair{"a[1-2", "a bracket without its end"}, std::pair{"a]", "not opened"},
        std::pair{"a[]", "no number"}, std::pair{"a[3-1]", "ends before it begins"},
        std::pair{"a[1-x]", "no number"}, std::pair{"a[[1]]", "no number"},
        std::pair{"a[0-9999999]", "more than a million"},
        std::pair{"a[0-9999]b[0-9999]", "more than a million"},
        std::pair{"a[0-99999999999999999999]", "too long"}}) {
    const Error error = error_of([list = list] { expand_nodelist(list); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << list;
    EXPECT_THAT(error.message(), HasSubstr(says)) << list;
  }
}

// Random names, in runs and alone, with and without zeros in front.
Names random_names(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const Names prefixes{"n", "gpu-", "a1b", "rack2.node", "", "x_9_"};
  Names names;
  const int runs = 1 + below(6);
  for (int run = 0; run < runs; ++run) {
    const std::string& prefix = prefixes[static_cast<size_t>(below(6))];
    int number = below(120);
    const int width = below(4);
    for (int i = below(5); i >= 0; --i, number += below(4) == 0 ? 2 : 1) {
      std::string digits = std::to_string(number);
      while (static_cast<int>(digits.size()) < width) digits = "0" + digits;
      names.push_back(prefix + digits);
    }
    if (below(3) == 0) names.push_back(prefix + "head");
  }
  return names;
}

TEST(SlurmNodelist, ExpandsWhatItCompressed) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const Names names = random_names(random);
    const std::string list = compress_nodelist(names);
    EXPECT_EQ(expand_nodelist(list), names) << list;
    EXPECT_EQ(compress_nodelist(expand_nodelist(list)), list);
  }
}

TEST(SlurmNodelist, CompressesAsSlurmDoes) {
  EXPECT_EQ(compress_nodelist({"node01", "node02", "node03", "node07"}), "node[01-03,07]");
  EXPECT_EQ(compress_nodelist({"a"}), "a");
  EXPECT_EQ(compress_nodelist({"a9", "a10", "b1"}), "a[9-10],b1");
}

TEST(SlurmTasksPerNode, HasOneNumberForEachNode) {
  EXPECT_THAT(expand_tasks_per_node("2"), ElementsAre(2));
  EXPECT_THAT(expand_tasks_per_node("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_tasks_per_node("0"), ElementsAre(0));
  EXPECT_THAT(expand_tasks_per_node("0(x2)"), ElementsAre(0, 0));
  EXPECT_THAT(expand_tasks_per_node("2,0,1"), ElementsAre(2, 0, 1));
  for (const char* text : {"", "x", "2(x)", "2(x3", "2(x0)", "-1", "2(x9999999)", "(x2)", "2,"}) {
    EXPECT_THAT(error_of([text] { expand_tasks_per_node(text); }).message(),
                HasSubstr("how many tasks"))
        << text;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
