// The messages of parameter servers, and of a chief that gives calls, out of anything.
#include <string>
#include <variant>

#include "muster/net/server_messages.h"
#include "tests/fuzz/message.h"

namespace {

using namespace muster;  // NOLINT(google-build-using-namespace)
namespace ledger = net::ledger;
namespace shards = net::shards;
namespace calls = net::calls;

using Message =
    std::variant<net::Handshake, net::Welcome, ledger::Request, ledger::Joined, ledger::Claimed,
                 ledger::Committed, ledger::Standing, ledger::Present, ledger::Cut,
                 ledger::Measured, ledger::Place, ledger::Resolved, ledger::Wanted, shards::Request,
                 shards::Tensors, shards::Held, shards::Looked, shards::Pushed, shards::Shared,
                 shards::Area, shards::Written, calls::Request, calls::Given, net::Truth>;

std::string seed(const Message& message) { return net::encode(message); }

}  // namespace

std::vector<std::string> muster::fuzz::seeds() {
  const plan::StepLedger::Round round{1, 2, {{0, 5}, {1, 6}}};
  const net::TensorForm form{.shape = {2, 3}, .dtype = 6};
  const ledger::Commit commit{.ticket = 3, .position = "here", .rows = 8, .looked = 2};
  return {
      seed(net::Handshake{.task = "worker 1",
                          .rank = 2,
                          .purpose = net::Purpose::kLedger,
                          .workers = {"a:1", "b:2"},
                          .servers = {"c:3"}}),
      seed(net::Welcome{"form"}),
      seed(ledger::Request{1, ledger::Begin{.last_step = 9, .positions = {"", "here"}}}),
      seed(ledger::Request{1, commit}),
      seed(ledger::Request{1, ledger::Resolve{.rank = 1, .ticket = 2, .gone = true}}),
      seed(ledger::Request{1, ledger::Fail{.task = "chief", .error = corrupt("m", "h")}}),
      seed(ledger::Request{1, ledger::Pause()}),
      seed(ledger::Request{1, ledger::Beat{.step = 3, .saved = 3}}),
      seed(ledger::Request{1, ledger::WantSave{3}}),
      seed(ledger::Wanted{ledger::Wanted::State::kNever}),
      seed(ledger::Joined{.generation = 1, .position = "here"}),
      seed(ledger::Claimed{.ticket = 4, .waits_for = "worker 0", .round = round}),
      seed(ledger::Committed{.factors = {1, 0.5}, .rates = {{{"a", 0.1}, {"b", 0.2}}}}),
      seed(ledger::Standing{.why = "end of input", .awaited = {"worker 0"}}),
      seed(ledger::Cut{.positions = {"here"}, .ended = {true, false}, .round = round}),
      seed(ledger::Measured{.tasks = {{"chief", {.steps = 3}}, {"worker 0", {.steps = 4}}}}),
      seed(shards::Request{
          1, shards::Define{.form = "form", .model = {"w float32[4]"}, .shards = {{"w", 0, 1}}}}),
      seed(shards::Request{1, shards::Pull{round}}),
      seed(shards::Request{1, shards::Push{.ticket = 3,
                                           .updates = {true},
                                           .dense = {0, 2},
                                           .rows = {{1, 5, 64}},
                                           .commit = commit}}),
      seed(shards::Request{1, shards::Restore{"model.ckpt-7", {{"w/part_1", "w", 2}}}}),
      seed(shards::Request{1, shards::Finish{invalid_argument("m", "h")}}),
      seed(shards::Tensors{{{"w", form, 2}, {"b", form, {}}}}),
      seed(shards::Pushed{ledger::Committed()}),
      seed(shards::Shared{.bytes = 4096, .groups = 2, .shards = {{0, 64}, {1, 128}}}),
      seed(shards::Area{.bytes = 4096, .dense_bytes = 64, .shards = {0, -1}}),
      seed(shards::Written{.table = "{}", .failed = not_found("m", "h")}),
      seed(calls::Request{0, calls::Made{.ticket = 3, .results = {form}, .state = {form, form}}}),
      seed(calls::Request{0, calls::Failed{3, internal_error("m", "h")}}),
      seed(calls::Given{.ticket = 3, .function = "f", .arguments = {form}})};
}

// Lists that promise many short entries: of tensors, and of names in order.
std::vector<std::string> muster::fuzz::attacks() {
  const uint32_t count = 40'000;
  std::string tensors = seed(shards::Tensors());
  tensors.resize(tensors.size() - 4);
  append_little_endian(tensors, count);
  tensors.append(size_t{count} * net::encode(shards::Named()).size(), '\0');
  ledger::Measured measured;
  for (uint32_t i = 0; i < count; ++i) measured.tasks[std::to_string(i)] = {};
  return {tensors, seed(measured)};
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::read_message<Message>(data, size);
  return 0;
}
