// How the chief reads and writes the contents of the servers.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/ps/internal/part_files.h"
#include "muster/ps/internal/wire.h"
#include "muster/ps/internal/worker_run.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

std::map<std::string, TensorSpec> WorkerRun::specs() {
  check_chief("the state of the run");
  std::map<std::string, TensorSpec> all;
  for (const auto& held : held_) {
    for (const auto& [name, spec] : held) {
      const Layout::Named logical = layout_->logical(name);
      const auto [found, fresh] = all.emplace(logical.name, spec);
      if (!fresh && logical.parts > 1 && !spec.shape.empty())
        found->second.shape[0] += spec.shape[0];
    }
  }
  return all;
}

std::vector<HeldTensor> WorkerRun::held_by(size_t server) const {
  // Where the parts of each tensor begin: in the order of the parts, whatever the servers.
  std::map<std::string, std::map<int, int64_t>> rows;
  for (const auto& held : held_) {
    for (const auto& [name, spec] : held) {
      const Layout::Named logical = layout_->logical(name);
      if (logical.parts > 1)
        rows[logical.name][logical.part] = spec.shape.empty() ? 0 : spec.shape[0];
    }
  }
  std::vector<HeldTensor> all;
  for (const auto& [name, spec] : held_[server]) {
    const Layout::Named logical = layout_->logical(name);
    HeldTensor held{.name = name,
                    .spec = spec,
                    .logical = logical.name,
                    .part = logical.part,
                    .parts = logical.parts};
    if (held.parts > 1) {
      for (const auto& [part, count] : rows.at(logical.name)) {
        if (part < logical.part) held.begin += count;
      }
    }
    all.push_back(std::move(held));
  }
  return all;
}

void WorkerRun::write_to(size_t server, const std::string& name, std::optional<int64_t> first,
                         const Tensor& values) {
  const Tensor sent = values.contiguous();
  ask(server, shards::Write{{{.name = name, .form = form_of(sent), .begin = first}}},
      std::span(&sent, 1));
}

void WorkerRun::write(const std::map<std::string, Tensor>& tensors) {
  connections_.at_all_servers([&](size_t server) {
    for (const HeldTensor& held : held_by(server)) {
      const auto given = tensors.find(held.logical);
      if (given == tensors.end()) continue;
      const Tensor& value = given->second;
      write_to(server, held.name, std::nullopt,
               held.parts == 1 ? value : value.narrow(0, held.begin, held.spec.shape[0]));
    }
  });
}

void WorkerRun::write_rows(const std::string& name, int64_t begin, const Tensor& rows) {
  connections_.at_all_servers([&](size_t server) {
    for (const HeldTensor& held : held_by(server)) {
      if (held.logical != name) continue;
      const int64_t first = std::max(begin, held.begin),
                    end = std::min(begin + rows.size(0), held.begin + held.spec.shape[0]);
      if (first < end)
        write_to(server, held.name, first - held.begin, rows.narrow(0, first - begin, end - first));
    }
  });
}

void WorkerRun::begin_slots() {
  connections_.at_all_servers([&](size_t server) { ask(server, shards::BeginSlots()); });
}

void WorkerRun::verify(const CheckpointReader& checkpoint, const std::string& prefix) {
  if (!see(prefix)) return checkpoint.verify();
  connections_.at_all_servers([&](size_t server) {
    ask(server, shards::Verify{.checkpoint = std::string(base_name(prefix)),
                               .share = server,
                               .shares = connections_.servers()});
  });
}

void WorkerRun::restore(const CheckpointReader& checkpoint, const std::string& prefix) {
  const bool read_there = see(prefix);
  connections_.at_all_servers([&](size_t server) {
    const std::vector<HeldTensor> all = held_by(server);
    if (read_there) {
      shards::Restore restored{.checkpoint = std::string(base_name(prefix))};
      for (const HeldTensor& held : all) {
        restored.tensors.push_back({.name = held.name, .from = held.logical});
        if (held.parts > 1) restored.tensors.back().begin = held.begin;
      }
      ask(server, restored);
      return;
    }
    // A little at a time: the chief need not have memory for all of it.
    for (const HeldTensor& held : all) {
      std::optional<int64_t> begin;
      if (held.parts > 1) begin = held.begin;
      read_in_pieces(checkpoint, held.logical, held.spec, begin,
                     [&](std::optional<int64_t> first, const Tensor& values) {
                       write_to(server, held.name, first, values);
                     });
    }
  });
}

distribute::ServedState::Cut WorkerRun::cut(
    const std::function<void(const ledger::Cut& paused)>& copy) {
  check_chief("the state of the run");
  await_push();
  const ledger::Cut paused = ask_ledger(ledger::Pause());
  connections_.forget_wanted();
  cut_at_ = paused.commits;
  Cut cut{.step = paused.step, .positions = paused.positions, .ended = paused.ended};
  try {
    copy(paused);
  } catch (...) {
    try {
      ask_ledger(ledger::Resume());
    } catch (const Error&) {
      // Only the first error counts; the ledger continues when this task is gone.
    }
    throw;
  }
  // Every server has a copy: the workers continue while it is sent, or written.
  if (!ask_ledger(ledger::Resume()).holds) {
    throw Error(ErrorKind::kPeerLost,
                "this task stood still for so long that the others went on without it; nothing was "
                "saved of what it had read");
  }
  return cut;
}

distribute::ServedState::Cut WorkerRun::read(bool in_parts, bool later) {
  std::vector<std::vector<HeldTensor>> held;
  for (size_t server = 0; server < connections_.servers(); ++server)
    held.push_back(held_by(server));
  const auto served = std::make_shared<ServedCut>(kept_, std::move(held), specs(), later);
  // Every save has names of its own: a step may be saved again.
  const auto save = static_cast<uint32_t>(derive_key(connections_.incarnation(), {++saves_}).key);
  Cut all = cut([&](const ledger::Cut& paused) {
    connections_.at_all_servers(
        [&](size_t server) { served->begin(server, generation_, paused, in_parts, save); });
  });
  if (later) {
    all.rest = [served](Cut& cut) { served->receive(cut); };
  } else {
    served->receive(all);
  }
  return all;
}

distribute::ServedState::Cut WorkerRun::read() { return read(/*in_parts=*/false, /*later=*/false); }

distribute::ServedState::Cut WorkerRun::read_for_checkpoint(bool later) {
  Cut made = read(see_model_dir(), later);
  checkpoint_at_ = cut_at_;
  return made;
}

bool WorkerRun::see(const std::string& prefix) {
  return directory_of(prefix) == connections_.start().model_dir && see_model_dir();
}

bool WorkerRun::see_model_dir() {
  if (see_model_dir_) return *see_model_dir_;
  see_model_dir_ = false;
  const std::string& directory = connections_.start().model_dir;
  if (directory.empty()) return false;
  // Only a server that sees the same directory knows the content of this file.
  const std::string path = join_path(directory, kSightFile);
  const std::string text = fmt::format("{:016x}", connections_.incarnation());
  std::string blind;
  // Before its first save a loop by hand has not made the directory.
  Status written = connections_.files().make_directories(directory);
  if (written.ok()) written = connections_.files().write_atomically(path, text);
  if (!written.ok()) {
    blind = "this task cannot write to it (" + written.error().message() + ")";
  } else {
    std::vector<char> sees(connections_.servers(), 0);
    connections_.at_all_servers(
        [&](size_t server) { sees[server] = ask(server, shards::Sees{text}).holds ? 1 : 0; });
    (void)connections_.files().remove(path);
    const auto first = std::ranges::find(sees, 0);
    if (first != sees.end())
      blind =
          connections_.server_name(static_cast<size_t>(first - sees.begin())) + " does not see it";
  }
  see_model_dir_ = blind.empty();
  if (!*see_model_dir_) {
    log::info(
        fmt::format("the chief writes all parts of checkpoints, because they are in {} and {}; if "
                    "all servers can access the folder, each writes its own part",
                    directory, blind));
  }
  return *see_model_dir_;
}

}  // namespace muster::inline v0_1::ps
