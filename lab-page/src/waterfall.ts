// The waterfalls of runs: objects over time, each with the parts of its response time, and the totals of the parts.

import { room } from './charts'
import { bytes, h, s, step, time } from './dom'
import type { Drawn, RunObject } from './tables'

/** The parts of a response time, as the report draws them. */
export const PARTS: [key: string, label: string][] = [
  ['connect', 'connect'], ['secure', 'secure'], ['queue', 'queue'], ['send', 'send'], ['stalled', 'stalled'], ['ahead', 'ahead'],
  ['server', 'server'], ['recovery', 'recovery'], ['timeout', 'timeout'], ['wire', 'wire'], ['blocked', 'blocked'],
]

/** The objects of a waterfall. */
const shown = (drawn: Drawn): RunObject[] => drawn.objects.filter((object) => object.issued_ns !== null).slice(0, 300)

/** The height of the line of an object. */
const rowOf = (objects: number): number => (objects > 120 ? 4 : objects > 40 ? 6 : 14)

/** Draws a waterfall that shows the figures of the object under the pointer, or of the one chosen by press or arrow key. */
export function waterfall(drawn: Drawn, endMs: number): HTMLElement {
  const objects = shown(drawn), row = rowOf(objects.length)
  const svg = bars(drawn, objects, endMs)
  const mark = s('rect', { class: 'chosen', x: 0, width: '100%', height: row, y: -row })
  svg.prepend(mark)
  const detail = h('p', { class: 'note detail', 'aria-live': 'polite' }, 'Point at an object, press it, or use the arrow keys: its times are shown here.')
  let chosen = -1
  const choose = (index: number): void => {
    const object = objects[Math.max(0, Math.min(objects.length - 1, index))]
    if (!object) return
    chosen = objects.indexOf(object)
    mark.setAttribute('y', String(chosen * row))
    detail.textContent = about(object)
  }
  const follow = (event: Event): void => {
    const box = svg.getBoundingClientRect()
    const index = Math.floor(((event as MouseEvent).clientY - box.top) / box.height * svg.viewBox.baseVal.height / row)
    if (index !== chosen && index < objects.length) choose(index)
  }
  svg.addEventListener('pointermove', follow)
  svg.addEventListener('click', follow)
  const keys: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 }
  const region = h('div', { class: 'chart', tabindex: '0', role: 'region', 'aria-label': `Waterfall of ${drawn.name}; the arrow keys choose an object`,
    focus: () => choose(chosen < 0 ? 0 : chosen),
    keydown: (event) => {
      const by = keys[(event as KeyboardEvent).key]
      if (by === undefined) return
      event.preventDefault()
      choose(chosen + by)
    } }, svg)
  return h('div', {}, region, detail)
}

/** The legend of the waterfalls: each part with its colour, its meaning in the glossary, and its sum for each run. */
export function legend(runs: Drawn[]): HTMLElement {
  const sum = (drawn: Drawn, key: string): number => drawn.objects.reduce((all, object) => all + (object.why?.[`${key}_ns`] ?? 0), 0) / 1e6
  const row = ([key, label]: [string, string]): HTMLElement => h('tr', {}, h('th', { scope: 'row' }, h('i', { class: `p-${key}` }), h('button', { type: 'button', class: 'term', 'data-term': `${key} (part of a response time)` }, label)),
    ...runs.map((drawn) => h('td', {}, sum(drawn, key) === 0 ? '0' : time(sum(drawn, key)))))
  return h('div', {}, h('p', { class: 'note' }, 'A bar is the response time of an object: from the moment when it could be requested until its last byte is delivered. The colours are what it waited for; the table has the sums over all objects. Press a part for its meaning.'),
    h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Parts of the response times' }, h('table', { class: 'legend' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'waiting for'), ...runs.map(({ name }) => h('th', { scope: 'col' }, name)))), h('tbody', {}, ...PARTS.map(row)))))
}

function bars(drawn: Drawn, objects: RunObject[], endMs: number): SVGSVGElement {
  const row = rowOf(objects.length)
  const width = room(), left = row < 8 ? 6 : width < 500 ? 90 : 150
  const x = (ns: number): number => left + (ns / 1e6 / endMs) * (width - left - 10)
  const height = objects.length * row + 24
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `Waterfall of ${drawn.name}: ${objects.length} objects` })
  const unit = step(endMs, width / 120)
  for (let tick = 0; tick <= endMs; tick += unit) {
    svg.append(s('line', { class: 'grid', x1: x(tick * 1e6), x2: x(tick * 1e6), y1: 0, y2: height - 20 }),
      // The label of the last tick ends at the edge.
      s('text', { class: 'tick', x: x(tick * 1e6) > width - 20 ? width - 1 : x(tick * 1e6), y: height - 6, 'text-anchor': x(tick * 1e6) > width - 20 ? 'end' : 'middle' }, tick === 0 ? '0' : time(tick)))
  }
  objects.forEach((object, i) => {
    const y = i * row
    if (row >= 8) svg.append(s('text', { class: 'object', x: left - 6, y: y + row - 2, 'text-anchor': 'end' }, short(object.name)))
    const bar = s('g')
    const until = object.delivered_ns ?? endMs * 1e6
    let from = object.issued_ns!
    for (const [key] of PARTS) {
      const ns = object.why?.[`${key}_ns`] ?? 0
      if (ns > 0) bar.append(s('rect', { class: `part p-${key}`, x: x(from), width: Math.max(0.3, x(from + ns) - x(from)), y: y + 1, height: row - 2 }))
      from += ns
    }
    if (!object.why) bar.append(s('rect', { class: 'part failed', x: x(object.issued_ns!), width: Math.max(0.5, x(until) - x(object.issued_ns!)), y: y + 1, height: row - 2 }))
    svg.append(bar)
  })
  return svg
}

const short = (name: string): string => {
  const last = name.replace(/[?#].*$/, '').split('/').filter((part) => part !== '').at(-1) ?? name
  const most = room() < 500 ? 13 : 22
  return last.length > most ? `${last.slice(0, most - 1)}…` : last
}

function about(object: RunObject): string {
  const parts = PARTS.map(([key, label]): [string, number] => [label, object.why?.[`${key}_ns`] ?? 0]).filter(([, ns]) => ns > 0)
  const took = object.issued_ns !== null && object.delivered_ns !== null ? `, ${time((object.delivered_ns - object.issued_ns) / 1e6)} from ${time(object.issued_ns / 1e6)}` : ''
  return `${short(object.name)} (${bytes(object.bytes)})${took}: ${object.failure ?? parts.map(([label, ns]) => `${label} ${time(ns / 1e6)}`).join(', ')}`
}
