// The times of the contestants over the share of lost packets, raced in the background when the answer is there.

import { colorOf } from './colors'
import { at, h, s, step, time } from './dom'
import { type Choice, type Flag, type Loss, percent, readLoss, writeLoss } from './model'
import { type Pool, Superseded } from './pool'
import { type Progress, Race } from './race'
import type { Facts, PointState } from './tables'

/** The shares of lost packets of the curve. */
const SHARES = [0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05]

/** The fewest and the most loads of each contestant at each share. Between them, the curve has as many as the race. */
const [FEWEST, MOST] = [10, 100]

/** Settings with which one share of lost packets does not describe the network. */
const OTHERS = ['path', 'network', 'trace', 'up-trace', 'up-loss', 'down-loss', 'handover', 'preset']

/** The flags of a curve. The loss of the race is no part of them. */
function flagsOf(choice: Choice, loss: Loss): Flag[] {
  const kept = choice.flags.filter(([name]) => !['loss', 'runs', 'causes'].includes(name))
  const loads = Math.min(MOST, Math.max(FEWEST, Number(choice.get('runs') ?? MOST) || FEWEST))
  return [...kept.map(([name, value]): Flag => [name, value]),
    ['loss', SHARES.map((share) => writeLoss({ ...loss, share })).join(',')], ['runs', String(loads)], ['causes', 'off']]
}

const ONE = 'The curve needs one network, and one share of lost packets.'

/** Says why a race has no curve; `undefined` if it may have one. */
function obstacle(choice: Choice): string | undefined {
  // Without a loss of its own, a race with a trace may have the losses of the trace.
  const others = choice.get('loss') === undefined ? [...OTHERS, 'down-trace'] : OTHERS
  const other = others.find((flag) => choice.get(flag) !== undefined)
  if (other !== undefined) return `The curve needs a network of one path whose loss is one number; this one has ${other}.`
  return readLoss(choice.get('loss')) ? undefined : ONE
}

/** The curve of the current race. A newer race ends it. */
export class Curve {
  private race: Race | undefined
  /** The flags of the curve that is shown, as text. */
  private key = ''
  private shown: Progress | undefined
  /** Whether the table of the curve is open. */
  private open = false

  /** `choose` sets the loss of the race. */
  constructor(private readonly pool: Pool, private readonly choose: (loss: string) => void) {}

  /** Ends the runs of the curve. What is shown stays. */
  stop(): void {
    this.race?.stop()
    this.race = undefined
  }

  /** Takes away the curve of another race, or moves the mark of the loss that is raced. */
  update(choice: Choice): void {
    const loss = readLoss(choice.get('loss'))
    if (loss && this.shown && this.key === JSON.stringify(flagsOf(choice, loss))) return this.show(this.shown, loss)
    const why = obstacle(choice)
    if (why) this.refuse(why)
    else if (this.key !== '') this.clear()
  }

  /** Takes away the curve. What is below it stays where it is. */
  clear(): void {
    this.stop()
    this.open = at('curve').querySelector('details')?.open ?? this.open
    const height = this.key === '' ? 0 : at('curve').offsetHeight
    this.key = ''
    this.shown = undefined
    at('curve').style.minHeight = height > 100 ? `${height}px` : ''
    this.put(h('p', { class: 'note' }, 'A setting has changed. The curve follows when the answer is there.'))
  }

  private refuse(why: string): void {
    this.stop()
    this.key = why
    this.shown = undefined
    this.put(h('p', { class: 'note' }, why))
    at('curve').style.minHeight = '0'
  }

  /** Races the curve of a race that has its answer, unless it is there. The promise ends with the curve. */
  async start(choice: Choice, facts: Facts): Promise<void> {
    const loss = readLoss(choice.get('loss'))
    const why = obstacle(choice) ?? (facts.points.length > 1 ? ONE : undefined)
    if (!loss || why !== undefined) return this.refuse(why ?? ONE)
    const flags = flagsOf(choice, loss)
    const isWhole = this.shown !== undefined && this.shown.seeds === this.shown.facts.seeds.length
    if (this.key === JSON.stringify(flags) && isWhole) return
    this.stop()
    const race = new Race(this.pool, flags, (progress) => {
      const isOlder = this.key === JSON.stringify(flags) && (this.shown?.seeds ?? 0) > progress.seeds
      if (this.race !== race || isOlder) return
      this.key = JSON.stringify(flags)
      this.shown = progress
      this.show(progress, loss)
    }, 'figure')
    this.race = race
    await race.run().catch((error: unknown) => {
      if (error instanceof Superseded || this.race !== race) return
      this.refuse(`There is no curve: ${error instanceof Error ? error.message : String(error)}`)
    })
  }

  private put(...nodes: Node[]): void {
    at('curve').replaceChildren(...nodes)
  }

  private show({ facts, points, seeds }: Progress, loss: Loss): void {
    const focus = document.activeElement?.id
    const open = at('curve').querySelector('details')?.open ?? this.open
    const set = (share: number): void => this.choose(writeLoss({ ...loss, share }))
    const runs = { page: 'loads', transfer: 'transfers' }[points[0]!.unit] ?? 'runs'
    const all = facts.seeds.length
    const judged = seeds >= Math.min(all, FEWEST)
    const bursts = loss.burst > 1 ? `, in bursts of ${Number(loss.burst.toPrecision(2))} in the mean` : ', each at random'
    const state = judged ? inWords(points) + (seeds < all ? ` So far from ${seeds} of ${all} ${runs}.` : '') : `${seeds} of ${all} ${runs} at each loss so far. Winners follow from ${FEWEST} on.`
    this.put(h('p', { role: 'status', class: 'state' }, state),
      h('p', { class: 'legend' }, ...points[0]!.contestants.map((one) => h('span', {}, h('span', { class: `swatch c${colorOf(one.typed)}`, 'aria-hidden': 'true' }), one.name))),
      chart(points, loss.share, judged, set),
      h('p', { class: 'note' }, `Lines: the median of ${seeds} ${runs}, with its 95 % interval from six on. Packets are lost as in the race${bursts}. Squares: the winner; an empty square has no clear one. The dashed line is the loss of this race. A click sets it.`),
      h('details', { open }, h('summary', {}, 'The curve as a table'), table(points, judged, set)))
    if (focus) document.getElementById(focus)?.focus()
  }
}

/** Says over which shares of lost packets each contestant wins. */
function inWords(points: PointState[]): string {
  const spans: { winner: string | null; from: number; to: number }[] = []
  points.forEach((point, i) => {
    const last = spans.at(-1)
    if (last && last.winner === point.winner) last.to = i
    else spans.push({ winner: point.winner, from: i, to: i })
  })
  const range = (from: number, to: number): string =>
    from === to ? `at ${percent(SHARES[from]!)}` : `from ${percent(SHARES[from]!)} to ${percent(SHARES[to]!)}`
  const parts = spans.map(({ winner, from, to }) => `${winner === null ? 'no clear winner' : winner} ${range(from, to)}`)
  return `Fastest, by the share of lost packets: ${parts.join('; ')}.`
}

function chart(points: PointState[], current: number, judged: boolean, set: (share: number) => void): HTMLElement {
  const width = Math.max(300, Math.min(860, at('views').clientWidth)), height = 280
  const left = 52, right = 16, top = 26, bottom = height - 26
  const end = SHARES.at(-1)!
  const all = points.flatMap((point) => point.contestants.flatMap((one) => [one.median ?? 0, one.interval?.[1] ?? 0]))
  const most = Math.max(1, ...all) * 1.05
  const x = (share: number): number => left + (Math.min(share, end) / end) * (width - left - right)
  const y = (ms: number): number => bottom - (Math.min(ms, most) / most) * (bottom - top)
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', class: 'curve',
    'aria-label': 'Median times over the share of lost packets; the table below has the figures' })
  const unit = step(most, 5)
  for (let ms = 0; ms <= most; ms += unit) {
    svg.append(s('line', { class: 'grid', x1: left, x2: width - right, y1: y(ms), y2: y(ms) }),
      s('text', { class: 'tick', x: left - 6, y: y(ms) + 4, 'text-anchor': 'end' }, ms === 0 ? '0' : time(ms)))
  }
  for (const share of [0, 0.01, 0.02, 0.03, 0.04, 0.05]) {
    svg.append(s('text', { class: 'tick', x: x(share), y: height - 8, 'text-anchor': 'middle' }, percent(share)))
  }
  svg.append(s('line', { class: 'limit', x1: x(current), x2: x(current), y1: 4, y2: bottom }))
  if (judged) points.forEach((point, i) => {
    const winner = point.contestants.find((one) => one.name === point.winner)
    svg.append(s('rect', { class: winner ? `f${colorOf(winner.typed)}` : 'nobody', x: x(SHARES[i]!) - 6, y: 6, width: 12, height: 12 }))
  })
  points[0]!.contestants.forEach(({ typed }, c) => {
    const color = colorOf(typed)
    const known = points.map((point, i) => ({ share: SHARES[i]!, one: point.contestants[c]! })).filter(({ one }) => one.median !== null)
    svg.append(s('polyline', { class: `line l${color}`, points: known.map(({ share, one }) => `${x(share)},${y(one.median!)}`).join(' ') }))
    for (const { share, one } of known) {
      const shifted = x(share) + (c - (points[0]!.contestants.length - 1) / 2) * 3
      if (one.interval) svg.append(s('line', { class: `line l${color}`, x1: shifted, x2: shifted, y1: y(one.interval[0]), y2: y(one.interval[1]) }))
      svg.append(s('circle', { class: `dot c${color}`, cx: x(share), cy: y(one.median!), r: 3.4 }, s('title', {}, `${one.name} at ${percent(share)} loss: ${time(one.median)}`)))
    }
  })
  svg.addEventListener('click', (event) => {
    const box = svg.getBoundingClientRect()
    const share = (((event.clientX - box.left) / box.width * width - left) / (width - left - right)) * end
    set(SHARES.reduce((best, known) => (Math.abs(known - share) < Math.abs(best - share) ? known : best)))
  })
  return h('div', { class: 'chart', tabindex: '0', role: 'region', 'aria-label': 'Chart of times over loss' }, svg)
}

function table(points: PointState[], judged: boolean, set: (share: number) => void): HTMLElement {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Times over loss' }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'loss'), h('th', { scope: 'col', class: 'left' }, 'winner'), ...points[0]!.contestants.map((one) => h('th', { scope: 'col' }, one.name)))),
    h('tbody', {}, ...points.map((point, i) => h('tr', {},
      h('th', { scope: 'row' }, h('button', { type: 'button', class: 'link', id: `curve-${i}`, title: 'Race with this loss', click: () => set(SHARES[i]!) }, percent(SHARES[i]!))),
      h('td', { class: 'left' }, judged ? point.winner ?? 'no clear winner' : '–'),
      ...point.contestants.map((one) => h('td', {}, one.interval ? `${time(one.median)} (${time(one.interval[0])} to ${time(one.interval[1])})` : time(one.median))))))))
}
