// Checks that random plans give the same files in the page, in Chromium, as on the command line. Files are compared as in
// `equal.mjs`.
//
//   node lab-page/test/equal-browser.mjs ANABRANCH [PLANS [SEED]]
//
// The plans are entered as a link and as a HAR that is dropped, and the files are those that the page offers.

import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'
import { compare, count, HAR, plan, seedPlans } from './plans.mjs'

const [anabranch, wanted = '20', seed = '2'] = process.argv.slice(2)
const pageFile = new URL('../dist/lab.html', import.meta.url)
const WAIT = { timeout: 300_000 }
const scratch = mkdtempSync(join(tmpdir(), 'anabranch-lab-'))
const own = join(scratch, 'own.har')
copyFileSync(HAR, own)
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, protocolTimeout: 600_000,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
})

/** Races a plan in a new page, and returns its error, or its files. */
async function raced(flags) {
  const page = await browser.newPage()
  // The page offers a file as a blob. The blobs are kept.
  await page.evaluateOnNewDocument(() => {
    globalThis.blobs = []
    const create = URL.createObjectURL.bind(URL)
    URL.createObjectURL = (blob) => { globalThis.blobs.push(blob); return create(blob) }
    HTMLAnchorElement.prototype.click = () => {}
  })
  const isOwn = flags.some(([name, value]) => name === 'page' && value === 'own.har')
  const link = flags.map(([name, value]) => [name, isOwn && name === 'page' ? 'article' : value])
  await page.goto(`${pageFile.href}#${new URLSearchParams(link)}`)
  await page.waitForSelector('body[data-ready]', WAIT)
  if (isOwn) {
    await (await page.$('#har')).uploadFile(own)
    await page.waitForFunction(() => location.hash.includes('page=own.har'), WAIT)
  }
  const ended = await page.waitForFunction(() => {
    const error = document.querySelector('#error:not([hidden])')
    return error ? { error: error.textContent } : document.querySelector('#answer:not(.stale)[data-explained=true]') ? { points: Math.max(1, document.querySelectorAll('#points:not([hidden]) button').length) } : null
  }, WAIT).then((found) => found.jsonValue())
  if (ended.error !== undefined) return { page, ...ended, points: 1, names: [], contents: new Map() }
  await page.click(ended.points > 1 ? '#results' : '#captures')
  await page.waitForSelector('[data-file="results.json"]', WAIT)
  const files = await page.evaluate(async () => {
    const files = []
    for (const button of document.querySelectorAll('[data-file]')) {
      button.click()
      const bytes = new Uint8Array(await globalThis.blobs.at(-1).arrayBuffer())
      let text = ''
      for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192))
      files.push([button.dataset.file, btoa(text)])
    }
    return files
  })
  const contents = new Map(files.map(([name, text]) => [name, Buffer.from(text, 'base64')]))
  return { page, points: ended.points, names: [...contents.keys()], contents }
}

seedPlans(Number(seed))
try {
  for (let i = 0; i < Number(wanted); i++) {
    const flags = plan()
    const { page, contents, ...ours } = await raced(flags)
    compare(anabranch, flags, { ...ours, take: (name) => contents.get(name) })
    await page.close()
  }
} finally {
  await browser.close()
  rmSync(scratch, { recursive: true })
}
console.log(`equal in the browser: ${wanted} plans, ${count.files} files, ${count.refused} refused alike, ${count.rounded} fractions differ in the last digit`)
