// Photos to batches of float images, 224 x 224, on one core: image_folder() compared with
// libjpeg-turbo alone, which decodes the same files whole at the same scale and does nothing with
// them, and compared with torchvision and tf.data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/step_pacer.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/data/dataset.h"
#include "muster/data/image.h"
#include "muster/formats/image.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int64_t kBatch = 32;
constexpr int64_t kSide = 224;
constexpr double kFraction = 0.875;

struct Settings {
  std::string images;
  std::string json;
  std::string way;  // of a contestant
  std::string program;
  bool quick = false;
};

// ---- the contestants ----

void read_folder(const std::string& dir, data::ImageFit fit) {
  const Dataset batches = data::image_folder(dir, {.height = kSide,
                                                   .width = kSide,
                                                   .fit = fit,
                                                   .mean = {0.485, 0.456, 0.406},
                                                   .std = {0.229, 0.224, 0.225},
                                                   .crop_fraction = kFraction})
                              .repeat()
                              .batch(kBatch);
  const auto iterator = batches.iterator();
  StepPacer pacer;
  while (pacer.next() && iterator->next()) {
  }
}

struct Photo {
  std::string path{};
  int eighths = 8;
};

// All JPEGs below `dir`, each with the scale that the middle crop is decoded at.
std::vector<Photo> list_photos(const std::string& dir) {
  std::vector<Photo> photos;
  FileSystem& files = local_file_system();
  for (const std::string& name : data::image_classes(dir)) {
    for (const std::string& file : files.list_directory(join_path(dir, name)).value()) {
      Photo photo{.path = join_path(join_path(dir, name), file)};
      const std::string bytes = files.read_file(photo.path).value();
      if (formats::image_kind(bytes_of(bytes)) != formats::ImageKind::kJpeg) continue;
      const formats::ImageInfo info = formats::image_info(bytes_of(bytes), photo.path).value();
      const auto side =
          static_cast<int64_t>(kFraction * static_cast<double>(std::min(info.height, info.width)));
      const formats::ImageRegion middle{(info.height - side) / 2, (info.width - side) / 2, side,
                                        side};
      photo.eighths = static_cast<int>(
          8 * formats::decode_image(bytes_of(bytes), photo.path,
                                    {.region = middle, .min_height = kSide, .min_width = kSide})
                  .value()
                  .scale);
      photos.push_back(photo);
    }
  }
  return photos;
}

// What libjpeg-turbo itself takes: the file, all rows at this scale, into memory that is there.
void decode_with_libjpeg(const Photo& photo, std::vector<uint8_t>& pixels) {
  const std::string bytes = local_file_system().read_file(photo.path).value();
  jpeg_decompress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&state);
  jpeg_mem_src(&state, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&state, TRUE);
  state.scale_num = static_cast<unsigned>(photo.eighths);
  state.scale_denom = 8;
  state.out_color_space = JCS_RGB;
  jpeg_start_decompress(&state);
  const size_t row_bytes = size_t{state.output_width} * 3;
  pixels.resize(row_bytes * state.output_height);
  while (state.output_scanline < state.output_height) {
    JSAMPROW row = pixels.data() + state.output_scanline * row_bytes;
    jpeg_read_scanlines(&state, &row, 1);
  }
  jpeg_finish_decompress(&state);
  jpeg_destroy_decompress(&state);
}

void decode_folder(const std::string& dir) {
  const std::vector<Photo> photos = list_photos(dir);
  if (photos.empty()) throw invalid_argument("there is no JPEG in " + dir);
  std::vector<uint8_t> pixels;
  size_t at = 0;
  StepPacer pacer;
  while (pacer.next()) {
    for (int64_t i = 0; i < kBatch; ++i) decode_with_libjpeg(photos[at++ % photos.size()], pixels);
  }
}

bool took_part(const Settings& settings) {
  if (settings.way.empty()) return false;
  set_threads(1);
  if (settings.way == "libjpeg") {
    decode_folder(settings.images);
  } else {
    read_folder(settings.images, settings.way == "random" ? data::ImageFit::kRandomCrop
                                                          : data::ImageFit::kCenterCrop);
  }
  return true;
}

// ---- the comparison ----

Contestant contestant(const std::string& name, const std::string& way, const Settings& settings) {
  return {.name = name,
          .argv = {settings.program, "--images=" + settings.images, "--way=" + way},
          .rows = kBatch};
}

void say_ratio(const std::vector<Result>& results, size_t other, const char* aim) {
  const Estimate ratio = estimate_ratio(results[other].seconds, results[0].seconds);
  fmt::print("Muster against {}: {:.2f} times as fast (95 % interval {:.2f} to {:.2f}){}.\n",
             results[other].contestant.name, ratio.median, ratio.low, ratio.high, aim);
}

// Others that read the same photos, in the way `way`.
std::vector<Contestant> peers(const std::string& way, bool torchvision, const Settings& settings) {
  const std::vector<std::string> arguments{"--data=" + way, "--path=" + settings.images,
                                           fmt::format("--batch={}", kBatch), "--batches=1"};
  std::vector<std::string> words{"input_torch.py"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<Contestant> made;
  if (torchvision) made.push_back(python_peer("torchvision of Debian", words));
  Contestant today = python_peer("DataLoader of PyTorch 2.15 and torchvision", words);
  if (in_environment("today", &today)) made.push_back(std::move(today));
  for (Contestant& peer : made) peer.rows = kBatch;
  add_tf_data(arguments, kBatch, &made);
  return made;
}

void run(const Settings& settings) {
  const bool torchvision = has_python("torchvision", "python3-torchvision python3-pil");
  // A turn is some passes over the 120 photos or so that there are.
  const Plan plan = settings.quick
                        ? Plan{.launches = 1, .pairs = 4, .turns = 2, .steps = 5, .warm_up = 4}
                        : Plan{.launches = 3, .pairs = 5, .turns = 2, .steps = 15, .warm_up = 8};
  const auto measure = [&](const std::string& benchmark, const std::string& title,
                           std::vector<Contestant> contestants, const std::string& way) {
    const size_t own = contestants.size();
    for (Contestant& peer : peers(way, torchvision, settings))
      contestants.push_back(std::move(peer));
    const std::vector<Result> results = compare(contestants, plan);
    print_table(benchmark, title, results, own - 1, settings.json);
    for (size_t c = 1; c < results.size(); ++c) say_ratio(results, c, c < own ? "; aim: 0.8" : "");
  };
  measure("images", "One core: JPEG files to normalised float batches [32, 224, 224, 3]",
          {contestant("Muster, middle crop", "center", settings),
           contestant("libjpeg-turbo alone", "libjpeg", settings)},
          "center");
  measure("images_random_crop", "The same with random crops, mirrored at random",
          {contestant("Muster, random crop", "random", settings)}, "random");
  fmt::print(
      "{} samples of {} batches; libjpeg-turbo decodes whole files, at the scale Muster "
      "chooses for each, and does no more.\n",
      plan.samples(), plan.steps_per_sample());
}

Settings parse(int argc, char** argv) {
  Settings settings;
  CLI::App app("Images a second");
  const char* data = std::getenv("MUSTER_TEST_DATA");
  if (data != nullptr) settings.images = join_path(data, "images/train");
  app.add_option("--images", settings.images, "a folder of images, a sub-folder for each class");
  app.add_option("--json", settings.json, "where figures go, a line each");
  app.add_flag("--quick", settings.quick, "few samples");
  app.add_option("--way", settings.way, "be a contestant: center, random, libjpeg");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  settings.program = argv[0];
  return settings;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  try {
    const auto settings = muster::bench::parse(argc, argv);
    if (settings.images.empty()) {
      fmt::print(
          "images: no photos to read; name a folder of them by --images=DIR, or set "
          "MUSTER_TEST_DATA. Left out.\n");
      return 0;
    }
    if (!muster::bench::took_part(settings)) muster::bench::run(settings);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
