// Numbers that the documents promise and that the code keeps to itself: constants of one source
// file. A change to a number needs a change of the sentence; both are listed here. Those that a
// header gives are compared in limits_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

// On one line, so that a sentence is found wherever its lines end.
std::string text_of(const std::string& path) {
  const char* root = std::getenv("MUSTER_SOURCE_DIR");
  const std::string text =
      local_file_system().read_file(join_path(root == nullptr ? "" : root, path)).value();
  std::string line;
  for (const char letter : text) {
    const char space = letter == '\n' ? ' ' : letter;
    if (space != ' ' || !line.ends_with(' ')) line += space;
  }
  return line;
}

struct Number {
  const char* document;
  const char* sentence;
  const char* source;
  const char* code;
};

constexpr Number kNumbers[] = {
    // A task tells why it ends; before all have joined it is told to those who come.
    {"reliability.md", "| 2 s; before all have joined 5 s |",
     "muster/control/coordinator_client.cc", "kReportSeconds = 2;"},
    {"reliability.md", "| 2 s; before all have joined 5 s |", "muster/distribute/start_failure.cc",
     "kPatience = std::chrono::seconds(5);"},
    {"reliability.md", "and log every 10 s which task is missing", "muster/control/join_options.h",
     "report_every = 10;"},
    {"reliability.md", "finishes nothing for 6 h", "muster/estimator/evaluator_link.cc",
     "kLongestEvaluation = 6 * 3600;"},
    {"reliability.md", "and logs this every 10 s", "muster/estimator/evaluator_link.cc",
     "kTellSeconds = 10;"},
    {"reliability.md", "| 60 s; at once for a dead process of the same machine |",
     "muster/checkpoint/lease.h", "std::chrono::seconds kHeartbeatTimeout{60};"},
    {"reliability.md", "less than a hundredth of a core over ten seconds",
     "muster/launch/internal/idle_watch.cc", "kWorkingShare = 0.01;"},

    // Of connections that have not proved themselves, and of those that have.
    {"security.md", "| 32 + 2 *n* |", "muster/net/coordinator_service.cc",
     ".max_unproved_connections = 32 + 2 * "},
    {"security.md", "| time | 5 s |", "muster/net/message_server.h", "unproved_seconds = 5;"},
    {"security.md", "| 4 KiB, and 24 KiB more with certificates |", "muster/net/message_server.cc",
     "kHandshakeBytes = 24 << 10;"},
    {"security.md", "| 4 KiB, and 24 KiB more with certificates |",
     "muster/net/internal/token_proof.h", "kMostProofBytes = 2 << 10;"},
    {"security.md", "in at most 256 lines", "muster/net/internal/refusal_log.cc", "kMost = 256;"},
    {"security.md", "64 + 8 connections for each task or observer",
     "muster/net/coordinator_service.cc", "kConnectionsOfOne = 8;"},
    {"security.md", "4 connections a member that watch the run", "muster/plan/coordinator_state.cc",
     "kMost = 4;"},
    {"security.md", "16 MiB a message", "muster/net/internal/coordinator_calls.h",
     "kMaxMessageBytes = 16 << 20;"},
    {"security.md", "16 to 1,024 characters", "muster/cluster/job_credentials.cc",
     "kLongestToken = 1024;"},
    {"security.md", "a job's name at most 256", "muster/cluster/job_credentials.cc",
     "kLongestId = 256;"},

    // What reading a file may take.
    {"security.md", "1 MiB + 48 times its bytes", "muster/base/parse_limits.h",
     "kParseBytesPerByte = 48;"},
    {"security.md", "1,032 times its bytes", "muster/base/parse_limits.h", "kMostUnpacked = 1032;"},
    {"security.md", "lines over 1 GiB", "muster/formats/lines.h",
     "kLongestLine = uint64_t{1} << 30;"},
    {"security.md", "CSV rows over 256 MiB", "muster/formats/csv.h",
     "kLongestCsvRow = uint64_t{1} << 28;"},
    {"security.md", "or 2^20 fields", "muster/formats/csv.h", "kMostCsvFields = size_t{1} << 20;"},
    {"security.md", "headers over 1 MiB (npy)", "muster/formats/npy.cc", "kHeaderLimit = 1 << 20;"},
    {"security.md", "headers over 100 MB; more than 300 values about one tensor",
     "muster/formats/safetensors.h", "kSafetensorsHeaderLimit = 100'000'000;"},
    {"security.md", "headers over 100 MB; more than 300 values about one tensor",
     "muster/formats/safetensors.cc", "kMostValues = 300;"},
    {"security.md", "JPEGs of more than 500 scans", "muster/formats/internal/jpeg_image_codec.cc",
     "kMostScans = 500;"},
    {"security.md", "nesting beyond 200 levels", "muster/base/json.cc", "kMaxDepth = 200;"},
    {"security.md", "(requests: 64)", "muster/serve/internal/json_body.h", "kMaxDepth = 64;"},
    {"security.md", "more than 1 MiB, 20,000 values, 64 levels", "muster/jobs/config_file.cc",
     "kMostBytes = 1 << 20;"},
    {"security.md", "more than 1 MiB, 20,000 values, 64 levels", "muster/jobs/config_file.cc",
     "kMostValues = 20'000;"},
    {"security.md", "more than 1 MiB, 20,000 values, 64 levels", "muster/jobs/config_file.cc",
     "kMostDepth = 64;"},

    {"serving.md", "nested deeper than 64 levels", "muster/serve/internal/json_body.h",
     "kMaxDepth = 64;"},
    {"serving.md", "the path has more than 1,024 bytes", "muster/serve/internal/request_parser.h",
     "path_bytes = 1024;"},
    {"serving.md", "a head of more than 16 KiB", "muster/serve/internal/request_parser.h",
     "head_bytes = 16 << 10;"},

    {"buckets.md", "which the run rewrites every ten seconds", "muster/checkpoint/lease.cc",
     "is_remote(path_) ? seconds(10)"},
    {"buckets.md", "A second run waits ten seconds", "muster/checkpoint/store_claim.h",
     "std::chrono::milliseconds join_timeout = std::chrono::seconds(10);"},
    {"buckets.md", "if it has not changed for a minute", "muster/checkpoint/lease.h",
     "std::chrono::seconds kHeartbeatTimeout{60};"},
    {"buckets.md", "at least one every two minutes", "muster/summary/event_writer.h",
     "flush_seconds = 120;"},
    {"buckets.md", "up to 64 MiB wait in memory", "muster/summary/internal/event_parts.h",
     "most_bytes = size_t{64} << 20;"},
    {"buckets.md", "ends waits at most 30 s for its events",
     "muster/summary/internal/event_parts.h", "end_seconds = 30;"},
    {"buckets.md", "Files older than ten minutes are joined",
     "muster/summary/internal/joined_events.h", "after_seconds = 600;"},
    {"buckets.md", "64 at a time, into files of 4 MiB", "muster/summary/internal/joined_events.h",
     "files = 64;"},
    {"buckets.md", "64 at a time, into files of 4 MiB", "muster/summary/internal/joined_events.h",
     "most_bytes = size_t{4} << 20;"},
    {"buckets.md", "removed by an export a day later", "muster/export/write_version.cc",
     "kLongestExport = 24 * 3600;"},
    {"buckets.md", "renewed five minutes before they expire",
     "muster/stores/internal/aws_credentials.cc", "kRenewBefore = 300;"},
    {"buckets.md", "renewed five minutes before they expire",
     "muster/stores/internal/google_credentials.cc", "kRenewTokenBefore = 300;"},
    {"buckets.md", "is asked every 20 s", "muster/stores/internal/aws_credentials.cc",
     "kAskAgainAfter = 20;"},
    {"buckets.md", "is asked every 20 s", "muster/stores/internal/google_credentials.cc",
     "kAskForTokenAfter = 20;"},
    {"buckets.md", "one part of 32 MiB after another", "muster/stores/internal/gcs_upload.cc",
     "return 4 * service_.options_.limits.part_bytes;"},
    {"buckets.md", "Up to 5 MiB the whole file is sent", "muster/stores/internal/growing_object.h",
     "kSmall = uint64_t{5} << 20;"},
    {"buckets.md", "1,000 pages in a row bring no new name", "muster/stores/internal/listing.cc",
     "kMostIdlePages = 1000;"},
    {"buckets.md", "more than 100,000 pages or 10,000,000 names",
     "muster/stores/internal/listing.cc", "kMostPages = 100'000;"},
    {"buckets.md", "more than 100,000 pages or 10,000,000 names",
     "muster/stores/internal/listing.cc", "kMostNames = 10'000'000;"},
    {"buckets.md", "A long listing is logged every ten seconds",
     "muster/stores/internal/listing.cc", "kSecondsBetweenLines = 10;"},
    {"buckets.md", "endless folders (512 nested ones, or a million)", "muster/files/glob.h",
     "folders = 1'000'000; size_t depth = 512;"},
    {"buckets.md", "headers of more than 256 KiB", "muster/stores/internal/http_client.cc",
     "kMostHeaders = 256 << 10;"},
    {"buckets.md", "a page of a list of more than 8 MiB", "muster/stores/internal/http_client.h",
     "kMostAnswer = size_t{8} << 20;"},
    {"buckets.md", "fetches the requested bytes, at least 64 KiB",
     "muster/stores/internal/object_reader.cc", "kLeastJump = size_t{64} << 10;"},
    {"buckets.md", "returns the first 256 KiB", "muster/stores/internal/object_file_system.cc",
     "kBeginning = size_t{256} << 10;"},
    {"buckets.md", "it holds the same memory, and at least 5 parts",  // one is filled meanwhile
     "muster/stores/internal/staged_object.cc", "kLeast = 4;"},
    {"buckets.md", "and a second more for each 32 KiB", "muster/stores/internal/http_client.cc",
     "kSecondsPerByte = 1.0 / (32 << 10);"},
    {"buckets.md", "A request that has failed or stalled for a second",
     "muster/stores/internal/http_client_retry.cc", "kSilentSeconds = 1;"},
    {"buckets.md", "and again every ten seconds or a little later",
     "muster/stores/internal/http_client_retry.cc", "kSecondsBetweenWarnings = 10;"},

    // What a table becomes, and what a pipeline reads and holds.
    {"train.md", "at most one value in 20 is not a number, and at least 40 values are numbers",
     "apps/train/column_profile.cc", "numbers_ * 20 >= values_ * 19 && numbers_ >= 40"},
    {"train.md", "whole numbers with at most 12 different values", "apps/train/table_plan.cc",
     "kFewNumbers = 12;"},
    {"train.md", "the 254 most frequent ones", "apps/train/table_plan.cc", "kMostWords = 254;"},
    {"train.md", "at most 20 different whole numbers, each in 5 rows on average",
     "apps/train/table_plan.cc", "kFewClasses = 20,"},
    {"train.md", "at most 20 different whole numbers, each in 5 rows on average",
     "apps/train/table_plan.cc", "label.different() * 5 <= label.values()"},
    {"train.md", "Up to 100 classes", "apps/train/table_plan.cc", "kMostClasses = 100;"},
    {"train.md", "at most 4,000 of the rows held out", "apps/train/train_report.cc",
     "kShuffledRows = 4000;"},
    {"data.md", "the first 16 MiB of the files", "muster/data/csv_inference.cc",
     "kMostBytes = uint64_t{16} << 20;"},
    {"data.md", "at least 1,000 rows", "muster/data/csv_inference.cc", "kLeastRows = 1000;"},
    {"data.md", "more than 1,032 times as long", "muster/base/parse_limits.h",
     "kMostUnpacked = 1032;"},
    {"data.md", "longer than 64 MiB", "muster/data/internal/padding_limit.cc",
     "kLittle = 1 << 26;"},
    {"data.md", "by count and by 256 MiB", "muster/data/internal/read_ahead.h",
     "kMostBytesAhead = uint64_t{1} << 28;"},
    {"data.md", "three quarters of the memory", "muster/data/internal/held_memory.cc",
     "memory_size() / 4 * 3;"},
    {"layers.md", "sorts up to 1,048,576 numbers",
     "muster/preprocessing/internal/quantile_sketch.h", "kBlock = size_t{1} << 20;"},
    {"applications.md", "height, width, channels; at least 32",
     "muster/applications/internal/image_network.cc", "kSmallest = 32;"},
    {"faq.md", "half of the machine's memory", "muster/base/allocator.cc",
     "mi_reserve_os_memory(memory_size() / 2,"},

    // Of an Estimator and those next to it.
    {"estimators.md", "checkpoints are saved every 600 seconds",
     "muster/estimator/estimator_impl.cc", "save_checkpoints_secs.value_or(Seconds(600))"},
    {"estimators.md", "rewrite every two seconds (in a bucket, every ten)",
     "muster/checkpoint/lease.cc", "is_remote(path_) ? seconds(10) : seconds(2)"},
    {"hooks.md", "(`.every`, each minute when unset)", "muster/train/early_stopping.cc",
     "kEachMinute{.time = std::chrono::minutes(1)};"},
    {"launchers.md", "(10 minutes, `RunConfig::join_timeout`)", "muster/estimator/run_config.h",
     "Seconds join_timeout{600};"},
    {"launchers.md", "It logs after half a minute how that task",
     "muster/control/internal/join_group.cc", "kLongReports = 2.5;"},
    {"strategies.md", "names the call, 10 s after the process",
     "muster/control/internal/join_group.cc", "kRestartTimeout = 10;"},
    {"reliability.md", "on the same machine | 10 s |", "muster/control/internal/join_group.cc",
     "kRestartTimeout = 10;"},
    {"launchers.md", "for 5 s at most", "muster/distribute/start_failure.cc",
     "kPatience = std::chrono::seconds(5);"},

    // Of parameter servers.
    {"parameter_servers.md", "one part for each 256 KiB", "muster/plan/partitioner.h",
     "bytes = 256 << 10"},
    {"parameter_servers.md", "form up to four groups", "muster/ps/internal/shard_server.cc",
     "kGroups = 4;"},
    {"parameter_servers.md", "Every piece of 16 MiB", "muster/checkpoint/checkpoint_parts.cc",
     "kPieceBytes = uint64_t{16} << 20;"},
    {"parameter_servers.md", "| `idle_timeout` | 60 s |", "muster/ps/parameter_server.h",
     "idle_timeout{60};"},
    {"parameter_servers.md", "`rejoin_timeout` (60 s)", "muster/ps/parameter_server.h",
     "rejoin_timeout{60};"},
    {"parameter_servers.md", "`restart_timeout` (300 s)", "muster/ps/parameter_server.h",
     "restart_timeout{300};"},

    {"parameter_servers.md", "serves on, for at most 600 s", "muster/ps/server.cc",
     "kStopGraceSeconds = 600;"},
    {"reliability.md", "waits for a save of the chief | 600 s;", "muster/ps/server.cc",
     "kStopGraceSeconds = 600;"},

    // Of jobs and searches.
    {"jobs.md", "waits for 10 s, or for two minutes if the first job is on another machine",
     "muster/checkpoint/directory_lock.h", "wait = std::chrono::seconds(10)"},
    {"jobs.md", "waits for 10 s, or for two minutes if the first job is on another machine",
     "muster/checkpoint/directory_lock.cc", "kElsewhere{120};"},
    {"jobs.md", "has waited for its target for 3 s", "muster/jobs/internal/tool.h",
     "kSilence = std::chrono::seconds(3);"},
    {"jobs.md", "half a minute for queries to Slurm", "muster/jobs/slurm_target.cc",
     "kQuestionDeadline{30};"},
    {"jobs.md", "(Slurm checks once a minute: up to 150 s)", "muster/jobs/slurm_script.cc",
     "kSlurmTells = 90;"},
    {"jobs.md", "(`--restart`, 3 times)", "muster/jobs/job_spec.h", "restarts = 3;"},
    {"jobs.md", "(a quarter of the time if that is less)", "muster/jobs/slurm_script.cc",
     "std::min(kSlurmTells, most / 4)"},
    {"hyperparameters.md", "the first three fail with the same exit code", "muster/jobs/search.cc",
     "kAlike = 3;"},
    {"hyperparameters.md", "at least three trials and more than half of all fail",
     "muster/jobs/search.cc", "std::max<int64_t>(2, planned() / 2)"},
    {"vertex.md", "it asks every 5 s", "muster/jobs/vertex_target.cc",
     "kLookForEntries = std::chrono::seconds(5);"},
};

TEST(DocumentedNumbers, AreThoseOfTheCode) {
  for (const Number& number : kNumbers) {
    EXPECT_THAT(text_of(std::string("docs/") + number.document), HasSubstr(number.sentence));
    EXPECT_THAT(text_of(number.source), HasSubstr(number.code)) << number.source;
  }
}

}  // namespace
}  // namespace muster::inline v0_1
