// The coordinator's messages out of anything: what is taken is written as it came, and takes no
// more memory than its bytes allow.
#include <string>
#include <type_traits>

#include "muster/base/error.h"
#include "muster/net/internal/coordinator_fields.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace {

using namespace muster;  // NOLINT(google-build-using-namespace)

// The first byte says which message the others are.
template <typename Message>
std::string seed(char number, const Message& message) {
  return number + net::encode(message);
}

template <typename Message>
void read_as(std::string_view text) {
  try {
    const auto message =
        fuzz::metered(parse_memory_limit(text.size()), [&] { return net::decode<Message>(text); });
    // A NaN need not be the same NaN, so bytes are compared after they were read twice.
    const std::string written = net::encode(message);
    fuzz::require(written.size() == text.size(), "a message is as long as what it was read from");
    fuzz::require(net::encode(net::decode<Message>(written)) == written,
                  "what is written is read as it is");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kCorrupt, "what is no message is Corrupt");
  }
}

}  // namespace

std::vector<std::string> muster::fuzz::seeds() {
  const plan::Caller who{.task = "worker:1", .incarnation = 7};
  return {
      seed('\0', who),
      seed('\1',
           net::JoinRequest{.who = who, .rank = 1, .world_size = 2, .addresses = {"a:1", "b:2"}}),
      seed('\2', net::BeatRequest{.who = who, .step = 12}),
      seed('\3', net::ModelRequest{.who = who, .signature = {"w [1] float32", "b [] float32"}}),
      seed('\4', net::BarrierRequest{.who = who, .name = "end", .generation = 3}),
      seed('\5', net::StoreRequest{.who = who, .keys = {"k1", "k2"}, .value = "v"}),
      seed('\6', net::FailRequest{.who = who, .reason = "because"}),
      seed('\7', net::GoodbyeRequest{.who = who, .leaving = true}),
      seed('\10', net::Reply{.verdict = {.state = plan::Verdict::State::kFailed,
                                         .failure = plan::Failure{.task = "worker:0"},
                                         .refusal = Error(ErrorKind::kNotFound, "m", "h"),
                                         .missing = {{"worker:2", "host:1", 2.5, "at step 3"}}},
                             .values = {"a", ""}})};
}

// Lists that promise many short texts.
std::vector<std::string> muster::fuzz::attacks() {
  std::string many = seed('\3', net::ModelRequest{});
  many.resize(many.size() - 4);
  const uint32_t count = 40'000;
  append_little_endian(many, count);
  many.append(4 * size_t{count}, '\0');
  return {many};
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = text_of(fuzz::bytes_of_input(data + 1, size - 1));
  switch (data[0]) {
    case 0:
      read_as<plan::Caller>(text);
      break;
    case 1:
      read_as<net::JoinRequest>(text);
      break;
    case 2:
      read_as<net::BeatRequest>(text);
      break;
    case 3:
      read_as<net::ModelRequest>(text);
      break;
    case 4:
      read_as<net::BarrierRequest>(text);
      break;
    case 5:
      read_as<net::StoreRequest>(text);
      break;
    case 6:
      read_as<net::FailRequest>(text);
      break;
    case 7:
      read_as<net::GoodbyeRequest>(text);
      break;
    default:
      read_as<net::Reply>(text);
  }
  return 0;
}
