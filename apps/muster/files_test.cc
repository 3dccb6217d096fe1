// ls, cp and cat on a disk and in a store, and as a user meets them.
#include "apps/muster/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/muster/run_muster.h"
#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/files/file_systems.h"
#include "muster/files/testing/memory_store.h"

namespace muster::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::UnorderedElementsAre;

// A bucket of each test's own, empty after it.
struct FilesTest : ::testing::Test {
  FilesTest() { memory_store(); }
  ~FilesTest() override { memory_store().clear(); }
  void write(const std::string& path, const std::string& text) {
    file_systems().make_directories(directory_of(path)).value();
    file_systems().write_atomically(path, text).value();
  }
  std::string read(const std::string& path) { return file_systems().read_file(path).value(); }

  TempDirectory dir;
  FileSystem& files = file_systems();
};

TEST_F(FilesTest, FoldersComeBackFromAStoreAsTheyWere) {
  for (const char* name : {"run/checkpoint", "run/a/1", "run/a/b/2"}) write(dir / name, name);
  const std::string big(20 << 20, 'x');  // more than a buffer
  write(dir / "run/big", big);
  size_t told = 0;
  const CopyProgress there =
      copy_paths(files, {dir / "run"}, "mem://files/", true, [&](const CopyProgress&) { ++told; });
  EXPECT_EQ(there.files, 4u);
  EXPECT_EQ(there.bytes, there.of_bytes);
  EXPECT_GE(told, 6u);
  EXPECT_THAT(memory_store().objects(),
              ElementsAre("mem://files/run/a/1", "mem://files/run/a/b/2", "mem://files/run/big",
                          "mem://files/run/checkpoint"));
  EXPECT_EQ(copy_paths(files, {"mem://files/run"}, dir / "back", true).files, 4u);
  EXPECT_EQ(read(dir / "back/a/b/2"), "run/a/b/2");
  EXPECT_TRUE(read(dir / "back/big") == big);
  // A folder that is there is copied into.
  copy_paths(files, {"mem://files/run"}, dir / "back", true);
  EXPECT_EQ(read(dir / "back/run/checkpoint"), "run/checkpoint");
  EXPECT_EQ(copy_paths(files, {"mem://files"}, dir / "bucket", true).files, 4u);
  EXPECT_EQ(read(dir / "bucket/run/a/1"), "run/a/1");
}

TEST_F(FilesTest, WhereAFileGoes) {
  write(dir / "a", "1");
  write(dir / "b", "2");
  copy_paths(files, {dir / "a"}, "mem://files/name", false);
  EXPECT_EQ(read("mem://files/name"), "1");
  copy_paths(files, {dir / "a"}, "mem://files/folder/", false);
  EXPECT_EQ(read("mem://files/folder/a"), "1");
  copy_paths(files, {dir / "a", dir / "b"}, "mem://files/both", false);
  EXPECT_EQ(read("mem://files/both/b"), "2");
  copy_paths(files, {dir / "b"}, "mem://files/both", false);
  copy_paths(files, {"mem://files/f*/a"}, "mem://other", false);
  EXPECT_EQ(read("mem://other/a"), "1");
  EXPECT_THAT(error_of([&] { copy_paths(files, {"mem://files/*"}, dir / "to", false); }).hint(),
              HasSubstr("muster cp -r"));
  EXPECT_THAT(error_of([&] {
                copy_paths(files, {dir / "a", dir / "b"}, dir / "a", false);
              }).message(),
              HasSubstr("is a file"));
  EXPECT_THAT(
      error_of([&] { copy_paths(files, {"mem://files/*/a"}, dir / "to", false); }).message(),
      HasSubstr("two files would be copied to"));
  EXPECT_THAT(error_of([&] { copy_paths(files, {dir / "a"}, dir.path(), false); }).message(),
              HasSubstr("to itself"));
  EXPECT_THAT(error_of([&] { copy_paths(files, {dir / "a"}, dir / "./a", false); }).message(),
              HasSubstr("to itself"));
  const Error missing = error_of([&] { copy_paths(files, {dir / "c"}, dir / "d", false); });
  EXPECT_EQ(missing.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(missing.hint(), HasSubstr("'a', 'b'"));
}

// By whatever names: links, file://, dots, and in a store.
TEST_F(FilesTest, AFolderIsNotCopiedIntoItself) {
  write(dir / "d/e/a", "1");
  write("mem://self/d/a", "1");
  std::filesystem::create_directory(dir / "empty");
  std::filesystem::create_directory_symlink(dir / "d", dir / "link");
  std::filesystem::create_symlink(dir / "d/e/a", dir / "link_to_a");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {dir / "d", dir / "d/e"},
      {dir / "d", dir / "d"},
      {dir / "d", dir / "d/new/f"},
      {dir / "d", dir / "d/"},
      {dir / "d", dir.path()},
      {dir / "d", dir / "link"},
      {dir / "link", dir / "d/e"},
      {dir / "d", dir / "link/e"},
      {dir / "d", "file://" + dir / "d/new"},
      {"file://" + dir / "d", dir / "d/./e/../new"},
      {dir / "empty", dir / "empty/x"},
      {"mem://self/d", "mem://self/d/e"},
      {"mem://self/d", "mem://self/d"},
      {"mem://self/d", "mem://self"}};
  for (const auto& [from, to] : refused) {
    const Error error = error_of([&] { copy_paths(files, {from}, to, true); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << from << " " << to;
    EXPECT_THAT(error.message(), HasSubstr("into itself")) << from << " " << to;
  }
  EXPECT_THAT(
      error_of([&] { copy_paths(files, {dir / "d/e/a"}, dir / "link_to_a", false); }).message(),
      HasSubstr("to itself"));
  EXPECT_FALSE(std::filesystem::exists(dir / "d/new"));
  // Beside it is not part of it, though the name begins alike.
  copy_paths(files, {dir / "d"}, dir / "d2", true);
  EXPECT_EQ(read(dir / "d2/e/a"), "1");
  copy_paths(files, {"mem://self/d"}, "mem://self/d2", true);
  EXPECT_EQ(read("mem://self/d2/a"), "1");
}

// What fails leaves no half of a file, and says what was copied before.
TEST_F(FilesTest, AFileIsWholeOrNotThere) {
  write(dir / "run/a", "1");
  write(dir / "run/b", "2");
  memory_store().set_plan({.fail_from = 0});
  const Error error = error_of([&] { copy_paths(files, {dir / "run"}, "mem://files/run", true); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("/run/"));
  EXPECT_THAT(error.message(), HasSubstr("0 of 2 files were copied before"));
  EXPECT_TRUE(memory_store().objects().empty());
}

TEST_F(FilesTest, AFolderDoesNotGoIntoAFile) {
  write("mem://files/run/a", "1");
  write("mem://files/name", "2");
  write(dir / "name", "2");
  for (const std::string& to : {std::string("mem://files/name"), std::string(dir / "name")}) {
    EXPECT_THAT(error_of([&] { copy_paths(files, {"mem://files/run"}, to, true); }).message(),
                HasSubstr("is a file"));
  }
  EXPECT_THAT(memory_store().objects(), ElementsAre("mem://files/name", "mem://files/run/a"));
}

// What a path ends with is not always a name.
TEST_F(FilesTest, FoldersWithoutAName) {
  write(dir / "run/sub/a", "1");
  for (const char* from : {"run/.", "run/sub/.."}) {
    copy_paths(files, {dir / from}, "mem://files/to", true);
    EXPECT_THAT(memory_store().objects(), ElementsAre("mem://files/to/sub/a")) << from;
    // Into a folder that is there goes what is in it, and nothing next to the folder.
    copy_paths(files, {dir / from}, "mem://files/to", true);
    EXPECT_THAT(memory_store().objects(), ElementsAre("mem://files/to/sub/a")) << from;
    memory_store().clear();
  }
}

// Where it cannot be told whether there is a folder, the file must not take its name.
TEST_F(FilesTest, AStoreThatDoesNotAnswerIsAnError) {
  write("mem://files/folder/a", "1");
  write(dir / "b", "2");
  memory_store().set_plan({.fail_at = 0, .writes_only = false});
  EXPECT_EQ(error_of([&] { copy_paths(files, {dir / "b"}, "mem://files/folder", false); }).kind(),
            ErrorKind::kUnavailable);
  EXPECT_THAT(memory_store().objects(), ElementsAre("mem://files/folder/a"));
}

// A pattern that matches nothing may be a name.
TEST_F(FilesTest, NamesWithTheLettersOfPatterns) {
  write("mem://files/a[1]*?.txt", "1");
  copy_paths(files, {"mem://files/a[1]*?.txt"}, dir / "b", false);
  EXPECT_EQ(read(dir / "b"), "1");
}

// A name that is there is that name, also where it is a pattern that others match.
TEST_F(FilesTest, ANameThatIsThereIsThatName) {
  for (const std::string& root : {dir / "d", std::string("mem://files/d")}) {
    for (const char* name : {"photo[1].txt", "photo1.txt", "a?b.txt", "axb.txt", "run[3]/part-0",
                             "run3/part-0", "run3/part-1"}) {
      write(root + "/" + name, name);
    }
    const std::string out = dir / ("out-" + std::to_string(root.size()));
    for (const char* name : {"photo[1].txt", "a?b.txt", "run[3]/part-*"})
      copy_paths(files, {root + "/" + name}, out + "/", false);
    EXPECT_EQ(read(out + "/photo[1].txt"), "photo[1].txt");
    EXPECT_EQ(read(out + "/a?b.txt"), "a?b.txt");
    EXPECT_EQ(read(out + "/part-0"), "run[3]/part-0");
    EXPECT_EQ(files.list_directory(out).value().size(), 3u);
    copy_paths(files, {root + "/run[3]"}, out + "/tree", true);
    EXPECT_EQ(files.list_directory(out + "/tree").value().size(), 1u);
    // A folder's name shows what is in it.
    EXPECT_THAT(list_paths(files, {root + "/run[3]"}, false, false), HasSubstr("run[3]/part-0"));
  }
}

TEST_F(FilesTest, Lists) {
  write("mem://files/run/checkpoint", "text");
  write("mem://files/run/eval/events", std::string(2048, 'x'));
  const std::string text = list_paths(files, {"mem://files/run"}, false, false);
  EXPECT_THAT(text, MatchesRegex(" *size +modified +name\n *4 B +[-0-9]+ [0-9:]+ +"
                                 "mem://files/run/checkpoint\n *- +- +mem://files/run/eval/\n"
                                 "1 file, 4 B\n"));
  EXPECT_THAT(list_paths(files, {"mem://files/run/"}, true, false), HasSubstr("2.0 KiB"));
  const auto json = nlohmann::json::parse(list_paths(files, {"mem://files/*/*"}, false, true));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["path"], "mem://files/run/checkpoint");
  EXPECT_EQ(json[0]["size"], 4);
  EXPECT_EQ(json[1]["is_directory"], true);
  EXPECT_EQ(error_of([&] { (void)list_paths(files, {"mem://files/none"}, false, false); }).kind(),
            ErrorKind::kNotFound);
  EXPECT_THAT(
      error_of([&] { (void)list_paths(files, {"mem://files/x*"}, false, false); }).message(),
      HasSubstr("nothing matches mem://files/x*"));
}

// Four files are under way at a time, each with 8 MiB at most.
TEST_F(FilesTest, FourFilesAreCopiedAtATime) {
  struct Counted {
    std::atomic<int> begun{0};
    std::atomic<int> now{0};
    std::atomic<int> most{0};
    std::atomic<size_t> largest{0};
  };
  class CountedReader : public FileReader {
   public:
    CountedReader(std::unique_ptr<FileReader> reader, Counted& counted)
        : reader_(std::move(reader)), counted_(counted) {
      counted_.most = std::max(counted_.most.load(), ++counted_.now);
      ++counted_.begun;
    }
    ~CountedReader() override { --counted_.now; }
    const std::string& name() const override { return reader_->name(); }
    Result<size_t> read_at(uint64_t offset, MutableBytes to) override {
      // Nobody goes on before four have begun.
      await([&] { return counted_.begun >= 4; });
      counted_.largest = std::max(counted_.largest.load(), to.size());
      return reader_->read_at(offset, to);
    }
    Result<uint64_t> size() override { return reader_->size(); }

   private:
    std::unique_ptr<FileReader> reader_;
    Counted& counted_;
  };
  class CountedFiles : public FaultFileSystem {
   public:
    CountedFiles(FileSystem& base, Counted& counted) : FaultFileSystem(base), counted_(counted) {}
    Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
      auto reader = FaultFileSystem::open_reader(path);
      if (!reader.ok()) return reader.error();
      return std::unique_ptr<FileReader>(
          std::make_unique<CountedReader>(std::move(reader).value(), counted_));
    }

   private:
    Counted& counted_;
  };
  for (int i = 0; i < 12; ++i) write(dir / ("run/" + std::to_string(i)), "text");
  write(dir / "run/large", std::string(9 << 20, 'x'));
  Counted counted;
  CountedFiles some(files, counted);
  EXPECT_EQ(copy_paths(some, {dir / "run"}, dir / "copy", true).files, 13u);
  EXPECT_EQ(counted.most, 4);
  EXPECT_EQ(counted.largest, size_t{8} << 20);
}

// A pipe is not a place for a file, and a name that stands for a stream is not a file.
TEST_F(FilesTest, StreamsAreNotCopied) {
  write(dir / "a", "1");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { copy_paths(files, {dir / "a"}, dir / "pipe", false); }).what(),
              HasSubstr("is a named pipe, not a file"));
  EXPECT_TRUE(std::filesystem::is_fifo((dir / "pipe")));
  EXPECT_THAT(error_of([&] { copy_paths(files, {dir / "pipe"}, dir / "b", false); }).what(),
              HasSubstr("is a named pipe, not a file"));
  for (const std::string stream : {"-", "/dev/stdout", "/dev/fd/3"}) {
    for (const Error& error :
         {error_of([&] { copy_paths(files, {dir / "a"}, stream, true); }),
          error_of([&] { copy_paths(files, {stream}, dir / "b", false); }),
          error_of([&] { read_paths(files, {stream}, 0, std::nullopt, [](Bytes) {}); })}) {
      EXPECT_THAT(error.message(), HasSubstr("not supported: '" + stream + "'"));
      EXPECT_THAT(error.hint(), HasSubstr("use muster cat FROM"));
    }
  }
}

// Names are those that others gave: each is one line, which steers no terminal.
TEST_F(FilesTest, UntrustedNamesAreShownAsTheyAre) {
  write("mem://files/a\nb\x1b[2J", "1");
  EXPECT_THAT(list_paths(files, {"mem://files"}, false, false),
              HasSubstr("mem://files/a\\x0ab\\x1b[2J\n1 file"));
}

TEST_F(FilesTest, ReadsRanges) {
  write("mem://files/a", "0123456789");
  write("mem://files/b", "abc");
  const auto cat = [&](const std::vector<std::string>& paths, uint64_t offset,
                       std::optional<uint64_t> count) {
    std::string all;
    read_paths(files, paths, offset, count, [&](Bytes bytes) { all += text_of(bytes); });
    return all;
  };
  EXPECT_EQ(cat({"mem://files/*"}, 0, std::nullopt), "0123456789abc");
  EXPECT_EQ(cat({"mem://files/a"}, 3, 4), "3456");
  EXPECT_EQ(cat({"mem://files/a"}, 8, 100), "89");
  EXPECT_EQ(cat({"mem://files/a"}, 100, std::nullopt), "");
}

TEST_F(FilesTest, TheCommandItself) {
  write(dir / "run/a", "one\n");
  write(dir / "run/b", "two\n");
  EXPECT_EQ(run_muster("cat " + dir / "run/a" + " " + dir / "run/b").text, "one\ntwo\n");
  EXPECT_EQ(run_muster("cat --offset=1 --bytes=2 " + dir / "run/a").text, "ne");
  EXPECT_EQ(run_muster("cp -r " + dir / "run" + " " + dir / "copy").text, "copied 2 files, 8 B\n");
  EXPECT_THAT(run_muster("ls " + dir / "copy").text, HasSubstr("2 files, 8 B\n"));
  EXPECT_THAT(run_muster("ls -r --json " + dir.path()).text, HasSubstr("copy/b"));
  for (const std::string words :
       {"cp", "cp a", "cp -r /nowhere/at/all x", "ls s4://bucket", "cat"}) {
    const ShellOutput ran = run_muster(words);
    EXPECT_EQ(ran.code, 2) << words << ": " << ran.text;
    EXPECT_THAT(ran.text, HasSubstr("hint: ")) << words;
  }
  EXPECT_THAT(run_muster("ls s4://bucket").text, HasSubstr("did you mean s3://?"));
}

}  // namespace
}  // namespace muster::app
