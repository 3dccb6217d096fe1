#include "muster/data/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::data {
namespace {

using formats::Compression;
using ::testing::HasSubstr;

class TfrecordFormatTest : public ::testing::Test {
 protected:
  std::string path() { return folder_ / "records"; }

  // Records "0", "1", … of growing length.
  std::vector<std::string> write(int count, Compression compression = Compression::kNone) {
    std::vector<std::string> payloads;
    auto writer =
        formats::TfrecordWriter::open(files_, path(), {.compression = compression}).value();
    for (int i = 0; i < count; ++i) {
      payloads.push_back(std::to_string(i) + std::string(static_cast<size_t>(i % 50), '.'));
      writer.write(bytes_of(payloads.back())).value();
    }
    writer.close().value();
    return payloads;
  }

  void flip(size_t byte) {
    std::string bytes = files_.read_file(path()).value();
    bytes.at(byte) ^= 1;
    files_.write_atomically(path(), std::string_view(bytes)).value();
  }

  std::unique_ptr<ElementReader> open(Compression compression = Compression::kAuto) {
    return tfrecord_format(compression)->open(files_, path());
  }

  // The rest of `reader`, asked for `count` at a time; "!" for each error.
  static std::vector<std::string> rest_of(ElementReader& reader, int64_t count) {
    std::vector<std::string> rest;
    while (true) {
      Element rows;
      int64_t got = 1;
      try {
        got = reader.read(count, &rows);
      } catch (const Error&) {
        rest.emplace_back("!");
        continue;
      }
      if (got == 0) return rest;
      EXPECT_LE(got, count);
      EXPECT_EQ(rows.rows(), got);
      for (int64_t i = 0; i < got; ++i) rest.emplace_back(rows.value().strings()[i]);
    }
  }

  TempDirectory folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(TfrecordFormatTest, GivesRecordsAsStrings) {
  EXPECT_EQ(tfrecord_format()->kind(), "tfrecord");
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const std::vector<std::string> payloads = write(100, compression);
    for (const int64_t count : {1, 7, 100, 1000}) {
      EXPECT_EQ(rest_of(*open(), count), payloads);
      EXPECT_EQ(rest_of(*open(compression), count), payloads);
    }
  }
  write(0);
  EXPECT_EQ(rest_of(*open(), 5), std::vector<std::string>());
}

TEST_F(TfrecordFormatTest, EveryPlaceIsFoundAgain) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const std::vector<std::string> payloads = write(20, compression);
    for (size_t at = 0; at <= payloads.size(); ++at) {
      const auto reader = open();
      EXPECT_EQ(reader->skip(static_cast<int64_t>(at)), static_cast<int64_t>(at));
      const std::optional<int64_t> place = reader->tell();
      EXPECT_EQ(place.has_value(), compression == Compression::kNone);
      const std::vector<std::string> expected(payloads.begin() + static_cast<ptrdiff_t>(at),
                                              payloads.end());
      EXPECT_EQ(rest_of(*reader, 3), expected);
      if (!place) continue;
      reader->seek(*place);
      EXPECT_EQ(rest_of(*reader, 3), expected);
      const auto other = open();
      other->seek(*place);
      EXPECT_EQ(rest_of(*other, 3), expected);
    }
    EXPECT_EQ(open()->skip(1000), 20);
    EXPECT_EQ(open()->skip(0), 0);
  }
}

// Wherever damage is: the rest after a place is the same after reading up to it, skipping or
// seeking.
TEST_F(TfrecordFormatTest, DamageTakesItsPlace) {
  write(4);
  const size_t size = files_.read_file(path()).value().size();
  for (size_t byte = 0; byte < size; ++byte) {
    write(4);
    flip(byte);
    const std::vector<std::string> whole = rest_of(*open(), 1);
    EXPECT_EQ(std::count(whole.begin(), whole.end(), "!"), 1) << byte;
    EXPECT_EQ(rest_of(*open(), 3), whole);
    for (size_t at = 0; at <= whole.size(); ++at) {
      const std::vector<std::string> expected(whole.begin() + static_cast<ptrdiff_t>(at),
                                              whole.end());
      const auto skipping = open();
      EXPECT_EQ(skip_over(*skipping, static_cast<int64_t>(at)), static_cast<int64_t>(at));
      const auto sought = open();
      sought->seek(*skipping->tell());
      EXPECT_EQ(rest_of(*skipping, 2), expected) << byte << " " << at;
      EXPECT_EQ(rest_of(*sought, 2), expected) << byte << " " << at;
    }
  }
}

// read() first returns the elements before the damage; the place it reports then is in front of the
// damage.
TEST_F(TfrecordFormatTest, APlaceInFrontOfDamage) {
  write(4);
  flip(17 + 18 + 12);  // the payload of the third
  const auto reader = open();
  Element rows;
  EXPECT_EQ(reader->read(10, &rows), 2);
  const auto other = open();
  other->seek(*reader->tell());
  EXPECT_EQ(rest_of(*reader, 10), rest_of(*other, 10));
  EXPECT_EQ(open()->skip(3), 3);
  reader->seek(0);
  EXPECT_EQ(reader->read(10, &rows), 2);
  EXPECT_EQ(skip_over(*reader, 1), 1);  // the error that was still to come
  EXPECT_EQ(reader->read(10, &rows), 1);
}

TEST_F(TfrecordFormatTest, ErrorsNameThePathAndTheOffset) {
  const Error missing = error_of([&] { open(); });
  EXPECT_EQ(missing.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr(path()));
  write(3);
  flip(0);
  Element rows;
  const Error damaged = error_of([&] { open()->read(1, &rows); });
  EXPECT_EQ(damaged.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(damaged.message(), HasSubstr(path() + "'"));
  EXPECT_THAT(damaged.message(), HasSubstr("at byte 0"));
  EXPECT_EQ(error_of([&] { open()->seek(10'000); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { open()->seek(-1); }).kind(), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1::data
