// The glossary, which the build takes from the documentation. A term in a text is a button that opens its entry.

import { at, h } from './dom'
import type { Tables } from './tables'

interface Entry { term: string; text: string; section: string }

const entries: Entry[] = JSON.parse(at('glossary-data').textContent ?? '[]')

/** The terms that are marked in texts. Common words have entries, but are not marked. */
const MARKED = ['head-of-line blocking', 'congestion window', 'retransmission timer', 'slow start', 'fast retransmission', 'handshake', 'blocked', 'recovery', 'stalled', 'seed', 'median', 'interval', 'tie', 'contestant', 'layer', 'bdp', '0-RTT', 'ge:']

/** The names of an entry: its term may have several, and a short form in brackets. */
const names = (entry: Entry): string[] => entry.term.split(/, | \/ | \(|\)/)

const find = (term: string): Entry | undefined =>
  entries.find((entry) => entry.term === term) ?? entries.find((entry) => names(entry).includes(term))

/** Adds the names of contestants that the documentation does not explain. */
export function add({ names: standard, transports }: Tables): void {
  const own = [...standard.map(([name, spec]) => [name, `A contestant: short for ${spec}.`]), ...transports.map(({ name }) => [name, 'A contestant: this transport in the clear, unless its settings say otherwise.'])]
  for (const [term, text] of own) if (!find(term!)) entries.push({ term: term!, text: text!, section: '' })
}

/** Returns a text as nodes, in which each known term is a button the first time. */
export function marked(text: string): Node[] {
  const terms = MARKED.filter((term) => find(term))
  const seen = new Set<string>()
  const pattern = new RegExp(`\\b(${terms.map((term) => term.replace(/[-/]/g, '\\$&')).join('|')})\\b`, 'g')
  const nodes: Node[] = []
  let from = 0
  for (const found of text.matchAll(pattern)) {
    const term = found[0]
    if (seen.has(term)) continue
    seen.add(term)
    nodes.push(document.createTextNode(text.slice(from, found.index)), h('button', { type: 'button', class: 'term', 'data-term': term }, term))
    from = found.index + term.length
  }
  nodes.push(document.createTextNode(text.slice(from)))
  return nodes
}

/** Opens the glossary at a term. */
export function open(term: string): void {
  const dialog = at<HTMLDialogElement>('glossary')
  const list = h('dl', { tabindex: '0', 'aria-label': 'Terms' })
  const search = h('input', { type: 'text', role: 'searchbox', placeholder: 'Search terms', 'aria-label': 'Search terms', value: term === '' ? '' : term, input: () => show() })
  const show = (): void => {
    const word = search.value.trim().toLowerCase()
    const score = (entry: Entry): number => {
      const [whole, all] = [entry.term.toLowerCase(), names(entry).map((name) => name.toLowerCase())]
      return whole === word ? 3 : all.includes(word) ? 2 : whole.includes(word) ? 1 : entry.text.toLowerCase().includes(word) ? 0 : -1
    }
    const found = entries.map((entry) => ({ entry, score: score(entry) })).filter(({ score }) => score >= 0)
    found.sort((a, b) => b.score - a.score)
    list.replaceChildren(...found.map(({ entry }) => h('div', {}, h('dt', {}, entry.term), h('dd', {}, entry.text))))
    if (found.length === 0) list.replaceChildren(h('div', {}, h('dd', {}, 'No term has this word.')))
  }
  dialog.replaceChildren(h('header', {}, h('h2', { id: 'glossary-title' }, 'Glossary'), h('button', { type: 'button', 'aria-label': 'Close', class: 'icon', click: () => dialog.close() }, '×'), search), list)
  show()
  dialog.showModal()
  search.focus()
}

/** Opens entries when their terms are pressed. */
export function listen(): void {
  document.addEventListener('click', (event) => {
    const term = (event.target as Element).closest?.('[data-term]')
    if (term instanceof HTMLElement) open(term.dataset['term'] ?? '')
  })
}
