// The packets of each contestant on the wire, over virtual time: play, pause, speed and scrub.

import { colorOf } from './colors'
import { calm, h, time } from './dom'
import type { Drawn } from './tables'

/** How fast virtual time runs. */
const SPEEDS = [0.05, 0.1, 0.25, 0.5, 1]

/** A run that is drawn, with its contestant as typed. */
export interface Run extends Drawn { typed: string }

/** A lane: one contestant. */
interface Lane {
  drawn: Run
  canvas: HTMLCanvasElement
  text: HTMLElement
  /** Bytes delivered to the application by the end of each object, in the order of time. */
  delivered: [at: number, bytes: number][]
  total: number
  mostWindow: number
  mostWait: number
}

/** The player of the packets of several contestants. */
export class Motion {
  readonly element: HTMLElement
  private readonly lanes: Lane[]
  private at = 0
  private readonly end: number
  private playing = false
  private before = 0
  private readonly slider: HTMLInputElement
  private readonly clock: HTMLElement
  private readonly button: HTMLButtonElement
  private speed: number

  constructor(drawn: Run[]) {
    const last = (one: Drawn): number => one.page_ns !== null ? one.page_ns / 1000 : Math.max(0, ...one.packets.map((packet) => packet[1] ?? packet[0]))
    this.end = Math.max(1, ...drawn.map(last))
    this.speed = this.end > 8e6 ? 1 : this.end > 3e6 ? 0.5 : 0.25
    this.lanes = drawn.map((one) => lane(one))
    this.clock = h('output', { class: 'clock' }, '')
    this.slider = h('input', { type: 'range', min: 0, max: 1000, step: 1, value: 0, 'aria-label': 'Virtual time', input: () => {
      this.pause()
      this.at = (Number(this.slider.value) / 1000) * this.end
      this.draw()
    } })
    this.button = h('button', { type: 'button', class: 'primary', id: 'play', click: () => (this.playing ? this.pause() : this.play()) }, 'Play')
    const speed = h('select', { 'aria-label': 'Speed', change: () => { this.speed = Number(speed.value) } },
      ...SPEEDS.map((value) => h('option', { value, selected: value === this.speed }, value === 1 ? 'as fast as life' : `${1 / value} times slower`)))
    this.element = h('div', { class: 'motion' },
      h('div', { class: 'player' }, this.button, this.slider, this.clock, speed),
      h('div', { class: 'lanes' }, ...this.lanes.map((one) => h('figure', {},
        h('figcaption', {}, h('span', { class: `swatch c${colorOf(one.drawn.typed)}`, 'aria-hidden': 'true' }), h('b', {}, one.drawn.name), one.text), one.canvas))),
      h('p', { class: 'note' }, 'Left: the server. Right: the client. Upper track: packets to the client; lower track: packets to the server. A cross is a packet that the network loses. The bar is the page that has arrived; the curves are the congestion windows and the queueing delay so far.'))
    new ResizeObserver(() => this.draw()).observe(this.element)
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw())
    if (calm()) this.at = this.end / 2
    this.draw()
  }

  play(): void {
    if (this.at >= this.end) this.at = 0
    this.playing = true
    this.button.textContent = 'Pause'
    this.before = performance.now()
    requestAnimationFrame((now) => this.frame(now))
  }

  pause(): void {
    this.playing = false
    this.button.textContent = 'Play'
  }

  private frame(now: number): void {
    if (!this.playing || !this.element.isConnected) return
    this.at = Math.min(this.end, this.at + (now - this.before) * 1000 * this.speed)
    this.before = now
    this.draw()
    if (this.at >= this.end) this.pause()
    else requestAnimationFrame((next) => this.frame(next))
  }

  private draw(): void {
    this.slider.value = String(Math.round((this.at / this.end) * 1000))
    this.slider.setAttribute('aria-valuetext', time(this.at / 1000))
    this.clock.textContent = `${time(this.at / 1000)} of ${time(this.end / 1000)}`
    this.lanes.forEach((one) => drawLane(one, this.at, this.end))
  }
}

function lane(drawn: Run): Lane {
  const ends = drawn.objects.filter((object) => object.delivered_ns !== null)
  ends.sort((a, b) => a.delivered_ns! - b.delivered_ns!)
  let sum = 0
  const delivered = ends.map((object): [number, number] => [object.delivered_ns! / 1000, (sum += object.bytes)])
  const canvas = h('canvas', { role: 'img', 'aria-label': `Packets of ${drawn.name}` })
  return { drawn, canvas, text: h('span', { class: 'note' }), delivered, total: drawn.objects.reduce((all, object) => all + object.bytes, 0),
    mostWindow: Math.max(1, ...drawn.windows.map((window) => window[2])), mostWait: Math.max(1, ...drawn.waits.map((wait) => wait[1])) }
}

const color = (style: CSSStyleDeclaration, name: string): string => style.getPropertyValue(name).trim()

function drawLane(lane: Lane, at: number, end: number): void {
  const { canvas, drawn } = lane
  const width = canvas.clientWidth, height = canvas.clientHeight
  if (width === 0) return
  const ratio = devicePixelRatio || 1
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio)
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio)
  const g = canvas.getContext('2d')!
  g.setTransform(ratio, 0, 0, ratio, 0, 0)
  g.clearRect(0, 0, width, height)
  const style = getComputedStyle(canvas)
  const [ink, soft, rule, mark, own] = ['--ink', '--soft', '--rule', '--mark', `--c${colorOf(drawn.typed)}`].map((name) => color(style, name)) as [string, string, string, string, string]
  const box = 14, from = box + 2, to = width - box - 2
  const down = 16, up = 34
  g.fillStyle = rule
  g.fillRect(0, 6, box, 38)
  g.fillRect(width - box, 6, box, 38)
  g.strokeStyle = rule
  for (const y of [down, up]) {
    g.beginPath()
    g.moveTo(from, y)
    g.lineTo(to, y)
    g.stroke()
  }
  let lost = 0, sent = 0
  for (const [start, arrived, fromClient, size] of drawn.packets) {
    if (start > at) break
    sent++
    if (arrived === null) lost++
    const flight = arrived === null ? 40_000 : Math.max(1, arrived - start)
    const share = (at - start) / flight
    if (share > (arrived === null ? 2.2 : 1)) continue
    const y = fromClient ? up : down
    const position = Math.min(share, arrived === null ? 0.5 : 1)
    const x = fromClient ? to - position * (to - from) : from + position * (to - from)
    if (arrived === null && share >= 0.5) {
      g.strokeStyle = mark
      g.lineWidth = 1.6
      g.beginPath()
      g.moveTo(x - 3.5, y - 3.5)
      g.lineTo(x + 3.5, y + 3.5)
      g.moveTo(x + 3.5, y - 3.5)
      g.lineTo(x - 3.5, y + 3.5)
      g.stroke()
      g.lineWidth = 1
    } else {
      g.fillStyle = size > 200 ? own : soft
      const length = size > 200 ? 4 : 2
      g.fillRect(x - length / 2, y - (size > 200 ? 4 : 2), length, size > 200 ? 8 : 4)
    }
  }
  const done = lane.delivered.reduce((most, [when, sum]) => (when <= at ? sum : most), 0)
  const objects = lane.delivered.filter(([when]) => when <= at).length
  g.fillStyle = rule
  g.fillRect(0, 52, width, 8)
  g.fillStyle = own
  g.fillRect(0, 52, lane.total > 0 ? (done / lane.total) * width : 0, 8)
  curves(g, lane, at, end, width, height, own, soft)
  g.fillStyle = ink
  g.fillRect((at / end) * width, 64, 1, height - 64)
  const finished = drawn.page_ns !== null && at >= drawn.page_ns / 1000
  lane.text.textContent = finished ? ` done in ${time(drawn.page_ns! / 1e6)}; ${sent} packets, ${lost} lost` : ` ${objects} of ${drawn.objects.length} objects; ${sent} packets, ${lost} lost`
}

/** Draws the sum of the congestion windows, and the queueing delay. */
function curves(g: CanvasRenderingContext2D, lane: Lane, at: number, end: number, width: number, height: number, own: string, soft: string): void {
  const top = 66, bottom = height - 2
  const y = (share: number): number => bottom - share * (bottom - top)
  g.fillStyle = soft
  g.globalAlpha = 0.45
  for (const [when, delay] of lane.drawn.waits) {
    if (when > at) break
    const tall = (delay / lane.mostWait) * (bottom - top)
    g.fillRect((when / end) * width, bottom - tall, 1, tall)
  }
  g.globalAlpha = 1
  g.strokeStyle = own
  g.lineWidth = 1.5
  const windows = new Map<number, number>()
  g.beginPath()
  let begun = false
  for (const [when, connection, bytes] of lane.drawn.windows) {
    if (when > at) break
    windows.set(connection, bytes)
    const most = Math.max(...windows.values())
    const x = (when / end) * width
    if (begun) g.lineTo(x, y(most / lane.mostWindow))
    else g.moveTo(x, y(most / lane.mostWindow))
    begun = true
  }
  g.stroke()
  g.lineWidth = 1
}
