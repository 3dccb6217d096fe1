#include "muster/collectives/internal/shared_memory_bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/collectives/internal/descriptor_claim.h"
#include "muster/collectives/internal/host_identity.h"
#include "muster/collectives/internal/local_copier.h"
#include "muster/collectives/internal/shared_memory.h"
#include "muster/collectives/internal/unix_socket.h"

namespace muster::inline v0_1::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kMemories = 8;  // descriptors for a control page and buffers

// Where a rank is found: its host, the name of its socket, and the word that whoever connects has
// to say.
struct Endpoint {
  std::string host;
  std::string socket;
  std::string token;

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

  // Three rounds, so that all ranks come to the same answer: who and where everybody is, whether
  // everybody could connect, and only then the connections.
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
      auto reply = receive_handle(member(r).socket, remaining());
      if (!reply) throw lost(r);
      adopt(std::move(*reply));
    }
    share(&member(options_.rank), std::move(control_));
    claim_->keep();
    return std::make_shared<const std::vector<GroupMember>>(std::move(members_));
  }

 private:
  // Makes what this rank brings; returns what is in the way, or nothing.
  std::string open_endpoint() {
    try {
      // A socket for each other rank, one to be found by, and memory of its own.
      claim_.emplace(options_.size + kMemories, fmt::format("rank {} of {} over shared memory",
                                                            shown(options_.rank), options_.size));
      own_ = {
          .host = host_identity(), .socket = "muster-" + random_token(), .token = random_token()};
      listener_ = listen_unix(own_.socket);
      control_ = SharedMemory::create(LocalCopier::control_bytes(options_.stage_bytes));
      return {};
    } catch (const Error& error) {
      own_ = {.host = "nowhere", .socket = "-", .token = "-"};
      return error.message();
    }
  }

  // Everybody's value, by rank.
  std::vector<std::string> exchange(const std::string& name, const std::string& own) {
    const std::string prefix =
        fmt::format("collectives/{}/shared_memory/{}/", options_.group, name);
    // Some stores cannot tell an empty value from none.
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

  // Connects to every lower rank; returns what is in the way, or nothing. A Unix socket connects
  // before the other side accepts.
  std::string connect(const std::vector<Endpoint>& endpoints) {
    for (size_t r = 0; r < endpoints.size(); ++r) {
      if (endpoints[r].host != own_.host) {
        return fmt::format("rank {} is not on the same host", shown(static_cast<int>(r)));
      }
    }
    for (int r = 0; r < options_.rank; ++r) {
      const Endpoint& endpoint = endpoints[static_cast<size_t>(r)];
      try {
        member(r).socket = connect_unix(endpoint.socket);
      } catch (const Error& error) {
        return fmt::format("no way to rank {}: {}", shown(r), error.message());
      }
      if (!send_control(r, endpoint)) {
        return fmt::format("no way to rank {}: it does not take shared memory", shown(r));
      }
    }
    return {};
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

  // Accepts the connection of every higher rank.
  void accept(const std::vector<Endpoint>& endpoints) {
    for (int missing = options_.size - options_.rank - 1; missing > 0;) {
      auto socket = accept_unix(listener_, remaining());
      if (!socket) {
        int absent = options_.rank + 1;
        while (member(absent).socket.is_open()) ++absent;
        throw lost(absent);
      }
      auto handle = receive_handle(*socket, remaining());
      if (!handle || handle->token != own_.token) continue;  // a stranger
      const int rank = handle->rank;
      if (rank <= options_.rank || rank >= options_.size) continue;
      member(rank).socket = std::move(*socket);
      adopt(std::move(*handle));
      if (!send_control(rank, endpoints[static_cast<size_t>(rank)])) throw lost(rank);
      --missing;
    }
  }

  // Maps another rank's control memory.
  void adopt(MemoryHandle handle) {
    if (handle.token != own_.token) throw lost(handle.rank);
    const int64_t bytes = LocalCopier::control_bytes(options_.stage_bytes);
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
  Error lost(int rank) const {
    return Error(ErrorKind::kUnavailable,
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
