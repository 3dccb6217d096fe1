#include "apps/serve/serve_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/command/command_line.h"
#include "muster/command/shared_flags.h"

namespace muster::app {
namespace {

// Flags for the model, and how often it is looked for.
std::vector<Flag> model_flags(ServeFlags& flags) {
  return {
      {"name", &flags.name, "What paths call the model; default: the last word of DIR", {}, "NAME"},
      {"versions",
       &flags.versions,
       "How many of the newest versions are served; more than one for /versions/N",
       {.at_least = 1, .at_most = 100}},
      {"poll-time",
       &flags.poll_time,
       "Seconds between two looks for a newer version",
       {.at_least = 0.01, .at_most = 86400},
       "SECONDS"},
      {"max-batch-size",
       &flags.max_batch_size,
       "Rows of requests that are joined into one batch; 1: none is joined",
       {.at_least = 1, .at_most = 1e6}},
      {"batch-timeout",
       &flags.batch_timeout,
       "Milliseconds a request waits for others while the model is idle",
       {.at_least = 0, .at_most = 60000},
       "MS"},
      {"parallel-batches",
       &flags.parallel_batches,
       "Batches that are computed at the same time",
       {.at_least = 1, .at_most = 1024}},
      {"threads",
       &flags.threads,
       "Threads that compute one batch; 0: MUSTER_THREADS, else the cores",
       {.at_least = 0, .at_most = 4096}}};
}

// Flags for access and its limits.
std::vector<Flag> network_flags(ServeFlags& flags) {
  const FlagLimits seconds = {.at_least = 0.01, .at_most = 86400};
  return {{"host",
           &flags.host,
           "The address to listen at; 0.0.0.0: all, so that other machines can ask",
           {},
           "ADDRESS"},
          {"port",
           &flags.port,
           "The port; 0: one that is free, which the log names",
           {.at_least = 0, .at_most = 65535}},
          {"request-time", &flags.request_time, "Seconds a request may take", seconds, "SECONDS"},
          {"drain-time", &flags.drain_time, "Seconds that open requests have after SIGTERM",
           seconds, "SECONDS"},
          {"max-body",
           &flags.max_body,
           "MiB of a request's body; a larger one is answered with 413",
           {.at_least = 1, .at_most = 1024},
           "MIB"},
          {"max-waiting",
           &flags.max_waiting,
           "Requests that wait or are computed; more are answered with 429",
           {.at_least = 1, .at_most = 1e6}},
          {"max-connections",
           &flags.max_connections,
           "Connections at the same time, each a thread; more are answered with 503",
           {.at_least = 1, .at_most = 16384}}};
}

}  // namespace

void add_serve_flags(CLI::App& app, ServeFlags& flags) {
  command::add_argument(app, {"DIR", &flags.directory,
                              "A folder of exported models: DIR/<number>/, the newest is served"})
      ->required();
  for (const Flag& flag : model_flags(flags)) command::add_flag(app, flag);
  for (const Flag& flag : network_flags(flags)) command::add_flag(app, flag);
  Flag log_format = command::log_format_flag(flags.log_format);
  log_format.name = "log-format";  // as the command's other flags are written
  command::add_flag(app, log_format);
  app.footer(
      "Answers over HTTP as TensorFlow Serving's REST API does: POST /v1/models/NAME:predict, "
      ":classify,\n"
      ":regress, /v1/models/NAME/versions/N:predict; GET /v1/models/NAME, .../metadata, /metrics "
      "for\n"
      "Prometheus, /healthz, /readyz. It listens on this machine alone unless --host says "
      "otherwise, and\n"
      "knows neither passwords nor TLS. A newer version is taken up without a request lost. "
      "SIGTERM and\n"
      "Ctrl-C let open requests end; a second one ends at once.\n"
      "\nExit codes: 0 stopped after all answers, 1 some did not end in time, 2 it could not "
      "begin: "
      "a\n"
      "wrong argument, a port that is taken, or no version that can be served.\n"
      "\nExamples:\n"
      "  muster serve model/export/best --name=digits\n"
      "  muster serve model/export/best --name=digits --port=8080 --batch-timeout=2\n"
      "  curl -d '{\"instances\": [[1, 2, 3]]}' http://127.0.0.1:8501/v1/models/digits:predict");
}

std::string model_name(const ServeFlags& flags) {
  std::string name = flags.name;
  if (name.empty()) {
    std::filesystem::path path = std::filesystem::path(flags.directory).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    name = path.filename().string();
    // "." and "..": the name is the name of the folder they lead to.
    if (name.empty() || name == "." || name == "..") {
      std::error_code ignored;
      name = std::filesystem::canonical(flags.directory, ignored).filename().string();
    }
  }
  const bool good = !name.empty() && std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_' || letter == '-' || letter == '.';
  });
  if (good) return name;
  throw invalid_argument(fmt::format("the model's name is '{}'; letters, digits, '_', '-' and '.' "
                                     "were expected",
                                     printable(name)),
                         "pass another --name");
}

}  // namespace muster::app
