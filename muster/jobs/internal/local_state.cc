#include "muster/jobs/internal/local_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/jobs/internal/status_json.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

FileDescriptor open_lock(const std::string& folder) {
  const std::string path = join_path(folder, "keeper.lock");
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) throw from_errno(errno, "cannot open " + path);
  return file;
}

// Returns whether the lock was free.
bool try_lock(const FileDescriptor& file, int kind, const std::string& folder) {
  while (flock(file.get(), kind | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return false;
    throw from_errno(errno, "cannot lock a file in " + folder,
                     "keep records of jobs on a file system with locks: set XDG_STATE_HOME");
  }
  return true;
}

std::string this_host() {
  std::array<char, 256> name{};
  // What is longer is cut off, and is the same each time.
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// A process that was killed with much memory takes a while to be gone.
constexpr std::chrono::seconds kDyingTime{5};
constexpr std::chrono::milliseconds kLockLook{5};

// When the process began, by its file in /proc: "7 (a b) S 1 ...", the twentieth word after the
// bracket.
int64_t began(pid_t pid) {
  std::string text;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), text);
  const auto words = split(text.substr(std::min(text.size(), text.rfind(')') + 1)), ' ');
  constexpr size_t kWord = 20;
  return words.size() > kWord ? parse_int(words[kWord]).value_or(0) : 0;
}

// Whether the keeper is a process of this machine that was sent SIGKILL, and is not gone yet. The
// signal stays among those of the process until then: a line "ShdPnd:\t0000000000000100" in /proc.
bool is_dying(const Keeper& keeper) {
  if (keeper.pid <= 0 || !is_here(keeper) || keeper.began != began(keeper.pid)) return false;
  constexpr std::string_view kPending = "ShdPnd:";
  constexpr int kHexadecimal = 16;
  std::ifstream status(fmt::format("/proc/{}/status", keeper.pid));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kPending)) continue;
    const uint64_t set = std::strtoull(line.c_str() + kPending.size(), nullptr, kHexadecimal);
    return ((set >> (SIGKILL - 1)) & 1) != 0;
  }
  return false;
}

}  // namespace

Keeper keeper_of(pid_t pid) { return {.pid = pid, .host = this_host(), .began = began(pid)}; }

bool is_here(const Keeper& keeper) { return keeper.host == this_host(); }

void check_is_here(const Keeper& keeper, const std::string& name) {
  if (is_here(keeper)) return;
  throw invalid_argument(
      fmt::format("the job {} runs on {}, and this is {}", name, keeper.host, this_host()),
      fmt::format("cancel it there: muster jobs cancel {}", name));
}

void end_keeper(const Keeper& keeper) {
  if (keeper.pid > 0 && keeper.began == began(keeper.pid)) kill(keeper.pid, SIGTERM);
}

void write_state(const std::string& folder, const LocalState& state) {
  nlohmann::ordered_json json = to_json(state.status);
  json["keeper"] = state.keeper.pid;
  json["host"] = state.keeper.host;
  json["began"] = state.keeper.began;
  const std::string text =
      json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  local_file_system().write_atomically(join_path(folder, kStateFile), text).value();
}

std::optional<LocalState> read_state(const std::string& folder) {
  const std::string path = join_path(folder, kStateFile);
  const auto text = local_file_system().read_file(path);
  if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) return std::nullopt;
  if (!text.ok()) throw text.error();
  try {
    const nlohmann::json json = nlohmann::json::parse(text.value());
    LocalState state;
    state.keeper = {.pid = json.at("keeper"), .host = json.at("host"), .began = json.at("began")};
    state.status = status_from_json(json);
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw corrupt(fmt::format("{} is not a state of a job: {}", path, error.what()),
                  "forget the job: muster jobs remove");
  }
}

FileDescriptor lock_folder(const std::string& folder) {
  FileDescriptor file = open_lock(folder);
  // A process that only checks the lock holds it for a moment.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!try_lock(file, LOCK_EX, folder)) {
    if (std::chrono::steady_clock::now() > end) return FileDescriptor();
    std::this_thread::sleep_for(kLockLook);
  }
  return file;
}

bool is_kept(const std::string& folder) {
  const FileDescriptor file = open_lock(folder);
  const auto end = std::chrono::steady_clock::now() + kDyingTime;
  while (!try_lock(file, LOCK_SH, folder)) {
    const auto state = read_state(folder);
    const bool dying = state && is_dying(state->keeper);
    // One that is gone since has release the lock, unless another process has it.
    if (!dying || std::chrono::steady_clock::now() > end) return !try_lock(file, LOCK_SH, folder);
    std::this_thread::sleep_for(kLockLook);
  }
  return false;
}

}  // namespace muster::inline v0_1::jobs::internal
