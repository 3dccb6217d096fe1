// The coordinator's messages out of anything.
#include <string>
#include <variant>

#include "muster/net/coordinator_messages.h"
#include "tests/fuzz/message.h"

namespace {

using namespace muster;  // NOLINT(google-build-using-namespace)

using Message = std::variant<net::CoordinatorRequest, net::Reply>;

std::string seed(const Message& message) { return net::encode(message); }

}  // namespace

std::vector<std::string> muster::fuzz::seeds() {
  const plan::Caller who{.task = "worker:1", .incarnation = 7};
  return {
      seed(net::WatchRequest{who}),
      seed(net::JoinRequest{.who = who, .rank = 1, .world_size = 2, .addresses = {"a:1", "b:2"}}),
      seed(net::BeatRequest{.who = who, .step = 12}),
      seed(net::ModelRequest{.who = who, .signature = {"w [1] float32", "b [] float32"}}),
      seed(net::BarrierRequest{.who = who, .name = "end", .generation = 3}),
      seed(net::StoreRequest{.who = who, .keys = {"k1", "k2"}, .value = "v"}),
      seed(net::FailRequest{.who = who, .reason = "because"}),
      seed(net::GoodbyeRequest{.who = who, .leaving = true}),
      seed(net::Reply{.verdict = {.state = plan::Verdict::State::kFailed,
                                  .failure = plan::Failure{.task = "worker:0"},
                                  .refusal = Error(ErrorKind::kNotFound, "m", "h"),
                                  .missing = {{"worker:2", "host:1", 2.5, "at step 3"}}},
                      .values = {"a", ""}})};
}

// Lists that promise many short texts.
std::vector<std::string> muster::fuzz::attacks() {
  std::string many = seed(net::ModelRequest{});
  many.resize(many.size() - 4);
  const uint32_t count = 40'000;
  append_little_endian(many, count);
  many.append(4 * size_t{count}, '\0');
  return {many};
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::read_message<Message>(data, size);
  return 0;
}
