#include "muster/collectives/tcp_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "muster/collectives/internal/address.h"
#include "muster/collectives/internal/control_channel.h"
#include "muster/collectives/internal/sum.h"
#include "muster/collectives/internal/tensor_communicator.h"
#include "muster/plan/sum_schedule.h"

namespace muster::inline v0_1 {
namespace {

using internal::ControlChannel;
using internal::Operation;
using internal::OperationKind;
using internal::Transfer;
using plan::Range;
using std::chrono::milliseconds;

constexpr int64_t kWindow = 4;  // segments of one peer that may be on their way at once

// Which rank sums which elements, and in which segments they travel.
struct SumSchedule {
  SumSchedule(const Operation& operation, int rank, int size, int64_t segment_bytes)
      : scatters(operation.kind == OperationKind::kReduceScatter),
        count(operation.count),
        size(size),
        peers(size - 1),
        width(internal::size_of(operation.type)),
        segment(std::max<int64_t>(1, segment_bytes / width)),
        mine(chunk(rank)),
        segments(plan::segments_of(mine, segment)),
        window(std::min(kWindow, segments)),
        slot_bytes(std::min(segment, mine.size()) * width) {}

  // The elements that rank `r` sums.
  Range chunk(int r) const {
    if (scatters) return {r * count, (r + 1) * count};
    return plan::chunk_of(count, size, r);
  }
  Range part(const Range& chunk, int64_t s) const { return plan::segment_of(chunk, segment, s); }
  // Where segment `s` of the peer number `p` arrives in the scratch memory.
  int64_t slot(int64_t s, int64_t p) const { return ((s % window) * peers + p) * slot_bytes; }
  int64_t scratch_bytes() const { return peers * window * slot_bytes; }

  const bool scatters;
  const int64_t count;
  const int size;
  const int64_t peers;
  const int64_t width;       // bytes of an element
  const int64_t segment;     // elements
  const Range mine;          // this rank's chunk
  const int64_t segments;    // of it
  const int64_t window;      // segments of one peer that are received at once
  const int64_t slot_bytes;  // for one segment
};

class TcpCommunicator final : public internal::TensorCommunicator {
 public:
  explicit TcpCommunicator(const TcpOptions& options);
  ~TcpCommunicator() override { stop(); }

  std::string_view name() const override { return "TCP"; }
  std::optional<int64_t> tune(const plan::CommunicationCost& cost) override {
    const int64_t bytes =
        std::min(options_.inline_bytes, plan::most_bytes_in_one_exchange(cost, size()));
    if (channel_ != nullptr) channel_->inline_sums_up_to(bytes);
    return bytes;
  }

 private:
  // A message and its sender or receiver.
  using Posted = std::pair<Transfer*, int>;

  void interrupt(const Error& error) override { channel_->interrupt(error); }
  void execute(const Operation& operation);
  void wait_all(const std::vector<Posted>& transfers, const Operation& operation);
  void inline_operation(const Operation& operation);
  void reserve_scratch(int64_t bytes);
  void run_sum(const Operation& operation);
  void post_receives(const Operation& operation, const SumSchedule& schedule, int64_t s,
                     std::vector<Posted>* receives);
  void send_chunk(const Operation& operation, const SumSchedule& schedule, int peer,
                  std::vector<Posted>* sends, std::vector<Posted>* gathers);
  std::byte* sum_segment(const Operation& operation, const SumSchedule& schedule, int64_t s,
                         const std::vector<Posted>& receives);
  void run_broadcast(const Operation& operation);
  void run_all_gather(const Operation& operation);
  Posted send(int peer, const std::byte* data, int64_t bytes, uint32_t tag) {
    return {&channel_->send(peer, data, bytes, tag), peer};
  }
  Posted receive(int peer, std::byte* data, int64_t bytes, uint32_t tag) {
    return {&channel_->receive(peer, data, bytes, tag), peer};
  }

  const TcpOptions options_;
  std::unique_ptr<ControlChannel> channel_;
  std::optional<internal::AlignedBuffer> scratch_;  // segments on their way in
  int64_t scratch_bytes_ = 0;
};

TcpCommunicator::TcpCommunicator(const TcpOptions& options)
    : TensorCommunicator(options.rank, options.size), options_(options) {
  if (options.inline_bytes < 0 || options.inline_bytes > ControlChannel::kMaxInlineBytes ||
      options.segment_bytes < 8) {
    throw invalid_argument(
        fmt::format("inline_bytes must be 0 to {} and segment_bytes at least 8, got {} and {}",
                    ControlChannel::kMaxInlineBytes, options.inline_bytes, options.segment_bytes));
  }
  if (options.timeout <= milliseconds(0) || options.connect_timeout <= milliseconds(0)) {
    throw invalid_argument(fmt::format("time-outs must be positive, got {} ms and {} ms",
                                       options.timeout.count(), options.connect_timeout.count()));
  }
  if (size() == 1) return;
  if (options.rendezvous == nullptr) {
    throw invalid_argument(fmt::format("a group of {} ranks needs a rendezvous store", size()));
  }
  channel_ = std::make_unique<ControlChannel>(
      ControlChannel::Options{.link = {.store = options.rendezvous,
                                       .rank = rank(),
                                       .size = size(),
                                       .address = internal::local_address(options.address),
                                       .prefix = "collectives/" + options.group + "/",
                                       .timeout = options.connect_timeout,
                                       .check = options.check_failure,
                                       .shown_ranks = options.shown_ranks},
                              .timeout = options.timeout,
                              .inline_bytes = options.inline_bytes,
                              .segment_bytes = options.segment_bytes});
  start({.execute = [this](const Operation& operation) { execute(operation); },
         .finish = [this](const Error* error) { channel_->finish(error); }});
}

void TcpCommunicator::wait_all(const std::vector<Posted>& transfers, const Operation& operation) {
  for (const auto& [transfer, peer] : transfers) channel_->wait(*transfer, peer, operation);
}

void TcpCommunicator::execute(const Operation& operation) {
  channel_->run(operation, [&] {
    if (channel_->is_inlined(operation)) {
      inline_operation(operation);
    } else if (operation.sums()) {
      run_sum(operation);
    } else if (operation.kind == OperationKind::kBroadcast) {
      run_broadcast(operation);
    } else {
      run_all_gather(operation);
    }
  });
}

void TcpCommunicator::inline_operation(const Operation& operation) {
  const bool sends = operation.kind != OperationKind::kBroadcast || operation.root == rank();
  const int64_t bytes = operation.bytes();
  channel_->send_headers(operation, sends ? operation.contributed_bytes(size()) : 0);
  channel_->receive_headers(operation);
  std::vector<const std::byte*> inputs(static_cast<size_t>(size()), operation.data);
  for (const int peer : channel_->peers()) {
    inputs[static_cast<size_t>(peer)] = channel_->payload(peer, operation);
  }
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      internal::sum_in_rank_order(operation.type, operation.data, inputs, operation.count);
      break;
    case OperationKind::kReduceScatter:
      for (const std::byte*& input : inputs) input += rank() * bytes;
      internal::sum_in_rank_order(operation.type, operation.out, inputs, operation.count);
      break;
    case OperationKind::kBroadcast:
      if (operation.root != rank() && bytes > 0) {
        std::memcpy(operation.data, inputs[static_cast<size_t>(operation.root)],
                    static_cast<size_t>(bytes));
      }
      break;
    case OperationKind::kAllGather:
      if (bytes == 0) break;
      for (int r = 0; r < size(); ++r) {
        std::memmove(operation.out + r * bytes, inputs[static_cast<size_t>(r)],
                     static_cast<size_t>(bytes));
      }
      break;
    case OperationKind::kBarrier:
      break;
  }
}

void TcpCommunicator::reserve_scratch(int64_t bytes) {
  if (bytes <= scratch_bytes_) return;
  scratch_.emplace(bytes);
  scratch_bytes_ = bytes;
}

// Every rank sums its chunk of all buffers. For an all_reduce it then sends the sums out.
void TcpCommunicator::run_sum(const Operation& operation) {
  const SumSchedule schedule(operation, rank(), size(), options_.segment_bytes);
  reserve_scratch(schedule.scratch_bytes());
  // Receives are posted before the headers go out, and headers before payloads: a message leaves as
  // soon as the other side has posted its receive.
  std::vector<Posted> receives, sends, gathers;
  for (int64_t s = 0; s < schedule.window; ++s) {
    post_receives(operation, schedule, s, &receives);
  }
  channel_->send_headers(operation);
  for (const int peer : channel_->peers()) send_chunk(operation, schedule, peer, &sends, &gathers);
  channel_->receive_headers(operation);
  for (int64_t s = 0; s < schedule.segments; ++s) {
    std::byte* const sum = sum_segment(operation, schedule, s, receives);
    if (s + schedule.window < schedule.segments) {
      post_receives(operation, schedule, s + schedule.window, &receives);
    }
    if (schedule.scatters) continue;
    const int64_t bytes = schedule.part(schedule.mine, s).size() * schedule.width;
    for (const int peer : channel_->peers()) {
      sends.push_back(send(peer, sum, bytes, channel_->payload_tag(operation, 1)));
    }
  }
  wait_all(gathers, operation);
  wait_all(sends, operation);
}

// Posts the receives of segment `s` of this rank's chunk, from all peers.
void TcpCommunicator::post_receives(const Operation& operation, const SumSchedule& schedule,
                                    int64_t s, std::vector<Posted>* receives) {
  const int64_t bytes = schedule.part(schedule.mine, s).size() * schedule.width;
  const uint32_t tag = channel_->payload_tag(operation, 0);
  for (int64_t p = 0; p < schedule.peers; ++p) {
    const int peer = channel_->peers()[static_cast<size_t>(p)];
    receives->push_back(receive(peer, scratch_->data() + schedule.slot(s, p), bytes, tag));
  }
}

// Sends the chunk that `peer` sums, and posts the receives of its sums.
void TcpCommunicator::send_chunk(const Operation& operation, const SumSchedule& schedule, int peer,
                                 std::vector<Posted>* sends, std::vector<Posted>* gathers) {
  const Range chunk = schedule.chunk(peer);
  for (int64_t s = 0; s < plan::segments_of(chunk, schedule.segment); ++s) {
    const Range part = schedule.part(chunk, s);
    std::byte* const data = operation.data + part.begin * schedule.width;
    const int64_t bytes = part.size() * schedule.width;
    sends->push_back(send(peer, data, bytes, channel_->payload_tag(operation, 0)));
    if (schedule.scatters) continue;
    // The sum comes back to where this part is now; it cannot before the part has left.
    gathers->push_back(receive(peer, data, bytes, channel_->payload_tag(operation, 1)));
  }
}

// Waits for segment `s` of all peers; returns where its sum is.
std::byte* TcpCommunicator::sum_segment(const Operation& operation, const SumSchedule& schedule,
                                        int64_t s, const std::vector<Posted>& receives) {
  const Range part = schedule.part(schedule.mine, s);
  std::byte* const own = operation.data + part.begin * schedule.width;
  std::vector<const std::byte*> inputs(static_cast<size_t>(size()), own);
  for (int64_t p = 0; p < schedule.peers; ++p) {
    const auto& [transfer, peer] = receives[static_cast<size_t>(s * schedule.peers + p)];
    channel_->wait(*transfer, peer, operation);
    inputs[static_cast<size_t>(peer)] = scratch_->data() + schedule.slot(s, p);
  }
  std::byte* const sum =
      schedule.scatters ? operation.out + (part.begin - schedule.mine.begin) * schedule.width : own;
  internal::sum_in_rank_order(operation.type, sum, inputs, part.size());
  return sum;
}

void TcpCommunicator::run_broadcast(const Operation& operation) {
  const uint32_t tag = channel_->payload_tag(operation, 0);
  std::vector<Posted> transfers;
  if (rank() != operation.root) {
    transfers.push_back(receive(operation.root, operation.data, operation.bytes(), tag));
  }
  channel_->send_headers(operation);
  if (rank() == operation.root) {
    for (const int peer : channel_->peers()) {
      transfers.push_back(send(peer, operation.data, operation.bytes(), tag));
    }
  }
  channel_->receive_headers(operation);
  wait_all(transfers, operation);
}

void TcpCommunicator::run_all_gather(const Operation& operation) {
  const uint32_t tag = channel_->payload_tag(operation, 0);
  const int64_t bytes = operation.bytes();
  std::vector<Posted> receives, sends;
  for (const int peer : channel_->peers()) {
    receives.push_back(receive(peer, operation.out + peer * bytes, bytes, tag));
  }
  channel_->send_headers(operation);
  for (const int peer : channel_->peers()) {
    sends.push_back(send(peer, operation.data, bytes, tag));
  }
  channel_->receive_headers(operation);
  wait_all(sends, operation);
  std::byte* own = operation.out + rank() * bytes;
  if (own != operation.data) std::memmove(own, operation.data, static_cast<size_t>(bytes));
  wait_all(receives, operation);
}

}  // namespace

std::unique_ptr<Communicator> make_tcp_communicator(const TcpOptions& options) {
  return std::make_unique<TcpCommunicator>(options);
}

}  // namespace muster::inline v0_1
