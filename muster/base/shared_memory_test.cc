#include "muster/base/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "muster/base/error_of.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

FileDescriptor copy_of(const FileDescriptor& file) {
  return FileDescriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
}

TEST(SharedMemory, IsOneForWhoeverMapsIt) {
  const SharedMemory here = SharedMemory::create(8192);
  const SharedMemory there = SharedMemory::map(copy_of(here.file()), 8192);
  EXPECT_NE(here.data(), there.data());
  here.data()[8191] = std::byte{7};
  EXPECT_EQ(there.data()[8191], std::byte{7});
}

TEST(SharedMemory, OthersCanBeKeptFromWriting) {
  const SharedMemory here = SharedMemory::create(4096);
  here.keep_others_from_writing();
  EXPECT_EQ(error_of([&] { SharedMemory::map(copy_of(here.file()), 4096); }).kind(),
            ErrorKind::kUnavailable);
  const SharedMemory there = SharedMemory::map_to_read(copy_of(here.file()), 4096);
  // Its maker continues to write.
  here.data()[17] = std::byte{3};
  EXPECT_EQ(there.data()[17], std::byte{3});
}

// To read after the end of a file, or a part that was cut off, is a bus error.
TEST(SharedMemory, AFileThatIsNotWhatItIsSaidToBeIsRefused) {
  const SharedMemory small = SharedMemory::create(4096);
  for (const int64_t said : {int64_t{-1}, int64_t{0}, int64_t{4095}, int64_t{8192}, INT64_MAX}) {
    const Error error = error_of([&] { SharedMemory::map(copy_of(small.file()), said); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << said;
    EXPECT_THAT(error.message(), HasSubstr("4096 bytes is said to have " + std::to_string(said)));
  }
  FileDescriptor unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  ASSERT_EQ(fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  const Error error = error_of([&] { SharedMemory::map(std::move(unsealed), 4096); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("not sealed"));
}

}  // namespace
}  // namespace muster::inline v0_1
