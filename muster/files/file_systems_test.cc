#include "muster/files/file_systems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1 {
namespace {

// Lists a name that is none.
class LyingStore final : public FileSystem {
 public:
  explicit LyingStore(std::string name) : name_(std::move(name)) {}
  Result<FileInfo> info(const std::string&) override { return FileInfo{.is_directory = true}; }
  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
    return not_found(path);
  }
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override {
    return not_found(path);
  }
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    return not_found(path);
  }
  Result<std::vector<std::string>> list_directory(const std::string&) override {
    return std::vector<std::string>{"good", name_};
  }
  Status make_directories(const std::string&) override { return {}; }
  Status remove(const std::string& path) override { return not_found(path); }
  Status rename(const std::string& from, const std::string&) override { return not_found(from); }

 private:
  const std::string name_;
};

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(FileSystems, ListsOfAProgramsOwnStoresNameWhatLiesInAFolder) {
  int number = 0;
  for (const std::string& name :
       {std::string("/etc/passwd"), std::string("a/../../b"), std::string("http://host/x"),
        std::string(), std::string("a\0b", 3)}) {
    const std::string scheme = "lying" + std::to_string(number++);
    register_file_system(scheme, [name] { return std::make_unique<LyingStore>(name); });
    const auto names = file_systems().list_directory(scheme + "://b/d");
    ASSERT_FALSE(names.ok()) << name;
    EXPECT_EQ(names.error().kind(), ErrorKind::kCorrupt);
    EXPECT_EQ(file_systems().list_entries(scheme + "://b/d").error().kind(), ErrorKind::kCorrupt);
  }
}

TEST(FileSystems, PlainPathsAndFileUrisAreOfThisMachine) {
  TempDirectory temp;
  FileSystem& files = file_systems();
  files.write_atomically(temp / "a", "one").value();
  EXPECT_EQ(files.read_file("file://" + temp / "a").value(), "one");
  EXPECT_EQ(local_file_system().read_file(temp / "a").value(), "one");
  files.make_directories(temp / "d").value();
  files.rename(temp / "a", "file://" + temp / "d/b").value();
  EXPECT_THAT(files.list_directory(temp / "d").value(), ::testing::ElementsAre("b"));
  files.open_writer(temp / "log").value()->append(bytes_of("x")).value();
  EXPECT_EQ(files.file_size(temp / "log").value(), 1u);
  files.remove(temp / "log").value();
  files.remove_tree(temp / "d").value();
  EXPECT_FALSE(files.exists(temp / "d").value());
  EXPECT_FALSE(files.info("").ok());
}

TEST(FileSystems, PathsGoToTheStoreOfTheirScheme) {
  MemoryStore& store = memory_store();
  FileSystem& files = file_systems();
  files.write_atomically("mem://schemes/a/b", "two").value();
  EXPECT_THAT(store.objects(), Contains("mem://schemes/a/b"));
  EXPECT_EQ(files.read_file("mem://schemes/a/b").value(), "two");
  EXPECT_FALSE(local_file_system().exists("mem://schemes/a/b").ok());
  files.remove_tree("mem://schemes").value();
  EXPECT_FALSE(files.exists("mem://schemes/a/b").value());
  EXPECT_THAT(path_schemes(), Contains("mem"));
}

TEST(FileSystems, UnknownSchemesNameThoseThereAre) {
  (void)memory_store();
  const Error error = file_systems().read_file("men://bucket/a").error();
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("'men' of 'men://bucket/a'"));
  EXPECT_THAT(error.message(), HasSubstr("'file', "));
  EXPECT_EQ(error.hint(), "did you mean mem://?");
  EXPECT_THAT(file_systems().info("quite-other://x").error().hint(), HasSubstr("a plain path"));
}

// This test is not linked with the stores.
TEST(FileSystems, APathOfAStoreNamesThePartThatIsMissing) {
  for (const char* path : {"s3://b/a", "gs://b/a", "http://h/a", "https://h/a"}) {
    const Error error = file_systems().read_file(path).error();
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(path));
    EXPECT_THAT(error.hint(), HasSubstr("muster::stores"));
  }
}

// "s3:/bucket" is not a folder of this machine.
TEST(FileSystems, APathThatLacksASlashIsNoFileOfThisMachine) {
  (void)memory_store();
  for (const std::string scheme : {"s3", "gs", "mem"}) {
    const Error error = file_systems().make_directories(scheme + ":/bucket/run").error();
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.hint(), HasSubstr("write " + scheme + "://bucket/run"));
  }
  EXPECT_THAT(file_systems().read_file("file:/tmp/a").error().hint(),
              HasSubstr("write file:///tmp/a"));
  // An unregistered scheme may be a file name.
  TempDirectory temp;
  EXPECT_FALSE(file_systems().exists(temp / "s3:/a").value());
  EXPECT_FALSE(file_systems().exists("c:/none/a").value());
  EXPECT_FALSE(file_systems().exists("./s3:/a").value());
}

TEST(FileSystems, NothingIsRenamedFromOneStoreToAnother) {
  TempDirectory temp;
  (void)memory_store();
  local_file_system().write_atomically(temp / "a", "1").value();
  const Status renamed = file_systems().rename(temp / "a", "mem://rename/a");
  ASSERT_FALSE(renamed.ok());
  EXPECT_EQ(renamed.error().kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(renamed.error().hint(), HasSubstr("muster cp"));
}

// However many threads ask at once, a store is made once, and a store whose making failed is tried
// again.
TEST(FileSystems, StoresAreMadeWhenTheyAreFirstAskedFor) {
  static std::atomic<int> made{0};
  register_file_system("lazy", []() -> std::unique_ptr<FileSystem> {
    if (made++ == 0) throw Error(ErrorKind::kUnavailable, "there are no credentials yet");
    return std::make_unique<MemoryStore>();
  });
  EXPECT_EQ(made, 0);
  const Error error = file_systems().exists("lazy://b/a").error();
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("no credentials yet"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back(
        [i] { file_systems().write_atomically("lazy://b/" + std::to_string(i), "x").value(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 2);
  EXPECT_EQ(file_systems().list_directory("lazy://b").value().size(), 8u);
}

TEST(FileSystems, RegistrationsThatCannotBe) {
  const auto none = [] { return std::unique_ptr<FileSystem>(); };
  for (const char* scheme : {"", "file", "a b", "3s", "a/b"})
    EXPECT_EQ(error_of([&] { register_file_system(scheme, none); }).kind(),
              ErrorKind::kInvalidArgument)
        << scheme;
  EXPECT_EQ(error_of([] { register_file_system("empty", nullptr); }).kind(),
            ErrorKind::kInvalidArgument);
  register_file_system("twice", none);
  EXPECT_EQ(file_systems().exists("twice://b").error().kind(), ErrorKind::kInternal);
  register_file_system("twice", [] { return std::make_unique<MemoryStore>(); });
  EXPECT_FALSE(file_systems().exists("twice://b").value());
  EXPECT_THAT(error_of([&] { register_file_system("twice", none); }).message(),
              HasSubstr("in use already"));
}

}  // namespace
}  // namespace muster::inline v0_1
