// Uses the page as a person does, in Chromium: sizes, colour schemes, keyboard, HARs good and bad, history, files.
//
//   node lab-page/test/browser.mjs [SCREENSHOTS]
//
// Needs Debian's chromium. Prints the times of the first answers; on a busy machine they say little. Fails on an error
// in the console, a request, a finding of axe-core, or a shift of the layout without input.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRequire } from 'node:module'
import puppeteer from 'puppeteer-core'

const require = createRequire(import.meta.url)
const pageFile = new URL('../dist/lab.html', import.meta.url)
const har = new URL('../../crates/http/pages/article.har', import.meta.url).pathname
const screenshots = process.argv[2]
const scratch = mkdtempSync(join(tmpdir(), 'anabranch-lab-'))
if (screenshots) mkdirSync(screenshots, { recursive: true })

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, protocolTimeout: 600_000,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
})
const problems = []
const check = (is, line) => { if (!is) problems.push(line) }
const WAIT = { timeout: 300_000 }

async function open(fragment, { width = 1280, height = 900, dark = false, calm = false, slow = 1, prepare, given, until = '#answer[data-seeds]' } = {}) {
  const page = await browser.newPage()
  page.on('console', (message) => { if (['error', 'warn'].includes(message.type())) problems.push(`console: ${message.text()}`) })
  page.on('pageerror', (error) => problems.push(`error: ${error.message}`))
  page.on('request', (request) => { if (!/^(file|blob|data):/.test(request.url())) problems.push(`request: ${request.url()}`) })
  await page.setViewport({ width, height })
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }, { name: 'prefers-reduced-motion', value: calm ? 'reduce' : 'no-preference' }])
  await page.evaluateOnNewDocument(() => {
    globalThis.shift = 0
    globalThis.moved = []
    const name = (node) => (node instanceof Element ? `${node.tagName.toLowerCase()}${node.id ? `#${node.id}` : ''}` : node?.parentElement ? `text in ${name(node.parentElement)}` : 'nothing')
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        if (entry.hadRecentInput) continue
        globalThis.shift += entry.value
        const sources = entry.sources.map(({ node, previousRect, currentRect }) => `${name(node)} from ${Math.round(previousRect.y)} to ${Math.round(currentRect.y)}`)
        globalThis.moved.push(`${entry.value.toFixed(3)} at ${(entry.startTime / 1000).toFixed(1)} s: ${sources.join(', ')}`)
      }
    }).observe({ type: 'layout-shift', buffered: true })
  })
  if (slow > 1) await page.emulateCPUThrottling(slow)
  if (prepare) await page.evaluateOnNewDocument(prepare, given)
  const began = performance.now()
  await page.goto(pageFile.href + fragment)
  await page.waitForSelector('body[data-ready]', WAIT)
  const ready = performance.now() - began
  await page.waitForSelector(until, WAIT)
  return { page, ready, first: performance.now() - began }
}

const explained = (page) => page.waitForFunction(() => document.querySelector('#answer:not(.stale)[data-explained=true]') !== null, WAIT)
const settled = (page) => page.waitForFunction(() => document.querySelector('#answer:not(.stale)[data-explained=true]') !== null || document.querySelector('#error:not([hidden])') !== null, WAIT)
const text = (page, selector) => page.$eval(selector, (element) => element.textContent)
const picture = async (page, name) => { if (screenshots) await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true }) }

/** What the user sees first stays where it is while answers arrive. */
async function steady(page, name) {
  const { shift, moved } = await page.evaluate(() => ({ shift: globalThis.shift, moved: globalThis.moved }))
  if (shift > 0.01) console.log(`${name}: the layout shifts by ${shift.toFixed(3)}: ${moved.join('; ')}`)
  check(shift < 0.1, `${name}: the layout shifts by ${shift.toFixed(2)}: ${moved.join('; ')}`)
}

async function accessible(page, name) {
  await page.evaluate(readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8'))
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
  for (const finding of found.violations) problems.push(`axe (${name}): ${finding.id}: ${finding.nodes.map((node) => node.target.join(' ')).slice(0, 3).join('; ')}`)
}

/** The first answer, the whole one, and a slider, with the keyboard. */
async function main() {
  const { page, ready, first } = await open('#page=article&rate=10mbit&rtt=80ms&loss=1%25&runs=10')
  await explained(page)
  console.log(`start ${(ready / 1000).toFixed(1)} s, first answer ${(first / 1000).toFixed(1)} s, ten loads with reasons ${await text(page, '#status')}`)
  await steady(page, 'main')
  check((await page.$$('#answer .lead')).length >= 3, 'the answer has fewer than four lines')
  await page.focus('#s-rtt')
  const before = await page.evaluate(() => location.hash)
  const moved = performance.now()
  await page.keyboard.press('ArrowRight')
  await page.waitForFunction(() => document.querySelector('#answer').classList.contains('stale'), WAIT)
  await page.waitForFunction(() => !document.querySelector('#answer').classList.contains('stale'), WAIT)
  console.log(`answer of a slider, one load: ${((performance.now() - moved) / 1000).toFixed(2)} s`)
  check(before !== await page.evaluate(() => location.hash), 'the slider does not change the address')
  check(await page.evaluate(() => document.activeElement?.id === 's-rtt'), 'the slider loses the focus')
  await explained(page)
  await page.click('#draw')
  await page.waitForSelector('#waterfalls svg', WAIT)
  check((await page.$$('.lanes canvas')).length === 4, 'not every contestant has a lane')
  await page.click('#play')
  await new Promise((resolve) => setTimeout(resolve, 700))
  await page.click('#play')
  check(!(await text(page, '.clock')).startsWith('0.0'), 'the packets do not move')
  await picture(page, 'wide-light')
  for (const [part, meaning] of [['connect', /handshake of the transport/], ['queue', /free connection or stream/], ['blocked', /head-of-line blocking/]]) {
    await page.$$eval('#waterfalls .legend .term', (all, part) => all.find((one) => one.textContent === part).click(), part)
    await page.waitForSelector('#glossary[open]')
    check(meaning.test(await text(page, '#glossary dl > div:first-child')), `the legend opens ${await text(page, '#glossary dl > div:first-child')}`)
    await page.keyboard.press('Escape')
  }
  await page.click('[data-term="ge:"]')
  await page.waitForSelector('#glossary[open]')
  check(/begins a burst of losses/.test(await text(page, '#glossary dl > div:first-child')), 'losses in bursts have no entry')
  await page.keyboard.press('Escape')
  await accessible(page, 'wide, light')
  await page.click('#captures')
  await page.waitForSelector('[data-file="results.json"]', WAIT)
  const files = await page.$$eval('[data-file]', (all) => all.map((one) => one.textContent))
  check(['report.html', 'results.json'].every((name) => files.includes(name)) && files.filter((name) => name.endsWith('.pcapng.gz')).length >= 4, `the files are ${files.join(', ')}`)
  await page.close()
}

/** The looks: narrow, dark, calm. */
async function looks() {
  for (const [name, how] of [['narrow-light', { width: 390, height: 844 }], ['wide-dark', { dark: true, calm: true }], ['narrow-dark', { width: 390, height: 844, dark: true, slow: 4 }]]) {
    const { page } = await open('#objects=12x30kB&rate=10mbit&rtt=80ms&loss=0,1%25&runs=3', how)
    await explained(page)
    await steady(page, name)
    await page.click('#draw')
    await page.waitForSelector('#waterfalls svg', WAIT)
    check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: the page is wider than the screen`)
    await picture(page, name)
    await accessible(page, name)
    await page.close()
  }
}

/** Pages of the user's own, and mistakes. The page goes on after each. */
async function input() {
  const { page } = await open('#page=article&runs=1&loss=0')
  await explained(page)
  const upload = async (name, content) => {
    const path = join(scratch, name)
    writeFileSync(path, content)
    await (await page.$('#har')).uploadFile(path)
    await page.waitForFunction((name) => decodeURIComponent(location.hash).includes(name), WAIT, name)
    await settled(page)
  }
  const error = () => page.$eval('#error', (element) => (element.hidden ? '' : element.textContent))
  await upload('mine.har', readFileSync(har))
  check(await error() === '' && (await text(page, '#command')).includes('--page mine.har'), `a valid HAR is refused: ${await error()}`)
  await upload('broken.har', '{"log": {"entries": [')
  check(/broken\.har/.test(await error()) && !/\n/.test(await error()), `a broken HAR gives: ${await error()}`)
  await picture(page, 'broken')
  await upload('empty.har', '')
  check(await error() !== '', 'an empty HAR gives no line')
  const entry = JSON.parse(readFileSync(har, 'utf8')).log.entries[0]
  const large = { log: { ...JSON.parse(readFileSync(har, 'utf8')).log, comment: 'x'.repeat(50e6) } }
  await upload('large.har', JSON.stringify(large))
  check(await error() === '' && entry !== undefined, `a HAR of 50 MB gives: ${await error()}`)
  const memory = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0)
  check(memory < 300e6, `the page keeps ${memory} bytes`)
  for (const [fragment, words] of [['#page=nothing.har', /nothing\.har/], ['#rate=1bit&objects=1000000x1kB&runs=1', /objects/], ['#rate=fast', /rate/], ['#page=article&transport=http4', /http4/]]) {
    const before = await error()
    await page.evaluate((fragment) => { location.hash = fragment }, fragment)
    await page.waitForFunction((before) => {
      const line = document.querySelector('#error')
      return !line.hidden && line.textContent !== before
    }, WAIT, before)
    console.log(`${fragment}: ${await error()}`)
    check(words.test(await error()) && !/invariant|failed:/.test(await error()), `${fragment} gives: ${await error()}`)
  }
  await page.goBack()
  await page.waitForFunction(() => /rate=fast/.test(location.hash), WAIT)
  await page.evaluate(() => { location.hash = '#page=article&runs=1&loss=0' })
  await page.waitForFunction(() => document.querySelector('#error').hidden, WAIT)
  await explained(page)
  check(await error() === '', `the page does not go on: ${await error()}`)
  await page.close()
}

/** The forms and the glossary, with the keyboard alone. */
async function forms() {
  const { page } = await open('#page=article&runs=1&loss=0')
  await explained(page)
  await page.focus('#contestant-2')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#settings[open]')
  await page.keyboard.type('congestion')
  await picture(page, 'settings')
  await accessible(page, 'settings')
  const field = await page.$('#settings .setting:not([hidden]) input')
  check(field !== null, 'the search finds no setting')
  await page.evaluate(() => {
    const label = [...document.querySelectorAll('#settings label')].find((one) => one.textContent === 'cc')
    label.parentElement.querySelector('input').focus()
  })
  await page.keyboard.type('bbr')
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => location.hash.includes('http3:cc=bbr'), WAIT)
  await explained(page)
  await page.focus('#open-glossary')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#glossary[open]')
  await page.keyboard.type('congestion window')
  await picture(page, 'glossary')
  await accessible(page, 'glossary')
  await page.keyboard.press('Escape')
  check(await page.$('#glossary[open]') === null, 'the glossary does not close')
  await page.close()
}

/** Every guided experiment gives an answer. */
async function guides() {
  const { page } = await open('#page=article&runs=1&loss=0')
  const count = await page.$$eval('#guides .guide', (all) => { all.forEach((one) => { one.open = true }); return all.length })
  check(count === 5, `there are ${count} experiments`)
  await picture(page, 'guides')
  const buttons = (await page.$$('#guides .race')).length
  for (let i = 0; i < buttons; i++) {
    await page.$$eval('#guides .race', (all, i) => all[i].click(), i)
    await settled(page)
    check(await page.$eval('#error', (element) => element.hidden), `experiment ${i}: ${await text(page, '#error')}`)
    const answer = await text(page, '#answer .result')
    console.log(`experiment ${i}: ${answer}`)
    const shown = await page.$$eval('#guides .step-answer', (all) => all.map((one) => one.textContent))
    check(shown[i].includes(answer) && shown.filter((one) => one !== '').length === 1, `the answers in the cards are ${shown.join(' | ')}`)
    check(!/--[a-z]/.test(await text(page, '#answer')), `the answer names flags: ${await text(page, '#answer')}`)
    if (await page.evaluate(() => location.hash.includes('messages='))) {
      check(await page.$('#distribution .limit') === null, 'delays of messages have the limit of a page')
      check(!(await page.$$eval('#add option', (all) => all.map((one) => one.value))).includes('http3'), 'http3 is offered for messages')
    }
  }
  await page.close()
}

/** A button of an experiment stays under the finger, and the packets follow where the text asks to look at them. */
async function looking() {
  const { page } = await open('#page=article&runs=1&loss=0')
  await explained(page)
  await page.click('#to-guides')
  await page.$eval('#guides .guide', (one) => { one.open = true })
  const race = (await page.$$('#guides .guide:first-child .race')).at(-1)
  await race.scrollIntoView()
  const before = await race.evaluate((one) => one.getBoundingClientRect().top)
  await race.click()
  await explained(page)
  await curved(page)
  const after = await race.evaluate((one) => one.getBoundingClientRect().top)
  check(Math.abs(after - before) < 2, `the button of an experiment moves by ${after - before} px`)
  await page.click('#guides .guide:first-child .look')
  await page.waitForSelector('#waterfalls svg', WAIT)
  check(await page.$eval('#wire', (one) => Math.abs(one.getBoundingClientRect().top) < innerHeight / 2), 'the packets are not in view')
  const parts = await page.$eval('#waterfalls .legend', (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent)))
  check(parts[0].join() === 'waiting for,http2,http3' && /m?s$/.test(parts.find(([name]) => name === 'blocked')?.[1] ?? ''), `the sums of the parts are ${JSON.stringify(parts)}`)
  const detail = () => text(page, '#waterfalls .detail')
  await page.focus('#waterfalls .chart')
  const first = await detail()
  check(/connect .* m?s/.test(first), `the first object has: ${first}`)
  await page.keyboard.press('ArrowDown')
  check(await detail() !== first, 'the arrow key chooses no other object')
  const box = await page.$eval('#waterfalls .chart svg', (svg) => { svg.scrollIntoView({ block: 'center' }); const { left, top } = svg.getBoundingClientRect(); return { left, top } })
  await page.mouse.move(box.left + 200, box.top + 3)
  check(await detail() === first, `pointing at the first object shows ${await detail()}`)
  await page.mouse.click(box.left + 200, box.top + 45)
  check(await detail() !== first, 'a press shows no other object')
  await picture(page, 'looking')
  await accessible(page, 'looking')
  await page.close()
}

/** What the page begins with, what the contestants are compared with, and what names and presets mean. */
async function first() {
  const { page } = await open('', { width: 390, height: 844 })
  await explained(page)
  const names = (rows) => page.$$eval(rows, (all) => all.map((one) => one.textContent))
  check((await names('.contestants .name')).join() === 'http1,http2,http3', `the page begins with ${await names('.contestants .name')}`)
  check(await page.$eval('#runs-30', (one) => one.getBoundingClientRect().bottom < innerHeight), 'the number of loads is not where the answer stands')
  await page.waitForFunction(() => /median of 30 loads/.test(document.querySelector('#curve').textContent), WAIT)
  await steady(page, 'first')
  await accessible(page, 'first')
  await page.click('#runs-10')
  await page.waitForFunction(() => location.hash.includes('runs=10'), WAIT)
  await curved(page)
  await page.select('#rival', 'http2')
  const compared = await page.$$eval('#compare tr', (all) => all.map((row) => [...row.cells].slice(0, 5).map((cell) => cell.textContent)))
  check(compared[0][2] === 'against http2' && compared[2][2] === '–' && compared[3][3] !== '' && /%\)$/.test(compared[3][4]), `the comparison is ${JSON.stringify(compared)}`)
  for (const name of ['http1', 'http2', 'http3']) {
    await page.$$eval('#compare .term', (all, name) => all.find((one) => one.textContent === name).click(), name)
    await page.waitForSelector('#glossary[open]')
    check(/[Cc]ontestant/.test(await text(page, '#glossary dl > div:first-child')), `${name} has the entry ${await text(page, '#glossary dl > div:first-child')}`)
    await page.keyboard.press('Escape')
  }
  await page.click('#add-sctp-dtls')
  await page.waitForFunction(() => !location.hash.includes('transport='), WAIT)
  await explained(page)
  check((await names('.contestants .name')).join() === 'http1,http2,http3,sctp-dtls', 'SCTP is not one click away')
  for (const term of [...await names('#add option'), 'layer', 'preset', 'trace'].slice(1)) {
    await page.click('#open-glossary')
    await page.type('#glossary input', term.split(' (')[0])
    check(!/No term/.test(await text(page, '#glossary dl')), `the glossary has no entry for ${term}`)
    await page.keyboard.press('Escape')
  }
  await page.evaluate(() => { location.hash = '#page=article&preset=3g&runs=1' })
  await page.waitForFunction(() => document.querySelector('#preset').value === '3g', WAIT)
  check(/slow mobile.*750.kbit\/s, 250.ms, 1.5.% lost/.test((await names('#preset option')).find((one) => one.startsWith('3g'))), `the presets are ${await names('#preset option')}`)
  await curved(page)
  check(/in bursts of 2 in the mean/.test(await text(page, '#curve')), 'the curve of a preset has other losses')
  await page.close()
}

const curved = (page) => page.waitForFunction(() => /median of 10 loads/.test(document.querySelector('#curve:not(.stale)')?.textContent ?? ''), WAIT)

/** The curve over loss, which sets the loss. */
async function curve() {
  const { page } = await open('#page=article&rate=10mbit&rtt=80ms&loss=1%25&runs=1')
  const began = performance.now()
  await curved(page)
  console.log(`curve over loss: ${((performance.now() - began) / 1000).toFixed(1)} s`)
  await steady(page, 'curve')
  check((await page.$$('#curve polyline')).length === 4, 'not every contestant has a line')
  check(/Fastest, by the share of lost packets: .* 0.% /s.test(await text(page, '#curve')), `the curve says ${await text(page, '#curve')}`)
  await page.$eval('#curve details', (one) => { one.open = true })
  check((await page.$$('#curve tbody tr')).length === 8, 'the table of the curve has not eight rows')
  await picture(page, 'curve')
  await accessible(page, 'curve')
  const box = await page.$eval('#curve svg', (svg) => { const { left, top, width, height } = svg.getBoundingClientRect(); return { left, top: top + scrollY, width, height } })
  await page.evaluate((top) => scrollTo(0, top - 100), box.top)
  const top = await page.$eval('#curve svg', (svg) => svg.getBoundingClientRect().top)
  await page.mouse.click(box.left + box.width - 20, top + box.height / 2)
  await page.waitForFunction(() => location.hash.includes('loss=5%25'), WAIT)
  await explained(page)
  await curved(page)
  check(await page.$eval('#curve .limit', (mark) => Number(mark.getAttribute('x1')) > 300), 'the mark of the loss does not move')
  await page.$eval('#curve details', (one) => { one.open = true })
  await page.focus('#curve-0')
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => location.hash.includes('loss=0'), WAIT)
  check(await page.$('#curve svg') !== null, 'a change of the loss takes the curve away')
  await explained(page)
  // Another setting has another curve: the old one is gone at once, and its place is kept.
  const height = await page.$eval('#curve', (one) => one.offsetHeight)
  await page.focus('#s-rtt')
  await page.keyboard.press('ArrowRight')
  check(await page.$('#curve svg') === null, 'the curve of another round trip is still there')
  check(await page.$eval('#curve', (one) => one.offsetHeight) === height, 'the place of the curve is not kept')
  await explained(page)
  await curved(page)
  await page.evaluate(() => { location.hash = '#page=article&runs=1&loss=0,1%25' })
  await page.waitForFunction(() => /needs one network/.test(document.querySelector('#curve').textContent), WAIT)
  await page.close()
}

/** A contestant keeps its colour when another is removed, added or changed. */
async function colors() {
  const { page } = await open('#page=article&rate=10mbit&rtt=80ms&loss=1%25&runs=3&causes=off')
  const shown = () => page.evaluate(() => {
    const color = (element) => getComputedStyle(element).backgroundColor
    const of = (rows, name) => Object.fromEntries([...document.querySelectorAll(rows)].map((row) => [name(row), color(row.querySelector('.swatch'))]))
    return {
      form: of('.contestants li', (row) => row.querySelector('.name').textContent),
      times: of('#compare tbody tr', (row) => row.querySelector('th').textContent),
      curve: of('#curve .legend > span', (row) => row.textContent),
      packets: of('#motion figcaption', (row) => row.querySelector('b').textContent),
    }
  })
  const race = async (names) => {
    await page.waitForFunction((names) => document.querySelector('#answer:not(.stale)[data-explained=true]') !== null && [...document.querySelectorAll('#compare tbody th')].map((one) => one.textContent).join() === names, WAIT, names)
    await curved(page)
    await page.click('#draw')
    await page.waitForFunction((names) => [...document.querySelectorAll('#motion figcaption b')].map((one) => one.textContent).join() === names, WAIT, names)
    return shown()
  }
  const first = await race('http1,http2,http3,sctp-dtls')
  check(new Set(Object.values(first.form)).size === 4, 'two contestants have one color')
  await page.click('.contestants li:first-child .icon')
  const fewer = await race('http2,http3,sctp-dtls')
  for (const [place, colors] of Object.entries(fewer)) {
    check(Object.keys(colors).length === 3, `${place}: ${JSON.stringify(colors)}`)
    for (const [name, color] of Object.entries(colors)) check(color === first.form[name], `${place}: the color of ${name} changes from ${first.form[name]} to ${color}`)
  }
  await page.select('#add', 'six')
  const more = await race('http2,http3,sctp-dtls,six')
  check(new Set(Object.values(more.times)).size === 4 && more.times.http2 === first.form.http2, `with another contestant: ${JSON.stringify(more)}`)
  await page.focus('#contestant-1')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#settings[open]')
  await page.evaluate(() => [...document.querySelectorAll('#settings label')].find((one) => one.textContent === 'cc').parentElement.querySelector('input').focus())
  await page.keyboard.type('bbr')
  await page.keyboard.press('Enter')
  check(await page.$('#motion canvas') === null, 'the packets of another race are still there')
  const changed = await race('http2,http3:cc=bbr,sctp-dtls,six')
  check(changed.packets['http3:cc=bbr'] === first.form.http3, `with another setting: ${JSON.stringify(changed)}`)
  await page.close()
}

/** Changes are tried with few loads, and again with as many as the answer has. */
async function changes() {
  const { page } = await open('#objects=6x20kB&rate=10mbit&rtt=80ms&loss=1%25&runs=40&transport=tcp&transport=six')
  await page.evaluate(() => {
    globalThis.lines = []
    new MutationObserver(() => globalThis.lines.push(document.querySelector('#answer').textContent)).observe(document.querySelector('#answer'), { childList: true })
  })
  await explained(page)
  await page.waitForFunction(() => {
    const counts = [...document.querySelectorAll('#changes tbody td:last-child')].map((one) => one.textContent)
    return counts.length > 2 && counts.every((count) => count === '40' || count === '1')
  }, WAIT)
  check((await page.evaluate(() => globalThis.lines)).some((line) => /Tried with (8 to 25|25|8) loads of each contestant so far/.test(line)), 'the answer does not say that changes were tried with few loads')
  check(!/so far/.test(await text(page, '#answer')), `the answer still has ${await text(page, '#answer')}`)
  check(/^40 loads of each contestant, in/.test(await text(page, '#status')), `the status is ${await text(page, '#status')}`)
  await steady(page, 'changes')
  await picture(page, 'changes')
  await page.close()
}

/** Two paths, of which one fails. */
async function paths() {
  const { page } = await open('#page=article&rate=10mbit&rtt=80ms&loss=0&runs=1')
  await explained(page)
  await page.click('#paths-2')
  await page.waitForFunction(() => /path=rate=10mbit,rtt=80ms,loss=0&path=rate=10mbit,rtt=120ms/.test(location.hash), WAIT)
  await settled(page)
  check(/tcp.* path 1 only/.test(await text(page, '#warnings')), `the contestants of one path are: ${await text(page, '#warnings')}`)
  await page.select('#fails', '1 for')
  await page.waitForFunction(() => location.hash.includes('fail=path=1,at=2s,for=20s'), WAIT)
  await page.focus('#fail-at')
  for (let i = 0; i < 8; i++) await page.keyboard.press('ArrowLeft')
  await page.waitForFunction(() => /at=[0-9]+ms/.test(location.hash), WAIT)
  await page.focus('#path-2-rate')
  await page.keyboard.press('ArrowLeft')
  await page.waitForFunction(() => /path=rate=7mbit,rtt=120ms/.test(location.hash), WAIT)
  await page.waitForFunction(() => /--path rate=7mbit,rtt=120ms,loss=0 .*--fail path=1,at=\d+ms,for=20s/.test(document.querySelector('#command').textContent), WAIT)
  await settled(page)
  check(await page.$eval('#error', (element) => element.hidden), `two paths: ${await text(page, '#error')}`)
  await picture(page, 'paths')
  await accessible(page, 'paths')
  await page.click('#paths-1')
  await page.waitForFunction(() => !location.hash.includes('path=') && location.hash.includes('rate=10mbit'), WAIT)
  await settled(page)
  await page.close()
}

/** The figures of the papers move when an assumption is changed. */
async function papers() {
  const { page } = await open('#page=article&runs=1&loss=0')
  await explained(page)
  const studies = await page.$$eval('[data-paper]', (all) => all.map((one) => one.dataset.paper))
  check(studies.length === 5, `the papers are ${studies.join(', ')}`)
  for (const study of studies) {
    const done = () => page.waitForFunction((study) => document.querySelector(`[data-paper="${study}"]`).dataset.done === 'yes', WAIT, study)
    await page.$eval(`#paper-${study}`, (one) => { one.open = true })
    await done()
    console.log(`${study}: ${await text(page, `#paper-${study} [role=status]`)} ${(await page.$$eval(`#paper-${study} tbody tr`, (all) => all.map((row) => [...row.children].map((cell) => cell.textContent).join(' ')))).join(' | ')}`)
    const before = await page.$eval(`[data-paper="${study}"] svg`, (svg) => svg.outerHTML)
    await page.$eval(`#paper-${study} .segments button[aria-pressed=false]`, (button) => button.click())
    await done()
    check(before !== await page.$eval(`[data-paper="${study}"] svg`, (svg) => svg.outerHTML), `${study}: the figure does not move`)
  }
  await picture(page, 'papers')
  await accessible(page, 'papers')
  await page.close()
}

/**
 * A program that gets no more memory, and one that traps. The race of the plan with seven loads takes all memory of its
 * workers, and that with eight calls a function that is not there. Workers of a new page have little memory that is free.
 */
async function traps() {
  const prefix = `
    let memory, plan = ''
    const Instance = WebAssembly.Instance
    WebAssembly.Instance = function (module, imports) {
      const { exports } = new Instance(module, imports)
      memory = exports.memory
      const answer = () => {
        const run = /"do":"run"/.test(request)
        if (run && /"runs","7"/.test(plan)) try { memory.grow(65535 - memory.buffer.byteLength / 65536) } catch {}
        if (run && /"runs","8"/.test(plan)) throw new WebAssembly.RuntimeError('indirect call to null')
        exports.anabranch_answer()
      }
      return { exports: { ...exports, anabranch_answer: answer } }
    }
    let request = ''
    addEventListener('message', ({ data }) => {
      request = data.request ?? ''
      if (/"do":"plan"/.test(request)) plan = request
    })
  `
  const prepare = (prefix) => {
    const create = URL.createObjectURL.bind(URL)
    URL.createObjectURL = (blob) => create(blob.type === 'text/javascript' ? new Blob([prefix, blob], { type: blob.type }) : blob)
  }
  for (const [fragment, words] of [['#page=article&runs=7&loss=0', /more memory than a browser gives/], ['#page=article&runs=8&loss=0', /please report it \(.*null/]]) {
    const { page } = await open(fragment, { prepare, given: prefix, until: '#error:not([hidden])' })
    const line = await text(page, '#error')
    console.log(`${fragment}: ${line}`)
    check(words.test(line) && !line.includes('\n'), `${fragment} gives: ${line}`)
    await page.evaluate(() => { location.hash = '#page=article&runs=1&loss=0' })
    await page.waitForFunction(() => document.querySelector('#error').hidden, WAIT)
    await explained(page)
    await page.close()
  }
}

/** The memory of the process with the page, in bytes, without the code of the browser. */
function memory() {
  const children = (pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter((word) => word !== '').flatMap((child) => [child, ...children(child)])
  const of = (pid) => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
  return Math.max(...children(browser.process().pid).filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--type=renderer')).map(of))
}

/** A page of 300 objects, and a hundred seeds. */
async function large() {
  const log = JSON.parse(readFileSync(har, 'utf8')).log
  const entries = Array.from({ length: 300 }, (_, i) => {
    const entry = structuredClone(log.entries[i % log.entries.length])
    if (i >= log.entries.length) entry.request.url += `?copy=${i}`
    return entry
  })
  const path = join(scratch, 'large-page.har')
  writeFileSync(path, JSON.stringify({ log: { ...log, entries } }))
  const { page } = await open('#page=article&runs=10&loss=1%25&rate=10mbit&rtt=80ms')
  await explained(page)
  await (await page.$('#har')).uploadFile(path)
  await page.waitForFunction(() => location.hash.includes('large-page.har'), WAIT)
  await explained(page)
  const used = memory()
  check(/300 objects/.test(await text(page, '#about')), `the page of 300 objects is ${await text(page, '#about')}`)
  console.log(`300 objects: ${await text(page, '#status')} ${(used / 1e6).toFixed(0)} MB`)
  check(used < 300e6, `a page of 300 objects takes ${used} bytes`)
  for (const runs of [10, 100]) {
    await page.evaluate((runs) => { location.hash = `#page=news&rate=10mbit&rtt=80ms&loss=1%25&runs=${runs}&causes=off` }, runs)
    await page.waitForFunction((runs) => document.querySelector(`#answer:not(.stale)[data-seeds="${runs}"]`) !== null, WAIT, runs)
    console.log(`${runs} seeds of news, without experiments: ${await page.$eval('#answer', (one) => one.dataset.elapsed)} s`)
  }
  await page.close()
}

try {
  for (const part of [main, first, looks, input, forms, guides, looking, curve, colors, changes, paths, papers, traps, large]) {
    if (process.env.PART && process.env.PART !== part.name) continue
    await part().catch((error) => problems.push(`${part.name}: ${error.message}`))
  }
} finally {
  await browser.close()
  rmSync(scratch, { recursive: true })
}
problems.forEach((line) => console.error(line))
console.log(problems.length === 0 ? 'browser: all as it should be' : `browser: ${problems.length} problems`)
process.exitCode = problems.length === 0 ? 0 : 1
