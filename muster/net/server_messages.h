// The messages of parameter servers, and of a chief that gives calls to workers: the coordinator's
// stand in coordinator_messages.h. A connection begins with a Handshake; then one side asks, and
// each request has one answer: what its `Answer` says, or an Error. Raw bytes of tensors follow a
// message as its payload, in the order in which it names them. Raise kProtocolVersion when you add,
// remove or move a field. Values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/net/message_fields.h"
#include "muster/plan/phase.h"
#include "muster/plan/step_ledger.h"

namespace muster::inline v0_1::net {

template <>
inline constexpr plan::StepLedger::Claim::State kLastOf<plan::StepLedger::Claim::State> =
    plan::StepLedger::Claim::State::kOver;
template <>
inline constexpr plan::StepLedger::Commit::State kLastOf<plan::StepLedger::Commit::State> =
    plan::StepLedger::Commit::State::kLost;

// What a connection is for. kSaves: requests to a server's shards as those of kData, for a
// checkpoint that the chief fetches while it makes steps.
enum class Purpose { kData, kRows, kLedger, kBeat, kCalls, kSaves };
template <>
inline constexpr Purpose kLastOf<Purpose> = Purpose::kSaves;

// An answer that says that it is done, and one that says whether.
struct Done {};
struct Truth {
  bool holds = false;
  static auto fields(auto& m) { return std::tie(m.holds); }
};

// What the other side has to tell of itself: the form of the batches, where it is a chief that
// gives calls.
struct Welcome {
  std::string form{};
  static auto fields(auto& m) { return std::tie(m.form); }
};

// The connecting task, and the values that both sides must share.
struct Handshake {
  using Answer = Welcome;
  std::string task{};  // "worker 1"
  int rank = -1;       // of a worker; -1: a parameter server
  uint64_t incarnation = 0;
  Purpose purpose = Purpose::kData;
  std::vector<std::string> workers{}, servers{};  // addresses
  std::string options{};
  std::vector<std::string> definitions{};  // a line for each function that can be called
  static auto fields(auto& m) {
    return std::tie(m.task, m.rank, m.incarnation, m.purpose, m.workers, m.servers, m.options,
                    m.definitions);
  }
};

// What answers a request: its `Answer`, or that it is done.
template <typename Operation>
struct AnswerOf {
  using Type = Done;
};
template <typename Operation>
requires requires { typename Operation::Answer; }
struct AnswerOf<Operation> {
  using Type = typename Operation::Answer;
};
template <typename Operation>
using AnswerTo = typename AnswerOf<Operation>::Type;

// What is asked, and in which generation of the run the asker believes to be.
template <typename... Operations>
struct Request {
  int64_t generation = 0;
  std::variant<Operations...> operation{};
  static auto fields(auto& m) { return std::tie(m.generation, m.operation); }
};

// How a tensor looks that follows as bytes.
struct TensorForm {
  std::vector<int64_t> shape{};
  uint8_t dtype = 0;  // as LibTorch numbers them
  static auto fields(auto& m) { return std::tie(m.shape, m.dtype); }
};

// To the ledger of a run, which the first server keeps. A `wait` is for how many seconds, a few at
// most, the answer may take where there is nothing to say yet.
namespace ledger {

// The worker takes part from now on.
struct Joined {
  enum class State { kWaiting, kBegun, kFinished };
  State state = State::kWaiting;
  int64_t generation = 0;
  int64_t step = 0;
  std::string position{};  // in the worker's data
  static auto fields(auto& m) { return std::tie(m.state, m.generation, m.step, m.position); }
};
struct Join {
  using Answer = Joined;
  double wait = 0;
  static auto fields(auto& m) { return std::tie(m.wait); }
};

// The run begins, or begins again from a checkpoint.
struct Begin {
  int64_t step = 0;
  std::optional<int64_t> last_step{};
  std::vector<std::string> positions{};  // of each worker
  static auto fields(auto& m) { return std::tie(m.step, m.last_step, m.positions); }
};

// The worker wants to make a step.
struct Claimed {
  plan::StepLedger::Claim::State state = plan::StepLedger::Claim::State::kWait;
  int64_t ticket = 0;
  int64_t step = 0;                                // of the run, where that is over
  std::string waits_for{};                         // a task; "": no particular one
  std::optional<plan::StepLedger::Round> round{};  // the last update of several workers
  static auto fields(auto& m) { return std::tie(m.state, m.ticket, m.step, m.waits_for, m.round); }
};
struct Claim {
  using Answer = Claimed;
  double wait = 0;
  static auto fields(auto& m) { return std::tie(m.wait); }
};

// All servers have the gradients of a step, which may count now.
struct Committed {
  plan::StepLedger::Commit::State state = plan::StepLedger::Commit::State::kWait;
  int64_t step = 0;
  int64_t rows = 0;               // examples of all steps that counted
  int64_t next = 0;               // ticket of the worker's next step; 0: it has to claim one
  std::vector<double> factors{};  // of learning rates, for the other servers
  std::optional<std::map<std::string, double>> rates{};
  static auto fields(auto& m) {
    return std::tie(m.state, m.step, m.rows, m.next, m.factors, m.rates);
  }
};
struct Commit {
  using Answer = Committed;
  int64_t ticket = 0;
  std::string position{};           // of the worker's data, after this step
  int64_t rows = 0;                 // examples
  std::optional<int64_t> looked{};  // this many steps were in the weights it had
  bool next = false;                // it wants to make another step
  double wait = 0;
  static auto fields(auto& m) {
    return std::tie(m.ticket, m.position, m.rows, m.looked, m.next, m.wait);
  }
};

// The worker gives back what it claimed.
struct Abandon {};
// Its data is used up.
struct EndInput {};
// No worker makes another step.
struct Stop {
  std::string why{};
  static auto fields(auto& m) { return std::tie(m.why); }
};
// The chief has saved for the last time.
struct LetGo {};

// Whether all steps are made.
struct Standing {
  bool settled = false;
  bool over = false;  // no step is under way, though the chief may not have said so
  int64_t step = 0;
  std::string why{};
  std::vector<std::string> unfinished{}, awaited{};  // tasks
  static auto fields(auto& m) {
    return std::tie(m.settled, m.over, m.step, m.why, m.unfinished, m.awaited);
  }
};
struct Settled {
  using Answer = Standing;
  double wait = 0;
  static auto fields(auto& m) { return std::tie(m.wait); }
};

// Which other workers are there.
struct Present {
  std::vector<std::string> tasks{};
  static auto fields(auto& m) { return std::tie(m.tasks); }
};
struct Others {
  using Answer = Present;
  double wait = 0;
  static auto fields(auto& m) { return std::tie(m.wait); }
};

// No step counts before Resume, so that a checkpoint can be cut.
struct Cut {
  int64_t step = 0;
  int64_t commits = 0;
  std::vector<std::string> positions{};            // of each worker
  std::vector<bool> ended{};                       // whose data is used up
  std::optional<plan::StepLedger::Round> round{};  // the last update of several workers
  static auto fields(auto& m) { return std::tie(m.step, m.commits, m.positions, m.ended, m.round); }
};
struct Pause {
  using Answer = Cut;
};
// Whether no step has counted since.
struct Resume {
  using Answer = Truth;
};

// How old the weights were that tasks had, and how many gradients came too late.
struct Measured {
  std::map<std::string, plan::StalenessSummary> tasks{};
  int64_t dropped = 0;
  static auto fields(auto& m) { return std::tie(m.tasks, m.dropped); }
};
struct Measures {
  using Answer = Measured;
};

// Where the run is.
struct Place {
  int64_t generation = 0;
  int64_t step = 0;
  bool finished = false;
  static auto fields(auto& m) { return std::tie(m.generation, m.step, m.finished); }
};
struct Status {
  using Answer = Place;
};

// A server asks whether a step of a worker counts. `gone`: the worker is, so the step cannot count
// any more unless it does already.
struct Resolved {
  bool committed = false;
  std::vector<double> factors{};
  static auto fields(auto& m) { return std::tie(m.committed, m.factors); }
};
struct Resolve {
  using Answer = Resolved;
  int rank = 0;
  int64_t ticket = 0;
  bool gone = false;
  static auto fields(auto& m) { return std::tie(m.rank, m.ticket, m.gone); }
};

// The commits of the checkpoint that a server waits for before it stops, until the chief has said
// that it is written; only the chief hears of it.
struct Beaten {
  std::optional<int64_t> wanted{};
  static auto fields(auto& m) { return std::tie(m.wanted); }
};
// The worker lives. The chief also says whether the run saves at all, and how many commits the last
// checkpoint holds that it has written; nothing where servers must not leave for it.
struct Beat {
  using Answer = Beaten;
  plan::Phase phase = plan::Phase::kJoining;
  int64_t step = -1;
  bool saves = true;
  std::optional<int64_t> saved{};
  static auto fields(auto& m) { return std::tie(m.phase, m.step, m.saves, m.saved); }
};
// The run has failed.
struct Fail {
  std::string task{};
  plan::Phase phase = plan::Phase::kJoining;
  int64_t step = -1;
  Error error{ErrorKind::kInternal, ""};
  static auto fields(auto& m) { return std::tie(m.task, m.phase, m.step, m.error); }
};
// The chief ends the run.
struct Finish {
  int64_t step = 0;
  static auto fields(auto& m) { return std::tie(m.step); }
};
// The worker goes, and says so: before the end, and at it.
struct Part {};
struct Bye {};
// A server has to stop, and waits for a checkpoint that holds these commits.
struct Wanted {
  enum class State {
    kWaits,  // the chief hears of it
    kSaved,  // it is there
    kNever   // the run saves nothing
  };
  State state = State::kWaits;
  static auto fields(auto& m) { return std::tie(m.state); }
};
struct WantSave {
  using Answer = Wanted;
  int64_t commits = 0;
  static auto fields(auto& m) { return std::tie(m.commits); }
};

using Request =
    net::Request<Join, Begin, Claim, Commit, Abandon, EndInput, Stop, LetGo, Settled, Others, Pause,
                 Resume, Measures, Status, Resolve, Beat, Fail, Finish, Part, Bye, WantSave>;

}  // namespace ledger

// To a server, about what it holds.
namespace shards {

// A part of a variable.
struct Shard {
  std::string variable{};
  int part = 0, parts = 1;
  int64_t begin = 0, end = 0;  // rows
  static auto fields(auto& m) { return std::tie(m.variable, m.part, m.parts, m.begin, m.end); }
};
// A tensor, as checkpoints and servers name it.
struct Named {
  std::string name{};
  TensorForm form{};
  std::optional<int64_t> begin{};  // its first row, where it is not all of it
  static auto fields(auto& m) { return std::tie(m.name, m.form, m.begin); }
};
struct Tensors {
  std::vector<Named> tensors{};
  static auto fields(auto& m) { return std::tie(m.tensors); }
};

// In which generation the server is; 0: it holds nothing.
struct Held {
  int64_t generation = 0;
  static auto fields(auto& m) { return std::tie(m.generation); }
};
struct State {
  using Answer = Held;
};
// What the server is to hold, of the model that it builds.
struct Define {
  std::string form{};                // of the batches
  std::vector<std::string> model{};  // a line for each variable and optimizer
  bool leads = false;                // it sees all losses in one order
  std::vector<Shard> shards{};
  static auto fields(auto& m) { return std::tie(m.form, m.model, m.leads, m.shards); }
};
// Whether the model is that of the chief.
struct Compare {
  std::vector<std::string> model{};
  static auto fields(auto& m) { return std::tie(m.model); }
};
// The form of the batches.
struct Form {
  using Answer = Welcome;
};
// What it holds, by name.
struct Specs {
  using Answer = Tensors;
};

// The weights that are not row-sparse, after the answer. `round`: the update that is made before.
struct Looked {
  int64_t applied = 0;  // steps in the weights
  static auto fields(auto& m) { return std::tie(m.applied); }
};
struct Pull {
  using Answer = Looked;
  std::optional<plan::StepLedger::Round> round{};
  static auto fields(auto& m) { return std::tie(m.round); }
};
// The update alone.
struct MakeRound {
  plan::StepLedger::Round round{};
  static auto fields(auto& m) { return std::tie(m.round); }
};
// Rows, whose numbers follow the request.
struct RowsOf {
  uint64_t shard = 0;
  int64_t rows = 0;
  int64_t at = 0;  // where they lie in the area, of a Push
  static auto fields(auto& m) { return std::tie(m.shard, m.rows, m.at); }
};
struct Rows {
  using Answer = Looked;
  std::vector<RowsOf> shards{};
  static auto fields(auto& m) { return std::tie(m.shards); }
};

// The gradients of a step, after the request or in the area. With `commit` it counts at once.
struct Pushed {
  std::optional<ledger::Committed> committed{};
  static auto fields(auto& m) { return std::tie(m.committed); }
};
struct Push {
  using Answer = Pushed;
  int64_t ticket = 0;
  double weight = 1;  // among those of other workers
  bool mean = true;   // they are averaged, and not added
  double loss = 0;
  std::vector<bool> updates{};    // by optimizer; empty: all make one
  std::vector<uint64_t> dense{};  // shards
  std::vector<RowsOf> rows{};
  bool in_area = false;
  std::optional<ledger::Commit> commit{};
  static auto fields(auto& m) {
    return std::tie(m.ticket, m.weight, m.mean, m.loss, m.updates, m.dense, m.rows, m.in_area,
                    m.commit);
  }
};
// A step counts: its gradients go into the weights.
struct Apply {
  int64_t ticket = 0;
  std::vector<double> factors{};
  static auto fields(auto& m) { return std::tie(m.ticket, m.factors); }
};

// Memory of weights that workers of the same host read, as a file next to the answer; 0 bytes:
// there is none.
struct Shared {
  struct Place {
    uint64_t group = 0;
    int64_t begin = 0;  // in the file
    static auto fields(auto& m) { return std::tie(m.group, m.begin); }
  };
  int64_t bytes = 0;
  uint64_t groups = 0;
  std::vector<Place> shards{};
  static auto fields(auto& m) { return std::tie(m.bytes, m.groups, m.shards); }
};
struct Share {
  using Answer = Shared;
};
// Memory for gradients, as a file next to the answer, with room for `row_bytes` of rows.
struct Area {
  int64_t bytes = 0;
  int64_t dense_bytes = 0;        // of gradients that are not of rows
  std::vector<int64_t> shards{};  // where each begins; -1: a row-sparse one
  static auto fields(auto& m) { return std::tie(m.bytes, m.dense_bytes, m.shards); }
};
struct MakeArea {
  using Answer = Area;
  int64_t row_bytes = 0;
  static auto fields(auto& m) { return std::tie(m.row_bytes); }
};

// A copy of all weights after this many steps: the answer comes when it is made. Then follow the
// tensors, or where the server is to write a `part` of a checkpoint, what became of that.
struct Snapshot {
  int64_t commits = 0;
  std::optional<plan::StepLedger::Round> round{};  // the update that is made before
  std::string part{};                              // the file's name; "": tensors follow
  static auto fields(auto& m) { return std::tie(m.commits, m.round, m.part); }
};
// `non_finite` and `failed` say why nothing was written.
struct Written {
  std::string table{};            // of the part, as SafetensorsParts has it
  std::string non_finite{};       // what is not a number; "": all are
  std::optional<Error> failed{};  // what the file system answered
  static auto fields(auto& m) { return std::tie(m.table, m.non_finite, m.failed); }
};
// Takes the tensors that follow.
struct Write {
  std::vector<Named> tensors{};
  static auto fields(auto& m) { return std::tie(m.tensors); }
};
// Slots that begin as the weights become what those are now.
struct BeginSlots {};
// Whether it sees the text that the chief has written into its directory of checkpoints.
struct Sees {
  using Answer = Truth;
  std::string text{};
  static auto fields(auto& m) { return std::tie(m.text); }
};
// Reads its share of a checkpoint, and verifies it.
struct Verify {
  std::string checkpoint{};
  uint64_t share = 0, shares = 1;
  static auto fields(auto& m) { return std::tie(m.checkpoint, m.share, m.shares); }
};
// Reads what it holds out of a checkpoint.
struct Restore {
  struct Tensor {
    std::string name{};              // what the server calls it
    std::string from{};              // the checkpoint's name
    std::optional<int64_t> begin{};  // the first row there; all of it where that is unset
    static auto fields(auto& m) { return std::tie(m.name, m.from, m.begin); }
  };
  std::string checkpoint{};
  std::vector<Tensor> tensors{};
  static auto fields(auto& m) { return std::tie(m.checkpoint, m.tensors); }
};
// Keeps what no server has for workers that come, and gives it.
struct Keep {
  std::vector<Named> tensors{};
  static auto fields(auto& m) { return std::tie(m.tensors); }
};
struct Kept {
  using Answer = Tensors;
};
// The run is over, and why where it failed.
struct Finish {
  std::optional<Error> error{};
  static auto fields(auto& m) { return std::tie(m.error); }
};

using Request =
    net::Request<State, Define, Compare, Form, Specs, Pull, MakeRound, Rows, Push, Apply, Share,
                 MakeArea, Snapshot, Write, BeginSlots, Sees, Verify, Restore, Keep, Kept, Finish>;

}  // namespace shards

// From a worker to a chief that gives calls.
namespace calls {

// A call, with the tensors of `arguments` and `state` after it; ticket 0: there is none.
struct Given {
  bool over = false;  // and there will be none
  int64_t ticket = 0;
  std::string function{};
  std::vector<TensorForm> arguments{}, state{};
  static auto fields(auto& m) {
    return std::tie(m.over, m.ticket, m.function, m.arguments, m.state);
  }
};
struct Next {
  using Answer = Given;
  double wait = 0;  // seconds
  static auto fields(auto& m) { return std::tie(m.wait); }
};
// The call was made, and its results and the state follow; or it threw. Whether that counts:
// another worker may have made the call.
struct Made {
  using Answer = Truth;
  int64_t ticket = 0;
  std::vector<TensorForm> results{}, state{};
  static auto fields(auto& m) { return std::tie(m.ticket, m.results, m.state); }
};
struct Failed {
  using Answer = Truth;
  int64_t ticket = 0;
  Error error{ErrorKind::kInternal, ""};
  static auto fields(auto& m) { return std::tie(m.ticket, m.error); }
};
// The worker lives; and it leaves.
struct Beat {};
struct Bye {};

using Request = net::Request<Next, Made, Failed, Beat, Bye>;

}  // namespace calls

template <>
inline constexpr ledger::Joined::State kLastOf<ledger::Joined::State> =
    ledger::Joined::State::kFinished;
template <>
inline constexpr ledger::Wanted::State kLastOf<ledger::Wanted::State> =
    ledger::Wanted::State::kNever;

}  // namespace muster::inline v0_1::net
