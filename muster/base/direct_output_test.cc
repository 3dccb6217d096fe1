#include "muster/base/direct_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/file_descriptor.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1 {
namespace {

constexpr size_t kLarge = DirectOutput::kLarge;

// Sizes of calls of append(); 0: flush().
const std::vector<std::vector<size_t>> kCalls = {
    {},
    {1, 2, 3},
    {kLarge - 1, kLarge - 1},
    {kLarge},
    {8, kLarge, 5},
    {700, 5 * kLarge + 9, 3, kLarge - 1, 4096, 0},
    {4096, 4 * kLarge, 4 * kLarge, 1, kLarge + 1, 17, 0, 5, 9 * kLarge, 0, 3},
};

std::string text_of(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 1;
  for (char& letter : text)
    letter = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

void write_to(DirectOutput& output, const std::vector<size_t>& calls, std::string_view text) {
  for (const size_t size : calls) {
    if (size == 0) {
      EXPECT_EQ(output.flush(), 0);
    } else {
      EXPECT_EQ(output.append(bytes_of(text.substr(0, size))), 0);
      text.remove_prefix(size);
    }
  }
  EXPECT_EQ(output.flush(), 0);
}

std::string text_for(const std::vector<size_t>& calls) {
  size_t total = 0;
  for (const size_t size : calls) total += size;
  return text_of(total);
}

void expect_written(const FileDescriptor& file, const std::vector<size_t>& calls) {
  const std::string text = text_for(calls);
  DirectOutput output(file.get());
  write_to(output, calls, text);
  std::string got(text.size() + 1, '\0');
  EXPECT_EQ(::pread(file.get(), got.data(), got.size(), 0), static_cast<ssize_t>(text.size()));
  got.pop_back();
  EXPECT_TRUE(got == text) << calls.size() << " calls";
}

TEST(DirectOutput, AFileOnADiskHasTheAppendedBytes) {
  const TempDirectory temp;
  for (size_t i = 0; i < kCalls.size(); ++i) {
    const std::string path = temp / std::to_string(i);
    expect_written(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0666)),
                   kCalls[i]);
  }
}

TEST(DirectOutput, AFileInMemoryHasTheAppendedBytes) {
  for (const auto& calls : kCalls)
    expect_written(FileDescriptor(::memfd_create("test", MFD_CLOEXEC)), calls);
}

// Bytes that are as far from a block in memory as in the file, and such that are not, in turn.
TEST(DirectOutput, WritesFromWhereTheBytesAre) {
  constexpr size_t kBlock = 4096;
  const TempDirectory temp;
  const std::vector<size_t> calls = {2 * kLarge + 100, 50, kLarge + 7, 9, 5 * kLarge, 3};
  const std::string text = text_for(calls);
  for (const size_t shift : {size_t{0}, size_t{8}, kBlock - 8}) {
    const std::string path = temp / std::to_string(shift);
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0666));
    std::vector<std::byte> memory(shift + text.size() + kBlock);
    const size_t address = reinterpret_cast<uintptr_t>(memory.data());
    std::byte* const at = memory.data() + (kBlock - address % kBlock) % kBlock + shift;
    std::memcpy(at, text.data(), text.size());
    DirectOutput output(file.get());
    size_t place = 0;
    std::string expected;
    for (const size_t size : calls) {
      EXPECT_EQ(output.append({at + place, size}), 0);
      expected += text.substr(place, size);
      place += size;
      if (place >= 4 * kLarge) continue;
      // From elsewhere: what follows in memory is not what follows in the file.
      EXPECT_EQ(output.append(bytes_of(std::string_view("between"))), 0);
      expected += "between";
    }
    EXPECT_EQ(output.flush(), 0);
    std::string got(expected.size() + 1, '\0');
    EXPECT_EQ(::pread(file.get(), got.data(), got.size(), 0),
              static_cast<ssize_t>(expected.size()));
    got.pop_back();
    EXPECT_TRUE(got == expected) << shift;
  }
}

// A socket refuses O_DIRECT.
TEST(DirectOutput, WritesThroughTheCacheWhereNothingElseIsPossible) {
  const auto& calls = kCalls.back();
  const std::string text = text_for(calls);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const FileDescriptor from(ends[0]);
  std::string got(text.size(), '\0');
  std::thread reader([&] {
    for (size_t at = 0; at < got.size();) {
      const ssize_t size = ::read(from.get(), got.data() + at, got.size() - at);
      if (size <= 0) break;
      at += static_cast<size_t>(size);
    }
  });
  {
    const FileDescriptor to(ends[1]);
    DirectOutput output(to.get());
    write_to(output, calls, text);
  }
  reader.join();
  EXPECT_TRUE(got == text);
}

TEST(DirectOutput, ReturnsTheErrorOfTheSystem) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY));
  EXPECT_EQ(DirectOutput(full.get()).append(bytes_of("x")), ENOSPC);
  EXPECT_EQ(DirectOutput(full.get()).append(bytes_of(text_of(kLarge))), ENOSPC);
}

}  // namespace
}  // namespace muster::inline v0_1
