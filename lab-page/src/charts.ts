// The distribution over seeds and the waterfall, as SVG.

import { colorOf } from './colors'
import { at, bytes, h, s, step, time } from './dom'
import type { Drawn, PointState, RunObject } from './tables'

/** The width of a chart: that of the page, so that its text is as large as other text. */
const room = (): number => Math.max(300, Math.min(860, at('views').clientWidth))

/** Draws each contestant's times as dots, with the median and the 95th percentile. */
export function distribution(point: PointState): HTMLElement {
  const width = room(), left = width < 500 ? 74 : 110, right = 64, row = 34
  const all = point.contestants.flatMap((one) => one.times.filter((ms): ms is number => ms !== null))
  const end = Math.max(...all, point.limit_ms ?? 0, 1) * 1.04
  const x = (ms: number): number => left + (ms / end) * (width - left - right)
  const height = point.contestants.length * row + 30
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `Times of the ${point.unit} for each seed; the table below has the figures` })
  const unit = step(end, width / 120)
  for (let tick = 0; tick <= end; tick += unit) {
    svg.append(s('line', { class: 'grid', x1: x(tick), x2: x(tick), y1: 4, y2: height - 24 }),
      s('text', { class: 'tick', x: x(tick), y: height - 8, 'text-anchor': 'middle' }, tick === 0 ? '0' : time(tick)))
  }
  if (point.limit_ms) {
    svg.append(s('line', { class: 'limit', x1: x(point.limit_ms), x2: x(point.limit_ms), y1: 0, y2: height - 24 }, s('title', {}, `limit of this network: ${time(point.limit_ms)}`)))
  }
  point.contestants.forEach((one, i) => {
    const y = i * row + 20
    svg.append(s('text', { class: 'name', x: left - 8, y: y + 4, 'text-anchor': 'end' }, one.name))
    one.times.forEach((ms, seed) => {
      if (ms === null) return
      const wobble = ((seed * 7919) % 11) - 5
      svg.append(s('circle', { class: `dot c${colorOf(one.typed)}`, cx: x(ms), cy: y + wobble, r: one.times.length > 40 ? 2.2 : 3.2 }, s('title', {}, `${one.name}, seed ${seed + 1}: ${time(ms)}`)))
    })
    if (one.median !== null) svg.append(s('line', { class: 'median', x1: x(one.median), x2: x(one.median), y1: y - 11, y2: y + 11 }))
    const failed = one.times.filter((ms) => ms === null).length
    const note = failed > 0 ? `${failed} unfinished` : one.median === null ? '' : time(one.median)
    svg.append(s('text', { class: 'value', x: width - right + 6, y: y + 4 }, note))
  })
  return h('div', { class: 'chart', tabindex: '0', role: 'region', 'aria-label': 'Chart of times' }, svg)
}

/** The same as a table. */
export function figures(point: PointState): HTMLElement {
  const fastest = Math.min(...point.contestants.map((one) => one.median ?? Infinity))
  const rows = point.contestants.map((one) => {
    const finished = one.times.filter((ms) => ms !== null).length
    return h('tr', {}, h('th', { scope: 'row' }, h('span', { class: `swatch c${colorOf(one.typed)}`, 'aria-hidden': 'true' }), one.name),
      h('td', { class: one.median === fastest ? 'best' : '' }, time(one.median)), h('td', {}, time(one.p75)), h('td', {}, time(one.p95)),
      h('td', {}, `${finished} of ${one.times.length}`))
  })
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Times' }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'contestant'), ...['median', 'p75', 'p95', 'finished'].map((name) => h('th', { scope: 'col' }, name === 'finished' ? name : h('button', { type: 'button', class: 'term', 'data-term': 'median, p75, p95' }, name))))),
    h('tbody', {}, ...rows)))
}

/** Draws what would change the result. */
export function changes(point: PointState): HTMLElement | null {
  if (point.changes.length === 0) return null
  const name = (typed: string | null): string => point.contestants.find((one) => one.typed === typed)?.name ?? 'no clear winner'
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Changes' }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'with'), h('th', { scope: 'col', class: 'left' }, 'winner'), ...point.contestants.map((one) => h('th', { scope: 'col' }, one.name)), h('th', { scope: 'col' }, 'loads of each'))),
    h('tbody', {}, ...point.changes.map((change) => h('tr', { class: change.flips ? 'flips' : '' },
      h('th', { scope: 'row' }, h('code', {}, change.change)), h('td', { class: change.flips ? 'left best' : 'left' }, name(change.winner)),
      ...change.medians_ms.map((ms) => h('td', {}, time(ms))), h('td', {}, String(change.n)))))))
}

/** The parts of a response time, as the report draws them. */
export const PARTS: [key: string, label: string][] = [
  ['connect', 'connect'], ['secure', 'secure'], ['queue', 'queue'], ['send', 'send'], ['stalled', 'stalled'], ['ahead', 'ahead'],
  ['server', 'server'], ['recovery', 'recovery'], ['timeout', 'timeout'], ['wire', 'wire'], ['blocked', 'blocked'],
]

/** Draws the objects of a run over time, each with the parts of its response time. */
export function waterfall(drawn: Drawn, endMs: number): SVGElement {
  const objects = drawn.objects.filter((object) => object.issued_ns !== null).slice(0, 300)
  const row = objects.length > 120 ? 4 : objects.length > 40 ? 6 : 14
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
    const bar = s('g', {}, s('title', {}, about(object)))
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
  const lines = [object.name, bytes(object.bytes)]
  if (object.issued_ns !== null && object.delivered_ns !== null) lines.push(`${time((object.delivered_ns - object.issued_ns) / 1e6)} from ${time(object.issued_ns / 1e6)}`)
  if (object.failure) lines.push(object.failure)
  for (const [key, label] of PARTS) {
    const ns = object.why?.[`${key}_ns`]
    if (ns) lines.push(`${label}: ${time(ns / 1e6)}`)
  }
  return lines.join('\n')
}

/** The legend of the waterfalls. Each part opens its entry of the glossary. */
export function legend(): HTMLElement {
  return h('div', {}, h('p', { class: 'note' }, 'A bar is the response time of an object: from the moment when it could be requested until its last byte is delivered. The colours are what it waited for. Press a part for its meaning.'),
    h('p', { class: 'legend' }, ...PARTS.map(([key, label]) => h('span', {}, h('i', { class: `p-${key}` }), h('button', { type: 'button', class: 'term', 'data-term': `${key} (part of a response time)` }, label)))))
}
