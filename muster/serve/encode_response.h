// Writes the answer of a model as JSON, in the forms of TensorFlow Serving's REST API.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/serve/model.h"

namespace muster::inline v0_1::serve {

// {"predictions": [...]}: a value for each row; with several outputs an object for each row. NaN
// and infinity are written as NaN, Infinity and -Infinity, as TensorFlow Serving does. Bytes are a
// text; {"b64": "..."} where the output's name ends with "_bytes" or they are not UTF-8. Throws
// InvalidArgument for an output that has not `rows` rows.
std::string encode_predictions(const Arrays& outputs, int64_t rows);
// {"outputs": ...}: the array; with several outputs an object of arrays.
std::string encode_columns(const Arrays& outputs);
// {"results": [[["label", score], ...], ...]}: the classes of each row with their scores, of
// "scores", [rows, classes]. A class without a name has its number as name. Throws Internal for
// outputs of another form.
std::string encode_classes(const Signature& signature, const Arrays& outputs);
// {"results": [value, ...]}: "outputs", [rows] or [rows, 1]; where a row has several values, a list
// for each. Throws Internal for outputs of another form.
std::string encode_regressions(const Arrays& outputs);
// {"error": "..."}.
std::string encode_error(std::string_view message);

}  // namespace muster::inline v0_1::serve
