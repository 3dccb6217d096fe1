#include "muster/formats/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "muster/formats/internal/test_bytes.h"
#include "muster/formats/npy.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// numpy.savez(x=numpy.arange(6, dtype=">i2").reshape(2, 3, order="F"), y=2.5): stored entries.
constexpr std::string_view kStored =
    "504b030414000000000000002100588c49018c0000008c00000005001400782e6e7079010010008c000000000000"
    "008c00000000000000934e554d5059010076007b276465736372273a20273e6932272c2027666f727472616e5f6f"
    "72646572273a20547275652c20277368617065273a2028322c2033292c207d202020202020202020202020202020"
    "20202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a00"
    "0000010002000300040005504b03041400000000000000210035b43a93880000008800000005001400792e6e7079"
    "0100100088000000000000008800000000000000934e554d5059010076007b276465736372273a20273c6638272c"
    "2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028292c207d20202020202020"
    "20202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020200a0000000000000440504b0102140314000000000000002100588c49018c0000008c000000"
    "050000000000000000000000800100000000782e6e7079504b010214031400000000000000210035b43a93880000"
    "00880000000500000000000000000000008001c3000000792e6e7079504b05060000000002000200660000008201"
    "00000000";
// numpy.savez_compressed(x=numpy.arange(6, dtype="<f4").reshape(2, 3),
//                        names=numpy.array(["a", "b\u00e9"])): deflated entries.
constexpr std::string_view kDeflated =
    "504b0304140000000800000021004fe9002a550000009800000005001400782e6e70790100100098000000000000"
    "0055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f"
    "5f94920a12774bcc294e058a17672416a402f91a463a0ac69a3a0ab50a64032e063068b007120e4004c40d40bcc0"
    "0100504b0304140000000800000021002f1189144d00000090000000090014006e616d65732e6e70790100100090"
    "000000000000004d000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e136aa4aea3a09e965f"
    "54529498179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a1400ae4406084802e297400c00"
    "504b01021403140000000800000021004fe9002a5500000098000000050000000000000000000000800100000000"
    "782e6e7079504b01021403140000000800000021002f1189144d0000009000000009000000000000000000000080"
    "018c0000006e616d65732e6e7079504b050600000000020002006a000000140100000000";

Result<ZipReader> open_zip(const std::string& archive) {
  return ZipReader::open(memory_reader(bytes_of(archive), "x.npz"));
}

std::vector<std::string> names_of(const ZipReader& reader) {
  std::vector<std::string> names;
  for (const ZipEntry& entry : reader.entries()) names.push_back(entry.name);
  return names;
}

template <typename Number>
void put(std::string& bytes, size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof(Number));
}

TEST(Zip, ReadsWhatNumpyWrites) {
  for (const std::string_view hex : {kStored, kDeflated}) {
    const std::string archive = from_hex(std::string(hex));
    const ZipReader reader = open_zip(archive).value();
    EXPECT_EQ(names_of(reader), (hex == kStored ? std::vector<std::string>{"x.npy", "y.npy"}
                                                : std::vector<std::string>{"x.npy", "names.npy"}));
    for (const ZipEntry& entry : reader.entries()) {
      const std::string content = reader.read(entry).value();
      EXPECT_EQ(content.size(), entry.bytes);
      EXPECT_TRUE(read_npy_header(*memory_reader(bytes_of(content), entry.name)).ok());
    }
  }
}

// The same entries with their sizes and the place of the directory in zip64 fields.
TEST(Zip, ReadsZip64) {
  const std::string archive = from_hex(std::string(kDeflated));
  const size_t begin = archive.find("PK\x01\x02"), end = archive.find("PK\x05\x06");
  std::string directory, rest = archive.substr(begin, end - begin);
  while (!rest.empty()) {
    const auto name_bytes = load_little_endian<uint16_t>(rest.data() + 28);
    std::string entry = rest.substr(0, 46 + name_bytes);
    rest.erase(0, entry.size());
    std::string extra;
    append_little_endian<uint16_t>(extra, 0x5455);  // a field of somebody else
    append_little_endian<uint16_t>(extra, 1);
    extra += 'x';
    append_little_endian<uint16_t>(extra, 1);
    append_little_endian<uint16_t>(extra, 24);
    for (const size_t at : {24u, 20u, 42u}) {  // bytes, packed bytes, offset
      append_little_endian<uint64_t>(extra, load_little_endian<uint32_t>(entry.data() + at));
      put<uint32_t>(entry, at, UINT32_MAX);
    }
    put<uint16_t>(entry, 30, static_cast<uint16_t>(extra.size()));
    directory += entry + extra;
  }
  std::string large = archive.substr(0, begin) + directory;
  const uint64_t end64 = large.size();
  append_little_endian<uint32_t>(large, 0x06064b50);
  append_little_endian<uint64_t>(large, 44);
  append_little_endian<uint32_t>(large, 0);  // versions
  append_little_endian<uint64_t>(large, 0);  // parts
  append_little_endian<uint64_t>(large, 2);
  append_little_endian<uint64_t>(large, 2);
  append_little_endian<uint64_t>(large, directory.size());
  append_little_endian<uint64_t>(large, begin);
  append_little_endian<uint32_t>(large, 0x07064b50);
  append_little_endian<uint32_t>(large, 0);
  append_little_endian<uint64_t>(large, end64);
  append_little_endian<uint32_t>(large, 1);
  append_little_endian<uint32_t>(large, 0x06054b50);
  append_little_endian<uint32_t>(large, 0);
  append_little_endian<uint32_t>(large, UINT32_MAX);  // entries
  append_little_endian<uint32_t>(large, UINT32_MAX);
  append_little_endian<uint32_t>(large, UINT32_MAX);
  append_little_endian<uint16_t>(large, 0);

  const ZipReader reader = open_zip(large).value();
  const ZipReader plain = open_zip(archive).value();
  ASSERT_EQ(names_of(reader), names_of(plain));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(reader.read(reader.entries()[i]).value(), plain.read(plain.entries()[i]).value());
  }
  std::string lost = large;
  put<uint64_t>(lost, large.size() - 22 - 12, uint64_t{1} << 40);
  EXPECT_THAT(open_zip(lost).error().message(), HasSubstr("outside of the file"));
}

TEST(Zip, ErrorsNameTheEntry) {
  EXPECT_THAT(open_zip("no archive at all").error().message(), HasSubstr("not a zip archive"));
  EXPECT_THAT(open_zip("").error().message(), HasSubstr("not a zip archive"));
  const std::string stored = from_hex(std::string(kStored));
  const auto read_first = [](const std::string& archive) {
    const ZipReader reader = open_zip(archive).value();
    return reader.read(reader.entries().front()).error();
  };
  const size_t directory = stored.find("PK\x01\x02");
  std::string damaged = stored;
  damaged[100] ^= 1;
  EXPECT_THAT(read_first(damaged).message(),
              AllOf(HasSubstr("'x.npz', entry 'x.npy'"), HasSubstr("CRC-32")));
  damaged = stored;
  put<uint16_t>(damaged, directory + 8, 1);
  EXPECT_THAT(read_first(damaged).message(), HasSubstr("encrypted"));
  damaged = stored;
  put<uint16_t>(damaged, directory + 10, 12);
  EXPECT_EQ(read_first(damaged).kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(read_first(damaged).message(), HasSubstr("method 12"));
  damaged = stored;
  put<uint32_t>(damaged, directory + 24, 1 << 30);
  EXPECT_THAT(read_first(damaged).message(), HasSubstr("which cannot be"));
  damaged = stored;
  damaged[stored.find("y.npy", directory)] = 'x';
  EXPECT_THAT(open_zip(damaged).error().message(), HasSubstr("a name again: 'x.npy'"));
  damaged = stored;
  put<uint32_t>(damaged, directory + 42, 1 << 20);
  EXPECT_THAT(open_zip(damaged).error().message(), HasSubstr("outside of the file"));
}

TEST(Zip, EveryPrefixAndFlippedBitGivesAnAnswer) {
  for (const std::string_view hex : {kStored, kDeflated}) {
    const std::string whole = from_hex(std::string(hex));
    for (size_t length = 0; length < whole.size(); ++length) {
      const std::string prefix = whole.substr(0, length);
      EXPECT_EQ(open_zip(prefix).error().kind(), ErrorKind::kCorrupt) << length;
    }
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      const auto reader = open_zip(damaged);
      if (!reader.ok()) continue;
      for (const ZipEntry& entry : reader.value().entries()) {
        const auto content = reader.value().read(entry);
        if (!content.ok()) continue;
        EXPECT_EQ(content.value().size(), entry.bytes);
      }
    }
  }
}

// Many names for one content make a short archive a long one.
TEST(Zip, EntriesThatOverlapAreRefused) {
  const std::string stored = from_hex(std::string(kStored));
  const size_t second = stored.find("PK\x01\x02", stored.find("PK\x01\x02") + 1);
  std::string same = stored;
  put<uint32_t>(same, second + 42, 0);  // where its content begins
  EXPECT_EQ(open_zip(same).error().kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(open_zip(same).error().message(),
              AllOf(HasSubstr("'x.npz': the entry '"), HasSubstr("overlaps '")));
  // Into the one after it, and into the directory.
  std::string into = stored;
  put<uint32_t>(into, stored.find("PK\x01\x02") + 20, 200);
  EXPECT_THAT(open_zip(into).error().message(), HasSubstr("'x.npy', of 200 bytes from byte 0 on, "
                                                          "overlaps 'y.npy', which begins at"));
  into = stored;
  put<uint32_t>(into, second + 20, 200);
  EXPECT_THAT(open_zip(into).error().message(), HasSubstr("overlaps the directory"));
}

}  // namespace
}  // namespace muster::inline v0_1::formats
