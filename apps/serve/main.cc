// muster-serve, which `muster serve` becomes: it links LibTorch, loads models and answers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "apps/muster/report_error.h"
#include "apps/serve/servable_model.h"
#include "apps/serve/serve_flags.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/foreign_error.h"
#include "muster/base/last_words.h"
#include "muster/base/log.h"
#include "muster/base/missing_file.h"
#include "muster/base/terminal.h"
#include "muster/cluster/address.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"
#include "muster/serve/http_server.h"
#include "muster/serve/model_versions.h"
#include "muster/serve/rest_api.h"
#include "muster/tensor/threads.h"

namespace muster::app {
namespace {

serve::BatcherOptions batcher_options(const ServeFlags& flags) {
  return {.max_rows = flags.max_batch_size,
          .max_wait = from_seconds(flags.batch_timeout / 1e3),
          .max_requests = flags.max_waiting,
          .runners = static_cast<int>(flags.parallel_batches)};
}

serve::HttpServerOptions http_options(const ServeFlags& flags) {
  // An IPv6 address in brackets, as in a URL, means the address inside.
  return {.host = cluster::host_of(flags.host + ":"),
          .port = static_cast<int>(flags.port),
          .max_connections = static_cast<int>(flags.max_connections),
          .max_body_bytes = static_cast<size_t>(flags.max_body) << 20,
          .request_time = from_seconds(flags.request_time)};
}

// Where the versions may be that are not in `directory`.
std::string advice(const std::string& directory) {
  FileSystem& files = file_systems();
  if (files.exists(join_path(directory, "signatures.json")).value_or(false)) {
    return "it is the folder of a version: name its parent folder";
  }
  for (const std::string& name : files.list_directory(directory).value_or({})) {
    const std::string inside = join_path(directory, name);
    if (newest_version(inside)) return "name one of the folders in it, such as " + inside;
  }
  return "muster train makes a folder <number>/ in export/ of its --model-dir, and a program by "
         "Estimator::export_model()";
}

// Throws NotFound, with advice, if no version could be loaded, and with the reason if the folder
// cannot be listed.
void require_version(const serve::ModelVersions& versions, const std::string& directory) {
  if (versions.newest() != nullptr) return;
  if (const auto trouble = versions.trouble()) throw *trouble;
  const auto failed = versions.status();
  if (!failed.empty()) {
    throw not_found(
        fmt::format("no version in {} can be served; the newest, {}, cannot because: {}", directory,
                    failed.front().version, failed.front().error),
        "export the model again");
  }
  FileSystem& files = file_systems();
  if (!files.exists(directory).value_or(true)) {
    throw not_found(fmt::format("there is no folder {}", directory),
                    what_stands_beside(files, directory));
  }
  throw not_found(fmt::format("there is no exported model in {}", directory), advice(directory));
}

// SIGTERM and SIGINT are pending until they are read; all threads of the process inherit it.
sigset_t block_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

// Loads what there is. A signal ends the process at once: no request waits for an answer yet.
void load_first(serve::ModelVersions& versions, const sigset_t& stop) {
  const std::jthread watch([&stop](const std::stop_token& loaded) {
    const timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!loaded.stop_requested()) {
      const int signal = sigtimedwait(&stop, nullptr, &pause);
      if (signal > 0) std::_Exit(128 + signal);
    }
  });
  versions.poll();
}

// The folder of a SavedModel is one model; other folders have versions.
std::string served_path(const std::string& directory) {
  FileSystem& files = file_systems();
  std::string file = join_path(directory, "saved_model.pb");
  const bool is_export = files.exists(join_path(directory, "signatures.json")).value_or(false);
  return !is_export && files.exists(file).value_or(false) ? file : directory;
}

int run(const ServeFlags& flags) {
  const std::string name = model_name(flags);
  const sigset_t stop = block_stop_signals();
  set_threads(static_cast<int>(flags.threads));
  serve::ServingMetrics metrics;
  serve::ModelVersions versions(
      served_path(flags.directory),
      [](const std::string& folder) { return std::make_shared<ServableModel>(folder); },
      static_cast<int>(flags.versions), batcher_options(flags), metrics, file_systems());
  load_first(versions, stop);
  require_version(versions, flags.directory);
  serve::RestApi api(name, versions, metrics);
  const serve::HttpServerOptions options = http_options(flags);
  serve::HttpServer server(
      [&api](const serve::HttpRequest& request) { return api.answer(request); }, options, metrics);
  versions.poll_every(from_seconds(flags.poll_time));
  log::event("listening", {{"host", options.host}, {"port", server.port()}, {"model", name}},
             fmt::format("listening at http://{}/v1/models/{}",
                         cluster::join_address(options.host, server.port()), name));
  int signal = 0;
  sigwait(&stop, &signal);
  // A second one ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  log::info(fmt::format("{}: accepting no more connections; open requests have {:g} s to end",
                        signal == SIGINT ? "Ctrl-C" : "SIGTERM", flags.drain_time));
  api.stop_wanting();
  int code = 0;
  if (server.stop(from_seconds(flags.drain_time))) {
    log::info("all requests are answered");
  } else {
    log::warning("some connections did not end in time and are closed");
    code = 1;
  }
  log::flush();
  // A batch may still be computed whose requests gave up; it is not awaited.
  std::_Exit(code);
}

int report(const Error& error) {
  // What runs answers its errors to clients: this one kept it from beginning.
  (void)report_error(error);
  return 2;
}

}  // namespace
}  // namespace muster::app

int main(int argc, char** argv) {
  muster::open_standard_streams();
  muster::install_last_words([] { return muster::app::report(muster::current_error()); });
  try {
    muster::app::ServeFlags flags;
    CLI::App app("Serves an exported model over HTTP.", "muster serve");
    muster::app::add_serve_flags(app, flags);
    if (!muster::command::parse(app, {argv + std::min(argc, 1), argv + argc})) return 0;
    if (!flags.log_format.empty())
      muster::log::set_format(muster::log::parse_format(flags.log_format));
    return muster::app::run(flags);
  } catch (...) {
    return muster::app::report(muster::current_error());
  }
}
