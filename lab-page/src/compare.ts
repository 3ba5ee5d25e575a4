// How the contestants compare: a table of their times, each beside the time of one of them.

import { colorOf } from './colors'
import { at, h, time } from './dom'
import type { Pair, PointState, Standing } from './tables'

/** The contestant that the others are compared with, as typed; empty for the fastest one. */
let rival = ''

/** Returns the comparison of `a` with `b`. The program gives only one of the two directions. */
function pairOf(point: PointState, a: number, b: number): Pair | undefined {
  const of = (a: number, b: number): Pair | undefined => point.pairs.find((pair) => pair.a === a && pair.b === b)
  const found = of(b, a)
  if (!found) return of(a, b)
  const { ratio, interval, verdict } = found
  const turned: Partial<Record<Pair['verdict'], Pair['verdict']>> = { faster: 'slower', slower: 'faster' }
  return { ...found, a, b, ratio: ratio === null ? null : 1 / ratio, interval: interval && [1 / interval[1], 1 / interval[0]],
    faster: found.slower, slower: found.faster, verdict: turned[verdict] ?? verdict }
}

const factor = (value: number): string => (value >= 1.995 ? value.toFixed(1) : value.toFixed(2))

/** Says how a contestant stands: `1.10 times slower`, and the interval. */
function words({ ratio, interval, n, verdict }: Pair): [verdict: string, interval: string] {
  if (ratio === null) return ['not known', '']
  const isFaster = verdict === 'faster' || (verdict !== 'slower' && ratio < 1)
  const ends = interval && (isFaster ? [1 / interval[1], 1 / interval[0]] : interval)
  const times = `${factor(isFaster ? 1 / ratio : ratio)} times ${isFaster ? 'faster' : 'slower'}`
  const range = ends ? `${factor(ends[0]!)} to ${factor(ends[1]!)}` : ''
  if (verdict === 'tie') return ['a tie', range]
  if (verdict === 'open') return [n < 2 ? `${times} in one load` : 'too close to call', range]
  return [times, range]
}

const signed = (ms: number, of: number): string => {
  const share = Math.round((Math.abs(ms) / of) * 100)
  return `${ms < 0 ? '−' : '+'}${time(Math.abs(ms))} (${share}\u00a0%)`
}

/** Draws the table, and calls `again` when the user compares with another contestant. */
export function compare(point: PointState, again: () => void): HTMLElement {
  const medians = point.contestants.map((one) => one.median ?? Infinity)
  const fastest = medians.indexOf(Math.min(...medians))
  const chosen = point.contestants.findIndex((one) => one.typed === rival)
  const to = chosen < 0 ? fastest : chosen
  offer(point, again)
  const against = point.contestants[to]!
  const term = (name: string, entry = name): HTMLElement => h('button', { type: 'button', class: 'term', 'data-term': entry }, name)
  const finished = (one: Standing): number => one.times.filter((ms) => ms !== null).length
  const failed = point.contestants.some((one) => finished(one) < one.times.length)
  const row = (one: Standing, i: number): HTMLElement => {
    const pair = i === to ? undefined : pairOf(point, i, to)
    const [verdict, interval] = pair ? words(pair) : [i === to ? '–' : 'not known', '']
    return h('tr', {}, h('th', { scope: 'row' }, h('span', { class: `swatch c${colorOf(one.typed)}`, 'aria-hidden': 'true' }), term(one.name, one.typed.split(':')[0]!.split('=').at(-1))),
      h('td', { class: i === fastest ? 'best' : '' }, time(one.median)), h('td', { class: 'left verdict' }, verdict), h('td', {}, interval),
      h('td', {}, i === to || one.median === null || against.median === null ? '' : signed(one.median - against.median, against.median)),
      h('td', {}, pair && pair.n > 1 ? `${pair.faster} of ${pair.n}` : ''), h('td', {}, time(one.p75)), h('td', {}, time(one.p95)),
      failed ? h('td', {}, `${finished(one)} of ${one.times.length}`) : null)
  }
  const heading = (name: string, entry?: string): HTMLElement => h('th', { scope: 'col' }, entry ? term(name, entry) : name)
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Times' }, h('table', {},
    h('thead', {}, h('tr', {}, heading('contestant', 'contestant'), heading('median', 'median, p75, p95'), h('th', { scope: 'col', class: 'left' }, `against ${against.name}`),
      heading('95 % interval', 'interval'), heading('difference'), heading('faster in'), heading('p75', 'median, p75, p95'), heading('p95', 'median, p75, p95'), failed ? heading('finished') : null)),
    h('tbody', {}, ...point.contestants.map(row))))
}

/** Offers the contestants to compare with. The list stays as it is while the same contestants race. */
function offer(point: PointState, again: () => void): void {
  const select = at<HTMLSelectElement>('rival')
  const typed = point.contestants.map((one) => one.typed)
  if (!typed.includes(rival)) rival = ''
  if ([...select.options].slice(1).map((option) => option.value).join('\n') !== typed.join('\n')) {
    select.replaceChildren(h('option', { value: '' }, 'the fastest'), ...point.contestants.map((one) => h('option', { value: one.typed }, one.name)))
    select.value = rival
  }
  select.onchange = () => {
    rival = select.value
    again()
  }
}
