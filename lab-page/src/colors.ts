// The colours of the contestants. A contestant keeps its colour when others are added or removed, or its settings change.

/** The number of colours of the style sheet. */
const COUNT = 8

/** The colour that each contestant has or had, by the contestant as typed. */
const known = new Map<string, number>()

/** Gives each contestant of a race its colour: the one it had, or else the first one that no other of them has. */
export function assign(contestants: string[]): void {
  const taken = new Set<number>()
  const waiting: string[] = []
  for (const text of contestants) {
    const color = known.get(text)
    if (color === undefined || (taken.has(color) && taken.size < COUNT)) waiting.push(text)
    else taken.add(color)
  }
  for (const text of waiting) {
    if (taken.size >= COUNT) taken.clear()
    const free = Array.from({ length: COUNT }, (_, color) => color).find((color) => !taken.has(color))!
    known.set(text, free)
    taken.add(free)
  }
}

/** Gives the contestants of a plan the colours of the same contestants as the user typed them. */
export function adopt(typed: string[], planned: string[]): void {
  if (typed.length === planned.length) planned.forEach((text, i) => rename(typed[i]!, text))
  assign(planned)
}

/** Gives a contestant with changed settings the colour that it had before. */
export function rename(before: string, after: string): void {
  const color = known.get(before)
  if (color !== undefined && before !== after) known.set(after, color)
}

/** The number of a contestant's colour in the style sheet. */
export const colorOf = (contestant: string): number => known.get(contestant) ?? 0
