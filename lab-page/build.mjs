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
  for (const block of text.split(/\n(?=- \*\*|## )/)) {
    const heading = /^## (.*)/.exec(block)
    const entry = /^- \*\*(.+?)\*\*:?\s*([\s\S]*?)(?:\n\n|$)/.exec(block)
    if (heading) section = heading[1]
    else if (entry) entries.push({ term: plain(entry[1]), text: plain(entry[2]), section })
  }
  if (entries.length < 30) throw new Error(`the glossary has only ${entries.length} entries: its form has changed`)
  return entries
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

/** Returns bytes as text: four bytes are five characters, from # to x without <. The first word is the number of bytes. */
function encoded(bytes) {
  const words = Buffer.alloc(4 + Math.ceil(bytes.length / 4) * 4)
  words.writeUInt32BE(bytes.length)
  bytes.copy(words, 4)
  const text = Buffer.alloc((words.length / 4) * 5)
  for (let at = 0, to = 0; at < words.length; at += 4, to += 5) {
    let value = words.readUInt32BE(at)
    for (let place = 4; place >= 0; place--) {
      const digit = value % 85
      value = (value - digit) / 85
      text[to + place] = digit < 25 ? digit + 35 : digit + 36
    }
  }
  return text.toString('latin1')
}

const [page, style, script, worker, terms] = await Promise.all([
  readFile(here('src/page.html'), 'utf8'), readFile(here('src/style.css'), 'utf8'), bundle('main'), bundle('worker'), glossary(),
])
const wasm = stripped(await readFile(program))
const packed = gzipSync(wasm, { level: 9 })
const parts = {
  STYLE: style.replace(/\s*\n\s*/g, '\n'), GLOSSARY: JSON.stringify(terms).replaceAll('<', '\\u003c'),
  WORKER: worker, PROGRAM: encoded(packed), SCRIPT: script,
}
const html = page.replace(/\/\*([A-Z]+)\*\//g, (_, name) => parts[name])
if (html.length > MOST) throw new Error(`the page has ${html.length} bytes, and may have ${MOST}`)
await mkdir(here('dist'), { recursive: true })
await writeFile(here('dist/lab.html'), html)
console.log(`lab-page/dist/lab.html: ${html.length} bytes (WebAssembly ${wasm.length}, compressed ${packed.length})`)
