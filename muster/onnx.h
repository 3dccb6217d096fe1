// ONNX files of exported models. A program that links the library, muster::onnx, may export in this
// format wherever it exports a model: ExportModelOptions::formats. Include this header to convert
// an export directly.
#pragma once

#include "muster/onnx/onnx_model.h"
