// muster-board, which `muster board` becomes: reads event files and shows them in a browser.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/board/board_flags.h"
#include "apps/muster/report_error.h"
#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/last_words.h"
#include "muster/base/log.h"
#include "muster/base/missing_file.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/base/terminal.h"
#include "muster/base/uri.h"
#include "muster/board/board_api.h"
#include "muster/board/board_page.h"
#include "muster/board/board_server.h"
#include "muster/board/report_page.h"
#include "muster/board/run_store.h"
#include "muster/cluster/address.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"
#include "muster/serve/http_server.h"
#include "muster/stores/stores.h"

namespace muster::app {
namespace {

// How long the board waits for open requests when it ends.
constexpr Duration kEndTime = std::chrono::seconds(2);

// Throws NotFound for a folder that does not exist, and InvalidArgument for a file.
void check_directories(const std::vector<std::string>& directories) {
  FileSystem& files = file_systems();
  for (const std::string& directory : directories) {
    const Result<FileInfo> info = files.info(directory);
    if (!info.ok() && info.error().kind() == ErrorKind::kNotFound && !is_remote(directory)) {
      throw not_found(fmt::format("there is no folder {}", directory),
                      what_stands_beside(files, directory));
    }
    // A bucket that cannot be asked now may answer later; the page shows the error.
    if (info.ok() && !info.value().is_directory) {
      throw invalid_argument(fmt::format("{} is a file", directory),
                             "name the folder that it is in");
    }
  }
}

int write_report(const BoardFlags& flags) {
  board::RunStore store(flags.directories, file_systems());
  store.read_all();
  if (store.runs().empty() && store.live_runs().empty() && store.searches().empty() &&
      store.profiles().empty()) {
    throw not_found(fmt::format("there are no event files in {}", join(flags.directories, ", ")),
                    "event files have \".tfevents.\" in their names");
  }
  board::BoardApi api(store, file_systems());
  const std::string page = board::report_page(api, store);
  file_systems().write_atomically(flags.report, page).value();
  log::info(fmt::format("wrote {}: {} {}, {}", flags.report, store.runs().size(),
                        store.runs().size() == 1 ? "run" : "runs", human_bytes(page.size())));
  return 0;
}

int run(const BoardFlags& flags) {
  check_directories(flags.directories);
  if (!flags.report.empty()) return write_report(flags);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  // An IPv6 address in brackets, as in a URL, means the address inside.
  const std::string host = cluster::host_of(flags.host + ":");
  board::BoardAccess access{.host = host};
  if (!cluster::is_loopback(host)) access.token = random_secret();
  board::RunStore store(flags.directories, file_systems(),
                        {.poll_time = from_seconds(flags.poll_time)});
  board::BoardApi api(store, file_systems());
  const board::BoardServer server(api, access);
  serve::ServingMetrics metrics;
  serve::HttpServer http(
      [&server](const serve::HttpRequest& request) { return server.answer(request); },
      {.host = host,
       .port = static_cast<int>(flags.port),
       .max_body_bytes = 1 << 20,
       .idle_time = std::chrono::seconds(60)},
      metrics);
  store.start();
  const std::string query = access.token.empty() ? "" : "?token=" + access.token;
  log::event(
      "listening", {{"host", host}, {"port", http.port()}},
      fmt::format("the board is at http://{}/{}", cluster::join_address(host, http.port()), query));
  if (board::page_files().empty())
    log::warning(
        "this muster-board was built without its page: run ./dev board-page, with npm, "
        "and build it again");
  int signal = 0;
  sigwait(&stop, &signal);
  // A second one ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  http.stop(kEndTime);
  log::flush();
  // A page that waits for an answer asks the next board.
  std::_Exit(0);
}

int report(const Error& error) {
  (void)report_error(error);
  return 2;
}

}  // namespace
}  // namespace muster::app

int main(int argc, char** argv) {
  muster::open_standard_streams();
  muster::install_last_words([] { return muster::app::report(muster::current_error()); });
  try {
    muster::app::BoardFlags flags;
    CLI::App app(std::string(muster::app::kBoardDescription) + ".", "muster board");
    muster::app::add_board_flags(app, flags);
    if (!muster::command::parse(app, {argv + std::min(argc, 1), argv + argc})) return 0;
    if (!flags.log_format.empty())
      muster::log::set_format(muster::log::parse_format(flags.log_format));
    muster::stores::set_retry_timeout(muster::Seconds(30));
    return muster::app::run(flags);
  } catch (...) {
    return muster::app::report(muster::current_error());
  }
}
