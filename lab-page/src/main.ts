// The page: reads the choice from the address, races, and shows the answer as seeds finish.

import { changes, distribution } from './charts'
import { adopt } from './colors'
import { compare } from './compare'
import { Contestants } from './contestants'
import { Controls } from './controls'
import { Curve } from './curve'
import { at, bytes, h, save, time } from './dom'
import * as glossary from './glossary'
import { answered, cards, forget } from './guides'
import { Choice, type Flag, networks, plain } from './model'
import { Motion, type Run } from './motion'
import { Papers } from './papers'
import { MOST_BYTES, Pool, Refusal, Superseded } from './pool'
import { type Progress, Race } from './race'
import type { Drawn, Facts, PointState, Tables } from './tables'
import { legend, waterfall } from './waterfall'

let choice = Choice.of(location.hash)
let pool: Pool
let race: Race | undefined
let controls: Controls
let contestants: Contestants
let curve: Curve
let papers: Papers
let latest: Progress | undefined
let shownPoint = 0
let pending: ReturnType<typeof setTimeout> | undefined
let motion: Motion | undefined
/** Whether packets and waterfalls are wanted as soon as the race has its answer. */
let wanted = false
/** The race whose changes are being tried again. */
let trying: Race | undefined
/** When the race began, for the figures that tests read. */
let began = 0

const status = (text: string): void => { at('status').textContent = text }
const element = (id: string): string => at(id).textContent ?? ''

/** Shows one line instead of an answer. */
function complain(line: string): void {
  at('answer').classList.add('stale')
  at('error').textContent = plain(line)
  at('error').hidden = false
  answered(line)
  status('')
}

/** Unpacks the program: a character has seven bits of it, and gzip compressed it. */
async function unpack(text: string): Promise<ArrayBuffer> {
  const packed = new Uint8Array(Math.floor((text.length * 7) / 8))
  for (let at = 0, to = 0, bits = 0, value = 0; at < text.length; at++) {
    value = ((value << 7) | (text.charCodeAt(at) & 127)) & 0x7fff
    bits += 7
    if (bits >= 8) {
      bits -= 8
      packed[to++] = value >> bits
    }
  }
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer()
}

/** Takes over a changed choice: the address, the form, and after a pause a new race. */
function changed(redraw: boolean, push = redraw): void {
  const fragment = choice.fragment()
  if (fragment !== location.hash) history[push ? 'pushState' : 'replaceState'](null, '', fragment)
  if (redraw) {
    controls.render()
    contestants.render()
  }
  prepare()
  clearTimeout(pending)
  at('answer').classList.add('stale')
  forget()
  wanted = false
  pending = setTimeout(start, redraw ? 0 : 150)
}

/** Makes room for the answer. */
function reserve(): void {
  at('answer').style.setProperty('--points', String(Math.min(6, networks(choice))))
  at('points').hidden = networks(choice) < 2
  // Up to four contestants have the same room, so that buttons below stay where they are.
  at('versus').style.setProperty('--rows', String(Math.max(4, choice.all('transport').length)))
}

/** Makes room for the next answer, and takes away what belongs to another race. */
function prepare(): void {
  curve.update(choice)
  reserve()
  if (!at<HTMLInputElement>('auto').checked) clearDrawing()
  for (const id of ['motion', 'waterfalls']) at(id).classList.add('stale')
}

function start(): void {
  race?.stop()
  curve.stop()
  pool.renew()
  at('error').hidden = true
  status('Reading the plan …')
  began = performance.now()
  const mine = new Race(pool, choice.flags.map(([name, value]) => [name, value]), (progress) => show(mine, progress))
  race = mine
  mine.run().then(() => {
    if (race === mine) void background()
  }).catch((error: unknown) => {
    if (error instanceof Superseded || race !== mine) return
    pool.renew()
    complain(error instanceof Refusal ? error.message : `the page failed: ${String(error)}`)
  })
}

/** Races the curve, and then the changes with more loads, while no worker has anything else to do. */
async function background(): Promise<void> {
  const of = race
  const idle = (): boolean => race === of && !papers.isBusy
  if (!of?.finished || !of.facts || !idle()) return
  await curve.start(choice, of.facts)
  if (!idle() || !of.facts.explains || trying === of) return
  trying = of
  try {
    await of.tryAgain(idle)
  } catch (error) {
    // A worker was replaced. The answer keeps the changes with fewer loads, and says so.
    if (!(error instanceof Superseded)) throw error
  } finally {
    if (trying === of) trying = undefined
  }
}

function show(of: Race, progress: Progress): void {
  if (race !== of) return
  const again = latest?.explained === true && latest.facts === progress.facts
  latest = progress
  if (shownPoint >= progress.points.length) shownPoint = 0
  const { facts, points, seeds } = progress
  adopt(contestants.list(), facts.contestants)
  const total = facts.seeds.length
  const elapsed = again ? at('answer').dataset['elapsed'] ?? '' : ((performance.now() - began) / 1000).toFixed(1)
  const looking = seeds === total && !progress.explained && facts.explains
  status(progress.explained || (seeds === total && !facts.explains) ? `${total === 1 ? 'One load' : `${total} loads`} of each contestant, in ${elapsed} s.`
    : looking ? `${total} of ${total} loads of each contestant. Experiments look for the reason …` : `${seeds} of ${total} loads of each contestant …`)
  const answer = at('answer')
  answer.classList.remove('stale')
  answer.dataset['seeds'] = String(seeds)
  answer.dataset['explained'] = String(progress.explained)
  answer.dataset['elapsed'] = elapsed
  answer.replaceChildren(...points.flatMap((point, i) => {
    const factors = Object.entries(facts.points[i]?.factors ?? {}).map(([key, value]) => `${key} ${value}`).join(', ')
    const [first, ...rest] = point.lines
    const heading = points.length > 1 ? h('p', { class: 'over' }, factors || facts.points[i]!.network) : null
    const waits = facts.explains && !progress.explained
    const lines = waits ? rest.filter((line) => !/^(Why|What )/.test(line.label)) : rest
    const tried = (label: string): string => (label.startsWith('What ') ? soFar(point, total) : '')
    if (waits) lines.push({ label: 'Why', text: 'experiments look for the reason when all loads are done.' })
    return [heading, h('h2', { class: 'result' }, h('b', {}, `${first?.label ?? ''}: `), ...glossary.marked(plain(first?.text ?? ''))),
      ...lines.map((line) => h('p', { class: 'lead' }, h('b', {}, `${line.label}: `), ...glossary.marked(plain(line.text) + tried(line.label))))].filter((node) => node !== null)
  }))
  if (seeds === total) answered(points.map(({ lines }) => `${lines[0]?.label}: ${plain(lines[0]?.text ?? '')}`).join(' '))
  at('views').hidden = false
  at('about').replaceChildren(...glossary.marked(plain(`${facts.points[shownPoint]!.workload} over ${facts.points[shownPoint]!.network}`)))
  at('warnings').replaceChildren(...facts.warnings.concat(alone(facts)).map((warning) => h('li', {}, plain(warning))))
  at('command').textContent = facts.command
  at('plan-text').textContent = facts.toml
  drawPoint(progress)
  at<HTMLButtonElement>('draw').disabled = false
  at<HTMLButtonElement>('results').disabled = at<HTMLButtonElement>('captures').disabled = !of.finished
  if (of.finished && !again && (wanted || at<HTMLInputElement>('auto').checked)) void draw()
}

/** Says with how many loads changes were tried, if these are fewer than the race has. */
function soFar({ changes }: PointState, total: number): string {
  const counts = changes.map(({ n }) => n).filter((n) => n > 1)
  const [fewest, most] = [Math.min(...counts, total), Math.max(...counts)]
  if (fewest >= total) return ''
  return ` (Tried with ${fewest === most ? fewest : `${fewest} to ${most}`} loads of each contestant so far.)`
}

/** Says which contestants use only the first of several paths. */
function alone(facts: Facts): string[] {
  if (choice.all('path').length < 2 || choice.get('handover')) return []
  const names = facts.contestants.filter((_, i) => facts.one_path[i])
  if (names.length === 0) return ['All contestants can use both paths.']
  const all = new Intl.ListFormat(document.documentElement.lang).format(names)
  return [`${all} ${names.length === 1 ? 'uses' : 'use'} path 1 only: a connection of TCP or QUIC, or an association under DTLS, has one path here.`]
}

/** Draws the figures of the point that is shown. */
function drawPoint({ facts, points, explained }: Progress): void {
  const tabs = at('points')
  tabs.hidden = points.length < 2
  tabs.replaceChildren(...points.map((_, i) => h('button', { type: 'button', 'aria-pressed': String(i === shownPoint), click: () => {
    shownPoint = i
    if (latest) drawPoint(latest)
    clearDrawing()
  } }, Object.entries(facts.points[i]!.factors).map(([key, value]) => `${key} ${value}`).join(', '))))
  const point = points[shownPoint]!
  const table = changes(point)
  at('compare').replaceChildren(compare(point, () => drawPoint(latest!)))
  at('distribution').replaceChildren(distribution(point))
  at('changes').classList.toggle('wanted', facts.explains)
  at('changes').replaceChildren(...(facts.explains ? [h('h2', {}, 'What would change this'), table ?? h('p', { class: 'note' }, explained ? 'No change was tried with this race.' : 'Experiments follow when all loads are done.')] : []))
}

function clearDrawing(): void {
  motion?.pause()
  motion = undefined
  for (const id of ['motion', 'waterfalls']) {
    at(id).replaceChildren()
    at(id).classList.remove('stale')
  }
}

/** Returns the seed whose loads are nearest to the medians of all contestants, as an index. */
function typical({ contestants }: PointState): number {
  const distance = (seed: number): number => Math.max(...contestants.map(({ times, median }) => {
    const ms = times[seed]
    return ms && median ? Math.abs(Math.log(ms / median)) : 100
  }))
  const seeds = contestants[0]!.times.map((_, seed) => seed)
  return seeds.reduce((best, seed) => (distance(seed) < distance(best) ? seed : best))
}

/** Shows packets and waterfalls: now if the race has its answer, or else when it has. */
function look(): void {
  at('wire').scrollIntoView({ block: 'start' })
  if (race?.finished) return void draw()
  wanted = true
  clearDrawing()
  at('motion').replaceChildren(h('p', { class: 'note', role: 'status' }, 'Packets and waterfalls follow when the race has its answer.'))
}

/** Draws the packets and the waterfall of each contestant, all with the same seed. */
async function draw(): Promise<void> {
  const of = race, progress = latest
  if (!of || !progress) return
  const button = at<HTMLButtonElement>('draw')
  button.disabled = true
  try {
    const runs: Run[] = []
    const point = progress.points[shownPoint]!
    const seed = progress.facts.seeds[typical(point)]!
    for (const [contestant, one] of point.contestants.entries()) {
      const drawn = await of.helper.ask<Drawn>({ do: 'draw', point: shownPoint, contestant, seed })
      runs.push({ ...drawn, name: one.name, typed: one.typed })
      if (race !== of) return
    }
    clearDrawing()
    motion = new Motion(runs)
    at('motion').replaceChildren(motion.element)
    const end = Math.max(1, ...runs.map((run) => (run.page_ns ?? Math.max(0, ...run.objects.map((object) => object.delivered_ns ?? 0))) / 1e6)) * 1.02
    at('waterfalls').replaceChildren(
      h('p', { class: 'note' }, `All with seed ${seed}, whose times are the nearest to the medians of all contestants.`),
      legend(runs),
      ...runs.map((run, i) => h('figure', {}, h('figcaption', {}, h('b', {}, run.name), h('span', { class: 'note' }, ` ${run.page_ns === null ? 'did not finish' : time(run.page_ns / 1e6)}; median ${time(point.contestants[i]!.median)}`)), waterfall(run, end))))
  } catch (error) {
    if (!(error instanceof Superseded)) complain(error instanceof Error ? error.message : String(error))
  } finally {
    button.disabled = false
  }
}

/** Makes the files of the race, and offers them. */
async function files(captures: boolean): Promise<void> {
  const of = race
  if (!of) return
  const list = at('files')
  list.replaceChildren(h('li', {}, 'Writing the files …'))
  try {
    const written = await of.files(captures)
    if (race !== of) return
    list.replaceChildren(...written.map(([name, content]) => h('li', {}, h('button', { type: 'button', class: 'link', 'data-file': name, click: () => save(name, content, name.endsWith('.html') ? 'text/html' : undefined) }, name), ` ${bytes(content.length)}`)))
  } catch (error) {
    list.replaceChildren()
    if (!(error instanceof Superseded)) complain(error instanceof Error ? error.message : String(error))
  }
}

/** Takes a HAR from the user. It stays in the browser. */
async function drop(file: File): Promise<void> {
  if (file.size > MOST_BYTES) return complain(`${file.name}: ${bytes(file.size)}; a page takes at most ${bytes(MOST_BYTES)}`)
  const name = file.name.replace(/[^\w.-]+/g, '-').replace(/^[-.]+/, '') || 'page.har'
  pool.file(name, new Uint8Array(await file.arrayBuffer()))
  // A file with the name of another one is another page.
  curve.clear()
  controls.own = { name, size: file.size }
  for (const flag of ['objects', 'bulk', 'messages', 'page']) choice.set(flag, undefined)
  choice.flags.unshift(['page', name])
  changed(true)
}

function replace(flags: Flag[]): void {
  choice = new Choice(flags)
  changed(true)
}

async function copy(id: string, button: HTMLButtonElement): Promise<void> {
  const before = button.textContent
  try {
    await navigator.clipboard.writeText(id === '' ? location.href : element(id))
    button.textContent = 'Copied'
  } catch {
    button.textContent = 'Select and copy it'
  }
  setTimeout(() => { button.textContent = before }, 1500)
}

function listen(): void {
  glossary.listen()
  at('guides').replaceChildren(cards(replace, look))
  at('to-guides').addEventListener('click', () => at('guides').scrollIntoView({ block: 'center' }))
  at('draw').addEventListener('click', () => void draw())
  at('results').addEventListener('click', () => void files(false))
  at('captures').addEventListener('click', () => void files(true))
  at('all').addEventListener('click', () => contestants.plan())
  at('open-glossary').addEventListener('click', () => glossary.open(''))
  at('save-plan').addEventListener('click', () => save('plan.toml', element('plan-text'), 'text/plain'))
  for (const button of document.querySelectorAll<HTMLButtonElement>('[data-copy]')) {
    button.addEventListener('click', () => void copy(button.dataset['copy']!, button))
  }
  addEventListener('popstate', () => {
    choice = Choice.of(location.hash)
    controls.expand()
    controls.render()
    contestants.render()
    changed(false)
  })
}

async function boot(): Promise<void> {
  status('Starting …')
  reserve()
  const module = await WebAssembly.compile(await unpack(element('program')))
  at('program').remove()
  const cores = Math.max(2, Math.min(navigator.hardwareConcurrency || 2, 8))
  pool = new Pool(element('worker-code'), module, cores)
  const tables = await pool.members[0]!.ask<Tables>({ do: 'tables' })
  at('version').textContent = tables.version
  glossary.add(tables)
  controls = new Controls(tables, () => choice, changed, (file) => void drop(file))
  contestants = new Contestants(tables, () => choice, () => changed(true))
  curve = new Curve(pool, (loss) => {
    choice.set('loss', loss)
    changed(true)
  })
  papers = new Papers(pool, (busy) => (busy ? curve.stop() : void background()))
  at('papers').replaceChildren(papers.cards())
  listen()
  controls.expand()
  controls.render()
  contestants.render()
  at('form').hidden = false
  prepare()
  document.body.dataset['ready'] = 'yes'
  start()
}

boot().catch((error: unknown) => complain(`this browser cannot run the laboratory: ${error instanceof Error ? error.message : String(error)}`))
