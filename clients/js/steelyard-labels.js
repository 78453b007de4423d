/**
 * Applies a label randomizer saved by steelyard, on the device where the label is.
 *
 * One label takes one 32-bit coin (which node it is rounded to) and one 64-bit word (which output). The same coin and
 * word give the same noisy label as in Python, bit for bit. Words come from crypto.getRandomValues and nowhere else.
 * The document is not judged here: run `steelyard labels verify FILE` before you ship it. What cannot be read exactly
 * (weights that are JSON numbers, rows that do not sum to a power of two up to 2^64, labels that are no rising numbers)
 * is refused all the same, before any label. Nodes and outputs are the doubles nearest to the document's fractions.
 *
 *   const randomizer = LabelRandomizer.parse(text);   // the text of the saved JSON
 *   const noisy = randomizer.randomize(12.5);         // once per label; keep the answer, never draw again
 */
"use strict";

const FORMAT = "steelyard label randomizer 1";
const WIDTH = 64n;
const COIN = 24; // bits of a coin that decide between two nodes

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

/** The bytes of a base64 text. */
function bytes(text) {
  return Uint8Array.from(globalThis.atob(text), (letter) => letter.charCodeAt(0));
}

/** Whole numbers from groups of seven bits, the least first; the eighth bit says that more follow. */
function wholes(text) {
  const values = [];
  let [value, shift] = [0n, 0n];
  for (const byte of bytes(text)) {
    need(shift <= 16384n, "a number is longer than any of a mechanism");
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      values.push(value);
      [value, shift] = [0n, 0n];
    }
  }
  if (shift) throw new Error("not a saved label randomizer that can be read exactly: a list ends in the middle");
  return values;
}

/** Packed columns: where runs of labels start and their weights. */
function packedColumns(packed) {
  const [starts, picks] = [wholes(packed.starts).map(Number), wholes(packed.picks).map(Number)];
  const [shared, ratios] = [wholes(packed.shared), wholes(packed.ratios)];
  let place = 0;
  return wholes(packed.runs).map((runs, j) => {
    const column = { starts: [], weights: [] };
    let start = 0;
    for (const end = place + Number(runs); place < end; place += 1) {
      start += starts[place];
      column.starts.push(start);
      column.weights.push(shared[j] * ratios[picks[place]]);
    }
    return column;
  });
}

/** The float nearest to n/d, d > 0: 66 leading bits of the quotient, the last one set if anything follows. */
function ratio(n, d) {
  const size = n < 0n ? -n : n;
  const shift = BigInt(Math.max(0, 66 + d.toString(2).length - size.toString(2).length));
  const whole = (size << shift) / d;
  const near = Number((size << shift) % d ? whole | 1n : whole) * 2 ** -Number(shift);
  return n < 0n ? -near : near;
}

/** The outputs of packed columns: shift + number / (shared * unit), each as the nearest float. */
function packedOutputs(packed) {
  const [top, bottom] = fraction(packed.shift);
  const [unit, shared] = [BigInt(packed.unit), wholes(packed.shared)];
  return wholes(packed.outputs).map((code, j) => {
    const number = code & 1n ? -((code + 1n) >> 1n) : code >> 1n;
    const under = shared[j] * unit;
    return ratio(top * under + number * bottom, bottom * under);
  });
}

/** A text of digits, or of two such divided, as numerator and denominator. */
function fraction(text) {
  need(typeof text === "string" && text.length <= 10000 && /^-?[0-9]+(\/[0-9]+)?$/.test(text), "a number");
  const [top, bottom] = [...text.split("/"), "1"].map(BigInt);
  need(bottom > 0n, "a number divided by zero");
  return [top, bottom];
}

/** The greatest common divisor of two whole numbers above zero. */
function gcd(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
}

/** The grid of a mechanism's labels: the nodes as floats, whether they are even, and fine steps per unit of label. */
function gridOf(inputs) {
  need(Array.isArray(inputs) && inputs.length > 1, "a mechanism has at least two labels");
  const read = inputs.map(fraction);
  const unit = read.reduce((held, [, bottom]) => (held / gcd(held, bottom)) * bottom, 1n);
  need(unit.toString(16).length <= 8192, "the labels have no common step of sensible size");
  const places = read.map(([top, bottom]) => top * (unit / bottom));
  const gap = places[1] - places[0];
  const last = places.length - 1;
  return {
    nodes: places.map((place) => ratio(place, unit)),
    even: places.every((place, i) => place === places[0] + BigInt(i) * gap),
    scale: ratio((BigInt(last) << BigInt(COIN)) * unit, places[last] - places[0]),
  };
}

/** Throws unless a fact about a document holds; no label is known here. */
function need(fact, what) {
  if (!fact) throw new Error(`not a saved label randomizer that can be read exactly: ${what}`);
}

const isNumber = (x) => typeof x === "number" && Number.isFinite(x);

/** The columns of a table that is not packed; weights are texts of digits, because a JSON number ends at 2^53. */
function plainColumns(columns) {
  return columns.map(([, starts, weights]) => {
    need(weights.every((w) => typeof w === "string" && /^[1-9][0-9]{0,19}$/.test(w)), "weights must be texts of digits");
    return { starts, weights: weights.map(BigInt) };
  });
}

/** Refuses a table whose runs or row sums are wrong: the alias table would draw with other weights. */
function checkTable(table, rows, total) {
  const change = Array(rows).fill(0n);
  for (const { starts, weights } of table) {
    need(starts.length === weights.length && starts[0] === 0, "a column starts at row 0");
    let before = 0n;
    starts.forEach((start, i) => {
      need(Number.isInteger(start) && start < rows && (i === 0 || start > starts[i - 1]), "runs must be in order");
      need(weights[i] > 0n, "weights must be positive");
      change[start] += weights[i] - before;
      before = weights[i];
    });
  }
  let sum = 0n;
  for (const step of change) need((sum += step) === total, "every row must sum to the same power of two");
}

/** Refuses a grid that a label could not be put on. */
function checkGrid({ nodes, scale }, missing, values) {
  need(nodes.every((y, i) => isNumber(y) && (i === 0 || y > nodes[i - 1])), "labels must rise");
  need(isNumber(scale) && scale > 0, "the grid");
  need(missing === null || (isNumber(missing) && missing >= nodes[0] && missing <= nodes[nodes.length - 1]), "missing");
  need(values.every(isNumber), "outputs must be numbers");
}

/** One mechanism that is a table, with the floats that go with it. */
class LabelRandomizer {
  constructor({ mechanism }, missing) {
    if (!mechanism || mechanism.format !== "steelyard label mechanism 1") {
      throw new Error("not a saved label randomizer that draws from a table");
    }
    const { bits, columns } = mechanism;
    const packed = !Array.isArray(columns);
    need(Number.isInteger(bits) && bits >= 1 && bits <= 64, "rows sum to a power of two up to 2^64");
    Object.assign(this, gridOf(mechanism.inputs));
    this.values = packed ? packedOutputs(columns) : columns.map(([output]) => ratio(...fraction(output)));
    this.table = packed ? packedColumns(columns) : plainColumns(columns);
    checkGrid(this, missing, this.values);
    this.declared = missing !== null;
    this.missing = this.declared ? missing : this.nodes[0];
    this.shift = WIDTH - BigInt(bits);
    need(this.table.length === this.values.length && this.table.length > 0, "one output for each column");
    checkTable(this.table, this.nodes.length, 1n << BigInt(bits));
    this.columns = BigInt(Math.max(1, 32 - Math.clz32(this.values.length - 1)));
    this.entries = new Map();
  }

  /** Read the text of a saved randomizer; one with groups becomes a GroupedRandomizer. */
  static parse(text) {
    const data = JSON.parse(text);
    if (data.format !== FORMAT) throw new Error(`not a saved label randomizer: its format is ${data.format}`);
    need(data.groups !== null && typeof data.groups === "object", "it names no groups");
    const parts = new Map(Object.entries(data.groups).map(([name, part]) => [name, new LabelRandomizer(part, data.missing)]));
    return parts.size === 1 && parts.has("") ? parts.get("") : new GroupedRandomizer(parts);
  }

  /**
   * The node number a label is rounded to by a 32-bit coin; total for numbers: NaN and the infinities, and null, count
   * as missing. A text, a truth value or undefined is no label at all but a mistake of the program, and is refused.
   */
  node(label, coin) {
    if (typeof label !== "number" && label !== null) {
      throw new TypeError(`a label is a number, or null where it is missing; got one of type ${typeof label}`);
    }
    const number = label !== null && Number.isFinite(label) ? label : this.missing;
    const last = this.nodes.length - 1;
    const inside = Math.min(Math.max(number, this.nodes[0]), this.nodes[last]);
    const unit = 2 ** COIN;
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
    return below + (coin >>> (32 - COIN) < steps ? 1 : 0);
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

  /**
   * One noisy label from fresh entropy. Draw once for each label: a second draw spends the budget a second time.
   * As in Python, a missing label is refused unless the document says what it counts as.
   */
  randomize(label) {
    if (!this.declared && (label === null || (typeof label === "number" && !Number.isFinite(label)))) {
      throw new TypeError("the label is missing or not finite, and the document does not say what it counts as");
    }
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

/** One randomizer for each public group of records; a group must owe nothing to the label. */
class GroupedRandomizer {
  constructor(parts) {
    need(parts.size > 0 && !parts.has(""), "it names no groups");
    this.parts = parts;
  }

  /** The randomizer of one group. */
  group(name) {
    const part = this.parts.get(String(name));
    if (part === undefined) throw new Error(`there is no group ${name}`);
    return part;
  }

  /** The noisy label that a label of a group, a coin and a word give. */
  apply(label, coin, word, group) {
    return this.group(group).apply(label, coin, word);
  }

  /** One noisy label from fresh entropy, by the group's own mechanism. Draw once for each label. */
  randomize(label, group) {
    return this.group(group).randomize(label);
  }
}

if (typeof module !== "undefined") module.exports = { LabelRandomizer, GroupedRandomizer };
else Object.assign(globalThis, { LabelRandomizer, GroupedRandomizer });
