// The flags of `muster serve`: the command checks them, and muster-serve, which it starts, reads
// them again. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace muster::app {

struct ServeFlags {
  std::string directory{};
  std::string name{};  // empty: the last part of the directory's path
  std::string host = "127.0.0.1";
  int64_t port = 8501;
  int64_t max_batch_size = 32;
  double batch_timeout = 0;  // milliseconds
  int64_t parallel_batches = 1;
  int64_t threads = 0;  // 0: MUSTER_THREADS, else the cores
  int64_t versions = 1;
  double poll_time = 2;
  double request_time = 30;
  double drain_time = 30;
  int64_t max_body = 32;  // MiB
  int64_t max_waiting = 256;
  int64_t max_connections = 512;
  std::string log_format{};
};

// Adds them, with help and limits. `flags` must outlive `app`.
void add_serve_flags(CLI::App& app, ServeFlags& flags);

// Returns the name of the model in paths. Throws InvalidArgument for a --name, or for the last part
// of the directory, that has other characters than letters, digits, '_', '-' and '.'.
std::string model_name(const ServeFlags& flags);

}  // namespace muster::app
