// History as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/files/file_systems.h"
#include "muster/formats/svg.h"
#include "muster/keras/history.h"
#include "muster/train/progress_line.h"

namespace muster::inline v0_1::keras {
namespace {

using formats::axis_step;
using formats::svg_text;

constexpr double kWidth = 460, kHeight = 280;                       // of a panel
constexpr double kLeft = 62, kRight = 16, kTop = 34, kBottom = 40;  // around its axes
constexpr const char* kColours[] = {"#1f6fb4", "#d9632a"};          // training, validation

struct Curve {
  const char* colour;
  std::string label;
  std::vector<double> values;
};

class Panel {
 public:
  Panel(std::string title, const std::vector<int64_t>& epochs, std::vector<Curve> curves)
      : title_(std::move(title)), curves_(std::move(curves)) {
    for (const int64_t epoch : epochs) epochs_.push_back(static_cast<double>(epoch + 1));
    low_ = std::numeric_limits<double>::infinity();
    high_ = -low_;
    for (const Curve& curve : curves_) {
      for (const double value : curve.values) {
        if (!std::isfinite(value)) continue;
        low_ = std::min(low_, value);
        high_ = std::max(high_, value);
      }
    }
    if (low_ > high_) low_ = 0, high_ = 1;
    if (low_ == high_) low_ -= 0.5, high_ += 0.5;
    step_ = axis_step(high_ - low_, 5);
    low_ = std::floor(low_ / step_) * step_;
    high_ = std::ceil(high_ / step_) * step_;
  }

  std::string draw(double left, double top) const {
    std::string svg = fmt::format("<g transform=\"translate({:.0f},{:.0f})\">\n", left, top);
    svg += svg_text(kWidth / 2, 18, "middle", title_, " font-weight=\"bold\"");
    for (int i = 0; low_ + i * step_ <= high_ + step_ / 2; ++i) {
      const double value = low_ + i * step_;
      svg += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
          kLeft, y(value), kWidth - kRight, y(value));
      svg += svg_text(kLeft - 6, y(value) + 4, "end", fmt::format("{:.4g}", value));
    }
    const double range = epochs_.empty() ? 1 : epochs_.back() - epochs_.front();
    const double step = std::max(1.0, range > 0 ? axis_step(range, 8) : 1);
    for (double epoch = epochs_.empty() ? 1 : epochs_.front();
         !epochs_.empty() && epoch <= epochs_.back(); epoch += step)
      svg += svg_text(x(epoch), kHeight - kBottom + 16, "middle", fmt::format("{:.0f}", epoch));
    svg += svg_text(kWidth / 2, kHeight - 8, "middle", "epoch");
    double label = kLeft + 8;
    for (const Curve& curve : curves_) {
      svg += line(curve);
      svg += svg_text(label, kTop - 4, "start", curve.label,
                      fmt::format(" fill=\"{}\"", curve.colour));
      label += 8.0 * static_cast<double>(curve.label.size()) + 16;
    }
    return svg + "</g>\n";
  }

 private:
  double x(double epoch) const {
    const double range = epochs_.back() - epochs_.front();
    const double share = range > 0 ? (epoch - epochs_.front()) / range : 0.5;
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - low_) / (high_ - low_) * (kHeight - kTop - kBottom);
  }

  // Values that are not numbers leave a gap. A single one is a dot.
  std::string line(const Curve& curve) const {
    std::string path, dots;
    bool open = false;
    for (size_t e = 0; e < curve.values.size() && e < epochs_.size(); ++e) {
      if (!std::isfinite(curve.values[e])) {
        open = false;
        continue;
      }
      const double across = x(epochs_[e]), up = y(curve.values[e]);
      path += fmt::format("{}{:.1f} {:.1f} ", open ? "L" : "M", across, up);
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>epoch {:.0f}: {}"
          "</title></circle>\n",
          across, up, curve.colour, epochs_[e], value_text(curve.values[e]));
      open = true;
    }
    return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n{}",
                       path, curve.colour, dots);
  }

  std::string title_;
  std::vector<double> epochs_;
  std::vector<Curve> curves_;
  double low_ = 0, high_ = 1, step_ = 1;
};

}  // namespace

void History::plot(const std::string& path) const {
  if (!path.ends_with(".svg")) {
    throw invalid_argument("plot: the path '" + path + "' does not end in .svg",
                           "what is drawn is SVG, which every browser opens");
  }
  std::vector<Panel> panels;
  for (const auto& [name, values] : history) {
    const bool validated = name.starts_with("val_");
    // Both share one panel.
    if (validated && history.contains(name.substr(4))) continue;
    std::vector<Curve> curves{{kColours[validated ? 1 : 0], validated ? name : "training", values}};
    if (const auto other = history.find("val_" + name); other != history.end())
      curves.push_back({kColours[1], "validation", other->second});
    // The most important panel comes first.
    panels.insert(name == "loss" ? panels.begin() : panels.end(),
                  Panel(validated ? name.substr(4) : name, epoch, std::move(curves)));
  }
  const auto columns = std::min<size_t>(2, std::max<size_t>(1, panels.size()));
  const size_t rows = (panels.size() + columns - 1) / columns;
  std::string body;
  for (size_t p = 0; p < panels.size(); ++p) {
    body += panels[p].draw(kWidth * static_cast<double>(p % columns),
                           kHeight * static_cast<double>(p / columns));
  }
  file_systems()
      .write_atomically(path, formats::svg_picture(
                                  kWidth * static_cast<double>(columns),
                                  kHeight * static_cast<double>(std::max<size_t>(1, rows)), body))
      .value();
}

}  // namespace muster::inline v0_1::keras
