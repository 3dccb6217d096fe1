#include "muster/ps/internal/part_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/files/file_systems.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

namespace {

constexpr int64_t kReadAtOnce = int64_t{32} << 20;  // bytes

}  // namespace

void read_in_pieces(
    const CheckpointReader& checkpoint, const std::string& name, const TensorSpec& form,
    std::optional<int64_t> begin,
    const std::function<void(std::optional<int64_t> first, const Tensor& values)>& take) {
  int64_t row = static_cast<int64_t>(c10::elementSize(form.dtype));
  for (size_t axis = 1; axis < form.shape.size(); ++axis) row *= form.shape[axis];
  const int64_t rows = form.shape.empty() ? 0 : form.shape[0];
  if (!begin && rows * row <= kReadAtOnce) return take(std::nullopt, checkpoint.read(name));
  const int64_t from = begin.value_or(0),
                at_once = std::max<int64_t>(1, kReadAtOnce / std::max<int64_t>(1, row));
  for (int64_t first = 0; first < rows; first += at_once) {
    const int64_t end = std::min(rows, first + at_once);
    take(first, checkpoint.read_rows(name, from + first, from + end));
  }
}

PartFiles::PartFiles(std::string model_dir, FileSystem* fs)
    : model_dir_(std::move(model_dir)), fs_(fs != nullptr ? *fs : file_systems()) {}

bool PartFiles::sees(const std::string& text) const {
  return sees_directory(fs_, model_dir_, text);
}

net::shards::Written PartFiles::write(const std::string& name, const ShardStore& store,
                                      const std::map<std::string, Tensor>& copy) const {
  if (checkpoint_part_step(name) < 0)
    throw invalid_argument(fmt::format("'{}' is not a name of a part of a checkpoint", name));
  net::shards::Written written;
  if (const auto bad = store.find_non_finite(copy)) {
    written.non_finite = *bad;
  } else {
    written.table = write_checkpoint_part(fs_, join_path(model_dir_, name), copy).to_text();
  }
  return written;
}

std::unique_ptr<CheckpointReader> PartFiles::open(const std::string& name) const {
  if (checkpoint_step(name) < 0 || base_name(name) != name)
    throw invalid_argument(fmt::format("'{}' is not a name of a checkpoint", name));
  return open_checkpoint(fs_, join_path(model_dir_, name));
}

void PartFiles::verify(const net::shards::Verify& request) const {
  open(request.checkpoint)->verify(request.share, request.shares);
}

void PartFiles::restore(const net::shards::Restore& request, ShardStore& store) const {
  const auto reader = open(request.checkpoint);
  const std::map<std::string, TensorSpec> held = store.specs();
  for (const auto& [to, from, begin] : request.tensors) {
    const auto form = held.find(to);
    if (form == held.end()) throw invalid_argument(fmt::format("{} is not on this server", to));
    read_in_pieces(*reader, from, form->second, begin,
                   [&, &to = to](std::optional<int64_t> first, const Tensor& values) {
                     if (first) return store.write_rows(to, *first, values);
                     store.write({{to, values}});
                   });
  }
}

}  // namespace muster::inline v0_1::ps
