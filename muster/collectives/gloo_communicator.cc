#include "muster/collectives/gloo_communicator.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/strings.h"
#include "muster/collectives/internal/address.h"
#include "muster/collectives/internal/point_to_point.h"
#include "muster/collectives/internal/sum.h"
#include "muster/collectives/internal/tensor_communicator.h"
#include "muster/plan/exchange.h"

namespace muster::inline v0_1 {
namespace {

using internal::Operation;
using internal::OperationKind;
using internal::Transfer;
using plan::Range;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint32_t kMagic = 0x4d535452;
constexpr int64_t kMaxInlineBytes = 16 * 1024;
constexpr uint32_t kHeaderTag = 0;
constexpr int64_t kWindow = 4;              // segments of one peer that may be on their way at once
constexpr auto kWatch = milliseconds(500);  // how often a long wait is looked into
constexpr auto kFarewell = milliseconds(1000);   // for peers to say goodbye as well
constexpr auto kLastWords = milliseconds(1000);  // for a failed rank's reason to be read

// Every operation starts with one of these to every peer; small operations carry their payload
// behind it. It is what makes differing calls an error instead of a hang. A rank that leaves sends
// one with the reason behind it.
struct Header {
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
static_assert(sizeof(Header) == 64);
constexpr int64_t kHeaderBytes = sizeof(Header);

class Buffer {
 public:
  explicit Buffer(int64_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
    if (!data_) throw Error(ErrorKind::kUnavailable, fmt::format("no memory for {} bytes", bytes));
    std::memset(data_.get(), 0, bytes);
  }
  std::byte* data() const { return data_.get(); }
  Header& header() const { return *reinterpret_cast<Header*>(data_.get()); }
  std::byte* payload() const { return data_.get() + kHeaderBytes; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

// Differs, but for one chance in 2^28, when two ranks are in different operations: payloads then
// never meet a buffer of another size before the headers tell.
uint32_t payload_tag(const Operation& operation, int64_t segment, int phase) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint64_t part :
       {operation.sequence, static_cast<uint64_t>(operation.kind),
        static_cast<uint64_t>(operation.type), static_cast<uint64_t>(operation.count),
        static_cast<uint64_t>(operation.root), static_cast<uint64_t>(segment)}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return (static_cast<uint32_t>(hash & 0x0fffffff) + 1) * 2 + static_cast<uint32_t>(phase);
}

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

class GlooCommunicator final : public internal::TensorCommunicator {
 public:
  explicit GlooCommunicator(const GlooOptions& options);
  ~GlooCommunicator() override;

  std::string_view name() const override { return "gloo"; }

 private:
  struct Peer {
    int rank = 0;
    std::array<Buffer, 2> inbox{Buffer(kHeaderBytes + kMaxInlineBytes),
                                Buffer(kHeaderBytes + kMaxInlineBytes)};
    // Operation k uses number k % 2. The headers of this operation and the next are asked for
    // beforehand: a peer that gives up between them can always leave its reason.
    std::array<std::unique_ptr<Transfer>, 2> header;
  };
  using Transfers = std::vector<std::unique_ptr<Transfer>>;

  void execute(const Operation& operation);
  void run_guarded(const Operation& operation);
  void say_goodbye(const std::string& reason);
  void finish(const Error* error);
  void interrupt(const Error& error) override;
  void watch();

  void await(Transfer& transfer, int peer, const Operation& operation);
  void await_all(Transfers& transfers, const std::vector<int>& peers, const Operation& operation);
  // Does nothing when it is asked for already. Throws some std::exception when the connection is
  // gone.
  void ask_for_header(Peer& peer, uint64_t sequence);
  // Exchanges headers with everybody; throws when a peer is in another operation or has left.
  // `payload` may be empty.
  void send_headers(const Operation& operation, bool inlined, int64_t payload_bytes);
  void receive_headers(const Operation& operation, bool inlined);
  void inline_operation(const Operation& operation);
  void run_all_reduce(const Operation& operation);
  void run_broadcast(const Operation& operation);
  void run_all_gather(const Operation& operation);

  std::string place(const Operation& operation) const {
    return fmt::format("{} on rank {} of {}", operation.describe(), rank(), size());
  }
  Error left(int peer, const Buffer& inbox, const Operation& operation) const;
  [[noreturn]] void diagnose(int peer, const Operation& operation, const std::string& what);

  const GlooOptions options_;
  std::unique_ptr<internal::PointToPoint> link_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<int> peer_ranks_;
  std::array<Buffer, 2> outbox_{Buffer(kHeaderBytes + kMaxInlineBytes),
                                Buffer(kHeaderBytes + kMaxInlineBytes)};
  Buffer goodbye_{kHeaderBytes + kMaxInlineBytes};
  Transfers goodbyes_;
  bool said_goodbye_ = false;
  std::optional<Buffer> scratch_;  // segments on their way in
  int64_t scratch_bytes_ = 0;
  // Transfers of the running operation; destroyed before its Work is done, so that no buffer is
  // touched afterwards.
  Transfers header_sends_, sends_, receives_, gathers_;
  steady_clock::time_point deadline_;
  uint64_t sequence_ = 0;  // of the running operation, or the last one

  std::mutex mutex_;
  Transfer* current_ = nullptr;  // what is waited for, and from whom
  int current_peer_ = 0;
  uint64_t waits_ = 0;  // so far
  bool lost_ = false;   // the connection to current_peer_ is gone
  bool closing_ = false;
  std::condition_variable closed_;
  std::thread watch_;
  std::optional<Error> interrupted_;
};

GlooCommunicator::GlooCommunicator(const GlooOptions& options)
    : TensorCommunicator(options.rank, options.size), options_(options) {
  if (options.inline_bytes < 0 || options.inline_bytes > kMaxInlineBytes ||
      options.segment_bytes < 8) {
    throw invalid_argument(
        fmt::format("inline_bytes must be 0 to {} and segment_bytes at least 8, got {} and {}",
                    kMaxInlineBytes, options.inline_bytes, options.segment_bytes));
  }
  if (options.timeout <= milliseconds(0) || options.connect_timeout <= milliseconds(0)) {
    throw invalid_argument(fmt::format("time-outs must be positive, got {} ms and {} ms",
                                       options.timeout.count(), options.connect_timeout.count()));
  }
  if (size() == 1) return;
  if (options.rendezvous == nullptr) {
    throw invalid_argument(fmt::format("a group of {} ranks needs a rendezvous store", size()));
  }
  const SigpipeBlocked no_sigpipe;  // threads inherit it
  link_ = std::make_unique<internal::PointToPoint>(
      internal::PointToPointOptions{.store = options.rendezvous,
                                    .rank = rank(),
                                    .size = size(),
                                    .address = internal::local_address(options.address),
                                    .prefix = "collectives/" + options.group + "/",
                                    .timeout = options.connect_timeout});
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
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
  start({.execute = [this](const Operation& operation) { execute(operation); },
         .finish = [this](const Error* error) { finish(error); }});
  watch_ = std::thread([this] { watch(); });
}

GlooCommunicator::~GlooCommunicator() {
  stop();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    closed_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
}

// Gloo forgets a message whose very first write finds the connection broken, and would let us wait
// for it until the time-out.
void GlooCommunicator::watch() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (!closed_.wait_for(lock, kWatch, [&] { return closing_; })) {
    if (current_ != nullptr && waits_ == seen &&
        !link_->connected(current_peer_, payload_tag({}, -1, 0))) {
      lost_ = true;
      current_->abort();
    }
    seen = waits_;
  }
}

void GlooCommunicator::interrupt(const Error& error) {
  const std::lock_guard lock(mutex_);
  interrupted_ = error;
  if (current_ != nullptr) current_->abort();
}

void GlooCommunicator::await(Transfer& transfer, int peer, const Operation& operation) {
  const auto check_interrupted = [&] {
    if (interrupted_) {
      throw Error(interrupted_->kind(),
                  fmt::format("{} was aborted while waiting for rank {}: {}", place(operation),
                              peer, interrupted_->message()));
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

void GlooCommunicator::await_all(Transfers& transfers, const std::vector<int>& peers,
                                 const Operation& operation) {
  for (size_t i = 0; i < transfers.size(); ++i) {
    if (transfers[i]) await(*transfers[i], peers[i % peers.size()], operation);
  }
}

void GlooCommunicator::ask_for_header(Peer& peer, uint64_t sequence) {
  std::unique_ptr<Transfer>& header = peer.header[sequence % 2];
  if (header) return;
  header = link_->receive(peer.rank, peer.inbox[sequence % 2].data(),
                          kHeaderBytes + kMaxInlineBytes, kHeaderTag);
}

Error GlooCommunicator::left(int peer, const Buffer& inbox, const Operation& operation) const {
  const auto bytes = std::min<int64_t>(inbox.header().text_bytes, kMaxInlineBytes);
  return Error(ErrorKind::kPeerLost,
               fmt::format("{}: rank {} left the group: {}", place(operation), peer,
                           std::string(reinterpret_cast<const char*>(inbox.payload()), bytes)));
}

// Something went wrong between this rank and `peer`. The peer may only be the messenger: it closes
// its connections when it lost another one, and says so first. Look at every dead connection for
// such a message.
void GlooCommunicator::diagnose(int peer, const Operation& operation, const std::string& what) {
  const bool late = steady_clock::now() >= deadline_;
  std::vector<std::string> lost;
  for (const auto& other : peers_) {
    std::byte probe{};
    try {
      link_->receive(other->rank, &probe, 1, payload_tag(operation, -1, 0));
      continue;  // this connection lives
    } catch (const std::exception&) {
    }
    try {
      for (const uint64_t sequence : {operation.sequence, operation.sequence + 1}) {
        const auto& header = other->header[sequence % 2];
        if (header && header->wait(milliseconds(1)) &&
            other->inbox[sequence % 2].header().goodbye != 0) {
          throw left(other->rank, other->inbox[sequence % 2], operation);
        }
      }
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {
      lost.push_back(std::to_string(other->rank));
    }
  }
  if (late) {
    throw Error(ErrorKind::kTimeout,
                fmt::format("{}: nothing came from rank {} within {} ms", place(operation), peer,
                            options_.timeout.count()),
                "see what that task was doing; a longer time-out only helps when it was busy");
  }
  // A failed post does not say whose connection it was.
  if (!lost.empty() && std::ranges::find(lost, std::to_string(peer)) == lost.end()) {
    peer = std::stoi(lost.front());
  }
  std::string message = fmt::format("{}: lost the connection to rank {}", place(operation), peer);
  std::erase(lost, std::to_string(peer));
  if (!lost.empty()) message += " (and to rank " + join(lost, ", ") + ")";
  throw Error(ErrorKind::kPeerLost, message + ": " + what,
              "see the output of that task for why it ended");
}

void GlooCommunicator::send_headers(const Operation& operation, bool inlined,
                                    int64_t payload_bytes) {
  Buffer& outbox = outbox_[operation.sequence % 2];
  outbox.header() = {.kind = static_cast<uint8_t>(operation.kind),
                     .type = static_cast<uint8_t>(operation.type),
                     .inlined = inlined,
                     .sequence = operation.sequence,
                     .count = operation.count,
                     .segment = options_.segment_bytes,
                     .root = operation.root};
  if (payload_bytes > 0) std::memcpy(outbox.payload(), operation.data, payload_bytes);
  for (const auto& peer : peers_) {
    try {
      header_sends_.push_back(
          link_->send(peer->rank, outbox.data(), kHeaderBytes + payload_bytes, kHeaderTag));
    } catch (const std::exception& error) {
      diagnose(peer->rank, operation, error.what());
    }
  }
}

void GlooCommunicator::receive_headers(const Operation& operation, bool inlined) {
  for (const auto& peer : peers_) {
    await(*peer->header[operation.sequence % 2], peer->rank, operation);
    peer->header[operation.sequence % 2].reset();
    const Buffer& inbox = peer->inbox[operation.sequence % 2];
    const Header header = inbox.header();
    if (header.magic != kMagic) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: rank {} speaks another protocol", place(operation), peer->rank),
                  "run the same version of the program everywhere");
    }
    if (header.goodbye != 0) throw left(peer->rank, inbox, operation);
    const Operation theirs{.kind = static_cast<OperationKind>(header.kind),
                           .type = static_cast<internal::ElementType>(header.type),
                           .root = header.root,
                           .count = header.count,
                           .sequence = header.sequence};
    if (!operation.matches(theirs)) throw internal::mismatch(rank(), operation, peer->rank, theirs);
    if ((header.inlined != 0) != inlined || header.segment != options_.segment_bytes) {
      throw invalid_argument(
          fmt::format("{}: rank {} uses other segment_bytes ({}, here {}) or inline_bytes",
                      place(operation), peer->rank, header.segment, options_.segment_bytes));
    }
  }
}

void GlooCommunicator::run_guarded(const Operation& operation) {
  for (const auto& peer : peers_) {
    try {
      ask_for_header(*peer, sequence_);
    } catch (const std::exception& error) {
      diagnose(peer->rank, operation, error.what());
    }
  }
  try {
    if (operation.bytes() <= options_.inline_bytes) {
      inline_operation(operation);
    } else if (operation.kind == OperationKind::kAllReduce) {
      run_all_reduce(operation);
    } else if (operation.kind == OperationKind::kBroadcast) {
      run_broadcast(operation);
    } else {
      run_all_gather(operation);
    }
    for (size_t i = 0; i < header_sends_.size(); ++i) {
      await(*header_sends_[i], peer_ranks_[i], operation);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // posting a message failed: some connection is gone
    diagnose(peer_ranks_.front(), operation, error.what());
  }
}

void GlooCommunicator::execute(const Operation& operation) {
  const SigpipeBlocked no_sigpipe;  // the caller's thread may be executing
  deadline_ = steady_clock::now() + options_.timeout;
  struct Clear {
    GlooCommunicator& self;
    ~Clear() {
      for (auto* transfers : {&self.header_sends_, &self.sends_, &self.receives_, &self.gathers_}) {
        transfers->clear();
      }
    }
  } clear{*this};
  sequence_ = operation.sequence;
  try {
    run_guarded(operation);
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

void GlooCommunicator::inline_operation(const Operation& operation) {
  const bool sends = operation.kind != OperationKind::kBroadcast || operation.root == rank();
  const int64_t bytes = operation.bytes();
  send_headers(operation, true, sends ? bytes : 0);
  receive_headers(operation, true);
  const auto payload = [&](const Peer& peer) {
    return peer.inbox[operation.sequence % 2].payload();
  };
  switch (operation.kind) {
    case OperationKind::kAllReduce: {
      std::vector<const std::byte*> inputs(size(), operation.data);
      for (const auto& peer : peers_) inputs[peer->rank] = payload(*peer);
      internal::sum_in_rank_order(operation.type, operation.data, inputs, operation.count);
      break;
    }
    case OperationKind::kBroadcast:
      for (const auto& peer : peers_) {
        if (peer->rank == operation.root && bytes > 0) {
          std::memcpy(operation.data, payload(*peer), bytes);
        }
      }
      break;
    case OperationKind::kAllGather:
      if (bytes == 0) break;
      std::memmove(operation.out + rank() * bytes, operation.data, bytes);
      for (const auto& peer : peers_) {
        std::memcpy(operation.out + peer->rank * bytes, payload(*peer), bytes);
      }
      break;
    case OperationKind::kBarrier:
      break;
  }
}

void GlooCommunicator::run_all_reduce(const Operation& operation) {
  const int64_t width = internal::size_of(operation.type);
  const int64_t segment = std::max<int64_t>(1, options_.segment_bytes / width);
  const uint32_t reduce_tag = payload_tag(operation, options_.segment_bytes, 0);
  const uint32_t gather_tag = payload_tag(operation, options_.segment_bytes, 1);
  const auto peers = static_cast<int64_t>(peers_.size());
  const auto chunk = [&](int r) { return plan::chunk_of(operation.count, size(), r); };
  const Range mine = chunk(rank());
  const int64_t segments = plan::segments_of(mine, segment);
  const int64_t window = std::min(kWindow, segments);
  const int64_t slot_bytes = std::min(segment, mine.size()) * width;
  if (scratch_bytes_ < peers * window * slot_bytes) {
    scratch_bytes_ = peers * window * slot_bytes;
    scratch_.emplace(scratch_bytes_);
  }
  const auto slot = [&](int64_t s, int64_t p) {
    return scratch_->data() + ((s % window) * peers + p) * slot_bytes;
  };
  const auto ask = [&](int64_t s) {
    const Range part = plan::segment_of(mine, segment, s);
    for (int64_t p = 0; p < peers; ++p) {
      receives_.push_back(
          link_->receive(peers_[p]->rank, slot(s, p), part.size() * width, reduce_tag));
    }
  };

  // Ask before announcing, announce before sending: a message leaves as soon as the other side has
  // asked for it.
  for (int64_t s = 0; s < window; ++s) ask(s);
  send_headers(operation, false, 0);
  for (const auto& peer : peers_) {
    const Range theirs = chunk(peer->rank);
    for (int64_t s = 0; s < plan::segments_of(theirs, segment); ++s) {
      const Range part = plan::segment_of(theirs, segment, s);
      sends_.push_back(link_->send(peer->rank, operation.data + part.begin * width,
                                   part.size() * width, reduce_tag));
      // The sum comes back to where this part is now; it cannot before the part has left.
      gathers_.push_back(link_->receive(peer->rank, operation.data + part.begin * width,
                                        part.size() * width, gather_tag));
    }
  }
  receive_headers(operation, false);

  std::vector<const std::byte*> inputs(size());
  for (int64_t s = 0; s < segments; ++s) {
    const Range part = plan::segment_of(mine, segment, s);
    std::byte* sum = operation.data + part.begin * width;
    inputs[rank()] = sum;
    for (int64_t p = 0; p < peers; ++p) {
      await(*receives_[s * peers + p], peers_[p]->rank, operation);
      receives_[s * peers + p].reset();
      inputs[peers_[p]->rank] = slot(s, p);
    }
    internal::sum_in_rank_order(operation.type, sum, inputs, part.size());
    if (s + window < segments) ask(s + window);
    for (const auto& peer : peers_) {
      sends_.push_back(link_->send(peer->rank, sum, part.size() * width, gather_tag));
    }
  }
  size_t next = 0;
  for (const auto& peer : peers_) {
    for (int64_t s = plan::segments_of(chunk(peer->rank), segment); s > 0; --s) {
      await(*gathers_[next++], peer->rank, operation);
    }
  }
  next = 0;
  for (const auto& peer : peers_) {
    for (int64_t s = plan::segments_of(chunk(peer->rank), segment); s > 0; --s) {
      await(*sends_[next++], peer->rank, operation);
    }
  }
  for (; next < sends_.size(); ++next) {
    await(*sends_[next], peer_ranks_[(next - (sends_.size() - segments * peers)) % peers],
          operation);
  }
}

void GlooCommunicator::run_broadcast(const Operation& operation) {
  const uint32_t tag = payload_tag(operation, options_.segment_bytes, 0);
  if (rank() != operation.root) {
    receives_.push_back(link_->receive(operation.root, operation.data, operation.bytes(), tag));
  }
  send_headers(operation, false, 0);
  if (rank() == operation.root) {
    for (const auto& peer : peers_) {
      sends_.push_back(link_->send(peer->rank, operation.data, operation.bytes(), tag));
    }
  }
  receive_headers(operation, false);
  await_all(receives_, {operation.root}, operation);
  await_all(sends_, peer_ranks_, operation);
}

void GlooCommunicator::run_all_gather(const Operation& operation) {
  const uint32_t tag = payload_tag(operation, options_.segment_bytes, 0);
  const int64_t bytes = operation.bytes();
  for (const auto& peer : peers_) {
    receives_.push_back(link_->receive(peer->rank, operation.out + peer->rank * bytes, bytes, tag));
  }
  send_headers(operation, false, 0);
  for (const auto& peer : peers_) {
    sends_.push_back(link_->send(peer->rank, operation.data, bytes, tag));
  }
  receive_headers(operation, false);
  await_all(sends_, peer_ranks_, operation);
  std::byte* own = operation.out + rank() * bytes;
  if (own != operation.data) std::memmove(own, operation.data, bytes);
  await_all(receives_, peer_ranks_, operation);
}

// Tells the peers why this rank leaves, so that their message names the first cause.
void GlooCommunicator::say_goodbye(const std::string& reason) {
  if (std::exchange(said_goodbye_, true)) return;
  const auto bytes = std::min<int64_t>(reason.size(), kMaxInlineBytes);
  goodbye_.header() = {.goodbye = 1, .text_bytes = static_cast<uint32_t>(bytes)};
  std::memcpy(goodbye_.payload(), reason.data(), bytes);
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
void GlooCommunicator::finish(const Error* error) {
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

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(const GlooOptions& options) {
  return std::make_unique<GlooCommunicator>(options);
}

}  // namespace muster::inline v0_1
