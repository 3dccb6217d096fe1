// Where the muster command and its library are installed. Thread safety: a function of the files of
// this machine.
#pragma once

#include <filesystem>
#include <string>

namespace muster::app {

// The installation that a muster binary belongs to.
struct Installation {
  std::string prefix{};  // "/usr"
  std::string folder{};  // of the library, in the prefix: "lib/x86_64-linux-gnu"
};

// Returns the installation of the binary `self`; its prefix is "" if the library is not next to it,
// as in a build folder.
Installation installation_of(const std::filesystem::path& self);

}  // namespace muster::app
