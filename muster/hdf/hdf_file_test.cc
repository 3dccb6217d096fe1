#include "muster/hdf/hdf_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/hdf/internal/confined_child.h"
#include "muster/hdf/internal/hdf_library.h"

namespace muster::inline v0_1::hdf {
namespace {

using internal::ConfinedFile;
using internal::run_confined;
using ::testing::HasSubstr;

std::string golden(const std::string& name) {
  return join_path(Environment::process().get("MUSTER_SOURCE_DIR").value(),
                   "muster/kerasfiles/golden/" + name);
}

HdfFile open(const std::string& name) {
  return HdfFile(local_file_system().open_reader(golden(name)).value());
}

HdfFile of_bytes(const std::string& bytes) { return HdfFile(memory_reader(bytes_of(bytes), "it")); }

const HdfArray& array_of(const HdfFile& file, const std::string& path) {
  return *std::ranges::find(file.listing().arrays, path, &HdfArray::path);
}

TEST(HdfFile, ListsWhatH5pyWrote) {
  const HdfFile file = open("h5py/arrays.h5");
  const HdfArray& plain = array_of(file, "little/float32");
  EXPECT_EQ(plain.dtype, HdfDtype::kFloat32);
  EXPECT_EQ(plain.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(plain.bytes, 24u);
  EXPECT_TRUE(plain.offset);
  EXPECT_FALSE(plain.big_endian);
  EXPECT_TRUE(array_of(file, "big/int64").big_endian);
  EXPECT_FALSE(array_of(file, "packed/deflate").offset);
  EXPECT_EQ(array_of(file, "texts").dtype, HdfDtype::kOther);
  EXPECT_EQ(array_of(file, "flags").dtype, HdfDtype::kBool);
  EXPECT_THAT(file.listing().groups,
              ::testing::UnorderedElementsAre("", "big", "little", "packed"));
}

TEST(HdfFile, ReadsAPartOfAnArray) {
  const HdfFile file = open("h5py/arrays.h5");
  std::vector<float> numbers(3);
  for (const char* path : {"packed/shuffle", "packed/chunks"}) {
    file.read_range(array_of(file, path), 40, std::as_writable_bytes(std::span(numbers)));
    EXPECT_THAT(numbers, ::testing::ElementsAre(10, 11, 12)) << path;
  }
  std::vector<int32_t> whole(2);
  file.read_range(array_of(file, "big/int32"), 8, std::as_writable_bytes(std::span(whole)));
  EXPECT_THAT(whole, ::testing::ElementsAre(2, 3));
}

TEST(HdfFile, NamesWhatItRefuses) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"soft_link", "'b' is a soft link"},
      {"external_link", "'b' is a link to another file"},
      {"cycle", "'a/back' is an object with two names, or a group in itself"},
      {"external_data", "'a' has its numbers in another file"},
      {"virtual", "'a' is a virtual array"},
      {"lzf", "'a' is packed by filter 32000"},
      {"huge", "'a' announces 4398046511104 bytes in a file of "},
      {"huge_chunks", "'a' has chunks of more than 268435456 bytes"},
      {"user_block", "has 512 bytes of a user block"},
      {"deep", "lies in more than 32 groups"}};
  for (const auto& [name, said] : kRefused) {
    const Error error = error_of([&] { (void)open(std::string("h5py/") + name + ".h5"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << name;
    EXPECT_THAT(error.message(), HasSubstr(said)) << name;
    EXPECT_THAT(error.message(), HasSubstr("h5py/" + std::string(name) + ".h5")) << name;
  }
}

TEST(HdfFile, ACutFileIsCorruptWhereverItEnds) {
  const std::string whole =
      local_file_system().read_file(golden("keras3/dense.weights.h5")).value();
  for (size_t bytes = 0; bytes < whole.size(); bytes += 997) {
    const std::string cut = whole.substr(0, bytes);
    EXPECT_EQ(error_of([&] { (void)of_bytes(cut); }).kind(), ErrorKind::kCorrupt) << bytes;
  }
}

TEST(HdfFile, ArraysThatOverlapAreCorrupt) {
  HdfListing listing = open("keras3/dense.weights.h5").listing();
  ASSERT_GE(listing.arrays.size(), 2u);
  // The place of one array in the file, as its layout message has it.
  std::string bytes = local_file_system().read_file(golden("keras3/dense.weights.h5")).value();
  const HdfArray &first = listing.arrays[0], &second = listing.arrays[1];
  ASSERT_EQ(first.bytes, second.bytes);
  std::string from, to;
  append_little_endian(from, *second.offset);
  append_little_endian(to, *first.offset);
  const size_t place = bytes.find(from);
  ASSERT_NE(place, std::string::npos);
  bytes.replace(place, to.size(), to);
  EXPECT_THAT(error_of([&] { (void)of_bytes(bytes); }).message(), HasSubstr("overlap"));
}

TEST(HdfListing, IsDecodedAsItWasEncoded) {
  const HdfListing listing = open("keras3/parts.weights.h5").listing();
  const std::string encoded = internal::encode_listing(listing);
  const auto decoded = internal::decode_listing(bytes_of(encoded));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(internal::encode_listing(*decoded), encoded);
  EXPECT_EQ(decoded->arrays.size(), listing.arrays.size());
  EXPECT_FALSE(internal::decode_listing(bytes_of(encoded).first(encoded.size() - 1)));
  EXPECT_FALSE(internal::decode_listing(bytes_of(encoded + "x")));
}

// What a process does that reads a file, which may be of anybody.
class Confined : public ::testing::Test {
 protected:
  std::string run(const std::function<void(ConfinedFile&)>& work) {
    return run_confined(*file_, {.answer_bytes = 100, .processor_seconds = 1}, work);
  }
  Error error(const std::function<void(ConfinedFile&)>& work) {
    return error_of([&] { (void)run(work); });
  }

  const std::string content_ = "abc";
  const std::unique_ptr<FileReader> file_ = memory_reader(bytes_of(content_), "three");
};

TEST_F(Confined, ReadsTheFileAndAnswers) {
  EXPECT_EQ(run([](ConfinedFile& file) {
              std::string read(file.bytes(), '\0');
              EXPECT_TRUE(file.read(0, std::as_writable_bytes(std::span(read))));
              file.answer(bytes_of(read + read));
            }),
            "abcabc");
}

TEST_F(Confined, ACrashIsCorruptAndEndsNothingElse) {
  const Error crashed = error([](ConfinedFile&) { __builtin_trap(); });
  EXPECT_EQ(crashed.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(crashed.message(), HasSubstr("'three': libhdf5 "));
  const Error endless = error([](ConfinedFile&) {
    std::atomic<int> turns = 0;
    for (;;) ++turns;
  });
  EXPECT_THAT(endless.message(), HasSubstr("does not come to an end"));
  const Error again = error([](ConfinedFile& file) {
    std::string read(3, '\0');
    while (file.read(0, std::as_writable_bytes(std::span(read)))) {
    }
  });
  EXPECT_THAT(again.message(), HasSubstr("again and again"));
  const Error much =
      error([](ConfinedFile& file) { file.answer(bytes_of(std::string(101, 'x'))); });
  EXPECT_THAT(much.message(), HasSubstr("holds more than"));
}

TEST_F(Confined, CannotReachFilesOrTheNetwork) {
  const std::string answer = run([](ConfinedFile& file) {
    const int opened = ::open("/etc/hostname", O_RDONLY);
    const int connected = ::socket(AF_INET, SOCK_STREAM, 0);
    const int started = ::fork();
    file.answer(bytes_of(fmt::format("{} {} {}", opened, connected, started)));
  });
  EXPECT_EQ(answer, "-1 -1 -1");
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_F(Confined, TakesNoMoreMemoryThanItMay) {
  const Error error_ = error([](ConfinedFile& file) {
    const std::string large(uint64_t{4} << 30, 'x');
    file.answer(bytes_of(large).first(1));
  });
  EXPECT_EQ(error_.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error_.message(), HasSubstr("too much memory"));
}
#endif

TEST_F(Confined, PassesOnWhatWasRefused) {
  const Error refused = error([](ConfinedFile&) { throw invalid_argument("no", "write it anew"); });
  EXPECT_EQ(refused.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(refused.message(), "'three': no");
  EXPECT_EQ(refused.hint(), "write it anew");
}

}  // namespace
}  // namespace muster::inline v0_1::hdf
