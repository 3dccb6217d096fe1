#include "muster/bundles/tensor_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/bundles/internal/slice_key.h"
#include "muster/bundles/internal/sorted_table.h"

namespace muster::inline v0_1 {
namespace {

using tensorflow::BundleDtype;
using tensorflow::BundleReader;
using tensorflow::BundleWriter;
using tensorflow::internal::read_sorted_table;
using tensorflow::internal::slice_key;
using tensorflow::internal::TableEntry;
using tensorflow::internal::write_sorted_table;
using ::testing::HasSubstr;

TEST(SortedTable, GivesBackWhatWasWritten) {
  for (const int count : {0, 1, 16, 17, 1000}) {
    std::vector<TableEntry> entries;
    for (int i = 0; i < count; ++i) {
      std::string key =
          "layer_" + std::string(4 - std::to_string(i).size(), '0') + std::to_string(i) + "/kernel";
      entries.emplace_back(std::move(key), std::string(static_cast<size_t>(i % 300), 'v'));
    }
    const std::string file = write_sorted_table(entries);
    EXPECT_EQ(read_sorted_table(bytes_of(file), "t"), entries) << count;
  }
}

TEST(SortedTable, EveryByteThatIsChangedIsFoundOrChangesNothing) {
  std::vector<TableEntry> entries;
  for (char letter = 'a'; letter <= 'z'; ++letter)
    entries.emplace_back(std::string(3, letter), "v");
  const std::string good = write_sorted_table(entries);
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ change);
      try {
        EXPECT_EQ(read_sorted_table(bytes_of(bad), "t"), entries) << at;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << at << ": " << error.what();
      }
    }
  }
}

TEST(SortedTable, AFileThatIsCutShortIsDamaged) {
  const std::string good = write_sorted_table({{"a", "1"}, {"b", "2"}});
  for (size_t length = 0; length < good.size(); ++length) {
    const std::string bad = good.substr(0, length);
    const Error error = error_of([&] { (void)read_sorted_table(bytes_of(bad), "t.index"); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << length;
    EXPECT_THAT(error.message(), HasSubstr("'t.index'"));
  }
}

// By hand from the description of ordered code: the name ends with 0 1, numbers from -64 to 63 take
// one byte whose first bit is set, larger ones two bytes whose first two bits are.
TEST(SliceKey, IsOrderedCode) {
  using namespace std::string_literals;
  EXPECT_EQ(slice_key("w", {{0, 3}, {0, -1}}), "\0w\0\1\1\2\x80\x83\x80\x7f"s);
  EXPECT_EQ(slice_key("w", {{64, 100}}), "\0w\0\1\1\1\xc0\x40\xc0\x64"s);
  EXPECT_EQ(slice_key("a\0b\xff"s, {}),
            "\0a\0\xff"
            "b\xff\0\0\1\0"s);
}

class BundleTest : public ::testing::Test {
 protected:
  BundleTest() : prefix_(join_path(directory_.path(), "model.ckpt-1")) {
    BundleWriter writer(files_, prefix_);
    const std::string numbers(24, '\x3f');
    writer.add("kernel", BundleDtype::kFloat, {2, 3}, bytes_of(numbers));
    writer.add_texts("words", {2}, {"one", std::string(300, 'x')});
    writer.add("empty", BundleDtype::kInt64, {0, 4}, {});
    writer.end();
  }

  std::string index() const { return prefix_ + ".index"; }
  std::string data() const { return prefix_ + ".data-00000-of-00001"; }

  FileSystem& files_ = local_file_system();
  TempDirectory directory_;
  const std::string prefix_;
};

TEST_F(BundleTest, GivesBackWhatWasWritten) {
  const BundleReader reader(files_, prefix_);
  ASSERT_EQ(reader.entries().size(), 3u);
  const auto& kernel = reader.entries().at("kernel");
  EXPECT_EQ(kernel.shape, (std::vector<int64_t>{2, 3}));
  std::string bytes(24, '\0');
  reader.read("kernel", kernel.pieces.front(), std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, std::string(24, '\x3f'));
  EXPECT_EQ(reader.read_texts("words", reader.entries().at("words")),
            (std::vector<std::string>{"one", std::string(300, 'x')}));
}

TEST_F(BundleTest, DamageOfDataIsNamedWithTheTensor) {
  const std::string good = files_.read_file(data()).value();
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    ASSERT_TRUE(files_.write_atomically(data(), bad).ok());
    const BundleReader reader(files_, prefix_);
    const bool numbers = at < 24;
    const Error error = error_of([&] {
      std::string bytes(24, '\0');
      if (numbers) {
        reader.read("kernel", reader.entries().at("kernel").pieces.front(),
                    std::as_writable_bytes(std::span(bytes)));
      } else {
        (void)reader.read_texts("words", reader.entries().at("words"));
      }
    });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << at;
    EXPECT_THAT(error.message(), HasSubstr(numbers ? "'kernel'" : "'words'"));
    EXPECT_THAT(error.message(), HasSubstr(data()));
  }
}

TEST_F(BundleTest, AFileOfDataThatIsAwayOrTooShortIsReported) {
  ASSERT_TRUE(files_.write_atomically(data(), std::string_view("short")).ok());
  Error error = error_of([&] { BundleReader(files_, prefix_); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("but the file is shorter"));
  ASSERT_TRUE(files_.remove(data()).ok());
  error = error_of([&] { BundleReader(files_, prefix_); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr(data()));
}

TEST_F(BundleTest, NamesAreThereOnce) {
  BundleWriter writer(files_, prefix_ + "-other");
  const std::string bytes(4, '\0');
  writer.add("a", BundleDtype::kFloat, {}, bytes_of(bytes));
  EXPECT_EQ(error_of([&] { writer.add("a", BundleDtype::kFloat, {}, bytes_of(bytes)); }).kind(),
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1
