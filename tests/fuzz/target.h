// The interface of every fuzz target in addition to LLVMFuzzerTestOneInput(). Thread safety: one
// thread.
//
// A target is one file, tests/fuzz/NAME_fuzz.cc, and one line, muster_fuzz(NAME NAME ...), in
// tests/fuzz/CMakeLists.txt. It is built twice: with libFuzzer (./dev fuzz NAME), and with
// driver.cc, which makes the same inputs every time (the test fuzz_NAME_test). It reads its input
// as a file of its format would be read, and calls require() for the conditions that must hold
// then; not to crash goes without saying.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace muster::fuzz {

// Inputs to begin with, made by our own writers: defined by each target. The same in every call.
std::vector<std::string> seeds();

// Longer inputs that are made to cost more than their bytes: each of them is read unchanged, and
// changed a few times. A target need not define it.
[[gnu::weak]] std::vector<std::string> attacks();

// Folders below MUSTER_TEST_DATA with such files written by others; may be none. Defined by each
// target.
std::vector<std::string> seed_folders();

// The input as bytes.
inline Bytes bytes_of_input(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

// Ends the process, as a crash does, unless `good`.
inline void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz: this does not hold: %s\n", what);
  std::abort();
}

// Collects the bytes that a writer appends.
class StringSink final : public ByteSink {
 public:
  Status append(Bytes bytes) override {
    text.append(text_of(bytes));
    return {};
  }
  std::string text;
};

}  // namespace muster::fuzz
