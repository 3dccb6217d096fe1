#include "tests/support/test_images.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "muster/base/bytes.h"
#include "muster/base/random.h"

namespace muster::inline v0_1::testing {

TestImage make_test_image(int height, int width, int channels, uint64_t seed) {
  TestImage image{height, width, channels, {}};
  image.pixels.reserve(static_cast<size_t>(height) * width * channels);
  Random random(derive_key(seed, {id_of("test image")}));
  double waves[4][3];
  for (auto& wave : waves) {
    wave[0] = random.uniform() * 0.2;
    wave[1] = random.uniform() * 0.2;
    wave[2] = random.uniform() * 6;
  }
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const double wave = std::sin(waves[c][0] * y + waves[c][1] * x + waves[c][2]);
        const double value = 128 + 100 * wave + 16 * (random.uniform() - 0.5);
        image.pixels.push_back(static_cast<uint8_t>(std::lround(value)));
      }
    }
  }
  return image;
}

std::string encode_jpeg(const TestImage& image, const JpegOptions& options) {
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&state, &out, &size);
  state.image_width = static_cast<JDIMENSION>(image.width);
  state.image_height = static_cast<JDIMENSION>(image.height);
  state.input_components = image.channels;
  state.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                         : image.channels == 3 ? JCS_RGB
                                               : JCS_CMYK;
  jpeg_set_defaults(&state);
  if (options.ycck) jpeg_set_colorspace(&state, JCS_YCCK);
  jpeg_set_quality(&state, options.quality, TRUE);
  if (image.channels == 3 || options.ycck) {
    state.comp_info[0].h_samp_factor = options.horizontal_sampling;
    state.comp_info[0].v_samp_factor = options.vertical_sampling;
  }
  if (image.channels == 4) state.write_Adobe_marker = options.adobe_marker ? TRUE : FALSE;
  if (options.progressive) jpeg_simple_progression(&state);
  state.arith_code = options.arithmetic ? TRUE : FALSE;
  state.restart_interval = static_cast<unsigned>(options.restart_interval);
  jpeg_start_compress(&state, TRUE);
  const size_t row_bytes = static_cast<size_t>(image.width) * image.channels;
  while (state.next_scanline < state.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(image.pixels.data()) + state.next_scanline * row_bytes;
    jpeg_write_scanlines(&state, &row, 1);
  }
  jpeg_finish_compress(&state);
  std::string file(reinterpret_cast<char*>(out), size);
  jpeg_destroy_compress(&state);
  std::free(out);
  return file;
}

void palette_colour(int index, uint8_t rgb[3]) {
  rgb[0] = static_cast<uint8_t>(index * 7);
  rgb[1] = static_cast<uint8_t>(255 - index);
  rgb[2] = static_cast<uint8_t>(index * 31 + 5);
}

std::string encode_png(const TestImage& image, const PngOptions& options) {
  static constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                   PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string file;
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep bytes, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(to))
            ->append(reinterpret_cast<char*>(bytes), count);
      },
      nullptr);
  const int type = options.palette ? PNG_COLOR_TYPE_PALETTE : kTypes[image.channels - 1];
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), options.bits, type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (options.palette) {
    png_color colours[256];
    for (int i = 0; i < 256; ++i) {
      uint8_t rgb[3];
      palette_colour(i, rgb);
      colours[i] = {rgb[0], rgb[1], rgb[2]};
    }
    png_set_PLTE(png, info, colours, 256);
  }
  png_write_info(png, info);
  const size_t row_values = static_cast<size_t>(image.width) * image.channels;
  std::vector<std::vector<uint8_t>> rows(static_cast<size_t>(image.height));
  std::vector<png_bytep> pointers;
  for (size_t y = 0; y < rows.size(); ++y) {
    std::vector<uint8_t>& row = rows[y];
    row.assign((row_values * options.bits + 7) / 8, 0);
    for (size_t i = 0; i < row_values; ++i) {
      const uint8_t value = image.pixels[y * row_values + i];
      if (options.bits == 16) {
        row[2 * i] = value;
        row[2 * i + 1] = options.low_bytes.empty() ? value : options.low_bytes[y * row_values + i];
      } else if (options.bits == 8) {
        row[i] = value;
      } else {
        const size_t bit = i * options.bits;
        row[bit / 8] |=
            static_cast<uint8_t>((value >> (8 - options.bits)) << (8 - options.bits - bit % 8));
      }
    }
    pointers.push_back(row.data());
  }
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::string encode_bmp(const TestImage& image, const BmpOptions& options) {
  const bool has_palette = options.bits == 8;
  const uint32_t header = 40, begin = 14 + header + (has_palette ? 1024 : options.masks ? 12 : 0);
  std::string pixels;
  for (int y = 0; y < image.height; ++y) {
    const int row = options.top_down ? y : image.height - 1 - y;
    for (int x = 0; x < image.width; ++x) {
      const auto level = [&](int c) { return uint32_t{image.at(row, x, c)}; };
      if (has_palette) {
        pixels += static_cast<char>(level(0));
      } else if (options.bits == 16) {
        append_little_endian(pixels, static_cast<uint16_t>((level(0) >> 3 << 10) |
                                                           (level(1) >> 3 << 5) | (level(2) >> 3)));
      } else if (options.masks) {
        append_little_endian(pixels, level(0) | (level(1) << 8) | (level(2) << 16));
      } else {
        for (const int c : {2, 1, 0}) pixels += static_cast<char>(level(c));
        if (options.bits == 32) pixels += '\x7f';
      }
    }
    while (pixels.size() % 4 != 0) pixels += '\0';
  }
  std::string file = "BM";
  append_little_endian(file, static_cast<uint32_t>(begin + pixels.size()));
  append_little_endian(file, uint32_t{0});
  append_little_endian(file, begin);
  append_little_endian(file, header);
  append_little_endian(file, image.width);
  append_little_endian(file, options.top_down ? -image.height : image.height);
  append_little_endian(file, uint16_t{1});
  append_little_endian(file, static_cast<uint16_t>(options.bits));
  append_little_endian(file, options.masks ? uint32_t{3} : uint32_t{0});
  file += std::string(20, '\0');
  for (const uint32_t mask : {0xffu, 0xff00u, 0xff0000u}) {
    if (options.masks) append_little_endian(file, mask);
  }
  for (int i = 0; has_palette && i < 256; ++i) file += std::string(3, static_cast<char>(i)) + '\0';
  return file + pixels;
}

std::string encode_gif(const TestImage& image, const GifOptions& options) {
  std::string file = "GIF89a";
  const auto word = [&](int value) { append_little_endian(file, static_cast<uint16_t>(value)); };
  word(options.canvas_width > 0 ? options.canvas_width : image.width);
  word(options.canvas_height > 0 ? options.canvas_height : image.height);
  file += std::string("\xf7\0\0", 3);  // a palette of 256 colours
  for (int i = 0; i < 256; ++i) {
    uint8_t rgb[3];
    palette_colour(i, rgb);
    file.append(reinterpret_cast<const char*>(rgb), 3);
  }
  if (options.transparent >= 0) {
    file += std::string("!\xf9\x04\x01\0\0", 6) + static_cast<char>(options.transparent) + '\0';
  }
  file += ',';
  word(options.left);
  word(options.top);
  word(image.width);
  word(image.height);
  file += options.interlaced ? '\x40' : '\0';
  file += '\x08';
  std::string indices;
  const auto add_rows = [&](int begin, int step) {
    for (int y = begin; y < image.height; y += step) {
      for (int x = 0; x < image.width; ++x) indices += static_cast<char>(image.at(y, x, 0));
    }
  };
  if (options.interlaced) {
    add_rows(0, 8);
    add_rows(4, 8);
    add_rows(2, 4);
    add_rows(1, 2);
  } else {
    add_rows(0, 1);
  }
  // LZW: each text that was not seen yet becomes the next code.
  std::string packed;
  uint32_t held = 0;
  int held_bits = 0, bits = 9;
  const auto put = [&](int code) {
    held |= static_cast<uint32_t>(code) << held_bits;
    for (held_bits += bits; held_bits >= 8; held_bits -= 8, held >>= 8)
      packed += static_cast<char>(held & 255);
  };
  std::map<std::string, int> codes;
  const auto begin_again = [&] {
    put(256);
    codes.clear();
    for (int i = 0; i < 256; ++i) codes[std::string(1, static_cast<char>(i))] = i;
    bits = 9;
  };
  begin_again();
  std::string text;
  int next = 258;
  for (const char index : indices) {
    if (codes.contains(text + index)) {
      text += index;
      continue;
    }
    put(codes[text]);
    if (next < 4096) {
      codes[text + index] = next;
      if (next == 1 << bits && bits < 12) ++bits;
      ++next;
    } else {
      begin_again();
      next = 258;
    }
    text = index;
  }
  put(codes[text]);
  if (next == 1 << bits && bits < 12) ++bits;
  put(257);
  if (held_bits > 0) packed += static_cast<char>(held & 255);
  for (size_t at = 0; at < packed.size(); at += 255) {
    const std::string block = packed.substr(at, 255);
    file += static_cast<char>(block.size()) + block;
  }
  return file + '\0' + ';';
}

}  // namespace muster::inline v0_1::testing
