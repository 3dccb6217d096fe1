#include "muster/net/internal/token_proof.h"

#include <fmt/format.h>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/secret.h"
#include "muster/net/internal/job_words.h"

namespace muster::inline v0_1::net {
namespace {

using Fields = std::vector<std::string>;

// First words of the messages. A hello says: protocol, version of Muster, job, whether there is a
// token, task, nonce. A challenge says the same of the server, and its proof follows. A server of
// another protocol says which in place of the challenge.
constexpr const char* kHello = "hello";
constexpr const char* kAnotherProtocol = "protocol";
constexpr const char* kChallenge = "challenge";
constexpr const char* kProof = "proof";
constexpr const char* kRefused = "refused";
constexpr const char* kWelcome = "welcome";
constexpr const char* kBusy = "busy";

// One side, as its first message describes it.
struct Side {
  std::string job_id{};
  bool has_token = false;
  std::string task{};
};

// A number used once stands in it, so that no proof can be played back.
Fields describe(const char* word, const cluster::Job& job, const std::string& task) {
  return {word,           std::to_string(kProtocolVersion), MUSTER_VERSION,
          job.id,         job.token.empty() ? "" : "token", task,
          random_secret()};
}

Side side_of(const Fields& fields) {
  return {.job_id = fields[3], .has_token = !fields[4].empty(), .task = fields[5]};
}

// What `peer` and `own_task` have to hear when a first message, of whatever version, names another
// protocol; nothing where it names this one, or is none. The task that it names stands after
// `peer`, in the field that it had in all versions.
std::optional<Error> version_error(const std::string& text, std::string_view word,
                                   const std::string& peer, const std::string& own_task) {
  const auto fields = split_fields(text);
  if (!fields || fields->size() < 3 || fields->front() != word ||
      (*fields)[1] == std::to_string(kProtocolVersion))
    return std::nullopt;
  const size_t task = word == kHello ? 5 : 3;
  const std::string who = fields->size() > task
                              ? fmt::format("{} ({})", peer, printable_beginning((*fields)[task]))
                              : peer;
  return invalid_argument(
      fmt::format("{} runs Muster {} (protocol {}), and this task ({}) Muster {} (protocol {})",
                  who, printable_beginning((*fields)[2]), printable_beginning((*fields)[1]),
                  own_task, MUSTER_VERSION, kProtocolVersion),
      "the tasks of a job must run the same version of Muster: install one on all machines");
}

// The message as fields, of which the first is `word`; nothing for another.
std::optional<Fields> fields_of(const std::string& text, std::string_view word, size_t count) {
  auto fields = split_fields(text);
  if (!fields || fields->size() != count || fields->front() != word) return std::nullopt;
  return fields;
}

std::string proof(const cluster::Job& job, const char* role, const std::string& hello,
                  const std::string& challenge) {
  return proof_of(job.token, fmt::format("{}/{}{}", role, hello, challenge));
}

const char* words_of(bool shows_token) { return shows_token ? kShowsAnotherToken : kShowsNoToken; }

// Without a token the name alone tells jobs apart; it is not protection.
bool is_of_another_job(const cluster::Job& job, const Side& other) {
  return job.token.empty() && !other.has_token && !job.id.empty() && !other.job_id.empty() &&
         other.job_id != job.id;
}

Error not_muster() {
  return corrupt("it does not speak this version's protocol",
                 "the tasks of a job must run the same version of Muster");
}

}  // namespace

std::string join_fields(const Fields& fields) {
  std::string text;
  for (const std::string& field : fields) {
    append_little_endian(text, static_cast<uint32_t>(field.size()));
    text += field;
  }
  return text;
}

std::optional<Fields> split_fields(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    if (text.size() < sizeof(uint32_t)) return std::nullopt;
    const auto bytes = load_little_endian<uint32_t>(text.data());
    text.remove_prefix(sizeof(uint32_t));
    if (bytes > text.size()) return std::nullopt;
    fields.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return fields;
}

ProvedServer prove_to_server(MessageSocket& socket, const cluster::Job& job,
                             const std::string& own_task, const std::string& server,
                             const std::function<std::string()>& wait) {
  const std::string hello = join_fields(describe(kHello, job, own_task));
  socket.send(hello);
  const std::string challenged = wait();
  if (const auto error = version_error(challenged, kAnotherProtocol, server, own_task))
    throw *error;
  auto answer = fields_of(challenged, kChallenge, 8);
  if (!answer) throw not_muster();
  const std::string shown = answer->back();
  answer->pop_back();
  const Side other = side_of(*answer);
  const std::string challenge = join_fields(*answer);
  const auto refuse = [&](const std::string& why) {
    return invalid_argument(is_refused(server, other.job_id, job.id, why), hint_of_refusal(why));
  };
  const bool proved = same_secret(shown, proof(job, "accepted", hello, challenge));
  if (!proved || is_of_another_job(job, other)) {
    socket.send(join_fields({kRefused}));
    throw refuse(proved ? kAnotherJob : words_of(!job.token.empty()));
  }
  socket.send(join_fields({kProof, proof(job, "connected", hello, challenge)}));
  const std::string last = wait();
  if (const auto why = fields_of(last, kBusy, 2))
    return {.task = other.task, .busy_why = printable_beginning(why->back(), 300)};
  if (const auto why = fields_of(last, kRefused, 2))
    throw refuse(printable_beginning(why->back(), 300));
  if (!fields_of(last, kWelcome, 1)) throw not_muster();
  return {.task = other.task, .busy_why = {}};
}

ProvedClient prove_to_client(MessageSocket& socket, const cluster::Job& job,
                             const std::string& own_task,
                             const std::function<std::string()>& wait) {
  const std::string hello = wait();
  if (const auto error = version_error(hello, kHello, "a task", own_task)) {
    socket.send(join_fields(
        {kAnotherProtocol, std::to_string(kProtocolVersion), MUSTER_VERSION, own_task}));
    throw *error;
  }
  const auto said = fields_of(hello, kHello, 7);
  if (!said) throw not_muster();
  const Side other = side_of(*said);
  Fields fields = describe(kChallenge, job, own_task);
  const std::string challenge = join_fields(fields);
  fields.push_back(proof(job, "accepted", hello, challenge));
  socket.send(join_fields(fields));
  const std::string answer = wait();
  const auto shown = fields_of(answer, kProof, 2);
  if (shown && same_secret(shown->back(), proof(job, "connected", hello, challenge)) &&
      !is_of_another_job(job, other)) {
    return {.task = other.task, .refusal = {}};
  }
  // A client that learned it from the challenge says that it leaves, and does not wait.
  if (!shown && !fields_of(answer, kRefused, 1)) throw not_muster();
  const char* const why = is_of_another_job(job, other) ? kAnotherJob : words_of(other.has_token);
  if (shown) socket.send(join_fields({kRefused, why}));
  return {.task = other.task, .refusal = why};
}

void welcome(MessageSocket& socket) { socket.send(join_fields({kWelcome})); }

void turn_away(MessageSocket& socket, const std::string& why) {
  socket.send(join_fields({kBusy, why}));
}

}  // namespace muster::inline v0_1::net
