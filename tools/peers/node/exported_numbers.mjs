// Runs the ONNX files of a folder in onnxruntime for Node, and prints the results of each batch as JSON:
//   node exported_numbers.mjs FOLDER
// FOLDER has a folder for each model, as onnx_program writes it: model.onnx, and ROWS.safetensors with the tensors "in/NAME" and
// "out/SIGNATURE/NAME". tools/peers/exported_kinds.py reads what is printed.
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";

import ort from "onnxruntime-node";

const ARRAYS = {
  F32: ["float32", Float32Array], F64: ["float64", Float64Array], I64: ["int64", BigInt64Array], I32: ["int32", Int32Array],
};

function inputs(path) {
  const bytes = readFileSync(path);
  const size = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + size).toString());
  const feeds = {};
  for (const [name, about] of Object.entries(header)) {
    if (!name.startsWith("in/")) continue;
    const [dtype, Numbers] = ARRAYS[about.dtype];
    const [begin, end] = about.data_offsets.map((place) => 8 + size + place);
    feeds[name.slice(3)] = new ort.Tensor(dtype, new Numbers(new Uint8Array(bytes.subarray(begin, end)).buffer), about.shape);
  }
  return feeds;
}

const root = process.argv[2];
const answers = {};
for (const path of readdirSync(root, { recursive: true }).filter((name) => name.endsWith("model.onnx")).sort()) {
  const session = await ort.InferenceSession.create(join(root, path), { intraOpNumThreads: 1 });
  const folder = dirname(path);
  answers[folder] = {};
  for (const file of readdirSync(join(root, folder)).filter((name) => /^\d+\.safetensors$/.test(name))) {
    const results = await session.run(inputs(join(root, folder, file)));
    const rows = (answers[folder][file.split(".")[0]] = {});
    for (const [name, tensor] of Object.entries(results))
      rows[name] = { shape: tensor.dims, numbers: Array.from(tensor.data, Number) };
  }
}
const { version } = JSON.parse(readFileSync(new URL("node_modules/onnxruntime-node/package.json", import.meta.url)));
console.log(JSON.stringify({ version, answers }));
