#include "muster/board/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/gzip.h"

namespace muster::inline v0_1::board {
namespace {

using ::testing::HasSubstr;

TEST(Profiles, AreKnownByTheirNames) {
  for (const char* name :
       {"timeline-100.json", "vm.trace.json.gz", "vm_1.17.pt.trace.json", "vm.xplane.pb"})
    EXPECT_TRUE(is_profile(name)) << name;
  for (const char* name : {"timeline-100.json.part", "run_end.json", "vm.pb", "trace.json"})
    EXPECT_FALSE(is_profile(name)) << name;
}

TEST(Profiles, PackedOnesAreUnpackedUpToALimit) {
  const TempDirectory folder;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    local_file_system().write_atomically(folder / name, bytes).value();
    return folder / name;
  };
  const std::string text = R"({"traceEvents":[]})" + std::string(1 << 20, ' ');
  const std::string packed = formats::gzip(bytes_of(text));
  FileSystem& files = local_file_system();
  EXPECT_EQ(profile_text(files, write("a.trace.json", text)), text);
  const std::string path = write("a.trace.json.gz", packed);
  EXPECT_EQ(profile_text(files, path), text);
  const Error large = error_of([&] { profile_text(files, path, 1 << 20); });
  EXPECT_EQ(large.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(large.message(), HasSubstr("more than 1.0 MiB"));
  const std::string cut = write("b.trace.json.gz", packed.substr(0, packed.size() / 2));
  EXPECT_EQ(error_of([&] { profile_text(files, cut); }).kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1::board
