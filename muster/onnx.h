// ONNX files. A program that links the library, muster::onnx, may export in this format wherever it
// exports a model: ExportModelOptions::formats; and Servable and Predictor load such files. Include
// this header to convert an export directly, and to use an ONNX model as a layer.
#pragma once

#include "muster/imports/onnx_import.h"
#include "muster/onnx/onnx_model.h"
