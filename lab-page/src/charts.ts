// The distribution over seeds as SVG, and the table of changes.

import { colorOf } from './colors'
import { at, h, s, step, time } from './dom'
import type { PointState } from './tables'

/** The width of a chart: that of the page, so that its text is as large as other text. */
export const room = (): number => Math.max(300, Math.min(860, at('views').clientWidth))

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
  const runs = { page: 'load', transfer: 'transfer' }[point.unit] ?? 'run'
  return h('div', {}, h('div', { class: 'chart', tabindex: '0', role: 'region', 'aria-label': 'Chart of times' }, svg),
    h('p', { class: 'note' }, `A dot is one ${runs}. The solid line is the median.`, ...(point.limit_ms ? [
      ' The dashed line is the ', h('button', { type: 'button', class: 'term', 'data-term': 'limit' }, 'limit'), ` of this network: no transport needs less than ${time(point.limit_ms)}.`] : [])))
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
