// Programs of this project as a user starts them: real processes, with everything they print, real
// signals and bounded waits. Thread safety: one thread, the test's.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/base/temp_directory.h"
#include "muster/launch/child_process.h"

namespace muster::testing {

using Words = std::vector<std::string>;
// Set on top of this process's environment, from which TF_CONFIG and thread counts are taken out.
using Variables = std::map<std::string, std::string>;

// The path of one of our binaries. Throws when MUSTER_BIN_DIR is not set.
std::string binary(const std::string& name);

class Program {
 public:
  // `command[0]` is a path, or a name in PATH.
  explicit Program(const Words& command, const Variables& environment = {});
  // Kills the program if it still runs, with the tasks it has started.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // The exit code, or minus the signal that ended it. Throws Timeout with the output.
  int wait(std::chrono::milliseconds deadline = std::chrono::seconds(120));
  // Waits until `text` was printed. Throws Timeout, or if the program ended without it, with the
  // output.
  void wait_for(const std::string& text,
                std::chrono::milliseconds deadline = std::chrono::seconds(120));
  // As wait_for(); returns false when the program ended without it.
  bool says(const std::string& text,
            std::chrono::milliseconds deadline = std::chrono::seconds(120));
  void signal(int number);
  // Waits until the program has a handler for this signal, or has ended: before that, the signal
  // ends it at once, as it ends each program that is still being loaded. Throws Timeout.
  void wait_until_it_handles(int number,
                             std::chrono::milliseconds deadline = std::chrono::seconds(120));
  bool running();

  // Both streams, so far.
  std::string output() const;
  pid_t pid() const { return child_.pid(); }
  // The processes it has started itself.
  std::vector<pid_t> children() const;
  // The process of a task of `muster run`: task("worker", 1).
  pid_t task(const std::string& type, int index) const;
  // Sends it a signal; returns false when `muster run` has ended. Throws NotFound.
  bool signal_task(const std::string& type, int index, int number);

 private:
  int code();  // of a program that has ended

  TempDirectory directory_;
  launch::ChildProcess child_;
};

// A program that was run to its end.
struct Ran {
  int code = 0;
  std::string output{};
};
Ran run(const Words& command, const Variables& environment = {});
// The text that a program printed after "result: ", to the end of the line. If there is none, fails
// the test and returns "{}".
std::string result_of(const Ran& ran);
// The number after `text` in the output of a program. Throws Internal if there is no such text.
double number_behind(const std::string& output, const std::string& text);

// Makes an attempt until it returns true, and fails the test after five. A program cannot be
// disturbed in the middle of its work if a busy machine let this process stand still until that
// work was done: then the attempt returns false, and has expected nothing of it.
void until_in_time(const std::function<bool()>& attempt);

// Whether the process exists and is no zombie.
bool alive(pid_t pid);
// Waits until none of them is alive. Throws Timeout.
void wait_until_gone(const std::vector<pid_t>& processes);

// --- programs that the tests of this folder run ---

// 2000 training and 500 test images, made once by `muster data digits`.
const std::string& digits();
// A table of cats and dogs, "height,colour" and, of labelled ones, "kind": cats are small and dogs
// are tall.
std::string pets(int count, bool labelled);
// mnist on digits(), with `flags` appended.
Words mnist(const std::string& model_dir, const Words& flags = {});
// muster run OPTIONS -- PROGRAM
Words muster_run(const Words& options, const Words& program);
// TF_CONFIG for a worker of a cluster of workers.
Variables worker_of(const std::vector<std::string>& addresses, int index);

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);
// The bytes of the checkpoint a model directory holds of a step. Fails the test when there is none.
std::string checkpoint_bytes(const std::string& model_dir, int64_t step);
std::string checkpoint_path(const std::string& model_dir, int64_t step);
bool has_checkpoint(const std::string& model_dir, int64_t step);

}  // namespace muster::testing
