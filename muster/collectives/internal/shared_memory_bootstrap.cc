#include "muster/collectives/internal/shared_memory_bootstrap.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/host_identity.h"
#include "muster/base/log.h"
#include "muster/base/secret.h"
#include "muster/base/shared_memory.h"
#include "muster/base/strings.h"
#include "muster/base/unix_name.h"
#include "muster/collectives/internal/descriptor_claim.h"
#include "muster/collectives/internal/shared_memory_operations.h"
#include "muster/collectives/internal/unix_socket.h"

namespace muster::inline v0_1::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kMemories = 8;           // descriptors for a control page and buffers
constexpr size_t kUnauthenticated = 16;    // that may be connected in addition to the ranks
constexpr auto kLook = milliseconds(50);   // between calls of `check_failure`
constexpr auto kRetry = milliseconds(10);  // before a full queue is tried again

// Where a rank is found: its host, the name of its socket, and the secret that a connecting peer
// has to send.
struct Endpoint {
  std::string host{};
  std::string socket{};
  std::string token{};

  std::string text() const { return host + " " + socket + " " + token; }
  static Endpoint parse(const std::string& text) {
    const std::vector<std::string> words = split(text, ' ');
    if (words.size() != 3) throw internal_error("an endpoint reads '" + text + "'");
    return {.host = words[0], .socket = words[1], .token = words[2]};
  }
};

class Bootstrap {
 public:
  explicit Bootstrap(const SharedMemoryOptions& options)
      : options_(options),
        deadline_(steady_clock::now() + options.connect_timeout),
        members_(static_cast<size_t>(options.size)) {}

  // Three rounds, so that all ranks come to the same answer: the identity and address of every
  // rank, whether every rank could connect, and only then the connections.
  GroupMembers run(std::string* why_not) {
    std::string obstacle = open_endpoint();
    std::vector<Endpoint> endpoints;
    for (const std::string& text : exchange("at", own_.text())) {
      endpoints.push_back(Endpoint::parse(text));
    }
    if (obstacle.empty()) obstacle = connect(endpoints);
    const std::vector<std::string> obstacles = exchange("obstacle", obstacle);
    for (int r = 0; r < options_.size; ++r) {
      const std::string& other = obstacles[static_cast<size_t>(r)];
      if (other.empty()) continue;
      *why_not = fmt::format("rank {}: {}", shown(r), other);
      return nullptr;
    }
    accept(endpoints);
    for (int r = 0; r < options_.rank; ++r) {
      adopt(await_reply(r));
    }
    share(&member(options_.rank), std::move(control_));
    claim_->keep();
    return std::make_shared<const std::vector<GroupMember>>(std::move(members_));
  }

 private:
  // Makes this rank's endpoint; returns the obstacle, or nothing.
  std::string open_endpoint() {
    try {
      // A socket for each other rank, one to be found by, and memory of its own.
      claim_.emplace(
          options_.size + kMemories + static_cast<int64_t>(kUnauthenticated),
          fmt::format("rank {} of {} over shared memory", shown(options_.rank), options_.size));
      own_ = {
          .host = host_identity(), .socket = "muster-" + random_secret(), .token = random_secret()};
      listener_ = listen_unix(own_.socket);
      control_ = SharedMemory::create(SharedMemoryOperations::control_bytes(options_.stage_bytes));
      return {};
    } catch (const Error& error) {
      own_ = {.host = "nowhere", .socket = "-", .token = "-"};
      return error.message();
    }
  }

  // The values of all ranks, by rank.
  std::vector<std::string> exchange(const std::string& name, const std::string& own) {
    const std::string prefix =
        fmt::format("collectives/{}/shared_memory/{}/", options_.group, name);
    // Some stores do not distinguish an empty value from a missing one.
    options_.rendezvous->set(prefix + std::to_string(options_.rank), "=" + own);
    std::vector<std::string> all;
    for (int r = 0; r < options_.size; ++r) {
      try {
        all.push_back(options_.rendezvous->get(prefix + std::to_string(r), remaining()).substr(1));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kTimeout) throw;
        throw error.with_context(fmt::format("rank {} did not appear within {} ms", shown(r),
                                             options_.connect_timeout.count()));
      }
    }
    return all;
  }

  // Connects to every lower rank; returns the obstacle, or nothing. A Unix socket connects before
  // the other side accepts.
  std::string connect(const std::vector<Endpoint>& endpoints) {
    for (size_t r = 0; r < endpoints.size(); ++r) {
      if (endpoints[r].host != own_.host) {
        return fmt::format("rank {} is not on the same host", shown(static_cast<int>(r)));
      }
    }
    for (int r = 0; r < options_.rank; ++r) {
      const Endpoint& endpoint = endpoints[static_cast<size_t>(r)];
      if (const std::string why = reach(r, endpoint); !why.empty())
        return fmt::format("no way to rank {}: {}", shown(r), why);
      if (!is_same_user(member(r).socket.get()))
        return fmt::format("rank {} runs as another user", shown(r));
      if (!send_control(r, endpoint)) {
        return fmt::format("no way to rank {}: it does not take shared memory", shown(r));
      }
    }
    return {};
  }

  // Opens the connection to a lower rank; returns the obstacle, or nothing. That rank accepts none
  // yet, and unauthenticated peers may have filled its queue: some of them give up, or the time is
  // over.
  std::string reach(int rank, const Endpoint& endpoint) {
    for (;; std::this_thread::sleep_for(kRetry)) {
      try {
        if (auto socket = connect_unix(endpoint.socket)) {
          member(rank).socket = std::move(*socket);
          return {};
        }
      } catch (const Error& error) {
        return error.message();
      }
      if (options_.check_failure) options_.check_failure();
      if (steady_clock::now() >= deadline_) throw crowded(rank);
    }
  }

  // Sends this rank's control memory to rank `to`.
  bool send_control(int to, const Endpoint& endpoint) {
    const MemoryHandle handle{.rank = options_.rank,
                              .token = endpoint.token,
                              .id = 0,
                              .bytes = control_.bytes(),
                              .file = {}};
    return send_handle(member(to).socket, handle, control_.file());
  }

  // The memory of a lower rank, to which this rank has sent its own.
  MemoryHandle await_reply(int rank) {
    const FileDescriptor& socket = member(rank).socket;
    while (!readable(socket, std::min(kLook, remaining()))) look(rank);
    auto reply = receive_handle(socket, milliseconds(0));
    // A peer that names another rank would be taken for it.
    if (!reply || reply->rank != rank) throw lost(rank);
    return std::move(*reply);
  }

  // Ends the wait for a rank that will not come.
  void look(int rank) const {
    if (options_.check_failure) options_.check_failure();
    if (steady_clock::now() >= deadline_) throw lost(rank);
  }

  // Accepts the connection of every higher rank. A silent connection delays no other.
  void accept(const std::vector<Endpoint>& endpoints) {
    std::list<FileDescriptor> peers;
    for (int missing = options_.size - options_.rank - 1; missing > 0;) {
      wait_for_accepted(peers);
      // A few at a time, so that accepted peers are served however many more there are.
      for (size_t accepted = 0; accepted < kUnauthenticated; ++accepted) {
        auto socket = accept_unix(listener_, milliseconds(0));
        if (!socket) break;
        if (!is_same_user(socket->get())) {
          log::warning_once("refused a process of another user, which wanted to share memory");
          continue;
        }
        if (peers.size() >= static_cast<size_t>(missing) + kUnauthenticated) peers.pop_front();
        peers.push_back(std::move(*socket));
      }
      for (auto peer = peers.begin(); peer != peers.end();) {
        if (!readable(*peer, milliseconds(0))) {
          ++peer;
          continue;
        }
        if (admit(std::move(*peer), endpoints)) --missing;
        peer = peers.erase(peer);
      }
      int absent = options_.rank + 1;
      while (missing > 0 && member(absent).socket.is_open()) ++absent;
      if (missing > 0) look(absent);
    }
  }

  void wait_for_accepted(const std::list<FileDescriptor>& peers) const {
    std::vector<pollfd> entries = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const FileDescriptor& peer : peers)
      entries.push_back({.fd = peer.get(), .events = POLLIN, .revents = 0});
    poll(entries.data(), entries.size(), static_cast<int>(std::min(kLook, remaining()).count()));
  }

  // Takes in a peer that has named its rank. False for an unauthenticated peer.
  bool admit(FileDescriptor socket, const std::vector<Endpoint>& endpoints) {
    auto handle = receive_handle(socket, milliseconds(0));
    if (!handle || !same_secret(handle->token, own_.token)) return false;
    const int rank = handle->rank;
    if (rank <= options_.rank || rank >= options_.size || member(rank).socket.is_open())
      return false;
    member(rank).socket = std::move(socket);
    adopt(std::move(*handle));
    if (!send_control(rank, endpoints[static_cast<size_t>(rank)])) throw lost(rank);
    return true;
  }

  // Maps another rank's control memory.
  void adopt(MemoryHandle handle) {
    if (!same_secret(handle.token, own_.token)) throw lost(handle.rank);
    const int64_t bytes = SharedMemoryOperations::control_bytes(options_.stage_bytes);
    if (handle.bytes != bytes) {
      throw invalid_argument(
          fmt::format("rank {} of {} uses another stage_bytes than rank {} ({}, {} bytes in all)",
                      handle.rank, options_.size, options_.rank, options_.stage_bytes, bytes),
          "give all ranks the same options");
    }
    share(&member(handle.rank), SharedMemory::map(std::move(handle.file), handle.bytes));
  }

  static void share(GroupMember* member, SharedMemory control) {
    control.close_file();
    auto owner = std::make_shared<SharedMemory>(std::move(control));
    member->control = std::shared_ptr<std::byte>(owner, owner->data());
  }

  GroupMember& member(int rank) { return members_[static_cast<size_t>(rank)]; }
  // As messages call it.
  int shown(int rank) const { return options_.first_shown_rank + rank; }
  milliseconds remaining() const {
    return std::max(milliseconds(1),
                    std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now()));
  }
  Error crowded(int rank) const {
    return Error(
        ErrorKind::kTimeout,
        fmt::format("rank {} of {} could not connect to rank {} within {} ms: the queue of "
                    "its socket is full",
                    shown(options_.rank), options_.size, shown(rank),
                    options_.connect_timeout.count()),
        "see which other processes of this machine connect to sockets named @muster-*");
  }
  Error lost(int rank) const {
    return Error(ErrorKind::kPeerLost,
                 fmt::format("rank {} of {} lost rank {} while the group was being made",
                             shown(options_.rank), options_.size, shown(rank)),
                 "see the output of that task for why it ended");
  }

  const SharedMemoryOptions& options_;
  const steady_clock::time_point deadline_;
  std::optional<DescriptorClaim> claim_;
  Endpoint own_;
  FileDescriptor listener_;
  SharedMemory control_;  // of this rank
  std::vector<GroupMember> members_;
};

}  // namespace

GroupMembers connect_shared_memory(const SharedMemoryOptions& options, std::string* why_not) {
  return Bootstrap(options).run(why_not);
}

}  // namespace muster::inline v0_1::internal
