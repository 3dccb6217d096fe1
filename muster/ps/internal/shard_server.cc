#include "muster/ps/internal/shard_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/ps/internal/shared_weights.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::ps {

using distribute::VariableTable;

namespace {

constexpr int kGroups = 4;
constexpr int64_t kMostAreaRows = int64_t{1} << 32;  // bytes of gradients of rows

// The lines a model and its optimizers are compared by.
std::vector<std::string> lines_of(const VariableTable& table, const optim::TrainOp& train_op) {
  std::vector<std::string> lines = table.signature();
  for (const auto& entry : train_op.entries)
    lines.push_back("optimizer " + entry.optimizer.describe());
  return lines;
}

// Behind the optimizers stands what workers alone do, as how many batches they make an update of.
std::vector<std::string> without_workers_own(std::vector<std::string> chiefs) {
  const auto last = std::find_if(chiefs.rbegin(), chiefs.rend(), [](const std::string& line) {
    return line.starts_with("optimizer ");
  });
  chiefs.erase(last.base(), chiefs.end());
  return chiefs;
}

void check_same_model(const std::string& name, const std::vector<std::string>& chiefs,
                      const std::vector<std::string>& own) {
  if (chiefs == own) return;
  std::vector<std::string> differences;
  constexpr size_t kShown = 4;
  for (size_t i = 0; i < std::max(chiefs.size(), own.size()) && differences.size() < kShown; ++i) {
    const std::string theirs = i < chiefs.size() ? chiefs[i] : "nothing";
    const std::string mine = i < own.size() ? own[i] : "nothing";
    if (theirs != mine) differences.push_back(fmt::format("{} there, {} here", theirs, mine));
  }
  throw invalid_argument(fmt::format("the chief and {} have built different models: {}", name,
                                     join(differences, "; ")),
                         "start the same program with the same flags in every task");
}

int64_t bytes_of(const TensorSpec& spec) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(spec.dtype));
  for (const int64_t size : spec.shape) bytes *= size;
  return bytes;
}

// The gradient of this many rows of a shard, whose numbers begin in the area at `at`, and its
// values after them.
distribute::RowGradient rows_in_area(const ShardStore& store,
                                     const std::shared_ptr<const SharedMemory>& area, size_t shard,
                                     int64_t rows, int64_t at) {
  const TensorSpec values = store.rows_spec(shard, rows);
  const int64_t space = at < store.dense_bytes() ? -1 : area->bytes() - at;
  if (rows < 0 || space < 0 || at % SharedWeights::kAlignment != 0 ||
      rows > space / static_cast<int64_t>(sizeof(int64_t)) ||
      SharedWeights::rounded_up(rows * static_cast<int64_t>(sizeof(int64_t))) + bytes_of(values) >
          space) {
    throw invalid_argument(
        fmt::format("a gradient of {} rows was said to lie at byte {} of the {} that are shared",
                    rows, at, area->bytes()));
  }
  const std::byte* const begin = area->data() + at;
  distribute::RowGradient gradient{torch::empty({rows}, at::kLong), {}};
  // Numbers are checked, and so must not change after that.
  if (rows > 0)
    std::memcpy(gradient.ids.data_ptr(), begin, static_cast<size_t>(rows) * sizeof(int64_t));
  gradient.values = torch::from_blob(
      const_cast<std::byte*>(begin) +
          SharedWeights::rounded_up(rows * static_cast<int64_t>(sizeof(int64_t))),
      values.shape, [area](void*) {}, at::dtype(values.dtype));
  return gradient;
}

}  // namespace

ShardServer::ShardServer(std::string name, uint64_t seed, distribute::BuildModel build,
                         Resolve resolve, bool together, DType wire_dtype, bool shared,
                         PartFiles files, Clock& clock)
    : name_(std::move(name)),
      seed_(seed),
      build_(std::move(build)),
      resolve_(std::move(resolve)),
      together_(together),
      wire_dtype_(wire_dtype),
      shared_(shared),
      files_(std::move(files)),
      clock_(clock) {}

std::shared_ptr<ShardServer::Defined> ShardServer::defined(int64_t generation) {
  const std::lock_guard lock(mutex_);
  if (defined_ && defined_->generation == generation) return defined_;
  throw Error(ErrorKind::kPeerLost,
              defined_ ? fmt::format("{} has the weights of generation {} of the run, not of {}",
                                     name_, defined_->generation, generation)
                       : fmt::format("{} was started again, and has no weights yet", name_));
}

void ShardServer::answer(Client& client, const shards::Request& request) {
  net::MessageSocket& socket = client.socket;
  std::visit(
      [&]<typename Operation>(const Operation& asked) {
        if constexpr (std::same_as<Operation, shards::Define>) {
          define(socket, request.generation, asked);
        } else if constexpr (std::same_as<Operation, shards::State>) {
          const std::lock_guard lock(mutex_);
          send_answer(socket, shards::Held{defined_ ? defined_->generation : 0});
        } else if constexpr (std::same_as<Operation, shards::Sees>) {
          send_answer(socket, net::Truth{files_.sees(asked.text)});
        } else if constexpr (std::same_as<Operation, shards::Verify>) {
          files_.verify(asked);
          send_answer(socket, Done());
        } else if constexpr (std::same_as<Operation, shards::Finish>) {
          throw internal_error("the end of a run is no matter of its shards");
        } else {
          answer(client, asked, *defined(request.generation));
        }
      },
      request.operation);
}

void ShardServer::answer(Client& client, const shards::Compare& request, Defined& here) {
  check_same_model("this task", here.model, request.model);
  send_answer(client.socket, Done());
}

void ShardServer::answer(Client& client, const shards::Form&, Defined& here) {
  send_answer(client.socket, net::Welcome{here.form});
}

void ShardServer::answer(Client& client, const shards::Pull& request, Defined& here) {
  if (request.round) apply_round(*request.round);
  const shards::Looked looked{applied()};
  std::vector<Tensor> weights = here.store->read_dense(&client.memory);
  for (Tensor& shard : weights) shard = rounded(shard, wire_dtype_);
  send_answer(client.socket, looked, weights);
}

void ShardServer::answer(Client& client, const shards::MakeRound& request, Defined&) {
  apply_round(request.round);
  send_answer(client.socket, Done());
}

void ShardServer::answer(Client& client, const shards::Apply& request, Defined&) {
  apply(client.rank, request.ticket, request.factors);
  send_answer(client.socket, Done());
}

void ShardServer::define(net::MessageSocket& socket, int64_t generation,
                         const shards::Define& request) {
  const std::lock_guard building(building_);
  enter_thread();
  {
    const std::lock_guard lock(mutex_);
    if (defined_ && defined_->generation >= generation) {
      throw Error(ErrorKind::kPeerLost, fmt::format("{} is in generation {} of the run already",
                                                    name_, defined_->generation));
    }
  }
  VariableTable table(seed_, at::kCPU, /*rows_elsewhere=*/true);
  const optim::TrainOp train_op = [&] {
    torch::NoGradGuard no_grad;
    return build_(table, request.form);
  }();
  table.seal();
  check_same_model(name_, without_workers_own(request.model), lines_of(table, train_op));
  std::vector<ShardOf> held;
  for (const shards::Shard& told : request.shards) {
    const Variable* variable = table.find(told.variable);
    if (variable == nullptr) {
      std::vector<std::string> names;
      for (const auto& known : table.variables()) names.push_back(known->name());
      throw unknown_name(name_, "variable", told.variable, names);
    }
    held.push_back(
        {.variable = variable->spec(),
         .shard = {.part = told.part, .parts = told.parts, .begin = told.begin, .end = told.end},
         .initial = variable->spec().row_sparse ? Tensor() : variable->value()});
  }
  auto made = std::make_shared<Defined>();
  made->generation = generation;
  made->form = request.form;
  made->model = request.model;
  // Of updates that several workers make together, every server sees all in one order.
  made->store = std::make_unique<ShardStore>(held, train_op, seed_, kGroups, shared_,
                                             together_ || request.leads);
  {
    const std::lock_guard lock(mutex_);
    defined_ = made;
    applied_ = 0;
    kept_.clear();
    waiting_.clear();
  }
  changed_.notify_all();
  log::info(fmt::format("{} holds {}", name_, describe()));
  send_answer(socket, Done());
}

void ShardServer::answer(Client& client, const shards::Rows& request, Defined& here) {
  const shards::Looked looked{applied()};
  std::vector<Tensor> rows;
  for (const shards::RowsOf& asked : request.shards) {
    const Tensor ids = torch::empty({asked.rows}, at::kLong);
    receive_tensor(client.socket, ids);
    rows.push_back(rounded(here.store->read_rows(asked.shard, ids), wire_dtype_));
  }
  send_answer(client.socket, looked, rows);
}

int64_t ShardServer::applied() {
  const std::lock_guard lock(mutex_);
  return applied_;
}

ShardServer::Place ShardServer::place() {
  const std::lock_guard lock(mutex_);
  return {.generation = defined_ ? defined_->generation : 0, .applied = applied_};
}

void ShardServer::answer(Client& client, const shards::Share&, Defined& here) {
  const SharedWeights* const weights = here.store->shared();
  if (weights == nullptr || !client.socket.carries_files())
    return send_answer(client.socket, shards::Shared());
  shards::Shared told{.bytes = weights->memory().bytes(), .groups = here.store->groups()};
  for (size_t shard = 0; shard < here.store->size(); ++shard)
    told.shards.push_back({here.store->group_of(shard), here.store->shared_place(shard)});
  client.socket.send_with_file(net::encode_answer(told), weights->memory().file());
}

void ShardServer::answer(Client& client, const shards::MakeArea& request, Defined& here) {
  if (request.row_bytes < 0 || request.row_bytes > kMostAreaRows) {
    throw invalid_argument(
        fmt::format("an area for {} bytes of rows was asked for, and {} are the most",
                    request.row_bytes, kMostAreaRows));
  }
  const int64_t dense_bytes = here.store->dense_bytes();
  client.area.reset();  // one is enough, unless a step is under way that keeps it
  const auto area = std::make_shared<SharedMemory>(SharedMemory::create(
      std::max<int64_t>(SharedWeights::kAlignment, dense_bytes + request.row_bytes)));
  shards::Area told{.bytes = area->bytes(), .dense_bytes = dense_bytes};
  for (size_t shard = 0; shard < here.store->size(); ++shard)
    told.shards.push_back(here.store->row_sparse(shard) ? -1 : here.store->dense_place(shard));
  client.socket.send_with_file(net::encode_answer(told), area->file());
  area->close_file();
  client.area = area;
}

void ShardServer::answer(Client& client, const shards::Push& request, Defined& here) {
  net::MessageSocket& socket = client.socket;
  std::unique_ptr<StagedGradients> staged;
  // What comes late of a process that is gone must not take the place of its successor's.
  const auto check_newest = [&] {
    if (client.is_newest()) return;
    throw Error(ErrorKind::kPeerLost,
                fmt::format("another process of this task has come to {} meanwhile", name_));
  };
  // An earlier process of the worker may have left a step that counts.
  settle(client.rank, /*gone=*/false);
  {
    std::unique_lock lock(mutex_);
    wait_for_update_of(lock, client.rank);
    check_newest();
    Waiting& mine = waiting_[client.rank];
    mine.ticket = 0;  // one before that never counted
    staged = std::exchange(mine.staged, nullptr);
  }
  const bool in_area = request.in_area;
  // One of another generation may be too small.
  if (in_area && (!client.area || client.area->bytes() < here.store->dense_bytes()))
    throw invalid_argument(fmt::format("{} got gradients in memory that it does not share", name_));
  // What lies in an area of an earlier process of the worker is no longer used.
  const auto& area = in_area ? client.area : nullptr;
  if (!staged || staged->area != area) staged = here.store->stage(area);
  ShardStore::forget(*staged);  // of a step that never counted
  for (const uint64_t shard : request.dense) {
    const Tensor gradient = here.store->destination(*staged, shard);
    if (!in_area) receive_rounded(socket, gradient, wire_dtype_);
  }
  for (const auto& [shard, rows, at] : request.rows) {
    distribute::RowGradient gradient;
    if (in_area) {
      gradient = rows_in_area(*here.store, area, shard, rows, at);
    } else {
      gradient = {torch::empty({rows}, at::kLong), here.store->rows_like(shard, rows)};
      receive_tensor(socket, gradient.ids);
      receive_rounded(socket, gradient.values, wire_dtype_);
    }
    here.store->check_rows(shard, gradient.ids);
    here.store->set_rows(*staged, shard, std::move(gradient));
  }
  staged->weight = request.weight;
  staged->mean = request.mean;
  staged->loss = request.loss;
  staged->updates = request.updates;
  {
    const std::lock_guard lock(mutex_);
    check_newest();  // another one may have come while the gradients did
    if (defined_.get() == &here) waiting_[client.rank] = {request.ticket, std::move(staged)};
  }
}

std::vector<double> ShardServer::factors() {
  std::shared_ptr<Defined> here;
  {
    const std::lock_guard lock(mutex_);
    here = defined_;
  }
  return here ? here->store->factors() : std::vector<double>();
}

std::vector<double> ShardServer::apply(int rank, int64_t ticket, std::vector<double> factors) {
  std::unique_ptr<StagedGradients> staged;
  std::shared_ptr<Defined> here;
  {
    std::unique_lock lock(mutex_);
    wait_for_update_of(lock, rank);
    const auto found = waiting_.find(rank);
    if (found == waiting_.end() || found->second.ticket != ticket || ticket == 0) return factors;
    found->second.ticket = 0;
    found->second.under_way = true;
    staged = std::exchange(found->second.staged, nullptr);
    here = defined_;
  }
  std::exception_ptr failed;
  try {
    factors = here->store->apply(*staged, static_cast<size_t>(rank), std::move(factors));
  } catch (...) {
    failed = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    // Another generation has no use for it.
    if (here == defined_) {
      Waiting& mine = waiting_[rank];
      mine.under_way = false;
      mine.staged = std::move(staged);
      if (!failed) count_update(*here);
    }
  }
  changed_.notify_all();
  if (failed) std::rethrow_exception(failed);
  return factors;
}

void ShardServer::wait_for_update_of(std::unique_lock<std::mutex>& lock, int rank) {
  changed_.wait(lock, [&] {
    const auto found = waiting_.find(rank);
    return found == waiting_.end() || !found->second.under_way;
  });
}

void ShardServer::count_update(Defined& here) {
  ++applied_;
  if (SharedWeights* const shared = here.store->shared()) shared->count_step();
}

void ShardServer::apply_round(const StepLedger::Round& round) {
  const std::lock_guard one_at_a_time(round_);
  std::vector<std::unique_ptr<StagedGradients>> staged;
  std::vector<int> ranks;
  std::shared_ptr<Defined> here;
  {
    const std::lock_guard lock(mutex_);
    here = defined_;
    if (!here || here->generation != round.generation || applied_ >= round.number) return;
    for (const auto& [worker, ticket] : round.parts) {
      const auto found = waiting_.find(worker);
      if (found == waiting_.end() || found->second.ticket != ticket) {
        throw Error(
            ErrorKind::kPeerLost,
            fmt::format("{} lacks gradients of update {}, which counts", name_, round.number));
      }
      ranks.push_back(found->first);
      found->second.ticket = 0;
      staged.push_back(std::move(found->second.staged));
    }
  }
  here->store->merge(staged);
  here->store->apply(*staged.front(), 0);
  {
    const std::lock_guard lock(mutex_);
    if (here != defined_) return;
    for (size_t i = 0; i < ranks.size(); ++i) {
      Waiting& waiting = waiting_[ranks[i]];
      if (!waiting.staged) waiting.staged = std::move(staged[i]);
    }
    count_update(*here);
  }
  changed_.notify_all();
}

void ShardServer::settle(int rank, bool gone) {
  int64_t ticket = 0, generation = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(rank);
    if (found == waiting_.end() || found->second.ticket == 0 || !defined_) return;
    ticket = found->second.ticket;
    generation = defined_->generation;
  }
  const auto counts = resolve_(generation, {.rank = rank, .ticket = ticket, .gone = gone});
  if (!counts) return;  // unknown: it stays
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(rank);
    // The answer took its time: a run that has begun meanwhile has the same tickets again.
    if (!defined_ || defined_->generation != generation || found == waiting_.end() ||
        found->second.ticket != ticket)
      return;
    if (!counts->committed) {
      if (gone) found->second.ticket = 0;
      return;
    }
  }
  // Of an update of several workers the others know.
  if (!together_) apply(rank, ticket, counts->factors);
}

void ShardServer::worker_left(int rank) { settle(rank, /*gone=*/true); }

std::map<std::string, double> ShardServer::learning_rates() {
  const std::lock_guard lock(mutex_);
  return defined_ ? defined_->store->learning_rates() : std::map<std::string, double>();
}

void ShardServer::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::string ShardServer::describe() {
  const std::lock_guard lock(mutex_);
  if (!defined_) return "";
  return fmt::format("{} parts of variables, {:.1f} MB", defined_->store->size(),
                     static_cast<double>(defined_->store->bytes()) / 1e6);
}

}  // namespace muster::inline v0_1::ps
