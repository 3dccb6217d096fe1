// Pieces of pictures in SVG, which is text that every browser draws. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::formats {

// Returns `body` as a picture of `width` x `height` pixels on white, in letters of 12 pixels.
MUSTER_PART_EXPORT std::string svg_picture(double width, double height, const std::string& body);
// Returns text at a place; `anchor` is "start", "middle" or "end", `more` further attributes.
MUSTER_PART_EXPORT std::string svg_text(double x, double y, const std::string& anchor,
                                        const std::string& text, const std::string& more = {});
// Returns `text` with &, <, > and " as SVG wants them.
std::string svg_escaped(const std::string& text);
// A step of 1, 2 or 5 times a power of ten, of which about `most` fit into `range`.
MUSTER_PART_EXPORT double axis_step(double range, int most);

}  // namespace muster::inline v0_1::formats
