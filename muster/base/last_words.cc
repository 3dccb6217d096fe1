#include "muster/base/last_words.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace muster::inline v0_1 {
namespace {

std::atomic<int (*)()> reporter{nullptr};

// Without memory of its own, and in one call: for handlers of signals, and where memory is short.
void write_plainly(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
}

[[noreturn]] void say_why() {
  static std::atomic_flag ending;
  // The thread that came first ends the process, and with it this one.
  while (ending.test_and_set()) pause();
  if (!std::current_exception()) std::abort();
  int code = 1;
  try {
    code = reporter.load()();
  } catch (...) {
    write_plainly(
        "error: out of memory, even for saying more\n"
        "hint: give the process more memory (ulimit -v, the limit of its container), or let it do "
        "less at a time\n");
  }
  std::_Exit(code);
}

extern "C" void on_abort(int number) {
  write_plainly(
      "error: the process was aborted (SIGABRT); the lines above may show why abort() was called\n"
      "hint: where memory or threads are limited (ulimit -v, ulimit -u, a container), raise the "
      "limit\n");
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

void install_last_words(int (*report)()) {
  reporter = report;
  std::set_terminate(say_why);
  struct sigaction former {};
  if (sigaction(SIGABRT, nullptr, &former) != 0 || former.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = on_abort;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace muster::inline v0_1
