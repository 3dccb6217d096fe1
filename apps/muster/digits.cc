#include "apps/muster/digits.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/random.h"
#include "muster/files/file_systems.h"
#include "muster/formats/idx.h"

namespace muster::app {
namespace {

// It is raised whenever the same options give other bytes.
constexpr int kGeneratorVersion = 1;

struct Point {
  double x, y;
};

// A curve through its points; corners are ends of strokes, so a digit with a corner has two strokes
// there.
struct Stroke {
  std::vector<Point> points;
  bool curved = true;
};

// The strokes of a digit in the unit square, y downwards. Strokes that share an end keep it shared
// when points are moved.
using Style = std::vector<Stroke>;

const std::array<std::vector<Style>, 10>& styles() {
  static const std::array<std::vector<Style>, 10> all = {{
      // 0: drawn from the top, closed or nearly so
      {{{{{.5, 0},
          {.2, .12},
          {.06, .5},
          {.2, .88},
          {.5, 1},
          {.8, .88},
          {.94, .5},
          {.8, .12},
          {.5, 0}}}},
       {{{{.62, .03},
          {.3, .05},
          {.1, .4},
          {.15, .8},
          {.45, 1},
          {.8, .85},
          {.92, .45},
          {.75, .1},
          {.45, .06}}}}},
      // 1: bare, with a flag, with flag and base
      {{{{{.5, 0}, {.49, .5}, {.5, 1}}}},
       {{{{.28, .22}, {.52, 0}}, false}, {{{.52, 0}, {.51, .5}, {.5, 1}}}},
       {{{{.3, .2}, {.52, 0}}, false},
        {{{.52, 0}, {.5, 1}}, false},
        {{{.25, 1}, {.77, .99}}, false}}},
      // 2: angular foot, looped foot
      {{{{{.14, .24}, {.3, .04}, {.62, .01}, {.84, .22}, {.7, .5}, {.4, .76}, {.08, .99}}},
        {{{.08, .99}, {.5, .97}, {.92, .98}}}},
       {{{{.16, .18},
          {.4, 0},
          {.74, .06},
          {.78, .32},
          {.5, .66},
          {.18, .92},
          {.1, .8},
          {.32, .78},
          {.62, .96},
          {.94, .9}}}}},
      // 3: round, flat top
      {{{{{.14, .12}, {.44, 0}, {.8, .14}, {.74, .36}, {.38, .48}}},
        {{{.38, .48}, {.8, .58}, {.88, .8}, {.54, 1}, {.1, .88}}}},
       {{{{.14, .02}, {.82, .01}}, false},
        {{{.82, .01}, {.42, .4}}, false},
        {{{.42, .4}, {.78, .48}, {.88, .74}, {.58, 1}, {.1, .9}}}}},
      // 4: closed, open
      {{{{{.6, 0}, {.08, .64}}, false},
        {{{.08, .64}, {.94, .62}}, false},
        {{{.6, 0}, {.64, .5}, {.64, 1}}}},
       {{{{.2, .02}, {.14, .3}, {.2, .52}, {.5, .54}, {.82, .48}}},
        {{{.84, 0}, {.8, .5}, {.74, 1}}}}},
      // 5
      {{{{{.86, .01}, {.26, .02}}, false},
        {{{.26, .02}, {.2, .44}}, false},
        {{{.2, .44}, {.56, .38}, {.88, .62}, {.74, .92}, {.4, 1}, {.08, .9}}}},
       {{{{.84, .04},
          {.5, .02},
          {.3, .1},
          {.22, .4},
          {.5, .42},
          {.8, .56},
          {.84, .8},
          {.56, 1},
          {.12, .92}}}}},
      // 6: slanted, upright
      {{{{{.74, 0},
          {.4, .18},
          {.14, .6},
          {.24, .94},
          {.58, 1},
          {.86, .78},
          {.64, .54},
          {.3, .6},
          {.16, .78}}}},
       {{{{.5, 0},
          {.24, .3},
          {.14, .7},
          {.34, .98},
          {.7, .96},
          {.84, .72},
          {.6, .52},
          {.2, .66}}}}},
      // 7: plain, with a bar, with a serif
      {{{{{.08, .04}, {.5, .02}, {.92, 0}}}, {{{.92, 0}, {.62, .44}, {.42, 1}}}},
       {{{{.08, .04}, {.92, 0}}, false},
        {{{.92, 0}, {.62, .44}, {.44, 1}}},
        {{{.32, .5}, {.82, .47}}, false}},
       {{{{.1, .2}, {.12, .04}}, false},
        {{{.12, .04}, {.9, .02}}, false},
        {{{.9, .02}, {.54, .5}, {.48, 1}}}}},
      // 8: in one line, as two rings
      {{{{{.78, .14},
          {.5, 0},
          {.22, .16},
          {.36, .4},
          {.7, .6},
          {.8, .84},
          {.5, 1},
          {.2, .84},
          {.3, .6},
          {.64, .4},
          {.78, .14}}}},
       {{{{.5, .46}, {.24, .36}, {.26, .1}, {.5, 0}, {.74, .1}, {.76, .36}, {.5, .46}}},
        {{{.5, .46}, {.16, .62}, {.18, .9}, {.5, 1}, {.82, .9}, {.84, .62}, {.5, .46}}}}},
      // 9: straight stem, curved tail
      {{{{{.82, .2}, {.54, 0}, {.2, .14}, {.18, .4}, {.46, .52}, {.74, .42}, {.82, .2}}},
        {{{.82, .2}, {.8, .6}, {.7, 1}}}},
       {{{{.8, .26}, {.58, .02}, {.24, .1}, {.2, .4}, {.5, .5}, {.8, .26}}},
        {{{.8, .26}, {.84, .62}, {.6, .96}, {.2, .94}}}}},
  }};
  return all;
}

// Returns a uniform number in [low, high).
double between(Random& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

// Returns a bell-shaped number of mean 0 and standard deviation 1, at most 2 * sqrt(3) from 0.
// Random::normal() will not do, because libm's logarithm and cosine differ between machines.
double bell(Random& random) {
  double sum = -2;
  for (int i = 0; i < 4; ++i) sum += random.uniform();
  return sum * 1.7320508075688772;
}

// Draws a Catmull-Rom curve through the points, with `steps` pieces for each; the end points count
// twice.
void flatten(const Stroke& stroke, int steps, std::vector<Point>& line) {
  const auto& p = stroke.points;
  const int n = static_cast<int>(p.size());
  line.clear();
  line.push_back(p[0]);
  for (int i = 0; i + 1 < n; ++i) {
    if (!stroke.curved) {
      line.push_back(p[i + 1]);
      continue;
    }
    const Point& a = p[std::max(i - 1, 0)];
    const Point& b = p[i];
    const Point& c = p[i + 1];
    const Point& d = p[std::min(i + 2, n - 1)];
    for (int s = 1; s <= steps; ++s) {
      const double t = static_cast<double>(s) / steps;
      const auto spline = [t](double a, double b, double c, double d) {
        return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
      };
      line.push_back({spline(a.x, b.x, c.x, d.x), spline(a.y, b.y, c.y, d.y)});
    }
  }
}

// Maps the unit square to pixels: a quadratic warp, then scale, shear, rotation and shift.
struct Placement {
  double warp[6];
  double xx, xy, yx, yy, shift_x, shift_y;

  explicit Placement(Random& random) {
    for (double& w : warp) w = 0.14 * bell(random);
    const double size = between(random, 15.5, 21.5);
    const double width = size * between(random, 0.52, 0.98);
    const double shear = 0.16 * bell(random);
    // This is the tangent of half the angle, which gives sine and cosine without libm. The angle is
    // about +-20 degrees at most.
    const double t = std::clamp(0.055 * bell(random), -0.18, 0.18);
    const double cosine = (1 - t * t) / (1 + t * t);
    const double sine = 2 * t / (1 + t * t);
    xx = cosine * width;
    xy = (cosine * shear - sine) * size;
    yx = sine * width;
    yy = (sine * shear + cosine) * size;
    shift_x = 14 + 1.1 * bell(random);
    shift_y = 14 + 1.1 * bell(random);
  }

  Point operator()(Point p) const {
    const double x = p.x - 0.5;
    const double y = p.y - 0.5;
    const double u = x + warp[0] * x * y + warp[1] * (y * y - 0.1) + warp[2] * (x * x - 0.1);
    const double v = y + warp[3] * x * y + warp[4] * (x * x - 0.1) + warp[5] * (y * y - 0.1);
    return {xx * u + xy * v + shift_x, yx * u + yy * v + shift_y};
  }
};

using Canvas = std::array<double, kDigitPixels>;

// Darkens every pixel by how far the segment's pen of this half width covers it.
void draw(Canvas& canvas, Point a, Point b, double half_width, double ink) {
  const double reach = half_width + 0.5;
  const auto range = [](double low, double high) {
    return std::pair(std::max(0, static_cast<int>(std::floor(low))),
                     std::min(kDigitSide - 1, static_cast<int>(std::ceil(high))));
  };
  const auto [left, right] = range(std::min(a.x, b.x) - reach, std::max(a.x, b.x) + reach);
  const auto [top, bottom] = range(std::min(a.y, b.y) - reach, std::max(a.y, b.y) + reach);
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double length2 = dx * dx + dy * dy;
  for (int row = top; row <= bottom; ++row) {
    for (int column = left; column <= right; ++column) {
      const double px = column - a.x;
      const double py = row - a.y;
      const double along = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0, 1.0) : 0;
      const double ex = px - along * dx;
      const double ey = py - along * dy;
      const double cover = std::min(1.0, reach - std::sqrt(ex * ex + ey * ey));
      double& pixel = canvas[row * kDigitSide + column];
      if (cover * ink > pixel) pixel = cover * ink;
    }
  }
}

RandomKey image_key(uint64_t seed, DigitSet set, uint64_t index) {
  return derive_key(seed, {id_of("digits"), static_cast<uint64_t>(set), index});
}

void write_set(const DigitOptions& options, DigitSet set, uint64_t count,
               const std::string& prefix) {
  const auto size = static_cast<int64_t>(count);
  formats::IdxArray images{.shape = {size, kDigitSide, kDigitSide}};
  formats::IdxArray labels{.shape = {size}};
  images.data.resize(count * kDigitPixels);
  labels.data.resize(count);
  constexpr uint64_t kChunk = 500;
  std::atomic<uint64_t> next = 0;
  const auto work = [&] {
    for (uint64_t begin = next.fetch_add(kChunk); begin < count; begin = next.fetch_add(kChunk)) {
      for (uint64_t i = begin; i < std::min(count, begin + kChunk); ++i) {
        const DigitImage image = digit_image(options.seed, set, i);
        std::copy(image.begin(), image.end(), images.data.begin() + i * kDigitPixels);
        labels.data[i] = static_cast<char>(digit_label(options.seed, set, i));
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      threads.emplace_back(work);
    }
    work();
  }
  FileSystem& files = file_systems();
  const auto path = [&](const char* rest) { return join_path(options.out, prefix + rest); };
  formats::write_idx(files, path("-images-idx3-ubyte"), images).value();
  formats::write_idx(files, path("-labels-idx1-ubyte"), labels).value();
}

constexpr std::array<const char*, 4> kFiles = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                               "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// Whether the four files have the sizes that they get with these options.
bool all_are_there(FileSystem& files, const DigitOptions& options) {
  const auto size_is = [&](const char* name, uint64_t bytes) {
    const auto size = files.file_size(join_path(options.out, name));
    return size.ok() && size.value() == bytes;
  };
  return size_is(kFiles[0], 16 + options.train * kDigitPixels) &&
         size_is(kFiles[1], 8 + options.train) &&
         size_is(kFiles[2], 16 + options.test * kDigitPixels) &&
         size_is(kFiles[3], 8 + options.test);
}

}  // namespace

int digit_label(uint64_t seed, DigitSet set, uint64_t index) {
  std::array<int, 10> order;
  std::iota(order.begin(), order.end(), 0);
  Random random(derive_key(seed, {id_of("digit labels"), static_cast<uint64_t>(set), index / 10}));
  for (int i = 9; i > 0; --i) std::swap(order[i], order[random.uniform_below(i + 1)]);
  return order[index % 10];
}

DigitImage digit_image(uint64_t seed, DigitSet set, uint64_t index) {
  Random random(image_key(seed, set, index));
  const auto& choices = styles()[digit_label(seed, set, index)];
  Style style = choices[random.uniform_below(choices.size())];

  const double wobble = between(random, 0.015, 0.05);
  Point joint{-1, -1};  // the last stroke's end, before and after it was moved
  Point moved_joint{};
  Point first = style[0].points[0];
  Point moved_first{};
  bool at_first = true;
  for (Stroke& stroke : style) {
    const Point end = stroke.points.back();
    for (Point& p : stroke.points) {
      const Point from = p;
      const Point to = {p.x + wobble * bell(random), p.y + wobble * bell(random)};
      p = to;
      if (!at_first && from.x == first.x && from.y == first.y) p = moved_first;
      if (from.x == joint.x && from.y == joint.y) p = moved_joint;
      if (at_first) moved_first = p;
      at_first = false;
    }
    joint = end;
    moved_joint = stroke.points.back();
  }

  const Placement place(random);
  const double half_width = between(random, 0.55, 1.55);
  const double pressure = between(random, 0.75, 1.0);
  const double fading =
      random.uniform() < 0.25 ? between(random, 0.3, 0.6) : 0;  // a pen running dry
  Canvas canvas{};
  std::vector<Point> line;
  for (const Stroke& stroke : style) {
    flatten(stroke, 6, line);
    const double pieces = static_cast<double>(line.size());
    for (std::size_t i = 0; i + 1 < line.size(); ++i) {
      const double along = static_cast<double>(i) / pieces;
      const double width = half_width * (1 - 0.3 * fading * along);
      draw(canvas, place(line[i]), place(line[i + 1]), width,
           pressure * (1 - fading * along * 0.6));
    }
  }

  // A scanner adds grain to the ink, and now and then a speck or a scratch next to it.
  if (random.uniform() < 0.12) {
    const Point a{between(random, 2, 26), between(random, 2, 26)};
    const Point b{a.x + 3 * bell(random), a.y + 3 * bell(random)};
    draw(canvas, a, b, between(random, 0.3, 0.8), between(random, 0.3, 0.9));
  }
  const double grain = between(random, 4, 22);
  const bool dusty = random.uniform() < 0.3;
  DigitImage image;
  for (int i = 0; i < kDigitPixels; ++i) {
    double value = 255 * canvas[i];
    if (value > 0 || dusty) value += grain * (random.uniform_float() * 2.0 - 1.0);
    image[i] = static_cast<uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
  }
  return image;
}

bool write_digits(const DigitOptions& options) {
  if (options.train == 0 || options.test == 0 || options.train > UINT32_MAX ||
      options.test > UINT32_MAX) {
    throw invalid_argument(fmt::format("--train is {} and --test {}", options.train, options.test),
                           "each takes at least one image, and fewer than 2^32");
  }
  FileSystem& files = file_systems();
  // Packed files must not be replaced, and if both exist it is unclear which of the two is read.
  for (const char* name : kFiles) {
    const std::string packed = join_path(options.out, std::string(name) + ".gz");
    if (files.exists(packed).value()) {
      throw invalid_argument(
          fmt::format("{} is there already: a data set in files of these names", packed),
          "pass another folder with --out");
    }
  }
  const std::string manifest_path = join_path(options.out, "digits.json");
  nlohmann::json manifest = {{"generator", "muster data digits"},
                             {"version", kGeneratorVersion},
                             {"seed", options.seed},
                             {"train", options.train},
                             {"test", options.test},
                             {"complete", true}};
  nlohmann::json there;
  if (files.exists(manifest_path).value()) {
    const std::string text = files.read_file(manifest_path).value();
    there = parse_json(text, manifest_path).value_or(nlohmann::json::object());
  }
  if (there == manifest && !options.force && all_are_there(files, options)) return false;
  // Files that an interrupted run of this command left, or that these same options made, may be
  // replaced.
  nlohmann::json unfinished = manifest;
  unfinished["complete"] = false;
  const bool ours = there == manifest || (there.is_object() && !there.value("complete", true));
  for (const char* name : kFiles) {
    const std::string path = join_path(options.out, name);
    if (!options.force && !ours && files.exists(path).value()) {
      throw invalid_argument(
          there.is_object() && there.contains("seed")
              ? fmt::format("{} holds digits of other options: {}", options.out, there.dump())
              : fmt::format("{} is there already, and not from this command", path),
          "pass another --out, or --force to replace what is there");
    }
  }
  files.make_directories(options.out).value();
  files.write_atomically(manifest_path, std::string_view(unfinished.dump(1) + "\n")).value();
  write_set(options, DigitSet::kTrain, options.train, "train");
  write_set(options, DigitSet::kTest, options.test, "t10k");
  files.write_atomically(manifest_path, std::string_view(manifest.dump(1) + "\n")).value();
  return true;
}

}  // namespace muster::app
