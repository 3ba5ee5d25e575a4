// The form: page, network and seeds. Each control shows and sets flags.

import { at, bytes, h } from './dom'
import { bdp, type Choice, duration, type Form, rate, readLoss, writeLoss } from './model'
import type { Tables } from './tables'

/** A slider over a list of values. */
interface Slider {
  flag: string
  label: string
  help: string
  form: Form
  values: number[]
  /** The value without the flag. */
  usual: number
  /** Whether the flag is left out at its usual value. */
  optional: boolean
}

const steps = (from: number, to: number): number[] => {
  const values: number[] = []
  for (let power = 10 ** Math.floor(Math.log10(from)); power <= to; power *= 10) {
    for (const factor of [1, 1.5, 2, 3, 5, 7]) {
      const value = Number((factor * power).toPrecision(3))
      if (value >= from && value <= to) values.push(value)
    }
  }
  return values
}

const SLIDERS: Slider[] = [
  { flag: 'rate', label: 'Rate', help: 'bits per second, server to client', form: rate, values: steps(5e4, 1e9), usual: 1e7, optional: false },
  { flag: 'up-rate', label: 'Uplink', help: 'bits per second, client to server', form: rate, values: steps(5e4, 1e9), usual: NaN, optional: true },
  { flag: 'rtt', label: 'Round trip', help: 'to the server and back, without queues', form: duration, values: [1, ...steps(5, 1500)], usual: 80, optional: false },
  { flag: 'jitter', label: 'Jitter', help: 'random delay of each packet, at most', form: duration, values: [0, ...steps(1, 300)], usual: 0, optional: true },
  { flag: 'queue', label: 'Queue', help: 'where packets wait, in products of rate and round trip', form: bdp, values: [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 8], usual: 1, optional: true },
]

const SHARES = [0, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1]
const BURSTS = [1, 2, 3, 4, 6, 8, 12, 20]

const nearest = (values: number[], value: number): number =>
  values.reduce((best, known, i) => (Math.abs(Math.log1p(known) - Math.log1p(value)) < Math.abs(Math.log1p(values[best]!) - Math.log1p(value)) ? i : best), 0)

const percent = (share: number): string => `${Number((share * 100).toPrecision(3))}\u00a0%`
const spaced = (text: string): string => text.replace(/^([\d.]+)([a-z]+)$/, '$1\u00a0$2').replace('mbit', 'Mbit').replace('gbit', 'Gbit').replace('bit', 'bit/s')

/** Makes the form anew from the choice. `changed` is called after each change; `drop` with a page that the user gives. */
export class Controls {
  /** The name and the size of the user's own page. */
  own?: { name: string; size: number }

  constructor(
    private readonly tables: Tables,
    private readonly choice: () => Choice,
    private readonly changed: (redraw: boolean) => void,
    private readonly drop: (file: File) => void,
  ) {
    const zone = at('drop')
    for (const kind of ['dragenter', 'dragover']) {
      document.addEventListener(kind, (event) => { event.preventDefault(); zone.classList.add('over') })
    }
    document.addEventListener('dragleave', (event) => { if (!event.relatedTarget) zone.classList.remove('over') })
    document.addEventListener('drop', (event) => {
      event.preventDefault()
      zone.classList.remove('over')
      const file = event.dataTransfer?.files[0]
      if (file) this.drop(file)
    })
    at<HTMLInputElement>('har').addEventListener('change', (event) => {
      const input = event.target as HTMLInputElement
      const file = input.files?.[0]
      if (file) this.drop(file)
      input.value = ''
    })
  }

  render(): void {
    this.page()
    const network = at('network')
    const focus = document.activeElement?.id
    network.replaceChildren(...this.network())
    at('seeds').replaceChildren(this.seeds())
    if (focus && document.activeElement?.id !== focus) document.getElementById(focus)?.focus()
  }

  private page(): void {
    const choice = this.choice()
    const select = h('select', { id: 'page', change: () => {
      for (const flag of ['objects', 'bulk', 'messages', 'page']) choice.set(flag, undefined)
      choice.flags.unshift(['page', select.value])
      this.changed(true)
    } })
    for (const page of this.tables.pages) {
      select.append(h('option', { value: page.name }, `${page.name}: ${page.objects} objects, ${bytes(page.bytes)}, ${page.hosts} ${page.hosts === 1 ? 'host' : 'hosts'}`))
    }
    if (this.own) select.append(h('option', { value: this.own.name }, `${this.own.name} (yours, ${bytes(this.own.size)})`))
    const page = choice.get('page')
    const other = ['objects', 'bulk', 'messages'].find((flag) => choice.get(flag))
    if (other) select.prepend(h('option', { value: '' }, `${other}: ${choice.get(other)}`))
    else if (!page) select.prepend(h('option', { value: '' }, 'none'))
    else if (![...select.options].some((option) => option.value === page)) {
      select.append(h('option', { value: page }, `${page} (drop this file here)`))
    }
    select.value = other || !page ? '' : page
    const source = this.tables.pages.find((known) => known.name === page)?.source
    at('page-choice').replaceChildren(h('label', { for: 'page' }, 'Load'), select, ...(source ? [h('details', { class: 'source' }, h('summary', {}, 'where it is from'), h('p', {}, source))] : []))
  }

  private network(): Node[] {
    const choice = this.choice()
    const several = choice.all('path').length
    if (several > 0 || choice.get('network')) {
      return [h('p', { class: 'note' }, `The network has ${several || 'its'} paths of its own: see “All settings”. `,
        h('button', { type: 'button', class: 'link', click: () => {
          for (const flag of ['path', 'fail', 'network']) choice.setAll(flag, [])
          for (const [flag, value] of [['rate', '10mbit'], ['rtt', '80ms'], ['loss', '1%']] as const) choice.set(flag, value)
          this.changed(true)
        } }, 'Use one path'))]
    }
    return [this.preset(), ...SLIDERS.map((slider) => this.slider(slider)), ...this.loss()]
  }

  private preset(): HTMLElement {
    const choice = this.choice()
    const select = h('select', { id: 'preset', change: () => {
      const preset = this.tables.presets.find((known) => known.name === select.value)
      if (!preset) return
      for (const flag of ['rate', 'up-rate', 'down-rate', 'rtt', 'jitter', 'queue', 'loss', 'preset']) choice.set(flag, undefined)
      for (const setting of preset.settings.split(',')) {
        const [flag, ...value] = setting.split('=')
        choice.set(flag!, value.join('='))
      }
      this.changed(true)
    } })
    select.append(h('option', { value: '' }, 'set below'))
    const is = (settings: string): boolean => settings.split(',').every((setting) => {
      const [flag, ...value] = setting.split('=')
      const given = choice.get(flag!) ?? (flag === 'jitter' ? '0ms' : undefined)
      return given === value.join('=')
    })
    const found = this.tables.presets.find((preset) => is(preset.settings))
    for (const preset of this.tables.presets) select.append(h('option', { value: preset.name }, preset.name))
    select.value = found?.name ?? ''
    return h('div', { class: 'row' }, h('label', { for: 'preset' }, 'Preset'), select,
      found ? h('details', { class: 'source' }, h('summary', {}, 'where it is from'), h('p', {}, found.source)) : null)
  }

  private slider(slider: Slider): HTMLElement {
    const choice = this.choice()
    const text = choice.get(slider.flag)
    const fallback = slider.flag === 'up-rate' ? (rate.read(choice.get('rate')) ?? 1e7) : slider.usual
    const value = text === undefined ? fallback : slider.form.read(text)
    const id = `s-${slider.flag}`
    if (value === undefined) {
      const input = h('input', { id, type: 'text', value: text, change: () => { choice.set(slider.flag, input.value); this.changed(true) } })
      return h('div', { class: 'row' }, h('label', { for: id }, slider.label), input)
    }
    const shown = (): string => slider.flag === 'up-rate' && choice.get('up-rate') === undefined ? 'the same' : spaced(choice.get(slider.flag) ?? slider.form.write(slider.usual))
    const output = h('output', { for: id }, shown())
    const input = h('input', { id, type: 'range', min: 0, max: slider.values.length - 1, step: 1, value: nearest(slider.values, value), title: slider.help, 'aria-describedby': `${id}-h`, 'aria-valuetext': shown(), input: () => {
      const chosen = slider.values[Number(input.value)]!
      const usual = slider.flag === 'up-rate' ? (rate.read(choice.get('rate')) ?? 1e7) : slider.usual
      choice.set(slider.flag, slider.optional && chosen === usual ? undefined : slider.form.write(chosen))
      output.value = shown()
      input.setAttribute('aria-valuetext', shown())
      this.changed(false)
    } })
    return h('div', { class: 'row' }, h('label', { for: id }, slider.label), output, input, h('small', { id: `${id}-h` }, slider.help))
  }

  private loss(): HTMLElement[] {
    const choice = this.choice()
    const loss = readLoss(choice.get('loss'))
    if (!loss) {
      const input = h('input', { id: 's-loss', type: 'text', value: choice.get('loss'), change: () => { choice.set('loss', input.value); this.changed(true) } })
      return [h('div', { class: 'row' }, h('label', { for: 's-loss' }, 'Loss'), input, h('small', {}, 'several values, or a form of its own'))]
    }
    let { share, burst } = loss
    const words = (): string => (share <= 0 ? 'none' : percent(share))
    const together = (): string => (burst <= 1 ? 'alone' : `${Number(burst.toPrecision(2))} together`)
    const share_out = h('output', { for: 's-loss' }, words())
    const burst_out = h('output', { for: 's-burst' }, together())
    const update = (): void => {
      choice.set('loss', writeLoss({ share, burst }))
      share_out.value = words()
      burst_out.value = together()
      lost.setAttribute('aria-valuetext', words())
      bursts.setAttribute('aria-valuetext', together())
      this.changed(false)
    }
    const lost = h('input', { id: 's-loss', type: 'range', min: 0, max: SHARES.length - 1, value: nearest(SHARES, share), 'aria-valuetext': words(), 'aria-describedby': 's-loss-h', input: () => { share = SHARES[Number(lost.value)]!; update() } })
    const bursts = h('input', { id: 's-burst', type: 'range', min: 0, max: BURSTS.length - 1, value: nearest(BURSTS, burst), 'aria-valuetext': together(), 'aria-describedby': 's-burst-h', input: () => { burst = BURSTS[Number(bursts.value)]!; update() } })
    return [
      h('div', { class: 'row' }, h('label', { for: 's-loss' }, 'Loss'), share_out, lost, h('small', { id: 's-loss-h' }, 'share of the packets, each way')),
      h('div', { class: 'row' }, h('label', { for: 's-burst' }, 'Lost packets come'), burst_out, bursts, h('small', { id: 's-burst-h' }, 'at random, or in bursts of this mean length')),
    ]
  }

  private seeds(): HTMLElement {
    const choice = this.choice()
    const runs = choice.get('runs') ?? '100'
    const group = h('div', { class: 'segments', role: 'group', 'aria-label': 'Page loads of each contestant' })
    for (const count of ['1', '10', '30', '100']) {
      group.append(h('button', { type: 'button', id: `runs-${count}`, 'aria-pressed': String(runs === count), click: () => { choice.set('runs', count); this.changed(true) } }, count))
    }
    return h('div', { class: 'row' }, h('span', { class: 'label' }, 'Loads'), group, h('small', {}, 'of each contestant, with as many seeds'))
  }
}
