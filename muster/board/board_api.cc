#include "muster/board/board_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/uri.h"
#include "muster/board/chart_table.h"
#include "muster/board/compare_runs.h"
#include "muster/board/epoch_axis.h"
#include "muster/board/internal/record_answers.h"
#include "muster/board/live_json.h"
#include "muster/board/profiles.h"
#include "muster/board/run_facts.h"
#include "muster/board/searches.h"
#include "muster/board/task_report.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;
using serve::HttpAnswer;

// The points of one answer; more are in the files, for `muster inspect events`.
constexpr size_t kMostPoints = 2'000'000;
// The points of one run that are in memory while an answer is made.
constexpr size_t kMostPointsOfRun = 4'000'000;

HttpAnswer answer_of(const json& document) {
  return {200, document.dump(-1, ' ', false, json::error_handler_t::replace), serve::kJson, {}};
}

HttpAnswer error_of(int status, const std::string& message) {
  HttpAnswer answer = answer_of({{"error", message}});
  answer.status = status;
  return answer;
}

// JSON has no other numbers than finite ones.
void append_number(std::string& out, double number) {
  if (std::isfinite(number)) {
    fmt::format_to(std::back_inserter(out), "{}", number);
  } else {
    out += "null";
  }
}

// Most values of events are floats, which need half as many digits.
void append_value(std::string& out, double value) {
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) == value && std::isfinite(narrow)) {
    fmt::format_to(std::back_inserter(out), "{}", narrow);
  } else {
    append_number(out, value);
  }
}

template <typename List, typename Append>
void append_list(std::string& out, const char* name, const List& list, Append append) {
  fmt::format_to(std::back_inserter(out), "\"{}\":[", name);
  for (size_t at = 0; at < list.size(); ++at) {
    if (at > 0) out += ',';
    append(out, list[at]);
  }
  out += ']';
}

const char* word_of(float odd) {
  return std::isnan(odd) ? "NaN" : odd > 0 ? "Infinity" : "-Infinity";
}

std::string chart_json(const ChartTable& table, const std::vector<size_t>& runs) {
  std::string out = fmt::format("{{\"exact\":{},\"interval\":", table.is_exact);
  append_number(out, table.interval);
  out += ',';
  // Places between points need no more digits than a chart shows.
  append_list(out, "x", table.x, [&table](std::string& to, double x) {
    if (table.is_exact) {
      append_number(to, x);
    } else {
      fmt::format_to(std::back_inserter(to), "{:.14g}", x);
    }
  });
  out += ",\"lines\":[";
  for (size_t line = 0; line < table.lines.size(); ++line) {
    const ChartLine& each = table.lines[line];
    out += line > 0 ? ",{" : "{";
    fmt::format_to(std::back_inserter(out), "\"run\":{},", runs[line]);
    append_list(out, "values", each.values, append_value);
    if (!table.is_exact) {
      out += ',';
      append_list(out, "means", each.means,
                  [](std::string& to, double mean) { append_number(to, float(mean)); });
      out += ',';
      append_list(out, "counts", each.counts,
                  [](std::string& to, int64_t count) { to += std::to_string(count); });
    }
    out += ',';
    append_list(out, "odd", each.odd, [](std::string& to, const std::pair<double, float>& odd) {
      to += '[';
      append_number(to, odd.first);
      fmt::format_to(std::back_inserter(to), ",\"{}\"]", word_of(odd.second));
    });
    out += '}';
  }
  return out + "]}";
}

ChartAxis axis_of(const Query& query) {
  const std::string word = query.text("x", "step");
  // Bins of steps get their epochs afterwards.
  if (word == "step" || word == "epoch") return ChartAxis::kStep;
  if (word == "wall") return ChartAxis::kWall;
  if (word == "relative") return ChartAxis::kRelative;
  throw invalid_argument("'x' must be step, epoch, wall or relative");
}

// The part of a series that a chart shows, read again from the files where the store has thinned
// it; as the store has it where that is too much. `first_wall` is the begin of a relative axis.
std::vector<ScalarBin> finer_bins(const RunData& run, const std::string& tag,
                                  const ScalarSeries& thinned, const ChartOptions& options,
                                  double first_wall) {
  ScalarPoints points;
  try {
    points = run.read_points(tag, kMostPointsOfRun);
  } catch (const Error&) {
    return thinned.bins();
  }
  ScalarSeries series;
  for (const auto& [step, wall, value] : points[tag]) {
    const double x = bin_range(bin_of(step, wall, value), options.axis, first_wall).first;
    if ((options.from && x < *options.from) || (options.to && x > *options.to)) continue;
    series.add(step, wall, value);
  }
  return series.bins();
}

// Whether the bins of the part that is shown are too few for a thinned chart of it.
bool needs_finer(const ScalarSeries& series, const ChartOptions& options, double first_wall) {
  if (series.is_exact() || (!options.from && !options.to)) return false;
  const auto shown = std::ranges::count_if(series.bins(), [&](const ScalarBin& bin) {
    const auto [begin, end] = bin_range(bin, options.axis, first_wall);
    return (!options.from || end >= *options.from) && (!options.to || begin <= *options.to);
  });
  return shown < options.intervals;
}

}  // namespace

BoardApi::BoardApi(RunStore& store, FileSystem& files) : store_(store), files_(files) {}

HttpAnswer BoardApi::answer(const std::string& path, const std::string& query) {
  try {
    return route(path, Query(query));
  } catch (...) {
    const Error error = current_error();
    const bool wrong = error.kind() == ErrorKind::kInvalidArgument;
    const bool missing = error.kind() == ErrorKind::kNotFound;
    return error_of(wrong ? 400 : missing ? 404 : 500, error.message());
  }
}

HttpAnswer BoardApi::route(const std::string& path, const Query& query) {
  if (path == "/api/state") return state(query);
  if (path == "/api/chart") return chart(query);
  if (path == "/api/points") return points(query);
  if (path == "/api/records") return records(query);
  if (path == "/api/histograms") return histograms(query);
  if (path == "/api/texts") return texts(query);
  if (path == "/api/curves") return curves(query);
  if (path == "/api/blob") return blob(query);
  if (path == "/api/graph") return graph(query);
  if (path == "/api/hparams") return hparams();
  if (path == "/api/facts") return facts(query);
  if (path == "/api/compare") return compare(query);
  if (path == "/api/searches") return searches();
  if (path == "/api/live") return live();
  if (path == "/api/tasks") return tasks();
  if (path == "/api/profiles") return profiles();
  if (path == "/api/profile") return profile(query);
  return error_of(404, "there is no such path");
}

std::shared_ptr<StoredRun> BoardApi::run_of(const Query& query, const std::string& name) const {
  const auto runs = store_.runs();
  if (runs.empty()) throw not_found("there is no run yet");
  const int64_t number = query.integer(name, 0, static_cast<int64_t>(runs.size()) - 1);
  return runs[static_cast<size_t>(number)];
}

std::string BoardApi::tag_of(const Query& query) const {
  return store_.tag_name(static_cast<int>(query.integer("tag", 0, INT32_MAX)));
}

HttpAnswer BoardApi::state(const Query& query) {
  const uint64_t version = store_.version();
  if (query.text("since") == std::to_string(version)) return answer_of({{"version", version}});
  json runs = json::array();
  std::map<std::string, std::pair<TagKind, std::vector<size_t>>> tags;
  uint64_t bytes = 0, read_bytes = 0;
  const auto all = store_.runs();
  for (size_t number = 0; number < all.size(); ++number) {
    const StoredRun& run = *all[number];
    const std::lock_guard lock(run.mutex);
    const RunData& data = run.data;
    bytes += data.bytes();
    read_bytes += data.read_bytes();
    runs.push_back({{"name", run.name},
                    {"directory", data.directory()},
                    {"first_wall", data.first_wall()},
                    {"last_wall", data.last_wall()},
                    {"last_step", data.last_step()},
                    {"events", data.events()},
                    {"notes", data.notes()},
                    {"graph", data.graph().has_value()},
                    {"hparams", data.hparams().has_value()}});
    for (const auto& [name, tag] : data.tags()) {
      auto& [kind, runs_of] = tags[name];
      if (runs_of.empty()) kind = tag.kind;
      // Another kind under the same name in another run is not shown.
      if (kind == tag.kind) runs_of.push_back(number);
    }
  }
  json tag_list = json::array();
  for (const auto& [name, tag] : tags) {
    tag_list.push_back({{"number", store_.tag_number(name)},
                        {"name", name},
                        {"kind", to_string(tag.first)},
                        {"runs", tag.second}});
  }
  return answer_of({{"version", version},
                    {"directories", store_.directories()},
                    {"bytes", bytes},
                    {"read_bytes", read_bytes},
                    {"troubles", store_.troubles()},
                    {"searches", store_.searches().size()},
                    {"live_runs", store_.live_runs().size()},
                    {"profiles", store_.profiles().size()},
                    {"runs", runs},
                    {"tags", tag_list}});
}

HttpAnswer BoardApi::chart(const Query& query) {
  const std::string tag = tag_of(query);
  const auto runs = store_.runs();
  const std::vector<size_t> chosen = query.numbers("runs", runs.size());
  const bool by_epoch = query.text("x") == "epoch";
  const std::optional<double> epoch_steps = query.number("epoch_steps");
  if (epoch_steps && *epoch_steps <= 0) throw invalid_argument("'epoch_steps' must be positive");
  const ChartOptions options{
      .axis = axis_of(query),
      .intervals = static_cast<int>(query.integer("intervals", 10, 4000, 300)),
      .logarithmic = query.text("log") == "1",
      .from = query.number("from"),
      .to = query.number("to")};
  std::vector<size_t> shown;
  std::vector<std::vector<ScalarBin>> bins;
  for (const size_t number : chosen) {
    const StoredRun& run = *runs[number];
    std::optional<EpochAxis> epochs;
    ChartOptions own = options;
    if (by_epoch) {
      epochs = epochs_of(store_, run.name, epoch_steps);
      if (!epochs->is_known()) continue;
      std::tie(own.from, own.to) = epochs->steps(options.from, options.to);
    }
    const std::lock_guard lock(run.mutex);
    const auto found = run.data.tags().find(std::string_view(tag));
    if (found == run.data.tags().end() || found->second.scalars.bins().empty()) continue;
    const ScalarSeries& series = found->second.scalars;
    const double first_wall = series.bins().front().first_wall;
    shown.push_back(number);
    if (needs_finer(series, own, first_wall)) {
      bins.push_back(finer_bins(run.data, tag, series, own, first_wall));
    } else {
      bins.push_back(series.bins());
    }
    // A relative axis begins with the first point of the series, which may not be shown.
    if (options.axis == ChartAxis::kRelative) {
      for (ScalarBin& bin : bins.back()) {
        bin.first_wall -= first_wall;
        bin.last_wall -= first_wall;
      }
    }
    for (ScalarBin& bin : bins.back()) {
      if (!epochs) break;
      bin.first_wall = epochs->at(static_cast<double>(bin.first_step));
      bin.last_wall = epochs->at(static_cast<double>(bin.last_step));
    }
  }
  ChartOptions placed = options;
  // The times are relative already, or are epochs.
  if (options.axis == ChartAxis::kRelative || by_epoch) placed.axis = ChartAxis::kWall;
  const std::vector<std::span<const ScalarBin>> series(bins.begin(), bins.end());
  return {200, chart_json(make_chart(series, placed), shown), serve::kJson, {}};
}

HttpAnswer BoardApi::points(const Query& query) {
  const std::string tag = tag_of(query);
  const auto runs = store_.runs();
  const std::vector<size_t> chosen = query.numbers("runs", runs.size());
  const std::string format = query.text("format", "csv");
  if (format != "csv" && format != "json") throw invalid_argument("'format' must be csv or json");
  const bool csv = format == "csv";
  std::string out = csv ? "run,step,wall_time,value\n" : "[";
  size_t count = 0;
  for (const size_t number : chosen) {
    const StoredRun& run = *runs[number];
    // In quotes, as RFC 4180 has it.
    std::string name = "\"";
    for (const char letter : run.name) name += letter == '"' ? "\"\"" : std::string(1, letter);
    name += '"';
    const std::string json_name =
        json(run.name).dump(-1, ' ', false, json::error_handler_t::replace);
    const std::lock_guard lock(run.mutex);
    ScalarPoints points = run.data.read_points(tag, kMostPointsOfRun);
    for (const auto& [step, wall, value] : points[tag]) {
      if (++count > kMostPoints) {
        throw invalid_argument(
            fmt::format("there are more than {} points; choose fewer runs", kMostPoints));
      }
      if (csv) {
        fmt::format_to(std::back_inserter(out), "{},{},{:.6f},{}\n", name, step, wall, value);
        continue;
      }
      fmt::format_to(std::back_inserter(out), "{}{{\"run\":{},\"step\":{},\"wall_time\":{:.6f},",
                     count > 1 ? "," : "", json_name, step, wall);
      out += "\"value\":";
      if (std::isfinite(value)) {
        fmt::format_to(std::back_inserter(out), "{}}}", value);
      } else {
        fmt::format_to(std::back_inserter(out), "\"{}\"}}", word_of(value));
      }
    }
  }
  if (!csv) out += "]";
  HttpAnswer answer{200, std::move(out), csv ? "text/csv; charset=utf-8" : serve::kJson, {}};
  // The page names the file.
  answer.headers.emplace_back("Content-Disposition", "attachment");
  return answer;
}

HttpAnswer BoardApi::records(const Query& query) {
  const auto run = run_of(query);
  const std::lock_guard lock(run->mutex);
  return answer_of(internal::places_json(run->data, tag_of(query)));
}

HttpAnswer BoardApi::histograms(const Query& query) {
  const auto run = run_of(query);
  const auto most = static_cast<size_t>(query.integer("most", 1, 500, 60));
  const std::lock_guard lock(run->mutex);
  return answer_of(internal::histograms_json(run->data, tag_of(query), most));
}

HttpAnswer BoardApi::texts(const Query& query) {
  const auto run = run_of(query);
  const auto most = static_cast<size_t>(query.integer("most", 1, 100, 10));
  const std::lock_guard lock(run->mutex);
  return answer_of(internal::texts_json(run->data, tag_of(query), most));
}

HttpAnswer BoardApi::curves(const Query& query) {
  const auto run = run_of(query);
  const auto most = static_cast<size_t>(query.integer("most", 1, 500, 60));
  const std::lock_guard lock(run->mutex);
  return answer_of(internal::curves_json(run->data, tag_of(query), most));
}

HttpAnswer BoardApi::blob(const Query& query) {
  const auto run = run_of(query);
  const auto record = static_cast<size_t>(query.integer("record", 0, INT32_MAX));
  const auto number = static_cast<size_t>(query.integer("number", 0, INT32_MAX, 0));
  const std::lock_guard lock(run->mutex);
  return internal::blob_answer(run->data, tag_of(query), record, number);
}

HttpAnswer BoardApi::graph(const Query& query) {
  const auto run = run_of(query);
  const std::lock_guard lock(run->mutex);
  return answer_of(internal::graph_json(run->data));
}

HttpAnswer BoardApi::hparams() {
  json sessions = json::array();
  const auto runs = store_.runs();
  for (size_t number = 0; number < runs.size(); ++number) {
    const StoredRun& run = *runs[number];
    const std::lock_guard lock(run.mutex);
    json session = internal::session_json(run.data);
    if (!session.is_object()) continue;
    session["run"] = number;
    session["metrics"] = json::object();
    sessions.push_back(std::move(session));
  }
  // The last scalars of a run, and those of its folder eval and other folders below it.
  for (json& session : sessions) {
    const std::string& name = runs[session["run"].get<size_t>()]->name;
    const std::string below = name == "." ? "" : name + "/";
    for (const auto& run : runs) {
      const bool own = run->name == name;
      if (!own && !(run->name.starts_with(below) && run->name != ".")) continue;
      const std::string group = own ? "" : run->name.substr(below.size()) + "/";
      const std::lock_guard lock(run->mutex);
      if (!own && run->data.hparams()) continue;
      for (const auto& [tag, data] : run->data.tags()) {
        if (data.kind == TagKind::kScalar && std::isfinite(data.scalars.last()))
          session["metrics"][group + tag] = data.scalars.last();
      }
    }
  }
  return answer_of(sessions);
}

HttpAnswer BoardApi::facts(const Query& query) {
  const auto run = run_of(query);
  json facts = run_facts(files_, run->data.directory());
  const std::lock_guard lock(run->mutex);
  facts["session"] = internal::session_json(run->data);
  facts["files"] = run->data.paths();
  facts["notes"] = run->data.notes();
  return answer_of(facts);
}

HttpAnswer BoardApi::searches() {
  json all = json::array();
  for (const std::string& directory : store_.searches()) {
    json search = search_json(files_, directory);
    if (search.is_object()) all.push_back(std::move(search));
  }
  return answer_of(all);
}

HttpAnswer BoardApi::live() {
  const double now = system_clock().wall_seconds();
  json all = json::array();
  for (const std::string& directory : store_.live_runs()) {
    json run = live_run(directory, now);
    if (run.is_object()) all.push_back(std::move(run));
  }
  return answer_of(all);
}

json BoardApi::live_run(const std::string& directory, double now) {
  if (!is_remote(directory)) return live_json(files_, directory, now);
  // A page asks each second, and a look is a request for each task.
  constexpr double kBetweenLooks = 5;
  const std::lock_guard lock(mutex_);
  Looked& looked = looked_[directory];
  if (now - looked.at >= kBetweenLooks || now < looked.at)
    looked = {.at = now, .run = std::make_shared<json>(live_json(files_, directory, now))};
  return *looked.run;
}

HttpAnswer BoardApi::tasks() {
  json all = json::array();
  for (const std::string& directory : store_.live_runs()) {
    json run = task_report_json(files_, directory);
    if (run.is_object()) all.push_back(std::move(run));
  }
  return answer_of(all);
}

HttpAnswer BoardApi::profiles() { return answer_of(profiles_json(files_, store_.profiles())); }

HttpAnswer BoardApi::profile(const Query& query) {
  const std::vector<std::string> paths = store_.profiles();
  if (paths.empty()) throw not_found("there is no profile");
  const int64_t number = query.integer("number", 0, static_cast<int64_t>(paths.size()) - 1);
  return {200, profile_text(files_, paths[static_cast<size_t>(number)]), serve::kJson, {}};
}

HttpAnswer BoardApi::compare(const Query& query) {
  const auto points_of = [&](const std::string& name) {
    const auto run = run_of(query, name);
    const std::lock_guard lock(run->mutex);
    return run->data.read_points({}, kMostPointsOfRun);
  };
  return answer_of(compare_json(points_of("a"), points_of("b")));
}

}  // namespace muster::inline v0_1::board
