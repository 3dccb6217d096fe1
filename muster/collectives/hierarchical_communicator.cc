#include "muster/collectives/hierarchical_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "muster/collectives/internal/host_link.h"
#include "muster/collectives/internal/sum.h"
#include "muster/collectives/internal/tensor_communicator.h"
#include "muster/collectives/shared_memory_communicator.h"
#include "muster/plan/sum_schedule.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using internal::ElementType;
using internal::HostLink;
using internal::Operation;
using internal::OperationKind;
using plan::Range;

class HierarchicalCommunicator final : public internal::TensorCommunicator {
 public:
  explicit HierarchicalCommunicator(const HierarchicalOptions& options);
  // Empty once all ranks are connected; else the reason why the ranks of a host cannot share
  // memory, and this object is of no use. The same on every rank.
  std::string connect(const HierarchicalOptions& options);
  ~HierarchicalCommunicator() override { stop(); }

  std::string_view name() const override { return "shared memory inside hosts, TCP between them"; }
  Tensor allocate(int64_t bytes) override {
    return inside_ ? inside_->allocate(bytes) : Communicator::allocate(bytes);
  }

 private:
  std::string obstacle_of_any(const ConnectOptions& all, const std::string& mine) const;
  void interrupt(const Error& error) override { end_all(error.kind(), error.message()); }
  void end_all(ErrorKind kind, const std::string& reason);

  void execute(const Operation& operation);
  void run(const Operation& operation);
  // Sends to, or receives from, a neighbour. Works are kept, so that none touches a buffer of an
  // operation that has failed.
  Work send(HostLink& link, const Tensor& buffer) {
    return posted_.emplace_back(link.send(buffer));
  }
  Work receive(HostLink& link, const Tensor& buffer) {
    return posted_.emplace_back(link.receive(buffer));
  }
  void compare(const Operation& operation);
  void check_same(const Operation& operation, int peer, const Tensor& theirs) const;
  void sum(const Operation& operation);
  void sum_in(ElementType type, const Tensor& buffer);
  std::vector<Tensor> cut(ElementType type, const Tensor& buffer) const;
  void broadcast_from(const Operation& operation);
  void gather(const Operation& operation);

  bool leads() const { return rank() == first_; }
  int host() const { return host_of_[static_cast<size_t>(rank())]; }
  int first_of(int host) const {
    return static_cast<int>(std::ranges::find(host_of_, host) - host_of_.begin());
  }
  std::string place(const Operation& operation) const {
    return fmt::format("{} on rank {} of {}", operation.describe(), rank(), size());
  }

  const std::vector<int> host_of_;
  const int64_t segment_bytes_;
  int first_ = 0;                         // rank of this host
  std::unique_ptr<Communicator> inside_;  // the ranks of this host
  std::vector<Work> posted_;              // between hosts, by the running operation
  // The leader's links: towards rank 0, and away from it.
  std::optional<HostLink> previous_, next_;
};

DType dtype_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return kFloat32;
    case ElementType::kFloat64:
      return kFloat64;
    case ElementType::kInt64:
      return kInt64;
    case ElementType::kBfloat16:
      return at::kBFloat16;
    case ElementType::kFloat16:
      return at::kHalf;
    case ElementType::kByte:
      return at::kByte;
  }
  throw internal_error("a collective has elements of no known type");
}

Tensor view_of(std::byte* data, int64_t count, ElementType type) {
  return torch::from_blob(data, {count}, dtype_of(type));
}

// values = partial_sum + values, in this order.
void add_before(ElementType type, const Tensor& partial_sum, const Tensor& values) {
  auto* data = static_cast<std::byte*>(values.data_ptr());
  const std::byte* inputs[] = {static_cast<const std::byte*>(partial_sum.data_ptr()), data};
  internal::sum_in_rank_order(type, data, inputs, values.numel());
}

void wait_all(std::vector<Work>& works) {
  for (const Work& work : works) work.wait();
  works.clear();
}

HierarchicalCommunicator::HierarchicalCommunicator(const HierarchicalOptions& options)
    : TensorCommunicator(options.connect.rank, options.connect.size),
      host_of_(options.host_of_rank),
      segment_bytes_(options.segment_bytes) {
  bool numbered = static_cast<int>(host_of_.size()) == size() && host_of_.front() == 0;
  for (size_t r = 1; numbered && r < host_of_.size(); ++r) {
    numbered = host_of_[r] == host_of_[r - 1] || host_of_[r] == host_of_[r - 1] + 1;
  }
  if (!numbered || segment_bytes_ < 64) {
    throw invalid_argument(
        fmt::format("hosts {} of {} ranks, segments of {} bytes", fmt::join(host_of_, ", "), size(),
                    segment_bytes_),
        "number the hosts 0, 1, ... in the order of their ranks, which follow each other; a "
        "segment has 64 bytes at least");
  }
  first_ = first_of(host());
}

std::string HierarchicalCommunicator::connect(const HierarchicalOptions& options) {
  if (size() == 1) return {};
  const ConnectOptions& all = options.connect;
  // A rank that waits for the leader, while the leader waits for another host, lets the leader
  // report first.
  std::string why_not;
  inside_ = try_shared_memory_communicator(
      {.rendezvous = all.rendezvous,
       .rank = rank() - first_,
       .size = static_cast<int>(std::ranges::count(host_of_, host())),
       .group = fmt::format("{}/host{}", all.group, host()),
       .timeout = all.timeout + all.timeout / 4,
       .connect_timeout = all.connect_timeout,
       .check_failure = all.check_failure,
       .first_shown_rank = first_},
      &why_not);
  // Before leaders connect: a leader without a counterpart would keep the others waiting.
  std::string obstacle = obstacle_of_any(all, why_not);
  if (!obstacle.empty()) return obstacle;
  if (leads()) {
    if (host() > 0) previous_.emplace(options.connect, first_of(host() - 1), rank());
    if (host() < host_of_.back()) next_.emplace(options.connect, rank(), first_of(host() + 1));
  }
  start({.execute = [this](const Operation& operation) { execute(operation); },
         .finish =
             [this](const Error* error) {
               end_all(error == nullptr ? ErrorKind::kCancelled : error->kind(),
                       error == nullptr ? "its communicator was closed" : error->message());
             }});
  return {};
}

// The statement of any host's first rank about its host. The ranks of a host have the same answer.
std::string HierarchicalCommunicator::obstacle_of_any(const ConnectOptions& all,
                                                      const std::string& mine) const {
  const auto key = [&](int host) {
    return fmt::format("collectives/{}/hierarchy/{}", all.group, host);
  };
  // Some stores do not distinguish an empty value from a missing one.
  if (leads()) all.rendezvous->set(key(host()), "=" + mine);
  for (int host = 0; host <= host_of_.back(); ++host) {
    const int first = first_of(host);
    std::string why;
    try {
      why = all.rendezvous->get(key(host), all.connect_timeout).substr(1);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      throw error.with_context(
          fmt::format("rank {} did not come to know the ranks of its host "
                      "within {} ms",
                      first, all.connect_timeout.count()));
    }
    if (!why.empty()) return fmt::format("on the host of rank {}, {}", first, why);
  }
  return {};
}

// A failure here ends the whole host, and its neighbours.
void HierarchicalCommunicator::end_all(ErrorKind kind, const std::string& reason) {
  inside_->abort(kind, reason);
  if (previous_) previous_->abort(kind, reason);
  if (next_) next_->abort(kind, reason);
}

void HierarchicalCommunicator::execute(const Operation& operation) {
  try {
    posted_.clear();
    compare(operation);
    run(operation);
    posted_.clear();
  } catch (const Error& error) {
    const Error failure(error.kind(), fmt::format("{}: {}", place(operation), error.message()),
                        error.hint());
    end_all(failure.kind(), failure.message());
    // Nothing may touch a buffer any more when the caller gets the error.
    for (const Work& work : posted_) {
      try {
        work.wait();
      } catch (const Error&) {
        // It ended, and no more is needed.
      }
    }
    posted_.clear();
    throw failure;
  }
}

void HierarchicalCommunicator::run(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kBarrier: {
      int64_t token = 0;
      sum_in(ElementType::kInt64,
             view_of(reinterpret_cast<std::byte*>(&token), 1, ElementType::kInt64));
      return;
    }
    case OperationKind::kAllReduce:
    case OperationKind::kReduceScatter:
      return sum(operation);
    case OperationKind::kBroadcast:
      return broadcast_from(operation);
    case OperationKind::kAllGather:
      return gather(operation);
  }
}

// The calls of the ranks are compared before a buffer is touched: on the host, and with its
// neighbours.
void HierarchicalCommunicator::compare(const Operation& operation) {
  const auto form = [&] {
    return torch::tensor(
        {static_cast<int64_t>(operation.kind), static_cast<int64_t>(operation.type),
         static_cast<int64_t>(operation.root), operation.count,
         static_cast<int64_t>(operation.sequence)},
        kInt64);
  };
  const Tensor mine = form(), from_previous = form(), from_next = form();
  const Tensor here = torch::empty({inside_->size() * mine.numel()}, kInt64);
  inside_->all_gather(mine, here).wait();
  for (int r = 0; r < inside_->size(); ++r) {
    check_same(operation, first_ + r, here.slice(0, r * mine.numel(), (r + 1) * mine.numel()));
  }
  std::vector<Work> works;
  if (previous_) {
    works.push_back(receive(*previous_, from_previous));
    works.push_back(send(*previous_, form()));
  }
  if (next_) {
    works.push_back(send(*next_, form()));
    works.push_back(receive(*next_, from_next));
  }
  wait_all(works);
  if (previous_) check_same(operation, previous_->peer(), from_previous);
  if (next_) check_same(operation, next_->peer(), from_next);
}

void HierarchicalCommunicator::check_same(const Operation& operation, int peer,
                                          const Tensor& theirs) const {
  const int64_t* numbers = theirs.data_ptr<int64_t>();
  const Operation other{.kind = static_cast<OperationKind>(numbers[0]),
                        .type = static_cast<ElementType>(numbers[1]),
                        .root = static_cast<int>(numbers[2]),
                        .count = numbers[3],
                        .sequence = static_cast<uint64_t>(numbers[4])};
  if (!operation.matches(other)) throw internal::mismatch(rank(), operation, peer, other);
}

void HierarchicalCommunicator::sum(const Operation& operation) {
  const bool scatters = operation.kind == OperationKind::kReduceScatter;
  const int64_t count = scatters ? operation.count * size() : operation.count;
  if (count == 0) return;
  const Tensor given = view_of(operation.data, count, operation.type);
  Tensor buffer = given;
  ElementType type = operation.type;
  if (internal::size_of(type) == 2) {
    // A host that rounded the sums that it passes on would round once more than others do.
    buffer = given.to(kFloat32);
    type = ElementType::kFloat32;
  } else if (scatters) {
    buffer = given.clone();
  }
  sum_in(type, buffer);
  if (scatters) {
    view_of(operation.out, operation.count, operation.type)
        .copy_(buffer.slice(0, rank() * operation.count, (rank() + 1) * operation.count));
  } else if (type != operation.type) {
    given.copy_(buffer);
  }
}

// Partial sums go from host to host, and the last host sends the sums back the same way, segment
// after segment.
void HierarchicalCommunicator::sum_in(ElementType type, const Tensor& buffer) {
  const std::vector<Tensor> segments = cut(type, buffer);
  std::vector<Tensor> partial_sums;  // of the hosts before this one
  std::vector<Work> arriving, returning, sent;
  for (size_t s = 0; previous_ && s < segments.size(); ++s) {
    partial_sums.push_back(torch::empty_like(segments[s]));
    arriving.push_back(receive(*previous_, partial_sums[s]));
  }
  for (size_t s = 0; s < segments.size(); ++s) {
    if (previous_) {
      arriving[s].wait();
      add_before(type, partial_sums[s], segments[s]);
    }
    inside_->all_reduce(segments[s]).wait();
    if (next_) {
      sent.push_back(send(*next_, segments[s]));
      // The sum comes back to where this part is now; it cannot before the part has left.
      returning.push_back(receive(*next_, segments[s]));
    } else if (previous_) {
      sent.push_back(send(*previous_, segments[s]));
    }
  }
  const bool is_last_host = host() == host_of_.back();  // its ranks have the sums already
  for (size_t s = 0; !is_last_host && s < segments.size(); ++s) {
    if (next_) returning[s].wait();
    if (previous_) sent.push_back(send(*previous_, segments[s]));
    inside_->broadcast(segments[s], 0).wait();
  }
  wait_all(sent);
}

std::vector<Tensor> HierarchicalCommunicator::cut(ElementType type, const Tensor& buffer) const {
  const int64_t length = std::max<int64_t>(1, segment_bytes_ / internal::size_of(type));
  const Range all{0, buffer.numel()};
  std::vector<Tensor> segments;
  for (int64_t s = 0; s < plan::segments_of(all, length); ++s) {
    const Range range = plan::segment_of(all, length, s);
    segments.push_back(buffer.slice(0, range.begin, range.end));
  }
  return segments;
}

void HierarchicalCommunicator::broadcast_from(const Operation& operation) {
  if (operation.count == 0) return;
  const Tensor buffer = view_of(operation.data, operation.count, operation.type);
  const int home = host_of_[static_cast<size_t>(operation.root)];
  std::vector<Work> works;
  if (host() == home) inside_->broadcast(buffer, operation.root - first_).wait();
  if (host() > home && previous_) receive(*previous_, buffer).wait();
  if (host() < home && next_) receive(*next_, buffer).wait();
  if (host() >= home && next_) works.push_back(send(*next_, buffer));
  if (host() <= home && previous_) works.push_back(send(*previous_, buffer));
  if (host() != home) inside_->broadcast(buffer, 0).wait();
  wait_all(works);
}

void HierarchicalCommunicator::gather(const Operation& operation) {
  if (operation.count == 0) return;
  const auto parts = [&](int begin, int end) {
    return view_of(operation.out + begin * operation.bytes(), (end - begin) * operation.count,
                   operation.type);
  };
  const int last = first_ + inside_->size();
  inside_->all_gather(view_of(operation.data, operation.count, operation.type), parts(first_, last))
      .wait();
  // The parts before this host's part come from one side, the parts after it from the other.
  std::vector<Work> works;
  if (previous_) {
    receive(*previous_, parts(0, first_)).wait();
  }
  if (next_) {
    works.push_back(send(*next_, parts(0, last)));
    receive(*next_, parts(last, size())).wait();
  }
  if (previous_) works.push_back(send(*previous_, parts(first_, size())));
  if (first_ > 0) inside_->broadcast(parts(0, first_), 0).wait();
  if (last < size()) inside_->broadcast(parts(last, size()), 0).wait();
  wait_all(works);
}

}  // namespace

std::unique_ptr<Communicator> try_hierarchical_communicator(const HierarchicalOptions& options,
                                                            std::string* why_not) {
  auto communicator = std::make_unique<HierarchicalCommunicator>(options);
  std::string obstacle = communicator->connect(options);
  if (obstacle.empty()) return communicator;
  *why_not = std::move(obstacle);
  return nullptr;
}

std::unique_ptr<Communicator> make_hierarchical_communicator(const HierarchicalOptions& options) {
  std::string why_not;
  auto communicator = try_hierarchical_communicator(options, &why_not);
  if (!communicator) {
    throw Error(ErrorKind::kUnavailable, "ranks of one host cannot share memory: " + why_not,
                "let Muster choose the transport, or use TCP");
  }
  return communicator;
}

}  // namespace muster::inline v0_1
