// The flags of `muster board`: the command checks them, and muster-board, which it starts, reads
// them again. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace muster::app {

struct BoardFlags {
  std::vector<std::string> directories{};
  std::string host = "127.0.0.1";
  int64_t port = 6006;
  double poll_time = 2;
  std::string report{};  // empty: a server
  std::string log_format{};
};

constexpr const char* kBoardDescription = "Show runs in a browser: curves, images, graphs";

// Adds them, with help and limits. `flags` must outlive `app`.
void add_board_flags(CLI::App& app, BoardFlags& flags);

}  // namespace muster::app
