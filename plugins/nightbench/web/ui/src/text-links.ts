// Addresses in what a person wrote.
export type Piece = { text: string; isAddress: boolean };

/** Splits a text at its http and https addresses; what ends a sentence is no part of one. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(/\bhttps?:\/\/[^\s<>"]+/g)) {
    const address = match[0].replace(/[.,;:!?'\])]+$/, "");
    if (!URL.canParse(address)) continue;
    if (match.index > from) found.push({ text: text.slice(from, match.index), isAddress: false });
    found.push({ text: address, isAddress: true });
    from = match.index + address.length;
  }
  if (from < text.length) found.push({ text: text.slice(from), isAddress: false });
  return found;
}
