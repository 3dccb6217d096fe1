#include "muster/collectives/shared_memory_communicator.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "muster/base/strings.h"
#include "muster/collectives/internal/descriptors.h"
#include "muster/collectives/internal/shared_engine.h"
#include "muster/collectives/internal/tensor_communicator.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using internal::FileDescriptor;
using internal::Parcel;
using internal::SharedEngine;
using internal::SharedMember;
using internal::SharedMemory;
using internal::SharedMover;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

class SharedMemoryCommunicator final : public internal::TensorCommunicator {
 public:
  SharedMemoryCommunicator(const SharedMemoryOptions& options, std::shared_ptr<SharedEngine> engine)
      : TensorCommunicator(options.rank, options.size), engine_(std::move(engine)) {
    if (engine_) start(engine_);
  }
  ~SharedMemoryCommunicator() override {
    stop();
    if (engine_) engine_->leave();
  }

  std::string_view name() const override { return "shared memory"; }

  Tensor allocate(int64_t bytes) override {
    if (!engine_ || bytes <= 0) return Communicator::allocate(bytes);
    std::shared_ptr<std::byte> memory = engine_->allocate(bytes);
    void* const data = memory.get();
    return torch::from_blob(
        data, {bytes}, [memory = std::move(memory)](void*) mutable { memory.reset(); },
        at::kByte);
  }

 private:
  const std::shared_ptr<SharedEngine> engine_;
};

// What a rank tells the others about itself: its host, the name of its socket, and the word that
// whoever connects has to say.
struct Invitation {
  std::string host;
  std::string socket;
  std::string token;

  std::string text() const { return host + " " + socket + " " + token; }
  static Invitation parse(const std::string& text) {
    const std::vector<std::string> words = split(text, ' ');
    if (words.size() != 3) throw internal_error("an invitation reads '" + text + "'");
    return {.host = words[0], .socket = words[1], .token = words[2]};
  }
};

constexpr int64_t kMemories = 8;  // a control page and buffers, each a descriptor

class Meeting {
 public:
  explicit Meeting(const SharedMemoryOptions& options)
      : options_(options), deadline_(steady_clock::now() + options.connect_timeout) {}

  // Nothing when the ranks cannot share memory; then why() says why, on every rank.
  std::shared_ptr<SharedEngine> run() {
    // Three rounds, so that all ranks come to the same answer: who and where everybody is, whether
    // everybody could connect, and only then the connections.
    std::vector<SharedMember> members(static_cast<size_t>(options_.size));
    Invitation own;
    FileDescriptor listener;
    std::string obstacle;
    std::optional<internal::DescriptorClaim> claim;
    try {
      // A socket for each other rank, one to be found by, and memory of its own.
      claim.emplace(options_.size + kMemories, fmt::format("rank {} of {} over shared memory",
                                                           shown(options_.rank), options_.size));
      own = {.host = internal::host_identity(),
             .socket = "muster-" + internal::random_token(),
             .token = internal::random_token()};
      listener = internal::listen_locally(own.socket);
      members[static_cast<size_t>(options_.rank)].control =
          SharedMemory::create(SharedMover::control_bytes(options_.stage_bytes));
    } catch (const Error& error) {
      obstacle = error.message();
      own = {.host = "nowhere", .socket = "-", .token = "-"};
    }
    std::vector<Invitation> invitations;
    for (const std::string& text : exchange("at", own.text())) {
      invitations.push_back(Invitation::parse(text));
    }
    if (obstacle.empty()) obstacle = connect(invitations, &members);
    const std::vector<std::string> obstacles = exchange("obstacle", obstacle);
    for (int r = 0; r < options_.size; ++r) {
      const std::string& other = obstacles[static_cast<size_t>(r)];
      if (other.empty()) continue;
      why_ = fmt::format("rank {}: {}", shown(r), other);
      return nullptr;
    }
    accept(listener, invitations, &members);
    for (int r = 0; r < options_.rank; ++r) {
      SharedMember& member = members[static_cast<size_t>(r)];
      auto reply = internal::receive_parcel(member.socket, remaining());
      if (!reply) throw lost(r);
      adopt(std::move(*reply), own, &member);
    }
    claim->keep();
    return std::make_shared<SharedEngine>(options_.rank, std::move(members), options_.stage_bytes,
                                          options_.timeout, options_.first_shown_rank);
  }
  const std::string& why() const { return why_; }

 private:
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

  // Knocks at every lower rank; returns what is in the way, or nothing. Sockets of Unix connect
  // without the other side's doing.
  std::string connect(const std::vector<Invitation>& invitations,
                      std::vector<SharedMember>* members) {
    const auto rank = static_cast<size_t>(options_.rank);
    for (size_t r = 0; r < invitations.size(); ++r) {
      if (invitations[r].host != invitations[rank].host) {
        return fmt::format("rank {} is not on the same host", shown(static_cast<int>(r)));
      }
    }
    const SharedMemory& control = (*members)[rank].control;
    for (size_t r = 0; r < rank; ++r) {
      try {
        (*members)[r].socket = internal::connect_locally(invitations[r].socket);
      } catch (const Error& error) {
        return fmt::format("no way to rank {}: {}", shown(static_cast<int>(r)), error.message());
      }
      if (!internal::send_parcel((*members)[r].socket, greeting(invitations[r], control),
                                 control.file())) {
        return fmt::format("no way to rank {}: it does not take shared memory",
                           shown(static_cast<int>(r)));
      }
    }
    return {};
  }

  Parcel greeting(const Invitation& invitation, const SharedMemory& control) const {
    return {.rank = options_.rank,
            .token = invitation.token,
            .id = 0,
            .bytes = control.bytes(),
            .file = {}};
  }

  void accept(const FileDescriptor& listener, const std::vector<Invitation>& invitations,
              std::vector<SharedMember>* members) {
    const auto own = static_cast<size_t>(options_.rank);
    for (int missing = options_.size - options_.rank - 1; missing > 0;) {
      auto socket = internal::accept_locally(listener, remaining());
      if (!socket) {
        int absent = options_.rank + 1;
        while ((*members)[static_cast<size_t>(absent)].socket.get() >= 0) ++absent;
        throw lost(absent);
      }
      auto parcel = internal::receive_parcel(*socket, remaining());
      if (!parcel || parcel->token != invitations[own].token) continue;  // a stranger
      const int rank = parcel->rank;
      if (rank <= options_.rank || rank >= options_.size) continue;
      SharedMember& member = (*members)[static_cast<size_t>(rank)];
      member.socket = std::move(*socket);
      adopt(std::move(*parcel), invitations[own], &member);
      const SharedMemory& control = (*members)[own].control;
      if (!internal::send_parcel(member.socket,
                                 greeting(invitations[static_cast<size_t>(rank)], control),
                                 control.file())) {
        throw lost(rank);
      }
      --missing;
    }
  }

  void adopt(Parcel parcel, const Invitation& own, SharedMember* member) const {
    if (parcel.token != own.token) throw lost(parcel.rank);
    const int64_t bytes = SharedMover::control_bytes(options_.stage_bytes);
    if (parcel.bytes != bytes) {
      throw invalid_argument(
          fmt::format("rank {} of {} uses another stage_bytes than rank {} ({}, {} bytes in all)",
                      parcel.rank, options_.size, options_.rank, options_.stage_bytes, bytes),
          "give all ranks the same options");
    }
    member->control = SharedMemory::map(std::move(parcel.file), parcel.bytes);
    member->control.close_file();
  }

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
  std::string why_;
};

void check(const SharedMemoryOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw invalid_argument(
        fmt::format("rank {} is not in a group of {}", options.rank, options.size));
  }
  if (options.stage_bytes < 64 * options.size || options.stage_bytes % 64 != 0) {
    throw invalid_argument(fmt::format(
        "stage_bytes must be a multiple of 64, and 64 for each of {} ranks at least, got {}",
        options.size, options.stage_bytes));
  }
  if (options.timeout <= milliseconds(0) || options.connect_timeout <= milliseconds(0)) {
    throw invalid_argument(fmt::format("time-outs must be positive, got {} ms and {} ms",
                                       options.timeout.count(), options.connect_timeout.count()));
  }
  if (options.size > 1 && options.rendezvous == nullptr) {
    throw invalid_argument(
        fmt::format("a group of {} ranks needs a rendezvous store", options.size));
  }
}

}  // namespace

std::unique_ptr<Communicator> try_shared_memory_communicator(const SharedMemoryOptions& options,
                                                             std::string* why_not) {
  check(options);
  std::shared_ptr<SharedEngine> engine;
  if (options.size > 1) {
    Meeting meeting(options);
    engine = meeting.run();
    if (!engine) {
      *why_not = meeting.why();
      return nullptr;
    }
  }
  return std::make_unique<SharedMemoryCommunicator>(options, std::move(engine));
}

std::unique_ptr<Communicator> make_shared_memory_communicator(const SharedMemoryOptions& options) {
  std::string why_not;
  auto communicator = try_shared_memory_communicator(options, &why_not);
  if (!communicator) {
    throw Error(ErrorKind::kUnavailable, "the ranks cannot share memory: " + why_not,
                "let Muster choose the transport, or use Gloo");
  }
  return communicator;
}

}  // namespace muster::inline v0_1
