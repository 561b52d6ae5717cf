// Numbers as they come in the buffers of a message.

import { shortest } from "./numbers.js";

const KINDS_OF = { "<i8": BigInt64Array, "<u8": BigUint64Array };

/** The numbers of a buffer, which may start at any byte of the message it came in. */
export function typed(Kind, view) {
  return new Kind(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

/** Values of one side as the kernel sent them: integers of 64 bits and complex numbers as they are. */
export class Values {
  constructor(kind, bits, buffer) {
    this.isComplex = kind === "<c16";
    this.bits = bits; // precision of a floating number, in the dtype it is stored in
    this.values = typed(KINDS_OF[kind] || Float64Array, buffer);
  }

  text(i) {
    const { values, bits } = this;
    if (!this.isComplex) return typeof values[i] === "bigint" ? String(values[i]) : shortest(values[i], bits);
    const imaginary = shortest(values[2 * i + 1], bits);
    return `${shortest(values[2 * i], bits)}${imaginary.startsWith("-") ? "" : "+"}${imaginary}j`;
  }

  isFinite(i) {
    const parts = this.isComplex ? [2 * i, 2 * i + 1] : [i];
    return parts.every((at) => Number.isFinite(Number(this.values[at])));
  }

  /** |this - other|, exactly between integers; null where the kernel's figure is as good. */
  distance(i, other) {
    const [mine, theirs] = [this.values[i], other.values[i]];
    if (typeof mine !== "bigint" || typeof theirs !== "bigint") return null;
    return String(mine > theirs ? mine - theirs : theirs - mine);
  }
}
