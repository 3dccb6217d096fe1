#include "muster/files/testing/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;

TEST(MemoryStore, FoldersAreWhatNamesHaveInCommon) {
  MemoryStore store;
  store.make_directories("mem://b/empty").value();
  EXPECT_FALSE(store.exists("mem://b/empty").value());
  for (const char* name : {"mem://b/d/z", "mem://b/d/e/y", "mem://b/d/e/x", "mem://b/dd"})
    store.write_atomically(name, name).value();
  EXPECT_THAT(store.list_directory("mem://b").value(), ElementsAre("d", "dd"));
  EXPECT_THAT(store.list_directory("mem://b/d/").value(), ElementsAre("e", "z"));
  EXPECT_TRUE(store.info("mem://b/d").value().is_directory);
  EXPECT_FALSE(store.info("mem://b/dd").value().is_directory);
  EXPECT_EQ(store.read_range("mem://b/d/z", 8, 3).value(), "d/z");
  store.remove_tree("mem://b/d").value();
  EXPECT_THAT(store.objects(), ElementsAre("mem://b/dd"));
  EXPECT_EQ(store.list_directory("mem://b/d").error().kind(), ErrorKind::kNotFound);
}

TEST(MemoryStore, ObjectsAreWholeOrAbsent) {
  MemoryStore store;
  {
    auto writer = store.open_staged("mem://b/a").value();
    writer->append(bytes_of("one")).value();
    EXPECT_FALSE(store.exists("mem://b/a").value());
    writer->commit().value();
    EXPECT_FALSE(writer->append(bytes_of("late")).ok());
  }
  const auto before = store.open_reader("mem://b/a").value();
  {
    auto writer = store.open_staged("mem://b/a").value();
    writer->append(bytes_of("two, and not committed")).value();
  }
  EXPECT_EQ(store.read_file("mem://b/a").value(), "one");
  store.write_atomically("mem://b/a", "three").value();
  EXPECT_EQ(before->size().value(), 3u) << "what is open stays as it is";
  EXPECT_FALSE(store.open_writer("mem://b/a").ok());
  EXPECT_FALSE(store.rename("mem://b/a", "mem://b/c").ok());
}

TEST(MemoryStore, FailsAsPlanned) {
  MemoryStore store;
  store.set_plan({.fail_at = 1});
  EXPECT_TRUE(store.write_atomically("mem://b/0", "").ok());
  EXPECT_EQ(store.write_atomically("mem://b/1", "").error().kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(store.write_atomically("mem://b/2", "").ok());
  EXPECT_TRUE(store.list_directory("mem://b").ok()) << "reads are not counted";
  EXPECT_EQ(store.requests(), 3);
  store.set_plan({.fail_from = 1, .writes_only = false, .kind = ErrorKind::kTimeout});
  EXPECT_TRUE(store.exists("mem://b/0").ok());
  EXPECT_EQ(store.read_file("mem://b/0").error().kind(), ErrorKind::kTimeout);
  EXPECT_FALSE(store.remove("mem://b/0").ok());
  std::vector<std::string> seen;
  store.set_plan({});
  store.on_request([&](int64_t number, const std::string& path) {
    seen.push_back(std::to_string(number) + " " + path);
  });
  store.remove("mem://b/0").value();
  store.remove("mem://b/2").value();
  EXPECT_THAT(seen, ElementsAre("0 mem://b/0", "1 mem://b/2"));
}

}  // namespace
}  // namespace muster::inline v0_1
