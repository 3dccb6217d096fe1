#include "muster/collectives/internal/point_to_point.h"

#include <fmt/format.h>

#include <array>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "muster/base/error.h"
#include "muster/collectives/internal/descriptor_claim.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// c10d's store over ours.
class StoreAdapter : public ::c10d::Store {
 public:
  StoreAdapter(KeyValueStore& store, std::string prefix, std::chrono::milliseconds timeout)
      : Store(timeout), store_(store), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    store_.set(prefix_ + key, std::string(value.begin(), value.end()));
  }
  std::vector<uint8_t> get(const std::string& key) override {
    const std::string value = fetch(key, timeout_);
    return {value.begin(), value.end()};
  }
  int64_t add(const std::string& key, int64_t value) override {
    return store_.add(prefix_ + key, value);
  }
  bool deleteKey(const std::string& key) override { return store_.erase(prefix_ + key); }
  bool check(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) {
      if (!store_.check(prefix_ + key)) return false;
    }
    return true;
  }
  int64_t getNumKeys() override {
    throw internal_error("the rendezvous store does not count its keys");
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    for (const std::string& key : keys) fetch(key, timeout);
  }

 private:
  std::string fetch(const std::string& key, std::chrono::milliseconds timeout) {
    try {
      return store_.get(prefix_ + key, timeout);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      // Gloo's keys end with the rank whose address they hold.
      const size_t digits = key.find_last_not_of("0123456789") + 1;
      if (digits >= key.size()) throw;
      throw error.with_context(
          fmt::format("rank {} did not appear within {} ms", key.substr(digits), timeout.count()));
    }
  }

  KeyValueStore& store_;
  const std::string prefix_;
};

class C10dTransfer : public Transfer {
 public:
  explicit C10dTransfer(c10::intrusive_ptr<::c10d::Work> work) : work_(std::move(work)) {}
  bool wait(std::chrono::milliseconds timeout) override {
    return work_->wait(
        std::max(timeout, std::chrono::milliseconds(1)));  // 0 would mean the group's
  }
  void abort() override { work_->abort(); }

 private:
  const c10::intrusive_ptr<::c10d::Work> work_;
};

}  // namespace

struct PointToPoint::Group {
  // One connection to each peer for messages to higher ranks, one for messages to lower ones. Gloo
  // locks a connection while it writes, and its thread does not sleep while data come in for a
  // locked one. With a connection for each direction it mostly finds them unlocked.
  std::array<c10::intrusive_ptr<::c10d::ProcessGroupGloo>, 2> gloo;
  int rank = 0;
  std::vector<at::Tensor> message = std::vector<at::Tensor>(1);  // c10d wants a list

  std::vector<at::Tensor>& wrap(const std::byte* data, int64_t bytes) {
    message[0] = at::from_blob(const_cast<std::byte*>(data), {bytes}, at::kByte);
    return message;
  }
};

PointToPoint::PointToPoint(const PointToPointOptions& options) : group_(std::make_unique<Group>()) {
  const auto where = [&] {
    return fmt::format("rank {} of {} could not connect to its peers from {}", options.rank,
                       options.size, options.address);
  };
  // Two connections to each peer; each of the two groups listens, and waits for events.
  constexpr int64_t kOwn = 16;
  DescriptorClaim claim(2 * (options.size - 1) + kOwn,
                        fmt::format("rank {} of {} over TCP", options.rank, options.size));
  group_->rank = options.rank;
  try {
    auto gloo = ::c10d::ProcessGroupGloo::Options::create(options.timeout);
    gloo->threads =
        0;  // messages are completed by Gloo's own thread; these would only run its collectives
    gloo->devices.push_back(::c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
    for (size_t i = 0; i < 2; ++i) {
      auto keys = c10::make_intrusive<StoreAdapter>(
          *options.store, options.prefix + (i == 0 ? "up/" : "down/"), options.timeout);
      group_->gloo[i] =
          c10::make_intrusive<::c10d::ProcessGroupGloo>(keys, options.rank, options.size, gloo);
    }
  } catch (const Error& error) {
    throw error.with_context(where());
  } catch (const std::exception& error) {
    throw Error(
        ErrorKind::kUnavailable, fmt::format("{}: {}", where(), error.what()),
        "check that the tasks can reach each other at the addresses of the cluster description");
  }
  claim.keep();
}

PointToPoint::~PointToPoint() = default;

std::unique_ptr<Transfer> PointToPoint::send(int peer, const std::byte* data, int64_t bytes,
                                             uint32_t tag) {
  return std::make_unique<C10dTransfer>(group_->gloo[group_->rank < peer ? 0 : 1]->send(
      group_->wrap(data, bytes), peer, static_cast<int>(tag)));
}

std::unique_ptr<Transfer> PointToPoint::receive(int peer, std::byte* data, int64_t bytes,
                                                uint32_t tag) {
  return std::make_unique<C10dTransfer>(group_->gloo[peer < group_->rank ? 0 : 1]->recv(
      group_->wrap(data, bytes), peer, static_cast<int>(tag)));
}

bool PointToPoint::connected(int peer, uint32_t tag) {
  try {
    std::byte probe{};
    std::vector<at::Tensor> message = {at::from_blob(&probe, {1}, at::kByte)};
    for (const auto& gloo : group_->gloo) gloo->recv(message, peer, static_cast<int>(tag));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace muster::inline v0_1::internal
