#include "apps/sim/servers_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/tensor/libtorch.h"

namespace muster::sim {
namespace {

using End = distribute::SharedRun::End;

// A worker that is away for longer has left the run, with its examples.
constexpr double kRejoinTimeout = 20;
constexpr double kServersEnd = 900;  // seconds, whatever happens

// How a run is set up.
struct ServersSetting {
  explicit ServersSetting(uint64_t seed) {
    Random random(derive_key(seed, {id_of("servers"), id_of("setting")}));
    const auto draw = [&](int n) {
      return static_cast<int>(random.uniform_below(static_cast<uint64_t>(n)));
    };
    workers = 1 + draw(4);
    servers = 1 + draw(3);
    rows = 1 + draw(12);
    if (draw(2) == 0) last_step = 1 + draw(30);
    if (draw(3) == 0) {
      max_staleness = draw(4);
    } else if (draw(2) == 0) {
      aggregate = 1 + draw(workers);
    }
    overlap = aggregate == 0 && max_staleness != 0 && draw(2) == 0;
  }

  distribute::ParameterServerOptions options(const PlantedServers& planted) const {
    return {.max_staleness = planted.ignores_staleness ? std::nullopt : max_staleness,
            .replicas_to_aggregate = aggregate,
            .shared_memory = false,
            .overlap = overlap,
            .heartbeat_interval = Seconds(2),
            .rejoin_timeout = Seconds(kRejoinTimeout)};
  }

  int workers = 1;
  int servers = 1;
  std::optional<int64_t> last_step{};  // otherwise the data ends
  int64_t rows = 0;                    // of each worker
  std::optional<int64_t> max_staleness{};
  int aggregate = 0;
  bool overlap = false;  // workers compute a step while the one before is on its way
};

// Where a worker is in its data.
int64_t row_of(const std::string& position) { return position.empty() ? 0 : std::stoll(position); }

class ServersWorld : private ServersStage {
 public:
  ServersWorld(uint64_t seed, const ServersSetting& setting, const std::vector<Fault>& faults,
               const PlantedServers& planted, Trace& trace)
      : ServersStage(seed, faults,
                     {.workers = setting.workers,
                      .servers = setting.servers,
                      .run = setting.options(planted),
                      .planted = planted},
                     trace),
        setting_(setting),
        planted_(planted),
        heard_(static_cast<size_t>(setting.workers), 0) {
    saved_.positions.resize(static_cast<size_t>(setting.workers));
  }

  std::string run() {
    run_stage(kServersEnd);
    if (stage_.broken().empty()) check_end();
    end_stage();
    return stage_.broken();
  }

 private:
  void check_end() {
    if (setting_.last_step) {
      if (saved_.step != *setting_.last_step) stage_.fail("all steps are made");
      return;
    }
    if (is_without_some_) return;
    for (size_t worker = 0; worker < saved_.positions.size(); ++worker) {
      // The run ends without a worker that has not come back in time.
      if (saved_at_ - heard_[worker] > kRejoinTimeout - 1) continue;
      if (row_of(saved_.positions[worker]) != setting_.rows)
        return stage_.fail("all examples are used");
    }
  }

  bool draw_one_in(int n) { return stage_.simulated.uniform(0, n) < 1; }

  // The ledger has heard of the worker.
  void hear(int rank) {
    double& last = heard_[static_cast<size_t>(rank)];
    const double now = stage_.simulated.seconds();
    if (now - last > kRejoinTimeout - 1) is_without_some_ = true;
    last = now;
  }
  void gone(int) override { is_without_some_ = true; }

  void train(Session& session) override {
    ps::WorkerRun& run = session.run;
    const int rank = session.rank;
    const bool chief = rank == 0;
    run.set_model(session.model.lines());
    run.set_batch_form("an example");
    run.place(session.model.table(), session.model.parameters(), session.model.train_op());
    if (chief && !run.live() && saved_.step > 0) run.write(saved_.tensors);
    const auto place = run.begin({.step = saved_.step,
                                  .positions = saved_.positions,
                                  .last_step = [this](int64_t) { return setting_.last_step; }});
    hear(rank);
    if (chief) made_.emplace_back(stage_.simulated.seconds(), place.step);
    if (place.over) return;
    const int64_t first = row_of(place.position);
    int64_t row = first;
    run.set_position([&row] { return std::to_string(row); });
    End end = End::kOver;
    while (run.begin_step(/*also_when_told=*/false)) {
      hear(rank);
      check_weights(session, first, row);
      if (!setting_.last_step && row >= setting_.rows) {
        end = End::kNoMoreData;
        break;
      }
      auto gradients = session.model.gradients(rank, row++);
      if (planted_.mixes_up)
        gradients.gradients.back() = session.model.gradients(rank, row).gradients.back();
      session.process.sleep_for(from_seconds(stage_.simulated.uniform(0.01, 0.3)));
      const auto made = run.make_step(gradients, {.mean = false, .rows = 1});
      if (!setting_.overlap) made_.emplace_back(stage_.simulated.seconds(), made.step);
      hear(rank);
      if (chief && (run.save_wanted() || draw_one_in(8))) save(session);
    }
    run.end_steps(end, [&](int64_t) {
      hear(rank);
      if (chief && (run.save_wanted() || draw_one_in(3))) save(session);
    });
    hear(rank);
    if (!chief) return;
    save(session);
    measure(session);
    stop_faults();
  }

  // --- laws ---

  // Of the weights that a step is computed with, after the examples from `first` to `row` of the
  // session. Those before it may still be on their way to a server.
  void check_weights(const Session& session, int64_t first, int64_t row) const {
    const bool has_own = setting_.aggregate == 0 && !setting_.overlap;
    for (const Tensor& counts : session.model.counts()) {
      const float* const all = counts.data_ptr<float>();
      require(std::ranges::all_of(std::span(all, static_cast<size_t>(counts.numel())),
                                  [](float times) { return times == 0 || times == 1; }),
              "an example is in the weights once");
      const float* const own = all + session.rank * ServedCounts::kRows;
      require(
          !has_own || std::all_of(own + first, own + row, [](float times) { return times == 1; }),
          "a worker's weights have all steps that it has made");
    }
  }

  void save(Session& session) {
    auto cut = session.run.read_for_checkpoint(/*later=*/false);
    hear(0);
    const Tensor counts = ServedCounts::counts(cut.tensors, servers());
    int64_t counted = 0, seen = 0;
    for (int worker = 0; worker < workers(); ++worker) {
      const int64_t next = row_of(cut.positions[static_cast<size_t>(worker)]);
      seen += next;
      for (int64_t row = 0; row < ServedCounts::kRows; ++row) {
        const float times = counts.data_ptr<float>()[worker * ServedCounts::kRows + row];
        if (times == 0) continue;
        require(times == 1, "an example counts once in a checkpoint");
        require(row < next, "no example counts in a checkpoint that is still to come there");
        ++counted;
      }
    }
    // Where gradients may come too late, examples are seen that do not count.
    if (setting_.aggregate == 0) {
      require(seen == counted, "all examples that were seen count");
      require(cut.step == counted, "the step's number is that of the examples");
    }
    require(!setting_.last_step || cut.step <= *setting_.last_step,
            "there are no more steps than asked for");
    saved_ = std::move(cut);
    saved_at_ = stage_.simulated.seconds();
    session.run.saved();
    note(fmt::format("a checkpoint of step {}", saved_.step));
  }

  void left(double asked_at) override {
    const auto here = chief_is_here_since();
    if (here && *here <= asked_at && saved_at_ < asked_at && saved_.step < made_by(asked_at))
      stage_.fail("a server that is asked to stop leaves after a save of what it holds");
  }

  // The step that was made last before that time; where a run has begun again since, that in which
  // it begins.
  int64_t made_by(double time) const {
    int64_t step = 0;
    for (const auto& [at, made] : made_) {
      if (at <= time || made < step) step = made;
    }
    return step;
  }

  // How old weights were, while the ledger lived.
  void measure(const Session& session) const {
    if (!setting_.max_staleness) return;
    const auto told = session.connections->ask_ledger(0, net::ledger::Measures());
    // Another worker is at most s behind when a step is claimed, and at most s + 1 ahead when it is
    // committed. Where steps overlap it has looked a step earlier, and its own update is among what
    // it lacks; but claims are a step closer together then.
    const int64_t more = setting_.overlap ? 1 : 0;
    const int64_t claims = *setting_.max_staleness - more;
    const int64_t most = (workers() - 1) * (2 * claims + 1 + more) + more;
    for (const auto& [task, staleness] : told.tasks)
      require(staleness.max <= most, "weights are as old as max_staleness allows");
  }

  const ServersSetting setting_;
  const PlantedServers& planted_;
  distribute::ServedState::Cut saved_;
  double saved_at_ = -1;
  std::vector<std::pair<double, int64_t>> made_;  // steps, with their times
  std::vector<double> heard_;                     // when, of each worker
  bool is_without_some_ = false;                  // a worker was away for too long, or for good
};

}  // namespace

std::vector<Fault> ServersScenario::faults(uint64_t seed) const {
  return servers_faults(derive_key(seed, {id_of("servers"), id_of("faults")}));
}

std::string ServersScenario::run(uint64_t seed, const std::vector<Fault>& faults,
                                 Trace& trace) const {
  return ServersWorld(seed, ServersSetting(seed), faults, planted_, trace).run();
}

}  // namespace muster::sim
