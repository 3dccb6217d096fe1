#include "muster/jobs/search_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/formats/number_text.h"
#include "muster/formats/svg.h"

namespace muster::inline v0_1::jobs {
namespace {

using formats::svg_text;

constexpr double kHeight = 360, kTop = 54, kBottom = 30;
constexpr double kAcross = 150;  // from axis to axis
constexpr double kSide = 80;

// The first step with the best measurement.
int64_t step_of_best(const Trial& trial, bool maximize) {
  const double best = *trial.best(maximize);
  return std::find_if(trial.measurements.begin(), trial.measurements.end(),
                      [&](const auto& one) { return one.second == best; })
      ->first;
}

std::string algorithm_of(const HyperParameterSearch& what) {
  using Algorithm = HyperParameterSearch::Algorithm;
  if (what.algorithm == Algorithm::kDefault)
    return "values are drawn at random; successive halving stops the worst trials";
  return fmt::format(
      "{}; {}",
      what.algorithm == Algorithm::kGrid ? "GRID_SEARCH: all combinations, in order"
                                         : "RANDOM_SEARCH: values are drawn at random",
      what.early_stopping ? "the median rule stops the worst trials" : "no trial is stopped early");
}

std::string range_of(const HyperParameter& parameter) {
  using Type = HyperParameter::Type;
  using Scale = HyperParameter::Scale;
  if (parameter.type == Type::kCategorical) return "one of " + join(parameter.categories, ", ");
  if (parameter.type == Type::kDiscrete)
    return fmt::format("one of {}", fmt::join(parameter.values, ", "));
  return fmt::format("{} {} to {}{}", parameter.type == Type::kInteger ? "INTEGER" : "DOUBLE",
                     parameter.min_value, parameter.max_value,
                     parameter.scale == Scale::kLog          ? ", UNIT_LOG_SCALE"
                     : parameter.scale == Scale::kReverseLog ? ", UNIT_REVERSE_LOG_SCALE"
                                                             : "");
}

constexpr std::string_view kState = "state";

// A line for each trial, the best first, with the text of `state` in the last column.
std::string table_of(const Search& search, const std::function<std::string(const Trial&)>& state) {
  const HyperParameterSearch& what = search.what();
  std::vector<std::string> titles{">trial"};
  for (const HyperParameter& parameter : what.parameters) titles.push_back(">" + parameter.name);
  for (const std::string& title :
       {">" + what.metric_tag, std::string(">step"), std::string(">measured"), std::string(kState)})
    titles.push_back(title);
  TextTable table(titles);
  for (const Trial* trial : search.ranking()) {
    std::vector<std::string> cells{fmt::format("{}", trial->number)};
    for (const HyperParameter& parameter : what.parameters)
      cells.push_back(trial->values.at(parameter.name));
    const std::optional<double> best = trial->best(what.maximize);
    cells.push_back(best ? fmt::format("{:.6g}", *best) : "-");
    cells.push_back(best ? fmt::format("{}", step_of_best(*trial, what.maximize)) : "-");
    cells.push_back(fmt::format("{}", trial->measurements.size()));
    cells.push_back(state(*trial));
    table.add(std::move(cells));
  }
  return table.text("");
}

// Words that are printed elsewhere again would disturb the table.
std::string why_failed(const Search& search, const Trial& trial) {
  if (trial.failure.empty()) return "";
  const auto first = std::ranges::find_if(search.trials(), [&](const Trial& one) {
    return one.state == trial.state && one.failure == trial.failure;
  });
  if (first->number != trial.number) return fmt::format(", as trial {}", first->number);
  if (trial.exit_code && search.gave_up().ends_with(trial.failure))
    return fmt::format(": exit code {}", *trial.exit_code);
  return ": " + trial.failure;
}

// At most this many letters.
std::string shortened(const std::string& text, size_t most) {
  if (letters_in(text) <= most) return text;
  size_t end = text.size();
  while (letters_in(std::string_view(text).substr(0, end)) + 3 > most ||
         (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.substr(0, end) + "...";
}

// An upright line with a place for each value.
class Axis {
 public:
  explicit Axis(std::string title) : title_(std::move(title)) {}
  Axis(std::string title, const HyperParameter& parameter) : title_(std::move(title)) {
    logarithmic_ = parameter.scale == HyperParameter::Scale::kLog;
    if (parameter.type == HyperParameter::Type::kCategorical) {
      words_ = parameter.categories;
    } else if (parameter.type == HyperParameter::Type::kDiscrete) {
      for (const double value : parameter.values) words_.push_back(fmt::format("{}", value));
    } else {
      include(parameter.min_value);
      include(parameter.max_value);
    }
  }

  void include(double value) {
    low_ = known_ ? std::min(low_, value) : value;
    high_ = known_ ? std::max(high_, value) : value;
    known_ = true;
  }

  double y(const std::string& text) const {
    if (!words_.empty()) {
      const auto at = std::find(words_.begin(), words_.end(), text) - words_.begin();
      return height_of((static_cast<double>(at) + 0.5) / static_cast<double>(words_.size()));
    }
    double value = 0;
    formats::parse_number(text, &value);
    return y(value);
  }
  double y(double value) const {
    if (low_ == high_) return height_of(0.5);
    if (logarithmic_) return height_of(std::log(value / low_) / std::log(high_ / low_));
    return height_of((value - low_) / (high_ - low_));
  }

  std::string draw(double x) const {
    std::string svg = fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#999\"/>\n", x,
        kTop, kHeight - kBottom);
    svg += svg_text(x, kTop - 14, "middle", title_, " font-weight=\"bold\"");
    const auto mark = [&](double y, const std::string& text) {
      svg += svg_text(x + 5, y + 4, "start", text, " fill=\"#555\"");
    };
    for (const std::string& word : words_) mark(y(word), word);
    if (words_.empty() && known_) {
      mark(y(low_), fmt::format("{:.4g}", low_));
      if (high_ > low_) mark(y(high_), fmt::format("{:.4g}", high_));
    }
    return svg;
  }

 private:
  static double height_of(double share) {
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }

  std::string title_;
  std::vector<std::string> words_;  // a place for each; empty: numbers
  bool logarithmic_ = false;
  bool known_ = false;
  double low_ = 0, high_ = 1;
};

}  // namespace

std::string search_table(const Search& search) {
  constexpr size_t kWidest = 120, kLeastWords = 24;
  // The last column begins where the words are.
  const std::string plain = table_of(search, [](const Trial&) { return ""; });
  const size_t before = letters_in(plain.substr(0, plain.find('\n'))) - kState.size();
  const size_t room = std::max(kWidest - std::min(before, kWidest), kLeastWords);
  return table_of(search, [&](const Trial& trial) {
    return shortened(std::string(to_string(trial.state)) + why_failed(search, trial), room);
  });
}

std::string search_plan(const Search& search) {
  const HyperParameterSearch& what = search.what();
  std::string text = fmt::format("# a search: {} trials, {} at a time; the {} {} is best\n",
                                 search.planned(), what.max_parallel_trials,
                                 what.maximize ? "largest" : "smallest", what.metric_tag);
  text += fmt::format("#   {}\n", algorithm_of(what));
  for (const HyperParameter& parameter : what.parameters)
    text += fmt::format("#   {}: {}\n", parameter.name, range_of(parameter));
  return text;
}

std::string search_picture(const Search& search) {
  const HyperParameterSearch& what = search.what();
  std::vector<Axis> axes;
  for (const HyperParameter& parameter : what.parameters)
    axes.emplace_back(parameter.name, parameter);
  Axis metric(what.metric_tag);
  std::vector<const Trial*> measured;
  for (const Trial* trial : search.ranking()) {
    if (const auto best = trial->best(what.maximize)) {
      metric.include(*best);
      measured.push_back(trial);
    }
  }
  const auto x = [](size_t axis) { return kSide + kAcross * static_cast<double>(axis); };
  std::string body =
      svg_text(12, 20, "start",
               fmt::format("{} trials; the best {} is the orange line", search.trials().size(),
                           what.maximize ? "(largest)" : "(smallest)"));
  // The best are drawn last, so nothing hides them.
  for (size_t place = measured.size(); place-- > 0;) {
    const Trial& trial = *measured[place];
    std::string path;
    for (size_t a = 0; a < axes.size(); ++a) {
      path += fmt::format("{}{:.1f} {:.1f} ", a == 0 ? "M" : "L", x(a),
                          axes[a].y(trial.values.at(what.parameters[a].name)));
    }
    path += fmt::format("L{:.1f} {:.1f}", x(axes.size()), metric.y(*trial.best(what.maximize)));
    const double shade =
        measured.size() < 2 ? 1
                            : 1 - static_cast<double>(place) / static_cast<double>(measured.size());
    body += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{:.2f}\">"
        "<title>trial {}: {:.6g}, {}</title></path>\n",
        path, place == 0 ? "#d9632a" : "#1f6fb4", place == 0 ? "3" : "1.5", 0.2 + 0.8 * shade,
        trial.number, *trial.best(what.maximize), to_string(trial.state));
  }
  for (size_t a = 0; a < axes.size(); ++a) body += axes[a].draw(x(a));
  body += metric.draw(x(axes.size()));
  return formats::svg_picture(x(axes.size()) + kSide + 20, kHeight, body);
}

}  // namespace muster::inline v0_1::jobs
