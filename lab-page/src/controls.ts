// The form: page, network and seeds. Each control shows and sets flags.

import { at, bytes, h } from './dom'
import { bdp, BROWSERS, type Choice, duration, type Form, percent, rate, readLoss, spaced, writeLoss } from './model'
import { type Failure, join, type Paths, readPaths, split, writePaths } from './paths'
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

/** The settings of a preset. It names the rates of both directions; the form has a rate, and an uplink that may differ. */
const parts = (settings: string): [string, string][] => settings.split(',').map((setting) => {
  const [flag, ...value] = setting.split('=')
  return [flag === 'down-rate' ? 'rate' : flag!, value.join('=')]
})

/** Where a control reads and sets its value, and the id of its element. */
interface Source {
  id: string
  get(): string | undefined
  set(text: string | undefined): void
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
    const two = readPaths(choice)
    if (two) return [this.count(2), ...this.two(two), ...SLIDERS.filter(({ flag }) => ['jitter', 'queue'].includes(flag)).map((slider) => this.slider(slider, this.flag(slider.flag)))]
    if (several > 0 || choice.get('network')) {
      return [h('p', { class: 'note' }, `The network has ${several || 'its'} ${several === 1 ? 'path' : 'paths'} of its own: see “All settings”. `,
        h('button', { type: 'button', class: 'link', click: () => { join(choice); this.changed(true) } }, 'Use one path'))]
    }
    const traced = ['trace', 'down-trace'].some((flag) => choice.get(flag) !== undefined)
    const sliders = SLIDERS.filter(({ flag }) => !traced || flag !== 'rate')
    return [this.count(1), this.preset(), ...(traced ? [h('p', { class: 'note' }, 'The download rate follows a recorded ', h('button', { type: 'button', class: 'term', 'data-term': 'trace' }, 'trace'), '.')] : []),
      ...sliders.map((slider) => this.slider(slider, this.flag(slider.flag))), ...this.loss()]
  }

  /** The choice between one path and two. */
  private count(paths: number): HTMLElement {
    const choice = this.choice()
    const button = (count: number, text: string): HTMLElement => h('button', { type: 'button', id: `paths-${count}`, 'aria-pressed': String(paths === count), click: () => {
      if (paths === count) return
      // None of the contestants that browsers offer uses two paths.
      if (choice.all('transport').join() === BROWSERS.join()) choice.setAll('transport', [])
      if (count === 1) join(choice)
      else split(choice, (rtt) => duration.write((duration.read(rtt) ?? 80) * 1.5))
      this.changed(true)
    } }, text)
    return h('div', { class: 'segments', role: 'group', 'aria-label': 'Paths between client and server' }, button(1, 'One path'), button(2, 'Two paths'))
  }

  /** The settings of two paths, and the failure of one. */
  private two(shown: Paths): HTMLElement[] {
    const choice = this.choice()
    const row = (index: 0 | 1, flag: 'rate' | 'rtt'): HTMLElement => {
      const slider = SLIDERS.find((one) => one.flag === flag)!
      return this.slider(slider, {
        id: `path-${index + 1}-${flag}`,
        get: () => shown.paths[index][flag] ?? choice.get(flag),
        set: (text) => { shown.paths[index][flag] = text ?? slider.form.write(slider.usual); writePaths(choice, shown) },
      })
    }
    const path = (index: 0 | 1): HTMLElement => h('div', { class: 'path', role: 'group', 'aria-labelledby': `path-${index + 1}` },
      h('b', { id: `path-${index + 1}` }, `Path ${index + 1}`), row(index, 'rate'), row(index, 'rtt'),
      ...this.losses({
        id: `path-${index + 1}-`,
        get: () => shown.paths[index].loss ?? choice.get('loss'),
        set: (text) => { shown.paths[index].loss = text; writePaths(choice, shown) },
      }, false))
    return [path(0), path(1), this.failure(shown)]
  }

  /** Whether, when and for how long a path fails. */
  private failure(shown: Paths): HTMLElement {
    const choice = this.choice()
    const set = (failure: Failure | undefined, redraw: boolean): void => {
      shown.failure = failure
      writePaths(choice, shown)
      this.changed(redraw)
    }
    const failure = shown.failure
    const select = h('select', { id: 'fails', change: () => {
      const [path, length] = select.value.split(' ')
      set(path ? { path: Number(path), at: failure?.at ?? '2s', ...(length ? { for: failure?.for ?? '20s' } : {}) } : undefined, true)
    } }, h('option', { value: '' }, 'no path fails'), ...[1, 2].flatMap((n) => [
      h('option', { value: `${n}` }, `path ${n} fails for good`), h('option', { value: `${n} for` }, `path ${n} fails for a while`)]))
    select.value = failure ? `${failure.path}${failure.for ? ' for' : ''}` : ''
    const when = (key: 'at' | 'for', label: string, help: string): HTMLElement => this.slider(
      { flag: key, label, help, form: duration, values: steps(100, 60_000), usual: 2000, optional: false },
      { id: `fail-${key}`, get: () => shown.failure?.[key], set: (text) => set({ ...shown.failure!, [key]: text ?? '2s' }, false) })
    return h('div', { class: 'path' }, h('div', { class: 'row' }, h('label', { for: 'fails' }, 'Failure'), select),
      failure ? when('at', 'It fails after', 'from the start of the load') : null, failure?.for ? when('for', 'It is down for', 'then it carries packets again') : null)
  }

  /** Replaces the flag of one preset by its settings, which the form and the curve show. Other flags take precedence. */
  expand(): void {
    const choice = this.choice()
    const preset = this.tables.presets.find(({ name }) => name === choice.get('preset'))
    if (!preset || ['rate', 'up-rate', 'down-rate', 'trace', 'down-trace'].some((flag) => choice.get(flag))) return
    choice.set('preset', undefined)
    for (const [flag, value] of parts(preset.settings)) if (choice.get(flag) === undefined) choice.set(flag, value)
  }

  private preset(): HTMLElement {
    const choice = this.choice()
    const select = h('select', { id: 'preset', change: () => {
      const preset = this.tables.presets.find((known) => known.name === select.value)
      if (!preset) return
      const known = this.tables.presets.flatMap(({ settings }) => parts(settings).map(([flag]) => flag))
      for (const flag of ['rate', 'up-rate', 'down-rate', 'preset', ...known]) choice.set(flag, undefined)
      for (const [flag, value] of parts(preset.settings)) choice.set(flag, value)
      this.changed(true)
    } })
    select.append(h('option', { value: '' }, 'set below'))
    const is = (settings: string): boolean => parts(settings).every(([flag, value]) =>
      (choice.get(flag) ?? (flag === 'jitter' ? '0ms' : undefined)) === value)
    const found = this.tables.presets.find((preset) => is(preset.settings))
    for (const { name, about, settings } of this.tables.presets) {
      const values = new Map(parts(settings))
      const lost = readLoss(values.get('loss'))
      const figures = [...['rate', 'rtt'].map((key) => spaced(values.get(key) ?? '')), lost && lost.share > 0 ? `${percent(lost.share)} lost` : '']
      select.append(h('option', { value: name }, `${name}: ${[about, ...figures].filter((part) => part !== '').join(', ')}`))
    }
    select.value = found?.name ?? ''
    return h('div', { class: 'row' }, h('label', { for: 'preset' }, 'Preset'), select,
      found ? h('details', { class: 'source' }, h('summary', {}, 'where it is from'), h('p', {}, found.source)) : null)
  }

  /** A flag with one value. */
  private flag(name: string): Source {
    const choice = this.choice()
    return { id: `s-${name}`, get: () => choice.get(name), set: (text) => choice.set(name, text) }
  }

  private slider(slider: Slider, source: Source): HTMLElement {
    const choice = this.choice()
    const text = source.get()
    const usual = (): number => (slider.flag === 'up-rate' ? rate.read(choice.get('rate')) ?? 1e7 : slider.usual)
    const value = text === undefined ? usual() : slider.form.read(text)
    const { id } = source
    if (value === undefined) {
      const input = h('input', { id, type: 'text', value: text, change: () => { source.set(input.value); this.changed(true) } })
      return h('div', { class: 'row' }, h('label', { for: id }, slider.label), input)
    }
    const shown = (): string => slider.flag === 'up-rate' && source.get() === undefined ? 'the same' : spaced(source.get() ?? slider.form.write(slider.usual))
    const output = h('output', { for: id }, shown())
    const input = h('input', { id, type: 'range', min: 0, max: slider.values.length - 1, step: 1, value: nearest(slider.values, value), title: slider.help, 'aria-describedby': `${id}-h`, 'aria-valuetext': shown(), input: () => {
      const chosen = slider.values[Number(input.value)]!
      source.set(slider.optional && chosen === usual() ? undefined : slider.form.write(chosen))
      output.value = shown()
      input.setAttribute('aria-valuetext', shown())
      this.changed(false)
    } })
    return h('div', { class: 'row' }, h('label', { for: id }, slider.label), output, input, h('small', { id: `${id}-h` }, slider.help))
  }

  private loss(): HTMLElement[] {
    return this.losses(this.flag('loss'), true)
  }

  /** The share of lost packets, and with `bursts`, how many are lost together. */
  private losses(source: Source, bursts: boolean): HTMLElement[] {
    const loss = readLoss(source.get())
    const [id, of] = source.id.startsWith('path') ? [`${source.id}loss`, `${source.id}burst`] : ['s-loss', 's-burst']
    if (!loss || (!bursts && loss.burst > 1)) {
      const input = h('input', { id, type: 'text', value: source.get(), change: () => { source.set(input.value); this.changed(true) } })
      return [h('div', { class: 'row' }, h('label', { for: id }, 'Loss'), input, h('small', {}, 'several values, or a form of its own'))]
    }
    let { share, burst } = loss
    const words = (): string => (share <= 0 ? 'none' : percent(share))
    const together = (): string => (burst <= 1 ? 'alone' : `${Number(burst.toPrecision(2))} together`)
    const share_out = h('output', { for: id }, words())
    const burst_out = h('output', { for: of }, together())
    const update = (): void => {
      source.set(writeLoss({ share, burst }))
      share_out.value = words()
      burst_out.value = together()
      lost.setAttribute('aria-valuetext', words())
      mean.setAttribute('aria-valuetext', together())
      this.changed(false)
    }
    const lost = h('input', { id, type: 'range', min: 0, max: SHARES.length - 1, value: nearest(SHARES, share), 'aria-valuetext': words(), 'aria-describedby': `${id}-h`, input: () => { share = SHARES[Number(lost.value)]!; update() } })
    const mean = h('input', { id: of, type: 'range', min: 0, max: BURSTS.length - 1, value: nearest(BURSTS, burst), 'aria-valuetext': together(), 'aria-describedby': `${of}-h`, input: () => { burst = BURSTS[Number(mean.value)]!; update() } })
    const rows = [h('div', { class: 'row' }, h('label', { for: id }, 'Loss'), share_out, lost, h('small', { id: `${id}-h` }, 'share of the packets, each way'))]
    if (bursts) rows.push(h('div', { class: 'row' }, h('label', { for: of }, 'Lost packets come'), burst_out, mean, h('small', { id: `${of}-h` }, 'at random, or in bursts of this mean length, which flags write as ', h('button', { type: 'button', class: 'term', 'data-term': 'ge:' }, 'ge:…'))))
    return rows
  }

  private seeds(): HTMLElement {
    const choice = this.choice()
    const runs = choice.get('runs') ?? '100'
    const group = h('div', { class: 'segments', role: 'group', 'aria-label': 'Page loads of each contestant' })
    for (const count of ['1', '10', '30', '100']) {
      group.append(h('button', { type: 'button', id: `runs-${count}`, 'aria-pressed': String(runs === count), click: () => { choice.set('runs', count); this.changed(true) } }, count))
    }
    return h('div', { class: 'row inline' }, h('span', {}, 'Loads of each', h('span', { class: 'long' }, ' contestant')), group)
  }
}
