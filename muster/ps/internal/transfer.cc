#include "muster/ps/internal/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

using distribute::FlatParameters;

namespace {

constexpr int64_t kLeastAreaRows = 1 << 20;  // bytes
constexpr int64_t kLittle = 512 << 10;       // bytes
constexpr int64_t kLookedAtNothing = -1;

// Views of consecutive rows.
Tensor rows_of(const Tensor& tensor, const plan::Shard& shard) {
  return shard.parts == 1 ? tensor : tensor.narrow(0, shard.begin, shard.end - shard.begin);
}

}  // namespace

Transfer::Transfer(ServerConnections& connections, const Layout& layout, FlatParameters& parameters)
    : connections_(connections),
      layout_(layout),
      parameters_(parameters),
      memory_(connections.servers()) {}

Tensor Transfer::memory_of(const Layout::Part& part) const {
  const auto& parameter = parameters_.parameters()[static_cast<size_t>(part.parameter)];
  return rows_of(parameter.variable->value().detach(), part.shard);
}

void Transfer::share_memory() {
  for (size_t server = 0; server < connections_.servers(); ++server) {
    share_memory_of(server);
    log::debug(fmt::format("weights and gradients of {} go through {}",
                           connections_.server_name(server),
                           memory_[server] ? "memory" : "a socket"));
  }
}

void Transfer::share_memory_of(size_t server) {
  memory_[server].reset();
  // Rounded weights need a copy.
  if (!connections_.options().shared_memory || connections_.options().wire_dtype != kFloat32 ||
      !connections_.carries_files(server))
    return;
  std::vector<ServerMemory::Shard> held;
  for (const size_t p : layout_.parts_on(server)) {
    const Layout::Part& part = layout_.parts()[p];
    const VariableSpec& spec = spec_of(part);
    int64_t row_bytes = static_cast<int64_t>(c10::elementSize(spec.dtype));
    for (size_t axis = 1; axis < spec.shape.size(); ++axis) row_bytes *= spec.shape[axis];
    held.push_back({.rows = spec.shape.empty() ? 1 : part.shard.end - part.shard.begin,
                    .row_bytes = row_bytes,
                    .row_sparse = part.table >= 0});
  }
  try {
    const auto take = [&](net::MessageSocket& socket, const shards::Shared& told) {
      if (told.bytes == 0) return;
      memory_[server] = std::make_unique<ServerMemory>(connections_.server_name(server),
                                                       std::move(held), told, socket.take_file());
    };
    connections_.ask(server, generation_, shards::Share(), {}, take);
    const bool tables = std::ranges::any_of(
        layout_.parts_on(server), [&](size_t p) { return layout_.parts()[p].table >= 0; });
    if (memory_[server]) make_area(server, tables ? kLeastAreaRows : 0);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnavailable) throw;
    memory_[server].reset();
    log::debug(
        fmt::format("{} shows no memory: {}", connections_.server_name(server), error.message()));
  }
}

void Transfer::make_area(size_t server, int64_t row_bytes) {
  memory_[server]->drop_area();
  connections_.ask(server, generation_, shards::MakeArea{row_bytes}, {},
                   [&](net::MessageSocket& socket, const shards::Area& told) {
                     memory_[server]->set_area(told, socket.take_file());
                   });
}

bool Transfer::makes_room(size_t server, int64_t row_bytes) {
  if (memory_[server]->has_room(row_bytes)) return true;
  try {
    make_area(server, 2 * row_bytes);
    return true;
  } catch (const Error& error) {
    // This step uses the socket.
    if (error.kind() != ErrorKind::kUnavailable && error.kind() != ErrorKind::kInvalidArgument)
      throw;
    log::debug(fmt::format("gradients go to {} over a socket: {}", connections_.server_name(server),
                           error.message()));
    return false;
  }
}

const VariableSpec& Transfer::spec_of(const Layout::Part& part) const {
  return part.table >= 0
             ? parameters_.tables().variable(part.table).spec()
             : parameters_.parameters()[static_cast<size_t>(part.parameter)].variable->spec();
}

void Transfer::note_look(size_t server, int64_t applied) {
  if (server == 0) looked_ = std::min(looked_.value_or(applied), applied);
}

int64_t Transfer::pull_from(size_t server, const std::vector<Tensor>& into, const Round* round) {
  const auto weights = [&](size_t p) -> const Tensor& { return into[p]; };
  std::vector<Tensor> by_place, dense;
  for (const size_t p : layout_.parts_on(server)) {
    by_place.push_back(weights(p));
    if (weights(p).defined()) dense.push_back(weights(p));
  }
  if (dense.empty() && round == nullptr) return kLookedAtNothing;
  if (memory_[server]) {
    if (round != nullptr) connections_.ask(server, generation_, shards::MakeRound{*round});
    const int64_t applied = memory_[server]->steps();
    if (memory_[server]->read(by_place)) return applied;
  }
  shards::Pull pull;
  if (round != nullptr) pull.round = *round;
  const auto take = [&](net::MessageSocket& socket, const shards::Looked&) {
    for (const Tensor& shard : dense)
      receive_rounded(socket, shard, connections_.options().wire_dtype);
  };
  return connections_.ask(server, generation_, pull, {}, take).applied;
}

std::optional<int64_t> Transfer::pull_into(const std::vector<Tensor>& into, const Round* round) {
  std::vector<int64_t> applied(connections_.servers(), kLookedAtNothing);
  const auto pull = [&](size_t server) {
    torch::NoGradGuard no_grad;
    applied[server] = pull_from(server, into, round);
  };
  const bool at_once = std::ranges::all_of(memory_, [](const auto& memory) { return !!memory; }) &&
                       is_little(bytes_of_weights());
  if (at_once) {
    for (size_t server = 0; server < connections_.servers(); ++server) pull(server);
  } else {
    connections_.at_all_servers(pull);
  }
  if (applied.front() == kLookedAtNothing) return std::nullopt;
  return applied.front();
}

std::vector<Tensor> Transfer::weights_here() const {
  std::vector<Tensor> weights;
  for (const Layout::Part& part : layout_.parts())
    weights.push_back(part.parameter >= 0 ? memory_of(part) : Tensor());
  return weights;
}

void Transfer::note_new_weights() const {
  // Code that caches results of the weights must notice, as after an update.
  for (const auto& buffer : parameters_.buffers())
    buffer.weights.unsafeGetTensorImpl()->bump_version();
}

void Transfer::pull(const Round* round) {
  looked_ = pull_into(weights_here(), round);
  note_new_weights();
}

void Transfer::fetch() {
  if (fetched_.empty()) {
    for (const Tensor& weights : weights_here())
      fetched_.push_back(weights.defined() ? at::empty_like(weights) : Tensor());
  }
  fetched_looked_ = pull_into(fetched_, nullptr);
  has_fetched_ = true;
}

void Transfer::take_fetched() {
  // Weights that stay keep their age.
  if (!std::exchange(has_fetched_, false)) return;
  torch::NoGradGuard no_grad;
  const std::vector<Tensor> here = weights_here();
  for (size_t p = 0; p < here.size(); ++p) {
    if (here[p].defined()) Tensor(here[p]).copy_(fetched_[p]);
  }
  looked_ = fetched_looked_;
  note_new_weights();
}

Tensor Transfer::read_rows(int table, const Tensor& ids) {
  torch::NoGradGuard no_grad;
  const Variable& variable = parameters_.tables().variable(table);
  Shape shape = variable.spec().shape;
  shape[0] = ids.numel();
  Tensor rows = torch::empty(shape, at::dtype(variable.spec().dtype));
  if (ids.numel() == 0) return rows;
  const int64_t* numbers = ids.data_ptr<int64_t>();
  // Ids are sorted, and a part has consecutive rows: so each server's share is one piece.
  struct Piece {
    size_t part{};
    int64_t begin{};
    int64_t end{};
  };
  std::vector<std::vector<Piece>> pieces(connections_.servers());
  int64_t at = 0;
  for (const size_t p : layout_.parts_of_table(table)) {
    const plan::Shard& shard = layout_.parts()[p].shard;
    const int64_t end = std::lower_bound(numbers + at, numbers + ids.numel(), shard.end) - numbers;
    const auto server = static_cast<size_t>(shard.server);
    if (end > at &&
        !copy_rows(server, layout_.parts()[p], ids.slice(0, at, end), rows.slice(0, at, end)))
      pieces[server].push_back({p, at, end});
    at = end;
  }
  if (std::ranges::all_of(pieces, [](const auto& of_server) { return of_server.empty(); }))
    return rows;
  connections_.at_all_servers_for_rows([&](size_t server) {
    if (pieces[server].empty()) return;
    shards::Rows wanted;
    std::vector<Tensor> numbers;
    for (const Piece& piece : pieces[server]) {
      const Layout::Part& part = layout_.parts()[piece.part];
      wanted.shards.push_back({.shard = part.place, .rows = piece.end - piece.begin});
      numbers.push_back(ids.slice(0, piece.begin, piece.end) - part.shard.begin);
    }
    const auto take = [&](net::MessageSocket& socket, const shards::Looked& looked) {
      note_look(server, looked.applied);
      for (const Piece& piece : pieces[server])
        receive_rounded(socket, rows.slice(0, piece.begin, piece.end),
                        connections_.options().wire_dtype);
    };
    connections_.ask_for_rows(server, generation_, wanted, numbers, take);
  });
  return rows;
}

bool Transfer::copy_rows(size_t server, const Layout::Part& part, const Tensor& ids,
                         const Tensor& rows) {
  if (!memory_[server]) return false;
  note_look(server, memory_[server]->steps());
  const Tensor own = part.shard.begin == 0 ? ids : ids - part.shard.begin;
  return memory_[server]->read_rows(part.place, own, rows);
}

bool Transfer::is_little(int64_t bytes) { return bytes <= kLittle; }

int64_t Transfer::bytes_of_weights() const {
  int64_t bytes = 0;
  for (const auto& buffer : parameters_.buffers())
    bytes += static_cast<int64_t>(buffer.weights.nbytes());
  return bytes;
}

Transfer::Push Transfer::pack(const FlatParameters::Prepared& gradients,
                              const shards::Push& request) {
  Push push;
  for (const Tensor& gradient : gradients.gradients)
    push.bytes += gradient.defined() ? static_cast<int64_t>(gradient.nbytes()) : 0;
  for (const auto& rows : gradients.rows) push.bytes += static_cast<int64_t>(rows.values.nbytes());
  push.requests.resize(connections_.servers());
  const auto pack = [&](size_t server) {
    torch::NoGradGuard no_grad;
    push.requests[server] = packed(server, gradients, request);
  };
  if (is_little(push.bytes)) {
    for (size_t server = 0; server < connections_.servers(); ++server) pack(server);
  } else {
    connections_.at_all_servers(pack);
  }
  return push;
}

std::optional<ledger::Committed> Transfer::send(const Push& push) {
  if (push.requests.size() == 1) return connections_.ask(0, push.requests[0]).committed;
  if (is_little(push.bytes)) {
    connections_.ask_each(0, push.requests);
  } else {
    connections_.at_all_servers(
        [&](size_t server) { connections_.ask(server, push.requests[server]); });
  }
  return std::nullopt;
}

ServerConnections::Request Transfer::packed(size_t server,
                                            const FlatParameters::Prepared& gradients,
                                            shards::Push push) {
  const DType wire_dtype = connections_.options().wire_dtype;
  struct Rows {
    const Layout::Part* part{};
    Tensor ids, values;
  };
  std::vector<std::pair<const Layout::Part*, Tensor>> dense;
  std::vector<Rows> rows;
  int64_t room = 0;
  for (const size_t p : layout_.parts_on(server)) {
    const Layout::Part& part = layout_.parts()[p];
    if (part.parameter >= 0) {
      const Tensor& gradient = gradients.gradients[static_cast<size_t>(part.parameter)];
      if (gradient.defined()) dense.emplace_back(&part, rows_of(gradient, part.shard));
      continue;
    }
    const auto& gradient = gradients.rows[static_cast<size_t>(part.table)];
    const int64_t* ids = gradient.ids.data_ptr<int64_t>();
    const int64_t* end = ids + gradient.ids.numel();
    const int64_t from = std::lower_bound(ids, end, part.shard.begin) - ids;
    const int64_t to = std::lower_bound(ids, end, part.shard.end) - ids;
    if (from == to) continue;
    rows.push_back({&part, gradient.ids.slice(0, from, to), gradient.values.slice(0, from, to)});
    room += ServerMemory::room_of(rows.back().ids, rows.back().values);
  }
  for (const auto& [part, gradient] : dense) push.dense.push_back(part->place);
  for (const Rows& its : rows)
    push.rows.push_back({.shard = its.part->place, .rows = its.ids.numel()});
  const auto head = [&] { return net::encode(shards::Request{generation_, push}); };
  if (memory_[server] && makes_room(server, room)) {
    const ServerMemory& memory = *memory_[server];
    for (const auto& [part, gradient] : dense) memory.write(part->place, gradient);
    int64_t used = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      push.rows[i].at =
          memory.write_rows(rows[i].ids, rows[i].part->shard.begin, rows[i].values, &used);
    }
    push.in_area = true;
    return {.head = head()};
  }
  std::vector<Tensor> tensors;
  for (const auto& [part, gradient] : dense) tensors.push_back(rounded(gradient, wire_dtype));
  for (const Rows& its : rows) {
    tensors.push_back(its.ids - its.part->shard.begin);
    tensors.push_back(rounded(its.values, wire_dtype));
  }
  return {.head = head(), .tensors = std::move(tensors)};
}

}  // namespace muster::inline v0_1::ps
