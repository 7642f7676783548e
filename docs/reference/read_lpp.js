// Reads a .lpp file in JavaScript, without any package:  node read_lpp.js birds.lpp '[[0.1, 0.2, …]]'
// Prints the classes, and the probabilities of each embedding. The format is described in format.md.
const fs = require("fs");
const ARRAYS = {F32: Float32Array, F64: Float64Array, I64: BigInt64Array};

function read(path) {
  const file = fs.readFileSync(path);
  const start = 8 + Number(file.readBigUInt64LE(0));                       // Length of the header in bytes, then the header.
  const {__metadata__, ...entries} = JSON.parse(file.subarray(8, start));
  const {version, model} = JSON.parse(__metadata__.lpplusplus);
  if (version > 2) throw new Error(`${path} has format ${version}; this program reads formats 1 and 2.`);
  const arrays = {};
  for (const [name, {dtype, shape, data_offsets: [from, to]}] of Object.entries(entries)) {
    const bytes = file.buffer.slice(file.byteOffset + start + from, file.byteOffset + start + to);  // A copy, so aligned.
    if (name.startsWith("given.")) continue;                               // What it was trained on: not needed here.
    arrays[name] = {shape, data: new ARRAYS[dtype](bytes)};
  }
  return {...model, arrays};
}

const dot = (rows, k, x) => x.reduce((sum, value, d) => sum + value * rows.data[k * rows.shape[1] + d], 0);

function probabilities({estimator, parameters, fitted, arrays: {coef_, intercept_, keys_, values_}}, embedding) {
  const length = Math.hypot(...embedding) || 1, unit = (parameters.normalize ?? true) && parameters.flavour !== "coop";
  const x = unit ? embedding.map(value => value / length) : embedding;
  const z = Array.from({length: coef_.shape[0]}, (_, k) => dot(coef_, k, x) + (intercept_ ? intercept_.data[k] : 0));
  if (keys_) for (let i = 0; i < keys_.shape[0]; i++)                      // Tip-Adapter: each example speaks for its class.
    z[Number(values_.data[i])] += fitted.alpha_ * Math.exp(-fitted.beta_ * (1 - dot(keys_, i, x)));
  else if (["ClipAdapter", "LinearAdapter", "PLOT"].includes(estimator)) throw new Error(`${estimator} does more than this.`);
  const top = Math.max(...z), e = z.map(value => Math.exp(value - top)), total = e.reduce((a, b) => a + b);
  return e.map(value => value / total);
}

module.exports = {read, probabilities};
if (require.main === module) {
  const model = read(process.argv[2]), embeddings = JSON.parse(process.argv[3] || "[]");
  console.log(JSON.stringify({classes: model.classes.labels, probabilities: embeddings.map(x => probabilities(model, x))}));
}
