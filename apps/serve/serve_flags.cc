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

// What is asked of the model, and how often.
std::vector<Flag> model_flags(ServeFlags& flags) {
  return {{"name",
           &flags.name,
           "Name of the model in request paths; default: the last part of DIR",
           {},
           "NAME"},
          {"versions",
           &flags.versions,
           "Number of newest versions to serve; more than one for /versions/N",
           {.at_least = 1, .at_most = 100}},
          {"poll-time",
           &flags.poll_time,
           "Seconds between two checks for a newer version",
           {.at_least = 0.01, .at_most = 86400},
           "SECONDS"},
          {"max-batch-size",
           &flags.max_batch_size,
           "Maximum number of rows of a batch made from several requests; 1: no batching",
           {.at_least = 1, .at_most = 1e6}},
          {"batch-timeout",
           &flags.batch_timeout,
           "Milliseconds that a request waits for others to join its batch while the model is idle",
           {.at_least = 0, .at_most = 60000},
           "MS"},
          {"parallel-batches",
           &flags.parallel_batches,
           "Number of batches computed at the same time",
           {.at_least = 1, .at_most = 1024}},
          {"threads",
           &flags.threads,
           "Number of threads for one batch; 0: MUSTER_THREADS, else the number of cores",
           {.at_least = 0, .at_most = 4096}}};
}

// Which clients may connect, and the limits of their requests.
std::vector<Flag> network_flags(ServeFlags& flags) {
  const FlagLimits seconds = {.at_least = 0.01, .at_most = 86400};
  return {{"host",
           &flags.host,
           "Address to listen on; 0.0.0.0: all addresses, so that other machines can connect",
           {},
           "ADDRESS"},
          {"port",
           &flags.port,
           "Port to listen on; 0: a free port, shown in the log",
           {.at_least = 0, .at_most = 65535}},
          {"request-time", &flags.request_time, "Seconds until a request times out", seconds,
           "SECONDS"},
          {"drain-time", &flags.drain_time, "Seconds that open requests get to end after SIGTERM",
           seconds, "SECONDS"},
          {"max-body",
           &flags.max_body,
           "Maximum size of a request's body in MiB; a larger one gets the answer 413",
           {.at_least = 1, .at_most = 1024},
           "MIB"},
          {"max-waiting",
           &flags.max_waiting,
           "Maximum number of waiting and running requests; further ones get the answer 429",
           {.at_least = 1, .at_most = 1e6}},
          {"max-connections",
           &flags.max_connections,
           "Maximum number of connections, each with a thread; further ones get the answer 503",
           {.at_least = 1, .at_most = 16384}}};
}

}  // namespace

void add_serve_flags(CLI::App& app, ServeFlags& flags) {
  command::add_argument(app, {"DIR", &flags.directory,
                              "Folder of exported models, DIR/<number>/, of which the newest is "
                              "served; or an ONNX file, or the folder of a SavedModel"})
      ->required();
  for (const Flag& flag : model_flags(flags)) command::add_flag(app, flag);
  for (const Flag& flag : network_flags(flags)) command::add_flag(app, flag);
  Flag log_format = command::log_format_flag(flags.log_format);
  log_format.name = "log-format";  // as the command's other flags are written
  command::add_flag(app, log_format);
  app.footer(
      "Implements TensorFlow Serving's REST API: POST /v1/models/NAME:predict, :classify, "
      ":regress,\n"
      "/v1/models/NAME/versions/N:predict; GET /v1/models/NAME, .../metadata, /metrics for "
      "Prometheus,\n"
      "/healthz, /readyz. By default only this machine can connect (see --host). There are no "
      "passwords\n"
      "and no TLS. The server switches to a newer version without losing requests. SIGTERM and "
      "Ctrl-C\n"
      "let open requests end; a second signal ends the server at once.\n"
      "\n"
      "Exit codes: 0 stopped after all answers, 1 some requests did not end in time, 2 the server "
      "could\n"
      "not start: a wrong argument, a port in use, or no version that can be served.\n"
      "\n"
      "Examples:\n"
      "  muster serve model/export/best --name=digits\n"
      "  muster serve model/export/best --name=digits --port=8080 --batch-timeout=2\n"
      "  muster serve model.onnx\n"
      "  muster serve saved_model --name=digits\n"
      "  curl -d '{\"instances\": [[1, 2, 3]]}' http://127.0.0.1:8501/v1/models/digits:predict");
}

std::string model_name(const ServeFlags& flags) {
  std::string name = flags.name;
  if (name.empty()) {
    std::filesystem::path path = std::filesystem::path(flags.directory).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    name = path.filename().string();
    // "." and "..": the name is that of the folder meant.
    if (name.empty() || name == "." || name == "..") {
      std::error_code ignored;
      name = std::filesystem::canonical(flags.directory, ignored).filename().string();
    }
  }
  constexpr std::string_view kFile = ".onnx";
  if (flags.name.empty() && name.ends_with(kFile)) name.resize(name.size() - kFile.size());
  const bool good = !name.empty() && std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_' || letter == '-' || letter == '.';
  });
  if (good) return name;
  throw invalid_argument(
      fmt::format("the model's name is '{}'; use letters, digits, '_', '-' and '.'",
                  printable(name)),
      "pass another --name");
}

}  // namespace muster::app
