#include "muster/ps/internal/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

using distribute::FlatParameters;
using nlohmann::json;

namespace {

constexpr int64_t kLeastAreaRows = 1 << 20;  // bytes
constexpr int64_t kLittle = 512 << 10;       // bytes

// Views of consecutive rows.
Tensor rows_of(const Tensor& tensor, const plan::Shard& shard) {
  return shard.parts == 1 ? tensor : tensor.narrow(0, shard.begin, shard.end - shard.begin);
}

}  // namespace

Transfer::Transfer(Session& session, const Layout& layout, FlatParameters& parameters)
    : session_(session),
      layout_(layout),
      parameters_(parameters),
      memory_(session.servers()),
      ahead_(session.servers()) {}

// What is on its way ends with its connection; its memory stays until then.
Transfer::~Transfer() { session_.close_ahead(); }

json Transfer::ask(size_t server, json request, std::span<const Tensor> tensors,
                   const Session::Receive& receive) {
  request["generation"] = generation_;
  return session_.ask(server, request, tensors, receive);
}

Tensor Transfer::memory_of(const Layout::Part& part) const {
  const auto& parameter = parameters_.parameters()[static_cast<size_t>(part.parameter)];
  return rows_of(parameter.variable->value().detach(), part.shard);
}

void Transfer::share_memory() {
  for (size_t server = 0; server < session_.servers(); ++server) {
    share_memory_of(server);
    log::debug(fmt::format("weights and gradients of {} go through {}",
                           session_.server_name(server), memory_[server] ? "memory" : "a socket"));
  }
}

void Transfer::share_memory_of(size_t server) {
  memory_[server].reset();
  // What is rounded on its way has to have one.
  if (!session_.options().shared_memory || session_.options().wire_dtype != kFloat32 ||
      !session_.carries_files(server))
    return;
  std::vector<ServerMemory::Shard> shards;
  for (const size_t p : layout_.parts_on(server)) {
    const Layout::Part& part = layout_.parts()[p];
    const VariableSpec& spec = spec_of(part);
    int64_t row_bytes = static_cast<int64_t>(c10::elementSize(spec.dtype));
    for (size_t axis = 1; axis < spec.shape.size(); ++axis) row_bytes *= spec.shape[axis];
    shards.push_back({.rows = spec.shape.empty() ? 1 : part.shard.end - part.shard.begin,
                      .row_bytes = row_bytes,
                      .row_sparse = part.table >= 0});
  }
  try {
    ask(server, {{"op", "share"}}, {}, [&](net::MessageSocket& socket, const json& told) {
      if (!told.contains("bytes")) return;
      memory_[server] = std::make_unique<ServerMemory>(session_.server_name(server),
                                                       std::move(shards), told, socket.take_file());
    });
    const bool tables = std::ranges::any_of(
        layout_.parts_on(server), [&](size_t p) { return layout_.parts()[p].table >= 0; });
    if (memory_[server]) make_area(server, tables ? kLeastAreaRows : 0);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnavailable) throw;
    memory_[server].reset();
    log::debug(
        fmt::format("{} shows no memory: {}", session_.server_name(server), error.message()));
  }
}

void Transfer::make_area(size_t server, int64_t row_bytes) {
  memory_[server]->drop_area();
  ask(server, {{"op", "area"}, {"row_bytes", row_bytes}}, {},
      [&](net::MessageSocket& socket, const json& told) {
        memory_[server]->set_area(told, socket.take_file());
      });
}

bool Transfer::makes_room(size_t server, int64_t row_bytes) {
  if (memory_[server]->has_room(row_bytes)) return true;
  try {
    make_area(server, 2 * row_bytes);
    return true;
  } catch (const Error& error) {
    // This step goes over the socket.
    if (error.kind() != ErrorKind::kUnavailable && error.kind() != ErrorKind::kInvalidArgument)
      throw;
    log::debug(fmt::format("gradients go to {} over a socket: {}", session_.server_name(server),
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

std::vector<Tensor> Transfer::dense_on(size_t server) const {
  std::vector<Tensor> dense;
  for (const size_t p : layout_.parts_on(server)) {
    const Layout::Part& part = layout_.parts()[p];
    if (part.parameter >= 0) dense.push_back(memory_of(part));
  }
  return dense;
}

bool Transfer::copy_from(size_t server, const json* round) {
  if (!memory_[server]) return false;
  if (round != nullptr) ask(server, {{"op", "round"}, {"round", *round}});
  std::vector<Tensor> weights;
  for (const size_t p : layout_.parts_on(server)) {
    const Layout::Part& part = layout_.parts()[p];
    weights.push_back(part.parameter >= 0 ? memory_of(part) : Tensor());
  }
  note_look(server, memory_[server]->steps());
  return memory_[server]->read(weights);
}

void Transfer::pull_from(size_t server, const json* round) {
  const std::vector<Tensor> dense = dense_on(server);
  if (dense.empty() && round == nullptr) return;
  if (copy_from(server, round) || take_what_was_fetched(server)) return;
  json request{{"op", "pull"}};
  if (round != nullptr) request["round"] = *round;
  ask(server, std::move(request), {}, [&](net::MessageSocket& socket, const json& told) {
    note_look(server, told.at("applied").get<int64_t>());
    for (const Tensor& weights : dense)
      receive_rounded(socket, weights, session_.options().wire_dtype);
  });
}

void Transfer::pull(const json* round) {
  looked_.reset();
  const bool at_once = std::ranges::all_of(memory_, [](const auto& memory) { return !!memory; }) &&
                       is_little(bytes_of_weights());
  if (at_once) {
    for (size_t server = 0; server < session_.servers(); ++server) pull_from(server, round);
  } else {
    session_.at_all_servers([&](size_t server) { pull_from(server, round); });
  }
  // Whoever keeps something made of the weights must notice, as after an update.
  for (const auto& buffer : parameters_.buffers())
    buffer.weights.unsafeGetTensorImpl()->bump_version();
  if (!session_.options().prefetch) return;
  for (size_t server = 0; server < session_.servers(); ++server) fetch_ahead(server);
}

void Transfer::fetch_ahead(size_t server) {
  // Out of memory weights come when they are needed, in no more time.
  if (memory_[server]) return;
  Ahead& ahead = ahead_[server];
  if (ahead.weights.empty()) {
    for (const Tensor& weights : dense_on(server)) ahead.weights.push_back(at::empty_like(weights));
  }
  if (ahead.weights.empty()) return;
  ahead.applied = std::async(std::launch::async, [this, server, &ahead] {
    torch::NoGradGuard no_grad;
    const json request{{"op", "pull"}, {"generation", generation_}};
    const json told =
        session_.ask_ahead(server, request, [&](net::MessageSocket& socket, const json&) {
          for (const Tensor& weights : ahead.weights)
            receive_rounded(socket, weights, session_.options().wire_dtype);
        });
    return told.at("applied").get<int64_t>();
  });
}

bool Transfer::take_what_was_fetched(size_t server) {
  Ahead& ahead = ahead_[server];
  if (!ahead.applied.valid()) return false;
  torch::NoGradGuard no_grad;
  note_look(server, ahead.applied.get());
  const std::vector<Tensor> dense = dense_on(server);
  for (size_t i = 0; i < dense.size(); ++i) Tensor(dense[i]).copy_(ahead.weights[i]);
  return true;
}

Tensor Transfer::read_rows(int table, const Tensor& ids) {
  torch::NoGradGuard no_grad;
  const Variable& variable = parameters_.tables().variable(table);
  Shape shape = variable.spec().shape;
  shape[0] = ids.numel();
  Tensor rows = torch::empty(shape, at::dtype(variable.spec().dtype));
  if (ids.numel() == 0) return rows;
  const int64_t* numbers = ids.data_ptr<int64_t>();
  // Ids are sorted, and a part has consecutive rows: so what one server has is one piece.
  struct Piece {
    size_t part;
    int64_t begin;
    int64_t end;
  };
  std::vector<std::vector<Piece>> pieces(session_.servers());
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
  session_.at_all_servers([&](size_t server) {
    if (pieces[server].empty()) return;
    json shards = json::array();
    std::vector<Tensor> asked;
    for (const Piece& piece : pieces[server]) {
      const Layout::Part& part = layout_.parts()[piece.part];
      shards.push_back({{"shard", part.place}, {"rows", piece.end - piece.begin}});
      asked.push_back(ids.slice(0, piece.begin, piece.end) - part.shard.begin);
    }
    ask(server, {{"op", "rows"}, {"shards", shards}}, asked,
        [&](net::MessageSocket& socket, const json& told) {
          note_look(server, told.at("applied").get<int64_t>());
          for (const Piece& piece : pieces[server])
            receive_rounded(socket, rows.slice(0, piece.begin, piece.end),
                            session_.options().wire_dtype);
        });
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

json Transfer::push(size_t server, const FlatParameters::Prepared& gradients, const json& request) {
  const Session::Request whole = packed(server, gradients, request);
  return session_.ask(server, whole.head, whole.tensors);
}

void Transfer::push_to_all(const FlatParameters::Prepared& gradients, const json& request) {
  int64_t bytes = 0;
  for (const Tensor& gradient : gradients.gradients)
    bytes += gradient.defined() ? static_cast<int64_t>(gradient.nbytes()) : 0;
  for (const auto& rows : gradients.rows) bytes += static_cast<int64_t>(rows.values.nbytes());
  if (!is_little(bytes)) {
    session_.at_all_servers([&](size_t server) { push(server, gradients, request); });
    return;
  }
  std::vector<Session::Request> requests;
  for (size_t server = 0; server < session_.servers(); ++server)
    requests.push_back(packed(server, gradients, request));
  session_.ask_each(0, requests);
}

Session::Request Transfer::packed(size_t server, const FlatParameters::Prepared& gradients,
                                  json request) {
  request["generation"] = generation_;
  const DType wire_dtype = session_.options().wire_dtype;
  struct Rows {
    const Layout::Part* part;
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
  json& places = request["dense"] = json::array();
  json& row_places = request["rows"] = json::array();
  for (const auto& [part, gradient] : dense) places.push_back(part->place);
  for (const Rows& its : rows)
    row_places.push_back({{"shard", its.part->place}, {"rows", its.ids.numel()}});
  if (memory_[server] && makes_room(server, room)) {
    const ServerMemory& memory = *memory_[server];
    for (const auto& [part, gradient] : dense) memory.write(part->place, gradient);
    int64_t used = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      row_places[i]["at"] =
          memory.write_rows(rows[i].ids, rows[i].part->shard.begin, rows[i].values, &used);
    }
    request["in_area"] = true;
    return {.head = std::move(request)};
  }
  std::vector<Tensor> tensors;
  for (const auto& [part, gradient] : dense) tensors.push_back(rounded(gradient, wire_dtype));
  for (const Rows& its : rows) {
    tensors.push_back(its.ids - its.part->shard.begin);
    tensors.push_back(rounded(its.values, wire_dtype));
  }
  return {.head = std::move(request), .tensors = std::move(tensors)};
}

}  // namespace muster::inline v0_1::ps
