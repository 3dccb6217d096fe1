#include "muster/cluster/job_credentials.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/tls_check.h"

namespace muster::inline v0_1::cluster {
namespace {

constexpr size_t kShortestToken = 16;
// They travel in the header of each call.
constexpr size_t kLongestToken = 1024;
constexpr size_t kLongestId = 256;
constexpr off_t kMostBytes = 1 << 20;
constexpr std::string_view kMakeToken =
    "give every task the same long random text, for example of: openssl rand -hex 32";

class File {
 public:
  // Does not wait for a pipe's other end.
  explicit File(const std::string& path) : fd_(::open(path.c_str(), kFlags)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  static constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  int fd_;
};

// Schedulers mount secrets so that a group, or all users in the container, can read them, and this
// cannot be changed there. So a readable secret is not always a mistake, but a user who can write
// it controls the job.
void check_mode(const std::string& named, const std::string& path, mode_t mode) {
  if ((mode & S_IWOTH) != 0) {
    throw invalid_argument(fmt::format("{}, which every user can write", named),
                           fmt::format("make it yours alone: chmod 600 {}", path));
  }
  if ((mode & (S_IRWXG | S_IRWXO)) != 0) {
    log::warning_once(fmt::format(
        "{}, which other users can read; unless a scheduler mounts it this way: chmod 600 {}",
        named, path));
  }
}

// The text of the file that `variable` names. `secret` says that it is for this user alone.
std::string read_file(const std::string& variable, const std::string& path, bool secret) {
  const std::string named = fmt::format("{} names {}", variable, path);
  const File file(path);
  struct stat info {};
  // The checked file is the one that is read.
  if (file.get() < 0 || fstat(file.get(), &info) != 0)
    throw from_errno(errno, fmt::format("{}, which cannot be read", named),
                     "name a file that this user may read, or unset " + variable);
  if (!S_ISREG(info.st_mode) || info.st_size > kMostBytes)
    throw invalid_argument(fmt::format("{}, which is not a small file", named));
  if (secret) check_mode(named, path, info.st_mode);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t bytes = ::read(file.get(), text.data() + done, text.size() - done);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) throw from_errno(errno, fmt::format("{}, which cannot be read", named));
    if (bytes == 0) break;
    done += static_cast<size_t>(bytes);
  }
  text.resize(done);
  return text;
}

std::string read_token(const Environment& environment) {
  std::string token(trim(environment.get_or("MUSTER_JOB_TOKEN", "")));
  std::string source = "MUSTER_JOB_TOKEN";
  if (const std::string path = environment.get_or("MUSTER_JOB_TOKEN_FILE", ""); !path.empty()) {
    const std::string text = read_file("MUSTER_JOB_TOKEN_FILE", path, /*secret=*/true);
    const std::string stored(trim(text));
    if (!token.empty() && token != stored) {
      throw invalid_argument("MUSTER_JOB_TOKEN and MUSTER_JOB_TOKEN_FILE give different tokens",
                             "set one of the two");
    }
    token = stored;
    source = "MUSTER_JOB_TOKEN_FILE";
    if (token.empty())
      throw invalid_argument(fmt::format("{} names {}, which holds no token", source, path),
                             std::string(kMakeToken));
  }
  if (!token.empty() && token.size() < kShortestToken) {
    throw invalid_argument(fmt::format("the token of {} has {} characters, and could be guessed",
                                       source, token.size()),
                           std::string(kMakeToken));
  }
  if (token.size() > kLongestToken) {
    throw invalid_argument(fmt::format("the token of {} has {} characters; {} are allowed", source,
                                       token.size(), kLongestToken),
                           std::string(kMakeToken));
  }
  return token;
}

std::string read_id(const Environment& environment) {
  const std::string id = environment.get_or("MUSTER_JOB_ID", "");
  if (id.size() <= kLongestId) return id;
  throw invalid_argument(
      fmt::format("MUSTER_JOB_ID has {} characters; {} are allowed", id.size(), kLongestId));
}

std::optional<TlsIdentity> read_tls(const Environment& environment) {
  constexpr std::array<const char*, 3> kNames = {"MUSTER_TLS_CERT", "MUSTER_TLS_KEY",
                                                 "MUSTER_TLS_CA"};
  std::array<std::string, 3> paths;
  const char* given = nullptr;
  const char* missing = nullptr;
  for (size_t i = 0; i < kNames.size(); ++i) {
    paths[i] = environment.get_or(kNames[i], "");
    (paths[i].empty() ? missing : given) = kNames[i];
  }
  if (given == nullptr) return std::nullopt;
  if (missing != nullptr) {
    throw invalid_argument(fmt::format("{} is set, and {} is not", given, missing),
                           "set MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA together");
  }
  TlsIdentity identity{.certificate = read_file(kNames[0], paths[0], /*secret=*/false),
                       .key = read_file(kNames[1], paths[1], /*secret=*/true),
                       .authority = read_file(kNames[2], paths[2], /*secret=*/false),
                       .server_name = environment.get_or("MUSTER_TLS_SERVER_NAME", "")};
  check_identity(identity, {.certificate = paths[0], .key = paths[1], .authority = paths[2]});
  return identity;
}

bool read_insecure(const Environment& environment) {
  const std::string word = environment.get_or("MUSTER_INSECURE", "");
  if (word.empty() || word == "0") return false;
  if (word == "1") return true;
  throw invalid_argument(fmt::format("MUSTER_INSECURE is '{}'", word), "set it to 1, or unset it");
}

}  // namespace

Job read_job(const Environment& environment) {
  return {.id = read_id(environment),
          .token = read_token(environment),
          .insecure = read_insecure(environment),
          .tls = read_tls(environment)};
}

}  // namespace muster::inline v0_1::cluster
