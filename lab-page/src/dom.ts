// Makes elements, and formats numbers as the program does.

type Child = Node | string | null | undefined | false
type Attributes = Record<string, string | number | boolean | EventListener | undefined>

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value)
    else if (value === true) element.setAttribute(name, '')
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value))
  }
  for (const child of children) if (child) element.append(child)
  return element
}

/** Makes an HTML element. Functions among the attributes are listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children)
}

/** Makes an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children)
}

/** Returns the element with this id, which the page has. */
export function at<E extends HTMLElement = HTMLElement>(id: string): E {
  return document.getElementById(id) as E
}

/** Formats milliseconds. */
export function time(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '–'
  if (ms >= 99_500) return `${(ms / 1000).toFixed(0)}\u00a0s`
  if (ms >= 999.5) return `${(ms / 1000).toFixed(2)}\u00a0s`
  if (ms >= 9.95) return `${ms.toFixed(0)}\u00a0ms`
  return `${ms.toFixed(1)}\u00a0ms`
}

/** Formats bytes. */
export function bytes(n: number): string {
  if (n >= 1e6) return `${(n / 1e6).toFixed(n >= 1e7 ? 0 : 1)}\u00a0MB`
  if (n >= 1e3) return `${(n / 1e3).toFixed(n >= 1e4 ? 0 : 1)}\u00a0kB`
  return `${n}\u00a0B`
}

/** Returns a round step that divides a scale into about `parts` parts. */
export function step(end: number, parts: number): number {
  const raw = end / parts
  const power = 10 ** Math.floor(Math.log10(raw))
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10)
}

/** Whether the user asked for less motion. */
export const calm = (): boolean => matchMedia('(prefers-reduced-motion: reduce)').matches

/** Offers bytes as a file. */
export function save(name: string, content: BlobPart, type = 'application/octet-stream'): void {
  const url = URL.createObjectURL(new Blob([content], { type }))
  const link = h('a', { href: url, download: name })
  document.body.append(link)
  link.click()
  link.remove()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
