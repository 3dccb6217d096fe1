#include "muster/cluster/internal/cluster_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/cluster/cluster_source.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"

namespace muster::inline v0_1::cluster {
namespace {

constexpr const char* kChoice = "MUSTER_CLUSTER";
constexpr const char* kAlone = "local";

// A launcher that started this process, directly or not.
struct Seen {
  const ClusterSource* source = nullptr;
  std::string as{};  // "Slurm step 12.0"
};

std::optional<std::string> read_small_file(const std::string& path) {
  constexpr std::streamsize kMost = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(static_cast<size_t>(kMost), '\0');
  file.read(text.data(), kMost);
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// Throws InvalidArgument for a word that is not a launcher's.
std::string chosen_word(const Environment& environment) {
  const std::string word = environment.get_or(kChoice, "");
  std::vector<std::string> known{kAlone};
  for (const ClusterSource& source : cluster_sources()) known.emplace_back(source.word);
  if (word.empty() || std::ranges::find(known, word) != known.end()) return word;
  throw invalid_argument(fmt::format("{} is '{}'", kChoice, word),
                         "it is one of " + join(known, ", ") + ", or unset");
}

// The first of those that were seen, or the one that was asked for; nullptr: this process is alone.
const Seen* choose(const std::vector<Seen>& seen, const std::string& word,
                   const Surroundings& around) {
  if (word == kAlone) return nullptr;
  if (word.empty()) return seen.empty() ? nullptr : &seen.front();
  const auto asked =
      std::ranges::find_if(seen, [&](const Seen& one) { return one.source->word == word; });
  if (asked != seen.end()) return &*asked;
  for (const ClusterSource& source : cluster_sources()) {
    if (source.word != word) continue;
    if (const std::optional<PartialEnvironment> partial = source.left(around))
      throw invalid_argument(fmt::format("{} is '{}': {}", kChoice, word, partial->finding),
                             partial->fix);
  }
  std::vector<std::string> others;
  for (const Seen& one : seen) others.push_back(one.as);
  throw invalid_argument(
      fmt::format("{} is '{}', and nothing says that such a launcher started this process{}",
                  kChoice, word, others.empty() ? "" : "; seen: " + join(others, ", ")),
      fmt::format("unset {}, or start the program by that launcher", kChoice));
}

bool is(const ClusterSource& source, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, source.word) != words.end();
}

// Whether two launchers that both speak must agree. One that starts another has its own count: srun
// one torchrun on each node, torchrun some processes. But clusters are not started inside one
// another.
bool must_agree(const ClusterSource& winner, const ClusterSource& other) {
  if (is(winner, {"tf_config", "vertex"})) return is(other, {"torchrun", "rank"});
  return is(winner, {"rank"}) && is(other, {"mpi"});
}

Error disagree(const ClusterSource& winner, const ResolvedCluster& cluster, std::string_view other,
               int64_t rank, int64_t size, const std::string& hint) {
  return invalid_argument(
      fmt::format("{} that this is rank {} of {}, and {} that it is rank {} of {}",
                  internal::says(winner.name), cluster.rank, cluster.num_workers, other, rank,
                  size),
      hint);
}

void check_agreement(const Seen& winner, const ResolvedCluster& cluster, const Seen& other,
                     const Surroundings& around, const ResolveOptions& options) {
  if (cluster.rank < 0 || !must_agree(*winner.source, *other.source)) return;
  std::optional<ResolvedCluster> theirs;
  try {
    theirs = other.source->resolve(around, options);
  } catch (const Error&) {
    return;  // what is not used may be wrong
  }
  if (theirs->num_workers == cluster.num_workers && theirs->rank == cluster.rank) return;
  throw disagree(*winner.source, cluster, other.source->name, theirs->rank, theirs->num_workers,
                 fmt::format("choose one with {}={} or {}={}, or unset the variables of the other",
                             kChoice, winner.source->word, kChoice, other.source->word));
}

// A rank and a size lead to no cluster where another variable lacks, as RANK and WORLD_SIZE without
// MASTER_ADDR, and contradict one anyway.
void check_half_agreement(const Seen& winner, const ResolvedCluster& cluster,
                          const ClusterSource& other, const Surroundings& around) {
  // Whether these are torchrun's cannot be told: RANK and WORLD_SIZE speak for themselves.
  const bool asked = must_agree(*winner.source, other) && !is(other, {"torchrun"});
  if (cluster.rank < 0 || !asked || !other.seen(around).empty()) return;
  const std::optional<PartialEnvironment> partial = other.left(around);
  if (!partial || !partial->claim) return;
  const PlaceClaim& claim = *partial->claim;
  if (claim.rank == cluster.rank && claim.size == cluster.num_workers) return;
  throw disagree(
      *winner.source, cluster, claim.variables, claim.rank, claim.size,
      fmt::format("unset {}, or set {}={}", claim.variables, kChoice, winner.source->word));
}

// "torchrun 4f7e (also seen, not used: Slurm step 12.0)".
std::string describe(const std::vector<Seen>& seen, const Seen* winner) {
  if (seen.empty() || (seen.size() == 1 && winner != nullptr && winner->as == "TF_CONFIG"))
    return "";
  std::vector<std::string> others;
  for (const Seen& one : seen)
    if (&one != winner) others.push_back(one.as);
  return (winner != nullptr ? winner->as : "this process alone") +
         (others.empty() ? "" : fmt::format(" (also seen, not used: {})", join(others, ", ")));
}

// Where a service wants to find what a program leaves.
std::optional<std::string> model_dir_of_service(const Environment& environment) {
  for (const char* name : {"AIP_CHECKPOINT_DIR", "AIP_MODEL_DIR", "SM_MODEL_DIR"}) {
    if (std::string directory = environment.get_or(name, ""); !directory.empty()) return directory;
  }
  return std::nullopt;
}

ResolvedCluster alone(const Environment& environment, const std::string& word,
                      const ResolveOptions& options) {
  // Without a cluster it may still say a task and a model_dir.
  const std::string text = word == kAlone ? "" : environment.get_or("TF_CONFIG", "");
  return internal::resolve_tf_config_text(text, options);
}

// Several processes that each train alone into one model_dir look well, and are the worst outcome.
// A launcher that started one process and said so may itself be one of many that an outer one
// started; one inside of it that is set in part may not.
void check_partial_environments(const Seen* winner, const Surroundings& around,
                                ResolvedCluster& result) {
  if (!result.coordinator_address.empty()) return;
  std::vector<PartialEnvironment> partials;
  for (const ClusterSource& source : cluster_sources()) {
    if (winner != nullptr && winner->source == &source) break;
    if (const auto partial = source.left(around)) partials.push_back(*partial);
  }
  const PartialEnvironment* const partial = internal::plainest(partials);
  if (partial == nullptr) return;
  if (partial->means_cluster) throw internal::refusal_of(*partial);
  result.notes.push_back(internal::note_of(*partial));
}

}  // namespace

std::span<const ClusterSource> cluster_sources() {
  static const std::array kSources = {
      internal::tf_config_source(),      internal::torchrun_source(),
      internal::vertex_source(),         internal::pet_source(),
      internal::rank_variables_source(), internal::mpi_source(),
      internal::slurm_source(),          internal::sagemaker_source(),
      internal::kubernetes_source(),     internal::tpu_source()};
  return kSources;
}

ResolvedCluster resolve_cluster(const Environment& environment, const ResolveOptions& options) {
  return resolve_in({environment, read_small_file}, options);
}

ResolvedCluster resolve_in(const Surroundings& around, const ResolveOptions& options) {
  const Environment& environment = around.environment;
  const std::string word = chosen_word(environment);
  std::vector<Seen> seen;
  for (const ClusterSource& source : cluster_sources()) {
    if (std::string as = source.seen(around); !as.empty()) seen.push_back({&source, as});
  }
  const Seen* const winner = choose(seen, word, around);
  ResolvedCluster result = winner != nullptr ? winner->source->resolve(around, options)
                                             : alone(environment, word, options);
  if (winner != nullptr) {
    result.source = winner->source->name;
    for (const Seen& other : seen)
      if (word.empty()) check_agreement(*winner, result, other, around, options);
    for (const ClusterSource& other : cluster_sources())
      if (word.empty()) check_half_agreement(*winner, result, other, around);
  }
  if (word.empty()) check_partial_environments(winner, around, result);
  result.origin = describe(seen, winner);
  if (!result.model_dir) {
    result.model_dir = options.model_dir ? options.model_dir : model_dir_of_service(environment);
  }
  result.job = read_job(environment);
  return result;
}

void announce(const ResolvedCluster& cluster) {
  for (const std::string& note : cluster.notes) log::warning_once(note);
  if (!cluster.origin.empty()) log::info_once("started by " + cluster.origin);
}

LocalPlace local_place(const Environment& environment) noexcept {
  try {
    const ResolvedCluster cluster =
        resolve_cluster(environment, {.worker_zero_may_be_chief = true});
    return {.rank = cluster.local_rank, .size = cluster.local_size};
  } catch (const std::exception&) {
    return {};  // who trains says what is wrong
  }
}

}  // namespace muster::inline v0_1::cluster
