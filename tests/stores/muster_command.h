// Runs the muster command for a test. Thread-safe.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/launch/child_process.h"

namespace muster::inline v0_1::stores {

// The output of `muster ARGUMENTS` on both streams, with these variables on top of this program's.
inline std::string output_of_muster(std::vector<std::string> arguments,
                                    std::vector<std::pair<std::string, std::string>> environment) {
  const TempDirectory folder;
  const char* bin = std::getenv("MUSTER_BIN_DIR");
  arguments.insert(arguments.begin(), std::string(bin == nullptr ? "." : bin) + "/muster");
  const std::string log = folder / "log";
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  launch::ChildProcess child({.argv = std::move(arguments),
                              .environment = std::move(environment),
                              .out = out,
                              .err = out,
                              .dies_with_parent = true});
  ::close(out);
  EXPECT_TRUE(child.wait_for(std::chrono::seconds(60))) << "bounded, should it hang";
  return local_file_system().read_file(log).value();
}

}  // namespace muster::inline v0_1::stores
