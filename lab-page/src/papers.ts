// The figures of five papers, each with assumptions that can be changed. Published values are drawn beside ours.

import { Batch } from './batch'
import { at, h, s, save, step, time } from './dom'
import { type Chosen, type Control, type Figure, FIGURES, type Published, studyOf, TRACE } from './figures'
import { type Pool, Superseded } from './pool'
import type { Drawn, Facts } from './tables'

/** Values of ours: the sum and the number of runs of each contestant at each position. */
type Ours = Map<string, { sum: number; n: number }[]>

/** The cards of the papers. */
export class Papers {
  private running: { batch: Batch; again: () => void } | undefined

  /** `busy` is called with true before the workers run a figure, and with false after it. */
  constructor(private readonly pool: Pool, private readonly busy: (is: boolean) => void) {}

  /** Makes the cards. A figure is run when its card is opened. */
  cards(): HTMLElement {
    return h('div', { class: 'guides' }, ...[...FIGURES.map((figure) => this.card(figure, (...given) => this.race(figure, ...given))), this.card(TRACE, (...given) => this.trace(...given))])
  }

  /** Whether a figure is being run. */
  get isBusy(): boolean {
    return this.running !== undefined
  }

  private card(of: { study: string; title: string; hint: string; controls: Control[]; plan(text: string, chosen: Chosen): string }, run: (batch: Batch, file: string, chosen: Chosen, place: HTMLElement) => Promise<void>): HTMLElement {
    const study = studyOf(of)
    const chosen: Chosen = Object.fromEntries(of.controls.map(({ key, usual }) => [key, usual]))
    const place = h('div', { class: 'paper-figure', 'data-paper': of.study })
    const state = h('p', { class: 'note', role: 'status' }, ' ')
    const start = (): void => {
      this.running?.batch.stop()
      const batch = new Batch(this.pool)
      const mine = { batch, again: start }
      this.running = mine
      this.busy(true)
      place.classList.add('stale')
      state.textContent = 'Running …'
      const began = performance.now()
      const file = `${of.study}.toml`
      const end = (line: string): void => {
        if (this.running !== mine) return
        this.running = undefined
        state.textContent = line
        this.busy(false)
      }
      this.pool.revive()
      this.pool.file(file, new TextEncoder().encode(of.plan(study.plan, chosen)))
      run(batch, file, chosen, place).then(() => {
        place.classList.remove('stale')
        place.dataset['done'] = 'yes'
        end(`Done in ${((performance.now() - began) / 1000).toFixed(1)} s.`)
      }).catch((error: unknown) => {
        // A change of the race may have replaced a worker.
        if (error instanceof Superseded && this.running === mine) start()
        else end(`The figure cannot be made: ${error instanceof Error ? error.message : String(error)}`)
      })
    }
    const later = (): void => { place.dataset['done'] = 'no'; start() }
    const controls = of.controls.map((control) => segments(of.study, control, chosen, later))
    const card = h('details', { class: 'guide paper', id: `paper-${of.study}`, toggle: () => {
      if (card.open && !place.dataset['done']) start()
    } },
      h('summary', {}, h('b', {}, study.source), h('span', {}, study.question)),
      h('h3', {}, of.title), ...controls, h('p', { class: 'note' }, of.hint), place, state,
      h('p', { class: 'buttons' }, h('button', { type: 'button', click: () => save(`${of.study}.toml`, of.plan(study.plan, chosen), 'text/plain') }, 'Save the plan of this figure')))
    return card
  }

  private async race(figure: Figure, batch: Batch, file: string, chosen: Chosen, place: HTMLElement): Promise<void> {
    const facts = await batch.plan(file, [['runs', String(figure.runs)], ['causes', 'off']])
    const names = facts.contestants.map((text) => text.split('=')[0]!)
    const ours: Ours = new Map(names.map((name) => [name, figure.positions.map(() => ({ sum: 0, n: 0 }))]))
    const published = figure.published(studyOf(figure).published, chosen)
    const wanted = facts.jobs.map((job, index) => ({ ...job, index })).filter(({ point }) => figure.needs(facts.points[point]!.factors))
    wanted.sort((a, b) => a.seed - b.seed || a.index - b.index)
    let drawn = 0
    const draw = (): void => {
      const open = place.querySelector('details')?.open ?? false
      place.replaceChildren(chart(figure, names, ours, published), table(figure, names, ours, published, open))
    }
    await batch.run(wanted.map(({ index }) => index), (index, run) => {
      const job: Facts['jobs'][number] = facts.jobs[index]!
      for (const [x, value] of figure.values(run, facts.points[job.point]!.factors)) {
        const cell = ours.get(names[job.contestant ?? 0]!)?.[x]
        if (cell) { cell.sum += value; cell.n++ }
      }
      if (performance.now() - drawn > 400) { draw(); drawn = performance.now() }
    })
    draw()
  }

  private async trace(batch: Batch, file: string, _: Chosen, place: HTMLElement): Promise<void> {
    const facts = await batch.plan(file, [['runs', '1'], ['causes', 'off']])
    const drawn = await batch.draw<Drawn>(facts.seeds[0]!)
    place.replaceChildren(timeline(drawn))
  }
}

function segments(study: string, control: Control, chosen: Chosen, changed: () => void): HTMLElement {
  const buttons = control.values.map(([value, text]) => h('button', { type: 'button', 'data-value': value, 'aria-pressed': String(chosen[control.key] === value), click: () => {
    chosen[control.key] = value
    buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset['value'] === value)))
    changed()
  } }, value === control.usual ? `${text} (study)` : text))
  const label = `${study}-${control.key}`
  return h('div', { class: 'row inline' }, h('span', { id: label }, control.label), h('div', { class: 'segments', role: 'group', 'aria-labelledby': label }, ...buttons))
}

const mean = ({ sum, n }: { sum: number; n: number }): number | null => (n > 0 ? sum / n : null)
const number = (value: number | null | undefined): string => (value === null || value === undefined ? '–' : String(Number(value.toPrecision(4))))

function chart(figure: Figure, names: string[], ours: Ours, published: Published[]): HTMLElement {
  const width = Math.max(300, Math.min(820, at('views').clientWidth - 30)), height = 270
  const left = 56, right = 12, top = 12, bottom = height - 30
  const values = [...published.map(({ value }) => value), ...[...ours.values()].flat().map(mean)].filter((value): value is number => value !== null && value > 0)
  const most = Math.max(...values, 0.001) * (figure.log ? 1.5 : 1.06)
  // Values that are near each other fill the figure: its axis does not begin at 0.
  const smallest = Math.min(...values, most)
  const least = figure.log ? Math.min(smallest, most / 10) / 1.5 : smallest > 0.7 * most ? smallest * 0.97 : 0
  const share = (value: number): number => (figure.log ? Math.log(Math.max(value, least) / least) / Math.log(most / least) : (value - least) / (most - least))
  const y = (value: number): number => bottom - share(value) * (bottom - top)
  const x = (position: number, contestant: number): number => left + ((position + 0.5) / figure.positions.length) * (width - left - right) + (contestant - (names.length - 1) / 2) * 9
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `${figure.title}, published and here; the table below has the figures` })
  for (const tick of ticks(least, most, figure.log)) {
    svg.append(s('line', { class: 'grid', x1: left, x2: width - right, y1: y(tick), y2: y(tick) }), s('text', { class: 'tick', x: left - 6, y: y(tick) + 4, 'text-anchor': 'end' }, number(tick)))
  }
  figure.positions.forEach((text, i) => svg.append(s('text', { class: 'tick', x: x(i, (names.length - 1) / 2), y: height - 10, 'text-anchor': 'middle' }, figure.positions.length > 5 && width < 500 ? text.replace(/\D+/, '') : text)))
  names.forEach((name, c) => {
    const known = figure.positions.map((_, i) => ({ i, value: mean(ours.get(name)![i]!) })).filter(({ value }) => value !== null)
    if (figure.positions.length > 2) svg.append(s('polyline', { class: `line l${c % 8}`, points: known.map(({ i, value }) => `${x(i, c)},${y(value!)}`).join(' ') }))
    for (const { i, value } of known) svg.append(s('circle', { class: `dot c${c % 8}`, cx: x(i, c), cy: y(value!), r: 4.2 }, s('title', {}, `${name} here: ${number(value)} ${figure.unit}`)))
    for (const one of published.filter(({ contestant }) => contestant === name)) {
      const [px, py] = [x(one.x, c), y(one.value)]
      svg.append(s('path', { class: `line l${c % 8}`, d: `M${px - 5} ${py}L${px} ${py - 5}L${px + 5} ${py}L${px} ${py + 5}Z` }, s('title', {}, `${name} published: ${number(one.value)} ${figure.unit}`)))
    }
  })
  return h('div', {}, h('p', { class: 'legend' }, ...names.map((name, c) => h('span', {}, h('span', { class: `swatch c${c % 8}`, 'aria-hidden': 'true' }), name)), h('span', {}, '● here, ◇ published, in ', figure.unit)),
    h('div', { class: 'chart', tabindex: '0', role: 'region', 'aria-label': `Chart: ${figure.title}` }, svg))
}

function ticks(least: number, most: number, log: boolean): number[] {
  if (log) return Array.from({ length: 12 }, (_, i) => 10 ** (i - 3)).filter((value) => value >= least && value <= most)
  const unit = step(most - least, 5)
  return Array.from({ length: Math.floor(most / unit) + 1 }, (_, i) => i * unit).filter((value) => value >= least)
}

function table(figure: Figure, names: string[], ours: Ours, published: Published[], open: boolean): HTMLElement {
  const of = (name: string, i: number): Published | undefined => published.find((one) => one.contestant === name && one.x === i)
  return h('details', { open }, h('summary', {}, 'The figure as a table'), h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Table: ${figure.title}` }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, figure.unit), ...names.flatMap((name) => [h('th', { scope: 'col' }, name), h('th', { scope: 'col' }, 'published')]))),
    h('tbody', {}, ...figure.positions.map((text, i) => h('tr', {}, h('th', { scope: 'row' }, text), ...names.flatMap((name) => [h('td', {}, number(mean(ours.get(name)![i]!))), h('td', {}, number(of(name, i)?.value))])))))))
}

/** Draws the packets of a slide and of a run, each when it passes the server. */
function timeline(drawn: Drawn): HTMLElement {
  const slide = TRACE.published(studyOf(TRACE).published)
  // The server sees a packet of the client when it arrives, and its own when it sends it.
  const seen = drawn.packets.filter(([, arrived, fromClient]) => !fromClient || arrived !== null)
    .map(([sent, arrived, fromClient, size]) => ({ at: (fromClient ? arrived! : sent) / 1e6, fromClient, again: false, type: `${size} bytes` }))
  const zero = Math.min(...seen.map((one) => one.at))
  const here = seen.map((one) => ({ ...one, at: one.at - zero })).sort((a, b) => a.at - b.at)
  const end = Math.min(TRACE.end, Math.max(2, here.at(-1)?.at ?? 0) * 1.04)
  const width = Math.max(300, Math.min(820, at('views').clientWidth - 30)), height = 170, left = 10, right = 10
  const x = (seconds: number): number => left + (seconds / end) * (width - left - right)
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `Packets at the server over time: ${slide.length} of the slide, and ${here.length} here` })
  for (let tick = 0; tick <= end; tick += step(end, 6)) {
    svg.append(s('line', { class: 'grid', x1: x(tick), x2: x(tick), y1: 20, y2: height - 22 }), s('text', { class: 'tick', x: x(tick), y: height - 6, 'text-anchor': 'middle' }, tick === 0 ? '0' : time(tick * 1000)))
  }
  for (const [rows, top, text] of [[slide, 20, 'the slide'], [here, 88, 'here']] as const) {
    svg.append(s('text', { class: 'name', x: left, y: top - 6 }, text))
    for (const row of rows) {
      const y = row.fromClient ? top + 4 : top + 28
      svg.append(s('rect', { class: row.again ? 'mark' : row.fromClient ? 'f1' : 'f0', x: x(row.at) - 1, y, width: 2.4, height: 18 }, s('title', {}, `${row.fromClient ? 'client' : 'server'}, ${row.type}: ${row.at.toFixed(3)} s${row.again ? ', sent again' : ''}`)))
    }
  }
  const after = here.filter((one) => !one.fromClient && one.at > 1).length
  return h('div', {}, h('p', { class: 'legend' }, h('span', {}, h('span', { class: 'swatch c1', 'aria-hidden': 'true' }), 'from the client'), h('span', {}, h('span', { class: 'swatch c0', 'aria-hidden': 'true' }), 'from the server'), h('span', {}, h('span', { class: 'swatch again', 'aria-hidden': 'true' }), 'sent again, by the slide')),
    h('div', { class: 'chart', tabindex: '0', role: 'region', 'aria-label': 'Chart of packets' }, svg),
    h('p', {}, `Here the file is complete after ${drawn.page_ns === null ? '–' : time(drawn.page_ns / 1e6)}. The server sends ${after} packets later than one second after the first packet.`))
}
