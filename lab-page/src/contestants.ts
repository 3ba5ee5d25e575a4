// The contestants, and the forms in which every setting can be searched and changed.

import { assign, colorOf, rename } from './colors'
import { at, h } from './dom'
import type { Choice } from './model'
import type { Setting, Tables } from './tables'

/** Splits `nick=http3:cc=bbr,iw=32` into name and settings. */
export function parse(text: string): { name: string; settings: [string, string][] } {
  const [name, ...rest] = text.split(':')
  const settings = rest.join(':').split(',').filter((part) => part !== '')
  return { name: name!, settings: settings.map((part): [string, string] => {
    const [key, ...value] = part.split('=')
    return [key!, value.join('=')]
  }) }
}

export function print(name: string, settings: [string, string][]): string {
  return settings.length === 0 ? name : `${name}:${settings.map(([key, value]) => `${key}=${value}`).join(',')}`
}

export class Contestants {
  constructor(private readonly tables: Tables, private readonly choice: () => Choice, private readonly changed: () => void) {}

  /** The contestants of a race whose plan names none. */
  private usual(): string[] {
    const choice = this.choice()
    const tables = this.tables.default_contestants
    if (choice.get('cleartext') === 'yes') return tables.cleartext
    if (choice.all('path').length > 1 || choice.get('handover')) return tables.several_paths
    return choice.get('messages') ? tables.messages : tables.usual
  }

  /** The contestants as typed. */
  list(): string[] {
    const given = this.choice().all('transport')
    return given.length > 0 ? given : [...this.usual()]
  }

  private set(list: string[]): void {
    const usual = list.join() === this.usual().join()
    this.choice().setAll('transport', usual ? [] : list)
    this.changed()
  }

  /** The transport that a name stands for. */
  private transport(name: string): Tables['transports'][number] | undefined {
    const bare = name.split('=').at(-1)!
    const spec = this.tables.names.find(([known]) => known === bare)?.[1] ?? bare
    return this.tables.transports.find((transport) => transport.name === parse(spec).name)
  }

  render(): void {
    const [list, choice] = [this.list(), this.choice()]
    assign(list)
    const items = list.map((text, i) => h('li', {},
      h('span', { class: `swatch c${colorOf(text)}`, 'aria-hidden': 'true' }),
      h('button', { type: 'button', class: 'name', id: `contestant-${i}`, title: 'Change its settings', click: () => this.edit(i) }, text),
      h('button', { type: 'button', class: 'icon', 'aria-label': `Remove ${text}`, disabled: list.length < 2, click: () => this.set(list.filter((_, k) => k !== i)) }, '×')))
    const select = h('select', { id: 'add', 'aria-label': 'Add a contestant', change: () => { if (select.value) this.set([...list, select.value]) } },
      h('option', { value: '' }, 'Add a contestant …'))
    const fits = (name: string): boolean => !choice.get('messages') || this.transport(name)?.messages !== false
    const named = h('optgroup', { label: 'names' })
    for (const [name, spec] of this.tables.names) if (!list.includes(name) && fits(name)) named.append(h('option', { value: name }, `${name} (${spec})`))
    const bare = h('optgroup', { label: 'transports in the clear' })
    for (const { name } of this.tables.transports) if (!list.includes(name) && name !== 'quic' && fits(name)) bare.append(h('option', { value: name }, name))
    select.append(named, bare)
    // The contestants of a race that names none are one click away.
    const absent = this.usual().filter((name) => !list.includes(name) && fits(name))
    const add = absent.map((name) => h('button', { type: 'button', id: `add-${name}`, click: () => this.set([...list, name]) }, `Add ${name}`))
    at('contestants').replaceChildren(h('ul', { class: 'contestants' }, ...items), h('div', { class: 'buttons' }, ...add), select)
  }

  /** Opens the form of a contestant's settings. */
  edit(index: number): void {
    const list = this.list()
    const { name, settings } = parse(list[index]!)
    const transport = this.transport(name)
    if (!transport) return
    const values = new Map(settings)
    const spec = this.tables.names.find(([known]) => known === name.split('=').at(-1))?.[1]
    const fixed = new Map(spec ? parse(spec).settings : [])
    const rows = transport.settings.map((setting) => settingRow({ ...setting, value: fixed.get(setting.key) ?? setting.value }, values.get(setting.key) ?? '', (value) => {
      if (value === '') values.delete(setting.key)
      else values.set(setting.key, value)
    }))
    openForm(`Settings of ${list[index]}`, `Each setting of ${transport.name}. An empty field keeps the value in grey. Profiles: ${transport.profiles.join(', ')}.`, rows, () => {
      const after = print(name, [...values])
      rename(list[index]!, after)
      this.set(list.map((text, i) => (i === index ? after : text)))
    })
  }

  /** Opens the form of all other keys of the plan. */
  plan(): void {
    const choice = this.choice()
    const values = new Map<string, string>()
    const rows = this.tables.keys.filter(({ name }) => !['transport', 'also'].includes(name)).map((key) => {
      const given = choice.all(key.name)
      return settingRow({ key: key.name, value: key.value, help: key.help, source: key.group }, given.join('\n'), (value) => values.set(key.name, value), given.length > 1 || ['path', 'fail'].includes(key.name))
    })
    openForm('All settings of the race', 'Each flag of the command line. Of a flag that may be given several times, each line is one.', rows, () => {
      for (const [name, value] of values) choice.setAll(name, value.split('\n').map((line) => line.trim()).filter((line) => line !== ''))
      this.changed()
    })
  }
}

interface SettingRow { element: HTMLElement; text: string; given: boolean }

function settingRow(setting: Setting, value: string, set: (value: string) => void, lines = false): SettingRow {
  const id = `k-${setting.key}-${Math.random().toString(36).slice(2, 7)}`
  const listen = (event: Event): void => set((event.target as HTMLInputElement).value.trim())
  const field = lines
    ? h('textarea', { id, rows: 2, placeholder: setting.value, input: listen }, value)
    : h('input', { id, type: 'text', placeholder: setting.value, value, autocomplete: 'off', spellcheck: 'false', input: listen })
  const element = h('div', { class: 'setting' }, h('label', { for: id }, setting.key), field,
    h('p', {}, setting.help, setting.source ? h('small', {}, ` ${setting.source}`) : null))
  return { element, text: `${setting.key} ${setting.help}`.toLowerCase(), given: value !== '' }
}

function openForm(title: string, about: string, rows: SettingRow[], done: () => void): void {
  const dialog = at<HTMLDialogElement>('settings')
  const count = h('p', { class: 'note', role: 'status' })
  const body = h('div', { class: 'settings-list', tabindex: '0', role: 'region', 'aria-label': 'Settings' }, ...rows.sort((a, b) => Number(b.given) - Number(a.given)).map((row) => row.element))
  const find = h('input', { type: 'text', role: 'searchbox', id: 'find', placeholder: 'Search names and help', 'aria-label': 'Search settings', input: () => show(), keydown: (event) => { if ((event as KeyboardEvent).key === 'Enter') event.preventDefault() } })
  const show = (): void => {
    const words = find.value.toLowerCase().split(/\s+/).filter((word) => word !== '')
    let shown = 0
    for (const row of rows) {
      const is = words.every((word) => row.text.includes(word))
      row.element.hidden = !is
      shown += Number(is)
    }
    count.textContent = shown === rows.length ? `${rows.length} settings` : `${shown} of ${rows.length} settings`
  }
  const form = h('form', { method: 'dialog', submit: () => done() },
    h('header', {}, h('h2', { id: 'settings-title' }, title), h('p', { class: 'note' }, about), find, count),
    body,
    h('footer', {}, h('button', { type: 'button', click: () => dialog.close() }, 'Cancel'), h('button', { type: 'submit', class: 'primary' }, 'Race with these')))
  dialog.replaceChildren(form)
  show()
  dialog.showModal()
  find.focus()
}
