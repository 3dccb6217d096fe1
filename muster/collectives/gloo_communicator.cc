#include "muster/collectives/gloo_communicator.h"

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
#include "muster/plan/exchange.h"

namespace muster::inline v0_1 {
namespace {

using internal::ControlChannel;
using internal::Operation;
using internal::OperationKind;
using internal::Transfer;
using plan::Range;
using std::chrono::milliseconds;

constexpr int64_t kWindow = 4;  // segments of one peer that may be on their way at once

class GlooCommunicator final : public internal::TensorCommunicator {
 public:
  explicit GlooCommunicator(const GlooOptions& options);
  ~GlooCommunicator() override { stop(); }

  std::string_view name() const override { return "gloo"; }
  std::optional<int64_t> tune(const plan::CommunicationCost& cost) override {
    const int64_t bytes =
        std::min(options_.inline_bytes, plan::most_bytes_in_one_exchange(cost, size()));
    if (channel_ != nullptr) channel_->inline_sums_up_to(bytes);
    return bytes;
  }

 private:
  // A message and whom it is from or for.
  using Posted = std::pair<Transfer*, int>;

  void interrupt(const Error& error) override { channel_->interrupt(error); }
  void execute(const Operation& operation);
  void wait_all(const std::vector<Posted>& transfers, const Operation& operation);
  void inline_operation(const Operation& operation);
  void reserve_scratch(int64_t bytes);
  void run_sum(const Operation& operation);
  void run_broadcast(const Operation& operation);
  void run_all_gather(const Operation& operation);
  Posted send(int peer, const std::byte* data, int64_t bytes, uint32_t tag) {
    return {&channel_->send(peer, data, bytes, tag), peer};
  }
  Posted receive(int peer, std::byte* data, int64_t bytes, uint32_t tag) {
    return {&channel_->receive(peer, data, bytes, tag), peer};
  }

  const GlooOptions options_;
  std::unique_ptr<ControlChannel> channel_;
  std::optional<internal::AlignedBuffer> scratch_;  // segments on their way in
  int64_t scratch_bytes_ = 0;
};

GlooCommunicator::GlooCommunicator(const GlooOptions& options)
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
                                       .timeout = options.connect_timeout},
                              .timeout = options.timeout,
                              .inline_bytes = options.inline_bytes,
                              .segment_bytes = options.segment_bytes,
                              .shown_ranks = options.shown_ranks});
  start({.execute = [this](const Operation& operation) { execute(operation); },
         .finish = [this](const Error* error) { channel_->finish(error); }});
}

void GlooCommunicator::wait_all(const std::vector<Posted>& transfers, const Operation& operation) {
  for (const auto& [transfer, peer] : transfers) channel_->wait(*transfer, peer, operation);
}

void GlooCommunicator::execute(const Operation& operation) {
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

void GlooCommunicator::inline_operation(const Operation& operation) {
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

void GlooCommunicator::reserve_scratch(int64_t bytes) {
  if (bytes <= scratch_bytes_) return;
  scratch_.emplace(bytes);
  scratch_bytes_ = bytes;
}

// Every rank sums its part of everybody's buffer. Of an all_reduce it then hands the sums out.
void GlooCommunicator::run_sum(const Operation& operation) {
  const bool scatters = operation.kind == OperationKind::kReduceScatter;
  const int64_t width = internal::size_of(operation.type);
  const int64_t segment = std::max<int64_t>(1, options_.segment_bytes / width);
  const uint32_t reduce_tag = channel_->payload_tag(operation, 0);
  const uint32_t gather_tag = channel_->payload_tag(operation, 1);
  const std::vector<int>& peer_ranks = channel_->peers();
  const auto peers = static_cast<int64_t>(peer_ranks.size());
  const auto chunk = [&](int r) -> Range {
    if (scatters) return {r * operation.count, (r + 1) * operation.count};
    return plan::chunk_of(operation.count, size(), r);
  };
  const Range mine = chunk(rank());
  const int64_t segments = plan::segments_of(mine, segment);
  const int64_t window = std::min(kWindow, segments);
  const int64_t slot_bytes = std::min(segment, mine.size()) * width;
  reserve_scratch(peers * window * slot_bytes);
  const auto slot = [&](int64_t s, int64_t p) {
    return scratch_->data() + ((s % window) * peers + p) * slot_bytes;
  };
  std::vector<Posted> receives, sends, gathers;
  const auto post_receives = [&](int64_t s) {
    const Range part = plan::segment_of(mine, segment, s);
    for (int64_t p = 0; p < peers; ++p) {
      receives.push_back(
          receive(peer_ranks[static_cast<size_t>(p)], slot(s, p), part.size() * width, reduce_tag));
    }
  };

  // Receives are posted before the headers go out, and headers before payloads: a message leaves as
  // soon as the other side has posted its receive.
  for (int64_t s = 0; s < window; ++s) post_receives(s);
  channel_->send_headers(operation);
  for (const int peer : peer_ranks) {
    const Range theirs = chunk(peer);
    for (int64_t s = 0; s < plan::segments_of(theirs, segment); ++s) {
      const Range part = plan::segment_of(theirs, segment, s);
      std::byte* const data = operation.data + part.begin * width;
      sends.push_back(send(peer, data, part.size() * width, reduce_tag));
      // The sum comes back to where this part is now; it cannot before the part has left.
      if (!scatters) gathers.push_back(receive(peer, data, part.size() * width, gather_tag));
    }
  }
  channel_->receive_headers(operation);

  std::vector<const std::byte*> inputs(static_cast<size_t>(size()));
  for (int64_t s = 0; s < segments; ++s) {
    const Range part = plan::segment_of(mine, segment, s);
    std::byte* const own = operation.data + part.begin * width;
    std::byte* const sum = scatters ? operation.out + (part.begin - mine.begin) * width : own;
    inputs[static_cast<size_t>(rank())] = own;
    for (int64_t p = 0; p < peers; ++p) {
      const auto& [transfer, peer] = receives[static_cast<size_t>(s * peers + p)];
      channel_->wait(*transfer, peer, operation);
      inputs[static_cast<size_t>(peer)] = slot(s, p);
    }
    internal::sum_in_rank_order(operation.type, sum, inputs, part.size());
    if (s + window < segments) post_receives(s + window);
    if (scatters) continue;
    for (const int peer : peer_ranks) {
      sends.push_back(send(peer, sum, part.size() * width, gather_tag));
    }
  }
  wait_all(gathers, operation);
  wait_all(sends, operation);
}

void GlooCommunicator::run_broadcast(const Operation& operation) {
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

void GlooCommunicator::run_all_gather(const Operation& operation) {
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

std::unique_ptr<Communicator> make_gloo_communicator(const GlooOptions& options) {
  return std::make_unique<GlooCommunicator>(options);
}

}  // namespace muster::inline v0_1
