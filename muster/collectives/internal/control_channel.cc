#include "muster/collectives/internal/control_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

namespace muster::inline v0_1::internal {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr uint32_t kMagic = 0x4d535452;
constexpr uint32_t kHeaderTag = 0;
constexpr auto kFarewell = milliseconds(1000);   // for peers to say goodbye as well
constexpr auto kLastWords = milliseconds(1000);  // for a failed rank's reason to be read

// Receives of headers are posted for this many operations. A peer is at most one operation ahead,
// and may leave a goodbye after the header of that one.
constexpr uint64_t kHeadersAhead = 4;

}  // namespace

// Headers make differing calls an error instead of a hang. A rank that leaves sends one with the
// reason after it.
struct ControlChannel::Header {
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
constexpr int64_t kMessageBytes = kHeaderBytes + ControlChannel::kMaxInlineBytes;

}  // namespace

struct ControlChannel::Peer {
  struct Inbox {
    AlignedBuffer buffer{kMessageBytes};
    std::unique_ptr<Transfer> transfer{};  // nothing when it was read
  };
  explicit Peer(int rank) : rank(rank) {}

  Inbox& inbox(uint64_t sequence) { return inboxes[sequence % kHeadersAhead]; }
  const Inbox& inbox(uint64_t sequence) const { return inboxes[sequence % kHeadersAhead]; }

  const int rank{};
  // Operation k uses number k % kHeadersAhead. At least those of this operation and the next are
  // posted: a peer that gives up between them can always leave its reason.
  std::array<Inbox, kHeadersAhead> inboxes;
  uint64_t posted = 0;  // receives
};

ControlChannel::Header& ControlChannel::header_in(const AlignedBuffer& buffer) {
  static_assert(sizeof(Header) == kHeaderBytes);
  return *reinterpret_cast<Header*>(buffer.data());
}

ControlChannel::ControlChannel(const Options& options)
    : options_(options),
      link_(std::make_unique<PointToPoint>(options.link)),
      outbox_{AlignedBuffer(kMessageBytes), AlignedBuffer(kMessageBytes)},
      goodbye_(kMessageBytes) {
  for (int r = 0; r < options.link.size; ++r) {
    if (r == options.link.rank) continue;
    peers_.push_back(std::make_unique<Peer>(r));
    peer_ranks_.push_back(r);
  }
  post_header_receives();
}

ControlChannel::~ControlChannel() = default;

uint32_t ControlChannel::payload_tag(const Operation& operation, int phase) const {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint64_t part :
       {operation.sequence, static_cast<uint64_t>(operation.kind),
        static_cast<uint64_t>(operation.type), static_cast<uint64_t>(operation.count),
        static_cast<uint64_t>(operation.root), static_cast<uint64_t>(options_.segment_bytes)}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return static_cast<uint32_t>(hash & 0x0fffffff) * 2 + static_cast<uint32_t>(phase);
}

void ControlChannel::interrupt(const Error& error) {
  const std::lock_guard lock(mutex_);
  interrupted_ = error;
  if (link_) link_->wake();
}

void ControlChannel::check_interrupted(int peer, const Operation& operation) {
  const std::lock_guard lock(mutex_);
  if (!interrupted_) return;
  throw Error(interrupted_->kind(),
              fmt::format("{} was aborted while waiting for rank {}: {}", place(operation),
                          shown(peer), interrupted_->message()));
}

void ControlChannel::wait(const Transfer& transfer, int peer, const Operation& operation) {
  wait_in(Lane::kBulk, transfer, peer, operation);
}

void ControlChannel::wait_in(Lane lane, const Transfer& transfer, int peer,
                             const Operation& operation) {
  for (;;) {
    check_interrupted(peer, operation);
    switch (link_->wait(transfer, peer, lane, deadline_)) {
      case PointToPoint::End::kDone:
        return;
      case PointToPoint::End::kWoken:
        continue;
      case PointToPoint::End::kLost:
      case PointToPoint::End::kTimeout:
        check_interrupted(peer, operation);
        diagnose(peer, operation);
    }
  }
}

void ControlChannel::post_header_receives() {
  for (const auto& peer : peers_) {
    while (peer->posted < sequence_ + kHeadersAhead) {
      Peer::Inbox& inbox = peer->inbox(peer->posted + 1);
      inbox.transfer = link_->receive(peer->rank, Lane::kControl, inbox.buffer.data(),
                                      kMessageBytes, kHeaderTag);
      ++peer->posted;
    }
  }
}

Error ControlChannel::left(int peer, const AlignedBuffer& inbox, const Operation& operation) const {
  const auto bytes = std::min<int64_t>(header_in(inbox).text_bytes, kMaxInlineBytes);
  return Error(
      ErrorKind::kPeerLost,
      fmt::format("{}: rank {} left the group: {}", place(operation), shown(peer),
                  std::string(reinterpret_cast<const char*>(inbox.data() + kHeaderBytes), bytes)));
}

// Throws PeerLost when `peer` has left a reason.
void ControlChannel::check_for_goodbye(const Peer& peer, const Operation& operation) const {
  for (const uint64_t sequence : {operation.sequence, operation.sequence + 1}) {
    const Peer::Inbox& inbox = peer.inbox(sequence);
    if (inbox.transfer && inbox.transfer->done() && header_in(inbox.buffer).goodbye != 0)
      throw left(peer.rank, inbox.buffer, operation);
  }
}

// The peers whose connections are dead. Throws PeerLost if one of them has left a reason.
std::vector<int> ControlChannel::find_lost(const Operation& operation) {
  link_->look();
  std::vector<int> lost;
  for (const auto& other : peers_) {
    if (!link_->why_lost(other->rank)) continue;
    check_for_goodbye(*other, operation);
    lost.push_back(other->rank);
  }
  return lost;
}

// Nothing came from `peer` in time, or the connection to it is gone. The peer may only be the
// messenger: it closes its connections when it lost another one, and says so first. So every dead
// connection is searched for such a message.
void ControlChannel::diagnose(int peer, const Operation& operation) {
  std::vector<int> lost = find_lost(operation);
  const std::optional<std::string> why = link_->why_lost(peer);
  if (!why) {
    throw Error(ErrorKind::kTimeout,
                fmt::format("{}: nothing came from rank {} within {} ms", place(operation),
                            shown(peer), options_.timeout.count()),
                "see what that task was doing; a longer time-out only helps when it was busy");
  }
  std::string message =
      fmt::format("{}: lost the connection to rank {}", place(operation), shown(peer));
  std::erase(lost, peer);
  for (int& other : lost) other = shown(other);
  if (!lost.empty()) message += fmt::format(" (and to rank {})", fmt::join(lost, ", "));
  throw Error(ErrorKind::kPeerLost, message + ": " + *why,
              "see the output of that task for why it ended");
}

bool ControlChannel::is_inlined(const Operation& operation) const {
  const int64_t most =
      operation.kind == OperationKind::kAllReduce ? inline_sum_bytes_ : options_.inline_bytes;
  return operation.contributed_bytes(options_.link.size) <= most;
}

std::string ControlChannel::place(const Operation& operation) const {
  return fmt::format("{} on rank {} of {}", operation.describe(), shown(options_.link.rank),
                     options_.link.size);
}

ControlChannel::Peer& ControlChannel::peer(int rank) const {
  return *peers_[static_cast<size_t>(rank < options_.link.rank ? rank : rank - 1)];
}

const std::byte* ControlChannel::payload(int rank, const Operation& operation) const {
  return peer(rank).inbox(operation.sequence).buffer.data() + kHeaderBytes;
}

Transfer& ControlChannel::send(int peer, const std::byte* data, int64_t bytes, uint32_t tag) {
  return *payloads_.emplace_back(link_->send(peer, Lane::kBulk, data, bytes, tag));
}

Transfer& ControlChannel::receive(int peer, std::byte* data, int64_t bytes, uint32_t tag) {
  return *payloads_.emplace_back(link_->receive(peer, Lane::kBulk, data, bytes, tag));
}

void ControlChannel::send_headers(const Operation& operation, int64_t payload_bytes) {
  const AlignedBuffer& outbox = outbox_[operation.sequence % 2];
  header_in(outbox) = {.kind = static_cast<uint8_t>(operation.kind),
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
    header_sends_.push_back(link_->send(peer->rank, Lane::kControl, outbox.data(),
                                        kHeaderBytes + payload_bytes, kHeaderTag));
  }
}

void ControlChannel::receive_headers(const Operation& operation) {
  for (const auto& peer : peers_) {
    std::unique_ptr<Transfer>& transfer = peer->inbox(operation.sequence).transfer;
    wait_in(Lane::kControl, *transfer, peer->rank, operation);
    transfer.reset();
    check_header(operation, *peer);
  }
}

void ControlChannel::check_header(const Operation& operation, const Peer& peer) const {
  const AlignedBuffer& inbox = peer.inbox(operation.sequence).buffer;
  const Header header = header_in(inbox);
  if (header.magic != kMagic) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: rank {} speaks another protocol", place(operation), shown(peer.rank)),
        "run the same version of the program everywhere");
  }
  if (header.goodbye != 0) throw left(peer.rank, inbox, operation);
  const Operation theirs{.kind = static_cast<OperationKind>(header.kind),
                         .type = static_cast<ElementType>(header.type),
                         .root = header.root,
                         .count = header.count,
                         .sequence = header.sequence};
  if (!operation.matches(theirs)) {
    throw mismatch(shown(options_.link.rank), operation, shown(peer.rank), theirs);
  }
  if ((header.inlined != 0) != is_inlined(operation) || header.segment != options_.segment_bytes) {
    throw invalid_argument(
        fmt::format("{}: rank {} uses other segment_bytes ({}, here {}) or inline_bytes",
                    place(operation), shown(peer.rank), header.segment, options_.segment_bytes));
  }
}

void ControlChannel::run(const Operation& operation, const std::function<void()>& algorithm) {
  deadline_ = steady_clock::now() + options_.timeout;
  const struct Clear {
    ControlChannel& self;
    ~Clear() {
      self.header_sends_.clear();
      self.payloads_.clear();
    }
  } clear{*this};
  sequence_ = operation.sequence;
  try {
    algorithm();
    for (size_t i = 0; i < header_sends_.size(); ++i) {
      wait_in(Lane::kControl, *header_sends_[i], peer_ranks_[i], operation);
    }
  } catch (const Error& error) {
    // Headers still on their way stay: from them the peers learn the difference.
    std::move(header_sends_.begin(), header_sends_.end(), std::back_inserter(goodbye_sends_));
    header_sends_.clear();
    send_goodbyes(error.message());
    throw;
  }
  post_header_receives();
}

// Tells the peers why this rank leaves, so that their message names the first cause.
void ControlChannel::send_goodbyes(const std::string& reason) {
  if (std::exchange(sent_goodbyes_, true)) return;
  const auto bytes = std::min<int64_t>(static_cast<int64_t>(reason.size()), kMaxInlineBytes);
  header_in(goodbye_) = {.goodbye = 1, .text_bytes = static_cast<uint32_t>(bytes)};
  std::memcpy(goodbye_.data() + kHeaderBytes, reason.data(), static_cast<size_t>(bytes));
  for (const auto& peer : peers_) {
    goodbye_sends_.push_back(
        link_->send(peer->rank, Lane::kControl, goodbye_.data(), kHeaderBytes + bytes, kHeaderTag));
  }
}

// Leaves the group. Without the wait for the peers' farewell the kernel may reset connections that
// still carry the last operation.
void ControlChannel::finish(const Error* error) {
  send_goodbyes(error == nullptr ? "its communicator was closed" : error->message());
  const auto end = steady_clock::now() + (error == nullptr ? kFarewell : kLastWords);
  // A peer that does not listen is not waited for any longer than all others.
  const auto wait = [&](const Transfer& transfer, int peer) {
    while (link_->wait(transfer, peer, Lane::kControl, end) == PointToPoint::End::kWoken) {
    }
  };
  for (size_t i = 0; i < goodbye_sends_.size(); ++i) {
    wait(*goodbye_sends_[i], peer_ranks_[i % peer_ranks_.size()]);
  }
  for (const auto& peer : peers_) {
    const auto& next = peer->inbox(sequence_ + 1).transfer;
    // A peer that has read our reason sends a goodbye too, or has left already.
    if (next) wait(*next, peer->rank);
  }
  // Let peers read the reason before closing resets the connection.
  if (error != nullptr) std::this_thread::sleep_for(milliseconds(50));
  goodbye_sends_.clear();
  for (const auto& peer : peers_) {
    for (Peer::Inbox& inbox : peer->inboxes) inbox.transfer.reset();
  }
  const std::lock_guard lock(mutex_);
  link_.reset();
}

}  // namespace muster::inline v0_1::internal
