#include "muster/board/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/board/board_page.h"
#include "muster/board/epoch_axis.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;

constexpr size_t kMostBlobBytes = size_t{32} << 20;
constexpr size_t kMostProfile = size_t{4} << 20, kAllProfiles = size_t{16} << 20;  // bytes
// No request can leave the file: it has no address to ask, and pictures are in it.
constexpr const char* kReportPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data:; base-uri 'none'; form-action 'none'";

std::string_view page_file(std::string_view name) {
  for (const PageFile& file : page_files()) {
    if (file.name == name) return file.content;
  }
  throw Error(ErrorKind::kUnavailable, "this muster-board was built without its page",
              "run ./dev board-page, with npm, and build it again");
}

// Answers of the API by what was asked, as web/board/src/api.js looks them up.
class Answers {
 public:
  explicit Answers(BoardApi& api) : api_(api) {}

  // Keeps an answer; one that is an error is left out.
  void add(const std::string& path, const std::string& key, const std::string& query) {
    const serve::HttpAnswer answer = api_.answer("/api/" + path, query);
    if (answer.status == 200) all_[path][key] = json::parse(answer.body);
  }
  void add_blob(const std::string& key, const std::string& query) {
    const serve::HttpAnswer answer = api_.answer("/api/blob", query);
    if (answer.status != 200 || answer.type == "application/octet-stream") return;
    blob_bytes_ += answer.body.size();
    if (blob_bytes_ > kMostBlobBytes) return;
    all_["blob"][key] = "data:" + answer.type + ";base64," + to_base64(answer.body);
  }
  // Keeps a profile as it is, while there is room for it.
  void add_profile(size_t number) {
    const serve::HttpAnswer answer = api_.answer("/api/profile", fmt::format("number={}", number));
    const size_t size = answer.body.size();
    if (answer.status != 200 || size > kMostProfile || profile_bytes_ + size > kAllProfiles) return;
    json profile = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    if (profile.is_discarded()) return;
    profile_bytes_ += size;
    all_["profile"][std::to_string(number)] = std::move(profile);
  }
  const json& operator[](const char* path) const { return all_.at(path); }
  std::string text() const {
    // Inside of an element of a page, '<' could begin another one.
    std::string safe;
    for (const char letter : all_.dump(-1, ' ', false, json::error_handler_t::replace)) {
      if (letter == '<') {
        safe += "\\u003c";
      } else {
        safe += letter;
      }
    }
    return safe;
  }

 private:
  BoardApi& api_;
  json all_ = json::object();
  size_t blob_bytes_ = 0, profile_bytes_ = 0;
};

void add_records(Answers& answers, const std::string& kind, const json& tag, size_t run) {
  const std::string key = fmt::format("{}.{}", tag["number"].get<int>(), run);
  const std::string query = fmt::format("tag={}&run={}", tag["number"].get<int>(), run);
  if (kind == "histogram") answers.add("histograms", key, query + "&most=40");
  if (kind == "text") answers.add("texts", key, query + "&most=10");
  if (kind == "curve") answers.add("curves", key, query + "&most=20");
  if (kind != "image" && kind != "audio") return;
  answers.add("records", key, query);
  const json& records = answers["records"][key];
  if (!records.empty())
    answers.add_blob(key, fmt::format("{}&record={}", query, records.size() - 1));
}

}  // namespace

std::string report_page(BoardApi& api, const RunStore& store) {
  const std::string_view script = page_file("board.js"), style = page_file("board.css");
  Answers answers(api);
  answers.add("state", "", "");
  // A copy: adding answers moves them.
  const json state = answers["state"][""];
  const size_t runs = store.runs().size();
  const bool has_epochs = std::ranges::any_of(state["tags"], [](const json& tag) {
    return tag["name"] == kEpochTag && tag["kind"] == "scalar";
  });
  for (const json& tag : state["tags"]) {
    const auto kind = tag["kind"].get<std::string>();
    for (const char* axis : {"step", "epoch", "relative", "wall"}) {
      if (kind != "scalar" || (!has_epochs && std::string_view(axis) == "epoch")) continue;
      answers.add("chart", fmt::format("{}.{}", tag["number"].get<int>(), axis),
                  fmt::format("tag={}&runs=0-{}&x={}", tag["number"].get<int>(), runs - 1, axis));
    }
    for (const json& run : tag["runs"]) add_records(answers, kind, tag, run.get<size_t>());
  }
  for (size_t run = 0; run < runs; ++run) {
    answers.add("facts", std::to_string(run), fmt::format("run={}", run));
    answers.add("graph", std::to_string(run), fmt::format("run={}", run));
  }
  answers.add("hparams", "", "");
  answers.add("searches", "", "");
  answers.add("tasks", "", "");
  answers.add("profiles", "", "");
  for (size_t profile = 0; profile < store.profiles().size(); ++profile)
    answers.add_profile(profile);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Muster report</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<div id=\"board\"></div>\n"
      "<script type=\"application/json\" id=\"answers\">{}</script>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      kReportPolicy, style, answers.text(), script);
}

}  // namespace muster::inline v0_1::board
