/**
 * Applies a label randomizer saved by steelyard, on the device where the label is.
 *
 * One label takes one 32-bit coin (which node it is rounded to) and one 64-bit word (which output). The same coin and
 * word give the same noisy label as in Python, bit for bit. Words come from crypto.getRandomValues and nowhere else.
 * The document is not judged here: run `steelyard labels verify FILE` before you ship it.
 *
 *   const randomizer = LabelRandomizer.parse(text);   // the text of the saved JSON
 *   const noisy = randomizer.randomize(12.5);         // once per label; keep the answer, never draw again
 */
"use strict";

const FORMAT = "steelyard label randomizer 1";
const WIDTH = 64n;

/** The nearest integer, ties to even, as IEEE 754 rounds; exact for 0 <= x < 2^52. */
function nearest(x) {
  return x + 4503599627370496 - 4503599627370496;
}

/** Integer weights summing to 2^64 as packed alias entries; the same algorithm, in the same order, as in Python. */
function alias(weights, columns) {
  const size = 1 << Number(columns);
  const capacity = 1n << (WIDTH - columns);
  const left = weights.concat(Array(size - weights.length).fill(0n));
  const entries = Array.from({ length: size }, (_, symbol) => BigInt(symbol));
  const small = [];
  const large = [];
  left.forEach((weight, symbol) => (weight < capacity ? small : large).push(symbol));
  while (small.length) {
    const symbol = small.pop();
    const donor = large[large.length - 1];
    entries[symbol] = (left[symbol] << columns) | BigInt(donor);
    left[donor] -= capacity - left[symbol];
    if (left[donor] < capacity) small.push(large.pop());
  }
  return BigUint64Array.from(entries);
}

class LabelRandomizer {
  constructor(data) {
    if (data.format !== FORMAT) throw new Error(`not a saved label randomizer: its format is ${data.format}`);
    this.nodes = data.nodes;
    this.even = data.even;
    this.scale = data.scale;
    this.coin = data.coin;
    this.missing = data.missing === null ? data.nodes[0] : data.missing;
    this.values = data.values;
    this.shift = WIDTH - BigInt(data.mechanism.bits);
    this.table = data.mechanism.columns.map(([, starts, weights]) => ({ starts, weights: weights.map(BigInt) }));
    this.columns = BigInt(Math.max(1, 32 - Math.clz32(this.values.length - 1)));
    this.entries = new Map();
  }

  /** Read the text of a saved randomizer. */
  static parse(text) {
    return new LabelRandomizer(JSON.parse(text));
  }

  /** The node number a label is rounded to by a 32-bit coin; total: anything that is no number counts as missing. */
  node(label, coin) {
    const number = typeof label === "number" && Number.isFinite(label) ? label : this.missing;
    const last = this.nodes.length - 1;
    const inside = Math.min(Math.max(number, this.nodes[0]), this.nodes[last]);
    const unit = 2 ** this.coin;
    let below, steps;
    if (this.even) {
      const whole = Math.min(nearest((inside - this.nodes[0]) * this.scale), last * unit);
      below = Math.floor(whole / unit);
      steps = whole - below * unit;
    } else {
      below = 0;
      while (below < last - 1 && this.nodes[below + 1] <= inside) below += 1;
      const share = (inside - this.nodes[below]) / (this.nodes[below + 1] - this.nodes[below]);
      steps = nearest(share * unit);
      if (steps === unit) [below, steps] = [below + 1, 0];
    }
    return below + (coin >>> (32 - this.coin) < steps ? 1 : 0);
  }

  /** The number of the output that a label, a 32-bit coin and a 64-bit word (a BigInt) pick. */
  pick(label, coin, word) {
    const entries = this.row(this.node(label, coin));
    const mask = (1n << this.columns) - 1n;
    const column = word & mask;
    const entry = entries[Number(column)];
    return Number((word | mask) < entry ? column : entry & mask);
  }

  /** The noisy label that a label, a coin and a word give. */
  apply(label, coin, word) {
    return this.values[this.pick(label, coin, word)];
  }

  /** One noisy label from fresh entropy. Draw once for each label: a second draw spends the budget a second time. */
  randomize(label) {
    const words = globalThis.crypto.getRandomValues(new Uint32Array(3));
    return this.apply(label, words[0], (BigInt(words[1]) << 32n) | BigInt(words[2]));
  }

  row(index) {
    if (!this.entries.has(index)) this.entries.set(index, alias(this.weights(index), this.columns));
    return this.entries.get(index);
  }

  weights(index) {
    return this.table.map(({ starts, weights }) => {
      let run = starts.length - 1;
      while (starts[run] > index) run -= 1;
      return weights[run] << this.shift;
    });
  }
}

if (typeof module !== "undefined") module.exports = { LabelRandomizer };
else globalThis.LabelRandomizer = LabelRandomizer;
