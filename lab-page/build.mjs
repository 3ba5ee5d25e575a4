// Puts program, scripts, style and glossary into one HTML file: `node build.mjs PROGRAM.wasm`.

import { build } from 'esbuild'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'

/** The largest page, in bytes. */
const MOST = 6e6

const here = (path) => new URL(path, import.meta.url)
const [program] = process.argv.slice(2)

async function bundle(entry) {
  const result = await build({
    entryPoints: [here(`src/${entry}.ts`).pathname], bundle: true, write: false, format: 'iife', target: 'es2022',
    minify: true, charset: 'utf8', legalComments: 'none', logLevel: 'warning',
  })
  // The text is inside an element of HTML.
  return result.outputFiles[0].text.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--')
}

/** Returns the entries of the documentation's glossary. */
async function glossary() {
  const text = await readFile(here('../docs/guide/glossary.md'), 'utf8')
  const plain = (markdown) => markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '').replace(/\s+/g, ' ').trim()
  const entries = []
  let section = ''
  for (const block of text.split(/\n(?=- \*\*|- `|## )/)) {
    const heading = /^## (.*)/.exec(block)
    const entry = /^- \*\*(.+?)\*\*:?\s*([\s\S]*?)(?:\n\n|$)/.exec(block)
    // The parts of a response time have names in code, some of which are also names of other terms.
    const part = /^- `(\w+)`:\s*([\s\S]*?)(?:\n\n|$)/.exec(block)
    if (heading) section = heading[1]
    else if (part) entries.push({ term: `${part[1]} (part of a response time)`, text: `Waiting for ${plain(part[2])}.`, section })
    else if (entry) entries.push({ term: plain(entry[1]), text: plain(entry[2]), section })
  }
  if (entries.length < 30) throw new Error(`the glossary has only ${entries.length} entries: its form has changed`)
  return entries
}

/** The studies of papers: the table whose plan the page has, and the published tables. */
const STUDIES = {
  'rajamani-2002': ['slide-24', ['slide-24']], 'osterdahl-2005': ['every-tenth', ['every-tenth', 'no-drops']],
  'ha-2005': ['input-size', ['input-size']], 'sasikala-2008': ['table-2', ['table-2']], 'alternative-transport': ['trace', ['packets']],
}

/** Returns the rows of a table as objects. Its first line that is no comment has the names of the columns. */
function rows(csv) {
  const [names, ...lines] = csv.split('\n').filter((line) => line !== '' && !line.startsWith('#')).map((line) => line.split(','))
  return lines.map((line) => Object.fromEntries(names.map((name, i) => [name, line[i]])))
}

/** Returns the studies of the five papers, for the figures of the page. */
async function studies() {
  const entries = Object.entries(STUDIES).map(async ([name, [table, published]]) => {
    const read = (file) => readFile(here(`../studies/${name}/${file}`), 'utf8')
    const about = await read('study.toml')
    const field = (key) => new RegExp(`^${key} = "(.*)"$`, 'm').exec(about)?.[1] ?? ''
    const plan = (await read(`${table}.toml`)).split('\n[plan]\n')[1]
    if (!plan || !field('source')) throw new Error(`studies/${name}: its form has changed`)
    const tables = await Promise.all(published.map(async (file) => [file, rows(await read(`${file}.csv`))]))
    return [name, { title: field('title'), source: field('source'), question: field('question'), plan, published: Object.fromEntries(tables) }]
  })
  return Object.fromEntries(await Promise.all(entries))
}

/** Returns a WebAssembly module without the sections that only debuggers read. */
function stripped(bytes) {
  const number = (at) => {
    let value = 0, shift = 0, byte
    do {
      byte = bytes[at++]
      value += (byte & 127) * 2 ** shift
      shift += 7
    } while (byte & 128)
    return [value, at]
  }
  const kept = [bytes.subarray(0, 8)]
  for (let at = 8; at < bytes.length;) {
    const [size, begin] = number(at + 1)
    if (bytes[at] !== 0) kept.push(bytes.subarray(at, begin + size))
    at = begin + size
  }
  return Buffer.concat(kept)
}

/**
 * Returns bytes as text of seven bits a character. HTML changes NUL and carriage returns, and `<` may begin markup: these
 * three have the eighth bit set, which the page ignores.
 */
function encoded(bytes) {
  const text = Buffer.alloc(Math.ceil((bytes.length * 8) / 7))
  for (let at = 0, to = 0, bits = 0, value = 0; to < text.length; to++) {
    if (bits < 7) {
      value = ((value << 8) | (bytes[at++] ?? 0)) & 0x7fff
      bits += 8
    }
    bits -= 7
    const symbol = (value >> bits) & 127
    text[to] = [0, 13, 60].includes(symbol) ? symbol | 128 : symbol
  }
  return text.toString('latin1')
}

const [page, style, script, worker, terms, papers] = await Promise.all([
  readFile(here('src/page.html'), 'utf8'), readFile(here('src/style.css'), 'utf8'), bundle('main'), bundle('worker'), glossary(), studies(),
])
const wasm = stripped(await readFile(program))
const packed = gzipSync(wasm, { level: 9 })
const data = (value) => JSON.stringify(value).replaceAll('<', '\\u003c')
const parts = {
  STYLE: style.replace(/\s*\n\s*/g, '\n'), GLOSSARY: data(terms), STUDIES: data(papers),
  WORKER: worker, PROGRAM: encoded(packed), SCRIPT: script,
}
const html = page.replace(/\/\*([A-Z]+)\*\//g, (_, name) => parts[name])
const size = Buffer.byteLength(html)
if (size > MOST) throw new Error(`the page has ${size} bytes, and may have ${MOST}`)
await mkdir(here('dist'), { recursive: true })
await writeFile(here('dist/lab.html'), html)
console.log(`lab-page/dist/lab.html: ${size} bytes (WebAssembly ${wasm.length}, compressed ${packed.length})`)
