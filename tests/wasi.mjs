// Runs a test program of WebAssembly (wasm32-wasip1) under node: `node tests/wasi.mjs PROGRAM [ARGUMENT…]`.
import { readFile } from 'node:fs/promises'
import { WASI } from 'node:wasi'

const [program, ...args] = process.argv.slice(2)
const wasi = new WASI({
  version: 'preview1',
  args: [program, '--test-threads=1', ...args],
  env: { CARGO_MANIFEST_DIR: process.env.CARGO_MANIFEST_DIR ?? '' },
  preopens: { '/': '/' },
})
const module = await WebAssembly.compile(await readFile(program))
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()))
