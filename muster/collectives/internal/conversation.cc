#include "muster/collectives/internal/conversation.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::inline v0_1::internal {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr uint32_t kMagic = 0x4d535452;
constexpr uint32_t kHeaderTag = 0;
constexpr auto kWatch = milliseconds(500);       // how often a long wait is looked into
constexpr auto kFarewell = milliseconds(1000);   // for peers to say goodbye as well
constexpr auto kLastWords = milliseconds(1000);  // for a failed rank's reason to be read

// A write to a dead peer's socket is an error to report, not a signal that ends the process.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocked() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    sigset_t pending;
    const timespec now{};
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1) {
      sigtimedwait(&pipe_, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

}  // namespace

AlignedBuffer::AlignedBuffer(int64_t bytes)
    : data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
  if (!data_) throw Error(ErrorKind::kUnavailable, fmt::format("no memory for {} bytes", bytes));
  std::memset(data_.get(), 0, bytes);
}

// Every operation starts with one of these to every peer; small operations carry their payload
// behind it. It is what makes differing calls an error instead of a hang. A rank that leaves sends
// one with the reason behind it.
struct Conversation::Header {
  uint32_t magic = kMagic;
  uint8_t goodbye = 0;
  uint8_t kind = 0;
  uint8_t type = 0;
  uint8_t inlined = 0;
  uint64_t sequence = 0;
  int64_t count = 0;
  int64_t segment = 0;
  int32_t root = 0;
  uint32_t text_bytes = 0;
  uint8_t unused[24] = {};
};

namespace {

constexpr int64_t kHeaderBytes = 64;
constexpr int64_t kMessageBytes = kHeaderBytes + Conversation::kMaxInlineBytes;

}  // namespace

struct Conversation::Peer {
  int rank = 0;
  std::array<AlignedBuffer, 2> inbox{AlignedBuffer(kMessageBytes), AlignedBuffer(kMessageBytes)};
  // Operation k uses number k % 2. The headers of this operation and the next are asked for
  // beforehand: a peer that gives up between them can always leave its reason.
  std::array<std::unique_ptr<Transfer>, 2> header;
};

Conversation::Header& Conversation::header_of(const AlignedBuffer& buffer) const {
  static_assert(sizeof(Header) == kHeaderBytes);
  return *reinterpret_cast<Header*>(buffer.data());
}

Conversation::Conversation(const Options& options)
    : options_(options),
      outbox_{AlignedBuffer(kMessageBytes), AlignedBuffer(kMessageBytes)},
      goodbye_(kMessageBytes) {
  const SigpipeBlocked no_sigpipe;  // threads inherit it
  link_ = std::make_unique<PointToPoint>(options.link);
  for (int r = 0; r < options.link.size; ++r) {
    if (r == options.link.rank) continue;
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->rank = r;
    peer_ranks_.push_back(r);
  }
  for (const auto& peer : peers_) {
    try {
      ask_for_header(*peer, 1);
      ask_for_header(*peer, 2);
    } catch (const std::exception&) {
      // The peer left already; the first operation will tell.
    }
  }
  watch_ = std::thread([this] { watch(); });
}

Conversation::~Conversation() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    closed_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
}

// The numbers of announcements are 0, those of probes that no message ever uses lie apart too.
uint32_t Conversation::payload_tag(const Operation& operation, int phase) const {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint64_t part :
       {operation.sequence, static_cast<uint64_t>(operation.kind),
        static_cast<uint64_t>(operation.type), static_cast<uint64_t>(operation.count),
        static_cast<uint64_t>(operation.root),
        static_cast<uint64_t>(phase < 0 ? -1 : options_.segment_bytes)}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return (static_cast<uint32_t>(hash & 0x0fffffff) + 1) * 2 +
         static_cast<uint32_t>(std::max(phase, 0));
}

// Gloo forgets a message whose very first write finds the connection broken, and would let us wait
// for it until the time-out.
void Conversation::watch() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (!closed_.wait_for(lock, kWatch, [&] { return closing_; })) {
    if (current_ != nullptr && waits_ == seen &&
        !link_->connected(current_peer_, payload_tag({}, -1))) {
      lost_ = true;
      current_->abort();
    }
    seen = waits_;
  }
}

void Conversation::interrupt(const Error& error) {
  const std::lock_guard lock(mutex_);
  interrupted_ = error;
  if (current_ != nullptr) current_->abort();
}

void Conversation::await(Transfer& transfer, int peer, const Operation& operation) {
  const auto check_interrupted = [&] {
    if (interrupted_) {
      throw Error(interrupted_->kind(),
                  fmt::format("{} was aborted while waiting for rank {}: {}", place(operation),
                              shown(peer), interrupted_->message()));
    }
  };
  {
    const std::lock_guard lock(mutex_);
    check_interrupted();
    current_ = &transfer;
    current_peer_ = peer;
    ++waits_;
    lost_ = false;
  }
  std::optional<std::string> what;
  bool complete = false;
  try {
    complete = transfer.wait(std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now()));
  } catch (const std::exception& error) {
    what = error.what();
  }
  {
    const std::lock_guard lock(mutex_);
    current_ = nullptr;
    check_interrupted();
    if (!complete && !what && lost_) what = "the connection is closed";
  }
  if (what) diagnose(peer, operation, *what);
  if (!complete) throw internal_error(place(operation) + ": a wait ended without a reason");
}

void Conversation::ask_for_header(Peer& peer, uint64_t sequence) {
  std::unique_ptr<Transfer>& header = peer.header[sequence % 2];
  if (header) return;
  header = link_->receive(peer.rank, peer.inbox[sequence % 2].data(), kMessageBytes, kHeaderTag);
}

Error Conversation::left(int peer, const AlignedBuffer& inbox, const Operation& operation) const {
  const auto bytes = std::min<int64_t>(header_of(inbox).text_bytes, kMaxInlineBytes);
  return Error(
      ErrorKind::kPeerLost,
      fmt::format("{}: rank {} left the group: {}", place(operation), shown(peer),
                  std::string(reinterpret_cast<const char*>(inbox.data() + kHeaderBytes), bytes)));
}

// Something went wrong between this rank and `peer`. The peer may only be the messenger: it closes
// its connections when it lost another one, and says so first. Look at every dead connection for
// such a message.
void Conversation::diagnose(int peer, const Operation& operation, const std::string& what) {
  const bool late = steady_clock::now() >= deadline_;
  std::vector<int> lost;
  for (const auto& other : peers_) {
    std::byte probe{};
    try {
      link_->receive(other->rank, &probe, 1, payload_tag(operation, -1));
      continue;  // this connection lives
    } catch (const std::exception&) {
    }
    try {
      for (const uint64_t sequence : {operation.sequence, operation.sequence + 1}) {
        const auto& header = other->header[sequence % 2];
        if (header && header->wait(milliseconds(1)) &&
            header_of(other->inbox[sequence % 2]).goodbye != 0) {
          throw left(other->rank, other->inbox[sequence % 2], operation);
        }
      }
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {
      lost.push_back(other->rank);
    }
  }
  if (late) {
    throw Error(ErrorKind::kTimeout,
                fmt::format("{}: nothing came from rank {} within {} ms", place(operation),
                            shown(peer), options_.timeout.count()),
                "see what that task was doing; a longer time-out only helps when it was busy");
  }
  // A failed post does not say whose connection it was.
  if (!lost.empty() && std::ranges::find(lost, peer) == lost.end()) {
    peer = lost.front();
  }
  std::string message =
      fmt::format("{}: lost the connection to rank {}", place(operation), shown(peer));
  std::erase(lost, peer);
  for (int& other : lost) other = shown(other);
  if (!lost.empty()) message += fmt::format(" (and to rank {})", fmt::join(lost, ", "));
  throw Error(ErrorKind::kPeerLost, message + ": " + what,
              "see the output of that task for why it ended");
}

bool Conversation::is_inlined(const Operation& operation) const {
  const int64_t most =
      operation.kind == OperationKind::kAllReduce ? inline_sum_bytes_ : options_.inline_bytes;
  return operation.contributed_bytes(options_.link.size) <= most;
}

std::string Conversation::place(const Operation& operation) const {
  return fmt::format("{} on rank {} of {}", operation.describe(), shown(options_.link.rank),
                     options_.link.size);
}

Conversation::Peer& Conversation::peer(int rank) const {
  return *peers_[static_cast<size_t>(rank < options_.link.rank ? rank : rank - 1)];
}

const std::byte* Conversation::payload(int rank, const Operation& operation) const {
  return peer(rank).inbox[operation.sequence % 2].data() + kHeaderBytes;
}

Transfer& Conversation::send(int peer, const std::byte* data, int64_t bytes, uint32_t tag) {
  return *posted_.emplace_back(link_->send(peer, data, bytes, tag));
}

Transfer& Conversation::receive(int peer, std::byte* data, int64_t bytes, uint32_t tag) {
  return *posted_.emplace_back(link_->receive(peer, data, bytes, tag));
}

void Conversation::announce(const Operation& operation, int64_t payload_bytes) {
  const AlignedBuffer& outbox = outbox_[operation.sequence % 2];
  header_of(outbox) = {.kind = static_cast<uint8_t>(operation.kind),
                       .type = static_cast<uint8_t>(operation.type),
                       .inlined = is_inlined(operation),
                       .sequence = operation.sequence,
                       .count = operation.count,
                       .segment = options_.segment_bytes,
                       .root = operation.root};
  if (payload_bytes > 0) {
    std::memcpy(outbox.data() + kHeaderBytes, operation.data, static_cast<size_t>(payload_bytes));
  }
  for (const auto& peer : peers_) {
    try {
      header_sends_.push_back(
          link_->send(peer->rank, outbox.data(), kHeaderBytes + payload_bytes, kHeaderTag));
    } catch (const std::exception& error) {
      diagnose(peer->rank, operation, error.what());
    }
  }
}

void Conversation::compare(const Operation& operation) {
  for (const auto& peer : peers_) {
    await(*peer->header[operation.sequence % 2], peer->rank, operation);
    peer->header[operation.sequence % 2].reset();
    const AlignedBuffer& inbox = peer->inbox[operation.sequence % 2];
    const Header header = header_of(inbox);
    if (header.magic != kMagic) {
      throw Error(
          ErrorKind::kCorrupt,
          fmt::format("{}: rank {} speaks another protocol", place(operation), shown(peer->rank)),
          "run the same version of the program everywhere");
    }
    if (header.goodbye != 0) throw left(peer->rank, inbox, operation);
    const Operation theirs{.kind = static_cast<OperationKind>(header.kind),
                           .type = static_cast<ElementType>(header.type),
                           .root = header.root,
                           .count = header.count,
                           .sequence = header.sequence};
    if (!operation.matches(theirs)) {
      throw mismatch(shown(options_.link.rank), operation, shown(peer->rank), theirs);
    }
    if ((header.inlined != 0) != is_inlined(operation) ||
        header.segment != options_.segment_bytes) {
      throw invalid_argument(
          fmt::format("{}: rank {} uses other segment_bytes ({}, here {}) or inline_bytes",
                      place(operation), shown(peer->rank), header.segment, options_.segment_bytes));
    }
  }
}

void Conversation::run_guarded(const Operation& operation, const std::function<void()>& algorithm) {
  for (const auto& peer : peers_) {
    try {
      ask_for_header(*peer, sequence_);
    } catch (const std::exception& error) {
      diagnose(peer->rank, operation, error.what());
    }
  }
  try {
    algorithm();
    for (size_t i = 0; i < header_sends_.size(); ++i) {
      await(*header_sends_[i], peer_ranks_[i], operation);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // posting a message failed: some connection is gone
    diagnose(peer_ranks_.front(), operation, error.what());
  }
}

void Conversation::run(const Operation& operation, const std::function<void()>& algorithm) {
  const SigpipeBlocked no_sigpipe;  // the caller's thread may be executing
  deadline_ = steady_clock::now() + options_.timeout;
  const struct Clear {
    Conversation& self;
    ~Clear() {
      self.header_sends_.clear();
      self.posted_.clear();
    }
  } clear{*this};
  sequence_ = operation.sequence;
  try {
    run_guarded(operation, algorithm);
  } catch (const Error& error) {
    // Before the operation's messages are withdrawn: what the peer then asks for would block the
    // connection for good. Headers still on their way stay: from them the peers learn what differs.
    std::move(header_sends_.begin(), header_sends_.end(), std::back_inserter(goodbyes_));
    header_sends_.clear();
    say_goodbye(error.message());
    throw;
  }
  for (const auto& peer : peers_) {
    try {
      ask_for_header(*peer, sequence_ + 2);
    } catch (const std::exception&) {
      // The peer left after its part in this operation; the next one will tell.
    }
  }
}

// Tells the peers why this rank leaves, so that their message names the first cause.
void Conversation::say_goodbye(const std::string& reason) {
  if (std::exchange(said_goodbye_, true)) return;
  const auto bytes = std::min<int64_t>(reason.size(), kMaxInlineBytes);
  header_of(goodbye_) = {.goodbye = 1, .text_bytes = static_cast<uint32_t>(bytes)};
  std::memcpy(goodbye_.data() + kHeaderBytes, reason.data(), static_cast<size_t>(bytes));
  for (const auto& peer : peers_) {
    try {
      goodbyes_.push_back(
          link_->send(peer->rank, goodbye_.data(), kHeaderBytes + bytes, kHeaderTag));
    } catch (const std::exception&) {
      // That peer is gone and needs no reason.
    }
  }
}

// Leaves the group. Without the wait for the peers' farewell the kernel may reset connections that
// still carry the last operation.
void Conversation::finish(const Error* error) {
  const SigpipeBlocked no_sigpipe;
  say_goodbye(error == nullptr ? "its communicator was closed" : error->message());
  const auto end = steady_clock::now() + (error == nullptr ? kFarewell : kLastWords);
  const auto remaining = [&] {
    return std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
  };
  try {
    for (const auto& send : goodbyes_) send->wait(remaining());
    for (const auto& peer : peers_) {
      const auto& header = peer->header[(sequence_ + 1) % 2];
      // A peer that has read our reason says goodbye too, or has left already.
      if (header) header->wait(remaining());
    }
  } catch (const std::exception&) {
    // A peer that does not listen is not waited for any longer.
  }
  // Let peers read the reason before closing resets the connection.
  if (error != nullptr) std::this_thread::sleep_for(milliseconds(50));
  goodbyes_.clear();
  for (const auto& peer : peers_) peer->header = {};
  link_.reset();
}

}  // namespace muster::inline v0_1::internal
