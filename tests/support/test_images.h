// Images for tests: pixels that are easy to check, and files made of them. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::inline v0_1::testing {

// Pixels [height, width, channels] of 8 bits.
struct TestImage {
  int height = 0;
  int width = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;

  uint8_t at(int y, int x, int c) const {
    return pixels[static_cast<size_t>((y * width + x) * channels + c)];
  }
};

// Smooth waves with some noise on them, another picture for each seed: like a photo to a codec.
TestImage make_test_image(int height, int width, int channels, uint64_t seed = 1);

// Options of encode_jpeg().
struct JpegOptions {
  int quality = 90;
  int horizontal_sampling = 2;  // of colour against brightness: 1, 2 or 4
  int vertical_sampling = 2;
  bool progressive = false;
  bool arithmetic = false;
  int restart_interval = 0;  // in blocks; 0: none
  bool ycck = false;         // of four channels: YCCK, not CMYK
  bool adobe_marker = true;  // of four channels: without it values are amounts of ink
};

// A JPEG of 1, 3 (RGB) or 4 (CMYK) channels. Ends the process when it cannot be.
std::string encode_jpeg(const TestImage& image, const JpegOptions& options = {});

// Options of encode_png().
struct PngOptions {
  bool interlaced = false;
  int bits = 8;          // 16: each byte twice; 1, 2, 4: the upper bits, of one channel alone
  bool palette = false;  // the pixels, of one channel, are indices into a palette of 256 colours
  std::vector<uint8_t> low_bytes = {};  // of 16 bits: the lower bytes, when they are others
};

// The colour of entry `index` of encode_png()'s palette.
void palette_colour(int index, uint8_t rgb[3]);

// A PNG of 1 (grey), 2 (with alpha), 3 (RGB) or 4 (with alpha) channels. Ends the process when it
// cannot be.
std::string encode_png(const TestImage& image, const PngOptions& options = {});

// Options of encode_bmp().
struct BmpOptions {
  int bits = 24;          // a pixel; 8: of one channel, with a palette of greys; 16: 5 a channel
  bool top_down = false;  // the first row of the file is the top one
  bool masks = false;     // of 32 bits: red lies lowest, blue highest, and the header says so
};

// A BMP of 3 channels, or of 1 with a palette. Ends the process when it cannot be.
std::string encode_bmp(const TestImage& image, const BmpOptions& options = {});

// Options of encode_gif().
struct GifOptions {
  bool interlaced = false;
  int canvas_height = 0;  // 0: the height of the image, which lies at row `top`, column `left`
  int canvas_width = 0;
  int top = 0;
  int left = 0;
  int transparent = -1;  // the index that is not seen
};

// A GIF of one frame. `image` has one channel of indices into palette_colour().
std::string encode_gif(const TestImage& image, const GifOptions& options = {});

}  // namespace muster::inline v0_1::testing
