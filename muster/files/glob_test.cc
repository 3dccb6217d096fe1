#include "muster/files/glob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kTree = {"a/1.csv", "a/2.csv",       "a/x.txt",
                                        "b/1.csv", "b/.hidden.csv", "top.csv"};

// The same tree in a folder of a disk and in a store, and the matches of a pattern in it.
struct Trees {
  Trees() {
    for (const std::string& name : kTree) {
      const std::string local = temp / "t/" + name;
      local_file_system().make_directories(directory_of(local)).value();
      local_file_system().write_atomically(local, name).value();
      store.write_atomically("mem://b/t/" + name, name).value();
    }
  }
  std::vector<std::string> names(const std::vector<FoundPath>& found, const std::string& root) {
    std::vector<std::string> names;
    for (const FoundPath& each : found) {
      EXPECT_TRUE(each.path.starts_with(root)) << each.path;
      names.push_back(each.path.substr(root.size()) + (each.info.is_directory ? "/" : ""));
      if (!each.info.is_directory) {
        EXPECT_EQ(each.info.size, names.back().size());
      }
    }
    return names;
  }
  std::vector<std::string> find(const std::string& pattern) {
    const std::string local = temp / "t/", remote = "mem://b/t/";
    const auto on_disk = names(find_paths(local_file_system(), local + pattern), local);
    EXPECT_EQ(names(find_paths(store, remote + pattern), remote), on_disk) << pattern;
    EXPECT_EQ(
        names(find_paths(local_file_system(), "file://" + local + pattern), "file://" + local),
        on_disk);
    return on_disk;
  }

  TempDirectory temp;
  MemoryStore store;
};

TEST(Glob, PatternsMeanTheSameOnDisksAndInStores) {
  Trees trees;
  EXPECT_THAT(trees.find("*/*.csv"), ElementsAre("a/1.csv", "a/2.csv", "b/1.csv"));
  EXPECT_THAT(trees.find("*/1.csv"), ElementsAre("a/1.csv", "b/1.csv"));
  EXPECT_THAT(trees.find("a/[12].csv"), ElementsAre("a/1.csv", "a/2.csv"));
  EXPECT_THAT(trees.find("?"), ElementsAre("a/", "b/"));
  EXPECT_THAT(trees.find("top.csv"), ElementsAre("top.csv"));
  EXPECT_THAT(trees.find("b/.h*"), ElementsAre("b/.hidden.csv"));
  EXPECT_THAT(trees.find("none/*"), IsEmpty());
  EXPECT_TRUE(has_wildcard("mem://b/x*"));
  EXPECT_FALSE(has_wildcard("mem://b*/x"));
}

TEST(Glob, OneRequestAFolder) {
  Trees trees;
  trees.store.set_plan({.writes_only = false});
  (void)find_paths(trees.store, "mem://b/t/*/*.csv");
  EXPECT_EQ(trees.store.requests(), 3);
}

TEST(Glob, FilesBelowAFolder) {
  Trees trees;
  EXPECT_THAT(trees.names(files_below(trees.store, "mem://b/t"), "mem://b/t/"),
              ElementsAre("a/1.csv", "a/2.csv", "a/x.txt", "b/.hidden.csv", "b/1.csv", "top.csv"));
  EXPECT_EQ(files_below(local_file_system(), trees.temp / "t").size(), kTree.size());
  EXPECT_EQ(error_of([&] { (void)files_below(trees.store, "mem://b/none"); }).kind(),
            ErrorKind::kNotFound);
}

// A copy of a bucket on a disk must write nothing outside its folder.
TEST(Glob, NamesThatLeadOutOfAFolderAreRefused) {
  MemoryStore store;
  store.write_atomically("mem://b/t/../../etc/passwd", "x").value();
  EXPECT_EQ(error_of([&] { (void)files_below(store, "mem://b/t"); }).kind(),
            ErrorKind::kInvalidArgument);
}

// Names ever more folders.
class EndlessStore final : public FileSystem {
 public:
  EndlessStore(ManualClock& clock, size_t levels) : clock_(clock), levels_(levels) {}
  Result<std::vector<DirectoryEntry>> list_entries(const std::string& path) override {
    clock_.advance(from_seconds(4));
    const auto level = static_cast<size_t>(std::ranges::count(path, '/'));
    if (level >= levels_) return std::vector<DirectoryEntry>();
    std::vector<DirectoryEntry> entries;
    for (const char* name : {"a", "b", "c"}) entries.push_back({name, {.is_directory = true}});
    return entries;
  }

  Result<FileInfo> info(const std::string&) override { return FileInfo{.is_directory = true}; }
  Result<std::vector<std::string>> list_directory(const std::string&) override { return unused(); }
  Result<std::unique_ptr<FileReader>> open_reader(const std::string&) override { return unused(); }
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string&) override { return unused(); }
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string&) override {
    return unused();
  }
  Status make_directories(const std::string&) override { return unused(); }
  Status remove(const std::string&) override { return unused(); }
  Status rename(const std::string&, const std::string&) override { return unused(); }

 private:
  static Error unused() { return internal_error("only folders are listed"); }
  ManualClock& clock_;
  const size_t levels_;
};

TEST(Glob, FoldersWithoutEndAreAnError) {
  ManualClock clock;
  EndlessStore deep(clock, SIZE_MAX), wide(clock, 20);
  ::testing::internal::CaptureStderr();
  const Error in_each_other =
      error_of([&] { (void)files_below(deep, "mem://b/t", {.clock = &clock}); });
  EXPECT_EQ(in_each_other.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(in_each_other.message(), ::testing::HasSubstr("512 folders in each other"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("listing 'mem://b/t': 4 folders so far"));
  const WalkLimits few{.folders = 1000, .clock = &clock};
  EXPECT_THAT(error_of([&] { (void)files_below(wide, "mem://b/t", few); }).message(),
              ::testing::HasSubstr("more than 1000 folders"));
  EXPECT_THAT(error_of([&] {
                (void)find_paths(wide, "mem://b/*/*/*/*/*/*/*/*/*", Literal::kBrackets, few);
              }).message(),
              ::testing::HasSubstr("more than 1000 folders"));
}

// A name that is there is that name, on disks and in stores.
TEST(Glob, BracketsInNamesAreThemselves) {
  TempDirectory temp;
  MemoryStore store;
  for (const char* name : {"run[3]/part-0.csv", "run[3]/part-1.csv", "run3/part-0.csv",
                           "photo[1].txt", "photo1.txt", "photo2.txt", "x[a]-1", "xa-1", "xb-1"}) {
    const std::string local = temp / "t/" + name;
    local_file_system().make_directories(directory_of(local)).value();
    local_file_system().write_atomically(local, "x").value();
    store.write_atomically(std::string("mem://b/t/") + name, "x").value();
  }
  const auto find = [&](const std::string& pattern) {
    const auto names = [&](FileSystem& files, const std::string& root) {
      std::vector<std::string> found;
      for (const FoundPath& each : find_paths(files, root + pattern))
        found.push_back(each.path.substr(root.size()));
      return found;
    };
    const auto on_disk = names(local_file_system(), temp / "t/");
    EXPECT_EQ(names(store, "mem://b/t/"), on_disk) << pattern;
    return on_disk;
  };
  EXPECT_THAT(find("run[3]/part-*.csv"), ElementsAre("run[3]/part-0.csv", "run[3]/part-1.csv"));
  EXPECT_THAT(find("run[3]/part-0.csv"), ElementsAre("run[3]/part-0.csv"));
  EXPECT_THAT(find("photo[1].txt"), ElementsAre("photo[1].txt"));
  EXPECT_THAT(find("x[a]-*"), ElementsAre("x[a]-1"));
  // Without such a name it is a pattern.
  EXPECT_THAT(find("photo[12].txt"), ElementsAre("photo1.txt", "photo2.txt"));
  EXPECT_THAT(find("x[ab]-1"), ElementsAre("xa-1", "xb-1"));
  EXPECT_THAT(find("photo?.txt"), ElementsAre("photo1.txt", "photo2.txt"));
  EXPECT_THAT(find("photo*.txt"), ElementsAre("photo1.txt", "photo2.txt", "photo[1].txt"));
  // Escaped brackets mean only themselves.
  for (const char* escaped : {"photo[[]1].txt", "photo\\[1].txt", "photo\\[1\\].*"})
    EXPECT_THAT(find(escaped), ElementsAre("photo[1].txt")) << escaped;
}

TEST(Glob, ANameWinsOverAPatternAndThatIsReported) {
  MemoryStore store;
  for (const char* name : {"mem://b/s/a*b", "mem://b/s/axb", "mem://b/s/c[1]", "mem://b/s/c1"})
    store.write_atomically(name, "x").value();
  EXPECT_EQ(find_paths(store, "mem://b/s/a*b").size(), 2u);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(find_paths(store, "mem://b/s/c[1]").at(0).path, "mem://b/s/c[1]");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(::testing::HasSubstr("'c[1]'"), ::testing::HasSubstr("'c1'")));
  const auto named = find_paths(store, "mem://b/s/a*b", Literal::kAny);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].path, "mem://b/s/a*b");
}

TEST(Glob, TheQuestionOfAWebAddressIsNoPattern) {
  MemoryStore store;
  const std::string address = "https://host/train.csv?key=a*b";
  store.write_atomically(address, "x").value();
  EXPECT_EQ(find_paths(store, address).size(), 1u);
  EXPECT_FALSE(has_wildcard("https://host/train.csv?key=a*b"));
  EXPECT_TRUE(has_wildcard("https://host/*.csv?key=1"));
  EXPECT_TRUE(has_wildcard("s3://bucket/train-?.csv"));
}

TEST(Glob, AStoreThatForbidsIsNamed) {
  MemoryStore store;
  store.set_plan({.fail_from = 0, .writes_only = false, .kind = ErrorKind::kInvalidArgument});
  EXPECT_THAT(error_of([&] { (void)find_paths(store, "mem://b/t/*.csv"); }).message(),
              ::testing::HasSubstr("mem://b/t/*.csv"));
  EXPECT_EQ(error_of([&] { (void)find_paths(store, "mem://b/t/a.csv"); }).kind(),
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1
