#include "muster/ps/internal/server_memory.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

namespace {

// Whether `bytes` from `begin` on lie in [from, to).
bool lies_in(int64_t begin, int64_t bytes, int64_t from, int64_t to) {
  return begin >= from && begin <= to && bytes <= to - begin &&
         begin % static_cast<int64_t>(sizeof(int64_t)) == 0;
}

void copy_to(std::byte* to, const Tensor& from) {
  if (from.numel() > 0) std::memcpy(to, from.data_ptr(), from.nbytes());
}

}  // namespace

ServerMemory::ServerMemory(std::string server, std::vector<Shard> shards,
                           const net::shards::Shared& told, FileDescriptor file)
    : server_(std::move(server)), shards_(std::move(shards)), places_(told.shards) {
  weights_.emplace(std::move(file), told.bytes, told.groups);
  if (places_.size() != shards_.size())
    throw wrong(
        fmt::format("{} parts of variables, and {} are there", places_.size(), shards_.size()));
  for (size_t s = 0; s < shards_.size(); ++s) {
    const auto& place = places_[s];
    // Groups lie one after another.
    if (place.group >= weights_->groups() || (s > 0 && place.group < places_[s - 1].group) ||
        !lies_in(place.begin, shards_[s].rows * shards_[s].row_bytes, 0, told.bytes))
      throw wrong(fmt::format("part {} at byte {} of {}", s, place.begin, told.bytes));
  }
}

Error ServerMemory::wrong(const std::string& what) const {
  return corrupt(fmt::format("{} says of the memory it shares: {}", server_, what),
                 "run the same version of the program in every task");
}

bool ServerMemory::read(std::span<const Tensor> weights) const {
  for (size_t group = 0, shard = 0; group < weights_->groups(); ++group) {
    size_t end = shard;
    const bool whole = weights_->read(group, [&](const std::byte* file) {
      for (end = shard; end < places_.size() && places_[end].group == group; ++end) {
        const Tensor& wanted = weights[end];
        if (wanted.defined() && wanted.numel() > 0)
          std::memcpy(wanted.data_ptr(), file + places_[end].begin, wanted.nbytes());
      }
    });
    if (!whole) return false;
    shard = end;
  }
  return true;
}

bool ServerMemory::read_rows(size_t shard, const Tensor& ids, const Tensor& rows) const {
  const auto bytes = static_cast<size_t>(shards_[shard].row_bytes);
  const int64_t* const numbers = ids.data_ptr<int64_t>();
  auto* const to = static_cast<std::byte*>(rows.data_ptr());
  return weights_->read(places_[shard].group, [&](const std::byte* file) {
    const std::byte* const table = file + places_[shard].begin;
    for (int64_t i = 0; i < ids.numel(); ++i) {
      std::memcpy(to + static_cast<size_t>(i) * bytes,
                  table + static_cast<size_t>(numbers[i]) * bytes, bytes);
    }
  });
}

bool ServerMemory::has_room(int64_t row_bytes) const {
  return area_ && row_bytes <= area_->bytes() - dense_bytes_;
}

void ServerMemory::set_area(const net::shards::Area& told, FileDescriptor file) {
  area_.emplace(SharedMemory::map(std::move(file), told.bytes));
  dense_bytes_ = told.dense_bytes;
  gradients_ = told.shards;
  if (!lies_in(0, dense_bytes_, 0, told.bytes) || dense_bytes_ < 0 ||
      dense_bytes_ % SharedWeights::kAlignment != 0 || gradients_.size() != shards_.size())
    throw wrong(fmt::format("{} bytes of gradients in {}", dense_bytes_, told.bytes));
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (!shards_[s].row_sparse &&
        !lies_in(gradients_[s], shards_[s].rows * shards_[s].row_bytes, 0, dense_bytes_))
      throw wrong(fmt::format("the gradient of part {} at byte {}", s, gradients_[s]));
  }
}

void ServerMemory::write(size_t shard, const Tensor& gradient) const {
  copy_to(area_->data() + gradients_[shard], gradient);
}

int64_t ServerMemory::room_of(const Tensor& ids, const Tensor& values) {
  return SharedWeights::rounded_up(static_cast<int64_t>(ids.nbytes())) +
         SharedWeights::rounded_up(static_cast<int64_t>(values.nbytes()));
}

int64_t ServerMemory::write_rows(const Tensor& ids, int64_t first, const Tensor& values,
                                 int64_t* used) const {
  const int64_t at = dense_bytes_ + *used;
  *used += room_of(ids, values);
  auto* const numbers = reinterpret_cast<int64_t*>(area_->data() + at);
  const int64_t* const own = ids.data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) numbers[i] = own[i] - first;
  copy_to(area_->data() + at + SharedWeights::rounded_up(static_cast<int64_t>(ids.nbytes())),
          values);
  return at;
}

}  // namespace muster::inline v0_1::ps
